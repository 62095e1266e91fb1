package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/internal/artifact"
	"loadline/internal/audio"
	"loadline/internal/corpus"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/ladder"
	"loadline/internal/load"
	"loadline/internal/measure"
	"loadline/internal/sample"
	"loadline/internal/store"
)

const qmaxExample = `  # on this machine, in another shell: sagemaker-local serve --profile quick
  tts-bench qmax --model kokoro-82m --endpoint-url http://127.0.0.1:4999 --slo-ms 300

  # a SageMaker endpoint: what it would take, then for real
  tts-bench qmax --model kokoro-82m --dry-run
  tts-bench qmax --model kokoro-82m

  # a server of your own
  tts-bench qmax --url http://127.0.0.1:8880/v1/audio/speech --body openai-speech --name mine
  tts-bench qmax --url wss://voice.example/v1/stream --header 'Authorization: Bearer $VOICE_KEY' --body @messages --name theirs`

// qmaxFlags are the flags of qmax.
type qmaxFlags struct {
	target      targetFlags
	sloMS       float64
	percentile  float64
	sloOn       string
	concurrency []int
	steps       ladder.Steps
	runs        int
	corpus      string
	seed        int64
	deadline    time.Duration
	maxN        int
	service     time.Duration // assumed by --dry-run

	yes, dryRun, clone   bool
	skipDrift            bool
	probeDepth, noFreeze bool
	noCloudWatch         bool
	maxCost              float64
	stopAlarms           []string
	resume               string
	stateDir, out        string
	noSave, json         bool
}

