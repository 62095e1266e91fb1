package capacity

import (
	"fmt"
	"math"
	"slices"
)

// Candidate is one set of policies that the flow rule could be deployed with. Which of them is taken is for a simulation
// to say.
type Candidate struct {
	Name     string // what it scales on, and how: rate, tracking; both, steps; …
	Policies []Policy
	Alarms   []Alarm
	Unfit    string // why it is not even simulated; empty: it is
}

// Names of the candidates: the signal, then the kind of policy.
const (
	RateTracking        = "rate, tracking"
	RateSteps           = "rate, steps"
	ConcurrencyTracking = "concurrency, tracking"
	ConcurrencySteps    = "concurrency, steps"
	BothTracking        = "both, tracking"
	BothSteps           = "both, steps"
)

// CandidateNames lists them, the simplest first: of two that cost the same, the first is taken.
var CandidateNames = []string{RateTracking, ConcurrencyTracking, BothTracking, BothSteps, RateSteps, ConcurrencySteps}

// Names of policies that only candidates have.
const (
	PolicyRateOut          = "loadline-rate-out"
	PolicyRateIn           = "loadline-rate-in"
	PolicyConcurrencyTrack = "loadline-concurrency"
)

// slack is how far below what would make a fleet that is one smaller too small the step-in thresholds lie.
const slack = 0.9

// FlowCandidates are what the flow rule could be deployed with, in the order of CandidateNames. Rate is the count of
// invocations a minute and instance; concurrency is the Maximum over 10 s, at what the busiest instance holds at λ*.
// Steps add the surge's share of the fleet and remove one instance at a time; both means that the rate is tracked in
// both directions and concurrency only adds.
func FlowCandidates(r Rule, h float64, endpoint, variant string) []Candidate {
	if !r.Defined {
		return nil
	}
	c := candidates{r: r, h: h, endpoint: endpoint, variant: variant}
	var out []Candidate
	for _, name := range CandidateNames {
		x := Candidate{Name: name, Unfit: c.unfit(name)}
		if x.Unfit == "" {
			c.build(&x)
		}
		out = append(out, x)
	}
	return out
}

type candidates struct {
	r                 Rule
	h                 float64
	endpoint, variant string
}

// unfit says why a candidate cannot be built.
func (c candidates) unfit(name string) string {
	switch name {
	case RateTracking, RateSteps:
		if c.r.Signal == SignalConcurrency {
			return "the count would not show the load: " + c.r.SignalWhy
		}
	case BothTracking, BothSteps:
		if c.r.Signal == SignalConcurrency {
			return "the count would not show the load: " + c.r.SignalWhy
		}
		if c.r.Threshold == nil {
			return "at λ* an instance already holds what its bound lets it: concurrency has no room to show a surge in"
		}
	case ConcurrencySteps:
		if c.r.Signal == SignalConcurrency {
			return "tracking in both directions does what its steps would"
		}
		fallthrough
	case ConcurrencyTracking:
		if c.r.Signal != SignalConcurrency && c.r.Threshold == nil {
			return "at λ* an instance already holds what its bound lets it: concurrency has no room to show a surge in"
		}
	}
	if c.h <= 0 && (name == RateSteps || name == ConcurrencySteps || name == BothSteps) {
		return "no surge is stated that a step could be as large as"
	}
	return ""
}

