package ladder

import (
	"fmt"
	"math"
	"slices"
	"time"

	"loadline/internal/sample"
	"loadline/internal/stat"
)

// Sizes of the probes, in judged requests. Those that test a proportion are for 5 % allowed and grow as 1/allowed.
const (
	surveyFirst = 200 // at N = 1: enough for p99 to mean something
	surveyTime  = 20 * time.Second
	surveyLeast = 20
	surveyNext  = 8 // the second concurrency surveyed
	pairSize    = 100
	retestSize  = 60
	mostSamples = 1500
	failLeast   = 20 // a rung fails on no fewer, and on no fewer than a stall of all its streams could make late (to 64)
	stallMost   = 64
	mostHold    = 15 * time.Minute
	leastHold   = time.Minute

	tries       = 3  // of an invalid rung
	mostProbes  = 40 // of a search: a guard, never met by an endpoint that answers
	mostCertify = 12
	mostUnsure  = 3 // certify rungs that correlation left undecided
	mostPair    = 5

	mostCorrelated = 0.7 // that rungs are taken to be by what others showed
)

// looks of a certificate: as soon as that many requests are judged, with a quarter of alpha each.
var looks = []int{181, 473, 1000, 1500}

// Search is the adaptive, certified search: it surveys one and eight streams, doubles until a rung fails, narrows the
// step, certifies the best on fresh requests, stepping down where that fails, measures the pair that a scale-out
// measurement needs, and last retests a low rung.
//
// What it does next follows from the closed rungs alone. Interpolation only proposes; a test decides.
type Search struct {
	c      Config
	rungs  []Rung
	widths []int  // pass-to-fail distance after each rung, once there is one
	broken string // the endpoint answers without speaking: stop

	probe   *probe // being measured
	decided bool
}

// NewSearch is a search for the largest concurrency that meets c.
func NewSearch(c Config) (*Search, error) {
	c, err := c.filled()
	if err != nil {
		return nil, err
	}
	return &Search{c: c}, nil
}

// scale stretches a sample size that holds for 5 % allowed to the objective's own percentage.
func (c Config) scale(n int) int { return int(math.Round(float64(n) * 0.05 / c.allowed())) }

