package cloudwatch

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Metric math: arithmetic on time series, and what gathers several of them into one.
//
//	expression = term { ("+" | "-") term }
//	term       = factor { ("*" | "/") factor }
//	factor     = number | id | "(" expression ")" | "-" factor | FUNCTION "(" [ argument { "," argument } ] ")"
//	argument   = expression | "[" expression { "," expression } "]" | "string"

// points is a time series, by Unix seconds.
type points map[int64]float64

// mathValue is what an expression is worth: a number, a series, or a list of series.
type mathValue struct {
	number float64
	series points
	list   []points
	text   string
	kind   byte // 'n', 's', 'l', 't'
}

// mathQueries resolves ids while expressions are worked out.
type mathQueries struct {
	series  func(id string) (points, error) // of an id
	metrics func(part string) []points      // of all queries that are metrics, whose ids have that part
}

// evaluate is the series that an expression stands for.
func (q mathQueries) evaluate(expression string) (points, error) {
	p := &mathParser{mathQueries: q, rest: expression}
	v, err := p.sum(0)
	if err != nil {
		return nil, err
	}
	if p.skip(); p.rest != "" {
		return nil, fmt.Errorf("%q is more than an expression", p.rest)
	}
	if v.kind != 's' {
		return nil, fmt.Errorf("it must be worth one time series")
	}
	return v.series, nil
}

type mathParser struct {
	mathQueries
	rest string
}

const deepestMath = 50

func (p *mathParser) skip() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// take takes one of some characters, 0 where none of them comes next.
func (p *mathParser) take(any string) byte {
	if p.skip(); p.rest != "" && strings.IndexByte(any, p.rest[0]) >= 0 {
		c := p.rest[0]
		p.rest = p.rest[1:]
		return c
	}
	return 0
}

func (p *mathParser) sum(depth int) (mathValue, error) { return p.chain(depth, "+-", p.product) }

func (p *mathParser) product(depth int) (mathValue, error) { return p.chain(depth, "*/", p.factor) }

func (p *mathParser) chain(depth int, operators string, next func(int) (mathValue, error)) (mathValue, error) {
	left, err := next(depth)
	for err == nil {
		op := p.take(operators)
		if op == 0 {
			return left, nil
		}
		var right mathValue
		if right, err = next(depth); err == nil {
			left, err = combine(op, left, right)
		}
	}
	return left, err
}

func (p *mathParser) factor(depth int) (mathValue, error) {
	if depth > deepestMath {
		return mathValue{}, fmt.Errorf("it is nested too deeply")
	}
	switch {
	case p.take("-") != 0:
		v, err := p.factor(depth + 1)
		if err != nil {
			return v, err
		}
		return combine('-', mathValue{kind: 'n'}, v)
	case p.take("(") != 0:
		v, err := p.sum(depth + 1)
		if err == nil && p.take(")") == 0 {
			err = fmt.Errorf("a parenthesis is not closed")
		}
		return v, err
	}
	p.skip()
	n := len(p.rest) - len(strings.TrimLeftFunc(p.rest, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '.' }))
	word := p.rest[:n]
	p.rest = p.rest[n:]
	if f, err := strconv.ParseFloat(word, 64); err == nil {
		return mathValue{number: f, kind: 'n'}, nil
	}
	if word == "" {
		return mathValue{}, fmt.Errorf("a value is missing before %q", p.rest)
	}
	if p.take("(") != 0 {
		return p.call(word, depth)
	}
	s, err := p.series(word)
	return mathValue{series: s, kind: 's'}, err
}

func (p *mathParser) call(name string, depth int) (mathValue, error) {
	var args []mathValue
	for p.take(")") == 0 {
		if len(args) > 0 && p.take(",") == 0 {
			return mathValue{}, fmt.Errorf("%s( is not closed", name)
		}
		v, err := p.argument(depth + 1)
		if err != nil {
			return v, err
		}
		args = append(args, v)
	}
	if name == "METRICS" {
		part := ""
		if len(args) == 1 && args[0].kind == 't' {
			part = args[0].text
		}
		return mathValue{list: p.metrics(part), kind: 'l'}, nil
	}
	if name == "FILL" {
		if len(args) != 2 || args[0].kind != 's' || args[1].kind != 'n' {
			return mathValue{}, fmt.Errorf("FILL takes a metric and a number here")
		}
		return mathValue{series: p.fill(args[0].series, args[1].number), kind: 's'}, nil
	}
	if f := eachOf[name]; f != nil && len(args) == 1 && args[0].kind != 'l' {
		return combineOne(f, args[0]), nil
	}
	gather := ofAll[name]
	if gather == nil || len(args) != 1 || args[0].kind == 't' {
		return mathValue{}, fmt.Errorf("%s with %d arguments is not part of this local account: SUM, AVG, MIN, MAX, ABS, CEIL, FLOOR, FILL and METRICS are", name, len(args))
	}
	switch a := args[0]; a.kind {
	case 'l':
		return mathValue{series: across(a.list, gather), kind: 's'}, nil
	case 's':
		return mathValue{number: gather(slices.Collect(maps.Values(a.series))), kind: 'n'}, nil
	default:
		return a, nil
	}
}

