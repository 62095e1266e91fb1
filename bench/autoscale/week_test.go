package main

import (
	"testing"
	"time"
)

// TestDay: the load moves every fleet, and one seed gives one day.
func TestDay(t *testing.T) {
	a, b := newWeek(8), newWeek(8)
	if n, m := a.run(24*time.Hour), b.run(24*time.Hour); n != m || n < 8*4 {
		t.Errorf("%d changes, and %d", n, m)
	}
	for id, u := range a.fleet {
		if b.fleet[id].Desired != u.Desired {
			t.Errorf("%s has %d, and %d", id, u.Desired, b.fleet[id].Desired)
		}
	}
}
