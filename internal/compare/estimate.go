package compare

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"

	"loadline/internal/ladder"
	"loadline/internal/stat"
)

const confidence = 0.95

// estimate is a figure with its own 95 % interval, if known.
type estimate struct {
	value, low, high float64
	known            bool
}

func point(v *float64) *estimate {
	if v == nil {
		return nil
	}
	return &estimate{value: *v}
}

// exact is a figure that chance has no part in.
func exact(v float64) *estimate { return &estimate{v, v, v, true} }

func interval(v, low, high *float64) *estimate {
	if v == nil {
		return nil
	}
	if low == nil || high == nil {
		return point(v)
	}
	return &estimate{*v, *low, *high, true}
}

func measured(i ladder.Interval) *estimate {
	if !(i.Value > 0) {
		return nil
	}
	return interval(&i.Value, i.Low, i.High)
}

// difference is the interval of b − a for two independent figures, from their own intervals: the distances of the ends
// add up as squares, each side by itself (the MOVER of Zou and Donner 2008). Ends that are infinite stay so.
func difference(a, b estimate) (low, high float64) {
	d := b.value - a.value
	if math.IsNaN(d) { // both infinitely late
		return math.Inf(-1), math.Inf(1)
	}
	return d - math.Hypot(b.value-b.low, a.high-a.value), d + math.Hypot(b.high-b.value, a.value-a.low)
}

// quantile is percentile p of values in the order in which they came, which may be infinite, with an interval from order
// statistics: as many independent ones as the indicator of exceeding it is worth. Unknown where there are too few for an
// upper end.
func quantile(xs []float64, p float64) *estimate {
	if len(xs) == 0 {
		return nil
	}
	sorted := stat.Sorted(xs)
	e := estimate{value: stat.Percentile(sorted, p)}
	above := make([]bool, len(xs))
	for i, x := range xs {
		above[i] = x > e.value
	}
	n, _ := stat.EffectiveN(above)
	whole := int(math.Ceil(n))
	tail := (1 - confidence) / 2
	// The k-th smallest of n lies below the percentile with P(Binomial(n, p) ≥ k), at or above it with P(… ≤ k − 1).
	up := sort.Search(whole+1, func(k int) bool { return stat.AtMost(n, float64(k)-1, p/100) >= 1-tail })
	down := sort.Search(whole+1, func(k int) bool { return stat.AtMost(n, float64(k)-1, p/100) > tail }) - 1
	if up > whole || down < 1 {
		return &e
	}
	rank := func(k int, round func(float64) float64) float64 { // the k-th of n effective ones, among those that there are
		i := int(round(float64(k)*float64(len(sorted))/n)) - 1
		return sorted[max(0, min(len(sorted)-1, i))]
	}
	e.low, e.high, e.known = min(rank(down, math.Floor), e.value), max(rank(up, math.Ceil), e.value), true
	return &e
}

// share is k of n with Wilson's interval over the effective n.
func share(k, n int, nEff float64) *estimate {
	if n == 0 {
		return nil
	}
	p := float64(k) / float64(n)
	if !(nEff > 0) {
		return &estimate{value: p}
	}
	z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
	mid := (p + z*z/(2*nEff)) / (1 + z*z/nEff)
	half := z / (1 + z*z/nEff) * math.Sqrt(p*(1-p)/nEff+z*z/(4*nEff*nEff))
	return &estimate{p, max(0, mid-half), min(1, mid+half), true}
}

// mean of values that chance alone tells apart, with Student's interval; unknown for fewer than two.
func mean(xs []float64) *estimate {
	if len(xs) == 0 {
		return nil
	}
	m := stat.Mean(xs)
	if len(xs) < 2 {
		return &estimate{value: m}
	}
	half := stat.HalfWidth(xs, confidence)
	return &estimate{m, m - half, m + half, true}
}

// batched is the mean of values in the order in which they came, with an interval from the means of batches: neighbours
// have much in common.
func batched(xs []float64) *estimate {
	const batches = 20
	if len(xs) < 2*batches {
		return mean(xs)
	}
	size := len(xs) / batches
	means := make([]float64, batches)
	for i := range means {
		means[i] = stat.Mean(xs[i*size : (i+1)*size])
	}
	e := mean(means)
	shift := stat.Mean(xs) - e.value
	return &estimate{e.value + shift, e.low + shift, e.high + shift, e.known}
}
