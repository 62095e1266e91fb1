package ladder

import (
	"fmt"
	"math"
	"slices"

	"loadline/internal/chart"
	"loadline/internal/sample"
	"loadline/internal/stat"
)

// Limits of a rung's validity. Those of statistics are strict in both ways, a clear signal and one that matters: a search
// closes a dozen rungs, and a false alarm at one in twenty would spoil every other search.
const (
	littleLimit = 0.05 // of N
	surely      = 1e-3 // probability under "nothing is wrong"
	matters     = 0.10 // of the median: smaller changes are left alone
	briefly     = 1e-3 // seconds between a stream's requests that no client is blamed for
)

// window is the requests that a rung is judged by, and those that completed in the time they cover: its throughput.
type window struct {
	c        Config
	n        int
	rs       []sample.Request // judged; one still in flight has no outcome
	marks    []float64        // of rs, seconds: +Inf where a request did not end well, its age while it is in flight
	late     []bool           // of rs
	done     []sample.Request // completed in (from, to]
	from, to sample.Nanos
}

func newWindow(c Config, n int, rs []sample.Request, from, to sample.Nanos) window {
	w := window{c: c, n: n, rs: rs, done: rs, from: from, to: to}
	for i := range rs {
		x := rs[i].Latency(c.Mark, sample.FromStarted)
		w.marks = append(w.marks, x)
		w.late = append(w.late, x > c.SLO.Seconds())
	}
	return w
}

// after is the window without its first cut requests.
func (w window) after(cut int) window {
	if cut == 0 {
		return w
	}
	if end := w.rs[cut-1].End; end.Known() {
		w.from = max(w.from, end)
	}
	w.rs, w.marks, w.late = w.rs[cut:], w.marks[cut:], w.late[cut:]
	w.done = slices.DeleteFunc(slices.Clone(w.done), func(r sample.Request) bool { return r.End <= w.from })
	return w
}

func (w window) seconds() float64 { return (w.to - w.from).Duration().Seconds() }

// allowed is the share of requests that may be late.
func (c Config) allowed() float64 { return 1 - c.Percentile/100 }

func countTrue(bs []bool) (n int) {
	for _, b := range bs {
		if b {
			n++
		}
	}
	return n
}

// share that is late.
func (w window) share() float64 { return float64(countTrue(w.late)) / float64(max(len(w.late), 1)) }

// capped marks, for what must be finite: a failure counts as ten times the worst that is known.
func (w window) capped() []float64 {
	most := w.c.SLO.Seconds()
	for _, x := range w.marks {
		if !math.IsInf(x, 1) {
			most = max(most, x)
		}
	}
	out := slices.Clone(w.marks)
	for i, x := range out {
		if math.IsInf(x, 1) {
			out[i] = 10 * most
		}
	}
	return out
}

// warmUp is how many requests at the start are still warming up: the MSER-5 cut on the logarithm of the mark, taken only
// where what it cuts differs from the rest beyond doubt. A cut at every whim of the noise would drop late requests by
// choice, and the certificate would no longer hold. A cut past half says that the rung never settled: unsteady says so.
func (w window) warmUp() int {
	xs := w.capped()
	logs := make([]float64, len(xs))
	for i, x := range xs {
		logs[i] = math.Log(max(x, 1e-6))
	}
	cut := stat.WarmUp(logs)
	if cut == 0 || cut > len(xs)/2 || stat.Shift(xs[:cut], xs[cut:]) > surely {
		return 0
	}
	before, after := stat.Percentile(stat.Sorted(xs[:cut]), 50), stat.Percentile(stat.Sorted(xs[cut:]), 50)
	if math.Abs(before-after) < matters*after {
		return 0
	}
	return cut
}

// drift is how the mark moves over the window, as a share of its median, and whether that is beyond doubt: a trend of
// the medians of up to 40 batches, or one change of their level. A batch is no shorter than a turnover: requests in
// flight together wait for each other, and a server that wanders a little moves them all. So a window of less than seven
// turnovers is never beyond doubt.
func (w window) drift() (share float64, sure bool) {
	xs := w.capped()
	batches := min(len(xs)/max(5, w.n), 40)
	if batches < 2 {
		return 0, false
	}
	medians := make([]float64, batches)
	for b := range medians {
		medians[b] = stat.Percentile(stat.Sorted(xs[b*len(xs)/batches:(b+1)*len(xs)/batches]), 50)
	}
	middle := stat.Percentile(stat.Sorted(medians), 50)
	share = stat.Slope(medians) * float64(batches-1) / middle
	if _, p := stat.Trend(medians); p < surely {
		return share, math.Abs(share) > matters
	}
	if at, p := stat.Change(medians); p < surely {
		jump := (stat.Percentile(stat.Sorted(medians[at:]), 50) - stat.Percentile(stat.Sorted(medians[:at]), 50)) / middle
		return jump, math.Abs(jump) > matters
	}
	return share, false
}

// quantile of the mark that the objective is set on, in seconds.
func (w window) quantile() float64 { return stat.Percentile(stat.Sorted(w.marks), w.c.Percentile) }

