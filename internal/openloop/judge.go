package openloop

import (
	"fmt"
	"math"
	"slices"
	"time"

	"loadline/internal/ladder"
	"loadline/internal/sample"
	"loadline/internal/stat"
)

const (
	confidence = 0.95
	lawLeast   = 1e-4 // below it, what was sent is not what was drawn
	period     = 10 * time.Second
	fewest     = 20 // requests in a window that says anything
)

// Judge summarises and judges a step. rs is every request of it, in order of completion.
func Judge(c Config, p Step, s Sent, rs []sample.Request) Rung {
	from := s.Origin + sample.Since(p.WarmUp)
	to := s.Origin + sample.Since(p.Profile.Len())
	r := Rung{Index: p.Index, Share: p.Share, Rate: p.Rate, StartedNS: int64(from), EndedNS: int64(to), WarmupS: p.WarmUp.Seconds(),
		Planned: s.Planned, Dropped: s.Dropped, Predicted: p.Predicted, Fixed: p.Fixed, Drawn: p.Drawn, Counts: s.Counts, Client: &s.Client, Valid: true,
		Verdict: ladder.Undecided}
	r.law(p, s, rs)
	r.held(rs, from, to)

	var lats, sent, services []float64
	var late []bool
	for _, q := range rs {
		if q.Outcome == sample.OK && q.End > from && q.End <= to {
			r.X++
		}
		if q.Intended < from || q.Intended >= to {
			continue
		}
		l := q.Latency(c.Mark, sample.FromIntended)
		lats, sent = append(lats, l), append(sent, q.Latency(c.Mark, sample.FromStarted))
		late = append(late, l > c.SLO.Seconds())
		if q.Outcome == sample.OK {
			r.OK++
			services = append(services, q.Service())
			continue
		}
		if r.Outcomes == nil {
			r.Outcomes = map[string]int{}
		}
		r.Outcomes[string(q.Outcome)]++
	}
	seconds := (to - from).Duration().Seconds()
	r.X /= seconds
	r.Samples, r.Arrived = len(lats), float64(len(lats))/seconds
	r.NEff, _ = stat.EffectiveN(late)
	for _, l := range late {
		if l {
			r.Late++
		}
	}
	if len(services) > 0 {
		mean := stat.Mean(services)
		r.SMean = &mean
	}
	quantile := r.percentiles(c, lats, sent)
	r.verdict(c, s, quantile, rs)
	r.steady(lats)
	return r
}

// law tests the starts, as far as requests were started at all.
func (r *Rung) law(p Step, s Sent, rs []sample.Request) {
	starts := make([]time.Duration, 0, len(rs))
	for _, q := range rs {
		if q.Started.Known() {
			starts = append(starts, (q.Started - s.Origin).Duration())
		}
	}
	f := p.Profile.Fit(starts)
	r.Law = Law{Gaps: f.N, A2: f.A2, P: f.P}
	if math.IsNaN(r.Law.A2) || math.IsInf(r.Law.A2, 0) {
		r.Law.A2, r.Law.P = 0, 0
	}
}

