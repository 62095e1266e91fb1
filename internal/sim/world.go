package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/fleet"
)

const (
	endpointName = "simulated"
	variantName  = "primary"
	instanceType = "instance"
)

var resourceID = autoscale.Resource{Endpoint: endpointName, Variant: variantName}.ID()

// defaultDrain is what the platform gives a container between the signal to end and its end.
const defaultDrain = 30 * time.Second

// player plays the traffic between the instants at which anything about the fleet changes. Times are seconds from the
// start.
type player interface {
	add(id string)                                          // an instance takes traffic from now on
	drain(id string)                                        // it takes no more
	drop(id string)                                         // it is gone, and what it held is cut
	play(from, to float64)                                  // nothing changes in between
	emptied() []string                                      // of those that drain, in order
	slow(factor float64)                                    // everything takes so many times as long as at first
	read(seconds float64) (concurrency level, work float64) // of the period that ends; work in services
	step() time.Duration                                    // longest that may be played at once
	flush(t *tally) (inFlight float64)                      // what happened since it was last asked; in flight summed over time
	arrived() (requests float64)                            // attempts that found an instance, since it was last asked
}

// world is one simulation under way: the fleet, the autoscaler, the metrics and the account.
type world struct {
	c       Config
	start   time.Time
	now     time.Duration
	long    time.Duration
	play    player
	ep      *fleet.Endpoint
	scaler  *autoscale.Scaler
	meters  meters
	rng     *rand.Rand // of containers' starts
	settled bool

	starting  []report
	leaving   []report // when each is ended
	incidents []Incident

	live, draining int
	since          map[string]time.Duration // of every instance that is paid
	paid           float64                  // hours of those that are gone
	serving        float64                  // instance-seconds in service
	peak           int
	calls          []call
	per            float64 // of the period under way: invocations over instances
	asked          float64 // and invocations
	inService      float64 // and instance-seconds

	total, part tally
	inFlight    float64 // request-seconds
	partServing float64
	partCPU     float64
	point       time.Duration
	points      []Point
	nextPoint   time.Duration
}

// report is an instance and when something of it is due.
type report struct {
	at time.Duration
	id string
}

// call is one change of the desired capacity that was asked for.
type call struct {
	Change
	failed bool
	deploy bool
}

func newWorld(c Config) (*world, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	w := &world{c: c, start: c.start(), long: c.Load.Len(), since: map[string]time.Duration{},
		rng: rand.New(rand.NewPCG(c.Seed, causeFleet))}
	w.meters = meters{start: w.start, delay: c.Unknowns.Delay}
	w.incidents = slices.Clone(c.Incidents)
	slices.SortStableFunc(w.incidents, func(a, b Incident) int { return int(a.At - b.At) })
	if w.point = c.Point; w.point == 0 {
		w.point = period
		if p := (w.long / 240).Round(time.Minute); p > period {
			w.point = p
		}
	}
	w.nextPoint = w.point
	return w, nil
}

// The random streams, one for each cause.
const (
	causeArrivals = iota + 1
	causeRouting
	causeFleet
	causeStages
	causeNames
	causeRetries
	causeNoise
	causeService // and one for each instance from here on
)

func (c *Config) start() time.Time {
	if c.Start.IsZero() {
		return time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	}
	return c.Start
}

