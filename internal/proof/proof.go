// Package proof judges what was seen of a deployed plan under load: of each thing that the plan promises, what was measured,
// between which bounds it lies, and what it was allowed to be.
//
//	c := proof.Rate(rung, 3*time.Second, 95)      // the objective at the plan's rate
//	d := proof.Grew(growth, 270*time.Second)      // an instance was asked for in time
//	proof.Together([]proof.Check{c, d})           // ok, stop, or not_checked
//
// A check during which no request was completed is stopped, whatever else was seen. Sending the load is left to package
// measure, the record to package artifact.
package proof

import (
	"fmt"
	"math"
	"strings"
	"time"

	"loadline/internal/capacity"
	"loadline/internal/chart"
	"loadline/internal/openloop"
	"loadline/internal/sample"
	"loadline/internal/stat"
)

// The checks, in the order in which they are made.
const (
	Deployed = "deployed"       // what is deployed equals the plan, value by value
	Lambda   = "slo_at_rate"    // the objective holds at the rate that the plan gives an instance
	Below    = "queue_below"    // nothing is refused below the bound
	Above    = "queue_above"    // what is too much is refused, and at once
	ScaleOut = "scale_out"      // an instance is asked for within the time of detection
	Surge    = "surge_survived" // the plan's surge is lived through: late and refused within the objective's share
	Shed     = "surge_refused"  // and what is refused of it by design within the plan's
)

const confidence = 0.95

// Check is one promise, held against what was measured.
type Check struct {
	Name    string           `json:"name"`
	Verdict capacity.Verdict `json:"verdict"` // ok, stop or not_checked

	Measured *float64 `json:"measured"` // null: nothing finite was
	Low      *float64 `json:"low"`      // between these, at 95 % confidence; null: no bound on that side
	High     *float64 `json:"high"`
	Budget   *float64 `json:"budget"` // what it may be at most
	Unit     string   `json:"unit,omitempty"`

	Samples  int            `json:"n_samples"`
	OK       int            `json:"ok"`
	Late     int            `json:"late"`     // completed, and later than the objective
	Rejected int            `json:"rejected"` // by design
	Outcomes map[string]int `json:"outcomes,omitempty"`

	Seconds float64 `json:"took_s"` // of load
	Detail  string  `json:"detail"`
}

// NotChecked is a check that was not made.
func NotChecked(name, why string) Check {
	return Check{Name: name, Verdict: capacity.NotChecked, Detail: why}
}

// Together is the verdict of a proof: stop when any check is, ok when all are, not_checked else.
func Together(cs []Check) capacity.Verdict {
	v := capacity.OK
	for _, c := range cs {
		switch c.Verdict {
		case capacity.Stop:
			return capacity.Stop
		case capacity.OK:
		default:
			v = capacity.NotChecked
		}
	}
	if len(cs) == 0 {
		return capacity.NotChecked
	}
	return v
}

// of is a check with what became of the requests.
func of(name string, rs []sample.Request, late func(sample.Request) bool) Check {
	c := Check{Name: name, Samples: len(rs), Outcomes: map[string]int{}}
	for _, r := range rs {
		c.Outcomes[string(r.Outcome)]++
		switch {
		case r.Outcome == sample.OK:
			c.OK++
			if late(r) {
				c.Late++
			}
		case r.Outcome == sample.Rejected:
			c.Rejected++
		}
	}
	return c
}

// fault is why requests say nothing of the endpoint: the client's own failing.
func (c Check) fault(invalid string) string {
	if n := c.Outcomes[string(sample.ClientFault)]; n > 0 && invalid == "" {
		invalid = fmt.Sprintf("%d requests failed in the client itself", n)
	}
	return invalid
}

