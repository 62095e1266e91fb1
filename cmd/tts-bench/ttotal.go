package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"loadline/internal/artifact"
	"loadline/internal/awsfleet"
	"loadline/internal/chart"
	"loadline/internal/corpus"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/ladder"
	"loadline/internal/load"
	"loadline/internal/measure"
	"loadline/internal/report"
	"loadline/internal/sample"
	"loadline/internal/scaleout"
	"loadline/internal/store"
)

const ttotalExample = `  # what it would take, then for real
  tts-bench ttotal --qmax artifacts/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json --dry-run
  tts-bench ttotal --qmax artifacts/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json

  # three runs; the deployed policy decides, so that detection is measured too
  tts-bench ttotal --qmax FILE --runs 3 --trigger policy`

// The triggers.
const (
	forceDesired = "force-desired"
	byPolicy     = "policy"
)

// ttotalFlags are the flags of ttotal.
type ttotalFlags struct {
	target        targetFlags
	qmax, trigger string
	probe, runs   int
	warmup        time.Duration
	settle        time.Duration
	window        time.Duration
	maxWait       time.Duration
	poll          time.Duration
	publication   time.Duration
	corpus        string
	seed          int64
	deadline      time.Duration

	yes, dryRun   bool
	clone         bool
	allowMismatch bool
	skipDrift     bool
	maxCost       float64
	stopAlarms    []string
	stateDir, out string
	noSave, json  bool
}