func (c *Config) check() error {
	var bad []error
	when := func(is bool, format string, a ...any) {
		if is {
			bad = append(bad, fmt.Errorf(format, a...))
		}
	}
	when(c.Server == nil, "server: there is none")
	when(len(c.Load) < 2, "load: it has %d points, at least 2 are needed", len(c.Load))
	when(c.Initial < 1, "initial: %d instances at the start, at least 1 is needed", c.Initial)
	when(!c.start().Equal(c.start().Truncate(time.Minute)), "start: %s is no whole minute", c.Start)
	when(c.Point%period != 0 || c.Point < 0, "point: %s is no multiple of %s", c.Point, period)
	when(c.Scaling.Min < 0 || c.Scaling.Max < c.Scaling.Min, "scaling: minimum %d and maximum %d", c.Scaling.Min, c.Scaling.Max)
	when(c.Scaling.Max == 0 && len(c.Scaling.Policies)+len(c.Scaling.Scheduled) > 0, "scaling: policies without a maximum")
	when(!slices.IsSorted(c.Arrivals), "arrivals: they are not in order")
	when(c.Retry.Attempts < 0 || c.Retry.Attempts > mostAttempts, "retry: %d attempts, 0 to %d are played", c.Retry.Attempts, mostAttempts)
	when(c.Retry.Attempts > 1 && c.Retry.Backoff < time.Millisecond, "retry: a back-off of %s, at least 1 ms is needed", c.Retry.Backoff)
	when(c.Retry.Budget < 0 || c.Retry.Patience < 0, "retry: a budget or a patience below 0")
	if c.Server != nil {
		when(c.Server.depth != c.Gate.Depth, "gate: it holds %d requests and the server's model %d: they must be the same", c.Gate.Depth, c.Server.depth)
	}
	for i, in := range c.Incidents {
		kinds := 0
		for _, is := range []bool{in.Lose != 0, in.Slow != 0, in.Deploy != 0, in.Faults != nil} {
			if is {
				kinds++
			}
		}
		when(kinds != 1 || in.Lose < 0 || in.Lose > 1 || in.Slow < 0 || in.Deploy < 0 || in.At < 0,
			"incidents[%d]: it must have exactly one kind, a share of 0 to 1, nothing negative", i)
	}
	for _, p := range c.Scaling.Policies {
		if p.Tracking != nil && p.Tracking.Custom != nil {
			if err := known(p.Tracking.Custom); err != nil {
				bad = append(bad, fmt.Errorf("policy %s: %w", p.Name, err))
			}
		}
	}
	for _, a := range c.Scaling.Alarms {
		if err := known(&a.Query); err != nil {
			bad = append(bad, fmt.Errorf("alarm %s: %w", a.Name, err))
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("simulation: %w", errors.Join(bad...))
	}
	return nil
}

// run plays the whole.
func (w *world) run() error {
	cfg := fleet.Config{Name: endpointName, AtOnce: true, Faults: w.c.Faults, Variants: []fleet.VariantConfig{{
		Name: variantName, InstanceType: instanceType, Initial: w.c.Initial, Weight: 1, Stages: w.c.Stages.Stages}}}
	ep, events, err := fleet.New(cfg, w.start, rand.New(rand.NewPCG(w.c.Seed, causeStages)))
	if err != nil {
		return fmt.Errorf("simulation: %w", err)
	}
	w.ep = ep
	w.handle(events)
	for w.healthy(true) {
	}
	if err := w.scale(); err != nil {
		return fmt.Errorf("simulation: %w", err)
	}
	w.due()
	for w.now < w.long {
		to := w.next()
		w.play.play(w.now.Seconds(), to.Seconds())
		serving := (to - w.now).Seconds() * float64(w.live+w.draining)
		w.serving += serving
		w.partServing += serving
		w.inService += serving
		n := w.play.arrived()
		w.asked += n
		if w.live > 0 {
			w.per += n / float64(w.live)
		}
		w.now = to
		w.due()
	}
	return nil
}

// scale puts the scalable target and its policies in place.
func (w *world) scale() error {
	s := w.c.Scaling
	w.scaler = autoscale.New(autoscale.Config{Unknowns: w.c.Unknowns, Data: &w.meters, Fleet: (*scaled)(w), Rand: rand.New(rand.NewPCG(w.c.Seed, causeNames))})
	if s.Max == 0 {
		return nil
	}
	least, most := max(1, s.Min), s.Max
	if _, err := w.scaler.Register(w.start, autoscale.Registration{Resource: resourceID, Min: &least, Max: &most}); err != nil {
		return err
	}
	arns := map[string]string{}
	for _, p := range s.Policies {
		p.Resource = resourceID
		put, err := w.scaler.PutPolicy(w.start, p)
		if err != nil {
			return fmt.Errorf("policy %s: %w", p.Name, err)
		}
		arns[p.Name] = put.ARN
	}
	for _, a := range s.Alarms {
		arn, ok := arns[a.Policy]
		if !ok {
			return fmt.Errorf("alarm %s acts for policy %q, which there is not", a.Name, a.Policy)
		}
		a.Alarm.ActionsEnabled, a.Alarm.AlarmActions = true, []string{arn}
		if err := w.scaler.PutAlarm(w.start, a.Alarm); err != nil {
			return err
		}
	}
	for _, a := range s.Scheduled {
		a.Resource = resourceID
		if _, err := w.scaler.PutScheduled(w.start, a); err != nil {
			return fmt.Errorf("scheduled action %s: %w", a.Name, err)
		}
	}
	return nil
}

// next is when anything may change again.
func (w *world) next() time.Duration {
	to := min(w.long, w.now-w.now%period+period, w.now+w.play.step(), w.nextPoint)
	sooner := func(at time.Duration) {
		if at < to {
			to = max(at, w.now)
		}
	}
	if at, ok := w.ep.Next(); ok {
		sooner(at.Sub(w.start))
	}
	for _, r := range w.starting {
		sooner(r.at)
	}
	for _, r := range w.leaving {
		sooner(r.at)
		to = min(to, w.now+time.Second) // whether it has emptied is looked at each second
	}
	if len(w.incidents) > 0 {
		sooner(w.incidents[0].At)
	}
	if at, ok := w.scaler.Next(); ok {
		sooner(at.Sub(w.start))
	}
	return to
}

func (w *world) at() time.Time { return w.start.Add(w.now) }

// due does what is due now.
func (w *world) due() {
	for len(w.incidents) > 0 && w.incidents[0].At <= w.now {
		in := w.incidents[0]
		w.incidents = w.incidents[1:]
		w.happen(in)
	}
	for w.healthy(false) {
	}
	w.handle(w.ep.Advance(w.at()))
	for w.healthy(false) { // what has a start of no time
	}
	w.left(w.play.emptied())
	var over []string
	for _, r := range w.leaving {
		if r.at <= w.now {
			w.play.drop(r.id)
			over = append(over, r.id)
		}
	}
	w.left(over)
	if w.now > 0 && w.now%period == 0 {
		w.publish()
	}
	w.settle()
	if at, ok := w.scaler.Next(); ok && !at.After(w.at()) {
		w.scaler.Advance(w.at())
		w.settle()
	}
	if w.now == w.nextPoint || w.now == w.long && w.now > 0 {
		w.tell()
	}
}

// settle tells the autoscaler that a change has ended, as long as that makes another one end.
func (w *world) settle() {
	for w.settled {
		w.settled = false
		w.fulfil()
		w.scaler.Settled(w.at(), resourceID)
	}
}

// fulfil notes when the last change that was asked for came into force.
func (w *world) fulfil() {
	for i := len(w.calls) - 1; i >= 0; i-- {
		if c := &w.calls[i]; !c.failed {
			if c.InForceS == 0 && c.To == w.desired() && w.ep.Reason == "" {
				c.InForceS = w.now.Seconds()
			}
			return
		}
	}
}

// left tells the fleet of instances that have ended.
func (w *world) left(ids []string) {
	if ids == nil {
		return
	}
	gone := map[string]bool{}
	for _, id := range ids {
		gone[id] = true
	}
	w.leaving = slices.DeleteFunc(w.leaving, func(r report) bool { return gone[r.id] })
	for _, id := range ids {
		w.draining--
		w.handle(w.ep.Gone(id, w.at()))
	}
}

// healthy reports the containers that have come up by now, and says whether there were any; at the start they are up at once.
func (w *world) healthy(atOnce bool) bool {
	starting := w.starting
	w.starting = nil
	var up []report
	for _, r := range starting {
		if r.at <= w.now || atOnce {
			up = append(up, r)
		} else {
			w.starting = append(w.starting, r)
		}
	}
	for _, r := range up { // one that was given up meanwhile is no matter to the fleet
		w.handle(w.ep.Healthy(r.id, w.at()))
	}
	return up != nil
}

// handle does what the fleet's events ask for.
func (w *world) handle(events []fleet.Event) {
	for _, e := range events {
		switch e.Kind {
		case fleet.Provision:
			w.since[e.Instance] = w.now
		case fleet.Start:
			w.starting = append(w.starting, report{w.now + w.container(), e.Instance})
		case fleet.Route:
			w.live++
			w.peak = max(w.peak, w.live)
			w.play.add(e.Instance)
		case fleet.Drain:
			w.live--
			w.draining++
			w.play.drain(e.Instance)
			long := w.c.Stages.Drain
			if long == 0 {
				long = defaultDrain
			}
			w.leaving = append(w.leaving, report{w.now + long, e.Instance})
		case fleet.Stop:
			w.starting = slices.DeleteFunc(w.starting, func(r report) bool { return r.id == e.Instance })
		case fleet.Removed:
			w.paid += (w.now - w.since[e.Instance]).Hours()
			delete(w.since, e.Instance)
		case fleet.Changed:
			w.settled = w.settled || e.Detail == string(fleet.InService)
		}
	}
}

// container is how long a container takes to become healthy.
func (w *world) container() time.Duration {
	d, spread := w.c.Stages.Container, w.c.Stages.Spread
	if spread > 0 {
		sigma := math.Sqrt(math.Log1p(spread * spread))
		d = time.Duration(float64(d) * math.Exp(sigma*w.rng.NormFloat64()-sigma*sigma/2))
	}
	return d
}

func (w *world) happen(in Incident) {
	switch {
	case in.Slow > 0:
		w.play.slow(in.Slow)
	case in.Faults != nil:
		w.ep.Faults = *in.Faults
	case in.Deploy > 0:
		c := call{Change: Change{At: w.now.Seconds(), From: w.desired(), To: in.Deploy}, deploy: true}
		events, err := w.ep.Update(w.at(), fleet.Update{Variants: []fleet.VariantConfig{{Name: variantName, InstanceType: instanceType,
			Initial: in.Deploy, Weight: 1, Stages: w.c.Stages.Stages}}})
		if err != nil {
			c.failed, c.Cause, c.Status = true, err.Error(), string(autoscale.Failed)
		}
		w.calls = append(w.calls, c)
		w.handle(events)
	default:
		var serving []string
		for _, v := range w.ep.Variants() {
			for _, i := range v.Instances {
				if i.Phase == fleet.Serving {
					serving = append(serving, i.ID)
				}
			}
		}
		for _, id := range serving[:int(math.Round(in.Lose*float64(len(serving))))] {
			w.live--
			w.play.drop(id)
			w.handle(w.ep.Broke(id, w.at(), "its zone is lost"))
		}
	}
}

// publish closes the period that ends now.
func (w *world) publish() {
	seconds := period.Seconds()
	concurrency, work := w.play.read(seconds)
	cpu := level{}
	if w.inService > 0 {
		// When everything waits for something else, less is done in a second, and a processor is idle.
		v := w.c.Server.cpu * work / (w.c.Server.most() * w.inService)
		cpu = level{mean: v, most: v, least: v, n: math.Round(w.inService / seconds)}
		w.partCPU += v * w.inService
	} else {
		concurrency.n = 0
	}
	w.meters.concurrency = append(w.meters.concurrency, concurrency)
	w.meters.cpu = append(w.meters.cpu, cpu)
	w.meters.perInstance = append(w.meters.perInstance, w.per)
	w.meters.invocations = append(w.meters.invocations, w.asked)
	w.per, w.asked, w.inService = 0, 0, 0
}

// tell closes the point of the time line that ends now.
func (w *world) tell() {
	held := w.play.flush(&w.part)
	from := w.nextPoint - w.point
	seconds := (w.now - from).Seconds()
	if seconds <= 0 {
		return
	}
	p := Point{At: from.Seconds(), Offered: w.part.offered / seconds, InFlight: held / seconds, Instances: w.partServing / seconds,
		Desired: w.desired(), Completed: w.part.completed, Late: w.part.late, Shed: w.part.refused(), P95: w.part.first.quantile(0.95)}
	if w.partServing > 0 {
		p.CPU = w.partCPU / w.partServing
	}
	w.points = append(w.points, p)
	w.total.add(&w.part)
	w.inFlight += held
	w.part, w.partServing, w.partCPU = tally{}, 0, 0
	w.nextPoint += w.point
}

func (w *world) desired() int {
	n, _ := w.ep.Counts(variantName)
	return n
}

// scaled is the world as the autoscaler sees it.
type scaled world

// Capacity of the endpoint.
func (s *scaled) Capacity(string) (autoscale.Capacity, error) {
	w := (*world)(s)
	desired, current := w.ep.Counts(variantName)
	return autoscale.Capacity{Desired: desired, Current: current, Busy: w.ep.Status != fleet.InService, Reason: w.ep.Reason}, nil
}

// SetCapacity asks the endpoint for a capacity.
func (s *scaled) SetCapacity(_ string, now time.Time, n int) error {
	w := (*world)(s)
	c := call{Change: Change{At: w.now.Seconds(), From: w.desired(), To: n}}
	var quota fleet.Quota
	if w.c.Quota > 0 {
		quota = func(string) (int, int) { return w.c.Quota, w.ep.Held(instanceType) }
	}
	events, err := w.ep.SetCapacity(now, []fleet.Change{{Variant: variantName, Desired: &n}}, quota)
	if limit := (*fleet.LimitError)(nil); errors.As(err, &limit) {
		err = fmt.Errorf("The account-level service limit 'endpoint usage' is %d Instances, with current utilization of %d Instances and a request delta of %d Instances", limit.Limit, limit.Used, limit.Delta)
	}
	c.failed = err != nil
	w.calls = append(w.calls, c)
	w.handle(events)
	return err
}
