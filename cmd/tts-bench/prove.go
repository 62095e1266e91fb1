package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"loadline/internal/arrival"
	"loadline/internal/artifact"
	"loadline/internal/audit"
	"loadline/internal/awsfleet"
	"loadline/internal/capacity"
	"loadline/internal/corpus"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/load"
	"loadline/internal/measure"
	"loadline/internal/openloop"
	"loadline/internal/proof"
	"loadline/internal/sample"
	"loadline/internal/store"
)

const proveExample = `  # what it would take, then do it
  tts-bench prove --plan artifacts/plan-kokoro-82m-flow-g5xlarge-8b1b96bc.json --dry-run
  tts-bench prove --plan artifacts/plan-kokoro-82m-flow-g5xlarge-8b1b96bc.json --stop-alarm speech-slo-burn --max-cost 5`

// The checks that --checks names.
const (
	proveRate  = "rate"
	proveQueue = "queue"
	proveSurge = "surge"
)

// proveFlags are the flags of prove.
type proveFlags struct {
	planFlag
	target      targetFlags
	qmax        string
	checks      []string
	hold        time.Duration
	queueHold   time.Duration
	idle        time.Duration
	instances   int
	most        int
	maxInFlight int
	poll        time.Duration
	corpus      string
	seed        int64
	deadline    time.Duration

	yes, dryRun  bool
	maxCost      float64
	stopAlarms   []string
	out          string
	noSave, json bool
}

