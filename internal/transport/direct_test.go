package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/audio"
	"loadline/internal/corpus"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// wire is a server's end of a connection, in memory: it answers each request with the next reply, piece by piece.
type wire struct {
	replies [][][]byte // pieces, by request
	end     error      // of reading, when the last reply is out; nil: nothing comes
	refuse  error      // of writing

	mu    sync.Mutex
	wrote bytes.Buffer
	queue [][]byte
	wake  chan struct{} // something may have changed
	gone  chan struct{} // closed, or past its deadline
	once  sync.Once
	why   error
}

func newWire(end error, replies ...[][]byte) *wire {
	return &wire{replies: replies, end: end, wake: make(chan struct{}, 1), gone: make(chan struct{})}
}

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrote.Write(b)
	if len(w.replies) > 0 {
		w.queue = append(w.queue, w.replies[0]...)
		w.replies = w.replies[1:]
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	if w.refuse != nil {
		return 0, w.refuse
	}
	return len(b), nil
}

func (w *wire) Read(p []byte) (int, error) {
	for {
		w.mu.Lock()
		asked := w.wrote.Len() > 0
		if asked && len(w.queue) > 0 {
			n := copy(p, w.queue[0])
			if w.queue[0] = w.queue[0][n:]; len(w.queue[0]) == 0 {
				w.queue = w.queue[1:]
			}
			w.mu.Unlock()
			return n, nil
		}
		over := asked && len(w.replies) == 0 && w.end != nil
		w.mu.Unlock()
		if over {
			return 0, w.end
		}
		select {
		case <-w.wake:
		case <-w.gone:
			return 0, w.why
		}
	}
}

func (w *wire) leave(why error) {
	w.once.Do(func() {
		w.why = why
		close(w.gone)
	})
}

func (w *wire) Close() error                     { w.leave(net.ErrClosed); return nil }
func (w *wire) SetDeadline(time.Time) error      { w.leave(os.ErrDeadlineExceeded); return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }
func (w *wire) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (w *wire) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

