package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Saturated is the share of an instance's most from which on it counts as saturated: more concurrency there is queue,
// not work.
const Saturated = 0.95

// Instance is the flow-equivalent server of a closed ladder: completions a second as a function of the requests that it
// holds. Between rungs the line is straight, from (0, 0) on; up to its peak it never falls, for more work offered cannot
// mean less of it done before the peak, only noise; after the peak it is as measured, and after the last rung constant.
type Instance struct {
	n, x []float64
}

// NewInstance makes the model of usable rungs; rungs of one concurrency count as their mean.
func NewInstance(points []Point) (Instance, error) {
	byN := map[int][]float64{}
	for _, p := range points {
		if p.N < 1 || !(p.X > 0) || math.IsInf(p.X, 0) {
			return Instance{}, fmt.Errorf("rung N = %d completes %g a second: no model of an instance follows from that", p.N, p.X)
		}
		byN[p.N] = append(byN[p.N], p.X)
	}
	if len(byN) == 0 {
		return Instance{}, fmt.Errorf("the ladder has no usable rung: nothing is known of the throughput of an instance")
	}
	type rung struct{ n, x, weight float64 }
	var rungs []rung
	for n, xs := range byN {
		sum := 0.0
		for _, x := range xs {
			sum += x
		}
		rungs = append(rungs, rung{float64(n), sum / float64(len(xs)), float64(len(xs))})
	}
	slices.SortFunc(rungs, func(a, b rung) int { return cmp.Compare(a.n, b.n) })

	peak := 0
	for i, r := range rungs {
		if r.x > rungs[peak].x {
			peak = i
		}
	}
	// Pool adjacent violators (Ayer et al. 1955): each block is the mean of rungs that ran against the order.
	type block struct{ sum, weight float64 }
	var blocks []block
	var size []int
	for _, r := range rungs[:peak+1] {
		blocks, size = append(blocks, block{r.x * r.weight, r.weight}), append(size, 1)
		for k := len(blocks) - 1; k > 0 && blocks[k-1].sum/blocks[k-1].weight > blocks[k].sum/blocks[k].weight; k-- {
			blocks[k-1].sum += blocks[k].sum
			blocks[k-1].weight += blocks[k].weight
			size[k-1] += size[k]
			blocks, size = blocks[:k], size[:k]
		}
	}
	m := Instance{n: []float64{0}, x: []float64{0}}
	i := 0
	for b, blk := range blocks {
		for range size[b] {
			m.n, m.x = append(m.n, rungs[i].n), append(m.x, blk.sum/blk.weight)
			i++
		}
	}
	for _, r := range rungs[peak+1:] {
		m.n, m.x = append(m.n, r.n), append(m.x, r.x)
	}
	return m, nil
}

// Rate is the completions a second while n requests are held.
func (m Instance) Rate(n float64) float64 {
	last := len(m.n) - 1
	if n >= m.n[last] {
		return m.x[last]
	}
	i, _ := slices.BinarySearch(m.n, n)
	if i == 0 {
		return 0
	}
	share := (n - m.n[i-1]) / (m.n[i] - m.n[i-1])
	return m.x[i-1] + share*(m.x[i]-m.x[i-1])
}

// Most is the highest rate, of any concurrency.
func (m Instance) Most() float64 { return slices.Max(m.x) }

// Saturation is the fewest requests held at which the instance completes Saturated of its most.
func (m Instance) Saturation() float64 {
	want := Saturated * m.Most()
	for i := 1; i < len(m.n); i++ {
		if m.x[i] >= want {
			return m.n[i-1] + (want-m.x[i-1])/(m.x[i]-m.x[i-1])*(m.n[i]-m.n[i-1])
		}
	}
	return m.n[len(m.n)-1]
}
