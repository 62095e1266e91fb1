package stat

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// AtMost is P(X ≤ k) for X binomial with n trials of probability p. n and k may be fractional (effective samples): the
// regularised incomplete beta function I_{1−p}(n−k, k+1) joins the whole ones.
func AtMost(n, k, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	return mathext.RegIncBeta(n-k, k+1, 1-p)
}

// Proves says whether k late of n prove that the rate of lateness is at most p, at confidence 1−alpha: were it higher,
// so few would be seen with a probability of at most alpha. Exact, not approximate.
func Proves(n, k, p, alpha float64) bool { return AtMost(n, k, p) <= alpha }

// MaxLate is the most late ones of n that still prove a rate of at most p; −1 when n is too small to prove it with none.
func MaxLate(n int, p, alpha float64) int {
	return sort.Search(n+1, func(k int) bool { return !Proves(float64(n), float64(k), p, alpha) }) - 1
}

// Refutes says whether k late of n prove that the rate is above p: were it not, so many would be seen with a probability
// of at most alpha.
func Refutes(n, k, p, alpha float64) bool {
	if k <= 0 {
		return false
	}
	// The upper tail by its own incomplete beta: 1 − AtMost would lose what is small.
	return mathext.RegIncBeta(min(k, n), max(n-k, 0)+1, p) <= alpha
}

// MinRefuting is the fewest late ones of n that prove a rate above p; n+1 when even n cannot.
func MinRefuting(n int, p, alpha float64) int {
	return sort.Search(n+1, func(k int) bool { return Refutes(float64(n), float64(k), p, alpha) })
}

// Decision of a sequential test.
type Decision int

// The decisions.
const (
	Open Decision = iota // go on
	Good                 // the rate is the low one
	Bad                  // the rate is the high one
)

// Sequential is Wald's sequential probability ratio test between two rates of lateness: it decides as soon as the samples
// can tell, which is early when the rate is far from both (Wald, Sequential Analysis, 1947).
type Sequential struct {
	late, ok     float64 // added to the log ratio by one sample
	lower, upper float64
	ratio        float64
	decision     Decision
}

// NewSequential tests rate low against high; alpha is the chance to call low high, beta the reverse.
func NewSequential(low, high, alpha, beta float64) *Sequential {
	return &Sequential{late: math.Log(high / low), ok: math.Log((1 - high) / (1 - low)),
		lower: math.Log(beta / (1 - alpha)), upper: math.Log((1 - beta) / alpha)}
}

// Add takes a sample. Once decided, the decision stands.
func (s *Sequential) Add(late bool) Decision {
	if s.decision != Open {
		return s.decision
	}
	if late {
		s.ratio += s.late
	} else {
		s.ratio += s.ok
	}
	switch {
	case s.ratio <= s.lower:
		s.decision = Good
	case s.ratio >= s.upper:
		s.decision = Bad
	}
	return s.decision
}

// Decision so far.
func (s *Sequential) Decision() Decision { return s.decision }
