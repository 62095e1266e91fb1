package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"loadline/internal/admission"
	"loadline/internal/arrival"
	"loadline/internal/artifact"
	"loadline/internal/autoscale"
	"loadline/internal/capacity"
	"loadline/internal/sim"
)

// Simulator plays one configuration: sim.Fluid, or what stands for it in a test.
type Simulator func(sim.Config) (sim.Result, error)

// The surge that candidates are played against: the fleet of the peak has carried it long enough for every alarm to know
// it, then the load rises by the scenario's ratio for twice T, and then it is the peak again for as long as it takes to
// see what is taken away.
const (
	surgeBefore = 20 * time.Minute
	surgeAfter  = time.Hour
	surgeLeast  = 10 * time.Minute
	surgeStep   = time.Minute // of the time line, so that phases are whole steps

	flappingMost = 2 // direction changes in an hour: out and in again is one
)

// Finding of a simulated surge.
const findingSurge = "surge_simulated"

// chooser plays sets of policies against the surge of one plan.
type chooser struct {
	p      *artifact.Plan
	server *sim.Server
	load   arrival.Profile
	at     time.Duration
	length time.Duration
	fluid  Simulator
	each   func(n int, f func(i int))
	usual  autoscale.Unknowns
	first  []autoscale.Variation // u itself, then each unknown at its other setting
}

// choose takes the flow rule's policies among its candidates, replays the published rule's, and records both. The plan has
// its rules and its target's names by now.
//
// wanted is the candidate that the operator takes whatever the simulation says; empty: the cheapest that holds.
func choose(p *artifact.Plan, fluid Simulator, each func(n int, f func(i int)), wanted string) (capacity.Candidate, error) {
	c, err := newChooser(p, fluid, each)
	if err != nil {
		return capacity.Candidate{}, err
	}
	s := &artifact.PlanSurge{
		BaseRPS: p.Flow.PeakRPS, Ratio: p.Scenario.SurgeRatio, AtS: c.at.Seconds(), LengthS: c.length.Seconds(),
		DurationS: c.load.Len().Seconds(), Wanted: c.asks(p.Flow), Usual: c.usual.String(), Candidates: []artifact.SurgeOutcome{},
	}
	all := capacity.FlowCandidates(p.Flow, p.Scenario.SurgeRatio-1, p.Target.Endpoint, p.Target.Variant)
	best, outcomes, err := c.cheapest(all)
	if err != nil {
		return capacity.Candidate{}, err
	}
	if wanted != "" {
		if best, err = c.wanted(wanted, all, outcomes, best); err != nil {
			return capacity.Candidate{}, err
		}
	}
	s.Candidates = outcomes
	flow := outcomes[best]
	s.Flow = &flow
	if s.Slots, err = c.published(); err != nil {
		return capacity.Candidate{}, err
	}
	p.Surge = s
	return all[best], nil
}

// published plays the published rule's own policies on its own fleet, each instance behind its own gate; nil: it has none.
func (c *chooser) published() (*artifact.SurgeOutcome, error) {
	r, x := c.p.Slots, capacity.Candidate{Name: "published"}
	if x.Policies, x.Alarms = capacity.SlotsPolicies(r, c.p.Target.Endpoint, c.p.Target.Variant); x.Policies == nil {
		return nil, nil
	}
	own := *c
	if r.QueueMaxDepth != c.p.Flow.QueueMaxDepth {
		var err error
		if own.server, err = simServer(c.p, r.QueueMaxDepth); err != nil {
			return nil, fmt.Errorf("simulate the surge: %w", err)
		}
	}
	o, err := own.outcome(x, r)
	if err == nil && o.Why == "" {
		err = own.vary(&o, x, r)
	}
	if err != nil {
		return nil, err
	}
	if o.Why == "" {
		o.Why = "the published rule's own policies, on its own fleet"
	}
	return &o, nil
}

