// Package alarm is CloudWatch's metric alarms as a state machine: what a series of datapoints, some of them missing, makes
// of an alarm's state, and when its actions are invoked.
//
// It decides the state. It leaves to its caller where the datapoints come from (Data), when to evaluate (Due) and what
// the actions do.
//
//	w := alarm.New(alarm.Alarm{…}, now, 30*time.Second)
//	for now = range due {
//		if w.Evaluate(now, metrics) {
//			act(w.AlarmActions)
//		}
//	}
//
// The rows that the code follows, with their sources, are in doc/autoscaling.md.
package alarm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State of an alarm.
type State string

// The states, in CloudWatch's words.
const (
	OK               State = "OK"
	InAlarm          State = "ALARM"
	InsufficientData State = "INSUFFICIENT_DATA"
)

// Comparison of a datapoint with the threshold that makes it a breach.
type Comparison string

// The comparisons, in CloudWatch's words.
const (
	Above     Comparison = "GreaterThanThreshold"
	AtOrAbove Comparison = "GreaterThanOrEqualToThreshold"
	Below     Comparison = "LessThanThreshold"
	AtOrBelow Comparison = "LessThanOrEqualToThreshold"
)

// Missing is how a period without data counts.
type Missing string

// The treatments, in CloudWatch's words.
const (
	MissingMissing Missing = "missing" // also the zero value's meaning
	NotBreaching   Missing = "notBreaching"
	Breaching      Missing = "breaching"
	Ignore         Missing = "ignore"
)

// Dimension of a metric.
type Dimension struct{ Name, Value string }

// Query is a statistic of a metric, or what metric math makes of several.
type Query struct {
	Namespace, Name string
	Dims            []Dimension
	Statistic       string // SampleCount, Average, Sum, Minimum, Maximum, or a percentile such as p95
	Unit            string // "": any
	// Math is an expression with its metrics, in whatever form the Data reads; "": the query is of the one metric above.
	Math string
}

// Data is where alarms read their metrics.
type Data interface {
	// Read fills values with the statistic of the newest periods before end, newest first: values[i] is that of
	// [end-(i+1)·period, end-i·period). A period without data that can be read at now is NaN.
	Read(q *Query, period time.Duration, end, now time.Time, values []float64)
}

// Alarm is a CloudWatch metric alarm.
type Alarm struct {
	Name, ARN, Description string
	Query
	Period         time.Duration // 10 s, 20 s, 30 s or minutes
	Periods        int           // evaluated
	Datapoints     int           // of these that must breach; 0: all
	Threshold      float64
	Comparison     Comparison
	Missing        Missing
	ActionsEnabled bool
	// The actions of each state, by ARN.
	AlarmActions, OKActions, InsufficientDataActions []string

	State      State
	Reason     string
	Updated    time.Time // when the state was last set
	Configured time.Time
}

// needed is how many breaching datapoints make the alarm.
func (a *Alarm) needed() int {
	if a.Datapoints == 0 {
		return a.Periods
	}
	return a.Datapoints
}

func (a *Alarm) breaches(v float64) bool {
	switch a.Comparison {
	case Above:
		return v > a.Threshold
	case AtOrAbove:
		return v >= a.Threshold
	case Below:
		return v < a.Threshold
	}
	return v <= a.Threshold
}

// extra is how many more periods than it evaluates an alarm looks back for data in place of what is missing. CloudWatch
// says only that it depends on the period and the resolution; its examples have two.
const extra = 2