func (a *app) ttotalCommand() *cobra.Command {
	f := ttotalFlags{warmup: 30 * time.Second, settle: 3 * time.Minute, window: time.Minute, maxWait: 25 * time.Minute,
		publication: 2 * time.Minute, deadline: time.Minute}
	cmd := &cobra.Command{
		Use:   "ttotal",
		Short: "measure how long one more instance takes, stage by stage, until traffic has recovered",
		Long: `ttotal pins the variant to one instance, saturates it with a probe, asks for one more, and times every stage from
the capacity call to recovered traffic. The stages add up to the total exactly. A run that comes to nothing is listed by
its cause and is in no figure. The count and scaling are put back as they were on every way out; after a kill,
tts-bench thaw does.`,
		Example: ttotalExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ttotal(cmd, &f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.qmax, "qmax", "", "ladder of the same configuration: what recovered means comes from it (required)")
	fl.StringVar(&f.trigger, "trigger", forceDesired, "force-desired: our own capacity call; policy: the deployed policy decides")
	f.target.add(fl)
	f.target.componentFlags(fl)
	fl.IntVar(&f.probe, "probe-concurrency", 0, "requests that the probe holds, even; it and its half are rungs of the ladder (default: the ladder's pair)")
	fl.IntVar(&f.runs, "runs", 1, "scale-outs; plans use the slowest")
	fl.Var(durationFlag{&f.warmup}, "warmup", "how long the probe is held before the capacity call; it is in no stage")
	fl.Var(durationFlag{&f.settle}, "settle", "how long the probe goes on once the instance is in service")
	fl.Var(durationFlag{&f.window}, "window", "length of the windows that recovery is judged on")
	fl.Var(durationFlag{&f.maxWait}, "max-wait", "longest wait for an instance")
	fl.Var(durationFlag{&f.poll}, "poll-interval", "between looks at the endpoint (default: 10s; 250ms for a local one)")
	fl.Var(durationFlag{&f.publication}, "publication", "with force-desired: publication and reaction to count into detection (AWS: 1 to 2 minutes)")
	fl.StringVar(&f.corpus, "corpus", "", "texts to speak: default, clips, or a file (default: the ladder's)")
	fl.Int64Var(&f.seed, "seed", 1234, "order of the texts")
	fl.Var(durationFlag{&f.deadline}, "deadline", "longest that one request may take")
	fl.BoolVar(&f.clone, "clone", false, "measure a temporary endpoint of the same model and one instance instead, and delete it: production is left alone")
	fl.BoolVar(&f.yes, "yes", false, "agree to what would be asked (other traffic, several instances, production)")
	fl.BoolVar(&f.dryRun, "dry-run", false, "say what it would take, and call nothing")
	fl.BoolVar(&f.allowMismatch, "allow-config-mismatch", false, "go on where the endpoint is not what the ladder measured, with a recorded warning")
	fl.BoolVar(&f.skipDrift, "skip-drift", false, "do not compare what is deployed with what is declared first")
	fl.Float64Var(&f.maxCost, "max-cost", 0, "stop before the instances have cost this many US dollars")
	fl.StringArrayVar(&f.stopAlarms, "stop-alarm", nil, "stop and put everything back when this CloudWatch alarm fires (repeatable)")
	fl.StringVar(&f.stateDir, "state-dir", "", "where freeze records are kept (default: the user's state folder)")
	fl.StringVar(&f.out, "out", "artifacts", "folder that the result is saved in")
	fl.BoolVar(&f.noSave, "no-save", false, "do not save the result")
	fl.BoolVar(&f.json, "json", false, "print the artifact, byte for byte, instead of the table")
	return cmd
}

// ttotalJob is a ttotal that is understood: nothing is asked over the network yet.
type ttotalJob struct {
	*ttotalFlags
	to     target
	ladder *artifact.QMax
	texts  *corpus.Corpus
	p95    float64 // of the ladder at half the probe, seconds
}

func (a *app) ttotal(cmd *cobra.Command, f *ttotalFlags) error {
	j, err := a.ttotalJob(cmd, f)
	if err != nil {
		return err
	}
	if f.dryRun {
		_, err := fmt.Fprint(a.stdout, j.dryRunText())
		return err
	}
	return a.ttotalSageMaker(cmd, j)
}

// recoveredBy is how far above the ladder's p95 at half the probe traffic may lie to count as recovered, and how much of
// one instance's throughput two of them must complete where requests go anywhere.
const (
	recoveredBy   = 1.25
	recoveredRate = 1.5
)

func (a *app) ttotalJob(cmd *cobra.Command, f *ttotalFlags) (*ttotalJob, error) {
	set := cmd.Flags().Changed
	if f.qmax == "" {
		return nil, exit.Misuse(errors.New("--qmax FILE is missing: what recovered traffic is comes from the ladder (tts-bench qmax makes one)"))
	}
	if f.target.url != "" {
		return nil, exit.Misuse(errors.New("--url: only a SageMaker endpoint has a count that can be asked for"))
	}
	j := &ttotalJob{ttotalFlags: f}
	var err error
	if j.ladder, err = readRecord(f.qmax, artifact.ReadQMax); err != nil {
		return nil, err
	}
	q := j.ladder
	if q.Target.URL != "" {
		return nil, exit.Misuse(fmt.Errorf("--qmax %s was measured by URL: a SageMaker endpoint's ladder is needed", f.qmax))
	}
	// What the ladder measured is measured again, unless another target is named.
	f.target.ofLadder(q.Target, set)
	if !set("endpoint") && !set("model") {
		f.target.endpoint = q.Target.Endpoint
		if !set("variant") {
			f.target.variant = q.Target.Variant
		}
	}
	if !set("transport") && q.Target.Transport != "" {
		f.target.transport = q.Target.Transport
	}
	if !set("payload") && q.Target.Payload != "" {
		f.target.payload = q.Target.Payload
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
	add(j.to.probesEach() && set("sessions") && f.target.sessions == sessionsKept, "--sessions kept: a session stays on the instance that it was opened on, and a new one would never be asked: each text of the probe has its own")
	add(j.to.Transport != q.Target.Transport, "--transport %s: the ladder was measured by %s, and times of two transports do not compare: give --transport %s", j.to.Transport, q.Target.Transport, q.Target.Transport)
	add(f.trigger != forceDesired && f.trigger != byPolicy, "--trigger %q: %s or %s", f.trigger, forceDesired, byPolicy)
	add(f.clone && f.trigger == byPolicy, "--clone and --trigger policy exclude each other: a clone has no policy")
	add(f.runs < 1 || f.runs > 100, "--runs %d: 1 to 100", f.runs)
	add(f.settle <= 0, "--settle %s: it must be above 0: recovery is seen in that time", f.settle)
	add(f.window < time.Second, "--window %s: at least 1s", f.window)
	add(f.window > f.settle, "--window %s is longer than --settle %s: no window would be whole", f.window, f.settle)
	add(f.maxWait < time.Second, "--max-wait %s: at least 1s", f.maxWait)
	add(set("poll-interval") && f.poll < 50*time.Millisecond, "--poll-interval %s: at least 50ms", f.poll)
	add(f.deadline <= 0, "--deadline %s: it must be above 0", f.deadline)
	add(set("max-cost") && !(f.maxCost > 0), "--max-cost %g: it must be above 0", f.maxCost)
	if m := j.to.model; f.maxCost > 0 && (m == nil || m.Price == nil) {
		add(true, "--max-cost: no price is known for %s: add price_per_hour, price_source and price_date to %s", j.to.Endpoint, f.target.models)
	}
	if f.probe == 0 && len(q.ProbePair) == 2 {
		f.probe = q.ProbePair[0]
	}
	f.probe = cmp.Or(f.probe, 10)
	add(f.probe < 2 || f.probe%2 != 0, "--probe-concurrency %d: an even number, 2 or more, since two instances share it", f.probe)
	if f.corpus == "" {
		f.corpus = corpus.Default
		if name, _, _ := strings.Cut(q.Corpus.ID, "@"); name == corpus.Clips {
			f.corpus = corpus.Clips
		}
	}
	if j.texts, err = readCorpus(f.corpus, f.seed); err != nil {
		bad = append(bad, fmt.Errorf("--corpus: %w", err))
	}
	for _, n := range []int{f.probe, f.probe / 2} {
		i := slices.IndexFunc(q.Rungs, func(r ladder.Rung) bool { return r.N == n && r.Valid })
		if i < 0 {
			add(f.probe >= 2 && f.probe%2 == 0, "--probe-concurrency %d: the ladder has no usable rung at %d: what recovered traffic is comes from it", f.probe, n)
			continue
		}
		if v := measure.Quantile(q.Rungs[i], q.Percentile); n == f.probe/2 && v != nil {
			j.p95 = *v / 1000
		}
	}
	add(len(bad) == 0 && !(j.p95 > 0), "--qmax: the ladder says no p%g at %d in flight", q.Percentile, f.probe/2)
	return j, exit.Misuse(errors.Join(bad...))
}

// wall is how long the runs take when an instance takes this long.
func (j *ttotalJob) wall(instance time.Duration) time.Duration {
	return time.Duration(j.runs) * (j.warmup + instance + j.settle)
}

func (j *ttotalJob) dryRunText() string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "%s, %s; no AWS call is made\n\n", j.name(), j.trigger)
	fmt.Fprintf(w, "probe       %d requests held, p%g of %s; the ladder has %.0f ms at %d\n", j.probe, j.ladder.Percentile, words(j.ladder.SLOOn), 1000*j.p95, j.probe/2)
	fmt.Fprintf(w, "recovered   p%g at most %.0f ms (requests to the least loaded instance), or %.1f completed a second (random routing),\n            over every window of %s to the end of the probe\n",
		j.ladder.Percentile, 1000*recoveredBy*j.p95, recoveredRate*j.ladder.Mu.Value, short(j.window))
	fmt.Fprintf(w, "changes     scaling suspended, pinned to 1, then to 2; the count and scaling it had are put back\n")
	published := 30*time.Second + 1500*time.Second + 180*time.Second
	fmt.Fprintf(w, "wall clock  about %s, at most %s, and as long as the endpoint takes to be pinned and put back;\n            the published one takes up to %s\n",
		short(j.wall(4*time.Minute)), short(j.wall(j.maxWait)), short(published.Round(time.Minute)))
	if n := j.ladder.Mu.Value; n > 0 {
		fmt.Fprintf(w, "requests    about %s, at most %s\n", chart.About(1.5*n*j.wall(4*time.Minute).Seconds()), chart.About(2*n*j.wall(j.maxWait).Seconds()))
	}
	if j.to.Component == "" {
		fmt.Fprintf(w, "quota       one instance more than it has now\n")
	} else {
		fmt.Fprintf(w, "quota       room for one copy more, or one instance more\n")
	}
	if m := j.to.model; m == nil || m.Price == nil {
		fmt.Fprintf(w, "money       unknown: %s has no price for it\n", j.target.models)
	} else {
		hour := 2 * m.Price.PerHour
		fmt.Fprintf(w, "money       about %s, at most %s, for two %s at %s an hour each\n",
			chart.Money(hour*j.wall(4*time.Minute).Hours(), 2), chart.Money(hour*j.wall(j.maxWait).Hours(), 2), m.InstanceType, chart.Money(m.Price.PerHour, 3))
	}
	fmt.Fprintf(w, "next: the same without --dry-run\n")
	return w.String()
}

