package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tol {
		t.Errorf("%s: got %v, want %v ± %v", what, got, want, tol)
	}
}

// The exact numbers of a certificate for p95, one look.
func TestCertificateTable(t *testing.T) {
	for _, c := range []struct{ k, n95, n99 int }{{0, 59, 90}, {1, 93, 130}, {2, 124, 165}, {3, 153, 198}, {4, 181, 229},
		{5, 208, 259}, {6, 234, 288}, {7, 260, 316}, {8, 286, 344}, {9, 311, 371}, {10, 336, 398}, {15, 458, 529},
		{20, 577, 656}, {25, 694, 779}, {30, 809, 901}, {40, 1036, 1139}, {50, 1260, 1372}} {
		for _, side := range []struct {
			n     int
			alpha float64
		}{{c.n95, 0.05}, {c.n99, 0.01}} {
			if got := MaxLate(side.n, 0.05, side.alpha); got != c.k {
				t.Errorf("MaxLate(%d, alpha %g) = %d, want %d", side.n, side.alpha, got, c.k)
			}
			if got := MaxLate(side.n-1, 0.05, side.alpha); got != c.k-1 {
				t.Errorf("MaxLate(%d, alpha %g) = %d: %d should be the fewest for %d", side.n-1, side.alpha, got, side.n, c.k)
			}
		}
	}
	for k, n := range map[int]int{0: 299, 1: 473, 2: 628, 3: 773, 5: 1049, 10: 1693} {
		if got := MaxLate(n, 0.01, 0.05); got != k {
			t.Errorf("p99: MaxLate(%d) = %d, want %d", n, got, k)
		}
	}
	for _, c := range []struct{ n, pass, fail int }{{100, 1, 10}, {200, 4, 16}, {300, 8, 22}, {500, 16, 34}, {1000, 38, 63},
		{2000, 83, 117}, {5000, 224, 277}} {
		if got := MaxLate(c.n, 0.05, 0.05); got != c.pass {
			t.Errorf("MaxLate(%d) = %d, want %d", c.n, got, c.pass)
		}
		if got := MinRefuting(c.n, 0.05, 0.05); got != c.fail {
			t.Errorf("MinRefuting(%d) = %d, want %d", c.n, got, c.fail)
		}
	}
	for n, k := range map[int]int{181: 2, 473: 13, 1000: 34, 1500: 56} {
		if got := MaxLate(n, 0.05, 0.05/4); got != k {
			t.Errorf("four looks: MaxLate(%d) = %d, want %d", n, got, k)
		}
	}
	if got := MaxLate(58, 0.05, 0.05); got != -1 {
		t.Errorf("58 samples prove nothing at 95 %%, got %d", got)
	}
}

// Against the sum of the terms.
func TestBinomialAgainstSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		k := rapid.IntRange(0, n).Draw(t, "k")
		p := rapid.Float64Range(0.001, 0.5).Draw(t, "p")
		sum, above := 0.0, 0.0
		for i := 0; i <= n; i++ {
			a, _ := math.Lgamma(float64(n + 1))
			b, _ := math.Lgamma(float64(i + 1))
			c, _ := math.Lgamma(float64(n - i + 1))
			term := math.Exp(a - b - c + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
			if i <= k {
				sum += term
			}
			if i >= k {
				above += term
			}
		}
		if got := AtMost(float64(n), float64(k), p); math.Abs(got-sum) > 1e-9 {
			t.Fatalf("AtMost(%d, %d, %g) = %g, the sum is %g", n, k, p, got, sum)
		}
		if k > 0 && Refutes(float64(n), float64(k), p, above*1.0001) != true {
			t.Fatalf("Refutes(%d, %d, %g) misses the upper tail %g", n, k, p, above)
		}
		if k > 0 && above > 1e-200 && Refutes(float64(n), float64(k), p, above*0.9999) {
			t.Fatalf("Refutes(%d, %d, %g) is too easy: the upper tail is %g", n, k, p, above)
		}
	})
}

func TestPercentile(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		xs      []float64
		p, want float64
	}{
		{[]float64{1, 2, 3, 4}, 50, 2.5},
		{[]float64{1, 2, 3, 4}, 95, 3.85},
		{[]float64{1, 2, 3, 4}, 0, 1},
		{[]float64{1, 2, 3, 4}, 100, 4},
		{[]float64{7}, 95, 7},
		{[]float64{1, 2, inf, inf}, 95, inf},
		{[]float64{1, 2, 3, inf}, 50, 2.5},
		{[]float64{1, 2, 3, inf}, 67, inf},
	} {
		if got := Percentile(c.xs, c.p); got != c.want && math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Percentile(%v, %g) = %g, want %g", c.xs, c.p, got, c.want)
		}
	}
	if !math.IsNaN(Percentile(nil, 95)) {
		t.Error("a percentile of nothing must not be a number")
	}
}

