package sagemaker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/fleet"
	"loadline/internal/local/logs"
	"loadline/internal/local/service"
	"loadline/internal/local/traffic"
)

// endpoint is one endpoint's control side: its life, and what stands behind each of its instances.
type endpoint struct {
	deployment
	next   *deployment // of an update under way
	fleet  *fleet.Endpoint
	live   map[string]*instance
	atOnce bool // what is Creating has been there for a while
}

// deployment is what an endpoint runs at one revision of it.
type deployment struct {
	revision int // the fleet's
	spec     Endpoint
	config   *endpointConfig
	route    *traffic.Route
}

// instance is what stands behind one instance, or one copy: its container, and its place in the traffic.
type instance struct {
	*traffic.Instance
	spec     Spec
	pool     *traffic.Pool
	starting context.Context // ends when it is given up
	giveUp   context.CancelFunc
	up       chan struct{} // closed when box is set
	box      Instance      // nil: it never started
}

func (p *Platform) newInstance(s Spec, output *logs.Output, pool *traffic.Pool) *instance {
	s.Output = output
	i := &instance{Instance: traffic.NewInstance(output), spec: s, pool: pool, up: make(chan struct{})}
	i.starting, i.giveUp = context.WithCancel(p.run)
	return i
}

func (i *instance) started(box Instance) {
	i.box = box
	close(i.up)
}

// container is what runs in it, once it has started; nil when it did not.
func (i *instance) container() Instance {
	<-i.up
	return i.box
}

// at is what the endpoint runs at a revision.
func (ep *endpoint) at(revision int) *deployment {
	if ep.next != nil && ep.next.revision == revision {
		return ep.next
	}
	return &ep.deployment
}

