package plan

import (
	"fmt"
	"time"

	"loadline/internal/arrival"
	"loadline/internal/sim"
	"loadline/internal/trace"
)

// Shapes of load that a plan can be played against.
var Shapes = []string{"surge", "ramp", "diurnal", "burst", "steady"}

// Load is what a shape is made of: the peak and the trough of the fleet's load, requests a second, how many times as much
// a surge is, and T of the signal that the plan follows.
type Load struct {
	Peak, Trough float64
	Ratio        float64
	T            time.Duration
}

// Shape is a load over time:
//
//   - surge: the peak, times the ratio for twice T (at least ten minutes), and the peak again for an hour: what plan
//     chooses policies by;
//   - ramp: from the trough to the peak along a line within an hour, an hour of it, and back within an hour;
//   - diurnal: a day from midnight on, along a cosine from the trough at 04:00 to the peak at 16:00;
//   - burst: four hours of the peak, times the ratio for a minute in every fifteen;
//   - steady: two hours of the peak.
func Shape(name string, l Load) (arrival.Profile, error) {
	if !(l.Peak > 0) || l.Trough < 0 || l.Trough > l.Peak || !(l.Ratio >= 1) || l.T < 0 {
		return nil, fmt.Errorf("shape %s: from %g to %g requests a second, times %g: a trough from 0 to the peak, which is above 0, and a ratio of 1 or more are needed", name, l.Trough, l.Peak, l.Ratio)
	}
	switch name {
	case "surge":
		p, _ := surgeLoad(l.Peak, l.Ratio, l.T)
		return p, nil
	case "ramp":
		var p arrival.Profile
		for i, rate := range []float64{l.Trough, l.Peak, l.Peak, l.Trough, l.Trough} {
			p = append(p, arrival.Point{At: time.Duration(i) * time.Hour, Rate: rate})
		}
		return p, nil
	case "diurnal":
		return sim.Diurnal(l.Trough, l.Peak, sim.Day)
	case "burst":
		return sim.Bursts(l.Peak, l.Ratio, 15*time.Minute, time.Minute, 4*time.Hour)
	case "steady":
		return arrival.Profile{{At: 0, Rate: l.Peak}, {At: 2 * time.Hour, Rate: l.Peak}}, nil
	}
	return nil, fmt.Errorf("there is no shape %q", name)
}

// surgeLoad is the load that candidates are played against, and how long its surge is.
func surgeLoad(base, ratio float64, t time.Duration) (p arrival.Profile, length time.Duration) {
	length = max(surgeLeast, (2*t + surgeStep - 1).Truncate(surgeStep))
	end := surgeBefore + length
	top := base * ratio
	return arrival.Profile{{At: 0, Rate: base}, {At: surgeBefore, Rate: base}, {At: surgeBefore, Rate: top}, {At: end, Rate: top}, {At: end, Rate: base}, {At: end + surgeAfter, Rate: base}}, length
}

// traceStep is the least width of a step in the load of a trace: no alarm looks closer.
const traceStep = 10 * time.Second

// Traced is the load of a trace, as steps; its peak is the given rate, or as recorded where that is 0.
func Traced(t *trace.Trace, peak float64) (arrival.Profile, error) {
	m := t.Merge(int((traceStep + t.Bucket - 1) / t.Bucket))
	highest := m.Peak()
	if len(m.Counts) == 0 || !(highest > 0) {
		return nil, fmt.Errorf("the trace holds no request")
	}
	factor := 1.0
	if peak > 0 {
		factor = peak / highest
	}
	var p arrival.Profile
	for i, n := range m.Counts {
		rate := factor * n / m.Bucket.Seconds()
		p = append(p, arrival.Point{At: time.Duration(i) * m.Bucket, Rate: rate}, arrival.Point{At: time.Duration(i+1) * m.Bucket, Rate: rate})
	}
	return p, nil
}
