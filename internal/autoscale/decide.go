package autoscale

import (
	"fmt"
	"math"
	"time"

	"loadline/internal/alarm"
)

// call is an alarm that invokes a policy.
type call struct {
	p *policy
	a *alarm.Watch
}

// decision is a capacity that is to be set, and on whose behalf.
type decision struct {
	want  int
	by    *policy   // nil: the bounds'
	alarm string    // that called it
	base  int       // the capacity before it, for a scale-out's cooldown
	cause string    // of activities; "": the alarm and the policy
	entry *Activity // that says so already; nil: it is to be written
}

func (d decision) why() string {
	if d.cause != "" {
		return d.cause
	}
	return fmt.Sprintf("monitor alarm %s in state ALARM triggered policy %s", d.alarm, d.by.Name)
}

// decide is what a target does when alarms have called some of its policies. It scales out if any of them wants it, to the
// largest; otherwise in: where target tracking calls, if every policy with scale-in is ready, and to the largest.
func (s *Scaler) decide(now time.Time, t *target, calls []call) {
	c, err := s.cfg.Fleet.Capacity(t.Resource)
	if err != nil {
		return // the resource is gone: an orphan does nothing
	}
	var out, in *decision
	var none notScaled
	tracked := false
	for _, k := range calls {
		d, ok := s.propose(now, t, c, k, &none)
		switch {
		case !ok:
		case d.want > c.Desired:
			if out == nil || d.want > out.want {
				out = &d
			}
		case k.p.Tracking != nil:
			tracked = true
		case in == nil || d.want > in.want:
			in = &d
		}
	}
	switch {
	case out != nil && t.Suspended.Out:
		return
	case out != nil:
		if c.Desired >= t.Max {
			s.skip(now, t, out, notScaled{code: AtMax, capacity: t.Max})
			return
		}
		out.want = min(out.want, t.Max)
		s.apply(now, t, c, *out)
		return
	}
	if tracked {
		if d, ok := s.agreed(now, t, c); ok && (in == nil || d.want > in.want) {
			in = &d
		}
	}
	switch {
	case in == nil:
		if none.code == Flapping && c.Desired <= t.Min {
			none.code, none.capacity = AtMin, t.Min
		}
		if none.code != "" {
			s.skip(now, t, none.of, none)
		}
	case t.Suspended.In, now.Before(t.inUntil):
	case c.Desired <= t.Min:
		s.skip(now, t, in, notScaled{code: AtMin, capacity: t.Min})
	default:
		in.want = max(in.want, t.Min)
		s.apply(now, t, c, *in)
	}
}

// propose is what one policy wants for one alarm's call; false where it wants nothing. none is told why it does not.
func (s *Scaler) propose(now time.Time, t *target, c Capacity, k call, none *notScaled) (decision, bool) {
	p, points := k.p, k.a.Points()
	if len(points) == 0 {
		return decision{}, false
	}
	d := decision{by: p, alarm: k.a.Name, base: c.Desired}
	added := 0
	switch {
	case p.Tracking != nil && p.Tracking.NoScaleIn && k.a.Name == p.low:
		return d, false
	case p.Tracking != nil:
		want, code := s.track(p, c, points, k.a.Name == p.low)
		if code != "" {
			*none = notScaled{code: code, capacity: c.Desired, of: &d}
			return d, false
		}
		if d.want = want; k.a.Name == p.low {
			return d, true
		}
		added = want - c.Current
	default:
		a, ok := p.Step.step(&k.a.Alarm, p.Step.aggregate(points))
		if !ok {
			return d, false
		}
		added = p.Step.change(a, c.Desired)
		d.want = max(c.Desired+added, 0)
	}
	if d.want == c.Desired {
		*none = notScaled{code: AtDesired, capacity: c.Desired, of: &d}
		return d, false
	}
	if d.want > c.Desired && now.Before(p.outUntil) {
		// What the scale-out added that began the cooldown counts towards this one.
		if d.base = p.outBase; p.Step == nil || p.Step.Adjustment != ExactCapacity {
			d.want = p.outBase + added
		}
		return d, d.want > c.Desired
	}
	return d, true
}

// track is the capacity that target tracking computes from an alarm's datapoints, or the code that says why it keeps what
// there is. No formula is published; this is the proportional one.
func (s *Scaler) track(p *policy, c Capacity, points []float64, low bool) (want int, code string) {
	m := points[0]
	if s.cfg.Unknowns.Datapoint == Mean {
		m = mean(points)
	}
	want = proportional(c.Current, m, p.Tracking.Target)
	if !low {
		if want <= c.Desired {
			return c.Desired, AtDesired
		}
		return want, ""
	}
	if s.cfg.Unknowns.Guard == GuardOff {
		want = min(want, max(c.Current-1, 0))
	} else if want >= c.Current {
		return c.Desired, Flapping
	}
	if s.cfg.Unknowns.Rounding == Conservative {
		want = max(want, c.Current-1)
	}
	if want >= c.Desired {
		return c.Desired, AtDesired
	}
	return want, ""
}

