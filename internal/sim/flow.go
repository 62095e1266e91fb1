package sim

import (
	"fmt"
	"math"
	"sync"

	"loadline/internal/queueing"
)

// station is what requests queue at: one instance, or, where they go to the one that holds the fewest, all of them.
type station struct {
	rate   func(n int) float64 // completions a second while n are held
	most   float64
	places int
	depth  int // 0: no bound
	stages int
	first  float64
	slo    float64
}

// curve is a station in its steady state against the rate of arrivals: how much it holds, what it completes and refuses,
// how long its requests wait. A state that is not steady is taken for the steady one that holds as much: the pointwise
// stationary fluid flow approximation (Wang, Tipper and Banerjee 1996).
type curve struct {
	station
	shorter float64 // the waiting of a chain of exponential services, times this
	nodes   []*node // by what is held
}

// node is one rate of arrivals.
type node struct {
	lambda  float64
	held    float64
	served  float64   // a second
	refused float64   // of arrivals
	late    float64   // of those served
	up      []float64 // by n: how often in a second more than n come to be held
	below   []float64 // by n: probability that at most n are held

	parts []part // of the law of when requests are first heard
	once  sync.Once
	first []float64 // by bin of waits, that law; made when it is first asked for
}

// part is a share of the requests, whose time until they are heard has a mean and is of so many exponential stages.
type part struct{ share, mean, shape float64 }

// loads are the rates of arrivals of a curve's nodes, as shares of the most that the station completes; as many lie
// halfway between them.
var loads = [...]float64{0.002, 0.01, 0.03, 0.07, 0.15, 0.25, 0.35, 0.45, 0.53, 0.6, 0.66, 0.71, 0.75, 0.79, 0.82, 0.85, 0.88, 0.9, 0.92, 0.94, 0.955, 0.97,
	0.98, 0.99, 1, 1.01, 1.02, 1.04, 1.07, 1.1, 1.2, 1.4, 2, 4, 10, 40}

// openRoom is how many requests a station without a bound is computed with: while it holds less than half of that the
// bound is nothing.
const openRoom = 160

func newCurve(s station) (*curve, error) {
	c := &curve{station: s}
	room := s.depth
	if room == 0 {
		room = max(openRoom, 4*s.places)
	}
	// A service in stages is exact for one server. Several at once complete much like exponential ones, and their queue is
	// shorter in proportion to the variability (Lee and Longton 1959).
	chain := queueing.Chain{Stages: s.stages}
	c.shorter = 1
	if s.places > 1 {
		chain.Stages, c.shorter = 1, (1+1/float64(s.stages))/2
		room = s.places + int(math.Round(float64(room-s.places)/c.shorter)) // so that as much as there is room for fits in
	}
	for i := range room {
		chain.Mu = append(chain.Mu, s.rate(i+1))
	}
	for k := range 2*len(loads) - 1 {
		load := loads[k/2]
		if k%2 == 1 {
			load = (load + loads[k/2+1]) / 2
		}
		lambda := load * s.most
		if s.depth == 0 && load > 0.985 {
			break
		}
		steady, err := chain.Steady(lambda, room)
		if err != nil {
			return nil, fmt.Errorf("steady state at %g a second: %w", lambda, err)
		}
		p := steady.Held()
		n := &node{lambda: lambda, refused: p[room]}
		if s.depth == 0 {
			n.refused = 0
		}
		waiting := 0.0
		for k, x := range p {
			n.held += float64(k) * x
			waiting += float64(max(0, k-s.places)) * x
		}
		n.held -= waiting * (1 - c.shorter)
		n.served = lambda * (1 - n.refused)
		if len(c.nodes) > 0 && n.held <= c.nodes[len(c.nodes)-1].held*(1+1e-12) {
			break // as full as it can be
		}
		n.peaks(p, chain)
		c.waits(n, p)
		c.nodes = append(c.nodes, n)
	}
	return c, nil
}

// peaks is how a node's number held comes to be above each level.
func (n *node) peaks(p []float64, chain queueing.Chain) {
	sum := 0.0
	for k, x := range p {
		sum += x
		// A level is crossed in clumps: after the first time it is soon crossed again, the more the fuller the station is.
		again := 0.95
		if k < len(chain.Mu) {
			again = math.Min(again, n.lambda/chain.Mu[k])
		}
		n.below = append(n.below, math.Min(1, sum))
		n.up = append(n.up, n.lambda*x*(1-again))
	}
}

