package ladder

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"loadline/internal/sample"
)

func config(t *testing.T, slo time.Duration) Config {
	t.Helper()
	c, err := Config{SLO: slo}.filled()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// held is a closed loop of n streams whose requests take the given times one after another, in order of completion.
func held(n int, seconds ...float64) []sample.Request {
	free := make([]float64, n)
	var rs []sample.Request
	for i, s := range seconds {
		r := sample.New(i)
		r.Worker = i % n
		r.Intended = sample.Nanos(free[i%n] * 1e9)
		r.Started = r.Intended
		free[i%n] += s
		r.End = sample.Nanos(free[i%n] * 1e9)
		r.FirstAudio, r.FirstAudible, r.Audio, r.Chars, r.Outcome = r.End, r.End, 1.6, 25, sample.OK
		rs = append(rs, r)
	}
	slices.SortStableFunc(rs, func(a, b sample.Request) int { return int(a.End - b.End) })
	return rs
}

func failed(r *sample.Request, o sample.Outcome, cause string) {
	r.Outcome, r.Cause, r.FirstAudio, r.FirstAudible, r.Audio = o, cause, sample.None, sample.None, 0
}

func judge(c Config, n int, rs []sample.Request, e Evidence) Rung {
	return Judge(c, Probe{N: n, Purpose: Scheduled}, rs, 0, rs[len(rs)-1].End, e)
}

func repeat(n int, x float64) []float64 { return slices.Repeat([]float64{x}, n) }

// Failures make the survivors look fast: they count as infinitely late.
func TestFailuresAreLate(t *testing.T) {
	c := config(t, 40*time.Second)
	x := held(20, repeat(20, 18.429)...)
	for i := range x[:16] {
		failed(&x[i], sample.Timeout, "ping timeout")
	}
	r := judge(c, 20, x, Evidence{})
	if r.Verdict != Fail || !r.Valid || r.P95 != nil || !slices.Contains(r.Infinite, "p95_ms") {
		t.Errorf("16 of 20 failed: %+v, want a valid failure with an infinite p95", r)
	}
	if r.OKP95 == nil || *r.OKP95 != 18429 || r.Late != 16 || r.Outcomes["timeout"] != 16 || r.Causes["ping timeout"] != 16 {
		t.Errorf("the survivors' p95 and the causes are shown apart: %+v", r)
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"p95_ms":null`) {
		t.Errorf("JSON carries no infinity: %s, %v", text, err)
	}

	y := held(20, append(repeat(18, 30), 34.838, 34.838)...)
	if r := judge(c, 20, y, Evidence{}); r.Verdict != Pass || math.Abs(*r.P95-34838) > 1e-6 || r.OKP95 != nil {
		t.Errorf("all 20 finished: %+v, want judged at 34.838 s", r)
	}
	if r := judge(config(t, 30*time.Second), 20, y, Evidence{}); r.Verdict != Fail {
		t.Errorf("34.838 s against 30 s: %s", r.Verdict)
	}
}

// A rung with a few failures cannot pass, and brackets nothing.
func TestFewFailuresDecideNothing(t *testing.T) {
	rs := held(4, repeat(200, 0.1)...)
	failed(&rs[50], sample.ServerError, "500")
	r := judge(config(t, time.Second), 4, rs, Evidence{})
	if r.Verdict != Undecided || !r.Valid || !strings.Contains(r.Cause, "1 of 200 requests failed (mostly server_error)") {
		t.Errorf("one failure of 200: %s, valid %v, %q", r.Verdict, r.Valid, r.Cause)
	}
}

// Replies that carried nothing are failures with their reasons, and no throughput.
func TestEmptyReplies(t *testing.T) {
	c := config(t, time.Second)
	arms := map[string]struct {
		from    int
		outcome sample.Outcome
		cause   string
	}{
		"no audio":    {40, sample.Empty, "no audio bytes"},
		"header only": {40, sample.Empty, "WAV header and nothing after it"},
		"all 404":     {0, sample.ClientError, "404 Not Found"},
		"JSON error":  {40, sample.ProtocolError, "a JSON error under audio/wav"},
	}
	for name, arm := range arms {
		rs := held(1, append(repeat(arm.from, 0.2), repeat(100-arm.from, 0.003)...)...)
		for i := arm.from; i < len(rs); i++ {
			failed(&rs[i], arm.outcome, arm.cause)
		}
		r := judge(c, 1, rs, Evidence{})
		span := float64(r.EndedNS-r.StartedNS) / 1e9
		if r.Verdict == Pass || r.Causes[arm.cause] == 0 || math.Abs(r.X*span-float64(r.OK)) > 1e-6 || r.Tries <= r.X {
			t.Errorf("%s: verdict %s, causes %v, %.1f of %.1f a second", name, r.Verdict, r.Causes, r.X, r.Tries)
		}
	}
}

func TestWarmUpIsCutAndReported(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var xs []float64
	for i := range 100 {
		x := 0.08
		if i < 20 {
			x = 31
		}
		xs = append(xs, x*(1+0.02*rng.NormFloat64()))
	}
	r := judge(config(t, 500*time.Millisecond), 1, held(1, xs...), Evidence{})
	if r.Verdict != Pass || !r.Valid || r.WarmupS < 600 || r.Samples != 80 {
		t.Errorf("31 s at first, then 0.08 s: %+v, want the first 20 cut as warm-up", r)
	}
}

func TestWorseningIsNotSteady(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	fifths := func(scale float64) []sample.Request {
		var xs []float64
		for _, x := range []float64{0.30, 0.31, 0.34, 0.40, 0.52} {
			for range 20 {
				xs = append(xs, scale*x*(1+0.02*rng.NormFloat64()))
			}
		}
		return held(1, xs...)
	}
	c := config(t, 500*time.Millisecond)
	if r := judge(c, 1, fifths(1), Evidence{}); r.Verdict != Fail || !r.Valid || !strings.Contains(strings.Join(r.Warnings, ""), "not steady") {
		t.Errorf("rising through the objective: %s %q %q, want a failure judged by its last part", r.Verdict, r.Cause, r.Warnings)
	}
	if r := judge(c, 1, fifths(0.9), Evidence{}); r.Valid || !strings.Contains(r.Cause, "went up") {
		t.Errorf("rising towards the objective: valid %v, %q, want not steady", r.Valid, r.Cause)
	}
	if r := judge(c, 1, fifths(0.1), Evidence{}); r.Verdict != Pass || !strings.Contains(strings.Join(r.Warnings, ""), "far below") {
		t.Errorf("rising far below the objective: %s %q %q, want a pass with a warning", r.Verdict, r.Cause, r.Warnings)
	}
}

func TestEvidenceMakesInvalid(t *testing.T) {
	c := config(t, time.Second)
	steady := func() []sample.Request { return held(4, repeat(200, 0.1)...) }
	if r := judge(c, 4, steady(), Evidence{Counts: []int{1, 1, 1}}); !r.Valid || r.Verdict != Pass {
		t.Fatalf("a clean rung: %s, %q", r.Verdict, r.Cause)
	}
	faulty := steady()
	failed(&faulty[10], sample.ClientFault, "cannot assign requested address")
	rising := make([]float64, 30)
	for i := range rising {
		rising[i] = float64(i)
	}
	var idle []sample.Request // of four streams one stops half way
	for _, r := range steady() {
		if r.Worker != 3 || r.End < sample.Since(2500*time.Millisecond) {
			idle = append(idle, r)
		}
	}
	idle[len(idle)-1].Worker = 3
	for name, x := range map[string]struct {
		rs   []sample.Request
		e    Evidence
		want string
	}{
		"fleet grew":   {steady(), Evidence{Counts: []int{1, 1, 3}}, "instance count changed"},
		"client fault": {faulty, Evidence{}, "cannot assign requested address"},
		"queue grows":  {steady(), Evidence{Queue: rising}, "queue went up"},
		"client bound": {steady(), Evidence{Client: sample.Client{CanaryN: 100, CanaryP99: 0.2}}, "client-bound"},
		"idle stream":  {idle, Evidence{}, "Little's law"},
	} {
		r := judge(c, 4, x.rs, x.e)
		if r.Valid || r.Verdict != Undecided || !strings.Contains(r.Cause, x.want) {
			t.Errorf("%s: valid %v, %s, %q, want %q", name, r.Valid, r.Verdict, r.Cause, x.want)
		}
	}
	if r := Judge(c, Probe{N: 4}, nil, 0, sample.Since(time.Minute), Evidence{}); r.Valid || !strings.Contains(r.Cause, "no request") {
		t.Errorf("no request: %v %q", r.Valid, r.Cause)
	}
}

// A pause after a failure is the generator's manners, not a missing stream.
func TestPauseAfterFailureIsNotIdle(t *testing.T) {
	rs := held(1, repeat(100, 0.1)...)
	for i := range rs {
		shift := sample.Since(time.Duration(i) * 50 * time.Millisecond)
		rs[i].Started, rs[i].Intended, rs[i].End = rs[i].Started+shift, rs[i].Intended+shift, rs[i].End+shift
		failed(&rs[i], sample.Rejected, "queue_saturated")
	}
	if r := judge(config(t, time.Second), 1, rs, Evidence{}); !r.Valid || r.Verdict != Fail || r.Little > 0.01 {
		t.Errorf("all refused, with pauses: valid %v, %s, little %.3f, %q", r.Valid, r.Verdict, r.Little, r.Cause)
	}
}

func TestClientBound(t *testing.T) {
	const slo = 300 * time.Millisecond // lateness up to 3 ms, echo up to 15 ms
	for name, x := range map[string]struct {
		c      sample.Client
		n      int
		missed bool
		want   string // "": fine
	}{
		"quiet":                        {sample.Client{LatenessP99: 0.0005, CanaryP99: 0.001, CanaryN: 100, InFlight: 10, Reused: 1}, 10, true, ""},
		"busy but on time":             {sample.Client{LatenessP99: 0.002, CanaryP99: 0.01, CanaryN: 100, CPU: 0.95, PSI: 0.6, SchedP99: 0.004, InFlight: 10}, 10, true, ""},
		"late dispatch":                {sample.Client{LatenessP99: 0.004, CPU: 0.99}, 10, true, "99 % of its processors"},
		"late dispatch in a short SLO": {sample.Client{LatenessP99: 0.0009}, 10, true, ""},
		"slow echo":                    {sample.Client{CanaryP99: 0.02, CanaryN: 100, GCPauseMax: 0.01}, 10, false, "garbage collection"},
		"one slow echo of few":         {sample.Client{CanaryP99: 0.02, CanaryN: 5}, 10, false, ""},
		"competitor":                   {sample.Client{LatenessP99: 0.05, PSI: 0.5}, 10, false, "others compete"},
		"throttled":                    {sample.Client{LatenessP99: 0.05, Throttled: 12}, 10, false, "throttled this process 12 times"},
		"descriptors":                  {sample.Client{LatenessP99: 0.05, Descriptors: 0.99}, 10, false, "99 % of the file descriptors"},
		"connection cap":               {sample.Client{ConnWaitP99: 0.1, InFlight: 10}, 50, true, "requests waited for a connection"},
		"stream cap":                   {sample.Client{ConnWaitP99: 0.4, Streams: 10, InFlight: 10}, 50, true, "10 HTTP/2 streams"},
		"held back":                    {sample.Client{InFlight: 10}, 50, true, "10.0 of 50 requests were in flight"},
		"backing off":                  {sample.Client{InFlight: 10, BackingOff: 38}, 50, true, ""},
		"joining over a service time":  {sample.Client{InFlight: 42}, 50, true, ""},
		"no reuse, missed":             {sample.Client{Conns: 160, Reused: 0.2}, 10, true, "160 connections were dialled for 10 streams"},
		"no reuse, met":                {sample.Client{Conns: 160, Reused: 0.2}, 10, false, ""},
		"first dial of many":           {sample.Client{Conns: 700, Reused: 0.1}, 700, true, ""},
	} {
		got := ClientBound(x.c, x.n, slo, x.missed)
		if (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// One hiccup in a short rung is not the client's 99th percentile.
func TestHiccupIsNotClientBound(t *testing.T) {
	c := config(t, 300*time.Millisecond)
	rs := held(2, repeat(60, 0.05)...)
	late := func(n int) {
		for i := range rs[:n] {
			rs[i].Intended = rs[i].Started - sample.Since(8*time.Millisecond)
		}
	}
	for i := range rs {
		shift := sample.Since(time.Second)
		rs[i].Intended, rs[i].Started, rs[i].FirstAudio, rs[i].End = rs[i].Intended+shift, rs[i].Started+shift, rs[i].FirstAudio+shift, rs[i].End+shift
	}
	e := Evidence{Client: sample.Client{LatenessP99: 0.008}}
	judged := func() Rung {
		return Judge(c, Probe{N: 2}, rs, sample.Since(time.Second), rs[len(rs)-1].End, e)
	}
	late(2)
	if r := judged(); !r.Valid {
		t.Errorf("two late of 60: %q", r.Cause)
	}
	late(10)
	if r := judged(); r.Valid {
		t.Error("ten late of 60: want client-bound")
	}
}

func ExampleJudge() {
	c, _ := Config{SLO: time.Second}.filled()
	r := judge(c, 2, held(2, repeat(100, 0.25)...), Evidence{})
	fmt.Println(r.Verdict, *r.P95, "ms", r.X, "a second")
	// Output: pass 250 ms 8 a second
}
