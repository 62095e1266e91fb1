package transport

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"loadline/internal/audio"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// The ends of a reply that comes as messages. Any other value of End is a message that ends it: its whole text, or
// KEY=VALUE of its JSON.
const (
	EndKnown = ""      // one of the messages that services are known to end with
	EndClose = "close" // the close of the connection itself, where it is a normal one
)

// said is what one message of a reply says: a text frame of a WebSocket, or an event of a stream of events.
type said struct {
	id        string // of the text that it is about, "" where it does not tell
	sound     []byte // decoded
	rate      int    // samples a second of the sound that follows, 0: not told
	end       bool
	sentences *int64 // spoken whole so far
	samples   *int64 // of them

	outcome sample.Outcome // of a message that tells how the reply failed
	cause   string
	after   time.Duration // that the server asks to be left alone for
}

// fields is the names under which services put what said needs.
type fields struct {
	Type, Event string
	Status      json.RawMessage
	ID          string `json:"request_id"`
	SampleRate  int    `json:"sample_rate"`
	Sentences   *int64
	Samples     *int64
	Reason      string

	Audio, Data, Chunk, Delta json.RawMessage

	Done, Final, IsFinal json.RawMessage
	IsFinalToo           json.RawMessage `json:"is_final"`

	Error            json.RawMessage
	ModelStreamError *struct{ ErrorCode, Message string }
}

// lastWords is the types of messages, and names of events, that end a reply.
var lastWords = []string{"done", "[done]", "end", "eof", "complete", "completed", "finished", "synthesis_complete",
	"speech.audio.done", "session.done", "response.done", "response.completed"}

// read understands one message. name is the event's, "" where there is none. An error is a message that cannot be
// understood though it must be: sound in damaged base64.
func (d dialect) read(name string, text []byte) (said, error) {
	var s said
	text = bytes.TrimSpace(text)
	var f fields
	if len(text) == 0 || text[0] != '{' {
		return d.plain(name, text)
	}
	var other *json.UnmarshalTypeError // a name that means something else to the service
	if err := json.Unmarshal(text, &f); err != nil && !errors.As(err, &other) {
		return d.plain(name, text)
	}
	kind := f.Type
	for _, other := range []string{f.Event, name} {
		if kind == "" {
			kind = other
		}
	}
	status := ""
	_ = json.Unmarshal(f.Status, &status) // where it is a text
	s.id, s.rate, s.sentences, s.samples = f.ID, f.SampleRate, f.Sentences, f.Samples
	switch {
	case f.ModelStreamError != nil:
		s.outcome, s.cause = container(http.StatusInternalServerError, text)
		s.cause = "ModelStreamError: " + clean(f.ModelStreamError.ErrorCode+": "+f.ModelStreamError.Message)
	case strings.EqualFold(kind, "error"), strings.HasSuffix(kind, ".error"), given(f.Error):
		s.outcome, s.cause = failed(text)
		s.after = waitIn(text)
	case kind == "interrupted":
		s.outcome, s.cause = sample.Truncated, "truncated: interrupted by "+clean(f.Reason)
	case d.ends(text):
		s.end = true
	case d.end == EndKnown:
		s.end = slices.Contains(lastWords, strings.ToLower(kind)) || slices.Contains(lastWords, strings.ToLower(status)) ||
			yes(f.Done) || yes(f.Final) || yes(f.IsFinal) || yes(f.IsFinalToo)
	}
	if d.payload != audio.Sound {
		s.sound = text
		if s.end {
			s.sound = nil
		}
		return s, nil
	}
	var err error
	s.sound, err = f.sound(strings.ToLower(kind))
	return s, err
}

// sound is what a message holds of it: "audio" anywhere, and the vaguer names where the message is of that kind.
func (f *fields) sound(kind string) ([]byte, error) {
	if b, err := unpacked(f.Audio); b != nil || err != nil {
		return b, err
	}
	if kind != "" && !strings.Contains(kind, "audio") && !strings.Contains(kind, "chunk") || strings.Contains(kind, "text") || strings.Contains(kind, "transcript") {
		return nil, nil
	}
	for _, field := range []json.RawMessage{f.Data, f.Chunk, f.Delta} {
		if b, err := unpacked(field); b != nil || err != nil {
			return b, err
		}
	}
	return nil, nil
}

// unpacked is a field that holds base64, or an object whose data does; nil where it holds neither.
func unpacked(field json.RawMessage) ([]byte, error) {
	if len(field) == 0 {
		return nil, nil
	}
	var text string
	if field[0] == '{' {
		var inner struct{ Data string }
		if json.Unmarshal(field, &inner) != nil {
			return nil, nil
		}
		text = inner.Data
	} else if json.Unmarshal(field, &text) != nil {
		return nil, nil
	}
	if text == "" {
		return nil, nil
	}
	return decoded(text)
}

