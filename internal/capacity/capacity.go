// Package capacity turns a measured ladder into the capacity of an instance and the size of a fleet, by two rules: the
// published one (slots), reproduced digit for digit, and the flow rule, which counts completions a second. It says what
// is wrong with either as findings. Choosing between them, writing records and printing are left to package plan.
//
//	m := capacity.Measured{QMax: 50, SMean: 0.0613, SP95: 0.0661, SLO: 3, …}
//	s, _ := capacity.Slots(m, capacity.Scenario{PeakRPS: 5000, SurgeRatio: 1.25, …})
//	s.ScalingTarget // 37.5: where the published rule scales out
//	f := capacity.Flow(m, …)
//	*f.LambdaStar // 14.3 requests a second that one instance may carry
package capacity

import (
	"encoding/json"

	"loadline/internal/ladder"
)

// Verdict of a finding, of a rule and of a plan.
type Verdict string

// The verdicts, from best to worst but for NotChecked, which says that the data could not tell.
const (
	OK         Verdict = "ok"
	NotChecked Verdict = "not_checked"
	Warn       Verdict = "warn"
	Stop       Verdict = "stop"
)

// rank orders verdicts by how much they matter to a reader.
func (v Verdict) rank() int {
	switch v {
	case Stop:
		return 3
	case Warn:
		return 2
	case NotChecked:
		return 1
	}
	return 0
}

// Mark is the verdict as the text output shows it.
func (v Verdict) Mark() string {
	switch v {
	case Stop:
		return "STOP"
	case Warn:
		return "WARN"
	case OK:
		return "OK"
	}
	return "----"
}

// Finding is one named judgement with what to do about it.
type Finding struct {
	Name           string  `json:"name"`
	Verdict        Verdict `json:"verdict"`
	Detail         string  `json:"detail"`
	Recommendation string  `json:"recommendation"`
	Accepted       bool    `json:"accepted,omitempty"` // a stop that the operator took on; recorded as a warning
}

// Money is an hourly cost; null where the price or the load is not known.
type Money struct {
	Min    *float64 `json:"min"`    // of min_instances
	Trough *float64 `json:"trough"` // of the fleet at the trough
	Peak   *float64 `json:"peak"`   // of the fleet at the peak
}

// Names of the rules.
const (
	RuleSlots = "slots"
	RuleFlow  = "flow"
)

// Rule is what one rule says of a scenario, in the published field names; null where a rule has no such number.
// Concurrencies are requests held by one instance. A rule that is not defined for the scenario is written as
// {"defined": false, "reason": …}.
type Rule struct {
	Defined bool   `json:"defined"`
	Reason  string `json:"reason,omitempty"` // why it is not defined

	CScaleMax         *float64 `json:"c_scale_max"`
	CScaleMin         *float64 `json:"c_scale_min"`
	CWRatio           *float64 `json:"cw_units_ratio"`       // CloudWatch's figure over the client's, at the rung nearest c_scale_max
	ScalingTarget     *float64 `json:"scaling_target_value"` // in units of the policy's metric
	ScaleIn           *float64 `json:"scale_in_threshold"`   // likewise
	Rho               *float64 `json:"rho"`                  // share of mu_rps that one instance may carry
	LambdaStar        *float64 `json:"lambda_rps"`           // rho × mu_rps
	Binding           string   `json:"binding_bound,omitempty"`
	Bounds            []Bound  `json:"bounds,omitempty"`
	Epsilon           *float64 `json:"epsilon,omitempty"` // flow: chance of a refusal within T of a surge
	Routing           string   `json:"routing,omitempty"`
	Stages            int      `json:"erlang_stages,omitempty"`
	StagesSource      string   `json:"erlang_stages_source,omitempty"`
	Signal            string   `json:"signal,omitempty"`     // flow: rate or concurrency
	SignalWhy         string   `json:"signal_why,omitempty"` // why not the rate
	Held              *float64 `json:"held_at_lambda,omitempty"`
	Threshold         *float64 `json:"concurrency_threshold,omitempty"` // beside a rate: Maximum over 10 s that scales out
	ThresholdSource   string   `json:"concurrency_threshold_source,omitempty"`
	ThresholdMeasured bool     `json:"concurrency_threshold_measured,omitempty"` // corrected by an open-loop measurement
	FastLag           *Lag     `json:"fast_lag,omitempty"`                       // T of the 10 s signal

	Invocations []Invocations `json:"invocations,omitempty"` // what the rate metric reads, with its derivation
	Sensitivity []Sensitivity `json:"sensitivity,omitempty"`

	WMax           *float64 `json:"w_max_s"` // longest wait that still meets the objective
	Ceiling        float64  `json:"ceiling_s"`
	Min            int      `json:"min_instances"`
	Max            int      `json:"max_instances"`
	Peak           int      `json:"peak_instances"`
	Trough         *int     `json:"trough_instances"`   // null: no trough stated
	MinSafe        *int     `json:"min_safe_instances"` // smallest fleet that can lose one; null: none can
	QueueMaxDepth  int      `json:"queue_max_depth"`
	OutCooldown    int      `json:"scale_out_cooldown_s"`
	InCooldown     int      `json:"scale_in_cooldown_s"`
	Lag            Lag      `json:"lag"` // T of the signal that this rule scales on
	Utilization    *float64 `json:"utilization_at_c_scale_max"`
	Shed           *float64 `json:"shed_probability_at_c_scale_max"`
	Cost           Money    `json:"cost_per_hour"`
	CostPerMChars  *float64 `json:"cost_per_m_chars"`
	RelativeCost   *float64 `json:"relative_cost"` // peak fleet over the fleet sized at q_max
	FleetRPS       float64  `json:"fleet_rps"`     // what peak_instances complete: peak_instances × mu_rps
	PeakRPS        float64  `json:"peak_rps"`      // what they are asked for
	FirstStepFleet int      `json:"first_step_instances"`

	Findings []Finding `json:"findings"`
	Verdict  Verdict   `json:"verdict"`

	PublishedVerdict  Verdict `json:"published_verdict,omitempty"`  // slots: of the published findings alone
	PublishedWarnings *int    `json:"published_warnings,omitempty"` // slots: how many of those warn
}

