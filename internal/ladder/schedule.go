package ladder

import (
	"time"

	"loadline/internal/sample"
)

// Steps is a fixed schedule: the published one by default.
type Steps struct {
	Concurrency []int
	Hold        time.Duration // each rung
	Window      time.Duration // its trailing part that is measured
	Idle        time.Duration // between rungs
}

// Published is the schedule of the published toolchain, about 36 minutes.
var Published = Steps{Concurrency: []int{1, 5, 10, 20, 30, 40, 50, 60}, Hold: 240 * time.Second, Window: 60 * time.Second, Idle: 30 * time.Second}

// Schedule walks Steps upward and judges each rung by its window alone.
type Schedule struct{ c Config }

// NewSchedule walks the steps under the objective of c.
func NewSchedule(c Config, st Steps) (*Schedule, error) {
	c, err := c.filled()
	return &Schedule{c: c}, err
}

// Next implements Searcher.
func (s *Schedule) Next() (Probe, bool) { return Probe{}, false }

// Add implements Searcher; a fixed schedule is never decided early.
func (s *Schedule) Add(r sample.Request) bool { return false }

// Close implements Searcher.
func (s *Schedule) Close(e Evidence) Rung { return Rung{} }

// Replay implements Searcher.
func (s *Schedule) Replay(r Rung) error { return nil }

// Result implements Searcher.
func (s *Schedule) Result() Result { return Result{Verdict: None} }

// Cost is what a search is expected to take and the most it can.
type Cost struct {
	Probes, Requests       int
	Wall                   time.Duration
	MaxProbes, MaxRequests int
	MaxWall                time.Duration
}

// EstimateSearch is the cost of an adaptive search of a serial endpoint that takes service a request.
func EstimateSearch(c Config, service time.Duration) (Cost, error) { return Cost{}, nil }

// EstimateSchedule is the cost of a fixed schedule where a request takes service at every rung.
func EstimateSchedule(st Steps, service time.Duration) Cost { return Cost{} }
