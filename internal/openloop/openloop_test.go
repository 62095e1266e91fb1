package openloop

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"loadline/internal/ladder"
	"loadline/internal/queueing"
	"loadline/internal/sample"
)

var cfg = Config{SLO: 3 * time.Second, Percentile: 95, Mark: sample.OnFirstAudio}

// serial is a server of 18 a second whose service hardly varies.
var serial = Server{Chain: queueing.Chain{Mu: []float64{18}, Stages: queueing.MaxStages}, Most: 18}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 9)) }

func step(t *testing.T, share float64, held time.Duration, seed uint64) Step {
	t.Helper()
	p, err := NewStep(0, share, serial, held, rng(seed))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serve is what a serial server does to arrivals; from stallAt on it answers nothing for a while.
func serve(at []time.Duration, service, stallAt, stall time.Duration) []sample.Request {
	var rs []sample.Request
	free := time.Duration(0)
	for i, a := range at {
		begin := max(a, free)
		if begin < stallAt+stall && begin+service > stallAt && stall > 0 {
			begin = max(begin, stallAt+stall)
		}
		free = begin + service
		r := sample.New(i)
		r.Intended, r.Started, r.FirstAudio, r.End, r.Outcome = sample.Since(a), sample.Since(a), sample.Since(free-time.Millisecond), sample.Since(free), sample.OK
		rs = append(rs, r)
	}
	return rs
}

const service = time.Second / 18

// What is in flight is what the chain says, once what this draw has by chance is taken out.
func TestOccupancy(t *testing.T) {
	for _, share := range []float64{0.5, 0.7, 0.9} {
		p := step(t, share, 4*time.Minute, 3)
		r := Judge(cfg, p, Sent{Planned: len(p.At)}, serve(p.At, service, 0, 0))
		want := share + share*share/(2*(1-share)) // M/D/1 (Pollaczek and Khinchine)
		if !r.Valid || r.Verdict != ladder.Pass || r.Adjusted == nil || math.Abs(*r.Adjusted-want) > 0.1*want {
			t.Errorf("at %g: mean %.3f, adjusted %v, M/D/1 %.3f; %s %s", share, r.Mean, *r.Adjusted, want, r.Verdict, r.Cause)
		}
		if math.Abs(*r.Drawn-r.Mean) > 0.02*r.Mean {
			t.Errorf("at %g: the same arrivals at the same server hold %.3f and %.3f", share, *r.Drawn, r.Mean)
		}
		if r.TenMax < r.Mean || r.TenMax > float64(r.Max) || r.Law.P < 0.001 {
			t.Errorf("maxima %.2f and %d, law %+v", r.TenMax, r.Max, r.Law)
		}
		if r.P95Low != nil && (*r.P95Low > *r.P95 || *r.P95High < *r.P95) {
			t.Errorf("p95 %.0f outside of %.0f to %.0f", *r.P95, *r.P95Low, *r.P95High)
		}
	}
}

// A server that stalls for ten seconds is late for one request of a closed loop, and for every one that should have been
// sent meanwhile of an open loop.
func TestStallIsSeen(t *testing.T) {
	const stallAt, stall = 60 * time.Second, 10 * time.Second
	p := step(t, 0.5, 2*time.Minute, 5)
	r := Judge(cfg, p, Sent{Planned: len(p.At)}, serve(p.At, service, stallAt, stall))
	if r.Late < 60 || r.Verdict != ladder.Fail || *r.P95 < 3000 {
		t.Errorf("open loop: %d of %d late, p95 %.0f ms, %s", r.Late, r.Samples, *r.P95, r.Verdict)
	}
	// One stream that sends the next request when the last has ended: it waits with the server.
	late, n, now := 0, 0, time.Duration(0)
	for now < p.Profile.Len() {
		end := now + service
		if now < stallAt+stall && end > stallAt {
			end = stallAt + stall + service
		}
		if end-now > cfg.SLO {
			late++
		}
		n, now = n+1, end
	}
	if float64(late) > 0.05*float64(n) {
		t.Errorf("the closed loop sees it: %d of %d late", late, n)
	}
}

func TestInvalid(t *testing.T) {
	p := step(t, 0.5, time.Minute, 1)
	for says, change := range map[string]func(*Sent, []sample.Request) []sample.Request{
		"12 of 34":       func(s *Sent, rs []sample.Request) []sample.Request { s.Invalid = "12 of 34 were not sent"; return rs },
		"instance count": func(s *Sent, rs []sample.Request) []sample.Request { s.Counts = []int{1, 2}; return rs },
		"sent late":      func(s *Sent, rs []sample.Request) []sample.Request { s.Client.LatenessP99 = 0.5; return rs },
		"client fault": func(s *Sent, rs []sample.Request) []sample.Request {
			rs[9].Outcome = sample.ClientFault
			return rs
		},
		"not what was drawn": func(_ *Sent, rs []sample.Request) []sample.Request {
			for i := range rs { // bursts, every second
				rs[i].Started = rs[i].Started/1e9*1e9 + 1e9
			}
			return rs
		},
		"too few": func(_ *Sent, rs []sample.Request) []sample.Request { return rs[:3] },
	} {
		s := Sent{Planned: len(p.At)}
		rs := change(&s, serve(p.At, service, 0, 0))
		if r := Judge(cfg, p, s, rs); r.Valid || r.Verdict != ladder.Undecided || !strings.Contains(r.Cause, says) {
			t.Errorf("want a cause that says %q: %v %s %q", says, r.Valid, r.Verdict, r.Cause)
		}
	}
}

// Failures count as late, and beyond μ the queue grows and is said to.
func TestFailuresAndOverload(t *testing.T) {
	p := step(t, 0.5, time.Minute, 2)
	rs := serve(p.At, service, 0, 0)
	for i := range rs {
		if i%10 == 0 {
			rs[i].Outcome, rs[i].FirstAudio = sample.Rejected, sample.None
		}
	}
	r := Judge(cfg, p, Sent{}, rs)
	if r.Verdict != ladder.Fail || r.P95 != nil || !slices.Contains(r.Infinite, "p95_ms") || r.Outcomes["rejected"] < 40 {
		t.Errorf("%s, p95 %v, %v, %v", r.Verdict, r.P95, r.Infinite, r.Outcomes)
	}
	p = step(t, 1.3, time.Minute, 2)
	if r = Judge(cfg, p, Sent{}, serve(p.At, service, 0, 0)); r.Predicted != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "queue grows") {
		t.Errorf("predicted %v, %v", r.Predicted, r.Warnings)
	}
}