func (a *app) qmaxCommand() *cobra.Command {
	f := qmaxFlags{steps: ladder.Published, deadline: time.Minute}
	cmd := &cobra.Command{
		Use:   "qmax",
		Short: "find and certify the most requests that one instance holds within the objective",
		Long: `qmax holds more and more requests in flight until the objective is missed, narrows down to the edge, and
certifies the largest concurrency that meets it on fresh samples. --concurrency walks a fixed schedule instead.

On a SageMaker endpoint it suspends scaling and pins one instance while it measures, and puts both back on every
way out; after a kill, tts-bench thaw does. With --component it asks an inference component, and pins its copies.
By --url nothing is changed and CloudWatch is not read.`,
		Example: qmaxExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.qmax(cmd, &f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	f.target.add(fl)
	f.target.componentFlags(fl)
	fl.Float64Var(&f.sloMS, "slo-ms", 0, "objective in milliseconds (default: the model's, else 3000; also --ttfab-slo-ms)")
	fl.Float64Var(&f.percentile, "percentile", 0, "share of requests that must meet it, in percent (default: the model's, else 95)")
	fl.StringVar(&f.sloOn, "slo-on", "", "what it is set on: first-audio, first-audible or total (default: first-audio; total for other payloads)")
	fl.IntSliceVar(&f.concurrency, "concurrency", nil, "walk these rungs instead of searching (published: 1,5,10,20,30,40,50,60)")
	fl.Var(durationFlag{&f.steps.Hold}, "hold", "with --concurrency: how long each is held")
	fl.Var(durationFlag{&f.steps.Window}, "measure-window", "with --concurrency: its trailing part that is measured")
	fl.Var(durationFlag{&f.steps.Idle}, "idle", "with --concurrency: pause between rungs (also --settle-between-steps)")
	fl.IntVar(&f.runs, "runs", 1, "passes; the smallest answer counts, and a pass without one leaves none")
	fl.StringVar(&f.corpus, "corpus", corpus.Default, "texts to speak: default, clips, or a file of yours (a text a line, or JSON)")
	fl.Int64Var(&f.seed, "seed", 1234, "order of the texts")
	fl.Var(durationFlag{&f.deadline}, "deadline", "longest that one request may take; later ones count as late")
	fl.IntVar(&f.maxN, "max-n", 1024, "most requests in flight that the search tries")
	fl.BoolVar(&f.clone, "clone", false, "measure a temporary endpoint of the same model and one instance instead, and delete it: production is left alone")
	fl.BoolVar(&f.yes, "yes", false, "agree to what would be asked (other traffic, several instances, production)")
	fl.BoolVar(&f.dryRun, "dry-run", false, "say what it would take, and call nothing")
	fl.Var(durationFlag{&f.service}, "dry-run-s", "with --dry-run: service time to assume (default: a fiftieth of the objective)")
	fl.BoolVar(&f.probeDepth, "probe-depth", false, "measure through a bounded queue: its refusals count as late, Q_max cannot exceed the bound")
	fl.BoolVar(&f.skipDrift, "skip-drift", false, "do not compare what is deployed with what is declared first")
	fl.BoolVar(&f.noFreeze, "no-freeze", false, "change nothing: the endpoint must already hold one instance and not scale out")
	fl.BoolVar(&f.noCloudWatch, "no-cloudwatch", false, "do not join CloudWatch's figures")
	fl.Float64Var(&f.maxCost, "max-cost", 0, "stop before the instance has cost this many US dollars")
	fl.StringArrayVar(&f.stopAlarms, "stop-alarm", nil, "stop and put everything back when this CloudWatch alarm fires (repeatable)")
	fl.StringVar(&f.resume, "resume", "", "go on with the interrupted run of this file, with its settings")
	fl.StringVar(&f.stateDir, "state-dir", "", "where freeze records are kept (default: the user's state folder)")
	fl.StringVar(&f.out, "out", "artifacts", "folder that the result is saved in")
	fl.BoolVar(&f.noSave, "no-save", false, "do not save the result")
	fl.BoolVar(&f.json, "json", false, "print the artifact, byte for byte, instead of the table")
	fl.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name {
		case "ttfab-slo-ms":
			name = "slo-ms"
		case "settle-between-steps":
			name = "idle"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

// qmaxJob is a qmax that is understood: nothing is asked over the network yet.
type qmaxJob struct {
	*qmaxFlags
	to     target
	texts  *corpus.Corpus
	search ladder.Config
	fixed  bool           // --concurrency
	resume *artifact.QMax // nil: a new run
}

func (a *app) qmax(cmd *cobra.Command, f *qmaxFlags) error {
	job := qmaxJob{qmaxFlags: f}
	if f.resume != "" {
		doc, err := readRecord(f.resume, artifact.ReadQMax)
		if err != nil {
			return err
		}
		if err := resumable(doc, f.resume, cmd.Flags()); err != nil {
			return err
		}
		job.resume = doc
	}
	if err := a.prepare(cmd, &job); err != nil {
		return err
	}
	if f.dryRun {
		return a.dryRun(&job)
	}
	debug.SetGCPercent(400)
	if job.to.URL != "" {
		return a.qmaxURL(cmd, &job)
	}
	return a.qmaxSageMaker(cmd, &job)
}

// mayDiffer are the settings that a resumed run may change: they do not change what is measured.
var mayDiffer = map[string]bool{"yes": true, "dry-run": true, "dry-run-s": true, "endpoint-url": true, "json": true,
	"state-dir": true, "out": true, "no-save": true, "max-cost": true, "stop-alarm": true, "no-cloudwatch": true, "skip-drift": true, "clone": true}

// resumable says whether doc can be gone on with, and gives the flags the settings that it was started with.
func resumable(doc *artifact.QMax, path string, fl *pflag.FlagSet) error {
	switch {
	case doc.Complete:
		return exit.Misuse(fmt.Errorf("--resume %s: that run is complete: measure again without --resume", path))
	case doc.Target.URL != "" && !fl.Changed("url"): // what it may hide is not recorded
		return exit.Misuse(fmt.Errorf("--resume %s: give --url again (it was %s), and any --header", path, doc.Target.URL))
	case len(doc.Settings) == 0:
		return exit.Misuse(fmt.Errorf("--resume %s: it carries no settings of this tool: measure again without --resume", path))
	}
	var bad []error
	fl.VisitAll(func(flag *pflag.Flag) {
		was, ok := doc.Settings[flag.Name].(string)
		switch {
		case !ok || was == flag.Value.String() || mayDiffer[flag.Name] && (flag.Changed || flag.Name != "endpoint-url"):
		case flag.Changed:
			bad = append(bad, fmt.Errorf("--%s %s: the interrupted run had %s: leave it out, or measure again without --resume", flag.Name, flag.Value, was))
		default:
			if err := fl.Set(flag.Name, strings.Trim(was, "[]")); err != nil {
				bad = append(bad, fmt.Errorf("--resume %s: setting %s: %w", path, flag.Name, err))
			}
		}
	})
	return exit.Misuse(errors.Join(bad...))
}

// prepare understands the flags, reads the texts, and fills in defaults so that the settings of the record are whole.
func (a *app) prepare(cmd *cobra.Command, j *qmaxJob) error {
	set := cmd.Flags().Changed
	var err error
	var bad []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	if j.to, err = a.target(j.target, set); err != nil {
		bad = append(bad, err)
	}
	j.fixed = len(j.concurrency) > 0
	for _, name := range []string{"hold", "measure-window", "idle"} {
		add(set(name) && !j.fixed, "--%s belongs to a fixed schedule: give --concurrency 1,5,10 too", name)
	}
	for _, name := range []string{"probe-depth", "no-freeze", "no-cloudwatch", "stop-alarm", "max-cost", "yes", "clone", "skip-drift"} {
		add(set(name) && j.target.url != "", "--%s is for SageMaker endpoints, not for --url", name)
	}
	add(j.runs < 1 || j.runs > 100, "--runs %d: 1 to 100", j.runs)
	add(j.deadline <= 0, "--deadline %s: it must be above 0", j.deadline)
	add(j.maxN < 1 || j.maxN > 100_000, "--max-n %d: 1 to 100000", j.maxN)
	add(set("max-cost") && !(j.maxCost > 0), "--max-cost %g: it must be above 0", j.maxCost)
	add(j.noSave && j.resume != nil, "--no-save and --resume exclude each other: the file is gone on with")
	add(set("dry-run-s") && !j.dryRun, "--dry-run-s belongs to --dry-run")

	j.defaults()
	if m := j.to.model; set("max-cost") && j.to.URL == "" && (m == nil || m.Price == nil) {
		add(true, "--max-cost: no price is known for %s: add price_per_hour, price_source and price_date to %s", j.to.Endpoint, j.target.models)
	}
	if j.texts, err = readCorpus(j.corpus, j.seed); err != nil {
		bad = append(bad, fmt.Errorf("--corpus: %w", err))
	}
	j.search = ladder.Config{
		SLO: milliseconds(j.sloMS), Percentile: j.percentile, Mark: sample.Mark(j.sloOn), Max: j.maxN,
	}
	if !j.noCloudWatch && j.to.URL == "" {
		j.search.CertifyHold = certifyHold
	}
	if j.steps.Concurrency = j.concurrency; j.fixed {
		j.maxN = max(j.maxN, slices.Max(j.concurrency))
	}
	if _, err := j.searcher(0); err != nil {
		bad = append(bad, err)
	}
	return exit.Misuse(errors.Join(bad...))
}

// certifyHold is the least that the certifying rung is held where CloudWatch is joined: at least one whole ten-second
// period lies inside.
const certifyHold = 20 * time.Second

// defaults fills in what was not given, from the model where it says so.
func (j *qmaxJob) defaults() {
	if j.sloMS == 0 {
		j.sloMS = 3000
		if m := j.to.model; m != nil && m.SLOMS > 0 {
			j.sloMS = m.SLOMS
		}
	}
	if j.percentile == 0 {
		j.percentile = 95
		if m := j.to.model; m != nil && m.Percentile > 0 {
			j.percentile = m.Percentile
		}
	}
	if j.sloOn == "" {
		j.sloOn = string(sample.OnFirstAudio)
		if j.to.payload != audio.Sound {
			j.sloOn = string(sample.OnTotal)
		}
	}
	if j.service == 0 {
		j.service = milliseconds(j.sloMS) / 50
	}
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// searcher decides the rungs of one pass.
func (j *qmaxJob) searcher(run int) (ladder.Searcher, error) {
	c := j.search
	c.Run = run
	if j.fixed {
		return ladder.NewSchedule(c, j.steps)
	}
	return ladder.NewSearch(c)
}

// readCorpus is a shipped corpus or the user's own file, shuffled.
func readCorpus(name string, seed int64) (*corpus.Corpus, error) {
	c, ok := corpus.Named(name)
	if !ok {
		text, err := store.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("%w (shipped: %s, %s)", err, corpus.Default, corpus.Clips)
		}
		if c, err = corpus.Read(name, text); err != nil {
			return nil, err
		}
	}
	c.Shuffle(seed)
	return c, nil
}

// document is the record of a run before it has measured anything.
func (j *qmaxJob) document(cmd *cobra.Command, print artifact.Fingerprint) *artifact.QMax {
	now := time.Now().UTC()
	doc := &artifact.QMax{
		Header: artifact.Header{
			Schema: artifact.SchemaQMax, RunID: store.NewRunID(now), CreatedAt: now, Tool: tool(),
			Settings: settings(cmd.Flags()), Target: j.to.recorded(), Fingerprint: print,
		},
		SLOMS: j.sloMS, Percentile: j.percentile, SLOOn: j.sloOn, Verdict: string(ladder.None),
	}
	if j.resume != nil {
		doc.RunID, doc.CreatedAt = j.resume.RunID, j.resume.CreatedAt
	}
	s := j.texts.Stats()
	doc.Corpus = artifact.Corpus{ID: j.texts.ID(), Texts: s.Texts, CharsMean: s.CharsMean, CharsP95: s.CharsP95, Seed: j.seed}
	if j.to.model != nil && j.to.model.InstanceType == print.InstanceType {
		doc.Price = j.to.model.Price
	}
	return doc
}

// settings is the effective flags; headers are left out, they may hold secrets, and so is what a URL hides.
func settings(fl *pflag.FlagSet) map[string]any {
	m := map[string]any{}
	fl.VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "help", "header", "url", "resume", "dry-run-s":
		default:
			m[f.Name] = f.Value.String()
		}
	})
	return m
}

// qmaxURL measures a server by its URL.
func (a *app) qmaxURL(cmd *cobra.Command, j *qmaxJob) error {
	tr, err := a.open(aws.Config{}, j.to, j.maxN)
	if err != nil {
		return err
	}
	defer tr.Close()
	doc := j.document(cmd, artifact.Fingerprint{})
	return a.measure(cmd.Context(), j, measure.Config{Doc: doc}, tr)
}

// qmaxSageMaker measures a variant: read, refused or agreed to, frozen, measured, put back.
func (a *app) qmaxSageMaker(cmd *cobra.Command, j *qmaxJob) (failed error) {
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
		j.noFreeze = true // it has one instance, and no scaling
	}
	v, hold, err := a.claimed(ctx, cfg, &j.to, j.stateDir, live)
	if err != nil {
		return err
	}
	defer hold.Release()
	if !j.skipDrift && !j.clone {
		a.preflight(ctx, cfg, j.to, j.stateDir, live.Note)
	}
	if !j.noFreeze {
		if err := a.permittedFor(ctx, cfg, j.to.Component != "", live.Note); err != nil {
			return err
		}
	}
	state, err := measure.Admit(ctx, v.Inspect, freeze.Options{ProbeDepth: j.probeDepth, NoFreeze: j.noFreeze}, func(ask []string) error {
		live.Close()
		return a.agree(ctx, j.to.Endpoint, ask, j.yes)
	})
	if err != nil {
		return err
	}
	tr, err := a.open(cfg, j.to, j.maxN)
	if err != nil {
		return err
	}
	defer tr.Close()
	doc := j.document(cmd, state.Fingerprint)
	if j.resume != nil {
		if diff := artifact.Compare(j.resume.Fingerprint, doc.Fingerprint); diff != nil {
			return exit.Refuse(fmt.Errorf("--resume: the endpoint is not known to be what the interrupted run measured: its %s is %s, was %s: measure again without --resume",
				diff[0].Field, diff[0].B, diff[0].A))
		}
	}
	c := measure.Config{Doc: doc, Counter: v}
	if bound := state.Fingerprint.QueueBound; bound != nil {
		c.Bound = *bound
	}
	if !j.noFreeze {
		rec := freeze.Record(state)
		rec.RunID, rec.CreatedAt, rec.Owner, rec.Command, rec.URL = doc.RunID, time.Now().UTC(), owner(), "qmax", j.target.endpointURL
		c.Freeze, c.Fleet, c.Records = &rec, v, records{hold}
	}
	if !j.noCloudWatch {
		c.Metrics = v
	}
	if j.maxCost > 0 {
		if doc.Price == nil {
			return exit.Misuse(fmt.Errorf("--max-cost: the price in %s is that of %s, and the endpoint runs on %s", j.target.models, j.to.model.InstanceType, state.Fingerprint.InstanceType))
		}
		c.Spend = time.Duration(j.maxCost / doc.Price.PerHour * float64(time.Hour))
	}
	if len(j.stopAlarms) > 0 {
		c.Alarms = func(ctx context.Context) ([]string, error) { return v.Firing(ctx, j.stopAlarms) }
	}
	live.Close() // what follows draws a line of its own
	return a.measure(ctx, j, c, tr)
}

