package autoscale

import (
	"slices"
	"time"
)

// Status of an activity.
type Status string

// The statuses, in AWS's words.
const (
	Pending     Status = "Pending"     // the service has not answered yet
	InProgress  Status = "InProgress"  // it has accepted the change
	Successful  Status = "Successful"  // it has fulfilled it
	Overridden  Status = "Overridden"  // a newer event has set another capacity
	Unfulfilled Status = "Unfulfilled" // it could not fulfil it
	Failed      Status = "Failed"      // it refused, or nothing was tried: NotScaled says why
)

// The codes of what was not scaled.
const (
	Flapping   = "AutoScalingAnticipatedFlapping"
	Unscalable = "TargetServicePutResourceAsUnscalable"
	AtMax      = "AlreadyAtMaxCapacity"
	AtMin      = "AlreadyAtMinCapacity"
	AtDesired  = "AlreadyAtDesiredCapacity"
)

// Activity is one thing that was done, or not done, about a target's capacity.
type Activity struct {
	ID                          string
	Description, Cause, Message string
	Start, End                  time.Time // End is zero while it goes on
	Status                      Status
	NotScaled                   string // a code: nothing was tried. Listings leave these out unless they are asked for
	Capacity                    int    // that the code speaks of: the maximum, the minimum or the current one
}

// KeepActivities is how long activities are kept.
const KeepActivities = 6 * 7 * 24 * time.Hour

// mostActivities bounds the log of one target; AWS names no bound.
const mostActivities = 5000

// notScaled is a decision that was not carried out.
type notScaled struct {
	code     string
	capacity int
	of       *decision
}

// skip writes that a decision was not carried out: once for as long as it is the same one for the same reason.
func (s *Scaler) skip(now time.Time, t *target, d *decision, n notScaled) {
	last := t.skipped
	if last.of != nil && last.code == n.code && last.capacity == n.capacity && last.of.by == d.by && last.of.alarm == d.alarm {
		return
	}
	s.write(t, Activity{Start: now, End: now, Description: "Attempting to scale due to alarm triggered", Cause: d.why(),
		Status: Failed, NotScaled: n.code, Capacity: n.capacity})
	n.of = d
	t.skipped = n
}

// write puts an activity into the log.
func (s *Scaler) write(t *target, a Activity) *Activity {
	t.skipped = notScaled{}
	old := 0
	for old < len(t.log) && (a.Start.Sub(t.log[old].Start) > KeepActivities || len(t.log)-old >= mostActivities) {
		old++
	}
	a.ID = s.uuid()
	t.log = append(slices.Delete(t.log, 0, old), &a)
	return &a
}

// Activities of a target, newest first, the not-scaled ones included; of every target where resource is empty.
func (s *Scaler) Activities(resource string) []Logged {
	var out []Logged
	for _, t := range s.targets {
		if resource == "" || t.Resource == resource {
			for _, a := range slices.Backward(t.log) {
				out = append(out, Logged{*a, t.Resource})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Logged) int { return b.Start.Compare(a.Start) })
	return out
}

// Logged is an activity and the resource that it is about.
type Logged struct {
	Activity
	Resource string
}
