package transport

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/coder/websocket"

	"loadline/internal/audio"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// BidiOptions says which SageMaker endpoint is asked over bidirectional streams, and how.
type BidiOptions struct {
	Net             // HTTP/2, by itself
	URL      string // "": AWS's own, of the configuration's region
	Endpoint string
	Variant  string // "" leaves the choice to the endpoint
	Path     string // of the container, without a leading slash; "": the platform's own
	Query    string // key=value&key=value, for the container

	Messages Messages // those of a session of speech-server when zero
	Each     bool     // a session for each text, though the messages would let one be kept
	End      string   // of a reply: EndKnown, EndClose, or the message that ends it
	Payload  audio.Payload
}

// Bidi asks a SageMaker endpoint over bidirectional streams (InvokeEndpointWithBidirectionalStream): HTTP/2, with every
// event signed. A stream is a session: it is used for text after text where the messages name the text, as a WebSocket's
// is, and counts as one request in flight only while a text is spoken; elsewhere each text has one of its own. A session's
// first request has its opening in it (Conn says when the stream was there, Headers when it was answered), later ones
// have not (Reused).
type Bidi struct {
	o       BidiOptions
	cfg     aws.Config
	pool    *pool
	muxed   *muxed
	url     *url.URL
	dialect dialect
	kept    bool // sessions are
	most    int  // of them
	ids     atomic.Int64
	readers sync.WaitGroup

	mu       sync.Mutex // guards all below
	sessions map[*stream]struct{}
	idle     []*stream // the one used last at the end
	sweep    *time.Timer
	rest     time.Duration // sessionRest
	closed   bool
}

var _ load.Transport = (*Bidi)(nil)

const (
	// sessionLife is how long a session is given texts: the platform ends each after 30 minutes.
	sessionLife = 25 * time.Minute
	// sessionRest is how long a session is kept without a text: it counts as in flight on the endpoint meanwhile.
	sessionRest = 10 * time.Second
	// farewell is how long a session that has been ended may take to end.
	farewell = 2 * time.Second
)

// NewBidi makes a transport from an SDK configuration, of which region and credentials are used. It connects to nothing
// yet.
func NewBidi(cfg aws.Config, o BidiOptions) (*Bidi, error) {
	switch {
	case o.Endpoint == "":
		return nil, errors.New("no endpoint named")
	case cfg.Region == "":
		return nil, errors.New("no region: give --region, or set AWS_REGION")
	case cfg.Credentials == nil:
		return nil, errors.New("no credentials: configure a profile, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case o.Version != "" && o.Version != HTTP2:
		return nil, fmt.Errorf("HTTP version %q: bidirectional streams are HTTP/2 over TLS", o.Version)
	case o.MaxConns > 0:
		return nil, errors.New("a limit on connections: a session that waits for a stream would look like a slow endpoint")
	}
	base := cmp.Or(o.URL, bidiURL(cfg.Region))
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("url %q of bidirectional streams: want https://host[:port]", RecordURL(base))
	}
	u.Path = cmp.Or(u.Path, "/")
	u = u.JoinPath("endpoints", o.Endpoint, "invocations-bidirectional-stream")
	o.Version = HTTP2
	p, err := newPool(o.Net)
	if err != nil {
		return nil, err
	}
	if o.Messages.list == nil {
		o.Messages, _ = ParseMessages(BodySession)
	}
	o.Payload = cmp.Or(o.Payload, audio.Sound)
	return &Bidi{o: o, cfg: cfg, pool: p, muxed: newMuxed(p.own, u), url: u, dialect: dialect{end: o.End, payload: o.Payload},
		kept: o.Messages.kept && !o.Each, most: cmp.Or(o.Streams, 256), rest: sessionRest, sessions: map[*stream]struct{}{}}, nil
}

// bidiURL is AWS's own.
func bidiURL(region string) string {
	suffix := "amazonaws.com"
	for _, p := range [][2]string{{"cn-", "amazonaws.com.cn"}, {"us-iso-", "c2s.ic.gov"}, {"us-isob-", "sc2s.sgov.gov"},
		{"us-isof-", "csp.hci.ic.gov"}, {"eu-isoe-", "cloud.adc-e.uk"}, {"eusc-", "amazonaws.eu"}} {
		if strings.HasPrefix(region, p[0]) {
			suffix = p[1]
		}
	}
	return "https://runtime.sagemaker." + region + "." + suffix + ":8443"
}

