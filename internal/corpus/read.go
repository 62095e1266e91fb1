package corpus

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"loadline/internal/sample"
)

// The shipped corpora: short replies to paragraphs of what a voice agent says, and clips of 6 to 61 characters.
const (
	Default = "default"
	Clips   = "clips"
)

var (
	//go:embed default.txt
	defaultTexts []byte
	//go:embed clips.txt
	clipTexts []byte
)

// Named is a shipped corpus, in its own order; false for a name that none has.
func Named(name string) (*Corpus, bool) {
	var body []byte
	switch name {
	case Default:
		body = defaultTexts
	case Clips:
		body = clipTexts
	default:
		return nil, false
	}
	c, err := parse(name, body)
	if err != nil {
		panic("corpus: shipped texts: " + err.Error()) // a test reads them all
	}
	return c, true
}

// maxErrors is how many broken lines an error lists.
const maxErrors = 10

// Read takes the user's own texts, the content of the file of the given name: one text a line, or a JSON array of strings
// or of objects with "text". Blank lines of a text file are refused like any line with nothing to speak, except at its end;
// the error lists each with its number.
func Read(name string, body []byte) (*Corpus, error) {
	sum := sha256.Sum256(body)
	base := filepath.Base(name)
	id := fmt.Sprintf("%s-%x", strings.TrimSuffix(base, filepath.Ext(base)), sum[:4])
	c, err := parse(id, body)
	if err != nil {
		return nil, fmt.Errorf("corpus %s: %w", name, err)
	}
	return c, nil
}

func parse(id string, body []byte) (*Corpus, error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if !utf8.Valid(body) {
		return nil, fmt.Errorf("line %d is not UTF-8: save the file as UTF-8", badLine(body))
	}
	var texts []string
	var unit string
	switch trimmed := bytes.TrimSpace(body); {
	case looksJSON(trimmed):
		var err error
		if texts, err = jsonTexts(trimmed); err != nil {
			return nil, err
		}
		unit = "element"
	case bytes.HasPrefix(trimmed, []byte(`{"`)):
		return nil, errors.New("a JSON object: want an array, [{\"text\": …}, …], or one text a line")
	default:
		texts = strings.Split(strings.TrimRightFunc(string(body), unicode.IsSpace), "\n")
		unit = "line"
	}
	if len(texts) == 0 || len(texts) == 1 && strings.TrimSpace(texts[0]) == "" {
		return nil, errors.New("no texts: want one a line, or a JSON array of strings or of objects with \"text\"")
	}
	c := &Corpus{id: id}
	var bad []string
	for i, t := range texts {
		t = strings.TrimSpace(t)
		if !speakable(t) {
			bad = append(bad, fmt.Sprintf("%s %d: nothing to speak in %q", unit, i+1, t))
			continue
		}
		c.texts = append(c.texts, Text{ID: sample.TextID{Corpus: id, Index: i}, Body: t, Chars: utf8.RuneCountInString(t)})
	}
	if n := len(bad); n > 0 {
		if n > maxErrors {
			bad = append(bad[:maxErrors], fmt.Sprintf("and %d more", n-maxErrors))
		}
		return nil, fmt.Errorf("%s: remove them", strings.Join(bad, "; "))
	}
	return c, nil
}

// looksJSON tells an array from a text that only begins with a bracket, such as "[pause] Hello".
func looksJSON(b []byte) bool {
	if len(b) == 0 || b[0] != '[' {
		return false
	}
	rest := bytes.TrimSpace(b[1:])
	return len(rest) > 0 && strings.IndexByte("\"{]", rest[0]) >= 0
}

func jsonTexts(body []byte) ([]string, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(body, &elements); err != nil {
		return nil, fmt.Errorf("read the JSON array: %w", err)
	}
	texts := make([]string, len(elements))
	for i, e := range elements {
		var object struct {
			Text *string `json:"text"`
		}
		switch {
		case json.Unmarshal(e, &texts[i]) == nil && e[0] == '"':
		case json.Unmarshal(e, &object) == nil && object.Text != nil:
			texts[i] = *object.Text
		default:
			return nil, fmt.Errorf("element %d: want a string, or an object with \"text\"", i+1)
		}
	}
	return texts, nil
}

// speakable says whether a text has a letter or a digit, of any script.
func speakable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) >= 0
}

func badLine(body []byte) int {
	line := 1
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		if r == utf8.RuneError && n == 1 {
			return line
		}
		if r == '\n' {
			line++
		}
		body = body[n:]
	}
	return line
}