func (a *app) proveCommand() *cobra.Command {
	f := proveFlags{idle: 5 * time.Second, deadline: time.Minute, queueHold: 20 * time.Second}
	cmd := &cobra.Command{
		Use:   "prove",
		Short: "show under load that a deployed plan keeps what it promises",
		Long: `prove compares what is deployed with the plan, as validate does, then loads it. On one instance: the objective at the
plan's rate, with requests at times of their own; nothing refused below the bound of the queue; what is too much refused,
and at once. Then, with the deployed policies let go, the plan's surge for as long as a scale-out takes: an instance is
asked for within the time of detection, and what is late or refused stays inside the plan's promise.

Each check has an interval and a budget of its own. One without a single completed request has failed. The fleet is left
as it was found, on every way out. Exit code 0 where every check holds, 1 where one does not, 3 where one could not be
told.`,
		Example: proveExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.prove(cmd, &f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.plan, "plan", "", "the plan that is deployed (required)")
	fl.StringVar(&f.qmax, "qmax", "", "its ladder: the texts and the moment of the objective come from it (default: the file that the plan names, where it is there)")
	fl.StringSliceVar(&f.checks, "checks", []string{proveRate, proveQueue, proveSurge}, "what is loaded for: rate, queue, surge; a part is no proof of the whole")
	fl.StringVar(&f.target.models, "models", "models.yaml", "model registry, for the price")
	fl.StringVar(&f.region, "region", "", "AWS region (default: the plan's, else the SDK's)")
	fl.StringVar(&f.endpointURL, "endpoint-url", "", "a local endpoint (sagemaker-local) instead of AWS")
	f.target.bidiFlags(fl)
	fl.StringVar(&f.target.transport, "transport", responseStream, "how SageMaker is asked: response-stream, invoke or bidi (default: as the plan was measured)")
	fl.StringVar(&f.target.body, "body", "kokoro", "request body, as for qmax")
	fl.Var(durationFlag{&f.hold}, "hold", "how long the plan's rate is measured, after its warm-up (default: by how slowly the queue forgets, 30 s to 15 m)")
	fl.Var(durationFlag{&f.queueHold}, "queue-hold", "how long each of the queue's two loads is held")
	fl.Var(durationFlag{&f.idle}, "idle", "pause between checks")
	fl.IntVar(&f.instances, "instances", 0, "instances that the surge begins with (default: the plan's min_instances)")
	fl.IntVar(&f.most, "max-instances", 0, "stop when more are asked for (default: the plan's max_instances)")
	fl.IntVar(&f.maxInFlight, "max-in-flight", 2000, "most requests in flight")
	fl.Var(durationFlag{&f.poll}, "poll-interval", "pause between looks at the fleet (default: 10s; 250ms on this machine)")
	fl.StringVar(&f.corpus, "corpus", "", "texts to speak: default, clips, or a file (default: the ladder's)")
	fl.Int64Var(&f.seed, "seed", 1234, "of the arrivals and the order of the texts")
	fl.Var(durationFlag{&f.deadline}, "deadline", "longest that one request may take; later ones count as late")
	fl.BoolVar(&f.yes, "yes", false, "agree to what would be asked")
	fl.BoolVar(&f.dryRun, "dry-run", false, "say what it would take, and call nothing")
	fl.Float64Var(&f.maxCost, "max-cost", 0, "stop before the instances have cost this many US dollars")
	fl.StringArrayVar(&f.stopAlarms, "stop-alarm", nil, "stop and put everything back when this CloudWatch alarm fires (repeatable)")
	fl.StringVar(&f.stateDir, "state-dir", "", "where freeze records are kept (default: the user's state folder)")
	fl.StringVar(&f.out, "out", "artifacts", "folder that the result is saved in")
	fl.BoolVar(&f.noSave, "no-save", false, "do not save the result")
	fl.BoolVar(&f.json, "json", false, "print the artifact, byte for byte, instead of the table")
	return cmd
}

// proveJob is a prove that is understood: nothing is asked over the network yet.
type proveJob struct {
	*proveFlags
	to     target
	plan   *artifact.Plan
	rule   capacity.Rule
	ladder *artifact.QMax // nil: it is not there
	texts  *corpus.Corpus
	mark   sample.Mark
	rate   float64 // that the plan gives one instance
	share  float64 // of μ, as it is sent
	step   *openloop.Step
	queue  *measure.QueueLoad
	surge  *measure.SurgeLoad
	ratio  float64
	notes  []string
}

func (a *app) prove(cmd *cobra.Command, f *proveFlags) error {
	j, err := a.proveJob(cmd, f)
	if err != nil {
		return err
	}
	if f.dryRun {
		_, err := fmt.Fprint(a.stdout, j.dryRunText())
		return err
	}
	return a.proveSageMaker(cmd, j)
}

func (a *app) proveJob(cmd *cobra.Command, f *proveFlags) (*proveJob, error) {
	set := cmd.Flags().Changed
	p, err := f.readPlan()
	if err != nil {
		return nil, err
	}
	j := &proveJob{proveFlags: f, plan: p, rule: p.Flow, mark: sample.OnFirstAudio}
	if p.Rule == capacity.RuleSlots {
		j.rule = p.Slots
	}
	switch {
	case p.Verdict == capacity.Stop:
		return nil, exit.Refuse(fmt.Errorf("%s is stopped: there is nothing to prove", f.plan))
	case !j.rule.Defined:
		return nil, exit.Refuse(fmt.Errorf("%s: its %s rule is not defined: %s", f.plan, p.Rule, j.rule.Reason))
	case p.Target.Component != "":
		return nil, exit.Refuse(fmt.Errorf("%s scales copies of inference component %s, and a proof pins instances: measure a real-time endpoint of the same model", f.plan, p.Target.Component))
	}
	if err := j.readLadder(set); err != nil {
		return nil, err
	}
	f.target.endpoint, f.target.variant = p.Target.Endpoint, p.Target.Variant
	f.target.region, f.target.endpointURL = f.region, f.endpointURL
	if !set("transport") && p.Target.Transport != "" {
		f.target.transport = p.Target.Transport
	}
	f.target.payload = p.Target.Payload
	if f.target.payload == "" {
		f.target.payload = "audio"
	}
	var bad []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	if j.to, err = a.target(f.target, set); err != nil {
		bad = append(bad, err)
	}
	if j.to.model == nil {
		j.to.Model = p.Target.Model
	}
	add(p.Target.Transport != "" && f.target.transport != p.Target.Transport, "--transport %s: the plan was measured by %s", f.target.transport, p.Target.Transport)
	for _, c := range f.checks {
		add(!slices.Contains([]string{proveRate, proveQueue, proveSurge}, c), "--checks %q: rate, queue or surge", c)
	}
	add(len(f.checks) == 0, "--checks is empty: there is nothing to prove")
	add(set("hold") && f.hold < time.Second, "--hold %s: at least 1s", f.hold)
	add(f.queueHold < time.Second, "--queue-hold %s: at least 1s", f.queueHold)
	add(f.maxInFlight < 1 || f.maxInFlight > 100_000, "--max-in-flight %d: 1 to 100000", f.maxInFlight)
	add(set("poll-interval") && f.poll < 50*time.Millisecond, "--poll-interval %s: at least 50ms", f.poll)
	add(f.deadline <= 0, "--deadline %s: it must be above 0", f.deadline)
	add(set("max-cost") && !(f.maxCost > 0), "--max-cost %g: it must be above 0", f.maxCost)
	if m := j.to.model; f.maxCost > 0 && (m == nil || m.Price == nil) {
		add(true, "--max-cost: no price is known for %s: add price_per_hour, price_source and price_date to %s", j.to.Endpoint, f.target.models)
	}
	least := max(1, p.Config.MinInstances)
	if !set("instances") {
		f.instances = least
	}
	if !set("max-instances") {
		f.most = max(least, p.Config.MaxInstances)
	}
	add(f.instances < 1, "--instances %d: at least 1", f.instances)
	add(f.most < f.instances, "--max-instances %d: the surge begins with %d", f.most, f.instances)
	if j.texts, err = readCorpus(f.corpus, f.seed); err != nil {
		bad = append(bad, fmt.Errorf("--corpus: %w", err))
	}
	if err := exit.Misuse(errors.Join(bad...)); err != nil {
		return nil, err
	}
	return j, j.draw()
}

// readLadder reads the ladder behind the plan: what texts it was measured with is not in the plan.
func (j *proveJob) readLadder(set func(string) bool) error {
	file := j.qmax
	if file == "" {
		file = j.plan.Measured.QMaxFile
	}
	q, err := readRecord(file, artifact.ReadQMax)
	switch {
	case err == nil && q.RunID != j.plan.Measured.QMaxRun:
		if j.qmax != "" {
			return exit.Refuse(fmt.Errorf("--qmax %s is run %s, and the plan stands on run %s", file, q.RunID, j.plan.Measured.QMaxRun))
		}
		err = errors.New("it is of another run")
		fallthrough
	case err != nil:
		if j.qmax != "" {
			return err
		}
		if !errors.Is(err, fs.ErrNotExist) || !set("corpus") {
			j.notes = append(j.notes, fmt.Sprintf("the plan's ladder %s could not be used (%v): its texts are not known, and the objective is taken to be on the first audio", file, err))
		}
	default:
		j.ladder = q
		if q.SLOOn != "" {
			j.mark = sample.Mark(q.SLOOn)
		}
	}
	if j.corpus == "" {
		j.corpus = corpus.Default
		if q := j.ladder; q != nil {
			if name, _, _ := strings.Cut(q.Corpus.ID, "@"); name == corpus.Clips {
				j.corpus = corpus.Clips
			}
			if got, err := readCorpus(j.corpus, j.seed); err == nil && got.ID() != q.Corpus.ID {
				j.notes = append(j.notes, fmt.Sprintf("the texts are of %s and the ladder's of %s: μ may be another", got.ID(), q.Corpus.ID))
			}
		}
	}
	return nil
}

// mostShare is the most that an instance is sent, of what it completes: beyond it nothing more is learnt.
const mostShare = 2

// draw makes the loads.
func (j *proveJob) draw() error {
	m, r := j.plan.Measured.Measured, j.rule
	if !(m.MuPlan > 0) || m.QMax < 1 {
		return exit.Refuse(fmt.Errorf("%s does not say what an instance completes and holds", j.planFlag.plan))
	}
	if r.LambdaStar != nil {
		j.rate = *r.LambdaStar
	} else { // the published rule gives no rate: what it asks of an instance at the peak is one
		j.rate = r.PeakRPS / float64(max(1, r.Peak))
	}
	if !(j.rate > 0) {
		return exit.Refuse(fmt.Errorf("%s gives an instance no rate: plan with --peak-rps", j.planFlag.plan))
	}
	j.share = j.rate / m.MuPlan
	if j.share > mostShare {
		j.notes = append(j.notes, fmt.Sprintf("the plan gives an instance %.1f a second, which is %.1f times what it completes: twice is sent", j.rate, j.share))
		j.share = mostShare
	}
	rng := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(uint64(j.seed), stream)) }
	if slices.Contains(j.checks, proveRate) {
		chain, _, err := m.Server(m.QMax)
		if err != nil {
			return exit.Refuse(err)
		}
		held := j.hold
		switch {
		case held == 0 && j.share < 1:
			held = openloop.Held(j.share, m.MuPlan)
		case held == 0:
			held = 30 * time.Second // it only gets worse
		}
		step, err := openloop.NewStep(0, j.share, openloop.Server{Chain: chain, Most: m.MuPlan}, held, rng(0))
		if err != nil {
			return exit.Misuse(err)
		}
		j.step = &step
	}
	bound := j.plan.Config.QueueMaxDepth
	if slices.Contains(j.checks, proveQueue) {
		least := m.QMax
		if bound > 0 {
			least = min(least, bound)
		}
		// A refusal that comes no sooner than the reply would have is none; a tenth of the objective leaves time to turn elsewhere.
		prompt := max(250*time.Millisecond, seconds(m.SLO/10))
		j.queue = &measure.QueueLoad{Below: max(1, least*9/10), Above: bound + max(4, bound/4), Bound: bound, Hold: j.queueHold, Prompt: prompt}
	}
	j.ratio = j.plan.Scenario.SurgeRatio
	if !slices.Contains(j.checks, proveSurge) {
		return nil
	}
	period, detection := j.detection()
	t := seconds(j.lag().T)
	switch {
	case !(j.ratio > 1):
		return exit.Refuse(fmt.Errorf("%s: its surge ratio is %g, which is none", j.planFlag.plan, j.ratio))
	case t <= 0:
		return exit.Refuse(fmt.Errorf("%s does not say how long a scale-out takes", j.planFlag.plan))
	}
	// Before it the fleet carries less than the rate, so that no alarm is firing already when the surge begins.
	fleet := float64(j.instances) * j.share * m.MuPlan
	begins := period
	profile := arrival.Profile{{At: 0, Rate: calm * fleet}, {At: begins, Rate: calm * fleet}, {At: begins, Rate: j.ratio * fleet}, {At: begins + t, Rate: j.ratio * fleet}}
	if err := profile.Check(); err != nil {
		return exit.Refuse(err)
	}
	epsilon := capacity.Epsilon
	if r.Epsilon != nil {
		epsilon = *r.Epsilon
	}
	j.surge = &measure.SurgeLoad{Instances: j.instances, Most: j.most, At: profile.Poisson(rng(1)), Begins: begins, Lasts: t, Align: period,
		Within: detection + period, Epsilon: epsilon}
	return nil
}