// peak is the most that is held within some seconds by the fullest of several stations like it, all but a share u of the
// times. Crossings of a level come like rare events do (Aldous 1989).
func (n *node) peak(u, seconds float64, stations int) float64 {
	want := math.Log(u) / float64(stations)
	lo, hi := -1, len(n.below)-1
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if b := n.below[mid]; b > 0 && math.Log(b)-seconds*n.up[mid]/b >= want {
			hi = mid
		} else {
			lo = mid
		}
	}
	return float64(hi)
}

// waits is when requests are first heard, from what they find.
func (c *curve) waits(n *node, p []float64) {
	admitted := 0.0
	last := len(p)
	if c.depth > 0 {
		last--
	}
	k := float64(c.stages)
	for found, x := range p[:last] {
		admitted += x
		if x < 1e-7 {
			continue
		}
		rate := c.rate(found + 1)
		own := c.first * float64(min(found+1, c.places)) / rate
		q := part{x, own, k} // as variable as the service that it is a share of
		if ahead := found - c.places; ahead >= 0 {
			q.shape = math.Max(1, c.first*k) // behind others the stages of the wait are most of it
			wait, shape := (float64(ahead)+1)*c.shorter, float64(ahead)+1
			if c.places == 1 {
				wait, shape = float64(ahead)+(1+1/k)/2, float64(ahead)*k+1
			}
			q.mean += wait / rate
			q.shape += shape
		}
		// Neighbours that differ little are one.
		if m := len(n.parts) - 1; m >= 0 && q.mean < n.parts[m].mean*1.02 {
			a := &n.parts[m]
			w := a.share + x
			a.mean += (q.mean - a.mean) * x / w
			a.shape += (q.shape - a.shape) * x / w
			a.share = w
			continue
		}
		n.parts = append(n.parts, q)
	}
	for i := range n.parts {
		n.parts[i].share /= admitted
	}
	n.late = n.beyond(c.slo)
}

// beyond is the share of the requests that are first heard later than t.
func (n *node) beyond(t float64) float64 {
	sum := 0.0
	for _, q := range n.parts {
		sum += q.share * gammaBeyond(q.shape, t/q.mean)
	}
	return math.Min(1, sum)
}

// hear adds so many requests of a node to a histogram.
func (n *node) hear(w *waits, many float64) {
	n.once.Do(func() {
		n.first = make([]float64, bins)
		before := 1.0
		for i := range bins - 1 {
			after := before
			if before > 0 {
				after = math.Min(before, n.beyond(edge(i+1)))
			}
			n.first[i], before = before-after, after
		}
		n.first[bins-1] = before
	})
	for i, x := range n.first {
		w.bin[i] += x * many
	}
	w.n += many
}

// gammaBeyond is the chance that a time of mean 1 in so many exponential stages exceeds t (Wilson and Hilferty 1931).
func gammaBeyond(shape, t float64) float64 {
	z := 3 * math.Sqrt(shape) * (math.Cbrt(t) - 1 + 1/(9*shape))
	switch {
	case z > 6:
		return 0
	case z < -6:
		return 1
	}
	return math.Erfc(z/math.Sqrt2) / 2
}

// state is where a station stands on its curve: between the nodes i and i+1, or, where i is -1, below the first one.
type state struct {
	i     int
	share float64 // of the way
	held  float64
	over  bool // it holds more than any node, and nothing bounds it
}

// step is where a station is after some seconds of so many arrivals a second, and what it completed and refused
// meanwhile: the implicit Euler step, whose equation is a straight line between any two nodes.
func (c *curve) step(from state, lambda, seconds float64) (to state, served, refused float64) {
	// What there is beyond what the step would leave: it grows from one node to the next.
	beyond := func(i int) float64 {
		if i < 0 {
			return -from.held - seconds*lambda
		}
		n := c.nodes[i]
		return n.held - from.held - seconds*(lambda*(1-n.refused)-n.served)
	}
	last := len(c.nodes) - 1
	i := min(from.i, last-1)
	for i >= 0 && beyond(i) > 0 {
		i--
	}
	for i < last-1 && beyond(i+1) <= 0 {
		i++
	}
	low, high := beyond(i), beyond(i+1)
	switch {
	case high > 0:
		to = state{i: i, share: math.Max(0, -low/(high-low))}
	case c.depth > 0:
		to = state{i: i, share: 1}
	default:
		to = state{i: i, share: 1, over: true, held: from.held + seconds*(lambda-c.most)}
	}
	b := c.nodes[i+1]
	switch {
	case to.over:
		return to, c.most * seconds, 0
	case i < 0:
		to.held = b.held * to.share
		return to, b.served * to.share * seconds, b.refused * lambda * to.share * seconds
	}
	a := c.nodes[i]
	to.held = a.held + (b.held-a.held)*to.share
	served = (a.served + (b.served-a.served)*to.share) * seconds
	return to, served, math.Max(0, from.held+lambda*seconds-served-to.held)
}

