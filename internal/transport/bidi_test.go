package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/coder/websocket"

	"loadline/internal/corpus"
	"loadline/internal/load"
	"loadline/internal/local"
	"loadline/internal/sample"
)

// frontDoor is a local account's second door.
type frontDoor struct {
	url     string
	tls     *tls.Config
	account *local.Local
	end     func() // ends the account, and waits for it
}

// instance is a container that stands already.
type instance string

func (i instance) Addr() string               { return string(i) }
func (i instance) Usage() local.Usage         { return local.Usage{} }
func (i instance) Stop(context.Context) error { return nil }

// front opens a local account before the container at addr, whose endpoint is called speech.
func front(t testing.TB, addr string, cfg local.Config) frontDoor {
	t.Helper()
	cfg.BidiAddr = "127.0.0.1:0"
	cfg.Start = func(context.Context, local.Spec) (local.Instance, error) { return instance(addr), nil }
	cfg.Endpoints = []local.Endpoint{{Name: "speech", Variants: []local.Variant{{Name: "primary", InstanceType: "ml.g5.xlarge", Instances: 1}}}}
	l, err := local.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	ended := false
	d := frontDoor{url: l.BidiURL(), account: l, end: func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the account: %v", err)
		}
	}}
	t.Cleanup(d.end)
	select {
	case <-l.Ready():
	case <-time.After(20 * time.Second):
		t.Fatal("the account is not ready")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.BidiCertificate())
	d.tls = &tls.Config{RootCAs: roots}
	return d
}

// heldBy is a transport over a local account whose container does f with each WebSocket, and its own address.
func heldBy(t testing.TB, o BidiOptions, f func(ctx context.Context, c *websocket.Conn)) (*Bidi, frontDoor) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ping" {
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		f(context.WithoutCancel(r.Context()), c)
	}))
	t.Cleanup(srv.Close)
	d := front(t, strings.TrimPrefix(srv.URL, "http://"), local.Config{VerifySignatures: true})
	o.URL, o.Endpoint, o.TLS = d.url, "speech", d.tls
	b, err := NewBidi(config(""), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b, d
}

// asking speaks one text with a real clock.
func asking(ctx context.Context, b load.Transport, text string) sample.Request {
	start := time.Now()
	clock := func() sample.Nanos { return sample.Since(time.Since(start)) }
	rec := sample.New(0)
	rec.Started = clock()
	b.Do(ctx, load.Call{Text: corpus.Text{Body: text, Chars: len(text)}, Clock: clock}, &rec)
	return rec
}

// idOf is the request_id of a message.
func idOf(message []byte) string {
	var v struct {
		ID string `json:"request_id"`
	}
	_ = json.Unmarshal(message, &v) // "" will do
	return v.ID
}

// C3, and what else a session can end with: a tidy close that is not an end is a truncation.
func TestBidiEnds(t *testing.T) {
	type do = func(ctx context.Context, c *websocket.Conn, id string)
	say := func(text string) do {
		return func(ctx context.Context, c *websocket.Conn, id string) {
			_ = c.Write(ctx, websocket.MessageText, []byte(strings.ReplaceAll(text, "ID", id)))
		}
	}
	sound := func(n int) do {
		return func(ctx context.Context, c *websocket.Conn, _ string) {
			_ = c.Write(ctx, websocket.MessageBinary, speech(n))
		}
	}
	closed := func(code websocket.StatusCode, why string) do {
		return func(_ context.Context, c *websocket.Conn, _ string) { _ = c.Close(code, why) }
	}
	for _, tc := range []struct {
		name    string
		end     string
		does    []do
		outcome sample.Outcome
		cause   string
	}{
		{"a close 1000 without done", "", []do{sound(9600), sound(9600), closed(1000, "")}, sample.Truncated, "truncated: the reply ended without its end"},
		{"b done, then close 1000", "", []do{sound(9600), say(`{"type":"done"}`), closed(1000, "")}, sample.OK, ""},
		{"c done, then broken", "", []do{sound(9600), say(`{"type":"synthesis_complete","request_id":"ID","samples":4800}`)}, sample.OK, ""},
		{"d fewer sentences than stated", "", []do{sound(9600), say(`{"type":"sentence","sentences":2}`), say(`{"type":"done","sentences":3}`)}, sample.Truncated, "truncated: its end states 3 sentences"},
		{"fewer samples than stated", "", []do{sound(9600), say(`{"type":"done","samples":5000}`)}, sample.Truncated, "truncated: its end states 5000 samples"},
		{"broken", "", []do{sound(9600)}, sample.Truncated, "truncated: the reply ended without its end"},
		{"the end is the close", EndClose, []do{sound(9600), closed(1000, "")}, sample.OK, ""},
		{"saturated", "", []do{closed(1013, "queue_saturated")}, sample.Rejected, "queue_saturated"},
		{"shutting down", "", []do{sound(9600), closed(1001, "shutting_down")}, sample.Truncated, "truncated: closed with 1001"},
		{"an error", "", []do{say(`{"type":"error","request_id":"ID","error":"invalid_request","message":"no words"}`)}, sample.ClientError, "invalid_request: no words"},
		{"another text's message", "", []do{say(`{"type":"error","request_id":"other","error":"x"}`), sound(2), say(`{"type":"done"}`)}, sample.OK, ""},
		{"the platform's error", "", []do{say(`{"ModelStreamError":{"ErrorCode":"oom","Message":"no memory"}}`)}, sample.ModelError, "ModelStreamError: oom: no memory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, _ := heldBy(t, BidiOptions{End: tc.end}, func(ctx context.Context, c *websocket.Conn) {
				_, m, err := c.Read(ctx)
				if err != nil {
					return
				}
				for _, do := range tc.does {
					do(ctx, c, idOf(m))
				}
			})
			got := asking(t.Context(), b, "Hello.")
			wants(t, got, tc.outcome, tc.cause)
			if got.Outcome == sample.OK && got.Status != 200 {
				t.Errorf("status %d", got.Status)
			}
		})
	}
}

