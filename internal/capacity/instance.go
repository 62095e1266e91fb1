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

// NewInstance makes the model of usable rungs, one for each concurrency.
func NewInstance(points []Point) (Instance, error) {
	if len(points) == 0 {
		return Instance{}, fmt.Errorf("the ladder has no usable rung: nothing is known of the throughput of an instance")
	}
	rungs := slices.SortedFunc(slices.Values(points), func(a, b Point) int { return cmp.Compare(a.N, b.N) })
	for i, r := range rungs {
		if r.N < 1 || !(r.X > 0) || math.IsInf(r.X, 0) {
			return Instance{}, fmt.Errorf("rung N = %d completes %g a second: no model of an instance follows from that", r.N, r.X)
		}
		if i > 0 && rungs[i-1].N == r.N {
			return Instance{}, fmt.Errorf("two rungs of N = %d: they must be merged first", r.N)
		}
	}
	peak := 0
	for i, r := range rungs {
		if r.X > rungs[peak].X {
			peak = i
		}
	}
	// Pool adjacent violators (Ayer et al. 1955): each block is the mean, by samples, of rungs that ran against the order.
	type block struct{ sum, weight float64 }
	var blocks []block
	var size []int
	for _, r := range rungs[:peak+1] {
		weight := float64(max(1, r.Samples))
		blocks, size = append(blocks, block{r.X * weight, weight}), append(size, 1)
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
			m.n, m.x = append(m.n, float64(rungs[i].N)), append(m.x, blk.sum/blk.weight)
			i++
		}
	}
	for _, r := range rungs[peak+1:] {
		m.n, m.x = append(m.n, float64(r.N)), append(m.x, r.X)
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

// CS2 estimates the squared coefficient of variation of a service time from its median, its 95th percentile and its mean,
// as if it were normal there: ((p95 − p50) / 1.645 / mean)².
func CS2(p50, p95, mean float64) float64 {
	cv := (p95 - p50) / 1.645 / mean
	return cv * cv
}
