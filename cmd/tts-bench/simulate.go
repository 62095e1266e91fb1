package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/internal/arrival"
	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/chart"
	"loadline/internal/exit"
	"loadline/internal/parallel"
	"loadline/internal/plan"
	"loadline/internal/report"
	"loadline/internal/sim"
	"loadline/internal/store"
)

const simulateExample = `  # both rules of a plan in the surge that it was made for, with a picture
  tts-bench simulate --plan artifacts/plan-kokoro-82m-flow-g5xlarge-8b1b96bc.json --rule both --svg surge.svg

  # a day of one's own traffic, request by request, under policies that are deployed
  tts-bench simulate --plan FILE --policies deployed.json --trace requests.csv --mode requests

  # those, from an account
  { aws application-autoscaling describe-scalable-targets --service-namespace sagemaker
    aws application-autoscaling describe-scaling-policies --service-namespace sagemaker
    aws cloudwatch describe-alarms; } | jq -s add > deployed.json

  # what has gone wrong elsewhere: tts-bench simulate --scenario list
  tts-bench simulate --scenario retry-storm`

// mostInitial is the largest fleet that a simulation may begin with: it is played instance by instance.
const mostInitial = 20_000

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	plans    []string
	policies string
	rule     string

	shape, scenario, trace string
	asRecorded             bool
	peak, trough, ratio    float64
	start                  string
	seed                   uint64
	mode                   string
	unknowns               []string
	initial                int

	svg    string
	json   bool
	out    string
	noSave bool
}