// The bound holds for at least the stated share of samples of a known law.
func TestPercentileUpperCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{59, 100, 500} {
		held := 0
		const trials = 2000
		for range trials {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = rng.Float64()
			}
			if u, ok := PercentileUpper(Sorted(xs), 95, 0.95); ok && u >= 0.95 {
				held++
			}
		}
		if share := float64(held) / trials; share < 0.94 {
			t.Errorf("n = %d: the bound holds in %.3f of samples, want 0.95", n, share)
		}
	}
	if _, ok := PercentileUpper(make([]float64, 58), 95, 0.95); ok {
		t.Error("58 values cannot bound p95 at 95 %")
	}
}

// At most p late exactly when the bound meets the objective: the two ways to certify agree.
func TestBoundAgreesWithCertificate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := Sorted(rapid.SliceOfN(rapid.Float64Range(0, 2), 1, 400).Draw(t, "xs"))
		late := len(xs) - countAtMost(xs, 1)
		u, ok := PercentileUpper(xs, 95, 0.95)
		if byBound, byCount := ok && u <= 1, Proves(float64(len(xs)), float64(late), 0.05, 0.05); byBound != byCount {
			t.Fatalf("n %d, late %d: bound %v (%v), certificate %v", len(xs), late, u, ok, byCount)
		}
	})
}

func countAtMost(sorted []float64, x float64) int {
	n := 0
	for _, v := range sorted {
		if v <= x {
			n++
		}
	}
	return n
}

func TestSequential(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	run := func(rate float64) (bad float64, mean float64) {
		const trials = 1000
		for range trials {
			s := NewSequential(0.025, 0.075, 0.05, 0.05)
			d := Open
			n := 0
			for d == Open && n < 5000 {
				d = s.Add(rng.Float64() < rate)
				n++
			}
			mean += float64(n) / trials
			if d == Bad {
				bad += 1.0 / trials
			}
		}
		return bad, mean
	}
	if bad, n := run(0); bad != 0 || n < 55 || n > 58 {
		t.Errorf("no lateness: bad %.3f after %.0f, want good after about 56", bad, n)
	}
	if bad, _ := run(0.025); bad > 0.06 {
		t.Errorf("2.5 %% late is called bad in %.3f of tests, want at most 0.05", bad)
	}
	if bad, _ := run(0.075); bad < 0.94 {
		t.Errorf("7.5 %% late is called bad in %.3f of tests, want at least 0.95", bad)
	}
	if bad, n := run(0.5); bad < 0.999 || n > 10 {
		t.Errorf("50 %% late: bad %.3f after %.1f, want after about 6", bad, n)
	}
}

// markov late indicators: stationary rate p, correlation rho between neighbours.
func markov(rng *rand.Rand, n int, p, rho float64) []bool {
	late := make([]bool, n)
	now := rng.Float64() < p
	for i := range late {
		late[i] = now
		stay := p * (1 - rho)
		if now {
			stay = p + rho*(1-p)
		}
		now = rng.Float64() < stay
	}
	return late
}

func TestEffectiveN(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct{ rho, low, high float64 }{{0, 850, 1000}, {0.3, 450, 750}, {0.7, 150, 320}} {
		mean, clear := 0.0, 0
		for range 400 {
			n, p := EffectiveN(markov(rng, 1000, 0.05, c.rho))
			mean += n / 400
			if p < 0.05 {
				clear++
			}
		}
		if mean < c.low || mean > c.high {
			t.Errorf("correlation %.1f: 1000 samples are worth %.0f, want %.0f to %.0f", c.rho, mean, c.low, c.high)
		}
		if share := float64(clear) / 400; c.rho == 0 && share > 0.08 || c.rho == 0.7 && share < 0.98 {
			t.Errorf("correlation %.1f is called clear in %.2f of samples", c.rho, share)
		}
	}
	for _, late := range [][]bool{nil, make([]bool, 3), make([]bool, 500), {true, true, true}} {
		if n, p := EffectiveN(late); n != float64(len(late)) || p != 1 {
			t.Errorf("EffectiveN of %d alike = %v, %v", len(late), n, p)
		}
	}
}

func TestLagOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, rho := range []float64{0, 0.3, 0.7} {
		c, s := LagOne(markov(rng, 100_000, 0.05, rho))
		near(t, fmt.Sprintf("correlation %.1f", rho), c/s, rho, 0.03)
	}
}

func TestRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	held := 0
	for range 500 {
		var at []float64
		for now := rng.ExpFloat64() / 20; now < 30; now += rng.ExpFloat64() / 20 {
			at = append(at, now)
		}
		_, low, high, ok := Rate(at, 0, 30, 0.95)
		if ok && low <= 20 && 20 <= high {
			held++
		}
	}
	if share := float64(held) / 500; share < 0.91 {
		t.Errorf("the interval holds the true rate in %.3f of samples, want 0.95", share)
	}
	if _, _, _, ok := Rate([]float64{1, 2, 3}, 0, 10, 0.95); ok {
		t.Error("three events have no interval")
	}
	rate, _, _, _ := Rate([]float64{0, 1, 2, 3}, 1, 3, 0.95)
	near(t, "events in (1, 3]", rate, 1, 1e-12)
}

func TestWarmUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-5, 5), 0, 200).Draw(t, "xs")
		if got, want := WarmUp(xs), slowWarmUp(xs); math.Abs(mser(xs, got)-mser(xs, want)) > 1e-9 {
			t.Fatalf("WarmUp = %d, the slow way says %d", got, want)
		}
	})
	rng := rand.New(rand.NewPCG(11, 12))
	xs := make([]float64, 200)
	for i := range xs {
		xs[i] = 0.1*rng.NormFloat64() + 5*math.Exp(-float64(i)/5)
	}
	if cut := WarmUp(xs); cut < 15 || cut > 60 {
		t.Errorf("a start that dies out over 5 samples is cut at %d", cut)
	}
}

func mser(xs []float64, cut int) float64 {
	var m []float64
	for i := cut; i+5 <= len(xs); i += 5 {
		m = append(m, Mean(xs[i:i+5]))
	}
	if len(m) < 5 {
		return math.Inf(1)
	}
	return variance(m) * float64(len(m)-1) / float64(len(m)*len(m))
}

func slowWarmUp(xs []float64) int {
	best, cut := math.Inf(1), 0
	for c := 0; c+5 <= len(xs); c += 5 {
		if e := mser(xs, c); e < best {
			best, cut = e, c
		}
	}
	return cut
}

// Each test of trend, change and shift calls noise significant about as often as it says, and sees what is there.
func TestTrendTests(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	noise := func(n int) []float64 {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = rng.NormFloat64()
		}
		return xs
	}
	tests := map[string]func(xs []float64) float64{
		"trend":  func(xs []float64) float64 { _, p := Trend(xs); return p },
		"change": func(xs []float64) float64 { _, p := Change(xs); return p },
		"shift":  func(xs []float64) float64 { return Shift(xs[:len(xs)/2], xs[len(xs)/2:]) },
	}
	for name, test := range tests {
		wrong := 0
		for range 2000 {
			if test(noise(20)) < 0.05 {
				wrong++
			}
		}
		if share := float64(wrong) / 2000; share > 0.065 {
			t.Errorf("%s: %.3f of noise is significant at 0.05", name, share)
		}
		xs := noise(40)
		for i := range xs {
			xs[i] += float64(i / 20 * 4)
		}
		if p := test(xs); p > 0.001 {
			t.Errorf("%s: a step of four deviations has p = %g", name, p)
		}
	}
	steps := []float64{1, 1, 1, 1, 1, 9, 9, 9, 9, 9}
	if at, _ := Change(steps); at != 5 {
		t.Errorf("the change is at %d, want 5", at)
	}
	if rho, p := Trend([]float64{1, 2, 3, 4, 5, math.Inf(1)}); rho != 1 || p > 0.01 {
		t.Errorf("rising to infinity: rho %g, p %g", rho, p)
	}
	if rho, p := Trend([]float64{2, 2, 2, 2, 2, 2}); rho != 0 || p != 1 {
		t.Errorf("all alike: rho %g, p %g", rho, p)
	}
	near(t, "slope", Slope([]float64{0, 2, 4, 600, 8}), 2, 1e-12)
}

// Trend's probability against all orders of six values.
func TestTrendAgainstAllOrders(t *testing.T) {
	xs := []float64{1, 2, 4, 3, 6, 5, 7}
	rho, p := Trend(xs)
	as, all := 0, 0
	perm := []float64{1, 2, 3, 4, 5, 6, 7}
	var walk func(k int)
	walk = func(k int) {
		if k == len(perm) {
			all++
			if r, _ := Trend(perm); math.Abs(r) >= math.Abs(rho)-1e-9 {
				as++
			}
			return
		}
		for i := k; i < len(perm); i++ {
			perm[k], perm[i] = perm[i], perm[k]
			walk(k + 1)
			perm[k], perm[i] = perm[i], perm[k]
		}
	}
	walk(0)
	near(t, "probability", p, float64(as)/float64(all), 0.01)
}

func TestMoments(t *testing.T) {
	near(t, "mean", Mean([]float64{1, 2, 6}), 3, 1e-12)
	near(t, "cv2", CV2([]float64{1, 2, 6}), 7.0/9, 1e-12)
	if !math.IsNaN(Mean(nil)) || !math.IsNaN(CV2([]float64{1})) {
		t.Error("too few values must give no number")
	}
	xs := []float64{3, 1, 2}
	if s := Sorted(xs); !slices.IsSorted(s) || xs[0] != 3 {
		t.Error("Sorted must sort a copy")
	}
}
