package main

import (
	"math"
	"math/rand/v2"

	"loadline/internal/sample"

	"gonum.org/v1/gonum/stat/distuv"
)

// A law is a simulated endpoint with an objective of one second. inverse is the inverse distribution of the latency with
// n in flight, in seconds, of which truth is the most that meets the objective: 5 % are late at truth and a half.
type law struct {
	name      string
	low, high float64 // of the truth, where the answer must lie
	inverse   func(n, truth, u float64) float64
}

var normal = distuv.Normal{Mu: 0, Sigma: 1}

// lognormal is the inverse at u of median·e^(σZ).
func lognormal(median, sigma, u float64) float64 { return median * math.Exp(sigma*normal.Quantile(u)) }

// median that puts the 95th percentile on the objective.
func onObjective(sigma float64) float64 { return math.Exp(-sigma * normal.Quantile(0.95)) }

// laws are five shapes of a server at its limit. Of each but the sharp and the cliff, about 2.4 % are late at 0.85 × truth.
var laws = []law{
	{"soft knee", 0.80, 1, func(n, truth, u float64) float64 {
		return lognormal(onObjective(0.33)*(0.3+0.7*n/truth), 0.33, u)
	}},
	{"sharp", 0.90, 1, func(n, truth, u float64) float64 {
		return lognormal(onObjective(0.03)*(0.3+0.7*n/truth), 0.03, u)
	}},
	{"cliff", 0.80, 1, func(n, truth, u float64) float64 {
		if n > truth {
			return lognormal(5, 0.2, u)
		}
		return lognormal(0.25*(0.8+0.2*n/truth), 0.2, u)
	}},
	{"bimodal", 0.80, 1, func(n, truth, u float64) float64 {
		slow := min(0.05*math.Pow(n/truth, 4.6), 0.9)
		if u > 1-slow {
			return lognormal(1.5, 0.05, min((u-1+slow)/slow, 1-1e-9))
		}
		return lognormal(0.4*(0.5+0.5*n/truth), 0.1, u/(1-slow))
	}},
	{"heavy tail", 0.80, 1, func(n, truth, u float64) float64 { // Pareto with exponent 3
		return math.Pow(0.05, 1.0/3) * (0.1 + 0.9*math.Pow(n/truth, 1.7)) * math.Pow(1-u, -1.0/3)
	}},
}

// late is the share of requests over the objective with n in flight, by bisection.
func (l law) late(n, truth float64) float64 {
	lo, hi := 0.0, 1.0
	for range 60 {
		if u := (lo + hi) / 2; l.inverse(n, truth, u) > 1 {
			hi = u
		} else {
			lo = u
		}
	}
	return 1 - hi
}

// mean latency with n in flight.
func (l law) mean(n, truth float64) float64 {
	const steps = 2000
	sum := 0.0
	for i := range steps {
		sum += l.inverse(n, truth, (float64(i)+0.5)/steps)
	}
	return sum / steps
}

func open(u float64) float64 { return min(max(u, 1e-12), 1-1e-12) }

// independent is the law in a closed loop of streams, each request drawn by itself.
func (l law) independent(truth float64, rng *rand.Rand) func(now float64, n int) (mark, total float64, outcome sample.Outcome) {
	return func(_ float64, n int) (mark, total float64, outcome sample.Outcome) {
		x := l.inverse(float64(n), truth, open(rng.Float64()))
		return x, x, sample.OK
	}
}

// correlated hands out requests in order of completion whose late indicators are a chain with the given correlation
// between neighbours; latencies are those of the law given late or not. There are no streams to follow: a chain in order
// of completion is what the certificate must survive, and no closed loop of independent streams would show it.
type correlated struct {
	law         law
	truth       float64
	correlation float64
	rng         *rand.Rand
	now         float64 // seconds
	late        bool
	seq         int
}

// rung is the source of requests with n in flight.
func (c *correlated) rung(n int) func() sample.Request {
	p := c.law.late(float64(n), c.truth)
	gap := c.law.mean(float64(n), c.truth) / float64(n)
	return func() sample.Request {
		stay := p * (1 - c.correlation)
		if c.late {
			stay = p + c.correlation*(1-p)
		}
		c.late = c.rng.Float64() < stay
		u := c.rng.Float64() * (1 - p)
		if c.late {
			u = 1 - p*c.rng.Float64()
		}
		c.now += gap
		r := sample.New(c.seq)
		c.seq++
		r.End = sample.Nanos(c.now * 1e9)
		r.Started = r.End - sample.Nanos(1e9*c.law.inverse(float64(n), c.truth, open(u)))
		r.Intended, r.FirstAudio, r.Outcome, r.Audio, r.Chars = r.Started, r.End, sample.OK, 1.6, 25
		return r
	}
}
