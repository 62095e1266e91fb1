package artifact

import (
	"fmt"

	"loadline/internal/sim"
)

// SchemaSimulation is that of the record of a simulation.
const SchemaSimulation = "loadline/simulation/1"

const kindSimulation = "simulation"

// Simulation is the record of one or more sets of policies, all played against the same workload.
type Simulation struct {
	Header

	Scenario string          `json:"scenario,omitempty"` // the named one that was played
	Shape    string          `json:"shape,omitempty"`    // or the shape
	Trace    string          `json:"trace_file,omitempty"`
	SLO      float64         `json:"slo_s,omitempty"` // of the first audio
	Runs     []SimulationRun `json:"runs"`
	Notes    []string        `json:"notes,omitempty"`
}

// SimulationRun is what one set of policies did.
type SimulationRun struct {
	Label        string `json:"label"` // that tells the runs of a record apart
	PlanFile     string `json:"plan_file,omitempty"`
	PlanRun      string `json:"plan_run_id,omitempty"`
	PoliciesFile string `json:"policies_file,omitempty"`

	sim.Result
}

// Name is the file name of the simulation: simulation-<model>-<what was played>-<slug>.json.
func (s *Simulation) Name() string {
	played := s.Scenario
	switch {
	case played != "":
	case s.Trace != "":
		played = "trace"
	default:
		played = s.Shape
	}
	return file(kindSimulation, s.Target.Model, played, Slug(s.Target, s.Fingerprint))
}

// ReadSimulation reads the record of a simulation.
func ReadSimulation(data []byte) (*Simulation, error) {
	doc, err := open(data, kindSimulation)
	if err != nil {
		return nil, err
	}
	return parse(data, doc, (*Simulation).Check)
}

// Check finds what cannot be true of the record; nil when it holds together.
func (s *Simulation) Check() error {
	var p problems
	p.when(!plainToken(s.RunID), "run_id %q is not a plain word of letters, digits, - and _", s.RunID)
	p.when(len(s.Runs) == 0, "it holds no run")
	for i, r := range s.Runs {
		at := fmt.Sprintf("runs[%d] (%s)", i, r.Label)
		p.when(r.Mode != sim.ModeRequests && r.Mode != sim.ModeFluid, "%s: mode is %q: it must be %s or %s", at, r.Mode, sim.ModeRequests, sim.ModeFluid)
		p.when(r.Workload.Digest == "", "%s: it does not say what was played", at)
		p.when(r.Workload.Digest != s.Runs[0].Workload.Digest, "%s: another workload was played than in the first run", at)
		p.when(r.InstanceHours < 0 || r.Offered < 0 || r.Late > r.Completed, "%s: %g instance-hours, %g offered, %g late of %g completed", at, r.InstanceHours, r.Offered, r.Late, r.Completed)
	}
	return p.err()
}