// find is the state in which so much is held.
func (c *curve) find(held float64) state {
	i := -1
	for i+1 < len(c.nodes) && c.nodes[i+1].held <= held {
		i++
	}
	if last := len(c.nodes) - 1; i >= last {
		return state{i: last - 1, share: 1, held: held, over: c.depth == 0}
	}
	s := state{i: i, held: held}
	if i < 0 {
		s.share = held / c.nodes[0].held
	} else {
		s.share = (held - c.nodes[i].held) / (c.nodes[i+1].held - c.nodes[i].held)
	}
	return s
}

// nodesOf are the nodes around a state.
func (c *curve) nodesOf(s state) (a, b *node) {
	b = c.nodes[s.i+1]
	if a = b; s.i >= 0 {
		a = c.nodes[s.i]
	}
	return a, b
}

// late is the share of a state's requests that are first heard too late, and, where it is beyond all nodes, when they are.
func (c *curve) late(s state) (late, wait float64) {
	if !s.over {
		a, b := c.nodesOf(s)
		return a.late + (b.late-a.late)*s.share, 0
	}
	wait = (math.Max(0, s.held-float64(c.places)) + c.first*float64(c.places)) / c.most
	if wait > c.slo {
		late = 1
	}
	return late, wait
}

// peak is the most that is held within some seconds by the fullest of several stations in a state.
func (c *curve) peak(s state, u, seconds float64, stations int) float64 {
	if s.over {
		return math.Ceil(s.held)
	}
	a, b := c.nodesOf(s)
	n := b
	if s.share < 0.5 {
		n = a
	}
	most := n.peak(u, seconds, stations)
	if waiting := most - float64(c.places); waiting > 0 {
		most -= math.Floor(waiting * (1 - c.shorter))
	}
	return most
}

// flows is the curves of a server, slowed by a factor.
type flows struct {
	server *Server
	slowed float64
	one    *curve
	lock   sync.Mutex     // of pools, which several simulations of one server fill
	pools  map[int]*curve // of so many instances together
}

func newFlows(s *Server, slowed float64) (*flows, error) {
	f := &flows{server: s, slowed: slowed, pools: map[int]*curve{}}
	var err error
	f.one, err = newCurve(station{rate: func(n int) float64 { return s.x.Rate(float64(n)) / slowed }, most: s.most() / slowed,
		places: s.places, depth: s.depth, stages: s.stages, first: s.first, slo: s.slo})
	return f, err
}

// pool is so many instances, or about as many, that share their load evenly.
func (f *flows) pool(n int) (*curve, int, error) {
	if n == 1 {
		return f.one, 1, nil
	}
	if n > 16 { // within 6 %, and at most 243: what is held by each hardly depends on how many there are
		n = int(math.Round(16 * math.Pow(1.12, math.Min(24, math.Round(math.Log(float64(n)/16)/math.Log(1.12))))))
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if c := f.pools[n]; c != nil {
		return c, n, nil
	}
	s := f.server
	each := s.depth
	if most := max(2*s.places, 4); n > 16 && (each == 0 || each > most) {
		each = most // a large pool that is not overloaded holds hardly more than it executes
	}
	depth := n * each
	c, err := newCurve(station{rate: func(k int) float64 {
		low, more := k/n, k%n
		return (float64(more)*s.x.Rate(float64(low+1)) + float64(n-more)*s.x.Rate(float64(low))) / f.slowed
	}, most: float64(n) * s.most() / f.slowed, places: n * s.places, depth: depth, stages: s.stages, first: s.first, slo: s.slo})
	if err != nil {
		return nil, 0, err
	}
	if each != s.depth { // what it holds beyond is a matter of its overload alone
		c.depth = 0
		for i := range c.nodes {
			if c.nodes[i].lambda > 0.985*c.most {
				c.nodes = c.nodes[:i]
				break
			}
			c.nodes[i].served, c.nodes[i].refused = c.nodes[i].lambda, 0
		}
	}
	f.pools[n] = c
	return c, n, nil
}
