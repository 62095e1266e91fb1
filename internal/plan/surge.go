package plan

import (
	"fmt"
	"math"
	"time"

	"loadline/internal/capacity"
	"loadline/internal/exit"
	"loadline/internal/trace"
)

// burstWidth is the width of the buckets in which the dispersion of arrivals is read.
const burstWidth = 10 * time.Second

// tellable is the growth that chance alone may show in a trace that is still believed when it shows none.
const tellable = 0.15

// surge takes what the trace says into the scenario: the surge ratio, the dispersion of arrivals and idle hours. The trace
// is scaled so that its peak is the scenario's; growth counts from loads on that the smallest fleet does not carry with
// room to spare, which depends on the growth: the two are brought to agree.
func surge(in *Input, m capacity.Measured) (notes []string, err error) {
	s, t := &in.Scenario, in.Trace
	within := time.Duration(m.Lag.Slow().T * float64(time.Second))
	peak, trough := s.PeakRPS, s.TroughRPS
	if s.PeakStreams > 0 {
		peak = s.PeakStreams / m.SMean
	}
	if s.TroughStreams > 0 {
		trough = s.TroughStreams / m.SMean
	}
	highest := t.Peak()
	if !(highest > 0) {
		return nil, exit.Refuse(fmt.Errorf("--trace %s: it holds no request", in.TraceFile))
	}
	// above is the growth at loads that a fleet of floor instances does not carry with room to spare.
	above := func(floor int) (g trace.Growth, err error) {
		h := 0.0
		for range 30 {
			least := math.Max(float64(floor)*m.MuPlan/(1+h), trough)
			if g, err = t.Growth(within, math.Min(least/peak, 0.5)*highest); err != nil || math.Abs(g.H-h) < 1e-6 {
				break
			}
			h = g.H
		}
		return g, err
	}
	g, err := above(s.MinFloor)
	if err != nil {
		return nil, exit.CannotTell(fmt.Errorf("--trace %s: %w", in.TraceFile, err))
	}
	if g.Null > tellable && g.H < g.Null && !in.KeepSurge {
		return nil, exit.CannotTell(fmt.Errorf("--trace %s: it holds too few requests to tell a growth below %.2f times within %.0f s from chance: "+
			"a longer or busier trace, or --surge-ratio beside it", in.TraceFile, 1+g.Null, within.Seconds()))
	}
	at := g.At.Format(time.DateTime)
	if g.At.Year() == 1970 {
		at = g.At.Sub(t.Start).String() + " from its start"
	}
	said := fmt.Sprintf("%s (%s, %.0f requests): the load grows to %.3f times within %.0f s at %s, from %.3g of the peak; h = %.3f once a Poisson stream's %.3f is out; "+
		"over %d windows G is %.2f at p50, %.2f at p99, %.2f at p99.9",
		in.TraceFile, t.Format, t.Requests(), g.G, within.Seconds(), at, g.Rate/highest, g.H, g.Null, g.Windows, g.P50, g.P99, g.P999)
	if in.KeepSurge {
		notes = append(notes, said+fmt.Sprintf("; --surge-ratio %g holds all the same", s.SurgeRatio))
	} else {
		s.SurgeRatio, s.SurgeSource = 1+g.H, "from the trace"
		notes = append(notes, said)
		for floor := 2 * max(1, s.MinFloor); 1+g.H >= capacity.SurgeLimit && float64(floor)*m.MuPlan < peak/2; floor *= 2 {
			if less, err := above(floor); err == nil && 1+less.H < capacity.SurgeLimit {
				notes = append(notes, fmt.Sprintf("that growth begins at a load which a larger smallest fleet carries: with --min-floor %d the trace asks for h = %.3f", floor, less.H))
				break
			}
		}
	}
	if t.Gaps > 0 {
		notes = append(notes, fmt.Sprintf("the trace leaves out %d buckets of %s: they count as empty, and what follows an outage reads as growth", t.Gaps, t.Bucket))
	}
	if d, ok := t.Dispersion(burstWidth); ok {
		s.Dispersion = d
		notes = append(notes, fmt.Sprintf("arrivals vary %.2f times as much as a Poisson stream's over %s", d, burstWidth))
	}
	if hours, ok := t.IdleHours(); ok {
		s.IdleHours = &hours
	}
	return notes, nil
}