// Served returns once all endpoints are in service, or one cannot be.
func (p *Platform) Served(ctx context.Context) error {
	for {
		p.mu.Lock()
		waiting, failed := false, error(nil)
		for _, ep := range p.endpoints {
			switch ep.fleet.Status {
			case fleet.Creating:
				waiting = true
			case fleet.Failed:
				failed = fmt.Errorf("endpoint %s: %s", ep.fleet.Name, ep.fleet.Reason)
			}
		}
		p.mu.Unlock()
		if failed != nil || !waiting {
			return failed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Create puts endpoints in place that have been there for a while, and returns once all are in service, or one cannot be.
func (p *Platform) Create(ctx context.Context, endpoints []Endpoint) error {
	for _, spec := range endpoints {
		if err := p.create(spec); err != nil {
			return fmt.Errorf("endpoint %s: %w", spec.Name, err)
		}
	}
	return p.Served(ctx)
}

// create puts an endpoint in place, with its model, configuration and scalable targets.
func (p *Platform) create(spec Endpoint) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Now()
	cfg := &endpointConfig{name: spec.Name + "-config", created: now}
	var told []map[string]any
	for i := range spec.Variants {
		v := &spec.Variants[i]
		if v.Weight == 0 {
			v.Weight = 1
		}
		if v.Routing == "" {
			v.Routing = traffic.Random
		}
		variant := map[string]any{"VariantName": v.Name, "ModelName": v.Model.Name, "InitialInstanceCount": v.Instances, "InstanceType": v.InstanceType,
			"InitialVariantWeight": v.Weight, "RoutingConfig": routingConfig{v.Routing}}
		if s := int(v.Stages.Health / time.Second); s > 0 {
			variant["ContainerStartupHealthCheckTimeoutInSeconds"] = s
		}
		told = append(told, variant)
		cfg.variants = append(cfg.variants, configVariant{VariantName: v.Name, ModelName: v.Model.Name, InstanceType: v.InstanceType,
			InitialInstanceCount: v.Instances, InitialVariantWeight: v.Weight, RoutingConfig: routingConfig{v.Routing},
			ContainerStartupHealthCheckTimeoutInSeconds: int(v.Stages.Health / time.Second)})
		container := map[string]any{"Image": v.Model.Image, "Mode": "SingleModel"}
		if v.Model.Env != nil {
			container["Environment"] = v.Model.Env
		}
		p.models[v.Model.Name] = &model{name: v.Model.Name, created: now, run: v.Model, members: *members(nil).with(map[string]any{
			"PrimaryContainer": container, "ExecutionRoleArn": p.cfg.Account.IAM("role/speech-sagemaker-execution")})}
	}
	cfg.members = *members(nil).with(map[string]any{"ProductionVariants": told})
	if limit, used := p.cfg.Quota, p.wanted(spec); used > limit {
		return fmt.Errorf("%d instances are more than the quota of %d", used, limit)
	}
	p.configs[cfg.name] = cfg
	if err := p.place(spec, cfg, true); err != nil {
		return err
	}
	for _, v := range spec.Variants {
		if v.Max > 0 {
			r := autoscale.Registration{Resource: resourceID(spec.Name, v.Name), Min: &v.Min, Max: &v.Max}
			if _, err := p.scaler.Register(now, r); err != nil {
				return fmt.Errorf("register variant %s: %w", v.Name, err)
			}
		}
	}
	return nil
}

// fleet is the variant as the fleet wants it.
func (v *Variant) fleet() fleet.VariantConfig {
	return fleet.VariantConfig{Name: v.Name, InstanceType: v.InstanceType, Initial: v.Instances, Weight: v.Weight, Stages: v.Stages, Hosting: v.hosting}
}

// place starts an endpoint. p.mu is held.
func (p *Platform) place(spec Endpoint, cfg *endpointConfig, atOnce bool) error {
	d, err := p.newDeployment(0, spec, cfg, nil)
	if err != nil {
		return err
	}
	fc := fleet.Config{Name: spec.Name, AtOnce: atOnce, Faults: p.cfg.Faults}
	for _, v := range spec.Variants {
		fc.Variants = append(fc.Variants, v.fleet())
	}
	f, events, err := fleet.New(fc, p.cfg.Now(), service.Rand(p.cfg.Seed, spec.Name))
	if err != nil {
		return err
	}
	f.Limit = p.quota
	ep := &endpoint{deployment: *d, fleet: f, live: map[string]*instance{}, atOnce: atOnce}
	p.endpoints[spec.Name] = ep
	p.publishRoutes()
	p.act(ep, events)
	return nil
}

// newDeployment is what a revision of an endpoint runs; variants of the same name keep their instances' accounts of old.
// p.mu is held.
func (p *Platform) newDeployment(revision int, spec Endpoint, cfg *endpointConfig, old *traffic.Route) (*deployment, error) {
	var variants []traffic.Variant
	for _, v := range spec.Variants {
		variants = append(variants, traffic.Variant{Name: v.Name, Routing: v.Routing, Weight: v.Weight})
	}
	r, err := p.cfg.Traffic.NewRoute(spec.Name, variants, old)
	if err != nil {
		return nil, err
	}
	return &deployment{revision, spec, cfg, r}, nil
}

// publishRoutes lets requests find the endpoints that are there. p.mu is held.
func (p *Platform) publishRoutes() {
	routes := map[string]*traffic.Route{}
	for name, ep := range p.endpoints {
		routes[name] = ep.route
	}
	p.cfg.Traffic.Serve(routes)
}

// takeOver makes an update that the fleet has let take over what requests find. p.mu is held.
func (p *Platform) takeOver(ep *endpoint) {
	if ep.next == nil {
		return
	}
	if ep.fleet.Revision == ep.revision {
		if ep.fleet.Status == fleet.InService || ep.fleet.Status == fleet.RollingBack {
			ep.next = nil // it was rolled back
		}
		return
	}
	ep.deployment, ep.next = *ep.next, nil
	for i, v := range ep.fleet.Variants() {
		p := ep.route.Variant(v.Name)
		p.Weigh(v.Weight)
		p.SetRouting(ep.spec.Variants[i].Routing)
	}
	p.publishRoutes()
}

// wanted is the most instances of one type that the account would hold with the endpoint. p.mu is held.
func (p *Platform) wanted(spec Endpoint) int {
	most, byType := 0, map[string]int{}
	for _, v := range spec.Variants {
		if byType[v.InstanceType] == 0 {
			_, byType[v.InstanceType] = p.quota(v.InstanceType)
		}
		byType[v.InstanceType] += v.Instances
		most = max(most, byType[v.InstanceType])
	}
	return most
}

// act does what the fleet's events ask for. p.mu is held; what takes time happens on its own goroutine, which reports
// back.
func (p *Platform) act(ep *endpoint, events []fleet.Event) {
	if len(events) == 0 || p.ended {
		return
	}
	for _, e := range events {
		if e.Kind != fleet.Route { // what comes is routed to before what goes is not
			p.takeOver(ep)
		}
		switch e.Kind {
		case fleet.Start:
			d := ep.at(e.Revision)
			pool := d.route.Variant(e.Variant)
			if e.Component != "" {
				pool = d.route.Component(e.Component)
			}
			s, output := p.spec(ep, d, e)
			inst := p.newInstance(s, output, pool)
			ep.live[e.Instance] = inst
			p.work.Go(func() { p.start(ep, inst) })
		case fleet.Route:
			inst := ep.live[e.Instance]
			inst.pool.Add(inst.Instance, inst.container(), p.cfg.Now())
		case fleet.Drain:
			inst := ep.live[e.Instance]
			inst.pool.Remove(inst.Instance)
			p.work.Go(func() {
				p.emptied(inst)
				p.stop(inst)
				p.report(ep, func(now time.Time) []fleet.Event { return ep.fleet.Gone(inst.spec.ID, now) })
			})
		case fleet.Stop:
			inst := ep.live[e.Instance]
			p.cfg.Log.Printf("%s/%s: instance %s is given up: %s", ep.fleet.Name, e.Variant, e.Instance, e.Detail)
			if inst != nil {
				inst.pool.Remove(inst.Instance)
				inst.giveUp() // it may be starting still
				p.work.Go(func() { p.stop(inst) })
			}
		case fleet.Removed:
			if inst := ep.live[e.Instance]; inst != nil {
				inst.pool.Forget(inst.Instance, p.cfg.Now())
				delete(ep.live, e.Instance)
			}
		case fleet.Changed:
			p.cfg.Log.Printf("%s is %s", ep.fleet.Name, e.Detail)
			if ep.fleet.Status == fleet.InService {
				p.settled(ep)
			}
		case fleet.ComponentStatus:
			p.cfg.Log.Printf("%s/%s is %s", ep.fleet.Name, e.Component, e.Detail)
			if e.Detail == string(fleet.InService) {
				p.scaler.Settled(p.cfg.Now(), autoscale.Resource{Component: e.Component}.ID())
			}
		case fleet.ComponentDeleted:
			p.cfg.Log.Printf("%s/%s is deleted", ep.fleet.Name, e.Component)
			p.componentGone(ep, e.Component)
		case fleet.Deleted:
			p.cfg.Log.Printf("%s is deleted", ep.fleet.Name)
			delete(p.endpoints, ep.fleet.Name)
			p.cfg.Tags.Forget(p.endpointARN(ep.fleet.Name))
			p.publishRoutes()
		}
	}
	p.takeOver(ep)
	p.Wake()
}

// report tells the fleet what happened and acts on what comes of it.
func (p *Platform) report(ep *endpoint, tell func(now time.Time) []fleet.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.act(ep, tell(p.cfg.Now()))
	p.Wake() // something may be due that no event tells of
}

// spec is what an instance is to run, and where its output goes. p.mu is held.
func (p *Platform) spec(ep *endpoint, d *deployment, e fleet.Event) (Spec, *logs.Output) {
	for _, v := range d.spec.Variants {
		if v.Name == e.Variant {
			if e.Component != "" {
				v.Model = p.components[e.Component].run
			}
			s := Spec{ID: e.Instance, Endpoint: ep.fleet.Name, Variant: v.Name, Model: v.Model, Type: v.InstanceType,
				Seed: p.rng.Uint64(), AtOnce: ep.atOnce && ep.fleet.Status == fleet.Creating}
			group := "/aws/sagemaker/Endpoints/" + s.Endpoint
			if e.Component != "" {
				group = "/aws/sagemaker/InferenceComponents/" + e.Component
			}
			return s, p.cfg.Logs.Output(group, s.Variant+"/"+s.ID)
		}
	}
	panic("the fleet has a variant that the endpoint does not")
}

// start starts an instance's container and waits until it is healthy or given up.
func (p *Platform) start(ep *endpoint, inst *instance) {
	box, err := p.cfg.Start(inst.starting, inst.spec)
	if err != nil {
		inst.started(nil)
		p.report(ep, func(now time.Time) []fleet.Event {
			return ep.fleet.Broke(inst.spec.ID, now, fmt.Sprintf("start the container of instance %s: %v", inst.spec.ID, err))
		})
		return
	}
	inst.started(box)
	if healthy(inst.starting, inst.Client(), box.Addr()) {
		p.report(ep, func(now time.Time) []fleet.Event { return ep.fleet.Healthy(inst.spec.ID, now) })
	}
}

// Starting is how many instances of an endpoint have not said that they are healthy.
func (p *Platform) Starting(endpoint string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	if ep := p.endpoints[endpoint]; ep != nil {
		for _, v := range ep.fleet.Variants() {
			for _, i := range v.Instances {
				if i.Phase == fleet.Starting || i.Phase == fleet.Provisioning {
					n++
				}
			}
		}
	}
	return n
}

// healthy asks /ping until it answers 200, more and more seldom; false when ctx ends first.
func healthy(ctx context.Context, c *http.Client, addr string) bool {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if ping(ctx, c, addr) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

func ping(ctx context.Context, c *http.Client, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/ping", nil)
	if err != nil {
		return false
	}
	resp, err := c.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// emptied waits a little for what is in flight on an instance that takes no more traffic: what was routed to it has then
// reached its container. What takes longer the container lets end when it is told to stop.
func (p *Platform) emptied(inst *instance) {
	select {
	case <-inst.Idle():
	case <-time.After(leaveGrace):
	case <-p.run.Done():
	}
}

// stop ends an instance: SIGTERM, and SIGKILL after the platform's grace or when Run ends.
func (p *Platform) stop(inst *instance) {
	box := inst.container()
	if box == nil {
		return
	}
	ctx, cancel := context.WithTimeout(p.run, stopGrace)
	defer cancel()
	defer inst.Client().CloseIdleConnections()
	inst.Client().CloseIdleConnections() // a connection that was never used would hold up a container that closes tidily
	if err := box.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		p.cfg.Log.Printf("stop instance %s: %v", inst.spec.ID, err)
	}
}

// clock advances the fleets when something is due, closes the metrics' periods, and has the alarms evaluated on them.
func (p *Platform) clock(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(p.Tick())
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.kick:
		}
	}
}

// Tick does what is due now, and is how long it is until something is due again.
func (p *Platform) Tick() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Now()
	next := now.Truncate(traffic.ConcurrencyPeriod).Add(traffic.ConcurrencyPeriod)
	for _, ep := range p.endpoints {
		p.act(ep, ep.fleet.Advance(now))
	}
	p.cfg.Traffic.Publish(now)
	p.scaler.Advance(now)
	for _, ep := range p.endpoints {
		if due, ok := ep.fleet.Next(); ok && due.Before(next) {
			next = due
		}
	}
	if due, ok := p.scaler.Next(); ok && due.Before(next) {
		next = due
	}
	return next.Sub(now)
}
