package service

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"loadline/internal/wire"
)

// MostBody is the most bytes that a request may have.
const MostBody = 2 << 20

// Front is where all services are called: it finds the service and the protocol of a request.
type Front struct {
	Services []Service
	// Admit refuses a call of an operation that is there, of which body is what came over the wire; nil lets it in.
	Admit  func(r *http.Request, body []byte, action string) error
	Absent *Absent
	Log    *log.Logger
}

// ServeHTTP answers a call.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := RequestID()
	w.Header().Set("X-Amzn-Requestid", id)
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MostBody))
	c := call{f, w, r, raw, nil}
	if err == nil {
		c.body, err = unpacked(r, raw)
	}
	if err != nil {
		c.answer(&wire.JSON, nil, wire.Refuse(wire.Serialization, "read the request: %v", err))
		return
	}
	contentType := r.Header.Get("Content-Type")
	if path, is := strings.CutPrefix(r.URL.Path, "/service/"); is {
		target, name, _ := strings.Cut(path, "/operation/")
		if s := f.find(func(s Service) bool { return s.CBOR && s.Target == target }); name != "" && s.CBOR {
			c.run(&wire.CBOR, s, name)
			return
		}
	}
	if header := r.Header.Get("X-Amz-Target"); header != "" {
		codec := &wire.JSON
		if strings.HasPrefix(contentType, wire.QueryJSON.ContentType) {
			codec = &wire.QueryJSON
		}
		target, name, _ := strings.Cut(header, ".")
		c.run(codec, f.find(func(s Service) bool { return s.Target == target }), name)
		return
	}
	if strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		form, _ := url.ParseQuery(string(c.body)) // what is no form names no action
		action, version := form.Get("Action"), form.Get("Version")
		s := f.find(func(s Service) bool { return s.Version != "" && s.Version == version })
		codec := wire.Query(s.Namespace, action, id)
		c.run(&codec, s, action)
		return
	}
	c.answer(&wire.JSON, nil, f.Absent.Refuse(r))
}

// find is the service that is meant; one without operations where there is none.
func (f *Front) find(is func(Service) bool) Service {
	if i := slices.IndexFunc(f.Services, is); i >= 0 {
		return f.Services[i]
	}
	return Service{}
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
	b, err := io.ReadAll(io.LimitReader(z, 4*MostBody))
	if len(b) == 4*MostBody {
		return nil, errors.New("the body is too large")
	}
	return b, err
}

// call is one call while it is answered.
type call struct {
	*Front
	w    http.ResponseWriter
	r    *http.Request
	raw  []byte // as it came
	body []byte // without its compression
}

// run runs an operation and writes its answer, unless the call is refused.
func (c *call) run(codec *wire.Codec, s Service, name string) {
	run := s.Operations[name]
	if run == nil {
		code := wire.UnknownOperation
		if codec.ContentType == "text/xml" {
			code = wire.InvalidAction
		}
		c.Absent.say(cmp.Or(c.r.Header.Get("X-Amz-Target"), s.Target+"."+name))
		c.answer(codec, nil, wire.Refuse(code, "%s %s is not part of this local account", s.Name, name))
		return
	}
	if err := c.Admit(c.r, c.raw, s.Name+":"+name); err != nil {
		c.answer(codec, nil, err)
		return
	}
	out, err := run(c.r.Context(), func(into any) error { return codec.Decode(c.body, into) })
	c.answer(codec, out, err)
}

func (c *call) answer(codec *wire.Codec, out any, err error) {
	status := http.StatusOK
	if err != nil {
		var f *wire.Fault
		if !errors.As(err, &f) {
			f = wire.Refuse(wire.InternalFailure, "%v", err)
			c.Log.Printf("internal failure: %v", err)
		}
		status, out = f.Status(), codec.Fault(c.w.Header(), f)
	}
	b, err := codec.Encode(out)
	if err != nil {
		c.Log.Printf("encode an answer: %v", err)
		status, b = http.StatusInternalServerError, nil
	}
	c.w.Header().Set("Content-Type", codec.ContentType)
	if codec.Header != nil {
		codec.Header(c.w.Header())
	}
	c.w.WriteHeader(status)
	_, _ = c.w.Write(b) // a caller that has left is not told anything
}

// Absent logs the operations that were asked for and are not here, each once. It is safe for concurrent use.
type Absent struct {
	Log  *log.Logger
	said sync.Map
}

// Refuse is the answer to a request that is no operation of any service.
func (a *Absent) Refuse(r *http.Request) *wire.Fault {
	name := r.Method + " " + r.URL.Path
	a.say(name)
	return wire.Refuse(wire.UnknownOperation, "%s is no operation of this local account", name)
}

func (a *Absent) say(name string) {
	if _, said := a.said.LoadOrStore(name, true); !said {
		a.Log.Printf("%s is not part of this local account: answered %s", name, wire.UnknownOperation)
	}
}

// RequestID is an id for a request.
func RequestID() string {
	var b [16]byte
	rand.Read(b[:])
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