// calm is the share of the plan's rate before the surge.
const calm = 0.8

// signal is the period, and how many of it, that the first policy to add instances looks at.
func (j *proveJob) signal() (period time.Duration, n int) {
	for _, p := range j.plan.Policies {
		out := p.Target != nil || slices.ContainsFunc(p.Steps, func(s capacity.Step) bool { return s.Change > 0 })
		if out && p.Period > 0 {
			return time.Duration(p.Period) * time.Second, max(1, p.Datapoints)
		}
	}
	return time.Minute, 3
}

// lag is how long a scale-out takes by the signal that is deployed: policies that were chosen for concurrency alone see a
// surge sooner than the rate that the rule is sized by.
func (j *proveJob) lag() capacity.Lag {
	if period, _ := j.signal(); period == capacity.FastPeriod*time.Second && j.rule.FastLag != nil {
		return *j.rule.FastLag
	}
	return j.rule.Lag
}

// detection is how long the plan has its signal take to see a surge, and the period that the signal is evaluated in: an
// alarm looks once a period, so that much may be added.
func (j *proveJob) detection() (period, detection time.Duration) {
	period, n := j.signal()
	if l := j.lag(); l.Detection > 0 && !l.Assumed {
		return period, seconds(l.Detection)
	}
	return period, time.Duration(n)*period + time.Minute // T was stated in one figure: a minute is taken for publication and reaction
}

