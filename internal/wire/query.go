package wire

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Query is AWS's query protocol for one request: a form in, XML out. namespace is the service's, of the XML; action is the
// operation's name, in which the answer is wrapped; id is the request's.
func Query(namespace, action, id string) Codec {
	return Codec{
		ContentType: "text/xml",
		Decode: func(body []byte, into any) error {
			form, err := url.ParseQuery(string(body))
			if err != nil {
				return fmt.Errorf("the body is no form: %w", err)
			}
			root, err := grow(form)
			if err != nil {
				return err
			}
			return root.fill(reflect.ValueOf(into).Elem(), "the input")
		},
		Encode: func(v any) ([]byte, error) {
			var b bytes.Buffer
			if f, is := v.(*queryFault); is {
				fmt.Fprintf(&b, `<ErrorResponse xmlns="%s"><Error><Type>%s</Type>`, namespace, f.side())
				element(&b, "Code", reflect.ValueOf(f.code()))
				element(&b, "Message", reflect.ValueOf(f.Message))
				fmt.Fprintf(&b, `</Error><RequestId>%s</RequestId></ErrorResponse>`, id)
				return b.Bytes(), nil
			}
			fmt.Fprintf(&b, `<%sResponse xmlns="%s">`, action, namespace)
			element(&b, action+"Result", reflect.ValueOf(v))
			fmt.Fprintf(&b, `<ResponseMetadata><RequestId>%s</RequestId></ResponseMetadata></%sResponse>`, id, action)
			return b.Bytes(), nil
		},
		Fault: func(_ http.Header, f *Fault) any { return &queryFault{f} },
	}
}

type queryFault struct{ *Fault }

// code is what the query protocol calls the fault.
func (f *queryFault) code() string {
	if q := codes[f.Code].query; q != "" {
		return q
	}
	return f.Code
}

func (f *queryFault) side() string {
	if f.Status() >= 500 {
		return "Receiver"
	}
	return "Sender"
}

// node is a part of a form: A.member.1.B=v is the node B of the node 1 of the node member of the node A.
type node struct {
	value string
	in    map[string]*node
}

const deepest = 16 // nodes above one another

func grow(form url.Values) (*node, error) {
	root := &node{}
	for name, values := range form {
		path := strings.Split(name, ".")
		if len(path) > deepest {
			return nil, fmt.Errorf("%s is nested too deeply", name)
		}
		n := root
		for _, step := range path {
			if n.in == nil {
				n.in = map[string]*node{}
			}
			if n.in[step] == nil {
				n.in[step] = &node{}
			}
			n = n.in[step]
		}
		n.value = values[0]
	}
	return root, nil
}

// items are the numbered nodes within n, in their order.
func (n *node) items(kind string) []*node {
	if of := n.in[kind]; of != nil {
		n = of
	}
	numbers := map[int]*node{}
	for k, v := range n.in {
		if i, err := strconv.Atoi(k); err == nil {
			numbers[i] = v
		}
	}
	var out []*node
	for _, i := range slices.Sorted(maps.Keys(numbers)) {
		out = append(out, numbers[i])
	}
	return out
}

// fill puts the node into a value of the wire's structures; where says what is being read, for the error.
func (n *node) fill(into reflect.Value, where string) error {
	if into.Type() == stampType {
		t, err := time.Parse(time.RFC3339Nano, n.value)
		if err != nil {
			return fmt.Errorf("%s must be a time such as 2026-11-30T12:00:00Z", where)
		}
		return into.Addr().Interface().(*Stamp).set(float64(t.UnixMilli()) / 1000)
	}
	wrong := func(want string) error { return fmt.Errorf("%s must be %s, not %q", where, want, n.value) }
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return n.fill(into.Elem(), where)
	case reflect.Struct:
		for f, x := range into.Fields() {
			name, _ := member(f)
			if inner := n.in[name]; inner != nil {
				if err := inner.fill(x, name); err != nil {
					return err
				}
			}
		}
	case reflect.Slice:
		items := n.items("member")
		into.Set(reflect.MakeSlice(into.Type(), len(items), len(items)))
		for i, item := range items {
			if err := item.fill(into.Index(i), fmt.Sprintf("%s.member.%d", where, i+1)); err != nil {
				return err
			}
		}
	case reflect.Map:
		into.Set(reflect.MakeMap(into.Type()))
		for _, item := range n.items("entry") {
			k, v := item.in["key"], item.in["value"]
			if k == nil || v == nil {
				return fmt.Errorf("%s has an entry without a key or a value", where)
			}
			x := reflect.New(into.Type().Elem()).Elem()
			if err := v.fill(x, k.value); err != nil {
				return err
			}
			into.SetMapIndex(reflect.ValueOf(k.value), x)
		}
	case reflect.String:
		into.SetString(n.value)
	case reflect.Bool:
		b, err := strconv.ParseBool(n.value)
		if err != nil {
			return wrong("a boolean")
		}
		into.SetBool(b)
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.value, 64)
		if err != nil {
			return wrong("a number")
		}
		into.SetFloat(f)
	case reflect.Int, reflect.Int64:
		i, err := strconv.ParseInt(n.value, 10, 64)
		if err != nil {
			return wrong("a whole number")
		}
		into.SetInt(i)
	default:
		panic(fmt.Sprintf("the wire has no %s", into.Type()))
	}
	return nil
}

// element writes a value as XML; a nil pointer writes nothing.
func element(b *bytes.Buffer, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Invalid:
		return
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			element(b, name, v.Elem())
		}
		return
	}
	b.WriteString("<" + name + ">")
	switch {
	case v.Type() == stampType:
		b.WriteString(v.Interface().(Stamp).UTC().Format("2006-01-02T15:04:05.000Z"))
	case v.Kind() == reflect.Struct:
		for f, x := range v.Fields() {
			if name, optional := member(f); !optional || !empty(x) {
				element(b, name, x)
			}
		}
	case v.Kind() == reflect.Slice:
		for _, x := range v.Seq2() {
			element(b, "member", x)
		}
	case v.Kind() == reflect.Map:
		for _, k := range slices.SortedFunc(v.Seq(), func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) }) {
			b.WriteString("<entry>")
			element(b, "key", k)
			element(b, "value", v.MapIndex(k))
			b.WriteString("</entry>")
		}
	case v.Kind() == reflect.String:
		_ = xml.EscapeText(b, []byte(v.String())) // a buffer takes everything
	case v.Kind() == reflect.Float64:
		b.WriteString(strconv.FormatFloat(v.Float(), 'g', -1, 64))
	default:
		fmt.Fprint(b, v.Interface())
	}
	b.WriteString("</" + name + ">")
}
