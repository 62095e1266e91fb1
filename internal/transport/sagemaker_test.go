package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"loadline/internal/corpus"
	"loadline/internal/load"
	"loadline/internal/sample"
)

func responseStream(t *testing.T) form {
	for _, f := range forms(t) {
		if f.streams() {
			return f
		}
	}
	panic("no response stream")
}

// What a response stream can say besides parts, and how it can be damaged.
func TestStreamEvents(t *testing.T) {
	f := responseStream(t)
	audio := append(header(t), speech(4800)...)
	part := event("event", "PayloadPart", audio)
	damaged := event("event", "PayloadPart", audio)
	damaged[len(damaged)-6] ^= 1
	for _, tc := range []struct {
		name    string
		stream  []byte
		outcome sample.Outcome
		cause   string
	}{
		{"one part", part, sample.OK, ""},
		{"empty parts around", slices.Concat(event("event", "PayloadPart", nil), part, event("event", "PayloadPart", nil)), sample.OK, ""},
		{"an event of a kind yet unknown", slices.Concat(event("event", "Usage", []byte("{}")), part), sample.OK, ""},
		{"no events", nil, sample.Empty, "no bytes in the body"},
		{"the model broke", slices.Concat(part, event("exception", "ModelStreamError", []byte(`{"Message":"connection to the model closed","ErrorCode":"StreamBroken"}`))), sample.ModelError, "ModelStreamError: StreamBroken: connection to the model closed"},
		{"the model took too long", event("exception", "ModelStreamError", []byte(`{"Message":"60 s","ErrorCode":"ModelInvocationTimeExceeded"}`)), sample.ModelError, "ModelStreamError: ModelInvocationTimeExceeded: 60 s"},
		{"the platform broke", slices.Concat(part, event("exception", "InternalStreamFailure", []byte(`{"Message":"oops"}`))), sample.ServerError, "InternalStreamFailure: oops"},
		{"an exception that is not JSON", event("exception", "InternalStreamFailure", []byte("oops\n")), sample.ServerError, "InternalStreamFailure: oops"},
		{"damaged", damaged, sample.ProtocolError, "damaged event stream: message checksum mismatch"},
		{"not an event stream", []byte("<html>this is not an event stream</html>"), sample.ProtocolError, "damaged event stream: "},
		{"ends inside the prelude", part[:7], sample.Truncated, "truncated: "},
		{"ends inside the headers", part[:40], sample.Truncated, "truncated: "},
		{"ends inside the payload", part[:len(part)-500], sample.Truncated, "truncated: "},
		{"ends inside the checksum", part[:len(part)-2], sample.Truncated, "truncated: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.srv.t = t
			rec := f.srv.ask(f.t, script{raw: func(w io.Writer) { w.Write(tc.stream) }})
			if rec.Outcome != tc.outcome || !strings.HasPrefix(rec.Cause, tc.cause) {
				t.Errorf("%s (%s), want %s (%s)", rec.Outcome, rec.Cause, tc.outcome, tc.cause)
			}
		})
	}
}

// Case C1: the boundaries of parts mean nothing, and neither do those of writes.
func TestPartBoundaries(t *testing.T) {
	f := responseStream(t)
	audio := append(header(t), speech(4801)...) // a byte too many, to be noticed however it is cut
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 30 {
		var stream []byte
		for rest := audio; len(rest) > 0; {
			n := min(1+r.IntN(1+i*50), len(rest))
			stream = append(stream, event("event", "PayloadPart", rest[:n])...)
			rest = rest[n:]
		}
		rec := f.srv.ask(f.t, script{raw: func(w io.Writer) {
			for len(stream) > 0 {
				n := min(1+r.IntN(700), len(stream))
				w.Write(stream[:n])
				w.(http.Flusher).Flush()
				stream = stream[n:]
			}
		}})
		if rec.Outcome != sample.Truncated || rec.Cause != "truncated: 1 byte left" || rec.Bytes != int64(len(audio)) || rec.Audio != 0.1 {
			t.Fatalf("cut %d: %s (%s), %d bytes, %v s", i, rec.Outcome, rec.Cause, rec.Bytes, rec.Audio)
		}
	}
}

// A part is stamped with the read that completed it.
func TestPartStamp(t *testing.T) {
	f := responseStream(t)
	part := event("event", "PayloadPart", append(header(t), speech(3000)...))
	halfRead := make(chan struct{})
	var tick atomic.Int64
	clock := func() sample.Nanos { // every reading is one later: of the connection, the headers, the first half, the second
		n := tick.Add(1)
		if n == 3 {
			close(halfRead)
		}
		return sample.Nanos(n)
	}
	f.srv.script = script{raw: func(w io.Writer) {
		w.Write(part[:200])
		w.(http.Flusher).Flush()
		<-halfRead
		w.Write(part[200:])
	}}
	rec := sample.New(0)
	f.t.Do(t.Context(), load.Call{Text: corpus.Text{Body: "Hi."}, Clock: clock, Sink: f.srv}, &rec)
	if rec.Outcome != sample.OK || rec.FirstByte <= 3 || rec.FirstByte != rec.FirstAudio {
		t.Errorf("%s (%s): first byte %d, audio %d; want both after 3, when half of the part was there", rec.Outcome, rec.Cause, rec.FirstByte, rec.FirstAudio)
	}
}