// Policy says how the transport connects.
func (b *Bidi) Policy() string {
	how := "SageMaker bidirectional stream, a session a text"
	if b.kept {
		how = fmt.Sprintf("SageMaker bidirectional stream, up to %d sessions kept from text to text", b.most)
	}
	return how + "; another connection when those that stand have no stream free; " + b.pool.policy
}

// Close ends the sessions and waits until all have ended.
func (b *Bidi) Close() error {
	b.mu.Lock()
	idle := b.idle
	b.idle, b.closed = nil, true
	if b.sweep != nil {
		b.sweep.Stop()
	}
	var busy []*stream
	for s := range b.sessions {
		busy = append(busy, s)
	}
	b.mu.Unlock()
	for _, s := range idle {
		s.goodbye()
	}
	for _, s := range busy {
		if !s.parting.Load() {
			s.hang()
		}
	}
	b.readers.Wait()
	b.muxed.close()
	return b.pool.close()
}

// Do speaks one text and reads its reply to the end.
func (b *Bidi) Do(ctx context.Context, c load.Call, rec *sample.Request) {
	for {
		rec.Outcome, rec.Cause = "", ""
		t := &turn{id: strconv.FormatInt(b.ids.Add(1), 10), ex: newExchange(c, rec), done: make(chan struct{})}
		s := b.pop(t.ex)
		fresh, began := s == nil, false
		var err error
		if fresh {
			s, err = b.sign(ctx)
		} else {
			t.recv = b.receiver(c, rec)
		}
		if err == nil {
			if began = s.begin(t); began {
				err = s.ask(b.o.Messages.fill(c.Text.Body, t.id))
			} else {
				err = errOver
			}
		}
		if err == nil && fresh {
			err = b.open(ctx, c, s, t)
		}
		if err == nil {
			select {
			case <-t.done:
				err = t.err
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if s != nil {
			s.leave(err == nil, err == nil && b.kept && goesOn(rec.Outcome))
		}
		// As for a connection (see direct): a session that ended after a long rest, with nothing heard, is no failure of the
		// text; nor is one that had ended before the text was given to it.
		again := !fresh && (!began || err != nil && s.rested >= longIdle && !t.heard && ctx.Err() == nil && rec.Outcome == "")
		switch {
		case t.recv != nil:
			t.recv.done(ctx, t.ex, err)
		case rec.Outcome == "":
			t.ex.fail(ctx, err)
		default:
			rec.End = c.Clock()
		}
		if !again {
			return
		}
		anew(rec)
	}
}

func (b *Bidi) receiver(c load.Call, rec *sample.Request) *receiver {
	return newReceiver(c, rec, b.dialect.payload, payloadIn(b.dialect.payload))
}

// pop is the idle session that was used last; nil for none.
func (b *Bidi) pop(ex *exchange) *stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.idle) > 0 {
		s := b.idle[len(b.idle)-1]
		b.idle = b.idle[:len(b.idle)-1]
		if time.Since(s.opened) > sessionLife {
			s.goodbye()
			continue
		}
		s.rested = time.Since(s.since)
		ex.conn.Store(int64(ex.clock()))
		ex.reused.Store(true)
		ex.stamp()
		ex.rec.Status = http.StatusOK
		return s
	}
	return nil
}

// keep makes a session idle; false where it is not to be.
func (b *Bidi) keep(s *stream) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.idle) >= b.most {
		return false
	}
	b.idle = append(b.idle, s)
	if b.sweep == nil {
		b.sweep = time.AfterFunc(b.rest, b.expire)
	}
	return true
}

// expire ends the sessions that have rested for too long.
func (b *Bidi) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := slices.IndexFunc(b.idle, func(s *stream) bool { return time.Since(s.since) < b.rest })
	if fresh < 0 {
		fresh = len(b.idle)
	}
	for _, s := range b.idle[:fresh] {
		s.goodbye()
	}
	b.idle = slices.Delete(b.idle, 0, fresh)
	b.sweep = nil
	if len(b.idle) > 0 && !b.closed {
		b.sweep = time.AfterFunc(b.rest-time.Since(b.idle[0].since), b.expire)
	}
}

// open opens a session whose first messages are queued. It is read from then on.
func (b *Bidi) open(ctx context.Context, c load.Call, s *stream, t *turn) error {
	if err := b.send(ctx, c, s, t.ex); err != nil {
		return err
	}
	t.recv = b.receiver(c, t.ex.rec)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		s.body.Close()
		return errOver
	}
	b.sessions[s] = struct{}{}
	b.readers.Go(s.read)
	return nil
}

