package wire

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"

	"github.com/aws/smithy-go/encoding/cbor"
)

// CBOR is Smithy's RPC v2 over CBOR, which the Go SDK speaks to CloudWatch. Structures are mapped as package
// encoding/json does it, so that each has one declaration for all protocols.
var CBOR = Codec{
	ContentType: "application/cbor",
	Decode: func(body []byte, into any) error {
		v, err := cbor.Decode(body)
		if err != nil {
			return fmt.Errorf("the body is no CBOR: %w", err)
		}
		return fromCBOR(v, reflect.ValueOf(into).Elem(), "the input")
	},
	Encode: func(v any) ([]byte, error) { return cbor.Encode(toCBOR(reflect.ValueOf(v))), nil },
	Header: func(h http.Header) { h.Set("Smithy-Protocol", "rpc-v2-cbor") },
	Fault: func(h http.Header, f *Fault) any {
		oldName(h, f)
		return map[string]any{"__type": "com.amazonaws.cloudwatch#" + f.Code, "message": f.Message}
	},
}

var stampType = reflect.TypeFor[Stamp]()

// toCBOR is any value of the wire's structures: structs, maps by string, slices, pointers, strings, numbers, stamps.
func toCBOR(v reflect.Value) cbor.Value {
	switch v.Kind() {
	case reflect.Invalid:
		return cbor.Map{}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return &cbor.Nil{}
		}
		return toCBOR(v.Elem())
	case reflect.Struct:
		if v.Type() == stampType {
			return &cbor.Tag{ID: 1, Value: cbor.Float64(v.Interface().(Stamp).seconds())}
		}
		m := cbor.Map{}
		for f, x := range v.Fields() {
			name, optional := member(f)
			if optional && empty(x) {
				continue
			}
			m[name] = toCBOR(x)
		}
		return m
	case reflect.Map:
		m := cbor.Map{}
		for k, x := range v.Seq2() {
			m[k.String()] = toCBOR(x)
		}
		return m
	case reflect.Slice:
		list := cbor.List{}
		for _, x := range v.Seq2() {
			list = append(list, toCBOR(x))
		}
		return list
	case reflect.String:
		return cbor.String(v.String())
	case reflect.Bool:
		return cbor.Bool(v.Bool())
	case reflect.Float64:
		return cbor.Float64(v.Float())
	case reflect.Int, reflect.Int64:
		if n := v.Int(); n < 0 {
			return cbor.NegInt(uint64(-n))
		}
		return cbor.Uint(uint64(v.Int()))
	}
	panic(fmt.Sprintf("the wire has no %s", v.Type()))
}

// member is a field's name on the wire, as package encoding/json sees it, and whether it is left out when it is empty.
func member(f reflect.StructField) (name string, optional bool) {
	name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
	return cmp.Or(name, f.Name), opts == "omitempty"
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

// fromCBOR fills into; where says what is being read, for the error.
func fromCBOR(v cbor.Value, into reflect.Value, where string) error {
	if _, null := v.(*cbor.Nil); null {
		return nil
	}
	if _, undefined := v.(*cbor.Undefined); undefined {
		return nil
	}
	wrong := func(want string) error { return fmt.Errorf("%s must be %s", where, want) }
	if into.Type() == stampType {
		tag, ok := v.(*cbor.Tag)
		if !ok || tag.ID != 1 {
			return wrong("a time")
		}
		seconds, ok := number(tag.Value)
		if !ok || into.Addr().Interface().(*Stamp).set(seconds) != nil {
			return wrong("a time")
		}
		return nil
	}
	switch into.Kind() {
	case reflect.Pointer:
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
		}
		return fromCBOR(v, into.Elem(), where)
	case reflect.Struct:
		m, ok := v.(cbor.Map)
		if !ok {
			return wrong("a structure")
		}
		for f, x := range into.Fields() {
			name, _ := member(f)
			if inner, there := m[name]; there {
				if err := fromCBOR(inner, x, name); err != nil {
					return err
				}
			}
		}
	case reflect.Map:
		m, ok := v.(cbor.Map)
		if !ok {
			return wrong("a map")
		}
		into.Set(reflect.MakeMap(into.Type()))
		for k, inner := range m {
			x := reflect.New(into.Type().Elem()).Elem()
			if err := fromCBOR(inner, x, k); err != nil {
				return err
			}
			into.SetMapIndex(reflect.ValueOf(k), x)
		}
	case reflect.Slice:
		list, ok := v.(cbor.List)
		if !ok {
			return wrong("a list")
		}
		into.Set(reflect.MakeSlice(into.Type(), len(list), len(list)))
		for i, inner := range list {
			if err := fromCBOR(inner, into.Index(i), fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
	case reflect.String:
		s, ok := v.(cbor.String)
		if !ok {
			return wrong("a string")
		}
		into.SetString(string(s))
	case reflect.Bool:
		b, ok := v.(cbor.Bool)
		if !ok {
			return wrong("a boolean")
		}
		into.SetBool(bool(b))
	case reflect.Float64:
		f, ok := number(v)
		if !ok {
			return wrong("a number")
		}
		into.SetFloat(f)
	case reflect.Int, reflect.Int64:
		f, ok := number(v)
		if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return wrong("a whole number")
		}
		into.SetInt(int64(f))
	default:
		panic(fmt.Sprintf("the wire has no %s", into.Type()))
	}
	return nil
}

func number(v cbor.Value) (float64, bool) {
	switch v := v.(type) {
	case cbor.Float64:
		return float64(v), true
	case cbor.Float32:
		return float64(v), true
	case cbor.Uint:
		return float64(v), true
	case cbor.NegInt:
		return -float64(v), true
	}
	return 0, false
}
