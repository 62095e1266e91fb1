// Command policies says what the flow rule is worth: it plays traces against the flow rule's fleet, one that is kept at
// half of what instances complete, and one that always has the peak's instances, and compares what is paid and what is late.
//
//	go run ./bench/policies                      # the shipped traces
//	go run ./bench/policies -trace FILE -peak 0  # one's own, at its own height; -surge-ratio R in place of its own growth
//	go run ./bench/policies -write               # writes the shipped traces again
//
// The plan of each trace is made as tts-bench plan --trace makes it, from the published measurement: its surge ratio is the
// trace's own growth. The traces are synthetic: minutes of two days, drawn from a seed.
package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"loadline/bench/machine"
	"loadline/internal/arrival"
	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/parallel"
	"loadline/internal/plan"
	"loadline/internal/sim"
	"loadline/internal/trace"
)

//go:embed traces
var shipped embed.FS

// The traces that ship, and how the load of each goes.
var names = []string{"diurnal", "top-of-hour", "bursts"}

const (
	ladder    = "internal/artifact/testdata/published/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json"
	scaleOut  = "internal/artifact/testdata/published/ttotal-kokoro-82m-force-desired-g5xlarge-8b1b96bc.json"
	lostMost  = 1e-4 // of all requests, refused
	fewerHalf = 0.15 // instance-hours than at half of capacity
	fewerPeak = 0.75 // than with the peak's instances all the time
)

