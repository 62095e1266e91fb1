package transport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"loadline/internal/audio"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// SageMakerOptions says which endpoint is asked, and how.
type SageMakerOptions struct {
	Net
	Endpoint string
	Variant  string // "" leaves the choice to the endpoint
	// Component is the inference component that is asked, by its name alone; "": the endpoint has none.
	Component string
	Invoke    bool // the whole reply at once (InvokeEndpoint) instead of the response stream

	Body             Template // the kokoro body when zero
	ContentType      string   // of the request; the body's own when ""
	Accept           string
	CustomAttributes string
	InferenceID      string
	Payload          audio.Payload
}

// SageMaker asks a SageMaker endpoint through the AWS SDK.
type SageMaker struct {
	pool   *pool
	client *sagemakerruntime.Client
	o      SageMakerOptions

	// building holds a token for each request that the SDK is putting together, which costs as much processor as all the
	// rest of it. Only half of the processors do that at once: the others read replies, so that a stamp does not wait.
	building chan struct{}
}

var _ load.Transport = (*SageMaker)(nil)

// NewSageMaker makes a transport from an SDK configuration: region, credentials and base endpoint are used, its HTTP
// client, retries and logging are not.
func NewSageMaker(cfg aws.Config, o SageMakerOptions) (*SageMaker, error) {
	if o.Endpoint == "" {
		return nil, errors.New("no endpoint named")
	}
	if cfg.Region == "" {
		return nil, errors.New("no region: give --region, or set AWS_REGION")
	}
	if cfg.Credentials == nil {
		return nil, errors.New("no credentials: configure a profile, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	p, err := newPool(o.Net)
	if err != nil {
		return nil, err
	}
	if o.Body.parts == nil {
		o.Body, _ = ParseTemplate(BodyKokoro)
	}
	o.ContentType = cmp.Or(o.ContentType, o.Body.ContentType())
	o.Payload = cmp.Or(o.Payload, audio.Sound)
	if o.Component != "" {
		o.Variant = "" // a component is of one variant
	}
	s := &SageMaker{pool: p, o: o, building: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	s.client = sagemakerruntime.NewFromConfig(cfg, func(c *sagemakerruntime.Options) {
		c.HTTPClient = sender{s}
		c.Retryer = aws.NopRetryer{}
		c.ClientLogMode = 0
		c.APIOptions = append(c.APIOptions, takeStream)
	})
	return s, nil
}

// Policy says how the transport connects.
func (s *SageMaker) Policy() string { return "AWS SDK for Go; " + s.pool.policy }

// Close gives up the idle connections.
func (s *SageMaker) Close() error { return s.pool.close() }

// Do sends one request and reads its reply to the end.
func (s *SageMaker) Do(ctx context.Context, c load.Call, rec *sample.Request) {
	ex, traced := s.pool.begin(ctx, c, rec)
	ex.awaitWritten()
	cl := &call{ex: ex, load: c, payload: s.o.Payload}
	traced = context.WithValue(traced, callKey{}, cl)
	body := s.o.Body.Fill(c.Text.Body)
	var err error
	s.building <- struct{}{}
	cl.building = true
	runtime.Gosched() // behind those whose reply waits to be read: the next to build would come before them
	if s.o.Invoke {
		cl.whole = true
		_, err = s.client.InvokeEndpoint(traced, &sagemakerruntime.InvokeEndpointInput{
			EndpointName: &s.o.Endpoint, TargetVariant: optional(s.o.Variant), InferenceComponentName: optional(s.o.Component), Body: body, ContentType: &s.o.ContentType,
			Accept: optional(s.o.Accept), CustomAttributes: optional(s.o.CustomAttributes), InferenceId: optional(s.o.InferenceID),
		})
	} else {
		_, err = s.client.InvokeEndpointWithResponseStream(traced, &sagemakerruntime.InvokeEndpointWithResponseStreamInput{
			EndpointName: &s.o.Endpoint, TargetVariant: optional(s.o.Variant), InferenceComponentName: optional(s.o.Component), Body: body, ContentType: &s.o.ContentType,
			Accept: optional(s.o.Accept), CustomAttributes: optional(s.o.CustomAttributes), InferenceId: optional(s.o.InferenceID),
		})
	}
	s.built(cl)
	ex.stamp()
	if ex.resp != nil {
		defer ex.resp.Body.Close()
	}
	if cl.stream != nil && err == nil {
		err = cl.events()
	}
	switch {
	case cl.recv != nil:
		cl.recv.done(ctx, ex, err)
	case err != nil:
		rec.End = c.Clock()
		rec.Outcome, rec.Cause = unanswered(ctx, err, rec.Status, progress(rec))
		if model := (*types.ModelError)(nil); errors.As(err, &model) {
			tellWait(c, nil, []byte(aws.ToString(model.OriginalMessage)))
		}
	default:
		rec.End, rec.Outcome, rec.Cause = c.Clock(), sample.ProtocolError, "the SDK gave no reply"
	}
}

// built gives the token of a request back once it is put together, or has failed to be.
func (s *SageMaker) built(cl *call) {
	if cl.building {
		cl.building = false
		<-s.building
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// unanswered classifies an error of the SDK that came before the first byte of a reply.
func unanswered(ctx context.Context, err error, status int, far string) (sample.Outcome, string) {
	var (
		model *types.ModelError
		send  *smithyhttp.RequestSendError
		api   smithy.APIError
		parse *smithy.DeserializationError
	)
	switch {
	case ctx.Err() != nil:
		return broken(ctx, err, far)
	case errors.As(err, &model):
		return container(int(aws.ToInt32(model.OriginalStatusCode)), []byte(aws.ToString(model.OriginalMessage)))
	case errors.As(err, &send):
		return broken(ctx, send.Err, far)
	case errors.As(err, &parse) && status/100 != 2: // an error page that is not the service's
		return refused(status, nil, "")
	case errors.As(err, &parse):
		return broken(ctx, parse.Err, far)
	case errors.As(err, &api):
		return service(api.ErrorCode(), api.ErrorMessage(), status)
	case status == 0:
		return sample.ClientFault, "the request was never sent: " + clean(lastPart(err.Error()))
	default:
		return sample.ServerError, clean(err.Error())
	}
}

type callKey struct{}

// call is what the SDK's stack and Do share of one request.
type call struct {
	ex       *exchange
	load     load.Call
	payload  audio.Payload
	whole    bool // the SDK reads the body itself
	building bool // it holds a token of SageMaker.building
	recv     *receiver
	stream   io.ReadCloser
}

// sender is the SDK's HTTP client. It returns once the request is written whole: the SDK closes the request body when
// the reply begins, and a server that answers at once would otherwise lose its connection to that.
type sender struct{ *SageMaker }

func (s sender) Do(req *http.Request) (*http.Response, error) {
	cl := req.Context().Value(callKey{}).(*call)
	resp, err := s.send(cl, req)
	if err != nil {
		return nil, err
	}
	if cl.whole && resp.StatusCode/100 == 2 {
		cl.named(resp.Header.Get("X-Amzn-Sagemaker-Custom-Attributes"))
		cl.recv = newReceiver(cl.load, cl.ex.rec, cl.payload, resp.Header.Get("Content-Type"))
		resp.Body = &metered{resp.Body, cl}
	}
	return resp, nil
}

func (s sender) send(cl *call, req *http.Request) (*http.Response, error) {
	if d := s.pool.direct(req.URL, int(req.ContentLength)); d != nil && req.ContentLength >= 0 {
		message := bytes.NewBuffer(make([]byte, 0, 1<<10+req.ContentLength))
		err := req.Write(message)
		s.built(cl)
		if err != nil {
			return nil, err
		}
		return d.send(req.Context(), cl.ex, req.Method, message.Bytes())
	}
	s.built(cl)
	resp, err := cl.ex.send(s.pool.rt, req)
	if err != nil {
		return nil, err
	}
	select {
	case <-cl.ex.wrote:
	case <-req.Context().Done():
	}
	return resp, nil
}

// metered records a body that somebody else reads.
type metered struct {
	io.ReadCloser
	call *call
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.ReadCloser.Read(b)
	if n > 0 {
		if err := m.call.recv.take(m.call.ex.clock(), b[:n]); err != nil {
			return n, err
		}
	}
	return n, err
}

// takeStream puts streamTaker in the place of the SDK's own reader of response streams, which decodes on two goroutines
// of its own and so cannot say when a part arrived.
func takeStream(stack *middleware.Stack) error {
	const theirs = "OperationEventStreamDeserializer"
	if _, ok := stack.Deserialize.Get(theirs); !ok {
		return nil
	}
	_, err := stack.Deserialize.Swap(theirs, streamTaker{})
	return err
}

type streamTaker struct{}

func (streamTaker) ID() string { return "LoadlineStream" }

func (streamTaker) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, md, err := next.HandleDeserialize(ctx, in)
	if err != nil {
		return out, md, err
	}
	result, ok := out.Result.(*sagemakerruntime.InvokeEndpointWithResponseStreamOutput)
	if !ok {
		return out, md, fmt.Errorf("response stream: unexpected result %T", out.Result)
	}
	cl := ctx.Value(callKey{}).(*call)
	cl.stream = out.RawResponse.(*smithyhttp.Response).Body
	cl.named(aws.ToString(result.CustomAttributes))
	cl.recv = newReceiver(cl.load, cl.ex.rec, cl.payload, aws.ToString(result.ContentType))
	return out, md, nil
}

// named takes the instance's name from a reply's custom attributes, where it gives one: "instance=i-0abc".
func (cl *call) named(attributes string) {
	if name, ok := strings.CutPrefix(attributes, "instance="); ok {
		cl.ex.rec.Server = clean(name)
	}
}

// events takes the parts of a response stream to its end. A part is stamped with the raw read that completed it.
func (cl *call) events() error {
	r := cl.recv
	in := messages{body: cl.stream, clock: cl.ex.clock, buf: r.buf[:], long: r.long}
	defer func() { r.long = in.long }()
	for {
		m, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch string(m.kind) {
		case "event":
			if string(m.name) == "PayloadPart" && len(m.payload) > 0 {
				if err := r.take(m.at, m.payload); err != nil {
					return err
				}
			}
		case "exception":
			cl.exception(string(m.name), m.payload)
			return nil
		case "error":
			cl.ex.rec.Outcome, cl.ex.rec.Cause = service(string(m.name), string(m.text), http.StatusInternalServerError)
			return nil
		}
	}
}

// exception ends the record with an error told in the middle of the stream.
func (cl *call) exception(kind string, payload []byte) {
	var v struct{ Message, ErrorCode string }
	if json.Unmarshal(payload, &v) != nil {
		v.Message = string(payload)
	}
	message := clean(v.Message)
	if v.ErrorCode != "" {
		message = v.ErrorCode + ": " + message
	}
	cl.ex.rec.Outcome, cl.ex.rec.Cause = service(kind, message, http.StatusInternalServerError)
}