// C2: a message of text that comes in parts, cut inside a rune, is one message.
func TestBidiTextInParts(t *testing.T) {
	b, _ := heldBy(t, BidiOptions{}, func(ctx context.Context, c *websocket.Conn) {
		for {
			if _, _, err := c.Read(ctx); err != nil {
				return
			}
			_ = c.Write(ctx, websocket.MessageBinary, speech(4800))
			w, err := c.Writer(ctx, websocket.MessageText)
			if err != nil {
				return
			}
			for _, part := range []string{`{"type":"error","error":"caf`, "\xC3", "\xA9\",", `"message":"fermé"}`} {
				_, _ = io.WriteString(w, part)
			}
			_ = w.Close()
		}
	})
	wants(t, asking(t.Context(), b, "Hello."), sample.ModelError, "café: fermé")
}

// Sessions are kept from text to text, or one is opened for each; what ends while it rests is not used again.
func TestBidiSessions(t *testing.T) {
	var opened, ended atomic.Int64
	kick := make(chan struct{})
	container := func(ctx context.Context, c *websocket.Conn) {
		opened.Add(1)
		defer ended.Add(1)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-kick:
				_ = c.Close(websocket.StatusGoingAway, "shutting_down")
			case <-ctx.Done():
			}
		}()
		for {
			_, m, err := c.Read(ctx)
			if err != nil {
				return
			}
			_ = c.Write(ctx, websocket.MessageBinary, speech(4800))
			_ = c.Write(ctx, websocket.MessageText, []byte(`{"type":"synthesis_complete","samples":2400,"request_id":"`+idOf(m)+`"}`))
		}
	}
	b, _ := heldBy(t, BidiOptions{}, container)
	for i := range 5 {
		got := asking(t.Context(), b, "Hello.")
		wants(t, got, sample.OK, "")
		if got.Reused != (i > 0) || !got.Headers.Known() || got.Headers < got.Conn || got.FirstAudio < got.Headers || got.Audio != 0.1 {
			t.Errorf("text %d: %+v", i, got)
		}
	}
	if opened.Load() != 1 {
		t.Errorf("%d sessions for five texts, want 1", opened.Load())
	}
	kick <- struct{}{} // the one that rests ends
	for range 1000 {
		b.mu.Lock()
		resting := len(b.idle)
		b.mu.Unlock()
		if resting == 0 {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	wants(t, asking(t.Context(), b, "Hello."), sample.OK, "")
	b.mu.Lock()
	b.rest = 0
	b.mu.Unlock()
	b.expire() // what rests for too long is ended as well
	wants(t, asking(t.Context(), b, "Hello."), sample.OK, "")
	b.Close()
	for i := 0; i < 1000 && ended.Load() < 3; i++ { // the container's handler returns a little after its goodbye
		<-time.After(5 * time.Millisecond)
	}
	if opened.Load() != 3 || ended.Load() != 3 {
		t.Errorf("%d opened, %d ended after Close, want 3 and 3", opened.Load(), ended.Load())
	}
	wants(t, asking(t.Context(), b, "Hello."), sample.ServerError, "the session is over")

	opened.Store(0)
	each, _ := heldBy(t, BidiOptions{Each: true}, container)
	for range 3 {
		wants(t, asking(t.Context(), each, "Hello."), sample.OK, "")
	}
	if opened.Load() != 3 {
		t.Errorf("%d sessions for three texts, want one each", opened.Load())
	}
}

// A deadline ends the text that it is of, wherever that is, and the session with it.
func TestBidiDeadline(t *testing.T) {
	ctx := &deadline{Context: t.Context(), done: make(chan struct{})}
	left := make(chan struct{})
	b, _ := heldBy(t, BidiOptions{}, func(hold context.Context, c *websocket.Conn) {
		defer close(left)
		_, _, _ = c.Read(hold)
		ctx.expire()
		_, _, _ = c.Read(hold) // until the caller leaves
	})
	wants(t, asking(ctx, b, "Hello."), sample.Timeout, "the deadline passed before")
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Error("the container is not told")
	}
}

