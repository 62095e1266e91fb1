package metric

import (
	"math"
	"sync"
	"time"
)

// Gauge is a level that changes at instants, stored as a statistic set a period: the exact minimum and maximum within
// it, and its time-weighted mean as one sample a second. It is safe for concurrent use.
type Gauge struct {
	series *Series
	period time.Duration

	mu     sync.Mutex
	level  float64
	since  time.Time // the level has been integrated up to here
	area   float64   // level × seconds since the period's start
	from   time.Time // when this period's integral began
	lo, hi float64
}

// NewGauge is a gauge at level 0 that stores into s each period from now on.
func NewGauge(s *Series, period time.Duration, now time.Time) *Gauge {
	return &Gauge{series: s, period: period, since: now, from: now}
}

// Add changes the level by d.
func (g *Gauge) Add(now time.Time, d float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(now)
	g.level += d
	g.lo, g.hi = min(g.lo, g.level), max(g.hi, g.level)
}

// Advance stores the periods that have ended by now.
func (g *Gauge) Advance(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(now)
}

// End stores what there is of the period under way; the gauge is not used after it.
func (g *Gauge) End(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(now)
	g.store(now)
}

func (g *Gauge) advance(now time.Time) {
	if !now.After(g.since) { // two callers raced to the lock
		return
	}
	for end := floor(g.since, g.period).Add(g.period); !end.After(now); end = end.Add(g.period) {
		g.integrate(end)
		g.store(end)
		g.area, g.from, g.lo, g.hi = 0, end, g.level, g.level
	}
	g.integrate(now)
}

func (g *Gauge) integrate(to time.Time) {
	if to.After(g.since) {
		g.area += g.level * to.Sub(g.since).Seconds()
		g.since = to
	}
}

func (g *Gauge) store(end time.Time) {
	seconds := end.Sub(g.from).Seconds()
	if seconds <= 0 {
		return
	}
	n := math.Ceil(seconds - 1e-6)
	g.series.Totals(g.from, n, g.area/seconds*n, g.lo, g.hi)
}
