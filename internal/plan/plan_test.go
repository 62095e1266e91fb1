package plan

import (
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/exit"
	"loadline/internal/ladder"
	"loadline/internal/sample"
	"loadline/internal/sim"
	"loadline/internal/trace"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func read[T any](t *testing.T, name string, parse func([]byte) (*T, error)) *T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../artifact/testdata/published", name))
	if err != nil {
		t.Fatal(err)
	}
	v, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// published is the input of the published plan.
func published(t *testing.T, rule string) Input {
	return Input{
		QMax:       read(t, "qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json", artifact.ReadQMax),
		QMaxFile:   "artifacts/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json",
		TTotal:     read(t, "ttotal-kokoro-82m-force-desired-g5xlarge-8b1b96bc.json", artifact.ReadTTotal),
		TTotalFile: "artifacts/ttotal-kokoro-82m-force-desired-g5xlarge-8b1b96bc.json",
		Scenario:   capacity.Scenario{Rule: rule, PeakRPS: 5000, TroughRPS: 10, SurgeRatio: 1.25, MinFloor: 1, Ceiling: 60},
		Model:      Model{Price: &artifact.Price{PerHour: 1.408, Source: "list price", Date: "2026-08-04"}},
		RunID:      "01K0000000000000000000TEST", CreatedAt: time.Date(2026, 8, 5, 0, 0, 0, 0, time.UTC), Tool: "tts-bench test",
		Settings: map[string]any{},
	}
}

func TestPublishedText(t *testing.T) {
	for _, rule := range []string{capacity.RuleSlots, capacity.RuleFlow} {
		in := published(t, rule)
		in.Fluid = sim.Fluid
		p, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		text := Text(p)
		for _, want := range []string{
			"scaling_target_value : 37.500 (C_scale_max)\n", "scale_in_threshold : 25.000 (C_scale_min)\n",
			"surge_survival : warn\n", "scale_in_safety : warn\n", "curve_repeatability : not_checked\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the text lacks %q", rule, want)
			}
		}
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%s: line %d is %d characters wide: %s", rule, i+1, n, line)
			}
		}
		golden(t, rule+".txt", text)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", name, diff)
	}
}

func TestPublishedArtifact(t *testing.T) {
	p, err := Make(published(t, capacity.RuleSlots))
	if err != nil {
		t.Fatal(err)
	}
	if p.Verdict != capacity.Stop || p.Slots.Peak != 9 || p.Flow.Peak != 387 || p.Measured.Mu.Source != "point: the file carries no samples" {
		t.Errorf("verdict %s, fleets %d and %d, mu: %s", p.Verdict, p.Slots.Peak, p.Flow.Peak, p.Measured.Mu.Source)
	}
	if len(p.Policies) != 2 || len(p.Alarms) != 2 || p.Target.Endpoint != "speech-kokoro-82m" || p.Target.Variant != "primary" {
		t.Errorf("%d policies, %d alarms on %s/%s", len(p.Policies), len(p.Alarms), p.Target.Endpoint, p.Target.Variant)
	}
	data, err := artifact.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	back, err := artifact.ReadPlan(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := artifact.Encode(back)
	if err != nil || string(again) != string(data) {
		t.Errorf("a plan read and written again differs: %v\n%s", err, cmp.Diff(string(data), string(again)))
	}
	for _, pol := range p.Policies {
		if pol.OutCooldown == 0 || pol.InCooldown == 0 {
			t.Errorf("%s leaves a cooldown to AWS's default", pol.Name)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, says string
		change     func(*Input)
	}{
		{"another instance type", "instance_type", func(in *Input) { in.TTotal.Fingerprint.InstanceType = "ml.g6.xlarge" }},
		{"another image", "image_digest", func(in *Input) { in.TTotal.Fingerprint.ImageDigest = strings.Repeat("a", 64) }},
		{"no digest on either side", "image_digest", func(in *Input) {
			in.QMax.Fingerprint.ImageDigest, in.TTotal.Fingerprint.ImageDigest = "", ""
		}},
		{"another environment", "container_env", func(in *Input) { in.TTotal.Fingerprint.ContainerEnv = map[string]string{"WORKERS": "2"} }},
		{"another transport", "transport", func(in *Input) { in.TTotal.Target.Transport = "bidi" }},
		{"another objective of the scale-out", "300", func(in *Input) { in.TTotal.Settings["slo_ms"] = 300.0 }},
		{"another objective", "--slo-ms 500", func(in *Input) { in.SLOMS = 500 }},
		{"a trough above the peak", "--trough-rps", func(in *Input) { in.Scenario.TroughRPS = 5001 }},
		{"a shrinking surge", "--surge-ratio", func(in *Input) { in.Scenario.SurgeRatio = 0.9 }},
		{"slots at a surge of 1.5", "--rule flow", func(in *Input) { in.Scenario.SurgeRatio = 1.5 }},
		{"no Q_max", "every rung missed", func(in *Input) { in.QMax.QMax, in.QMax.Reason = nil, "every rung missed" }},
		{"no usable rung", "no usable rung", func(in *Input) {
			for i := range in.QMax.Rungs {
				in.QMax.Rungs[i].Valid = false
			}
		}},
		{"no service time", "s_mean_s", func(in *Input) { in.QMax.SMean = nil }},
		{"no throughput", "mu_rps", func(in *Input) { in.QMax.Mu = ladder.Interval{} }},
	} {
		in := published(t, capacity.RuleSlots)
		c.change(&in)
		p, err := Make(in)
		if err == nil || p != nil || exit.Code(err) != exit.No || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (code %d), want a refusal that names %s", c.name, err, exit.Code(err), c.says)
		}
	}
	in := published(t, capacity.RuleSlots)
	in.TTotal.Fingerprint.InstanceType, in.TTotal.Target.Transport, in.Scenario.TroughRPS = "ml.g6.xlarge", "bidi", 9000
	_, err := Make(in)
	var mismatch *artifact.MismatchError
	if !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "bidi") || !strings.Contains(err.Error(), "--trough-rps") {
		t.Errorf("not every reason is told: %v", err)
	}
}

