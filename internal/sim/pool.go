package sim

import "math/rand/v2"

// pool finds, among instances, the one at which something happens next, and one that holds the fewest.
type pool struct {
	heap   []*instance   // of all that may still end a job, by what happens next
	levels [][]*instance // of those that take traffic, by how many they hold
	low    int           // no instance holds fewer
}

func (p *pool) add(i *instance) {
	i.order = len(p.heap)
	p.heap = append(p.heap, i)
	p.up(i.order)
	p.put(i)
}

// put files an instance under what it holds.
func (p *pool) put(i *instance) {
	for len(p.levels) <= i.n {
		p.levels = append(p.levels, nil)
	}
	i.held, i.level = i.n, len(p.levels[i.n])
	p.levels[i.n] = append(p.levels[i.n], i)
	p.low = min(p.low, i.n)
}

// take takes it out again: it is not found for traffic any more.
func (p *pool) take(i *instance) {
	at := p.levels[i.held]
	last := at[len(at)-1]
	at[i.level] = last
	last.level = i.level
	p.levels[i.held] = at[:len(at)-1]
}

// remove takes an instance out that has left.
func (p *pool) remove(i *instance) {
	last := len(p.heap) - 1
	at := i.order
	p.swap(at, last)
	p.heap = p.heap[:last]
	if at < last {
		p.down(at)
		p.up(at)
	}
}

// moved tells that what an instance holds, or what happens next to it, has changed.
func (p *pool) moved(i *instance) {
	if !i.leaving && i.held != i.n {
		p.take(i)
		p.put(i)
	}
	p.down(i.order)
	p.up(i.order)
}

// sort puts everything in order after every instance has changed.
func (p *pool) sort() {
	for at := len(p.heap)/2 - 1; at >= 0; at-- {
		p.down(at)
	}
}

func (p *pool) first() *instance {
	if len(p.heap) == 0 {
		return nil
	}
	return p.heap[0]
}

// least is an instance that holds the fewest, any of them.
func (p *pool) least(rng *rand.Rand) *instance {
	for len(p.levels[p.low]) == 0 {
		p.low++
	}
	at := p.levels[p.low]
	if len(at) == 1 {
		return at[0]
	}
	return at[rng.IntN(len(at))]
}

func (p *pool) swap(a, b int) {
	h := p.heap
	h[a], h[b] = h[b], h[a]
	h[a].order, h[b].order = a, b
}

func (p *pool) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if p.heap[parent].next <= p.heap[at].next {
			return
		}
		p.swap(at, parent)
		at = parent
	}
}

func (p *pool) down(at int) {
	for {
		c := 2*at + 1
		if c >= len(p.heap) {
			return
		}
		if c+1 < len(p.heap) && p.heap[c+1].next < p.heap[c].next {
			c++
		}
		if p.heap[at].next <= p.heap[c].next {
			return
		}
		p.swap(at, c)
		at = c
	}
}
