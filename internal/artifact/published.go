package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"loadline/internal/ladder"
	"loadline/internal/sample"
)

// The files of the published toolchain name no schema; they are told by their shape. What becomes of their figures:
//
//   - Q_max, service times, settings and percentiles are taken as they stand; the bracket is found again by this tool's
//     rule (a valid rung that missed the objective), and a disagreement is a warning.
//   - There are no samples: no certificate, no interval of the throughput, and late requests only as a lower bound from
//     the percentiles. A failed request counts as late.
//   - A server figure is squared with the client's: a latency above the client's own belongs to another minute.
//   - There is no region, and in the scale-out no transport: both stay empty (Fingerprint.NoRegion).

const publishedTool = "published tts-bench"

// squareSlack is how far the server's p95 may exceed the client's before it cannot be of the same requests: the file
// averages percentiles of several periods.
const squareSlack = 1.05

type publishedConfig struct {
	InstanceType string            `json:"instance_type"`
	ImageDigest  string            `json:"image_digest"`
	ContainerEnv map[string]string `json:"container_env"`
}

type publishedLadder struct {
	Model      string          `json:"model_name"`
	Endpoint   string          `json:"endpoint"`
	RunID      string          `json:"run_id"`
	SLOMS      float64         `json:"slo_ms"`
	QMax       *int            `json:"q_max"`
	PerRun     []*int          `json:"q_max_per_run"`
	Bracketed  bool            `json:"q_max_bracketed"`
	SMean      *float64        `json:"s_mean_s"`
	SP95       *float64        `json:"s_p95_s"`
	Frozen     bool            `json:"frozen"`
	Unbounded  *bool           `json:"unbounded_queue"`
	Counts     []int           `json:"instance_counts_observed"`
	Truncated  *int            `json:"ladder_truncated_at"`
	Transport  string          `json:"transport"`
	Config     publishedConfig `json:"deployed_config"`
	Runs       int             `json:"runs"`
	Hold       float64         `json:"hold_s"`
	Window     float64         `json:"measure_window_s"`
	Steps      []publishedStep `json:"steps"`
	Provenance struct {
		MeasuredAt time.Time `json:"measured_at"`
	} `json:"provenance"`
	At1 *float64 `json:"ttfab_p95_at_c1_ms"`
}

type publishedStep struct {
	Run       int            `json:"run_index"`
	Index     int            `json:"step_index"`
	N         int            `json:"concurrency"`
	RPS       float64        `json:"achieved_rps"`
	Completed int            `json:"completed"`
	OK        int            `json:"ok"`
	Chars     int64          `json:"chars"`
	Outcomes  map[string]int `json:"outcome_counts"`
	P50       *float64       `json:"ttfab_p50_ms"`
	P95       *float64       `json:"ttfab_p95_ms"`
	P99       *float64       `json:"ttfab_p99_ms"`
	TotalP95  *float64       `json:"latency_p95_ms"`
	SMean     *float64       `json:"s_mean_s"`
	SP95      *float64       `json:"s_p95_s"`
	InFlight  *float64       `json:"concurrency_mean"`
	Drift     *float64       `json:"ttfab_drift_ms"`
	Usable    bool           `json:"usable"`
	Unusable  *string        `json:"unusable_reason"`
	Changed   bool           `json:"capacity_changed"`
	Counts    []int          `json:"instance_counts"`

	ServerMean *float64 `json:"server_concurrency_mean"`
	ServerPeak *float64 `json:"server_concurrency_peak"`
	ServerP95  *float64 `json:"server_model_latency_p95_ms"`
	Server5XX  *float64 `json:"server_5xx_total"`
	GPU        *float64 `json:"gpu_utilization_mean"`
	CPU        *float64 `json:"cpu_utilization_mean"`
}

