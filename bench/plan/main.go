// Command plan measures what a plan costs whose policies are chosen by simulating the surge: the published files at a small
// peak, at the published one, and at four times as much, under random and under least-outstanding routing.
//
//	go run ./bench/plan [-folder internal/artifact/testdata/published]
//
// It is judged by the clock against ten seconds; of the repetitions the slowest counts.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"loadline/bench/machine"
	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/parallel"
	"loadline/internal/plan"
	"loadline/internal/sim"
)

const target = 10 * time.Second

func main() {
	folder := flag.String("folder", filepath.Join("internal", "artifact", "testdata", "published"), "where the published files are")
	times := flag.Int("times", 3, "repetitions")
	flag.Parse()
	ok, err := run(*folder, *times)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/plan:", err)
		os.Exit(3)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(folder string, times int) (bool, error) {
	ladder, err := os.ReadFile(filepath.Join(folder, "qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json"))
	if err != nil {
		return false, err
	}
	q, err := artifact.ReadQMax(ladder)
	if err != nil {
		return false, err
	}
	fmt.Printf("machine: %s\n", machine.String())
	fmt.Printf("input: the published ladder, T 320 s, surge 1.25; %d repetitions each, target %s\n\n", times, target)
	all := true
	for _, routing := range []string{capacity.RouteRandom, capacity.RouteLOR} {
		for _, peak := range []float64{20, 5000, 20000} {
			least, most := time.Hour, time.Duration(0)
			var p *artifact.Plan
			for range times {
				began := time.Now()
				p, err = plan.Make(plan.Input{QMax: q, QMaxFile: "published", AssumeT: 320, RunID: "bench", Settings: map[string]any{}, Fluid: sim.Fluid, Parallel: parallel.Each,
					Scenario: capacity.Scenario{Rule: capacity.RuleFlow, PeakRPS: peak, SurgeRatio: 1.25, MinFloor: 1, Ceiling: 60, Routing: routing}})
				if err != nil {
					return false, err
				}
				took := time.Since(began)
				least, most = min(least, took), max(most, took)
			}
			verdict := "pass"
			if most > target {
				verdict, all = "FAIL", false
			}
			fmt.Printf("%-6s %6.0f a second: %.2f to %.2f s: %s; %d instances, %s, %d settings\n", routing, peak, least.Seconds(), most.Seconds(), verdict,
				p.Flow.Peak, p.Surge.Flow.Candidate, p.Surge.Flow.Played)
		}
	}
	return all, nil
}
