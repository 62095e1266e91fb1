// Package stat is the arithmetic of proof: order statistics over values that may be infinite, exact binomial
// certificates, a sequential test, batch means, a warm-up cut and tests for trend and change. It decides nothing about
// rungs or endpoints; package ladder does.
//
// A p95 within an objective is a statement about a proportion, at most 5 % late, and is proved as one:
//
//	stat.Proves(181, 4, 0.05, 0.05) // true: 4 late of 181 prove at most 5 % late, at 95 % confidence
//	stat.Proves(181, 5, 0.05, 0.05) // false
//
// Functions take slices in order of time unless they ask for sorted ones, and never change them.
package stat

import "math"

// Mean of xs; NaN when there are none.
func Mean(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// variance about the mean, with n−1 below; 0 for fewer than two.
func variance(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	m, sum := Mean(xs), 0.0
	for _, x := range xs {
		sum += (x - m) * (x - m)
	}
	return sum / float64(len(xs)-1)
}

// CV2 is the squared coefficient of variation, variance over squared mean; NaN for fewer than two values or a mean of 0.
func CV2(xs []float64) float64 {
	m := Mean(xs)
	if len(xs) < 2 || m == 0 {
		return math.NaN()
	}
	return variance(xs) / (m * m)
}
