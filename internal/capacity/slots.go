package capacity

import (
	"fmt"
	"math"

	"loadline/internal/queueing"
)

// SurgeLimit is the surge ratio from which on the published rule is not defined: C_scale_min = (1 − 2h)·Q_max would be 0.
const SurgeLimit = 1.5

// Slots is the published rule: it reserves a share h of an instance's concurrency slots for the time that more capacity
// takes. It is reproduced with its own arithmetic, which credits an instance with as many parallel servers as it holds
// requests; FleetThroughput and its neighbours among the findings say what that does.
//
// Source: the planning command of aws-samples/sample-kokoro-tts-for-ai-agents.
func Slots(m Measured, s Scenario) (Rule, error) {
	if s.SurgeRatio >= SurgeLimit {
		return Rule{Reason: fmt.Sprintf("surge ratio %g: the published rule needs one below %g, where C_scale_min = (1 − 2h)·Q_max is still above 0",
			s.SurgeRatio, SurgeLimit), Ceiling: s.Ceiling}, nil
	}
	h := s.SurgeRatio - 1
	q := float64(m.QMax)
	out, in := (1-h)*q, (1-2*h)*q
	r := Rule{
		Defined: true, CScaleMax: &out, CScaleMin: &in, Ceiling: s.Ceiling,
		QueueMaxDepth: m.QMax, Lag: m.Lag,
		OutCooldown: int(math.Max(10, math.Min(30, m.Lag.T/2))),
		InCooldown:  int(math.Max(300, 3*m.Lag.T)),
	}
	wMax := math.Max(0, m.SLO-m.SP95)
	r.WMax = &wMax

	fleet := func(l load) int { return l.slotsFleet(m.SMean, out) }
	peak, trough := s.peak(), s.trough()
	r.Peak = fleet(peak)
	r.Min, r.Trough = s.MinFloor, nil
	if trough.stated() {
		n := fleet(trough)
		r.Trough, r.Min = &n, max(s.MinFloor, n)
	}
	r.Max = max(r.Min, r.Peak)
	r.FirstStepFleet = r.Max
	if h > 0 {
		ratio := out / in
		n := max(2, int(math.Ceil(ratio/(ratio-1))))
		r.MinSafe = &n
	}
	if ratio := nearestRatio(m.Points, out); ratio != nil {
		target, threshold := out**ratio, in**ratio
		r.CWRatio, r.ScalingTarget, r.ScaleIn = ratio, &target, &threshold
	}
	u := out / (1 + out)
	r.Utilization = &u
	shed, err := shed(out, u, q, m.SMean, m.Lag.T)
	if err != nil {
		return Rule{}, fmt.Errorf("shed probability of the published rule: %w", err)
	}
	r.Shed = &shed

	r.money(m, peak, trough, out)
	if atQ := peak.slotsFleet(m.SMean, q); atQ > 0 {
		rel := float64(r.Peak) / float64(atQ)
		r.RelativeCost = &rel
	}
	r.PeakRPS, r.FleetRPS = peak.perSecond(m.SMean), float64(r.Peak)*m.MuPlan
	published := publishedFindings(m, r)
	worst, warns := worstOf(published)
	r.PublishedVerdict, r.PublishedWarnings = worst, &warns

	model, err := NewInstance(m.Points)
	if err != nil {
		return Rule{}, err
	}
	r.Findings = append(published,
		fleetThroughput(m, s, r),
		signalBlind(m, r, model),
		surgeSlots(m, s, r),
		closedLoopRatio(m),
	)
	if f, ok := stagesAddUp(m); ok {
		r.Findings = append(r.Findings, f)
	}
	r.conclude(s.Accept)
	return r, nil
}

// shed is the published shed probability, computed where the published tool drew 200 runs: an M/M/1 queue that starts
// with round(C_scale_max) requests, is loaded to C/(1+C) and touches Q_max within T.
func shed(c, utilization, q, sMean, t float64) (float64, error) {
	start := int(math.RoundToEven(c))
	level := int(math.Ceil(q))
	if start >= level {
		return 1, nil
	}
	mu := 1 / sMean
	chain := queueing.Chain{Mu: []float64{mu}, Stages: 1}
	return chain.Passage(utilization*mu, level, t, chain.With(start))
}

// nearestRatio is the CloudWatch ratio of the rung nearest to concurrency c, the higher of two equally near.
func nearestRatio(points []Point, c float64) *float64 {
	var best *Point
	for i, p := range points {
		if p.Ratio == nil {
			continue
		}
		d := math.Abs(float64(p.N) - c)
		if best == nil || d < math.Abs(float64(best.N)-c) || d == math.Abs(float64(best.N)-c) && p.N > best.N {
			best = &points[i]
		}
	}
	if best == nil {
		return nil
	}
	return best.Ratio
}