func (a *app) simulateCommand() *cobra.Command {
	f := simulateFlags{}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "what scaling policies would have done: against a shape of load, a scenario or a trace",
		Long: `simulate plays the policies of plans, or those of a file, against traffic, on a virtual clock, with the autoscaler,
the endpoint and the gate that the rest of this tool runs: what the fleet would have been, how many requests would have
come late or not at all, and which policy decided what. Nothing is sent over the network, and the same seed gives the same
figures.

In fluid mode the mean of the requests is played: a day takes a second. In requests mode each request is played by itself.`,
		Example: simulateExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.simulate(cmd, f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringArrayVar(&f.plans, "plan", nil, "plan whose policies are played, on the instance that it was made for (repeatable: played side by side)")
	fl.StringVar(&f.policies, "policies", "", "policies to play instead: as a plan writes them, as plan --emit json prints them, or as the AWS CLI does; with --plan beside it for the instance")
	fl.StringVar(&f.rule, "rule", "", "of the plans: flow, slots or both (default: the one that each was made by)")
	fl.StringVar(&f.shape, "shape", "", "load: "+strings.Join(plan.Shapes, ", ")+" (default: surge)")
	fl.StringVar(&f.scenario, "scenario", "", "or a named scenario with its own fleet and policies, or with those of --plan; list prints them")
	fl.StringVar(&f.trace, "trace", "", "or recorded traffic: counts or timestamps (CSV, JSON lines, CloudWatch, access log; gzip or not)")
	fl.BoolVar(&f.asRecorded, "as-recorded", false, "play the trace as it is; without it, its peak is made the plan's")
	fl.Float64Var(&f.peak, "peak-rps", 0, "requests a second at the peak (default: the plan's)")
	fl.Float64Var(&f.trough, "trough-rps", 0, "requests a second at the trough (default: the plan's, else a tenth of the peak)")
	fl.Float64Var(&f.ratio, "surge-ratio", 0, "how many times as much a surge or a burst is (default: the plan's)")
	fl.StringVar(&f.start, "start", "", "of the virtual clock, RFC 3339 (default: Monday 2026-01-05 00:00 UTC)")
	fl.Uint64Var(&f.seed, "seed", 1, "of everything that is drawn")
	fl.StringVar(&f.mode, "mode", "", "fluid or requests (default: fluid; of a scenario as it is, requests)")
	fl.StringArrayVar(&f.unknowns, "unknown", nil, "what AWS does not publish, as NAME=SETTING (repeatable), such as router=lor")
	fl.IntVar(&f.initial, "initial", 0, "instances at the start (default: what the rule wants for the load then)")
	fl.StringVar(&f.svg, "svg", "", "file to draw the time line into")
	fl.BoolVar(&f.json, "json", false, "print the artifact, byte for byte, instead of the text")
	fl.StringVar(&f.out, "out", "artifacts", "folder that the result is saved in")
	fl.BoolVar(&f.noSave, "no-save", false, "do not save the result")
	return cmd
}

func (f *simulateFlags) misused(set func(string) bool) error {
	var bad []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	add(len(f.plans) == 0 && f.policies == "" && f.scenario == "", "--plan FILE, --policies FILE or --scenario NAME is missing: what to play")
	add(f.rule != "" && f.rule != "both" && f.rule != capacity.RuleFlow && f.rule != capacity.RuleSlots, "--rule %q: flow, slots or both", f.rule)
	add(f.shape != "" && !slices.Contains(plan.Shapes, f.shape), "--shape %q: one of %s", f.shape, strings.Join(plan.Shapes, ", "))
	given := 0
	for _, s := range []string{f.shape, f.scenario, f.trace} {
		if s != "" {
			given++
		}
	}
	add(given > 1, "--shape, --scenario and --trace exclude each other: one traffic is played")
	add(f.asRecorded && f.trace == "", "--as-recorded is for --trace FILE")
	add(f.asRecorded && set("peak-rps"), "--as-recorded and --peak-rps exclude each other")
	for name, v := range map[string]float64{"peak-rps": f.peak, "trough-rps": f.trough} {
		add(set(name) && !(v > 0 && v < 1e9), "--%s %g: it must be above 0 and below 1e9", name, v)
	}
	add(set("surge-ratio") && !(f.ratio >= 1 && f.ratio < 1e3), "--surge-ratio %g: 1 or more, and below 1000", f.ratio)
	add(f.mode != "" && f.mode != sim.ModeFluid && f.mode != sim.ModeRequests, "--mode %q: %s or %s", f.mode, sim.ModeFluid, sim.ModeRequests)
	add(f.rule != "" && (len(f.plans) == 0 || f.policies != ""), "--rule is of plans that are played by themselves: give --plan, without --policies")
	add(set("initial") && (f.initial < 1 || f.initial > mostInitial), "--initial %d: 1 to %d instances", f.initial, mostInitial)
	if f.start != "" {
		if _, err := time.Parse(time.RFC3339, f.start); err != nil {
			add(true, "--start %q: a time like 2026-03-29T00:00:00+01:00", f.start)
		}
	}
	slices.SortFunc(bad, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	if len(bad) > 1 {
		return exit.Misuse(fmt.Errorf("simulate cannot start:\n%w", errors.Join(bad...)))
	}
	return exit.Misuse(errors.Join(bad...))
}

// simRun is one configuration to play, and where it comes from.
type simRun struct {
	artifact.SimulationRun
	cfg sim.Config
	slo float64
}

func (a *app) simulate(cmd *cobra.Command, f simulateFlags) error {
	if f.scenario == "list" {
		return a.scenarios()
	}
	if err := f.misused(cmd.Flags().Changed); err != nil {
		return err
	}
	now := time.Now().UTC()
	rec := &artifact.Simulation{
		Header: artifact.Header{Schema: artifact.SchemaSimulation, RunID: store.NewRunID(now), CreatedAt: now, Tool: tool(), Settings: map[string]any{}},
		Shape:  f.shape, Scenario: f.scenario, Trace: f.trace,
	}
	if f.shape == "" && f.scenario == "" && f.trace == "" {
		rec.Shape = "surge"
	}
	asItIs := len(f.plans) == 0 && f.policies == "" // a scenario, with its own fleet
	if f.mode == "" {
		f.mode = sim.ModeFluid
		if asItIs {
			f.mode = sim.ModeRequests
		}
	}
	cmd.Flags().VisitAll(func(fl *pflag.Flag) {
		if fl.Name != "help" {
			rec.Settings[fl.Name] = fl.Value.String()
		}
	})
	rec.Settings["mode"] = f.mode
	runs, err := f.runs(rec)
	if err != nil {
		return err
	}
	for i := range runs {
		r := &runs[i]
		if r.Result, err = a.playSim(cmd.Context(), r.Label, r.cfg, f.mode); err != nil {
			return err
		}
		rec.Runs = append(rec.Runs, r.SimulationRun)
	}
	rec.SLO = runs[0].slo
	if err := rec.Check(); err != nil {
		return exit.Refuse(fmt.Errorf("simulate: %w: plans that stand on different measurements are not played side by side; one at a time, then tts-bench compare", err))
	}
	known, missed := "", 0
	if asItIs && f.scenario != "" {
		if known, missed, err = expected(f.scenario, &rec.Runs[0].Result); err != nil {
			return err
		}
	}
	if err := a.finishSim(rec, f, runs[0].slo, known); err != nil {
		return err
	}
	if missed > 0 {
		return exit.Refuse(fmt.Errorf("simulate: %d figures of scenario %s are not as expected: so it is with these settings, or the simulator has changed", missed, f.scenario))
	}
	return nil
}

// expected is what is known to happen in a scenario, as it is, beside what did, and how many figures differ.
func expected(name string, r *sim.Result) (text string, missed int, err error) {
	s, err := sim.ScenarioNamed(name)
	if err != nil {
		return "", 0, exit.Misuse(err)
	}
	var rows [][]string
	for _, e := range s.Expect {
		says := "as expected"
		if !e.Holds(r) {
			says = "NOT as expected"
			missed++
		}
		rows = append(rows, []string{e.What, figures(new(e.Of(r))), figures(&e.Low) + " to " + figures(&e.High), says})
	}
	return report.Table([]string{"what is known of it", "here", "expected", "<"}, rows), missed, nil
}

// runs are the configurations that were asked for, all with the same traffic.
func (f *simulateFlags) runs(rec *artifact.Simulation) ([]simRun, error) {
	if len(f.plans) == 0 && f.policies == "" {
		return f.scenarioRun(rec)
	}
	runs, first, err := f.planned(rec)
	if err != nil {
		return nil, err
	}
	traffic, err := f.traffic(rec, first)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		r := &runs[i]
		traffic(&r.cfg)
		if f.initial > 0 {
			r.cfg.Initial = f.initial
		}
		for _, u := range f.unknowns {
			if err := r.cfg.Unknowns.Set(u); err != nil {
				return nil, exit.Misuse(fmt.Errorf("--unknown: %w", err))
			}
		}
		r.cfg.Routing = r.cfg.Unknowns.Router
	}
	return runs, nil
}

// scenarios prints the named scenarios.
func (a *app) scenarios() error {
	for _, s := range sim.Scenarios() {
		fmt.Fprintln(a.stdout, wrap(s.Name+": "+s.About))
	}
	return nil
}

func scenario(name string) (sim.Config, string, error) {
	s, err := sim.ScenarioNamed(name)
	if err != nil {
		return sim.Config{}, "", exit.Misuse(fmt.Errorf("--scenario: %w; --scenario list tells what they are", err))
	}
	c, err := s.Config()
	if err != nil {
		return c, "", fmt.Errorf("scenario %s: %w", name, err)
	}
	return c, s.About, nil
}

// scenarioRun is a named scenario as it is.
func (f *simulateFlags) scenarioRun(rec *artifact.Simulation) ([]simRun, error) {
	c, about, err := scenario(f.scenario)
	if err != nil {
		return nil, err
	}
	rec.Target.Model, rec.Notes = "scenario", []string{about}
	r := simRun{cfg: c}
	r.Label = f.scenario
	r.cfg.Seed = f.seed
	for _, u := range f.unknowns {
		if err := r.cfg.Unknowns.Set(u); err != nil {
			return nil, exit.Misuse(fmt.Errorf("--unknown: %w", err))
		}
		if strings.HasPrefix(u, "router=") {
			r.cfg.Routing = r.cfg.Unknowns.Router
		}
	}
	if f.initial > 0 {
		r.cfg.Initial = f.initial
	}
	r.slo = c.Server.SLO().Seconds()
	return []simRun{r}, nil
}

// planned are the runs of the plans and of the policies file. The first plan says what is played against.
func (f *simulateFlags) planned(rec *artifact.Simulation) (runs []simRun, first *artifact.Plan, err error) {
	files := f.plans
	if len(files) == 0 {
		files = []string{f.policies} // a plan may be the file: its instance is in it
	}
	var plans []*artifact.Plan
	for _, file := range files {
		p, err := readRecord(file, artifact.ReadPlan)
		if err != nil && len(f.plans) == 0 {
			return nil, nil, exit.Misuse(fmt.Errorf("--policies %s says nothing of the instance: add --plan FILE: %w", file, err))
		}
		if err != nil {
			return nil, nil, err
		}
		plans = append(plans, p)
	}
	first = plans[0]
	rec.Target, rec.Fingerprint = first.Target, first.Fingerprint
	add := func(r simRun, p *artifact.Plan, rule capacity.Rule, policies []capacity.Policy, alarms []capacity.Alarm, rate float64) error {
		cfg, err := plan.Simulated(p, rule, policies, alarms)
		if err != nil {
			return exit.Refuse(fmt.Errorf("simulate %s: %w", r.Label, err))
		}
		cfg.Initial = fleetFor(rule, p.Measured.SMean, rate)
		r.cfg, r.slo = cfg, p.Measured.SLO
		runs = append(runs, r)
		return nil
	}
	rate := f.rateAtStart(first)
	labels := told(files)
	for i, p := range plans {
		if f.policies != "" {
			break
		}
		rules := []string{cmp.Or(f.rule, p.Rule)}
		if f.rule == "both" {
			rules = []string{capacity.RuleSlots, capacity.RuleFlow}
		}
		for _, name := range rules {
			rule, policies, alarms := policiesOf(p, name)
			if f.rule == "both" && name == capacity.RuleSlots && (!rule.Defined || len(policies) == 0) {
				rec.Notes = append(rec.Notes, files[i]+": the published rule has no policies there: "+cmp.Or(rule.Reason, "its target is not known (threshold_units)"))
				continue
			}
			if !rule.Defined || len(policies) == 0 {
				return nil, nil, exit.Refuse(fmt.Errorf("simulate: %s: the %s rule has no policies there: %s", files[i], name, cmp.Or(rule.Reason, "its notes say why")))
			}
			r := simRun{}
			r.Label, r.PlanFile, r.PlanRun = name, files[i], p.RunID
			if len(plans) > 1 {
				r.Label = labels[i] + ", " + name
			}
			if err := add(r, p, rule, policies, alarms, rate); err != nil {
				return nil, nil, err
			}
		}
	}
	if f.policies != "" {
		set, err := readRecord(f.policies, func(data []byte) (*plan.Set, error) {
			resource, _ := first.Target.Scales()
			s, err := plan.ReadPolicies(data, resource)
			return &s, err
		})
		if err != nil {
			return nil, nil, err
		}
		rule := first.Flow
		rule.Min, rule.Max = set.Min, set.Max
		r := simRun{}
		r.Label, r.PoliciesFile, r.PlanFile, r.PlanRun = strings.TrimSuffix(filepath.Base(f.policies), ".json"), f.policies, files[0], first.RunID
		if err := add(r, first, rule, set.Policies, set.Alarms, rate); err != nil {
			return nil, nil, err
		}
	}
	return runs, first, nil
}

// told is what tells files apart: their names, or their paths where names are the same.
func told(files []string) []string {
	names, paths := make([]string, len(files)), make([]string, len(files))
	for i, file := range files {
		names[i], paths[i] = strings.TrimSuffix(filepath.Base(file), ".json"), strings.TrimSuffix(file, ".json")
	}
	if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) < len(files) {
		return paths
	}
	return names
}

