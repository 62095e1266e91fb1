package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadline/internal/audio"
	"loadline/internal/corpus"
	"loadline/internal/load"
	"loadline/internal/sample"
)

func TestTemplate(t *testing.T) {
	for _, tc := range []struct{ body, text, want, mime string }{
		{"", `Say "hi"` + "\n", `{"text":"Say \"hi\"\n"}`, "application/json"},
		{"kokoro", "Hi.", `{"text":"Hi."}`, "application/json"},
		{"openai-speech", "Hi.", `{"model":"kokoro","input":"Hi.","voice":"af_heart","response_format":"wav"}`, "application/json"},
		{"raw", `Say "hi".`, `Say "hi".`, "text/plain; charset=utf-8"},
		{`{"inputs": ["{{ .Text }}", "{{.Text}}"]}`, "é\\", `{"inputs": ["é\\", "é\\"]}`, "application/json"},
	} {
		tpl, err := ParseTemplate(tc.body)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(tpl.Fill(tc.text)); got != tc.want || tpl.ContentType() != tc.mime {
			t.Errorf("%q: %s as %s, want %s as %s", tc.body, got, tpl.ContentType(), tc.want, tc.mime)
		}
	}
	for body, want := range map[string]string{
		`{"text":"hi"}`:                        "where the text goes",
		`{"text":{{.Text}}}`:                   "between quotes",
		`{"text":"{{.Text}}","v":"{{.Voice}}"`: "only {{.Text}} is known",
	} {
		if _, err := ParseTemplate(body); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", body, err, want)
		}
	}
}

func TestHTTPOptions(t *testing.T) {
	for _, tc := range []struct {
		o    HTTPOptions
		want string
	}{
		{HTTPOptions{}, "want http://host"},
		{HTTPOptions{URL: "localhost:8080/x"}, "want http://host"},
		{HTTPOptions{URL: "ftp://h/x"}, "want http://host"},
		{HTTPOptions{URL: "http://user:secret@[bad/x?token=t"}, "want http://host"},
		{HTTPOptions{URL: "http://h/x", Net: Net{Version: HTTP2}}, "use https"},
		{HTTPOptions{URL: "https://user:secret@h/x?token=t", Net: Net{Version: H2C}}, "use http"},
		{HTTPOptions{URL: "http://h/x", Net: Net{Version: "0.9"}}, "want 1.1, 2 or h2c"},
		{HTTPOptions{URL: "http://h/x", Method: "PO ST"}, "not an HTTP method"},
		{HTTPOptions{URL: "http://h/x", Header: http.Header{"X Y": {"v"}}}, "not fit for HTTP"},
		{HTTPOptions{URL: "http://h/x", Header: http.Header{"Authorization": {"ok", "secret\n"}}}, "not fit for HTTP"},
	} {
		_, err := NewHTTP(tc.o)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "token") {
			t.Errorf("%s: error %v, want one with %q and no secret", tc.o.URL, err, tc.want)
		}
	}
	for in, want := range map[string]string{
		"https://user:secret@h:1/a/b?token=t#f": "https://h:1/a/b",
		"http://h/":                             "http://h/",
		"http://user:secret@[bad/x?token=t":     "[bad/x",
	} {
		if got := RecordURL(in); got != want {
			t.Errorf("%s is recorded as %s, want %s", in, got, want)
		}
	}
}

