package admission

import (
	"testing"
	"time"
)

// One slow piece does not shut the gate for good: an empty one lets the next in, and learns from it.
func TestGateOpensAgain(t *testing.T) {
	g := New(Config{SLO: 300 * time.Millisecond, Predict: true})
	cost, refused := 1000, 0
	for ms := 0; ms < 100_000; ms += 2000 {
		tk, err := g.Admit(at(ms), true)
		if err != nil {
			refused++
			continue
		}
		if ask(g, tk, ms) != tk || tk.Refused() != nil {
			t.Fatalf("at %d ms: the place is free, and refused: %v", ms, tk.Refused())
		}
		g.Release(tk, at(ms+cost))
		cost = 50
	}
	if refused > 0 {
		t.Errorf("%d of 50 refused by an empty server", refused)
	}
}