// price is what the run costs at most, for people.
func (j *ttotalJob) price() string {
	if m := j.to.model; m != nil && m.Price != nil {
		return fmt.Sprintf("it costs at most %s beyond what it costs now, over at most %s", chart.Money(m.Price.PerHour*j.wall(j.maxWait).Hours(), 2), short(j.wall(j.maxWait)))
	}
	return fmt.Sprintf("what it costs is not known; it takes at most %s with one %s more", short(j.wall(j.maxWait)), one(j.to.Target))
}

func (j *ttotalJob) name() string {
	s := j.to.Model + " at " + j.to.what()
	if j.to.Variant != "" && j.to.Component == "" {
		s += "/" + j.to.Variant
	}
	return s + " by " + j.to.Transport
}

// rule is what recovered traffic is, by how requests find an instance.
func (j *ttotalJob) rule(routing string) (scaleout.Rule, error) {
	r := scaleout.Rule{Window: j.window, Quantile: j.ladder.Percentile / 100}
	if routing == "LEAST_OUTSTANDING_REQUESTS" {
		r.Target = recoveredBy * j.p95
		return r, nil
	}
	r.Rate = recoveredRate * j.ladder.Mu.Value
	if !(r.Rate > 0) {
		return r, exit.Refuse(fmt.Errorf("the endpoint routes %s, so recovery is judged by throughput, and the ladder does not say how much one instance completes (mu_rps)", routing))
	}
	return r, nil
}

