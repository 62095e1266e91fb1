package transport

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"strings"
	"time"

	"loadline/internal/audio"
	"loadline/internal/sample"
)

// maxEvent is the longest event or message that is read: 24 MiB hold minutes of sound in base64.
const maxEvent = 24 << 20

// eventStream cuts a stream of server-sent events into them, however its bytes are cut (WHATWG HTML, 9.2.5 and 9.2.6).
type eventStream struct {
	line    []byte // begun and not ended
	cr      bool   // the last byte was a carriage return: a line feed after it ends nothing
	began   bool   // a line was read: a byte order mark is no longer passed over
	name    []byte
	data    []byte
	hasData bool
}

// write takes bytes and hands over the events that they complete. Their slices hold until it is called again.
func (e *eventStream) write(b []byte, event func(name string, data []byte) error) error {
	for len(b) > 0 {
		if e.cr && b[0] == '\n' {
			e.cr, b = false, b[1:]
			continue
		}
		e.cr = false
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			e.line = append(e.line, b...)
			return e.bounded()
		}
		line := b[:i]
		if len(e.line) > 0 {
			e.line = append(e.line, line...)
			line = e.line
		}
		e.cr = b[i] == '\r'
		b = b[i+1:]
		if err := e.take(line, event); err != nil {
			return err
		}
		e.line = e.line[:0]
	}
	return nil
}

func (e *eventStream) bounded() error {
	if len(e.line)+len(e.data) > maxEvent {
		return fmt.Errorf("%w: an event of more than %d bytes", errFrame, maxEvent)
	}
	return nil
}

// take reads one line.
func (e *eventStream) take(line []byte, event func(string, []byte) error) error {
	if !e.began {
		e.began = true
		line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
	}
	if len(line) == 0 {
		name, data, has := string(e.name), e.data, e.hasData
		e.name, e.data, e.hasData = e.name[:0], e.data[:0], false
		if !has && name == "" {
			return nil
		}
		return event(name, data)
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		e.name = append(e.name[:0], value...)
	case "data":
		if e.hasData {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
		e.hasData = true
	}
	return e.bounded()
}

// left is how many bytes of an event that was never completed there are.
func (e *eventStream) left() int {
	n := len(e.line) + len(e.data)
	if e.hasData {
		n += len("data:")
	}
	return n
}

// isEvents says whether a content type is that of server-sent events.
func isEvents(contentType string) bool {
	name, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		name, _, _ = strings.Cut(contentType, ";")
	}
	return strings.EqualFold(strings.TrimSpace(name), "text/event-stream")
}

// linger is how long a stream of events may stay open after its last one.
const linger = 250 * time.Millisecond

// events takes a body of server-sent events to its end, or to its last event where it stays open after that. All events of
// one read share its stamp. How the reply failed, if it did, is in the record.
func (r *receiver) events(body io.Reader, d dialect, hangUp func()) error {
	var stream eventStream
	var told tally
	rec, ended := r.rec, false
	var timer *time.Timer
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		n, err := body.Read(r.buf[:])
		if n > 0 && rec.Outcome == "" {
			at := r.call.Clock()
			wrong := stream.write(r.buf[:n], func(name string, data []byte) error {
				if ended || rec.Outcome != "" {
					return nil // after its end, only services' farewells
				}
				s, err := d.read(name, data)
				if err != nil {
					return err
				}
				var over bool
				over, err = r.hear(at, s, &told)
				if over {
					ended, r.ended = true, at
					timer = time.AfterFunc(linger, hangUp)
				}
				return err
			})
			if wrong != nil {
				return wrong
			}
		}
		switch {
		case err == nil:
		case ended:
			return nil
		case err != io.EOF:
			return err
		case stream.left() > 0:
			rec.Outcome, rec.Cause = sample.Truncated, fmt.Sprintf("truncated: %d bytes left of an event that never ended", stream.left())
			return nil
		case d.end == EndClose:
			return nil
		default:
			rec.Outcome, rec.Cause = sample.Truncated, "truncated: the stream of events ended without the event that says so"
			if told.bytes == 0 {
				rec.Outcome, rec.Cause = sample.Empty, "a stream of events without sound, and without an end"
			}
			return nil
		}
	}
}

// hear takes what a message says, and says whether the reply is over by it.
func (r *receiver) hear(at sample.Nanos, s said, t *tally) (over bool, err error) {
	if s.rate > 0 && t.bytes == 0 {
		r.retype(fmt.Sprintf("audio/pcm;rate=%d", s.rate))
	}
	if len(s.sound) > 0 {
		t.bytes += int64(len(s.sound))
		if err := r.take(at, s.sound); err != nil {
			return true, err
		}
	}
	switch {
	case s.outcome != "":
		r.rec.Outcome, r.rec.Cause = s.outcome, s.cause
		if sink, ok := r.call.Sink.(waiter); ok && s.after > 0 {
			sink.RetryAfter(s.after)
		}
		return true, nil
	case s.end:
		if why := t.whole(s, r.meter.Frames()); why != "" {
			r.rec.Outcome, r.rec.Cause = sample.Truncated, why
		}
		return true, nil
	}
	if s.sentences != nil {
		t.sentences = s.sentences
	}
	return false, nil
}

// retype says, before its first byte, what the sound will be.
func (r *receiver) retype(contentType string) {
	r.meter.Start(r.payload, contentType)
	if s, ok := r.call.Sink.(interface{ ContentType(string) }); ok {
		s.ContentType(contentType)
	}
}

// payloadIn is what the sound inside messages is taken for while nothing is said of it: raw PCM, unless its first bytes
// are those of a container.
func payloadIn(p audio.Payload) string {
	if p != audio.Sound {
		return ""
	}
	return "application/octet-stream"
}
