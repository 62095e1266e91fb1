package local

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/coder/websocket"

	"loadline/internal/duplex"
	"loadline/internal/local/access"
	"loadline/internal/wire"
)

const bidiPath = "/endpoints/" + speech + "/invocations-bidirectional-stream"

// talking starts an account with a second door, whose containers answer with h whatever they are asked.
func talking(t testing.TB, cfg Config, h http.HandlerFunc) *world {
	t.Helper()
	cfg.BidiAddr = "127.0.0.1:0"
	if cfg.Endpoints == nil {
		cfg.Endpoints = []Endpoint{one(1)}
	}
	cfg.Start = func(context.Context, Spec) (Instance, error) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		mux := http.NewServeMux()
		mux.HandleFunc("/ping", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("/", h)
		b := &box{server: &http.Server{Handler: mux}, addr: ln.Addr().String(), usage: func() Usage { return Usage{} }}
		go b.server.Serve(ln)
		return b, nil
	}
	return serving(t, cfg, nil)
}

// socket makes a container's handler of what it does with a WebSocket.
func socket(f func(ctx context.Context, c *websocket.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		f(context.WithoutCancel(r.Context()), c)
	}
}

// echo sends back what it gets, until it is told to end.
func echo(ctx context.Context, c *websocket.Conn) {
	for {
		kind, b, err := c.Read(ctx)
		if err != nil {
			return
		}
		if code := 0; string(b) == "abort" {
			return
		} else if _, err := fmt.Sscanf(string(b), "close %d", &code); err == nil {
			_ = c.Close(websocket.StatusCode(code), "as asked")
			return
		}
		if c.Write(ctx, kind, b) != nil {
			return
		}
	}
}

// caller is a stream, as the SDKs speak it.
type caller struct {
	t      testing.TB
	resp   *http.Response
	body   *io.PipeWriter
	signer *v4.StreamSigner
}

// client is an HTTP client that trusts the door.
func (w *world) client(t testing.TB) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.BidiCertificate())
	c := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// call opens a stream. A status other than 200 is the caller's to look at.
func (w *world) call(t testing.TB, c *http.Client, path string, set func(*http.Request)) *caller {
	t.Helper()
	pr, pw := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, w.BidiURL()+path, pr)
	if err != nil {
		t.Fatal(err)
	}
	const hash = "STREAMING-AWS4-HMAC-SHA256-EVENTS"
	req.Header.Set("Content-Type", "application/vnd.amazon.eventstream")
	req.Header.Set("X-Amz-Content-Sha256", hash)
	if set != nil {
		set(req)
	}
	keys := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret"}
	if err := v4.NewSigner().SignHTTP(context.Background(), keys, req, hash, "sagemaker", "us-east-1", w.now()); err != nil {
		t.Fatal(err)
	}
	seed, err := v4.GetSignedRequestSignature(req)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &caller{t, resp, pw, v4.NewStreamSigner(keys, "sagemaker", "us-east-1", seed)}
}

// send sends a message in an envelope.
func (c *caller) send(message []byte) {
	c.t.Helper()
	var headers, out bytes.Buffer
	at := time.Now()
	h := eventstream.Headers{{Name: ":date", Value: eventstream.TimestampValue(at)}}
	if err := eventstream.EncodeHeaders(&headers, h); err != nil {
		c.t.Fatal(err)
	}
	sum, err := c.signer.GetSignature(context.Background(), headers.Bytes(), message, at)
	if err != nil {
		c.t.Fatal(err)
	}
	h.Set(":chunk-signature", eventstream.BytesValue(sum))
	if err := eventstream.NewEncoder().Encode(&out, eventstream.Message{Headers: h, Payload: message}); err != nil {
		c.t.Fatal(err)
	}
	_, _ = c.body.Write(out.Bytes()) // a stream that was ended takes no more
}

func (c *caller) part(p duplex.Part) { c.t.Helper(); c.send(wire.AppendPart(nil, p)) }

func (c *caller) say(text string) { c.t.Helper(); c.part(duplex.Part{Bytes: []byte(text), Text: true}) }

func (c *caller) end() { c.t.Helper(); c.send(nil); c.body.Close() }

