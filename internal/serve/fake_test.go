package serve

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is an engine made of what a test wants it to do. Without say it speaks one piece of 100 ms at once.
type fake struct {
	places    int
	load      error
	sentences bool // it wants them one by one
	say       func(r Request) *fakeUtterance
}

type fakeUtterance struct {
	left int
	next func(ctx context.Context) ([]byte, error)
}

func (f *fakeUtterance) Size() int { return 10 * f.left }

func (f *fakeUtterance) Next(ctx context.Context, _ time.Time) ([][]byte, error) {
	f.left--
	b, err := f.next(ctx)
	return [][]byte{b}, err
}

func (f *fake) Info() Info { return Info{Places: max(1, f.places), Rate: 24000, Whole: !f.sentences} }

func (f *fake) Load(ctx context.Context, mark func(string)) error {
	mark(StageFramework)
	mark(StageFetched)
	mark(StageWeights)
	return f.load
}

func (f *fake) Prepare(ctx context.Context, r Request) (Utterance, error) {
	if r.Voice == "nobody" {
		return nil, &FieldError{Field: "voice", Message: `voice is "nobody": this engine has somebody`}
	}
	if f.say == nil || r.ID == "warm-up" {
		return blocks(1), nil
	}
	return f.say(r), nil
}

var block100 = bytes.Repeat([]byte{0x10, 0x20}, 2400)

// blocks speaks n pieces of 100 ms at once.
func blocks(n int) *fakeUtterance {
	return &fakeUtterance{n, func(ctx context.Context) ([]byte, error) { return block100, ctx.Err() }}
}

// taking speaks n pieces, each after d.
func taking(d time.Duration, n int) func(Request) *fakeUtterance {
	return func(Request) *fakeUtterance {
		return &fakeUtterance{n, func(ctx context.Context) ([]byte, error) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
			return block100, ctx.Err()
		}}
	}
}

// lines is a log that keeps what was written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.b.String(), "\n"), "\n")
}

// start runs a server until the test ends and waits until it is ready.
func start(t testing.TB, c Config) *Server {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-s.Ready()
	return s
}

// open puts a server on a loopback port.
func open(t testing.TB, s *Server) *httptest.Server {
	t.Helper()
	hs := httptest.NewServer(s.Handler())
	t.Cleanup(hs.Close)
	return hs
}

// call sends one request straight to the handler.
func call(s *Server, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// pipes is a listener in memory, whose connections a bubble's clock can time out.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// inMemory serves s on pipes until the test ends.
func inMemory(t *testing.T, s *Server) *pipes {
	l := newPipes()
	hs := &http.Server{Handler: s.Handler()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = hs.Serve(l)
	}()
	t.Cleanup(func() {
		_ = hs.Close()
		<-done
	})
	return l
}
