package queueing

import "math"

// Inversion of the transform: terms before averaging, terms averaged, and the shift that keeps the aliasing below 1e-9.
const (
	plainTerms   = 40
	averageTerms = 14
	shift        = 20.7
)

// invert is the probability of survival to t from the Laplace transform of the survival function, by the Fourier series
// method with Euler summation (Abate and Whitt 1995). Its cost does not grow with the length of time: it stands in where
// the chain would have to be ticked too often, which is when survival falls slowly and smoothly. There it is good to
// about 1e-7.
func (u uniform) invert(t float64, start []float64) float64 {
	room := make([]complex128, len(u.serve)*(u.stages+2))
	at := func(k int) float64 {
		return real(u.transform(room, complex(shift/2, float64(k)*math.Pi)/complex(t, 0), start))
	}
	total := at(0) / 2
	sign := -1.0
	term := func(k int) float64 { defer func() { sign = -sign }(); return sign * at(k) }
	for k := 1; k <= plainTerms; k++ {
		total += term(k)
	}
	// Binomial average of the next partial sums.
	mean, choose := 0.0, math.Exp2(-averageTerms)
	for j := 0; j <= averageTerms; j++ {
		mean += choose * total
		choose *= float64(averageTerms-j) / float64(j+1)
		total += term(plainTerms + 1 + j)
	}
	return math.Exp(shift/2) / t * mean
}

// transform is the Laplace transform at s of the probability of survival from start: start times the solution x of
// (s − G)·x = 1. A state leads one down or k up, so elimination from below fills in k diagonals and no more; the matrix
// is diagonally dominant, so it needs no pivots.
//
// room is len(serve)·(stages+2) numbers to work in.
func (u uniform) transform(room []complex128, s complex128, start []float64) complex128 {
	n, k := len(u.serve), u.stages
	lambda := complex(u.arrive*u.clock, 0)
	clear(room)
	upper, pivot, x := room[:n*k], room[n*k:n*k+n], room[n*k+n:] // upper: of row m, the coefficients of m+1 to m+k
	for m := range n {
		serve := complex(u.serve[m]*u.clock, 0)
		row := upper[m*k : (m+1)*k]
		pivot[m], x[m] = s+lambda+serve, 1
		if m > 0 {
			f := serve / pivot[m-1]
			above := upper[(m-1)*k : m*k]
			pivot[m] += f * above[0]
			x[m] += f * x[m-1]
			for i := range k - 1 {
				row[i] = f * above[i+1]
			}
		}
		if m+k < n {
			row[k-1] -= lambda
		}
	}
	total := complex128(0)
	for m := n - 1; m >= 0; m-- {
		for i, c := range upper[m*k : m*k+min(k, n-1-m)] {
			x[m] -= c * x[m+1+i]
		}
		x[m] /= pivot[m]
		if m < len(start) {
			total += complex(start[m], 0) * x[m]
		}
	}
	return total
}
