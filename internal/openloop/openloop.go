// Package openloop judges a rung whose requests were sent at times drawn beforehand, however the ones before fared: what
// callers who know nothing of each other see. A closed loop waits with a stalled server and sends nothing meanwhile; here
// the stall is latency of every request that should have been sent.
//
//	p, err := openloop.NewStep(0, 0.8, server, 2*time.Minute, rng) // 80 % of μ
//	// send p.At, collect the requests, then:
//	r := openloop.Judge(cfg, p, sent, requests)
//	r.Mean, *r.P95 // in flight on average; from the intended start, in milliseconds
//
// It leaves sending to package load and the record to package artifact.
package openloop

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"loadline/internal/arrival"
	"loadline/internal/ladder"
	"loadline/internal/queueing"
	"loadline/internal/sample"
)

// Config is what a rung is judged by.
type Config struct {
	SLO        time.Duration
	Percentile float64
	Mark       sample.Mark
}

// Server is the instance as its ladder has it: the chain predicts what a rate does to it.
type Server struct {
	Chain queueing.Chain
	Most  float64 // μ: completions a second
}

// Step is one rate to send at: the whole schedule, drawn ahead.
type Step struct {
	Index   int
	Share   float64 // of μ
	Rate    float64 // requests a second
	Profile arrival.Profile
	WarmUp  time.Duration // cut from the start
	At      []time.Duration

	// In flight on average; nil at μ and beyond. Predicted is the chain's. Fixed is that of a single server with a fixed
	// service of 1/μ, and Drawn what that server holds of these very arrivals: their difference is what this draw has by
	// chance (a control variate).
	Predicted, Fixed, Drawn *float64
}

// Held is a length of a step that lets its mean be told: the slower a queue forgets, the longer.
func Held(share, mu float64) time.Duration {
	forget := 1 / (mu * math.Pow(1-math.Min(share, 0.95), 2))
	s := math.Max(30, math.Min(900, 100*forget+1000/mu))
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// NewStep draws a step at a share of μ. Before it lies a warm-up in which the queue comes to be what it is at that rate.
func NewStep(index int, share float64, s Server, held time.Duration, rng *rand.Rand) (Step, error) {
	if !(share > 0 && share <= 2) {
		return Step{}, fmt.Errorf("open-loop rung at %g of μ: above 0 and at most 2", share)
	}
	forget := 8 / (s.Most * math.Pow(1-math.Min(share, 0.9), 2))
	warm := time.Duration(math.Min(forget+10/s.Most, held.Seconds()/3) * float64(time.Second))
	p := Step{Index: index, Share: share, Rate: share * s.Most, WarmUp: warm}
	var err error
	if p.Profile, err = arrival.Constant(p.Rate, held+warm); err != nil {
		return Step{}, err
	}
	p.At = p.Profile.Poisson(rng)
	if share < 1 {
		room := 2000
		steady, err := s.Chain.Steady(p.Rate, room)
		if err != nil {
			return Step{}, fmt.Errorf("predict what is in flight: %w", err)
		}
		mean := steady.Mean()
		md1, drawn := fixed(share), replay(p.At, 1/s.Most, warm, p.Profile.Len())
		p.Predicted, p.Fixed, p.Drawn = &mean, &md1, &drawn
	}
	return p, nil
}

// fixed is the mean that a single server with a fixed service holds under Poisson arrivals (Pollaczek and Khinchine).
func fixed(rho float64) float64 { return rho + rho*rho/(2*(1-rho)) }

// replay is the mean that the same server holds of given arrivals, from one time to another (Lindley 1952).
func replay(at []time.Duration, service float64, from, to time.Duration) float64 {
	area, free := 0.0, 0.0
	for _, a := range at {
		t := a.Seconds()
		free = math.Max(t, free) + service
		area += math.Max(0, math.Min(free, to.Seconds())-math.Max(t, from.Seconds()))
	}
	return area / (to - from).Seconds()
}

// Sent is what the generator says of a step.
type Sent struct {
	Client  sample.Client
	Origin  sample.Nanos // the schedule's 0, on the run's clock
	Planned int
	Dropped int    // not sent, because too many were in flight
	Peak    int    // most in flight at once
	Invalid string // why it says nothing of the server
	Counts  []int  // instances, as read around it
}

// Rung is one rate, summarised. Percentiles are over all attempts that were due in the window, from the intended start,
// failures being infinite: null, and named in Infinite.
type Rung struct {
	Index     int     `json:"index"`
	Share     float64 `json:"share_of_mu"`
	Rate      float64 `json:"rate_rps"` // meant
	StartedNS int64   `json:"started_ns"`
	EndedNS   int64   `json:"ended_ns"`
	WarmupS   float64 `json:"warmup_s"`

	Planned int     `json:"planned"` // due in the whole step
	Dropped int     `json:"dropped"`
	Arrived float64 `json:"arrival_rps"` // started in the window, a second
	X       float64 `json:"x_rps"`       // successful completions in the window, a second
	Law     Law     `json:"arrival_law"`

	P50      *float64 `json:"p50_ms"`
	P95      *float64 `json:"p95_ms"`
	P95Low   *float64 `json:"p95_low"` // 95 % confidence, with what neighbours have in common taken into account
	P95High  *float64 `json:"p95_high"`
	P99      *float64 `json:"p99_ms"`
	Quantile *float64 `json:"quantile_ms"` // the objective's own percentile, when it is not 95
	SentP95  *float64 `json:"p95_from_send_ms"`
	Infinite []string `json:"infinite,omitempty"`

	SMean *float64 `json:"s_mean_s"` // whole response of successes, from the send

	Mean      float64  `json:"in_flight_mean"` // of the client, from the send to the end
	Max       int      `json:"in_flight_max"`
	TenMax    float64  `json:"in_flight_max_10s"`  // mean of the maxima of 10 s periods
	Predicted *float64 `json:"in_flight_chain"`    // by the ladder's chain
	Fixed     *float64 `json:"in_flight_md1"`      // of one server with a fixed service of 1/μ
	Drawn     *float64 `json:"in_flight_drawn"`    // of that server under these very arrivals
	Adjusted  *float64 `json:"in_flight_adjusted"` // mean + md1 − drawn: without what this draw has by chance

	Samples  int            `json:"n_samples"`
	OK       int            `json:"ok"`
	Late     int            `json:"late"`
	NEff     float64        `json:"n_eff"`
	Outcomes map[string]int `json:"outcomes,omitempty"`

	Verdict  ladder.Verdict `json:"verdict"`
	Valid    bool           `json:"valid"`
	Cause    string         `json:"cause,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`

	Counts []int          `json:"instance_counts,omitempty"`
	Client *sample.Client `json:"client,omitempty"`
	CW     *ladder.Server `json:"cw,omitempty"`
}

// Law is the test of the started requests against the law that they were drawn from.
type Law struct {
	Gaps int     `json:"gaps"`
	A2   float64 `json:"a2"` // Anderson–Darling
	P    float64 `json:"p"`
}
