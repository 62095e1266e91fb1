// Package duplex is the platform's side of a bidirectional stream: which WebSocket frames to a container the parts of a
// caller become, which parts its frames become, and how pings, limits and either side's leaving end the session.
//
// It reads no socket and no clock, and verifies no signature: whoever holds both ends says what came and when, and does
// what Session answers, in that order:
//
//	s := duplex.New(now, duplex.Rules{})
//	s.Part(duplex.Part{Bytes: text, Text: true})              // one frame to the container
//	s.Frame(now, duplex.Frame{Fin: true, Op: duplex.Binary})  // one part to the caller
//	s.Tick(s.Next())                                          // a ping
//
// The mapping is the one of the container contract for bidirectional streaming in the SageMaker AI developer guide; the
// frames are those of RFC 6455.
package duplex

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// Rules are the platform's times. The zero Rules are SageMaker's.
type Rules struct {
	Ping   time.Duration // from ping to ping; 0: 60 s
	Missed int           // pings in a row without an answer that end the session; 0: 5
	Limit  time.Duration // of the whole session; 0: 30 minutes
	Close  time.Duration // for the container to close once the caller has ended its input; 0: 10 s
}

// Part is one PayloadPart of either direction.
type Part struct {
	Bytes   []byte
	Text    bool // DataType UTF8; false is BINARY, and what has no DataType
	Partial bool // CompletionState PARTIAL: the message goes on in the next part
}

// Kind of a Step.
type Kind int

// The steps.
const (
	Send Kind = iota // Frame to the container
	Give             // Part to the caller
	Fail             // the exception ModelStreamError to the caller, of Code and Message: nothing follows it there
	Over             // end the caller's stream tidily
	Hang             // close the connection to the container: nothing follows it there
)

// Step is what is to be done.
type Step struct {
	Kind          Kind
	Frame         Frame
	Part          Part
	Code, Message string
}

// Codes of exceptions that are the platform's own; a container's Close gives its status as code.
const (
	Broken  = "StreamBroken"
	TooLong = "ModelInvocationTimeExceeded"
)

// Session is one stream. It is not safe for concurrent use, and not bigger than it must be: there are thousands.
type Session struct {
	rules   Rules
	limit   time.Time
	pingAt  time.Time
	closeBy time.Time // the container's Close is due; zero: the caller's input goes on
	missed  int       // pings sent since the last answer
	pings   uint32    // sent in all

	inside  bool // a fragmented message to the container
	outside Op   // type of the fragmented message from the container; 0: none
	over    bool
}

// New is a session whose container has answered the upgrade.
func New(now time.Time, r Rules) *Session {
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&r.Ping, time.Minute}, {&r.Limit, 30 * time.Minute}, {&r.Close, 10 * time.Second}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if r.Missed == 0 {
		r.Missed = 5
	}
	return &Session{rules: r, limit: now.Add(r.Limit), pingAt: now.Add(r.Ping)}
}

// Over says whether the session has ended.
func (s *Session) Over() bool { return s.over }

// Part takes a part from the caller: it is exactly one frame.
func (s *Session) Part(p Part) []Step {
	if s.over || !s.closeBy.IsZero() {
		return nil
	}
	op := Binary
	switch {
	case s.inside:
		op = Continuation
	case p.Text:
		op = Text
	}
	s.inside = p.Partial
	return []Step{{Kind: Send, Frame: Frame{Fin: !p.Partial, Op: op, Payload: p.Bytes}}}
}

// End takes the end of the caller's input: the container is told, and may say what it has left to say.
func (s *Session) End(now time.Time) []Step {
	if s.over || !s.closeBy.IsZero() {
		return nil
	}
	s.closeBy = now.Add(s.rules.Close)
	return []Step{{Kind: Send, Frame: closing(1000, "")}}
}

// Left takes that the caller is gone, or sends what cannot be read.
func (s *Session) Left() []Step {
	if s.over {
		return nil
	}
	s.over = true
	steps := []Step{{Kind: Hang}}
	if s.closeBy.IsZero() {
		steps = []Step{{Kind: Send, Frame: closing(1001, "the caller left")}, {Kind: Hang}}
	}
	return steps
}

// Broke takes that the connection to the container ended without a Close, or carried what is no WebSocket.
func (s *Session) Broke() []Step {
	if s.over {
		return nil
	}
	if !s.closeBy.IsZero() {
		return s.finish(Step{Kind: Over})
	}
	return s.fail(Broken, "The connection to the model broke before the stream ended.")
}

