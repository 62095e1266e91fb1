package transport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/coder/websocket"

	"loadline/internal/corpus"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// script is what the server of the contract suite answers, and when. Time is the script's own: the clock of the client
// stands at the time of the step that is being sent, and the next step waits until the client has taken all of it. So
// every stamp is exact, over real sockets.
type script struct {
	status int    // 200 when 0
	mime   string // audio/wav when ""
	error  string // body of a status that is not 200
	steps  []step
	end    ending

	raw  func(w io.Writer)       // SageMaker: writes the event stream itself, after the steps
	last string                  // WebSocket: the message that ends the reply, instead of the whole one
	talk func(c *websocket.Conn) // WebSocket: does the talking itself
	text string                  // what is asked for, `Say "hi".` when ""
}

type step struct {
	at   int // ms
	body []byte
}

type ending int

const (
	whole ending = iota
	cut          // the connection closes in the middle
	reset        // it is reset
	stall        // nothing more comes; the request's deadline passes
	mute         // not even headers come, and the deadline passes
)

// server plays one script at a time, in the form that its path asks for.
type server struct {
	*httptest.Server
	t      *testing.T
	script script
	now    atomic.Int64 // ms
	taken  atomic.Int64 // body bytes that the client has seen
	sent   atomic.Int64
	told   chan struct{} // the client has taken something
	expire func()        // lets the deadline of the request pass

	mu       sync.Mutex
	requests []*http.Request // without bodies
	bodies   []string
	conns    atomic.Int64
}

type connKey struct{}

func newServer(t *testing.T, version Version) *server {
	s := &server{t: t, told: make(chan struct{}, 1)}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		s.conns.Add(1)
		return context.WithValue(ctx, connKey{}, c)
	}
	s.Config.Protocols = new(http.Protocols)
	switch version {
	case H2C:
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	case HTTP2:
		s.Config.Protocols.SetHTTP2(true)
		s.EnableHTTP2 = true
		s.StartTLS()
	default:
		s.Config.Protocols.SetHTTP1(true)
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// ContentType and Write make the server the sink of its own client: this is how it knows what has been taken.
func (s *server) ContentType(string) { s.tell() }

func (s *server) Write(b []byte) (int, error) {
	s.taken.Add(int64(len(b)))
	s.tell()
	return len(b), nil
}

func (s *server) tell() {
	select {
	case s.told <- struct{}{}:
	default:
	}
}

func (s *server) clock() sample.Nanos {
	return sample.Since(time.Duration(s.now.Load()) * time.Millisecond)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ping" { // of a platform before it
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("read the request: %v", err)
	}
	s.mu.Lock()
	s.requests = append(s.requests, r)
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()

	sc := s.script
	stream := strings.HasSuffix(r.URL.Path, "/invocations-response-stream")
	platform := stream || strings.HasSuffix(r.URL.Path, "/invocations")
	status := max(sc.status, 200)
	events, socket := strings.HasSuffix(r.URL.Path, "/events"), strings.HasSuffix(r.URL.Path, "/session")
	mime := sc.mime
	if mime == "" {
		mime = "audio/wav"
	}
	switch {
	case sc.end == mute:
		s.expire()
		<-r.Context().Done()
		return
	case status != 200 && platform:
		w.Header().Set("X-Amzn-ErrorType", "ModelError")
		w.WriteHeader(http.StatusFailedDependency)
		json.NewEncoder(w).Encode(map[string]any{"Message": "Received an error from the model", "OriginalStatusCode": status, "OriginalMessage": sc.error})
		return
	case status != 200:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "https://user:secret@elsewhere.example/speak?key=1")
		w.WriteHeader(status)
		io.WriteString(w, sc.error)
		return
	case socket:
		s.session(w, r)
		return
	case events:
		w.Header().Set("Content-Type", "text/event-stream")
	case stream:
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		w.Header().Set("X-Amzn-SageMaker-Content-Type", mime)
	default:
		w.Header().Set("Content-Type", mime)
	}
	w.WriteHeader(200)
	flush := http.NewResponseController(w).Flush
	flush()
	<-s.told // the client has the headers
	for _, st := range sc.steps {
		s.now.Store(int64(st.at))
		b := st.body
		if stream {
			b = event("event", "PayloadPart", st.body)
		}
		if events {
			b = told(st.body)
		}
		w.Write(b)
		flush()
		s.sent.Add(int64(len(st.body)))
		for s.taken.Load() < s.sent.Load() {
			select {
			case <-s.told:
			case <-r.Context().Done():
				return
			}
		}
	}
	if sc.raw != nil {
		sc.raw(w)
	}
	switch sc.end {
	case whole:
		if events {
			io.WriteString(w, "data: {\"type\":\"speech.audio.done\"}\n\n")
		}
	case cut:
		panic(http.ErrAbortHandler)
	case reset:
		if c, ok := r.Context().Value(connKey{}).(*net.TCPConn); ok {
			c.SetLinger(0)
		}
		panic(http.ErrAbortHandler)
	case stall:
		s.expire()
		<-r.Context().Done()
	}
}

