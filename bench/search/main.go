// Command search measures the quality of the adaptive search: the production search against simulated endpoints in
// simulated time, many seeds an endpoint, with independent and with correlated requests.
//
//	go run ./bench/search
//
// It prints a table and exits 1 when a target is missed. Columns: searches that gave an answer; answers within the range
// of the endpoint; answers above the truth; the answer over the truth at 2.5, 50 and 97.5 %; rungs held (most); requests
// that decisions rest on; requests sent, warm-ups included (most); seconds of simulated time. An objective is one second:
// a hold must outlast it, so at N = 700 most requests only pass the time.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	"loadline/internal/ladder"
	"loadline/internal/sample"
	"loadline/internal/stat"
)

const slo = time.Second

// truths are spread over the concurrencies that are searched.
var truths = []int{3, 37, 120, 700}

// outcome of one search.
type outcome struct {
	q, truth         int // q 0: no answer
	wrong, inside    bool
	probes, requests int
	judged           int           // requests that decisions rest on
	wall             time.Duration // simulated
}

func one(l law, truth int, correlation float64, seed uint64) outcome {
	rng := rand.New(rand.NewPCG(seed, uint64(truth)))
	edge := float64(truth) + 0.5
	s, err := ladder.NewSearch(ladder.Config{SLO: slo})
	if err != nil {
		panic(err) // a constant is wrong
	}
	var sim ladder.Simulated
	if correlation == 0 {
		sim = ladder.Simulate(s, l.independent(edge, rng))
	} else {
		sim = chain(s, &correlated{law: l, truth: edge, correlation: correlation, rng: rng, now: 100})
	}
	o := outcome{truth: truth, probes: sim.Probes, requests: sim.Requests, wall: sim.Wall}
	for _, r := range sim.Result.Rungs {
		o.judged += r.Samples
	}
	if q := sim.Result.QMax; q != nil {
		share := float64(*q) / float64(truth)
		o.q, o.wrong, o.inside = *q, *q > truth, share >= l.low && share <= l.high
	}
	return o
}

// chain runs a search on correlated requests.
func chain(s ladder.Searcher, c *correlated) ladder.Simulated {
	var out ladder.Simulated
	for {
		p, more := s.Next()
		if !more {
			break
		}
		next, began := c.rung(p.N), sample.Nanos(c.now*1e9)
		for done := false; !done; {
			r := next()
			r.Rung = p.Index
			done = s.Add(r) || (r.End-began).Duration() > p.MaxHold
			out.Requests++
		}
		s.Close(ladder.Evidence{Began: began, Ended: sample.Nanos(c.now * 1e9)})
		out.Probes++
	}
	out.Result, out.Wall = s.Result(), time.Duration(c.now*1e9)
	return out
}

// all searches of a law at a truth, one for each seed.
func all(l law, truth int, correlation float64, seeds int) []outcome {
	out := make([]outcome, seeds)
	var wg sync.WaitGroup
	for w := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := w; i < seeds; i += runtime.GOMAXPROCS(0) {
				out[i] = one(l, truth, correlation, uint64(i)+1)
			}
		})
	}
	wg.Wait()
	return out
}

// tally of outcomes.
type tally struct {
	n, answers, wrong, inside int
	ratios                    []float64
	probes, requests, judged  float64
	wall                      float64 // seconds
	mostProbes, mostRequests  int
}

func (t *tally) add(os []outcome) {
	for _, o := range os {
		t.n++
		if o.q > 0 {
			t.answers++
			t.ratios = append(t.ratios, float64(o.q)/float64(o.truth))
		}
		if o.wrong {
			t.wrong++
		}
		if o.inside {
			t.inside++
		}
		t.probes += float64(o.probes)
		t.requests += float64(o.requests)
		t.judged += float64(o.judged)
		t.wall += o.wall.Seconds()
		t.mostProbes, t.mostRequests = max(t.mostProbes, o.probes), max(t.mostRequests, o.requests)
	}
}

func (t *tally) mean(x float64) float64 { return x / float64(max(t.n, 1)) }

