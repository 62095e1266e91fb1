package autoscale

import (
	"math"
	"slices"
	"time"

	"loadline/internal/alarm"
)

// Adjustment is what a step's change means.
type Adjustment string

// The adjustment types.
const (
	ChangeInCapacity        Adjustment = "ChangeInCapacity"
	ExactCapacity           Adjustment = "ExactCapacity"
	PercentChangeInCapacity Adjustment = "PercentChangeInCapacity"
)

// Step is step scaling: by how far an alarm's metric lies beyond its threshold, so much is added or removed. The alarm is
// the user's.
type Step struct {
	Adjustment   Adjustment
	Steps        []StepAdjustment
	MinMagnitude int    // of a percentage, in instances; 0: none
	Aggregation  string // of the alarm's datapoints: Average ("" too), Minimum, Maximum
	Cooldown     *time.Duration
}

// StepAdjustment is one step. Its bounds are relative to the alarm's threshold; nil has no bound. Above the threshold the
// lower one belongs to the step, below it the upper one.
type StepAdjustment struct {
	Lower, Upper *float64
	Change       int
}

const mostSteps = 20

func (st *Step) check() error {
	switch {
	case !slices.Contains([]Adjustment{ChangeInCapacity, ExactCapacity, PercentChangeInCapacity}, st.Adjustment):
		return refuse(Validation, "The adjustment type %q is invalid: it must be ChangeInCapacity, ExactCapacity or PercentChangeInCapacity.", st.Adjustment)
	case !slices.Contains([]string{"", "Average", "Minimum", "Maximum"}, st.Aggregation):
		return refuse(Validation, "The metric aggregation type %q is invalid: it must be Average, Minimum or Maximum.", st.Aggregation)
	case st.MinMagnitude < 0, st.MinMagnitude > 0 && st.Adjustment != PercentChangeInCapacity:
		return refuse(Validation, "MinAdjustmentMagnitude is for PercentChangeInCapacity, and positive.")
	case st.Cooldown != nil && *st.Cooldown < 0:
		return refuse(Validation, "A cooldown of %g seconds is invalid: it must not be negative.", st.Cooldown.Seconds())
	case len(st.Steps) == 0:
		return refuse(Validation, "At least one step adjustment must be specified.")
	case len(st.Steps) > mostSteps:
		return refuse(Validation, "A policy has at most %d step adjustments, not %d.", mostSteps, len(st.Steps))
	}
	sorted := slices.SortedFunc(slices.Values(st.Steps), func(a, b StepAdjustment) int {
		return compareFloat(lower(a), lower(b))
	})
	for i, a := range sorted {
		lo, hi := lower(a), upper(a)
		switch {
		case lo != lo || hi != hi:
			return refuse(Validation, "A step adjustment's bound is not a number.")
		case a.Lower == nil && a.Upper == nil && len(sorted) > 0:
			return refuse(Validation, "A step adjustment cannot have both bounds unspecified.")
		case lo >= hi:
			return refuse(Validation, "A step adjustment's lower bound %v must be less than its upper bound %v.", lo, hi)
		case st.Adjustment == ExactCapacity && a.Change < 0:
			return refuse(Validation, "The scaling adjustment %d of ExactCapacity must not be negative.", a.Change)
		case i > 0 && a.Lower == nil:
			return refuse(Validation, "Only one step adjustment can have an unspecified lower bound.")
		case i > 0 && sorted[i-1].Upper == nil:
			return refuse(Validation, "Only one step adjustment can have an unspecified upper bound.")
		case i > 0 && upper(sorted[i-1]) != lo:
			return refuse(Validation, "Step adjustment intervals must have neither a gap nor an overlap: one ends at %v, the next starts at %v.", upper(sorted[i-1]), lo)
		}
	}
	first, last := sorted[0], sorted[len(sorted)-1]
	switch {
	case first.Lower != nil && *first.Lower < 0:
		return refuse(Validation, "If a step adjustment has a negative lower bound, then there must be one with an unspecified lower bound.")
	case last.Upper != nil && *last.Upper > 0:
		return refuse(Validation, "If a step adjustment has a positive upper bound, then there must be one with an unspecified upper bound.")
	}
	return nil
}

func lower(a StepAdjustment) float64 {
	if a.Lower == nil {
		return math.Inf(-1)
	}
	return *a.Lower
}

func upper(a StepAdjustment) float64 {
	if a.Upper == nil {
		return math.Inf(1)
	}
	return *a.Upper
}

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// step is the adjustment for a metric that lies so far beyond an alarm's threshold; false where no step covers it. What
// lies on the threshold is above it for an alarm that watches what is above, and below it for one that watches what is
// below.
func (st *Step) step(a *alarm.Alarm, metric float64) (StepAdjustment, bool) {
	beyond := metric - a.Threshold
	above := beyond > 0 || beyond == 0 && (a.Comparison == alarm.Above || a.Comparison == alarm.AtOrAbove)
	for _, adj := range st.Steps {
		lo, hi := lower(adj), upper(adj)
		if above && beyond >= lo && beyond < hi || !above && beyond > lo && beyond <= hi {
			return adj, true
		}
	}
	return StepAdjustment{}, false
}

// change is what a step makes of a capacity: by how much it goes up or down.
func (st *Step) change(a StepAdjustment, capacity int) int {
	switch st.Adjustment {
	case ExactCapacity:
		return a.Change - capacity
	case PercentChangeInCapacity:
		d := float64(capacity) * float64(a.Change) / 100
		n := int(math.Max(-1e9, math.Min(1e9, math.Trunc(d))))
		switch {
		case d > 0 && d < 1:
			n = 1
		case d < 0 && d > -1:
			n = -1
		}
		if a.Change > 0 {
			n = max(n, st.MinMagnitude)
		} else if a.Change < 0 {
			n = min(n, -st.MinMagnitude)
		}
		return n
	}
	return a.Change
}

// aggregate is the number that stands for an alarm's datapoints.
func (st *Step) aggregate(points []float64) float64 {
	switch st.Aggregation {
	case "Minimum":
		return slices.Min(points)
	case "Maximum":
		return slices.Max(points)
	}
	return mean(points)
}

func mean(points []float64) float64 {
	sum := 0.0
	for _, v := range points {
		sum += v
	}
	return sum / float64(len(points))
}