// Check tells what CloudWatch would refuse.
func (a *Alarm) Check() error {
	switch p := int(a.Period / time.Second); {
	case a.Name == "" || len(a.Name) > 255:
		return fmt.Errorf("An alarm's name has 1 to 255 characters, not %d.", len(a.Name))
	case a.Math == "" && (a.Namespace == "" || a.Query.Name == ""):
		return fmt.Errorf("The alarm %q needs a Namespace and a MetricName.", a.Name)
	case a.Period%time.Second != 0 || p != 10 && p != 20 && p != 30 && (p < 60 || p%60 != 0):
		return fmt.Errorf("The value %d for parameter Period is invalid: it must be 10, 20, 30 or a multiple of 60.", p)
	case a.Periods < 1:
		return fmt.Errorf("The value %d for parameter EvaluationPeriods is invalid: it must be at least 1.", a.Periods)
	case a.Datapoints < 0 || a.Datapoints > a.Periods:
		return fmt.Errorf("The value %d for parameter DatapointsToAlarm is invalid: it must be between 1 and EvaluationPeriods, %d.", a.Datapoints, a.Periods)
	case p < 3600 && p*a.Periods > 86400, p*a.Periods > 604800:
		return fmt.Errorf("Metrics cannot be checked across more than a day, or a week where the period is at least an hour: EvaluationPeriods * Period is %d seconds.", p*a.Periods)
	case !slices.Contains([]Comparison{Above, AtOrAbove, Below, AtOrBelow}, a.Comparison):
		return fmt.Errorf("The value %q for parameter ComparisonOperator is invalid.", a.Comparison)
	case !slices.Contains([]Missing{"", MissingMissing, NotBreaching, Breaching, Ignore}, a.Missing):
		return fmt.Errorf("The value %q for parameter TreatMissingData is invalid: it must be missing, notBreaching, breaching or ignore.", a.Missing)
	case math.IsNaN(a.Threshold) || math.IsInf(a.Threshold, 0):
		return fmt.Errorf("The value %v for parameter Threshold is invalid.", a.Threshold)
	case a.Math == "" && !knownStatistic(a.Statistic):
		return fmt.Errorf("The value %q for parameter Statistic is invalid: SampleCount, Average, Sum, Minimum, Maximum and percentiles can be alarmed on here.", a.Statistic)
	}
	return nil
}

func knownStatistic(s string) bool {
	if slices.Contains([]string{"SampleCount", "Average", "Sum", "Minimum", "Maximum"}, s) {
		return true
	}
	p, err := strconv.ParseFloat(strings.TrimPrefix(s, "p"), 64)
	return strings.HasPrefix(s, "p") && err == nil && p >= 0 && p <= 100
}

// Change of an alarm's state.
type Change struct {
	At       time.Time
	From, To State
	Reason   string
}

// keepChanges is how many of an alarm's changes are kept.
const keepChanges = 200

// Watch is an alarm at work.
type Watch struct {
	Alarm
	late    int   // newest periods that are not expected to be there yet
	every   int64 // seconds between evaluations
	due     int64 // Unix seconds of the next one
	acted   time.Time
	values  []float64 // read last, newest first
	points  []float64 // of these, what there is
	changes []Change
}

// New is an alarm that has not been evaluated yet, in INSUFFICIENT_DATA. It is evaluated at whole minutes, a
// high-resolution one at whole tens of seconds. delay is how long AWS's own metrics take from the end of a period until
// they can be read: an alarm that watches one looks so much further back, and does not take for missing what is late.
func New(a Alarm, now time.Time, delay time.Duration) *Watch {
	if a.Missing == "" {
		a.Missing = MissingMissing
	}
	a.State, a.Reason, a.Updated, a.Configured = InsufficientData, "Unchecked: Initial alarm creation", now, now
	w := &Watch{Alarm: a, every: 60}
	if a.Period < time.Minute {
		w.every = 10
	}
	w.due = now.Unix() - now.Unix()%w.every + w.every
	if a.Math != "" || strings.HasPrefix(a.Namespace, "AWS/") || strings.HasPrefix(a.Namespace, "/aws/") {
		w.late = int((delay + a.Period - 1) / a.Period)
	}
	w.values = make([]float64, a.Periods+extra+w.late)
	return w
}

// Inherit takes over the state and the history of the alarm that this one replaces.
func (w *Watch) Inherit(old *Watch) {
	w.State, w.Reason, w.Updated, w.changes = old.State, old.Reason, old.Updated, old.changes
}

// Due is when it is to be evaluated next, in Unix seconds.
func (w *Watch) Due() int64 { return w.due }

// Changes are the last changes of its state, oldest first.
func (w *Watch) Changes() []Change { return slices.Clone(w.changes) }

