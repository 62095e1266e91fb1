package transport

import (
	"encoding/json"
	"fmt"
	"strings"
)

// BodySession is the message that a text is to a session of speech-server.
const BodySession = "session"

// session is the message: with an id, so that what comes back can be told from what belonged to another text.
const session = `{"text":"{{.Text}}","request_id":"{{.ID}}"}`

// Messages is what is sent over a WebSocket for one text.
type Messages struct {
	list []Template
	kept bool // they name the text: the session can be used for the next one
}

// ParseMessages reads what is sent for one text: one of the named bodies, or a message with {{.Text}} in it; of several
// lines that are JSON each, every one is a message. A message may name the text by {{.ID}}: the session is then kept for
// the next text. "" is the message of a session of speech-server.
func ParseMessages(body string) (Messages, error) {
	if body == "" || body == BodySession {
		body = session
	}
	if b, ok := named[body]; ok {
		body = b
	}
	body = strings.ReplaceAll(strings.ReplaceAll(body, "{{ .Text }}", "{{.Text}}"), "{{ .ID }}", "{{.ID}}")
	m := Messages{kept: strings.Contains(body, "{{.ID}}")}
	if !strings.Contains(body, "{{.Text}}") {
		return Messages{}, fmt.Errorf("messages %q: none has {{.Text}} where the text goes", body)
	}
	lines := []string{body}
	if several := strings.Split(strings.TrimSpace(body), "\n"); len(several) > 1 && allJSON(several) {
		lines = several
	}
	for _, line := range lines {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		t := Template{parts: strings.Split(line, "{{.Text}}")}
		for _, p := range t.parts {
			if strings.Contains(strings.ReplaceAll(p, "{{.ID}}", ""), "{{") {
				return Messages{}, fmt.Errorf("messages %q: only {{.Text}} and {{.ID}} are known", line)
			}
		}
		if t.json = strings.HasPrefix(line, "{") || strings.HasPrefix(line, "["); t.json && !isJSON(line) {
			return Messages{}, fmt.Errorf("message %q: not JSON once a text is filled in: put {{.Text}} between quotes", line)
		}
		m.list = append(m.list, t)
	}
	return m, nil
}

func allJSON(lines []string) bool {
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" && !isJSON(l) {
			return false
		}
	}
	return true
}

func isJSON(line string) bool {
	return json.Valid([]byte(strings.ReplaceAll(strings.ReplaceAll(line, "{{.Text}}", `\"`), "{{.ID}}", "0")))
}

// fill is the messages for a text.
func (m Messages) fill(text, id string) [][]byte {
	out := make([][]byte, len(m.list))
	for i, t := range m.list {
		if !m.kept {
			out[i] = t.Fill(text)
			continue
		}
		one := Template{parts: make([]string, len(t.parts)), json: t.json}
		for j, p := range t.parts {
			one.parts[j] = strings.ReplaceAll(p, "{{.ID}}", id)
		}
		out[i] = one.Fill(text)
	}
	return out
}
