package transport

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
)

// muxed is as many HTTP/2 connections to one host as streams need: another is dialled when those that stand have no
// stream free, one at a time. net/http's own pool dials one for each of many requests that begin together, and throws all
// but one away.
type muxed struct {
	rt           *http.Transport
	scheme, addr string

	mu      sync.Mutex
	conns   []*http.ClientConn
	dialing chan struct{} // closed when the dial under way is over; nil: none is
	closed  bool
}

func newMuxed(rt *http.Transport, u *url.URL) *muxed {
	return &muxed{rt: rt, scheme: u.Scheme, addr: address(u)}
}

// reserve is a connection with a stream for the caller, who must use it for one request. reused: it stood already.
func (m *muxed) reserve(ctx context.Context) (conn *http.ClientConn, reused bool, err error) {
	for waited := false; ; waited = true {
		m.mu.Lock()
		m.conns = slices.DeleteFunc(m.conns, func(c *http.ClientConn) bool { return c.Err() != nil })
		for _, c := range m.conns {
			if c.Reserve() == nil {
				m.mu.Unlock()
				return c, !waited, nil
			}
		}
		if m.closed {
			m.mu.Unlock()
			return nil, false, errOver
		}
		if dialing := m.dialing; dialing != nil {
			m.mu.Unlock()
			select {
			case <-dialing:
				continue
			case <-ctx.Done():
				return nil, false, ctx.Err()
			}
		}
		dialing := make(chan struct{})
		m.dialing = dialing
		m.mu.Unlock()
		c, err := m.rt.NewClientConn(ctx, m.scheme, m.addr)
		m.mu.Lock()
		m.dialing = nil
		close(dialing)
		switch {
		case err == nil && m.closed:
			c.Close()
		case err == nil:
			m.conns = append(m.conns, c)
		}
		m.mu.Unlock()
		if err != nil {
			return nil, false, err
		}
	}
}

func (m *muxed) close() {
	m.mu.Lock()
	conns := m.conns
	m.conns, m.closed = nil, true
	m.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}