// MarshalJSON writes a rule that is not defined as that and its reason alone.
func (r Rule) MarshalJSON() ([]byte, error) {
	if !r.Defined {
		return json.Marshal(struct {
			Defined bool   `json:"defined"`
			Reason  string `json:"reason"`
		}{false, r.Reason})
	}
	type plain Rule
	return json.Marshal(plain(r))
}

// Metric of a policy or an alarm: a predefined one of Application Auto Scaling, or a CloudWatch metric.
type Metric struct {
	Predefined string            `json:"predefined,omitempty"`
	Namespace  string            `json:"namespace,omitempty"`
	Name       string            `json:"name,omitempty"`
	Dimensions map[string]string `json:"dimensions,omitempty"`
}

// Kinds of policy.
const (
	TargetTracking = "target_tracking"
	StepScaling    = "step_scaling"
	Scheduled      = "scheduled"
)

// Step is one step of a step policy: bounds relative to the alarm's threshold, null for unbounded.
type Step struct {
	Lower  *float64 `json:"lower"`
	Upper  *float64 `json:"upper"`
	Change int      `json:"change"` // instances
}

// Policy is one scaling policy, whole: what is deployed is compared with it field by field. Both cooldowns are always set.
type Policy struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Metric      Metric   `json:"metric"`
	Statistic   string   `json:"statistic"`
	Period      int      `json:"period_s"`
	Target      *float64 `json:"target,omitempty"`    // target tracking
	Threshold   *float64 `json:"threshold,omitempty"` // step scaling: of its alarm
	Comparison  string   `json:"comparison,omitempty"`
	Steps       []Step   `json:"steps,omitempty"`
	Adjustment  string   `json:"adjustment,omitempty"`
	Evaluation  int      `json:"evaluation_periods"`
	Datapoints  int      `json:"datapoints"`
	MissingData string   `json:"missing_data,omitempty"`
	NoScaleIn   bool     `json:"disable_scale_in"`
	OutCooldown int      `json:"scale_out_cooldown_s"`
	InCooldown  int      `json:"scale_in_cooldown_s"`
	Predicted   bool     `json:"predicted"` // the target is computed, not measured
	Source      string   `json:"source"`
	Cooldowns   string   `json:"cooldowns_source,omitempty"`
}

// Alarm is a CloudWatch alarm of the plan: one that triggers a step policy (Policy names it), or one that tells people.
type Alarm struct {
	Name        string  `json:"name"`
	Metric      Metric  `json:"metric"`
	Statistic   string  `json:"statistic"`
	Period      int     `json:"period_s"`
	Comparison  string  `json:"comparison"`
	Threshold   float64 `json:"threshold"`
	Unit        string  `json:"unit,omitempty"`
	Evaluation  int     `json:"evaluation_periods"`
	Datapoints  int     `json:"datapoints"`
	MissingData string  `json:"missing_data"`
	Policy      string  `json:"policy,omitempty"`
	Source      string  `json:"source"`
}

// Lag is how long more capacity takes, from the load's rise to recovered traffic, for one signal: T and its parts.
type Lag struct {
	T         float64 `json:"t_s"`         // provision + detection
	Provision float64 `json:"provision_s"` // capacity call to traffic recovered, the upper of the runs
	Detection float64 `json:"detection_s"` // rise to capacity call, of this signal
	Assumed   bool    `json:"assumed"`     // stated by the operator, not measured
	Source    string  `json:"source"`
}

