package measure

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"loadline/internal/ladder"
	"loadline/internal/sample"
)

// live draws the rung that is being measured, once a second.
type live struct {
	run   *run
	probe ladder.Probe
	id    int
	began time.Time

	mu   sync.Mutex
	seen seen
}

// seen is what the requests of a rung that is being measured have told so far, in seconds.
type seen struct {
	latencies  []float64 // +Inf for failures
	late       int
	sent, conn []float64 // how late they were sent, and what they waited for a connection
	held       float64   // that they were in flight, together
}

func (s *seen) add(r sample.Request, mark sample.Mark, from sample.Origin, slo float64) {
	x := r.Latency(mark, from)
	s.latencies = append(s.latencies, x)
	if x > slo {
		s.late++
	}
	if r.Intended.Known() {
		s.sent = append(s.sent, r.Lateness())
	}
	if r.Reused && r.Conn.Known() {
		s.conn = append(s.conn, (r.Conn - r.Started).Duration().Seconds())
	}
	if r.End.Known() {
		s.held += (r.End - r.Started).Duration().Seconds()
	}
}

// quantile is the given percentile of unsorted values, 0 where there are none.
func quantile(values []float64, percentile float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(float64(len(sorted))*percentile/100))-1))]
}

// tell fills in what the requests say, which ended within a time. Of the client's waits the two largest are left out, as the rung's judge does: one hiccup
// of a busy machine spoils nothing.
func (s *seen) tell(p *ladder.Progress, within time.Duration) {
	p.Done, p.Late = len(s.latencies), s.late
	p.At = quantile(s.latencies, p.Percentile)
	trimmed := func(values []float64) float64 {
		sorted := slices.Sorted(slices.Values(values))
		return quantile(sorted[:max(0, len(sorted)-2)], 99)
	}
	p.Sent, p.SentLimit = trimmed(s.sent), max(0.001, 0.01*p.SLO)
	p.Conn, p.ConnLimit = trimmed(s.conn), max(0.001, 0.05*p.SLO)
	if e := within.Seconds(); e >= 2*p.At && len(s.latencies) > 0 {
		p.Held = s.held / e
	}
}

func (l *live) add(r sample.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.add(r, sample.Mark(l.run.doc.SLOOn), sample.FromStarted, l.run.doc.SLOMS/1000)
}

func (l *live) watch(ctx context.Context) {
	for {
		draw(l.run.Progress, l.progress())
		if pause(ctx, time.Second) != nil {
			return
		}
	}
}

// draw shows p where to can draw, else in a few words.
func draw(to Progress, p ladder.Progress) {
	if v, ok := to.(Viewer); ok {
		v.Draw(time.Now(), p)
		return
	}
	to.Show(time.Now(), p.Rung+": "+p.Load)
}

// title is what is measured and against which objective.
func title(model string, percentile float64, mark string, sloMS float64) string {
	return fmt.Sprintf("%s, p%g of %s within %s", model, percentile, strings.ReplaceAll(mark, "-", " "), milliseconds(sloMS/1000))
}

func (l *live) progress() ladder.Progress {
	m, doc := l.run, l.run.doc
	p := ladder.Progress{
		Title: title(doc.Target.Model, doc.Percentile, doc.SLOOn, doc.SLOMS),
		Rung:  fmt.Sprintf("rung %d", l.id), Purpose: l.probe.Purpose, Load: fmt.Sprintf("%d in flight", l.probe.N),
		Percentile: doc.Percentile, SLO: doc.SLOMS / 1000, Elapsed: time.Since(l.began), Hold: l.probe.Hold,
	}
	if elapsed := time.Since(m.Start); m.expect > elapsed {
		p.Left = m.expect - elapsed
	}
	if doc.Price != nil {
		spent := time.Since(m.began)
		p.Spent, p.Limit = doc.Price.PerHour*spent.Hours(), doc.Price.PerHour*m.Spend.Hours()
		if p.Left > 0 {
			p.Total = doc.Price.PerHour * (spent + p.Left).Hours()
		}
	}
	l.mu.Lock()
	l.seen.tell(&p, p.Elapsed)
	l.mu.Unlock()
	p.Proof, p.Edge = m.proof(l.probe, p), edge(doc.Bracket)
	return p
}

// proof is the certificate so far.
func (m *run) proof(probe ladder.Probe, p ladder.Progress) string {
	switch c := m.doc.Certificate; {
	case probe.Purpose == ladder.Certify:
		return fmt.Sprintf("%d of %d fresh samples late at %d in flight", p.Late, p.Done, probe.N)
	case c != nil && m.doc.QMax != nil:
		return fmt.Sprintf("Q_max %d certified: %d of %d fresh samples late", *m.doc.QMax, c.Late, c.N)
	}
	return "none yet"
}

// edge is the bracket so far.
func edge(b ladder.Bracket) string {
	switch {
	case b.Pass > 0 && b.Fail > 0:
		return fmt.Sprintf("%d in flight met the objective, %d missed it", b.Pass, b.Fail)
	case b.Pass > 0:
		return fmt.Sprintf("%d in flight met the objective, nothing has missed it", b.Pass)
	case b.Fail > 0:
		return fmt.Sprintf("%d in flight missed the objective, nothing has met it", b.Fail)
	}
	return "nothing has met or missed the objective yet"
}

// tell is one closed rung in a line.
func (m *run) tell(r ladder.Rung) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rung %d: %d in flight (%s): ", len(m.doc.Rungs)-1, r.N, r.Purpose)
	if r.Valid {
		b.WriteString(string(r.Verdict))
	} else {
		b.WriteString("invalid")
	}
	if q := Quantile(r, m.doc.Percentile); q != nil {
		fmt.Fprintf(&b, ", p%g %s", m.doc.Percentile, milliseconds(*q/1000))
	}
	fmt.Fprintf(&b, ", %.1f/s, %d of %d late", r.X, r.Late, r.Samples)
	if r.Cause != "" {
		b.WriteString(": " + r.Cause)
	}
	return b.String()
}

// Quantile is the rung's percentile that the objective is set on, in milliseconds; +Inf where it falls among failures, nil
// where there is none.
func Quantile(r ladder.Rung, percentile float64) *float64 {
	q, name := r.Quantile, "quantile_ms"
	if percentile == 95 {
		q, name = r.P95, "p95_ms"
	}
	if q == nil && slices.ContainsFunc(r.Infinite, func(s string) bool { return strings.HasPrefix(name, s) }) {
		inf := math.Inf(1)
		return &inf
	}
	return q
}

func milliseconds(s float64) string {
	switch ms := s * 1000; {
	case math.IsInf(ms, 1):
		return "never"
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.0f ms", ms)
	}
}

func clock(d time.Duration) string {
	s := int(d.Round(time.Second) / time.Second)
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// counts reads the instance count before, during and after a rung.
type counts struct {
	counter Counter // nil: a target without instances

	mu   sync.Mutex
	seen []int
}

func (c *counts) read(ctx context.Context) error {
	if c.counter == nil {
		return nil
	}
	_, _, current, err := c.counter.Count(ctx)
	if err != nil {
		return cause(ctx, fmt.Errorf("read the instance count: %w", err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, current)
	return nil
}

const (
	countFirst = 2 * time.Second
	countEvery = 15 * time.Second // AWS throttles those that look every few seconds
)

// watch reads the count during the rung. A read that fails is no reason to stop: those before and after decide.
func (c *counts) watch(ctx context.Context) {
	if c.counter == nil {
		return
	}
	for every := countFirst; pause(ctx, every) == nil; every = countEvery {
		_ = c.read(ctx)
	}
}
