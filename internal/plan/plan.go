// Package plan joins measurement records with the operator's scenario and makes the plan: both rules side by side, the
// policies, alarms and configuration of the selected one, its findings and its verdict; and it prints a plan for people
// (Text), for the AWS command line, as the API's requests, as CloudFormation and as Terraform (Emit).
//
// It refuses what does not belong together. The arithmetic is package capacity's; reading and saving files is left to
// the command.
//
//	p, err := plan.Make(plan.Input{QMax: ladder, TTotal: scaleOut, Scenario: scenario, Model: model})
//	fmt.Print(plan.Text(p))
package plan

import (
	"errors"
	"fmt"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/exit"
	"loadline/internal/sample"
	"loadline/internal/trace"
)

// Input of a plan. Files and records are as the command read them; times are seconds but for SLOMS.
type Input struct {
	QMax       *artifact.QMax
	QMaxFile   string
	TTotal     *artifact.TTotal // nil: AssumeT holds
	TTotalFile string
	AssumeT    float64 // T of the 10 s signal, detection included

	Rates      *artifact.Rates // nil: what is held at a rate is predicted
	RatesFile  string
	Trace      *trace.Trace // nil: the scenario's surge ratio holds
	TraceFile  string
	KeepSurge  bool             // the operator chose the surge ratio: the trace is only told beside it
	Requests   []sample.Request // of the ladder's log, Rung being the place in QMax.Rungs; nil: not read
	RequestsBy string           // why they are not, for people

	Scenario      capacity.Scenario
	SLOMS         float64 // 0: the ladder's
	AllowMismatch bool
	Model         Model

	// Fluid plays the surge in which the flow rule's policies are chosen; nil: nothing is simulated, and rate and
	// concurrency together are taken. Parallel is as sim.Config has it.
	Fluid     Simulator
	Parallel  func(n int, f func(i int))
	Candidate string // of capacity.CandidateNames: taken whatever the simulation says; empty: the cheapest that holds

	RunID     string
	CreatedAt time.Time
	Tool      string
	Settings  map[string]any
	Scaled    Scaled
}

// Model is what the model registry adds to the records; what it does not know stays zero.
type Model struct {
	Name     string
	Endpoint string
	Variant  string
	Price    *artifact.Price // of one instance; the ladder's own price comes first
}

// Make decides the plan. An error is a refusal (exit.Refuse): the input is understood and cannot be planned on. A plan
// whose verdict is stop is returned without one.
func Make(in Input) (*artifact.Plan, error) {
	notes, err := check(in)
	if err != nil {
		return nil, exit.Refuse(err)
	}
	m, more, err := Join(in)
	if err != nil {
		return nil, exit.Refuse(err)
	}
	notes = append(notes, more...)
	if c := in.Scenario.CharsMean; c > 0 && m.Length == nil {
		notes = append(notes, fmt.Sprintf("--chars-mean %g: nothing is scaled (%s)", c, why(m.LengthWhy, "the ladder's request log was not read")))
	}
	if in.Trace != nil {
		more, err := surge(&in, m)
		if err != nil {
			return nil, err
		}
		notes = append(notes, more...)
	}
	slots, err := capacity.Slots(m, in.Scenario)
	if err != nil {
		return nil, exit.Refuse(fmt.Errorf("slots rule: %w", err))
	}
	spoken := m
	if in.Scenario.CharsMean > 0 {
		spoken = m.ForChars(in.Scenario.CharsMean)
	}
	flow, err := capacity.Flow(spoken, in.Scenario)
	if err != nil {
		return nil, exit.Refuse(fmt.Errorf("flow rule: %w", err))
	}
	selected := flow
	if in.Scenario.Rule == capacity.RuleSlots {
		selected = slots
		if !slots.Defined {
			return nil, exit.Refuse(errors.New(slots.Reason + ": --rule flow has no such limit"))
		}
	} else if !flow.Defined {
		return nil, exit.Refuse(fmt.Errorf("flow rule: %s", flow.Reason))
	}
	p := &artifact.Plan{
		Header: artifact.Header{
			Schema: artifact.SchemaPlan, RunID: in.RunID, CreatedAt: in.CreatedAt, Tool: in.Tool, Settings: in.Settings,
			Target: in.QMax.Target, Fingerprint: in.QMax.Fingerprint,
		},
		Rule: in.Scenario.Rule, Scenario: in.Scenario,
		Measured: artifact.PlanMeasured{Measured: m, QMaxFile: in.QMaxFile, QMaxRun: in.QMax.RunID, TTotalFile: in.TTotalFile},
		Slots:    slots, Flow: flow,
		Policies: []capacity.Policy{}, Alarms: []capacity.Alarm{},
		Findings: selected.Findings, Verdict: selected.Verdict,
	}
	if in.TTotal != nil {
		p.Measured.TTotalRun = in.TTotal.RunID
	}
	if in.Rates != nil {
		p.Measured.RatesFile, p.Measured.RatesRun = in.RatesFile, in.Rates.RunID
	}
	if in.Trace != nil {
		p.Measured.TraceFile = in.TraceFile
	}
	if in.Model.Name != "" {
		p.Target.Model = in.Model.Name
	}
	more, err = attach(p, selected, in)
	if err != nil {
		return nil, err
	}
	notes = append(notes, more...)
	p.Config = config(p, selected)
	notes = append(notes, further(p, in.Scaled)...)
	for _, name := range in.Scenario.Accept {
		if f := selected.Find(name); f == nil || !f.Accepted {
			notes = append(notes, fmt.Sprintf("--accept %s: there was no such stop to accept", name))
		}
	}
	p.Notes = append([]string{}, notes...)
	return p, nil
}

