package sim

import (
	"math"
	"testing"
	"time"

	"loadline/internal/arrival"
	"loadline/internal/autoscale"
)

// TestPeaks: what an alarm reads of the concurrency's Maximum is as high as a fluid as it is request by request.
func TestPeaks(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int
		cs2    float64
		load   float64
		places int
		router autoscale.Router
	}{
		{"a few instances", 4, 0.01, 0.7, 1, autoscale.RandomRouter},
		{"many", 100, 0.01, 0.75, 1, autoscale.RandomRouter},
		{"many, nearly full", 100, 0.01, 0.9, 1, autoscale.RandomRouter},
		{"exponential", 20, 1, 0.7, 1, autoscale.RandomRouter},
		{"four at once", 20, 0.25, 0.7, 4, autoscale.RandomRouter},
		{"least loaded", 20, 0.25, 0.7, 4, autoscale.LeastOutstanding},
	} {
		cfg := Config{Seed: 1, Server: serverOf(t, ServerConfig{CS2: c.cs2, Depth: 50, Places: c.places}), Initial: c.n, Routing: c.router}
		cfg.Gate.Depth = 50
		cfg.Load = must[arrival.Profile](t)(arrival.Constant(c.load*17.9*float64(c.n), time.Hour))
		mean := func(w *world) (mean, dev float64) {
			sum, sq := 0.0, 0.0
			for _, l := range w.meters.concurrency {
				sum += l.most
				sq += l.most * l.most
			}
			n := float64(len(w.meters.concurrency))
			return sum / n, math.Sqrt(sq/n - sum/n*sum/n)
		}
		w := must[*world](t)(newWorld(cfg))
		w.play = must[*requests](t)(newRequests(w))
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
		r, rd := mean(w)
		w = must[*world](t)(newWorld(cfg))
		w.play = must[*fluid](t)(newFluid(w))
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
		f, fd := mean(w)
		if math.Abs(f/r-1) > 0.08 || math.Abs(fd/rd-1) > 0.25 {
			t.Errorf("%s: %.2f ± %.2f by request, %.2f ± %.2f as a fluid", c.name, r, rd, f, fd)
		}
	}
}