// Point is one concurrency of the ladder, its usable rungs merged.
type Point struct {
	N       int      `json:"n"`
	X       float64  `json:"x_rps"`
	SMean   float64  `json:"s_mean_s"` // mean response at this concurrency
	Ratio   *float64 `json:"cw_ratio"` // CloudWatch's maximum over the client's mean in flight
	Samples int      `json:"n_samples"`
}

// Measured is what the measurement files say, joined: the input of both rules. Times are seconds.
type Measured struct {
	QMax          int     `json:"q_max"`
	QRPS          float64 `json:"q_max_rps"`               // completions a second while q_max is held
	QSMean        float64 `json:"s_mean_at_q_max_s"`       // mean response there
	QSource       string  `json:"q_max_source"`            // certified, or why not
	Lower         bool    `json:"q_max_is_lower"`          // no rung above it missed the objective
	Cliff         bool    `json:"cliff,omitempty"`         // right above it latency jumps instead of growing
	SLO           float64 `json:"slo_s"`                   // first audio
	Pct           float64 `json:"percentile"`              // 95
	SMean         float64 `json:"s_mean_s"`                // whole response at the lowest usable rung
	SP95          float64 `json:"s_p95_s"`                 // likewise
	SAt           int     `json:"s_at_n"`                  // that rung
	FirstAudioAt1 float64 `json:"first_audio_p95_at_1_ms"` // 0: not measured

	Mu     ladder.Interval `json:"mu_rps"` // most that one instance completes a second
	MuPlan float64         `json:"mu_plan_rps"`
	CS2    *float64        `json:"cs2"`
	CS2Src string          `json:"cs2_source,omitempty"`
	Points []Point         `json:"ladder"`

	Frozen     *bool `json:"frozen"` // null: does not apply
	QueueBound *int  `json:"queue_bound"`
	Counts     []int `json:"instance_counts"`
	PerRun     []int `json:"q_max_per_run"` // of the runs that had an answer
	Runs       int   `json:"runs"`

	CharsPerRequest *float64 `json:"chars_per_request"`
	CorpusChars     *float64 `json:"corpus_chars,omitempty"` // where the figures were scaled to other texts: those measured
	Open            []Open   `json:"open_loop,omitempty"`    // what an instance was seen to hold under Poisson arrivals
	Length          *Length  `json:"length_model,omitempty"` // of time against characters, from the request log
	LengthWhy       string   `json:"length_model_missing,omitempty"`
	Streams         *Streams `json:"streams,omitempty"` // how long whole replies take, from the request log
	PricePerHour    *float64 `json:"price_per_hour"`
	PriceSource     string   `json:"price_source,omitempty"`

	Lag Lag `json:"lag"` // as the scale-out file, or the operator, says it

	ClosedRatio    bool     `json:"cw_ratio_closed_loop"` // the ratios come from a closed loop, where maximum = mean
	ProvisionStage *float64 `json:"provision_stage_s"`    // capacity call to the new instance's first log line
	StagesSum      *float64 `json:"stages_sum_s"`         // of the durations that the file lists
	StagesTotal    *float64 `json:"stages_total_s"`       // the total that it states
}

// Scenario is what the operator states. Rates are requests a second over the whole fleet; streams, where set, win.
type Scenario struct {
	Rule          string   `json:"rule"`
	PeakRPS       float64  `json:"peak_rps"`
	PeakStreams   float64  `json:"peak_streams"`
	TroughRPS     float64  `json:"trough_rps"`
	TroughStreams float64  `json:"trough_streams"`
	SurgeRatio    float64  `json:"surge_ratio"`                  // load after T over load now; h = SurgeRatio − 1
	SurgeSource   string   `json:"surge_source,omitempty"`       // stated when empty
	Dispersion    float64  `json:"dispersion,omitempty"`         // of the fleet's arrivals: variance of their count over its mean; 0 taken for 1
	Epsilon       float64  `json:"epsilon,omitempty"`            // 0: the default
	Routing       string   `json:"routing,omitempty"`            // random where empty, or lor
	Spare         int      `json:"spare,omitempty"`              // lost instances that the others make up for
	Quota         int      `json:"quota,omitempty"`              // of instances; 0: not known
	MultiModel    bool     `json:"multi_model,omitempty"`        // an instance serves several models, and may evict one
	CharsMean     float64  `json:"chars_mean,omitempty"`         // of production texts; 0: those of the corpus
	IdleHours     *float64 `json:"idle_hours_per_day,omitempty"` // without a request, from a trace
	MinFloor      int      `json:"min_floor"`
	Ceiling       float64  `json:"ceiling_s"` // longest that the platform lets one invocation take
	Accept        []string `json:"accept"`    // findings whose stop the operator takes on
}