// What is wrong with the caller's own side is no failure of the endpoint.
func TestBidiRefusals(t *testing.T) {
	cfg := config("")
	for region, want := range map[string]string{"eu-west-3": "https://runtime.sagemaker.eu-west-3.amazonaws.com:8443", "cn-north-1": "https://runtime.sagemaker.cn-north-1.amazonaws.com.cn:8443"} {
		cfg.Region = region
		b, err := NewBidi(cfg, BidiOptions{Endpoint: "speech"})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if got := b.url.String(); got != want+"/endpoints/speech/invocations-bidirectional-stream" {
			t.Errorf("%s: %s", region, got)
		}
		s, err := b.sign(t.Context())
		if err != nil || !strings.Contains(s.request.Header.Get("Authorization"), "/"+region+"/sagemaker/aws4_request") {
			t.Errorf("%s is signed %q: %v", region, s.request.Header.Get("Authorization"), err)
		}
	}
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, errors.New("no keys") })
	b, err := NewBidi(cfg, BidiOptions{Endpoint: "speech"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	wants(t, asking(t.Context(), b, "Hello."), sample.ClientFault, "the request was never sent: no keys")
	for want, o := range map[string]BidiOptions{
		"no endpoint": {}, "HTTP/2 over TLS": {Endpoint: "x", Net: Net{Version: HTTP1}}, "limit on connections": {Endpoint: "x", Net: Net{MaxConns: 1}},
		"want https://": {Endpoint: "x", URL: "http://127.0.0.1:1"},
	} {
		if _, err := NewBidi(config(""), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
	// The certificate is not trusted; the endpoint is not there; the keys are others.
	_, d := heldBy(t, BidiOptions{}, func(context.Context, *websocket.Conn) {})
	for cause, o := range map[string]BidiOptions{
		"TLS: ": {URL: d.url, Endpoint: "speech"}, "InputValidationError: Endpoint nobody": {URL: d.url, Endpoint: "nobody", Net: Net{TLS: d.tls}},
	} {
		b, err := NewBidi(config(""), o)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if got := asking(t.Context(), b, "Hello."); !strings.HasPrefix(got.Cause, cause) {
			t.Errorf("%s (%s), want %s", got.Outcome, got.Cause, cause)
		}
	}
	stranger := config("")
	stranger.Credentials = credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "another", "")
	other, err := NewBidi(stranger, BidiOptions{URL: d.url, Endpoint: "speech", Net: Net{TLS: d.tls}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	wants(t, asking(t.Context(), other, "Hello."), sample.ClientError, "InvalidSignatureException")
}

// Sessions at once, over several connections, leave nothing behind.
func TestBidiMany(t *testing.T) {
	const many = 150 // more than one connection's streams
	before := runtime.NumGoroutine()
	var open sync.WaitGroup
	open.Add(many)
	b, d := heldBy(t, BidiOptions{Net: Net{Streams: many}}, func(ctx context.Context, c *websocket.Conn) {
		first := true
		for {
			_, m, err := c.Read(ctx)
			if err != nil {
				return
			}
			if first { // nobody is answered before all are here
				open.Done()
				open.Wait()
				first = false
			}
			for range 5 {
				_ = c.Write(ctx, websocket.MessageBinary, speech(960))
			}
			_ = c.Write(ctx, websocket.MessageText, []byte(`{"type":"synthesis_complete","samples":2400,"request_id":"`+idOf(m)+`"}`))
		}
	})
	for turn := range 2 {
		var work sync.WaitGroup
		var reused atomic.Int64
		for range many {
			work.Go(func() {
				got := asking(t.Context(), b, "Hello.")
				if got.Outcome != sample.OK || got.Bytes != 4800 {
					t.Errorf("%s (%s), %d bytes", got.Outcome, got.Cause, got.Bytes)
				}
				if got.Reused {
					reused.Add(1)
				}
			})
		}
		work.Wait()
		if turn == 1 && reused.Load() == 0 {
			t.Error("no session was used again")
		}
	}
	b.muxed.mu.Lock()
	if n := len(b.muxed.conns); n < 2 || n > 4 {
		t.Errorf("%d connections for %d sessions", n, many)
	}
	b.muxed.mu.Unlock()
	b.Close()
	d.end()
	for range 1000 {
		if runtime.NumGoroutine() <= before+3 { // the container's own, which the test ends later
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
}
