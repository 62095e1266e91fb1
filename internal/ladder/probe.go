package ladder

import (
	"fmt"
	"math"
	"sort"
	"time"

	"loadline/internal/chart"
	"loadline/internal/sample"
	"loadline/internal/stat"
)

// probe is a rung being measured: it decides, request by request, whether the rung is decided.
//
// The first requests are warm-up: as many as there are streams, one full turnover. After that, requests are judged in the
// order in which they started, not in which they ended: of many streams the first to end are the fast ones, and a sample
// of those would flatter. A stream's next request starts when its last one ends, so a request is known before it ends,
// and counts as late once it has been in flight for too long to be anything else.
type probe struct {
	c      Config
	p      Probe
	others pooled

	done    []sample.Request // completed, in order
	streams map[int]bool     // that have completed a request
	turned  int              // index in done after a full turnover, -1: not yet
	after   time.Duration    // the longest time from the mark to the end so far

	started []started   // since the turnover, in order
	open    map[int]int // by stream: index in started of its request in flight
	from    int         // first judged index in started
	known   int         // those before this index are known
	tested  int         // those before this index are in the sequential test

	test     *stat.Sequential
	failures int // since the turnover
	look     int // looks of a certificate that were taken
	until    int // go on to this many judged requests before deciding again
	longer   int // how often the rung was made longer because it was not steady

	verdict  Verdict
	cause    string
	warnings []string
	ended    bool
}

// started is a request that has started: where it is in done, -1 while it is in flight.
type started struct {
	at   sample.Nanos
	done int
}

func newProbe(c Config, p Probe, others pooled) *probe {
	return &probe{c: c, p: p, others: others, turned: -1, streams: map[int]bool{}, open: map[int]int{},
		test: c.sequential(), verdict: Undecided}
}

func (c Config) sequential() *stat.Sequential {
	return stat.NewSequential(c.allowed()/2, 1.5*c.allowed(), 0.05, 0.05)
}

func (p *probe) add(r sample.Request) bool {
	i := len(p.done)
	p.done = append(p.done, r)
	seen := p.streams[r.Worker]
	p.streams[r.Worker] = true
	if r.Outcome == sample.OK && r.At(p.c.Mark).Known() {
		p.after = max(p.after, (r.End - r.At(p.c.Mark)).Duration())
	}
	if p.turned < 0 {
		if i+1 >= p.p.N {
			p.turn(r)
		}
		return false
	}
	p.follow(r, i, seen)
	if p.failsAtOnce(i) {
		return true
	}
	// Streams that have not come back are still in requests of the rung before, or overloaded by them: start again.
	stuck := p.p.N - len(p.streams)
	if r.Worker >= 0 && p.known > p.from && float64(stuck) > p.c.allowed()*float64(p.p.N) {
		p.turn(r)
		return false
	}
	return p.judge()
}

// turn begins to judge with the requests that start from the end of r on.
func (p *probe) turn(r sample.Request) {
	p.turned = len(p.done)
	p.started = p.started[:0]
	clear(p.open)
	p.restart(0)
	p.known, p.failures, p.longer = 0, 0, 0
	p.next(r)
}

// next notes the request that the stream of r starts when r ends. After a failure it may pause first.
func (p *probe) next(r sample.Request) {
	if r.Worker >= 0 && r.Outcome == sample.OK {
		p.open[r.Worker] = len(p.started)
		p.started = append(p.started, started{r.End, -1})
	}
}

// follow notes that a request ended and that its stream's next one started, and moves up to where all is known. A stream's
// first request is not judged: when it started was not seen, and of those the fast would come first.
func (p *probe) follow(r sample.Request, i int, seen bool) {
	at, ok := p.open[r.Worker]
	delete(p.open, r.Worker)
	switch {
	case ok:
		p.started[at].done = i
	case r.Worker < 0 || seen && r.Started >= p.begin(): // streams unknown, or its stream had paused after a failure
		p.started = append(p.started, started{r.Started, i})
	}
	p.next(r)
	tooLong := r.End - sample.Since(p.c.SLO+p.after)
	for p.known < len(p.started) && (p.started[p.known].done >= 0 || p.started[p.known].at < tooLong) {
		p.known++
	}
}

// begin is when the turnover was complete, or the first request started while it is not.
func (p *probe) begin() sample.Nanos {
	if p.turned > 0 {
		return p.done[p.turned-1].End
	}
	return p.done[0].Started
}

