package speech_test

import (
	"bytes"
	"context"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"loadline/internal/serve"
)

// spelling is an engine whose sound is its text: 10 ms a byte, every sample the byte.
type spelling struct{}

const perByte = 240 // samples

type spelled struct{ text string }

func (spelling) Info() serve.Info { return serve.Info{Places: 2, Rate: 24000} }

func (spelling) Load(_ context.Context, mark func(string)) error {
	for _, s := range []string{serve.StageFramework, serve.StageFetched, serve.StageWeights} {
		mark(s)
	}
	return nil
}

func (spelling) Prepare(_ context.Context, r serve.Request) (serve.Utterance, error) {
	if r.Voice == "nobody" {
		return nil, &serve.FieldError{Field: "voice", Message: "voice is nobody"}
	}
	return &spelled{r.Text}, nil
}

func (u *spelled) Size() int { return len(u.text) }

func (u *spelled) Next(ctx context.Context, _ time.Time) ([][]byte, error) {
	n := min(8, len(u.text))
	piece := u.text[:n]
	u.text = u.text[n:]
	return [][]byte{sound(piece)}, ctx.Err()
}

// sound is a text as the engine speaks it, and heard the text that a sound is.
func sound(text string) []byte {
	var b []byte
	for i := range len(text) {
		b = append(b, bytes.Repeat([]byte{text[i], 0x40}, perByte)...)
	}
	return b
}

func heard(b []byte) string {
	var s strings.Builder
	for i := 0; i < len(b); i += 2 * perByte {
		s.WriteByte(b[i])
	}
	return s.String()
}

// running is a speech server of this project's on loopback.
type running struct {
	*httptest.Server
	listener *cutting
	stop     func()
}

func (r *running) ws() string { return strings.Replace(r.URL, "http", "ws", 1) }

// serving starts one; whoever starts it stops it.
func serving() *running {
	s, err := serve.New(serve.Config{Engine: spelling{}, Ahead: -1, WarmupText: "Hi."})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	<-s.Ready()
	hs := httptest.NewUnstartedServer(s.Handler())
	l := &cutting{Listener: hs.Listener, open: map[*cut]struct{}{}}
	l.left.Store(1 << 60)
	hs.Listener = l
	hs.Start()
	return &running{hs, l, func() {
		hs.CloseClientConnections()
		l.closeAll()
		hs.Close()
		cancel()
		<-done
	}}
}

// cutting is a listener whose connections, all together, carry so many bytes to their peers; then the one that writes
// breaks, once.
type cutting struct {
	net.Listener
	left  atomic.Int64
	cuts  atomic.Int64
	conns atomic.Int64

	mu   sync.Mutex
	open map[*cut]struct{}
}

func (l *cutting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.conns.Add(1)
	k := &cut{c, l}
	l.mu.Lock()
	l.open[k] = struct{}{}
	l.mu.Unlock()
	return k, nil
}

func (l *cutting) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.open {
		k.Conn.Close()
	}
}

type cut struct {
	net.Conn
	from *cutting
}

func (c *cut) Write(b []byte) (int, error) {
	if left := c.from.left.Add(-int64(len(b))); left < 0 && left > -1<<50 {
		n := int(max(0, left+int64(len(b))))
		n, _ = c.Conn.Write(b[:n])
		c.from.left.Store(1 << 60)
		c.from.cuts.Add(1)
		c.Conn.Close()
		return n, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *cut) Close() error {
	c.from.mu.Lock()
	delete(c.from.open, c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}
