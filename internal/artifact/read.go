package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Kinds of record, and what people call them.
const (
	kindQMax   = "qmax"
	kindTTotal = "ttotal"
	kindPlan   = "plan"
	kindFreeze = "freeze"
)

var kinds = map[string]struct {
	version int // the newest that this version of the tool reads
	says    string
}{
	kindQMax:   {1, "a ladder (qmax)"},
	kindTTotal: {1, "a scale-out (ttotal)"},
	kindPlan:   {1, "a plan"},
	kindFreeze: {1, "a freeze record"},
	"rates":    {1, "an open-loop ladder (rates)"},
	"prove":    {1, "a proof (prove)"},

	kindSimulation: {1, "a simulation"},
}

func says(kind string) string {
	if k, ok := kinds[kind]; ok {
		return k.says
	}
	return "a record of kind " + strconv.Quote(kind)
}

// ReadQMax reads the record of a ladder: ours, or one of the published toolchain.
func ReadQMax(data []byte) (*QMax, error) {
	doc, err := open(data, kindQMax)
	if err != nil {
		return nil, err
	}
	if doc.published {
		return publishedQMax(data)
	}
	return parse(data, doc, (*QMax).Check)
}

// ReadTTotal reads the record of a scale-out: ours, or one of the published toolchain.
func ReadTTotal(data []byte) (*TTotal, error) {
	doc, err := open(data, kindTTotal)
	if err != nil {
		return nil, err
	}
	if doc.published {
		return publishedTTotal(data)
	}
	return parse(data, doc, (*TTotal).Check)
}

// ReadPlan reads a plan. A plan of the published toolchain is refused: it holds no policies.
func ReadPlan(data []byte) (*Plan, error) {
	doc, err := open(data, kindPlan)
	if err != nil {
		return nil, err
	}
	if doc.published {
		return nil, errors.New("this is a plan of the published toolchain, which holds no policies and no fingerprint: make it again from its two measurement files with tts-bench plan --qmax FILE --ttotal FILE")
	}
	return parse(data, doc, (*Plan).Check)
}

// ReadFreeze reads a freeze record.
func ReadFreeze(data []byte) (*Freeze, error) {
	doc, err := open(data, kindFreeze)
	if err != nil {
		return nil, err
	}
	return parse(data, doc, (*Freeze).Check)
}

// RunID is the run id of any record, ours or published, as far as it can be told without believing the rest; "" when it
// cannot.
func RunID(data []byte) string {
	var head struct {
		RunID string `json:"run_id"`
	}
	if json.Unmarshal(data, &head) != nil || !plainToken(head.RunID) {
		return ""
	}
	return head.RunID
}

// document is what a file says it is.
type document struct {
	kind      string
	published bool
	keys      map[string]json.RawMessage
}

// open tells what data is and refuses anything but the wanted kind, in a version that this tool reads.
func open(data []byte, want string) (document, error) {
	doc, version, err := identify(data)
	if err != nil {
		return doc, fmt.Errorf("%w: %s was wanted", err, says(want))
	}
	if doc.kind != want {
		return doc, fmt.Errorf("this is %s: %s was wanted", says(doc.kind), says(want))
	}
	if newest := kinds[want].version; version > newest {
		return doc, fmt.Errorf("this is %s of version %d, and this tool reads up to version %d: read it with the version of the tool that wrote it, or a newer one", says(want), version, newest)
	}
	return doc, nil
}

