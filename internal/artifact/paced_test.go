package artifact

import (
	"math"
	"testing"

	"loadline/internal/ladder"
)

// TestPaced: only replies that take as long as they are played, however many are in flight, leave what a server could do
// unknown.
func TestPaced(t *testing.T) {
	rung := func(n int, s, sound float64) ladder.Rung { // a minute long
		x := float64(n) / s
		return ladder.Rung{N: n, Valid: true, X: x, SMean: &s, EndedNS: 60e9, AudioS: sound * x * 60}
	}
	failed := rung(8, 10, 10.2)
	failed.Outcomes = map[string]int{"truncated": 1}
	invalid := rung(8, 10, 10.2)
	invalid.Valid = false
	for name, c := range map[string]struct {
		rungs []ladder.Rung
		top   int // 0: not paced
	}{
		"paced":                            {[]ladder.Rung{rung(4, 10, 10.2), rung(1, 9.9, 10.2), rung(8, 10.1, 10.2)}, 8},
		"faster than they are played":      {[]ladder.Rung{rung(1, 1, 10.2), rung(8, 1, 10.2)}, 0},
		"full: each takes its turn":        {[]ladder.Rung{rung(1, 1.3, 10.2), rung(8, 10.2, 10.2)}, 0},
		"slower from the first to the top": {[]ladder.Rung{rung(1, 9.2, 10.2), rung(8, 11.2, 10.2)}, 0},
		"one rung":                         {[]ladder.Rung{rung(8, 10.1, 10.2)}, 0},
		"no sound was seen":                {[]ladder.Rung{rung(1, 10, 0), rung(8, 10, 0)}, 0},
		"some failed":                      {[]ladder.Rung{rung(1, 10, 10.2), failed}, 0},
		"the top is not valid":             {[]ladder.Rung{rung(1, 10, 10.2), rung(2, 10, 10.2), invalid}, 2},
		"nothing":                          {nil, 0},
	} {
		q := &QMax{Rungs: c.rungs}
		top, sound, ok := q.Paced()
		if ok != (c.top > 0) || top.N != c.top || ok && math.Abs(sound-10.2) > 1e-9 {
			t.Errorf("%s: %v, %d in flight, %.3f s of sound", name, ok, top.N, sound)
		}
	}
}