// proportional is the smallest capacity at which a metric that is m now, and moves in inverse proportion, is at or below
// the target.
func proportional(current int, m, target float64) int {
	want := math.Ceil(float64(current)*m/target - 1e-9)
	return int(math.Max(0, math.Min(want, 1e9)))
}

// agreed is the scale-in that every target-tracking policy with scale-in is ready for: the largest of what they want.
func (s *Scaler) agreed(now time.Time, t *target, c Capacity) (decision, bool) {
	var most *decision
	for _, p := range t.policies {
		if p.Tracking == nil || p.Tracking.NoScaleIn {
			continue
		}
		a := s.alarm(p.low)
		if a == nil || a.State != alarm.InAlarm {
			return decision{}, false
		}
		points := a.Points()
		if len(points) == 0 {
			return decision{}, false
		}
		want, code := s.track(p, c, points, true)
		if code != "" {
			return decision{}, false
		}
		if most == nil || want > most.want {
			most = &decision{want: want, by: p, alarm: a.Name, base: c.Desired}
		}
	}
	if most == nil {
		return decision{}, false
	}
	return *most, true
}

// apply asks the resource for a capacity and writes what came of it.
func (s *Scaler) apply(now time.Time, t *target, c Capacity, d decision) {
	d.want = min(max(d.want, t.Min), t.Max)
	switch {
	case d.want == c.Desired && !c.Busy:
		if d.entry != nil { // meanwhile it has come by itself
			d.entry.Status, d.entry.End = Successful, now
		}
		return
	case c.Busy && s.cfg.Unknowns.Updating == Refuse:
		s.skip(now, t, &d, notScaled{code: Unscalable, capacity: c.Desired})
		return
	case c.Busy:
		if old := t.queued; old != nil {
			if old.want == d.want {
				return
			}
			old.entry.Status, old.entry.End = Overridden, now
		}
		d.entry = s.write(t, Activity{Start: now, Description: s.setting(t, d.want), Cause: d.why(), Status: Pending})
		t.queued = &d
		return
	}
	a := d.entry
	if a == nil {
		a = s.write(t, Activity{Start: now, Description: s.setting(t, d.want), Cause: d.why()})
	}
	if err := s.cfg.Fleet.SetCapacity(t.Resource, now, d.want); err != nil {
		a.Status, a.End = Failed, now
		a.Message = fmt.Sprintf("Failed to set %s to %d. Reason: %v", t.of.unit(), d.want, err)
		return
	}
	a.Status = InProgress
	a.Message = fmt.Sprintf("Successfully set %s to %d. Waiting for change to be fulfilled by sagemaker.", t.of.unit(), d.want)
	t.running, t.wanted, t.by = a, d.want, d.by
	if d.want > c.Desired {
		t.inUntil = time.Time{} // a scale-out ends the cooldown of a scale-in
		if d.by != nil {
			d.by.outUntil, d.by.outBase = now.Add(d.by.cooldown(true)), d.base
		}
	} else if d.by != nil {
		t.inUntil = now.Add(d.by.cooldown(false))
	}
	// A change may end at once.
	if after, err := s.cfg.Fleet.Capacity(t.Resource); err == nil && !after.Busy {
		s.finish(now, t, after)
	}
}

func (s *Scaler) setting(t *target, n int) string {
	return fmt.Sprintf("Setting %s to %d.", t.of.unit(), n)
}

func (p *policy) cooldown(out bool) time.Duration {
	switch {
	case p.Step != nil:
		return cooldown(p.Step.Cooldown)
	case out:
		return cooldown(p.Tracking.OutCooldown)
	}
	return cooldown(p.Tracking.InCooldown)
}

// finish writes how the change under way has ended. One that was not fulfilled leaves no cooldown behind.
func (s *Scaler) finish(now time.Time, t *target, c Capacity) {
	a := t.running
	if a == nil {
		return
	}
	t.running = nil
	a.End = now
	unit := t.of.unit()
	switch {
	case c.Desired == t.wanted && c.Current == t.wanted:
		a.Status = Successful
		a.Message = fmt.Sprintf("Successfully set %s to %d. Change successfully fulfilled by sagemaker.", unit, t.wanted)
	case c.Reason == "" && c.Desired != t.wanted:
		a.Status = Overridden
		a.Message = fmt.Sprintf("The %s was set to %d by a newer change.", unit, c.Desired)
	default:
		a.Status = Unfulfilled
		a.Message = fmt.Sprintf("Successfully set %s to %d. The change was not fulfilled by sagemaker. Reason: %s", unit, t.wanted, c.Reason)
		if t.by != nil {
			t.by.outUntil = time.Time{}
			t.inUntil = time.Time{}
		}
	}
	t.by = nil
}
