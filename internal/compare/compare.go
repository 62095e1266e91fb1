// Package compare says how far one record lies from another of its kind: two ladders, two open-loop ladders, two
// scale-outs, two simulations or two plans. Each figure is told as a shift with a 95 % interval, or as one that cannot be
// told; records that were asked for different things are refused, with what differs.
//
//	r, err := compare.Ladders(compare.Ladder{before, logBefore}, compare.Ladder{after, logAfter})
//	r.Shifts[0].Says // "no_shift_seen"
//
// What was served (image, instance, environment) may differ, for that is what is compared; what was asked (texts,
// objective, transport, traffic) may not. Reading files and printing are left to the command.
package compare

import (
	"fmt"
	"math"
	"strings"
	"time"

	"loadline/internal/artifact"
)

// Schema of a Report.
const Schema = "loadline/comparison/1"

// What a shift says.
const (
	Higher     = "higher"        // the whole interval lies above 0
	Lower      = "lower"         // below 0
	NoShift    = "no_shift_seen" // it covers 0: whether there is one cannot be told from these
	CannotTell = "cannot_tell"   // there is no interval
)

// Which way is better for callers or for the bill.
const (
	BetterUp   = "higher"
	BetterDown = "lower"
)

// Report is a comparison: B against A.
type Report struct {
	Schema  string   `json:"schema"`
	Kind    string   `json:"kind"` // of both records
	A       Side     `json:"a"`
	B       Side     `json:"b"`
	Served  []string `json:"served_differs"` // between what was served, and between settings that were not asked to be equal
	Shifts  []Shift  `json:"shifts"`
	Missing []string `json:"not_compared"` // figures that only one of them has
}

// Side is one of the two records.
type Side struct {
	File      string    `json:"file"`
	RunID     string    `json:"run_id"`
	CreatedAt time.Time `json:"created_at"`
}

// Shift is how far a figure of B lies from A's.
type Shift struct {
	What   string   `json:"what"`
	Unit   string   `json:"unit"`
	A      *float64 `json:"a"` // null: not known, or infinite
	B      *float64 `json:"b"`
	Shift  *float64 `json:"shift"` // b − a
	Low    *float64 `json:"low"`   // of the shift, at 95 % confidence; null: unbounded there
	High   *float64 `json:"high"`
	Says   string   `json:"says"`
	Better string   `json:"better,omitempty"` // higher or lower; empty: neither
	Source string   `json:"source"`           // of the interval, or why there is none
}

// Told says whether any figure could be compared.
func (r *Report) Told() bool {
	for _, s := range r.Shifts {
		if s.Says != CannotTell {
			return true
		}
	}
	return false
}

// DifferentError is two records that were asked for different things.
type DifferentError struct {
	Kind  string
	Lines []string
}

func (e *DifferentError) Error() string {
	return "the two " + e.Kind + " were asked for different things, so that a shift would say nothing:\n  " + strings.Join(e.Lines, "\n  ")
}

// asked collects what must be equal.
type asked struct{ lines []string }

func (d *asked) same(what string, a, b any) {
	if fmt.Sprint(a) != fmt.Sprint(b) {
		d.lines = append(d.lines, fmt.Sprintf("%s: %v and %v", what, a, b))
	}
}

func (d *asked) err(kind string) error {
	if len(d.lines) == 0 {
		return nil
	}
	return &DifferentError{kind, d.lines}
}

func newReport(kind string, a, b *artifact.Header) *Report {
	r := &Report{Schema: Schema, Kind: kind, Served: []string{}, Shifts: []Shift{}, Missing: []string{},
		A: Side{RunID: a.RunID, CreatedAt: a.CreatedAt}, B: Side{RunID: b.RunID, CreatedAt: b.CreatedAt}}
	target := func(t artifact.Target) string {
		if t.URL != "" {
			return t.URL
		}
		return t.Endpoint + "/" + t.Variant
	}
	if x, y := target(a.Target), target(b.Target); x != y {
		r.Served = append(r.Served, fmt.Sprintf("target: %s and %s", x, y))
	}
	if a.Target.Model != b.Target.Model {
		r.Served = append(r.Served, fmt.Sprintf("model: %s and %s", a.Target.Model, b.Target.Model))
	}
	for _, d := range artifact.Compare(a.Fingerprint, b.Fingerprint) {
		if d.A == d.B {
			continue // not known of either: that is no difference
		}
		r.Served = append(r.Served, fmt.Sprintf("%s: %s and %s", d.Field, d.A, d.B))
	}
	if x, y := bound(a.Fingerprint.QueueBound), bound(b.Fingerprint.QueueBound); x != y {
		r.Served = append(r.Served, fmt.Sprintf("queue_bound: %s and %s", x, y))
	}
	return r
}

func bound(n *int) string {
	switch {
	case n == nil:
		return "not known"
	case *n == 0:
		return "none"
	}
	return fmt.Sprint(*n)
}

// add records one figure of both with its estimates; source says where their intervals come from.
func (r *Report) add(what, unit, better string, a, b *estimate, source string) {
	s := Shift{What: what, Unit: unit, Better: better, Says: CannotTell, Source: source}
	if a != nil {
		s.A = finite(a.value)
	}
	if b != nil {
		s.B = finite(b.value)
	}
	if s.A != nil && s.B != nil {
		s.Shift = finite(*s.B - *s.A)
	}
	if a != nil && b != nil && a.known && b.known {
		low, high := difference(*a, *b)
		s.Low, s.High = finite(low), finite(high)
		s.Says = says(low, high)
	} else if source == fromMeans {
		s.Source = "no batch means on both sides"
	}
	r.Shifts = append(r.Shifts, s)
}

func says(low, high float64) string {
	switch {
	case low > 0:
		return Higher
	case high < 0:
		return Lower
	}
	return NoShift
}

func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// missing notes a figure that one of the two lacks.
func (r *Report) missing(format string, a ...any) {
	r.Missing = append(r.Missing, fmt.Sprintf(format, a...))
}