// settle decides: unmeasured where the client could not tell, stopped without a single completion.
func (c *Check) settle(invalid, bad string) Check {
	switch invalid = c.fault(invalid); {
	case c.OK == 0:
		c.Verdict, c.Detail = capacity.Stop, fmt.Sprintf("no request of %d was completed%s", c.Samples, c.failures())
	case bad != "": // too slow a client makes latency worse, and refusals no more
		c.Verdict, c.Detail = capacity.Stop, bad+c.failures()
		if invalid != "" {
			c.Verdict, c.Detail = capacity.NotChecked, invalid
		}
	case invalid != "":
		c.Verdict, c.Detail = capacity.NotChecked, invalid
	default:
		c.Verdict = capacity.OK
	}
	return *c
}

// failures is what went wrong beside designed refusals.
func (c Check) failures() string {
	var s []string
	for _, o := range sample.Outcomes {
		if n := c.Outcomes[string(o)]; n > 0 && o != sample.OK && o != sample.Rejected {
			s = append(s, fmt.Sprintf("%d %s", n, o))
		}
	}
	if s == nil {
		return ""
	}
	return " (" + strings.Join(s, ", ") + ")"
}

// Rate judges the objective at the plan's rate, from an open-loop rung.
func Rate(r openloop.Rung, slo time.Duration, percentile float64) Check {
	c := Check{Name: Lambda, Unit: "ms", Samples: r.Samples, OK: r.OK, Late: r.Late, Rejected: r.Outcomes[string(sample.Rejected)],
		Outcomes: r.Outcomes, Seconds: time.Duration(r.EndedNS - r.StartedNS).Seconds(), Measured: r.P95, Low: r.P95Low, High: r.P95High}
	c.Late -= r.Samples - r.OK // there, whatever failed is late
	budget := 1000 * slo.Seconds()
	c.Budget = &budget
	if percentile != 95 {
		c.Measured, c.Low, c.High = r.Quantile, nil, nil
	}
	bad, cause := "", r.Cause
	if clientBound := strings.HasPrefix(cause, "client-bound"); clientBound && c.Measured != nil && *c.Measured <= budget {
		cause = "" // latency counts from the intended start: what the client added is in it, and it holds all the same
	}
	if allowed := (100 - percentile) / 100; r.Valid && r.Verdict == "fail" || refused(r, allowed) {
		bad = fmt.Sprintf("at %.2f a second, p%g is beyond %s: %d of %d late, %d refused", r.Rate, percentile, chart.Length(slo), c.Late, r.Samples, c.Rejected)
		cause = ""
	}
	c = c.settle(cause, bad)
	if c.Verdict == capacity.OK {
		c.Detail = fmt.Sprintf("%.2f a second, each at its own time: %d of %d late, %d refused", r.Rate, c.Late, r.Samples, c.Rejected)
	}
	return c
}

// refused says whether designed refusals alone prove that more than the allowed share was not served: a refusal is the
// server's doing however slow the client is.
func refused(r openloop.Rung, allowed float64) bool {
	return stat.Refutes(float64(r.Samples), float64(r.Outcomes[string(sample.Rejected)]), allowed, 1-confidence)
}

// Held is some requests in flight, held for a while.
type Held struct {
	N        int
	Bound    int // of the queue, queued and executing
	Requests []sample.Request
	For      time.Duration
	Invalid  string // why the client says nothing of the server
}

// Under judges what is held below the bound: nothing may be refused.
func Under(h Held) Check {
	c := of(Below, h.Requests, func(sample.Request) bool { return false })
	c.Seconds, c.Unit = h.For.Seconds(), "share refused"
	bad := ""
	if c.Samples > 0 {
		share := float64(c.Samples-c.OK) / float64(c.Samples)
		low, high := Interval(float64(c.Samples), float64(c.Samples-c.OK))
		zero := 0.0
		c.Measured, c.Low, c.High, c.Budget = &share, &low, &high, &zero
	}
	if n := c.Samples - c.OK; n > 0 {
		bad = fmt.Sprintf("%d of %d were not served at %d in flight, and the bound is %d: %d refused", n, c.Samples, h.N, h.Bound, c.Rejected)
	}
	c = c.settle(h.Invalid, bad)
	if c.Verdict == capacity.OK {
		c.Detail = fmt.Sprintf("%d in flight, the bound is %d: none of %d refused", h.N, h.Bound, c.Samples)
	}
	return c
}