// hear is the next message in words: its type, what it says of itself, and its payload; "end" at the end.
func (c *caller) hear() string {
	m, err := eventstream.NewDecoder().Decode(c.resp.Body, nil)
	if err == io.EOF {
		return "end"
	}
	if err != nil {
		return err.Error()
	}
	words := []string{}
	for _, name := range []string{":event-type", ":exception-type", ":error-code", "DataType", "CompletionState"} {
		if v := m.Headers.Get(name); v != nil {
			words = append(words, v.String())
		}
	}
	return strings.Join(append(words, string(m.Payload)), " ")
}

func (c *caller) hears(want ...string) {
	c.t.Helper()
	for _, w := range want {
		if got := c.hear(); !strings.HasPrefix(got, w) {
			c.t.Fatalf("heard %q, want %q", got, w)
		}
	}
}

// Parts and frames are mapped one to one, in both directions, and signatures are verified.
func TestBidiMapping(t *testing.T) {
	asked := make(chan string, 1)
	w := talking(t, Config{VerifySignatures: true}, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		socket(echo)(w, r)
	})
	c := w.call(t, w.client(t), bidiPath, func(r *http.Request) {
		r.Header.Set("X-Amzn-Sagemaker-Model-Invocation-Path", "v1/speak")
		r.Header.Set("X-Amzn-Sagemaker-Model-Query-String", "voice=af_heart&speed=1")
		r.Header.Set("X-Amzn-Sagemaker-Target-Variant", "primary")
	})
	if c.resp.StatusCode != 200 || c.resp.ProtoMajor != 2 || c.resp.Header.Get("X-Amzn-Invoked-Production-Variant") != "primary" {
		t.Fatalf("%v", c.resp)
	}
	if got := <-asked; got != "/v1/speak?voice=af_heart&speed=1" {
		t.Errorf("the container was asked for %s", got)
	}
	c.say("hello")
	c.hears("PayloadPart UTF8 COMPLETE hello")
	c.part(duplex.Part{Bytes: []byte{0, 1}})
	c.hears("PayloadPart BINARY COMPLETE \x00\x01")
	for _, p := range []duplex.Part{{Bytes: []byte("caf\xc3"), Text: true, Partial: true}, {Bytes: []byte("\xa9 "), Partial: true}, {Bytes: []byte("au lait")}} {
		c.part(p)
	}
	c.hears("PayloadPart UTF8 COMPLETE café au lait")
	// A part without DataType and CompletionState is binary and complete.
	var bare bytes.Buffer
	h := eventstream.Headers{{Name: ":message-type", Value: eventstream.StringValue("event")}, {Name: ":event-type", Value: eventstream.StringValue("PayloadPart")}}
	if err := eventstream.NewEncoder().Encode(&bare, eventstream.Message{Headers: h, Payload: []byte("bare")}); err != nil {
		t.Fatal(err)
	}
	c.send(bare.Bytes())
	c.hears("PayloadPart BINARY COMPLETE bare")
	c.end()
	c.hears("end")
}

// Frames of a fragmented message of the container's are parts that say that they are partial.
func TestBidiPartialOut(t *testing.T) {
	w := talking(t, Config{}, socket(func(ctx context.Context, c *websocket.Conn) {
		out, err := c.Writer(ctx, websocket.MessageBinary)
		if err != nil {
			return
		}
		for _, s := range []string{"ab", "c"} {
			if _, err := io.WriteString(out, s); err != nil {
				return
			}
		}
		if out.Close() == nil {
			echo(ctx, c)
		}
	}))
	c := w.call(t, w.client(t), bidiPath, nil)
	c.hears("PayloadPart BINARY PARTIAL ab", "PayloadPart BINARY PARTIAL c", "PayloadPart BINARY COMPLETE ")
}

