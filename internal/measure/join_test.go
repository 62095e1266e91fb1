package measure

import (
	"strings"
	"testing"
	"time"

	"loadline/internal/ladder"
	"loadline/internal/sample"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return noon.Add(seconds(s)) }

func TestWholePeriods(t *testing.T) {
	tests := []struct {
		from, to float64
		period   time.Duration
		first    float64
		n        int
	}{
		{0, 60, 10 * time.Second, 0, 6},
		{1, 60, 10 * time.Second, 10, 5},
		{1, 59.9, 10 * time.Second, 10, 4},
		{1, 19, 10 * time.Second, 10, 0},
		{1, 9, 10 * time.Second, 10, 0},
		{0, 60, time.Minute, 0, 1},
		{0.001, 60, time.Minute, 60, 0}, // the published window: unaligned, it reads its neighbour
		{30, 180, time.Minute, 60, 2},
		{30, 30, 10 * time.Second, 30, 0},
	}
	for _, tt := range tests {
		first, n := span{at(tt.from), at(tt.to)}.whole(tt.period)
		if !first.Equal(at(tt.first)) || n != tt.n {
			t.Errorf("%g to %g by %s: %d periods from %s, want %d from %s", tt.from, tt.to, tt.period, n, first, tt.n, at(tt.first))
		}
	}
}

// points is one value a period from a start.
func points(from float64, period time.Duration, values ...float64) []Point {
	var ps []Point
	for i, v := range values {
		ps = append(ps, Point{At: at(from).Add(time.Duration(i) * period), Value: v})
	}
	return ps
}

func rung(n int, from, to float64) ladder.Rung {
	p95 := float64(n) * 0.056
	return ladder.Rung{N: n, StartedNS: int64(seconds(from)), EndedNS: int64(seconds(to)), SP95: &p95, Client: &sample.Client{InFlight: float64(n)}}
}

func TestJoin(t *testing.T) {
	const ten = 10 * time.Second
	idleAround := func(v float64) map[Metric][]Point { // the neighbours of the window hold other values
		return map[Metric][]Point{
			concurrencyMax:  points(0, ten, 99, v, v, v, v, v, v, 99),
			concurrencyMin:  points(0, ten, 0, v, v, v, v, v, v, 0),
			concurrencyMean: points(0, ten, 50, v, v, v, v, v, v, 1),
			modelLatency:    points(0, time.Minute, 5e6, v*0.05*1e6, 5e6),
			invocations:     points(0, time.Minute, 1, 2, 3),
			cpu:             points(0, time.Minute, 7, 101, 9),
		}
	}
	tests := []struct {
		name      string
		rung      ladder.Rung
		points    map[Metric][]Point
		none      bool
		agreement string
		squared   bool
	}{
		{name: "agrees", rung: rung(20, 5, 75), points: idleAround(20), agreement: "agrees", squared: true},
		{name: "too short for a period", rung: rung(20, 1, 19), points: idleAround(20), none: true},
		{name: "nothing published", rung: rung(20, 5, 75), points: map[Metric][]Point{}, none: true},
		{name: "server holds more", rung: rung(20, 5, 75), points: idleAround(25.1), agreement: "mean concurrency 25.1", squared: false},
		{name: "server holds less", rung: rung(20, 5, 75), points: idleAround(14.9), agreement: "mean concurrency 14.9", squared: false},
		{name: "just within", rung: rung(20, 5, 75), points: idleAround(24.9), agreement: "agrees", squared: true},
		{name: "server slower than client", rung: rung(20, 50, 130), points: map[Metric][]Point{
			concurrencyMax: points(50, ten, 20, 20, 20, 20, 20, 20, 20, 20),
			modelLatency:   points(60, time.Minute, 2e6),
		}, agreement: "server's p95 2000 ms lies above the client's 1120 ms", squared: false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := join(tt.rung, spanOf(noon, tt.rung), tt.points)
			if (s == nil) != tt.none {
				t.Fatalf("got %+v, want none: %t", s, tt.none)
			}
			if s == nil {
				return
			}
			if s.Squared != tt.squared || !strings.Contains(s.Agreement, tt.agreement) {
				t.Errorf("got %t, %q, want %t, %q", s.Squared, s.Agreement, tt.squared, tt.agreement)
			}
		})
	}

	s := join(rung(20, 5, 75), spanOf(noon, rung(20, 5, 75)), idleAround(22))
	if s.Periods != 6 || *s.ConcurrencyMax != 22 || *s.ConcurrencyMin != 22 || *s.Ratio != 1.1 {
		t.Errorf("got %d periods, max %g, min %g, ratio %g, want 6, 22, 22, 1.1", s.Periods, *s.ConcurrencyMax, *s.ConcurrencyMin, *s.Ratio)
	}
	if s.Invocations != nil || s.ModelLatencyP95 != nil || s.CPU != nil {
		t.Errorf("5 s to 75 s holds no whole minute, yet minutes are read: %+v", s)
	}
}

func TestUnpublished(t *testing.T) {
	spans := []span{{at(5), at(35)}, {at(50), at(125)}} // 2 and 7 periods of 10 s, 1 minute
	all := map[Metric][]Point{
		concurrencyMax: points(0, 10*time.Second, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
		invocations:    points(0, time.Minute, 1, 1, 1),
	}
	if got := unpublished(spans, all); got != 0 {
		t.Errorf("all are there, yet %d are missing", got)
	}
	if got := unpublished(spans, nil); got != 10 {
		t.Errorf("%d are missing of none published, want 10", got)
	}
	all[concurrencyMax] = all[concurrencyMax][:11]
	if got := unpublished(spans, all); got != 1 {
		t.Errorf("%d are missing, want the last one", got)
	}
}