// policiesOf is a rule of a plan with its policies. Those of the rule that a plan was not made by are made now.
func policiesOf(p *artifact.Plan, name string) (capacity.Rule, []capacity.Policy, []capacity.Alarm) {
	rule := p.Flow
	if name == capacity.RuleSlots {
		rule = p.Slots
	}
	if p.Rule == name {
		return rule, p.Policies, p.Alarms
	}
	if name == capacity.RuleSlots {
		policies, alarms := capacity.SlotsPolicies(rule, p.Target.Endpoint, p.Target.Variant)
		return rule, policies, alarms
	}
	if p.Surge != nil && p.Surge.Flow != nil {
		for _, c := range capacity.FlowCandidates(rule, p.Scenario.SurgeRatio-1, p.Target.Endpoint, p.Target.Variant) {
			if c.Name == p.Surge.Flow.Candidate {
				return rule, c.Policies, c.Alarms
			}
		}
	}
	policies, alarms := capacity.FlowPolicies(rule, p.Scenario.SurgeRatio-1, p.Target.Endpoint, p.Target.Variant)
	return rule, policies, alarms
}

// fleetFor is what a rule wants for a load, within its bounds.
func fleetFor(r capacity.Rule, sMean, rate float64) int {
	n := 1.0
	switch {
	case r.LambdaStar != nil:
		n = rate / *r.LambdaStar
	case r.CScaleMax != nil:
		n = rate * sMean / *r.CScaleMax
	}
	return max(1, r.Min, min(r.Max, int(math.Ceil(n*(1-1e-12)))))
}

