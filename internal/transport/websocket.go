package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"loadline/internal/audio"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// WebSocketOptions says what is asked of a server over WebSockets.
type WebSocketOptions struct {
	Net
	URL      string // with ws, wss, http or https
	Header   http.Header
	Messages Messages // those of a session of speech-server when zero
	End      string   // of a reply: EndKnown, EndClose, or the message that ends it
	Payload  audio.Payload
}

// WebSocket asks a server that speaks over WebSockets. Where its messages name the text that they are about, a session is
// used again for the next text, and counts as one request in flight only while a text is spoken; elsewhere each text has a
// session of its own. A first request on a session has the handshake in it (Conn says when that was over), later ones have
// not (Reused).
type WebSocket struct {
	pool     *pool
	client   *http.Client
	url      *url.URL
	header   http.Header
	messages Messages
	dialect  dialect
	ids      atomic.Int64

	ctx     context.Context // of the sessions
	stop    context.CancelFunc
	readers sync.WaitGroup

	mu     sync.Mutex
	idle   []*socket // the one used last at the end
	most   int
	closed bool
}

var _ load.Transport = (*WebSocket)(nil)

// NewWebSocket checks the options. It connects to nothing yet.
func NewWebSocket(o WebSocketOptions) (*WebSocket, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("url %q: want ws://host[:port]/path or wss://…", RecordURL(o.URL))
	}
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	case "http", "https":
	default:
		return nil, fmt.Errorf("url %q: want ws://host[:port]/path or wss://…", RecordURL(o.URL))
	}
	if o.Version != "" && o.Version != HTTP1 {
		return nil, fmt.Errorf("HTTP version %q: a WebSocket is opened by HTTP/1.1", o.Version)
	}
	if o.Messages.list == nil {
		o.Messages, _ = ParseMessages(BodySession)
	}
	p, err := newPool(o.Net)
	if err != nil {
		return nil, err
	}
	w := &WebSocket{pool: p, url: u, header: http.Header{}, messages: o.Messages, most: cmp.Or(o.Streams, 256),
		dialect: dialect{end: o.End, payload: cmp.Or(o.Payload, audio.Sound)}}
	for k, v := range o.Header {
		w.header[http.CanonicalHeaderKey(k)] = v
	}
	if w.header.Get("User-Agent") == "" {
		w.header.Set("User-Agent", "loadline")
	}
	if user := u.User; user != nil {
		password, _ := user.Password()
		r := http.Request{Header: w.header}
		r.SetBasicAuth(user.Username(), password)
		u.User = nil
	}
	probe := http.Request{Method: http.MethodGet, URL: u, Header: w.header}
	if _, err := newHead(&probe); err != nil { // whether they are fit for HTTP
		return nil, err
	}
	w.client = &http.Client{Transport: p.rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w, nil
}

// Policy says how the transport connects.
func (w *WebSocket) Policy() string {
	how := "WebSocket, a session a text"
	if w.messages.kept {
		how = fmt.Sprintf("WebSocket, up to %d sessions kept from text to text", w.most)
	}
	return how + "; no compression of messages; " + w.pool.policy
}

// Close ends the sessions that are idle, and waits for those that read.
func (w *WebSocket) Close() error {
	w.mu.Lock()
	idle := w.idle
	w.idle, w.closed = nil, true
	w.mu.Unlock()
	for _, s := range idle {
		_ = s.c.CloseNow()
	}
	w.stop()
	w.readers.Wait()
	return w.pool.close()
}

