package sim

import (
	"flag"
	"math"
	"slices"
	"testing"
)

var seeds = flag.Int("seeds", 1, "play the scenarios under so many seeds")

// chancy are the scenarios that the fluid does not play, or in which chance decides when something first happens: what
// follows is not the same then.
var chancy = []string{"retry-storm", "retry-budget", "slots-walk", "idle-cpu", "few-long-streams", "few-long-streams-held", "flapping"}

// TestScenarios: what is said of the named scenarios happens in them, and the fluid agrees.
func TestScenarios(t *testing.T) {
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			if s.About == "" || len(s.Expect) == 0 {
				t.Error("nothing is said of it")
			}
			for seed := range *seeds {
				c := must[Config](t)(s.Config())
				c.Seed = uint64(seed) + 1
				r := must[Result](t)(Requests(c))
				for _, e := range s.Expect {
					t.Logf("seed %d: %s: %.6g (%g to %g)", c.Seed, e.What, e.Of(&r), e.Low, e.High)
					if !e.Holds(&r) {
						t.Errorf("seed %d: %s: %g, not %g to %g", c.Seed, e.What, e.Of(&r), e.Low, e.High)
					}
				}
				if slices.Contains(chancy, s.Name) {
					continue
				}
				f := must[Result](t)(Fluid(c))
				if hours, held := f.InstanceHours/r.InstanceHours-1, f.MeanInFlight/r.MeanInFlight-1; math.Abs(hours) > 0.02 || math.Abs(held) > 0.02 && !c.Even { // at equal shares hardly anything queues
					t.Errorf("seed %d: as a fluid %+.1f %% instance-hours and %+.1f %% held", c.Seed, 100*hours, 100*held)
				}
				if d := f.BadShare() - r.BadShare(); math.Abs(d) > 0.005 {
					t.Errorf("seed %d: %.4f late or lost, as a fluid %.4f", c.Seed, r.BadShare(), f.BadShare())
				}
			}
		})
	}
	if _, err := ScenarioNamed("zone-loss"); err != nil {
		t.Error(err)
	}
	if _, err := ScenarioNamed("earthquake"); err == nil {
		t.Error("a scenario that is not there")
	}
}
