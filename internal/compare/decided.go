package compare

import (
	"fmt"
	"math"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/sim"
)

// Plans compares two plans of the same scenario, each by its selected rule.
func Plans(a, b *artifact.Plan) (*Report, error) {
	var d asked
	x, y := a.Scenario, b.Scenario
	d.same("peak, requests a second", x.PeakRPS, y.PeakRPS)
	d.same("peak, streams", x.PeakStreams, y.PeakStreams)
	d.same("trough, requests a second", x.TroughRPS, y.TroughRPS)
	d.same("trough, streams", x.TroughStreams, y.TroughStreams)
	d.same("surge ratio", x.SurgeRatio, y.SurgeRatio)
	d.same("objective, ms", 1000*a.Measured.SLO, 1000*b.Measured.SLO)
	d.same("percentile", a.Measured.Pct, b.Measured.Pct)
	d.same("transport", a.Target.Transport, b.Target.Transport)
	if err := d.err("plans"); err != nil {
		return nil, err
	}
	r := newReport("plan", &a.Header, &b.Header)
	served := func(what string, x, y any) {
		if fmt.Sprint(x) != fmt.Sprint(y) {
			r.Served = append(r.Served, fmt.Sprintf("%s: %v and %v", what, x, y))
		}
	}
	served("rule", a.Rule, b.Rule)
	served("verdict", a.Verdict, b.Verdict)
	served("routing", x.Routing, y.Routing)
	served("lost instances made up for", x.Spare, y.Spare)
	served("min floor", x.MinFloor, y.MinFloor)
	served("policies", names(a), names(b))

	ra, rb := a.Selected(), b.Selected()
	why := source(a.Measured.Mu.Source, b.Measured.Mu.Source)
	r.add("instance completes, at most", "1/s", BetterUp, measured(a.Measured.Mu), measured(b.Measured.Mu), why)
	r.add("fleet at the peak", "instances", BetterDown, fleet(a, ra), fleet(b, rb), "μ from its lower to its upper bound, all else as planned")
	planned := "a decision, not a measurement: the shift is exact"
	figure := func(what, unit, better string, x, y *float64) {
		if x == nil && y == nil {
			return
		}
		if x == nil || y == nil {
			r.missing("%s is known of one alone", what)
			return
		}
		r.add(what, unit, better, exact(*x), exact(*y), planned)
	}
	whole := func(n int) *float64 { return new(float64(n)) }
	figure("rate that an instance may carry", "1/s", BetterUp, ra.LambdaStar, rb.LambdaStar)
	figure("min instances", "instances", BetterDown, whole(ra.Min), whole(rb.Min))
	figure("max instances", "instances", BetterDown, whole(ra.Max), whole(rb.Max))
	figure("scaling target", "its metric's unit", "", ra.ScalingTarget, rb.ScalingTarget)
	figure("T of its signal", "s", BetterDown, &ra.Lag.T, &rb.Lag.T)
	figure("cooldown out", "s", "", whole(ra.OutCooldown), whole(rb.OutCooldown))
	figure("cooldown in", "s", "", whole(ra.InCooldown), whole(rb.InCooldown))
	if x, y := surged(a), surged(b); x != nil && y != nil {
		figure("late or not served in the simulated surge, at worst", "share", BetterDown, &x.Worst.BadShare, &y.Worst.BadShare)
		figure("instance-hours of the simulated surge", "h", BetterDown, &x.Usual.InstanceHours, &y.Usual.InstanceHours)
	}
	figure("cost an hour at the peak", "money", BetterDown, ra.Cost.Peak, rb.Cost.Peak)
	figure("cost an hour at min", "money", BetterDown, ra.Cost.Min, rb.Cost.Min)
	return r, nil
}

// surged is what the selected rule's policies did in the plan's own surge; nil: not simulated.
func surged(p *artifact.Plan) *artifact.SurgeOutcome {
	o := p.Surged()
	if o == nil || o.Usual == nil || o.Worst == nil {
		return nil
	}
	return o
}

func names(p *artifact.Plan) (out []string) {
	for _, pol := range p.Policies {
		out = append(out, pol.Name+" ("+pol.Type+")")
	}
	return out
}

