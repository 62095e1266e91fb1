package replay

import (
	"math"
	"math/rand/v2"
)

func (l Law) check(key string, say func(string, ...any)) {
	high := 0.0
	switch l.Kind {
	case "deterministic", "empirical":
	case "exponential":
		if l.CV != 0 && l.CV != 1 {
			say("%s.cv is %v: that of an exponential law is 1, or left out", key, l.CV)
		}
		high = 1
	case "normal":
		high = 0.3
	case "lognormal":
		high = 10
	default:
		say("%s.kind is %q: it is deterministic, normal, lognormal, exponential or empirical", key, l.Kind)
		return
	}
	if !(l.CV >= 0 && l.CV <= high) {
		say("%s.cv is %v: for a %s law it goes from 0 to %v", key, l.CV, l.Kind, high)
	}
	if l.Kind != "empirical" {
		if len(l.Values) > 0 {
			say("%s.values belong to an empirical law, not to a %s one", key, l.Kind)
		}
		return
	}
	sum := 0.0
	for i, v := range l.Values {
		if !(v > 0 && v <= 1e9) {
			say("%s.values[%d] is %v: values are above 0, up to 1e9", key, i, v)
		}
		sum += v
	}
	if len(l.Values) == 0 {
		say("%s.values are missing: an empirical law draws from them", key)
	}
}

// factor draws from the law: positive, of mean 1.
func (l Law) factor(r *rand.Rand) float64 {
	switch l.Kind {
	case "normal":
		return math.Max(0.01, 1+l.CV*r.NormFloat64())
	case "lognormal":
		v := math.Log1p(l.CV * l.CV) // variance of the logarithm
		return math.Exp(math.Sqrt(v)*r.NormFloat64() - v/2)
	case "exponential":
		return r.ExpFloat64()
	case "empirical":
		sum := 0.0
		for _, v := range l.Values {
			sum += v
		}
		return l.Values[r.IntN(len(l.Values))] * float64(len(l.Values)) / sum
	default:
		return 1
	}
}
