package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"loadline/internal/load"
	"loadline/internal/sample"
)

// Net is how a transport connects.
type Net struct {
	Streams     int           // most requests in flight at once: as many idle connections are kept; 256 when 0
	MaxConns    int           // most connections to a host, 0 for no limit. Requests beyond it wait, and their Conn is late
	DialTimeout time.Duration // 5 s when 0
	Version     Version       // HTTP/1.1 when ""
	Proxy       func(*http.Request) (*url.URL, error)
	TLS         *tls.Config // certificates beyond the system's, say
}

// Version is the version of HTTP that is spoken.
type Version string

// The versions. HTTP/2 is chosen by name only: its streams share connections, and a server's limit on them would show
// as its latency.
const (
	HTTP1 Version = "1.1"
	HTTP2 Version = "2"   // over TLS, by negotiation
	H2C   Version = "h2c" // unencrypted, by prior knowledge
)

// ParseVersion reads a version; "" is HTTP/1.1.
func ParseVersion(s string) (Version, error) {
	switch v := Version(cmp.Or(s, "1.1")); v {
	case HTTP1, HTTP2, H2C:
		return v, nil
	}
	return "", fmt.Errorf("HTTP version %q: want 1.1, 2 or h2c", s)
}

// pool is the connections of one transport.
type pool struct {
	rt      http.RoundTripper
	own     *http.Transport // below rt, or rt itself
	limited *limited        // rt, where it is one
	shared  bool            // connections carry several requests at once
	hosts   *hosts          // nil where only net/http will do
	policy  string
}

func newPool(n Net) (*pool, error) {
	version, err := ParseVersion(string(n.Version))
	if err != nil {
		return nil, err
	}
	n.Streams = cmp.Or(n.Streams, 256)
	dialer := &net.Dialer{Timeout: cmp.Or(n.DialTimeout, 5*time.Second), KeepAlive: 30 * time.Second}
	rt := &http.Transport{
		DialContext:         dialer.DialContext,
		Proxy:               n.Proxy,
		TLSClientConfig:     n.TLS,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: n.Streams,
		MaxConnsPerHost:     n.MaxConns,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
		ReadBufferSize:      2 << 10, // a stream keeps both all its life; larger pieces of a body go past them
		WriteBufferSize:     2 << 10,
		Protocols:           new(http.Protocols),
	}
	how := "HTTP/1.1, one connection a stream"
	switch version {
	case HTTP1:
		rt.Protocols.SetHTTP1(true)
	case HTTP2:
		rt.Protocols.SetHTTP2(true)
		how = "HTTP/2 over TLS, streams share connections"
	case H2C:
		rt.Protocols.SetUnencryptedHTTP2(true)
		how = "HTTP/2 without TLS, streams share connections"
	}
	limit := "no limit on connections"
	if n.MaxConns > 0 {
		limit = fmt.Sprintf("at most %d connections", n.MaxConns)
	}
	proxy := "no proxy"
	if n.Proxy != nil {
		proxy = "proxy of the environment"
	}
	p := &pool{rt: rt, own: rt, shared: version != HTTP1}
	if p.shared && n.MaxConns > 0 {
		p.limited = &limited{rt: rt, slots: make([]slot, n.MaxConns)}
		p.rt = p.limited
	}
	retries := "no retries"
	if p.hosts = newHosts(n, dialer); p.hosts != nil {
		retries += " but one where the server closed a connection that had been idle for 1 s or more"
	}
	p.policy = strings.Join([]string{how, fmt.Sprintf("up to %d kept idle for 90 s", n.Streams), limit,
		"a name is resolved anew for each connection", proxy, "no compression", retries}, "; ")
	return p, nil
}

// PeerStreams is the most HTTP/2 streams that the server allows a connection, 0 where that is not known.
func (p *pool) PeerStreams() int {
	if p.limited == nil {
		return 0
	}
	return p.limited.streams()
}

func (p *pool) close() error {
	if p.limited != nil {
		p.limited.close()
	}
	if p.hosts != nil {
		p.hosts.close()
	}
	p.own.CloseIdleConnections()
	return nil
}

// exchange is one request on its way. Hooks of net/http may run late, on a connection that is given up: what they write
// is atomic, and an exchange is never used twice.
type exchange struct {
	clock   func() sample.Nanos
	conn    atomic.Int64
	reused  atomic.Bool
	trace   httptrace.ClientTrace
	wrote   chan struct{} // gets a value once the request is written; nil: nobody waits for it
	headers sample.Nanos
	resp    *http.Response
	rec     *sample.Request
}

func newExchange(c load.Call, rec *sample.Request) *exchange {
	ex := &exchange{clock: c.Clock, headers: sample.None, rec: rec}
	ex.conn.Store(int64(sample.None))
	return ex
}

// begin prepares an exchange through net/http and the context that its request must carry.
func (p *pool) begin(ctx context.Context, c load.Call, rec *sample.Request) (*exchange, context.Context) {
	ex := newExchange(c, rec)
	ex.trace.GotConn = func(i httptrace.GotConnInfo) {
		ex.conn.Store(int64(ex.clock()))
		ex.reused.Store(i.Reused)
	}
	if p.shared { // a request has its stream once its headers are out: it may have waited for one on a connection that it had
		ex.trace.WroteHeaders = func() { ex.conn.Store(int64(ex.clock())) }
	}
	return ex, httptrace.WithClientTrace(ctx, &ex.trace)
}

// awaitWritten makes wrote say when the request is written whole. It comes before the request is sent.
func (ex *exchange) awaitWritten() {
	ex.wrote = make(chan struct{}, 1)
	ex.trace.WroteRequest = func(httptrace.WroteRequestInfo) {
		select {
		case ex.wrote <- struct{}{}:
		default:
		}
	}
}

// send does the round trip and stamps the headers.
func (ex *exchange) send(rt http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := rt.RoundTrip(req)
	if err == nil {
		ex.answered(resp)
	}
	return resp, err
}

// answered stamps the headers of the reply.
func (ex *exchange) answered(resp *http.Response) { ex.headers, ex.resp = ex.clock(), resp }

// stamp records what the exchange saw.
func (ex *exchange) stamp() {
	ex.rec.Conn = sample.Nanos(ex.conn.Load())
	ex.rec.Reused = ex.reused.Load()
	ex.rec.Headers = ex.headers
	if ex.resp != nil {
		ex.rec.Status = ex.resp.StatusCode
	}
}

// fail ends the record of a request that broke off with err.
func (ex *exchange) fail(ctx context.Context, err error) {
	ex.rec.End = ex.clock()
	ex.rec.Outcome, ex.rec.Cause = broken(ctx, err, progress(ex.rec))
}

// How far a reply had come when it broke off.
const (
	beforeConn  = "before there was a connection"
	beforeReply = "before the reply began"
	beforeAudio = "before the first audio"
	midReply    = "in the middle of the reply"
)

func progress(rec *sample.Request) string {
	switch {
	case !rec.Conn.Known():
		return beforeConn
	case !rec.Headers.Known():
		return beforeReply
	case !rec.FirstAudio.Known():
		return beforeAudio
	default:
		return midReply
	}
}