func TestNotes(t *testing.T) {
	for _, c := range []struct {
		says   string
		change func(*Input)
	}{
		{"config mismatch let pass: instance_type", func(in *Input) {
			in.TTotal.Fingerprint.InstanceType, in.AllowMismatch = "ml.g6.xlarge", true
		}},
		{"is not certified", func(*Input) {}},
		{"stopped early", func(in *Input) { in.QMax.Complete = false }},
		{"T is a floor", func(in *Input) { in.TTotal.Bounded = true }},
		{"there was no such stop to accept", func(in *Input) { in.Scenario.Accept = []string{"slo_budget"} }},
		{"that of N = 5", func(in *Input) { in.QMax.Rungs[0].Valid = false }},
		{"no policies", func(in *Input) { in.QMax.Target.URL = "http://127.0.0.1:1/" }},
		{"threshold_units", func(in *Input) {
			for i := range in.QMax.Rungs {
				in.QMax.Rungs[i].CW = nil
			}
		}},
	} {
		in := published(t, capacity.RuleSlots)
		c.change(&in)
		p, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, c.says) {
			t.Errorf("no note says %q:\n%s", c.says, notes)
		}
	}
}

// What an unknown price costs is unknown, in every place where money stands.
func TestNoPrice(t *testing.T) {
	in := published(t, capacity.RuleFlow)
	in.Model.Price = nil
	p, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	if text := Text(p); strings.Contains(text, "$") || !strings.Contains(text, "price          unknown") {
		t.Errorf("money without a price:\n%s", text)
	}
	if p.Flow.Cost.Peak != nil || p.Slots.CostPerMChars != nil {
		t.Error("a cost without a price")
	}
}

// The slowest of several runs is what a plan waits for; the lower bound of the throughput is what it counts on.
func TestUpperTimeLowerRate(t *testing.T) {
	in := published(t, capacity.RuleFlow)
	in.TTotal.Runs = []float64{260, 300, 280}
	in.QMax.Mu.Low = new(17.0)
	p, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	if p.Measured.Lag.T != 360 || p.Measured.MuPlan != 17 || *p.Flow.ScalingTarget >= 816 || *p.Flow.ScalingTarget < 700 {
		t.Errorf("T %g, mu %g, target %g", p.Measured.Lag.T, p.Measured.MuPlan, *p.Flow.ScalingTarget)
	}
	if text := Text(p); !strings.Contains(text, "17.000 a second at most") || !strings.Contains(text, "lower bound of 17.917") {
		t.Errorf("the text does not say that a bound is used:\n%s", text)
	}
}

