package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"loadline/internal/artifact"
	"loadline/internal/openloop"
	"loadline/internal/sample"
)

// Ladder is a ladder and the requests of its log, Rung being the place in its rungs; nil: not read.
type Ladder struct {
	*artifact.QMax
	Requests []sample.Request
}

const (
	fromLog   = "order statistics of the request logs, for as many requests as independent ones are worth"
	fromMeans = "batch means"
)

// Ladders compares two ladders.
func Ladders(a, b Ladder) (*Report, error) {
	var d asked
	workload(&d, &a.Header, &b.Header, a.Corpus, b.Corpus)
	d.same("objective, ms", a.SLOMS, b.SLOMS)
	d.same("percentile", a.Percentile, b.Percentile)
	d.same("objective on", a.SLOOn, b.SLOOn)
	if err := d.err("ladders"); err != nil {
		return nil, err
	}
	r := newReport("qmax", &a.Header, &b.Header)
	r.qmax(a.QMax, b.QMax)
	r.add("completions, at most", "1/s", BetterUp, measured(a.Mu), measured(b.Mu), source(a.Mu.Source, b.Mu.Source))
	for _, n := range held(a.QMax) {
		i, j := at(a.QMax, n), at(b.QMax, n)
		if j < 0 {
			r.missing("N = %d was measured by the first alone", n)
			continue
		}
		ga, gb := a.Rungs[i], b.Rungs[j]
		ea, eb := interval(ga.P95, nil, nil), interval(gb.P95, nil, nil)
		why := "no request log on both sides, and a percentile alone has no interval"
		if xs, ys := a.marks(i), b.marks(j); xs != nil && ys != nil {
			ea, eb, why = quantile(xs, 95), quantile(ys, 95), fromLog
		}
		r.add(fmt.Sprintf("first audio p95 at N = %d", n), "ms", BetterDown, ea, eb, why)
		r.add(fmt.Sprintf("completions at N = %d", n), "1/s", BetterUp, interval(&ga.X, ga.XLow, ga.XHigh), interval(&gb.X, gb.XLow, gb.XHigh), fromMeans)
	}
	for _, n := range held(b.QMax) {
		if at(a.QMax, n) < 0 {
			r.missing("N = %d was measured by the second alone", n)
		}
	}
	if a.SLOOn != string(sample.OnFirstAudio) {
		for i := range r.Shifts {
			r.Shifts[i].What = strings.Replace(r.Shifts[i].What, "first audio", strings.ReplaceAll(a.SLOOn, "-", " "), 1)
		}
	}
	return r, nil
}

// workload is what every measurement was asked to speak, and how.
func workload(d *asked, a, b *artifact.Header, x, y artifact.Corpus) {
	d.same("transport", a.Target.Transport, b.Target.Transport)
	d.same("payload", a.Target.Payload, b.Target.Payload)
	d.same("texts", x.ID, y.ID)
	if x.ID == y.ID {
		d.same("mean characters of a text", math.Round(10*x.CharsMean)/10, math.Round(10*y.CharsMean)/10)
	}
}

func source(a, b string) string {
	if a == b {
		return a
	}
	return a + " and " + b
}

// qmax compares the two brackets: the true value lies from what was certified, or else passed, up to below the lowest rung
// that missed.
func (r *Report) qmax(a, b *artifact.QMax) {
	s := Shift{What: "Q_max", Unit: "requests", Better: BetterUp, Says: CannotTell, Source: "brackets: from Q_max to the rung that missed"}
	value := func(q *artifact.QMax) *float64 {
		if q.QMax == nil {
			return nil
		}
		return new(float64(*q.QMax))
	}
	s.A, s.B = value(a), value(b)
	switch {
	case s.A == nil || s.B == nil:
		s.Source = "one of them has no Q_max"
	default:
		s.Shift = new(*s.B - *s.A)
		low, high := math.Inf(-1), math.Inf(1)
		if a.Bracket.Fail > 0 {
			low = *s.B - math.Max(float64(a.Bracket.Fail), *s.A+1)
		}
		if b.Bracket.Fail > 0 {
			high = math.Max(float64(b.Bracket.Fail), *s.B+1) - *s.A
		}
		s.Low, s.High = finite(low), finite(high)
		// The ends are not reached: a bracket that begins where the other ends lies above it.
		switch {
		case s.Low != nil && low >= 0:
			s.Says = Higher
		case s.High != nil && high <= 0:
			s.Says = Lower
		case s.Low != nil || s.High != nil:
			s.Says = NoShift
		default:
			s.Source = "neither missed the objective anywhere: both are lower bounds"
		}
	}
	if a.Certificate == nil || b.Certificate == nil {
		s.Source += "; not certified"
	}
	r.Shifts = append(r.Shifts, s)
}

// held is the concurrencies that a ladder measured to use, ascending.
func held(q *artifact.QMax) (ns []int) {
	for _, g := range q.Rungs {
		if g.Valid {
			ns = append(ns, g.N)
		}
	}
	slices.Sort(ns)
	return slices.Compact(ns)
}

// at is the place of the usable rung of a concurrency that has the most samples; -1: none.
func at(q *artifact.QMax, n int) int {
	best := -1
	for i, g := range q.Rungs {
		if g.Valid && g.N == n && (best < 0 || g.Samples > q.Rungs[best].Samples) {
			best = i
		}
	}
	return best
}