// What a container ends with is what its caller is told.
func TestBidiEnds(t *testing.T) {
	gone := make(chan error, 1)
	w := talking(t, Config{}, socket(func(ctx context.Context, c *websocket.Conn) {
		kind, b, err := c.Read(ctx)
		if string(b) == "listen" {
			_ = c.Write(ctx, kind, b)
			_, _, err = c.Read(ctx)
			gone <- err
			return
		}
		if err == nil && c.Write(ctx, kind, b) == nil {
			echo(ctx, c)
		}
	}))
	client := w.client(t)
	for said, want := range map[string]string{
		"close 1000": "end",
		"close 1013": `ModelStreamError {"ErrorCode":"1013","Message":"as asked"}`,
		"abort":      `ModelStreamError {"ErrorCode":"StreamBroken"`,
		`{"ModelStreamError":{"ErrorCode":"oom","Message":"no memory"}}`: `ModelStreamError {"ErrorCode":"oom","Message":"no memory"}`,
	} {
		c := w.call(t, client, bidiPath, nil)
		c.say("first")
		c.hears("PayloadPart UTF8 COMPLETE first")
		c.say(said)
		c.hears(want)
		if want != "end" {
			c.hears("end")
		}
	}
	// A caller that ends its input, one that sends nonsense and one that just leaves, are told to the container.
	for want, leave := range map[string]func(*caller){
		"status = StatusNormalClosure": (*caller).end,
		"status = StatusGoingAway":     func(c *caller) { c.resp.Body.Close() },
		"StatusGoingAway":              func(c *caller) { c.send([]byte("nonsense")); c.hears("SerializationException") },
		"the caller left":              func(c *caller) { c.body.Close() }, // without the signed end
	} {
		c := w.call(t, client, bidiPath, nil)
		c.say("listen")
		c.hears("PayloadPart UTF8 COMPLETE listen")
		leave(c)
		if err := <-gone; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the container heard %v, want %s", err, want)
		}
	}
}

// Every refusal has the operation's own name and status.
func TestBidiRefusals(t *testing.T) {
	w := talking(t, Config{VerifySignatures: true}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(503)
		io.WriteString(w, `{"error":"queue_saturated","retry_after_s":2}`)
	})
	client := w.client(t)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("X-Amzn-Sagemaker-"+name, value) }
	}
	for _, c := range []struct {
		path   string
		set    func(*http.Request)
		status int
		code   string
		text   string
	}{
		{bidiPath, nil, 424, "ModelError", "queue_saturated"},
		{strings.Replace(bidiPath, speech, "nobody", 1), nil, 400, "InputValidationError", "Endpoint nobody"},
		{bidiPath, header("Target-Variant", "nobody"), 400, "InputValidationError", "nobody"},
		{bidiPath, header("Model-Invocation-Path", "/v1/speak"), 400, "InputValidationError", "leading slash"},
		{bidiPath, header("Model-Invocation-Path", strings.Repeat("a", 101)), 400, "InputValidationError", "100"},
		{bidiPath, header("Model-Query-String", "voice"), 400, "InputValidationError", "key=value"},
		{bidiPath, header("Model-Query-String", "a=b&"+strings.Repeat("a", 2048)+"=c"), 400, "InputValidationError", "2048"},
		{strings.Replace(bidiPath, "bidirectional", "other", 1), nil, 400, "UnknownOperationException", ""},
	} {
		s := w.call(t, client, c.path, c.set)
		b, err := io.ReadAll(s.resp.Body)
		var v struct {
			Message, ErrorCode, OriginalMessage string
			OriginalStatusCode                  int
		}
		if err != nil || json.Unmarshal(b, &v) != nil {
			t.Fatalf("%q %v", b, err)
		}
		if s.resp.StatusCode != c.status || s.resp.Header.Get("X-Amzn-Errortype") != c.code || !strings.Contains(v.Message, c.text) {
			t.Errorf("got %d %s %q, want %d %s …%s…", s.resp.StatusCode, s.resp.Header.Get("X-Amzn-Errortype"), v.Message, c.status, c.code, c.text)
		}
		if c.code == "InputValidationError" && v.ErrorCode != c.code || c.code == "ModelError" && (v.OriginalStatusCode != 503 || !strings.Contains(v.OriginalMessage, "retry_after_s")) {
			t.Errorf("%s has %+v", c.code, v)
		}
	}
}

// What may fail or be forbidden at the first door may at the second.
func TestBidiFaults(t *testing.T) {
	for _, c := range []struct {
		cfg    Config
		status int
		code   string
	}{
		{Config{Deny: []string{"sagemaker:InvokeEndpointWithBidi*"}}, 403, wire.AccessDenied},
		{Config{CallFaults: access.Faults{access.FailThrottle: 1}}, 400, wire.Throttling},
		{Config{CallFaults: access.Faults{access.Fail5XX: 1}}, 500, wire.InternalError},
	} {
		w := talking(t, c.cfg, socket(echo))
		if s := w.call(t, w.client(t), bidiPath, nil); s.resp.StatusCode != c.status || s.resp.Header.Get("X-Amzn-Errortype") != c.code {
			t.Errorf("got %d %s, want %d %s", s.resp.StatusCode, s.resp.Header.Get("X-Amzn-Errortype"), c.status, c.code)
		}
	}
}

