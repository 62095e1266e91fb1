package ladder

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"loadline/internal/sample"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

func search(t *testing.T, c Config) *Search {
	t.Helper()
	s, err := NewSearch(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kokoro is the serial server of the published run: 17.9 requests a second whatever is held.
func kokoro(seed uint64) Answer {
	return Serial(0.05587, 0.04, 0.004, rand.New(rand.NewPCG(seed, 2)))
}

// steady answers in mark(n) seconds give or take the spread.
func steady(mark func(n int) float64, spread float64) Answer {
	rng := rand.New(rand.NewPCG(3, 4))
	return func(_ float64, n int) (float64, float64, sample.Outcome) {
		x := mark(n) * (1 + spread*rng.NormFloat64())
		return x, x, sample.OK
	}
}

// cliff is a server that is fast up to an edge and hopeless beyond it.
func cliff(edge int, below, beyond float64) Answer {
	return steady(func(n int) float64 {
		if n > edge {
			return beyond
		}
		return below
	}, 0.05)
}

func write(b *bytes.Buffer, c Config, sim Simulated) {
	opt := func(x *float64, scale float64) string {
		if x == nil {
			return "-"
		}
		return fmt.Sprintf("%.4g", *x*scale)
	}
	for _, r := range sim.Result.Rungs {
		verdict := string(r.Verdict)
		if !r.Valid {
			verdict = "invalid"
		}
		fmt.Fprintf(b, "%2d  N %-4d %-9s %-9s %4d judged %4d late  n_eff %-4.0f p50 %s p95 %s p99 %s ms  X %.2f of %.2f/s  warm-up %.1f s held %.1f s",
			r.Index, r.N, r.Purpose, verdict, r.Samples, r.Late, r.NEff, opt(r.P50, 1), opt(r.P95, 1), opt(r.P99, 1), r.X, r.Tries, r.WarmupS, float64(r.EndedNS-r.StartedNS)/1e9)
		if r.Cause != "" {
			fmt.Fprintf(b, "\n    cause: %s", r.Cause)
		}
		for _, w := range r.Warnings {
			fmt.Fprintf(b, "\n    %s", w)
		}
		b.WriteByte('\n')
	}
	q := sim.Result
	fmt.Fprintf(b, "verdict %s", q.Verdict)
	if q.QMax != nil {
		fmt.Fprintf(b, ", Q_max %d", *q.QMax)
	}
	if q.Reason != "" {
		fmt.Fprintf(b, ": %s", q.Reason)
	}
	fmt.Fprintf(b, "\nbracket %d to %d, cliff %v, pair %v, μ %.2f [%s, %s], s_mean %s s, first audio at 1 %s ms\n", q.Bracket.Pass, q.Bracket.Fail, q.Cliff,
		q.ProbePair, q.Mu.Value, opt(q.Mu.Low, 1), opt(q.Mu.High, 1), opt(q.SMean, 1), opt(q.FirstAudioAt1, 1))
	if k := q.Certificate; k != nil {
		fmt.Fprintf(b, "certificate: %d late of %d, worth %.0f, at %.0f %%, fresh %v\n", k.Late, k.N, k.NEff, 100*k.Confidence, k.Fresh)
	}
	for _, w := range q.Warnings {
		fmt.Fprintf(b, "warning: %s\n", w)
	}
	fmt.Fprintf(b, "%d probes, %d requests, %s\n", sim.Probes, sim.Requests, sim.Wall.Round(time.Second))
}

// Whole searches as text: what was held, what it said, and what came of it.
func TestTranscripts(t *testing.T) {
	plain := func(_ Probe, e Evidence) Evidence { return e }
	invalid := func(when func(Probe) bool, spoil func(*Evidence)) func(Probe, Evidence) Evidence {
		return func(p Probe, e Evidence) Evidence {
			if when(p) {
				spoil(&e)
			}
			return e
		}
	}
	grown := func(e *Evidence) { e.Counts = []int{1, 1, 3} }
	slowClient := func(e *Evidence) { e.Client = sample.Client{CanaryN: 400, CanaryP99: 0.3, PSI: 0.7} }
	slo := Config{SLO: time.Second}
	for name, x := range map[string]struct {
		c        Config
		steps    *Steps
		answer   Answer
		evidence func(Probe, Evidence) Evidence
	}{
		"kokoro":      {c: Config{SLO: 3 * time.Second, CertifyHold: 70 * time.Second}, answer: kokoro(1)},
		"cliff":       {c: Config{SLO: 500 * time.Millisecond}, answer: cliff(150, 0.13, 18.8)},
		"none":        {c: slo, answer: steady(func(int) float64 { return 1.5 }, 0.05)},
		"lower-bound": {c: Config{SLO: time.Second, Max: 40}, answer: steady(func(int) float64 { return 0.2 }, 0.1)},
		"one-stream":  {c: slo, answer: Serial(0.7, 0.02, 0, rand.New(rand.NewPCG(1, 1)))},
		"overload-errors": {c: slo, answer: func() Answer {
			serial := Serial(0.01, 0.1, 0.002, rand.New(rand.NewPCG(1, 1)))
			return func(now float64, n int) (float64, float64, sample.Outcome) {
				if n > 50 {
					return 0, 0.02, sample.ServerError
				}
				return serial(now, n)
			}
		}()},
		// The client is bad once, the fleet grows at every rung of 58: retried, and then given up with its cause.
		"retried": {c: Config{SLO: 3 * time.Second}, answer: kokoro(2), evidence: func() func(Probe, Evidence) Evidence {
			first := true
			return invalid(func(p Probe) bool { was := first && p.N == 8; first = first && !was; return was }, slowClient)
		}()},
		"fleet-grows": {c: Config{SLO: 3 * time.Second}, answer: kokoro(3), evidence: invalid(func(p Probe) bool { return p.N > 40 }, grown)},
		// From the fourth rung on the engine is dead: 200 with no audio, at once.
		"broken": {c: slo, answer: func() Answer {
			serial := Serial(0.02, 0.1, 0.002, rand.New(rand.NewPCG(1, 1)))
			return func(now float64, n int) (float64, float64, sample.Outcome) {
				if n > 30 {
					return 0, 0.003, sample.Empty
				}
				return serial(now, n)
			}
		}()},
		// The machine gets hot: everything takes 40 % longer after half a minute.
		"heat": {c: Config{SLO: time.Second}, answer: func() Answer {
			cool, hot := Serial(0.02, 0.05, 0.002, rand.New(rand.NewPCG(1, 1))), Serial(0.028, 0.05, 0.002, rand.New(rand.NewPCG(1, 1)))
			return func(now float64, n int) (float64, float64, sample.Outcome) {
				if now > 30 && n < 40 {
					return hot(now, n)
				}
				return cool(now, n)
			}
		}()},
		"schedule": {c: Config{SLO: 3 * time.Second}, steps: &Published, answer: kokoro(1)},
		"schedule-saturated": {c: Config{SLO: 3 * time.Second}, steps: &Published, answer: func() Answer {
			serial := kokoro(1)
			return func(now float64, n int) (float64, float64, sample.Outcome) {
				if n > 25 {
					return 0, 1, sample.Rejected
				}
				return serial(now, n)
			}
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			var s Searcher = search(t, x.c)
			if x.steps != nil {
				sched, err := NewSchedule(x.c, *x.steps)
				if err != nil {
					t.Fatal(err)
				}
				s = sched
			}
			if x.evidence == nil {
				x.evidence = plain
			}
			var b bytes.Buffer
			write(&b, x.c, simulate(s, x.answer, x.evidence))
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes(), want) {
				t.Errorf("transcript differs from %s (run with -update to accept):\n%s", path, b.String())
			}
		})
	}
}

// The published endpoint, many times: 53 ± 1 within nine minutes, with rungs 1, p and p/2.
func TestKokoroIsFound(t *testing.T) {
	for seed := range uint64(40) {
		s := search(t, Config{SLO: 3 * time.Second, CertifyHold: 70 * time.Second})
		sim := Simulate(s, kokoro(seed+10))
		q := sim.Result.QMax
		if q == nil || *q < 52 || *q > 54 {
			t.Errorf("seed %d: Q_max %v (%s), want 53 ± 1", seed, q, sim.Result.Reason)
			continue
		}
		if sim.Wall > 9*time.Minute {
			t.Errorf("seed %d: took %s, want at most 9 minutes", seed, sim.Wall)
		}
		if p := sim.Result.ProbePair; len(p) != 2 || p[0] != 2*p[1] || p[0]%2 != 0 {
			t.Errorf("seed %d: probe pair %v", seed, p)
		}
		if fail := sim.Result.Bracket.Fail; fail <= *q || fail > 56 {
			t.Errorf("seed %d: bracket %+v of Q_max %d", seed, sim.Result.Bracket, *q)
		}
		if x := sim.Result.Mu; math.Abs(x.Value-17.9) > 0.4 || x.Low == nil || *x.Low > x.Value {
			t.Errorf("seed %d: μ %+v", seed, x)
		}
	}
}

// The cliff of a real report: 0.13 s at 1 rps, 18.8 s at 2 rps, against 0.5 s. Q_max lies between, whatever throughput and
// errors say further up.
func TestCliffIsFoundAndNamed(t *testing.T) {
	sim := Simulate(search(t, Config{SLO: 500 * time.Millisecond}), cliff(150, 0.13, 18.8))
	q := sim.Result
	if q.QMax == nil || *q.QMax < 140 || *q.QMax > 150 {
		t.Fatalf("Q_max %v (%s), want just below 150", q.QMax, q.Reason)
	}
	if !q.Cliff || q.Bracket.Fail-q.Bracket.Pass > 8 || !strings.Contains(strings.Join(q.Warnings, " "), "margin") {
		t.Errorf("cliff %v, bracket %+v, warnings %q", q.Cliff, q.Bracket, q.Warnings)
	}
	serial := Simulate(search(t, Config{SLO: 3 * time.Second}), kokoro(1)).Result
	if serial.Cliff {
		t.Error("a serial server has no cliff")
	}

	// As a fixed ladder of the rates as given (N is twice the rate): 0.5, 1, 2, 3, 4.
	s, err := NewSchedule(Config{SLO: 500 * time.Millisecond}, Steps{Concurrency: []int{1, 2, 4, 6, 8}, Hold: 300 * time.Second, Window: 300 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	p95 := map[int]float64{1: 0.12, 2: 0.13, 4: 18.8, 6: 40, 8: 60}
	fixed := Simulate(s, func(_ float64, n int) (float64, float64, sample.Outcome) { return p95[n], p95[n], sample.OK }).Result
	if fixed.QMax == nil || *fixed.QMax != 2 || fixed.Bracket != (Bracket{Pass: 2, Fail: 4}) || !fixed.Cliff || fixed.Verdict != Bracketed {
		t.Errorf("the fixed ladder: Q_max %v, bracket %+v, cliff %v, %s; want 2 (1 rps), 2 to 4, a cliff", fixed.QMax, fixed.Bracket, fixed.Cliff, fixed.Verdict)
	}
}

// A search goes on from closed rungs, through JSON, as if it had never stopped.
func TestReplay(t *testing.T) {
	c := Config{SLO: 3 * time.Second}
	whole := search(t, c)
	rungs := Simulate(whole, kokoro(5)).Result.Rungs
	again := search(t, c)
	for i, r := range rungs {
		p, more := again.Next()
		if !more || p.Index != r.Index || p.N != r.N || p.Purpose != r.Purpose {
			t.Fatalf("rung %d: the resumed search wants %+v (%v), the first measured N = %d (%s)", i, p, more, r.N, r.Purpose)
		}
		if q, _ := again.Next(); q != p {
			t.Fatalf("asking twice gives %+v and %+v", p, q)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var back Rung
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if err := again.Replay(back); err != nil {
			t.Fatal(err)
		}
	}
	if _, more := again.Next(); more {
		t.Error("the resumed search wants more")
	}
	a, b := whole.Result(), again.Result()
	a.Rungs, b.Rungs = nil, nil
	if !reflect.DeepEqual(a, b) {
		t.Errorf("results differ:\n%+v\n%+v", a, b)
	}
	other := search(t, c)
	if err := other.Replay(rungs[1]); err == nil || !strings.Contains(err.Error(), "N = 1") {
		t.Errorf("a rung that is not asked for: %v", err)
	}
	if err := again.Replay(rungs[0]); err == nil {
		t.Error("a rung after the end must be refused")
	}
}

// Requests of a search that was cut short in a rung decide nothing.
func TestCloseWithoutRequests(t *testing.T) {
	s := search(t, Config{SLO: time.Second})
	for range tries {
		if _, more := s.Next(); !more {
			t.Fatal("an invalid rung is tried again")
		}
		if r := s.Close(Evidence{Ended: sample.Since(time.Minute)}); r.Valid || !strings.Contains(r.Cause, "no request completed in 1 min") {
			t.Fatalf("%+v", r)
		}
	}
	if _, more := s.Next(); more {
		t.Error("after three invalid rungs the search stops")
	}
	if q := s.Result(); q.Verdict != CannotTell || !strings.Contains(q.Reason, "invalid 3 times") {
		t.Errorf("%s: %s", q.Verdict, q.Reason)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := NewSearch(Config{Percentile: 101, Min: 5, Max: 4, Resolution: 2, Mark: "first-byte"})
	for _, want := range []string{"SLO", "percentile 101", "concurrency 5 to 4", "resolution 2", "first-byte"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
	for _, st := range []Steps{{}, {Concurrency: []int{0}}, {Concurrency: []int{1}, Hold: 1, Window: 2}, {Concurrency: []int{1}, Hold: 1, Window: 1, Idle: -1}} {
		if _, err := NewSchedule(Config{SLO: time.Second}, st); err == nil {
			t.Errorf("%+v is accepted", st)
		}
	}
}

func TestCombine(t *testing.T) {
	of := func(q int) Result {
		if q == 0 {
			return Result{Verdict: None, Reason: "even one is late"}
		}
		return Result{QMax: &q, Verdict: Certified, Bracket: Bracket{Pass: q, Fail: q + 1}, Warnings: []string{"noise"}}
	}
	one := Combine([]Result{of(50)})
	if *one.QMax != 50 || one.Warnings[0] != "noise" || len(one.PerRun) != 1 {
		t.Errorf("one pass: %+v", one)
	}
	three := Combine([]Result{of(50), of(40), of(45)})
	if *three.QMax != 40 || three.Bracket.Fail != 41 || !strings.Contains(strings.Join(three.Warnings, "; "), "differ by 25 % (50, 40, 45)") {
		t.Errorf("three passes: %d, %+v, %q", *three.QMax, three.Bracket, three.Warnings)
	}
	if w := strings.Join(Combine([]Result{of(50), of(49)}).Warnings, " "); strings.Contains(w, "differ") {
		t.Errorf("2 %% apart: %q", w)
	}
	gap := Combine([]Result{of(50), of(0), of(45)})
	if gap.QMax != nil || gap.Verdict != None || !strings.Contains(gap.Reason, "pass 2 of 3 gave no answer") || gap.PerRun[1] != nil {
		t.Errorf("a pass without an answer: %+v", gap)
	}
}

func TestEstimates(t *testing.T) {
	e, err := EstimateSearch(Config{SLO: 3 * time.Second, CertifyHold: 70 * time.Second}, 56*time.Millisecond)
	if err != nil || e.Wall < time.Minute || e.Wall > 9*time.Minute || e.MaxWall < e.Wall || e.MaxRequests < e.Requests || e.MaxProbes < e.Probes {
		t.Errorf("adaptive: %+v, %v", e, err)
	}
	p := EstimateSchedule(Published, 250*time.Millisecond)
	if p.Probes != 8 || p.Wall != 8*240*time.Second+7*30*time.Second || p.Requests != 216*240*4 {
		t.Errorf("published: %+v", p)
	}
}

// No search of a clean endpoint, however noisy its latency, may call a rung invalid.
func TestNoFalseAlarm(t *testing.T) {
	rungs := 0
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 9))
		sim := Simulate(search(t, Config{SLO: time.Second}), func(_ float64, n int) (float64, float64, sample.Outcome) {
			x := 0.02 * float64(n+4) * math.Exp(0.5*rng.NormFloat64())
			return x, x, sample.OK
		})
		for _, r := range sim.Result.Rungs {
			rungs++
			if !r.Valid {
				t.Errorf("seed %d: N = %d is invalid: %s", seed, r.N, r.Cause)
			}
		}
	}
	t.Logf("%d rungs", rungs)
}
