package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"loadline/internal/artifact"
	"loadline/internal/chart"
	"loadline/internal/corpus"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/load"
	"loadline/internal/measure"
	"loadline/internal/openloop"
	"loadline/internal/plan"
	"loadline/internal/report"
	"loadline/internal/sample"
	"loadline/internal/store"
)

const ratesExample = `  # on this machine, in another shell: sagemaker-local serve --profile kokoro-g5
  tts-bench rates --qmax artifacts/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json \
    --endpoint-url http://127.0.0.1:4999

  # what a plan promises: its λ* and λ*·(1 + h)
  tts-bench rates --qmax FILE --plan artifacts/plan-kokoro-82m-flow-g5xlarge-8b1b96bc.json`

// ratesFlags are the flags of rates.
type ratesFlags struct {
	target     targetFlags
	qmax, plan string
	shares     []float64
	hold, idle time.Duration
	most       int
	corpus     string
	seed       int64
	deadline   time.Duration

	yes, dryRun, clone     bool
	noFreeze, noCloudWatch bool
	allowMismatch          bool
	skipDrift              bool
	maxCost                float64
	stopAlarms             []string
	stateDir, out          string
	noSave, json           bool
}

// ratesShares are the rates that are measured by default, as shares of μ.
var ratesShares = []float64{0.5, 0.6, 0.7, 0.8, 0.9}

