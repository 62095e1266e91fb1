package queueing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// dense is the chain as a full generator matrix over the states below level, written the obvious way.
func dense(c Chain, lambda float64, level int) [][]float64 {
	k, n := c.Stages, (level-1)*c.Stages+1
	g := make([][]float64, n)
	for m := range g {
		g[m] = make([]float64, n)
		g[m][m] = -lambda
		if m+k < n {
			g[m][m+k] += lambda
		}
		if m > 0 {
			held := int(math.Ceil(float64(m) / float64(k)))
			rate := float64(k) * c.Mu[min(held, len(c.Mu))-1]
			g[m][m-1] += rate
			g[m][m] -= rate
		}
	}
	return g
}

// exponential is e^(g·t) by scaling, a Taylor series and squaring.
func exponential(g [][]float64, t float64) [][]float64 {
	n, squarings := len(g), 0
	norm := 0.0
	for _, row := range g {
		s := 0.0
		for _, x := range row {
			s += math.Abs(x) * t
		}
		norm = math.Max(norm, s)
	}
	for ; norm > 0.1; norm /= 2 {
		squarings++
	}
	scale := t / math.Exp2(float64(squarings))
	out, term := unit(n), unit(n)
	for i := 1; i < 20; i++ {
		term = product(term, g, scale/float64(i))
		for a := range out {
			for b := range out[a] {
				out[a][b] += term[a][b]
			}
		}
	}
	for range squarings {
		out = product(out, out, 1)
	}
	return out
}

func unit(n int) [][]float64 {
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
		m[i][i] = 1
	}
	return m
}

func product(a, b [][]float64, scale float64) [][]float64 {
	out := make([][]float64, len(a))
	for i := range a {
		out[i] = make([]float64, len(b))
		for l, x := range a[i] {
			if x != 0 {
				for j, y := range b[l] {
					out[i][j] += x * y * scale
				}
			}
		}
	}
	return out
}

func TestPassageAgainstDenseMatrix(t *testing.T) {
	chains := []Chain{
		{Mu: []float64{1}, Stages: 1},
		{Mu: []float64{1}, Stages: 3},
		{Mu: []float64{2, 3.5, 4}, Stages: 2},
		{Mu: []float64{4, 6, 5, 2}, Stages: 4},
	}
	for _, c := range chains {
		for _, level := range []int{1, 2, 6} {
			for _, lambda := range []float64{0.5, 1, 3} {
				for _, seconds := range []float64{0, 0.3, 4, 60} {
					start := c.With(level - 1)
					want := 1.0
					for _, x := range exponential(dense(c, lambda, level), seconds)[len(start)-1] {
						want -= x
					}
					got, err := c.Passage(lambda, level, seconds, start)
					if err != nil {
						t.Fatal(err)
					}
					if math.Abs(got-want) > 1e-4*want+1e-8 {
						t.Errorf("%v reaches %d at %g/s within %g s: %.9f, dense matrix %.9f", c, level, lambda, seconds, got, want)
					}
					if seconds > 0 {
						inverted := 1 - c.uniform(lambda, level).invert(seconds, start)
						if math.Abs(inverted-want) > 1e-6 {
							t.Errorf("%v reaches %d at %g/s within %g s: inverted %.9f, dense matrix %.9f", c, level, lambda, seconds, inverted, want)
						}
					}
				}
			}
		}
	}
}

func TestSteadyAgainstDenseMatrix(t *testing.T) {
	for _, c := range []Chain{{Mu: []float64{1}, Stages: 3}, {Mu: []float64{2, 3.5, 4}, Stages: 2}} {
		for _, lambda := range []float64{0.5, 1, 9} {
			const q = 5
			g := dense(c, lambda, q+1)
			for m := range g { // an arrival that finds q is refused, not lost from sight
				if m+c.Stages >= len(g) {
					g[m][m] += lambda
				}
			}
			want := exponential(g, 2000)[0]
			s, err := c.Steady(lambda, q)
			if err != nil {
				t.Fatal(err)
			}
			for m := range want {
				if math.Abs(s.P[m]-want[m]) > 1e-9 {
					t.Errorf("%v at %g/s, state %d: %.12f, dense matrix %.12f", c, lambda, m, s.P[m], want[m])
				}
			}
		}
	}
}

// The published shed probability: an M/M/1 queue from 38, at C/(1+C) of its rate, touching 50.
func TestPassagePublished(t *testing.T) {
	mu := 1 / 0.06132258724884511
	c := Chain{Mu: []float64{mu}, Stages: 1}
	p, err := c.Passage(37.5/38.5*mu, 50, 320.248496, c.With(38))
	if err != nil || math.Abs(p-0.968) > 0.001 {
		t.Errorf("shed probability %.4f, %v: want 0.968", p, err)
	}
}