func newChooser(p *artifact.Plan, fluid Simulator, each func(n int, f func(i int))) (*chooser, error) {
	if each == nil {
		each = func(n int, f func(i int)) {
			for i := range n {
				f(i)
			}
		}
	}
	server, err := simServer(p, p.Flow.QueueMaxDepth)
	if err != nil {
		return nil, fmt.Errorf("simulate the surge: %w", err)
	}
	load, long := surgeLoad(p.Flow.PeakRPS, p.Scenario.SurgeRatio, time.Duration(p.Flow.Lag.T*float64(time.Second)))
	c := &chooser{p: p, server: server, load: load, at: surgeBefore, length: long, fluid: fluid, each: each}
	c.usual = Unknowns(p)
	for _, v := range c.usual.Variations() {
		if p.Scenario.Routing == capacity.RouteLOR && strings.HasPrefix(v.Name, "router=") {
			continue // the operator has said it
		}
		c.first = append(c.first, v)
	}
	return c, nil
}

// Unknowns are the usual settings of a plan: what AWS does not publish as the code takes it by default, with the routing
// and the publication delay that the plan counts with.
func Unknowns(p *artifact.Plan) autoscale.Unknowns {
	var u autoscale.Unknowns
	if p.Scenario.Routing == capacity.RouteLOR {
		u.Router = autoscale.LeastOutstanding
	}
	lag := p.Measured.Lag // of the 10 s signal: three periods, and the rest is how long a metric takes to come
	if late := lag.Detection - 3*capacity.FastPeriod; !lag.Assumed && late > 0 {
		u.Delay = min(time.Duration(late*float64(time.Second)).Round(time.Second), autoscale.MaxDelay)
	}
	return u
}

// atPeak is a rule's fleet of the peak, within its bounds.
func atPeak(r capacity.Rule) int { return max(1, r.Min, min(r.Max, r.Peak)) }

// Simulated is the configuration that plays a plan's fleet: what was measured of an instance, of its start and of its
// price, with one rule's policies. Load, seed and mode are the caller's.
func Simulated(p *artifact.Plan, r capacity.Rule, policies []capacity.Policy, alarms []capacity.Alarm) (sim.Config, error) {
	server, err := simServer(p, r.QueueMaxDepth)
	if err != nil {
		return sim.Config{}, err
	}
	return simulated(p, server, r, policies, alarms)
}

func simulated(p *artifact.Plan, server *sim.Server, r capacity.Rule, policies []capacity.Policy, alarms []capacity.Alarm) (sim.Config, error) {
	policies, alarms = capacity.PerInstance(policies, alarms)
	scaling, err := sim.Planned(policies, alarms, max(1, r.Min), max(1, r.Max))
	if err != nil {
		return sim.Config{}, err
	}
	u := Unknowns(p)
	c := sim.Config{
		Server: server, Routing: u.Router, Unknowns: u, Initial: atPeak(r), Scaling: scaling,
		Gate: admission.Config{Depth: r.QueueMaxDepth, Places: 1}, Quota: p.Scenario.Quota, Price: p.Measured.PricePerHour,
	}
	c.Stages.Provision = time.Duration(p.Measured.Lag.Provision * float64(time.Second))
	return c, nil
}

// simServer is the instance that was measured, lowered to μ's bound as the plan counts with it.
func simServer(p *artifact.Plan, depth int) (*sim.Server, error) {
	m := p.Measured.Measured
	if p.Scenario.CharsMean > 0 {
		m = m.ForChars(p.Scenario.CharsMean)
	}
	return sim.ServerOf(m, depth)
}