// Errors of the service itself, before any stream.
func TestServiceErrors(t *testing.T) {
	var status int
	var kind, body string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind != "" {
			w.Header().Set("X-Amzn-ErrorType", kind)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	defer srv.Close()
	for _, tc := range []struct {
		name    string
		status  int
		kind    string
		body    string
		outcome sample.Outcome
		cause   string
	}{
		{"throttled", 400, "ThrottlingException", `{"message":null}`, sample.Throttled, "ThrottlingException"},
		{"throttled with a text", 429, "ThrottlingException:", `{"message":"Rate exceeded"}`, sample.Throttled, "ThrottlingException: Rate exceeded"},
		{"unavailable", 503, "ServiceUnavailable", `{"Message":"try again"}`, sample.ServerError, "ServiceUnavailable: try again"},
		{"internal", 500, "InternalFailure", `{"Message":"oops"}`, sample.ServerError, "InternalFailure: oops"},
		{"no such endpoint", 400, "ValidationError", `{"Message":"Endpoint x of account not found."}`, sample.ClientError, "ValidationError: Endpoint x of account not found."},
		{"not allowed", 403, "AccessDeniedException", `{"Message":"no"}`, sample.ClientError, "AccessDeniedException: no"},
		{"expired", 403, "ExpiredTokenException", `{"message":"old"}`, sample.ClientFault, "ExpiredTokenException: old: renew the credentials"},
		{"loading", 429, "ModelNotReadyException", `{"Message":"loading"}`, sample.ServerError, "ModelNotReadyException: loading"},
		{"container 500", 424, "ModelError", `{"OriginalStatusCode":500,"OriginalMessage":"{\"error\":\"internal\",\"message\":\"trace\"}"}`, sample.ModelError, "500 internal server error: internal: trace"},
		{"container 503 shutting down", 424, "ModelError", `{"OriginalStatusCode":503,"OriginalMessage":"{\"error\":\"shutting_down\"}"}`, sample.ModelError, "503 service unavailable: shutting_down"},
		{"container 503 saturated, nested", 424, "ModelError", `{"OriginalStatusCode":503,"OriginalMessage":"{\"error\":{\"code\":\"queue_saturated\"}}"}`, sample.Rejected, "queue_saturated"},
		{"container 400", 424, "ModelError", `{"OriginalStatusCode":400,"OriginalMessage":"{\"error\":\"invalid_request\",\"field\":\"text\"}"}`, sample.ClientError, "400 bad request: invalid_request"},
		{"a proxy's page", 502, "", `<html>bad gateway</html>`, sample.ServerError, "502 bad gateway"},
	} {
		for _, invoke := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, invoke %v", tc.name, invoke), func(t *testing.T) {
				status, kind, body = tc.status, tc.kind, tc.body
				tr, err := NewSageMaker(config(srv.URL), SageMakerOptions{Endpoint: "x", Invoke: invoke})
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				rec := once(t, tr)
				if rec.Outcome != tc.outcome || !strings.HasPrefix(rec.Cause, tc.cause) || rec.Status != tc.status {
					t.Errorf("%d %s (%s), want %d %s (%s)", rec.Status, rec.Outcome, rec.Cause, tc.status, tc.outcome, tc.cause)
				}
				if rec.FirstByte.Known() || !rec.End.Known() {
					t.Errorf("first byte %d, end %d; want none, and some", rec.FirstByte, rec.End)
				}
			})
		}
	}
}

// once sends one request in real time.
func once(t *testing.T, tr load.Transport) sample.Request {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	start := time.Now()
	clock := func() sample.Nanos { return sample.Since(time.Since(start)) }
	rec := sample.New(0)
	rec.Started = clock()
	tr.Do(ctx, load.Call{Text: corpus.Text{Body: "Hi."}, Clock: clock}, &rec)
	return rec
}

// A server that answers before it has read the request must not lose the stream: the SDK closes the request body as soon
// as the reply begins.
func TestEarlyReply(t *testing.T) {
	reply := event("event", "PayloadPart", append(header(t), speech(100)...))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		c.EnableFullDuplex()
		w.Header().Set("X-Amzn-SageMaker-Content-Type", "audio/wav")
		w.WriteHeader(200)
		c.Flush()
		w.Write(reply)
		c.Flush()
		io.Copy(io.Discard, r.Body)
	}))
	defer srv.Close()
	tr, err := NewSageMaker(config(srv.URL), SageMakerOptions{Endpoint: "x", Net: Net{Streams: 8}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 60 {
				if rec := once(t, tr); rec.Outcome != sample.OK {
					t.Errorf("%s (%s)", rec.Outcome, rec.Cause)
				}
			}
		})
	}
	wg.Wait()
}

func TestSageMakerOptions(t *testing.T) {
	good := config("http://127.0.0.1:1")
	for _, tc := range []struct {
		cfg  func(*aws.Config)
		o    SageMakerOptions
		want string
	}{
		{func(*aws.Config) {}, SageMakerOptions{}, "no endpoint"},
		{func(c *aws.Config) { c.Region = "" }, SageMakerOptions{Endpoint: "x"}, "no region"},
		{func(c *aws.Config) { c.Credentials = nil }, SageMakerOptions{Endpoint: "x"}, "no credentials"},
		{func(*aws.Config) {}, SageMakerOptions{Endpoint: "x", Net: Net{Version: "3"}}, `HTTP version "3"`},
	} {
		cfg := good
		tc.cfg(&cfg)
		if _, err := NewSageMaker(cfg, tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want one with %q", err, tc.want)
		}
	}
	cfg := good
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no profile named x")
	})
	tr, err := NewSageMaker(cfg, SageMakerOptions{Endpoint: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if rec := once(t, tr); rec.Outcome != sample.ClientFault || !strings.Contains(rec.Cause, "no profile named x") {
		t.Errorf("%s (%s), want a client fault that names the profile", rec.Outcome, rec.Cause)
	}
}
