package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"loadline/bench/container"
	"loadline/internal/admission"
	"loadline/internal/arrival"
	"loadline/internal/artifact"
	"loadline/internal/audit"
	"loadline/internal/autoscale"
	"loadline/internal/awsfleet"
	"loadline/internal/capacity"
	"loadline/internal/engine/replay"
	"loadline/internal/fleet"
	"loadline/internal/local"
	"loadline/internal/sim"
)

const (
	endpoint = "speech"
	variant  = "primary"
	text     = `{"text":"Twenty-eight characters long"}`
	points   = 0.03 // of what was offered, that late and refused may differ by
)

// trial is one surge on one set of policies, to be played live and simulated.
type trial struct {
	profile              string
	m                    capacity.Measured
	depth                int
	start                time.Duration // from the capacity call until an instance serves
	policies             []capacity.Policy
	alarms               []capacity.Alarm
	initial, most        int
	base, ratio          float64
	before, surge, after time.Duration
	ahead                time.Duration // of the end of a period, when the surge begins
}

// step is a change of the desired capacity.
type step struct {
	at       time.Duration // from the first arrival's origin
	from, to int
}

// side is what happened on one side.
type side struct {
	offered, late, refused int
	steps                  []step
}

// agreement is both sides.
type agreement struct {
	live, simulated side
	period          time.Duration // of the fastest alarm
	took            time.Duration
}