// mostSimulated is the largest fleet whose policies are chosen by simulation: ten times what an account is ever given.
const mostSimulated = 20_000

// attach puts the selected rule's policies and alarms into p; the flow rule's are chosen by simulation. A target by URL has
// no place for them.
func attach(p *artifact.Plan, selected capacity.Rule, in Input) (notes []string, err error) {
	if p.Target.URL != "" {
		return []string{"measured by URL: Application Auto Scaling does not reach it, so there are no policies; the numbers hold, and --emit keda or hpa prints them for Kubernetes"}, nil
	}
	endpoint, variant := names(p.Target, in.Model)
	p.Target.Endpoint, p.Target.Variant = endpoint, variant
	var chosen *capacity.Candidate
	fluid := in.Fluid
	if p.Flow.Max > mostSimulated && in.Candidate == "" {
		fluid = nil
		notes = append(notes, fmt.Sprintf("the surge asks for up to %d instances: policies are chosen by simulation up to %d, so that nothing is simulated here", p.Flow.Max, mostSimulated))
	}
	if fluid != nil && p.Flow.Defined {
		best, err := choose(p, fluid, in.Parallel, in.Candidate)
		if exit.Code(err) == exit.Unknown { // interrupted
			return nil, err
		}
		if err != nil {
			return nil, exit.Refuse(err)
		}
		chosen = &best
		selected.Findings = append(selected.Findings, surgeFinding(p))
		p.Findings, p.Verdict = capacity.Conclude(selected.Findings, p.Scenario.Accept)
		rule := p.Selected()
		rule.Findings, rule.Verdict = p.Findings, p.Verdict
	}
	var policies []capacity.Policy
	var alarms []capacity.Alarm
	switch {
	case p.Rule == capacity.RuleSlots:
		if policies, alarms = capacity.SlotsPolicies(selected, endpoint, variant); policies == nil {
			notes = append(notes, "no policies: what the concurrency metric reads at C_scale_max is not known (threshold_units)")
		}
	case chosen != nil:
		policies, alarms = chosen.Policies, chosen.Alarms
	default:
		policies, alarms = capacity.FlowPolicies(selected, p.Scenario.SurgeRatio-1, endpoint, variant)
	}
	p.Policies, p.Alarms = append(p.Policies, policies...), append(p.Alarms, alarms...)
	if alarm := capacity.ServiceAlarm(p.Measured.Measured, endpoint, variant); alarm != nil {
		p.Alarms = append(p.Alarms, *alarm)
	}
	return notes, nil
}

// names of the variant: as measured, else as the registry says, else as the registry would by default.
func names(t artifact.Target, model Model) (endpoint, variant string) {
	first := func(vs ...string) string {
		for _, v := range vs {
			if v != "" {
				return v
			}
		}
		return ""
	}
	return first(t.Endpoint, model.Endpoint, "speech-"+t.Model), first(t.Variant, model.Variant, "primary")
}

func why(reason, otherwise string) string {
	if reason == "" {
		return otherwise
	}
	return reason
}

// config is the plan's part of the registry. What stands there of the policies is what they are: the target that is
// tracked, or else the threshold of the step out, and that of the step in.
func config(p *artifact.Plan, r capacity.Rule) artifact.PlanConfig {
	c := artifact.PlanConfig{
		Model: p.Target.Model, InstanceType: p.Fingerprint.InstanceType,
		MinInstances: r.Min, MaxInstances: r.Max, ScalingTargetValue: r.ScalingTarget, ScaleInThreshold: r.ScaleIn,
		SLOMS: p.Measured.SLO * 1000, Percentile: p.Measured.Pct, QueueMaxDepth: r.QueueMaxDepth,
		OutCooldown: r.OutCooldown, InCooldown: r.InCooldown,
	}
	if p.Rule == capacity.RuleFlow && len(p.Policies) > 0 {
		c.ScalingTargetValue, c.ScaleInThreshold = nil, nil
		for _, pol := range p.Policies {
			switch {
			case pol.Type == capacity.TargetTracking && (c.ScalingTargetValue == nil || !pol.NoScaleIn):
				c.ScalingTargetValue = pol.Target
			case pol.Type == capacity.StepScaling && !pol.NoScaleIn:
				c.ScaleInThreshold = pol.Threshold
			case pol.Type == capacity.StepScaling && c.ScalingTargetValue == nil:
				c.ScalingTargetValue = pol.Threshold
			}
		}
	}
	if p.Scenario.PeakRPS > 0 {
		c.PeakRPS = &p.Scenario.PeakRPS
	}
	if p.Scenario.TroughRPS > 0 {
		c.TroughRPS = &p.Scenario.TroughRPS
	}
	return c
}
