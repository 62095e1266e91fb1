package plan

import (
	"cmp"
	"fmt"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
)

// Scaled is what else than the rule's own signals a plan scales by, and what else than instances it scales.
type Scaled struct {
	Component string  // inference component whose copies are scaled; "": that of the ladder, or else instances are
	CPU       float64 // percent of an instance's processors to track beside; 0: none
	VCPUs     int     // of an instance
}

// further adds a policy on processors, and turns the plan into one of an inference component's copies. The configuration
// of the registry is the rule's own and stays.
func further(p *artifact.Plan, s Scaled) (notes []string) {
	of := p.Target.Component // what the ladder measured
	if s.Component = cmp.Or(s.Component, of); s.Component != "" {
		p.Target.Component = s.Component
	}
	if len(p.Policies) == 0 {
		return nil
	}
	if s.CPU > 0 {
		pol := capacity.CPUPolicy(s.CPU, s.VCPUs, *p.Selected(), p.Target.Endpoint, p.Target.Variant)
		p.Policies = append(p.Policies, pol)
		notes = append(notes, fmt.Sprintf("%s adds instances beside the rule's signals, and never removes any: it is in no figure of this plan", pol.Name))
	}
	if s.Component != "" {
		capacity.PerCopy(p.Policies, p.Alarms, p.Target.Endpoint, p.Target.Variant, s.Component)
		as := "as long as the instance that the ladder measured held one"
		switch {
		case of == s.Component:
			as = "as the ladder measured it"
		case of != "":
			as = "as long as it is what a copy of " + of + " is, which the ladder measured"
		}
		notes = append(notes, fmt.Sprintf("instances are copies of %s here: Q_max is per copy, %s", s.Component, as))
	}
	return notes
}
