package autoscale

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"loadline/internal/alarm"
)

// Saved is what a Scaler was told, under the identities that it gave: what is needed to go on after a restart. Cooldowns,
// activities and the alarms' histories are not among it.
type Saved struct {
	Targets   []Target
	Policies  []SavedPolicy
	Scheduled []Scheduled // their Location is for the reader to look up again
	Alarms    []SavedAlarm
}

// SavedAlarm is an alarm; Metric is its query, whose name the alarm's own would hide in a file.
type SavedAlarm struct {
	alarm.Alarm
	Metric alarm.Query
}

// SavedPolicy is a policy with the identity that its ARN and its alarms' names carry.
type SavedPolicy struct {
	Policy
	ID, High, Low string
}

// Save is the state.
func (s *Scaler) Save() Saved {
	out := Saved{Targets: s.Targets(), Scheduled: s.Scheduled("")}
	for _, a := range s.Alarms() {
		out.Alarms = append(out.Alarms, SavedAlarm{a, a.Query})
	}
	for i := range out.Scheduled {
		out.Scheduled[i].Location = nil
	}
	for _, t := range s.targets {
		for _, p := range t.policies {
			out.Policies = append(out.Policies, SavedPolicy{p.Policy, p.id, p.high, p.low})
		}
	}
	return out
}

// Restore puts a state into a scaler that is new. What does not fit together is an error, and what came before it stays.
// Nothing is scaled by it: capacities are looked at when something is due.
func (s *Scaler) Restore(now time.Time, saved Saved) error {
	for _, t := range saved.Targets {
		of, err := ParseResource(t.Resource)
		if err != nil {
			return err
		}
		i, found := slices.BinarySearchFunc(s.targets, t.Resource, func(x *target, id string) int { return strings.Compare(x.Resource, id) })
		if found {
			return fmt.Errorf("the target %s is there twice", t.Resource)
		}
		s.targets = slices.Insert(s.targets, i, &target{Target: t, of: of})
	}
	for _, a := range saved.Alarms {
		a.Query = a.Metric
		if err := s.PutAlarm(now, a.Alarm); err != nil {
			return err
		}
		w := s.alarm(a.Name)
		w.State, w.Reason, w.Updated, w.Configured = a.State, a.Reason, a.Updated, a.Configured
	}
	for _, p := range saved.Policies {
		t := s.target(p.Resource)
		if t == nil || (p.Tracking == nil) == (p.Step == nil) {
			return fmt.Errorf("the policy %s has no target, or not one configuration", p.Name)
		}
		made := &policy{Policy: p.Policy, target: t, id: p.ID, high: p.High, low: p.Low}
		t.policies = append(t.policies, made)
		s.arns[p.ARN] = made
	}
	for _, a := range saved.Scheduled {
		if _, err := s.PutScheduled(now, a); err != nil {
			continue // its last time was while nobody was here
		}
		t := s.target(a.Resource)
		last := t.scheduled[len(t.scheduled)-1]
		last.ARN, last.Created = a.ARN, a.Created
	}
	return nil
}