// fleet at the peak, over what the interval of μ leaves open: planned on its lower bound, it is the upper end.
func fleet(p *artifact.Plan, r *capacity.Rule) *estimate {
	e := &estimate{value: float64(r.Peak)}
	mu := p.Measured.Mu
	if mu.Low == nil || mu.High == nil || r.Rho == nil || !(r.PeakRPS > 0) {
		return e
	}
	at := func(mu float64) float64 {
		return math.Ceil(float64(r.Peak) * p.Measured.MuPlan / mu * (1 - 1e-12))
	}
	e.low, e.high, e.known = math.Min(e.value, at(*mu.High)), math.Max(e.value, at(*mu.Low)), true
	return e
}

// Simulations compares two simulations of one workload, run by run. Both saw the same arrivals, so what differs is what
// the policies did.
func Simulations(a, b *artifact.Simulation) (*Report, error) {
	var d asked
	x, y := a.Runs[0].Workload, b.Runs[0].Workload
	d.same("played", x.Name, y.Name)
	d.same("seed", x.Seed, y.Seed)
	d.same("start", x.Start, y.Start)
	d.same("length, s", x.DurationS, y.DurationS)
	d.same("peak, requests a second", x.PeakRPS, y.PeakRPS)
	d.same("mode", a.Runs[0].Mode, b.Runs[0].Mode)
	if len(d.lines) == 0 {
		d.same("arrivals, incidents, callers, server or objective (digest)", x.Digest, y.Digest)
	}
	if len(a.Runs) > 1 && len(b.Runs) > 1 {
		d.same("sets of policies played", len(a.Runs), len(b.Runs))
	}
	if err := d.err("simulations"); err != nil {
		return nil, err
	}
	r := newReport("simulation", &a.Header, &b.Header)
	for i := range max(len(a.Runs), len(b.Runs)) {
		ra, rb := a.Runs[min(i, len(a.Runs)-1)], b.Runs[min(i, len(b.Runs)-1)]
		of := ""
		if len(a.Runs) > 1 || len(b.Runs) > 1 {
			of = fmt.Sprintf(", %s and %s", ra.Label, rb.Label)
		}
		if ra.Unknowns != rb.Unknowns {
			r.Served = append(r.Served, fmt.Sprintf("unknowns%s: %s and %s", of, ra.Unknowns, rb.Unknowns))
		}
		r.simulated(of, ra.Result, rb.Result)
	}
	return r, nil
}

func (r *Report) simulated(of string, a, b sim.Result) {
	same := "the same arrivals: exact for them"
	add := func(what, unit, better string, x, y float64) {
		r.add(what+of, unit, better, exact(x), exact(y), same)
	}
	add("instance-hours", "h", BetterDown, a.InstanceHours, b.InstanceHours)
	if a.Cost != nil && b.Cost != nil {
		add("money", "money", BetterDown, *a.Cost, *b.Cost)
	}
	r.paired("late"+of, a, b, func(p sim.Point) float64 { return p.Late }, a.Late, b.Late)
	r.paired("refused, lost or given up"+of, a, b, func(p sim.Point) float64 { return p.Shed },
		a.Shed+a.Unserved+a.Abandoned+a.Cut, b.Shed+b.Unserved+b.Abandoned+b.Cut)
	add("first audio p95", "s", BetterDown, a.P95, b.P95)
	add("direction changes", "times", BetterDown, float64(a.DirectionChanges), float64(b.DirectionChanges))
	add("most instances", "instances", BetterDown, float64(a.PeakInstances), float64(b.PeakInstances))
}

// paired compares a count: exact where a mean was played; where requests were drawn, other draws would give other
// counts, and the interval is that of the differences of the time line's intervals, in batches.
func (r *Report) paired(what string, a, b sim.Result, of func(sim.Point) float64, all, other float64) {
	if a.Mode == sim.ModeFluid || len(a.Timeline) != len(b.Timeline) {
		r.add(what, "requests", BetterDown, exact(all), exact(other), "the same arrivals: exact for them")
		return
	}
	var ds []float64
	for i := range a.Timeline {
		ds = append(ds, of(b.Timeline[i])-of(a.Timeline[i]))
	}
	s := Shift{What: what, Unit: "requests", Better: BetterDown, A: &all, B: &other, Shift: new(other - all), Says: CannotTell,
		Source: "batches of the time line's differences: what other draws of the same traffic would give"}
	if e := batched(ds); e != nil && e.known {
		n := float64(len(ds))
		s.Low, s.High = finite(n*e.low), finite(n*e.high)
		s.Says = says(n*e.low, n*e.high)
	}
	r.Shifts = append(r.Shifts, s)
}