// Next implements Searcher.
func (s *Search) Next() (Probe, bool) {
	n, why := s.plan()
	if n == 0 {
		return Probe{}, false
	}
	p := Probe{Index: len(s.rungs), N: n, Purpose: why, MaxSamples: s.c.scale(mostSamples)}
	switch why {
	case Certify:
		p.MaxSamples = max(p.MaxSamples, int(s.rate(n)*s.c.CertifyHold.Seconds())+1)
	case Pair:
		p.MaxSamples = pairSize
	}
	p.MaxHold = mostHold
	if rate := s.rate(n); rate > 0 {
		expected := seconds(float64(2*n+p.MaxSamples)/rate) + s.c.SLO
		p.MaxHold = min(max(4*expected, leastHold, 2*s.c.CertifyHold), mostHold)
	}
	return p, true
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// plan is the concurrency to hold next and why; 0 when there is nothing left to do.
func (s *Search) plan() (int, Purpose) {
	if s.broken != "" || len(s.rungs) >= mostProbes {
		return 0, ""
	}
	if len(s.rungs) > 0 {
		if last := s.rungs[len(s.rungs)-1]; !last.Valid {
			if s.inARow() < tries {
				return last.N, last.Purpose
			}
			if last.Purpose != Pair && last.Purpose != Retest { // those two are not worth losing an answer for
				return 0, ""
			}
		}
	}
	for _, n := range []int{1, surveyNext} {
		switch r := s.find(func(r Rung) bool { return r.N == n && r.Purpose == Survey }); {
		case n > s.c.Max && n != 1:
		case r == nil:
			return n, Survey
		case n == 1 && s.missed(*r):
			return 0, ""
		}
	}
	if s.certified() == nil {
		lo, hi := s.bracket()
		switch attempts, unsure := s.attempts(); {
		case attempts > 0 && (attempts >= mostCertify || unsure >= mostUnsure):
			return 0, ""
		case attempts > 0:
			if n := s.lower(); n >= s.c.Min {
				return n, Certify
			}
			return 0, ""
		case lo < s.c.Min && hi > 0 && hi <= s.c.Min:
			return 0, "" // the least that was asked for fails
		case hi == 0 && lo < s.c.Max:
			return s.higher(lo), Double
		case hi > 0 && hi-lo > s.resolution(lo):
			return s.between(lo, hi), Bisect
		default:
			return max(s.candidate(lo), s.c.Min), Certify
		}
	}
	if n := s.pairNext(); n > 0 {
		return n, Pair
	}
	if n := s.retestNext(); n > 0 {
		return n, Retest
	}
	return 0, ""
}

// inARow is how many rungs at the end were invalid at the same concurrency for the same purpose.
func (s *Search) inARow() (n int) {
	last := s.rungs[len(s.rungs)-1]
	for i := len(s.rungs) - 1; i >= 0; i-- {
		if r := s.rungs[i]; r.Valid || r.N != last.N || r.Purpose != last.Purpose {
			break
		}
		n++
	}
	return n
}

// find is the last valid rung that is meant, nil when there is none.
func (s *Search) find(is func(Rung) bool) *Rung {
	for i := len(s.rungs) - 1; i >= 0; i-- {
		if s.rungs[i].Valid && is(s.rungs[i]) {
			return &s.rungs[i]
		}
	}
	return nil
}

// missed says on which side an undecided rung is counted when the next is chosen; it proves nothing. Close to what is
// allowed, it could hardly be certified.
func (s *Search) missed(r Rung) bool {
	return r.Verdict == Fail || r.Verdict == Undecided && float64(r.Late) > 0.8*s.c.allowed()*float64(r.Samples)
}

// bracket is the highest concurrency that met the objective below the lowest that missed it, 0 for none.
func (s *Search) bracket() (lo, hi int) {
	for _, r := range s.rungs {
		if r.Valid && s.missed(r) && (hi == 0 || r.N < hi) {
			hi = r.N
		}
	}
	for _, r := range s.rungs {
		if r.Valid && !s.missed(r) && (hi == 0 || r.N < hi) {
			lo = max(lo, r.N)
		}
	}
	return lo, hi
}

func (s *Search) resolution(n int) int { return max(1, int(s.c.Resolution*float64(n))) }

// rate is the completions a second to expect with n held, from the nearest rung below or else above.
func (s *Search) rate(n int) float64 {
	best := 0
	rate := 0.0
	for _, r := range s.rungs {
		if r.Tries > 0 && (best == 0 || r.N <= n && r.N >= best || best > n && r.N < best) {
			best, rate = r.N, r.Tries
		}
	}
	return rate
}

// higher is the next rung of the bracketing phase. The first is half of what Little's law grants the surveyed rate within
// the objective; then it doubles, further or less where the growth of the latency so far says where the objective is met.
func (s *Search) higher(lo int) int {
	slo := s.c.SLO.Seconds()
	next := 2 * float64(lo)
	at := s.find(func(r Rung) bool { return r.N == lo })
	if at == nil {
		return min(max(2*lo, 2), s.c.Max)
	}
	q := s.c.objective(*at)
	if at.Purpose == Survey {
		if at.P50 != nil && q > 0 {
			next = max(next, 0.5*slo*at.Tries**at.P50/1000/q)
		}
		if first := s.find(func(r Rung) bool { return r.N == 1 }); q < 1.3*s.c.objective(*first) {
			next = max(next, 4*float64(lo)) // no sign of a queue yet
		}
	} else if crossing := float64(lo) * math.Pow(slo/q, 1/s.growth(*at)); !math.IsNaN(crossing) {
		next = min(max(1.1*crossing, 1.5*float64(lo)), 4*float64(lo))
	}
	return min(max(int(next), lo+1), s.c.Max)
}

// growth is the exponent a of latency ∝ N^a at a rung, from it and the valid rung before it that is far enough below.
func (s *Search) growth(at Rung) float64 {
	var below *Rung
	for i := range s.rungs {
		if r := &s.rungs[i]; r.Valid && 4*r.N <= 3*at.N && (below == nil || r.N > below.N) {
			below = r
		}
	}
	if below == nil {
		return 1
	}
	a := math.Log(s.c.objective(at)/s.c.objective(*below)) / math.Log(float64(at.N)/float64(below.N))
	if math.IsNaN(a) {
		return 1
	}
	return min(max(a, 0.5), 20)
}

// between is the next rung of the narrowing phase: beside where the interpolated percentile crosses the objective, first
// just below and then just above it, or the middle where the rung before did not halve the step.
func (s *Search) between(lo, hi int) int {
	middle := (lo + hi) / 2
	if k := len(s.widths); k >= 2 && 2*s.widths[k-1] > s.widths[k-2] {
		return middle
	}
	below, above := s.find(func(r Rung) bool { return r.N == lo }), s.find(func(r Rung) bool { return r.N == hi })
	if below == nil || above == nil {
		return middle
	}
	slo, a, b := s.c.SLO.Seconds(), s.c.objective(*below), s.c.objective(*above)
	if !(a > 0 && a < slo && b > slo) || math.IsInf(b, 1) {
		return middle
	}
	crossing := float64(lo) * math.Pow(float64(hi)/float64(lo), math.Log(slo/a)/math.Log(b/a))
	half := s.c.Resolution / 2
	for _, n := range []int{int(crossing * (1 - half)), int(math.Ceil(crossing * (1 + half)))} {
		if n > lo && n < hi {
			return n
		}
	}
	return middle
}

// attempts is how many certify rungs were closed without a certificate, and how many of those correlation left open.
func (s *Search) attempts() (n, unsure int) {
	for _, r := range s.rungs {
		if r.Valid && r.Purpose == Certify && r.Verdict != Pass {
			n++
			if r.Verdict == Undecided && r.NEff < float64(r.Samples)/2 {
				unsure++
			}
		}
	}
	return n, unsure
}

func (s *Search) certified() *Rung {
	return s.find(func(r Rung) bool { return r.Purpose == Certify && r.Verdict == Pass })
}

// easier is the concurrency below n at which the tail of what was measured there, halfway from the objective's percentile
// to the 99th, would meet the objective: where a certificate is likely. No more than the resolution below n.
func (s *Search) easier(at Rung) float64 {
	n := float64(at.N)
	next := n * (1 - s.c.Resolution)
	// Where the percentile is far from the objective, late requests are of another kind, and the curve tells nothing.
	if q := s.c.objective(at); at.P99 != nil && q > 0.9*s.c.SLO.Seconds() {
		tail := math.Sqrt(q * *at.P99 / 1000)
		next = max(next, min(n*math.Pow(s.c.SLO.Seconds()/tail, 1/s.growth(at)), n))
	}
	return next
}

// candidate is the first concurrency to certify, at or below one that passed.
func (s *Search) candidate(lo int) int {
	at := s.find(func(r Rung) bool { return r.N == lo })
	if at == nil || 4*float64(at.Late) < s.c.allowed()*float64(at.Samples) { // it may well be certified as it is
		return lo
	}
	return int(math.Ceil(s.easier(*at)))
}

// lower is the candidate after one that was not certified.
func (s *Search) lower() int {
	at := s.find(func(r Rung) bool { return r.Purpose == Certify })
	return min(int(s.easier(*at)), at.N-1)
}

// Add implements Searcher.
func (s *Search) Add(r sample.Request) bool {
	if s.probe == nil {
		p, more := s.Next()
		if !more {
			return true
		}
		s.probe = newProbe(s.c, p, s.correlation())
	}
	if !s.decided {
		s.decided = s.probe.add(r)
	}
	return s.decided
}

// Close implements Searcher.
func (s *Search) Close(e Evidence) Rung {
	if s.probe == nil {
		p, more := s.Next()
		if !more {
			return Rung{Verdict: Undecided, Cause: "the search is over"}
		}
		s.probe = newProbe(s.c, p, s.correlation())
	}
	r := s.probe.close(e)
	s.probe, s.decided = nil, false
	s.take(r)
	return r
}

// Replay implements Searcher.
func (s *Search) Replay(r Rung) error {
	p, more := s.Next()
	switch {
	case !more:
		return fmt.Errorf("rung %d (N = %d, %s) comes after the end of the search", r.Index, r.N, r.Purpose)
	case p.N != r.N || p.Purpose != r.Purpose:
		return fmt.Errorf("rung %d is N = %d (%s), but this search holds N = %d (%s) there", r.Index, r.N, r.Purpose, p.N, p.Purpose)
	}
	s.probe, s.decided = nil, false
	s.take(r)
	return nil
}

// take adds a closed rung to what is known.
func (s *Search) take(r Rung) {
	s.rungs = append(s.rungs, r)
	if lo, hi := s.bracket(); hi > 0 {
		s.widths = append(s.widths, hi-lo)
	}
	s.broken = s.brokenEndpoint()
}

// brokenEndpoint sees an endpoint that stopped speaking: it answers faster than it did, with less audio than before. A
// refusal or an error is no answer: an overloaded server may well be quick at those.
func (s *Search) brokenEndpoint() string {
	now := s.rungs[len(s.rungs)-1]
	first := slices.IndexFunc(s.rungs, func(r Rung) bool { return r.Valid && r.AudioS > 0 })
	if first < 0 || first == len(s.rungs)-1 || now.Samples == 0 {
		return ""
	}
	var before Rung
	for _, r := range s.rungs[:len(s.rungs)-1] {
		if r.Valid {
			before = r
		}
	}
	answers := func(r Rung) float64 { // a second
		n := r.OK
		for _, o := range []sample.Outcome{sample.Empty, sample.Truncated, sample.ProtocolError} {
			n += r.Outcomes[string(o)]
		}
		return r.Tries * float64(n) / float64(max(r.Samples, 1))
	}
	audio := func(r Rung) float64 { // seconds an answer
		return r.AudioS / (answers(r) * float64(r.EndedNS-r.StartedNS) / 1e9)
	}
	jump := answers(now) / (answers(before) * max(1, float64(now.N)/float64(before.N)))
	if !(jump > 1.5 && audio(now) < audio(s.rungs[first])/2) {
		return ""
	}
	return fmt.Sprintf("endpoint broken: at N = %d it answered %.1f requests a second after %.1f, with %.2f s of audio each after %.2f s (%s)",
		now.N, answers(now), answers(before), audio(now), audio(s.rungs[first]), worst(now.Causes))
}

// correlation of late with late, pooled over the closed rungs: what a rung with few late requests cannot show by itself.
// 0 unless it is beyond doubt.
func (s *Search) correlation() pooled {
	var p pooled
	for _, r := range s.rungs {
		if r.Valid {
			p.add(r.Samples, r.Late, r.LateLag1)
		}
	}
	return p
}

// pooled sums lag-one correlations.
type pooled struct{ cross, square, noise float64 }

func (p *pooled) add(n, late int, lag1 float64) {
	share := float64(late) / float64(max(n, 1))
	if late == 0 || share > 0.6 { // where nearly all are late there is nothing to see
		return
	}
	square := float64(n) * share * (1 - share)
	p.cross, p.square, p.noise = p.cross+lag1*square, p.square+square, p.noise+square*square/float64(n)
}

// design is the factor by which correlation shrinks a sample, that of a first-order chain. It is bounded: rungs at the
// very edge of the objective are far more correlated than those a step below it, of which nothing is known yet.
func (p pooled) design() float64 {
	if p.square == 0 || p.cross < 2.5*math.Sqrt(p.noise) {
		return 1
	}
	r := min(p.cross/p.square, mostCorrelated)
	return (1 + r) / (1 - r)
}

// effective is what late of the window's requests are worth: the sample itself unless its batches, or the pooled
// correlation, clearly say less.
func effective(late []bool, others pooled) (n, k float64) {
	all, count := float64(len(late)), float64(countTrue(late))
	design := 1.0
	if n, p := stat.EffectiveN(late); p < 0.05 {
		design = all / n
	}
	cross, square := stat.LagOne(late)
	if square > 0 {
		others.add(len(late), int(count), cross/square)
	}
	design = max(design, others.design())
	return all / design, count / design
}
