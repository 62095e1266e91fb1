package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// decode reads the one document of text.
func decode(text []byte, doc *yaml.Node) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(doc); err != nil {
		if err == io.EOF {
			return nil
		}
		return err
	}
	if err := dec.Decode(new(yaml.Node)); err != io.EOF {
		return errors.New("yaml: a second document follows (---): one was wanted")
	}
	return nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax is what the YAML parser says of a text that is none.
func syntax(err error) rule {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return rule{1, err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	return rule{max(line, 1), err.Error()[len(m[0]):]}
}

// Edit is the text of the file with fields of one model set to new values: an int, float64, string, a pointer to one, or
// nil for a field that has no value. Every byte that belongs to no changed value stays as it is; a field that was not
// there goes below the one that it follows in order. The result has been read again and checked.
func (f *File) Edit(model string, values map[string]any) ([]byte, error) {
	m, err := f.Model(model)
	if err != nil {
		return nil, err
	}
	node := f.nodes[slices.IndexFunc(f.Models, func(x Model) bool { return x.Name == m.Name })]
	if node.Style&yaml.FlowStyle != 0 {
		return nil, fmt.Errorf("%s: model %s is written in braces: write it as a block of key: value lines, so that single lines can be changed", f.name, model)
	}
	for key := range values {
		if i := slices.IndexFunc(fields, func(fl field) bool { return fl.key == key }); i < 0 || fields[i].set == nil {
			return nil, fmt.Errorf("%s: %s is no field that can be set", f.name, key)
		}
	}
	e := editor{text: f.text, eol: "\n"}
	if bytes.Contains(f.text, []byte("\r\n")) {
		e.eol = "\r\n"
	}
	for i, fl := range fields {
		v, wanted := values[fl.key]
		if !wanted {
			continue
		}
		token, err := scalar(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", f.name, fl.key, err)
		}
		if err := e.set(node, i, token); err != nil {
			return nil, fmt.Errorf("%s: %s.%s: %w", f.name, model, fl.key, err)
		}
	}
	out := e.apply()
	g, err := Parse(f.name, out)
	if err != nil {
		return nil, fmt.Errorf("with the new values of %s, %w", model, err)
	}
	for i := range f.Models {
		if f.Models[i].Name != model && !reflect.DeepEqual(f.Models[i], g.Models[i]) {
			return nil, fmt.Errorf("%s: setting fields of %s would change %s: nothing was written", f.name, model, f.Models[i].Name)
		}
	}
	for key, v := range values {
		token, _ := scalar(v)
		if got := value(g.nodes[slices.IndexFunc(g.Models, func(x Model) bool { return x.Name == model })], key); !holds(got, token) {
			return nil, fmt.Errorf("%s: %s could not be set to %s", f.name, key, token)
		}
	}
	return out, nil
}

// scalar is v as YAML writes it.
func scalar(v any) (string, error) {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return "null", nil
		}
		v = r.Elem().Interface()
	}
	switch v := v.(type) {
	case nil:
		return "null", nil
	case int:
		return strconv.Itoa(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case string:
		if !utf8.ValidString(v) {
			return "", fmt.Errorf("%q is not UTF-8", v)
		}
		var n yaml.Node
		if plainText.MatchString(v) && yaml.Unmarshal([]byte(v), &n) == nil && n.Content[0].ShortTag() == "!!str" {
			return v, nil
		}
		b, err := json.Marshal(v) // a JSON string is a YAML one
		return string(b), err
	}
	return "", fmt.Errorf("a value of type %T cannot be written", v)
}

var plainText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)