// failsAtOnce sees a rung most of whose requests fail, before those that started first are known to be late.
func (p *probe) failsAtOnce(i int) bool {
	if p.done[i].Outcome != sample.OK {
		p.failures++
	}
	n := i + 1 - p.turned
	if n < p.failLeast() || 2*p.failures < n || p.known-p.from >= p.failLeast() {
		return false
	}
	p.started, p.from, p.known = p.started[:0], 0, n
	for j := p.turned; j <= i; j++ {
		p.started = append(p.started, started{p.done[j].Started, j})
	}
	p.verdict, p.ended = Fail, true
	return true
}

// failLeast is the fewest judged requests that may fail a rung. One stall makes every request in flight late at once; a
// few more must show that it was not just that.
func (p *probe) failLeast() int { return failLeast + min(p.p.N, stallMost) }

// isLate says whether a known request was late.
func (p *probe) isLate(s started) bool {
	return s.done < 0 || p.done[s.done].Latency(p.c.Mark, sample.FromStarted) > p.c.SLO.Seconds()
}

// lates is the late indicators of the judged requests, in the order in which they started.
func (p *probe) lates() []bool {
	out := make([]bool, 0, p.known-p.from)
	for _, s := range p.started[p.from:p.known] {
		out = append(out, p.isLate(s))
	}
	return out
}

// span is the time in which requests are judged.
func (p *probe) span() (from, to sample.Nanos) {
	from = p.begin()
	if p.from > 0 {
		from = p.started[p.from].at
	}
	return from, p.done[len(p.done)-1].End
}

// judged is the requests after the warm-up: those that count, and all that completed meanwhile.
func (p *probe) judged() window {
	w := window{c: p.c, n: p.p.N}
	w.from, w.to = p.span()
	first := sort.Search(len(p.done), func(i int) bool { return p.done[i].End > w.from })
	w.done = p.done[first:]
	for _, s := range p.started[p.from:p.known] {
		r := sample.New(-1)
		r.Started, r.Worker = s.at, -1
		x := (w.to - s.at).Duration().Seconds()
		if s.done >= 0 {
			r = p.done[s.done]
			x = r.Latency(p.c.Mark, sample.FromStarted)
		}
		w.rs, w.marks, w.late = append(w.rs, r), append(w.marks, x), append(w.late, p.isLate(s))
	}
	return w
}

func (p *probe) judge() bool {
	for ; p.tested < p.known; p.tested++ {
		p.test.Add(p.isLate(p.started[p.tested]))
	}
	n := p.known - p.from
	full := n >= p.p.MaxSamples
	if n == 0 || n < p.until && !full {
		return false
	}
	verdict, ready := p.opinion(n, full)
	if !ready {
		return false
	}
	return p.settle(verdict, full)
}

// opinion is what the test of the probe's purpose says of the n judged requests, and whether it says it now.
func (p *probe) opinion(n int, full bool) (Verdict, bool) {
	if p.p.Purpose == Certify {
		return p.certify(n)
	}
	enough := map[Purpose]int{Pair: pairSize, Retest: retestSize}[p.p.Purpose]
	if p.p.Purpose == Survey && p.p.N == 1 {
		enough = surveyFirst
		if held := p.done[len(p.done)-1].End - p.begin(); held.Duration() >= surveyTime {
			enough = surveyLeast
		}
	}
	switch decision := p.test.Decision(); {
	case decision == stat.Bad && n >= p.failLeast() && n >= enough:
		return Fail, true
	case decision == stat.Good && n >= enough:
		return Pass, true
	case p.p.Purpose == Pair && n >= enough:
		return Undecided, true
	}
	return Undecided, full
}

// certify is the opinion of a certify rung: at each look, once it has been held long enough, whether the late ones prove
// the objective at a quarter of alpha; and between looks, whether there is no more hope.
func (p *probe) certify(n int) (Verdict, bool) {
	from, to := p.span()
	if p.look < len(looks) && n >= p.c.scale(looks[p.look]) && (to-from).Duration() >= p.c.CertifyHold {
		for p.look < len(looks) && n >= p.c.scale(looks[p.look]) {
			p.look++
		}
		size, k := effective(p.lates(), p.others)
		switch {
		case stat.Proves(size, k, p.c.allowed(), (1-p.c.Confidence)/float64(len(looks))):
			return Pass, true
		case p.look == len(looks) && stat.Refutes(size, k, p.c.allowed(), 0.05):
			return Fail, true
		case p.look == len(looks):
			return Undecided, true
		}
	}
	if n < p.failLeast() || n%10 != 0 {
		return Undecided, false
	}
	return Fail, !p.hope(effective(p.lates(), p.others))
}