func (c candidates) build(x *Candidate) {
	add := func(p Policy, alarms ...Alarm) {
		x.Policies, x.Alarms = append(x.Policies, p), append(x.Alarms, alarms...)
	}
	acting := func(p Policy, reads string) { add(p, alarmOf(p, reads, c.endpoint, c.variant)) }
	planned, alarms := FlowPolicies(c.r, c.h, c.endpoint, c.variant) // tracking first, then the concurrency step
	track := planned[0]
	switch x.Name {
	case RateTracking:
		add(track)
	case ConcurrencyTracking:
		if c.r.Signal == SignalConcurrency {
			add(track)
			return
		}
		add(c.concurrencyTracked(track, false))
	case BothTracking:
		add(track)
		add(c.concurrencyTracked(track, true))
	case BothSteps:
		add(track)
		add(planned[1], alarms[0])
	case RateSteps:
		metric := ofVariant("InvocationsPerInstance", c.endpoint, c.variant)
		acting(c.step(track, PolicyRateOut, metric, "Average", SlowPeriod, *c.r.ScalingTarget, above), "Sum")
		acting(c.step(track, PolicyRateIn, metric, "Average", SlowPeriod, rounded(slack**c.r.ScalingTarget*c.smaller()), below), "Sum")
	case ConcurrencySteps:
		metric := ofVariant("ConcurrentRequestsPerModel", c.endpoint, c.variant)
		add(planned[1], alarms[0])
		acting(c.step(track, PolicyStepIn, metric, "Maximum", SlowPeriod, math.Max(1, math.Floor(slack**c.r.Threshold*c.smaller())), below), "Maximum")
	}
}

// smaller is the load per instance, as a share of what is allowed, at which the smallest fleet that may shrink can do so:
// one more than min carries min/(min + 1) of what fills min.
func (c candidates) smaller() float64 {
	n := float64(max(1, c.r.Min))
	return n / (n + 1)
}

const below = "LessThanThreshold"

// concurrencyTracked follows the high-resolution concurrency, at what the busiest instance holds at λ*.
func (c candidates) concurrencyTracked(like Policy, outOnly bool) Policy {
	like.Name, like.Statistic, like.Period, like.Target = PolicyConcurrencyTrack, "", FastPeriod, c.r.Threshold
	like.Metric = Metric{Predefined: "SageMakerVariantConcurrentRequestsPerModelHighResolution"}
	like.NoScaleIn, like.Predicted = outOnly, !c.r.ThresholdMeasured
	like.Source = "what the busiest instance holds at λ* in all but 5 % of periods"
	if c.r.ThresholdMeasured {
		like.Source += ": " + c.r.ThresholdSource
	}
	return like
}

// step is a step policy out by the surge's share of the fleet, or in by one.
func (c candidates) step(like Policy, name string, metric Metric, statistic string, period int, threshold float64, comparison string) Policy {
	zero := 0.0
	p := Policy{
		Name: name, Type: StepScaling, Metric: metric, Statistic: statistic, Period: period, Threshold: &threshold, Comparison: comparison,
		Evaluation: periods, Datapoints: periods, MissingData: missingOK,
		OutCooldown: like.OutCooldown, InCooldown: like.InCooldown, Cooldowns: like.Cooldowns,
	}
	if comparison == above {
		p.Steps, p.Adjustment, p.NoScaleIn = []Step{{Lower: &zero, Change: int(math.Ceil(100 * c.h * (1 - 1e-12)))}}, "PercentChangeInCapacity", true
		p.Source = like.Source + "; one step adds h of the fleet"
		return p
	}
	p.Steps, p.Adjustment = []Step{{Upper: &zero, Change: -1}}, "ChangeInCapacity"
	p.Evaluation, p.Datapoints = quietPeriods, quietPeriods
	p.Predicted = metric.Name == "ConcurrentRequestsPerModel"
	p.Source = fmt.Sprintf("%.2g of what would fill a fleet of %d, one more than min, once it has lost one", slack, c.r.Min+1)
	return p
}

// quietPeriods is how many minutes a fleet must have been too large before a step takes from it, as managed alarms have it.
const quietPeriods = 15

// PerInstance is policies and alarms on the copies of an inference component as ones on instances of one copy each: what a
// simulator plays. Others stay as they are.
func PerInstance(policies []Policy, alarms []Alarm) ([]Policy, []Alarm) {
	turned := func(m *Metric) {
		for instance, copied := range perCopy {
			if m.Predefined == copied {
				m.Predefined = instance
			}
			if m.Name == copied {
				m.Name = instance
			}
		}
	}
	policies, alarms = slices.Clone(policies), slices.Clone(alarms)
	for i := range policies {
		turned(&policies[i].Metric)
	}
	for i := range alarms {
		turned(&alarms[i].Metric)
	}
	return policies, alarms
}