func (a *app) ratesCommand() *cobra.Command {
	f := ratesFlags{idle: 5 * time.Second, deadline: time.Minute}
	cmd := &cobra.Command{
		Use:   "rates",
		Short: "send at rates instead of holding a concurrency: what callers who do not wait for each other see",
		Long: `rates sends requests at fractions of the most that an instance completes, at times drawn beforehand as a Poisson
process. A slow reply does not put off the next request, and latency counts from when a request was meant to start, so a
stall that a closed loop cannot see is seen. What is in flight, mean and maximum, is compared with the ladder's chain and
with CloudWatch: that is what a concurrency policy reads.

On a SageMaker endpoint scaling is frozen at one instance meanwhile, as by qmax.`,
		Example: ratesExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.rates(cmd, &f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.qmax, "qmax", "", "ladder of the same configuration: μ, the objective and the texts come from it (required)")
	fl.StringVar(&f.plan, "plan", "", "plan whose λ* and λ*·(1 + h) are measured too")
	f.target.add(fl)
	f.target.componentFlags(fl)
	fl.Float64SliceVar(&f.shares, "shares", ratesShares, "rates, as `shares` of μ (default: 0.5,0.6,0.7,0.8,0.9)")
	fl.Var(durationFlag{&f.hold}, "hold", "how long each rate is measured, after its warm-up (default: by how slowly the queue forgets, 30 s to 15 m)")
	fl.Var(durationFlag{&f.idle}, "idle", "pause between rates")
	fl.IntVar(&f.most, "max-in-flight", 2000, "most requests in flight: at a rate that needs more, the rung is invalid")
	fl.StringVar(&f.corpus, "corpus", "", "texts to speak: default, clips, or a file (default: the ladder's)")
	fl.Int64Var(&f.seed, "seed", 1234, "of the arrivals and the order of the texts")
	fl.Var(durationFlag{&f.deadline}, "deadline", "longest that one request may take; later ones count as late")
	fl.BoolVar(&f.clone, "clone", false, "measure a temporary endpoint of the same model and one instance instead, and delete it: production is left alone")
	fl.BoolVar(&f.yes, "yes", false, "agree to what would be asked (other traffic, several instances, production)")
	fl.BoolVar(&f.dryRun, "dry-run", false, "say what it would take, and call nothing")
	fl.BoolVar(&f.noFreeze, "no-freeze", false, "change nothing: the endpoint must already hold one instance and not scale out")
	fl.BoolVar(&f.noCloudWatch, "no-cloudwatch", false, "do not join CloudWatch's figures")
	fl.BoolVar(&f.allowMismatch, "allow-config-mismatch", false, "go on where the endpoint is not what the ladder measured, with a recorded warning")
	fl.BoolVar(&f.skipDrift, "skip-drift", false, "do not compare what is deployed with what is declared first")
	fl.Float64Var(&f.maxCost, "max-cost", 0, "stop before the instance has cost this many US dollars")
	fl.StringArrayVar(&f.stopAlarms, "stop-alarm", nil, "stop and put everything back when this CloudWatch alarm fires (repeatable)")
	fl.StringVar(&f.stateDir, "state-dir", "", "where freeze records are kept (default: the user's state folder)")
	fl.StringVar(&f.out, "out", "artifacts", "folder that the result is saved in")
	fl.BoolVar(&f.noSave, "no-save", false, "do not save the result")
	fl.BoolVar(&f.json, "json", false, "print the artifact, byte for byte, instead of the table")
	return cmd
}

// ratesJob is a rates that is understood: nothing is asked over the network yet.
type ratesJob struct {
	*ratesFlags
	to     target
	ladder *artifact.QMax
	plan   *artifact.Plan // nil: none
	texts  *corpus.Corpus
	steps  []openloop.Step
	mu     float64
}

func (a *app) rates(cmd *cobra.Command, f *ratesFlags) error {
	j, err := a.ratesJob(cmd, f)
	if err != nil {
		return err
	}
	if f.dryRun {
		_, err := fmt.Fprint(a.stdout, j.dryRunText())
		return err
	}
	debug.SetGCPercent(400)
	if j.to.URL != "" {
		tr, err := a.open(aws.Config{}, j.to, j.most)
		if err != nil {
			return err
		}
		defer tr.Close()
		return a.measureRates(cmd.Context(), j, measure.RatesConfig{Doc: j.document(cmd, artifact.Fingerprint{})}, tr)
	}
	return a.ratesSageMaker(cmd, j)
}

func (a *app) ratesJob(cmd *cobra.Command, f *ratesFlags) (*ratesJob, error) {
	set := cmd.Flags().Changed
	if f.qmax == "" {
		return nil, exit.Misuse(errors.New("--qmax FILE is missing: rates are shares of what an instance completes (tts-bench qmax makes one)"))
	}
	j := &ratesJob{ratesFlags: f}
	var err error
	if j.ladder, err = readRecord(f.qmax, artifact.ReadQMax); err != nil {
		return nil, err
	}
	q := j.ladder
	var bad []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	// What the ladder measured is measured again, unless another target is named.
	if q.Target.URL == "" && !set("url") {
		f.target.ofLadder(q.Target, set)
	}
	if q.Target.URL == "" && !set("endpoint") && !set("model") && !set("url") {
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
	add(q.Target.URL != "" && f.target.url == "", "--url is missing: the ladder was measured at %s, and what that URL may hide is not recorded", q.Target.URL)
	if len(bad) == 0 {
		if j.to, err = a.target(f.target, set); err != nil {
			bad = append(bad, err)
		}
		add(err == nil && (j.to.URL != "") != (q.Target.URL != ""), "the ladder was measured by URL or the target is, not both: a rate is a share of what this target completes")
		add(err == nil && q.Target.Transport != "" && j.to.Transport != q.Target.Transport, "--transport %s: the ladder was measured by %s", j.to.Transport, q.Target.Transport)
	}
	add(len(f.shares) == 0 && f.plan == "", "--shares is empty: there is no rate to send at")
	for _, s := range f.shares {
		add(!(s > 0 && s <= 2), "--shares %g: above 0 and at most 2", s)
	}
	add(set("hold") && f.hold < time.Second, "--hold %s: at least 1s", f.hold)
	add(f.most < 1 || f.most > 100_000, "--max-in-flight %d: 1 to 100000", f.most)
	add(f.deadline <= 0, "--deadline %s: it must be above 0", f.deadline)
	for _, name := range []string{"no-freeze", "no-cloudwatch", "stop-alarm", "max-cost", "yes", "clone", "skip-drift"} {
		add(set(name) && f.target.url != "", "--%s is for SageMaker endpoints, not for --url", name)
	}
	add(set("max-cost") && !(f.maxCost > 0), "--max-cost %g: it must be above 0", f.maxCost)
	if m := j.to.model; f.maxCost > 0 && (m == nil || m.Price == nil) {
		add(true, "--max-cost: no price is known for %s: add price_per_hour, price_source and price_date to %s", j.to.Endpoint, f.target.models)
	}
	if f.corpus == "" {
		f.corpus = corpus.Default
		if name, _, _ := strings.Cut(q.Corpus.ID, "@"); name == corpus.Clips {
			f.corpus = corpus.Clips
		}
	}
	if j.texts, err = readCorpus(f.corpus, f.seed); err != nil {
		bad = append(bad, fmt.Errorf("--corpus: %w", err))
	}
	if err := exit.Misuse(errors.Join(bad...)); err != nil {
		return nil, err
	}
	if j.to.model == nil && j.to.Endpoint == q.Target.Endpoint && q.Target.Model != "" {
		j.to.Model = q.Target.Model
	}
	return j, j.draw()
}

// draw makes the steps: shares of μ, lowest first, and the plan's two rates.
func (j *ratesJob) draw() error {
	m, _, err := plan.Join(plan.Input{QMax: j.ladder})
	if err != nil {
		return exit.Refuse(fmt.Errorf("%s: %w", j.qmax, err))
	}
	shares := slices.Clone(j.shares)
	if j.ratesFlags.plan != "" {
		if j.plan, err = readRecord(j.ratesFlags.plan, artifact.ReadPlan); err != nil {
			return err
		}
		r := j.plan.Flow
		if r.LambdaStar == nil {
			return exit.Refuse(fmt.Errorf("%s: its flow rule has no λ* (%s)", j.ratesFlags.plan, r.Reason))
		}
		for _, rate := range []float64{*r.LambdaStar, *r.LambdaStar * j.plan.Scenario.SurgeRatio} {
			shares = append(shares, rate/m.MuPlan)
		}
	}
	slices.Sort(shares)
	shares = slices.CompactFunc(shares, func(a, b float64) bool { return math.Abs(b-a) < 1e-6 })
	j.mu = m.MuPlan
	chain, _, err := m.Server(m.QMax)
	if err != nil {
		return exit.Refuse(err)
	}
	for i, share := range shares {
		held := j.hold
		if held == 0 {
			held = openloop.Held(share, j.mu)
		}
		step, err := openloop.NewStep(i, share, openloop.Server{Chain: chain, Most: j.mu}, held, rand.New(rand.NewPCG(uint64(j.seed), uint64(i))))
		if err != nil {
			return exit.Misuse(err)
		}
		j.steps = append(j.steps, step)
	}
	return nil
}

// takes is how long all steps take.
func (j *ratesJob) takes() (d time.Duration) {
	for i, s := range j.steps {
		if d += s.Profile.Len(); i > 0 {
			d += j.idle
		}
	}
	return d
}

func (j *ratesJob) dryRunText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, p%g of %s within %s; no AWS call is made\n\n", j.name(), j.ladder.Percentile, words(j.ladder.SLOOn), short(milliseconds(j.ladder.SLOMS)))
	var rows [][]string
	requests := 0
	for _, s := range j.steps {
		requests += len(s.At)
		rows = append(rows, []string{fmt.Sprintf("%.2f", s.Rate), fmt.Sprintf("%.1f %%", 100*s.Share), fmt.Sprint(len(s.At)), short(s.WarmUp), short(s.Profile.Len() - s.WarmUp), figureOr(s.Predicted)})
	}
	b.WriteString(report.Table([]string{"a second", "of μ", "requests", "warm-up", "measured", "in flight, by the chain"}, rows))
	fmt.Fprintf(&b, "\nwall clock  %s\nrequests    %d, drawn with seed %d\n", short(j.takes()), requests, j.seed)
	if m := j.to.model; m != nil && m.Price != nil {
		fmt.Fprintf(&b, "money       about %s, for one %s at %s an hour\n", chart.Money(m.Price.PerHour*j.takes().Hours(), 2), m.InstanceType, chart.Money(m.Price.PerHour, 3))
	} else {
		b.WriteString("money       unknown\n")
	}
	b.WriteString("next: the same without --dry-run\n")
	return b.String()
}

// between is an interval, or that there is none.
func between(low, high *float64) string {
	if low == nil || high == nil {
		return "unknown"
	}
	return number(low) + "–" + number(high)
}

func figureOr(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}

func (j *ratesJob) name() string {
	if j.to.URL != "" {
		return j.to.Model + " at " + j.to.URL
	}
	return j.to.Model + " at " + j.to.what() + " by " + j.to.Transport
}

// document is the record before anything is measured.
func (j *ratesJob) document(cmd *cobra.Command, print artifact.Fingerprint) *artifact.Rates {
	now := time.Now().UTC()
	q := j.ladder
	s := j.texts.Stats()
	doc := &artifact.Rates{
		Header: artifact.Header{Schema: artifact.SchemaRates, RunID: store.NewRunID(now), CreatedAt: now, Tool: tool(),
			Settings: settings(cmd.Flags()), Target: j.to.recorded(), Fingerprint: print},
		SLOMS: q.SLOMS, Percentile: q.Percentile, SLOOn: q.SLOOn, Mu: q.Mu, QMaxFile: j.qmax, QMaxRun: q.RunID, Seed: j.seed,
		Corpus: artifact.Corpus{ID: j.texts.ID(), Texts: s.Texts, CharsMean: s.CharsMean, CharsP95: s.CharsP95, Seed: j.seed},
		Rungs:  []openloop.Rung{}, InstanceCounts: []int{}, Price: q.Price,
	}
	if j.plan != nil {
		doc.PlanFile, doc.PlanRun = j.ratesFlags.plan, j.plan.RunID
	}
	if was := q.Corpus.ID; was != doc.Corpus.ID {
		doc.Warnings = append(doc.Warnings, fmt.Sprintf("the texts are of %s and the ladder's of %s: μ may be another", doc.Corpus.ID, cmp.Or(was, "an unknown corpus")))
	}
	return doc
}

// ratesSageMaker measures a variant: read, refused or agreed to, frozen, measured, put back.
func (a *app) ratesSageMaker(cmd *cobra.Command, j *ratesJob) (failed error) {
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
	// A bounded queue is what a plan deploys: its refusals are late requests here, and say so.
	state, err := measure.Admit(ctx, v.Inspect, freeze.Options{ProbeDepth: true, NoFreeze: j.noFreeze}, func(ask []string) error {
		live.Close()
		return a.agree(ctx, j.to.Endpoint, ask, j.yes)
	})
	if err != nil {
		return err
	}
	doc := j.document(cmd, state.Fingerprint)
	warnings, err := artifact.Pair("the ladder", j.ladder.Fingerprint, "the endpoint", state.Fingerprint, j.allowMismatch)
	if err != nil {
		return exit.Refuse(err)
	}
	doc.Warnings = append(doc.Warnings, warnings...)
	tr, err := a.open(cfg, j.to, j.most)
	if err != nil {
		return err
	}
	defer tr.Close()
	c := measure.RatesConfig{Doc: doc, Counter: v}
	if !j.noFreeze {
		rec := freeze.Record(state)
		rec.RunID, rec.CreatedAt, rec.Owner, rec.Command, rec.URL = doc.RunID, time.Now().UTC(), owner(), "rates", j.target.endpointURL
		c.Freeze, c.Fleet, c.Records = &rec, v, records{hold}
	}
	if !j.noCloudWatch {
		c.Metrics = v
	}
	if j.maxCost > 0 {
		c.Spend = time.Duration(j.maxCost / j.to.model.Price.PerHour * float64(time.Hour))
	}
	if len(j.stopAlarms) > 0 {
		c.Alarms = func(ctx context.Context) ([]string, error) { return v.Firing(ctx, j.stopAlarms) }
	}
	return a.measureRates(ctx, j, c, tr)
}

// measureRates runs what is the same for every target.
func (a *app) measureRates(ctx context.Context, j *ratesJob, c measure.RatesConfig, tr load.Transport) error {
	live := a.live()
	defer live.Close()
	doc := c.Doc
	c.Steps, c.Idle, c.Progress, c.Start = j.steps, j.idle, live, time.Now()
	c.Open = openLoop(load.Config{Transport: tr, Texts: j.texts.At, Deadline: j.deadline, Start: c.Start, MaxStreams: j.most, Seed: uint64(j.seed)})
	var files *store.Journal
	if !j.noSave {
		var err error
		if files, err = store.Open(j.out, doc.Name(), doc.RunID); err != nil {
			return err
		}
		defer files.Close()
		doc.RequestLog = files.LogName()
	}
	c.Save = func(doc *artifact.Rates, requests []sample.Request) error {
		return journal{files, live}.save(doc, requests)
	}
	live.Note(connects(doc.Settings, tr))
	doc, err := measure.Rates(ctx, c)
	live.Close()
	return a.finishRates(j, doc, files, err)
}

// finishRates prints the result and turns it into an exit code.
func (a *app) finishRates(j *ratesJob, doc *artifact.Rates, files *store.Journal, stopped error) error {
	status := a.stdout
	if j.json {
		status = a.stderr
		data, err := artifact.Encode(doc)
		if err != nil {
			return err
		}
		if _, err := a.stdout.Write(data); err != nil {
			return fmt.Errorf("print the artifact: %w", err)
		}
	} else if len(doc.Rungs) > 0 {
		fmt.Fprint(a.stdout, ratesText(j, doc))
	}
	path := "FILE"
	if files != nil && len(doc.Rungs) > 0 {
		path = files.Path()
		fmt.Fprintf(status, "saved %s\nsaved %s\n", path, filepath.Join(filepath.Dir(path), doc.RequestLog))
	}
	if stopped != nil {
		return stopped
	}
	invalid := slices.IndexFunc(doc.Rungs, func(r openloop.Rung) bool { return !r.Valid })
	if invalid >= 0 {
		fmt.Fprintln(status, "next: the same again, when the cause above is mended")
		return exit.CannotTell(exit.Said)
	}
	fmt.Fprintf(status, "next: tts-bench plan --qmax %s --rates %s --assume-t-total 320 --peak-rps N\n", j.qmax, path)
	if j.plan != nil && slices.ContainsFunc(doc.Rungs, func(r openloop.Rung) bool { return r.Verdict != "pass" && r.Rate <= *j.plan.Flow.LambdaStar*1.000001 }) {
		fmt.Fprintln(status, "the plan's λ* does not hold: the objective is missed at or below it")
		return exit.Refuse(exit.Said)
	}
	return nil
}

// ratesText is the open-loop ladder, at most 80 columns wide.
func ratesText(j *ratesJob, doc *artifact.Rates) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\np%g of %s within %s, from the intended start; μ %.2f a second\n\n", j.name(), doc.Percentile, words(doc.SLOOn), short(milliseconds(doc.SLOMS)), j.mu)
	rows := make([][]string, len(doc.Rungs))
	for i, r := range doc.Rungs {
		verdict := string(r.Verdict)
		if !r.Valid {
			verdict = "invalid"
		}
		cw := "-"
		if r.CW != nil && r.CW.ConcurrencyMax != nil {
			cw = fmt.Sprintf("%.0f", *r.CW.ConcurrencyMax)
			if r.CW.ConcurrencyMean != nil {
				cw = fmt.Sprintf("%.2f/%.0f", *r.CW.ConcurrencyMean, *r.CW.ConcurrencyMax)
			}
		}
		rows[i] = []string{fmt.Sprintf("%.2f", r.Rate), fmt.Sprintf("%.1f", 100*r.Share), fmt.Sprintf("%.2f/%d", r.Mean, r.Max), figureOr(r.Adjusted), figureOr(r.Fixed), cw,
			number(r.P95), between(r.P95Low, r.P95High), fmt.Sprintf("%d/%d", r.Late, r.Samples), verdict}
	}
	b.WriteString(report.Table([]string{"a second", "% of μ", "held/max", "adj.", "M/D/1", "CW", "p95 ms", "95 %", "late/n", "<verdict"}, rows))
	for _, r := range doc.Rungs {
		for _, w := range append(slices.Clone(r.Warnings), r.Cause) {
			if w != "" {
				b.WriteString(wrap(fmt.Sprintf("at %.2f a second: %s", r.Rate, w)) + "\n")
			}
		}
		b.WriteString(wrap(fmt.Sprintf("arrivals at %.2f a second: Anderson–Darling A² %.2f over %d gaps, p = %.3f", r.Rate, r.Law.A2, r.Law.Gaps, r.Law.P)) + "\n")
	}
	for _, w := range doc.Warnings {
		b.WriteString(wrap("warning: "+w) + "\n")
	}
	return b.String()
}