func main() {
	file := flag.String("trace", "", "a trace in place of those shipped, in any format that `tts-bench plan --trace` takes")
	peak := flag.Float64("peak", 1000, "requests a second at the trace's peak; 0: as recorded")
	fluid := flag.Bool("fluid", false, "play the flow rule as a fluid too, not request by request")
	ratio := flag.Float64("surge-ratio", 0, "that is planned for; 0: the trace's own growth")
	write := flag.Bool("write", false, "write the shipped traces")
	flag.Parse()
	err := error(nil)
	ok := true
	switch {
	case *write:
		err = writeAll()
	default:
		ok, err = run(*file, *peak, *ratio, *fluid)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/policies:", err)
		os.Exit(3)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(file string, peak, ratio float64, fluid bool) (bool, error) {
	mode := "request by request"
	if fluid {
		mode = "as a fluid"
	}
	fmt.Printf("machine: %s\n", machine.String())
	fmt.Printf("input: the published measurement; the flow rule is played %s, the others as a fluid\n", mode)
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		return judge(filepath.Base(file), data, peak, ratio, fluid, false)
	}
	all := true
	for _, name := range names {
		data, err := shipped.ReadFile("traces/" + name + ".csv.gz")
		if err != nil {
			return false, err
		}
		ok, err := judge(name, data, peak, ratio, fluid, name == "diurnal")
		if err != nil {
			return false, fmt.Errorf("%s: %w", name, err)
		}
		all = all && ok
	}
	return all, nil
}

// judge plays one trace against every fleet.
func judge(name string, data []byte, peak, ratio float64, fluid, daily bool) (bool, error) {
	began := time.Now()
	t, err := trace.Read(data)
	if err != nil {
		return false, err
	}
	load, err := plan.Traced(t, peak)
	if err != nil {
		return false, err
	}
	highest := 0.0
	for _, p := range load {
		highest = math.Max(highest, p.Rate)
	}
	p, err := planOf(t, name, highest, ratio)
	if err != nil {
		return false, err
	}
	f := p.Flow
	fmt.Printf("\n%s: %s, %.0f requests, peak %.0f a second, mean %.0f; the plan: surge ratio %.3f, λ* %.2f a second and instance, %d to %d instances, %d at the peak\n",
		name, load.Len(), load.Expected(load.Len()), highest, load.Expected(load.Len())/load.Len().Seconds(), p.Scenario.SurgeRatio, *f.LambdaStar, f.Min, f.Max, f.Peak)
	target := 60 * p.Measured.MuPlan / 2
	half := []capacity.Policy{{Name: "half", Type: capacity.TargetTracking, Metric: capacity.Metric{Predefined: "SageMakerVariantInvocationsPerInstance"},
		Target: &target, OutCooldown: f.OutCooldown, InCooldown: f.InCooldown}}
	most := int(math.Ceil(2*highest/p.Measured.MuPlan)) * 2
	var hours [3]float64
	ok := true
	for i, rule := range []struct {
		name     string
		policies []capacity.Policy
		alarms   []capacity.Alarm
		min, max int
		share    float64 // of μ that its fleet is meant to carry
	}{
		{"flow", p.Policies, p.Alarms, f.Min, f.Max, *f.Rho},
		{"half of capacity", half, nil, 1, most, 0.5},
		{"static peak", nil, nil, f.Peak, f.Peak, *f.Rho},
	} {
		r := f
		r.Min, r.Max = rule.min, rule.max
		cfg, err := plan.Simulated(p, r, rule.policies, rule.alarms)
		if err != nil {
			return false, err
		}
		cfg.Name, cfg.Seed, cfg.Load, cfg.Parallel = name, 1, load, parallel.Each
		cfg.Initial = max(rule.min, int(math.Ceil(load[0].Rate/(rule.share*p.Measured.MuPlan))))
		play := sim.Fluid
		if i == 0 && !fluid {
			play = sim.Requests
		}
		res, err := play(cfg)
		if err != nil {
			return false, err
		}
		hours[i] = res.InstanceHours
		lost := (res.Shed + res.Unserved + res.Cut) / res.Offered
		fmt.Printf("  %-17s %8.1f instance-hours, %.0f late, %.0f refused (%.4f %%), p95 %.3f s, %d direction changes, at most %d an hour\n",
			rule.name, res.InstanceHours, res.Late, res.Shed+res.Unserved+res.Cut, 100*lost, res.P95, res.DirectionChanges, res.MostAnHour)
		if i == 0 {
			ok = verdict("none late", res.Late == 0) && ok
			ok = verdict(fmt.Sprintf("at most %g refused", lostMost), lost <= lostMost) && ok
		}
	}
	overHalf, overPeak := 1-hours[0]/hours[1], 1-hours[0]/hours[2]
	fmt.Printf("  flow pays %.1f %% less than half of capacity and %.1f %% less than static peak; %.1f s\n", 100*overHalf, 100*overPeak, time.Since(began).Seconds())
	if daily {
		ok = verdict(fmt.Sprintf("at least %.0f %% fewer than half of capacity", 100*fewerHalf), overHalf >= fewerHalf) && ok
		ok = verdict(fmt.Sprintf("at least %.0f %% fewer than static peak", 100*fewerPeak), overPeak >= fewerPeak) && ok
	}
	return ok, nil
}

func verdict(what string, ok bool) bool {
	say := "pass"
	if !ok {
		say = "FAIL"
	}
	fmt.Printf("  %s: %s\n", what, say)
	return ok
}

// planOf is the plan of the published measurement for a trace.
func planOf(t *trace.Trace, name string, peak, ratio float64) (*artifact.Plan, error) {
	q, err := read(ladder, artifact.ReadQMax)
	if err != nil {
		return nil, err
	}
	s, err := read(scaleOut, artifact.ReadTTotal)
	if err != nil {
		return nil, err
	}
	return plan.Make(plan.Input{QMax: q, QMaxFile: ladder, TTotal: s, TTotalFile: scaleOut, Trace: t, TraceFile: name, KeepSurge: ratio > 0,
		Scenario: capacity.Scenario{Rule: capacity.RuleFlow, PeakRPS: peak, SurgeRatio: max(1, ratio), MinFloor: 1, Ceiling: 60},
		Fluid:    sim.Fluid, Parallel: parallel.Each, RunID: "bench", Tool: "bench/policies", Settings: map[string]any{}})
}

func read[T any](path string, parse func([]byte) (T, error)) (v T, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return v, fmt.Errorf("%w: run it at the root of the repository", err)
	}
	return parse(data)
}

// writeAll draws the shipped traces: counts a minute over two days.
func writeAll() error {
	rng := rand.New(rand.NewPCG(20260105, 7))
	for _, name := range names {
		p, err := shape(name)
		if err != nil {
			return err
		}
		s, err := arrival.NewStream(p, rng)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		fmt.Fprintln(z, "time,requests")
		start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
		var buf []time.Duration
		for at := time.Duration(0); at < p.Len(); at += time.Minute {
			buf = s.Until(at+time.Minute, buf[:0])
			fmt.Fprintf(z, "%s,%d\n", start.Add(at).Format(time.RFC3339), len(buf))
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join("bench/policies/traces", name+".csv.gz"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// shape is the load of a shipped trace, at a peak of 1,000 a second.
func shape(name string) (arrival.Profile, error) {
	const long = 2 * sim.Day
	switch name {
	case "diurnal": // an evening's peak: its mean is a fifth of it
		day, err := sim.Diurnal(0, 1, long)
		for i, p := range day {
			day[i].Rate = 4 + 996*math.Pow(p.Rate, 8)
		}
		return day, err
	case "top-of-hour":
		return sim.TopOfHour(700, 10.0/7, 20*time.Minute, long)
	}
	return sim.Bursts(400, 2.5, 3*time.Hour, 15*time.Minute, long)
}
