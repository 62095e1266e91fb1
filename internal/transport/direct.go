package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"loadline/internal/sample"
)

// direct speaks HTTP/1.1 to one host on the goroutine that asks: it writes the request, whole, and reads the reply itself.
// net/http hands both over to goroutines of its own, which costs a request two switches and a stream two stacks, and
// stamps a moment later than the bytes came.
//
// A peer that answers a request before it has read it could leave both waiting for good, were the request more than
// sockets hold: those above maxDirect are net/http's.
type direct struct {
	dial func(context.Context) (net.Conn, error) // TLS, where there is any, is up
	most int                                     // kept idle

	mu     sync.Mutex
	idle   []*kept // the one used last at the end
	sweep  *time.Timer
	closed bool
}

const (
	maxDirect  = 32 << 10 // of a request's body: sockets hold this much for a peer that does not read
	maxHead    = 1 << 20  // of a reply's head, with the informational ones before it
	keepIdle   = 90 * time.Second
	handshake  = 10 * time.Second
	directRead = 8 << 10     // a piece of sound of 4,800 bytes comes in one read
	longIdle   = time.Second // after which a server may well have closed a connection, and the news be still under way
)

// hosts is a direct for each host that is asked.
type hosts struct {
	net  Net
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu sync.Mutex
	by map[host]*direct
}

type host struct{ scheme, addr string }

// newHosts is nil where only net/http will do.
func newHosts(n Net, dialer *net.Dialer) *hosts {
	if n.Version == HTTP2 || n.Version == H2C || n.Proxy != nil || n.MaxConns > 0 {
		return nil
	}
	return &hosts{net: n, dial: dialer.DialContext, by: map[host]*direct{}}
}

// direct is the one to send a body of the given size by, nil where it must go through net/http.
func (p *pool) direct(u *url.URL, size int) *direct {
	if p.hosts == nil || size > maxDirect {
		return nil
	}
	h := p.hosts
	h.mu.Lock()
	defer h.mu.Unlock()
	key := host{u.Scheme, u.Host}
	d, ok := h.by[key]
	if !ok {
		if ascii := !strings.ContainsFunc(u.Host, func(r rune) bool { return r >= utf8.RuneSelf }); ascii { // others are put into ASCII by net/http
			d = h.open(u)
		}
		h.by[key] = d
	}
	return d
}

func (h *hosts) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.by {
		if d != nil {
			d.close()
		}
	}
}

func (h *hosts) open(u *url.URL) *direct {
	addr := address(u)
	d := &direct{most: h.net.Streams}
	d.dial = func(ctx context.Context) (net.Conn, error) { return h.dial(ctx, "tcp", addr) }
	if u.Scheme == "https" {
		plain := d.dial
		config := &tls.Config{}
		if h.net.TLS != nil {
			config = h.net.TLS.Clone()
		}
		if config.ServerName == "" {
			config.ServerName = u.Hostname()
		}
		config.NextProtos = []string{"http/1.1"}
		d.dial = func(ctx context.Context) (net.Conn, error) {
			conn, err := plain(ctx)
			if err != nil {
				return nil, err
			}
			limited, cancel := context.WithTimeoutCause(ctx, handshake, os.ErrDeadlineExceeded)
			defer cancel()
			secure := tls.Client(conn, config)
			if err := secure.HandshakeContext(limited); err != nil {
				conn.Close()
				if ctx.Err() == nil && limited.Err() != nil {
					err = fmt.Errorf("http: no TLS handshake within %v: %w", handshake, context.Cause(limited))
				}
				return nil, err
			}
			return secure, nil
		}
	}
	return d
}

// head is a request but for its length and its body.
type head struct{ before, after []byte }

// newHead renders the request as net/http would send it.
func newHead(r *http.Request) (head, error) {
	if !token(r.Method) {
		return head{}, fmt.Errorf("method %q: not an HTTP method", r.Method)
	}
	for k, values := range r.Header {
		bad := func(v string) bool {
			return strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7F })
		}
		if !token(k) || slices.ContainsFunc(values, bad) {
			return head{}, fmt.Errorf("header %q: its name or its value is not fit for HTTP", k)
		}
	}
	one := *r
	one.Body, one.ContentLength = io.NopCloser(bytes.NewReader([]byte{0})), 1
	var b bytes.Buffer
	if err := one.Write(&b); err != nil {
		return head{}, fmt.Errorf("request: %w", err)
	}
	const length = "\r\nContent-Length: "
	before, after, ok := bytes.Cut(b.Bytes()[:b.Len()-1], []byte(length+"1\r\n"))
	if !ok {
		return head{}, errors.New("request: its head has no length")
	}
	return head{append(bytes.Clone(before), length...), append([]byte("\r\n"), after...)}, nil
}

// token says whether a text may be a method or the name of a header (RFC 9110, 5.6.2).
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

// request is the whole message.
func (h head) request(body []byte) []byte {
	b := make([]byte, 0, len(h.before)+len(h.after)+len(body)+20)
	b = strconv.AppendInt(append(b, h.before...), int64(len(body)), 10)
	return append(append(b, h.after...), body...)
}

// send writes a request and reads the head of its reply. The reply's body must be read to its end or closed.
//
// A request is sent again only where a server closes idle connections at about the same time: the connection had been
// idle for long, and not a byte of a reply came. Elsewhere a second try would hide a failure of the server.
func (d *direct) send(ctx context.Context, ex *exchange, method string, message []byte) (*http.Response, error) {
	for {
		k, err := d.take(ctx, ex)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, k.interrupt)
		resp, err := k.exchange(method, message)
		if err == nil {
			ex.answered(resp)
			resp.Body = &reply{ReadCloser: resp.Body, from: d, on: k, stop: stop, keep: !resp.Close && resp.StatusCode > 199 && !k.halfSent}
			return resp, nil
		}
		stop()
		k.conn.Close()
		if !k.silent || k.rested < longIdle || ctx.Err() != nil || !hungUp(err) {
			return nil, err
		}
		d.forget() // those that have been idle for longer will be gone as well
	}
}

