package sim

import "math"

// tally is what became of requests, and how long those waited that were served.
type tally struct {
	offered, completed, late, shed, unserved, abandoned, cut, retried, failed, wasted float64

	first waits
}

func (t *tally) add(o *tally) {
	t.offered += o.offered
	t.completed += o.completed
	t.late += o.late
	t.shed += o.shed
	t.unserved += o.unserved
	t.abandoned += o.abandoned
	t.cut += o.cut
	t.retried += o.retried
	t.failed += o.failed
	t.wasted += o.wasted
	t.first.add(&o.first)
}

// refused is the attempts that got nothing.
func (t *tally) refused() float64 { return t.shed + t.unserved + t.abandoned + t.cut }

// waits is a histogram of times in bins of a 32nd of an octave, 3 %, from 2⁻¹⁴ to 2¹⁴ s.
type waits struct {
	n   float64
	bin [bins]float64
}

const (
	octaves = 28
	perOct  = 32
	bins    = octaves * perOct
	lowest  = 1.0 / (1 << (octaves / 2))
)

// lowestBits is the exponent and the first five bits of the mantissa of the lowest bin's edge.
const lowestBits = (1023 - octaves/2) << 5

// binOf reads the bin off the number's own bits: its logarithm would cost as much as the rest of a request.
func binOf(s float64) int {
	if s < lowest {
		return 0
	}
	return min(int(math.Float64bits(s)>>47)-lowestBits, bins-1)
}

// edge is the lower edge of a bin.
func edge(i int) float64 {
	return lowest * math.Ldexp(1+float64(i%perOct)/perOct, i/perOct)
}

func (w *waits) observe(s, n float64) {
	w.bin[binOf(s)] += n
	w.n += n
}

func (w *waits) add(o *waits) {
	if o.n == 0 {
		return
	}
	w.n += o.n
	for i, n := range o.bin {
		w.bin[i] += n
	}
}

// quantile is the time that a share p did not exceed, 0 where there is none.
func (w *waits) quantile(p float64) float64 {
	want := p * w.n
	for i, n := range w.bin {
		if n > 0 && want <= n {
			lo := edge(i)
			return lo + (edge(i+1)-lo)*want/n
		}
		want -= n
	}
	return 0
}
