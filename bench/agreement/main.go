// Command agreement holds the simulator against life: one plan and one surge beyond what it promises, on the local endpoint
// in real time and in the simulator, with the same arrivals.
//
//	go run ./bench/agreement # about 8 minutes
//
// What is late and what is refused must agree within 3 points of a hundred, and the capacity's steps within one period of
// the alarms. Client, platform and instances share this process and its processors.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"loadline/bench/machine"
	"loadline/internal/capacity"
	"loadline/internal/ladder"
)

// The small profile: a serial server of 5 a second, with room for ten; within 1.5 s of seven.
const small = `
name: small
service: {places: 1, base_ms: 200, law: {kind: normal, cv: 0.05}}
audio: {per_char_s: 0.01}
instance: {type: ml.g5.xlarge}
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Printf("machine: %s\n", machine.String())
	t, err := flowTrial()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/agreement:", err)
		os.Exit(3)
	}
	fmt.Printf("input: %.1f requests a second for %s, %.1f for %s, then as before for %s; %d instances of 5 a second, an instance comes within %s\n",
		t.base, t.before, t.base*t.ratio, t.surge, t.after, t.initial, t.start)
	a, err := t.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/agreement:", err)
		os.Exit(3)
	}
	fmt.Print(a)
	if why := a.differ(); why != "" {
		fmt.Println("FAIL:", why)
		os.Exit(1)
	}
	fmt.Println("PASS")
}

// flowTrial is the flow rule's plan of the small profile, for a peak of 12 a second that may grow by half, under a surge
// of 2.5 times: more than it promises, so that there is something to agree on.
func flowTrial() (trial, error) {
	cs2 := 0.0025
	m := capacity.Measured{
		QMax: 7, QRPS: 5, QSMean: 1.4, SLO: 1.5, Pct: 95, SMean: 0.2, SP95: 0.22, SAt: 1,
		Mu: ladder.Interval{Value: 5}, MuPlan: 5, CS2: &cs2,
		Points: []capacity.Point{{N: 1, X: 5, SMean: 0.2, Samples: 1000}, {N: 10, X: 5, SMean: 2, Samples: 1000}},
		Lag:    capacity.Lag{T: 50, Provision: 20, Detection: 30},
	}
	t := trial{profile: small, m: m, depth: 10, start: 20 * time.Second, base: 12, ratio: 2.5, before: 2 * time.Minute, surge: 4 * time.Minute, after: 90 * time.Second, ahead: 5 * time.Second}
	rule, err := capacity.Flow(m, capacity.Scenario{Rule: capacity.RuleFlow, PeakRPS: t.base, SurgeRatio: 1.5, MinFloor: 1, Ceiling: 60, Routing: capacity.RouteLOR})
	if err != nil {
		return trial{}, err
	}
	if !rule.Defined {
		return trial{}, fmt.Errorf("the flow rule has no plan: %s", rule.Reason)
	}
	t.policies, t.alarms = capacity.FlowPolicies(rule, 0.5, endpoint, variant)
	t.initial, t.most = rule.Peak, 3*rule.Peak
	return t, nil
}