// Poisson arrivals, fixed service: Pollaczek and Khinchine's mean, and the exponential server's closed forms.
func TestSteadyClosedForms(t *testing.T) {
	for _, k := range []int{1, 2, 8, 32} {
		for _, rho := range []float64{0.3, 0.8, 0.95} {
			c := Chain{Mu: []float64{1}, Stages: k}
			s, err := c.Steady(rho, 800)
			if err != nil {
				t.Fatal(err)
			}
			want := rho + rho*rho*(1+1/float64(k))/(2*(1-rho))
			if math.Abs(s.Mean()-want) > 1e-6*want {
				t.Errorf("k=%d rho=%g: mean %.9f, Pollaczek-Khinchine %.9f", k, rho, s.Mean(), want)
			}
		}
	}
	c := Chain{Mu: []float64{17.9}, Stages: 1}
	s, _ := c.Steady(0.8*17.9, 400)
	w := s.Waits()
	for _, x := range []float64{0.01, 0.3, 1} {
		want := 0.8 * math.Exp(-17.9*0.2*x)
		if got := w.Above(x); math.Abs(got-want) > 1e-9 {
			t.Errorf("P(wait > %g) = %.12f, want %.12f", x, got, want)
		}
	}
	if got, want := w.Quantile(0.95), math.Log(0.8/0.05)/(17.9*0.2); math.Abs(got-want) > 1e-6 {
		t.Errorf("p95 wait %.9f, want %.9f", got, want)
	}
	if got := w.Quantile(0.1); got != 0 {
		t.Errorf("a tenth of requests wait up to %g s: an idle server has no wait", got)
	}
}

// erlang draws one service time of mean 1/mu.
func erlang(r *rand.Rand, k int, mu float64) float64 {
	product := 1.0
	for range k {
		product *= 1 - r.Float64()
	}
	return -math.Log(product) / (float64(k) * mu)
}

// simulate plays a constant-rate queue event by event until it reaches level or t seconds have passed.
func simulate(r *rand.Rand, k int, mu, lambda float64, level int, t float64, n int) bool {
	arrival, leave := r.ExpFloat64()/lambda, math.Inf(1)
	if n > 0 {
		leave = erlang(r, k, mu)
	}
	for {
		if arrival < leave {
			if arrival > t {
				return false
			}
			if n++; n >= level {
				return true
			}
			if n == 1 {
				leave = arrival + erlang(r, k, mu)
			}
			arrival += r.ExpFloat64() / lambda
			continue
		}
		if leave > t {
			return false
		}
		if n--; n > 0 {
			leave += erlang(r, k, mu)
		} else {
			leave = math.Inf(1)
		}
	}
}

func TestPassageAgainstEvents(t *testing.T) {
	const trials = 2000
	for i, cell := range []struct {
		rho   float64
		q, k  int
		t     float64
		start int
	}{{0.85, 5, 1, 40, 0}, {0.95, 5, 16, 60, 0}, {1, 50, 4, 900, 10}, {1.1, 50, 1, 300, 0}, {1.25, 50, 8, 200, 0}} {
		c := Chain{Mu: []float64{1}, Stages: cell.k}
		want, err := c.Passage(cell.rho, cell.q+1, cell.t, c.With(cell.start))
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(7, uint64(i)))
		hits := 0
		for range trials {
			if simulate(r, cell.k, 1, cell.rho, cell.q+1, cell.t, cell.start) {
				hits++
			}
		}
		got := float64(hits) / trials
		if slack := 4 * math.Sqrt(want*(1-want)/trials); math.Abs(got-want) > slack {
			t.Errorf("%+v: chain %.4f, events %.4f of %d trials (±%.4f)", cell, want, got, trials, slack)
		}
	}
}

func TestWaitsAgainstEvents(t *testing.T) {
	for _, k := range []int{2, 6} {
		const rho, customers = 0.8, 200_000
		c := Chain{Mu: []float64{1}, Stages: k}
		s, _ := c.Steady(rho, 600)
		p95 := s.Waits().Quantile(0.95)
		r := rand.New(rand.NewPCG(3, uint64(k)))
		wait, above := 0.0, 0
		for range customers { // Lindley's recursion
			wait = math.Max(0, wait+erlang(r, k, 1)-r.ExpFloat64()/rho)
			if wait > p95 {
				above++
			}
		}
		// Waits of neighbours go together over about 1/(1−ρ)² services: that many customers tell as much as one.
		slack := 4 * math.Sqrt(0.05*0.95/(customers*(1-rho)*(1-rho)))
		if got := float64(above) / customers; math.Abs(got-0.05) > slack {
			t.Errorf("k=%d: %.4f wait longer than the p95 of %.3f: want 0.05 ± %.4f", k, got, p95, slack)
		}
	}
}

