package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"loadline/internal/capacity"
	"loadline/internal/queueing"
)

// Server is the model of one instance: while it holds n requests it completes X(n) a second, shared evenly by those that
// execute, at most Places at once, and the others wait in the order of their coming. With one place it is the chain of
// package queueing. It is safe for concurrent use.
type Server struct {
	x      capacity.Instance
	stages int
	places int
	slo    float64
	first  float64
	cpu    float64
	depth  int

	law  gamma
	flow func() (*flows, error) // of Fluid, made when first asked for
}

// ServerConfig is what a Server is made of.
type ServerConfig struct {
	Points []capacity.Point // the ladder, one for each concurrency
	CS2    float64          // squared coefficient of variation of a service; as Erlang stages, at most 32
	Places int              // executing at once; 0: 1, a serial server
	SLO    time.Duration    // objective on first audio
	First  float64          // share of its service after which a request is first heard; 0: 1, at its end
	CPU    float64          // percent while it completes its most; 0: 100
	Depth  int              // requests that one instance holds at most, as its gate; 0: no bound
}

// NewServer checks the model.
func NewServer(c ServerConfig) (*Server, error) {
	x, err := capacity.NewInstance(c.Points)
	if err != nil {
		return nil, err
	}
	if c.Places < 0 || c.Depth < 0 || !(c.First >= 0 && c.First <= 1) || c.SLO <= 0 || !(c.CS2 >= 0) || !(c.CPU >= 0) {
		return nil, fmt.Errorf("a simulated server has at least 0 places, a depth and a variability of at least 0, an objective above 0 and a first share of 0 to 1, not %d, %d, %g, %s and %g",
			c.Places, c.Depth, c.CS2, c.SLO, c.First)
	}
	s := &Server{x: x, stages: queueing.Stages(c.CS2), places: max(1, c.Places), slo: c.SLO.Seconds(), first: c.First, cpu: c.CPU, depth: c.Depth}
	if s.depth > 0 {
		s.places = min(s.places, s.depth) // more are never taken
	}
	if s.first == 0 {
		s.first = 1
	}
	if s.cpu == 0 {
		s.cpu = 100
	}
	s.law = newGamma(s.stages)
	s.flow = sync.OnceValues(func() (*flows, error) { return newFlows(s, 1) })
	return s, nil
}

// ServerOf is the server of a plan's measurements: its throughput is lowered to the bound that the plan counts with, and it
// executes as many requests at once as the ladder's Q_max shows (one where that is not known). A service is taken for
// variable where nothing is known of it.
func ServerOf(m capacity.Measured, depth int) (*Server, error) {
	cs2 := 1.0
	if m.CS2 != nil {
		cs2 = *m.CS2
	}
	model, err := capacity.NewInstance(m.Points)
	if err != nil {
		return nil, err
	}
	points := make([]capacity.Point, len(m.Points))
	for i, p := range m.Points {
		p.X *= m.MuPlan / model.Most()
		points[i] = p
	}
	first := 1.0
	if alone := m.SMean; m.FirstAudioAt1 > 0 && alone > 0 {
		first = math.Min(1, m.FirstAudioAt1/1000/alone)
	}
	return NewServer(ServerConfig{Points: points, CS2: cs2, Places: placesOf(m, model, first), SLO: time.Duration(m.SLO * float64(time.Second)), First: first, Depth: depth})
}

// placesOf is the fewest requests executing at once with which an instance can have held Q_max within the objective, as
// the ladder saw it do: those in front of a request take (Q_max − places)/X(Q_max) until it begins, and it is heard after
// its own share of places/X(Q_max). A server that speaks one text after the other needs one place; long streams that play
// side by side need nearly Q_max of them. No number explains it where a reply is heard at its end only, and it is one.
func placesOf(m capacity.Measured, model capacity.Instance, first float64) int {
	const doubt = 1.1 // the objective is on a percentile and this is a mean; throughput is known within some percent
	q, x := m.QMax, model.Rate(float64(m.QMax))
	for places := 1; places <= q; places++ {
		if (float64(q-places)+first*float64(places))/x <= doubt*m.SLO {
			return places
		}
	}
	return 1
}

// SLO is the objective on first audio that completions are judged by.
func (s *Server) SLO() time.Duration { return time.Duration(s.slo * float64(time.Second)) }

// most is what an instance completes a second at its best.
func (s *Server) most() float64 { return s.x.Most() }

// share is the rate at which each of those that execute is served while n requests are held, in services a second.
func (s *Server) share(n int) float64 { return s.x.Rate(float64(n)) / float64(min(n, s.places)) }

// gamma draws times of mean 1 in a number of exponential stages, by Marsaglia and Tsang's method of 2000.
type gamma struct {
	stages int
	d, c   float64
	scale  float64
}

func newGamma(stages int) gamma {
	d := float64(stages) - 1.0/3
	return gamma{stages: stages, d: d, c: 1 / math.Sqrt(9*d), scale: 1 / float64(stages)}
}

func (g *gamma) draw(rng *rand.Rand) float64 {
	if g.stages == 1 {
		return rng.ExpFloat64()
	}
	for {
		x := rng.NormFloat64()
		v := 1 + x*g.c
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := rng.Float64()
		// The squeeze spares both logarithms nearly always.
		if x2 := x * x; u < 1-0.0331*x2*x2 || math.Log(u) < x2/2+g.d*(1-v+math.Log(v)) {
			return g.d * v * g.scale
		}
	}
}
