package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"loadline/internal/autoscale"
)

// Policies that are none.
const (
	byBounds = "bounds" // of the target: its minimum or maximum
	byDeploy = "deploy"
)

// result is the account of a world that has been played to its end.
func (w *world) result(mode string) Result {
	seconds := w.long.Seconds()
	t := &w.total
	r := Result{
		Mode: mode, Workload: w.c.workload(), Unknowns: w.c.Unknowns.String(),
		MeanInFlight: w.inFlight / seconds, MeanInstances: w.serving / seconds, PeakInstances: w.peak,
		Offered: t.offered, Completed: t.completed, Late: t.late, Shed: t.shed, Unserved: t.unserved, Abandoned: t.abandoned,
		Cut: t.cut, Retried: t.retried, Failed: t.failed, Wasted: t.wasted,
		P50: t.first.quantile(0.5), P95: t.first.quantile(0.95), P99: t.first.quantile(0.99),
		Changes: []Change{}, Refusals: []Change{}, Timeline: w.points,
	}
	r.InstanceHours = w.paid
	var open []float64 // summed in one order, so that the same is always the same
	for _, since := range w.since {
		open = append(open, (w.long - since).Hours())
	}
	slices.Sort(open)
	for _, h := range open {
		r.InstanceHours += h
	}
	if w.c.Price != nil {
		cost := r.InstanceHours * *w.c.Price
		r.Cost = &cost
	}
	w.explain(&r)
	var turns []float64
	way := 0
	for _, c := range r.Changes {
		now := 1
		if c.To < c.From {
			now = -1
		}
		if c.From == c.To {
			continue
		}
		if way != 0 && now != way {
			turns = append(turns, c.At)
		}
		way = now
	}
	r.DirectionChanges = len(turns)
	for i, from := 0, 0; i < len(turns); i++ {
		for turns[i]-turns[from] >= 3600 {
			from++
		}
		r.MostAnHour = max(r.MostAnHour, i-from+1)
	}
	return r
}

// explain joins what was asked of the fleet with what the autoscaler wrote about it.
func (w *world) explain(r *Result) {
	log := w.scaler.Activities(resourceID)
	slices.Reverse(log)
	calls := w.calls
	take := func() (call, bool) {
		for len(calls) > 0 && calls[0].deploy {
			c := calls[0]
			calls = calls[1:]
			c.Policy = byDeploy
			if c.failed {
				r.Refusals = append(r.Refusals, c.Change)
				continue
			}
			c.Cause, c.Status = "a deployment that does not retain the counts", string(autoscale.Successful)
			r.Changes = append(r.Changes, c.Change)
		}
		if len(calls) == 0 {
			return call{}, false
		}
		c := calls[0]
		calls = calls[1:]
		return c, true
	}
	action, actionAt := "", time.Time{} // the scheduled action that acted last
	for _, a := range log {
		if name, ok := strings.CutPrefix(a.Cause, "scheduled action name "); ok {
			action, actionAt = strings.TrimSuffix(name, " was triggered"), a.Start
			if a.Status == autoscale.Failed {
				r.refuse(Change{At: a.Start.Sub(w.start).Seconds(), Policy: action, Cause: a.Message, Status: string(a.Status)})
			}
			continue
		}
		policy := byBounds
		if _, name, ok := strings.Cut(a.Cause, " triggered policy "); ok {
			policy = name
		} else if action != "" && a.Start.Equal(actionAt) {
			policy = action
		}
		if a.NotScaled != "" {
			r.refuse(Change{At: a.Start.Sub(w.start).Seconds(), From: a.Capacity, To: a.Capacity, Policy: policy, Cause: a.NotScaled, Status: string(a.Status)})
			continue
		}
		if a.Message == "" { // it never came to be asked
			continue
		}
		c, ok := take()
		if !ok {
			break
		}
		c.Policy, c.Cause, c.Status = policy, a.Cause, string(a.Status)
		switch {
		case c.failed:
			c.Cause = a.Message
			r.refuse(c.Change)
			continue
		case a.Status == autoscale.Unfulfilled:
			failed := c.Change
			failed.Cause = a.Message
			r.refuse(failed)
		}
		r.Changes = append(r.Changes, c.Change)
	}
	take() // deployments after the last change
	slices.SortStableFunc(r.Changes, func(a, b Change) int { return int(a.At*1000) - int(b.At*1000) })
	slices.SortStableFunc(r.Refusals, func(a, b Change) int { return int(a.At*1000) - int(b.At*1000) })
}

// refuse adds a refusal, unless it is the one before once more.
func (r *Result) refuse(c Change) {
	if n := len(r.Refusals); n > 0 {
		if last := r.Refusals[n-1]; last.Policy == c.Policy && last.Cause == c.Cause && last.To == c.To {
			return
		}
	}
	r.Refusals = append(r.Refusals, c)
}

func (c *Config) workload() Workload {
	load := c.Load
	w := Workload{Name: c.Name, Seed: c.Seed, Start: c.start().Format(time.RFC3339), DurationS: load.Len().Seconds(), Requests: load.Expected(load.Len())}
	for _, p := range load {
		w.PeakRPS = max(w.PeakRPS, p.Rate)
	}
	if c.Arrivals != nil {
		w.Requests = float64(len(c.Arrivals))
	}
	h := sha256.New()
	fmt.Fprintln(h, w.Seed, w.Start, c.Even, load, c.Arrivals, c.Retry)
	for _, in := range c.Incidents {
		fmt.Fprintln(h, in.At, in.Lose, in.Slow, in.Deploy)
		if in.Faults != nil {
			fmt.Fprintln(h, *in.Faults) // a map is printed in the order of its keys
		}
	}
	s := c.Server
	fmt.Fprintln(h, s.x, s.stages, s.places, s.slo, s.first)
	w.Digest = hex.EncodeToString(h.Sum(nil)[:8])
	return w
}
