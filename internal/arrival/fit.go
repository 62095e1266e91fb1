package arrival

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Fit says how well arrivals follow the law they were meant to: the Anderson–Darling statistic of their gaps against the
// exponential law of known mean, and how often arrivals that do follow it show a greater one.
type Fit struct {
	N  int     // gaps
	A2 float64 // Anderson–Darling A²
	P  float64 // probability of an A² this great or greater under the law; under about 20 gaps only rough
}

// String is the line that commands print.
func (f Fit) String() string {
	if f.N == 0 {
		return "no arrivals to test"
	}
	return fmt.Sprintf("Anderson–Darling A² %.2f over %d gaps, p = %.3f", f.A2, f.N, f.P)
}

// Fit tests instants against a Poisson process with the profile's rate: counted in expected arrivals instead of seconds,
// its gaps are exponential with mean 1. Instants that lie before the one above them, as starts recorded by several
// workers may, are put in order.
func (p Profile) Fit(at []time.Duration) Fit {
	at = slices.Clone(at)
	slices.Sort(at)
	gaps := make([]float64, len(at))
	last := 0.0
	for i, t := range at {
		e := p.Expected(t)
		gaps[i], last = e-last, e
	}
	return Exponential(gaps, 1)
}

// Exponential tests gaps against the exponential law of the given mean, in any unit.
func Exponential(gaps []float64, mean float64) Fit {
	n := len(gaps)
	if n == 0 {
		return Fit{}
	}
	x := slices.Clone(gaps)
	slices.Sort(x)
	// A² = −n − Σ (2i−1)/n · (ln F(x_i) + ln(1 − F(x_{n+1−i}))), i from 1; ln(1−F) is −x/mean, exactly.
	sum := 0.0
	for i := range x {
		low := max(x[i]/mean, 1e-300)
		sum += float64(2*i+1) * (math.Log(-math.Expm1(-low)) - x[n-1-i]/mean)
	}
	a2 := -float64(n) - sum/float64(n)
	return Fit{N: n, A2: a2, P: 1 - andersonDarling(a2)}
}

// andersonDarling is the limit of P(A² < z) for a fully known law, to about 2e-6: the approximation of Marsaglia and
// Marsaglia, "Evaluating the Anderson-Darling distribution", Journal of Statistical Software 9(2), 2004.
func andersonDarling(z float64) float64 {
	switch {
	case z <= 0:
		return 0
	case z < 2:
		return math.Exp(-1.2337141/z) / math.Sqrt(z) *
			(2.00012 + (.247105-(.0649821-(.0347962-(.0116720-.00168691*z)*z)*z)*z)*z)
	case z > 32: // past the fit's range; the tail is nothing there
		return 1
	}
	return math.Exp(-math.Exp(1.0776 - (2.30695-(.43424-(.082433-(.008056-.0003146*z)*z)*z)*z)*z))
}
