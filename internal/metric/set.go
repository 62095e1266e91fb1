// Package metric keeps numbers as CloudWatch does: statistic sets with percentiles, gathered into aligned periods, that
// can be read only once they are published, and for a bounded time.
//
// It decides what a reader gets for a period and when; which metrics there are, and the wire, are the caller's.
//
//	s, err := store.Series(metric.Key{Namespace: "AWS/SageMaker", Name: "ModelLatency", Dims: dims}, spec)
//	s.Observe(now, 60_000, 1)
//	for _, b := range s.Read(start, end, time.Minute, now) {
//		p95, ok := b.Percentile(95)
//	}
package metric

import (
	"maps"
	"math"
	"slices"
)

// distinct is how many different values a set tells apart; with more of them it rounds, at 0.1 % at first.
const distinct = 1024

// Set is the statistic set of some values, with their distribution where it is known. The zero value is an empty set.
type Set struct {
	Count, Sum, Min, Max float64

	values  map[float64]float64 // value to count
	bits    int                 // of a value's mantissa that are kept; 0: all
	unknown bool                // a set without its values was merged in
}

// Observe adds value n times.
func (s *Set) Observe(value, n float64) {
	s.widen(value, value)
	s.Count += n
	s.Sum += value * n
	s.put(value, n)
}

// Totals adds a set whose values are not known; percentiles cannot be told of it any more, unless they are all equal.
func (s *Set) Totals(count, sum, lo, hi float64) {
	if lo == hi {
		s.Observe(lo, count)
		return
	}
	s.widen(lo, hi)
	s.Count += count
	s.Sum += sum
	s.unknown, s.values = true, nil
}

// Merge adds what is in o.
func (s *Set) Merge(o *Set) {
	if o.Count == 0 {
		return
	}
	s.widen(o.Min, o.Max)
	s.Count += o.Count
	s.Sum += o.Sum
	if o.unknown {
		s.unknown, s.values = true, nil
	}
	for v, n := range o.values {
		s.put(v, n)
	}
}

func (s *Set) widen(lo, hi float64) {
	if s.Count == 0 {
		s.Min, s.Max = lo, hi
		return
	}
	s.Min, s.Max = min(s.Min, lo), max(s.Max, hi)
}

func (s *Set) put(v, n float64) {
	if s.unknown {
		return
	}
	if s.values == nil {
		s.values = map[float64]float64{}
	}
	s.values[round(v, s.bits)] += n
	for len(s.values) > distinct {
		if s.bits == 0 {
			s.bits = 11
		}
		s.bits--
		coarse := make(map[float64]float64, len(s.values))
		for v, n := range s.values {
			coarse[round(v, s.bits)] += n
		}
		s.values = coarse
	}
}

// round keeps the given number of bits of a value's mantissa, to nearest.
func round(v float64, bits int) float64 {
	if bits == 0 || v == 0 {
		return v
	}
	f, e := math.Frexp(v)
	scale := float64(int64(1) << bits)
	return math.Ldexp(math.Round(f*scale)/scale, e)
}

// Average is the mean, NaN of an empty set.
func (s *Set) Average() float64 { return s.Sum / s.Count }

// Percentile is the smallest value that at least p percent of the values do not exceed (nearest rank), 0 ≤ p ≤ 100. It
// cannot be told of an empty set, nor of one that holds totals without their values, nor of negative values, as in
// CloudWatch.
func (s *Set) Percentile(p float64) (float64, bool) {
	if s.unknown || len(s.values) == 0 || s.Min < 0 {
		return 0, false
	}
	rank, seen := p/100*s.Count, 0.0
	for _, v := range slices.Sorted(maps.Keys(s.values)) {
		if seen += s.values[v]; seen >= rank*(1-1e-12) {
			return min(max(v, s.Min), s.Max), true
		}
	}
	return s.Max, true
}
