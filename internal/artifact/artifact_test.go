package artifact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/capacity"
	"loadline/internal/ladder"
	"loadline/internal/sample"
)

var made = time.Date(2026, 8, 4, 12, 0, 0, 0, time.UTC)

func header(schema string) Header {
	return Header{
		Schema: schema, RunID: "01K1V3Q4Z5X6Y7W8V9T0S1R2Q3", CreatedAt: made, Tool: "tts-bench devel",
		Settings: map[string]any{"slo-ms": 300.0, "seed": 1.0, "yes": true},
		Target:   Target{Model: "kokoro-82m", Endpoint: "speech-kokoro-82m", Variant: "primary", Transport: "response-stream", Payload: "audio"},
		Fingerprint: Fingerprint{Region: "us-east-1", InstanceType: "ml.g5.xlarge", ImageDigest: digest,
			ContainerEnv: map[string]string{"LANG": "en"}, QueueBound: new(0)},
	}
}

func ladderRecord() *QMax {
	pass := ladder.Rung{
		N: 53, Purpose: ladder.Certify, StartedNS: 1e9, EndedNS: 9e9, WarmupS: 1, X: 178.5, XLow: new(178.1), XHigh: new(178.9),
		P50: new(296.0), P95: new(298.5), P95Upper: new(299.1), P99: new(299.8), SMean: new(0.297), SP95: new(0.3), CS2: new(0.0004),
		Samples: 1428, OK: 1428, Late: 12, NEff: 1100, Chars: 36000, AudioS: 2400, Little: 0.004, Trend: 0.001,
		Verdict: ladder.Pass, Valid: true, Counts: []int{1},
		CW: &ladder.Server{Periods: 1, ConcurrencyMax: new(53.0), ConcurrencyMean: new(53.0), Ratio: new(1.0), Agreement: "agrees", Squared: true},
	}
	fail := pass
	fail.N, fail.Index, fail.Purpose, fail.Verdict, fail.CW = 54, 1, ladder.Bisect, ladder.Fail, nil
	fail.OK, fail.Late, fail.P99 = 1400, 120, new(math.Inf(1))
	fail.Outcomes, fail.Causes = map[string]int{"timeout": 28}, map[string]int{"no byte in 10 s": 28}
	return &QMax{
		Header: header(SchemaQMax), SLOMS: 300, Percentile: 95, SLOOn: string(sample.OnFirstAudio),
		QMax: new(53), Certificate: &ladder.Certificate{Confidence: 0.95, N: 1428, Late: 12, NEff: 1100, Fresh: true},
		Bracket: ladder.Bracket{Pass: 53, Fail: 54}, Verdict: "certified", PerRun: []*int{new(53), nil},
		Rungs: []ladder.Rung{pass, fail}, Mu: ladder.Interval{Value: 178.1, Low: new(178.1), High: new(178.9), Source: "interval: batch means of rung 53"},
		SMean: new(0.0056), SP95: new(0.006), FirstAudioAt1: new(5.9), ProbePair: []int{4, 2},
		Corpus: Corpus{ID: "clips", Texts: 50, CharsMean: 25.2, CharsP95: 58, Seed: 1}, CharsPerS: 4500,
		Frozen: true, InstanceCounts: []int{1}, Price: &Price{PerHour: 1.408, Source: "models.yaml", Date: "2026-08-04"},
		RequestLog: "qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.requests.jsonl.gz", Complete: true, Warnings: []string{"µ & <noise>"},
	}
}

func scaleOutRecord() *TTotal {
	at := func(s float64) time.Time { return made.Add(time.Duration(s * float64(time.Second))) }
	return &TTotal{
		Header: header(SchemaTTotal), Trigger: "force-desired", TTotal: 200, Runs: []float64{180, 200}, Detection: 30,
		DetectionSource: "planned", Planning: 230,
		Timeline:  []Stage{{Name: "desired_set", At: at(0), Source: "own call"}, {Name: "in_service", At: at(150), Source: "count"}, {Name: "traffic_recovered", At: at(200), Bounded: true, Source: "probe"}},
		Durations: []Duration{{"desired_set", "in_service", 150, false, 0.75}, {"in_service", "traffic_recovered", 50, true, 0.25}},
	}
}

