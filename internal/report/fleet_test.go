package report

import (
	"strings"
	"testing"

	"loadline/internal/artifact"
	"loadline/internal/sim"
)

func TestFleet(t *testing.T) {
	run := func(label string, late float64) artifact.SimulationRun {
		r := artifact.SimulationRun{Label: label, Result: sim.Result{PeakInstances: 3, InstanceHours: 2, Completed: 100, Late: late, P95: 0.2,
			Changes: []sim.Change{{At: 60, From: 2, To: 3, Policy: "loadline-rate"}}}}
		for i := range 10 {
			r.Timeline = append(r.Timeline, sim.Point{At: float64(60 * i), Offered: 1, Instances: 2, Desired: 3, Completed: 10, Late: late / 10, P95: 0.2})
		}
		return r
	}
	one := Fleet("f", "one run", []artifact.SimulationRun{run("flow", 0)}, 3).SVG()
	for _, want := range []string{"desired", "in service", "2 to 3, loadline-rate", "objective", "flow: up to 3 instances, 2 instance-hours, 0.00 % late or not served"} {
		if !strings.Contains(one, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	two := Fleet("f", "two", []artifact.SimulationRun{run("slots", 80), run("flow", 0)}, 3).SVG()
	for _, want := range []string{"in service, slots", "in service, flow", ">100<", "2 to 3, slots, loadline-rate"} {
		if !strings.Contains(two, want) {
			t.Errorf("the picture of two lacks %q", want)
		}
	}
	if empty := Fleet("f", "", []artifact.SimulationRun{{}}, 3).SVG(); !strings.HasSuffix(empty, "</svg>\n") {
		t.Error("nothing played is not drawn")
	}
}
