package transport

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
)

// limited is a fixed number of HTTP/2 connections: a request that finds no stream free on its connection waits for one.
// net/http's own pool opens more connections instead, whatever MaxConnsPerHost says, and in its strict mode requests stall
// each other for good (golang/go issue 70809).
type limited struct {
	rt    *http.Transport
	slots []slot

	mu   sync.Mutex
	next int
}

// slot is one connection, dialled when it is first wanted or has failed.
type slot struct {
	mu   sync.Mutex
	conn *http.ClientConn
}

// RoundTrip sends the request on the next connection in turn.
func (l *limited) RoundTrip(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	s := &l.slots[l.next]
	l.next = (l.next + 1) % len(l.slots)
	l.mu.Unlock()
	conn, reused, err := s.get(req.Context(), l.rt, req)
	if err != nil {
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Reused: reused})
	}
	return conn.RoundTrip(req)
}

func (s *slot) get(ctx context.Context, rt *http.Transport, req *http.Request) (conn *http.ClientConn, reused bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.Err() == nil {
		return s.conn, true, nil
	}
	s.conn, err = rt.NewClientConn(ctx, req.URL.Scheme, address(req.URL))
	return s.conn, false, err
}

// address is what a URL's connections are dialled to.
func address(u *url.URL) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}

// streams is the most streams that the peer allows a connection, 0 when none is open.
func (l *limited) streams() int {
	for i := range l.slots {
		s := &l.slots[i]
		s.mu.Lock()
		conn := s.conn
		s.mu.Unlock()
		if conn != nil && conn.Err() == nil {
			return conn.Available() + conn.InFlight()
		}
	}
	return 0
}

func (l *limited) close() {
	for i := range l.slots {
		s := &l.slots[i]
		s.mu.Lock()
		if s.conn != nil {
			s.conn.Close()
			s.conn = nil
		}
		s.mu.Unlock()
	}
}
