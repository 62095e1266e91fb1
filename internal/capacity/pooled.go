package capacity

import (
	"fmt"
	"math"
	"math/rand/v2"

	"loadline/internal/queueing"
)

// Limits of the simulated pool.
const (
	poolMost   = 50        // instances: beyond, the backlog of a fleet is far from its room and drift alone counts
	poolEvents = 8_000_000 // arrivals simulated for one fleet size
	poolTrials = 2000
	poolLeast  = 100
	poolStages = 4  // of the pool's chain
	poolClear  = 10 // how far from ε its answer must lie to stand without a simulation
)

// pooled is the variance bound under least-outstanding routing, where the fleet is one pool: an arrival is refused when
// every instance is full. A pool that balances is a chain too, and where that one's answer is a factor of ten from ε it
// stands; nearer, the fleet is simulated event by event, from one seed. Beyond 50 instances drift alone bounds it.
func (f flow) pooled(drift float64) (rho float64, detail string, err error) {
	n := max(1, ceil(f.peak/(drift*f.m.MuPlan)))
	if n > poolMost {
		return drift, fmt.Sprintf("least-outstanding routing over %d instances: drift alone", n), nil
	}
	for ; n <= 2*poolMost; n++ {
		lambda := math.Min(drift*f.m.MuPlan, f.peak/float64(n))
		p, err := f.pooledChain(n, lambda)
		if err != nil {
			return 0, "", err
		}
		if p > poolClear*f.eps {
			continue
		}
		if p < f.eps/poolClear {
			return lambda / f.m.MuPlan, fmt.Sprintf("least-outstanding routing: the pool of %d refuses within T = %.0f s of the surge with probability %.2g",
				n, f.t, p), nil
		}
		hits, trials := f.pool(n, lambda)
		if float64(hits) <= f.eps*float64(trials) {
			return lambda / f.m.MuPlan, fmt.Sprintf("least-outstanding routing: the pool of %d refuses within T = %.0f s of the surge in %d of %d simulated ones",
				n, f.t, hits, trials), nil
		}
	}
	return 0, "", unsafe("the pool of %d instances refuses within %.0f s with more than %g: plan on random routing", n-1, f.t, f.eps)
}

// pooledChain is the probability that n instances which share their load evenly are all full within T. Its few stages
// read a service as more variable than it is, on the safe side.
func (f flow) pooledChain(n int, lambda float64) (float64, error) {
	c := queueing.Chain{Mu: make([]float64, n*f.depth), Stages: min(poolStages, f.chain.Stages)}
	for i := range c.Mu {
		each, more := (i+1)/n, (i+1)%n // so many hold one more than each
		rate := float64(more) * f.chain.Mu[min(each, len(f.chain.Mu)-1)]
		if each > 0 {
			rate += float64(n-more) * f.chain.Mu[each-1]
		}
		c.Mu[i] = rate
	}
	steady, err := c.Steady(float64(n)*lambda, n*f.depth)
	if err != nil {
		return 0, fmt.Errorf("pool of %d: %w", n, err)
	}
	return c.Passage(float64(n)*lambda*(1+f.h), n*f.depth+1, f.t, steady.P)
}

// pool simulates n instances at lambda each: how many surges end in a refusal. A service is drawn as it begins, by the
// rate of its instance at that moment.
func (f flow) pool(n int, lambda float64) (hits, trials int) {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	perTrial := float64(n) * lambda * f.t * (1 + f.h)
	trials = int(math.Max(poolLeast, math.Min(poolTrials, poolEvents/perTrial)))
	p := newPool(n, f.depth, f.chain.Mu, f.chain.Stages)
	for range trials {
		// The steady state: from empty, long enough for a pool at this load.
		calm := 20 / (f.m.MuPlan * math.Pow(1-math.Min(0.95, lambda/f.m.MuPlan), 2))
		p.reset()
		p.run(rng, float64(n)*lambda, math.Min(calm, f.t))
		if p.run(rng, float64(n)*lambda*(1+f.h), f.t) {
			hits++
		}
		if hits > int(f.eps*float64(trials)) { // decided
			return hits, trials
		}
	}
	return hits, trials
}