func (w *wire) closed() bool {
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

// over is a transport whose dials give these connections, one after the other, by net/http or without.
func over(t testing.TB, library bool, o HTTPOptions, wires ...*wire) *HTTP {
	o.URL = "http://server.example/speak?a=b"
	tr, err := NewHTTP(o)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(context.Context, string, string) (net.Conn, error) {
		if len(wires) == 0 {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		w := wires[0]
		wires = wires[1:]
		return w, nil
	}
	tr.pool.hosts.dial, tr.pool.own.DialContext = dial, dial
	if library {
		tr.pool.hosts = nil
	}
	return tr
}

// ticked asks once by a clock that goes on at every look, in a bubble too.
func ticked(ctx context.Context, tr *HTTP) sample.Request {
	var now sample.Nanos
	rec := sample.New(0)
	rec.Started = 0
	tr.Do(ctx, load.Call{Text: corpus.Text{Body: "Hi."}, Clock: func() sample.Nanos { now++; return now }}, &rec)
	return rec
}

// pieces cuts a reply after n bytes, and again after every n.
func pieces(reply string, n int) (out [][]byte) {
	for b := []byte(reply); len(b) > 0; {
		k := min(n, len(b))
		out = append(out, b[:k])
		b = b[k:]
	}
	return out
}

const good = "HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nContent-Length: 4\r\n\r\nabcd"

// replies are all that a server may answer, and what is made of it. The outcomes are those of net/http, too.
var replies = []struct {
	name, reply string
	outcome     sample.Outcome
	cause       string // begins with it
	kept        bool
}{
	{"with a length", good, sample.OK, "", true},
	{"in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n", sample.OK, "", true},
	{"in chunks with a trailer", "HTTP/1.1 200 OK\r\nTrailer: X-Took\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\nX-Took: 1\r\n\r\n", sample.OK, "", true},
	{"to the end of the connection", "HTTP/1.1 200 OK\r\n\r\nabcd", sample.OK, "", false},
	{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nabcd", sample.OK, "", false},
	{"HTTP/1.0, kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nabcd", sample.OK, "", true},
	{"the last", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nabcd", sample.OK, "", false},
	{"after others", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + good, sample.OK, "", true},
	{"no content", "HTTP/1.1 204 No Content\r\n\r\n", sample.Empty, "no bytes in the body", true},
	{"nothing in it", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", sample.Empty, "no bytes in the body", true},
	{"elsewhere", "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n", sample.ClientError, "307: redirected to http://elsewhere.example/", true},
	{"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", sample.ClientError, "304: redirected", true},
	{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", sample.ClientError, "101 switching protocols", false},
	{"an error with a body", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 27\r\n\r\n{\"error\":\"queue_saturated\"}", sample.Rejected, "queue_saturated", true},
	{"an error too long to read", "HTTP/1.1 500 Oops\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("x", 300000), sample.ServerError, "500 internal server error: x", false},
	{"shorter than said", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcd", sample.Truncated, "truncated: the reply ended without its end", false},
	{"a chunk shorter than said", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabcd", sample.Truncated, "truncated: the reply ended without its end", false},
	{"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n", sample.Truncated, "truncated: the reply ended without its end", false},
	{"a chunk of no length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nabcd\r\n", sample.ProtocolError, "not HTTP as agreed: invalid byte in chunk length", false},
	{"nothing", "", sample.ServerError, "the server closed the connection without a reply", false},
	{"half a head", "HTTP/1.1 200 OK\r\nContent-Length: 4", sample.ServerError, "the server closed the connection without a reply", false},
	{"not HTTP", "220 mail.example ESMTP\r\n\r\n", sample.ProtocolError, "not HTTP as agreed:", false},
	{"no status", "HTTP/1.1 OK\r\n\r\n", sample.ProtocolError, "not HTTP as agreed:", false},
	{"a header without a name", "HTTP/1.1 200 OK\r\n: x\r\n\r\n", sample.ProtocolError, "not HTTP as agreed:", false},
	{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", sample.ServerError, "", false},
}

func TestReplies(t *testing.T) {
	for _, tc := range replies {
		t.Run(tc.name, func(t *testing.T) {
			for _, library := range []bool{false, true} {
				for _, cut := range []int{1 << 30, 7, 1} {
					if cut == 1 && len(tc.reply) > 10000 {
						continue
					}
					w := newWire(io.EOF, pieces(tc.reply, cut))
					if tc.kept {
						w.end = nil
					}
					next := newWire(io.EOF, pieces(good, 100))
					tr := over(t, library, HTTPOptions{Payload: audio.Bytes}, w, next)
					rec := once(t, tr)
					if rec.Outcome != tc.outcome || !strings.HasPrefix(rec.Cause, tc.cause) || rec.Reused {
						t.Errorf("net/http %v, cut %d: %s (%s), want %s (%s)", library, cut, rec.Outcome, rec.Cause, tc.outcome, tc.cause)
					}
					if rec.Outcome == sample.OK && (rec.Bytes != 4 || rec.Check() != nil) {
						t.Errorf("net/http %v, cut %d: %+v", library, cut, rec)
					}
					if !library && w.closed() == tc.kept {
						t.Errorf("cut %d: connection closed %v, want %v", cut, w.closed(), !tc.kept)
					}
					tr.Close()
					if !library && !w.closed() {
						t.Errorf("cut %d: Close left an idle connection", cut)
					}
				}
			}
		})
	}
}

// What comes after a reply answers nobody.
func TestMoreThanWasAskedFor(t *testing.T) {
	w := newWire(nil, pieces(good+"HTTP/1.1 404 Not Found\r\n\r\n", 1000))
	tr := over(t, false, HTTPOptions{Payload: audio.Bytes}, w, newWire(nil, pieces(good, 100)))
	defer tr.Close()
	for range 2 {
		if rec := once(t, tr); rec.Outcome != sample.OK || rec.Reused || !w.closed() {
			t.Errorf("%+v", rec)
		}
	}
}

// A reply to HEAD has a length and no body.
func TestHead(t *testing.T) {
	w := newWire(nil, pieces("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", 100), pieces("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", 100))
	tr := over(t, false, HTTPOptions{Method: http.MethodHead, Payload: audio.Bytes}, w)
	defer tr.Close()
	for i := range 2 {
		if rec := once(t, tr); rec.Outcome != sample.Empty || rec.Status != 200 || rec.Reused != (i > 0) {
			t.Errorf("%+v", rec)
		}
	}
}

func TestHeadOfAReplyIsBounded(t *testing.T) {
	endless := "HTTP/1.1 100 Continue\r\nX: " + strings.Repeat("x", 1000) + "\r\n\r\n"
	for _, reply := range []string{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20), strings.Repeat(endless, 2000)} {
		tr := over(t, false, HTTPOptions{Payload: audio.Bytes}, newWire(io.EOF, pieces(reply, 1000)))
		if rec := once(t, tr); rec.Outcome != sample.ProtocolError || !strings.Contains(rec.Cause, "its head is above 1048576 bytes") {
			t.Errorf("%s (%s)", rec.Outcome, rec.Cause)
		}
		tr.Close()
	}
}

// The request is, to the byte, that of net/http.
func TestRequestBytes(t *testing.T) {
	for _, o := range []HTTPOptions{
		{},
		{Method: "PUT", Header: http.Header{"x-two": {"a", "b"}, "Host": {"ignored"}, "User-Agent": {"me"}, "Content-Length": {"7"}, "Transfer-Encoding": {"x"}}},
		{Header: http.Header{"Connection": {"close"}}},
	} {
		var got [2]string
		for i, library := range []bool{false, true} {
			w := newWire(io.EOF, pieces(good, 100))
			o.Payload = audio.Bytes
			tr := over(t, library, o, w)
			if rec := once(t, tr); rec.Outcome != sample.OK {
				t.Errorf("%s (%s)", rec.Outcome, rec.Cause)
			}
			tr.Close()
			got[i] = w.wrote.String()
		}
		if got[0] != got[1] || !strings.HasSuffix(got[0], "\r\n\r\n"+`{"text":"Hi."}`) {
			t.Errorf("%q, net/http sends %q", got[0], got[1])
		}
	}
}

// An idle connection that the server has closed costs no request, and a lost request is sent again only where the
// connection had been idle for long and not a byte of a reply came.
func TestKeptConnections(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	for _, tc := range []struct {
		name     string
		idle     time.Duration
		end      error
		second   string // what came of the second reply
		refuse   error
		attempts int // connections that saw the second request
		outcome  sample.Outcome
		reused   bool
	}{
		{"used again", time.Minute, nil, good, nil, 1, sample.OK, true},
		{"closed while idle", time.Second, io.EOF, "", nil, 2, sample.OK, false},
		{"reset while idle", 5 * time.Second, reset, "", nil, 2, sample.OK, false},
		{"not to be written to", 5 * time.Second, reset, "", syscall.EPIPE, 2, sample.OK, false},
		{"not idle for long", 900 * time.Millisecond, io.EOF, "", nil, 1, sample.ServerError, true},
		{"a byte came", 5 * time.Second, io.EOF, "H", nil, 1, sample.ProtocolError, true},
		{"too old", 90 * time.Second, nil, good, nil, 1, sample.OK, false},
		{"an answer, then hung up", 5 * time.Second, io.EOF, good, syscall.EPIPE, 1, sample.OK, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := newWire(tc.end, pieces(good, 100), pieces(tc.second, 100))
				fresh := newWire(nil, pieces(good, 100))
				tr := over(t, false, HTTPOptions{Payload: audio.Bytes}, first, fresh)
				defer tr.Close()
				if rec := ticked(t.Context(), tr); rec.Outcome != sample.OK || rec.Reused {
					t.Fatalf("%+v", rec)
				}
				time.Sleep(tc.idle)
				synctest.Wait()
				if aged := tc.idle >= keepIdle; first.closed() != aged {
					t.Errorf("closed while idle: %v, want %v", first.closed(), aged)
				}
				first.wrote.Reset()
				first.refuse = tc.refuse
				rec := ticked(t.Context(), tr)
				if rec.Outcome != tc.outcome || rec.Reused != tc.reused {
					t.Errorf("%s (%s), reused %v; want %s, %v", rec.Outcome, rec.Cause, rec.Reused, tc.outcome, tc.reused)
				}
				attempts := 0
				for _, w := range []*wire{first, fresh} {
					if w.wrote.Len() > 0 {
						attempts++
					}
				}
				if attempts != tc.attempts {
					t.Errorf("sent over %d connections, want %d", attempts, tc.attempts)
				}
			})
		})
	}
}

// A fresh connection that breaks is not tried again, nor is a second one.
func TestNeverMoreThanOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := over(t, false, HTTPOptions{Payload: audio.Bytes}, newWire(io.EOF, pieces(good, 100), nil), newWire(io.EOF, nil), newWire(nil, pieces(good, 100)))
		defer tr.Close()
		ticked(t.Context(), tr)
		time.Sleep(5 * time.Second)
		if rec := ticked(t.Context(), tr); rec.Outcome != sample.ServerError || rec.Reused || rec.Cause != "the server closed the connection without a reply" {
			t.Errorf("%+v", rec)
		}
		if rec := ticked(t.Context(), tr); rec.Outcome != sample.OK {
			t.Errorf("%+v", rec)
		}
		if rec := ticked(t.Context(), over(t, false, HTTPOptions{})); rec.Outcome != sample.ServerError || rec.Cause != "connection refused" || rec.Conn.Known() {
			t.Errorf("%+v", rec)
		}
	})
}

// The deadline of a request ends it wherever it is, and no later request meets its connection.
func TestDirectDeadline(t *testing.T) {
	head, _, _ := strings.Cut(good, "abcd")
	for _, tc := range []struct{ reply, cause string }{
		{"", "the deadline passed before the reply began"},
		{"HTTP/1.1 200", "the deadline passed before the reply began"},
		{head, "the deadline passed before the first audio"},
		{head + "ab", "the deadline passed in the middle of the reply"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(nil, pieces(tc.reply, 1000))
			tr := over(t, false, HTTPOptions{Payload: audio.Bytes}, w)
			defer tr.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			start := time.Now()
			rec := ticked(ctx, tr)
			if rec.Outcome != sample.Timeout || rec.Cause != tc.cause || time.Since(start) != 3*time.Second || !w.closed() {
				t.Errorf("%q: %s (%s) at %v, closed %v", tc.reply, rec.Outcome, rec.Cause, time.Since(start), w.closed())
			}
		})
	}
}

// A server that closes its connections without a word, right after a reply, is noticed before the next request.
func TestClosedWithoutAWord(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write([]byte("abcd"))
	}))
	defer srv.Close()
	tr, err := NewHTTP(HTTPOptions{URL: srv.URL, Payload: audio.Bytes})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for range 3 {
		if rec := once(t, tr); rec.Outcome != sample.OK || rec.Reused {
			t.Fatalf("%+v", rec)
		}
		srv.CloseClientConnections()
		for _, k := range tr.pool.direct(tr.request.URL, 0).idle {
			if n, err := k.conn.Read(make([]byte, 1)); n > 0 || err == nil { // until the end is here
				t.Fatal("the connection was not closed")
			}
		}
	}
}