func publishedQMax(data []byte) (*QMax, error) {
	const what = "a ladder of the published toolchain"
	var f publishedLadder
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if len(f.Steps) == 0 {
		return nil, errors.New(what + " without a single rung")
	}
	q := &QMax{
		Header: Header{
			Schema: SchemaQMax, RunID: f.RunID, CreatedAt: f.Provenance.MeasuredAt.UTC(), Tool: publishedTool,
			Settings: map[string]any{"runs": f.Runs, "hold_s": f.Hold, "measure_window_s": f.Window, "slo_ms": f.SLOMS},
			Target:   Target{Model: f.Model, Endpoint: f.Endpoint, Transport: f.Transport, Payload: "audio"},
		},
		SLOMS: f.SLOMS, Percentile: 95, SLOOn: string(sample.OnFirstAudio),
		QMax: f.QMax, PerRun: f.PerRun, SMean: f.SMean, SP95: f.SP95, FirstAudioAt1: f.At1,
		Frozen: f.Frozen, InstanceCounts: f.Counts, Complete: true,
		Warnings: []string{
			"read from the published format: no samples, so no certificate, and late requests are a lower bound from the percentiles",
			"first audio is the first byte there, any WAV header included",
		},
	}
	warn := func(format string, a ...any) { q.Warnings = append(q.Warnings, fmt.Sprintf(format, a...)) }
	q.fingerprint(f.Config, warn)
	switch bound := q.Fingerprint.QueueBound; {
	case f.Unbounded == nil:
		q.Fingerprint.QueueBound = nil
		warn("the queue bound was not checked")
	case !*f.Unbounded && bound != nil && *bound == 0:
		q.Fingerprint.QueueBound = nil
		warn("the queue was bounded, and the file does not say at what")
	case *f.Unbounded && (bound == nil || *bound != 0):
		warn("the file calls the queue unbounded, and its environment bounds it")
	}
	if f.Truncated != nil {
		q.Settings["ladder_truncated_at"] = *f.Truncated
		warn("the ladder was stopped at N = %d, saturated", *f.Truncated)
	}

	var chars, completed int64
	for _, s := range f.Steps {
		if s.Completed < 0 || s.OK < 0 || s.OK > s.Completed {
			return nil, fmt.Errorf("%s that cannot be true: N = %d has %d ok of %d", what, s.N, s.OK, s.Completed)
		}
		q.Rungs = append(q.Rungs, s.rung(f.SLOMS))
		chars += s.Chars
		completed += int64(s.Completed)
	}
	if completed > 0 {
		q.Corpus = Corpus{ID: "not named (published format)", CharsMean: float64(chars) / float64(completed)}
	}
	q.unsquared(warn)
	q.throughput()
	q.judge(f, warn)
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("%s that cannot be true: %w", what, err)
	}
	return q, nil
}

func (h *Header) fingerprint(c publishedConfig, warn func(string, ...any)) {
	env, bound := ContainerEnv(c.ContainerEnv)
	h.Fingerprint = Fingerprint{InstanceType: c.InstanceType, ImageDigest: c.ImageDigest, ContainerEnv: env, QueueBound: bound, NoRegion: true}
	if !hexDigest(c.ImageDigest) {
		h.Fingerprint.ImageDigest = ""
		if c.ImageDigest != "" {
			warn("the image is known by the tag %q alone, which can move: its digest counts as not known", c.ImageDigest)
		}
	}
}

