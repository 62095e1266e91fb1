package sim

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"loadline/internal/admission"
	"loadline/internal/arrival"
	"loadline/internal/autoscale"
)

// Requests plays every request by itself.
func Requests(c Config) (Result, error) {
	w, err := newWorld(c)
	if err != nil {
		return Result{}, err
	}
	p, err := newRequests(w)
	if err != nil {
		return Result{}, err
	}
	w.play = p
	if err := w.run(); err != nil {
		return Result{}, err
	}
	return w.result(ModeRequests), nil
}

// groups is how many parts the instances are played in. It does not depend on how many processors there are, so that sums
// are made in one order.
const groups = 4

// requests plays each request. Where they find instances at random, instances do not see each other between two changes
// of the fleet, and each is played by itself; a retry comes back so much later that it falls into a later part. Where they
// go to the instance that holds the fewest, all are played together.
type requests struct {
	*Server
	w         *world
	shares    []float64 // by the number held, slowed
	slowed    float64
	patience  float64
	unnoticed bool
	gate      admission.Config
	whole     bool // every decision is asked of a gate, whatever it is set to
	lor       bool

	stream  *arrival.Stream // nil: Arrivals
	given   []time.Duration // of Arrivals, those to come
	drawn   []time.Duration
	entries []entry
	routing *rand.Rand

	again   backs // attempts to come again
	retries *rand.Rand
	allowed float64 // retries that the budget leaves

	instances []*instance // that take traffic
	leaving   []*instance
	byID      map[string]*instance
	made      uint64
	groups    [groups]group

	pool pool

	came                float64
	area                float64 // request-seconds of the period under way
	work                float64 // services' worth of work done in it
	told                float64 // of these, what an earlier point of the time line has
	untold              float64 // of earlier periods, what no point has yet
	meanMost, meanLeast float64 // of the mean over the instances, in the period
}