func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	trusted := srv.Client().Transport.(*http.Transport).TLSClientConfig
	ask := func(url string, n Net) (recs [2]sample.Request) {
		tr, err := NewHTTP(HTTPOptions{URL: url, Payload: audio.Bytes, Net: n})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		return [2]sample.Request{once(t, tr), once(t, tr)}
	}
	if r := ask(srv.URL, Net{TLS: trusted}); r[0].Outcome != sample.OK || r[0].Reused || r[1].Outcome != sample.OK || !r[1].Reused || r[1].Bytes != int64(len("HTTP/1.1")) {
		t.Errorf("%+v", r)
	}
	if r := ask(srv.URL, Net{}); r[0].Outcome != sample.ClientFault || !strings.HasPrefix(r[0].Cause, "TLS: certificate signed by unknown authority") || r[0].Conn.Known() {
		t.Errorf("%+v", r[0])
	}
	plain := httptest.NewServer(srv.Config.Handler)
	defer plain.Close()
	if r := ask("https"+strings.TrimPrefix(plain.URL, "http"), Net{}); r[0].Outcome != sample.ClientFault || !strings.HasPrefix(r[0].Cause, "TLS: first record does not look like a TLS handshake") {
		t.Errorf("%+v", r[0])
	}
}

// A server that accepts and does not shake hands.
func TestTLSHandshakeTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := NewHTTP(HTTPOptions{URL: "https://server.example/"})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		tr.pool.hosts.dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go io.Copy(io.Discard, theirs)
			return ours, nil
		}
		start := time.Now()
		rec := once(t, tr)
		if rec.Outcome != sample.ServerError || rec.Cause != "timed out below the request: no TLS handshake within 10s: i/o timeout" || time.Since(start) != handshake {
			t.Errorf("%s (%s) after %v", rec.Outcome, rec.Cause, time.Since(start))
		}
	})
}

