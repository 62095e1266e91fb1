package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a scenario names a time zone, and not every machine has them

	"loadline/internal/alarm"
	"loadline/internal/arrival"
	"loadline/internal/autoscale"
	"loadline/internal/capacity"
	"loadline/internal/fleet"
)

// Scenario is a named simulation, and what is known to happen in it.
type Scenario struct {
	Name   string
	About  string // what happens and why, in a sentence or two
	Config func() (Config, error)
	Expect []Expect
}

// Expect is a figure of a scenario's result and the bounds that it keeps to, whatever the seed.
type Expect struct {
	What      string
	Low, High float64
	Of        func(*Result) float64
}

// Holds says whether a figure keeps to its bounds.
func (e *Expect) Holds(r *Result) bool {
	v := e.Of(r)
	return v >= e.Low && v <= e.High
}

// ScenarioNamed is the scenario of that name.
func ScenarioNamed(name string) (Scenario, error) {
	all := Scenarios()
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("there is no scenario %q: there are %s", name, strings.Join(names, ", "))
}

// stage is a scenario being set up; its first error ends it.
type stage struct {
	Config
	err error
}

// serial is the server of the published run, about: 17.9 a second from five held on, nearly fixed times, 3 s to the first
// audio; an instance comes within 280 s.
func serial(depth, initial int) *stage {
	return on(ServerConfig{Points: []capacity.Point{{N: 1, X: 16.3}, {N: 5, X: 17.9}, {N: 60, X: 17.9}}, CS2: 0.01, SLO: 3 * time.Second, Depth: depth}, initial)
}

// on is a stage with instances of a server.
func on(c ServerConfig, initial int) *stage {
	s := &stage{}
	s.Seed, s.Initial, s.Gate.Depth = 1, initial, c.Depth
	s.Stages = Stages{Stages: fleet.Stages{Provision: 200 * time.Second, Settle: 20 * time.Second}, Container: 60 * time.Second}
	s.Unknowns.Delay = 30 * time.Second
	s.Server, s.err = NewServer(c)
	return s
}

// loaded sets the load.
func (s *stage) loaded(p arrival.Profile, err error) *stage {
	if s.Load = p; s.err == nil {
		s.err = err
	}
	return s
}

func (s *stage) between(least, most int, policies ...autoscale.Policy) *stage {
	s.Scaling = Scaling{Min: least, Max: most, Policies: policies}
	return s
}

func (s *stage) alarm(policy string, a alarm.Alarm) *stage {
	a.Name = policy
	s.Scaling.Alarms = append(s.Scaling.Alarms, Alarm{Alarm: a, Policy: policy})
	return s
}

// The cooldowns of the published run: half of T held to 30 s, and three T.
const (
	publishedOut = 30 * time.Second
	publishedIn  = 960 * time.Second
)

// trackRate is target tracking on invocations a minute and instance.
func trackRate(target float64) autoscale.Policy {
	out, in := 300*time.Second, publishedIn
	return autoscale.Policy{Name: "rate", Tracking: &autoscale.Tracking{Target: target, Predefined: "SageMakerVariantInvocationsPerInstance", OutCooldown: &out, InCooldown: &in}}
}

// trackHeld is target tracking on the concurrency at high resolution.
func trackHeld(target float64, noScaleIn bool) autoscale.Policy {
	out, in := publishedOut, publishedIn
	return autoscale.Policy{Name: "concurrency", Tracking: &autoscale.Tracking{Target: target, NoScaleIn: noScaleIn,
		Predefined: "SageMakerVariantConcurrentRequestsPerModelHighResolution", OutCooldown: &out, InCooldown: &in}}
}

// tracked is target tracking on another metric.
func tracked(name, metric, statistic string, target float64) autoscale.Policy {
	out, in := 300*time.Second, 300*time.Second
	return autoscale.Policy{Name: name, Tracking: &autoscale.Tracking{Target: target, OutCooldown: &out, InCooldown: &in,
		Custom: &alarm.Query{Namespace: "AWS/SageMaker", Name: metric, Statistic: statistic}}}
}

