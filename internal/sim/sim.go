// Package sim says what scaling policies would have done: it plays arrivals against a fleet on a virtual clock, with the
// same autoscaler, endpoint and gate that run for real.
//
// It decides how requests find instances, wait, are served, are refused, give up and come back, and what the metrics read
// meanwhile. Every decision about capacity is package autoscale's, every instance's life package fleet's, every admission
// package admission's. Reading plans, drawing and printing are left to commands.
//
//	r, err := sim.Requests(sim.Config{Seed: 1, Load: day, Server: server, Initial: 4, Scaling: scaling, …})
//	r.InstanceHours, r.Late, r.Changes[0].Policy
//
// Requests plays each request by itself; Fluid plays their mean, which takes a second for a day whatever the load, and
// agrees with Requests where both apply (doc/simulation.md says where that is). The same configuration gives the same
// result, byte for byte.
package sim

import (
	"slices"
	"time"

	"loadline/internal/admission"
	"loadline/internal/alarm"
	"loadline/internal/arrival"
	"loadline/internal/autoscale"
	"loadline/internal/fleet"
)

// Modes of a result.
const (
	ModeRequests = "requests"
	ModeFluid    = "fluid"
)

// Config is one simulation.
type Config struct {
	Name  string // of the workload, for the reader
	Seed  uint64
	Start time.Time // of the virtual clock; zero: 2026-01-05 00:00 UTC, a Monday

	Load     arrival.Profile // fresh requests a second, drawn as a Poisson process
	Arrivals []time.Duration // fresh requests at exactly these instants, in order, in place of those drawn; Load is what Fluid plays
	Even     bool            // at equal shares of Load, in place of a Poisson process

	Server  *Server
	Routing autoscale.Router
	Gate    admission.Config // of each instance; Depth 0: unbounded
	Retry   Retry

	Initial int // instances in service at the start
	Stages  Stages
	Faults  fleet.Faults
	Quota   int // of instances; 0: none
	Scaling Scaling
	// Unknowns of the autoscaler. Its Router is not looked at: Routing is.
	Unknowns  autoscale.Unknowns
	Incidents []Incident

	Price *float64      // of an instance-hour; nil: not known
	Point time.Duration // of the time line; 0: a 240th of the whole, in whole minutes, or 10 s where that is less
	// Parallel plays parts that do not depend on each other: it calls f(0) to f(n-1), in any order or at once, and returns
	// when all have ended. Nil: one after the other. The result is the same.
	Parallel func(n int, f func(i int))
}

// Retry is what callers do who were refused, gave up or were cut off. The zero value never comes back.
type Retry struct {
	Attempts int           // in all, the first included; 0 and 1: no retry
	Backoff  time.Duration // before the second; it doubles each time, and is drawn evenly from its upper half
	Most     time.Duration // of a back-off; 0: a minute
	Budget   float64       // retries that the callers as one allow themselves for each fresh request; 0: no budget
	Patience time.Duration // a caller gives up whose request is still waiting to be served after so long; 0: never
	// Unnoticed: the server serves those who gave up all the same, as one does that answers in one piece.
	Unnoticed bool
}

const mostAttempts = 10

// Stages are the times of an instance from the capacity call until it takes traffic.
type Stages struct {
	fleet.Stages
	Container time.Duration // from the start of the container until it is healthy, with the same spread
	Drain     time.Duration // longest that an instance which stops is given for what it has in flight; 0: 30 s, as the platform's kill
}

// Scaling is one scalable target with its policies, as package autoscale takes them. The zero value never scales.
type Scaling struct {
	Min, Max  int // 0, 0: no target is registered
	Policies  []autoscale.Policy
	Alarms    []Alarm // of step policies
	Scheduled []autoscale.Scheduled
}

// Alarm is an alarm and the policy that it acts for.
type Alarm struct {
	alarm.Alarm
	Policy string
}

// Incident is something that happens to the fleet. Exactly one of its kinds is set.
type Incident struct {
	At     time.Duration
	Lose   float64       // this share of the instances in service is gone at once, and is replaced
	Slow   float64       // from now on everything takes so many times as long, and a processor is as much less busy; 1: as before
	Deploy int           // a deployment without retained counts: the endpoint comes back with so many instances
	Faults *fleet.Faults // of instances and changes from now on
}