// interval is k of n in percent with its exact 95 % interval (Clopper and Pearson).
func interval(k, n int) string {
	solve := func(tail func(p float64) float64) float64 { // where a falling tail is 2.5 %
		lo, hi := 0.0, 1.0
		for range 50 {
			if p := (lo + hi) / 2; tail(p) > 0.025 {
				lo = p
			} else {
				hi = p
			}
		}
		return lo
	}
	upper := solve(func(p float64) float64 { return stat.AtMost(float64(n), float64(k), p) })
	lower := 1 - solve(func(p float64) float64 { return stat.AtMost(float64(n), float64(n-k), p) })
	return fmt.Sprintf("%5.1f %% (%.1f–%.1f)", 100*float64(k)/float64(n), 100*lower, 100*upper)
}

func (t *tally) row(w io.Writer, name string) {
	s := stat.Sorted(t.ratios)
	q := func(p float64) float64 {
		if len(s) == 0 {
			return 0
		}
		return stat.Percentile(s, p)
	}
	fmt.Fprintf(w, "%-18s %5d %7.1f %%  %s  %s  %.2f %.2f %.2f  %5.1f (%d)  %6.0f  %6.0f (%d)  %5.0f\n", name, t.n, 100*float64(t.answers)/float64(t.n),
		interval(t.inside, t.n), interval(t.wrong, t.n), q(2.5), q(50), q(97.5), t.mean(t.probes), t.mostProbes, t.mean(t.judged), t.mean(t.requests), t.mostRequests, t.mean(t.wall))
}

// bench runs everything with so many seeds a law and truth, prints it, and says whether every target was met.
func bench(w io.Writer, truths []int, seeds int) bool {
	ok := true
	check := func(name string, got, limit float64, below bool) {
		word := "met"
		if below && got > limit || !below && got < limit {
			word, ok = "MISSED", false
		}
		sign := "at least"
		if below {
			sign = "at most"
		}
		fmt.Fprintf(w, "  %-62s %8.2f, %s %g: %s\n", name, got, sign, limit, word)
	}
	percent := func(k, n int) float64 { return 100 * float64(k) / float64(max(n, 1)) }
	for _, correlation := range []float64{0, 0.7} {
		fmt.Fprintf(w, "\nlate indicators of neighbours correlated by %.1f\n%-18s %5s %9s  %-20s  %-20s  %-14s  %10s  %6s  %13s  %5s\n", correlation,
			"endpoint, truth", "runs", "answered", "within the range", "wrong certificate", "Q/truth", "probes", "judged", "sent", "wall")
		var total tally
		var targets []func()
		for _, l := range laws {
			var sum tally
			for _, truth := range truths {
				os := all(l, truth, correlation, seeds)
				var t tally
				t.add(os)
				t.row(w, fmt.Sprintf("%s, %d", l.name, truth))
				sum.add(os)
			}
			sum.row(w, l.name+", all")
			merge(&total, &sum)
			if correlation == 0 {
				targets = append(targets, func() {
					check(fmt.Sprintf("%s: %% of answers within [%.2f, %.2f] × truth", l.name, l.low, l.high), percent(sum.inside, sum.n), 95, false)
				})
			}
		}
		total.row(w, "all")
		for _, t := range targets {
			t()
		}
		if correlation == 0 {
			check("wrong certificates, pooled, %", percent(total.wrong, total.n), 2, true)
			check("requests judged, mean", total.mean(total.judged), 4000, true)
			check("probes, mean", total.mean(total.probes), 14, true)
		} else {
			check("wrong certificates, pooled, %", percent(total.wrong, total.n), 7, true)
		}
	}
	return ok
}

func merge(a, b *tally) {
	a.n, a.answers, a.wrong, a.inside = a.n+b.n, a.answers+b.answers, a.wrong+b.wrong, a.inside+b.inside
	a.ratios = append(a.ratios, b.ratios...)
	a.probes, a.requests, a.judged = a.probes+b.probes, a.requests+b.requests, a.judged+b.judged
	a.wall += b.wall
	a.mostProbes, a.mostRequests = max(a.mostProbes, b.mostProbes), max(a.mostRequests, b.mostRequests)
}

func main() {
	seeds := flag.Int("seeds", 200, "searches for each endpoint and truth")
	flag.Parse()
	began := time.Now()
	fmt.Printf("search quality: %d processors, %s, seeds 1 to %d for each endpoint and truth, simulated time\n", runtime.GOMAXPROCS(0), runtime.Version(), *seeds)
	ok := bench(os.Stdout, truths, *seeds)
	fmt.Printf("\ntook %s\n", time.Since(began).Round(time.Second))
	if !ok {
		fmt.Println("a target was missed")
		os.Exit(1)
	}
}
