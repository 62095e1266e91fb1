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

	// The rest is of the run whose stages are listed, the slowest that succeeded, but for Attempts.
	From     int       `json:"from_instances,omitempty"`
	To       int       `json:"to_instances,omitempty"`
	Instance string    `json:"instance_id,omitempty"`
	Probe    int       `json:"probe_concurrency,omitempty"`
	Recovery *Recovery `json:"recovery,omitempty"`
	Detected []Stage   `json:"detection_timeline,omitempty"` // breach, alarm and decision, where the policy was driven
	Missing  []string  `json:"missing_stages,omitempty"`
	Dominant *Dominant `json:"dominant,omitempty"`
	Attempts []Attempt `json:"attempts,omitempty"` // every run, those that failed included; they are in no figure
}

// Recovery is how traffic was judged to have recovered, and what it was before and after.
type Recovery struct {
	Rule       string   `json:"rule"` // latency or throughput
	WindowS    float64  `json:"window_s"`
	TargetMS   *float64 `json:"target_ms"`  // of latency
	TargetRPS  *float64 `json:"target_rps"` // of throughput
	BeforeMS   *float64 `json:"p95_before_ms"`
	AfterMS    *float64 `json:"p95_after_ms"` // highest of any window from recovery on
	AfterRPS   *float64 `json:"rps_after"`    // lowest of any such window
	HeldS      float64  `json:"held_s"`
	Percentile float64  `json:"percentile"`
}

// Dominant is the longest stage.
type Dominant struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	Seconds  float64 `json:"seconds"`
	Share    float64 `json:"share"`          // of t_total_s
	Planning float64 `json:"planning_share"` // of planning_s
	Saves    float64 `json:"half_saves_s"`   // what half of it would save
	Advice   string  `json:"advice"`
}

// Attempt is one run.
type Attempt struct {
	StartedAt time.Time `json:"started_at"` // of the capacity call
	Total     *float64  `json:"t_total_s"`  // null: it failed, or recovery was not seen
	Cause     string    `json:"cause,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	Timeline  []Stage   `json:"timeline,omitempty"`
}

// Why a scale-out came to nothing. They are three different answers, and none is a slow scale-out.
const (
	CauseQuota      = "quota"       // the account may not have another instance
	CauseCapacity   = "capacity"    // AWS had no machine of the type
	CauseHealth     = "health"      // the container did not become healthy
	CauseStuck      = "stuck"       // no progress until the time was up, and no reason given
	CauseNoRecovery = "no_recovery" // the instance came, and traffic did not recover
)

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
