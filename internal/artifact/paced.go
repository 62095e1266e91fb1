package artifact

import (
	"math"

	"loadline/internal/ladder"
)

// Paced is the highest rung of a ladder, with the seconds of sound in one of its replies, where replies are sent no faster
// than they are played and nothing of the ladder says what more in flight would do: from its lowest valid rung to its
// highest, at least twice as many in flight, completions a second keep in proportion (to a tenth), and at both a reply takes
// as long as its sound lasts (likewise). Then what was completed is no most.
func (q *QMax) Paced() (top ladder.Rung, sound float64, ok bool) {
	var low ladder.Rung
	for _, r := range q.Rungs {
		if !r.Valid || r.SMean == nil || r.X <= 0 {
			continue
		}
		if low.N == 0 || r.N < low.N {
			low = r
		}
		if r.N > top.N {
			top = r
		}
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 0.1*b }
	of := func(r ladder.Rung) float64 { return r.AudioS / (r.X * float64(r.EndedNS-r.StartedNS) / 1e9) }
	played := func(r ladder.Rung) bool { return len(r.Outcomes) == 0 && near(*r.SMean, of(r)) }
	if low.N == 0 || top.N < 2*low.N || !played(low) || !played(top) || !near(top.X/float64(top.N), low.X/float64(low.N)) {
		return ladder.Rung{}, 0, false
	}
	return top, of(top), true
}
