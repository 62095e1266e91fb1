package artifact

import "loadline/internal/capacity"

// Plan is the record of one plan: what was measured, what each rule says of the scenario, and the policies, alarms and
// configuration of the selected rule. A stopped plan is a record too.
type Plan struct {
	Header

	Rule     string            `json:"rule"` // the selected one: flow or slots
	Scenario capacity.Scenario `json:"scenario"`
	Measured PlanMeasured      `json:"measured"`

	Slots capacity.Rule `json:"slots"`
	Flow  capacity.Rule `json:"flow"`
	Surge *PlanSurge    `json:"surge"` // null until simulated

	Policies []capacity.Policy  `json:"policies"`
	Alarms   []capacity.Alarm   `json:"alarms"`
	Config   PlanConfig         `json:"config"`
	Findings []capacity.Finding `json:"findings"` // of the selected rule, worst first
	Verdict  capacity.Verdict   `json:"verdict"`
	Notes    []string           `json:"notes"` // what was let pass, and what is not known
}

// Selected is the rule that the plan goes by.
func (p *Plan) Selected() *capacity.Rule {
	if p.Rule == capacity.RuleSlots {
		return &p.Slots
	}
	return &p.Flow
}

// Surged is what the selected rule's policies did in the simulated surge; nil: nothing was simulated of them.
func (p *Plan) Surged() *SurgeOutcome {
	switch {
	case p.Surge == nil:
		return nil
	case p.Rule == capacity.RuleSlots:
		return p.Surge.Slots
	}
	return p.Surge.Flow
}

// PlanMeasured is what the plan stands on, and the files that it came from.
type PlanMeasured struct {
	capacity.Measured

	QMaxFile   string `json:"qmax_file"`
	QMaxRun    string `json:"qmax_run_id"`
	TTotalFile string `json:"ttotal_file,omitempty"`
	TTotalRun  string `json:"ttotal_run_id,omitempty"`
	RatesFile  string `json:"rates_file,omitempty"`
	RatesRun   string `json:"rates_run_id,omitempty"`
	TraceFile  string `json:"trace_file,omitempty"`
}

// PlanSurge is what a simulated surge of the scenario's ratio does under each rule, and how the flow rule's policies were
// chosen: among the candidates, the cheapest that holds the objective under every setting of what AWS does not publish.
type PlanSurge struct {
	BaseRPS   float64 `json:"base_rps"`
	Ratio     float64 `json:"ratio"`
	AtS       float64 `json:"at_s"`             // when the surge begins
	LengthS   float64 `json:"length_s"`         // of the surge
	DurationS float64 `json:"duration_s"`       // of all
	Wanted    int     `json:"wanted_instances"` // what the load of the surge asks for, within the bounds
	Usual     string  `json:"usual_unknowns"`

	Slots      *SurgeOutcome  `json:"slots"` // null: the rule is not defined, or has no policies
	Flow       *SurgeOutcome  `json:"flow"`  // the candidate that was chosen
	Candidates []SurgeOutcome `json:"candidates"`
}

// SurgeOutcome is what one set of policies did in the surge.
type SurgeOutcome struct {
	Candidate string        `json:"candidate"`
	Policies  []string      `json:"policies"`
	Instances int           `json:"instances"` // at the start
	Holds     bool          `json:"holds"`     // under every setting that was played
	Played    int           `json:"settings_played"`
	Usual     *SurgeFigures `json:"usual"` // null: it was not simulated
	Worst     *SurgeFigures `json:"worst"` // of the settings that were played
	Why       string        `json:"why"`   // it was chosen, or lost
}

// SurgeFigures is what happened under one setting of the unknowns.
type SurgeFigures struct {
	Setting       string   `json:"setting"`        // what differs from the usual one; empty: nothing
	BadShare      float64  `json:"bad_share"`      // late, refused, lost or given up, of all attempts, in the worst of the three phases
	Phase         string   `json:"phase"`          // that: before, surge or after
	P95           float64  `json:"p95_s"`          // first audio, over all
	InstanceHours float64  `json:"instance_hours"` // of all
	Cost          *float64 `json:"cost"`           // null: no price known
	Peak          int      `json:"peak_instances"`
	Desired       int      `json:"desired_in_surge"` // most that was asked for while it lasted
	MostAnHour    int      `json:"most_direction_changes_in_an_hour"`
	FirstOutS     *float64 `json:"first_scale_out_s"` // from the surge's beginning to the first decision to add; null: there was none
}

// PlanConfig is the plan's part of models.yaml; null is not written there.
type PlanConfig struct {
	Model              string   `json:"model_name"`
	InstanceType       string   `json:"instance_type"`
	MinInstances       int      `json:"min_instances"`
	MaxInstances       int      `json:"max_instances"`
	ScalingTargetValue *float64 `json:"scaling_target_value"`
	ScaleInThreshold   *float64 `json:"scale_in_threshold"`
	SLOMS              float64  `json:"ttfab_slo_ms"`
	Percentile         float64  `json:"percentile"`
	QueueMaxDepth      int      `json:"queue_max_depth"`
	OutCooldown        int      `json:"scale_out_cooldown_s"`
	InCooldown         int      `json:"scale_in_cooldown_s"`
	PeakRPS            *float64 `json:"peak_rps"`
	TroughRPS          *float64 `json:"trough_rps"`
	Plan               string   `json:"plan,omitempty"` // path of this record, once saved
}
