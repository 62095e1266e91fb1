package stat

import (
	"math"
	"slices"
	"sort"
)

// Sorted is a sorted copy; infinite values come last.
func Sorted(xs []float64) []float64 {
	s := slices.Clone(xs)
	slices.Sort(s)
	return s
}

// Percentile p (0 to 100) of sorted values by linear interpolation between the two nearest ranks, (n−1)·p/100 from the
// smallest: the commonest definition, numpy's default. Infinite when the upper of the two is; NaN of none.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	h := float64(len(sorted)-1) * min(max(p, 0), 100) / 100
	i := int(h)
	lo := sorted[i]
	if frac := h - float64(i); frac > 0 {
		if hi := sorted[i+1]; hi != lo { // equal infinities would give NaN
			return lo + (hi-lo)*frac
		}
	}
	return lo
}

// PercentileUpper is the smallest of the sorted values that percentile p of the population stays at or below with the
// confidence (0 to 1): the u-th smallest with P(Binomial(n, p) < u) ≥ confidence. False when even the largest cannot
// say so: 59 values are the fewest that can for p95 at 95 %.
func PercentileUpper(sorted []float64, p, confidence float64) (float64, bool) {
	n := len(sorted)
	u := sort.Search(n+1, func(u int) bool { return AtMost(float64(n), float64(u)-1, p/100) >= confidence })
	if u < 1 || u > n {
		return math.Inf(1), false
	}
	return sorted[u-1], true
}
