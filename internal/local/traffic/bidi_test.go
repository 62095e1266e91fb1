package traffic

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/duplex"
	"loadline/internal/wire"
)

// Errors have the operation's own names.
func TestBidiFault(t *testing.T) {
	for err, want := range map[error]string{
		wire.Refuse(wire.InternalFailure, "x"): wire.InternalError, wire.Refuse(wire.Unavailable, "x"): wire.StreamUnavailable,
		errors.New("x"): wire.InternalError, wire.Refuse(wire.Throttling, "x"): wire.Throttling,
	} {
		if got := bidiFault(err); got.Code != want {
			t.Errorf("%v is %s, want %s", err, got.Code, want)
		}
	}
}

// pipe is a session whose container is the test's, without sockets.
func pipe(rules duplex.Rules) (r *relay, box net.Conn, ended chan struct{}) {
	inside, outside := net.Pipe()
	r = &relay{now: time.Now, frames: duplex.NewReader(inside, nil), box: inside, out: &heard{}, flush: noFlush{}}
	r.start(rules)
	ended = make(chan struct{})
	go func() { defer close(ended); r.run() }()
	return r, outside, ended
}

type noFlush struct{}

func (noFlush) Flush() error                     { return nil }
func (noFlush) SetWriteDeadline(time.Time) error { return nil }

// A container that never answers a ping is given up after five of them; one that does lives for 30 minutes.
func TestBidiPings(t *testing.T) {
	for _, answers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			r, box, ended := pipe(duplex.Rules{})
			go func() { // the container
				in := bufio.NewReader(box)
				for {
					var head [2]byte
					if _, err := io.ReadFull(in, head[:]); err != nil {
						return
					}
					rest := make([]byte, 4+int(head[1]&0x7F))
					if _, err := io.ReadFull(in, rest); err != nil {
						return
					}
					payload := rest[4:]
					for i := range payload {
						payload[i] ^= rest[i&3]
					}
					if head[0] == 0x89 && answers {
						if _, err := box.Write(append([]byte{0x8A, byte(len(payload))}, payload...)); err != nil {
							return
						}
					}
				}
			}()
			<-ended
			box.Close()
			want, why := 6*time.Minute, "5 pings"
			if answers {
				want, why = 30*time.Minute, wire.StreamError
			}
			if got := time.Since(began); got != want || !strings.Contains(r.out.(*heard).String(), why) {
				t.Errorf("ended after %s with %q, want %s", got, r.out.(*heard).String(), want)
			}
		})
	}
}

// heard is what a caller was told.
type heard struct {
	mu sync.Mutex
	b  strings.Builder
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.String()
}