// event is one message of an event stream.
func event(kind, name string, payload []byte) []byte {
	var m eventstream.Message
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(":"+kind+"-type", eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/octet-stream"))
	m.Payload = payload
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// deadline is a context whose deadline passes when the test says so.
type deadline struct {
	context.Context
	done chan struct{}
	once sync.Once
}

func (d *deadline) Done() <-chan struct{} { return d.done }
func (d *deadline) expire()               { d.once.Do(func() { close(d.done) }) }
func (d *deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// ask plays the script against the transport.
func (s *server) ask(t load.Transport, sc script) sample.Request {
	s.script = sc
	s.sent.Store(0)
	s.taken.Store(0)
	s.now.Store(0)
	select {
	case <-s.told:
	default:
	}
	ctx := &deadline{Context: s.t.Context(), done: make(chan struct{})}
	s.expire = ctx.expire
	rec := sample.New(0)
	rec.Started = 0
	s.now.Store(1)
	text := cmp.Or(sc.text, `Say "hi".`)
	t.Do(ctx, load.Call{Text: corpus.Text{Body: text, Chars: len(text)}, Clock: s.clock, Sink: s, KeepChunks: true}, &rec)
	return rec
}

// form is one implementation of load.Transport and the server that it talks to.
type form struct {
	name string
	srv  *server
	t    load.Transport
}

func (f form) streams() bool  { return f.name == "response-stream" }
func (f form) platform() bool { return f.name == "response-stream" || f.name == "invoke" }
func (f form) http2() bool    { return f.name == "h2c" || f.name == "http/2" }

// forms is every implementation.
func forms(t *testing.T) []form {
	var out []form
	add := func(name string, srv *server, tr load.Transport, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { tr.Close() })
		out = append(out, form{name, srv, tr})
	}
	for _, v := range []Version{HTTP1, H2C, HTTP2} {
		srv := newServer(t, v)
		n := Net{Version: v, Streams: 4}
		if v == HTTP2 {
			n.TLS = srv.Client().Transport.(*http.Transport).TLSClientConfig
		}
		tr, err := NewHTTP(HTTPOptions{URL: srv.URL + "/speak", Net: n})
		add(map[Version]string{HTTP1: "http/1.1", H2C: "h2c", HTTP2: "http/2"}[v], srv, tr, err)
	}
	for _, invoke := range []bool{false, true} {
		srv := newServer(t, HTTP1)
		tr, err := NewSageMaker(config(srv.URL), SageMakerOptions{Endpoint: "speech-kokoro", Variant: "primary", Invoke: invoke, CustomAttributes: "route=/x", InferenceID: "id-7", Net: Net{Streams: 4}})
		add(map[bool]string{false: "response-stream", true: "invoke"}[invoke], srv, tr, err)
	}
	return out
}

func config(url string) aws.Config {
	return aws.Config{Region: "us-east-1", BaseEndpoint: aws.String(url), Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")}
}

func (s *server) last() (*http.Request, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		panic(fmt.Sprintf("%s: no request came", s.URL))
	}
	return s.requests[len(s.requests)-1], s.bodies[len(s.bodies)-1]
}
