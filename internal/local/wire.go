package local

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"loadline/internal/wire"
)

// operation is one operation of a service, whatever the protocol: decode fills its input.
type operation func(l *Local, ctx context.Context, decode func(any) error) (any, error)

func op[In, Out any](f func(*Local, context.Context, *In) (*Out, error)) operation {
	return func(l *Local, ctx context.Context, decode func(any) error) (any, error) {
		in := new(In)
		if err := decode(in); err != nil {
			return nil, wire.Refuse(wire.Serialization, "%v", err)
		}
		return f(l, ctx, in)
	}
}

// service is a table of operations under the name that requests call it by.
type service struct {
	target string // of X-Amz-Target, or of the path
	ops    map[string]operation
}

// door is how a service is reached.
type door struct {
	*service
	name      string // in permissions: name:Operation
	version   string // of the query protocol; "": it does not speak it
	namespace string // of its XML
}

var doors = []door{
	{&sagemaker, "sagemaker", "", ""},
	{&autoscaling, "application-autoscaling", "", ""},
	{&cloudwatch, "cloudwatch", "2010-08-01", "http://monitoring.amazonaws.com/doc/2010-08-01/"},
	{&logging, "logs", "", ""},
	{&quotas, "servicequotas", "", ""},
	{&tokens, "sts", "2011-06-15", "https://sts.amazonaws.com/doc/2011-06-15/"},
	{&access, "iam", "2010-05-08", "https://iam.amazonaws.com/doc/2010-05-08/"},
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
	id := requestID()
	w.Header().Set("X-Amzn-Requestid", id)
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxControlBody))
	var body []byte
	if err == nil {
		body, err = unpacked(r, raw)
	}
	if err != nil {
		l.answer(w, &wire.JSON, nil, wire.Refuse(wire.Serialization, "read the request: %v", err))
		return
	}
	unsigned := l.verify(r, raw)
	contentType := r.Header.Get("Content-Type")
	if rest, isCBOR := strings.CutPrefix(r.URL.Path, "/service/"+cloudwatch.target+"/operation/"); isCBOR {
		l.call(w, r, &wire.CBOR, doorOf(func(d door) bool { return d.service == &cloudwatch }), rest, body, unsigned)
		return
	}
	if header := r.Header.Get("X-Amz-Target"); header != "" {
		c := &wire.JSON
		if strings.HasPrefix(contentType, wire.QueryJSON.ContentType) {
			c = &wire.QueryJSON
		}
		target, name, _ := strings.Cut(header, ".")
		l.call(w, r, c, doorOf(func(d door) bool { return d.target == target }), name, body, unsigned)
		return
	}
	if strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		form, _ := url.ParseQuery(string(body)) // what is no form names no action
		action, version := form.Get("Action"), form.Get("Version")
		d := doorOf(func(d door) bool { return d.version != "" && d.version == version })
		c := wire.Query(d.namespace, action, id)
		l.call(w, r, &c, d, action, body, unsigned)
		return
	}
	l.missing(r.Method + " " + r.URL.Path)
	l.answer(w, &wire.JSON, nil, wire.Refuse(wire.UnknownOperation, "%s %s is no operation of this local account", r.Method, r.URL.Path))
}

// doorOf is the service that is meant; one without operations where there is none.
func doorOf(is func(door) bool) door {
	if i := slices.IndexFunc(doors, is); i >= 0 {
		return doors[i]
	}
	return door{service: &service{}}
}

// unpacked is a body without its compression.
func unpacked(r *http.Request, raw []byte) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return raw, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(z, 4*maxControlBody))
	if len(b) == 4*maxControlBody {
		return nil, errors.New("the body is too large")
	}
	return b, err
}

// call runs an operation and writes its answer, unless the call is refused already.
func (l *Local) call(w http.ResponseWriter, r *http.Request, c *wire.Codec, d door, name string, body []byte, refused error) {
	run := d.ops[name]
	if run == nil {
		code := wire.UnknownOperation
		if c.ContentType == "text/xml" {
			code = wire.InvalidAction
		}
		l.missing(cmp.Or(r.Header.Get("X-Amz-Target"), d.target+"."+name))
		l.answer(w, c, nil, wire.Refuse(code, "%s %s is not part of this local account", d.name, name))
		return
	}
	action := d.name + ":" + name
	if refused == nil {
		refused = l.permitted(action)
	}
	if refused == nil {
		refused = l.spoilt(r, action)
	}
	if refused != nil {
		l.answer(w, c, nil, refused)
		return
	}
	out, err := run(l, r.Context(), func(into any) error { return c.Decode(body, into) })
	l.answer(w, c, out, err)
}

func (l *Local) answer(w http.ResponseWriter, c *wire.Codec, out any, err error) {
	status := http.StatusOK
	if err != nil {
		var f *wire.Fault
		if !errors.As(err, &f) {
			f = wire.Refuse(wire.InternalFailure, "%v", err)
			l.log.Printf("internal failure: %v", err)
		}
		status, out = f.Status(), c.Fault(w.Header(), f)
	}
	b, err := c.Encode(out)
	if err != nil {
		l.log.Printf("encode an answer: %v", err)
		status, b = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", c.ContentType)
	if c.Header != nil {
		c.Header(w.Header())
	}
	w.WriteHeader(status)
	_, _ = w.Write(b) // a caller that has left is not told anything
}

// missing logs an operation that is not here, once.
func (l *Local) missing(name string) {
	if _, said := l.unknown.LoadOrStore(name, true); !said {
		l.log.Printf("%s is not part of this local account: answered %s", name, wire.UnknownOperation)
	}
}

func requestID() string {
	var b [16]byte
	rand.Read(b[:])
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
