package queueing

import (
	"fmt"
	"math"
)

const (
	relTol = 1e-4  // of a first-passage probability, where the rest of the time is taken as a geometric series
	absTol = 1e-9  // likewise
	gone   = 1e-13 // survivors that no longer count

	// Ticking is given up after some states times ticks: as many as inverting takes, or a few milliseconds' worth.
	budgetLeast = 2e6
	budgetShare = 150
)

// Passage is the probability that, starting from a distribution over states (With, or Steady.P), the number of requests
// in the system reaches level within t seconds, while lambda arrive a second. A start at level or above has passed
// already. An instance with room for Q requests refuses one when it would reach Q + 1.
//
// Method: uniformisation (Jensen 1953). The chain is watched at the ticks of a Poisson clock fast enough for every
// state, so the probability of surviving to t is the mean, over the number of ticks, of a product of one substochastic
// matrix. Once every state's share of the survivors shrinks by nearly the same factor a tick, the smallest and largest
// such factor bound all later survival (Collatz–Wielandt), and the rest is a geometric series. A chain that would take
// too many ticks until then is inverted from its transform instead.
func (c Chain) Passage(lambda float64, level int, t float64, start []float64) (float64, error) {
	if err := c.check(lambda); err != nil {
		return 0, err
	}
	if level < 1 || !(t >= 0) || math.IsInf(t, 0) {
		return 0, fmt.Errorf("first passage to %d within %g s: the level must be at least 1 and the time finite", level, t)
	}
	u := c.uniform(lambda, level)
	s, ok := u.tick(t, start)
	if !ok {
		s = u.invert(t, start)
	}
	return math.Min(1, math.Max(0, 1-s)), nil
}

// tick is the probability of survival to t; ok is false when the budget did not suffice.
func (u uniform) tick(t float64, start []float64) (survive float64, ok bool) {
	v, next := make([]float64, len(u.serve)), make([]float64, len(u.serve))
	copy(v, start)
	ticks := u.clock * t
	first, w := poisson(ticks)
	last := first + len(w) - 1
	alive := sum(v)
	check := 64
	budget := math.Max(budgetLeast, budgetShare*float64(len(v)*u.stages))
	for j := 0; j <= last && alive > gone; j++ {
		if j >= first {
			survive += w[j-first] * alive
		}
		if float64(j)*float64(len(v)) > budget {
			return 0, false
		}
		lost := u.step(next, v)
		if j == check {
			check += max(64, check/8)
			lo, hi, reached := ratios(next, v)
			r := (alive - lost) / alive
			left := float64(last - j)
			p := 1 - alive*math.Pow(r, left)
			if reached && left*(hi-lo) <= relTol*p+absTol {
				for i := max(j+1, first); i <= last; i++ {
					survive += w[i-first] * alive * math.Pow(r, float64(i-j))
				}
				return survive, true
			}
		}
		v, next = next, v
		alive -= lost
	}
	return survive, true
}

// uniform is the chain at the ticks of its clock: from state m, serve[m] goes one down, arrive goes k up, the rest stays.
type uniform struct {
	clock  float64 // ticks a second
	arrive float64
	serve  []float64
	stages int
}

// uniform watches the states of fewer than level requests.
func (c Chain) uniform(lambda float64, level int) uniform {
	serve := c.rates(level - 1)
	most := 0.0
	for _, r := range serve {
		most = math.Max(most, r)
	}
	u := uniform{clock: lambda + most, serve: serve, stages: c.Stages}
	for m := range serve {
		serve[m] /= u.clock
	}
	u.arrive = lambda / u.clock
	return u
}

// step moves the distribution v one tick on, into next, and returns the share that reached the level.
func (u uniform) step(next, v []float64) (lost float64) {
	k, top := u.stages, len(v)-1
	for m, x := range v[:top] {
		next[m] = x*(1-u.arrive-u.serve[m]) + v[m+1]*u.serve[m+1]
	}
	next[top] = v[top] * (1 - u.arrive - u.serve[top])
	for m := 0; m+k <= top; m++ {
		next[m+k] += v[m] * u.arrive
	}
	return u.arrive * sum(v[max(0, top+1-k):])
}

// ratios are the smallest and the largest factor by which a state's share changed in one tick; ok is false while a state
// has not been reached.
func ratios(next, v []float64) (lo, hi float64, ok bool) {
	lo, hi = math.Inf(1), 0
	for m, x := range v {
		if x <= 0 {
			return 0, 0, false
		}
		r := next[m] / x
		lo, hi = math.Min(lo, r), math.Max(hi, r)
	}
	return lo, hi, true
}

// poisson is the probabilities of a Poisson count of the given mean, from first on, without tails lighter than 1e-15.
func poisson(mean float64) (first int, w []float64) {
	if mean == 0 {
		return 0, []float64{1}
	}
	half := 8.5*math.Sqrt(mean) + 12
	first = int(math.Max(0, math.Floor(mean-half)))
	w = make([]float64, int(math.Ceil(mean+half))-first+1)
	mode := int(mean) - first
	w[mode] = 1
	for i := mode + 1; i < len(w); i++ {
		w[i] = w[i-1] * mean / float64(first+i)
	}
	for i := mode - 1; i >= 0; i-- {
		w[i] = w[i+1] * float64(first+i+1) / mean
	}
	total := sum(w)
	for i := range w {
		w[i] /= total
	}
	return first, w
}

func sum(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}
