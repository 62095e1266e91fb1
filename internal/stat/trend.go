package stat

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// mserBatch is the 5 of MSER-5.
const mserBatch = 5

// WarmUp is how many values at the start MSER-5 would drop: the cut, in whole batches of five, that makes the standard
// error of the mean of the rest smallest (White, 1997; Hoad, Robinson & Davies, 2010). A cut past half of the values
// says that the series never settled. Values must be finite.
func WarmUp(xs []float64) int {
	batches := len(xs) / mserBatch
	best, cut := math.Inf(1), 0
	// Sums from the end, so that each suffix costs one step; about the total mean, so that little cancels.
	centre := Mean(xs[:batches*mserBatch])
	var n, sum, squares float64
	for b := batches - 1; b >= 0; b-- {
		m := Mean(xs[b*mserBatch:(b+1)*mserBatch]) - centre
		n, sum, squares = n+1, sum+m, squares+m*m
		if n < fewestBatches { // a suffix of a few alike batches would always win
			continue
		}
		if e := max(squares-sum*sum/n, 0) / (n * n); e <= best {
			best, cut = e, b*mserBatch
		}
	}
	return cut
}

// ranks of xs from 1, equal values sharing their mean rank.
func ranks(xs []float64) []float64 {
	order := make([]int, len(xs))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return xs[order[a]] < xs[order[b]] })
	r := make([]float64, len(xs))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && xs[order[j]] == xs[order[i]] {
			j++
		}
		for _, o := range order[i:j] {
			r[o] = float64(i+j+1) / 2
		}
		i = j
	}
	return r
}

// Trend is Spearman's rank correlation of xs with their order, −1 to 1, and the two-sided probability of one so strong
// without a trend (Student's t with n−2 degrees of freedom). (0, 1) for fewer than five values or all alike. Infinite
// values are ranks like any other.
func Trend(xs []float64) (rho, p float64) {
	n := len(xs)
	if n < 5 {
		return 0, 1
	}
	r := ranks(xs)
	mid := float64(n+1) / 2
	var xy, xx, yy float64
	for i, y := range r {
		x := float64(i+1) - mid
		xy, xx, yy = xy+x*(y-mid), xx+x*x, yy+(y-mid)*(y-mid)
	}
	if yy == 0 {
		return 0, 1
	}
	rho = xy / math.Sqrt(xx*yy)
	df := float64(n - 2)
	if 1-rho*rho < 1e-12 {
		return rho, 2 / factorial(n) // only one order of all is as strong, each way
	}
	t := math.Abs(rho) * math.Sqrt(df/(1-rho*rho))
	return rho, 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Survival(t)
}

func factorial(n int) float64 { return math.Gamma(float64(n) + 1) }

// Slope is the median of the slopes between all pairs (Theil and Sen), a step of 1 apart: a trend that a few wild values
// do not bend. Pairs of two infinite values are left out. 0 for fewer than two values.
func Slope(xs []float64) float64 {
	var slopes []float64
	for i := range xs {
		for j := i + 1; j < len(xs); j++ {
			if d := xs[j] - xs[i]; !math.IsNaN(d) {
				slopes = append(slopes, d/float64(j-i))
			}
		}
	}
	if slopes == nil {
		return 0
	}
	slices.Sort(slopes)
	return Percentile(slopes, 50)
}

// Change is Pettitt's test for one change of level: the index of the first value of the new level, and the probability
// of one so clear without any change (Pettitt, 1979). (0, 1) for fewer than five values.
func Change(xs []float64) (at int, p float64) {
	n := len(xs)
	if n < 5 {
		return 0, 1
	}
	// U_t = 2·(sum of the first t ranks) − t·(n+1); the change is where it is farthest from 0.
	u, most := 0.0, 0.0
	for t, r := range ranks(xs)[:n-1] {
		u += 2*r - float64(n+1)
		if math.Abs(u) > most {
			most, at = math.Abs(u), t+1
		}
	}
	cube := float64(n) * float64(n) * float64(n+1)
	return at, min(2*math.Exp(-6*most*most/cube), 1)
}

// Shift is the two-sided probability, by the rank-sum test with the normal approximation and ties, that two samples of
// one distribution differ in level as much as these. 1 when either is empty.
func Shift(a, b []float64) float64 {
	n, m := float64(len(a)), float64(len(b))
	if n == 0 || m == 0 {
		return 1
	}
	all := append(slices.Clone(a), b...)
	sum := 0.0
	r := ranks(all)
	for i := range a {
		sum += r[i]
	}
	ties := 0.0
	s := Sorted(all)
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j] == s[i] {
			j++
		}
		d := float64(j - i)
		ties += d*d*d - d
		i = j
	}
	N := n + m
	v := n * m / 12 * (N + 1 - ties/(N*max(N-1, 1)))
	if v <= 0 {
		return 1
	}
	return math.Erfc(math.Abs(sum-n*(N+1)/2) / math.Sqrt(2*v))
}