// A request that sockets may not hold is sent while the reply is awaited.
func TestLongText(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}))
	defer srv.Close()
	raw, _ := ParseTemplate(BodyRaw)
	tr, err := NewHTTP(HTTPOptions{URL: srv.URL, Body: raw, Payload: audio.Bytes})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for _, n := range []int{maxDirect, 8 << 20} {
		var got bytes.Buffer
		start := time.Now()
		rec := sample.New(0)
		tr.Do(t.Context(), load.Call{Text: corpus.Text{Body: strings.Repeat("x", n)}, Clock: func() sample.Nanos { return sample.Since(time.Since(start)) }, Sink: &got}, &rec)
		if rec.Outcome != sample.OK || got.String() != fmt.Sprint(n) {
			t.Errorf("%d: %s (%s), the server got %s", n, rec.Outcome, rec.Cause, got.String())
		}
	}
}

func TestHungUp(t *testing.T) {
	for err, want := range map[error]bool{io.EOF: true, syscall.EPIPE: true, &net.OpError{Err: syscall.ECONNRESET}: true, io.ErrUnexpectedEOF: false, os.ErrDeadlineExceeded: false, errors.New("x"): false} {
		if hungUp(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

// Whatever a server sends, in any pieces, is read as net/http reads it.
func FuzzReply(f *testing.F) {
	for _, tc := range replies {
		f.Add([]byte(tc.reply[:min(len(tc.reply), 500)]), uint16(3))
	}
	f.Fuzz(func(t *testing.T, reply []byte, cut uint16) {
		var got [2]sample.Request
		for i, library := range []bool{false, true} {
			tr := over(t, library, HTTPOptions{Payload: audio.Bytes}, newWire(io.EOF, pieces(string(reply), int(cut)+1)))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			got[i] = ticked(ctx, tr)
			cancel()
			if got[i].Outcome == sample.Timeout {
				t.Errorf("net/http %v: hangs", library)
			}
			tr.Close()
		}
		ours, theirs := got[0], got[1]
		if theirs.Status == http.StatusSwitchingProtocols { // net/http goes on to read the other protocol
			return
		}
		if ours.Outcome != theirs.Outcome || ours.Status != theirs.Status || ours.Bytes != theirs.Bytes ||
			ours.Headers.Known() != theirs.Headers.Known() || ours.FirstByte.Known() != theirs.FirstByte.Known() {
			t.Errorf("%s (%s), status %d, %d bytes; net/http: %s (%s), %d, %d", ours.Outcome, ours.Cause, ours.Status, ours.Bytes, theirs.Outcome, theirs.Cause, theirs.Status, theirs.Bytes)
		}
	})
}
