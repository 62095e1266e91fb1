package ladder

import (
	"fmt"
	"slices"
	"time"

	"loadline/internal/sample"
	"loadline/internal/stat"
)

// Steps is a fixed schedule.
type Steps struct {
	Concurrency []int
	Hold        time.Duration // each rung
	Window      time.Duration // its trailing part that is measured
	Idle        time.Duration // between rungs
}

// Published is the schedule of the published toolchain, about 36 minutes.
var Published = Steps{Concurrency: []int{1, 5, 10, 20, 30, 40, 50, 60}, Hold: 240 * time.Second, Window: 60 * time.Second, Idle: 30 * time.Second}

const (
	saturatedShare = 0.01 // of the requests, turned away
	saturatedStop  = 2    // rungs in a row
)

// Schedule walks Steps upward and judges each rung by its window alone: requests count in the window in which they
// complete, percentiles are over all of them with failures infinite, and a rung with failures cannot pass. Q_max is the
// highest rung that met the objective. Two saturated rungs in a row end it.
type Schedule struct {
	c     Config
	st    Steps
	rungs []Rung
	rs    []sample.Request
}

// NewSchedule walks the steps, each concurrency once, under the objective of c.
func NewSchedule(c Config, st Steps) (*Schedule, error) {
	c, err := c.filled()
	if err != nil {
		return nil, err
	}
	st.Concurrency = slices.Clone(st.Concurrency)
	slices.Sort(st.Concurrency)
	st.Concurrency = slices.Compact(st.Concurrency)
	switch {
	case len(st.Concurrency) == 0 || st.Concurrency[0] < 1:
		return nil, fmt.Errorf("concurrency %v: it must be a list of whole numbers from 1 up", st.Concurrency)
	case st.Hold <= 0 || st.Window <= 0 || st.Window > st.Hold:
		return nil, fmt.Errorf("measure window %v of a hold of %v: both must be above 0, and the window no longer than the hold", st.Window, st.Hold)
	case st.Idle < 0:
		return nil, fmt.Errorf("idle %v: it must not be negative", st.Idle)
	}
	return &Schedule{c: c, st: st}, nil
}

// turnedAway says whether more of the rung's requests were refused than may be.
func turnedAway(r Rung) bool {
	n := r.Outcomes[string(sample.Rejected)] + r.Outcomes[string(sample.Stale)] + r.Outcomes[string(sample.Throttled)]
	return float64(n) > saturatedShare*float64(r.Samples)
}

// cut says whether saturation ended the schedule.
func (s *Schedule) cut() bool {
	if len(s.rungs) < saturatedStop {
		return false
	}
	for _, r := range s.rungs[len(s.rungs)-saturatedStop:] {
		if !turnedAway(r) {
			return false
		}
	}
	return true
}

// Next implements Searcher.
func (s *Schedule) Next() (Probe, bool) {
	i := len(s.rungs)
	if i >= len(s.st.Concurrency) || s.cut() {
		return Probe{}, false
	}
	p := Probe{Index: i, N: s.st.Concurrency[i], Purpose: Scheduled, Hold: s.st.Hold, Window: s.st.Window, MaxHold: s.st.Hold}
	if i > 0 {
		p.Idle = s.st.Idle
	}
	return p, true
}

// Add implements Searcher; a fixed schedule is never decided early.
func (s *Schedule) Add(r sample.Request) bool {
	s.rs = append(s.rs, r)
	return false
}

// Close implements Searcher.
func (s *Schedule) Close(e Evidence) Rung {
	p, more := s.Next()
	if !more {
		return Rung{Verdict: Undecided, Cause: "the schedule is over"}
	}
	to := e.Began + sample.Since(s.st.Hold)
	from := to - sample.Since(s.st.Window)
	if e.Ended > from {
		to = min(to, e.Ended)
	}
	var in []sample.Request
	for _, r := range s.rs {
		if r.End > from && r.End <= to {
			in = append(in, r)
		}
	}
	r := Judge(s.c, p, in, from, to, e)
	r.WarmupS += (from - e.Began).Duration().Seconds()
	if turnedAway(r) {
		r.Warnings = append(r.Warnings, "saturated: the endpoint turns requests away")
	}
	s.rs = nil
	s.rungs = append(s.rungs, r)
	return r
}

// Replay implements Searcher.
func (s *Schedule) Replay(r Rung) error {
	p, more := s.Next()
	if !more || p.N != r.N || r.Purpose != Scheduled {
		return fmt.Errorf("rung %d is N = %d (%s), but this schedule holds N = %d there", r.Index, r.N, r.Purpose, p.N)
	}
	s.rs = nil
	s.rungs = append(s.rungs, r)
	return nil
}

// Result implements Searcher.
func (s *Schedule) Result() Result {
	out := describe(s.c, s.rungs)
	var best *Rung
	for i := range out.Rungs {
		if r := &out.Rungs[i]; r.Valid && r.Verdict == Pass && (best == nil || r.N > best.N) {
			best = r
		}
	}
	if best == nil {
		out.Bracket.Fail = lowestFail(out.Rungs, 0)
		out.Reason = "no rung met the objective"
		for _, r := range out.Rungs {
			if !r.Valid { // it might have passed
				out.Verdict, out.Reason = CannotTell, fmt.Sprintf("no valid rung met the objective; N = %d was invalid: %s", r.N, r.Cause)
				break
			}
		}
		return out
	}
	n := best.N
	out.QMax = &n
	out.bracket(s.c, n)
	out.Verdict = Unbracketed
	if out.Bracket.Fail > 0 {
		out.Verdict = Bracketed
	}
	if k := float64(best.Late) * best.NEff / float64(best.Samples); stat.Proves(best.NEff, k, s.c.allowed(), 1-s.c.Confidence) {
		out.Certificate = &Certificate{Confidence: s.c.Confidence, N: best.Samples, Late: best.Late, NEff: best.NEff}
	}
	out.CharsPerS = charsPerS(*best)
	out.ProbePair = measuredPair(out.Rungs)
	if s.cut() {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the ladder ended at N = %d: %d saturated rungs in a row", s.rungs[len(s.rungs)-1].N, saturatedStop))
	}
	return out
}
