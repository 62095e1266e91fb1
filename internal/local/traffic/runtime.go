package traffic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"loadline/internal/local/logs"
	"loadline/internal/local/service"
	"loadline/internal/wire"
)

const (
	unaryLimit  = 60 * time.Second // of a whole reply, and of a stream's headers
	streamLimit = 8 * time.Minute  // of a streamed reply
	errorLimit  = 2 * time.Second  // of the text of an error in place of a stream

	mostBody = 25 << 20

	// settleTime is between the end of a request's body and the first byte of its answer, at least. Go's SDK closes the
	// body as soon as it sees headers; on loopback they can come before its transport has read the body's end, and then
	// the transport gives the connection up, with the reply on it.
	settleTime = 2 * time.Millisecond

	// writeTime is how long a reader may leave what was written to it, or a quarter less.
	writeTime = time.Minute
)

var errTooLong = errors.New("the invocation took longer than the platform allows")

var buffers = sync.Pool{New: func() any { b := wire.NewPartBuffer(); return &b }}

// invocation is one call of the runtime while it is served.
type invocation struct {
	t        *Traffic
	w        http.ResponseWriter
	r        *http.Request
	began    time.Time // the whole request was here
	variant  *Pool
	instance *Instance
	sent     time.Time // to the container
	count    count
}

// ServeHTTP serves /endpoints/NAME/….
func (t *Traffic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Amzn-Requestid", service.RequestID())
	name, action, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/endpoints/"), "/")
	iv := &invocation{t: t, w: w, r: r}
	switch {
	case r.Method == http.MethodPost && action == "invocations":
		iv.invoke(name, false)
	case r.Method == http.MethodPost && action == "invocations-response-stream":
		iv.invoke(name, true)
	default:
		iv.refuse(t.cfg.Absent.Refuse(r))
	}
}

// noEndpoint refuses who asks an endpoint that is not there.
func (t *Traffic) noEndpoint(name string) *wire.Fault {
	return wire.Refuse(wire.ValidationError, "Endpoint %s of account %s not found.", name, t.cfg.Account.ID)
}

// route enters the request at an instance: of the component where one is named, else of the variant that the caller wants,
// else of one that is drawn.
func (iv *invocation) route(rt *Route, component string) *wire.Fault {
	iv.variant = rt.pick()
	if want := iv.r.Header.Get("X-Amzn-Sagemaker-Target-Variant"); want != "" {
		if iv.variant = rt.Variant(want); iv.variant == nil {
			return wire.Refuse(wire.ValidationError, "Variant %s not found for Request. Endpoint %s has no such variant.", want, rt.endpoint)
		}
	}
	if component != "" {
		if iv.variant = rt.Component(component); iv.variant == nil {
			return wire.Refuse(wire.ValidationError, "Inference Component Name %s not found for Endpoint %s.", component, rt.endpoint)
		}
	}
	if iv.variant == nil {
		return wire.Refuse(wire.ServiceUnavailable, "No variant of endpoint %s has a weight.", rt.endpoint)
	}
	iv.instance, iv.count.instances = iv.variant.enter(iv.began)
	switch {
	case iv.instance != nil:
		return nil
	case component != "":
		iv.variant.noCapacity.Observe(iv.began, 1, 1)
		return wire.Refuse(wire.ValidationError, "Inference Component has no capacity to process this request. ApplicationAutoScaling may be in-progress (if configured) or try to increase the capacity by invoking UpdateInferenceComponentRuntimeConfig API.")
	}
	return wire.Refuse(wire.ServiceUnavailable, "No instance of endpoint %s is in service.", rt.endpoint)
}