// What the user asked to be sent is sent.
func TestHTTPRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Write(body)
	}))
	defer srv.Close()
	raw, _ := ParseTemplate(BodyRaw)
	tr, err := NewHTTP(HTTPOptions{
		URL: strings.Replace(srv.URL, "//", "//user:secret@", 1) + "/v1/speak?voice=a", Method: "PUT", Body: raw, Payload: audio.Bytes,
		Header: http.Header{"x-key": {"k"}, "content-type": {"text/ssml"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	rec := once(t, tr)
	if rec.Outcome != sample.OK || rec.FirstAudio != rec.FirstByte || rec.Bytes != 3 {
		t.Errorf("%+v", rec)
	}
	user, password, _ := got.BasicAuth()
	if got.Method != "PUT" || got.URL.RequestURI() != "/v1/speak?voice=a" || string(body) != "Hi." || user != "user" || password != "secret" ||
		got.Header.Get("X-Key") != "k" || got.Header.Get("Content-Type") != "text/ssml" || got.Header.Get("User-Agent") != "loadline" || got.ContentLength != 3 {
		t.Errorf("%s %s %v: %q", got.Method, got.URL, got.Header, body)
	}
}

// Case B4, first arm: connections are used again, however many workers there are.
func TestReuse(t *testing.T) {
	var conns atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "audio/pcm")
		w.Write(speech(20000))
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	const workers, each = 10, 40
	tr, err := NewHTTP(HTTPOptions{URL: srv.URL, Net: Net{Streams: workers}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var wg sync.WaitGroup
	var fresh atomic.Int64
	for range workers {
		wg.Go(func() {
			for range each {
				rec := once(t, tr)
				if rec.Outcome != sample.OK {
					t.Errorf("%s (%s)", rec.Outcome, rec.Cause)
				}
				if !rec.Reused {
					fresh.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := fresh.Load(); n > workers*each/5 {
		t.Errorf("%d of %d requests needed a new connection (%d connections), want under a fifth", n, workers*each, conns.Load())
	}
}

// A server that nobody answers for, and one that talks something else.
func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	greet := "SSH-2.0-x\r\n"
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if greet != "" {
				bufio.NewReader(c).ReadString('\n')
			}
			io.WriteString(c, greet)
			c.Close()
		}
	})
	ask := func() sample.Request {
		tr, err := NewHTTP(HTTPOptions{URL: "http://" + addr})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		return once(t, tr)
	}
	if rec := ask(); rec.Outcome != sample.ProtocolError || !strings.Contains(rec.Cause, "malformed HTTP response") {
		t.Errorf("%s (%s), want a protocol error", rec.Outcome, rec.Cause)
	}
	l.Close()
	wg.Wait()
	if rec := ask(); rec.Outcome != sample.ServerError || rec.Cause != "connection refused" || rec.Conn.Known() || !rec.End.Known() {
		t.Errorf("%+v, want connection refused", rec)
	}
}

func TestSinkFails(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(speech(10)) }))
	defer srv.Close()
	tr, err := NewHTTP(HTTPOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	rec := sample.New(0)
	start := time.Now()
	clock := func() sample.Nanos { return sample.Since(time.Since(start)) }
	tr.Do(t.Context(), load.Call{Text: corpus.Text{Body: "Hi."}, Clock: clock, Sink: full{}}, &rec)
	if rec.Outcome != sample.ClientFault || rec.Cause != "could not save the reply: disk full" {
		t.Errorf("%s (%s)", rec.Outcome, rec.Cause)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// A run that ends takes its requests with it, marked so.
func TestStopped(t *testing.T) {
	began := make(chan struct{}, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		<-r.Context().Done()
	}))
	defer srv.Close()
	tr, err := NewHTTP(HTTPOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-began; stop() }()
	rec := sample.New(0)
	start := time.Now()
	tr.Do(ctx, load.Call{Text: corpus.Text{Body: "Hi."}, Clock: func() sample.Nanos { return sample.Since(time.Since(start)) }}, &rec)
	if rec.Outcome != sample.ClientFault || rec.Cause != Stopped {
		t.Errorf("%s (%s)", rec.Outcome, rec.Cause)
	}
}

// The connection limit of the options holds, and waiting for it shows in Conn.
func TestMaxConns(t *testing.T) {
	first := make(chan struct{})
	waiting := make(chan struct{})
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			close(first)
			<-waiting
		}
		w.Header().Set("Content-Type", "audio/pcm")
		w.Write(speech(10))
	}))
	defer srv.Close()
	tr, err := NewHTTP(HTTPOptions{URL: srv.URL, Net: Net{MaxConns: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var now atomic.Int64
	clock := func() sample.Nanos { return sample.Nanos(now.Load()) }
	ask := func(ctx context.Context) sample.Request {
		rec := sample.New(0)
		rec.Started = 0
		tr.Do(ctx, load.Call{Text: corpus.Text{Body: "Hi."}, Clock: clock}, &rec)
		return rec
	}
	now.Store(1)
	var wg sync.WaitGroup
	wg.Go(func() { ask(t.Context()) })
	<-first
	var second sample.Request
	started := make(chan struct{})
	wg.Go(func() {
		second = ask(&announced{Context: t.Context(), asked: started})
	})
	<-started // the second request looks at its context: it waits, or is about to
	now.Store(100)
	close(waiting)
	wg.Wait()
	if second.Outcome != sample.OK || second.Conn < 100 || !second.Reused {
		t.Errorf("%s (%s): connection at %d, reused %v; want it after 100, when the first was done", second.Outcome, second.Cause, second.Conn, second.Reused)
	}
}

// announced is a context that says when it is first waited on.
type announced struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (a *announced) Done() <-chan struct{} {
	a.once.Do(func() { close(a.asked) })
	return a.Context.Done()
}

func TestPolicy(t *testing.T) {
	for conns, want := range map[int]string{
		3: "HTTP/1.1, one connection a stream; up to 64 kept idle for 90 s; at most 3 connections; a name is resolved anew for each connection; no proxy; no compression; no retries",
		0: "HTTP/1.1, one connection a stream; up to 64 kept idle for 90 s; no limit on connections; a name is resolved anew for each connection; no proxy; no compression; no retries but one where the server closed a connection that had been idle for 1 s or more",
	} {
		tr, err := NewHTTP(HTTPOptions{URL: "http://127.0.0.1:1", Net: Net{Streams: 64, MaxConns: conns}})
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.Policy(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
