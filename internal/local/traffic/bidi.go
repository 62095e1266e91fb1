package traffic

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"loadline/internal/duplex"
	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// InvokeEndpointWithBidirectionalStream has a door of its own, as in AWS: HTTP/2 over TLS. Behind it the platform opens
// a WebSocket to the container and carries over what comes, as package duplex says.

const (
	bidiAction = "invocations-bidirectional-stream" // of the endpoint, and the container's path unless the caller names one
	bidiName   = "sagemaker:InvokeEndpointWithBidirectionalStream"
)

var (
	pathForm  = regexp.MustCompile(`^[A-Za-z0-9\-._]+(?:/[A-Za-z0-9\-._]+)*$`)
	queryForm = regexp.MustCompile(`^[A-Za-z0-9\-._~%+!$'()*,;:@/?]+=[A-Za-z0-9\-._~%+!$'()*,;:@/?=]*(?:&[A-Za-z0-9\-._~%+!$'()*,;:@/?]+=[A-Za-z0-9\-._~%+!$'()*,;:@/?=]*)*$`)
)

const (
	mostPath  = 100
	mostQuery = 2048
)

// ServeBidi serves /endpoints/NAME/invocations-bidirectional-stream.
func (t *Traffic) ServeBidi(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Amzn-Requestid", service.RequestID())
	iv := &invocation{t: t, w: w, r: r, began: t.cfg.Now()}
	name, action, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/endpoints/"), "/")
	if r.Method != http.MethodPost || action != bidiAction {
		iv.refuse(t.cfg.Absent.Refuse(r))
		return
	}
	target, err := t.admitBidi(r)
	if err != nil {
		iv.refuse(bidiFault(err))
		return
	}
	in := events{wire.NewEnvelopes(r.Body), t.cfg.Access.Chain(r)}
	rt := (*t.routes.Load())[name]
	if rt == nil {
		iv.refuse(bidiFault(t.noEndpoint(name)))
		return
	}
	if f := iv.route(rt, ""); f != nil { // this operation asks no component
		iv.refuse(bidiFault(f))
		return
	}
	s := &relay{now: t.cfg.Now}
	defer iv.leaveBidi(s)
	box, first := iv.upgrade(target)
	if box == nil {
		return
	}
	h := w.Header()
	h.Set("X-Amzn-Invoked-Production-Variant", iv.variant.name)
	h.Set("Content-Type", "application/vnd.amazon.eventstream")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	if out.Flush() != nil { // before anything is read: a caller may wait for it before it sends
		box.Close()
		return
	}
	iv.count.status = http.StatusOK
	s.box, s.frames, s.out, s.flush = box, duplex.NewReader(box, first), w, out
	s.start(t.cfg.Streams)
	stop := context.AfterFunc(r.Context(), func() { s.step((*duplex.Session).Left) })
	defer stop()
	t.listeners.Go(func() { s.listen(in.next) }) // it ends soon after the handler does, which closes the body
	s.run()
}

// admitBidi refuses a call that is not signed, is denied, draws a fault, or asks for what the platform does not take. It
// is the path and query that the container is asked by.
func (t *Traffic) admitBidi(r *http.Request) (target string, err error) {
	if err := t.cfg.Access.Admit(r, nil, bidiName); err != nil {
		return "", err
	}
	path := cmp.Or(r.Header.Get("X-Amzn-Sagemaker-Model-Invocation-Path"), bidiAction)
	query := r.Header.Get("X-Amzn-Sagemaker-Model-Query-String")
	switch {
	case len(path) > mostPath || !pathForm.MatchString(path):
		return "", wire.Refuse(wire.InputValidation, "ModelInvocationPath %q does not match %s, at most %d characters: it has no leading slash.", path, pathForm, mostPath)
	case query != "" && (len(query) > mostQuery || !queryForm.MatchString(query)):
		return "", wire.Refuse(wire.InputValidation, "ModelQueryString %q is not key=value&key=value, at most %d characters.", query, mostQuery)
	case query != "":
		query = "?" + query
	}
	return "/" + path + query, nil
}

// bidiFault is an error by the names that this operation has for it.
func bidiFault(err error) *wire.Fault {
	var f *wire.Fault
	if !errors.As(err, &f) {
		f = wire.Refuse(wire.InternalError, "%v", err)
	}
	switch f.Code {
	case wire.ValidationError:
		f.Code = wire.InputValidation
	case wire.InternalFailure:
		f.Code = wire.InternalError
	case wire.ServiceUnavailable, wire.Unavailable:
		f.Code = wire.StreamUnavailable
	}
	return f.WithCode()
}

// upgrade opens the WebSocket to the container; first is what came behind its answer. nil: it has told the caller why
// there is none.
func (iv *invocation) upgrade(target string) (box net.Conn, first []byte) {
	ctx, cancel := context.WithTimeoutCause(iv.r.Context(), unaryLimit, errTooLong)
	defer cancel()
	iv.sent = iv.t.cfg.Now()
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", iv.instance.box.Addr())
	if err != nil {
		iv.broke(ctx, err)
		return nil, nil
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	in := bufio.NewReader(conn)
	resp, err := askUpgrade(conn, in, iv.instance.box.Addr(), target, iv.w.Header().Get("X-Amzn-Requestid"))
	if stopped := stop(); err == nil && !stopped {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		iv.broke(ctx, err)
		return nil, nil
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		iv.count.status = resp.StatusCode
		_ = conn.SetReadDeadline(time.Now().Add(errorLimit)) // of the error's text
		iv.refused(resp)
		conn.Close()
		return nil, nil
	}
	first, _ = in.Peek(in.Buffered()) // what is there can be peeked at
	return conn, first
}

// askUpgrade does the opening handshake of RFC 6455. The answer's status is for the caller to look at.
func askUpgrade(conn io.Writer, in *bufio.Reader, host, target, id string) (*http.Response, error) {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // it never fails
	key := base64.StdEncoding.EncodeToString(nonce)
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: %s\r\nX-Amzn-SageMaker-Request-Id: %s\r\n\r\n", target, host, key, id)
	if err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodGet})
	if err != nil {
		return nil, err
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	if resp.StatusCode == http.StatusSwitchingProtocols && resp.Header.Get("Sec-WebSocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]) {
		return nil, errors.New("the answer to the upgrade has the wrong Sec-WebSocket-Accept")
	}
	return resp, nil
}

// leaveBidi counts the session at its end: one invocation, whatever was said in it.
func (iv *invocation) leaveBidi(s *relay) {
	now := iv.t.cfg.Now()
	iv.variant.leave(iv.instance, now)
	c := &iv.count
	c.aborted = iv.r.Context().Err() != nil && !s.told
	if s.failed {
		c.status = 0
	}
	iv.variant.meter.count(now, *c)
	iv.variant.meter.session(now, iv.began, s)
}
