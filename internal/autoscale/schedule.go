package autoscale

import (
	"fmt"
	"slices"
	"time"

	"loadline/internal/schedule"
)

// Scheduled is a scheduled action: at its times it sets a target's bounds, and capacity moves inside them whatever the
// cooldowns.
type Scheduled struct {
	Name, Resource string
	Schedule       string         // at(…), rate(…) or cron(…)
	Timezone       string         // of at and cron, as it was given; "": UTC
	Location       *time.Location // the same, looked up by the caller; nil: UTC
	Start, End     time.Time      // zero: none. It also acts at Start itself
	Min, Max       *int
	ARN            string // made by PutScheduled
	Created        time.Time
}

type scheduled struct {
	Scheduled
	plan *schedule.Plan
	made int       // order of putting
	next time.Time // zero: never again
}

// PutScheduled makes a scheduled action, or changes the one of that name.
func (s *Scaler) PutScheduled(now time.Time, a Scheduled) (Scheduled, error) {
	t := s.target(a.Resource)
	if t == nil {
		return Scheduled{}, missingTarget(a.Resource)
	}
	from := now
	if !a.Start.IsZero() {
		from = a.Start
	}
	p, err := schedule.Parse(a.Schedule, a.Location, from)
	switch {
	case a.Name == "" || len(a.Name) > 256:
		return Scheduled{}, refuse(Validation, "A scheduled action's name has 1 to 256 characters, not %d.", len(a.Name))
	case err != nil:
		return Scheduled{}, refuse(Validation, "The schedule %q is invalid: %v.", a.Schedule, err)
	case a.Min == nil && a.Max == nil:
		return Scheduled{}, refuse(Validation, "A scheduled action must set MinCapacity, MaxCapacity, or both.")
	case a.Min != nil && *a.Min < 0, a.Max != nil && *a.Max < 0, a.Min != nil && a.Max != nil && *a.Min > *a.Max:
		return Scheduled{}, refuse(Validation, "Minimum capacity cannot be negative, nor greater than the maximum capacity.")
	case !a.Start.IsZero() && !a.End.IsZero() && !a.Start.Before(a.End):
		return Scheduled{}, refuse(Validation, "The start time must be before the end time.")
	}
	i := slices.IndexFunc(t.scheduled, func(x *scheduled) bool { return x.Name == a.Name })
	if i < 0 && len(t.scheduled) >= MostScheduled {
		return Scheduled{}, refuse(LimitExceeded, "A scalable target has at most %d scheduled actions.", MostScheduled)
	}
	made := &scheduled{Scheduled: a, plan: p}
	if made.next = made.after(now); made.next.IsZero() {
		return Scheduled{}, refuse(Validation, "The schedule %q has no time in the future.", a.Schedule)
	}
	if i >= 0 {
		made.ARN, made.Created, made.made = t.scheduled[i].ARN, t.scheduled[i].Created, t.scheduled[i].made
		t.scheduled[i] = made
	} else {
		t.made++
		made.made, made.Created = t.made, now
		made.ARN = s.arn("autoscaling", "scheduledAction:"+s.uuid()+":resource/sagemaker/"+t.Resource+":scheduledActionName/"+a.Name)
		t.scheduled = append(t.scheduled, made)
	}
	return made.Scheduled, nil
}

// after is the action's first time after t, zero when there is none. A start time is one of a recurring action's times.
func (a *scheduled) after(t time.Time) time.Time {
	next, ok := a.plan.Next(t)
	if a.Start.After(t) && !a.plan.Once() {
		next, ok = a.Start, true
	}
	if !ok || !a.End.IsZero() && next.After(a.End) {
		return time.Time{}
	}
	return next
}

// DeleteScheduled removes a scheduled action.
func (s *Scaler) DeleteScheduled(resource, name string) error {
	if t := s.target(resource); t != nil {
		for i, a := range t.scheduled {
			if a.Name == name {
				t.scheduled = slices.Delete(t.scheduled, i, i+1)
				return nil
			}
		}
	}
	return refuse(NotFound, "No scheduled action found for service namespace: sagemaker, resource ID: %s, scheduled action name: %s", resource, name)
}

// Scheduled are a target's scheduled actions, in the order in which they were made; every target's where resource is
// empty.
func (s *Scaler) Scheduled(resource string) []Scheduled {
	var out []Scheduled
	for _, t := range s.targets {
		if resource == "" || t.Resource == resource {
			for _, a := range t.scheduled {
				out = append(out, a.Scheduled)
			}
		}
	}
	return out
}

// runScheduled does the scheduled actions of a target that are due: by their times, and those of one time in the order in
// which they were made. One that fell due several times meanwhile acts once.
func (s *Scaler) runScheduled(now time.Time, t *target) {
	var due []*scheduled
	for _, a := range t.scheduled {
		if !a.next.IsZero() && !a.next.After(now) {
			due = append(due, a)
		}
	}
	slices.SortStableFunc(due, func(a, b *scheduled) int { return a.next.Compare(b.next) })
	for _, a := range due {
		a.next = a.after(now)
		if !t.Suspended.Scheduled {
			s.run(now, t, a)
		}
	}
}

// run sets the bounds. A resource that cannot be scaled now makes the action fail, bounds and all, where decisions are
// refused while it changes; where they queue, the bounds are set and the capacity follows.
func (s *Scaler) run(now time.Time, t *target, a *scheduled) {
	least, most := t.Min, t.Max
	set(&least, a.Min)
	set(&most, a.Max)
	what := ""
	switch {
	case a.Min != nil && a.Max != nil:
		what = fmt.Sprintf("min capacity to %d and max capacity to %d", least, most)
	case a.Min != nil:
		what = fmt.Sprintf("min capacity to %d", least)
	default:
		what = fmt.Sprintf("max capacity to %d", most)
	}
	entry := Activity{Start: now, End: now, Description: "Setting " + what, Cause: "scheduled action name " + a.Name + " was triggered", Status: Failed}
	c, err := s.cfg.Fleet.Capacity(t.Resource)
	switch {
	case err != nil:
		entry.Message = fmt.Sprintf("Failed to set %s. Reason: %v", what, err)
	case c.Busy && s.cfg.Unknowns.Updating == Refuse:
		entry.Message = fmt.Sprintf("Failed to set %s. Reason: Resource Id %s is not scalable: a change of it is in progress", what, t.Resource)
	case least > most:
		entry.Message = fmt.Sprintf("Failed to set %s. Reason: minimum capacity %d would be greater than the maximum capacity %d", what, least, most)
	default:
		entry.Status, entry.Message = Successful, "Successfully set "+what
	}
	s.write(t, entry)
	if entry.Status == Successful {
		t.Min, t.Max = least, most
		s.enforce(now, t)
	}
}
