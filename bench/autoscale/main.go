// Command autoscale measures what a week of alarms and policies costs on a virtual clock: a hundred scalable targets, each
// with a tracker on the rate and one on the concurrency at high resolution, a step policy with a ten-second alarm of its
// own, and a load that follows the day.
//
//	go run ./bench/autoscale
//
// It is judged by the processor time that it takes, which other programs do not lengthen; the wall time stands beside it.
package main

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"loadline/internal/alarm"
	"loadline/internal/autoscale"
)

const budget = 10 * time.Second

func main() {
	targets := flag.Int("targets", 100, "scalable targets")
	days := flag.Int("days", 7, "days to simulate")
	flag.Parse()
	fmt.Printf("%d targets with 3 policies and 5 alarms each, %d days; %s, %d processors, %s\n",
		*targets, *days, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	before, began := used(), time.Now()
	w := newWeek(*targets)
	changes := w.run(time.Duration(*days) * 24 * time.Hour)
	cpu, wall := used()-before, time.Since(began)
	per := cpu / time.Duration(w.alarms)
	fmt.Printf("%d evaluations, %d changes of capacity: %.2f s of processor time (%s an evaluation), %.2f s by the clock\n",
		w.alarms, changes, cpu.Seconds(), per, wall.Seconds())
	if cpu > budget {
		fmt.Printf("FAIL: the target is %s\n", budget)
		os.Exit(1)
	}
	fmt.Printf("ok: the target is %s\n", budget)
}

// used is the processor time of this process so far.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// week is many resources under a load that follows the day, each with three policies and five alarms.
type week struct {
	s       *autoscale.Scaler
	now     time.Time
	start   time.Time
	fleet   map[string]*unit // by resource
	byName  map[string]*unit // by endpoint
	ids     []string
	changes int
	alarms  int // evaluated
}

type unit struct {
	autoscale.Capacity
	due   time.Time
	phase float64
	// Two metrics in ten-second slots, the newest last: what Read hands out. Older slots fall off the front.
	slots [2][]float64
	first int // number of slots[0]
}

const slot = 10 * time.Second

func newWeek(n int) *week {
	w := &week{start: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), fleet: map[string]*unit{}, byName: map[string]*unit{}}
	w.now = w.start
	w.s = autoscale.New(autoscale.Config{Data: w, Fleet: w, Rand: rand.New(rand.NewPCG(1, 2))})
	least, most := 1, 40
	for i := range n {
		id := fmt.Sprintf("endpoint/e%03d/variant/v", i)
		w.fleet[id] = &unit{Capacity: autoscale.Capacity{Desired: 2, Current: 2}, phase: float64(i) / float64(n)}
		w.byName[id[9:13]] = w.fleet[id]
		w.ids = append(w.ids, id)
		must(w.s.Register(w.now, autoscale.Registration{Resource: id, Min: &least, Max: &most}))
		must(w.s.PutPolicy(w.now, autoscale.Policy{Name: "rate", Resource: id, Tracking: &autoscale.Tracking{Target: 600, Predefined: "SageMakerVariantInvocationsPerInstance"}}))
		must(w.s.PutPolicy(w.now, autoscale.Policy{Name: "fast", Resource: id, Tracking: &autoscale.Tracking{Target: 2.5,
			Predefined: "SageMakerVariantConcurrentRequestsPerModelHighResolution"}}))
		zero := 0.0
		p := must(w.s.PutPolicy(w.now, autoscale.Policy{Name: "step", Resource: id, Step: &autoscale.Step{Adjustment: autoscale.ChangeInCapacity, Steps: []autoscale.StepAdjustment{{Lower: &zero, Change: 2}}}}))
		if err := w.s.PutAlarm(w.now, alarm.Alarm{Name: id, ActionsEnabled: true, AlarmActions: []string{p.ARN}, Period: slot, Periods: 3,
			Threshold: 20, Comparison: alarm.Above, Query: alarm.Query{Namespace: "AWS/SageMaker", Name: "ConcurrentRequestsPerModel", Statistic: "Maximum",
				Dims: []alarm.Dimension{{Name: "EndpointName", Value: id[9:13]}}}}); err != nil {
			panic(err)
		}
	}
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w *week) Capacity(id string) (autoscale.Capacity, error) { return w.fleet[id].Capacity, nil }

func (w *week) SetCapacity(id string, now time.Time, n int) error {
	u := w.fleet[id]
	w.changes++
	u.Desired, u.Busy, u.due = n, true, now.Add(4*time.Minute)
	return nil
}

// Read copies slots, or sums six of them, from the newest backwards.
func (w *week) Read(q *alarm.Query, period time.Duration, end, now time.Time, values []float64) {
	w.alarms++
	u := w.byName[q.Dims[0].Value]
	kind, per := 0, int(period/slot)
	if strings.HasPrefix(q.Name, "C") {
		kind = 1
	}
	at := int(end.Sub(w.start)/slot) - u.first
	slots := u.slots[kind]
	if n := min(at, len(values)); per == 1 && n > 0 && at <= len(slots) {
		for i, v := range slots[at-n : at] {
			values[n-1-i] = v
		}
		if values, at = values[n:], at-n; len(values) == 0 {
			return
		}
	}
	for i := range values {
		v := math.NaN()
		if from := at - per; from >= 0 && at <= len(slots) {
			v = 0
			for _, x := range slots[from:at] {
				v += x
			}
		}
		values[i] = v
		at -= per
	}
}

// load is invocations per second on a resource at a time.
func (u *unit) load(seconds float64) float64 {
	return 60 + 50*math.Sin(2*math.Pi*(seconds/86400+u.phase))
}

func (w *week) run(d time.Duration) int {
	for n := range int(d / slot) {
		w.now = w.start.Add(time.Duration(n+1) * slot)
		for _, id := range w.ids {
			u := w.fleet[id]
			per := u.load(float64(n)*slot.Seconds()) / float64(u.Current)
			rho := min(per/18, 0.98)
			u.slots[0] = append(u.slots[0], per*slot.Seconds())
			u.slots[1] = append(u.slots[1], rho/(1-rho))
			if len(u.slots[0]) > 400 {
				for k := range u.slots {
					u.slots[k] = append(u.slots[k][:0], u.slots[k][200:]...)
				}
				u.first += 200
			}
			if u.Busy && !u.due.After(w.now) {
				u.Busy, u.Current = false, u.Desired
				w.s.Settled(w.now, id)
			}
		}
		w.s.Advance(w.now)
	}
	return w.changes
}