// More in the system that is served no faster waits the longer: the bound is not below the truth.
func TestWaitsOfLoadDependentRates(t *testing.T) {
	c := Chain{Mu: []float64{1, 1.8, 2.4}, Stages: 1}
	s, _ := c.Steady(1.5, 100)
	above := s.Waits().Above(2)
	r := rand.New(rand.NewPCG(1, 2))
	late, seen := 0, 0
	now, arrival := 0.0, 0.0
	var queue []float64 // arrival times, the first in service
	leave := math.Inf(1)
	for seen < 200_000 {
		if arrival < leave {
			now = arrival
			queue = append(queue, now)
			if len(queue) == 1 {
				seen++ // begins at once
			}
			arrival += r.ExpFloat64() / 1.5
		} else {
			now = leave
			if queue = queue[1:]; len(queue) > 0 {
				seen++
				if now-queue[0] > 2 {
					late++
				}
			}
		}
		if leave = math.Inf(1); len(queue) > 0 { // memoryless: the stage may be drawn anew
			leave = now + r.ExpFloat64()/c.mu(len(queue))
		}
	}
	if got := float64(late) / float64(seen); above < got*0.97 {
		t.Errorf("P(wait > 2 s) = %.4f by the bound and %.4f by events", above, got)
	}
}

// The two methods agree where both can go, near criticality too, where nothing decays for long.
func TestInversionAgainstTicks(t *testing.T) {
	for _, k := range []int{1, 8} {
		for _, rho := range []float64{0.9, 0.98, 1, 1.05} {
			c := Chain{Mu: []float64{10}, Stages: k}
			u := c.uniform(rho*10, 31)
			for _, seconds := range []float64{5, 40} {
				ticked, ok := u.tick(seconds, c.With(2))
				if inverted := u.invert(seconds, c.With(2)); !ok || math.Abs(ticked-inverted) > 1e-6 {
					t.Errorf("k=%d rho=%g t=%g: ticked %.8f (%v), inverted %.8f", k, rho, seconds, ticked, ok, inverted)
				}
			}
		}
	}
}

// Seconds, not minutes, where the queue is long and the server fast: ticking alone would take hundreds of times the
// budget. At load 1 a Brownian motion with the chain's variance says about the same.
func TestPassageOfLongQueue(t *testing.T) {
	c := Chain{Mu: []float64{1000}, Stages: 16}
	p, err := c.Passage(1000, 501, 320, c.With(0))
	if err != nil {
		t.Fatal(err)
	}
	survive, rate := 0.0, (1+1.0/16)*1000/2
	for j := range 50 {
		odd := float64(2*j+1) * math.Pi / 2
		survive += math.Pow(-1, float64(j)) * 2 / odd * math.Exp(-odd*odd/(501*501)*rate*320)
	}
	if math.Abs(p-(1-survive)) > 0.01 {
		t.Errorf("reaches 501 within 320 s at load 1: %.4f, Brownian motion %.4f", p, 1-survive)
	}
}

func TestRefusals(t *testing.T) {
	good := Chain{Mu: []float64{1}, Stages: 1}
	for name, try := range map[string]func() error{
		"no rate":       func() error { _, err := Chain{Stages: 1}.Steady(1, 1); return err },
		"zero rate":     func() error { _, err := Chain{Mu: []float64{0}, Stages: 1}.Steady(1, 1); return err },
		"no stage":      func() error { _, err := Chain{Mu: []float64{1}}.Steady(1, 1); return err },
		"33 stages":     func() error { _, err := Chain{Mu: []float64{1}, Stages: 33}.Steady(1, 1); return err },
		"no arrivals":   func() error { _, err := good.Steady(0, 1); return err },
		"NaN arrivals":  func() error { _, err := good.Steady(math.NaN(), 1); return err },
		"no room":       func() error { _, err := good.Steady(1, 0); return err },
		"level 0":       func() error { _, err := good.Passage(1, 0, 1, good.With(0)); return err },
		"endless":       func() error { _, err := good.Passage(1, 5, math.Inf(1), good.With(0)); return err },
		"negative time": func() error { _, err := good.Passage(1, 5, -1, good.With(0)); return err },
	} {
		if try() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if p, err := good.Passage(1, 3, 0, good.With(3)); err != nil || p != 1 {
		t.Errorf("a start at the level has passed: %g, %v", p, err)
	}
}

func ExampleChain_Passage() {
	c := Chain{Mu: []float64{17.9}, Stages: Stages(0.25)}
	s, err := c.Steady(0.73*17.9, 50)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := c.Passage(1.25*0.73*17.9, 51, 320, s.P)
	fmt.Printf("%.1f requests held; refuses within 320 s of a surge of 1.25 with probability %.3f %v\n", s.Mean(), p, err)
	// Output: 2.0 requests held; refuses within 320 s of a surge of 1.25 with probability 0.043 <nil>
}