// document is the record before anything is measured.
func (j *proveJob) document(cmd *cobra.Command, print artifact.Fingerprint, deployed proof.Check) *artifact.Proof {
	now := time.Now().UTC()
	m, s := j.plan.Measured, j.texts.Stats()
	to := j.to.recorded()
	doc := &artifact.Proof{
		Header: artifact.Header{Schema: artifact.SchemaProof, RunID: store.NewRunID(now), CreatedAt: now, Tool: tool(),
			Settings: settings(cmd.Flags()), Target: to, Fingerprint: print},
		PlanFile: j.planFlag.plan, PlanRun: j.plan.RunID, Rule: j.plan.Rule, SLOMS: 1000 * m.SLO, Percentile: m.Pct, SLOOn: string(j.mark),
		Rate: j.rate, SurgeRatio: j.ratio, SurgeFrom: j.instances, T: j.lag().T, QueueBound: j.plan.Config.QueueMaxDepth,
		Checks: []proof.Check{deployed}, Seed: j.seed, InstanceCounts: []int{}, Warnings: j.notes,
		Corpus: artifact.Corpus{ID: j.texts.ID(), Texts: s.Texts, CharsMean: s.CharsMean, CharsP95: s.CharsP95, Seed: j.seed},
	}
	if p := j.to.model; p != nil && p.Price != nil {
		doc.Price = &artifact.Price{PerHour: p.Price.PerHour, Source: p.Price.Source, Date: p.Price.Date}
	}
	return doc
}