// slots are the published rule's policies: more instances above so many held, and one fewer below.
func (s *stage) slots(least, most int, above, below float64) *stage {
	zero, in := 0.0, publishedIn
	return s.between(least, most, trackHeld(above, true), autoscale.Policy{Name: "remove", Step: &autoscale.Step{Adjustment: autoscale.ChangeInCapacity,
		Steps: []autoscale.StepAdjustment{{Upper: &zero, Change: -1}}, Aggregation: "Maximum", Cooldown: &in}}).
		alarm("remove", alarm.Alarm{Query: alarm.Query{Namespace: "AWS/SageMaker", Name: metricConcurrency, Statistic: "Maximum"}, Period: time.Minute,
			Periods: 3, Datapoints: 3, Threshold: below, Comparison: alarm.AtOrBelow, Missing: alarm.NotBreaching})
}

// flow are the flow rule's policies: the rate owns the size, and a step adds a share in a surge.
func (s *stage) flow(least, most int, target, above float64, percent int) *stage {
	zero, out := 0.0, 300*time.Second
	return s.between(least, most, trackRate(target), autoscale.Policy{Name: "surge", Step: &autoscale.Step{Adjustment: autoscale.PercentChangeInCapacity,
		Steps: []autoscale.StepAdjustment{{Lower: &zero, Change: percent}}, Aggregation: "Maximum", Cooldown: &out}}).
		alarm("surge", alarm.Alarm{Query: alarm.Query{Namespace: "AWS/SageMaker", Name: metricConcurrency, Statistic: "Maximum"}, Period: period,
			Periods: 3, Datapoints: 3, Threshold: above, Comparison: alarm.Above, Missing: alarm.NotBreaching})
}

func (s *stage) done() (Config, error) {
	if s.err != nil {
		return Config{}, s.err
	}
	return s.Config, nil
}

func (s *stage) with(f func(*Config)) *stage {
	f(&s.Config)
	return s
}

// streams are replies that are played for a long time: an instance holds four, each for so many seconds, and is heard soon.
func streams(long float64, initial int) *stage {
	s := on(ServerConfig{Points: []capacity.Point{{N: 1, X: 1 / long}, {N: 4, X: 4 / long}}, CS2: 0.04, Places: 4, SLO: 10 * time.Second, First: 0.01, Depth: 8}, initial)
	s.Routing = autoscale.LeastOutstanding
	return s
}

// Figures that several scenarios look at.
var (
	badShare = func(r *Result) float64 { return r.BadShare() }
	turns    = func(r *Result) float64 { return float64(r.DirectionChanges) }
	lost     = func(r *Result) float64 { return r.Shed + r.Unserved + r.Cut }
)

// fewest is the smallest capacity that was wanted in a part of the time line.
func fewest(r *Result, from, to time.Duration) float64 {
	n := math.Inf(1)
	for _, p := range r.Timeline {
		if p.At >= from.Seconds() && p.At < to.Seconds() {
			n = math.Min(n, float64(p.Desired))
		}
	}
	return n
}

// mostAsked is the largest capacity that was ever asked for, refused or not.
func mostAsked(r *Result) float64 {
	n := 0
	for _, list := range [][]Change{r.Changes, r.Refusals} {
		for _, c := range list {
			n = max(n, c.To)
		}
	}
	return float64(n)
}

func meanCPU(r *Result) float64 {
	sum := 0.0
	for _, p := range r.Timeline {
		sum += p.CPU
	}
	return sum / float64(len(r.Timeline))
}

// launchesAt is when the scheduled action "before" acted for the n-th time.
func launchesAt(r *Result, n int) float64 {
	for _, c := range r.Changes {
		if c.Policy == "before" {
			if n--; n < 0 {
				return c.At
			}
		}
	}
	return math.NaN()
}

// refusals is how many refusals of a result have a text in their cause.
func (r *Result) refusals(text string) float64 {
	n := 0.0
	for _, c := range r.Refusals {
		if strings.Contains(c.Cause, text) {
			n++
		}
	}
	return n
}

// good is the share of the attempts of a part of the time line that were served in time.
func (r *Result) good(from, to time.Duration) float64 {
	served, all := 0.0, 0.0
	for _, p := range r.Timeline {
		if at := p.At; at >= from.Seconds() && at < to.Seconds() {
			served += p.Completed - p.Late
			all += p.Completed + p.Shed
		}
	}
	if all == 0 {
		return math.NaN()
	}
	return served / all
}

// reached is when as many instances served as the fleet needs, for the first time from an instant on; -1: never.
func (r *Result) reached(n float64, from time.Duration) float64 {
	i := slices.IndexFunc(r.Timeline, func(p Point) bool { return p.At >= from.Seconds() && p.Instances >= n })
	if i < 0 {
		return -1
	}
	return r.Timeline[i].At
}
