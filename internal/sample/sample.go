// Package sample is the record of one request: when it was meant to start, when it did, when its first byte, first audio
// and end arrived, how it ended and why. Everything that measures writes these; everything that decides reads them.
//
// A time is a count of nanoseconds from the start of the run on the monotonic clock; a time that never came is None, and
// JSON null, never 0:
//
//	r := sample.New(7)
//	r.Started, r.FirstAudio, r.End = ms(10), ms(70), ms(90)
//	r.Outcome = sample.OK
//	r.Latency(sample.OnFirstAudio, sample.FromStarted) // 60 ms
//
// What counts as late, and what a rung of requests proves, is decided in packages stat and ladder.
package sample

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Nanos is a monotonic time in nanoseconds from the start of the run, or None.
type Nanos int64

// None is a time that never came.
const None Nanos = -1

// Since is the time of d after the start of the run.
func Since(d time.Duration) Nanos { return Nanos(d) }

// Known says whether the time came.
func (n Nanos) Known() bool { return n >= 0 }

// Duration is the time as an offset from the start of the run; meaningless unless Known.
func (n Nanos) Duration() time.Duration { return time.Duration(n) }

// MarshalJSON writes None as null.
func (n Nanos) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(int64(n))
}

// UnmarshalJSON reads null as None and refuses a negative time.
func (n *Nanos) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = None
		return nil
	}
	var v int64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if v < 0 {
		return fmt.Errorf("time %d ns lies before the start of the run", v)
	}
	*n = Nanos(v)
	return nil
}

// Outcome is how one request ended.
type Outcome string

// The outcomes. Rejected is a designed refusal (503 queue_saturated); ClientFault is this client's own failure and makes
// a rung invalid; every other outcome than OK counts as late.
const (
	OK            Outcome = "ok"
	Rejected      Outcome = "rejected"
	Throttled     Outcome = "throttled"
	Stale         Outcome = "stale"
	ModelError    Outcome = "model_error"
	ServerError   Outcome = "server_error"
	ClientError   Outcome = "client_error"
	Timeout       Outcome = "timeout"
	Truncated     Outcome = "truncated"
	Empty         Outcome = "empty"
	ProtocolError Outcome = "protocol_error"
	ClientFault   Outcome = "client_fault"
)

// Outcomes lists every outcome, OK first.
var Outcomes = []Outcome{OK, Rejected, Throttled, Stale, ModelError, ServerError, ClientError, Timeout, Truncated, Empty, ProtocolError, ClientFault}

// Chunk is one piece of the reply body as it was read: when, and how many bytes. JSON: [at_ns, bytes].
type Chunk struct {
	At    Nanos
	Bytes int
}

// MarshalJSON writes the chunk as a pair.
func (c Chunk) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "[%d,%d]", int64(c.At), c.Bytes), nil
}

// UnmarshalJSON reads the pair.
func (c *Chunk) UnmarshalJSON(b []byte) error {
	var v [2]int64
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("chunk: want [at_ns, bytes]: %w", err)
	}
	c.At, c.Bytes = Nanos(v[0]), int(v[1])
	return nil
}

