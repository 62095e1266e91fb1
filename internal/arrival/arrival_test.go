package arrival

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func must(t *testing.T) func(Profile, error) Profile {
	return func(p Profile, err error) Profile {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

func TestEven(t *testing.T) {
	p := must(t)(Constant(10, time.Second))
	at := p.Even()
	if len(at) != 10 || at[0] != 0 || at[3] != 300*time.Millisecond {
		t.Errorf("10 a second for a second: %v", at)
	}

	// From 0 to 20 a second in 2 s: t² · 5 arrivals by t, so the k-th is at sqrt(k/5).
	for k, got := range must(t)(Ramp(0, 20, 2*time.Second)).Even() {
		if want := math.Sqrt(float64(k) / 5); math.Abs(got.Seconds()-want) > 1e-8 {
			t.Errorf("arrival %d of the ramp at %v, want %.9f s", k, got, want)
		}
	}
	for k, got := range must(t)(Ramp(20, 0, 2*time.Second)).Even() {
		if want := 2 - math.Sqrt(4-float64(k)/5); math.Abs(got.Seconds()-want) > 1e-8 {
			t.Errorf("arrival %d of the fall at %v, want %.9f s", k, got, want)
		}
	}

	surge := must(t)(Surge(100, 1.5, 2*time.Second, time.Second, 4*time.Second))
	by := func(at []time.Duration, from, to time.Duration) (n int) {
		for _, a := range at {
			if from <= a && a < to {
				n++
			}
		}
		return n
	}
	got := surge.Even()
	for i, want := range []int{100, 100, 150, 100} {
		s := time.Duration(i) * time.Second
		if n := by(got, s, s+time.Second); n != want {
			t.Errorf("second %d of the surge holds %d arrivals, want %d", i, n, want)
		}
	}
}

func TestDrawIsInOrderWithinTheProfile(t *testing.T) {
	for seed := range uint64(50) {
		p := must(t)(Surge(30, 1+float64(seed%4), time.Second, time.Second, 3*time.Second))
		at := p.Poisson(rng(seed))
		if !slices.IsSorted(at) || at[0] < 0 || at[len(at)-1] > p.Len() {
			t.Fatalf("seed %d: %v", seed, at)
		}
		if !slices.Equal(at, p.Poisson(rng(seed))) {
			t.Fatalf("seed %d draws two schedules", seed)
		}
	}
}

func TestPoissonFollowsItsLaw(t *testing.T) {
	for name, p := range map[string]Profile{
		"constant": must(t)(Constant(200, 5*time.Second)),
		"ramp":     must(t)(Ramp(10, 400, 5*time.Second)),
		"surge":    must(t)(Surge(150, 1.5, time.Second, 2*time.Second, 5*time.Second)),
	} {
		// Of arrivals that follow the law, p-values are uniform: 5 % of them lie under 0.05.
		const seeds = 500
		under, count := 0, 0.0
		for s := range uint64(seeds) {
			at := p.Poisson(rng(s))
			count += float64(len(at))
			if p.Fit(at).P < 0.05 {
				under++
			}
		}
		if share := float64(under) / seeds; share < 0.03 || share > 0.07 {
			t.Errorf("%s: p < 0.05 in %.3f of the draws", name, share)
		}
		if mean, want := count/seeds, p.Expected(p.Len()); math.Abs(mean-want) > 4*math.Sqrt(want/seeds) {
			t.Errorf("%s: %.2f arrivals on average, want %.2f", name, mean, want)
		}
	}
}

func TestFitFindsWhatIsNotPoisson(t *testing.T) {
	p := must(t)(Constant(100, 10*time.Second))
	late := p.Poisson(rng(1))
	for i := range late { // a client that sends in bursts, every 50 ms
		late[i] = late[i].Truncate(50*time.Millisecond) + 50*time.Millisecond
	}
	slow := must(t)(Constant(80, 10*time.Second)).Poisson(rng(2))
	for name, at := range map[string][]time.Duration{"even": p.Even(), "bursts": late, "a fifth slow": slow} {
		if f := p.Fit(at); f.P > 0.02 {
			t.Errorf("%s passes for Poisson: %v", name, f)
		}
	}
	if f := p.Fit(nil); f.String() != "no arrivals to test" {
		t.Errorf("none: %v", f)
	}
}

// The limit law is that of Σ Z_j²/(j(j+1)) (Anderson and Darling 1954); its tail by Imhof's integral (Biometrika 48, 1961).
func TestAndersonDarling(t *testing.T) {
	for _, z := range []float64{0.2, 0.5, 1, 1.248, 1.933, 2.492, 3.857, 6} {
		if got, want := andersonDarling(z), 1-imhof(z); math.Abs(got-want) > 2e-5 {
			t.Errorf("P(A² < %g) = %.6f, want %.6f", z, got, want)
		}
	}
	last := 0.0
	for z := 0.001; z < 50; z += 0.001 {
		p := andersonDarling(z)
		if p < last-1e-4 || p < 0 || p > 1 {
			t.Fatalf("P(A² < %.3f) = %g after %g", z, p, last)
		}
		last = p
	}
}

func imhof(x float64) float64 {
	const terms, step = 200, 0.05
	x -= 1.0 / (terms + 1) // the mean of the terms left out
	sum := 0.0
	for u := step / 2; u < 300; u += step {
		theta, rho := -x*u/2, 1.0
		for j := 1.0; j <= terms; j++ {
			v := u / (j * (j + 1))
			theta += math.Atan(v) / 2
			rho *= 1 + v*v
		}
		sum += math.Sin(theta) / (u * math.Pow(rho, 0.25)) * step
	}
	return 0.5 + sum/math.Pi
}

func TestCheckNamesTheFault(t *testing.T) {
	for _, c := range []struct {
		say string
		err error
	}{
		{"rate -1", second(Constant(-1, time.Second))},
		{"rate NaN", second(Constant(math.NaN(), time.Second))},
		{"lasts 0s", second(Constant(1, 0))},
		{"at most 50000000", second(Constant(1e6, time.Hour))},
		{"instants in order", second(Surge(1, 2, time.Second, time.Second, time.Second))},
		{"two points", Profile{}.Check()},
		{"timestamp 2", second(Trace([]time.Time{time.Unix(5, 0), time.Unix(4, 0)}))},
		{"no timestamps", second(Trace(nil))},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.say) {
			t.Errorf("want an error that says %q, got %v", c.say, c.err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestTrace(t *testing.T) {
	at, err := Trace([]time.Time{time.Unix(9, 0), time.Unix(9, 0), time.Unix(11, 5)})
	if err != nil || !slices.Equal(at, []time.Duration{0, 0, 2*time.Second + 5}) {
		t.Errorf("%v, %v", at, err)
	}
}

// Drawing is the inverse of Expected.
func FuzzDraw(f *testing.F) {
	f.Add(10.0, 20.0, 5.0, uint16(3000))
	f.Add(0.0, 900.0, 0.0, uint16(1))
	f.Add(1e-9, 0.5, 100.0, uint16(65535))
	f.Fuzz(func(t *testing.T, a, b, c float64, ms uint16) {
		d := time.Duration(ms) * time.Millisecond
		p := Profile{{0, a}, {d, b}, {d, c}, {2*d + time.Second, a}}
		if p.Check() != nil || p.Expected(p.Len()) > 1e5 {
			t.Skip("not a profile, or a long one")
		}
		at := p.Even()
		if want := p.Expected(p.Len()); math.Abs(float64(len(at))-want) > 1.0001 {
			t.Fatalf("%v: %d arrivals, %g expected", p, len(at), want)
		}
		top := max(a, b, c)
		for k, x := range at {
			if e := p.Expected(x); math.Abs(e-float64(k)) > 1e-6+2e-9*top+1e-9*float64(k) {
				t.Fatalf("%v: arrival %d at %v where %g are expected", p, k, x, e)
			}
		}
	})
}

// TestStream: drawn in parts, the arrivals are those that are drawn at once.
func TestStream(t *testing.T) {
	p := Profile{{0, 5}, {10 * time.Second, 40}, {10 * time.Second, 0}, {20 * time.Second, 0}, {20 * time.Second, 12}, {40 * time.Second, 3}}
	for name, c := range map[string]struct {
		whole []time.Duration
		rng   *rand.Rand
	}{"Poisson": {p.Poisson(rand.New(rand.NewPCG(1, 2))), rand.New(rand.NewPCG(1, 2))}, "even": {p.Even(), nil}} {
		s, err := NewStream(p, c.rng)
		if err != nil {
			t.Fatal(err)
		}
		var parts []time.Duration
		for end := 7 * time.Second; end < time.Minute; end += 7 * time.Second {
			n := len(parts)
			parts = s.Until(end, parts)
			if len(parts) > n && parts[len(parts)-1] >= end {
				t.Errorf("%s: %s was drawn as before %s", name, parts[len(parts)-1], end)
			}
		}
		if !slices.Equal(parts, c.whole) {
			t.Errorf("%s: %d in parts, %d at once, or at other instants", name, len(parts), len(c.whole))
		}
	}
	if _, err := NewStream(Profile{{0, -1}, {time.Second, 1}}, nil); err == nil {
		t.Error("a negative rate is drawn")
	}
	// More than fit into memory at once.
	s, err := NewStream(Profile{{0, 1e6}, {time.Hour, 1e6}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Until(time.Millisecond, nil)); n != 1000 {
		t.Errorf("%d in the first millisecond of a million a second", n)
	}
}