// marks is the times of a rung's mark in order of completion, milliseconds; nil without a log.
func (l Ladder) marks(rung int) (xs []float64) {
	g := l.Rungs[rung]
	for _, q := range l.Requests {
		if q.Rung == rung && int64(q.End) > g.StartedNS && int64(q.End) <= g.EndedNS {
			xs = append(xs, 1000*q.Latency(sample.Mark(l.SLOOn), sample.FromStarted))
		}
	}
	return xs
}

// OpenLadder is an open-loop ladder and the requests of its log, Rung being the place in its rungs; nil: not read.
type OpenLadder struct {
	*artifact.Rates
	Requests []sample.Request
}

// near is how far two rates may lie apart to be one.
const near = 0.01

// OpenLadders compares two open-loop ladders, rate by rate: what both were sent at the same rate, within 1 %.
func OpenLadders(a, b OpenLadder) (*Report, error) {
	var d asked
	workload(&d, &a.Header, &b.Header, a.Corpus, b.Corpus)
	d.same("objective, ms", a.SLOMS, b.SLOMS)
	d.same("percentile", a.Percentile, b.Percentile)
	d.same("objective on", a.SLOOn, b.SLOOn)
	if err := d.err("open-loop ladders"); err != nil {
		return nil, err
	}
	r := newReport("rates", &a.Header, &b.Header)
	used := map[int]bool{}
	for i, ga := range a.Rungs {
		j := slices.IndexFunc(b.Rungs, func(g openloop.Rung) bool { return g.Valid && math.Abs(g.Rate-ga.Rate) <= near*ga.Rate })
		if !ga.Valid {
			continue
		}
		if j < 0 {
			r.missing("%.4g a second was sent by the first alone", ga.Rate)
			continue
		}
		used[j] = true
		gb := b.Rungs[j]
		ea, eb, why := interval(ga.P95, ga.P95Low, ga.P95High), interval(gb.P95, gb.P95Low, gb.P95High), "each rung's own interval"
		if xs, ys := a.marks(i), b.marks(j); xs != nil && ys != nil {
			ea, eb, why = quantile(xs, 95), quantile(ys, 95), fromLog
		}
		rate := fmt.Sprintf("at %.4g a second", ga.Rate)
		r.add("p95 from the intended start "+rate, "ms", BetterDown, ea, eb, why)
		r.add("late "+rate, "share", BetterDown, share(ga.Late, ga.Samples, ga.NEff), share(gb.Late, gb.Samples, gb.NEff), "Wilson's interval over the effective samples")
	}
	for j, gb := range b.Rungs {
		if gb.Valid && !used[j] {
			r.missing("%.4g a second was sent by the second alone", gb.Rate)
		}
	}
	if len(used) == 0 {
		r.missing("no rate was sent by both: tts-bench rates with the same --qmax file sends both at the same rates")
	}
	return r, nil
}

func (l OpenLadder) marks(rung int) (xs []float64) {
	g := l.Rungs[rung]
	for _, q := range l.Requests {
		if q.Rung == rung && int64(q.Intended) >= g.StartedNS && int64(q.Intended) < g.EndedNS {
			xs = append(xs, 1000*q.Latency(sample.Mark(l.SLOOn), sample.FromIntended))
		}
	}
	return xs
}

// ScaleOuts compares two scale-outs.
func ScaleOuts(a, b *artifact.TTotal) (*Report, error) {
	var d asked
	d.same("trigger", a.Trigger, b.Trigger)
	d.same("transport", a.Target.Transport, b.Target.Transport)
	d.same("objective, ms", a.Settings["slo_ms"], b.Settings["slo_ms"])
	if x, y := a.Recovery, b.Recovery; x != nil && y != nil {
		d.same("recovery judged by", x.Rule, y.Rule)
		d.same("windows of, s", x.WindowS, y.WindowS)
	}
	if err := d.err("scale-outs"); err != nil {
		return nil, err
	}
	r := newReport("ttotal", &a.Header, &b.Header)
	of := func(t *artifact.TTotal) *estimate {
		if len(t.Runs) > 0 {
			return mean(t.Runs)
		}
		return point(&t.TTotal)
	}
	ea, eb := of(a), of(b)
	why := fmt.Sprintf("Student's t over %d and %d runs", len(a.Runs), len(b.Runs))
	if !ea.known || !eb.known {
		why = "a single run has no interval: tts-bench ttotal --runs 3"
	}
	if a.Bounded || b.Bounded {
		ea.known, eb.known, why = false, false, "recovery was never seen in one of them: its total is a floor"
	}
	r.add("capacity call to recovered traffic", "s", BetterDown, ea, eb, why)
	one := "of the slowest run of each: one value has no interval"
	r.add("detection", "s", BetterDown, point(&a.Detection), point(&b.Detection), one)
	for _, s := range a.Durations {
		name := s.From + " to " + s.To
		j := slices.IndexFunc(b.Durations, func(t artifact.Duration) bool { return t.From == s.From && t.To == s.To })
		if j < 0 {
			r.missing("%s is a stage of the first alone", name)
			continue
		}
		r.add(name, "s", BetterDown, point(&s.Seconds), point(&b.Durations[j].Seconds), one)
	}
	for _, s := range b.Durations {
		if !slices.ContainsFunc(a.Durations, func(t artifact.Duration) bool { return t.From == s.From && t.To == s.To }) {
			r.missing("%s to %s is a stage of the second alone", s.From, s.To)
		}
	}
	return r, nil
}
