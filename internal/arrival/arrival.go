// Package arrival decides when requests start: a profile says how many a second over time, and a process turns it into
// instants, evenly or as a Poisson process drawn from a seed. The whole schedule is drawn before the first request is
// sent, so that nothing that happens later can move it.
//
//	p, err := arrival.Surge(100, 1.25, 60*time.Second, 320*time.Second, 10*time.Minute) // 100 a second, 125 from 60 s on
//	at := p.Poisson(rand.New(rand.NewPCG(1, 0)))
//	fit := p.Fit(started) // were they sent as drawn? fit.P is small when not
//
// It leaves sending to package load, and the shapes of a day's traffic to whoever simulates one.
package arrival

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Most is the most arrivals that a profile may ask for: a schedule is held in memory.
const Most = 50_000_000

// Point is the rate, arrivals a second, from an instant on.
type Point struct {
	At   time.Duration
	Rate float64
}

// Profile is a rate over time: straight lines between its points, a step where two points share an instant. The first
// point is at 0; the last one ends the profile.
type Profile []Point

// Constant is a rate held for a time.
func Constant(rate float64, dur time.Duration) (Profile, error) { return Ramp(rate, rate, dur) }

// Ramp is a rate that grows (or falls) along a straight line.
func Ramp(from, to float64, dur time.Duration) (Profile, error) {
	return Profile{{0, from}, {dur, to}}.checked()
}

// Surge is a base rate for dur in all, multiplied by ratio for a time that begins at an instant within it.
func Surge(base, ratio float64, at, length, dur time.Duration) (Profile, error) {
	return Profile{{0, base}, {at, base}, {at, base * ratio}, {at + length, base * ratio}, {at + length, base}, {dur, base}}.checked()
}

// checked is the profile, or every rule that it breaks.
func (p Profile) checked() (Profile, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return p, nil
}

// Check says what keeps a profile from being drawn: it begins at 0, goes forward, has finite rates of 0 or more, and asks
// for no more than Most arrivals.
func (p Profile) Check() error {
	if err := p.shape(); err != nil {
		return err
	}
	if n := p.Expected(p.Len()); n > Most {
		return fmt.Errorf("arrival profile: %.3g arrivals: wants at most %d; lower the rate or the time", n, Most)
	}
	return nil
}

// shape is Check without the bound on arrivals.
func (p Profile) shape() error {
	if len(p) < 2 || p[0].At != 0 {
		return fmt.Errorf("arrival profile: wants at least two points, the first at 0")
	}
	for i, pt := range p {
		if math.IsNaN(pt.Rate) || math.IsInf(pt.Rate, 0) || pt.Rate < 0 {
			return fmt.Errorf("arrival profile: rate %g a second at %v: wants a finite rate of 0 or more", pt.Rate, pt.At)
		}
		if i > 0 && pt.At < p[i-1].At {
			return fmt.Errorf("arrival profile: %v comes after %v: wants instants in order, within the profile's length", pt.At, p[i-1].At)
		}
	}
	if p.Len() <= 0 {
		return fmt.Errorf("arrival profile: lasts %v: wants more than 0", p.Len())
	}
	return nil
}

// Len is how long the profile lasts.
func (p Profile) Len() time.Duration { return p[len(p)-1].At }

// Expected is the mean number of arrivals up to an instant: the integral of the rate.
func (p Profile) Expected(at time.Duration) float64 {
	sum := 0.0
	for i := 1; i < len(p) && p[i-1].At < at; i++ {
		a, b := p[i-1], p[i]
		long := (b.At - a.At).Seconds()
		if long == 0 {
			continue
		}
		t := min((at - a.At).Seconds(), long)
		sum += t * (a.Rate + (b.Rate-a.Rate)*t/long/2)
	}
	return sum
}

// Even is the arrivals at equal shares of the profile: the k-th when k are expected, from 0 on. At a constant rate they
// are equally far apart.
func (p Profile) Even() []time.Duration {
	k := -1.0
	return p.draw(func() float64 { k++; return k })
}

// Poisson is arrivals of a Poisson process with the profile's rate: those of a large number of callers who know nothing
// of each other. It takes one number of rng for each arrival and one more.
func (p Profile) Poisson(rng *rand.Rand) []time.Duration {
	sum := 0.0
	return p.draw(func() float64 { sum += rng.ExpFloat64(); return sum })
}

// draw is the instants at which the expected count reaches each value of next, which grows.
func (p Profile) draw(next func() float64) []time.Duration {
	s := Stream{p: p, next: next, want: next()}
	return s.Until(p.Len()+1, make([]time.Duration, 0, int(p.Expected(p.Len()))+1))
}

// Trace is the arrivals of a recorded list of timestamps, counted from the first.
func Trace(stamps []time.Time) ([]time.Duration, error) {
	if len(stamps) == 0 {
		return nil, fmt.Errorf("arrival trace: no timestamps")
	}
	at := make([]time.Duration, len(stamps))
	for i, t := range stamps {
		if i > 0 && t.Before(stamps[i-1]) {
			return nil, fmt.Errorf("arrival trace: timestamp %d (%s) lies before the one above it: sort the list", i+1, t.Format(time.RFC3339Nano))
		}
		at[i] = t.Sub(stamps[0])
	}
	return at, nil
}