// measure runs what is the same for every target.
func (a *app) measure(ctx context.Context, j *qmaxJob, c measure.Config, tr load.Transport) error {
	live := a.live()
	defer live.Close()
	doc := c.Doc
	c.Searcher, c.Runs, c.Progress = j.searcher, j.runs, live
	c.Expect = func(service time.Duration) time.Duration { return j.cost(service).Wall }
	// A resumed run goes on with the clock of the one before.
	c.Start = time.Now().Add(-time.Since(doc.CreatedAt))

	seq := 0
	var files *store.Journal
	var err error
	switch {
	case j.noSave:
	case j.resume != nil:
		var log *store.Log
		if files, log, err = store.Resume(j.qmaxFlags.resume, doc.RunID, len(j.resume.Rungs)); err != nil {
			return exit.Refuse(err)
		}
		for _, rung := range log.Rungs {
			for _, r := range rung {
				seq = max(seq, r.Seq+1)
			}
		}
		c.Closed = j.resume.Rungs
	default:
		if files, err = store.Open(j.out, doc.Name(), doc.RunID); err != nil {
			return err
		}
	}
	if files != nil {
		defer files.Close()
		doc.RequestLog = files.LogName()
	}
	c.Journal = journal{files, live}
	c.Prober = load.NewClosed(load.Config{
		Transport: tr, Texts: j.texts.At, Deadline: j.deadline, Start: c.Start, MaxStreams: j.maxN, Seq: seq, Seed: uint64(j.seed),
	})
	live.Note(connects(doc.Settings, tr))
	doc, err = measure.QMax(ctx, c)
	live.Close()
	return a.finishQMax(j, doc, files, err)
}
