package scaleout

import (
	"cmp"
	"slices"
	"time"

	"loadline/internal/ladder"
)

// Progress is a scale-out while it is measured: what can be said of it so far, for whoever watches. It decides nothing: the
// ledger of the run may move a stage by what its clocks say, and knows those of the container.
type Progress struct {
	// Probe is what the probe's latest replies say, with the title, the run in place of the rung, what is held, time and money.
	// Its Left, Total and Limit are at most.
	Probe ladder.Progress

	Status      string // of the endpoint
	Now, Wanted int    // instances

	Reached []Reached
	Awaited string        // the stage; "" where all have been reached, and the probe is held to its end
	For     time.Duration // that it has been awaited
	AtMost  time.Duration // that it is awaited
	Rule    Rule          // of recovered traffic
}

// Reached is a stage that has been reached.
type Reached struct {
	Name  string
	After time.Duration // the capacity call, negative before it; the first stage while there is no call
}

// Reach orders the marks of a run so far, and counts them from its capacity call. Of a stage that was stamped twice the first
// counts.
func Reach(marks []Mark) []Reached {
	if len(marks) == 0 {
		return nil
	}
	marks = slices.Clone(marks)
	stages := slices.Concat(detection, order)
	rank := func(name string) int { return slices.Index(stages, name) }
	slices.SortStableFunc(marks, func(a, b Mark) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(rank(a.Name), rank(b.Name))) })
	origin := marks[0]
	if i := slices.IndexFunc(marks, func(m Mark) bool { return m.Name == DesiredSet }); i >= 0 {
		origin = marks[i]
	}
	var out []Reached
	for _, m := range marks {
		if !slices.ContainsFunc(out, func(r Reached) bool { return r.Name == m.Name }) {
			out = append(out, Reached{m.Name, m.At.Sub(origin.At)})
		}
	}
	return out
}