// load is the plan's, with what the flags say otherwise.
func (f *simulateFlags) load(p *artifact.Plan) plan.Load {
	l := plan.Load{Peak: p.Flow.PeakRPS, Trough: p.Scenario.TroughRPS, Ratio: p.Scenario.SurgeRatio, T: time.Duration(p.Flow.Lag.T * float64(time.Second))}
	if !p.Flow.Defined {
		l.Peak, l.T = p.Slots.PeakRPS, time.Duration(p.Slots.Lag.T*float64(time.Second))
	}
	if p.Scenario.TroughStreams > 0 && p.Measured.SMean > 0 {
		l.Trough = p.Scenario.TroughStreams / p.Measured.SMean
	}
	if f.peak > 0 {
		l.Peak = f.peak
	}
	if f.ratio > 0 {
		l.Ratio = f.ratio
	}
	switch {
	case f.trough > 0:
		l.Trough = f.trough
	case !(l.Trough > 0) || l.Trough > l.Peak:
		l.Trough = l.Peak / 10
	}
	return l
}

// traffic is what puts the traffic that was asked for into a configuration.
func (f *simulateFlags) traffic(rec *artifact.Simulation, p *artifact.Plan) (func(*sim.Config), error) {
	l := f.load(p)
	common := func(c *sim.Config) {
		c.Seed = f.seed
		if f.start != "" {
			c.Start, _ = time.Parse(time.RFC3339, f.start)
		}
	}
	switch {
	case f.scenario != "":
		base, about, err := scenario(f.scenario)
		if err != nil {
			return nil, err
		}
		load := scaled(base.Load, l.Peak)
		rec.Notes = append(rec.Notes, about, fmt.Sprintf("the scenario's load is scaled to a peak of %.4g requests a second; its incidents and its callers are kept, its fleet and policies are not", l.Peak))
		return func(c *sim.Config) {
			c.Name, c.Load, c.Start, c.Even = f.scenario, load, base.Start, base.Even
			c.Retry, c.Incidents, c.Faults = base.Retry, base.Incidents, base.Faults
			common(c)
		}, nil
	case f.trace != "":
		t, err := readRecord(f.trace, readTrace)
		if err != nil {
			return nil, err
		}
		peak := l.Peak
		if f.asRecorded {
			peak = 0
		}
		load, err := plan.Traced(t, peak)
		if err != nil {
			return nil, exit.Refuse(fmt.Errorf("--trace %s: %w", f.trace, err))
		}
		if peak > 0 {
			rec.Notes = append(rec.Notes, fmt.Sprintf("the trace is scaled by %.4g, so that its peak is %.4g requests a second", peak/t.Peak(), peak))
		}
		start := time.Time{}
		if t.Start.Year() > 1970 {
			start = t.Start.Truncate(time.Minute)
		}
		return func(c *sim.Config) { c.Name, c.Load, c.Start = "trace "+filepath.Base(f.trace), load, start; common(c) }, nil
	}
	load, err := plan.Shape(rec.Shape, l)
	if err != nil {
		return nil, exit.Misuse(fmt.Errorf("simulate: %w", err))
	}
	return func(c *sim.Config) { c.Name, c.Load = rec.Shape, load; common(c) }, nil
}

