// Command deadline holds the order by playback deadline against a lock per request, in simulated time with the gate that
// the server runs, and in one point on a real server.
//
//	go run ./bench/deadline
//
// Q_max is the most listeners, each asking again when he has played a text to its end, of whom 95 % hear the first sound
// within 300 ms and at most 1 % hear silence in the middle. It prints the curves and exits 1 when a target is missed.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"loadline/bench/machine"
	"loadline/bench/times"
	"loadline/internal/admission"
)

// The replayed accelerator of the comparison, and the promise.
var accel = accelerator{cost: 20 * time.Millisecond, rtf: 0.02, perChar: 0.07}

const (
	slo   = 300 * time.Millisecond
	seeds = 5
	span  = 1500 * time.Second
)

func config(o admission.Order) admission.Config {
	return admission.Config{Order: o, SLO: slo, Margin: 150 * time.Millisecond, Ahead: 8 * time.Second}
}

// holds says whether n listeners are served as promised, in most of the seeds.
func holds(o admission.Order, n int) bool {
	ok := 0
	for seed := range seeds {
		r := closed(accel, config(o), n, uint64(seed), span)
		if kept(r) {
			ok++
		}
	}
	return 2*ok > seeds
}

func kept(r result) bool {
	return times.Quantile(r.first, 0.95) <= slo && float64(r.starved) <= 0.01*float64(len(r.first))
}

// qmax is the largest number that holds.
func qmax(o admission.Order) int {
	lo, hi := 0, 1
	for holds(o, hi) {
		lo, hi = hi, 2*hi
	}
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; holds(o, mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

func main() {
	live := flag.Duration("live", 2*time.Minute, "length of each live point; 0: none")
	flag.Parse()
	fmt.Printf("simulated: %v a piece and a real-time factor of %.2f, texts of 3 to 8 sentences (median 4 s each), first pieces of 1.2 and 2.4 s, %d seeds of %v; %s\n\n",
		accel.cost, accel.rtf, seeds, span, machine.String())
	bad := false
	judge := func(ok bool) string {
		if ok {
			return "PASS"
		}
		bad = true
		return "FAIL"
	}

	q := map[admission.Order]int{}
	fmt.Println("order     listeners   p50 ms   p95 ms   p99 ms   starved   busy")
	for _, o := range []admission.Order{admission.FIFO, admission.Deadline} {
		q[o] = qmax(o)
		for _, n := range []int{q[o] / 2, q[o], q[o] + 1, q[o] + q[o]/4 + 1} {
			var first []time.Duration
			starved, busy := 0, 0.0
			for seed := range seeds {
				r := closed(accel, config(o), n, uint64(seed), span)
				first = append(first, r.first...)
				starved += r.starved
				busy += r.busy / seeds
			}
			mark := ""
			if n == q[o] {
				mark = "  Q_max"
			}
			fmt.Printf("%-9s %9d %8.0f %8.0f %8.0f %8.2f %% %4.0f %%%s\n", o, n, times.MS(times.Quantile(first, 0.5)), times.MS(times.Quantile(first, 0.95)), times.MS(times.Quantile(first, 0.99)),
				100*float64(starved)/float64(len(first)), 100*busy, mark)
		}
	}
	gain := float64(q[admission.Deadline]) / float64(q[admission.FIFO])
	fmt.Printf("\nQ_max %d by deadline, %d by lock: %.1f times (target 6): %s\n\n", q[admission.Deadline], q[admission.FIFO], gain, judge(gain >= 6))

	overload(judge)
	if *live > 0 {
		alive(*live, q[admission.Deadline]*9/10, judge)
	}
	if bad {
		os.Exit(1)
	}
}

// overload offers up to three times of what is served at best, with the gate that predicts and without.
func overload(judge func(bool) string) {
	type point struct{ rate, good, kept float64 }
	run := func(predict bool, rates ...float64) (points []point) {
		c := config(admission.Deadline)
		c.Predict = predict
		for _, rate := range rates {
			var first []time.Duration
			var sum result
			for seed := range seeds {
				r := open(accel, c, rate, uint64(seed), span)
				first = append(first, r.first...)
				sum.good += r.good
				sum.offered += r.offered
				sum.refused += r.refused
				sum.busy += r.busy / seeds
				sum.duration += r.duration
			}
			p := point{rate, float64(sum.good) / sum.duration.Seconds(), float64(sum.good) / float64(len(first))}
			points = append(points, p)
			fmt.Printf("%10.1f %9d %6.1f %% %8.0f %34.2f %% %15.2f %5.0f %%\n", rate, sum.offered, 100*float64(sum.refused)/float64(sum.offered),
				times.MS(times.Quantile(first, 0.95)), 100*p.kept, p.good, 100*sum.busy)
		}
		return points
	}
	fmt.Println("open arrivals, gate by prediction:\n  a second   offered  refused   p95 ms  admitted in time and never starved   good a second   busy")
	gated := run(true, 0.5, 1, 1.2, 1.4, 1.6, 2, 3, 4.8)
	fmt.Println("without it:")
	all := append(slices.Clone(gated), run(false, 1, 1.2, 1.4, 1.5, 1.6, 4.8)...)
	peak := slices.MaxFunc(all, func(a, b point) int { return cmp.Compare(a.good, b.good) })
	last := gated[len(gated)-1]
	fmt.Printf("\nat %.1f times the peak of either, %.2f a second: %.2f %% of the admitted inside the promise (target 99 %%): %s; goodput %.1f %% of the peak (target 95 %%): %s\n\n",
		last.rate/peak.good, peak.good, 100*last.kept, judge(last.kept >= 0.99), 100*last.good/peak.good, judge(last.good >= 0.95*peak.good))
}
