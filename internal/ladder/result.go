package ladder

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	pairShare = 0.95 // of μ: where a concurrency is as good as any
	cliffStep = 3    // times as much latency as the step in concurrency would bring to a serial server
	slower    = 1.3  // than before: heat, neighbours
	usable    = 50   // requests behind a throughput that is compared
)

// mu is the most completions a second: of the valid rungs with an interval, the one whose lower bound is highest. The
// highest of noisy values would be high by its noise.
func mu(rungs []Rung) Interval {
	var best *Rung
	for i := range rungs {
		r := &rungs[i]
		if r.Valid && r.XLow != nil && r.Samples >= usable && (best == nil || *r.XLow > *best.XLow) {
			best = r
		}
	}
	if best == nil {
		return Interval{Source: "no rung has enough requests"}
	}
	low, high := *best.XLow, *best.XHigh
	return Interval{Value: best.X, Low: &low, High: &high, Source: fmt.Sprintf("interval: batch means of rung %d (N = %d)", best.Index, best.N)}
}

// throughputs is the valid rung with the most requests at each concurrency, ascending.
func throughputs(rungs []Rung) []Rung {
	var best []Rung
	for _, r := range rungs {
		if !r.Valid || r.Samples < usable && r.N > 1 {
			continue
		}
		i := slices.IndexFunc(best, func(b Rung) bool { return b.N == r.N })
		switch {
		case i < 0:
			best = append(best, r)
		case r.Samples > best[i].Samples:
			best[i] = r
		}
	}
	slices.SortFunc(best, func(a, b Rung) int { return a.N - b.N })
	return best
}

// pair is p, the smallest even concurrency of 2 or more with at least 95 % of μ, where throughput between rungs is read
// off the line, and whether p and p/2 are measured. A measured concurrency within 5 % of it does as well: throughput is
// noisy. 0 where no rung of 2 or more is.
func pair(rungs []Rung) (p int, whole, half bool) {
	points := throughputs(rungs)
	top := 0
	for _, r := range rungs {
		if r.Valid {
			top = max(top, r.N)
		}
	}
	enough := pairShare * mu(rungs).Value
	at := func(n int) (x float64, measured bool) {
		below := Rung{}
		for _, r := range points {
			if r.N >= n {
				return below.X + (r.X-below.X)*float64(n-below.N)/float64(r.N-below.N), r.N == n
			}
			below = r
		}
		return below.X, false
	}
	for n := 2; n <= top; n += 2 {
		if x, _ := at(n); x >= enough {
			p = n
			break
		}
	}
	for n := p; n > 0 && 20*n <= 21*p; n += 2 {
		if x, measured := at(n); measured && x >= enough {
			_, half = at(n / 2)
			return n, true, half
		}
	}
	// One just below that was measured and has too little puts the next a step above it.
	for n := p - 2; n > 0 && 20*n >= 19*p; n -= 2 {
		if x, measured := at(n); measured && x < enough {
			p = max(p, min(n+max(2, n/40*2), top/2*2))
			break
		}
	}
	_, whole = at(p)
	_, half = at(p / 2)
	return p, whole && p > 0, half
}

// measuredPair is the smallest even concurrency with at least 95 % of μ among those measured together with their half.
func measuredPair(rungs []Rung) []int {
	points := throughputs(rungs)
	for _, r := range points {
		if r.N%2 == 0 && r.X >= pairShare*mu(rungs).Value && slices.ContainsFunc(points, func(h Rung) bool { return 2*h.N == r.N }) {
			return []int{r.N, r.N / 2}
		}
	}
	return nil
}

// count of rungs of a purpose.
func (s *Search) count(why Purpose, valid bool) (n int) {
	for _, r := range s.rungs {
		if r.Purpose == why && r.Valid == valid {
			n++
		}
	}
	return n
}

// pairNext is the concurrency of the probe pair still to be measured, 0 when there is none.
func (s *Search) pairNext() int {
	if s.count(Pair, true) >= mostPair || s.count(Pair, false) >= tries {
		return 0
	}
	switch p, whole, half := pair(s.rungs); {
	case p == 0 || whole && half:
		return 0
	case !whole:
		return p
	default:
		return p / 2
	}
}

// low is the passing rung that is retested last: the highest one up to 60 % of Q_max, or below it, that was measured
// early in the search.
func (s *Search) low(q int) *Rung {
	var best *Rung
	for i := range s.rungs {
		r := &s.rungs[i]
		early := r.Purpose == Survey || r.Purpose == Double || r.Purpose == Bisect
		if early && r.Valid && r.Verdict == Pass && r.N < q && (best == nil || r.N > best.N && 10*r.N <= 6*q) {
			best = r
		}
	}
	return best
}