// Q_max as a concurrency and as a rate, with the mean service time there.
func TestQMaxBothWays(t *testing.T) {
	p, err := Make(published(t, capacity.RuleFlow))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(Text(p), "50 in flight = 17.87 a second at 2.794 s each") {
		t.Error("the text does not give Q_max both ways")
	}
	data, _ := json.Marshal(p.Measured)
	for _, field := range []string{`"q_max":50`, `"q_max_rps":17.86`, `"s_mean_at_q_max_s":2.794`} {
		if !strings.Contains(string(data), field) {
			t.Errorf("the artifact lacks %s: %s", field, data)
		}
	}
}

// Rungs of one concurrency are merged by their samples; the ratio is the median of those that were squared.
func TestPoints(t *testing.T) {
	ratio := func(r float64, squared bool) *ladder.Server { return &ladder.Server{Ratio: &r, Squared: squared} }
	ps := points([]ladder.Rung{
		{N: 8, X: 20, Samples: 100, SMean: new(0.4), Valid: true, CW: ratio(1, true)},
		{N: 2, X: 10, Samples: 50, SMean: new(0.2), Valid: true},
		{N: 8, X: 24, Samples: 300, SMean: new(0.3), Valid: true, CW: ratio(3, true)},
		{N: 8, X: 99, Samples: 900, Valid: false},
		{N: 8, X: 23, Samples: 100, SMean: new(0.35), Valid: true, CW: ratio(9, false)},
	})
	if len(ps) != 2 || ps[0].N != 2 || ps[1].N != 8 {
		t.Fatalf("%+v", ps)
	}
	if p := ps[1]; p.X < 22.99 || p.X > 23.01 || p.SMean < 0.3299 || p.SMean > 0.3301 || *p.Ratio != 2 || p.Samples != 500 {
		t.Errorf("%+v, ratio %g", p, *p.Ratio)
	}
}

func TestEmit(t *testing.T) {
	for _, rule := range []string{capacity.RuleSlots, capacity.RuleFlow} {
		in := published(t, rule)
		in.Scenario.Accept = []string{"fleet_throughput"}
		p, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		for format, ext := range map[string]string{"json": ".json", "aws-cli": ".sh"} {
			got, err := Emit(p, format)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, rule+ext, got)
		}
	}
	p, err := Make(published(t, capacity.RuleSlots))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Emit(p, "aws-cli"); err == nil || !strings.Contains(err.Error(), "fleet_throughput") {
		t.Errorf("a stopped plan is emitted: %v", err)
	}
}

// The commands run in a shell, with names that a shell would rather not see; the step policy's ARN reaches its alarm.
func TestEmitIsShellSafe(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no POSIX shell here: ", err)
	}
	in := published(t, capacity.RuleSlots)
	in.Scenario.Accept = []string{"fleet_throughput"}
	in.QMax.Target.Endpoint = "it's $(touch gone) `touch gone` \\ \"\n; touch gone"
	p, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := Emit(p, "aws-cli")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(sh, "-c", `aws() { echo "$#" >>log; case "$2" in put-scaling-policy) echo arn:aws:policy;; esac; case "$*" in *"--alarm-actions arn:aws:policy") echo action >>log;; esac; }
`+calls)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, calls)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil || string(log) != "4\n4\n8\n6\naction\n4\n" {
		t.Errorf("arguments by call: %q, %v", log, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "gone")); err == nil {
		t.Error("a name was run as a command")
	}
}

// ramp is a day of a constant load that grows within minutes, once.
func ramp(rate, times float64) *trace.Trace {
	tr := &trace.Trace{Bucket: time.Minute, Start: time.Date(2026, 8, 4, 0, 0, 0, 0, time.UTC), Format: "test"}
	for i := range 1440 {
		c := rate * 60
		if i >= 720 {
			c *= math.Min(times, 1+(times-1)*float64(i-719)/4)
		}
		tr.Counts = append(tr.Counts, c)
	}
	return tr
}