// unsteady says why the window is not stationary, "" when it is. A rise far below the objective, one that three more
// windows like this would not carry over it, is a warning only.
func (w window) unsteady() (cause, warning string) {
	share, sure := w.drift()
	if !sure {
		return "", ""
	}
	text := fmt.Sprintf("not steady: the %s went %s by %.0f %% within the rung", w.c.Mark, direction(share), 100*math.Abs(share))
	change := share * stat.Percentile(stat.Sorted(w.capped()), 50)
	slo, q := w.c.SLO.Seconds(), w.quantile()
	if q <= slo && q+3*change <= slo {
		return "", text + ", far below the objective"
	}
	return text, ""
}

func direction(share float64) string {
	if share > 0 {
		return "up"
	}
	return "down"
}

// last third of the window: what an unsteady rung is judged by.
func (w window) last() window { return w.after(len(w.rs) - len(w.rs)/3) }

// little is |N − X·R|/N, R being the part of each request that lies within the window: mean in flight by the requests'
// own account. Cutting requests at the edges matters: a window of a few turnovers is mostly edge. The pause a worker
// makes after a failure is not held against it.
func (w window) little() (off float64, wrong bool) {
	span := w.seconds()
	if span <= 0 || len(w.done) == 0 {
		return 0, false
	}
	area := 0.0
	last := map[int]sample.Request{}
	var service []float64
	for _, r := range w.done {
		if r.Worker < 0 { // not a held stream: the plain law, allowed the error of its mean
			service = append(service, (r.End - r.Started).Duration().Seconds())
			continue
		}
		since := r.Started
		switch before, ok := last[r.Worker]; {
		case !ok:
			since = w.from // before it, the stream was in a request of the rung before
		case before.Outcome != sample.OK:
			since = before.End
		}
		area += (r.End - since).Duration().Seconds()
		last[r.Worker] = r
	}
	n := float64(w.n)
	if service != nil {
		off = math.Abs(n-float64(len(w.done))/span*stat.Mean(service)) / n
		return off, off > littleLimit+4*math.Sqrt(stat.CV2(service)/float64(len(service)))
	}
	for _, r := range last {
		area += (w.to - r.End).Duration().Seconds()
	}
	area += float64(max(w.n-len(last), 0)) * span // streams whose request outlasts the window
	off = math.Abs(n-area/span) / n
	return off, off > littleLimit && off*n*span/float64(len(w.done)) > briefly
}

// rung is the summary of the window; its verdict is not decided here.
func (w window) rung(p Probe) Rung {
	r := Rung{Run: w.c.Run, Index: p.Index, N: w.n, Purpose: p.Purpose, StartedNS: int64(w.from), EndedNS: int64(w.to),
		Samples: len(w.rs), Verdict: Undecided, Valid: true, Late: countTrue(w.late), Outcomes: map[string]int{}, Causes: map[string]int{}}
	var ends, services, survivors []float64
	flying := 0
	for i := range w.rs {
		switch q := &w.rs[i]; q.Outcome {
		case sample.OK:
			r.OK++
			services = append(services, q.Service())
			if q.At(w.c.Mark).Known() {
				survivors = append(survivors, w.marks[i])
			}
		case "":
			flying++
		default:
			r.Outcomes[string(q.Outcome)]++
			if q.Cause != "" {
				r.Causes[q.Cause]++
			}
		}
	}
	if flying > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("late and still in flight at the end: %d of %d; their times are at least what is shown", flying, len(w.rs)))
	}
	for i := range w.done {
		q := &w.done[i]
		r.AudioS += q.Audio
		if q.Outcome == sample.OK {
			r.Chars += int64(q.Chars)
			ends = append(ends, q.End.Duration().Seconds())
		}
	}
	if span := w.seconds(); span > 0 {
		r.Tries = float64(len(w.done)) / span
		rate, low, high, ok := stat.Rate(ends, w.from.Duration().Seconds(), w.to.Duration().Seconds(), 0.95)
		r.X = rate
		if ok {
			r.XLow, r.XHigh = &low, &high
		}
	}
	marks := stat.Sorted(w.marks)
	put := func(at **float64, name string, x float64) {
		switch {
		case math.IsInf(x, 1):
			r.Infinite = append(r.Infinite, name)
		case !math.IsNaN(x):
			*at = &x
		}
	}
	ms := func(p float64) float64 { return 1000 * stat.Percentile(marks, p) }
	put(&r.P50, "p50_ms", ms(50))
	put(&r.P95, "p95_ms", ms(95))
	put(&r.P99, "p99_ms", ms(99))
	if upper, ok := stat.PercentileUpper(marks, 95, 0.95); ok {
		put(&r.P95Upper, "p95_upper_ms", 1000*upper)
	}
	if w.c.Percentile != 95 {
		put(&r.Quantile, "quantile_ms", ms(w.c.Percentile))
	}
	if r.OK+flying < r.Samples {
		put(&r.OKP95, "ok_only_p95_ms", 1000*stat.Percentile(stat.Sorted(survivors), 95))
	}
	services = stat.Sorted(services)
	put(&r.SMean, "s_mean_s", stat.Mean(services))
	put(&r.SP95, "s_p95_s", stat.Percentile(services, 95))
	put(&r.CS2, "cs2", stat.CV2(services))

	r.NEff, _ = stat.EffectiveN(w.late)
	if cross, square := stat.LagOne(w.late); square > 0 {
		r.LateLag1 = cross / square
	}
	r.Little, _ = w.little()
	r.Trend, _ = w.drift()
	return r
}

