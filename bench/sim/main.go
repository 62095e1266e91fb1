// Command sim measures what a simulated day costs: 24 hours that peak at 5,000 requests a second, on instances like the
// published ones, scaled by a tracker on the rate, as a fluid and request by request, at random and to the instance that
// holds the fewest.
//
//	go run ./bench/sim [-only fluid|random|lor]
//
// It is judged by the clock; the processor time, which other programs do not lengthen, stands beside it.
package main

import (
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"

	"loadline/bench/machine"
	"loadline/internal/arrival"
	"loadline/internal/autoscale"
	"loadline/internal/capacity"
	"loadline/internal/fleet"
	"loadline/internal/parallel"
	"loadline/internal/sim"
)

func main() {
	only := flag.String("only", "", "one of fluid, random and lor; empty: all")
	long := flag.Duration("long", 24*time.Hour, "simulated time")
	peak := flag.Float64("peak", 5000, "requests a second at the peak")
	flag.Parse()
	fmt.Printf("machine: %s\n", machine.String())
	fmt.Printf("input: %s from %.0f to %.0f requests a second, 17.9 a second and instance, at most 384 instances\n\n", *long, *peak/10, *peak)
	ok := true
	for _, m := range []struct {
		name   string
		play   func(sim.Config) (sim.Result, error)
		router autoscale.Router
		target time.Duration
	}{
		{"fluid", sim.Fluid, autoscale.RandomRouter, time.Second},
		{"random", sim.Requests, autoscale.RandomRouter, 60 * time.Second},
		{"lor", sim.Requests, autoscale.LeastOutstanding, 180 * time.Second},
	} {
		if *only != "" && *only != m.name {
			continue
		}
		c, err := config(*peak, *long)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench/sim:", err)
			os.Exit(3)
		}
		c.Routing = m.router
		before, began := used(), time.Now()
		r, err := m.play(c)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench/sim:", err)
			os.Exit(3)
		}
		wall, cpu := time.Since(began), used()-before
		verdict := "pass"
		if wall > m.target {
			verdict, ok = "FAIL", false
		}
		fmt.Printf("%-7s %6.2f s (%.2f s of processor time), target %s: %s; %.0f requests, %.1f instance-hours, %.1f in flight, p95 %.3f s, %.0f late, %.0f shed\n",
			m.name, wall.Seconds(), cpu.Seconds(), m.target, verdict, r.Offered, r.InstanceHours, r.MeanInFlight, r.P95, r.Late, r.Shed)
	}
	if !ok {
		os.Exit(1)
	}
}

func config(peak float64, long time.Duration) (sim.Config, error) {
	server, err := sim.NewServer(sim.ServerConfig{Points: []capacity.Point{{N: 1, X: 16.3}, {N: 5, X: 17.9}, {N: 60, X: 17.9}}, CS2: 0.01, SLO: 3 * time.Second, Depth: 50})
	if err != nil {
		return sim.Config{}, err
	}
	load, err := sim.Diurnal(peak/10, peak, long)
	if err != nil {
		return sim.Config{}, err
	}
	out, in := 300*time.Second, 960*time.Second
	c := sim.Config{Seed: 1, Load: load, Server: server, Initial: start(load), Parallel: parallel.Each,
		Stages: sim.Stages{Stages: fleet.Stages{Provision: 200 * time.Second, Settle: 20 * time.Second, Spread: 0.1}, Container: 60 * time.Second},
		Scaling: sim.Scaling{Min: 1, Max: 384, Policies: []autoscale.Policy{{Name: "rate", Tracking: &autoscale.Tracking{Target: 60 * 13.8,
			Predefined: "SageMakerVariantInvocationsPerInstance", OutCooldown: &out, InCooldown: &in}}}}}
	c.Gate.Depth = 50
	return c, nil
}

// start is the fleet that the load's beginning asks for.
func start(p arrival.Profile) int { return int(p[0].Rate/13) + 1 }

// used is the processor time of this process so far.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