func decoded(text string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: sound in damaged base64, %d characters", errFrame, len(text))
	}
	return b, nil
}

// plain is a message that is not a JSON object: a last word, or base64 alone.
func (d dialect) plain(name string, text []byte) (s said, err error) {
	word := strings.ToLower(string(text[:min(len(text), 32)]))
	switch {
	case len(text) > 0 && text[0] == '{':
		return s, fmt.Errorf("%w: a message that is not the JSON it begins as: %s", errFrame, clean(string(text[:min(len(text), 80)])))
	case strings.EqualFold(name, "error"):
		s.outcome, s.cause = sample.ModelError, clean(string(text))
	case d.ends(text), d.end == EndKnown && (slices.Contains(lastWords, word) || len(text) == 0 && slices.Contains(lastWords, strings.ToLower(name))):
		s.end = true
	case len(text) == 0:
	case d.payload != audio.Sound:
		s.sound = text
	case d.events:
		s.sound, err = decoded(string(text))
	}
	return s, err
}

// dialect is how a service's messages are understood.
type dialect struct {
	end     string
	events  bool // no other way for sound than text
	payload audio.Payload
}

// ends says whether a message is the one that the user said ends a reply.
func (d dialect) ends(text []byte) bool {
	if d.end == EndKnown || d.end == EndClose {
		return false
	}
	if string(text) == d.end {
		return true
	}
	key, want, ok := strings.Cut(d.end, "=")
	if !ok {
		return false
	}
	var v map[string]any
	if json.Unmarshal(text, &v) != nil {
		return false
	}
	got, ok := v[key]
	return ok && fmt.Sprint(got) == want
}

// given says whether a field holds anything.
func given(field json.RawMessage) bool {
	switch string(field) {
	case "", "null", "false", `""`, "{}":
		return false
	}
	return true
}

func yes(field json.RawMessage) bool { return string(field) == "true" }

// failed classifies an error told inside a reply, by its code: no status goes with it.
func failed(body []byte) (sample.Outcome, string) {
	code, message := errorBody(body)
	why := strings.Trim(code+": "+message, ": ")
	switch code {
	case "queue_saturated", "queue_full":
		return sample.Rejected, code
	case "request_stale":
		return sample.Stale, why
	case "too_many_texts", "too_many_requests", "rate_limit_exceeded":
		return sample.Throttled, why
	case "shutting_down", "not_ready":
		return sample.ServerError, why
	case "invalid_request", "invalid_request_error", "payload_too_large":
		return sample.ClientError, why
	}
	return sample.ModelError, why
}

// tally holds what a reply tells of itself against what came of it.
type tally struct {
	bytes     int64
	sentences *int64 // the last told
}

// whole is the cause for which a reply of so many samples that says it has ended has not, "" where it is whole.
func (t *tally) whole(s said, came int64) string {
	switch {
	case s.samples != nil && *s.samples != came:
		return fmt.Sprintf("truncated: its end states %d samples, %d came", *s.samples, came)
	case s.sentences != nil && t.sentences != nil && *s.sentences != *t.sentences:
		return fmt.Sprintf("truncated: its end states %d sentences, %d came", *s.sentences, *t.sentences)
	}
	return ""
}

// waitIn is how long an error body asks its reader to wait.
func waitIn(body []byte) time.Duration {
	type wait struct {
		RetryAfterS *float64 `json:"retry_after_s"`
		RetryAfter  *float64 `json:"retry_after"`
	}
	var v struct {
		wait
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &v) != nil {
		return 0
	}
	var inner wait
	_ = json.Unmarshal(v.Error, &inner) // where it is an object
	for _, s := range []*float64{v.RetryAfterS, v.RetryAfter, inner.RetryAfterS, inner.RetryAfter} {
		if s != nil && *s > 0 && *s <= 3600 {
			return time.Duration(*s * float64(time.Second))
		}
	}
	return 0
}

// waiter is a Sink that wants to know how long a server which refused asks to be left alone.
type waiter interface{ RetryAfter(time.Duration) }

// tellWait tells the sink of a call, where it wants to know, how long that is: by the
// Retry-After of its answer, or the more exact figure in its body.
func tellWait(c load.Call, header http.Header, body []byte) {
	sink, ok := c.Sink.(waiter)
	if !ok {
		return
	}
	wait := waitIn(body)
	if v := header.Get("Retry-After"); wait == 0 && v != "" {
		if s, err := time.ParseDuration(v + "s"); err == nil {
			wait = s
		} else if at, err := http.ParseTime(v); err == nil {
			date, err := http.ParseTime(header.Get("Date")) // by the server's own clock
			if err == nil {
				wait = at.Sub(date)
			}
		}
	}
	if wait > 0 {
		sink.RetryAfter(min(wait, time.Hour))
	}
}