// Request is one request, whole. Field names are those of the request log (one object a line).
type Request struct {
	Seq    int `json:"seq"`    // order of dispatch in the run, from 0
	Worker int `json:"worker"` // closed loop: which of the N held streams; open loop: -1
	Rung   int `json:"rung"`   // index of the rung in the run, from 0

	Intended     Nanos `json:"intended_ns"`      // when the schedule wanted it sent; closed loop: when its worker became free
	Started      Nanos `json:"started_ns"`       // when the client began to send it
	Conn         Nanos `json:"conn_ns"`          // when it held a connection (or stream)
	Headers      Nanos `json:"headers_ns"`       // reply headers
	FirstByte    Nanos `json:"first_byte_ns"`    // first byte of the reply body, WAV header included
	FirstAudio   Nanos `json:"first_audio_ns"`   // first audio sample after any header
	FirstAudible Nanos `json:"first_audible_ns"` // when the first sample above the threshold could be heard
	End          Nanos `json:"end_ns"`

	Chunks []Chunk `json:"chunks,omitempty"`
	Bytes  int64   `json:"bytes"`   // body bytes
	Audio  float64 `json:"audio_s"` // seconds of audio received
	Stall  float64 `json:"stall_s"` // seconds a listener at 1x would have waited after the first audio
	Chars  int     `json:"chars"`   // characters of text sent

	Text    TextID  `json:"text"`             // which text of which corpus; the text itself is never recorded
	Status  int     `json:"status,omitempty"` // HTTP status, 0 when none came
	Outcome Outcome `json:"outcome"`
	Cause   string  `json:"cause,omitempty"` // why, for any outcome but OK
	Reused  bool    `json:"reused_conn"`
	Server  string  `json:"server,omitempty"` // the instance that answered, where it names itself
}

// TextID names a text of a corpus without repeating it.
type TextID struct {
	Corpus string `json:"corpus"`
	Index  int    `json:"index"`
}

// New is a request whose times have not come.
func New(seq int) Request {
	return Request{Seq: seq, Worker: -1, Intended: None, Started: None, Conn: None, Headers: None,
		FirstByte: None, FirstAudio: None, FirstAudible: None, End: None}
}

// Mark is the moment of a request that a service-level objective is set on.
type Mark string

// The marks. OnFirstAudio is the default: the first audio sample after any header.
const (
	OnFirstAudio   Mark = "first-audio"
	OnFirstAudible Mark = "first-audible"
	OnTotal        Mark = "total"
)

// Origin is the moment a latency is counted from.
type Origin int

// Closed loops have no intended time of their own and count FromStarted; open loops count FromIntended, so that a late
// client shows as latency instead of hiding it.
const (
	FromStarted Origin = iota
	FromIntended
)

// At is the time of the mark.
func (r *Request) At(m Mark) Nanos {
	switch m {
	case OnFirstAudible:
		return r.FirstAudible
	case OnTotal:
		return r.End
	default:
		return r.FirstAudio
	}
}

// Latency is the time from the origin to the mark in seconds. A request that did not end OK, or whose mark never came,
// is infinitely late: leaving failures out would make the survivors look fast.
func (r *Request) Latency(m Mark, from Origin) float64 {
	start := r.Started
	if from == FromIntended {
		start = r.Intended
	}
	at := r.At(m)
	if r.Outcome != OK || !at.Known() || !start.Known() {
		return math.Inf(1)
	}
	return (at - start).Duration().Seconds()
}

// Service is the time from start to end in seconds, infinite unless the request ended OK.
func (r *Request) Service() float64 { return r.Latency(OnTotal, FromStarted) }

// Lateness is how long after its intended time the request was really started, in seconds; 0 where either is unknown.
func (r *Request) Lateness() float64 {
	if !r.Intended.Known() || !r.Started.Known() || r.Started < r.Intended {
		return 0
	}
	return (r.Started - r.Intended).Duration().Seconds()
}

// Check finds a record that cannot be true: marks out of order, or an OK request with no audio mark or an instant one.
func (r *Request) Check() error {
	last, name := r.Started, "started"
	for _, s := range []struct {
		name string
		at   Nanos
	}{{"headers", r.Headers}, {"first byte", r.FirstByte}, {"first audio", r.FirstAudio}, {"end", r.End}} {
		if !s.at.Known() {
			continue
		}
		if last.Known() && s.at < last {
			return fmt.Errorf("request %d: %s at %d ns lies before %s at %d ns", r.Seq, s.name, s.at, name, last)
		}
		last, name = s.at, s.name
	}
	if r.Outcome == OK && r.FirstAudio.Known() && r.FirstAudio <= r.Started {
		return fmt.Errorf("request %d: first audio %d ns after start: no server answers in no time", r.Seq, r.FirstAudio-r.Started)
	}
	return nil
}
