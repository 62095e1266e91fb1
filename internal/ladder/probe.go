package ladder

import (
	"fmt"
	"math"
	"time"

	"loadline/internal/sample"
	"loadline/internal/stat"
)

// probe is a rung being measured: it decides, request by request, whether the rung is decided.
//
// The first requests are warm-up: as many as there are streams, one full turnover, and until the objective has passed
// once since the load began. Before that, no request of this rung can be late yet: a sample from then would flatter.
type probe struct {
	c      Config
	p      Probe
	others pooled

	rs     []sample.Request
	marks  []float64
	late   []bool
	turned int // first index after a full turnover, -1: not yet
	from   int // first judged index, -1: not yet
	tested int // requests of the judged that the sequential test has taken
	test   *stat.Sequential
	quick  *stat.Sequential // of failures alone, before from
	look   int
	until  int // go on to this many judged requests before deciding again
	longer int // how often the rung was made longer because it was not steady

	verdict  Verdict
	cause    string
	warnings []string
	ended    bool
}

func newProbe(c Config, p Probe, others pooled) *probe {
	return &probe{c: c, p: p, others: others, turned: -1, from: -1, test: c.sequential(), quick: c.sequential(), verdict: Undecided}
}

func (c Config) sequential() *stat.Sequential {
	return stat.NewSequential(c.allowed()/2, 1.5*c.allowed(), 0.05, 0.05)
}

func (p *probe) add(r sample.Request) bool {
	x := r.Latency(p.c.Mark, sample.FromStarted)
	p.rs, p.marks, p.late = append(p.rs, r), append(p.marks, x), append(p.late, x > p.c.SLO.Seconds())
	i := len(p.rs) - 1
	if p.turned < 0 {
		if i >= p.p.N {
			p.turned = i
		} else {
			return false
		}
	}
	if p.from < 0 {
		if (r.End - p.rs[0].End).Duration() < p.c.SLO {
			return p.failsAtOnce(i)
		}
		p.from = i
	}
	return p.judge()
}

// failsAtOnce sees, before the objective has passed once, a rung whose requests fail instead of being late.
func (p *probe) failsAtOnce(i int) bool {
	if p.quick.Add(p.rs[i].Outcome != sample.OK) == stat.Bad && i-p.turned+1 >= p.failLeast() {
		p.from = p.turned
		p.verdict = Fail
		p.ended = true
	}
	return p.ended
}

// failLeast is the fewest judged requests that may fail a rung. One stall makes every request in flight late at once; a
// few more must show that it was not just that.
func (p *probe) failLeast() int { return failLeast + min(p.p.N, stallMost) }

// judged is the requests after the warm-up.
func (p *probe) judged() window {
	from := p.from
	w := window{c: p.c, n: p.p.N, rs: p.rs[from:], marks: p.marks[from:], late: p.late[from:]}
	switch {
	case from > 0:
		w.from = p.rs[from-1].End
	case len(p.rs) > 0:
		w.from = p.rs[0].Started
	}
	if len(p.rs) > 0 {
		w.to = p.rs[len(p.rs)-1].End
	}
	return w
}

func (p *probe) judge() bool {
	n := len(p.rs) - p.from
	for p.tested < n && p.p.Purpose != Certify {
		p.test.Add(p.late[p.from+p.tested])
		p.tested++
	}
	full := n >= p.p.MaxSamples
	if n < p.until && !full {
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
		return p.certify(n, full)
	}
	enough := map[Purpose]int{Pair: pairSize, Retest: retestSize}[p.p.Purpose]
	if p.p.Purpose == Survey && p.p.N == 1 {
		enough = surveyFirst
		if held := p.rs[len(p.rs)-1].End - p.rs[p.from].End; held.Duration() >= surveyTime {
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
func (p *probe) certify(n int, full bool) (Verdict, bool) {
	late := p.late[p.from:]
	if p.look < len(looks) && n >= p.c.scale(looks[p.look]) && p.judged().seconds() >= p.c.CertifyHold.Seconds() {
		for p.look < len(looks) && n >= p.c.scale(looks[p.look]) {
			p.look++
		}
		size, k := effective(late, p.others)
		switch {
		case stat.Proves(size, k, p.c.allowed(), (1-p.c.Confidence)/float64(len(looks))):
			return Pass, true
		case p.look == len(looks) && stat.Refutes(size, k, p.c.allowed(), 0.05):
			return Fail, true
		case p.look == len(looks):
			return Undecided, true
		}
	}
	if n < p.failLeast() || n%10 != 0 || p.hope(float64(n), float64(countTrue(late))) {
		return Undecided, false
	}
	return Fail, !p.hope(effective(late, p.others))
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
		p.restart(len(p.rs) - len(third.rs))
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

// restart judges only what comes from index i on.
func (p *probe) restart(i int) {
	p.longer++
	p.from, p.tested, p.test, p.until, p.look = i, 0, p.c.sequential(), 0, 0
}

// close judges the rung with what is known besides its requests.
func (p *probe) close(e Evidence) Rung {
	if p.from < 0 {
		p.from = max(p.turned, 0)
	}
	w := p.judged()
	r := w.rung(p.p)
	r.Counts, r.Warnings = e.Counts, p.warnings
	if len(p.rs) == 0 {
		r.Valid, r.Cause = false, fmt.Sprintf("no request completed in %s", (e.Ended-e.Began).Duration().Round(time.Second))
		return r
	}
	r.WarmupS = (w.from - p.rs[0].Started).Duration().Seconds()
	r.Verdict = p.verdict
	if !p.ended {
		if p.turned < 0 {
			p.cause = fmt.Sprintf("held for too short: only %d of its %d streams had turned over", len(p.rs), p.p.N)
		}
		r.Verdict = map[stat.Decision]Verdict{stat.Good: Pass, stat.Bad: Fail, stat.Open: Undecided}[p.test.Decision()]
	}
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
