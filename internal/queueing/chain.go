// Package queueing computes, exactly and without drawing a random number, what a queue in front of one instance does:
// how many requests it holds in the long run, how long one of them waits, and how likely it is to fill up within a time.
//
// The instance is a chain: requests arrive at random at a constant rate, and while n are there they are completed at a
// rate that depends on n; a service is k exponential stages in a row (k = 1 is the memoryless server, large k a nearly
// fixed time). Where the rates come from, and what is made of the answers, is left to package capacity.
//
//	c := queueing.Chain{Mu: []float64{17.9}, Stages: 32}
//	s, _ := c.Steady(14.3, 50)
//	p, _ := c.Passage(17.9, 51, 320*time.Second, s.P) // refuses a request within 320 s of a surge
package queueing

import (
	"fmt"
	"math"
)

// MaxStages is the most Erlang stages a service may have: a squared coefficient of variation of 1/32. Beyond it the
// chain grows and the answers hardly move.
const MaxStages = 32

// Stages is the number of Erlang stages whose squared coefficient of variation is nearest to cs2: max(1, round(1/cs2)),
// at most MaxStages. A cs2 of 0 or less is a fixed time, so MaxStages: that reads more waiting than there is.
func Stages(cs2 float64) int {
	if !(cs2 > 0) {
		return MaxStages
	}
	return int(math.Max(1, math.Min(MaxStages, math.Round(1/cs2))))
}

// Chain is one instance. While n requests are in it, waiting or in service, it completes Mu[n-1] a second; beyond the
// last entry the last rate stays.
type Chain struct {
	Mu     []float64 // each above 0
	Stages int       // of one service, 1 to MaxStages
}

// A state is the number of service stages still ahead of the instance: m = (n−1)·k + those left of the request in
// service. An arrival adds k, a finished stage takes one off, so the chain is a line with one short and one long step.

// mu is the completion rate with n in the system.
func (c Chain) mu(n int) float64 { return c.Mu[min(n, len(c.Mu))-1] }

// held is the number of requests in the system in state m.
func (c Chain) held(m int) int { return (m + c.Stages - 1) / c.Stages }

// rates of finishing a stage, by state, for up to n requests; rates[0] is 0.
func (c Chain) rates(n int) []float64 {
	r := make([]float64, n*c.Stages+1)
	for m := 1; m < len(r); m++ {
		r[m] = float64(c.Stages) * c.mu(c.held(m))
	}
	return r
}

func (c Chain) check(lambda float64) error {
	switch {
	case len(c.Mu) == 0:
		return fmt.Errorf("chain: no service rate given")
	case c.Stages < 1 || c.Stages > MaxStages:
		return fmt.Errorf("chain: %d service stages: 1 to %d are allowed", c.Stages, MaxStages)
	case !(lambda > 0) || math.IsInf(lambda, 0):
		return fmt.Errorf("chain: arrival rate %g a second: it must be above 0", lambda)
	}
	for i, mu := range c.Mu {
		if !(mu > 0) || math.IsInf(mu, 0) {
			return fmt.Errorf("chain: %g completions a second with %d in the system: it must be above 0", mu, i+1)
		}
	}
	return nil
}

// With is the state of n requests in the system, the first of which is about to begin its service.
func (c Chain) With(n int) []float64 {
	p := make([]float64, n*c.Stages+1)
	p[n*c.Stages] = 1
	return p
}