// send sends a session's request and gets the head of its answer. Where that opens no session, the record says why.
func (b *Bidi) send(ctx context.Context, c load.Call, s *stream, ex *exchange) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	stop := context.AfterFunc(ctx, cancel)
	conn, reused, err := b.muxed.reserve(ctx)
	var resp *http.Response
	if err == nil {
		ex.conn.Store(int64(ex.clock()))
		ex.reused.Store(reused)
		resp, err = ex.send(conn, s.request.WithContext(inner))
	}
	ex.stamp()
	s.request = nil
	if err != nil {
		stop()
		return err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // "" will do
	if resp.StatusCode != http.StatusOK || kind != "application/vnd.amazon.eventstream" {
		b.unopened(c, ex.rec, resp)
		stop()
		resp.Body.Close()
		return errOver
	}
	if !stop() {
		resp.Body.Close()
		return ctx.Err()
	}
	s.body = resp.Body
	return nil
}

// unopened says why there is no session.
func (b *Bidi) unopened(c load.Call, rec *sample.Request, resp *http.Response) {
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what came of it will do
	rec.Bytes = int64(len(answer))
	var v struct {
		Message, ErrorCode, OriginalMessage string
		OriginalStatusCode                  int
	}
	_ = json.Unmarshal(answer, &v) // or it is not the service's
	code, _, _ := strings.Cut(resp.Header.Get("X-Amzn-Errortype"), ":")
	code = cmp.Or(code, v.ErrorCode)
	switch {
	case resp.StatusCode == http.StatusOK:
		rec.Outcome, rec.Cause = sample.ProtocolError, fmt.Sprintf("not a stream of events: content type %q", clean(resp.Header.Get("Content-Type")))
	case code == "ModelError" && v.OriginalStatusCode > 0:
		rec.Outcome, rec.Cause = container(v.OriginalStatusCode, []byte(v.OriginalMessage))
		tellWait(c, resp.Header, []byte(v.OriginalMessage))
	case code != "":
		rec.Outcome, rec.Cause = service(code, v.Message, resp.StatusCode)
	default:
		rec.Outcome, rec.Cause = refused(resp.StatusCode, answer, resp.Header.Get("Location"))
	}
}

// hear takes a message of a session to the text that is being spoken. over: it is the session's last one.
func (s *stream) hear(m message) (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turn
	end := func(o sample.Outcome, cause string, err error) {
		if t == nil {
			return
		}
		if o == sample.OK {
			o = "" // the meter judges
		}
		t.recv.rec.Outcome, t.recv.rec.Cause = o, cause
		s.finish(err)
	}
	switch string(m.kind) {
	case "exception":
		end(s.from.exception(string(m.name), m.payload, t != nil && t.heard))
		return true
	case "error":
		o, cause := service(string(m.name), string(m.text), http.StatusInternalServerError)
		end(o, cause, nil)
		return true
	case "event":
	default:
		return false
	}
	if string(m.name) != "PayloadPart" {
		return false
	}
	if m.utf8 && (m.partial || len(s.text) > 0) { // a message in parts, cut anywhere
		if s.text = append(s.text, m.payload...); m.partial && len(s.text) <= maxEvent {
			return false
		}
		m.payload = s.text
		defer func() { s.text = s.text[:0] }()
	}
	if t == nil {
		return false
	}
	t.hear(m.at)
	var ended bool
	var err error
	if m.utf8 {
		ended, err = t.listen(m.at, s.from.dialect, m.payload)
	} else {
		ended, err = t.recv.hear(m.at, said{sound: m.payload}, &t.told)
	}
	if ended || err != nil {
		s.finish(err)
	}
	return false
}

// exception classifies an error told in the stream. A container's Close is one, with its status as code; a connection to
// the container that broke is a reply that ended without its end.
func (b *Bidi) exception(kind string, payload []byte, heard bool) (sample.Outcome, string, error) {
	var v struct{ Message, ErrorCode string }
	if json.Unmarshal(payload, &v) != nil {
		v.Message = string(payload)
	}
	if kind == "ModelStreamError" {
		if v.ErrorCode == "StreamBroken" {
			return "", "", io.ErrUnexpectedEOF
		}
		if code, err := strconv.Atoi(v.ErrorCode); err == nil {
			o, cause := hangUp(websocket.CloseError{Code: websocket.StatusCode(code), Reason: v.Message}, b.dialect.end, heard)
			return o, cause, nil
		}
	}
	message := clean(v.Message)
	if v.ErrorCode != "" {
		message = v.ErrorCode + ": " + message
	}
	o, cause := service(kind, message, http.StatusInternalServerError)
	return o, cause, nil
}