// play is one set of policies under one setting of the unknowns.
func (c *chooser) play(policies []capacity.Policy, alarms []capacity.Alarm, r capacity.Rule, v autoscale.Variation) (artifact.SurgeFigures, error) {
	f := artifact.SurgeFigures{Setting: v.Name}
	cfg, err := simulated(c.p, c.server, r, policies, alarms)
	if err != nil {
		return f, err
	}
	cfg.Name, cfg.Seed, cfg.Load, cfg.Point = "surge", 1, c.load, surgeStep
	cfg.Unknowns, cfg.Routing = v.Unknowns, v.Router
	res, err := c.fluid(cfg)
	if err != nil {
		return f, err
	}
	f.P95, f.InstanceHours, f.Cost, f.Peak, f.MostAnHour = res.P95, res.InstanceHours, res.Cost, res.PeakInstances, res.MostAnHour
	f.BadShare, f.Phase = c.worstPhase(res)
	for _, pt := range res.Timeline {
		if at := time.Duration(pt.At * float64(time.Second)); at >= c.at && at < c.at+c.length {
			f.Desired = max(f.Desired, pt.Desired)
		}
	}
	for _, ch := range res.Changes {
		if at := ch.At - c.at.Seconds(); at >= 0 && ch.To > ch.From {
			f.FirstOutS = &at
			break
		}
	}
	return f, nil
}

// worstPhase is the largest share of attempts that were late or not served, of those before, in and after the surge.
func (c *chooser) worstPhase(r sim.Result) (share float64, phase string) {
	names := []string{"before", "surge", "after"}
	var bad, all [3]float64
	for _, pt := range r.Timeline {
		i := 0
		switch at := time.Duration(pt.At * float64(time.Second)); {
		case at >= c.at+c.length:
			i = 2
		case at >= c.at:
			i = 1
		}
		bad[i] += pt.Late + pt.Shed
		all[i] += pt.Completed + pt.Shed
	}
	phase = names[1]
	for _, i := range []int{1, 0, 2} {
		if all[i] > 0 && bad[i]/all[i] > share {
			share, phase = bad[i]/all[i], names[i]
		}
	}
	return share, phase
}

func (c *chooser) allowed() float64 { return 1 - c.p.Measured.Pct/100 }

// surgeShare is how much of what the surge asks for a fleet must have asked for by its end. One that outlasts this surge as
// it is, and does not grow, would not outlast the next.
const surgeShare = 0.9

// asks is the fleet that the load of the surge asks for, within the rule's bounds.
func (c *chooser) asks(r capacity.Rule) int {
	if r.LambdaStar == nil {
		return atPeak(r) // the published rule's fleet of the peak is its largest
	}
	return max(atPeak(r), min(r.Max, int(math.Ceil(r.PeakRPS*c.p.Scenario.SurgeRatio / *r.LambdaStar * (1-1e-9)))))
}

// least is the fewest of them that will do.
func (c *chooser) least(r capacity.Rule) float64 {
	from := float64(atPeak(r))
	return from + surgeShare*(float64(c.asks(r))-from)
}

// breaks says what is wrong with figures; empty: they hold.
func (c *chooser) breaks(f artifact.SurgeFigures, r capacity.Rule) string {
	under := ""
	if f.Setting != "" {
		under = " under " + f.Setting
	}
	switch {
	case f.BadShare > c.allowed():
		when := map[string]string{"before": "before the surge", "surge": "in the surge", "after": "after the surge"}[f.Phase]
		return fmt.Sprintf("%s late or not served %s%s", percent(f.BadShare), when, under)
	case float64(f.Desired) < c.least(r):
		return fmt.Sprintf("grows to %d instances of the %d that the surge asks for%s", f.Desired, c.asks(r), under)
	case f.MostAnHour > flappingMost:
		return fmt.Sprintf("turns %d times in an hour%s", f.MostAnHour, under)
	}
	return ""
}

// outcome plays a candidate under the usual settings.
func (c *chooser) outcome(x capacity.Candidate, r capacity.Rule) (artifact.SurgeOutcome, error) {
	o := artifact.SurgeOutcome{Candidate: x.Name, Policies: []string{}, Instances: atPeak(r), Why: x.Unfit}
	for _, pol := range x.Policies {
		o.Policies = append(o.Policies, pol.Name)
	}
	if x.Unfit != "" {
		return o, nil
	}
	f, err := c.play(x.Policies, x.Alarms, r, c.first[0])
	if err != nil {
		return o, fmt.Errorf("simulate the surge with %s: %w", x.Name, err)
	}
	o.Usual, o.Played = &f, 1
	worst := f
	o.Worst = &worst
	o.Why = c.breaks(f, r)
	return o, nil
}

