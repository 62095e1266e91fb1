package proof

import (
	"math"
	"strings"
	"testing"
	"time"

	"loadline/internal/capacity"
	"loadline/internal/openloop"
	"loadline/internal/sample"
)

// requests is n of one outcome, each of this latency.
func requests(n int, o sample.Outcome, latency time.Duration) []sample.Request {
	rs := make([]sample.Request, n)
	for i := range rs {
		r := sample.New(i)
		r.Intended = sample.Since(time.Duration(i) * 10 * time.Millisecond)
		r.Started, r.End, r.Outcome = r.Intended, r.Intended+sample.Since(latency), o
		if o == sample.OK {
			r.FirstAudio = r.End
		}
		rs[i] = r
	}
	return rs
}

func growth(rs ...[]sample.Request) Growth {
	g := Growth{From: 2, To: 3, Before: 200 * time.Second, Seen: 210 * time.Second, Lasted: 400 * time.Second, SLO: 3 * time.Second, Percentile: 95, Mark: sample.OnFirstAudio, Epsilon: 0.01}
	for _, r := range rs {
		g.Requests = append(g.Requests, r...)
	}
	return g
}

func TestChecks(t *testing.T) {
	fine := requests(1000, sample.OK, time.Second)
	held := func(rs ...[]sample.Request) (h Held) {
		h = Held{N: 60, Bound: 50, For: 10 * time.Second}
		for _, r := range rs {
			h.Requests = append(h.Requests, r...)
		}
		return h
	}
	never := growth(fine)
	never.Seen, never.Before = 0, 0
	decided := growth(fine)
	decided.Seen, decided.Before, decided.Decided = 300*time.Second, 290*time.Second, 260*time.Second
	slow := growth(fine)
	slow.Seen, slow.Before = 320*time.Second, 310*time.Second
	broken := growth(requests(1000, sample.OK, 4*time.Second))
	broken.Invalid = "3 of 1000 arrivals were not sent"
	bursts := growth(fine, requests(40, sample.Rejected, 0), requests(1, sample.OK, 4*time.Second))
	bursts.Slow = "client-bound: requests were sent late"
	unsent := growth(fine, requests(40, sample.Rejected, 0))
	unsent.Invalid = "3 of 1000 arrivals were not sent"
	unheld := held(fine)
	unheld.Invalid = "3.0 of 45 were held"
	ms := func(v float64) *float64 { return &v }
	rung := func(p95 *float64, v string, late, ok int, cause string) openloop.Rung {
		r := openloop.Rung{Rate: 12.9, P95: p95, Samples: 400, OK: ok, Late: late, Valid: cause == "", Cause: cause, EndedNS: 3e10}
		if r.Valid {
			if r.Verdict = "pass"; v != "" {
				r.Verdict = "fail"
			}
		}
		if n := 400 - ok; n > 0 {
			r.Outcomes = map[string]int{"rejected": n}
		}
		return r
	}
	slo := 3 * time.Second
	for _, tt := range []struct {
		name string
		c    Check
		want capacity.Verdict
		says string
	}{
		{"rate holds", Rate(rung(ms(180), "", 0, 400, ""), slo, 95), capacity.OK, "0 of 400 late"},
		{"rate missed", Rate(rung(nil, "fail", 90, 310, ""), slo, 95), capacity.Stop, "90 refused"},
		{"rate missed, client slow too", Rate(rung(nil, "", 90, 310, "client-bound: requests were sent late"), slo, 95), capacity.Stop, "90 refused"},
		{"client slow, and it holds with that", Rate(rung(ms(180), "", 0, 400, "client-bound: requests were sent late"), slo, 95), capacity.OK, ""},
		{"client slow, and it does not", Rate(rung(ms(3800), "", 40, 400, "client-bound: requests were sent late"), slo, 95), capacity.NotChecked, "client-bound"},
		{"rate, nothing completed", Rate(rung(nil, "", 400, 0, "client-bound"), slo, 95), capacity.Stop, "no request of 400"},
		{"below", Under(held(fine)), capacity.OK, "none of 1000"},
		{"below, one refused", Under(held(fine, requests(1, sample.Rejected, 0))), capacity.Stop, "1 refused"},
		{"below, a server error", Under(held(fine, requests(2, sample.ServerError, 0))), capacity.Stop, "2 server_error"},
		{"below, not held", Under(unheld), capacity.NotChecked, "were held"},
		{"below, nothing at all", Under(held()), capacity.Stop, "no request of 0"},
		{"above", Over(held(fine, requests(200, sample.Rejected, 20*time.Millisecond)), 300*time.Millisecond), capacity.OK, "200 of 1200 refused"},
		{"above, slow to refuse", Over(held(fine, requests(200, sample.Rejected, 2*time.Second)), 300*time.Millisecond), capacity.Stop, "waits to be told no"},
		{"above, unbounded", Over(held(fine), 300*time.Millisecond), capacity.Stop, "not bounded"},
		{"above, time-outs beside", Over(held(fine, requests(200, sample.Rejected, 0), requests(1, sample.Timeout, time.Minute)), 300*time.Millisecond), capacity.Stop, "1 timeout"},
		{"above, all refused", Over(held(requests(200, sample.Rejected, 0)), 300*time.Millisecond), capacity.Stop, "no request"},
		{"grew", Grew(growth(fine), 220*time.Second), capacity.OK, "from 2 to 3 instances"},
		{"grew late", Grew(slow, 220*time.Second), capacity.Stop, "after 320 s"},
		{"grew late by the scaler's own time", Grew(decided, 220*time.Second), capacity.Stop, "after 260 s"},
		{"never grew", Grew(never, 220*time.Second), capacity.Stop, "do not see this load"},
		{"grew, and nothing was answered", Grew(growth(requests(1000, sample.Timeout, time.Minute)), 220*time.Second), capacity.Stop, "1000 timeout"},
		{"survived", Survived(growth(fine, requests(20, sample.OK, 4*time.Second))), capacity.OK, "20 late and 0 refused"},
		{"late in the surge", Survived(growth(fine, requests(100, sample.OK, 4*time.Second))), capacity.Stop, "100 late"},
		{"refused within the objective's share", Survived(growth(fine, requests(40, sample.Rejected, 0))), capacity.OK, "0 late and 40 refused of 1040"},
		{"refused beyond the plan's", Refused(growth(fine, requests(40, sample.Rejected, 0))), capacity.Stop, "3.85 % were refused"},
		{"refused beyond the plan's, by chance", Refused(growth(fine, requests(14, sample.Rejected, 0))), capacity.OK, "14 of 1014 refused"},
		{"refused of bursts", Refused(bursts), capacity.NotChecked, "client-bound"},
		{"refused of a load that was not sent", Refused(unsent), capacity.NotChecked, "not sent"},
		{"nothing refused, nothing completed", Refused(growth(requests(1000, sample.Timeout, time.Minute))), capacity.Stop, "no request of 1000"},
		{"late with a broken client", Survived(broken), capacity.NotChecked, "not sent"},
		{"nothing survived", Survived(growth(requests(1000, sample.Rejected, 0))), capacity.Stop, "no request"},
	} {
		if tt.c.Verdict != tt.want || !strings.Contains(tt.c.Detail, tt.says) {
			t.Errorf("%s: %s, %q: want %s, %q", tt.name, tt.c.Verdict, tt.c.Detail, tt.want, tt.says)
		}
		if l, h, m := tt.c.Low, tt.c.High, tt.c.Measured; m != nil && (l != nil && *l > *m+1e-9 || h != nil && *h < *m-1e-9) {
			t.Errorf("%s: %g lies outside of its bounds", tt.name, *m)
		}
	}
}

func TestTogether(t *testing.T) {
	ok, stop, not := Check{Verdict: capacity.OK}, Check{Verdict: capacity.Stop}, NotChecked(Surge, "why")
	for want, cs := range map[capacity.Verdict][]Check{capacity.OK: {ok, ok}, capacity.Stop: {ok, not, stop}, capacity.NotChecked: {ok, not}} {
		if got := Together(cs); got != want {
			t.Errorf("%v: %s", cs, got)
		}
	}
	if Together(nil) != capacity.NotChecked {
		t.Error("a proof without a check holds")
	}
}

// The classical values of Clopper and Pearson's interval.
func TestInterval(t *testing.T) {
	for _, tt := range []struct{ n, k, low, high float64 }{{100, 0, 0, 0.0362}, {100, 5, 0.0164, 0.1128}, {10, 10, 0.6915, 1}, {0, 0, 0, 1}} {
		low, high := Interval(tt.n, tt.k)
		if math.Abs(low-tt.low) > 1e-4 || math.Abs(high-tt.high) > 1e-4 {
			t.Errorf("%g of %g: %.4f to %.4f", tt.k, tt.n, low, high)
		}
	}
}