// objective is the rung's percentile that the SLO is set on, in seconds: +Inf where it falls among failures, NaN where
// there is none.
func (c Config) objective(r Rung) float64 {
	q, name := r.Quantile, "quantile_ms"
	if c.Percentile == 95 {
		q, name = r.P95, "p95_ms"
	}
	switch {
	case q != nil:
		return *q / 1000
	case slices.Contains(r.Infinite, name):
		return math.Inf(1)
	}
	return math.NaN()
}

// invalid says why the rung decides nothing, "" when it may.
func (w window) invalid(missed bool, e Evidence) string {
	for i := range w.done {
		if w.done[i].Outcome == sample.ClientFault {
			return "client fault: " + worst(causes(w.done, sample.ClientFault))
		}
	}
	for _, n := range e.Counts {
		if n != e.Counts[0] {
			return fmt.Sprintf("the instance count changed within the rung (%v): Q_max is per instance; freeze scaling and measure again", e.Counts)
		}
	}
	if cause := ClientBound(w.corrected(e.Client), w.n, w.c.SLO, missed); cause != "" {
		return cause
	}
	if len(e.Queue) > 0 {
		if _, p := stat.Trend(e.Queue); p < surely {
			if grown := stat.Slope(e.Queue) * float64(len(e.Queue)-1); math.Abs(grown) > max(matters*float64(w.n), 1) {
				return fmt.Sprintf("not steady: the server's queue went %s by %.1f within the rung", direction(grown), math.Abs(grown))
			}
		}
	}
	if off, wrong := w.little(); wrong {
		return fmt.Sprintf("the streams were not held: by Little's law %.1f %% of %d were missing or surplus, at most %.0f %% may be", 100*off, w.n, 100*littleLimit)
	}
	return ""
}

// corrected takes the client's lateness from the requests themselves where they tell: of fewer than 300 requests, the
// 99th percentile is one of the largest two, and one hiccup of a busy machine must not spoil a rung.
func (w window) corrected(c sample.Client) sample.Client {
	var late []float64
	for i := range w.done {
		if w.done[i].Intended.Known() {
			late = append(late, w.done[i].Lateness())
		}
	}
	if k := max(3, len(late)/100+1); len(late) >= k {
		c.LatenessP99 = min(c.LatenessP99, stat.Sorted(late)[len(late)-k])
	}
	return c
}

func causes(rs []sample.Request, o sample.Outcome) map[string]int {
	m := map[string]int{}
	for i := range rs {
		if rs[i].Outcome == o {
			m[rs[i].Cause]++
		}
	}
	return m
}

// worst is the commonest key, the first of equals by name.
func worst(m map[string]int) string {
	best := ""
	for k, n := range m {
		if best == "" || n > m[best] || n == m[best] && k < best {
			best = k
		}
	}
	return best
}

// Judge summarises and judges a whole, fixed sample of one rung: rs in order of completion, counted in (from, to]. It
// fails when the percentile, failures being infinite, misses the objective, and passes when it does not and no request
// failed: the rule of a fixed schedule. With a few failures it is undecided: it cannot pass, and missed nothing either.
// An unsteady rung is judged by its last third, which fails or is invalid, and a warm-up at its start is cut.
func Judge(c Config, p Probe, rs []sample.Request, from, to sample.Nanos, e Evidence) Rung {
	c = c.defaults()
	whole := newWindow(c, p.N, rs, from, to)
	w := whole.after(whole.warmUp())
	r := w.rung(p)
	r.WarmupS = (w.from - from).Duration().Seconds()
	r.Counts = e.Counts
	if len(rs) == 0 {
		r.Valid, r.Cause = false, fmt.Sprintf("no request completed in the %s that were measured", chart.Length((to-from).Duration()))
		return r
	}
	failures := ""
	switch missed := w.quantile() > c.SLO.Seconds(); {
	case missed:
		r.Verdict = Fail
	case r.OK < r.Samples:
		failures = fmt.Sprintf("%d of %d requests failed (mostly %s): a rung with failures cannot pass", r.Samples-r.OK, r.Samples, worst(r.Outcomes))
	default:
		r.Verdict = Pass
	}
	r.Cause = w.invalid(r.Verdict == Fail, e)
	unsteady, warning := w.unsteady()
	if warning != "" {
		r.Warnings = append(r.Warnings, warning)
	}
	if r.Cause == "" && unsteady != "" {
		if w.last().quantile() > c.SLO.Seconds() {
			r.Verdict = Fail
			r.Warnings = append(r.Warnings, unsteady+"; judged by its last third")
		} else {
			r.Cause = unsteady
		}
	}
	switch {
	case r.Cause != "":
		r.Valid, r.Verdict = false, Undecided
	case r.Verdict == Undecided:
		r.Cause = failures
	}
	return r
}