func (s *publishedStep) rung(slo float64) ladder.Rung {
	r := ladder.Rung{
		Run: s.Run, Index: s.Index, N: s.N, Purpose: ladder.Scheduled,
		P50: s.P50, P95: s.P95, P99: s.P99, SMean: s.SMean, SP95: s.SP95,
		Samples: s.Completed, OK: s.OK, Chars: s.Chars, Counts: s.Counts,
		Valid: s.Usable && !s.Changed,
	}
	if s.Completed > 0 {
		r.X, r.Tries = s.RPS*float64(s.OK)/float64(s.Completed), s.RPS
	}
	for name, n := range s.Outcomes {
		if o := publishedOutcome(name); o != sample.OK {
			if r.Outcomes == nil {
				r.Outcomes = map[string]int{}
			}
			r.Outcomes[string(o)] += n
		}
	}
	if s.P50 != nil && *s.P50 > 0 && s.Drift != nil {
		r.Trend = *s.Drift / *s.P50
	}
	if s.SMean != nil && s.N > 0 && s.OK == s.Completed {
		r.Little = math.Abs(float64(s.N)-r.Tries**s.SMean) / float64(s.N)
	}
	low, high := s.late(slo)
	r.Late = low
	r.Verdict, r.Cause = s.verdict(slo, low, high)
	switch {
	case s.Changed:
		r.Cause = "the instance count changed"
	case !s.Usable && s.Unusable != nil:
		r.Cause = *s.Unusable
	case !s.Usable:
		r.Cause = "marked unusable, no reason given"
	}
	if failed := s.Completed - s.OK; failed > 0 {
		r.OKP95 = s.P95
		r.Warnings = append(r.Warnings, "the percentiles are of the survivors alone, and so a little low: the file holds no others")
		for _, p := range []struct {
			q    float64
			name string
			v    **float64
		}{{0.50, "p50_ms", &r.P50}, {0.95, "p95_ms", &r.P95}, {0.99, "p99_ms", &r.P99}} {
			if float64(failed) > (1-p.q)*float64(s.Completed) { // it falls among the failures
				*p.v, r.Infinite = nil, append(r.Infinite, p.name)
			}
		}
	}
	r.CW = s.server()
	return r
}

// late is the fewest and the most requests that can have missed the objective, from the percentiles and the failures. A
// percentile q by linear interpolation lies between the order statistics floor(q(n-1)) and ceil(q(n-1)), from 0.
func (s *publishedStep) late(slo float64) (low, high int) {
	n, failed := s.OK, s.Completed-s.OK
	if n == 0 {
		return failed, failed
	}
	high = n
	for _, p := range []struct {
		q float64
		v *float64
	}{{0.50, s.P50}, {0.95, s.P95}, {0.99, s.P99}} {
		switch at := p.q * float64(n-1); {
		case p.v == nil:
		case *p.v > slo:
			low = max(low, n-int(math.Ceil(at)))
		default:
			high = min(high, n-1-int(math.Floor(at)))
		}
	}
	return min(low, high) + failed, high + failed
}

// verdict judges the rung by its published p95, with every failure late.
func (s *publishedStep) verdict(slo float64, low, high int) (ladder.Verdict, string) {
	budget := 0.05 * float64(s.Completed)
	switch {
	case s.Completed == 0 || s.P95 == nil:
		return ladder.Undecided, "nothing completed"
	case *s.P95 > slo || float64(low) > budget:
		return ladder.Fail, ""
	case s.OK == s.Completed || float64(high) <= budget:
		return ladder.Pass, ""
	}
	return ladder.Undecided, "some requests failed, and without samples it cannot be told whether more than 5 % were late"
}

func (s *publishedStep) server() *ladder.Server {
	if s.ServerMean == nil && s.ServerPeak == nil && s.ServerP95 == nil && s.CPU == nil && s.GPU == nil {
		return nil
	}
	cw := &ladder.Server{
		ConcurrencyMax: s.ServerPeak, ConcurrencyMean: s.ServerMean, ModelLatencyP95: s.ServerP95, Errors5XX: s.Server5XX,
		CPU: s.CPU, GPU: s.GPU, Squared: true, Agreement: "agrees",
	}
	if s.ServerPeak != nil && s.InFlight != nil && *s.InFlight > 0 {
		cw.Ratio = new(*s.ServerPeak / *s.InFlight)
	}
	if s.ServerP95 != nil && s.TotalP95 != nil && *s.ServerP95 > *s.TotalP95*squareSlack {
		cw.Squared = false
		cw.Agreement = fmt.Sprintf("the server's p95 of %.0f ms exceeds the client's %.0f ms: the minute joined is another rung's, for latency, CPU and GPU alike", *s.ServerP95, *s.TotalP95)
	}
	return cw
}

