package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"loadline/internal/ladder"
)

// Encode writes a record: a *QMax, *TTotal, *Plan or *Freeze, or another value whose first field is its schema. Equal
// records give equal bytes: two-space indent, fields in the order of the type, map keys sorted, one newline at the end.
//
// JSON has no infinity. A percentile of a rung that falls among failed requests is written as null and named in the
// rung's `infinite`; any other number that is not finite is an error that says where it stands.
func Encode(record any) ([]byte, error) {
	if q, ok := record.(*QMax); ok {
		record = finite(q)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(record); err != nil {
		if _, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
			if path := notFinite(reflect.ValueOf(record), ""); path != "" {
				return nil, fmt.Errorf("cannot write the record: %s is not a finite number", path)
			}
		}
		return nil, fmt.Errorf("cannot write the record: %w", err)
	}
	return b.Bytes(), nil
}

// finite is q with the infinite percentiles of its rungs turned into null and named.
func finite(q *QMax) *QMax {
	c := *q
	c.Rungs = slices.Clone(q.Rungs)
	for i := range c.Rungs {
		named(&c.Rungs[i])
	}
	return &c
}

func named(r *ladder.Rung) {
	r.Infinite = slices.Clone(r.Infinite)
	for _, p := range []struct {
		name string
		v    **float64
	}{{"p50_ms", &r.P50}, {"p95_ms", &r.P95}, {"p95_upper_ms", &r.P95Upper}, {"p99_ms", &r.P99}, {"quantile_ms", &r.Quantile}} {
		if *p.v == nil || !math.IsInf(**p.v, 1) {
			continue
		}
		*p.v = nil
		if !slices.Contains(r.Infinite, p.name) {
			r.Infinite = append(r.Infinite, p.name)
		}
	}
}

// notFinite is the path of the first number in v that JSON cannot hold, or "".
func notFinite(v reflect.Value, path string) string {
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return path
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return notFinite(v.Elem(), path)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if p := notFinite(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); p != "" {
				return p
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if p := notFinite(it.Value(), join(path, fmt.Sprint(it.Key()))); p != "" {
				return p
			}
		}
	case reflect.Struct:
		for f, fv := range v.Fields() {
			name, _ := jsonName(f)
			if f.Anonymous {
				name = ""
			}
			if p := notFinite(fv, join(path, name)); p != "" {
				return p
			}
		}
	}
	return ""
}

func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}