func TestNewStep(t *testing.T) {
	a, b := step(t, 0.8, time.Minute, 7), step(t, 0.8, time.Minute, 7)
	if !slices.Equal(a.At, b.At) || a.WarmUp <= 0 || a.Profile.Len() != a.WarmUp+time.Minute {
		t.Errorf("one seed draws two schedules, or no warm-up: %v", a.WarmUp)
	}
	if _, err := NewStep(0, 0, serial, time.Minute, rng(1)); err == nil {
		t.Error("a rate of nothing")
	}
	if h := Held(0.5, 18); h < 30*time.Second || h >= Held(0.9, 18) || Held(0.99, 0.001) != 15*time.Minute {
		t.Errorf("held %s at half of μ", h)
	}
}

// The intervals of the 95th percentile hold it as often as they say.
func TestBounds(t *testing.T) {
	inside, r := 0, rng(4)
	const trials = 400
	for range trials {
		xs := make([]float64, 500)
		for i := range xs {
			xs[i] = r.ExpFloat64()
		}
		sorted := slices.Sorted(slices.Values(xs))
		low, high, ok := bounds(xs, sorted[474])
		at := func(share float64) float64 { return sorted[int(share*499)] }
		if truth := -math.Log(0.05); ok && at(low) <= truth && truth <= at(high) {
			inside++
		}
	}
	if share := float64(inside) / trials; share < 0.9 {
		t.Errorf("the interval holds the percentile in %.3f of the draws", share)
	}
	if _, _, ok := bounds(make([]float64, 20), 1); ok {
		t.Error("20 values bound a 95th percentile")
	}
}
