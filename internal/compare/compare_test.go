package compare

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/ladder"
	"loadline/internal/openloop"
	"loadline/internal/sample"
	"loadline/internal/sim"
	"loadline/internal/stat"
)

// The interval of a percentile holds it in about 95 of 100 draws, independent ones and such as have much in common with
// their neighbours; a dumb bootstrap of independent ones has about the same width.
func TestQuantileCoverage(t *testing.T) {
	for _, c := range []struct {
		name  string
		keep  float64 // of the neighbour
		least float64
	}{{"independent", 0, 0.93}, {"correlated", 0.7, 0.88}} {
		rng := rand.New(rand.NewPCG(1, 2))
		truth := math.Exp(1.6448536269514722) // p95 of a log-normal
		held, told := 0, 0
		const draws = 600
		for range draws {
			z := rng.NormFloat64()
			xs := make([]float64, 1000)
			for i := range xs {
				z = c.keep*z + math.Sqrt(1-c.keep*c.keep)*rng.NormFloat64()
				xs[i] = math.Exp(z)
			}
			e := quantile(xs, 95)
			if e.known {
				told++
				if e.low <= truth && truth <= e.high {
					held++
				}
			}
		}
		if told < draws*9/10 || float64(held) < c.least*float64(told) {
			t.Errorf("%s: %d of %d intervals hold the truth, %d told", c.name, held, told, draws)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	xs := make([]float64, 800)
	for i := range xs {
		xs[i] = math.Exp(rng.NormFloat64())
	}
	e := quantile(xs, 95)
	var again []float64
	for range 400 {
		draw := make([]float64, len(xs))
		for i := range draw {
			draw[i] = xs[rng.IntN(len(xs))]
		}
		again = append(again, stat.Percentile(stat.Sorted(draw), 95))
	}
	again = stat.Sorted(again)
	width := stat.Percentile(again, 97.5) - stat.Percentile(again, 2.5)
	if got := e.high - e.low; got < 0.7*width || got > 1.4*width {
		t.Errorf("interval %g wide, a bootstrap's is %g", got, width)
	}
}

// Two servers without a difference are told apart in few draws, and ones 20 % apart in most.
func TestDifference(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	draw := func(scale float64) *estimate {
		xs := make([]float64, 1500)
		for i := range xs {
			xs[i] = scale * (1 + rng.ExpFloat64())
		}
		return quantile(xs, 95)
	}
	wrong, seen := 0, 0
	for range 300 {
		if low, high := difference(*draw(1), *draw(1)); low > 0 || high < 0 {
			wrong++
		}
		if low, _ := difference(*draw(1), *draw(1.2)); low > 0 {
			seen++
		}
	}
	if wrong > 24 || seen < 200 {
		t.Errorf("%d of 300 differences where there is none, %d of 300 where there is", wrong, seen)
	}
}

func TestQuantileEdges(t *testing.T) {
	if e := quantile(nil, 95); e != nil {
		t.Errorf("of nothing: %+v", e)
	}
	if e := quantile([]float64{1, 2, 3}, 95); e.known {
		t.Errorf("three values: %+v", e)
	}
	xs := make([]float64, 200)
	for i := range xs {
		xs[i] = float64(i % 40)
		if i%15 == 0 {
			xs[i] = math.Inf(1)
		}
	}
	e := quantile(xs, 95)
	if !math.IsInf(e.value, 1) || !math.IsInf(e.high, 1) {
		t.Errorf("7 %% failed: %+v", e)
	}
	if low, high := difference(*e, *e); !math.IsInf(low, -1) || !math.IsInf(high, 1) {
		t.Errorf("infinite against infinite: %g to %g", low, high)
	}
}

func header() artifact.Header {
	return artifact.Header{RunID: "01A", CreatedAt: time.Unix(0, 0).UTC(), Settings: map[string]any{},
		Target: artifact.Target{Model: "m", Endpoint: "e", Variant: "v", Transport: "response-stream", Payload: "audio"}}
}

func record(qmax, pass, fail int, ms float64, seed uint64) Ladder {
	x, lo, hi := 17.9, 17.5, 18.3
	q := &artifact.QMax{Header: header(), SLOMS: 3000, Percentile: 95, SLOOn: "first-audio", QMax: &qmax,
		Certificate: &ladder.Certificate{Confidence: 0.95}, Bracket: ladder.Bracket{Pass: pass, Fail: fail},
		Mu: ladder.Interval{Value: x, Low: &lo, High: &hi, Source: "interval"}, Corpus: artifact.Corpus{ID: "default", CharsMean: 80},
		Rungs: []ladder.Rung{{N: 2, Valid: true, Samples: 1000, X: x, XLow: &lo, XHigh: &hi, EndedNS: 1e18}}}
	rng := rand.New(rand.NewPCG(seed, 0))
	l := Ladder{QMax: q}
	for i := range 1000 {
		r := sample.New(i)
		r.Started, r.Outcome = sample.Nanos(i*1e6), sample.OK
		r.FirstAudio = r.Started + sample.Nanos(ms*1e6*(0.5+rng.Float64()))
		r.End = r.FirstAudio
		l.Requests = append(l.Requests, r)
	}
	return l
}

func find(t *testing.T, r *Report, what string) Shift {
	t.Helper()
	for _, s := range r.Shifts {
		if strings.Contains(s.What, what) {
			return s
		}
	}
	t.Fatalf("no shift of %q in %+v", what, r.Shifts)
	return Shift{}
}

func TestLadders(t *testing.T) {
	r, err := Ladders(record(50, 50, 60, 100, 1), record(30, 30, 40, 150, 2))
	if err != nil {
		t.Fatal(err)
	}
	if s := find(t, r, "Q_max"); s.Says != Lower || *s.Shift != -20 || *s.High != -10 || *s.Low != -30 {
		t.Errorf("Q_max: %+v", s)
	}
	if s := find(t, r, "p95 at N = 2"); s.Says != Higher || *s.Shift < 60 || *s.Shift > 90 || *s.Low < 50 || s.Better != BetterDown {
		t.Errorf("p95: %+v", s)
	}
	if s := find(t, r, "completions at N = 2"); s.Says != NoShift {
		t.Errorf("throughput: %+v", s)
	}
	// Brackets that touch decide, ones that overlap do not, and one that never failed is open.
	for _, c := range []struct {
		pass, fail int
		want       string
	}{{60, 70, Higher}, {55, 65, NoShift}, {50, 60, NoShift}, {40, 50, Lower}, {60, 0, Higher}, {40, 0, NoShift}} {
		r, err := Ladders(record(50, 50, 60, 100, 1), record(c.pass, c.pass, c.fail, 100, 2))
		if err != nil {
			t.Fatal(err)
		}
		if s := r.Shifts[0]; s.Says != c.want {
			t.Errorf("bracket %d to %d: %s, want %s", c.pass, c.fail, s.Says, c.want)
		}
	}
	// Without logs the percentile cannot be told.
	a, b := record(50, 50, 60, 100, 1), record(50, 50, 60, 100, 1)
	p := 120.0
	a.Requests, a.Rungs[0].P95, b.Rungs[0].P95 = nil, &p, &p
	if r, err = Ladders(a, b); err != nil {
		t.Fatal(err)
	}
	if s := find(t, r, "p95 at"); s.Says != CannotTell || s.Shift == nil {
		t.Errorf("without a log: %+v", s)
	}
}

func TestRefused(t *testing.T) {
	a, b := record(50, 50, 60, 100, 1), record(50, 50, 60, 100, 1)
	b.SLOMS, b.Corpus.ID, b.Target.Transport = 300, "clips", "invoke"
	_, err := Ladders(a, b)
	var d *DifferentError
	if !errors.As(err, &d) || len(d.Lines) != 3 {
		t.Errorf("refused with %v", err)
	}
	p, q := &artifact.Plan{Header: header(), Rule: "flow"}, &artifact.Plan{Header: header(), Rule: "flow"}
	q.Scenario.PeakRPS = 7
	if _, err := Plans(p, q); !errors.As(err, &d) {
		t.Errorf("plans of two peaks: %v", err)
	}
	s := func(seed uint64) *artifact.Simulation {
		return &artifact.Simulation{Header: header(), Runs: []artifact.SimulationRun{{Result: sim.Result{Mode: sim.ModeFluid, Workload: sim.Workload{Seed: seed, Digest: "d"}}}}}
	}
	if _, err := Simulations(s(1), s(2)); !errors.As(err, &d) {
		t.Errorf("simulations of two seeds: %v", err)
	}
}

func TestOpenLadders(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	l := func(p95 float64, rates ...float64) OpenLadder {
		r := &artifact.Rates{Header: header(), SLOMS: 3000, Percentile: 95}
		for _, rate := range rates {
			r.Rungs = append(r.Rungs, openloop.Rung{Rate: rate, Valid: true, Samples: 500, Late: 5, NEff: 300, P95: v(p95), P95Low: v(0.95 * p95), P95High: v(1.06 * p95)})
		}
		return OpenLadder{Rates: r}
	}
	r, err := OpenLadders(l(100, 5, 10, 15), l(200, 5.01, 11, 15))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Shifts) != 4 || len(r.Missing) != 2 || r.Shifts[0].Says != Higher || r.Shifts[1].Says != NoShift {
		t.Errorf("%+v\n%v", r.Shifts, r.Missing)
	}
}

func TestScaleOuts(t *testing.T) {
	l := func(runs ...float64) *artifact.TTotal {
		return &artifact.TTotal{Header: header(), Trigger: "force-desired", TTotal: runs[0], Runs: runs,
			Durations: []artifact.Duration{{From: "desired_set", To: "ready", Seconds: runs[0]}}}
	}
	r, err := ScaleOuts(l(300, 305, 298), l(200, 210, 203))
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Shifts[0]; s.Says != Lower {
		t.Errorf("three runs each: %+v", s)
	}
	if r, err = ScaleOuts(l(300), l(200)); err != nil {
		t.Fatal(err)
	}
	if r.Told() || *r.Shifts[0].Shift != -100 {
		t.Errorf("one run each: %+v", r.Shifts[0])
	}
}

func TestSimulations(t *testing.T) {
	l := func(mode string, late float64) *artifact.Simulation {
		res := sim.Result{Mode: mode, InstanceHours: 10 + late, Workload: sim.Workload{Digest: "d"}}
		for i := range 200 {
			x := 0.0
			if i%4 == 0 {
				x = late
			}
			res.Timeline = append(res.Timeline, sim.Point{At: float64(i), Late: x})
			res.Late += x
		}
		return &artifact.Simulation{Header: header(), Runs: []artifact.SimulationRun{{Result: res}}}
	}
	for _, mode := range []string{sim.ModeFluid, sim.ModeRequests} {
		r, err := Simulations(l(mode, 1), l(mode, 3))
		if err != nil {
			t.Fatal(err)
		}
		if s := find(t, r, "late"); s.Says != Higher || *s.Shift != 100 {
			t.Errorf("%s: %+v", mode, s)
		}
		if s := find(t, r, "instance-hours"); s.Says != Higher || *s.Low != 2 || *s.High != 2 {
			t.Errorf("%s: %+v", mode, s)
		}
	}
}

// What a search took for passed or missed on its way may be chance: two ladders that certify the same do not differ.
func TestBracketsOfOneTruth(t *testing.T) {
	r, err := Ladders(record(51, 53, 55, 100, 1), record(51, 51, 52, 100, 2))
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Shifts[0]; s.Says != NoShift || *s.Low != -4 || *s.High != 1 {
		t.Errorf("%+v", s)
	}
}