func identify(data []byte) (doc document, version int, err error) {
	trimmed := bytes.TrimSpace(data)
	switch {
	case len(trimmed) == 0:
		return doc, 0, errors.New("the file is empty")
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		return doc, 0, errors.New("the file is compressed, like a request log")
	case trimmed[0] != '{' && trimmed[0] != '[':
		return doc, 0, fmt.Errorf("the file is not JSON: it begins with %q", head(trimmed))
	}
	if err := wellFormed(data); err != nil {
		return doc, 0, err
	}
	if trimmed[0] == '[' {
		return doc, 0, errors.New("the file is a JSON list, like the result of the published validate")
	}
	if err := json.Unmarshal(data, &doc.keys); err != nil {
		return doc, 0, fmt.Errorf("the file is not a JSON object: %w", err)
	}
	if raw, ok := doc.keys["schema"]; ok {
		doc.kind, version, err = schema(raw)
		return doc, version, err
	}
	has := func(keys ...string) bool {
		return !slices.ContainsFunc(keys, func(k string) bool { _, ok := doc.keys[k]; return !ok })
	}
	doc.published = true
	switch {
	case has("steps", "q_max", "deployed_config"):
		doc.kind = kindQMax
	case has("timeline", "t_total_s", "deployed_config"):
		doc.kind = kindTTotal
	case has("plan", "verdict"):
		doc.kind = kindPlan
	default:
		return doc, 0, errors.New("the file is JSON, but names no schema and has the shape of no published file")
	}
	return doc, 0, nil
}

// schema takes "loadline/qmax/1" apart.
func schema(raw json.RawMessage) (kind string, version int, err error) {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", 0, fmt.Errorf("the file's schema is %s, not a name like %q", raw, SchemaQMax)
	}
	part := strings.Split(s, "/")
	if len(part) != 3 || part[0] != "loadline" {
		return "", 0, fmt.Errorf("the file's schema is %q, which is none of this tool's (like %q)", s, SchemaQMax)
	}
	version, err = strconv.Atoi(part[2])
	if err != nil || version < 1 {
		return "", 0, fmt.Errorf("the file's schema is %q, whose version is not a number from 1", s)
	}
	if _, ok := kinds[part[1]]; !ok {
		return "", 0, fmt.Errorf("the file's schema is %q, a kind of record that this tool does not know", s)
	}
	return part[1], version, nil
}

// wellFormed tells a file that was cut off from one that was never JSON, and finds what follows the end.
func wellFormed(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	var v json.RawMessage
	err := dec.Decode(&v)
	syntax, isSyntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case err == nil:
		if rest := bytes.TrimSpace(data[dec.InputOffset():]); len(rest) > 0 {
			return fmt.Errorf("the file goes on after its record ends (byte %d): %q", dec.InputOffset(), head(rest))
		}
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF), isSyntax && syntax.Offset >= int64(len(data)):
		return fmt.Errorf("the file ends in the middle, after %d bytes: it was cut off", len(data))
	case isSyntax:
		return fmt.Errorf("the file is not JSON (byte %d): %w", syntax.Offset, err)
	}
	return fmt.Errorf("the file is not JSON: %w", err)
}

// parse reads one of our own records, and believes it only whole: every field that this version always writes is there,
// and the record holds together. Fields that it does not know are left alone: later ones only add.
func parse[T any](data []byte, doc document, check func(*T) error) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("%s: field %s holds a %s where %s belongs (byte %d)", says(doc.kind), bad.Field, bad.Value, article(bad.Type), bad.Offset)
		}
		return nil, fmt.Errorf("%s: %w", says(doc.kind), err)
	}
	var missing []string
	for _, name := range required(reflect.TypeFor[T]()) {
		if _, ok := doc.keys[name]; !ok {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("%s that lacks %s: it was edited, or not written by this tool", says(doc.kind), strings.Join(missing, ", "))
	}
	if err := check(v); err != nil {
		return nil, fmt.Errorf("%s that cannot be true: %w", says(doc.kind), err)
	}
	return v, nil
}

func article(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// required is the JSON names of t that are always written, those of embedded structs included.
func required(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		name, optional := jsonName(f)
		switch {
		case f.Anonymous && f.Tag.Get("json") == "":
			names = append(names, required(f.Type)...)
		case name != "-" && !optional:
			names = append(names, name)
		}
	}
	return names
}

func jsonName(f reflect.StructField) (name string, optional bool) {
	name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		name = f.Name
	}
	return name, strings.Contains(opts, "omitempty") || strings.Contains(opts, "omitzero")
}

func head(b []byte) string {
	if len(b) > 24 {
		b = b[:24]
	}
	return string(b)
}