// scaled is a load with another peak.
func scaled(p arrival.Profile, peak float64) arrival.Profile {
	highest := 0.0
	for _, pt := range p {
		highest = math.Max(highest, pt.Rate)
	}
	out := slices.Clone(p)
	for i := range out {
		out[i].Rate *= peak / highest
	}
	return out
}

// rateAtStart is the load that the traffic begins with: what the first fleet is sized for.
func (f *simulateFlags) rateAtStart(p *artifact.Plan) float64 {
	rec := &artifact.Simulation{Shape: cmp.Or(f.shape, "surge")}
	put, err := f.traffic(rec, p)
	if err != nil {
		return p.Flow.PeakRPS // the error is told where the traffic is made
	}
	var c sim.Config
	put(&c)
	return c.Load[0].Rate
}

// playSim plays one configuration, and ends early when ctx does. What takes long says so on stderr.
func (a *app) playSim(ctx context.Context, name string, c sim.Config, mode string) (sim.Result, error) {
	type outcome struct {
		r   sim.Result
		err error
	}
	done := make(chan outcome, 1)
	c.Parallel = parallel.Each
	go func() {
		var o outcome
		if mode == sim.ModeRequests {
			o.r, o.err = sim.Requests(c)
		} else {
			o.r, o.err = sim.Fluid(c)
		}
		done <- o
	}()
	began := time.Now()
	live := a.live()
	defer live.Close()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case o := <-done:
			if o.err != nil {
				return o.r, exit.Refuse(fmt.Errorf("simulate %s: %w", name, o.err))
			}
			return o.r, nil
		case <-ctx.Done():
			return sim.Result{}, exit.CannotTell(fmt.Errorf("simulate %s: stopped after %s", name, short(time.Since(began))))
		case now := <-tick.C:
			live.Show(now, fmt.Sprintf("playing %s, %s: about %s requests over %s, for %s so far", name, mode, chart.About(c.Load.Expected(c.Load.Len())), short(c.Load.Len()), short(now.Sub(began))))
		}
	}
}
