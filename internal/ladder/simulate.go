package ladder

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"loadline/internal/sample"
)

// Answer is a simulated endpoint: how a request sent at now seconds, with n in flight counting itself, is answered. mark
// and total are seconds from now.
type Answer func(now float64, n int) (mark, total float64, outcome sample.Outcome)

// Simulated is a search that was run in simulated time.
type Simulated struct {
	Result   Result
	Probes   int
	Requests int // completed, warm-up included
	Wall     time.Duration
}

// flights is requests in flight, the next to complete first.
type flights []sample.Request

func (f flights) Len() int           { return len(f) }
func (f flights) Less(i, j int) bool { return f[i].End < f[j].End }
func (f flights) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)        { *f = append(*f, x.(sample.Request)) }
func (f *flights) Pop() any {
	old := *f
	r := old[len(old)-1]
	*f = old[:len(old)-1]
	return r
}

// Simulate runs a search against an endpoint in simulated time, with a closed loop that keeps its streams alive between
// rungs and staggers new ones over one service time: what the search would do, by the code that does it.
func Simulate(s Searcher, answer Answer) Simulated {
	return simulate(s, answer, func(_ Probe, e Evidence) Evidence { return e })
}

// simulate lets the evidence of each rung be changed.
func simulate(s Searcher, answer Answer, evidence func(Probe, Evidence) Evidence) Simulated {
	var out Simulated
	var air flights
	var now, service sample.Nanos
	held := map[int]bool{}
	seq := 0
	send := func(at sample.Nanos, worker, rung int) {
		mark, total, outcome := answer(at.Duration().Seconds(), len(air)+1)
		r := sample.New(seq)
		seq++
		r.Worker, r.Rung, r.Intended, r.Started = worker, rung, at, at
		r.End = at + sample.Since(seconds(total))
		if r.Outcome = outcome; outcome == sample.OK {
			r.FirstAudio = at + sample.Since(seconds(mark))
			r.FirstAudible, r.Audio, r.Chars = r.FirstAudio, 1.6, 25
		} else {
			r.Cause = "simulated"
		}
		heap.Push(&air, r)
	}
	for {
		p, more := s.Next()
		if !more {
			break
		}
		out.Probes++
		if p.Idle > 0 {
			for len(air) > 0 {
				now = max(now, heap.Pop(&air).(sample.Request).End)
			}
			clear(held)
			now += sample.Since(p.Idle)
		}
		began := now
		var joining []int
		for w := range p.N {
			if !held[w] {
				joining = append(joining, w)
			}
		}
		joined := 0
		joins := func() sample.Nanos { return began + service*sample.Nanos(joined)/sample.Nanos(len(joining)) }
		for done := false; !done; {
			// The next event: a stream joins, or a request completes.
			if joined < len(joining) && (len(air) == 0 || joins() <= air[0].End) {
				w := joining[joined]
				held[w] = true
				send(joins(), w, p.Index)
				joined++
				continue
			}
			if len(air) == 0 {
				break
			}
			end := air[0].End
			if p.Hold > 0 && end > began+sample.Since(p.Hold) || end > began+sample.Since(p.MaxHold) {
				now = began + sample.Since(max(p.Hold, min(p.MaxHold, (end-began).Duration())))
				break
			}
			r := heap.Pop(&air).(sample.Request)
			now, service = end, r.End-r.Started
			out.Requests++
			if r.Worker < p.N {
				send(now, r.Worker, p.Index)
			} else {
				delete(held, r.Worker)
			}
			if r.Rung == p.Index {
				done = s.Add(r)
			}
		}
		s.Close(evidence(p, Evidence{Counts: []int{1, 1}, Began: began, Ended: now}))
	}
	out.Result, out.Wall = s.Result(), now.Duration()
	return out
}

// Serial is an endpoint that serves one request at a time, in order, each in service seconds give or take the relative
// spread; overhead is added to each outside the queue.
func Serial(service, spread, overhead float64, rng *rand.Rand) Answer {
	free := 0.0
	return func(now float64, n int) (mark, total float64, outcome sample.Outcome) {
		free = max(free, now) + service*max(1+spread*rng.NormFloat64(), 0.1)
		total = free - now + overhead
		return total, total, sample.OK
	}
}

// Cost is what a search is expected to take, and the most it can.
type Cost struct {
	Probes, Requests       int
	Wall                   time.Duration
	MaxProbes, MaxRequests int
	MaxWall                time.Duration
}

// EstimateSearch is the cost of an adaptive search of a serial endpoint, one that takes service a request. The most is
// every phase at its limit, with every rung at the most requests: no search was seen near it.
func EstimateSearch(c Config, service time.Duration) (Cost, error) {
	s, err := NewSearch(c)
	if err != nil {
		return Cost{}, err
	}
	sim := Simulate(s, Serial(service.Seconds(), 0.05, 0, rand.New(rand.NewPCG(1, 1))))
	out := Cost{Probes: sim.Probes, Requests: sim.Requests, Wall: sim.Wall, MaxProbes: mostProbes}
	top := 1
	for _, r := range sim.Result.Rungs {
		top = max(top, r.N)
	}
	each := s.c.scale(mostSamples) + 2*top
	out.MaxRequests = mostProbes * each
	out.MaxWall = time.Duration(mostProbes) * max(time.Duration(each)*service+s.c.SLO, s.c.CertifyHold)
	return out, nil
}

// EstimateSchedule is the cost of a fixed schedule where a request takes service at every rung, which is the most
// requests that it can make.
func EstimateSchedule(st Steps, service time.Duration) Cost {
	var out Cost
	for i, n := range st.Concurrency {
		out.Probes++
		out.Requests += int(float64(n) * st.Hold.Seconds() / service.Seconds())
		out.Wall += st.Hold
		if i > 0 {
			out.Wall += st.Idle
		}
	}
	out.MaxProbes, out.MaxRequests, out.MaxWall = out.Probes, out.Requests, out.Wall
	return out
}