// Evaluate reads the metric and says whether the alarm's actions are to be invoked: on coming into ALARM, and once a
// minute while in it, as auto scaling actions are. Other actions are invoked on changes alone.
func (w *Watch) Evaluate(now time.Time, d Data) bool {
	w.due = now.Unix() - now.Unix()%w.every + w.every
	end := floor(now, min(w.Period, time.Minute)) // longer periods slide, minute by minute
	d.Read(&w.Query, w.Period, end, now, w.values)
	to, keep := w.judge(w.values, w.late)
	if !keep && to != w.State {
		w.Set(now, to, w.explain(to))
	}
	if w.State != InAlarm || now.Sub(w.acted) < time.Minute {
		return false
	}
	w.acted = now
	return true
}

// Set puts the alarm into a state until it is next evaluated, as SetAlarmState does.
func (w *Watch) Set(now time.Time, to State, reason string) {
	if to != w.State {
		if len(w.changes) == keepChanges {
			w.changes = slices.Delete(w.changes, 0, keepChanges/2)
		}
		w.changes = append(w.changes, Change{now, w.State, to, reason})
		w.acted = time.Time{}
	}
	w.State, w.Reason, w.Updated = to, reason, now
}

// Acted says that the actions have been invoked now.
func (w *Watch) Acted(now time.Time) { w.acted = now }

// judge is the state that the datapoints make, newest first and NaN where there is none, or that the state is kept. The
// newest late periods are not expected to be there.
func (a *Alarm) judge(values []float64, late int) (to State, keep bool) {
	need := a.needed()
	breaching, fine, oldest := 0, 0, 0
	// The comparison with signs turned so that a breach lies above; this loop is where a simulation spends its time.
	sign, on := 1.0, a.Comparison == AtOrAbove || a.Comparison == AtOrBelow
	if a.Comparison == Below || a.Comparison == AtOrBelow {
		sign = -1
	}
	threshold := sign * a.Threshold
	for i, v := range values {
		v *= sign
		if v != v {
			continue
		}
		if oldest = i; v > threshold || on && v == threshold {
			breaching++
		} else {
			fine++
		}
		// Either number settles it, whatever stands further back and in the gaps.
		switch {
		case breaching == need:
			return InAlarm, false
		case fine > a.Periods-need:
			return OK, false
		}
	}
	// There are too few datapoints.
	switch {
	case a.Missing == Breaching:
		return InAlarm, false
	case a.Missing == NotBreaching, fine > 0:
		return OK, false
	case breaching == 0:
		return InsufficientData, a.Missing == Ignore
	}
	// All there is breaches. It is enough once the oldest is so old that its alarm would be due.
	if age := oldest + 1 - late; age < need {
		return a.State, true
	}
	return InAlarm, a.Missing == Ignore
}

// Points are the datapoints that the last evaluation went by, newest first, until the next one.
func (w *Watch) Points() []float64 {
	w.points = w.points[:0]
	for _, v := range w.values {
		if v == v {
			if w.points = append(w.points, v); len(w.points) == w.Periods {
				break
			}
		}
	}
	return w.points
}

// explain is the reason of a state, much as CloudWatch words it.
func (w *Watch) explain(to State) string {
	points := w.Points()
	if len(points) == 0 {
		return fmt.Sprintf("Insufficient Data: %d datapoints were unknown.", w.Periods)
	}
	n := 0
	for _, v := range points {
		if w.breaches(v) == (to == InAlarm) {
			n++
		}
	}
	shown := points[:min(len(points), 5)]
	var list []string
	for _, v := range shown {
		list = append(list, strconv.FormatFloat(v, 'g', 6, 64))
	}
	not := ""
	if to != InAlarm {
		not = "not "
	}
	word := map[Comparison]string{Above: "greater than", AtOrAbove: "greater than or equal to", Below: "less than", AtOrBelow: "less than or equal to"}[w.Comparison]
	return fmt.Sprintf("Threshold Crossed: %d out of the last %d datapoints [%s] were %s%s the threshold (%s) (minimum %d datapoints for %s -> %s transition).",
		n, len(points), strings.Join(list, ", "), not, word, strconv.FormatFloat(w.Threshold, 'g', -1, 64), w.needed(), w.State, to)
}

// floor is the start of the period that t lies in.
func floor(t time.Time, period time.Duration) time.Time {
	p := int64(period / time.Second)
	return time.Unix(t.Unix()-t.Unix()%p, 0)
}
