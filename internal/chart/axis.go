package chart

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// clockSteps are what people count time by, in seconds.
var clockSteps = []float64{60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400}

// stepOf is the least round distance of ticks that needs no more than most of them.
func stepOf(k Scale, width float64, most int) float64 {
	least := width / float64(most)
	if k == Seconds && least > 30 {
		for _, s := range clockSteps {
			if s >= least {
				return s
			}
		}
	}
	if k == Seconds && least > 20 {
		return 30
	}
	mag := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*mag >= least*(1-1e-9) {
			return m * mag
		}
	}
	return 10 * mag
}

// ticks of a span, at most about that many.
func (s span) ticks(k Scale, most int) []float64 {
	var out []float64
	if s.log {
		for e := int(math.Ceil(math.Log10(s.lo) - 1e-9)); math.Pow10(e) <= s.hi*(1+1e-9); e++ {
			out = append(out, math.Pow10(e))
		}
		return out
	}
	step := stepOf(k, s.hi-s.lo, most)
	for i := math.Ceil(s.lo/step - 1e-9); i*step <= s.hi+step*1e-9; i++ {
		out = append(out, i*step)
	}
	return out
}

// Label is a figure of a scale as a text shows it: three digits that count, commas between thousands.
func Label(k Scale, v float64) string { return label(k, v, 0) }

// About is a number of things as a text says it that only estimates them: three digits that count, commas between thousands.
func About(v float64) string {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return number(v, 0)
	}
	unit := math.Pow10(max(int(math.Floor(math.Log10(math.Abs(v))))-2, 0))
	return number(math.Round(v/unit)*unit, 0)
}

// Length is a length of time as a text says it, without digits that nobody reads: 6.7 ms, 30.6 s, 2 min 6 s, 1 h 11 min.
func Length(d time.Duration) string {
	if d < 0 {
		return "−" + Length(-d)
	}
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 999.95:
		if d == 0 {
			return "0 s"
		}
		return strings.TrimSuffix(strconv.FormatFloat(max(ms, 0.1), 'f', 1, 64), ".0") + " ms"
	case ms < 59_950:
		return strings.TrimSuffix(strconv.FormatFloat(ms/1000, 'f', 1, 64), ".0") + " s"
	}
	var parts []string
	s := int64(d.Round(time.Second) / time.Second)
	for _, u := range []struct {
		name string
		s    int64
	}{{"h", 3600}, {"min", 60}, {"s", 1}} {
		if n := s / u.s; n > 0 {
			parts = append(parts, strconv.FormatInt(n, 10)+" "+u.name)
		}
		s %= u.s
	}
	return strings.Join(parts, " ")
}

// Money is an amount of US dollars as a text says it, to so many decimals, with commas between thousands.
func Money(v float64, decimals int) string {
	sign := ""
	if v < 0 {
		sign, v = "−", -v
	}
	return sign + "$" + commas(strconv.FormatFloat(v, 'f', decimals, 64))
}

// label is a figure of a scale, as an axis or a list shows it. step is how far apart the ticks are, 0: three digits.
func label(k Scale, v, step float64) string {
	switch k {
	case Seconds:
		return seconds(v, step)
	case Millis:
		if math.Abs(v) >= 1000 {
			return number(v/1000, step/1000) + " s"
		}
		return number(v, step) + " ms"
	}
	return number(v, step)
}

// seconds are told in the unit of their step, or of their own size.
func seconds(v, step float64) string {
	whole := func(unit float64) bool {
		return step >= unit && math.Mod(step, unit) == 0 || step == 0 && math.Abs(v) >= 10*unit
	}
	switch {
	case v == 0:
		return "0"
	case whole(3600):
		return number(v/3600, step/3600) + " h"
	case whole(60):
		return number(v/60, step/60) + " min"
	}
	return number(v, step) + " s"
}

// number has as many digits as its step needs, or three that count, at most six behind the point, and commas between thousands.
func number(v, step float64) string {
	digits := 0
	switch {
	case step > 0:
		for digits < 6 && math.Abs(step*math.Pow10(digits)-math.Round(step*math.Pow10(digits))) > 1e-6*step*math.Pow10(digits) {
			digits++
		}
	case v != 0:
		digits = min(max(0, 2-int(math.Floor(math.Log10(math.Abs(v))))), 6)
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") && step == 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return commas(s)
}

// commas stand between the thousands of a decimal number.
func commas(s string) string {
	whole, rest, dot := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "−", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if dot {
		whole += "." + rest
	}
	return sign + whole
}
