package capacity

import (
	"errors"
	"fmt"
	"math"
)

// The two signals that policies scale on, and how many periods of one it takes to act.
const (
	FastPeriod = 10 // seconds: high-resolution concurrency
	SlowPeriod = 60 // seconds: InvocationsPerInstance
	periods    = 3
)

// Routing of requests to instances.
const (
	RouteRandom = "random"
	RouteLOR    = "lor" // least outstanding requests
)

// Epsilon is the probability, that an instance refuses a request within T of a surge, that a plan allows by default.
const Epsilon = 0.01

// cliffMargin is the share of Q_max that is not used where a cliff is right above it.
const cliffMargin = 0.1

// Names of the bounds, in the order in which they are tried: of two that say the same, the first binds.
const (
	BoundDrift    = "drift"
	BoundVariance = "variance"
	BoundFailure  = "failure"
	BoundCeilings = "ceilings"
)

// Bound is one limit on what an instance may carry.
type Bound struct {
	Name      string   `json:"name"`
	Rho       *float64 `json:"rho"`            // share of mu_rps; null: it limits no rate here
	Lambda    *float64 `json:"lambda_rps"`     // rho × mu_rps
	Instances *int     `json:"peak_instances"` // the fleet at the peak, were it the only one
	Detail    string   `json:"detail"`
}

// Sensitivity is what the rule would say with one of its inputs changed.
type Sensitivity struct {
	Of        string  `json:"of"` // t, h or epsilon
	Value     float64 `json:"value"`
	Rho       float64 `json:"rho"`
	Lambda    float64 `json:"lambda_rps"`
	Instances int     `json:"peak_instances"`
}

// Flow is the flow rule. Load is a flow, so what is reserved for a surge is rate: an instance may carry λ* = ρ*·μ, the
// smallest of four bounds.
//
//   - drift: ρ ≤ 1/(1+h), so that what arrives in the surge is completed; queue slots get no credit (R of them last
//     R/(h·μ) seconds);
//   - variance: an instance, in its steady state at λ, refuses within T of the rise to λ·(1+h) with a probability of at
//     most ε;
//   - failure: with f instances lost the others stay within both;
//   - ceilings: a queue is no longer than the platform lets its last request wait.
//
// T is that of the signal that the fleet follows: the rate's, or concurrency's where a rate cannot be counted.
func Flow(m Measured, s Scenario) (Rule, error) {
	r, err := flowAt(m, s, m.Lag.Slow(), "")
	if err == nil && r.Signal == SignalConcurrency {
		return flowAt(m, s, m.Lag, r.SignalWhy)
	}
	return r, err
}

