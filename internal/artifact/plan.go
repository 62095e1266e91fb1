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

// PlanSurge is what a simulated surge of the scenario's ratio does under each rule.
type PlanSurge struct {
	Slots any `json:"slots"`
	Flow  any `json:"flow"`
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