// invoke sends the request to an instance and relays its answer.
func (iv *invocation) invoke(name string, stream bool) {
	t, r := iv.t, iv.r
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody+1))
	iv.began = t.cfg.Now()
	rt := (*t.routes.Load())[name]
	switch {
	case err != nil:
		return // the caller left while it was sending
	case rt == nil:
		iv.refuse(t.noEndpoint(name))
		return
	case len(body) > mostBody:
		iv.refuse(wire.Refuse(wire.RequestEntityTooBig, "The body is longer than %d bytes.", mostBody))
		return
	}
	action, limit := "sagemaker:InvokeEndpoint", unaryLimit
	if stream {
		action, limit = "sagemaker:InvokeEndpointWithResponseStream", streamLimit
	}
	if err := t.cfg.Access.Admit(r, body, action); err != nil {
		var f *wire.Fault
		if !errors.As(err, &f) {
			f = wire.Refuse(wire.InternalFailure, "%v", err)
		}
		iv.refuse(f)
		return
	}
	if f := iv.route(rt, r.Header.Get("X-Amzn-Sagemaker-Inference-Component")); f != nil {
		iv.refuse(f)
		return
	}
	defer iv.leave()

	ctx, cancel := context.WithTimeoutCause(r.Context(), limit, errTooLong)
	defer cancel()
	resp, err := iv.send(ctx, body)
	if err != nil {
		iv.broke(ctx, err)
		return
	}
	defer resp.Body.Close()
	iv.count.status = resp.StatusCode
	switch {
	case resp.StatusCode/100 != 2:
		iv.refused(resp)
	case stream:
		iv.relay(ctx, resp)
	default:
		iv.whole(ctx, resp)
	}
}

// leave counts the invocation at its end.
func (iv *invocation) leave() {
	now := iv.t.cfg.Now()
	iv.variant.leave(iv.instance, now)
	c := &iv.count
	c.aborted = iv.r.Context().Err() != nil && !c.whole
	c.overhead = now.Sub(iv.began) - c.model
	iv.variant.meter.count(now, *c)
}

// answered is when the container's answer was whole.
func (iv *invocation) answered() {
	iv.count.whole, iv.count.model = true, iv.t.cfg.Now().Sub(iv.sent)
}

// forwarded are the headers that reach the container, returned those that come back from it.
var (
	forwarded = []string{"Content-Type", "Accept", "X-Amzn-Sagemaker-Custom-Attributes", "X-Amzn-Sagemaker-Inference-Id", "X-Amzn-Sagemaker-Session-Id"}
	returned  = []string{"X-Amzn-Sagemaker-Custom-Attributes", "X-Amzn-Sagemaker-New-Session-Id", "X-Amzn-Sagemaker-Closed-Session-Id"}
)

func (iv *invocation) send(ctx context.Context, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+iv.instance.box.Addr()+"/invocations", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range forwarded {
		if v := iv.r.Header[h]; v != nil {
			req.Header[h] = v
		}
	}
	if v := iv.r.Header["X-Amzn-Sagemaker-Accept"]; v != nil { // as the streaming call names it
		req.Header["Accept"] = v
	}
	iv.sent = iv.t.cfg.Now()
	return iv.instance.client.Do(req)
}

// settle waits until the caller's transport has surely seen the end of the request; see settleTime.
func (iv *invocation) settle() {
	if d := settleTime - iv.t.cfg.Now().Sub(iv.began); d > 0 {
		time.Sleep(d)
	}
}

// whole relays the answer of InvokeEndpoint. It is read to its end first: only then is it known to be one.
func (iv *invocation) whole(ctx context.Context, resp *http.Response) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		iv.count.status = 0
		iv.broke(ctx, err)
		return
	}
	iv.answered()
	iv.settle()
	iv.head(resp)
	iv.w.Header().Set("Content-Type", contentType(resp))
	iv.w.WriteHeader(http.StatusOK)
	_, _ = iv.w.Write(body) // a caller that has left is not told anything
}

// relay relays the answer of InvokeEndpointWithResponseStream, part by part as the container sends them.
func (iv *invocation) relay(ctx context.Context, resp *http.Response) {
	iv.settle()
	iv.head(resp)
	iv.w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	iv.w.Header().Set("X-Amzn-Sagemaker-Content-Type", contentType(resp))
	iv.w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(iv.w)
	if out.Flush() != nil {
		return
	}
	buf := buffers.Get().(*wire.PartBuffer)
	defer buffers.Put(buf)
	var renewed time.Time // the write deadline; a timer a part would be a waste
	for {
		message, err := buf.Read(resp.Body)
		if err != nil && err != io.EOF {
			message = append(message, iv.broken(ctx)...)
		}
		if len(message) > 0 {
			if now := time.Now(); now.Sub(renewed) > writeTime/4 {
				_ = out.SetWriteDeadline(now.Add(writeTime)) // what it cannot set, the write will show
				renewed = now
			}
			if _, werr := iv.w.Write(message); werr != nil || out.Flush() != nil {
				return // a caller that has left, or does not read
			}
		}
		if err != nil {
			if err == io.EOF {
				iv.answered()
			}
			return
		}
	}
}

