package autoscale

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"loadline/internal/alarm"
)

// Suspended is which kinds of scaling a target does not do for now.
type Suspended struct{ In, Out, Scheduled bool }

// Target is a scalable target: a resource with bounds on its capacity.
type Target struct {
	Resource  string
	Dimension string
	ARN       string
	Min, Max  int
	Suspended Suspended
	Created   time.Time
}

// target is a Target with what hangs on it.
type target struct {
	Target
	of        Resource
	policies  []*policy    // in the order in which they were put
	scheduled []*scheduled // likewise
	made      int          // scheduled actions so far
	log       []*Activity  // oldest first
	running   *Activity    // the one of log that is in progress; nil: none
	wanted    int          // by it
	by        *policy      // whose decision it is; nil: the bounds'
	queued    *decision    // waits for the change under way
	skipped   notScaled    // the last thing that was not done, so that it is written once
	inUntil   time.Time    // scale-in is blocked until then
}

// Registration makes a target or changes one; nil leaves what is.
type Registration struct {
	Resource  string
	Min, Max  *int
	Suspended *Suspension
}

// Suspension changes a target's suspended state; nil leaves what is.
type Suspension struct{ In, Out, Scheduled *bool }

// Register makes a target or changes it, and moves a capacity that lies outside its bounds inside at once, whether or not
// the bounds have changed.
func (s *Scaler) Register(now time.Time, r Registration) (Target, error) {
	of, err := ParseResource(r.Resource)
	if err != nil {
		return Target{}, err
	}
	old := s.target(r.Resource)
	t := Target{Resource: r.Resource, Dimension: of.Dimension(), Created: now}
	switch {
	case old != nil:
		t = old.Target
	case r.Min == nil || r.Max == nil:
		return Target{}, refuse(Validation, "MinCapacity and MaxCapacity must be given when a scalable target is registered for the first time.")
	case s.ofDimension(t.Dimension) >= MostTargets:
		return Target{}, refuse(LimitExceeded, "An account has at most %d scalable targets of one resource type.", MostTargets)
	default:
		t.ARN = s.arn("application-autoscaling", "scalable-target/"+fmt.Sprintf("%016x", s.cfg.Rand.Uint64()))
	}
	if _, err := s.cfg.Fleet.Capacity(r.Resource); err != nil {
		return Target{}, refuse(Validation, "%s", err)
	}
	set(&t.Min, r.Min)
	set(&t.Max, r.Max)
	if t.Min < 0 || t.Min > t.Max {
		return Target{}, refuse(Validation, "Minimum capacity %d cannot be negative, nor greater than the maximum capacity %d.", t.Min, t.Max)
	}
	before := t.Suspended
	if r.Suspended != nil {
		set(&t.Suspended.In, r.Suspended.In)
		set(&t.Suspended.Out, r.Suspended.Out)
		set(&t.Suspended.Scheduled, r.Suspended.Scheduled)
	}
	if old == nil {
		old = &target{of: of}
		i, _ := slices.BinarySearchFunc(s.targets, t.Resource, func(x *target, id string) int { return strings.Compare(x.Resource, id) })
		s.targets = slices.Insert(s.targets, i, old)
	}
	old.Target = t
	s.enforce(now, old)
	if before.In && !t.Suspended.In || before.Out && !t.Suspended.Out {
		s.resume(now, old)
	}
	return t, nil
}

func set[T any](at *T, v *T) {
	if v != nil {
		*at = *v
	}
}

func (s *Scaler) ofDimension(d string) int {
	n := 0
	for _, t := range s.targets {
		if t.Dimension == d {
			n++
		}
	}
	return n
}

// resume has the policies evaluated whose alarms are in breach: their actions were not taken while scaling was suspended.
func (s *Scaler) resume(now time.Time, t *target) {
	var calls []call
	for _, a := range s.alarms {
		if a.State != alarm.InAlarm || !a.ActionsEnabled {
			continue
		}
		for _, p := range t.policies {
			if slices.Contains(a.AlarmActions, p.ARN) {
				calls = append(calls, call{p, a})
			}
		}
	}
	if calls != nil {
		s.decide(now, t, calls)
	}
}

// Deregister removes a target with its policies, their alarms and its scheduled actions. Its activities go with it.
func (s *Scaler) Deregister(resource string) error {
	t := s.target(resource)
	if t == nil {
		return missingTarget(resource)
	}
	for _, p := range slices.Clone(t.policies) {
		s.removePolicy(t, p)
	}
	s.targets = slices.DeleteFunc(s.targets, func(x *target) bool { return x == t })
	return nil
}

func missingTarget(resource string) *Error {
	dimension := ""
	if r, err := ParseResource(resource); err == nil {
		dimension = r.Dimension()
	}
	return refuse(NotFound, "No scalable target found for service namespace: sagemaker, resource ID: %s, scalable dimension: %s", resource, dimension)
}

// Targets are all targets, by resource.
func (s *Scaler) Targets() []Target {
	out := make([]Target, len(s.targets))
	for i, t := range s.targets {
		out[i] = t.Target
	}
	return out
}

// Target of that resource.
func (s *Scaler) Target(resource string) (Target, bool) {
	if t := s.target(resource); t != nil {
		return t.Target, true
	}
	return Target{}, false
}

// enforce moves a capacity that lies outside its bounds inside, cooldowns or not. While the resource changes it waits:
// Settled asks again.
func (s *Scaler) enforce(now time.Time, t *target) {
	c, err := s.cfg.Fleet.Capacity(t.Resource)
	if err != nil || c.Busy {
		return
	}
	want, cause := c.Desired, ""
	switch {
	case c.Desired < t.Min:
		want, cause = t.Min, "minimum capacity was set to %d"
	case c.Desired > t.Max:
		want, cause = t.Max, "maximum capacity was set to %d"
	default:
		return
	}
	s.apply(now, t, c, decision{want: want, cause: fmt.Sprintf(cause, want)})
}