// Frame takes a frame from the container.
func (s *Session) Frame(now time.Time, f Frame) []Step {
	if s.over {
		return nil
	}
	if why := f.wrong(s.outside != 0); why != "" {
		steps := s.fail(Broken, "The model sent what is no WebSocket: "+why+".")
		return append([]Step{{Kind: Send, Frame: closing(1002, why)}}, steps...)
	}
	switch f.Op {
	case Ping:
		return []Step{{Kind: Send, Frame: Frame{Fin: true, Op: Pong, Payload: bytes.Clone(f.Payload)}}}
	case Pong:
		if len(f.Payload) == 4 && binary.BigEndian.Uint32(f.Payload) == s.pings { // an older one answers nothing
			s.missed = 0
		}
		return nil
	case Close:
		return s.closed(f)
	}
	op := f.Op
	if op == Continuation {
		op = s.outside
	} else if f.Fin && op == Text {
		if code, message, is := told(f.Payload); is {
			steps := s.fail(code, message)
			return append([]Step{{Kind: Send, Frame: closing(1000, "")}}, steps...)
		}
	}
	if s.outside = op; f.Fin {
		s.outside = 0
	}
	return []Step{{Kind: Give, Part: Part{Bytes: f.Payload, Text: op == Text, Partial: !f.Fin}}}
}

// closed takes the container's Close. What a caller is shown of status 1000 is not documented; here it is the tidy end.
func (s *Session) closed(f Frame) []Step {
	code, reason := f.Status()
	var steps []Step
	if s.closeBy.IsZero() { // else it is the answer to ours
		echo := f.Payload
		if len(echo) > 2 {
			echo = echo[:2]
		}
		steps = []Step{{Kind: Send, Frame: Frame{Fin: true, Op: Close, Payload: bytes.Clone(echo)}}}
	}
	if code == 1000 || code == 1005 || !s.closeBy.IsZero() {
		return append(steps, s.finish(Step{Kind: Over})...)
	}
	return append(steps, s.fail(strconv.Itoa(code), reason)...)
}

// told reads an error that a container tells in a text message.
func told(b []byte) (code, message string, is bool) {
	if !bytes.Contains(b, []byte(`"ModelStreamError"`)) {
		return "", "", false
	}
	var v struct {
		ModelStreamError *struct{ ErrorCode, Message string }
	}
	if json.Unmarshal(b, &v) != nil || v.ModelStreamError == nil {
		return "", "", false
	}
	return v.ModelStreamError.ErrorCode, v.ModelStreamError.Message, true
}

// Next is when Tick is due.
func (s *Session) Next() time.Time {
	next := s.pingAt
	if s.limit.Before(next) {
		next = s.limit
	}
	if !s.closeBy.IsZero() && s.closeBy.Before(next) {
		next = s.closeBy
	}
	return next
}

// Tick does what is due at now.
func (s *Session) Tick(now time.Time) []Step {
	switch {
	case s.over:
		return nil
	case !now.Before(s.limit):
		steps := s.fail(TooLong, fmt.Sprintf("The stream has reached the limit of %s.", minutes(s.rules.Limit)))
		return append([]Step{{Kind: Send, Frame: closing(1001, "time limit")}}, steps...)
	case !s.closeBy.IsZero() && !now.Before(s.closeBy):
		return s.finish(Step{Kind: Over})
	case now.Before(s.pingAt):
		return nil
	case s.missed >= s.rules.Missed:
		return s.fail(Broken, fmt.Sprintf("The model did not answer %d pings in a row.", s.missed))
	}
	s.pingAt = s.pingAt.Add(s.rules.Ping)
	s.missed++
	s.pings++
	return []Step{{Kind: Send, Frame: Frame{Fin: true, Op: Ping, Payload: binary.BigEndian.AppendUint32(nil, s.pings)}}}
}

func minutes(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return d.String()
}

func (s *Session) fail(code, message string) []Step {
	return s.finish(Step{Kind: Fail, Code: code, Message: message})
}

func (s *Session) finish(last Step) []Step {
	s.over = true
	return []Step{last, {Kind: Hang}}
}

// closing is a Close frame.
func closing(status int, reason string) Frame {
	if len(reason) > maxControl-2 {
		reason = reason[:maxControl-2]
		for !utf8.ValidString(reason) {
			reason = reason[:len(reason)-1]
		}
	}
	return Frame{Fin: true, Op: Close, Payload: append(binary.BigEndian.AppendUint16(nil, uint16(status)), reason...)}
}
