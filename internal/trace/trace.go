// Package trace reads recorded traffic, counts by bucket or one timestamp a request, and says how much it can grow within
// a time: the surge that a fleet has to outlast until more of it is there.
//
// What the growth is used for is left to package plan, opening files to commands.
//
//	t, err := trace.Read(data)
//	g, err := t.Growth(320*time.Second, 20)  // at loads of 20 requests a second or more
//	g.H                                      // 0.48: from 35,100 requests in a minute to 52,000 within 320 s
package trace

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// surely is how often a stream that does not grow shows none.
const surely = 0.99

// most is the most buckets of a trace: a year of seconds and some.
const most = 50_000_000

// Trace is arrivals counted in buckets of one width, from Start on. A bucket that the source left out holds 0.
type Trace struct {
	Start  time.Time // zero Unix time where the source has no date
	Bucket time.Duration
	Counts []float64
	Format string // what it was read as
	Gaps   int    // buckets that the source left out
}

// Len is how long the trace lasts.
func (t *Trace) Len() time.Duration { return time.Duration(len(t.Counts)) * t.Bucket }

// Requests is how many there are in all.
func (t *Trace) Requests() float64 {
	sum := 0.0
	for _, c := range t.Counts {
		sum += c
	}
	return sum
}

// Merge is the trace in buckets k times as wide. What does not fill the last one is dropped.
func (t *Trace) Merge(k int) *Trace {
	if k <= 1 {
		return t
	}
	m := *t
	m.Bucket, m.Counts, m.Gaps = t.Bucket*time.Duration(k), make([]float64, len(t.Counts)/k), t.Gaps/k
	for i := range m.Counts {
		for _, c := range t.Counts[i*k : (i+1)*k] {
			m.Counts[i] += c
		}
	}
	return &m
}

// Peak is the highest rate of a bucket, requests a second, in buckets of at least a minute where the trace is that long.
func (t *Trace) Peak() float64 {
	m := t.Merge(min(max(1, int(time.Minute/t.Bucket)), max(1, len(t.Counts))))
	if len(m.Counts) == 0 {
		return 0
	}
	return slices.Max(m.Counts) / m.Bucket.Seconds()
}

// Growth is how the load of a trace grows within a time.
type Growth struct {
	Within  time.Duration // T
	Bucket  time.Duration // in which "now" and "then" are counted
	Floor   float64       // requests a second that "now" has at least
	Windows int           // looked at

	G    float64   // of the window that decides: its highest rate within T over its rate now
	H    float64   // G − 1 with what a Poisson stream of that rate shows taken out
	Null float64   // that: G − 1 which the largest of as many windows of a Poisson stream hardly exceeds
	At   time.Time // when it begins
	Rate float64   // requests a second then

	P50, P99, P999, Max float64 // of G over all windows, as counted
}

// Growth looks at every bucket whose rate is at least floor, and at what follows within a time.
//
// Buckets are a fifth of the time, or as wide as the source's. Where the time ends within a bucket, the load is taken on
// the straight line between it and the one before.
//
// A Poisson stream that does not grow at all shows growth too, the more the fewer requests a bucket holds and the more
// windows are looked at. Of W windows with m later buckets each it shows about g₀ = (1 + z/√(2c))² − 1, c being the
// requests now, as the square root of a Poisson count has a variance of 1/4 (Anscombe 1948), and z what the largest of W·m
// normal values stays below in 99 of 100 traces. It is taken out by the non-negative garrote (Breiman 1995), g·(1 − (g₀/g)²)⁺: growth no
// larger than g₀ counts for nothing, growth far beyond it is left as it is.
func (t *Trace) Growth(within time.Duration, floor float64) (Growth, error) {
	if within < t.Bucket {
		return Growth{}, fmt.Errorf("the trace counts by %s: it cannot tell what happens within %s", t.Bucket, within)
	}
	m := t.Merge(int(within / (5 * t.Bucket)))
	b := float64(within) / float64(m.Bucket)
	whole := int(b)
	share := b - float64(whole)
	need := whole
	if share > 0 {
		need++
	}
	g := Growth{Within: within, Bucket: m.Bucket, Floor: floor}
	least := math.Max(floor*m.Bucket.Seconds(), 1)
	var grown []float64
	var from []int
	for i := 0; i+need < len(m.Counts); i++ {
		now := m.Counts[i]
		if now < least {
			continue
		}
		then := slices.Max(m.Counts[i+1 : i+1+whole])
		if share > 0 {
			then = math.Max(then, m.Counts[i+whole]*(1-share)+m.Counts[i+whole+1]*share)
		}
		grown, from = append(grown, then/now), append(from, i)
	}
	g.Windows = len(grown)
	if g.Windows == 0 {
		return g, fmt.Errorf("the trace has no load of %.4g requests a second or more that lasts longer than %s: nothing is known of its growth", floor, within)
	}
	z := distuv.UnitNormal.Quantile(math.Pow(surely, 1/float64(g.Windows*need)))
	for w, ratio := range grown {
		now := m.Counts[from[w]]
		root := 1 + math.Max(0, z)/math.Sqrt(2*now)
		null := root*root - 1
		h := 0.0
		if ratio-1 > null {
			h = (ratio - 1) * (1 - null*null/((ratio-1)*(ratio-1)))
		}
		if h > g.H || w == 0 {
			g.G, g.H, g.Null, g.Rate = ratio, h, null, now/m.Bucket.Seconds()
			g.At = m.Start.Add(time.Duration(from[w]) * m.Bucket)
		}
	}
	slices.Sort(grown)
	q := func(p float64) float64 { return grown[max(0, int(math.Ceil(p*float64(len(grown))))-1)] }
	g.P50, g.P99, g.P999, g.Max = q(0.5), q(0.99), q(0.999), grown[len(grown)-1]
	return g, nil
}

// IdleHours is the whole hours of a day, on average, in which nobody asked; false for a trace of less than a day.
func (t *Trace) IdleHours() (float64, bool) {
	if t.Len() < 24*time.Hour || t.Bucket > time.Hour {
		return 0, false
	}
	idle := 0
	hours := t.Merge(int(time.Hour / t.Bucket))
	for _, c := range hours.Counts {
		if c == 0 {
			idle++
		}
	}
	return float64(idle) / (float64(len(hours.Counts)) * hours.Bucket.Hours() / 24), true
}

// Dispersion is the variance of the counts of buckets of about a width over their mean, 1 for a Poisson stream: from the
// differences of neighbours, so that a slow trend does not count (von Neumann 1941). False where the trace cannot tell.
func (t *Trace) Dispersion(width time.Duration) (float64, bool) {
	if t.Bucket > width {
		return 0, false
	}
	m := t.Merge(int(width / t.Bucket))
	n := len(m.Counts)
	mean := m.Requests() / float64(max(1, n))
	if n < 30 || mean < 1 {
		return 0, false
	}
	sum := 0.0
	for i := 1; i < n; i++ {
		d := m.Counts[i] - m.Counts[i-1]
		sum += d * d
	}
	return sum / float64(2*(n-1)) / mean, true
}