// broken is the message that ends a stream whose container did not end it.
func (iv *invocation) broken(ctx context.Context) []byte {
	iv.count.status = 0
	if context.Cause(ctx) == errTooLong {
		return wire.Exception(wire.StreamError, "The model did not end its reply in time.", "ModelInvocationTimeExceeded")
	}
	return wire.Exception(wire.StreamError, "The connection to the model broke before its reply ended.", "StreamBroken")
}

func (iv *invocation) head(resp *http.Response) {
	h := iv.w.Header()
	h.Set("X-Amzn-Invoked-Production-Variant", iv.variant.name)
	for _, name := range returned {
		if v := resp.Header[name]; v != nil {
			h[name] = v
		}
	}
}

func contentType(resp *http.Response) string {
	if t := resp.Header.Get("Content-Type"); t != "" {
		return t
	}
	return "application/octet-stream"
}

// most bytes of a container's error that are quoted
const mostMessage = 8 << 10

// refused relays an answer of the container that is no success.
func (iv *invocation) refused(resp *http.Response) {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, mostMessage)) // what came of it is quoted
	whose := "server"
	if resp.StatusCode/100 == 4 {
		whose = "client"
	}
	f := wire.Refuse(wire.ModelError, "Received %s error (%d) from primary with message %q. See %s in account %s for more information.",
		whose, resp.StatusCode, body, iv.log().Group, iv.t.cfg.Account.ID)
	f.More = map[string]any{"OriginalStatusCode": resp.StatusCode, "OriginalMessage": string(body)}
	iv.modelFault(f)
}

// broke answers for a container that gave no answer.
func (iv *invocation) broke(ctx context.Context, err error) {
	if iv.r.Context().Err() != nil {
		return // the caller left: nobody is there to be told
	}
	message := "The connection to the container broke."
	var timeout interface{ Timeout() bool }
	if context.Cause(ctx) == errTooLong || errors.As(err, &timeout) && timeout.Timeout() {
		message = "Your invocation timed out while waiting for a response from container primary. Review the latency metrics for each container in Amazon CloudWatch, resolve the issue, and try again."
	}
	f := wire.Refuse(wire.ModelError, "Received server error (0) from primary with message %q. See %s in account %s for more information.",
		message, iv.log().Group, iv.t.cfg.Account.ID)
	f.More = map[string]any{"OriginalStatusCode": 0, "OriginalMessage": message}
	iv.modelFault(f)
}

// log is where the container's output goes.
func (iv *invocation) log() *logs.Output { return iv.instance.log }

func (iv *invocation) modelFault(f *wire.Fault) {
	f.More["LogStreamArn"] = iv.t.cfg.Account.ARN("logs", "log-group:"+iv.log().Group+":log-stream:"+iv.log().Stream)
	iv.refuse(f)
}

// refuse answers with an error of the runtime: its code in a header, its text in Message.
func (iv *invocation) refuse(f *wire.Fault) {
	if iv.began.IsZero() {
		iv.began = iv.t.cfg.Now()
	}
	m := map[string]any{"Message": f.Message}
	for k, v := range f.More {
		m[k] = v
	}
	b, err := json.Marshal(m)
	if err != nil {
		iv.t.cfg.Log.Printf("encode an error: %v", err)
	}
	iv.settle()
	iv.w.Header().Set("X-Amzn-Errortype", f.Code)
	iv.w.Header().Set("Content-Type", "application/json")
	iv.w.WriteHeader(f.Status())
	_, _ = iv.w.Write(b) // a caller that has left is not told anything
}