// Over judges what is held beyond the bound: some must be refused by design, so soon that the caller can turn elsewhere, and
// nothing else may go wrong. prompt is how long a refusal may take, at the 95th percentile.
func Over(h Held, prompt time.Duration) Check {
	c := of(Above, h.Requests, func(sample.Request) bool { return false })
	c.Seconds, c.Unit = h.For.Seconds(), "ms to a refusal, p95"
	budget := 1000 * prompt.Seconds()
	c.Budget = &budget
	var took []float64
	for _, r := range h.Requests {
		if r.Outcome == sample.Rejected && r.End.Known() && r.Started.Known() {
			took = append(took, 1000*(r.End-r.Started).Duration().Seconds())
		}
	}
	bad := ""
	switch other := c.Samples - c.OK - c.Rejected; {
	case len(took) == 0:
		bad = fmt.Sprintf("none of %d was refused at %d in flight, and the bound is %d: the queue is not bounded as planned", c.Samples, h.N, h.Bound)
	case other > 0:
		bad = fmt.Sprintf("%d of %d failed otherwise than by a designed refusal", other, c.Samples)
	default:
		sorted := stat.Sorted(took)
		p95 := stat.Percentile(sorted, 95)
		c.Measured = &p95
		if up, ok := stat.PercentileUpper(sorted, 95, confidence); ok {
			c.High = &up
		}
		if p95 > budget {
			bad = fmt.Sprintf("p95 of %d refusals is %.0f ms: a caller waits to be told no", len(took), p95)
		}
	}
	invalid := h.Invalid
	if len(took) == 0 { // a slow client makes refusals late, not missing
		invalid = ""
	}
	c = c.settle(invalid, bad)
	if c.Verdict == capacity.OK {
		c.Detail = fmt.Sprintf("%d in flight, the bound is %d: %d of %d refused", h.N, h.Bound, c.Rejected, c.Samples)
	}
	return c
}

// Growth is a surge, and what the fleet did in it. Times count from its beginning.
type Growth struct {
	From, To int // instances before, and the most that were asked for
	// Between two looks more instances were asked for; both 0: never. Decided is the autoscaler's own time of it, 0 where it
	// does not say.
	Before, Seen, Decided time.Duration
	Lasted                time.Duration
	Requests              []sample.Request // intended in the surge
	SLO                   time.Duration
	Percentile            float64
	Mark                  sample.Mark
	Epsilon               float64 // share that the plan lets be refused
	Invalid               string  // why the load was not the one that was meant
	Slow                  string  // why the client may have made requests late itself
}

func (g Growth) late(r sample.Request) bool {
	return r.Latency(g.Mark, sample.FromIntended) > g.SLO.Seconds()
}

// Grew judges when the fleet was asked to grow.
func Grew(g Growth, within time.Duration) Check {
	c := of(ScaleOut, g.Requests, g.late)
	c.Unit, c.Seconds = "s", g.Lasted.Seconds()
	budget := within.Seconds()
	c.Budget = &budget
	bad := ""
	switch {
	case g.Seen == 0:
		low := g.Lasted.Seconds()
		c.Low = &low
		bad = fmt.Sprintf("no instance was asked for within %s of the surge: the policies do not see this load", chart.Length(g.Lasted))
	default:
		low, at, high := g.Before.Seconds(), g.Seen.Seconds(), g.Seen.Seconds()
		if g.Decided > 0 && g.Decided <= g.Seen {
			low, at, high = g.Decided.Seconds(), g.Decided.Seconds(), g.Decided.Seconds()
		}
		c.Measured, c.Low, c.High = &at, &low, &high
		if low > budget {
			bad = fmt.Sprintf("an instance was asked for after %.0f s, and the plan allows %.0f s for seeing a surge", at, budget)
		}
	}
	// Nothing that the client did wrong makes a policy slower, unless it did not send the load.
	c = c.settle("", bad)
	if bad != "" && g.Invalid != "" && c.OK > 0 {
		c.Verdict, c.Detail = capacity.NotChecked, g.Invalid
	}
	if c.Verdict == capacity.OK {
		c.Detail = fmt.Sprintf("from %d to %d instances", g.From, g.To)
	}
	return c
}