// flowAt is the rule at one lag; blind says why a rate cannot be counted, where that is known already.
func flowAt(m Measured, s Scenario, lag Lag, blind string) (Rule, error) {
	f, err := newFlow(m, s, lag.T)
	if err != nil {
		return Rule{}, err
	}
	best, bounds, err := f.bounds()
	if why, ok := errors.AsType[unsafeError](err); ok {
		return Rule{Reason: string(why), Ceiling: s.Ceiling}, nil
	}
	if err != nil {
		return Rule{}, err
	}
	rho := *best.Rho
	star := rho * m.MuPlan
	base := rho // of one fleet: what survivors carry
	if best.Name == BoundFailure {
		base = f.survivors(bounds)
	}
	r := Rule{
		Defined: true, Rho: &rho, LambdaStar: &star, Binding: best.Name, Bounds: bounds, Ceiling: s.Ceiling,
		Epsilon: &f.eps, Routing: f.routing, QueueMaxDepth: f.depth, Lag: lag, FastLag: &m.Lag,
		OutCooldown: int(math.Ceil(lag.Provision)),
		InCooldown:  int(math.Ceil(max(300, math.Floor(3*lag.T), m.longReply()))),
		Stages:      f.chain.Stages, StagesSource: f.stagesSource,
	}
	if s.MultiModel { // a model that is evicted is loaded again: what a change of the fleet sets off lasts longer
		r.OutCooldown, r.InCooldown = 2*r.OutCooldown, 2*r.InCooldown
	}
	first := m.alone()
	wMax := math.Max(0, m.SLO-first)
	r.WMax = &wMax

	peak, trough := s.peak(), s.trough()
	size := func(l load, ratio float64) int {
		if !l.stated() {
			return 0
		}
		return f.fleet(l.perSecond(m.SMean)*ratio, base)
	}
	r.Peak = size(peak, 1)
	r.FirstStepFleet = max(r.Peak, ceil(peak.perSecond(m.SMean)*s.SurgeRatio/star))
	r.Min = s.MinFloor
	if trough.stated() {
		n := size(trough, 1)
		r.Trough, r.Min = &n, max(s.MinFloor, n)
	}
	if s.MultiModel {
		r.Min = max(2, r.Min)
	}
	r.Max = max(r.Min, r.FirstStepFleet)
	wanted := r.Max
	if s.Quota > 0 && r.Max > s.Quota {
		r.Max = max(r.Min, s.Quota)
	}
	r.PeakRPS, r.FleetRPS = peak.perSecond(m.SMean), float64(r.Peak)*m.MuPlan
	r.money(m, load{rps: r.PeakRPS}, trough, 0)
	if err := f.signals(&r, blind); err != nil {
		return Rule{}, err
	}
	if r.Signal == SignalConcurrency && blind == "" {
		return r, nil // to be done again at the other lag
	}
	if r.Sensitivity, err = f.sensitivity(base); err != nil {
		return Rule{}, err
	}
	r.Findings = []Finding{
		measurementTrust(m), curveRepeatability(m), sloBudget(m, r, first),
		invocationCeiling(float64(f.depth)/m.MuPlan+m.SP95-m.SMean, s.Ceiling), queueDepth(m, r), fleetCost(r, m, NotChecked), provisionStage(m),
		fleetThroughput(m, s, r), signalBlind(m, r, f.model),
		quota(r, s, wanted), router(f, r), longStreams(m, r), coldCache(s, r), idleEndpoint(m, s, r), throughputPerText(m, s),
	}
	if f, ok := stagesAddUp(m); ok {
		r.Findings = append(r.Findings, f)
	}
	r.conclude(s.Accept)
	return r, nil
}

// alone is how long the first audio of a request takes that waits for nothing (its p95, seconds): what the objective
// leaves time beside.
func (m Measured) alone() float64 {
	if m.FirstAudioAt1 > 0 {
		return m.FirstAudioAt1 / 1000
	}
	return m.SP95
}

// belowCliff is how many requests an instance may be given to hold: Q_max where latency grows with what is held. Where it
// jumps right above Q_max, what was certified on one day may be over the edge on the next, so a margin of two of the
// search's steps is kept to it.
func (m Measured) belowCliff() int {
	if !m.Cliff {
		return m.QMax
	}
	return max(1, min(m.QMax-1, int((1-cliffMargin)*float64(m.QMax))))
}

// longReply is how long the longest replies take, in seconds: their p99, or the p95 where that alone is known.
func (m Measured) longReply() float64 {
	if m.Streams != nil {
		return m.Streams.P99
	}
	return m.SP95
}

// ceil is the least whole number not below x, forgiving the last digits of a division that should have come out whole.
func ceil(x float64) int { return int(math.Ceil(x * (1 - 1e-12))) }

// Slow is the lag of the 60 s signal: what was measured or assumed is of the 10 s one, and three periods more are seen
// later by 150 s.
func (l Lag) Slow() Lag {
	more := float64(periods * (SlowPeriod - FastPeriod))
	l.Detection += more
	l.T += more
	l.Source += fmt.Sprintf("; + %g s: %d × %d s periods instead of %d × %d s", more, periods, SlowPeriod, periods, FastPeriod)
	return l
}