// ttotalSageMaker measures a variant: read, compared, refused or agreed to, frozen, measured, put back.
func (a *app) ttotalSageMaker(cmd *cobra.Command, j *ttotalJob) (failed error) {
	ctx := cmd.Context()
	cfg, err := a.aws(ctx, j.target)
	if err != nil {
		return err
	}
	live := a.live()
	defer live.Close()
	if j.clone {
		drop, err := a.cloned(ctx, cfg, live, &j.to, j.stateDir, j.target.endpointURL, j.yes)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, drop()) }()
	}
	v, hold, err := a.claimed(ctx, cfg, &j.to, j.stateDir, live)
	if err != nil {
		return err
	}
	defer hold.Release()
	if !j.skipDrift && !j.clone {
		a.preflight(ctx, cfg, j.to, j.stateDir, live.Note)
	}
	if !j.clone {
		if err := a.permittedFor(ctx, cfg, j.to.Component != "", live.Note); err != nil {
			return err
		}
	}
	state, err := measure.Admit(ctx, v.Inspect, freeze.Options{ProbeDepth: true}, func(ask []string) error {
		live.Close()
		return a.agree(ctx, j.to.Endpoint, append(ask, j.price()), j.yes)
	})
	if err != nil {
		return err
	}
	warnings, err := artifact.Pair("the ladder", j.ladder.Fingerprint, "the endpoint", state.Fingerprint, j.allowMismatch)
	if err != nil {
		return exit.Refuse(err)
	}
	if b := state.Fingerprint.QueueBound; b != nil && *b > 0 && *b < j.probe {
		return exit.Refuse(fmt.Errorf("the container refuses beyond %d requests, and the probe holds %d: give --probe-concurrency %d or less", *b, j.probe, *b/2*2))
	}
	if t := state.Target; j.trigger == byPolicy && (t == nil || t.Suspended.Out || t.Max < 2) {
		return exit.Refuse(fmt.Errorf("--trigger policy: endpoint %s has no scalable target that may scale out to 2: deploy the policy first (tts-bench apply), or measure with --trigger %s", j.to.Endpoint, forceDesired))
	}
	notes, err := a.room(ctx, cfg, state)
	if err != nil {
		return err
	}
	rule, err := j.rule(state.Routing)
	if err != nil {
		return err
	}
	doc := j.document(cmd, state.Fingerprint)
	doc.Notes = slices.Concat(warnings, notes)
	if err := j.detection(ctx, v, doc); err != nil {
		return err
	}
	if q := j.ladder.QMax; q != nil && j.probe >= *q {
		doc.Notes = append(doc.Notes, fmt.Sprintf("the probe holds %d, and Q_max is %d: users would wait beyond the objective while it is held", j.probe, *q))
	}
	for _, n := range doc.Notes {
		live.Note(n)
	}
	tr, err := a.open(cfg, j.to, j.probe)
	if err != nil {
		return err
	}
	defer tr.Close()
	rec := freeze.Record(state)
	rec.RunID, rec.CreatedAt, rec.Owner, rec.Command, rec.URL = doc.RunID, time.Now().UTC(), owner(), "ttotal", j.target.endpointURL
	c := measure.ScaleOut{
		Doc: doc, Runs: j.runs, Probe: j.probe, Mark: sample.Mark(j.ladder.SLOOn), SLO: j.ladder.SLOMS / 1000, Start: time.Now(), Rule: rule,
		Warmup: j.warmup, Settle: j.settle, MaxWait: j.maxWait, Poll: pollEvery(j.poll, v.Local()), Progress: live,
		Freeze: rec, Fleet: v, Records: records{hold}, Scaler: v, Logs: v,
	}
	if j.trigger == byPolicy {
		c.Policy = v
	}
	if m := j.to.model; m != nil && m.Price != nil {
		c.Price = m.Price.PerHour
	}
	c.Prober = load.NewClosed(load.Config{Transport: tr, Texts: j.texts.At, Deadline: j.deadline, Start: c.Start, MaxStreams: j.probe, Seed: uint64(j.seed)})
	if j.maxCost > 0 {
		c.Spend = time.Duration(j.maxCost / (2 * j.to.model.Price.PerHour) * float64(time.Hour))
	}
	if len(j.stopAlarms) > 0 {
		c.Alarms = func(ctx context.Context) ([]string, error) { return v.Firing(ctx, j.stopAlarms) }
	}
	var files *store.Journal
	if !j.noSave {
		if files, err = store.Open(j.out, doc.Name(), doc.RunID); err != nil {
			return err
		}
		defer files.Close()
		c.Keep = files.Rung
	}
	live.Note(connects(doc.Settings, tr))
	doc, err = measure.TTotal(ctx, c)
	live.Close()
	return a.finishTTotal(j, doc, files, live, err)
}

