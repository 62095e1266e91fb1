package transport

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"loadline/internal/audio"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// HTTPOptions says what is asked of an HTTP server.
type HTTPOptions struct {
	Net
	URL     string // with http or https; user and password in it are sent as basic authentication
	Method  string // POST when ""
	Header  http.Header
	Body    Template // the kokoro body when zero
	Payload audio.Payload

	Events bool   // the reply must be server-sent events, whose sound is base64; where it is not, one that is so is understood all the same
	End    string // of a reply in events: EndKnown, EndClose, or the message that ends it
}

// HTTP asks any server that streams its reply over HTTP.
type HTTP struct {
	pool    *pool
	head    head         // of what is sent without net/http
	request http.Request // all but the body
	body    Template
	payload audio.Payload
	events  bool
	dialect dialect
}

var _ load.Transport = (*HTTP)(nil)

// NewHTTP checks the options. It connects to nothing yet.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("url %q: want http://host[:port]/path or https://…", RecordURL(o.URL))
	}
	switch {
	case o.Version == HTTP2 && u.Scheme != "https":
		return nil, fmt.Errorf("url %q: HTTP/2 is negotiated over TLS: use https, or h2c for an unencrypted server", RecordURL(o.URL))
	case o.Version == H2C && u.Scheme != "http":
		return nil, fmt.Errorf("url %q: h2c is unencrypted: use http, or 2 for HTTP/2 over TLS", RecordURL(o.URL))
	}
	p, err := newPool(o.Net)
	if err != nil {
		return nil, err
	}
	if o.Body.parts == nil {
		o.Body, _ = ParseTemplate(BodyKokoro)
	}
	header := http.Header{}
	for k, v := range o.Header {
		header[http.CanonicalHeaderKey(k)] = v
	}
	for k, v := range map[string]string{"Content-Type": o.Body.ContentType(), "User-Agent": "loadline"} {
		if header.Get(k) == "" {
			header.Set(k, v)
		}
	}
	if o.Events && header.Get("Accept") == "" {
		header.Set("Accept", "text/event-stream")
	}
	h := &HTTP{pool: p, body: o.Body, payload: cmp.Or(o.Payload, audio.Sound), events: o.Events}
	h.dialect = dialect{end: o.End, events: true, payload: h.payload}
	h.request = http.Request{Method: cmp.Or(o.Method, http.MethodPost), URL: u, Host: u.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if user := u.User; user != nil {
		password, _ := user.Password()
		h.request.SetBasicAuth(user.Username(), password)
		u.User = nil
	}
	if h.head, err = newHead(&h.request); err != nil {
		return nil, err
	}
	return h, nil
}

// RecordURL is a URL as it may be written down: without user, password, query and fragment.
func RecordURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		before, _, _ := strings.Cut(s, "?")
		if i := strings.LastIndexByte(before, '@'); i >= 0 {
			before = before[i+1:]
		}
		return before
	}
	u.User, u.RawQuery, u.Fragment, u.ForceQuery = nil, "", "", false
	return u.String()
}

// Policy says how the transport connects.
func (h *HTTP) Policy() string { return h.pool.policy }

// PeerStreams is the most HTTP/2 streams that the server allows a connection, 0 where that is not known.
func (h *HTTP) PeerStreams() int { return h.pool.PeerStreams() }

// Close gives up the idle connections.
func (h *HTTP) Close() error { return h.pool.close() }

// Do sends one request and reads its reply to the end.
func (h *HTTP) Do(ctx context.Context, c load.Call, rec *sample.Request) {
	asked, hangUp := ctx, func() {}
	if h.events { // a stream that stays open after its last event is given up
		asked, hangUp = context.WithCancel(ctx)
		defer hangUp()
	}
	ex, resp, err := h.ask(asked, c, rec)
	ex.stamp()
	if err != nil {
		ex.fail(ctx, err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		if err != nil {
			ex.fail(ctx, err)
			return
		}
		io.CopyN(io.Discard, resp.Body, maxErrorBody) // so that the connection can be used again
		rec.End = c.Clock()
		rec.Bytes = int64(len(answer))
		rec.Outcome, rec.Cause = refused(resp.StatusCode, answer, resp.Header.Get("Location"))
		tellWait(c, resp.Header, answer)
		return
	}
	contentType := resp.Header.Get("Content-Type")
	switch events := isEvents(contentType); {
	case events:
		r := newReceiver(c, rec, h.payload, payloadIn(h.payload))
		r.done(ctx, ex, r.events(resp.Body, h.dialect, hangUp))
	case h.events:
		rec.End = c.Clock()
		rec.Outcome, rec.Cause = sample.ProtocolError, fmt.Sprintf("not a stream of events: content type %q", clean(contentType))
	default:
		r := newReceiver(c, rec, h.payload, contentType)
		r.done(ctx, ex, r.read(resp.Body))
	}
}

// ask sends the request and gets the head of its reply.
func (h *HTTP) ask(ctx context.Context, c load.Call, rec *sample.Request) (*exchange, *http.Response, error) {
	body := h.body.Fill(c.Text.Body)
	if d := h.pool.direct(h.request.URL, len(body)); d != nil {
		ex := newExchange(c, rec)
		resp, err := d.send(ctx, ex, h.request.Method, h.head.request(body))
		return ex, resp, err
	}
	ex, traced := h.pool.begin(ctx, c, rec)
	req := h.request.WithContext(traced)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	resp, err := ex.send(h.pool.rt, req)
	return ex, resp, err
}

const maxErrorBody = 64 << 10
