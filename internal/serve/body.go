package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"loadline/internal/speech"
)

// Limits of a request's fields.
const (
	minSpeed, maxSpeed = 0.5, 2.0
	minRate, maxRate   = 8000, 24000
)

// Formats of sound.
const (
	formatWAV  = "wav"
	formatPCM  = "pcm"
	formatMP3  = "mp3"
	formatOpus = "opus"
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
	ResumeAt   *float64 `json:"resume_at"`
	Timestamp  *float64 `json:"request_timestamp"`
	Language   *string  `json:"language"`

	Pronunciations map[string]string `json:"pronunciations"`
}

// ask is a request as its body states it, defaults filled in.
type ask struct {
	Request
	stream bool
	format string
	rate   int  // of the reply, samples a second
	resume int  // sentences to leave out
	live   bool // its text is still coming
}

// defaults is what holds where a body says nothing.
func defaults() ask {
	return ask{Request: Request{Speed: 1}, stream: true, format: formatWAV, rate: maxRate}
}

// parse reads a body. Its error is a *fault that names the field.
func parse(raw []byte, codecs map[string]Codec) (ask, error) {
	var b body
	if err := decode(raw, &b); err != nil {
		return ask{}, err
	}
	if b.Text == nil {
		return ask{}, invalid("text", `text is missing: send an object like {"text": "Hello."}`)
	}
	if speech.Clean(*b.Text) == "" {
		return ask{}, invalid("text", "text has no letter or digit in it that is read aloud: there is nothing to speak")
	}
	a := defaults()
	a.Text = *b.Text
	if err := a.take(b); err != nil {
		return a, err
	}
	return a, a.offered(codecs)
}

// decode reads one JSON object.
func decode(raw []byte, into any) error {
	if !utf8.Valid(raw) {
		return invalid("body", "the body is not UTF-8")
	}
	err := json.Unmarshal(raw, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wrong):
		return invalid("body", "the body is not JSON: %v", err)
	case wrong.Field == "":
		return invalid("body", `the body is a JSON %s: send an object like {"text": "Hello."}`, wrong.Value)
	}
	return invalid(wrong.Field, "%s is a JSON %s: send %s", wrong.Field, wrong.Value, kindOf(wrong.Field))
}

// take reads the settings of a body; what it does not say stays.
func (a *ask) take(b body) error {
	if b.Voice != nil {
		a.Voice = *b.Voice
	}
	if b.Speed != nil {
		if a.Speed = *b.Speed; !(a.Speed >= minSpeed && a.Speed <= maxSpeed) {
			return invalid("speed", "speed is %v: it goes from %v to %v", a.Speed, minSpeed, maxSpeed)
		}
	}
	if b.Language != nil {
		if a.Language = speech.Language(*b.Language); strings.Trim(a.Language, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || len(a.Language) > 20 {
			return invalid("language", "language is %.40q: send a name like en-us or fr-fr", *b.Language)
		}
	}
	if b.Pronunciations != nil {
		var err error
		if a.Lexicon, err = speech.NewLexicon(b.Pronunciations); err != nil {
			return invalid("pronunciations", "pronunciations: %v", err)
		}
	}
	if b.Stream != nil {
		a.stream = *b.Stream
	}
	if b.Format != nil {
		switch *b.Format {
		case formatWAV, formatPCM, formatMP3, formatOpus:
			a.format = *b.Format
		default:
			return invalid("format", "format is %.40q: it is %s, %s, %s or %s", *b.Format, formatWAV, formatPCM, formatMP3, formatOpus)
		}
	}
	if b.SampleRate != nil {
		r := *b.SampleRate
		if r != math.Trunc(r) || r < minRate || r > maxRate {
			return invalid("sample_rate", "sample_rate is %v: it is a whole number from %d to %d", r, minRate, maxRate)
		}
		a.rate = int(r)
	}
	if b.ResumeAt != nil {
		r := *b.ResumeAt
		if r != math.Trunc(r) || r < 0 || r > 1e6 {
			return invalid("resume_at", "resume_at is %v: it is the number of sentences to leave out", r)
		}
		a.resume = int(r)
	}
	return nil
}

func kindOf(field string) string {
	switch field, _, _ = strings.Cut(field, "."); field {
	case "pronunciations":
		return `an object of words and how they are said, like {"Dr. Xu": "Doctor Shoe"}`
	case "stream":
		return "true or false"
	case "speed", "request_timestamp":
		return "a number"
	case "resume_at":
		return "a number of sentences"
	case "sample_rate":
		return fmt.Sprintf("a whole number from %d to %d", minRate, maxRate)
	default:
		return "a string"
	}
}