// held is what was in flight between two times: the mean, the most, and the mean of the most of each whole period.
func (r *Rung) held(rs []sample.Request, from, to sample.Nanos) {
	type event struct {
		at sample.Nanos
		by int
	}
	var events []event
	for _, q := range rs {
		if q.Started.Known() && q.End.Known() {
			events = append(events, event{q.Started, 1}, event{q.End, -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		switch {
		case a.at != b.at:
			return int(max(-1, min(1, a.at-b.at)))
		}
		return a.by - b.by
	})
	n, area := 0, 0.0
	tens := make([]int, int((to-from).Duration()/period))
	last := from
	span := func(until sample.Nanos) { // n were held from last to until
		until = min(until, to)
		if until <= last {
			return
		}
		area += float64(n) * (until - last).Duration().Seconds()
		r.Max = max(r.Max, n)
		for k := int((last - from).Duration() / period); k < len(tens) && from+sample.Since(time.Duration(k)*period) < until; k++ {
			tens[k] = max(tens[k], n)
		}
		last = until
	}
	for _, e := range events {
		span(e.at)
		n += e.by
	}
	span(to)
	r.Mean = area / (to - from).Duration().Seconds()
	for _, m := range tens {
		r.TenMax += float64(m) / float64(len(tens))
	}
	if r.Fixed != nil && r.Drawn != nil {
		a := r.Mean + *r.Fixed - *r.Drawn
		r.Adjusted = &a
	}
}

// percentiles fills them in and returns the objective's, in seconds.
func (r *Rung) percentiles(c Config, lats, sent []float64) float64 {
	if len(lats) == 0 {
		return math.Inf(1)
	}
	sorted := stat.Sorted(lats)
	put := func(name string, to **float64, seconds float64) {
		if math.IsInf(seconds, 1) || math.IsNaN(seconds) {
			r.Infinite = append(r.Infinite, name)
			return
		}
		v := 1000 * seconds
		*to = &v
	}
	p95 := stat.Percentile(sorted, 95)
	put("p50_ms", &r.P50, stat.Percentile(sorted, 50))
	put("p95_ms", &r.P95, p95)
	put("p99_ms", &r.P99, stat.Percentile(sorted, 99))
	put("p95_from_send_ms", &r.SentP95, stat.Percentile(stat.Sorted(sent), 95))
	if c.Percentile != 95 {
		put("quantile_ms", &r.Quantile, stat.Percentile(sorted, c.Percentile))
	}
	low, high, ok := bounds(lats, p95)
	if ok {
		put("p95_low", &r.P95Low, stat.Percentile(sorted, 100*low))
		put("p95_high", &r.P95High, stat.Percentile(sorted, 100*high))
	}
	return stat.Percentile(sorted, c.Percentile)
}

// bounds are the shares of the sorted values between which the 95th percentile lies with the confidence: order statistics
// of as many independent values as these are worth (the binomial law; batch means of being above it).
func bounds(lats []float64, p95 float64) (low, high float64, ok bool) {
	above := make([]bool, len(lats))
	for i, l := range lats {
		above[i] = l > p95
	}
	worth, _ := stat.EffectiveN(above)
	n := math.Floor(worth)
	alpha := (1 - confidence) / 2
	l, u := -1, -1
	for k := 0; k <= int(n); k++ {
		p := stat.AtMost(n, float64(k), 0.95) // P(at most k values lie below the percentile)
		if p <= alpha {
			l = k
		}
		if u < 0 && p >= 1-alpha {
			u = k
		}
	}
	if l < 0 || u < 0 || u >= int(n) {
		return 0, 0, false
	}
	return (float64(l) + 0.5) / n, math.Min(1, (float64(u)+0.5)/n), true
}

func (r *Rung) verdict(c Config, s Sent, quantile float64, rs []sample.Request) {
	switch {
	case s.Invalid != "":
		r.Cause = s.Invalid
	case r.Samples < fewest:
		r.Cause = fmt.Sprintf("%d requests were due in the window: too few to say anything", r.Samples)
	case slices.ContainsFunc(s.Counts, func(n int) bool { return n != s.Counts[0] }):
		r.Cause = fmt.Sprintf("the instance count changed (%v): a rate is that of one instance", s.Counts)
	case slices.ContainsFunc(rs, func(q sample.Request) bool { return q.Outcome == sample.ClientFault }):
		r.Cause = "client fault"
	default:
		r.Cause = ladder.ClientBound(s.Client, 0, c.SLO, false)
		if r.Cause == "" && r.Law.Gaps >= fewest && r.Law.P < lawLeast {
			r.Cause = fmt.Sprintf("what was sent is not what was drawn: Anderson–Darling A² %.2f over %d gaps, p = %.2g", r.Law.A2, r.Law.Gaps, r.Law.P)
		}
	}
	if r.Cause != "" {
		r.Valid = false
		return
	}
	if r.Verdict = ladder.Pass; quantile > c.SLO.Seconds() {
		r.Verdict = ladder.Fail
	}
}

// steady warns of a rung that has no long run.
func (r *Rung) steady(lats []float64) {
	const batches = 20
	if size := len(lats) / batches; size >= 5 {
		means := make([]float64, batches)
		for i, l := range lats[:size*batches] {
			means[i/size] += math.Min(l, 1e6) / float64(size)
		}
		if rho, p := stat.Trend(means); p < 0.001 && rho > 0 && r.X < 0.97*r.Arrived {
			r.Warnings = append(r.Warnings, fmt.Sprintf("not steady: %.2f a second arrive and %.2f are completed, so the queue grows", r.Arrived, r.X))
		}
	}
}
