package queueing

import (
	"fmt"
	"math"
)

// Steady is what an arrival finds in the long run: P is the probability of each state, and an arrival that finds q
// requests is refused.
type Steady struct {
	P []float64

	chain  Chain
	lambda float64
	q      int
}

// Steady is the long run at lambda arrivals a second with room for q requests, which are served first come, first
// served. For a queue without a bound, take q so large that Refused is nothing.
//
// As many arrivals cross from below state m to it or above as stages take the chain from m to below, and every crossing
// comes from the k states below m: one pass upwards, all of it additions of positive numbers, gives P exactly.
func (c Chain) Steady(lambda float64, q int) (Steady, error) {
	if err := c.check(lambda); err != nil {
		return Steady{}, err
	}
	if q < 1 {
		return Steady{}, fmt.Errorf("steady state with room for %d requests: at least 1 is needed", q)
	}
	rate := c.rates(q)
	p := make([]float64, len(rate))
	p[0] = 1
	for m := 1; m < len(p); m++ {
		up := 0.0
		for j := max(0, m-c.Stages); j < min(m, (q-1)*c.Stages+1); j++ {
			up += p[j]
		}
		p[m] = up * lambda / rate[m]
		if p[m] > 1e200 {
			for j := range p[:m+1] {
				p[j] *= 1e-200
			}
		}
	}
	total := sum(p)
	for m := range p {
		p[m] /= total
	}
	return Steady{P: p, chain: c, lambda: lambda, q: q}, nil
}

// Held is the probability of each number of requests in the system, 0 to q.
func (s Steady) Held() []float64 {
	held := make([]float64, s.q+1)
	for m, p := range s.P {
		held[s.chain.held(m)] += p
	}
	return held
}

// Mean is the mean number of requests in the system.
func (s Steady) Mean() float64 {
	mean := 0.0
	for n, p := range s.Held() {
		mean += float64(n) * p
	}
	return mean
}

// Refused is the share of arrivals that find q requests in the system (Poisson arrivals see time averages).
func (s Steady) Refused() float64 { return s.Held()[s.q] }

// Waits is how long an admitted request waits until its own service begins.
type Waits struct {
	clock float64   // ticks a second
	alive []float64 // probability of still waiting after so many ticks
}

// Waits is the law of the wait. A request waits for the stages that it finds ahead. Those that come behind it can change
// the rate of service but not the order, so of the rates at its place and beyond the lowest is taken: exact where the
// rate is constant, never too short where it is not.
func (s Steady) Waits() Waits {
	k := s.chain.Stages
	v := append([]float64(nil), s.P[:(s.q-1)*k+1]...)
	for i, admitted := range v {
		v[i] = admitted / (1 - s.Refused())
	}
	rate := s.chain.rates(s.q)
	lowest := math.Inf(1)
	for _, mu := range s.chain.Mu[min(s.q, len(s.chain.Mu))-1:] {
		lowest = math.Min(lowest, float64(k)*mu)
	}
	w := Waits{}
	for m := len(rate) - 1; m > 0; m-- {
		lowest = math.Min(lowest, rate[m])
		rate[m] = lowest
		w.clock = math.Max(w.clock, lowest)
	}
	v[0] = 0 // an idle server: no wait
	top := len(v) - 1
	for alive := sum(v); alive > 1e-13; alive = sum(v) {
		w.alive = append(w.alive, alive)
		for m := 1; m < top; m++ {
			v[m] += (v[m+1]*rate[m+1] - v[m]*rate[m]) / w.clock
		}
		v[top] -= v[top] * rate[top] / w.clock
	}
	return w
}

// Above is the probability of waiting longer than t seconds.
func (w Waits) Above(t float64) float64 {
	first, weight := poisson(w.clock * t)
	p := 0.0
	for i, x := range weight {
		if first+i >= len(w.alive) {
			break
		}
		p += x * w.alive[first+i]
	}
	return p
}

// Quantile is the wait in seconds that a share p of requests, 0 to below 1, does not exceed.
func (w Waits) Quantile(p float64) float64 {
	if w.Above(0) <= 1-p {
		return 0
	}
	lo, hi := 0.0, (float64(len(w.alive))+1)/w.clock
	for w.Above(hi) > 1-p {
		hi *= 2
	}
	for range 60 {
		mid := (lo + hi) / 2
		if w.Above(mid) > 1-p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