// vary plays it with each unknown at its other setting, then with the two together that were worst by themselves.
func (c *chooser) vary(o *artifact.SurgeOutcome, x capacity.Candidate, r capacity.Rule) error {
	rest := c.first[1:]
	figures := make([]artifact.SurgeFigures, len(rest))
	errs := make([]error, len(rest))
	c.each(len(rest), func(i int) { figures[i], errs[i] = c.play(x.Policies, x.Alarms, r, rest[i]) })
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("simulate the surge with %s: %w", x.Name, err)
		}
	}
	order := make([]int, len(rest))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case worse(figures[a], figures[b]):
			return -1
		case worse(figures[b], figures[a]):
			return 1
		}
		return 0
	})
	if both, ok := pair(rest, order); ok {
		f, err := c.play(x.Policies, x.Alarms, r, both)
		if err != nil {
			return fmt.Errorf("simulate the surge with %s: %w", x.Name, err)
		}
		figures = append(figures, f)
	}
	o.Holds = true
	for _, f := range append([]artifact.SurgeFigures{*o.Usual}, figures...) {
		if why := c.breaks(f, r); why != "" {
			o.Holds = false
			if o.Why == "" {
				o.Why = why
			}
		}
		if worse(f, *o.Worst) {
			o.Worst = &f
		}
	}
	if !o.Holds { // the worst is what is told
		if why := c.breaks(*o.Worst, r); why != "" {
			o.Why = why
		}
	}
	o.Played = 1 + len(figures)
	return nil
}

// worse orders figures by what callers see, then by what they cost.
func worse(a, b artifact.SurgeFigures) bool {
	if a.BadShare != b.BadShare {
		return a.BadShare > b.BadShare
	}
	if a.MostAnHour != b.MostAnHour {
		return a.MostAnHour > b.MostAnHour
	}
	return a.InstanceHours > b.InstanceHours
}

// pair is the two worst settings together, of two different unknowns.
func pair(rest []autoscale.Variation, order []int) (autoscale.Variation, bool) {
	unknown := func(i int) string { name, _, _ := strings.Cut(rest[i].Name, "="); return name }
	for _, j := range order[1:] {
		if unknown(j) == unknown(order[0]) {
			continue
		}
		v := autoscale.Variation{Name: rest[order[0]].Name + " with " + rest[j].Name, Unknowns: rest[order[0]].Unknowns}
		if err := v.Set(rest[j].Name); err != nil {
			return v, false
		}
		return v, true
	}
	return autoscale.Variation{}, false
}

// cheapest plays every candidate under the usual settings, and then the cheapest of those that hold under all others,
// until one holds there too. Where none does, the one whose worst is least bad is taken.
func (c *chooser) cheapest(all []capacity.Candidate) (best int, outcomes []artifact.SurgeOutcome, err error) {
	outcomes = make([]artifact.SurgeOutcome, len(all))
	errs := make([]error, len(all))
	c.each(len(all), func(i int) { outcomes[i], errs[i] = c.outcome(all[i], c.p.Flow) })
	var order []int // that hold under the usual settings, cheapest first
	for i, o := range outcomes {
		if errs[i] != nil {
			return 0, nil, errs[i]
		}
		if o.Usual != nil && o.Why == "" {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := outcomes[a].Usual.InstanceHours, outcomes[b].Usual.InstanceHours
		switch {
		case math.Abs(x-y) <= 1e-3*math.Min(x, y):
			return a - b // as simple as can be
		case x < y:
			return -1
		}
		return 1
	})
	best = -1
	for n, i := range order {
		if err := c.vary(&outcomes[i], all[i], c.p.Flow); err != nil {
			return 0, nil, err
		}
		if outcomes[i].Holds {
			best = i
			for _, j := range order[n+1:] {
				outcomes[j].Why = dearer(outcomes[j].Usual.InstanceHours, outcomes[i].Usual.InstanceHours)
			}
			outcomes[i].Why = fmt.Sprintf("the cheapest that holds under all %d settings", outcomes[i].Played)
			return best, outcomes, nil
		}
	}
	for i, o := range outcomes {
		if o.Worst != nil && (best < 0 || worse(*outcomes[best].Worst, *o.Worst) && (o.Played > 1 || outcomes[best].Played == 1)) {
			best = i
		}
	}
	if best < 0 {
		return 0, nil, fmt.Errorf("simulate the surge: no candidate can be played: %s", outcomes[0].Why)
	}
	outcomes[best].Why = "the least bad, and it does not hold: " + outcomes[best].Why
	return best, outcomes, nil
}

