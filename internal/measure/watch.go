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

	mu        sync.Mutex
	latencies []float64 // seconds, +Inf for failures
	late      int
}

func (l *live) add(r sample.Request) {
	x := r.Latency(sample.Mark(l.run.doc.SLOOn), sample.FromStarted)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latencies = append(l.latencies, x)
	if x*1000 > l.run.doc.SLOMS {
		l.late++
	}
}

func (l *live) watch(ctx context.Context) {
	for {
		l.run.Progress.Show(time.Now(), l.line())
		if pause(ctx, time.Second) != nil {
			return
		}
	}
}

func (l *live) line() string {
	l.mu.Lock()
	sorted, late := slices.Clone(l.latencies), l.late
	l.mu.Unlock()
	slices.Sort(sorted)
	doc := l.run.doc
	so := "-"
	if n := len(sorted); n > 0 {
		so = milliseconds(sorted[min(n-1, int(math.Ceil(float64(n)*doc.Percentile/100))-1)])
	}
	s := fmt.Sprintf("rung %d: %d in flight, p%g %s of %.0f ms, %d done, %d late, %s",
		l.id, l.probe.N, doc.Percentile, so, doc.SLOMS, len(sorted), late, clock(time.Since(l.began)))
	elapsed := time.Since(l.run.Start)
	switch {
	case l.probe.Hold > 0:
		s += " of " + clock(l.probe.Hold)
	case l.run.expect > elapsed:
		s += "; about " + clock(l.run.expect-elapsed) + " left"
	}
	return s
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