// room checks that the account may run one instance more. A quota that could not be read is said, not guessed.
func (a *app) room(ctx context.Context, cfg aws.Config, s freeze.Variant) (notes []string, err error) {
	if s.Component != "" {
		return copiesNeeded(s), nil
	}
	quota, err := awsfleet.Quota(ctx, cfg, s.Fingerprint.InstanceType)
	if err != nil {
		return []string{fmt.Sprintf("whether the account may run one more %s could not be read: %v", s.Fingerprint.InstanceType, err)}, nil
	}
	if quota < 2 || quota < s.Desired {
		return nil, exit.Refuse(fmt.Errorf("the account may run %d of %s behind endpoints, and %s needs 2 at once: ask for a higher quota (Service Quotas, \"%s for endpoint usage\")",
			quota, s.Fingerprint.InstanceType, s.Endpoint, s.Fingerprint.InstanceType))
	}
	return nil, nil
}

// document is the record of a run before it has measured anything.
func (j *ttotalJob) document(cmd *cobra.Command, print artifact.Fingerprint) *artifact.TTotal {
	now := time.Now().UTC()
	set := settings(cmd.Flags())
	set["slo_ms"] = j.ladder.SLOMS
	return &artifact.TTotal{
		Header: artifact.Header{
			Schema: artifact.SchemaTTotal, RunID: store.NewRunID(now), CreatedAt: now, Tool: tool(),
			Settings: set, Target: j.to.recorded(), Fingerprint: print,
		},
		Trigger: j.trigger,
	}
}

// detection says how long the policy takes to see a surge: of the deployed alarms, or of the planned policy where none is
// deployed yet. With --trigger policy it is measured instead.
func (j *ttotalJob) detection(ctx context.Context, v *awsfleet.Variant, doc *artifact.TTotal) error {
	seen, err := v.Detection(ctx)
	doc.DetectionSource = "alarms"
	if err != nil {
		doc.Notes = append(doc.Notes, fmt.Sprintf("the deployed alarms could not be read: %v", err))
	}
	if seen == 0 { // three of three ten-second datapoints, as every planned policy has it
		seen, doc.DetectionSource = 30*time.Second, "planned"
	}
	doc.Detection = (seen + j.publication).Seconds()
	return ctx.Err()
}

// finishTTotal prints and saves the result.
func (a *app) finishTTotal(j *ttotalJob, doc *artifact.TTotal, files *store.Journal, live *report.Live, stopped error) error {
	if len(doc.Timeline) == 0 { // nothing that is worth the name of an earlier run's file
		return stopped
	}
	status, err := a.finishRun(doc, ttotalText(j.name(), doc), j.json, journal{files, live}, stopped)
	if err != nil {
		return err
	}
	path := "FILE"
	if files != nil {
		path = files.Path()
	}
	fmt.Fprintf(status, "next: tts-bench plan --qmax %s --ttotal %s --peak-rps N\n", j.qmax, path)
	return nil
}