// wanted is the place of the candidate that was asked for, played under every setting.
func (c *chooser) wanted(name string, all []capacity.Candidate, outcomes []artifact.SurgeOutcome, best int) (int, error) {
	i := slices.IndexFunc(all, func(x capacity.Candidate) bool { return x.Name == name })
	switch {
	case i < 0:
		return 0, fmt.Errorf("--candidate %q: one of %s", name, strings.Join(capacity.CandidateNames, "; "))
	case all[i].Unfit != "":
		return 0, fmt.Errorf("--candidate %q: %s", name, all[i].Unfit)
	case i == best:
		return best, nil
	}
	o := &outcomes[i]
	if o.Played == 1 {
		if c.breaks(*o.Usual, c.p.Flow) == "" {
			o.Why = ""
		}
		if err := c.vary(o, all[i], c.p.Flow); err != nil {
			return 0, err
		}
	}
	if o.Holds {
		o.Why = "asked for; it " + dearer(o.Usual.InstanceHours, outcomes[best].Usual.InstanceHours)
	} else {
		o.Why = "asked for, and it does not hold: " + o.Why
	}
	if outcomes[best].Holds {
		outcomes[best].Why = "not asked for: it is " + outcomes[best].Why
	}
	return i, nil
}

func dearer(x, y float64) string {
	if x-y <= 1e-3*y {
		return "costs as much and is less simple"
	}
	return fmt.Sprintf("takes %.1f %% more instance-hours", 100*(x/y-1))
}

// surgeFinding is what the simulation says of the selected rule.
func surgeFinding(p *artifact.Plan) capacity.Finding {
	f := capacity.Finding{Name: findingSurge, Verdict: capacity.OK}
	o := p.Surged()
	if o == nil || o.Usual == nil {
		f.Verdict, f.Detail = capacity.NotChecked, "there are no policies to simulate"
		return f
	}
	played := fmt.Sprintf("%s, from %d instances, load × %s for %.0f s", o.Candidate, o.Instances, figure(p.Surge.Ratio), p.Surge.LengthS)
	if o.Holds {
		f.Detail = fmt.Sprintf("%s: %s late or not served at worst, of %s allowed, under %d settings of what AWS does not publish",
			played, percent(o.Worst.BadShare), percent(1-p.Measured.Pct/100), o.Played)
		return f
	}
	f.Verdict = capacity.Warn
	f.Detail = played + ": " + o.Why
	f.Recommendation = "a larger --min-floor or --spare, a shorter scale-out, or a higher --surge-ratio to be sized for"
	if p.Rule == capacity.RuleSlots {
		f.Recommendation = "--rule flow"
	}
	return f
}

// percent is a share for people.
func percent(share float64) string {
	switch {
	case share == 0:
		return "none"
	case share < 0.0001:
		return "<0.01 %"
	case share < 0.1:
		return fmt.Sprintf("%.2f %%", 100*share)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}
