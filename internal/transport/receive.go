package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"loadline/internal/audio"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// receiver turns the pieces of a reply body into the record. It is big and used again.
type receiver struct {
	meter   audio.Meter
	payload audio.Payload
	call    load.Call
	rec     *sample.Request
	ended   sample.Nanos // by its last event, None where its end is that of the body

	buf  [4 << 10]byte
	long []byte // a message of a response stream that buf cannot hold
}

var receivers = sync.Pool{New: func() any { return new(receiver) }}

// errSink marks a failure to pass the body on, which is ours.
var errSink = errors.New("could not save the reply")

func newReceiver(c load.Call, rec *sample.Request, p audio.Payload, contentType string) *receiver {
	r := receivers.Get().(*receiver)
	r.call, r.rec, r.payload, r.ended = c, rec, p, sample.None
	rec.Outcome, rec.Cause = "", ""
	r.retype(contentType)
	return r
}

// take records bytes of the body that arrived at the given time.
func (r *receiver) take(at sample.Nanos, b []byte) error {
	r.meter.Write(at, b)
	if r.call.KeepChunks {
		r.rec.Chunks = append(r.rec.Chunks, sample.Chunk{At: at, Bytes: len(b)})
	}
	if r.call.Sink != nil {
		if _, err := r.call.Sink.Write(b); err != nil {
			return fmt.Errorf("%w: %w", errSink, err)
		}
	}
	return nil
}

// read takes a body as it is, to its end.
func (r *receiver) read(body io.Reader) error {
	for {
		n, err := body.Read(r.buf[:])
		if n > 0 {
			if err := r.take(r.call.Clock(), r.buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// done ends the record with what was heard, or with the err that broke the reply off, and gives the receiver back.
func (r *receiver) done(ctx context.Context, ex *exchange, err error) {
	rec := ex.rec
	rec.End = ex.clock()
	if r.ended.Known() {
		rec.End = r.ended
	}
	h := r.meter.End()
	rec.FirstByte, rec.FirstAudio, rec.FirstAudible = h.FirstByte, h.FirstAudio, h.FirstAudible
	rec.Bytes, rec.Audio, rec.Stall = h.Bytes, h.Seconds, h.Stall
	switch {
	case rec.Outcome != "": // said by the stream itself
	case err != nil:
		rec.Outcome, rec.Cause = broken(ctx, err, progress(rec))
	default:
		rec.Outcome, rec.Cause = h.Outcome, h.Cause
		if h.Outcome == sample.ModelError {
			if code, message := errorBody(h.Error); code+message != "" {
				rec.Cause += ": " + strings.TrimPrefix(code+": "+message, ": ")
			}
		}
	}
	if rec.Outcome == sample.OK && rec.Check() != nil {
		rec.Outcome, rec.Cause = sample.ProtocolError, "impossible times: out of order, or audio in no time at all"
	}
	r.call, r.rec = load.Call{}, nil
	receivers.Put(r)
}