func (a agreement) String() string {
	var b strings.Builder
	for _, s := range []struct {
		name string
		side
	}{{"live", a.live}, {"simulated", a.simulated}} {
		fmt.Fprintf(&b, "%-10s %d offered, %d late (%.2f %%), %d refused (%.2f %%); capacity", s.name, s.offered,
			s.late, s.share(s.late), s.refused, s.share(s.refused))
		for _, c := range s.steps {
			fmt.Fprintf(&b, " %d→%d at %.1f s", c.from, c.to, c.at.Seconds())
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "%.0f s live\n", a.took.Seconds())
	return b.String()
}

func (s side) share(n int) float64 { return 100 * float64(n) / float64(max(1, s.offered)) }

// differ says how the two sides differ, "" where they agree. Steps are the scale-outs: what is taken away again depends on
// when the last of these ended.
func (a agreement) differ() string {
	var why []string
	for _, c := range []struct {
		what            string
		live, simulated int
	}{{"late", a.live.late, a.simulated.late}, {"refused", a.live.refused, a.simulated.refused}} {
		if d := a.live.share(c.live) - a.simulated.share(c.simulated); math.Abs(d) > 100*points {
			why = append(why, fmt.Sprintf("%s differs by %.2f points, %g are allowed", c.what, d, 100*points))
		}
	}
	if len(a.live.steps) != len(a.simulated.steps) {
		return strings.Join(append(why, fmt.Sprintf("%d steps of capacity live, %d simulated", len(a.live.steps), len(a.simulated.steps))), "; ")
	}
	for i, l := range a.live.steps {
		s := a.simulated.steps[i]
		if d := l.at - s.at; d.Abs() > a.period+2*time.Second || l.from != s.from { // how far the metric has come by then sets its size
			why = append(why, fmt.Sprintf("step %d: %d→%d at %.1f s live, %d→%d at %.1f s simulated", i+1, l.from, l.to, l.at.Seconds(), s.from, s.to, s.at.Seconds()))
		}
	}
	return strings.Join(why, "; ")
}

// run plays a trial live, and then simulates it with the very same arrivals.
func (t trial) run(ctx context.Context) (a agreement, err error) {
	a.period = time.Minute
	for _, al := range t.alarms {
		a.period = min(a.period, time.Duration(al.Period)*time.Second)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, v, done, err := t.deployed(ctx)
	if err != nil {
		return a, err
	}
	origin := time.Now()
	// The surge begins a fixed time before the end of a period, so that no chance decides which one sees it first.
	rise := origin.Add(t.before).Truncate(a.period).Add(a.period - t.ahead)
	if rise.Before(origin.Add(t.before)) {
		rise = rise.Add(a.period)
	}
	before := rise.Sub(origin)
	load, err := arrival.Surge(t.base, t.ratio, before, t.surge, before+t.surge+t.after)
	if err != nil {
		return a, err
	}
	at := load.Poisson(rand.New(rand.NewPCG(1, 1)))
	a.live = t.live(ctx, l.URL(), v, origin, at, load.Len())
	a.took = time.Since(origin)
	if err := ctx.Err(); err != nil {
		return a, err
	}
	cancel()
	if err := <-done; err != nil {
		return a, err
	}
	a.simulated, err = t.simulate(load, at, origin)
	return a, err
}

// simulate plays the arrivals on the virtual clock, at the same distance from the whole minutes.
func (t trial) simulate(load arrival.Profile, at []time.Duration, origin time.Time) (side, error) {
	server, err := sim.ServerOf(t.m, t.depth)
	if err != nil {
		return side{}, err
	}
	scaling, err := sim.Planned(t.policies, t.alarms, 1, t.most)
	if err != nil {
		return side{}, err
	}
	c := sim.Config{Name: "agreement", Seed: 1, Start: origin.Truncate(time.Minute).UTC(), Server: server, Routing: autoscale.LeastOutstanding,
		Gate: admission.Config{Depth: t.depth, Places: 1}, Initial: t.initial, Scaling: scaling}
	c.Stages.Provision = t.start
	off := origin.Sub(c.Start)
	c.Load = arrival.Profile{{At: 0, Rate: 0}, {At: off, Rate: 0}}
	for _, p := range load {
		c.Load = append(c.Load, arrival.Point{At: off + p.At, Rate: p.Rate})
	}
	for _, d := range at {
		c.Arrivals = append(c.Arrivals, off+d)
	}
	r, err := sim.Requests(c)
	if err != nil {
		return side{}, err
	}
	s := side{offered: int(r.Offered), late: int(r.Late), refused: int(r.Shed + r.Unserved + r.Cut)}
	for _, ch := range r.Changes {
		if ch.To > ch.From {
			s.steps = append(s.steps, step{time.Duration(ch.At*float64(time.Second)) - off, ch.From, ch.To})
		}
	}
	return s, nil
}

// deployed is the local endpoint with the policies in place; done tells how it ended.
func (t trial) deployed(ctx context.Context) (*local.Local, *awsfleet.Variant, <-chan error, error) {
	p, err := replay.Parse([]byte(t.profile))
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := local.New(local.Config{Addr: "127.0.0.1:0", Seed: 1,
		Start: func(_ context.Context, s local.Spec) (local.Instance, error) {
			return container.Start(p, s.Seed, t.depth)
		},
		Endpoints: []local.Endpoint{{Name: endpoint, Variants: []local.Variant{{Name: variant, InstanceType: p.Instance.Type, Instances: t.initial,
			Routing: local.LeastOutstanding, Min: 1, Max: t.most, Stages: fleet.Stages{Provision: t.start}}}}}})
	if err != nil {
		return nil, nil, nil, err
	}
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	select {
	case <-l.Ready():
	case err := <-done:
		return nil, nil, nil, fmt.Errorf("the local endpoint ended: %w", err)
	}
	v, err := t.deploy(ctx, l.URL())
	return l, v, done, err
}

// live plays the arrivals on the local endpoint.
func (t trial) live(ctx context.Context, url string, v *awsfleet.Variant, origin time.Time, at []time.Duration, long time.Duration) (s side) {
	var steps sync.WaitGroup
	watch, stop := context.WithCancel(ctx)
	steps.Go(func() { s.steps = watchSteps(watch, v, origin, t.initial) })
	s.offered = len(at)
	s.late, s.refused = send(ctx, url+"/endpoints/"+endpoint+"/invocations", origin, at, time.Duration(t.m.SLO*float64(time.Second)))
	select {
	case <-time.After(time.Until(origin.Add(long))):
	case <-ctx.Done():
	}
	stop()
	steps.Wait()
	return s
}

// deploy puts the policies in place through the API.
func (t trial) deploy(ctx context.Context, url string) (*awsfleet.Variant, error) {
	cfg, _, err := awsfleet.Load(ctx, awsfleet.Config{EndpointURL: url, Region: "us-east-1"})
	if err != nil {
		return nil, err
	}
	v, err := awsfleet.Open(ctx, cfg, endpoint, variant)
	if err != nil {
		return nil, err
	}
	v.Say = func(string) {}
	p := &artifact.Plan{Policies: t.policies, Alarms: t.alarms}
	p.Target.Endpoint, p.Target.Variant = endpoint, variant
	p.Config.MinInstances, p.Config.MaxInstances = 1, t.most
	planned := audit.Planned(p)
	return v, v.Apply(ctx, audit.Between(audit.Scaling{Resource: planned.Resource, Target: planned.Target}, planned, false))
}

// watchSteps looks at the desired count four times a second.
func watchSteps(ctx context.Context, v *awsfleet.Variant, origin time.Time, was int) (steps []step) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return steps
		case <-tick.C:
		}
		if _, desired, _, err := v.Count(ctx); err == nil && desired != was {
			if desired > was {
				steps = append(steps, step{time.Since(origin), was, desired})
			}
			was = desired
		}
	}
}

// send sends one request at each instant, however the ones before fare; what took longer than the objective, counted from
// its instant, is late.
func send(ctx context.Context, url string, origin time.Time, at []time.Duration, slo time.Duration) (late, refused int) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var wg sync.WaitGroup
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, d := range at {
		timer.Reset(time.Until(origin.Add(d)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			wg.Wait()
			return late, refused
		}
		wg.Go(func() {
			ok := post(ctx, client, url)
			took := time.Since(origin.Add(d))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case !ok:
				refused++
			case took > slo:
				late++
			}
		})
	}
	wg.Wait()
	return late, refused
}

func post(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(text))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}