// Result is what happened. Times within it are seconds from Start.
type Result struct {
	Mode     string   `json:"mode"`
	Workload Workload `json:"workload"`
	Unknowns string   `json:"unknowns"` // the autoscaler's switches

	InstanceHours float64  `json:"instance_hours"` // from the capacity call to the end of each instance, as they are paid
	Cost          *float64 `json:"cost"`           // null: no price known
	MeanInFlight  float64  `json:"mean_in_flight"` // of all instances together
	MeanInstances float64  `json:"mean_instances"` // in service
	PeakInstances int      `json:"peak_instances"`

	Offered   float64 `json:"offered"`   // fresh requests
	Completed float64 `json:"completed"` // of all attempts
	Late      float64 `json:"late"`      // completed, and first heard after the objective
	Shed      float64 `json:"shed"`      // attempts refused by a gate
	Unserved  float64 `json:"unserved"`  // attempts that found no instance
	Abandoned float64 `json:"abandoned"` // attempts whose caller gave up
	Cut       float64 `json:"cut"`       // attempts cut off with their instance
	Retried   float64 `json:"retried"`   // attempts after the first
	Failed    float64 `json:"failed"`    // fresh requests that never completed, however often they came back
	Wasted    float64 `json:"wasted"`    // attempts served after their callers had given up
	P50       float64 `json:"p50_s"`     // first audio of what completed, from the attempt's arrival
	P95       float64 `json:"p95_s"`
	P99       float64 `json:"p99_s"`

	DirectionChanges int      `json:"direction_changes"` // of desired capacity
	MostAnHour       int      `json:"most_direction_changes_in_an_hour"`
	Changes          []Change `json:"changes"`
	Refusals         []Change `json:"refusals"` // that were decided and not done, or not fulfilled; each cause once in a row
	Timeline         []Point  `json:"timeline"`
}

// Workload says what was played, so that two results of different ones are not compared.
type Workload struct {
	Name      string  `json:"name"`
	Seed      uint64  `json:"seed"`
	Start     string  `json:"start"` // RFC 3339
	DurationS float64 `json:"duration_s"`
	PeakRPS   float64 `json:"peak_rps"`
	Requests  float64 `json:"requests"` // expected
	Digest    string  `json:"digest"`   // of arrivals, incidents, retries, server and objective: equal ones were asked for the same
}

// Change is one change of the desired capacity, or one that was not done.
type Change struct {
	At       float64 `json:"at_s"`
	From     int     `json:"from"`
	To       int     `json:"to"`
	Policy   string  `json:"policy"` // that decided it; "bounds" for minimum and maximum, a scheduled action's name, "deploy"
	Cause    string  `json:"cause"`  // in the autoscaler's words
	Status   string  `json:"status"`
	InForceS float64 `json:"in_force_s"` // when it was fulfilled; 0: it never was
}

// Point is one interval of the time line: means over it, and counts in it.
type Point struct {
	At        float64 `json:"at_s"` // its start
	Offered   float64 `json:"offered_rps"`
	InFlight  float64 `json:"in_flight"`
	Instances float64 `json:"instances"` // in service
	Desired   int     `json:"desired"`   // at its end
	Completed float64 `json:"completed"`
	Late      float64 `json:"late"`
	Shed      float64 `json:"shed"` // refused, unserved, abandoned and cut
	P95       float64 `json:"p95_s"`
	CPU       float64 `json:"cpu_percent"`
}

// BadShare is the share of the attempts in a result that were late or not served at all.
func (r *Result) BadShare() float64 {
	bad := r.Late + r.Shed + r.Unserved + r.Abandoned + r.Cut
	if all := r.Completed + r.Shed + r.Unserved + r.Abandoned + r.Cut; all > 0 {
		return bad / all
	}
	return 0
}

const (
	lookBack = 300  // seconds before a change in which callers are looked at, one point of the time line at least
	badMost  = 0.05 // of them, that a fleet should not shrink at
)

// ShrunkWhileBad is the changes that took instances away although more than a twentieth of what was asked just before came
// late or not at all: what decided them did not see the load.
func (r *Result) ShrunkWhileBad() []Change {
	var out []Change
	for _, c := range r.Changes {
		if c.To >= c.From {
			continue
		}
		bad, all := 0.0, 0.0
		for i, p := range slices.Backward(r.Timeline) {
			if i+1 == len(r.Timeline) || r.Timeline[i+1].At > c.At { // not over by then
				continue
			}
			if all > 0 && p.At < c.At-lookBack {
				break
			}
			bad, all = bad+p.Late+p.Shed, all+p.Completed+p.Shed
		}
		if bad > badMost*all {
			out = append(out, c)
		}
	}
	return out
}