// hope says whether the sequential test would not have called so many late bad.
func (p *probe) hope(n, k float64) bool {
	a := p.c.allowed()
	return k*math.Log(3)+(n-k)*math.Log((1-1.5*a)/(1-a/2)) < math.Log(0.95/0.05)
}

// settle ends the rung with the verdict, unless the requests are not those of a settled system: then it drops a warm-up,
// or goes on for as long again, and in the end judges the last third.
func (p *probe) settle(verdict Verdict, full bool) bool {
	w := p.judged()
	final := full || p.longer >= 3 || p.p.Purpose == Certify && p.look == len(looks)
	if verdict == Fail && w.share() <= p.c.allowed() {
		verdict = Undecided // the sequential test's bound reaches a little below the objective
	}
	if cut := w.warmUp(); cut > 0 && !final {
		p.restart(p.from + cut)
		return false
	}
	unsteady, warning := w.unsteady()
	third := w.last()
	// A burst of late requests, from one stall, that has passed.
	burst := verdict == Fail && p.p.Purpose != Certify && third.share() <= p.c.allowed() &&
		stat.AtMost(float64(len(third.rs)), float64(countTrue(third.late)), w.share()) < 0.01
	switch {
	case burst && !final:
		p.restart(p.known - len(third.rs))
		return false
	case burst:
		verdict, p.cause = Undecided, "not steady: its late requests came in a burst that had passed by its end"
	case verdict == Fail, unsteady == "":
		if unsteady != "" {
			warning = unsteady
		}
	case !final:
		p.longer++
		p.until = 2 * len(w.rs)
		return false
	case third.quantile() > p.c.SLO.Seconds():
		verdict, warning = Fail, unsteady+"; judged by its last third"
	default:
		p.cause = unsteady
	}
	if warning != "" {
		p.warnings = append(p.warnings, warning)
	}
	p.verdict, p.ended = verdict, true
	return true
}

// restart judges only what started from index i on.
func (p *probe) restart(i int) {
	p.longer++
	p.from, p.tested, p.test, p.until, p.look = i, i, p.c.sequential(), 0, 0
}

// cutShort takes a rung for what it is when its time ran out.
func (p *probe) cutShort() {
	if p.known == p.from {
		p.cause = fmt.Sprintf("held for too short: only %d requests completed on %d streams, none of them after the warm-up", len(p.done), p.p.N)
		return
	}
	verdict := map[stat.Decision]Verdict{stat.Good: Pass, stat.Bad: Fail, stat.Open: Undecided}[p.test.Decision()]
	if p.p.Purpose == Certify && verdict == Pass {
		verdict = Undecided // a certificate is given at a look, or not at all
	}
	p.settle(verdict, true)
}

// close judges the rung with what is known besides its requests.
func (p *probe) close(e Evidence) Rung {
	if len(p.done) == 0 {
		r := window{c: p.c, n: p.p.N, from: e.Began, to: e.Ended}.rung(p.p)
		r.Counts, r.Valid, r.Cause = e.Counts, false, fmt.Sprintf("no request completed in %s", chart.Length((e.Ended-e.Began).Duration()))
		return r
	}
	if !p.ended {
		p.cutShort()
	}
	w := p.judged()
	r := w.rung(p.p)
	r.Counts, r.Warnings = e.Counts, append(r.Warnings, p.warnings...)
	r.WarmupS = (w.from - p.done[0].Started).Duration().Seconds()
	r.Verdict = p.verdict
	if p.p.Purpose == Certify {
		r.NEff, _ = effective(w.late, p.others)
	}
	cause := w.invalid(r.Verdict == Fail, e)
	if cause == "" {
		cause = p.cause
	}
	switch {
	case cause != "":
		r.Valid, r.Verdict, r.Cause = false, Undecided, cause
	case r.Verdict == Undecided:
		r.Cause = fmt.Sprintf("%d requests, worth %.0f independent ones, with %d late cannot tell", r.Samples, r.NEff, r.Late)
	}
	return r
}
