package sim

import (
	"flag"
	"testing"
)

var seeds = flag.Int("seeds", 1, "play the scenarios under so many seeds")

// TestScenarios: what is said of the named scenarios happens in them.
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
