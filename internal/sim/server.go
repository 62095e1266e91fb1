package sim

import (
	"fmt"
	"time"

	"loadline/internal/capacity"
	"loadline/internal/queueing"
)

// Server is the model of one instance: while it holds n requests it completes X(n) a second, shared evenly by those that
// execute, at most Places at once, and the others wait in the order of their coming. With one place it is the chain of
// package queueing.
type Server struct {
	x      capacity.Instance
	stages int
	places int
	slo    float64
	first  float64
	cpu    float64
	depth  int
}

// ServerConfig is what a Server is made of.
type ServerConfig struct {
	Points []capacity.Point // the ladder, one for each concurrency; in order, merged
	CS2    float64          // squared coefficient of variation of a service, above 0; as Erlang stages, at most 32
	Places int              // executing at once; 0: 1, a serial server
	SLO    time.Duration    // objective on first audio
	First  float64          // share of its service after which a request is first heard, above 0; 0: 1, at its end
	CPU    float64          // percent while it completes its most; 0: 100
	Depth  int              // requests that one instance holds at most, as the gate's; 0: no bound
}

// NewServer checks the model.
func NewServer(c ServerConfig) (*Server, error) {
	x, err := capacity.NewInstance(c.Points)
	if err != nil {
		return nil, err
	}
	if c.Places < 0 || c.Depth < 0 || c.First < 0 || c.First > 1 || c.SLO <= 0 {
		return nil, fmt.Errorf("a simulated server needs places and a depth of at least 0, an objective above 0 and a first share of 0 to 1: it has %d, %d, %s and %g", c.Places, c.Depth, c.SLO, c.First)
	}
	s := &Server{x: x, stages: queueing.Stages(c.CS2), places: max(1, c.Places), slo: c.SLO.Seconds(), first: c.First, cpu: c.CPU, depth: c.Depth}
	if s.first == 0 {
		s.first = 1
	}
	if s.cpu == 0 {
		s.cpu = 100
	}
	return s, nil
}
