package local

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"
)

// fault is an answer that says no, by its AWS code; statuses says under which HTTP status each travels.
type fault struct {
	code, message string
	more          map[string]any // further members of the answer
}

func (f *fault) Error() string { return f.code + ": " + f.message }

func refuse(code, format string, args ...any) *fault {
	return &fault{code: code, message: fmt.Sprintf(format, args...)}
}

// The codes that are answered, and their statuses. CloudWatch's go over CBOR by the names of their shapes; query is the
// name that older protocols call them by, and that its SDKs show.
const (
	validationException = "ValidationException"
	limitExceeded       = "ResourceLimitExceeded"
	unknownOperation    = "UnknownOperationException"
	serialization       = "SerializationException"
	internalFailure     = "InternalFailure"

	objectNotFound   = "ObjectNotFoundException"
	invalidNextToken = "InvalidNextTokenException"
	concurrentUpdate = "ConcurrentUpdateException"

	validationError     = "ValidationError"
	modelError          = "ModelError"
	serviceUnavailable  = "ServiceUnavailable"
	streamError         = "ModelStreamError"
	requestEntityTooBig = "RequestEntityTooLarge"

	missingParameter    = "MissingRequiredParameterException"
	invalidValue        = "InvalidParameterValueException"
	invalidCombination  = "InvalidParameterCombinationException"
	cloudwatchNextToken = "InvalidNextToken"
	cloudwatchLimit     = "LimitExceededException"

	invalidAction = "InvalidAction"
)

var statuses = map[string]struct {
	status int
	query  string
}{
	validationException: {400, ""},
	limitExceeded:       {400, ""},
	unknownOperation:    {400, ""},
	serialization:       {400, ""},
	internalFailure:     {500, ""},

	objectNotFound:   {400, ""},
	invalidNextToken: {400, ""},
	concurrentUpdate: {500, ""},

	validationError:     {400, ""},
	modelError:          {424, ""},
	serviceUnavailable:  {503, ""},
	requestEntityTooBig: {413, ""},

	missingParameter:    {400, "MissingParameter"},
	invalidValue:        {400, "InvalidParameterValue"},
	invalidCombination:  {400, "InvalidParameterCombination"},
	cloudwatchNextToken: {400, ""},
	cloudwatchLimit:     {400, "LimitExceeded"},

	invalidAction: {400, ""},
}

// stamp is a time on the wire: seconds since 1970, with a fraction.
type stamp struct{ time.Time }

func (s stamp) seconds() float64 { return float64(s.UnixMilli()) / 1000 }

func (s stamp) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.3f", s.seconds()), nil }

func (s *stamp) UnmarshalJSON(b []byte) error {
	var v float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	return s.set(v)
}

func (s *stamp) set(seconds float64) error {
	if !(seconds >= 0 && seconds < 1e11) { // NaN too
		return fmt.Errorf("%v is not a time", seconds)
	}
	s.Time = time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
	return nil
}

// operation is one operation of a service, whatever the protocol: decode fills its input.
type operation func(l *Local, ctx context.Context, decode func(any) error) (any, error)

func op[In, Out any](f func(*Local, context.Context, *In) (*Out, error)) operation {
	return func(l *Local, ctx context.Context, decode func(any) error) (any, error) {
		in := new(In)
		if err := decode(in); err != nil {
			return nil, refuse(serialization, "%v", err)
		}
		return f(l, ctx, in)
	}
}

// service is a table of operations under the name that requests call it by.
type service struct {
	target string // of X-Amz-Target, or of the path
	ops    map[string]operation
}

// codec is one protocol's way of reading and writing.
type codec struct {
	contentType string
	decode      func(body []byte, into any) error
	encode      func(v any) ([]byte, error)
	header      func(h http.Header)
	fault       func(h http.Header, f *fault) any
}

var awsJSON = codec{
	contentType: "application/x-amz-json-1.1",
	decode:      decodeJSON,
	encode:      json.Marshal,
	fault: func(_ http.Header, f *fault) any {
		m := map[string]any{"__type": f.code, "message": f.message}
		for k, v := range f.more {
			m[k] = v
		}
		return m
	},
}

func decodeJSON(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	return json.Unmarshal(body, into)
}

const maxControlBody = 2 << 20

// ServeHTTP finds the service and the protocol of a request.
func (l *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !l.enter() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer l.inside.Done()
	if strings.HasPrefix(r.URL.Path, "/endpoints/") {
		l.serveRuntime(w, r)
		return
	}
	w.Header().Set("X-Amzn-Requestid", requestID())
	body, err := readControl(w, r)
	switch rest, isCBOR := strings.CutPrefix(r.URL.Path, "/service/"+cloudwatch.target+"/operation/"); {
	case err != nil:
		l.answer(w, &awsJSON, nil, refuse(serialization, "read the request: %v", err))
	case isCBOR:
		l.call(w, r, &rpcCBOR, &cloudwatch, rest, body)
	case r.Header.Get("X-Amz-Target") != "":
		target, name, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		for _, s := range []*service{&sagemaker, &autoscaling} {
			if s.target == target {
				l.call(w, r, &awsJSON, s, name, body)
				return
			}
		}
		l.missing(target + "." + name)
		l.answer(w, &awsJSON, nil, refuse(unknownOperation, "%s.%s is not part of this local account", target, name))
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded"):
		l.serveSTS(w, body)
	default:
		l.missing(r.Method + " " + r.URL.Path)
		l.answer(w, &awsJSON, nil, refuse(unknownOperation, "%s %s is no operation of this local account", r.Method, r.URL.Path))
	}
}

func readControl(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var body io.Reader = http.MaxBytesReader(w, r.Body, maxControlBody)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = z
	}
	b, err := io.ReadAll(io.LimitReader(body, 4*maxControlBody))
	if len(b) == 4*maxControlBody {
		return nil, errors.New("the body is too large")
	}
	return b, err
}

// call runs an operation and writes its answer.
func (l *Local) call(w http.ResponseWriter, r *http.Request, c *codec, s *service, name string, body []byte) {
	run := s.ops[name]
	if run == nil {
		l.missing(s.target + "." + name)
		l.answer(w, c, nil, refuse(unknownOperation, "%s.%s is not part of this local account", s.target, name))
		return
	}
	out, err := run(l, r.Context(), func(into any) error { return c.decode(body, into) })
	l.answer(w, c, out, err)
}

func (l *Local) answer(w http.ResponseWriter, c *codec, out any, err error) {
	status := http.StatusOK
	if err != nil {
		var f *fault
		if !errors.As(err, &f) {
			f = refuse(internalFailure, "%v", err)
			l.log.Printf("internal failure: %v", err)
		}
		status, out = statuses[f.code].status, c.fault(w.Header(), f)
	}
	b, err := c.encode(out)
	if err != nil {
		l.log.Printf("encode an answer: %v", err)
		status, b = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", c.contentType)
	if c.header != nil {
		c.header(w.Header())
	}
	w.WriteHeader(status)
	_, _ = w.Write(b) // a caller that has left is not told anything
}

// missing logs an operation that is not here, once.
func (l *Local) missing(name string) {
	if _, said := l.unknown.LoadOrStore(name, true); !said {
		l.log.Printf("%s is not part of this local account: answered %s", name, unknownOperation)
	}
}

func requestID() string {
	var b [16]byte
	rand.Read(b[:])
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
