package ladder

import "loadline/internal/sample"

// Verdict of a rung: did it meet the objective.
type Verdict string

// Pass and Fail are decided by the sequential test; Undecided is a rung whose samples could not tell.
const (
	Pass      Verdict = "pass"
	Fail      Verdict = "fail"
	Undecided Verdict = "undecided"
)

// Purpose says why the search measured a rung.
type Purpose string

// The purposes of a rung, in the order in which a search comes to them.
const (
	Survey    Purpose = "survey"    // two short probes that give S and X
	Double    Purpose = "bracket"   // doubling until one fails
	Bisect    Purpose = "bisect"    // narrowing between a pass and a fail
	Certify   Purpose = "certify"   // fresh samples at the candidate
	Retest    Purpose = "retest"    // one lower passing rung again, last: heat, neighbours
	Pair      Purpose = "pair"      // the rungs that ttotal needs
	Scheduled Purpose = "scheduled" // a rung of a fixed schedule
)

// Rung is one held concurrency, summarised. Times of percentiles are milliseconds, of service seconds. A percentile that
// falls among failed requests is infinite: null in JSON, with Infinite set. Percentiles are over all attempts.
type Rung struct {
	Run       int     `json:"run"`   // pass of the ladder, from 0 (--runs)
	Index     int     `json:"index"` // order within the run, the `rung` of the request log
	N         int     `json:"n"`     // requests held in flight
	Purpose   Purpose `json:"purpose"`
	StartedNS int64   `json:"started_ns"` // of the measured window, from the run's start, after warm-up
	EndedNS   int64   `json:"ended_ns"`
	WarmupS   float64 `json:"warmup_s"` // cut from the start

	X     float64  `json:"x_rps"`        // successful completions per second
	Tries float64  `json:"attempts_rps"` // completions per second of any outcome
	XLow  *float64 `json:"x_low"`        // 95 % confidence from batch means; null when too few
	XHigh *float64 `json:"x_high"`

	P50      *float64 `json:"p50_ms"`
	P95      *float64 `json:"p95_ms"`
	P95Upper *float64 `json:"p95_upper_ms"` // p95 is at most this, at 95 % confidence; null when it cannot be said
	P99      *float64 `json:"p99_ms"`
	Quantile *float64 `json:"quantile_ms"` // the objective's own percentile, when it is not 95
	Infinite []string `json:"infinite,omitempty"`
	OKP95    *float64 `json:"ok_only_p95_ms,omitempty"` // of the survivors alone, when some failed: never judged

	SMean *float64 `json:"s_mean_s"` // whole-response time of successes
	SP95  *float64 `json:"s_p95_s"`
	CS2   *float64 `json:"cs2"` // squared coefficient of variation of that time

	Samples  int            `json:"n_samples"` // attempts in the window
	OK       int            `json:"ok"`
	Late     int            `json:"late"`
	NEff     float64        `json:"n_eff"`
	Outcomes map[string]int `json:"outcomes,omitempty"` // every outcome but ok
	Causes   map[string]int `json:"causes,omitempty"`   // why they were not ok
	Chars    int64          `json:"chars"`
	AudioS   float64        `json:"audio_s"`

	LateLag1 float64 `json:"late_lag1"` // correlation of late with late among neighbours, in order of completion

	Little  float64 `json:"little"` // |N - X R| / N over all attempts, R being the part that lies within the window
	Trend   float64 `json:"trend"`  // change of the mark over the window, as a share of its median
	Verdict Verdict `json:"verdict"`
	Valid   bool    `json:"valid"`
	Cause   string  `json:"cause,omitempty"` // why invalid or undecided

	Counts   []int          `json:"instance_counts,omitempty"` // read before, during, after
	Client   *sample.Client `json:"client,omitempty"`          // what the load generator says of itself over the rung
	Warnings []string       `json:"warnings,omitempty"`
	CW       *Server        `json:"cw,omitempty"` // what CloudWatch says of the same window
}

// Server is what CloudWatch says of a rung, from whole periods inside its window only.
type Server struct {
	Periods         int      `json:"periods"` // whole 10 s periods inside the window
	ConcurrencyMin  *float64 `json:"concurrency_min"`
	ConcurrencyMax  *float64 `json:"concurrency_max"`
	ConcurrencyMean *float64 `json:"concurrency_mean"`
	ModelLatencyP95 *float64 `json:"model_latency_p95_ms"` // from whole 60 s periods
	Invocations     *float64 `json:"invocations"`
	Errors4XX       *float64 `json:"errors_4xx"`
	Errors5XX       *float64 `json:"errors_5xx"`
	CPU             *float64 `json:"cpu_utilization"` // percent, summed over cores
	GPU             *float64 `json:"gpu_utilization"`
	Ratio           *float64 `json:"ratio"`     // server maximum over client mean in flight
	Agreement       string   `json:"agreement"` // "agrees", or how it cannot be squared with the client
	Squared         bool     `json:"squared"`   // false: flagged, its figures decide nothing
}

// Certificate is the proof behind Q_max: late of n fresh samples, worth n_eff independent ones.
type Certificate struct {
	Confidence float64 `json:"confidence"`
	N          int     `json:"n"`
	Late       int     `json:"late"`
	NEff       float64 `json:"n_eff"`
	Fresh      bool    `json:"fresh"`
}

// Bracket is the highest rung that passed and the lowest valid rung above it that missed the objective. Fail is 0 when
// none did: then Q_max is a lower bound.
type Bracket struct {
	Pass int `json:"pass"`
	Fail int `json:"fail"`
}

// Interval is a value with its confidence bounds; Source says how it was had ("interval: batch means of rung 32",
// "point: the file carries no samples").
type Interval struct {
	Value  float64  `json:"value"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
	Source string   `json:"source"`
}