func planRecord() *Plan {
	return &Plan{Header: header(SchemaPlan), Rule: "flow", Config: PlanConfig{Model: "kokoro-82m", MinInstances: 1, MaxInstances: 9},
		Verdict: capacity.Stop, Notes: []string{}}
}

func freezeRecord() *Freeze {
	f := &Freeze{Schema: SchemaFreeze, RunID: "01K1V3Q4Z5X6Y7W8V9T0S1R2Q3", CreatedAt: made, Owner: "me@here 7", Command: "tts-bench qmax",
		Region: "us-east-1", Endpoint: "speech-kokoro-82m", Variant: "primary", HadTarget: true, Min: 1, Max: 9, Desired: 3}
	f.Suspended.In = true
	return f
}

// readers is each reader as a round trip: bytes to record to bytes.
var readers = map[string]func([]byte) ([]byte, error){
	kindQMax:   again(ReadQMax),
	kindTTotal: again(ReadTTotal),
	kindPlan:   again(ReadPlan),
	kindFreeze: again(ReadFreeze),
}

func again[T any](read func([]byte) (*T, error)) func([]byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
		v, err := read(data)
		if err != nil {
			return nil, err
		}
		return Encode(v)
	}
}

func TestRoundTrip(t *testing.T) {
	for kind, record := range map[string]any{kindQMax: ladderRecord(), kindTTotal: scaleOutRecord(), kindPlan: planRecord(), kindFreeze: freezeRecord()} {
		first, err := Encode(record)
		if err != nil {
			t.Fatal(kind, err)
		}
		second, err := readers[kind](first)
		if err != nil {
			t.Fatal(kind, err)
		}
		if d := cmp.Diff(string(first), string(second)); d != "" {
			t.Errorf("%s: %s", kind, d)
		}
		if !bytes.HasSuffix(first, []byte("}\n")) || bytes.HasSuffix(first, []byte("\n\n")) {
			t.Errorf("%s does not end in one newline", kind)
		}
		if id := RunID(first); id != "01K1V3Q4Z5X6Y7W8V9T0S1R2Q3" {
			t.Errorf("%s: run id %q", kind, id)
		}
		if kind != kindPlan { // whose blocks are package capacity's own
			golden(t, "testdata/"+kind+".json", first)
		}
	}
}

func TestEncodeInfinity(t *testing.T) {
	q := ladderRecord()
	data, err := Encode(q)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadQMax(data)
	if err != nil {
		t.Fatal(err)
	}
	if r := back.Rungs[1]; r.P99 != nil || len(r.Infinite) != 1 || r.Infinite[0] != "p99_ms" {
		t.Errorf("infinite p99 came back as %v, %v", r.P99, r.Infinite)
	}
	if !math.IsInf(*q.Rungs[1].P99, 1) || q.Rungs[1].Infinite != nil {
		t.Error("writing changed the record")
	}
	q.Rungs[0].Trend = math.NaN()
	if _, err := Encode(q); err == nil || !strings.Contains(err.Error(), "rungs[0].trend is not a finite number") {
		t.Error(err)
	}
	q.Rungs[0].Trend, q.Settings["slo-ms"] = 0, math.Inf(-1)
	if _, err := Encode(q); err == nil || !strings.Contains(err.Error(), "settings.slo-ms is not a finite number") {
		t.Error(err)
	}
}

// edited is the golden of a kind with one text replaced.
func edited(t *testing.T, kind, old, new string) []byte {
	t.Helper()
	data := string(read(t, "testdata/"+kind+".json"))
	if !strings.Contains(data, old) {
		t.Fatalf("%s.json holds no %q", kind, old)
	}
	return []byte(strings.Replace(data, old, new, 1))
}

