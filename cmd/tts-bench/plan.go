package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/exit"
	"loadline/internal/parallel"
	"loadline/internal/plan"
	"loadline/internal/registry"
	"loadline/internal/sample"
	"loadline/internal/store"
	"loadline/internal/trace"
)

const planExample = `  # the certified ladder, with an assumed scale-out time
  tts-bench plan --qmax artifacts/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json \
    --assume-t-total 320 --peak-rps 200 --trough-rps 10

  # the published rule instead, taking on a fleet that cannot carry the peak
  tts-bench plan --qmax FILE --ttotal FILE --peak-rps 5000 --rule slots --accept fleet_throughput`

// planFlags are the flags of plan.
type planFlags struct {
	qmax, ttotal  string
	assume        time.Duration
	scenario      capacity.Scenario
	sloMS         float64
	ceiling       time.Duration
	allowMismatch bool
	trace, rates  string
	model, models string
	candidate     string
	scaled        scaledFlags
	write         bool
	emit          string
	json          bool
	out           string
	noSave        bool
}

func (a *app) planCommand() *cobra.Command {
	f := planFlags{ceiling: time.Minute}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "turn a ladder and a scale-out time into a fleet, policies and findings",
		Long: `plan reads measurement files and prints both rules side by side, the findings of the selected one worst
first, and the configuration block. The flow rule's policies are chosen among candidates by simulating the surge under every
setting of what AWS does not publish. It sends nothing over the network.

A finding that says stop ends the command with exit code 1; the plan is saved all the same.`,
		Example: planExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.plan(cmd, f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.qmax, "qmax", "", "ladder: a qmax artifact, or one of the published toolchain (required)")
	fl.StringVar(&f.ttotal, "ttotal", "", "scale-out: a ttotal artifact, or one of the published toolchain")
	fl.Var(durationFlag{&f.assume}, "assume-t-total", "scale-out time to assume instead, detection of a 10 s signal included")
	fl.Float64Var(&f.scenario.PeakRPS, "peak-rps", 0, "requests a second at the peak, over the whole fleet")
	fl.Float64Var(&f.scenario.PeakStreams, "peak-streams", 0, "or requests in flight at the peak")
	fl.Float64Var(&f.scenario.TroughRPS, "trough-rps", 0, "requests a second at the trough")
	fl.Float64Var(&f.scenario.TroughStreams, "trough-streams", 0, "or requests in flight at the trough")
	fl.Float64Var(&f.scenario.SurgeRatio, "surge-ratio", 1.25, "how much the load can grow while one scale-out takes (also --max-scaling-per-t-total)")
	fl.StringVar(&f.rates, "rates", "", "open-loop ladder: what an instance holds at a rate is measured instead of predicted")
	fl.StringVar(&f.trace, "trace", "", "traffic to take the surge from: counts or timestamps (CSV, JSON lines, CloudWatch, access log; gzip or not)")
	fl.Float64Var(&f.sloMS, "slo-ms", 0, "objective in milliseconds; the ladder must have been judged by it (also --ttfab-slo-ms)")
	fl.IntVar(&f.scenario.MinFloor, "min-floor", 1, "fewest instances that the plan may go down to")
	fl.StringVar(&f.scenario.Rule, "rule", capacity.RuleFlow, "rule whose policies the plan holds: flow or slots")
	fl.StringVar(&f.scenario.Routing, "routing", capacity.RouteRandom, "how requests are spread: random, or lor (least outstanding requests, were it to balance)")
	fl.Float64Var(&f.scenario.Epsilon, "epsilon", capacity.Epsilon, "probability, that an instance refuses a request during a surge, to allow")
	fl.IntVar(&f.scenario.Spare, "spare", 0, "instances that may be lost at the peak, the others carrying on")
	fl.IntVar(&f.scenario.Quota, "quota", 0, "instances of this type that the account may run (default: the registry's)")
	fl.Float64Var(&f.scenario.CharsMean, "chars-mean", 0, "mean characters of production's texts, where they differ from the corpus")
	fl.BoolVar(&f.scenario.MultiModel, "multi-model", false, "instances serve several models and may load one anew: longer cooldowns, a higher min")
	fl.Var(durationFlag{&f.ceiling}, "ceiling", "longest that the platform lets one invocation take (also --ceiling-s)")
	fl.BoolVar(&f.allowMismatch, "allow-config-mismatch", false, "pair files of different configurations, with a recorded warning")
	fl.StringArrayVar(&f.scenario.Accept, "accept", nil, "take on the stop of a finding, as a recorded warning (repeatable)")
	fl.StringVar(&f.model, "model", "", "model in the registry (default: the ladder's)")
	fl.StringVar(&f.models, "models", "models.yaml", "model registry: price, endpoint")
	fl.StringVar(&f.candidate, "candidate", "", "policies to take whatever the simulation says: "+strings.Join(capacity.CandidateNames, "; ")+" (default: the cheapest that holds)")
	f.scaled.add(fl)
	fl.BoolVar(&f.write, "write", false, "put the configuration block into the model registry, comments kept")
	fl.StringVar(&f.emit, "emit", "", "print what puts the plan in place instead: "+strings.Join(emitted, ", "))
	fl.BoolVar(&f.json, "json", false, "print the artifact, byte for byte, instead of the text")
	fl.StringVar(&f.out, "out", "artifacts", "folder that the plan is saved in")
	fl.BoolVar(&f.noSave, "no-save", false, "do not save the plan")
	fl.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name {
		case "max-scaling-per-t-total":
			name = "surge-ratio"
		case "ttfab-slo-ms":
			name = "slo-ms"
		case "ceiling-s":
			name = "ceiling"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

// emitted is what a plan can be printed as.
var emitted = slices.Concat(plan.Formats, plan.KubeFormats)

func emit(p *artifact.Plan, format string) (string, error) {
	if slices.Contains(plan.KubeFormats, format) {
		return plan.Kubernetes(p, format)
	}
	return plan.Emit(p, format)
}

// mostInstances is beyond what any account has of one kind.
const mostInstances = 1_000_000

// misused lists every mistake in how the flags were set.
func (f *planFlags) misused(set func(string) bool) error {
	var bad []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	s := f.scenario
	add(f.qmax == "", "--qmax FILE is missing: the ladder to plan on (tts-bench qmax makes one)")
	add(f.ttotal == "" && f.assume == 0, "--ttotal FILE or --assume-t-total 320 is missing: how long a scale-out takes")
	add(f.assume > 24*time.Hour, "--assume-t-total %s: at most a day", f.assume)
	add(f.ttotal != "" && set("assume-t-total"), "--ttotal and --assume-t-total exclude each other: a time is measured or assumed")
	for _, v := range []struct {
		name  string
		value float64
	}{{"peak-rps", s.PeakRPS}, {"peak-streams", s.PeakStreams}, {"trough-rps", s.TroughRPS}, {"trough-streams", s.TroughStreams}, {"slo-ms", f.sloMS}} {
		zero := v.value == 0 && strings.HasPrefix(v.name, "trough") // nothing at night
		add(set(v.name) && !zero && !(v.value > 0), "--%s %g: it must be above 0", v.name, v.value)
		add(v.value >= 1e12, "--%s %g: it must be below 1e12", v.name, v.value)
	}
	add(!set("peak-rps") && !set("peak-streams"), "--peak-rps or --peak-streams is missing: the load to plan for")
	add(set("peak-rps") && set("peak-streams"), "--peak-rps and --peak-streams exclude each other")
	add(set("trough-rps") && set("trough-streams"), "--trough-rps and --trough-streams exclude each other")
	add(s.MinFloor < 1, "--min-floor %d: an endpoint keeps at least 1 instance", s.MinFloor)
	add(s.MinFloor > mostInstances, "--min-floor %d: at most %d instances", s.MinFloor, mostInstances)
	add(s.Routing != capacity.RouteRandom && s.Routing != capacity.RouteLOR, "--routing %q: random or lor", s.Routing)
	add(!(s.Epsilon > 0 && s.Epsilon < 1), "--epsilon %g: a probability between 0 and 1", s.Epsilon)
	add(s.Spare < 0 || s.Spare > mostInstances, "--spare %d: 0 to %d instances", s.Spare, mostInstances)
	add(set("quota") && s.Quota < 1, "--quota %d: at least 1 instance", s.Quota)
	add(set("chars-mean") && !(s.CharsMean > 0 && s.CharsMean < 1e6), "--chars-mean %g: it must be above 0 and below 1e6", s.CharsMean)
	add(f.ceiling <= 0, "--ceiling %s: it must be above 0", f.ceiling)
	add(s.Rule != capacity.RuleFlow && s.Rule != capacity.RuleSlots, "--rule %q: flow or slots", s.Rule)
	add(f.emit != "" && !slices.Contains(emitted, f.emit), "--emit %q: one of %s", f.emit, strings.Join(emitted, ", "))
	add(f.emit != "" && f.json, "--emit and --json exclude each other: one of them is printed")
	add(f.write && f.noSave, "--write and --no-save exclude each other: the registry names the saved plan")
	for _, name := range s.Accept {
		add(!slices.Contains(capacity.Stoppable, name), "--accept %q: no such finding stops a plan; %s do", name, strings.Join(capacity.Stoppable, ", "))
	}
	add(f.candidate != "" && !slices.Contains(capacity.CandidateNames, f.candidate), "--candidate %q: one of %s", f.candidate, strings.Join(capacity.CandidateNames, "; "))
	add(f.candidate != "" && s.Rule != capacity.RuleFlow, "--candidate is for --rule flow: the published rule has its own policies")
	bad = append(bad, f.scaled.misused(set)...)
	if len(bad) > 1 {
		return exit.Misuse(fmt.Errorf("plan cannot start:\n%w", errors.Join(bad...)))
	}
	return exit.Misuse(errors.Join(bad...))
}

func (a *app) plan(cmd *cobra.Command, f planFlags) error {
	set := cmd.Flags().Changed
	if err := f.misused(set); err != nil {
		return err
	}
	now := time.Now().UTC()
	in := plan.Input{
		QMaxFile: f.qmax, TTotalFile: f.ttotal, AssumeT: f.assume.Seconds(),
		Scenario: f.scenario, SLOMS: f.sloMS, AllowMismatch: f.allowMismatch,
		RunID: store.NewRunID(now), CreatedAt: now, Tool: tool(), Settings: map[string]any{},
		Fluid: interruptible(cmd.Context()), Parallel: parallel.Each, Candidate: f.candidate,
	}
	in.Scenario.Ceiling = f.ceiling.Seconds()
	if in.Scenario.Accept == nil {
		in.Scenario.Accept = []string{}
	}
	cmd.Flags().VisitAll(func(fl *pflag.Flag) {
		if fl.Name != "help" {
			in.Settings[fl.Name] = fl.Value.String()
		}
	})
	var err error
	if in.QMax, err = readRecord(f.qmax, artifact.ReadQMax); err != nil {
		return err
	}
	if f.ttotal != "" {
		if in.TTotal, err = readRecord(f.ttotal, artifact.ReadTTotal); err != nil {
			return err
		}
	}
	if f.rates != "" {
		if in.Rates, err = readRecord(f.rates, artifact.ReadRates); err != nil {
			return err
		}
		in.RatesFile = f.rates
	}
	if f.trace != "" {
		if in.Trace, err = readRecord(f.trace, readTrace); err != nil {
			return err
		}
		in.TraceFile, in.KeepSurge = f.trace, set("surge-ratio")
	}
	in.Requests, in.RequestsBy = ladderLog(f.qmax, in.QMax)
	reg, err := planModel(&in, f, set)
	if err != nil {
		return err
	}
	if in.Scaled, err = f.scaled.scaled(reg, in.QMax.Target); err != nil {
		return err
	}
	p, err := plan.Make(in)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return a.finish(p, f, reg)
}

// readRecord reads a measurement file. One that is not there is a misuse; one that cannot be read leaves the question
// open; one that holds something else is refused.
func readRecord[T any](path string, read func([]byte) (*T, error)) (*T, error) {
	data, err := store.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.Misuse(err)
	case err != nil:
		return nil, exit.CannotTell(err)
	}
	v, err := read(data)
	if err != nil {
		return nil, exit.Refuse(fmt.Errorf("%s: %w", path, err))
	}
	return v, nil
}

func readTrace(data []byte) (*trace.Trace, error) { return trace.Read(data) }

// ladderLog is the requests of a ladder, from the log beside it. A ladder without one is planned on all the same.
func ladderLog(path string, q *artifact.QMax) (rs []sample.Request, why string) {
	if q.RequestLog == "" {
		return nil, "the ladder has no request log"
	}
	file, err := store.FindLog(path, q.RunID)
	if err != nil {
		return nil, err.Error()
	}
	log, err := store.ReadLog(file)
	if err != nil {
		return nil, err.Error()
	}
	rs = []sample.Request{}
	for i, rung := range log.Rungs {
		for _, r := range rung {
			r.Rung = i // several runs count their rungs from 0 each
			rs = append(rs, r)
		}
	}
	return rs, ""
}

// planModel adds what the registry knows of the model. A registry that was not asked for may be missing, and so may the
// model in it.
func planModel(in *plan.Input, f planFlags, set func(string) bool) (*registry.File, error) {
	measured := in.QMax.Target.Model
	if f.model != "" && f.model != measured {
		return nil, exit.Refuse(fmt.Errorf("--model %s: the ladder is of %s; a plan holds for the model that was measured", f.model, measured))
	}
	asked := set("models") || f.write || f.model != ""
	if _, err := os.Stat(f.models); errors.Is(err, fs.ErrNotExist) && !asked {
		return nil, nil
	}
	file, err := registry.Load(f.models)
	if err != nil {
		return nil, exit.Misuse(err)
	}
	m, err := file.Model(measured)
	if err != nil {
		if asked {
			return nil, exit.Misuse(err)
		}
		return nil, nil
	}
	in.Model = plan.Model{Endpoint: m.Endpoint, Variant: m.Variant}
	if m.Quota != nil && !set("quota") && m.InstanceType == in.QMax.Fingerprint.InstanceType {
		in.Scenario.Quota = *m.Quota
	}
	// A price is that of an instance type: the registry's holds for the ladder only where they agree.
	same := m.InstanceType == in.QMax.Fingerprint.InstanceType
	if same {
		in.Model.Price = m.Price
	}
	if f.write && !same {
		return nil, exit.Refuse(fmt.Errorf("--write: %s runs %s on %s, and the ladder was measured on %s", f.models, measured, m.InstanceType, orUnknown(in.QMax.Fingerprint.InstanceType)))
	}
	return file, nil
}

func orUnknown(s string) string {
	if s == "" {
		return "an instance type that is not known"
	}
	return s
}

// finish saves the plan, writes the registry and prints what was asked for. Each is done only after what could refuse it.
func (a *app) finish(p *artifact.Plan, f planFlags, reg *registry.File) error {
	path := filepath.Join(f.out, p.Name())
	if !f.noSave {
		p.Config.Plan = path
	}
	data, err := artifact.Encode(p)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	var done []string
	if !f.noSave {
		kept, err := store.Save(f.out, p.Name(), data)
		if err != nil {
			return fmt.Errorf("plan: %w", err)
		}
		done = append(done, "saved "+path)
		if kept != "" {
			done = append(done, "kept the earlier plan as "+filepath.Join(f.out, kept))
		}
	}
	stopped := p.Verdict == capacity.Stop
	if f.write && !stopped {
		if err := writeRegistry(p, f, reg, path); err != nil {
			return err
		}
		done = append(done, "wrote "+p.Target.Model+" into "+f.models)
	}

	status := a.stdout
	switch {
	case f.json:
		status = a.stderr
		if _, err := a.stdout.Write(data); err != nil {
			return fmt.Errorf("plan: print the artifact: %w", err)
		}
	case f.emit != "":
		status = a.stderr
		calls, err := emit(p, f.emit)
		if err != nil {
			fmt.Fprintln(status, strings.Join(done, "\n"))
			return exit.Refuse(fmt.Errorf("plan: %w", err))
		}
		fmt.Fprint(a.stdout, calls)
	default:
		fmt.Fprint(a.stdout, plan.Text(p)+"\n")
	}
	if f.write && stopped {
		done = append(done, f.models+" is left as it was: a stopped plan is not written there")
	}
	for _, line := range done {
		fmt.Fprintln(status, line)
	}
	fmt.Fprintln(status, "next: "+nextAfterPlan(p, f, stopped))
	if stopped {
		return exit.Refuse(exit.Said)
	}
	return nil
}

// writeRegistry puts the configuration block into models.yaml. The objective is the model's own there: it is touched only
// where the plan's differs.
func writeRegistry(p *artifact.Plan, f planFlags, reg *registry.File, path string) error {
	m, err := reg.Model(p.Target.Model)
	if err != nil {
		return exit.Misuse(err)
	}
	if rel, err := filepath.Rel(filepath.Dir(f.models), path); err == nil {
		path = filepath.ToSlash(rel)
	}
	c := p.Config
	values := map[string]any{
		"min_instances": c.MinInstances, "max_instances": c.MaxInstances,
		"scaling_target_value": c.ScalingTargetValue, "scale_in_threshold": c.ScaleInThreshold,
		"queue_max_depth": c.QueueMaxDepth, "scale_out_cooldown_s": c.OutCooldown, "scale_in_cooldown_s": c.InCooldown,
		"peak_rps": c.PeakRPS, "trough_rps": c.TroughRPS, "plan": path,
	}
	if m.SLOMS != c.SLOMS {
		values["ttfab_slo_ms"] = c.SLOMS
	}
	if m.Percentile != c.Percentile {
		values["percentile"] = c.Percentile
	}
	text, err := reg.Edit(m.Name, values)
	if err != nil {
		return fmt.Errorf("plan: write %s: %w", f.models, err)
	}
	if err := store.WriteFile(f.models, text); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}

func nextAfterPlan(p *artifact.Plan, f planFlags, stopped bool) string {
	if stopped {
		names := plan.Stops(p)
		if p.Rule == capacity.RuleSlots && p.Flow.Verdict != capacity.Stop {
			return "add --rule flow, or --accept " + strings.Join(names, " --accept ")
		}
		return "mend " + strings.Join(names, ", ") + ", or take it on with --accept"
	}
	switch {
	case p.Target.URL != "" && f.emit != "":
		return "put the names of your Deployment and metric into this manifest, and apply it"
	case p.Target.URL != "":
		return "add --emit keda or --emit hpa for Kubernetes, or set the replicas of your server to these numbers"
	case f.emit != "":
		return "put these in place in your account"
	case f.write:
		return "add --emit aws-cli (or cloudformation, terraform) for what puts it in place"
	}
	return "add --write for models.yaml, --emit aws-cli (or cloudformation, terraform) for what puts it in place"
}