// The surge comes from the trace unless the operator chose it; too thin a trace is no evidence of calm.
func TestSurgeFromTrace(t *testing.T) {
	in := published(t, capacity.RuleFlow)
	in.Trace, in.TraceFile = ramp(1000, 1.4), "day.csv"
	p, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Scenario; math.Abs(s.SurgeRatio-1.4) > 0.01 || s.SurgeSource != "from the trace" || s.IdleHours == nil || *s.IdleHours != 0 {
		t.Errorf("%+v", s)
	}
	if p.Flow.Peak <= 387 || !strings.Contains(strings.Join(p.Notes, "\n"), "day.csv (test") {
		t.Errorf("%d instances, notes %q", p.Flow.Peak, p.Notes)
	}
	in.KeepSurge = true
	if p, err = Make(in); err != nil || p.Scenario.SurgeRatio != 1.25 || !strings.Contains(strings.Join(p.Notes, "\n"), "--surge-ratio 1.25 holds all the same") {
		t.Errorf("%v, ratio %g", err, p.Scenario.SurgeRatio)
	}
	in.KeepSurge, in.Trace = false, ramp(1, 1.1)
	if _, err = Make(in); err == nil || exit.Code(err) != exit.Unknown || !strings.Contains(err.Error(), "too few requests") {
		t.Errorf("a thin trace: %v", err)
	}
	in.Trace = ramp(1000, 1.4)
	in.Trace.Bucket = time.Hour
	if _, err = Make(in); err == nil || exit.Code(err) != exit.Unknown {
		t.Errorf("hours tell of minutes: %v", err)
	}
}

// Texts of production's length change what an instance completes, by the log of requests that waited for nothing.
func TestCharsMean(t *testing.T) {
	in := published(t, capacity.RuleFlow)
	in.Scenario.CharsMean = 100
	p, err := Make(in)
	if err != nil || p.Flow.Find("throughput_per_text").Verdict != capacity.Warn || p.Flow.Peak != 387 || !strings.Contains(strings.Join(p.Notes, "\n"), "nothing is scaled") {
		t.Errorf("without a log: %v, %d instances, %v", err, p.Flow.Peak, p.Notes)
	}
	in.Requests = []sample.Request{}
	for i := range 200 {
		r := sample.New(i)
		r.Outcome, r.Chars, r.Started = sample.OK, 10+i%40, 0
		took := time.Duration(11+2*r.Chars) * time.Millisecond
		r.FirstAudio, r.End = sample.Since(took-time.Millisecond), sample.Since(took)
		in.Requests = append(in.Requests, r)
		r.Rung, r.End = 1, sample.Since(time.Hour) // one that waited does not tell
		in.Requests = append(in.Requests, r)
	}
	p, err = Make(in)
	if err != nil {
		t.Fatal(err)
	}
	l := p.Measured.Length
	if l == nil || math.Abs(l.Service.Base-0.011) > 1e-9 || math.Abs(l.Service.PerChar-0.002) > 1e-9 || l.N != 200 {
		t.Fatalf("%+v (%s)", l, p.Measured.LengthWhy)
	}
	ratio := (11 + 2*100) / (11 + 2**p.Measured.CharsPerRequest)
	if share := float64(p.Flow.Peak) / 387; share < ratio || p.Flow.QueueMaxDepth >= 50 || p.Slots.Peak != 9 {
		t.Errorf("texts %.2f times as long: %d instances, depth %d; slots %d", ratio, p.Flow.Peak, p.Flow.QueueMaxDepth, p.Slots.Peak)
	}
}

// TestCliff: a cliff right above Q_max is held away from, as the ladder warns; the published rule's figures stay its own.
func TestCliff(t *testing.T) {
	in := published(t, capacity.RuleSlots)
	in.QMax.Cliff, in.Scenario.PeakRPS = true, 50
	p, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	if p.Flow.QueueMaxDepth != 45 || p.Slots.QueueMaxDepth != 50 || !p.Measured.Cliff {
		t.Errorf("depth %d by flow, %d by slots, of a Q_max of %d", p.Flow.QueueMaxDepth, p.Slots.QueueMaxDepth, p.Measured.QMax)
	}
}
