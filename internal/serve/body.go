package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode"
	"unicode/utf8"
)

// Limits of a request's fields.
const (
	minSpeed, maxSpeed = 0.5, 2.0
	minRate, maxRate   = 8000, 24000
)

// body is the JSON of /invocations. request_timestamp is accepted, because the published clients send it, and not used:
// the caller's clock is not ours, and a skewed one would make fresh requests stale. Age counts from arrival here.
type body struct {
	Text       *string  `json:"text"`
	Voice      *string  `json:"voice"`
	Speed      *float64 `json:"speed"`
	Stream     *bool    `json:"stream"`
	Format     *string  `json:"format"`
	SampleRate *float64 `json:"sample_rate"`
	Timestamp  *float64 `json:"request_timestamp"`
}

// ask is a request as its body states it, defaults filled in.
type ask struct {
	Request
	stream bool
	wav    bool
}

// parse reads a body for an engine that speaks at rate samples a second. Its error is a *fault that names the field.
func parse(raw []byte, rate int) (ask, error) {
	if !utf8.Valid(raw) {
		return ask{}, invalid("body", "the body is not UTF-8")
	}
	var b body
	if err := json.Unmarshal(raw, &b); err != nil {
		var wrong *json.UnmarshalTypeError
		if !errors.As(err, &wrong) {
			return ask{}, invalid("body", "the body is not JSON: %v", err)
		}
		if wrong.Field == "" {
			return ask{}, invalid("body", `the body is a JSON %s: send an object like {"text": "Hello."}`, wrong.Value)
		}
		return ask{}, invalid(wrong.Field, "%s is a JSON %s: send %s", wrong.Field, wrong.Value, kindOf(wrong.Field))
	}
	a := ask{Request: Request{Speed: 1}, stream: true, wav: true}
	if b.Text == nil {
		return ask{}, invalid("text", `text is missing: send an object like {"text": "Hello."}`)
	}
	if a.Text = *b.Text; !speakable(a.Text) {
		return ask{}, invalid("text", "text has no letter or digit in it: there is nothing to speak")
	}
	if b.Voice != nil {
		a.Voice = *b.Voice
	}
	if b.Speed != nil {
		if a.Speed = *b.Speed; !(a.Speed >= minSpeed && a.Speed <= maxSpeed) {
			return ask{}, invalid("speed", "speed is %v: it goes from %v to %v", a.Speed, minSpeed, maxSpeed)
		}
	}
	if b.Stream != nil {
		a.stream = *b.Stream
	}
	if b.Format != nil {
		switch *b.Format {
		case "wav":
		case "pcm":
			a.wav = false
		default:
			return ask{}, invalid("format", "format is %q: it is wav or pcm", *b.Format)
		}
	}
	if b.SampleRate != nil {
		switch r := *b.SampleRate; {
		case r != math.Trunc(r) || r < minRate || r > maxRate:
			return ask{}, invalid("sample_rate", "sample_rate is %v: it is a whole number from %d to %d", r, minRate, maxRate)
		case int(r) != rate:
			return ask{}, invalid("sample_rate", "sample_rate is %v: this engine speaks at %d only", r, rate)
		}
	}
	return a, nil
}

// speakable says whether a text has anything in it that is read aloud.
func speakable(text string) bool {
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return true
		}
	}
	return false
}

func kindOf(field string) string {
	switch field {
	case "stream":
		return "true or false"
	case "speed", "request_timestamp":
		return "a number"
	case "sample_rate":
		return fmt.Sprintf("a whole number from %d to %d", minRate, maxRate)
	default:
		return "a string"
	}
}
