package report

import (
	"testing"

	"loadline/internal/ladder"
)

// TestInterval: the ends of an interval are told apart where they differ.
func TestInterval(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{16.9, 18.8, "16.9–18.8, 95 %"}, {178.8, 179.1, "178.8–179.1, 95 %"}, {1199.996, 1200.004, "1199.996–1200.004, 95 %"}, {5, 5, "5–5, 95 %"},
	} {
		if got := interval(ladder.Interval{Low: &c.low, High: &c.high}); got != c.want {
			t.Errorf("%g to %g: %q, not %q", c.low, c.high, got, c.want)
		}
	}
	if got := instances(1) + ", " + instances(1200); got != "1 instance, 1,200 instances" {
		t.Error(got)
	}
}
