package main

import (
	"math/rand/v2"
	"strings"
	"testing"

	"loadline/internal/stat"
)

// The bench itself, with few seeds and without the largest truth, whose searches take most of the time.
func TestSearchQuality(t *testing.T) {
	var b strings.Builder
	if !bench(&b, []int{3, 37, 120}, 4) {
		t.Error("a target was missed")
	}
	t.Log(b.String())
}

// The endpoints are what they are said to be.
func TestLaws(t *testing.T) {
	for _, l := range laws {
		for _, truth := range truths {
			edge := float64(truth) + 0.5
			if p := l.late(edge, edge); l.name != "cliff" && (p < 0.0499 || p > 0.0501) {
				t.Errorf("%s: %.4f late at the truth, want 0.05", l.name, p)
			}
			if p := l.late(float64(truth+1), edge); p <= 0.05 {
				t.Errorf("%s: %.4f late just above %d, want more than 0.05", l.name, p, truth)
			}
			if p := l.late(0.85*edge, edge); p > 0.025 {
				t.Errorf("%s: %.4f late at 0.85 × truth, want at most 0.025", l.name, p)
			}
		}
	}
	c := correlated{law: laws[0], truth: 120.5, correlation: 0.7, rng: rand.New(rand.NewPCG(1, 1)), now: 100}
	next := c.rung(120)
	late := make([]bool, 100_000)
	for i := range late {
		r := next()
		late[i] = (r.End - r.Started).Duration() > slo
	}
	cross, square := stat.LagOne(late)
	if r := cross / square; r < 0.67 || r > 0.73 {
		t.Errorf("late indicators are correlated by %.3f, want 0.7", r)
	}
}