func (p *mathParser) argument(depth int) (mathValue, error) {
	switch {
	case p.take("[") != 0:
		v := mathValue{kind: 'l'}
		for {
			item, err := p.sum(depth)
			if err != nil {
				return v, err
			}
			if item.kind != 's' {
				return v, fmt.Errorf("a list is of metrics")
			}
			v.list = append(v.list, item.series)
			if p.take("]") != 0 {
				return v, nil
			}
			if p.take(",") == 0 {
				return v, fmt.Errorf("a list is not closed")
			}
		}
	case p.take(`"'`) != 0:
		i := strings.IndexAny(p.rest, `"'`)
		if i < 0 {
			return mathValue{}, fmt.Errorf("a text is not closed")
		}
		v := mathValue{text: p.rest[:i], kind: 't'}
		p.rest = p.rest[i+1:]
		return v, nil
	}
	return p.sum(depth)
}

// fill gives a series a value at the times that other metrics have one.
func (p *mathParser) fill(s points, value float64) points {
	out := maps.Clone(s)
	for _, m := range p.metrics("") {
		for at := range m {
			if _, there := out[at]; !there {
				out[at] = value
			}
		}
	}
	return out
}

var eachOf = map[string]func(float64) float64{"ABS": math.Abs, "CEIL": math.Ceil, "FLOOR": math.Floor}

var ofAll = map[string]func([]float64) float64{
	"SUM": total,
	"AVG": func(v []float64) float64 { return total(v) / float64(len(v)) },
	"MIN": func(v []float64) float64 { return slices.Min(append(v, math.Inf(1))) },
	"MAX": func(v []float64) float64 { return slices.Max(append(v, math.Inf(-1))) },
}

func total(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum
}

// across is one series of several, of the values that there are at each time.
func across(list []points, gather func([]float64) float64) points {
	at := map[int64][]float64{}
	for _, s := range list {
		for t, v := range s {
			at[t] = append(at[t], v)
		}
	}
	out := points{}
	for t, v := range at {
		out[t] = gather(v)
	}
	return out
}

func combineOne(f func(float64) float64, a mathValue) mathValue {
	if a.kind == 'n' {
		return mathValue{number: f(a.number), kind: 'n'}
	}
	out := points{}
	for t, v := range a.series {
		out[t] = f(v)
	}
	return mathValue{series: out, kind: 's'}
}

// combine is the operator on two values; of two series at the times that both have. What has no result, as a division by
// zero, is left out.
func combine(op byte, a, b mathValue) (mathValue, error) {
	do := func(x, y float64) float64 {
		switch op {
		case '+':
			return x + y
		case '-':
			return x - y
		case '*':
			return x * y
		}
		return x / y
	}
	out := points{}
	put := func(t int64, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[t] = v
		}
	}
	switch {
	case a.kind == 'n' && b.kind == 'n':
		return mathValue{number: do(a.number, b.number), kind: 'n'}, nil
	case a.kind == 'n' && b.kind == 's':
		for t, v := range b.series {
			put(t, do(a.number, v))
		}
	case a.kind == 's' && b.kind == 'n':
		for t, v := range a.series {
			put(t, do(v, b.number))
		}
	case a.kind == 's' && b.kind == 's':
		for t, v := range a.series {
			if w, both := b.series[t]; both {
				put(t, do(v, w))
			}
		}
	default:
		return mathValue{}, fmt.Errorf("%c is not for lists", op)
	}
	return mathValue{series: out, kind: 's'}, nil
}

// inOrder is a series' times and values, oldest first.
func (s points) inOrder() (times []time.Time, values []float64) {
	for _, t := range slices.Sorted(maps.Keys(s)) {
		times, values = append(times, time.Unix(t, 0)), append(values, s[t])
	}
	return times, values
}