func (s *Search) retestNext() int {
	if s.count(Retest, true) > 0 || s.count(Retest, false) >= tries {
		return 0
	}
	if r := s.low(s.certified().N); r != nil {
		return r.N
	}
	return 0
}

// Result implements Searcher.
func (s *Search) Result() Result {
	out := describe(s.c, s.rungs)
	warn := func(format string, a ...any) { out.Warnings = append(out.Warnings, fmt.Sprintf(format, a...)) }
	_, more := s.Next()
	q := s.certified()
	if q == nil {
		lo, _ := s.bracket()
		out.Bracket = Bracket{Pass: lo, Fail: lowestFail(s.rungs, lo)}
		out.Verdict, out.Reason = s.why(more)
		return out
	}
	n := q.N
	out.QMax, out.Verdict = &n, Certified
	out.Certificate = &Certificate{Confidence: s.c.Confidence, N: q.Samples, Late: q.Late, NEff: q.NEff, Fresh: true}
	out.bracket(s.c, n)
	out.CharsPerS = charsPerS(*q)
	switch p, whole, half := pair(s.rungs); {
	case whole && half:
		out.ProbePair = []int{p, p / 2}
	case !more:
		if out.ProbePair = measuredPair(s.rungs); out.ProbePair == nil && s.c.Max > 1 {
			warn("the probe pair was not measured")
		}
	}
	if again := s.find(func(r Rung) bool { return r.Purpose == Retest }); again != nil {
		before := s.low(n)
		if again.P50 != nil && before.P50 != nil && *again.P50 > slower**before.P50 {
			warn("hysteresis or heat: N = %d answered in %.0f ms (median) at the end, %.0f %% slower than before", again.N, *again.P50, 100*(*again.P50 / *before.P50 - 1))
		}
	} else if s.count(Retest, false) >= tries {
		warn("the retest of N = %d was invalid: %s", s.rungs[len(s.rungs)-1].N, s.rungs[len(s.rungs)-1].Cause)
	}
	if s.broken != "" {
		warn("%s", s.broken)
	}
	return out
}

// why there is no answer.
func (s *Search) why(more bool) (Outcome, string) {
	attempts, unsure := s.attempts()
	first := s.find(func(r Rung) bool { return r.N == 1 && r.Purpose == Survey })
	var last Rung
	if len(s.rungs) > 0 {
		last = s.rungs[len(s.rungs)-1]
	}
	verdict := func(r Rung) Outcome {
		if r.Verdict == Fail {
			return None
		}
		return CannotTell
	}
	switch {
	case s.broken != "":
		return None, s.broken
	case more:
		return CannotTell, "the search has not finished"
	case !last.Valid:
		return CannotTell, fmt.Sprintf("N = %d was invalid %d times: %s", last.N, s.inARow(), last.Cause)
	case first != nil && s.missed(*first):
		return verdict(*first), "even one request at a time misses the objective: " + s.c.told(*first)
	case unsure >= mostUnsure:
		return CannotTell, fmt.Sprintf("late requests come in clusters: %d requests at N = %d were worth %.0f independent ones, and %d late of them decide nothing", last.Samples, last.N, last.NEff, last.Late)
	case attempts > 0:
		return verdict(last), fmt.Sprintf("no concurrency could be certified: %d were tried, the last N = %d: %s", attempts, last.N, s.c.told(last))
	case len(s.rungs) >= mostProbes:
		return CannotTell, fmt.Sprintf("%d rungs gave no answer", len(s.rungs))
	}
	return None, fmt.Sprintf("N = %d, the least that was asked for, misses the objective", s.c.Min)
}

// told is a rung against the objective in words.
func (c Config) told(r Rung) string {
	q := "never"
	if x := c.objective(r); !math.IsInf(x, 1) {
		q = fmt.Sprintf("%.4g ms", 1000*x)
	}
	text := fmt.Sprintf("p%g %s of %d ms, %d of %d late", c.Percentile, q, c.SLO.Milliseconds(), r.Late, r.Samples)
	if len(r.Outcomes) > 0 {
		text += " (mostly " + worst(r.Outcomes)
		if cause := worst(r.Causes); cause != "" {
			text += ": " + cause
		}
		text += ")"
	}
	return text
}

// describe is what the rungs say whether there is an answer or not.
func describe(c Config, rungs []Rung) Result {
	out := Result{Verdict: None, Rungs: slices.Clone(rungs), Mu: mu(rungs)}
	for i := range rungs {
		r := rungs[i]
		if r.Valid && r.N == 1 && out.SMean == nil {
			out.SMean, out.SP95 = r.SMean, r.SP95
			if x := c.objective(r); !math.IsInf(x, 1) && !math.IsNaN(x) {
				x *= 1000
				out.FirstAudioAt1 = &x
			}
		}
	}
	return out
}

