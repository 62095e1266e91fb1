package serve

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is an engine made of what a test wants it to do. Without say it speaks one block of 100 ms at once.
type fake struct {
	places int
	load   error
	say    func(r Request) func(ctx context.Context) ([]byte, error)
}

type fakeUtterance func(ctx context.Context) ([]byte, error)

func (f fakeUtterance) Next(ctx context.Context) ([]byte, error) { return f(ctx) }

func (f *fake) Info() Info { return Info{Places: max(1, f.places), Rate: 24000} }

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
		return fakeUtterance(blocks(1)), nil
	}
	return fakeUtterance(f.say(r)), nil
}

var block100 = bytes.Repeat([]byte{0x10, 0x20}, 2400)

// blocks speaks n blocks of 100 ms at once.
func blocks(n int) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if n--; n < 0 {
			return nil, io.EOF
		}
		return block100, nil
	}
}

// taking speaks n blocks, each after d.
func taking(d time.Duration, n int) func(Request) func(context.Context) ([]byte, error) {
	return func(Request) func(context.Context) ([]byte, error) {
		next := blocks(n)
		left := n
		return func(ctx context.Context) ([]byte, error) {
			if left--; left >= 0 {
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
			}
			return next(ctx)
		}
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
