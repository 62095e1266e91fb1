package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"loadline/internal/duplex"
)

// Bidirectional streams: what a caller sends is messages in signed envelopes, messages themselves; what it gets is
// messages as they are.

// partOf is the headers of a part, by its type and its state.
var partOf = func() (h [2][2][]byte) {
	for i, kind := range []string{"BINARY", "UTF8"} {
		for j, state := range []string{"COMPLETE", "PARTIAL"} {
			h[i][j] = eventHeaders(":message-type", "event", ":event-type", "PayloadPart", ":content-type", "application/octet-stream",
				"DataType", kind, "CompletionState", state)
		}
	}
	return h
}()

// AppendPart encodes a part.
func AppendPart(b []byte, p duplex.Part) []byte {
	var i, j int
	if p.Text {
		i = 1
	}
	if p.Partial {
		j = 1
	}
	headers := partOf[i][j]
	from := len(b)
	b = slices.Grow(b, preludeLen+len(headers)+len(p.Bytes)+4)[:from+preludeLen]
	b = append(append(b, headers...), p.Bytes...)
	b = append(b, 0, 0, 0, 0)
	frame(b[from:], len(headers), len(p.Bytes))
	return b
}

// StreamFault is the message that ends a stream with an error which its operation does not name.
func StreamFault(f *Fault) []byte {
	headers := eventHeaders(":message-type", "error", ":error-code", f.Code, ":error-message", f.Message)
	b := make([]byte, preludeLen, preludeLen+len(headers)+4)
	b = append(b, headers...)
	return frame(b[:cap(b)], len(headers), 0)
}

// Envelope is a signed message. One without a payload ends the stream.
type Envelope struct {
	Date      time.Time
	Signed    []byte // its headers but for the signature, as they are signed
	Signature []byte
	Payload   []byte
}

// Envelopes reads envelopes off a request's body.
type Envelopes struct {
	from io.Reader
	buf  []byte
	in   *eventstream.Decoder
}

// NewEnvelopes reads from r.
func NewEnvelopes(r io.Reader) *Envelopes {
	return &Envelopes{from: r, in: eventstream.NewDecoder()}
}

const mostEvent = 16 << 20

// Next is the next envelope, whose payload is good until the one after it is asked for; io.EOF where the body ends
// between two, a Fault where it is none.
func (e *Envelopes) Next() (Envelope, error) {
	e.buf = slices.Grow(e.buf[:0], preludeLen)[:preludeLen]
	if _, err := io.ReadFull(e.from, e.buf); err != nil {
		return Envelope{}, err
	}
	total := binary.BigEndian.Uint32(e.buf)
	if total < preludeLen+4 || total > mostEvent {
		return Envelope{}, Refuse(Serialization, "an event of %d bytes", total)
	}
	e.buf = slices.Grow(e.buf, int(total)-preludeLen)[:total]
	if _, err := io.ReadFull(e.from, e.buf[preludeLen:]); err != nil {
		return Envelope{}, err
	}
	m, err := e.in.Decode(bytes.NewReader(e.buf), nil)
	if err != nil {
		return Envelope{}, Refuse(Serialization, "an event that cannot be read: %v", err)
	}
	date, dated := m.Headers.Get(":date").(eventstream.TimestampValue)
	signature, signed := m.Headers.Get(":chunk-signature").(eventstream.BytesValue)
	if !dated || !signed {
		return Envelope{}, Refuse(NoSignature, "an event without :date and :chunk-signature")
	}
	m.Headers.Del(":chunk-signature")
	var headers bytes.Buffer
	if err := eventstream.EncodeHeaders(&headers, m.Headers); err != nil {
		return Envelope{}, Refuse(Serialization, "an event that cannot be read: %v", err)
	}
	return Envelope{time.Time(date), headers.Bytes(), signature, m.Payload}, nil
}

// Part is what an envelope's payload holds; a Fault where it is no part.
func (e Envelope) Part() (duplex.Part, error) {
	m, err := eventstream.NewDecoder().Decode(bytes.NewReader(e.Payload), nil)
	if err != nil {
		return duplex.Part{}, Refuse(Serialization, "an event that cannot be read: %v", err)
	}
	text := func(name string) string {
		if v, ok := m.Headers.Get(name).(eventstream.StringValue); ok {
			return string(v)
		}
		return ""
	}
	if kind, name := text(":message-type"), text(":event-type"); kind != "event" || name != "PayloadPart" {
		return duplex.Part{}, Refuse(InputValidation, "an event of type %q is not PayloadPart", name)
	}
	p := duplex.Part{Bytes: m.Payload}
	switch v := text("DataType"); v {
	case "UTF8":
		p.Text = true
	case "BINARY", "":
	default:
		return p, Refuse(InputValidation, "DataType is %q: it is UTF8 or BINARY", v)
	}
	switch v := text("CompletionState"); v {
	case "PARTIAL":
		p.Partial = true
	case "COMPLETE", "":
	default:
		return p, Refuse(InputValidation, "CompletionState is %q: it is PARTIAL or COMPLETE", v)
	}
	return p, nil
}

// WithCode is the fault with the ErrorCode that errors of bidirectional streams carry.
func (f *Fault) WithCode() *Fault {
	if f.More == nil {
		f.More = map[string]any{}
	}
	f.More["ErrorCode"] = f.Code
	return f
}