// hungUp says whether an error is a peer that closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// take is a connection for one request, the one used last that still stands, or a new one.
func (d *direct) take(ctx context.Context, ex *exchange) (*kept, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for k := d.pop(); k != nil; k = d.pop() {
		if k.rested = time.Since(k.since); k.rested < keepIdle && k.stands() {
			ex.conn.Store(int64(ex.clock()))
			ex.reused.Store(true)
			return k, nil
		}
		k.conn.Close()
	}
	ex.conn.Store(int64(sample.None)) // where one was given up that had not stood
	conn, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	ex.conn.Store(int64(ex.clock()))
	ex.reused.Store(false)
	return newKept(conn), nil
}

func (d *direct) pop() *kept {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.idle) == 0 {
		return nil
	}
	k := d.idle[len(d.idle)-1]
	d.idle[len(d.idle)-1] = nil
	d.idle = d.idle[:len(d.idle)-1]
	return k
}

// put keeps a connection for the next request.
func (d *direct) put(k *kept) {
	k.since = time.Now()
	d.mu.Lock()
	full := d.closed || len(d.idle) >= d.most
	if !full {
		d.idle = append(d.idle, k)
		if d.sweep == nil {
			d.sweep = time.AfterFunc(keepIdle, d.expire)
		}
	}
	d.mu.Unlock()
	if full {
		k.conn.Close()
	}
}

// expire closes the connections that have been idle too long.
func (d *direct) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := slices.IndexFunc(d.idle, func(k *kept) bool { return time.Since(k.since) < keepIdle })
	if fresh < 0 {
		fresh = len(d.idle)
	}
	for _, k := range d.idle[:fresh] {
		k.conn.Close()
	}
	d.idle = slices.Delete(d.idle, 0, fresh)
	d.sweep = nil
	if len(d.idle) > 0 && !d.closed {
		d.sweep = time.AfterFunc(keepIdle-time.Since(d.idle[0].since), d.expire)
	}
}

// forget closes the idle connections.
func (d *direct) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.idle {
		k.conn.Close()
	}
	clear(d.idle)
	d.idle = d.idle[:0]
}

func (d *direct) close() {
	d.forget()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.sweep != nil {
		d.sweep.Stop()
	}
}

// kept is a connection. Only the request that has it touches it, but for interrupt.
type kept struct {
	conn      net.Conn
	probe     prober
	in        *bufio.Reader
	left      int64 // bytes that may still come
	silent    bool  // not a byte of the reply has come
	halfSent  bool  // the peer hung up on the request, whatever it answers
	since     time.Time
	rested    time.Duration // idle before this request
	interrupt func()
}

func newKept(conn net.Conn) *kept {
	k := &kept{conn: conn, probe: newProber(conn)}
	k.in = bufio.NewReaderSize(limitedHead{k}, directRead)
	k.interrupt = func() { conn.SetDeadline(time.Unix(1, 0)) }
	return k
}

// stands says whether an idle connection is as it was left: a server that closed it, or sent what nobody asked for, is
// seen before a request is lost to it.
func (k *kept) stands() bool { return k.probe.quiet() }

// limitedHead reads a connection, of a head no more than is allowed.
type limitedHead struct{ *kept }

var errHead = fmt.Errorf("malformed HTTP response: its head is above %d bytes", maxHead)

func (l limitedHead) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errHead
	}
	n, err := l.conn.Read(p)
	l.left -= int64(n)
	return n, err
}

// exchange writes the request and reads the head of the reply, past informational ones.
func (k *kept) exchange(method string, message []byte) (*http.Response, error) {
	k.silent = true
	_, unsent := k.conn.Write(message)
	if unsent != nil && !hungUp(unsent) {
		return nil, unsent
	}
	k.halfSent = unsent != nil
	k.left = maxHead
	if _, err := k.in.Peek(1); err != nil { // nothing came: an answer may have, from a server that hung up
		if unsent != nil {
			err = unsent
		}
		return nil, err
	}
	k.silent = false
	for {
		resp, err := http.ReadResponse(k.in, asked[method])
		if err != nil {
			return nil, err
		}
		if final := resp.StatusCode > 199 || resp.StatusCode < 100 || resp.StatusCode == http.StatusSwitchingProtocols; final {
			k.left = math.MaxInt64
			return resp, nil
		}
	}
}

// asked is what http.ReadResponse must know of the request: a reply to HEAD has no body. Of others it need know nothing.
var asked = map[string]*http.Request{http.MethodHead: {Method: http.MethodHead}}

// reply is the body of a reply. Its end frees the connection, as net/http's does: the SDK does not close every body.
type reply struct {
	io.ReadCloser
	from *direct
	on   *kept       // nil once freed
	stop func() bool // the context can no longer interrupt; false when it has
	keep bool
}

func (r *reply) Read(p []byte) (int, error) {
	if r.on == nil {
		return 0, io.EOF
	}
	n, err := r.ReadCloser.Read(p)
	if err != nil {
		r.free(err == io.EOF)
	}
	return n, err
}

// Close gives the connection up, unless the reply was read to its end.
func (r *reply) Close() error {
	r.free(false)
	return nil
}

func (r *reply) free(whole bool) {
	k := r.on
	if k == nil {
		return
	}
	r.on = nil
	if r.stop() && r.keep && whole && k.in.Buffered() == 0 {
		r.from.put(k)
		return
	}
	k.conn.Close()
}