func newRequests(w *world) (*requests, error) {
	c := &w.c
	p := &requests{Server: c.Server, w: w, patience: c.Retry.Patience.Seconds(), unnoticed: c.Retry.Unnoticed, gate: c.Gate,
		whole: c.Gate.Predict || c.Gate.MaxAge > 0, lor: c.Routing == autoscale.LeastOutstanding,
		routing: rand.New(rand.NewPCG(c.Seed, causeRouting)), retries: rand.New(rand.NewPCG(c.Seed, causeRetries)),
		byID: map[string]*instance{}, meanLeast: math.Inf(1)}
	p.gate.Places, p.gate.SLO = c.Server.places, time.Duration(c.Server.slo*float64(time.Second))
	p.slow(1)
	var rng *rand.Rand
	if !c.Even {
		rng = rand.New(rand.NewPCG(c.Seed, causeArrivals))
	}
	if p.given = c.Arrivals; p.given == nil {
		var err error
		if p.stream, err = arrival.NewStream(c.Load, rng); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// share is the rate of each of those that execute.
func (p *requests) share(n int) float64 { return p.Server.share(n) / p.slowed }

func (p *requests) slow(factor float64) {
	now := p.w.now.Seconds()
	for _, i := range p.byID {
		i.run(now)
	}
	p.slowed = factor
	p.shares = p.shares[:0]
	for n := range max(p.depth, 64) + 1 {
		p.shares = append(p.shares, p.share(max(1, n)))
	}
	for _, i := range p.byID {
		p.plan(i)
	}
	p.pool.sort()
}

func (p *requests) add(id string) {
	p.made++
	now := p.w.now.Seconds()
	i := &instance{id: id, rng: rand.New(rand.NewPCG(p.w.c.Seed, causeService+p.made)), at: now, areaAt: now, next: math.Inf(1), index: len(p.instances),
		group: &p.groups[p.made%groups]}
	if p.whole {
		i.gate = admission.New(p.gate)
	}
	p.instances = append(p.instances, i)
	p.byID[id] = i
	if p.lor {
		p.pool.add(i)
	}
}

func (p *requests) drain(id string) {
	i := p.byID[id]
	p.takeOut(i)
	i.leaving = true
	p.leaving = append(p.leaving, i)
}

// takeOut sends an instance no more traffic.
func (p *requests) takeOut(i *instance) {
	p.instances = slices.Delete(p.instances, i.index, i.index+1)
	for n := i.index; n < len(p.instances); n++ {
		p.instances[n].index = n
	}
	if p.lor {
		p.pool.take(i)
	}
}

func (p *requests) drop(id string) {
	i := p.byID[id]
	if i == nil {
		return
	}
	if i.leaving {
		p.leaving = slices.DeleteFunc(p.leaving, func(x *instance) bool { return x == i })
	} else {
		p.takeOut(i)
	}
	if p.lor {
		p.pool.remove(i)
	}
	now := p.w.now.Seconds()
	p.cut(i, now, i.group)
	p.ended(i)
	p.comeBack(i.group)
}

// keep adds an instance's account to that of all.
func (p *requests) keep(i *instance) {
	p.area += i.area
	p.work += i.work
	i.area, i.work = 0, 0
}

// ended keeps an instance's account when it is gone.
func (p *requests) ended(i *instance) {
	p.keep(i)
	delete(p.byID, i.id)
}

func (p *requests) emptied() []string {
	var ids []string
	for n := 0; n < len(p.leaving); n++ {
		if i := p.leaving[n]; i.n == 0 {
			ids = append(ids, i.id)
			p.leaving = slices.Delete(p.leaving, n, n+1)
			if p.lor {
				p.pool.remove(i)
			}
			i.touch(p.w.now.Seconds())
			p.ended(i)
			n--
		}
	}
	return ids
}

// step is the longest part that may be played at once: no longer than a caller stays away at least.
func (p *requests) step() time.Duration {
	step := time.Minute
	if r := p.w.c.Retry; r.Attempts > 1 {
		step = max(time.Millisecond, min(r.Backoff, r.most())/2)
	}
	if p.w.c.Unknowns.Across == autoscale.AcrossMean {
		step = min(step, time.Second) // the mean is looked at so often
	}
	return step
}

func (r *Retry) most() time.Duration {
	if r.Most > 0 {
		return r.Most
	}
	return time.Minute
}

func (p *requests) play(from, to float64) {
	if to <= from {
		return
	}
	p.collect(to)
	p.came = 0
	switch {
	case len(p.instances) == 0:
		g := &p.groups[0]
		for _, e := range p.entries {
			g.t.unserved++
			g.failed = append(g.failed, e)
		}
		p.each(to)
	case p.lor:
		p.came = float64(len(p.entries))
		p.together(to)
	default:
		p.came = float64(len(p.entries))
		n := len(p.instances)
		for _, e := range p.entries {
			at := 0
			if n > 1 {
				at = p.routing.IntN(n)
			}
			p.instances[at].in = append(p.instances[at].in, e)
		}
		p.each(to)
	}
	for g := range p.groups {
		p.comeBack(&p.groups[g])
	}
	if p.w.c.Unknowns.Across == autoscale.AcrossMean {
		held, n := 0, 0
		for _, list := range [][]*instance{p.instances, p.leaving} {
			for _, i := range list {
				held, n = held+i.n, n+1
			}
		}
		mean := float64(held) / float64(max(n, 1))
		p.meanMost, p.meanLeast = max(p.meanMost, mean), min(p.meanLeast, mean)
	}
}

// collect is the attempts that come before to, in order.
func (p *requests) collect(to float64) {
	end := time.Duration(math.Round(to * float64(time.Second)))
	p.drawn = p.drawn[:0]
	if p.stream != nil {
		p.drawn = p.stream.Until(end, p.drawn)
	} else {
		n := 0
		for n < len(p.given) && p.given[n] < end {
			n++
		}
		p.drawn, p.given = append(p.drawn, p.given[:n]...), p.given[n:]
	}
	p.groups[0].t.offered += float64(len(p.drawn))
	p.allowed += p.w.c.Retry.Budget * float64(len(p.drawn))
	p.entries = p.entries[:0]
	for _, d := range p.drawn {
		at := d.Seconds()
		for len(p.again) > 0 && p.again[0].at <= at {
			p.entries = append(p.entries, heap.Pop(&p.again).(entry))
		}
		p.entries = append(p.entries, entry{at, 1})
	}
	for len(p.again) > 0 && p.again[0].at < to {
		p.entries = append(p.entries, heap.Pop(&p.again).(entry))
	}
}

// comeBack sends a group's failed attempts home, or to come again.
func (p *requests) comeBack(g *group) {
	r := &p.w.c.Retry
	for _, e := range g.failed {
		if int(e.attempt) >= r.Attempts || r.Budget > 0 && p.allowed < 1 {
			g.t.failed++
			continue
		}
		if r.Budget > 0 {
			p.allowed--
		}
		g.t.retried++
		long := min(r.Backoff<<(e.attempt-1), r.most()).Seconds()
		heap.Push(&p.again, entry{e.at + long*(0.5+0.5*p.retries.Float64()), e.attempt + 1})
	}
	g.failed = g.failed[:0]
}

// each plays the instances one by one, in their groups.
func (p *requests) each(to float64) {
	if p.lor { // only the leaving are left
		p.entries = p.entries[:0]
		p.together(to)
		return
	}
	one := func(g int) {
		for _, list := range [][]*instance{p.instances, p.leaving} {
			for _, i := range list {
				if i.group == &p.groups[g] {
					p.alone(i, to)
				}
			}
		}
	}
	if p.w.c.Parallel != nil && len(p.entries) > 1000 {
		p.w.c.Parallel(groups, one)
		return
	}
	for g := range groups {
		one(g)
	}
}

// alone plays one instance.
func (p *requests) alone(i *instance, to float64) {
	g := i.group
	for _, e := range i.in {
		for i.next <= e.at {
			p.happen(i, g)
		}
		p.arrive(i, e, g)
	}
	i.in = i.in[:0]
	for i.next <= to {
		p.happen(i, g)
	}
}

// together plays all instances in the order of what happens.
func (p *requests) together(to float64) {
	for _, e := range p.entries {
		p.until(e.at)
		i := p.pool.least(p.routing)
		p.arrive(i, e, i.group)
		p.pool.moved(i)
	}
	p.until(to)
}

func (p *requests) until(t float64) {
	for i := p.pool.first(); i != nil && i.next <= t; i = p.pool.first() {
		p.happen(i, i.group)
		p.pool.moved(i)
	}
}

func (p *requests) arrived() float64 { return p.came }

// sweep collects what the instances have held up to now.
func (p *requests) sweep() {
	now := p.w.now.Seconds()
	for _, list := range [][]*instance{p.instances, p.leaving} {
		for _, i := range list {
			i.touch(now)
			i.run(now)
			p.keep(i)
		}
	}
}

func (p *requests) read(seconds float64) (level, float64) {
	p.sweep()
	l := level{least: math.Inf(1)}
	for _, list := range [][]*instance{p.instances, p.leaving} {
		for _, i := range list {
			l.most, l.least = max(l.most, float64(i.most)), min(l.least, float64(i.least))
			i.most, i.least = i.n, i.n
			l.n++
		}
	}
	done := p.work
	p.work = 0
	if l.n == 0 {
		l = level{}
	} else if l.mean = p.area / seconds / l.n; p.w.c.Unknowns.Across == autoscale.AcrossMean {
		l.most, l.least, l.n = p.meanMost, p.meanLeast, 1
	}
	p.meanMost, p.meanLeast = 0, math.Inf(1)
	p.untold += p.area - p.told
	p.area, p.told = 0, 0
	return l, done
}

func (p *requests) flush(t *tally) float64 {
	p.sweep()
	held := p.untold + p.area - p.told
	p.untold, p.told = 0, p.area
	for g := range p.groups {
		t.add(&p.groups[g].t)
		p.groups[g].t = tally{}
	}
	return held
}

// backs is a heap of attempts by when they come.
type backs []entry

func (b backs) Len() int           { return len(b) }
func (b backs) Less(i, j int) bool { return b[i].at < b[j].at }
func (b backs) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *backs) Push(x any)        { *b = append(*b, x.(entry)) }

func (b *backs) Pop() any {
	n := len(*b) - 1
	e := (*b)[n]
	*b = (*b)[:n]
	return e
}
