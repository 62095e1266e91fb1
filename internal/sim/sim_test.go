package sim

import (
	"bytes"
	"encoding/json"
	"math"
	"sync"
	"testing"
	"time"

	"loadline/internal/arrival"
	"loadline/internal/autoscale"
	"loadline/internal/capacity"
	"loadline/internal/fleet"
	"loadline/internal/queueing"
)

// published is the ladder of the published run.
var published = []capacity.Point{{N: 1, X: 16.3}, {N: 5, X: 17.9}, {N: 60, X: 17.9}}

func serverOf(t testing.TB, c ServerConfig) *Server {
	t.Helper()
	if c.Points == nil {
		c.Points = published
	}
	if c.SLO == 0 {
		c.SLO = 3 * time.Second
	}
	return must[*Server](t)(NewServer(c))
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// tracking is the flow rule's policy on the rate.
func tracking(target float64, least, most int) Scaling {
	out, in := 300*time.Second, 960*time.Second
	return Scaling{Min: least, Max: most, Policies: []autoscale.Policy{{Name: "rate", Tracking: &autoscale.Tracking{Target: target,
		Predefined: "SageMakerVariantInvocationsPerInstance", OutCooldown: &out, InCooldown: &in}}}}
}

// slow is the stages of the published run, about: 290 s in all.
var slow = Stages{Stages: fleet.Stages{Provision: 200 * time.Second, Settle: 20 * time.Second}, Container: 60 * time.Second}

// TestFluidAgrees: as a fluid and request by request, the same is held, late and refused where requests find instances at
// random, whatever the service is like.
func TestFluidAgrees(t *testing.T) {
	for _, c := range []struct {
		name          string
		points        []capacity.Point
		cs2           float64
		places, depth int
		load          float64 // of the fleet's most
		router        autoscale.Router
		within        float64
	}{
		{"nearly fixed times, room for 50", published, 0.01, 1, 50, 0.8, autoscale.RandomRouter, 0.02},
		{"nearly full", published, 0.01, 1, 50, 0.93, autoscale.RandomRouter, 0.04}, // chance alone makes 2 % in these hours
		{"exponential times", published, 1, 1, 50, 0.8, autoscale.RandomRouter, 0.02},
		{"without a bound", published, 1, 1, 0, 0.7, autoscale.RandomRouter, 0.02},
		{"four at once", []capacity.Point{{N: 1, X: 4.5}, {N: 4, X: 18}}, 0.25, 4, 50, 0.8, autoscale.RandomRouter, 0.02},
		{"four at once, the least loaded", []capacity.Point{{N: 1, X: 4.5}, {N: 4, X: 18}}, 0.25, 4, 50, 0.8, autoscale.LeastOutstanding, 0.02},
		{"overload", published, 0.01, 1, 50, 1.2, autoscale.RandomRouter, 0.02},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Seed: 1, Server: serverOf(t, ServerConfig{Points: c.points, CS2: c.cs2, Depth: c.depth, Places: c.places}), Initial: 6, Routing: c.router}
			cfg.Gate.Depth = c.depth
			cfg.Load = must[arrival.Profile](t)(arrival.Constant(c.load*17.9*6, 3*time.Hour))
			r, f := must[Result](t)(Requests(cfg)), must[Result](t)(Fluid(cfg))
			if d := f.MeanInFlight/r.MeanInFlight - 1; math.Abs(d) > c.within {
				t.Errorf("held: %.3f by request, %.3f as a fluid (%+.1f %%)", r.MeanInFlight, f.MeanInFlight, 100*d)
			}
			if d := f.P95/r.P95 - 1; math.Abs(d) > 0.1 {
				t.Errorf("p95: %.3f s by request, %.3f s as a fluid", r.P95, f.P95)
			}
			if d := f.BadShare() - r.BadShare(); math.Abs(d) > 0.005 {
				t.Errorf("late or refused: %.4f by request, %.4f as a fluid", r.BadShare(), f.BadShare())
			}
			if f.InstanceHours != r.InstanceHours || r.InstanceHours != 18 {
				t.Errorf("instance-hours: %g by request, %g as a fluid, 6 for 3 hours", r.InstanceHours, f.InstanceHours)
			}
		})
	}
}

// TestOneInstanceIsItsChain: request by request, one instance holds what the chain of package queueing says it does.
func TestOneInstanceIsItsChain(t *testing.T) {
	for _, stages := range []int{1, 4} {
		c := Config{Seed: 3, Server: serverOf(t, ServerConfig{CS2: 1 / float64(stages), Depth: 20}), Initial: 1}
		c.Gate.Depth = 20
		c.Load = must[arrival.Profile](t)(arrival.Constant(15.2, 24*time.Hour))
		r := must[Result](t)(Requests(c))
		chain := queueing.Chain{Stages: stages}
		for n := range 20 {
			chain.Mu = append(chain.Mu, c.Server.x.Rate(float64(n+1)))
		}
		s := must[queueing.Steady](t)(chain.Steady(15.2, 20))
		if d := r.MeanInFlight/s.Mean() - 1; math.Abs(d) > 0.02 {
			t.Errorf("%d stages: holds %.3f, its chain %.3f", stages, r.MeanInFlight, s.Mean())
		}
		if got := r.Shed / r.Offered; math.Abs(got-s.Refused()) > 0.1*s.Refused() {
			t.Errorf("%d stages: refuses %.5f, its chain %.5f", stages, got, s.Refused())
		}
	}
}

// TestScaledDay: over a scaled day both agree on what is paid and held; and the same gives the same bytes, played on
// several processors or one.
func TestScaledDay(t *testing.T) {
	c := Config{Seed: 1, Server: serverOf(t, ServerConfig{CS2: 0.01, Depth: 50}), Initial: 3, Scaling: tracking(60*13, 2, 60), Stages: slow}
	c.Gate.Depth, c.Stages.Spread = 50, 0.1
	c.Load = must[arrival.Profile](t)(Diurnal(30, 250, 12*time.Hour))
	r, f := must[Result](t)(Requests(c)), must[Result](t)(Fluid(c))
	for _, d := range []struct {
		what string
		r, f float64
	}{{"instance-hours", r.InstanceHours, f.InstanceHours}, {"in flight", r.MeanInFlight, f.MeanInFlight}} {
		if math.Abs(d.f/d.r-1) > 0.02 {
			t.Errorf("%s: %.2f by request, %.2f as a fluid", d.what, d.r, d.f)
		}
	}
	for i, p := range r.Timeline {
		if d := math.Abs(p.Instances - f.Timeline[i].Instances); d > 1.5 {
			t.Errorf("at %.0f s: %.1f instances by request, %.1f as a fluid", p.At, p.Instances, f.Timeline[i].Instances)
		}
	}
	c.Parallel = func(n int, f func(int)) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { f(i) })
		}
		wg.Wait()
	}
	for mode, play := range map[string]func(Config) (Result, error){"requests": Requests, "fluid": Fluid} {
		c := c
		c.Load = c.Load[:len(c.Load)/4]
		a := must[[]byte](t)(json.Marshal(must[Result](t)(play(c))))
		c.Parallel = nil
		b := must[[]byte](t)(json.Marshal(must[Result](t)(play(c))))
		if !bytes.Equal(a, b) {
			t.Errorf("%s: the same configuration gave other bytes", mode)
		}
	}
}
