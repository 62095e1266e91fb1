package capacity

import (
	"fmt"
	"math"
)

// FlowForm says what this form of the flow rule leaves out.
const FlowForm = "first form: drift bound only; variance, failure and ceilings are not computed yet"

// The two signals that policies scale on, and what more the slow one takes to be seen: three periods each.
const (
	FastPeriod = 10 // seconds: high-resolution concurrency
	SlowPeriod = 60 // seconds: InvocationsPerInstance
	periods    = 3
)

// Flow is the flow rule in its first form. Load is a flow, so what is reserved for a surge is rate: an instance may
// carry λ* = ρ*·μ with ρ* = 1/(1 + h), so that the fleet still completes what arrives when the load has grown by h and
// nothing new is in service yet. Queue slots get no credit: R of them last R/(h·μ) seconds.
func Flow(m Measured, s Scenario) (Rule, error) {
	h := s.SurgeRatio - 1
	rho := 1 / (1 + h)
	star := rho * m.MuPlan
	lag := m.Lag.slow()
	r := Rule{
		Defined: true, Form: FlowForm, Rho: &rho, LambdaStar: &star, Binding: "drift", Ceiling: s.Ceiling,
		QueueMaxDepth: m.QMax, Lag: lag,
		OutCooldown: int(math.Ceil(lag.Provision)),
		InCooldown:  int(math.Max(300, 3*lag.T)),
	}
	// What is waited for is the first audio, so that is what the objective leaves time beside; the whole response counts
	// against the platform's ceiling, at the concurrency that Q_max allows.
	first := m.SP95
	if m.FirstAudioAt1 > 0 {
		first = m.FirstAudioAt1 / 1000
	}
	wMax := math.Max(0, m.SLO-first)
	r.WMax = &wMax
	target := math.Round(60*star*1e6) / 1e6 // what is deployed and what is planned are compared as decimals
	r.ScalingTarget = &target

	fleet := func(l load, ratio float64) int {
		if !l.stated() {
			return 0
		}
		return max(1, ceil(l.perSecond(m.SMean)*ratio/star))
	}
	peak, trough := s.peak(), s.trough()
	r.Peak = fleet(peak, 1)
	r.FirstStepFleet = fleet(peak, s.SurgeRatio)
	r.Min = s.MinFloor
	if trough.stated() {
		n := fleet(trough, 1)
		r.Trough, r.Min = &n, max(s.MinFloor, n)
	}
	r.Max = max(r.Min, r.FirstStepFleet)
	r.PeakRPS, r.FleetRPS = peak.perSecond(m.SMean), float64(r.Peak)*m.MuPlan
	r.money(m, load{rps: r.PeakRPS}, trough, 0)

	model, err := NewInstance(m.Points)
	if err != nil {
		return Rule{}, err
	}
	r.Findings = []Finding{
		measurementTrust(m), curveRepeatability(m), sloBudget(m, r, first),
		invocationCeiling(m.QSMean+m.SP95-m.SMean, s.Ceiling), queueDepth(m, r), fleetCost(r, m), provisionStage(m),
		fleetThroughput(m, s, r), signalBlind(m, r, model),
	}
	if f, ok := stagesAddUp(m); ok {
		r.Findings = append(r.Findings, f)
	}
	r.conclude(s.Accept)
	return r, nil
}

// ceil is the least whole number not below x, forgiving the last digits of a division that should have come out whole.
func ceil(x float64) int { return int(math.Ceil(x * (1 - 1e-12))) }

// slow is the lag of the 60 s signal: what was measured or assumed is of the 10 s one, and three periods more are seen
// later by 150 s.
func (l Lag) slow() Lag {
	more := float64(periods * (SlowPeriod - FastPeriod))
	l.Detection += more
	l.T += more
	l.Source += fmt.Sprintf("; + %g s: %d × %d s periods instead of %d × %d s", more, periods, SlowPeriod, periods, FastPeriod)
	return l
}