// pool is n instances of one queue each; arrivals go to the one that holds the fewest.
type pool struct {
	depth  int
	mu     []float64
	stages int
	now    float64
	held   []int
	ends   []float64 // of the service at each instance
	order  []int     // heap of instances by their end of service
	at     []int     // place in order
	levels [][]int   // instances by how many they hold
	place  []int     // place in its level
}

func newPool(n, depth int, mu []float64, stages int) *pool {
	p := &pool{depth: depth, mu: mu, stages: stages, held: make([]int, n), ends: make([]float64, n),
		order: make([]int, n), at: make([]int, n), levels: make([][]int, depth+1), place: make([]int, n)}
	p.reset()
	return p
}

func (p *pool) reset() {
	p.now = 0
	for i := range p.levels {
		p.levels[i] = p.levels[i][:0]
	}
	for i := range p.held {
		p.held[i], p.ends[i], p.order[i], p.at[i] = 0, math.Inf(1), i, i
		p.place[i] = i
		p.levels[0] = append(p.levels[0], i)
	}
}

// run plays the pool for a time; true when an arrival found every instance full.
func (p *pool) run(rng *rand.Rand, lambda, dur float64) bool {
	end := p.now + dur
	low := 0
	for arrival := p.now + rng.ExpFloat64()/lambda; ; {
		if i := p.order[0]; p.ends[i] < arrival {
			if p.ends[i] > end {
				p.now = end
				return false
			}
			p.now = p.ends[i]
			p.move(i, p.held[i]-1)
			low = min(low, p.held[i])
			p.serve(rng, i)
			continue
		}
		if arrival > end {
			p.now = end
			return false
		}
		p.now = arrival
		for len(p.levels[low]) == 0 {
			if low++; low > p.depth {
				return true
			}
		}
		if low == p.depth {
			return true
		}
		i := p.levels[low][rng.IntN(len(p.levels[low]))]
		p.move(i, low+1)
		if low == 0 {
			p.serve(rng, i)
		}
		arrival += rng.ExpFloat64() / lambda
	}
}

// move puts instance i among those that hold n.
func (p *pool) move(i, n int) {
	from := p.levels[p.held[i]]
	last := from[len(from)-1]
	from[p.place[i]], p.place[last] = last, p.place[i]
	p.levels[p.held[i]] = from[:len(from)-1]
	p.held[i], p.place[i] = n, len(p.levels[n])
	p.levels[n] = append(p.levels[n], i)
}

// serve begins the next service of instance i, if it holds a request.
func (p *pool) serve(rng *rand.Rand, i int) {
	if p.ends[i] = math.Inf(1); p.held[i] > 0 {
		mu := p.mu[min(p.held[i], len(p.mu))-1]
		p.ends[i] = p.now + erlang(rng, p.stages)/mu
	}
	p.sift(p.at[i])
}

// sift restores the heap around place j.
func (p *pool) sift(j int) {
	less := func(a, b int) bool { return p.ends[p.order[a]] < p.ends[p.order[b]] }
	swap := func(a, b int) {
		p.order[a], p.order[b] = p.order[b], p.order[a]
		p.at[p.order[a]], p.at[p.order[b]] = a, b
	}
	for j > 0 && less(j, (j-1)/2) {
		swap(j, (j-1)/2)
		j = (j - 1) / 2
	}
	for {
		c := 2*j + 1
		if c+1 < len(p.order) && less(c+1, c) {
			c++
		}
		if c >= len(p.order) || !less(c, j) {
			return
		}
		swap(c, j)
		j = c
	}
}

// erlang draws a time of mean 1 in k exponential stages.
func erlang(rng *rand.Rand, k int) float64 {
	if k == 1 {
		return rng.ExpFloat64()
	}
	// Marsaglia and Tsang 2000.
	d := float64(k) - 1.0/3
	for {
		x := rng.NormFloat64()
		v := 1 + x/math.Sqrt(9*d)
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v / float64(k)
		}
	}
}