// A request that is not signed is refused; an event that is not, ends the stream.
func TestBidiSignatures(t *testing.T) {
	w := talking(t, Config{VerifySignatures: true}, socket(echo))
	client := w.client(t)
	req, err := http.NewRequest(http.MethodPost, w.BidiURL()+bidiPath, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 403 || resp.Header.Get("X-Amzn-Errortype") != wire.NoSignature {
		t.Errorf("unsigned: %v", resp)
	}
	c := w.call(t, client, bidiPath, nil)
	c.say("one")
	c.hears("PayloadPart UTF8 COMPLETE one")
	c.signer = v4.NewStreamSigner(aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret"}, "sagemaker", "us-east-1", []byte("another chain"))
	c.say("two")
	c.hears(wire.BadSignature, "end")
	// HTTP/1.1 does not come in.
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.BidiCertificate())
	old := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	if resp, err := old.Post(w.BidiURL()+bidiPath, "", nil); err == nil {
		t.Errorf("over HTTP/1.1: %v", resp)
	}
}

// A stream is one invocation, and one sample of each of the metrics that only streams have.
func TestBidiMetrics(t *testing.T) {
	clock := &hands{at: noon}
	w := talking(t, Config{Now: clock.now}, socket(func(ctx context.Context, c *websocket.Conn) {
		kind, b, err := c.Read(ctx)
		clock.move(250 * time.Millisecond)
		if err == nil && c.Write(ctx, kind, b) == nil {
			echo(ctx, c)
		}
	}))
	client := w.client(t)
	for _, said := range []string{"close 1000", "close 1011"} {
		c := w.call(t, client, bidiPath, nil)
		c.say("one")
		c.say("two")
		c.hears("PayloadPart UTF8 COMPLETE one", "PayloadPart UTF8 COMPLETE two")
		c.say(said)
		for c.hear() != "end" { // which comes once the stream is counted
		}
	}
	clock.move(3 * time.Minute)
	w.traffic.Publish(clock.now())
	for name, want := range map[string][2]float64{"Invocations": {2, 2}, "InvocationModelErrors": {2, 1}, "MidStreamErrors": {2, 1}, "ModelLatency": {0, 0},
		"FirstChunkLatency": {2, 500_000}, "FirstChunkModelLatency": {2, 500_000}, "FirstChunkOverheadLatency": {2, 0}} {
		n, sum := 0.0, 0.0
		for _, d := range w.statistics(t, "AWS/SageMaker", name, 60, noon, noon.Add(2*time.Minute)) {
			n += *d.SampleCount
			sum += *d.Sum
		}
		if n != want[0] || sum != want[1] {
			t.Errorf("%s is %v in %v samples, want %v in %v", name, sum, n, want[1], want[0])
		}
	}
}

// Sessions in number leave nothing behind, however they end.
func TestBidiLeavesNothing(t *testing.T) {
	w := talking(t, Config{}, socket(echo))
	client := w.client(t)
	warm := w.call(t, client, bidiPath, nil)
	warm.say("x")
	warm.hears("PayloadPart")
	warm.end()
	warm.hears("end")
	before := runtime.NumGoroutine()
	var work sync.WaitGroup
	for i := range 100 {
		work.Go(func() {
			c := w.call(t, client, bidiPath, nil)
			c.say("hello")
			if got := c.hear(); got != "PayloadPart UTF8 COMPLETE hello" {
				t.Errorf("session %d heard %q", i, got)
			}
			switch i % 4 {
			case 0:
				c.end()
				for c.hear() != "end" {
				}
			case 1: // it just leaves
			case 2:
				c.say("close 1013")
				for c.hear() != "end" {
				}
			case 3:
				c.say("abort")
				for c.hear() != "end" {
				}
			}
			c.body.Close()
			c.resp.Body.Close()
		})
	}
	work.Wait()
	client.CloseIdleConnections()
	for range 500 {
		if runtime.NumGoroutine() <= before {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
}
