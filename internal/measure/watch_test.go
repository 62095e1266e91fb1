package measure

import (
	"math"
	"testing"
	"time"

	"loadline/internal/ladder"
	"loadline/internal/sample"
)

// TestSeen tells a rung of ten requests as it goes: nine in time, one that failed, and a client that sent three of them late.
func TestSeen(t *testing.T) {
	var s seen
	ms := func(x int) sample.Nanos { return sample.Since(time.Duration(x) * time.Millisecond) }
	for i := range 10 {
		at := 100 * i
		r := sample.Request{Intended: ms(at), Started: ms(at), Conn: ms(at), FirstAudio: ms(at + 10), FirstAudible: ms(at + 10), End: ms(at + 100), Outcome: sample.OK, Reused: true}
		if i > 6 {
			r.Started = ms(at + 5)
		}
		if i == 9 {
			r.Outcome, r.Cause = sample.ServerError, "500"
		}
		s.add(r, sample.OnFirstAudio, sample.FromStarted, 0.1)
	}
	p := ladder.Progress{Percentile: 90, SLO: 0.1, Elapsed: time.Second}
	s.tell(&p, p.Elapsed)
	if p.Done != 10 || p.Late != 1 || math.Abs(p.At-0.01) > 1e-9 || !p.Met() {
		t.Errorf("%d done, %d late, p90 %g s: want 10, 1, 0.01", p.Done, p.Late, p.At)
	}
	if p.Sent != 0.005 || p.SentLimit != 0.001 || p.Fit() {
		t.Errorf("sent %g s late of %g: want 0.005 of 0.001, not fit", p.Sent, p.SentLimit)
	}
	if math.Abs(p.Held-0.985) > 1e-9 {
		t.Errorf("%g held, want 0.985", p.Held)
	}
	p.Percentile = 95
	if s.tell(&p, p.Elapsed); !math.IsInf(p.At, 1) || p.Met() {
		t.Errorf("p95 among failures is %g, want infinite and not met", p.At)
	}
}
