package measure

import (
	"errors"
	"fmt"
	"math"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/exit"
	"loadline/internal/scaleout"
)

// take lists the run, and keeps the slowest of those that succeeded; before one has, the longest floor.
func (s *growth) take(a *attempt) {
	out := artifact.Attempt{StartedAt: a.call.UTC(), Cause: a.cause, Detail: a.detail, Timeline: stagesOf(a.ledger.Stages)}
	if a.cause == "" {
		total := a.ledger.Total.Seconds()
		out.Total = &total
		s.doc.Runs = append(s.doc.Runs, total)
	}
	s.doc.Attempts = append(s.doc.Attempts, out)
	n := len(s.doc.Attempts)
	switch {
	case a.cause == "":
		s.Progress.Note(fmt.Sprintf("run %d: %.1f s from the capacity call to recovered traffic", n, a.ledger.Total.Seconds()))
	default:
		s.Progress.Note(fmt.Sprintf("run %d: %s: %s", n, a.cause, a.detail))
	}
	if a.cause != "" && a.cause != artifact.CauseNoRecovery {
		return
	}
	better := s.best == nil || s.best.cause != "" && a.cause == "" ||
		(s.best.cause == "") == (a.cause == "") && a.ledger.Total > s.best.ledger.Total
	if better {
		s.best = a
	}
}

func stagesOf(marks []scaleout.Mark) []artifact.Stage {
	out := make([]artifact.Stage, len(marks))
	for i, m := range marks {
		out[i] = artifact.Stage{Name: m.Name, At: m.At.UTC(), Bounded: m.Bounded, Source: m.Source, Note: m.Note}
	}
	return out
}

// fill writes the record; an error where no run came to a total.
func (s *growth) fill() error {
	d, a := s.doc, s.best
	if a == nil {
		last := d.Attempts[len(d.Attempts)-1]
		return exit.Refuse(fmt.Errorf("no scale-out came to a total: %s: %s", last.Cause, last.Detail))
	}
	l := a.ledger
	d.Timeline, d.Missing, d.Detected = stagesOf(l.Stages), l.Missing, stagesOf(l.Detection)
	d.Notes = append(d.Notes, l.Notes...)
	d.TTotal, d.Bounded = l.Total.Seconds(), l.Floor
	d.Durations = nil
	for _, span := range l.Spans {
		share := 0.0
		if l.Total > 0 {
			share = float64(span.Time) / float64(l.Total)
		}
		d.Durations = append(d.Durations, artifact.Duration{From: span.From, To: span.To, Seconds: span.Time.Seconds(), Bounded: span.Bounded, Share: share})
	}
	if l.Detected > 0 {
		d.Detection, d.DetectionSource = l.Detected.Seconds(), "measured"
	}
	d.Planning = d.TTotal + d.Detection
	d.From, d.To, d.Instance, d.Probe = a.from, a.to, a.instance, s.Probe
	d.Recovery = s.recovered(a)
	if span, advice, ok := l.Longest(); ok && d.TTotal > 0 {
		t := span.Time.Seconds()
		d.Dominant = &artifact.Dominant{From: span.From, To: span.To, Seconds: t, Share: t / d.TTotal, Planning: t / d.Planning, Saves: t / 2, Advice: advice}
	}
	if len(d.Attempts) > len(d.Runs) {
		d.Notes = append(d.Notes, fmt.Sprintf("%d of %d runs failed: they are listed by cause and are in no figure", len(d.Attempts)-len(d.Runs), len(d.Attempts)))
	}
	if t := s.Rule.Target; t > 0 && a.before <= t {
		d.Notes = append(d.Notes, fmt.Sprintf("the probe did not saturate one instance (p95 %s before, %s is called recovered): hold more", milliseconds(a.before), milliseconds(t)))
	}
	if l.Floor {
		d.Runs = []float64{d.TTotal}
		return exit.CannotTell(errors.New("recovery was never seen: the total is a floor: " + a.detail))
	}
	return nil
}

func (s *growth) recovered(a *attempt) *artifact.Recovery {
	ms := func(v float64) *float64 {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil
		}
		return new(1000 * v)
	}
	r := &artifact.Recovery{Rule: "throughput", WindowS: s.Rule.Window.Seconds(), Percentile: 100 * s.Rule.Quantile, BeforeMS: ms(a.before)}
	if s.Rule.Target > 0 {
		r.Rule, r.TargetMS = "latency", ms(s.Rule.Target)
	} else {
		r.TargetRPS = &s.Rule.Rate
	}
	if a.recovery.At.Known() {
		r.AfterMS, r.AfterRPS, r.HeldS = ms(a.recovery.After), &a.recovery.Rate, a.recovery.Held.Round(time.Millisecond).Seconds()
	}
	return r
}