// Survived judges what the callers had of the surge: late and not served together within the objective's share.
func Survived(g Growth) Check {
	allowed := (100 - g.Percentile) / 100
	c := g.share(Surge, "share late or not served", allowed, func(r sample.Request) bool { return r.Outcome != sample.OK || g.late(r) })
	bad := ""
	if c.Samples > 0 && *c.Measured > allowed {
		bad = fmt.Sprintf("%.1f %% were late or not served, and p%g within %s allows %.0f %%: %d late, %d refused", 100**c.Measured, g.Percentile, chart.Length(g.SLO), 100*allowed, c.Late, c.Rejected)
	}
	// Latency counts from the intended start: what holds with it holds.
	c = c.settle(g.unsent(c, bad), bad)
	if c.Verdict == capacity.OK {
		c.Detail = fmt.Sprintf("%d late and %d refused of %d", c.Late, c.Rejected, c.Samples)
	}
	return c
}

// Refused judges what the instances turned away in the surge, by design: more than the plan's share is stopped once it is
// beyond chance.
func Refused(g Growth) Check {
	c := g.share(Shed, "share refused", g.Epsilon, func(r sample.Request) bool { return r.Outcome == sample.Rejected })
	bad := ""
	if stat.Refutes(float64(c.Samples), float64(c.Rejected), g.Epsilon, 1-confidence) {
		bad = fmt.Sprintf("%.2f %% were refused, and the plan allows %.2f %%", 100**c.Measured, 100*g.Epsilon)
	}
	c = c.settle(g.unsent(c, bad), bad) // what a client sends late it sends in bursts, and bursts are refused
	if c.Verdict == capacity.OK {
		c.Detail = fmt.Sprintf("%d of %d refused", c.Rejected, c.Samples)
	}
	return c
}

// unsent is why what is bad may be the client's doing.
func (g Growth) unsent(c Check, bad string) string {
	if g.Invalid == "" && bad != "" && c.Late > 0 {
		return g.Slow
	}
	return g.Invalid
}

// share is a check of how much of the surge was of a kind.
func (g Growth) share(name, unit string, budget float64, is func(sample.Request) bool) Check {
	c := of(name, g.Requests, g.late)
	c.Unit, c.Seconds, c.Budget = unit, g.Lasted.Seconds(), &budget
	if c.Samples == 0 {
		return c
	}
	kind := make([]bool, len(g.Requests))
	count := 0
	for i, r := range g.Requests {
		if kind[i] = is(r); kind[i] {
			count++
		}
	}
	n, _ := stat.EffectiveN(kind)
	n = math.Min(math.Max(n, 1), float64(c.Samples))
	share := float64(count) / float64(c.Samples)
	low, high := Interval(n, share*n)
	c.Measured, c.Low, c.High = &share, &low, &high
	return c
}

// Interval is where a share lies of which k of n were seen, at 95 % confidence and from both sides (Clopper and Pearson
// 1934). n and k may be fractional.
func Interval(n, k float64) (low, high float64) {
	if !(n > 0) {
		return 0, 1
	}
	const alpha = (1 - confidence) / 2
	find := func(right func(p float64) bool) float64 {
		lo, hi := 0.0, 1.0
		for range 60 {
			if mid := (lo + hi) / 2; right(mid) {
				hi = mid
			} else {
				lo = mid
			}
		}
		return (lo + hi) / 2
	}
	low, high = 0, 1
	if k > 0 {
		low = find(func(p float64) bool { return !stat.Refutes(n, k, p, alpha) })
	}
	if k < n {
		high = find(func(p float64) bool { return stat.AtMost(n, k, p) <= alpha })
	}
	return low, high
}