// publishedOutcome is the outcome of that name in this tool's words.
func publishedOutcome(name string) sample.Outcome {
	switch name {
	case "stale_408":
		return sample.Stale
	case "saturated_503":
		return sample.Rejected
	case "throttled_429":
		return sample.Throttled
	case "server_5xx":
		return sample.ServerError
	case "client_timeout":
		return sample.Timeout
	case "error":
		return sample.ProtocolError
	}
	return sample.Outcome(name)
}

func (q *QMax) unsquared(warn func(string, ...any)) {
	var at []string
	for _, r := range q.Rungs {
		if r.CW != nil && !r.CW.Squared {
			at = append(at, fmt.Sprint(r.N))
		}
	}
	if at != nil {
		warn("server figures that cannot be squared with the client's at N = %s: the one-minute metrics were read over windows that do not hold whole minutes", strings.Join(at, ", "))
	}
}

// throughput fills what the throughputs of the valid rungs say: the most an instance completes, and the pair of rungs
// that a scale-out can be judged by.
func (q *QMax) throughput() {
	x := map[int]float64{}
	q.Mu.Source = "point: the file carries no samples"
	for _, r := range q.Rungs {
		if r.Valid {
			q.Mu.Value = max(q.Mu.Value, r.X)
			x[r.N] = max(x[r.N], r.X)
		}
	}
	var ns []int
	for n := range x {
		if _, half := x[n/2]; half && n%2 == 0 && x[n] >= 0.95*q.Mu.Value {
			ns = append(ns, n)
		}
	}
	if len(ns) > 0 {
		p := slices.Min(ns)
		q.ProbePair = []int{p, p / 2}
	}
}

// judge finds the bracket by this tool's rule, and says where the file's own answer differs.
func (q *QMax) judge(f publishedLadder, warn func(string, ...any)) {
	q.Bracket = bracket(q.Rungs)
	for len(q.PerRun) < f.Runs {
		q.PerRun = append(q.PerRun, nil)
		warn("one of the %d runs found no answer, and the file left it out of the minimum", f.Runs)
	}
	if q.QMax == nil {
		q.Verdict, q.Reason = "none", "no rung met the objective"
		return
	}
	for _, r := range q.Rungs {
		if r.N == *q.QMax && r.Samples > 0 {
			q.CharsPerS = r.X * float64(r.Chars) / float64(r.Samples)
		}
	}
	if q.Bracket.Pass != *q.QMax {
		warn("the file says Q_max %d, and by this tool's rule the highest rung that passes in every run is %d", *q.QMax, q.Bracket.Pass)
	}
	bracketed := q.Bracket.Fail > 0
	if f.Bracketed && !bracketed {
		warn("the file calls Q_max bracketed, and no valid rung above it missed the objective: it is a lower bound")
	}
	q.Verdict = "published schedule: not bracketed"
	if bracketed {
		q.Verdict = fmt.Sprintf("published schedule: bracketed, %d passed and %d missed", q.Bracket.Pass, q.Bracket.Fail)
	}
}

// bracket is the highest concurrency at which every valid rung passed, and the lowest above it at which a valid rung
// missed the objective.
func bracket(rungs []ladder.Rung) (b ladder.Bracket) {
	held := map[int]bool{}
	for _, r := range rungs {
		if r.Valid && r.Verdict != ladder.Undecided {
			before, seen := held[r.N]
			held[r.N] = r.Verdict == ladder.Pass && (before || !seen)
		}
	}
	for n, passed := range held {
		if passed {
			b.Pass = max(b.Pass, n)
		}
	}
	for n, passed := range held {
		if !passed && n > b.Pass && (b.Fail == 0 || n < b.Fail) {
			b.Fail = n
		}
	}
	return b
}
