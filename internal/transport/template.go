package transport

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Template is a request body with a place for the text.
type Template struct {
	parts []string // the text goes between them
	json  bool
	mime  string
}

// The named bodies: Loadline's own and Kokoro containers', OpenAI's speech route, and the bare text.
const (
	BodyKokoro = "kokoro"
	BodyOpenAI = "openai-speech"
	BodyRaw    = "raw"
)

var named = map[string]string{
	BodyKokoro: `{"text":"{{.Text}}"}`,
	BodyOpenAI: `{"model":"kokoro","input":"{{.Text}}","voice":"af_heart","response_format":"wav"}`,
	BodyRaw:    `{{.Text}}`,
}

// ParseTemplate reads a request body: one of the named ones, or a body with {{.Text}} in it. In a body that is JSON the
// text is escaped as JSON, and belongs between quotes. "" is the kokoro body.
func ParseTemplate(body string) (Template, error) {
	if body == "" {
		body = BodyKokoro
	}
	if b, ok := named[body]; ok {
		body = b
	}
	const place = "{{.Text}}"
	t := Template{parts: strings.Split(strings.ReplaceAll(body, "{{ .Text }}", place), place), mime: "text/plain; charset=utf-8"}
	if len(t.parts) == 1 {
		return Template{}, fmt.Errorf("request body %q: want kokoro, openai-speech, raw, or a body with {{.Text}} where the text goes", body)
	}
	for _, p := range t.parts {
		if strings.Contains(p, "{{") {
			return Template{}, fmt.Errorf("request body %q: only {{.Text}} is known", body)
		}
	}
	if start := strings.TrimSpace(t.parts[0]); strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[") {
		t.json, t.mime = true, "application/json"
		if !json.Valid(t.Fill(`a "probe"`)) {
			return Template{}, fmt.Errorf("request body %q: not JSON once a text is filled in: put {{.Text}} between quotes", body)
		}
	}
	return t, nil
}

// ContentType is the one that the body is sent with unless the user says otherwise.
func (t Template) ContentType() string { return t.mime }

// Fill is the body for a text.
func (t Template) Fill(text string) []byte {
	if t.json {
		text = escape(text)
	}
	size := (len(t.parts) - 1) * len(text)
	for _, p := range t.parts {
		size += len(p)
	}
	b := make([]byte, 0, size)
	for i, p := range t.parts {
		if i > 0 {
			b = append(b, text...)
		}
		b = append(b, p...)
	}
	return b
}

// escape writes a text as the inside of a JSON string. Most texts need nothing.
func escape(s string) string {
	plain := utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' })
	if plain {
		return s
	}
	q, _ := json.Marshal(s) // a string always marshals
	return string(q[1 : len(q)-1])
}
