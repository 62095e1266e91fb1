package measure

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/sample"
	"loadline/internal/scaleout"
)

// decider is a deployed policy: a while after it may act, its alarm fires and it asks for an instance.
type decider struct {
	*grower
	released time.Time
	never    bool
}

const (
	seenAfter    = 70 * time.Second
	decidedAfter = 95 * time.Second
)

func (d *decider) Release(context.Context) error {
	d.released = time.Now()
	return nil
}

func (d *decider) Fired(_ context.Context, since time.Time) (alarm, decision time.Time, err error) {
	if d.released.Before(since) {
		return alarm, decision, errors.New("asked of what was before the breach")
	}
	return d.released.Add(seenAfter), d.released.Add(decidedAfter), nil
}

func (d *decider) Look(ctx context.Context) (Look, error) {
	if !d.never && !d.released.IsZero() && d.asked.IsZero() && time.Since(d.released) >= decidedAfter {
		d.mu.Lock()
		d.state.Desired, d.asked = 2, d.released.Add(decidedAfter)
		d.mu.Unlock()
	}
	return d.grower.Look(ctx)
}

func (d *decider) scaleOut() ScaleOut {
	return ScaleOut{Doc: &artifact.TTotal{Trigger: "policy"}, Prober: d, Probe: 10, Mark: sample.OnFirstAudio, Start: d.start,
		Rule: scaleout.Rule{Window: time.Minute, Quantile: 0.95, Target: 0.2}, Warmup: 30 * time.Second, Settle: 3 * time.Minute, MaxWait: 25 * time.Minute, Poll: 10 * time.Second,
		Progress: d, Freeze: freeze.Record(d.state), Fleet: d, Records: d, Scaler: d, Logs: d, Policy: d}
}

// TestTTotalByPolicy: breach, alarm and decision are told before the stages, detection is what they took, and the total
// begins with the decision.
func TestTTotalByPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &decider{grower: &grower{endpoint: newEndpoint(3), start: time.Now(), takes: 200 * time.Second, drains: 50 * time.Second}}
		doc, err := TTotal(t.Context(), d.scaleOut())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range doc.Detected {
			names = append(names, s.Name)
		}
		if len(names) < 3 || names[0] != scaleout.Breach || names[1] != scaleout.Alarm || names[2] != scaleout.Decision || doc.Timeline[0].Name != scaleout.DesiredSet {
			t.Errorf("stages %q, then %+v", names, doc.Timeline)
		}
		if math.Abs(doc.Detection-decidedAfter.Seconds()) > 1e-6 || doc.DetectionSource != "measured" || math.Abs(doc.Planning-doc.TTotal-doc.Detection) > 1e-6 {
			t.Errorf("detection %g s (%s), total %g s, planning %g s", doc.Detection, doc.DetectionSource, doc.TTotal, doc.Planning)
		}
		if off := doc.TTotal - 250; off < -1 || off > 11 {
			t.Errorf("T_total is %g s", doc.TTotal)
		}
		if d.state.Desired != 3 {
			t.Errorf("it ends at %d", d.state.Desired)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a policy that does not see the load is a failure with its cause
		d := &decider{grower: &grower{endpoint: newEndpoint(3), start: time.Now(), takes: time.Second}, never: true}
		doc, err := TTotal(t.Context(), d.scaleOut())
		if exit.Code(err) != exit.No || len(doc.Attempts) != 1 || doc.Attempts[0].Cause != artifact.CauseStuck || d.state.Desired != 3 {
			t.Errorf("%v, attempts %+v, ends at %d", err, doc.Attempts, d.state.Desired)
		}
	})
}

// TestTTotalStopAlarm: an alarm that fires ends the run wherever it stands, and the count that was is put back.
func TestTTotalStopAlarm(t *testing.T) {
	for _, after := range []time.Duration{0, 20 * time.Second, 100 * time.Second, 300 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d := &decider{grower: &grower{endpoint: newEndpoint(5), start: time.Now(), takes: 200 * time.Second}}
			c := d.scaleOut()
			c.Policy = nil
			c.Alarms = func(context.Context) ([]string, error) {
				if time.Since(d.start) >= after {
					return []string{"guard"}, nil
				}
				return nil, nil
			}
			_, err := TTotal(t.Context(), c)
			if exit.Code(err) != exit.No || !errors.Is(err, ErrAlarm) || d.state.Desired != 5 || d.record != nil {
				t.Errorf("after %s: %v, desired %d, record %v", after, err, d.state.Desired, d.record)
			}
		})
	}
}