// proveSageMaker reads, compares, refuses or is agreed to, freezes, loads, and puts back.
func (a *app) proveSageMaker(cmd *cobra.Command, j *proveJob) error {
	ctx := cmd.Context()
	if j.target.region == "" {
		j.target.region = j.plan.Fingerprint.Region
	}
	cfg, err := a.aws(ctx, j.target)
	if err != nil {
		return err
	}
	live := a.live()
	defer live.Close()
	v, hold, err := a.claim(ctx, cfg, &j.to, j.stateDir, live)
	if err != nil {
		return err
	}
	defer hold.Release()
	report, err := a.validated(ctx, cfg, j.plan, j.planFlag)
	if err != nil {
		return err
	}
	if report.Drift() || len(report.Unread) > 0 {
		live.Close()
		fmt.Fprint(a.stderr, validateText(j.plan, j.planFlag.plan, report))
		return driftCode([]audit.Report{report})
	}
	if err := a.permitted(ctx, cfg, live.Note); err != nil {
		return err
	}
	state, err := v.Inspect(ctx)
	if err == nil {
		err = freeze.Refuse(state, freeze.Options{ProbeDepth: true})
	}
	if err == nil && j.surge != nil {
		err = j.room(ctx, cfg, state, live.Note)
	}
	if err != nil {
		return err
	}
	live.Close()
	if err := a.agree(ctx, j.to.Endpoint, j.asks(state), j.yes); err != nil {
		return err
	}
	doc := j.document(cmd, state.Fingerprint, proof.Check{Name: proof.Deployed, Verdict: capacity.OK, Detail: fmt.Sprintf("%d values, every alarm and the fingerprint equal the plan", len(report.Checks))})
	for _, n := range doc.Warnings {
		live.Note(n)
	}
	tr, err := a.open(cfg, j.to, j.maxInFlight)
	if err != nil {
		return err
	}
	defer tr.Close()
	rec := freeze.Record(state)
	rec.RunID, rec.CreatedAt, rec.Owner, rec.Command, rec.URL = doc.RunID, time.Now().UTC(), owner(), "prove", j.endpointURL
	start := time.Now()
	c := measure.Proving{
		Doc: doc, Step: j.step, Queue: j.queue, Surge: j.surge, Start: start, Idle: j.idle, Poll: pollEvery(j.poll, v.Local()), Progress: live,
		Freeze: rec, Fleet: v, Records: records{hold}, Counter: v, Scaler: v, Policy: v, MaxCost: j.maxCost,
	}
	if j.maxCost > 0 {
		c.Price = j.to.model.Price.PerHour
	}
	if len(j.stopAlarms) > 0 {
		c.Alarms = func(ctx context.Context) ([]string, error) { return v.Firing(ctx, j.stopAlarms) }
	}
	lc := load.Config{Transport: tr, Texts: j.texts.At, Deadline: j.deadline, Start: start, MaxStreams: j.maxInFlight, Seed: uint64(j.seed)}
	c.Open, c.Prober = openLoop(lc), load.NewClosed(lc)
	var files *store.Journal
	if !j.noSave {
		if files, err = store.Open(j.out, doc.Name(), doc.RunID); err != nil {
			return err
		}
		defer files.Close()
		doc.RequestLog = files.LogName()
		c.Keep = files.Rung
	}
	live.Note(connects(doc.Settings, tr))
	doc, err = measure.Prove(ctx, c)
	live.Close()
	return a.finishProve(j, doc, files, live, err)
}

// room checks that the account may run what the surge may ask for. A quota that could not be read is said, not guessed.
func (j *proveJob) room(ctx context.Context, cfg aws.Config, s freeze.Variant, note func(string)) error {
	quota, err := awsfleet.Quota(ctx, cfg, s.Fingerprint.InstanceType)
	switch {
	case err != nil:
		note(fmt.Sprintf("whether the account may run %d of %s could not be read: %v", j.most, s.Fingerprint.InstanceType, err))
	case quota < j.most:
		return exit.Refuse(fmt.Errorf("the account may run %d of %s behind endpoints, and the surge may ask for %d: ask for a higher quota, or give --max-instances %d and --instances", quota, s.Fingerprint.InstanceType, j.most, quota))
	}
	return context.Cause(ctx)
}