func TestReadRefuses(t *testing.T) {
	q := read(t, "testdata/qmax.json")
	for _, c := range []struct {
		name string
		as   string
		data []byte
		want string
	}{
		{"empty", kindQMax, []byte(" \n"), "the file is empty: a ladder (qmax) was wanted"},
		{"not JSON", kindQMax, []byte("models:\n  - x"), `the file is not JSON: it begins with "models:`},
		{"bad JSON", kindQMax, []byte(`{"schema" 3}`), "the file is not JSON (byte 11): invalid character '3'"},
		{"cut off", kindQMax, q[:len(q)/2], fmt.Sprintf("the file ends in the middle, after %d bytes: it was cut off", len(q)/2)},
		{"cut off by one", kindQMax, q[:len(q)-2], "it was cut off"},
		{"twice", kindQMax, append(bytes.Clone(q), q...), "goes on after its record ends"},
		{"compressed", kindQMax, []byte{0x1f, 0x8b, 8}, "compressed, like a request log"},
		{"list", kindPlan, []byte(`[{"check":"scale_out","verdict":"ok"}]`), "a JSON list, like the result of the published validate"},
		{"another object", kindQMax, []byte(`{"a":1}`), "names no schema and has the shape of no published file"},
		{"a scale-out for a ladder", kindQMax, read(t, "testdata/ttotal.json"), "this is a scale-out (ttotal): a ladder (qmax) was wanted"},
		{"a plan for a ladder", kindQMax, []byte(`{"schema":"loadline/plan/1"}`), "this is a plan: a ladder (qmax) was wanted"},
		{"a published scale-out for a ladder", kindQMax, read(t, publishedTTotalFile), "this is a scale-out (ttotal): a ladder (qmax) was wanted"},
		{"a published ladder for a scale-out", kindTTotal, read(t, publishedQMaxFile), "this is a ladder (qmax): a scale-out (ttotal) was wanted"},
		{"a published plan", kindPlan, []byte(`{"plan":{},"verdict":"ok","t_total_measured":true}`), "make it again from its two measurement files"},
		{"newer", kindQMax, edited(t, kindQMax, "loadline/qmax/1", "loadline/qmax/3"), "this is a ladder (qmax) of version 3, and this tool reads up to version 1"},
		{"unknown kind", kindQMax, []byte(`{"schema":"loadline/qmin/1"}`), "a kind of record that this tool does not know"},
		{"no number", kindQMax, []byte(`{"schema":"loadline/qmax/one"}`), "whose version is not a number from 1"},
		{"foreign schema", kindQMax, []byte(`{"schema":"https://json-schema.org"}`), "none of this tool's"},
		{"schema of another type", kindQMax, []byte(`{"schema":7}`), "the file's schema is 7"},
		{"a field gone", kindQMax, edited(t, kindQMax, `"q_max"`, `"qmax"`), "lacks q_max: it was edited"},
		{"fields gone", kindFreeze, []byte(`{"schema":"loadline/freeze/1"}`), "lacks run_id, created_at, owner"},
		{"text for a number", kindQMax, edited(t, kindQMax, `"slo_ms": 300`, `"slo_ms": "300"`), "field slo_ms holds a string where a number belongs"},
		{"fraction for a count", kindQMax, edited(t, kindQMax, `"q_max": 53`, `"q_max": 53.5`), "field q_max holds a number 53.5 where a whole number belongs"},
		{"objective", kindQMax, edited(t, kindQMax, `"slo_ms": 300`, `"slo_ms": 0`), "slo_ms is 0: it must be above 0"},
		{"mark", kindQMax, edited(t, kindQMax, `"slo_on": "first-audio"`, `"slo_on": "last"`), `slo_on is "last"`},
		{"more late than there were", kindQMax, edited(t, kindQMax, `"late": 120`, `"late": 9999`), "rungs[1]: 9999 late"},
		{"upside down", kindQMax, edited(t, kindQMax, `"fail": 54`, `"fail": 5`), "the rung that missed (5) lies below the one that passed (53)"},
		{"path for a run id", kindQMax, edited(t, kindQMax, "01K1V3Q4Z5X6Y7W8V9T0S1R2Q3", "../x"), "is not a plain word"},
		{"two at once", kindQMax, edited(t, kindQMax, "\"slo_ms\": 300,\n  \"percentile\": 95", "\"slo_ms\": -1,\n  \"percentile\": 101"), "slo_ms is -1: it must be above 0; percentile is 101"},
		{"stages that do not add up", kindTTotal, edited(t, kindTTotal, `"seconds": 150`, `"seconds": 160`), "the stages add up to 210.000 s, and t_total_s is 200.000 s"},
		{"a gap between stages", kindTTotal, edited(t, kindTTotal, `"from": "in_service"`, `"from": "ready"`), "starts at ready, and the one before it ends at in_service"},
		{"planning", kindTTotal, edited(t, kindTTotal, `"planning_s": 230`, `"planning_s": 200`), "planning_s is 200"},
		{"freeze bounds", kindFreeze, edited(t, kindFreeze, `"max": 9`, `"max": 0`), "min is 1 and max 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readers[c.as](c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestReadKeepsWhatLaterVersionsAdd(t *testing.T) {
	if _, err := ReadQMax(edited(t, kindQMax, `"slo_ms": 300`, `"slo_ms": 300, "added_later": {"a": 1}`)); err != nil {
		t.Error(err)
	}
}

func TestReadPublishedLadder(t *testing.T) {
	q, err := ReadQMax(read(t, publishedQMaxFile))
	if err != nil {
		t.Fatal(err)
	}
	if *q.QMax != 50 || len(q.PerRun) != 1 || *q.PerRun[0] != 50 || q.Certificate != nil {
		t.Errorf("Q_max %d, per run %v, certificate %v", *q.QMax, q.PerRun, q.Certificate)
	}
	if q.Bracket != (ladder.Bracket{Pass: 50, Fail: 60}) || q.Verdict != "published schedule: bracketed, 50 passed and 60 missed" {
		t.Errorf("bracket %v: %s", q.Bracket, q.Verdict)
	}
	if *q.SMean != 0.06132258724884511 || *q.SP95 != 0.06613509664312005 || *q.FirstAudioAt1 != 65.37169031798838 || q.SLOMS != 3000 {
		t.Errorf("S %v %v, first audio %v, SLO %v", *q.SMean, *q.SP95, *q.FirstAudioAt1, q.SLOMS)
	}
	if q.Mu.Value != 1075.0/60 || q.Mu.Low != nil || !strings.HasPrefix(q.Mu.Source, "point") {
		t.Errorf("mu %+v", q.Mu)
	}
	if q.Corpus.CharsMean != 213920.0/8482 || fmt.Sprint(q.ProbePair) != "[10 5]" || q.Price != nil {
		t.Errorf("chars %v, pair %v, price %v", q.Corpus.CharsMean, q.ProbePair, q.Price)
	}
	if !q.Frozen || *q.Fingerprint.QueueBound != 0 || fmt.Sprint(q.InstanceCounts) != "[1]" || q.Target.Transport != "response-stream" {
		t.Errorf("frozen %v, bound %v, counts %v", q.Frozen, q.Fingerprint.QueueBound, q.InstanceCounts)
	}
	var unsquared []int
	for _, r := range q.Rungs {
		if *r.CW.Ratio != 1 {
			t.Errorf("N = %d: ratio %v", r.N, *r.CW.Ratio)
		}
		if !r.CW.Squared {
			unsquared = append(unsquared, r.N)
		}
		if want := r.N != 60; (r.Verdict == ladder.Pass) != want {
			t.Errorf("N = %d: %s", r.N, r.Verdict)
		}
	}
	if fmt.Sprint(unsquared) != "[1 10 30]" {
		t.Errorf("server figures of another minute at %v", unsquared)
	}
	if last := q.Rungs[7]; last.Outcomes["model_error"] != 1 || last.Late < 538 || last.OKP95 == nil || last.P95 == nil || math.Abs(last.X-1073.0/60) > 1e-9 {
		t.Errorf("N = 60: %+v", last)
	}
	if q.Name() != "qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json" {
		t.Error(q.Name())
	}
}

func TestReadPublishedScaleOut(t *testing.T) {
	s, err := ReadTTotal(read(t, publishedTTotalFile))
	if err != nil {
		t.Fatal(err)
	}
	if s.TTotal != 260.248496 || s.Detection != 60 || s.DetectionSource != "published bound" || s.Planning != 320.248496 || s.Bounded {
		t.Errorf("total %v, detection %v (%s), planning %v", s.TTotal, s.Detection, s.DetectionSource, s.Planning)
	}
	sum, got := 0.0, ""
	for _, d := range s.Durations {
		sum += d.Seconds
		got += fmt.Sprintf("%s→%s %.1f\n", d.From, d.To, d.Seconds)
	}
	want := `load_applied→desired_set 30.0
desired_set→instance_logging 180.8
instance_logging→container_started 3.7
container_started→framework_init 0.0
framework_init→weights_ready 6.5
weights_ready→warmup_done 1.0
warmup_done→ready 0.0
ready→in_service 20.7
in_service→traffic_recovered 47.4
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if !s.ListsProbeWarmup || math.Abs(sum-290.25) > 0.001 {
		t.Errorf("the durations add up to %v, marked %v", sum, s.ListsProbeWarmup)
	}
	if s.Name() != "ttotal-kokoro-82m-force-desired-g5xlarge-8b1b96bc.json" {
		t.Error(s.Name())
	}
}

// change is the published ladder with one change made.
func change(t *testing.T, f func(file object, steps []any)) []byte {
	t.Helper()
	var file object
	if err := json.Unmarshal(read(t, publishedQMaxFile), &file); err != nil {
		t.Fatal(err)
	}
	f(file, file["steps"].([]any))
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReadPublishedLadderByOurRules(t *testing.T) {
	warned := func(q *QMax, text string) bool { return strings.Contains(strings.Join(q.Warnings, "\n"), text) }
	step := func(steps []any, i int) map[string]any { return steps[i].(map[string]any) }
	for _, c := range []struct {
		name string
		f    func(file object, steps []any)
		ok   func(q *QMax) bool
	}{
		{"half the requests failed, the survivors were fast", func(_ object, s []any) { step(s, 6)["ok"] = 536 },
			func(q *QMax) bool {
				return q.Rungs[6].Verdict == ladder.Fail && q.Rungs[6].Late >= 536 && q.Rungs[6].P95 == nil && len(q.Rungs[6].Infinite) == 2 && q.Bracket == ladder.Bracket{Pass: 40, Fail: 50} && warned(q, "the highest rung that passes in every run is 40")
			}},
		{"failures within the budget, p99 within the objective", func(_ object, s []any) { step(s, 6)["ok"] = 1060 },
			func(q *QMax) bool { return q.Rungs[6].Verdict == ladder.Pass && q.Rungs[6].Late == 12 }},
		{"failures that only samples could judge", func(_ object, s []any) { step(s, 6)["ok"] = 1040; step(s, 6)["ttfab_p99_ms"] = 3001 },
			func(q *QMax) bool { return q.Rungs[6].Verdict == ladder.Undecided && q.Bracket.Pass == 40 }},
		{"an unusable rung brackets nothing", func(_ object, s []any) {
			step(s, 7)["usable"], step(s, 7)["unusable_reason"] = false, "not settled"
		},
			func(q *QMax) bool {
				return q.Bracket == ladder.Bracket{Pass: 50} && warned(q, "it is a lower bound") && q.Rungs[7].Cause == "not settled" && q.Verdict == "published schedule: not bracketed"
			}},
		{"a run without an answer", func(f object, _ []any) { f["runs"] = 2 },
			func(q *QMax) bool {
				return len(q.PerRun) == 2 && q.PerRun[1] == nil && warned(q, "one of the 2 runs found no answer")
			}},
		{"no answer at all", func(f object, _ []any) { f["q_max"] = nil },
			func(q *QMax) bool { return q.QMax == nil && q.Verdict == "none" }},
		{"a bounded queue", func(f object, _ []any) { f["unbounded_queue"] = false },
			func(q *QMax) bool { return q.Fingerprint.QueueBound == nil && warned(q, "does not say at what") }},
		{"a bounded queue, its bound in the environment", func(f object, _ []any) {
			f["unbounded_queue"] = false
			f["deployed_config"] = object{"instance_type": "ml.g5.xlarge", "image_digest": digest, "container_env": object{"MAX_QUEUE_DEPTH": "50", "VARIANT_NAME": "x", "LANG": "a"}}
		},
			func(q *QMax) bool {
				return *q.Fingerprint.QueueBound == 50 && len(q.Fingerprint.ContainerEnv) == 1
			}},
		{"the bound not checked", func(f object, _ []any) { f["unbounded_queue"] = nil },
			func(q *QMax) bool { return q.Fingerprint.QueueBound == nil && warned(q, "was not checked") }},
		{"a tag for a digest", func(f object, _ []any) {
			f["deployed_config"] = object{"instance_type": "ml.g5.xlarge", "image_digest": "latest", "container_env": object{}}
		},
			func(q *QMax) bool {
				return q.Fingerprint.ImageDigest == "" && warned(q, `the tag "latest"`) && strings.Contains(q.Name(), "g5xlarge-nodigest")
			}},
		{"stopped early", func(f object, _ []any) { f["ladder_truncated_at"] = 60 },
			func(q *QMax) bool { return warned(q, "stopped at N = 60") }},
		{"nothing joined, nothing completed", func(_ object, s []any) {
			for k := range step(s, 7) {
				if strings.HasPrefix(k, "server_") || strings.HasPrefix(k, "ttfab_") || strings.HasSuffix(k, "_mean") {
					step(s, 7)[k] = nil
				}
			}
			step(s, 7)["completed"], step(s, 7)["ok"] = 0, 0
		},
			func(q *QMax) bool { return q.Rungs[7].CW == nil && q.Rungs[7].Verdict == ladder.Undecided }},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, err := ReadQMax(change(t, c.f))
			if err != nil {
				t.Fatal(err)
			}
			if !c.ok(q) {
				data, _ := Encode(q)
				t.Errorf("read as %s", data)
			}
		})
	}
	for _, c := range []struct {
		name, want string
		f          func(file object, steps []any)
	}{
		{"no rungs", "without a single rung", func(f object, _ []any) { f["steps"] = []any{} }},
		{"more ok than there were", "has 2000 ok of 1072", func(_ object, s []any) { step(s, 6)["ok"] = 2000 }},
		{"no objective", "slo_ms is 0", func(f object, _ []any) { delete(f, "slo_ms") }},
		{"no requests held", "rungs[0].n is 0", func(_ object, s []any) { step(s, 0)["concurrency"] = 0 }},
		{"a text for a number", "steps.concurrency", func(_ object, s []any) { step(s, 0)["concurrency"] = "one" }},
	} {
		if _, err := ReadQMax(change(t, c.f)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		t    Target
		f    Fingerprint
		want string
	}{
		{Target{}, Fingerprint{InstanceType: "ml.g5.xlarge", ImageDigest: digest}, "g5xlarge-8b1b96bc"},
		{Target{}, Fingerprint{InstanceType: "ml.g4dn.12xlarge"}, "g4dn12xlarge-nodigest"},
		{Target{}, Fingerprint{}, "unknown-nodigest"},
		{Target{URL: "http://127.0.0.1:8080/v1/audio/speech"}, Fingerprint{}, "url-b678fa77"},
		{Target{URL: "https://USER:pw@Tts.Example:443?key=1"}, Fingerprint{InstanceType: "ml.g5.xlarge"}, Slug(Target{URL: "wss://tts.example:443/other"}, Fingerprint{})},
	} {
		if got := Slug(c.t, c.f); got != c.want {
			t.Errorf("%+v %+v: %s, want %s", c.t, c.f, got, c.want)
		}
	}
	q := ladderRecord()
	q.Target.Model = "../my model/ü"
	if got := q.Name(); got != "qmax--.-my-model----response-stream-g5xlarge-8b1b96bc.json" {
		t.Error(got)
	}
	if got := planRecord().Name(); got != "plan-kokoro-82m-flow-g5xlarge-8b1b96bc.json" {
		t.Error(got)
	}
	if got := freezeRecord().Name(); got != "freeze-speech-kokoro-82m-primary.json" {
		t.Error(got)
	}
	if got := KeptName("qmax-a.json", "01K"); got != "qmax-a-01K.json" {
		t.Error(got)
	}
	if got := RequestLogName("qmax-a.json"); got != "qmax-a.requests.jsonl.gz" {
		t.Error(got)
	}
}

func TestPair(t *testing.T) {
	full := header(SchemaQMax).Fingerprint
	with := func(change func(*Fingerprint)) Fingerprint {
		f := full
		change(&f)
		return f
	}
	published := with(func(f *Fingerprint) { f.Region, f.NoRegion = "", true })
	copied := func(cpus float64, memory int) Fingerprint {
		return with(func(f *Fingerprint) { f.Copy = &Copy{CPUs: cpus, MinMemoryMB: memory} })
	}
	for _, c := range []struct {
		name string
		a, b Fingerprint
		want string // the fields that differ
	}{
		{"copies alike", copied(4, 1024), copied(4, 1024), ""},
		{"a copy with more cores", copied(4, 1024), copied(8, 1024), "copy"},
		{"a copy with more memory", copied(4, 1024), copied(4, 2048), "copy"},
		{"a copy that one does not say", copied(4, 1024), full, ""},
		{"equal", full, full, ""},
		{"another bound is no difference", full, with(func(f *Fingerprint) { f.QueueBound = new(50) }), ""},
		{"what says where it runs is none", full, with(func(f *Fingerprint) {
			f.ContainerEnv = map[string]string{"LANG": "en", "AWS_REGION": "x", "ENDPOINT_NAME": "x", "VARIANT_NAME": "x", "SM_MODEL_ID": "x", "MAX_QUEUE_DEPTH": "50"}
		}), ""},
		{"region", full, with(func(f *Fingerprint) { f.Region = "eu-west-1" }), "region"},
		{"instance type", full, with(func(f *Fingerprint) { f.InstanceType = "ml.g6.xlarge" }), "instance_type"},
		{"digest", full, with(func(f *Fingerprint) { f.ImageDigest = strings.Repeat("0", 64) }), "image_digest"},
		{"env", full, with(func(f *Fingerprint) { f.ContainerEnv = map[string]string{"LANG": "fr", "MODE": "x"} }), "container_env.LANG container_env.MODE"},
		{"env not known", full, with(func(f *Fingerprint) { f.ContainerEnv = nil }), "container_env"},
		{"neither env known", with(func(f *Fingerprint) { f.ContainerEnv = nil }), with(func(f *Fingerprint) { f.ContainerEnv = nil }), "container_env"},
		{"all missing, alike", Fingerprint{}, Fingerprint{}, "region instance_type image_digest container_env"},
		{"both published", published, published, ""},
		{"published against live", published, full, "region"},
		{"region not read, though its format has one", published, with(func(f *Fingerprint) { f.Region = "" }), "region"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, p := range [][2]Fingerprint{{c.a, c.b}, {c.b, c.a}} {
				var got []string
				for _, d := range Compare(p[0], p[1]) {
					got = append(got, d.Field)
				}
				if s := strings.Join(got, " "); s != c.want {
					t.Errorf("differ in %q, want %q", s, c.want)
				}
				_, err := Pair("the ladder", p[0], "the scale-out", p[1], false)
				if (err == nil) != (c.want == "") {
					t.Error(err)
				}
				warnings, err := Pair("the ladder", p[0], "the scale-out", p[1], true)
				notes := 0
				if (p[0].Copy == nil) != (p[1].Copy == nil) {
					notes = 1
				}
				if err != nil || len(warnings) != len(got)+notes {
					t.Errorf("allowed: %v, %v", warnings, err)
				}
			}
		})
	}
	notes, err := Pair("the ladder", full, "the endpoint", copied(4, 1024), false)
	if err != nil || len(notes) != 1 || notes[0] != "what a copy of the component has was not compared: the ladder does not say it" {
		t.Errorf("%q, %v", notes, err)
	}
	_, err = Pair("the ladder", copied(4, 1024), "the plan", copied(8, 1024), false)
	if err == nil || !strings.Contains(err.Error(), "copy is 4 cores, 0 accelerators, 1024 MB in the ladder and 8 cores,") {
		t.Error(err)
	}
	_, err = Pair("the ladder", full, "the live endpoint", with(func(f *Fingerprint) { f.Region, f.InstanceType = "", "ml.g6.xlarge" }), false)
	want := "the ladder and the live endpoint do not belong together: region is us-east-1 in the ladder and not known in the live endpoint; instance_type is ml.g5.xlarge in the ladder and ml.g6.xlarge in the live endpoint: measure again what is out of date, or pass --allow-config-mismatch to go on with a recorded warning"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestPublishedPairBelongsTogether(t *testing.T) {
	q, err := ReadQMax(read(t, publishedQMaxFile))
	if err != nil {
		t.Fatal(err)
	}
	s, err := ReadTTotal(read(t, publishedTTotalFile))
	if err != nil {
		t.Fatal(err)
	}
	if w, err := Pair("the ladder", q.Fingerprint, "the scale-out", s.Fingerprint, false); err != nil || w != nil {
		t.Error(w, err)
	}
}

func TestContainerEnv(t *testing.T) {
	for _, c := range []struct {
		env   map[string]string
		bound *int
	}{
		{nil, nil},
		{map[string]string{}, new(0)},
		{map[string]string{"MAX_QUEUE_DEPTH": "50"}, new(50)},
		{map[string]string{"MAX_QUEUE_DEPTH": "0", "MAX_PENDING_REQUESTS": "9"}, new(0)},
		{map[string]string{"MAX_PENDING_REQUESTS": " 9 "}, new(9)},
		{map[string]string{"MAX_QUEUE_DEPTH": "many"}, nil},
		{map[string]string{"MAX_QUEUE_DEPTH": "-1"}, nil},
	} {
		kept, bound := ContainerEnv(c.env)
		if d := cmp.Diff(c.bound, bound); d != "" || (kept == nil) != (c.env == nil) {
			t.Errorf("%v: kept %v, bound %s", c.env, kept, d)
		}
	}
}

func TestImageDigest(t *testing.T) {
	for image, want := range map[string]string{
		"000000000000.dkr.example/speech@sha256:" + digest: digest,
		"speech:latest":                  "",
		"speech@sha256:8b1b96bc":         "",
		"":                               "",
		"speech:v1@sha256:" + digest:     digest,
		"speech@sha256:" + digest + "00": "",
	} {
		if got := ImageDigest(image); got != want {
			t.Errorf("%s: %q", image, got)
		}
	}
}

// FuzzRead: whatever a reader takes, it writes and reads back as the same bytes.
func FuzzRead(f *testing.F) {
	for _, path := range []string{"testdata/qmax.json", "testdata/ttotal.json", "testdata/freeze.json", publishedQMaxFile, publishedTTotalFile} {
		data := read(f, path)
		f.Add(data)
		f.Add(data[:len(data)-3])
	}
	plan, err := Encode(planRecord())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plan)
	f.Add([]byte(`{"schema":"loadline/qmax/99999999999999999999"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		RunID(data)
		for kind, round := range readers {
			first, err := round(data)
			if err != nil {
				continue
			}
			second, err := round(first)
			if err != nil {
				t.Fatalf("%s: written as\n%s\nand then refused: %v", kind, first, err)
			}
			if !bytes.Equal(first, second) {
				t.Fatalf("%s: %s", kind, cmp.Diff(string(first), string(second)))
			}
		}
	})
}
