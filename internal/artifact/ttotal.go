package artifact

import "time"

// TTotal is the record of one measured scale-out: how long more capacity really takes, stage by stage.
type TTotal struct {
	Header

	Trigger string    `json:"trigger"`         // force-desired, policy, assumed
	TTotal  float64   `json:"t_total_s"`       // capacity call to traffic recovered; the sum of the stages
	Runs    []float64 `json:"runs_s"`          // each run's total; plans use the upper value
	Bounded bool      `json:"t_total_bounded"` // a floor: recovery was never seen

	Detection       float64 `json:"detection_s"`      // breach to decision, of the policy that triggers
	DetectionSource string  `json:"detection_source"` // measured, alarms, planned, "published bound"
	Planning        float64 `json:"planning_s"`       // TTotal + Detection

	Timeline  []Stage    `json:"timeline"`
	Durations []Duration `json:"durations"`

	// ListsProbeWarmup: the file counts the probe's own warm-up among its durations, as published files do; they add up
	// to more than the total.
	ListsProbeWarmup bool     `json:"lists_probe_warmup,omitempty"`
	Notes            []string `json:"notes,omitempty"`
}

// Stage is an instant of the scale-out.
type Stage struct {
	Name    string    `json:"stage"`
	At      time.Time `json:"at"`
	Bounded bool      `json:"bounded"` // an upper bound, not a measurement
	Source  string    `json:"source"`
	Note    string    `json:"note,omitempty"`
}

// Duration is the time between two neighbouring stages.
type Duration struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Seconds float64 `json:"seconds"`
	Bounded bool    `json:"bounded"`
	Share   float64 `json:"share"` // of the total
}
