package serve

import (
	"net/http"
	"strings"

	"loadline/internal/speech"
)

// pathSpeech is the route that OpenAI's speech API has, for clients made for it. Behind a platform that calls /invocations
// alone, the custom attribute route=/v1/audio/speech says the same.
const pathSpeech = "/v1/audio/speech"

// parser reads a body. Its error is a *fault that names the field.
type parser func(raw []byte, codecs map[string]Codec) (ask, error)

// parserOf is how the body of a request to /invocations is to be read.
func parserOf(r *http.Request) parser {
	for attribute := range strings.SplitSeq(r.Header.Get("X-Amzn-SageMaker-Custom-Attributes"), ",") {
		if name, value, ok := strings.Cut(strings.TrimSpace(attribute), "="); ok && name == "route" && "/"+strings.TrimPrefix(value, "/") == pathSpeech {
			return parseSpeech
		}
	}
	return parse
}

// speechBody is the JSON of pathSpeech. model is not used: a container has one.
type speechBody struct {
	Input          *string `json:"input"`
	Model          *string `json:"model"`
	ResponseFormat *string `json:"response_format"`
	StreamFormat   *string `json:"stream_format"`
	Instructions   *string `json:"instructions"`
}

// parseSpeech reads a body as OpenAI's API has it; fields that are ours alone mean the same here.
func parseSpeech(raw []byte, codecs map[string]Codec) (ask, error) {
	var theirs speechBody
	var b body
	for _, into := range []any{&theirs, &b} {
		if err := decode(raw, into); err != nil {
			return ask{}, err
		}
	}
	b.Text, b.Format = theirs.Input, theirs.ResponseFormat
	switch {
	case b.Text == nil:
		return ask{}, invalid("input", `input is missing: send an object like {"input": "Hello.", "voice": "af_heart"}`)
	case speech.Clean(*b.Text) == "":
		return ask{}, invalid("input", "input has no letter or digit in it that is read aloud: there is nothing to speak")
	case theirs.StreamFormat != nil && *theirs.StreamFormat != "audio":
		return ask{}, invalid("stream_format", "stream_format is %.40q: this server sends audio", *theirs.StreamFormat)
	}
	a := defaults()
	a.Text = *b.Text
	if a.format = formatMP3; codecs[formatMP3].Open == nil && b.Format == nil {
		a.format = formatWAV
	}
	err := a.take(b)
	if err == nil {
		err = a.offered(codecs)
	}
	if f, ok := err.(*fault); ok && f.Field == "format" {
		renamed := *f
		renamed.Field, renamed.Message = "response_format", "response_"+f.Message
		return a, &renamed
	}
	return a, err
}

// offered says whether the server has the format.
func (a *ask) offered(codecs map[string]Codec) error {
	if a.format == formatWAV || a.format == formatPCM || codecs[a.format].Open != nil {
		return nil
	}
	return invalid("format", "format is %s, for which this server has no encoder: it has %s and %s", a.format, formatWAV, formatPCM)
}