// Do sends one text and reads its reply to the end.
func (w *WebSocket) Do(ctx context.Context, c load.Call, rec *sample.Request) {
	for {
		ex, traced := w.pool.begin(ctx, c, rec)
		s, resp, err := w.take(traced, ex)
		ex.stamp()
		if err != nil {
			w.unopened(ctx, c, ex, resp, err)
			return
		}
		rec.Status = http.StatusSwitchingProtocols
		t := &turn{id: strconv.FormatInt(w.ids.Add(1), 10), ex: ex, recv: newReceiver(c, rec, w.dialect.payload, payloadIn(w.dialect.payload)),
			done: make(chan struct{})}
		rested := s.rested
		began := s.begin(t)
		if err = errOver; began {
			err = w.ask(ctx, s, t, c.Text.Body)
		}
		if err == nil {
			select {
			case <-t.done:
				err = t.err
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		s.leave(w.messages.kept && err == nil && goesOn(rec.Outcome))
		// As for a connection (see direct): a session that the server closed after a long rest, with nothing heard, is no
		// failure of the text; nor is one that had ended before the text was given to it.
		again := !began || err != nil && rec.Reused && rested >= longIdle && !t.heard && ctx.Err() == nil && hungUp(err)
		t.recv.done(ctx, ex, err)
		if !again {
			return
		}
		anew(rec)
	}
}

// unopened ends the record of a request for which no session could be opened.
func (w *WebSocket) unopened(ctx context.Context, c load.Call, ex *exchange, resp *http.Response, err error) {
	rec := ex.rec
	if resp == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		ex.fail(ctx, err)
		return
	}
	var answer []byte
	if resp.Body != nil {
		answer, _ = io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what came of it will do
	}
	rec.End, rec.Bytes = c.Clock(), int64(len(answer))
	if resp.StatusCode/100 == 2 {
		rec.Outcome, rec.Cause = sample.ProtocolError, fmt.Sprintf("%d where a WebSocket was asked for: this path is none", resp.StatusCode)
		return
	}
	rec.Outcome, rec.Cause = refused(resp.StatusCode, answer, resp.Header.Get("Location"))
	tellWait(c, resp.Header, answer)
}

// ask sends the messages of one text.
func (w *WebSocket) ask(ctx context.Context, s *socket, t *turn, text string) error {
	for _, m := range w.messages.fill(text, t.id) {
		if err := s.c.Write(ctx, websocket.MessageText, m); err != nil {
			select {
			case <-t.done: // the server said why first
				return t.err
			default:
				return err
			}
		}
	}
	return nil
}

// take is a session for one text: the one used last that still stands, or a new one.
func (w *WebSocket) take(ctx context.Context, ex *exchange) (*socket, *http.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	if n := len(w.idle); n > 0 {
		s := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.mu.Unlock()
		s.rested = time.Since(s.since)
		ex.conn.Store(int64(ex.clock()))
		ex.reused.Store(true)
		return s, nil, nil
	}
	w.mu.Unlock()
	s, resp, err := w.open(ctx)
	if resp != nil {
		ex.answered(resp)
	}
	return s, resp, err
}

// open opens a session and reads it until it ends.
func (w *WebSocket) open(ctx context.Context) (*socket, *http.Response, error) {
	c, resp, err := websocket.Dial(ctx, w.url.String(), &websocket.DialOptions{HTTPClient: w.client, HTTPHeader: w.header,
		CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, resp, err
	}
	c.SetReadLimit(maxEvent)
	s := &socket{c: c, from: w, since: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		_ = c.CloseNow()
		return nil, nil, errOver
	}
	w.readers.Go(func() { s.read(w.ctx) })
	return s, resp, nil
}

// socket is one session. One goroutine reads it for as long as it lasts, so that pings are answered and a close is seen
// whatever happens; what it reads goes to the text that is being spoken.
type socket struct {
	c      *websocket.Conn
	from   *WebSocket
	since  time.Time     // idle since then; the user's, like rested
	rested time.Duration // before this text

	floor
}

// leave takes the text off the session, which is kept for the next one or closed.
func (s *socket) leave(keep bool) {
	keep = !s.yield() && keep
	w := s.from
	if keep {
		s.since = time.Now()
		w.mu.Lock()
		if keep = !w.closed && len(w.idle) < w.most; keep {
			w.idle = append(w.idle, s)
		}
		w.mu.Unlock()
	}
	if !keep {
		_ = s.c.CloseNow()
	}
}

// read takes messages until the session ends.
func (s *socket) read(ctx context.Context) {
	buf := make([]byte, 4<<10)
	for {
		kind, r, err := s.c.Reader(ctx)
		if err == nil && kind == websocket.MessageBinary {
			err = s.binary(r, buf)
		} else if err == nil {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				s.text(text)
			}
		}
		if err != nil {
			s.end(err)
			return
		}
	}
}

// binary takes the bytes of a binary message as they come.
func (s *socket) binary(r io.Reader, buf []byte) error {
	for {
		n, err := r.Read(buf)
		if n > 0 {
			s.tell(func(t *turn, at sample.Nanos) (bool, error) {
				return t.recv.hear(at, said{sound: buf[:n]}, &t.told)
			})
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *socket) text(text []byte) {
	s.tell(func(t *turn, at sample.Nanos) (bool, error) { return t.listen(at, s.from.dialect, text) })
}

// tell hands what was just read to the text that is being spoken, if there is one. A text that is over by it is done.
func (s *socket) tell(hear func(*turn, sample.Nanos) (over bool, err error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turn
	if t == nil {
		return
	}
	at := t.ex.clock()
	t.hear(at)
	over, err := hear(t, at)
	if over || err != nil {
		s.finish(err)
	}
}

// end marks the session as over, and the text that was being spoken as broken off, or ended where that is its end.
func (s *socket) end(err error) {
	w := s.from
	w.mu.Lock()
	w.idle = slices.DeleteFunc(w.idle, func(other *socket) bool { return other == s })
	w.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if t := s.turn; t != nil {
		rec := t.recv.rec
		if rec.Outcome, rec.Cause = hangUp(err, w.dialect.end, t.heard); rec.Outcome == sample.OK {
			rec.Outcome, err = "", nil // the meter judges
		} else if rec.Outcome == "" && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		s.finish(err)
	}
	_ = s.c.CloseNow()
}

// hangUp says what the end of a session means to the text that is being spoken, by its close code; OK where that is how
// texts end, "" where the connection broke without one.
func hangUp(err error, end string, heard bool) (sample.Outcome, string) {
	var c websocket.CloseError
	if !errors.As(err, &c) {
		switch {
		case errors.Is(err, websocket.ErrMessageTooBig):
			return sample.ProtocolError, fmt.Sprintf("a message of more than %d bytes", maxEvent)
		case strings.Contains(err.Error(), "received"), strings.Contains(err.Error(), "protocol"):
			return sample.ProtocolError, "not WebSocket as agreed: " + clean(lastPart(err.Error()))
		}
		return "", ""
	}
	why := fmt.Sprintf("closed with %d", int(c.Code))
	if c.Reason != "" {
		why += ": " + clean(c.Reason)
	}
	switch c.Code {
	case websocket.StatusNormalClosure, websocket.StatusNoStatusRcvd:
		if end == EndClose {
			return sample.OK, ""
		}
		return sample.Truncated, "truncated: " + why + " before the message that says it is whole"
	case websocket.StatusTryAgainLater:
		if c.Reason == "queue_saturated" || c.Reason == "queue_full" {
			return sample.Rejected, c.Reason
		}
		return sample.Throttled, why
	case websocket.StatusPolicyViolation, websocket.StatusUnsupportedData, websocket.StatusInvalidFramePayloadData, websocket.StatusMessageTooBig, websocket.StatusProtocolError:
		return sample.ClientError, why
	case websocket.StatusInternalError:
		return sample.ServerError, why
	}
	if heard {
		return sample.Truncated, "truncated: " + why
	}
	return sample.ServerError, why
}