func lowestFail(rungs []Rung, above int) (n int) {
	for _, r := range rungs {
		if r.Valid && r.Verdict == Fail && r.N > above && (n == 0 || r.N < n) {
			n = r.N
		}
	}
	return n
}

func charsPerS(r Rung) float64 {
	if r.EndedNS <= r.StartedNS {
		return 0
	}
	return float64(r.Chars) / (float64(r.EndedNS-r.StartedNS) / 1e9)
}

// bracket fills in the bracket around q, and what it says: cliff, lower bound, band.
func (out *Result) bracket(c Config, q int) {
	warn := func(format string, a ...any) { out.Warnings = append(out.Warnings, fmt.Sprintf(format, a...)) }
	fail := lowestFail(out.Rungs, q)
	b := Bracket{Pass: q, Fail: fail}
	var below, above *Rung
	top := q
	for i := range out.Rungs {
		r := &out.Rungs[i]
		if !r.Valid {
			continue
		}
		switch {
		case r.Verdict == Pass && r.N >= b.Pass && (fail == 0 || r.N < fail):
			b.Pass, below = r.N, r
		case r.Verdict == Fail && r.N == fail:
			above = r
		}
		if r.Verdict == Pass {
			top = max(top, r.N)
		}
	}
	out.Bracket = b
	low := q
	for _, r := range out.Rungs {
		if r.Valid && r.Verdict == Fail && r.N <= q {
			low = min(low, r.N)
		}
	}
	switch {
	case low < q:
		warn("not monotone: N = %d missed the objective and N = %d met it: Q_max lies somewhere in %d to %d", low, q, low, q)
	case fail > 0 && float64(top) > 1.1*float64(fail):
		warn("not monotone: N = %d missed the objective and N = %d met it: Q_max lies somewhere in %d to %d", fail, top, q, top)
	}
	if fail == 0 {
		warn("Q_max is a lower bound: no valid rung missed the objective")
		return
	}
	if below != nil && above != nil {
		was, is := c.objective(*below), c.objective(*above)
		if is > cliffStep*was*float64(above.N)/float64(below.N) {
			out.Cliff = true
			text := fmt.Sprintf("%.4g ms", 1000*is)
			if math.IsInf(is, 1) {
				text = "failures"
			}
			warn("a cliff: p%g goes from %.4g ms at N = %d to %s at N = %d: keep a wider margin below Q_max", c.Percentile, 1000*was, below.N, text, above.N)
		}
	}
}

// Combine joins the passes of --runs: the answer is the smallest, and a pass without an answer leaves none. It is no
// average: a plan must hold on the worst day that was seen.
func Combine(rs []Result) Result {
	if len(rs) == 0 {
		return Result{Verdict: CannotTell, Reason: "no pass was made"}
	}
	out := rs[0]
	smallest, largest := 0, 0
	var unanswered *Result
	var rungs []Rung
	var perRun []*int
	for i := range rs {
		r := &rs[i]
		rungs = append(rungs, r.Rungs...)
		perRun = append(perRun, r.QMax)
		switch {
		case r.QMax == nil:
			if unanswered == nil {
				unanswered = r
			}
		default:
			if smallest == 0 || *r.QMax < smallest {
				smallest, out = *r.QMax, *r
			}
			largest = max(largest, *r.QMax)
		}
	}
	if unanswered != nil {
		out = *unanswered
		if len(rs) > 1 {
			out.Reason = fmt.Sprintf("pass %d of %d gave no answer: %s", slices.IndexFunc(rs, func(r Result) bool { return r.QMax == nil })+1, len(rs), out.Reason)
		}
	}
	out.Rungs, out.PerRun, out.Mu = rungs, perRun, mu(rungs)
	out.Warnings = nil
	for i, r := range rs {
		for _, w := range r.Warnings {
			if len(rs) > 1 {
				w = fmt.Sprintf("pass %d: %s", i+1, w)
			}
			out.Warnings = append(out.Warnings, w)
		}
	}
	if smallest > 0 && float64(largest-smallest) > 0.2*float64(smallest) {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the passes differ by %.0f %% (%s): the endpoint is not the same from one to the next", 100*float64(largest-smallest)/float64(smallest), list(perRun)))
	}
	return out
}

func list(qs []*int) string {
	var b []string
	for _, q := range qs {
		if q == nil {
			b = append(b, "none")
		} else {
			b = append(b, fmt.Sprint(*q))
		}
	}
	return strings.Join(b, ", ")
}
