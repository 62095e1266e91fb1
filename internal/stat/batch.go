package stat

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// fewestBatches is the fewest batch means whose variance is worth anything.
const fewestBatches = 5

// EffectiveN is how many independent samples the late indicators, in order of completion, are worth: batch means over
// batches of √n, n·p(1−p)/(b·Var). Never more than n. p is the probability that independent samples would scatter their
// batches so widely: a small one says that they are correlated. Where nothing or everything is late, or there are too
// few for five batches, nothing can be seen and the answer is (n, 1).
func EffectiveN(late []bool) (n, p float64) {
	all := len(late)
	size := int(math.Sqrt(float64(all)))
	n = float64(all)
	if size == 0 || all/size < fewestBatches {
		return n, 1
	}
	batches := all / size
	late = late[all-batches*size:]
	means := make([]float64, batches)
	share := 0.0
	for i, l := range late {
		if l {
			means[i/size] += 1 / float64(size)
			share += 1 / float64(len(late))
		}
	}
	if share == 0 || share > 1-1e-9 {
		return n, 1
	}
	ratio := float64(size) * variance(means) / (share * (1 - share))
	df := float64(batches - 1)
	return n / max(ratio, 1), distuv.ChiSquared{K: df}.Survival(ratio * df)
}

// Rate is the events a second in (from, to], with a confidence interval from the times that equal batches of events took:
// counts of equal times would show a steady server no scatter at all. at is the times of the events in seconds, ascending.
// False: too few events for an interval.
func Rate(at []float64, from, to, confidence float64) (rate, low, high float64, ok bool) {
	if to <= from {
		return math.NaN(), 0, 0, false
	}
	first := sort.Search(len(at), func(i int) bool { return at[i] > from })
	last := sort.Search(len(at), func(i int) bool { return at[i] > to })
	at = at[first:last]
	rate = float64(len(at)) / (to - from)
	batches := min(int(math.Sqrt(float64(len(at)))), 30)
	if batches < fewestBatches {
		return rate, 0, 0, false
	}
	size := len(at) / batches
	took := make([]float64, batches)
	for b := range took {
		end := at[(b+1)*size-1]
		took[b] = end - from
		from = end
	}
	mean, half := Mean(took), HalfWidth(took, confidence)
	if half >= mean {
		return rate, 0, 0, false
	}
	return rate, min(float64(size)/(mean+half), rate), max(float64(size)/(mean-half), rate), true
}

// HalfWidth of the confidence interval of the mean of two or more independent values, by Student's t.
func HalfWidth(xs []float64, confidence float64) float64 {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(xs) - 1)}.Quantile((1 + confidence) / 2)
	return t * math.Sqrt(variance(xs)/float64(len(xs)))
}

// LagOne is what pairs of neighbours say of the correlation of late indicators: the sum of (x_i − p)(x_{i+1} − p) and
// that of (x_i − p)². Sums of several rungs add up to a pooled correlation, their ratio.
func LagOne(late []bool) (cross, square float64) {
	p := 0.0
	for _, l := range late {
		if l {
			p += 1 / float64(len(late))
		}
	}
	d := func(i int) float64 {
		if late[i] {
			return 1 - p
		}
		return -p
	}
	for i := range late {
		square += d(i) * d(i)
		if i > 0 {
			cross += d(i) * d(i-1)
		}
	}
	return cross, square
}