// holds says whether n holds the value of token already, however it is written.
func holds(n *yaml.Node, token string) bool {
	if n == nil {
		return token == "null"
	}
	var want yaml.Node
	if n.Kind != yaml.ScalarNode || yaml.Unmarshal([]byte(token), &want) != nil {
		return false
	}
	w := want.Content[0]
	if w.ShortTag() == "!!str" || w.ShortTag() == "!!null" {
		return n.ShortTag() == w.ShortTag() && (n.Value == w.Value || w.ShortTag() == "!!null")
	}
	a, errA := strconv.ParseFloat(n.Value, 64)
	b, errB := strconv.ParseFloat(w.Value, 64)
	return errA == nil && errB == nil && a == b && n.ShortTag() != "!!str"
}

// editor collects changes of a text by place.
type editor struct {
	text  []byte
	eol   string
	edits []edit
}

type edit struct {
	start, end int
	with       string
}

// set plans the change of the field fields[i] of the block n to token.
func (e *editor) set(n *yaml.Node, i int, token string) error {
	var key, val *yaml.Node
	above := -1 // the last single-line field that comes before this one in order
	var aboveVal *yaml.Node
	for k := 0; k+1 < len(n.Content); k += 2 {
		kn, vn := n.Content[k], n.Content[k+1]
		at := slices.IndexFunc(fields, func(fl field) bool { return fl.key == kn.Value })
		switch {
		case at == i:
			key, val = kn, vn
		case at < i && at > above && fields[at].set != nil:
			above, aboveVal = at, kn
		}
	}
	if holds(val, token) {
		return nil
	}
	if val == nil {
		end := e.offset(aboveVal.Line+1, 1)
		line := strings.Repeat(" ", aboveVal.Column-1) + fields[i].key + ": " + token + e.eol
		if end == len(e.text) && !bytes.HasSuffix(e.text, []byte("\n")) {
			line = e.eol + strings.TrimSuffix(line, e.eol)
		}
		e.edits = append(e.edits, edit{end, end, line})
		return nil
	}
	if val.Value == "" && val.Style == 0 { // "key:" and nothing
		start := e.offset(key.Line, key.Column) + len(key.Value)
		if start >= len(e.text) || e.text[start] != ':' {
			return errors.New("its line cannot be changed in place: write it as key: value")
		}
		e.edits = append(e.edits, edit{start + 1, start + 1, " " + token})
		return nil
	}
	start := e.offset(val.Line, val.Column)
	end, ok := e.end(start, val)
	if !ok {
		return errors.New("its value cannot be changed in place: write it on one line, as key: value")
	}
	e.edits = append(e.edits, edit{start, end, token})
	return nil
}

// end is where the scalar that starts at start ends.
func (e *editor) end(start int, n *yaml.Node) (int, bool) {
	rest := e.text[min(start, len(e.text)):]
	switch n.Style {
	case 0:
		return start + len(n.Value), bytes.HasPrefix(rest, []byte(n.Value))
	case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle:
		quote := byte('"')
		if n.Style == yaml.SingleQuotedStyle {
			quote = '\''
		}
		if len(rest) == 0 || rest[0] != quote {
			return 0, false
		}
		for i := 1; i < len(rest) && rest[i] != '\n'; i++ {
			switch {
			case rest[i] == '\\' && quote == '"':
				i++
			case rest[i] == quote && quote == '\'' && i+1 < len(rest) && rest[i+1] == quote:
				i++
			case rest[i] == quote:
				return start + i + 1, true
			}
		}
	}
	return 0, false
}

// offset is the byte offset of a line and column, both from 1, the column counted in characters.
func (e *editor) offset(line, column int) int {
	at := 0
	for ; line > 1; line-- {
		next := bytes.IndexByte(e.text[at:], '\n')
		if next < 0 {
			return len(e.text)
		}
		at += next + 1
	}
	for ; column > 1 && at < len(e.text); column-- {
		_, size := utf8.DecodeRune(e.text[at:])
		at += size
	}
	return at
}

func (e *editor) apply() []byte {
	slices.SortStableFunc(e.edits, func(a, b edit) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, ed := range e.edits {
		out = append(append(out, e.text[at:ed.start]...), ed.with...)
		at = ed.end
	}
	return append(out, e.text[at:]...)
}
