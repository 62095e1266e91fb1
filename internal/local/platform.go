package local

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

func (l *Local) newInstance(s Spec, p *traffic.Pool) *instance {
	i := &instance{Instance: traffic.NewInstance(s.Output.(*logs.Output)), spec: s, pool: p, up: make(chan struct{})}
	i.starting, i.giveUp = context.WithCancel(l.run)
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

// boot makes the endpoints of the configuration and returns once all are in service, or one cannot be.
func (l *Local) boot(ctx context.Context) error {
	if l.cfg.State != nil {
		s, err := l.restore(l.cfg.State)
		if err != nil {
			return fmt.Errorf("restore the account: %w", err)
		}
		if err := l.served(ctx); err != nil {
			return err
		}
		if err := l.resume(ctx, s); err != nil {
			return fmt.Errorf("restore the account: %w", err)
		}
		return nil
	}
	for _, spec := range l.cfg.Endpoints {
		if err := l.create(spec); err != nil {
			return fmt.Errorf("endpoint %s: %w", spec.Name, err)
		}
	}
	return l.served(ctx)
}

// served returns once all endpoints are in service, or one cannot be.
func (l *Local) served(ctx context.Context) error {
	for {
		l.mu.Lock()
		waiting, failed := false, error(nil)
		for _, ep := range l.endpoints {
			switch ep.fleet.Status {
			case fleet.Creating:
				waiting = true
			case fleet.Failed:
				failed = fmt.Errorf("endpoint %s: %s", ep.fleet.Name, ep.fleet.Reason)
			}
		}
		l.mu.Unlock()
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

// create puts an endpoint of Config in place, with its model, configuration and scalable targets.
func (l *Local) create(spec Endpoint) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	cfg := &endpointConfig{name: spec.Name + "-config", created: now}
	var told []map[string]any
	for i := range spec.Variants {
		v := &spec.Variants[i]
		if v.Weight == 0 {
			v.Weight = 1
		}
		if v.Routing == "" {
			v.Routing = Random
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
		l.models[v.Model.Name] = &model{name: v.Model.Name, created: now, run: v.Model, members: *members(nil).with(map[string]any{
			"PrimaryContainer": container, "ExecutionRoleArn": l.account.IAM("role/speech-sagemaker-execution")})}
	}
	cfg.members = *members(nil).with(map[string]any{"ProductionVariants": told})
	if limit, used := l.cfg.Quota, l.wanted(spec); used > limit {
		return fmt.Errorf("%d instances are more than the quota of %d", used, limit)
	}
	l.configs[cfg.name] = cfg
	if err := l.place(spec, cfg, true); err != nil {
		return err
	}
	for _, v := range spec.Variants {
		if v.Max > 0 {
			r := autoscale.Registration{Resource: resourceID(spec.Name, v.Name), Min: &v.Min, Max: &v.Max}
			if _, err := l.scaler.Register(now, r); err != nil {
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

// place starts an endpoint. l.mu is held.
func (l *Local) place(spec Endpoint, cfg *endpointConfig, atOnce bool) error {
	d, err := l.newDeployment(0, spec, cfg, nil)
	if err != nil {
		return err
	}
	fc := fleet.Config{Name: spec.Name, AtOnce: atOnce, Faults: l.cfg.Faults}
	for _, v := range spec.Variants {
		fc.Variants = append(fc.Variants, v.fleet())
	}
	f, events, err := fleet.New(fc, l.now(), service.Rand(l.cfg.Seed, spec.Name))
	if err != nil {
		return err
	}
	f.Limit = l.quota
	ep := &endpoint{deployment: *d, fleet: f, live: map[string]*instance{}, atOnce: atOnce}
	l.endpoints[spec.Name] = ep
	l.publishRoutes()
	l.act(ep, events)
	return nil
}

// newDeployment is what a revision of an endpoint runs; variants of the same name keep their instances' accounts of old.
// l.mu is held.
func (l *Local) newDeployment(revision int, spec Endpoint, cfg *endpointConfig, old *traffic.Route) (*deployment, error) {
	var variants []traffic.Variant
	for _, v := range spec.Variants {
		variants = append(variants, traffic.Variant{Name: v.Name, Routing: v.Routing, Weight: v.Weight})
	}
	r, err := l.traffic.NewRoute(spec.Name, variants, old)
	if err != nil {
		return nil, err
	}
	return &deployment{revision, spec, cfg, r}, nil
}

// publishRoutes lets requests find the endpoints that are there. l.mu is held.
func (l *Local) publishRoutes() {
	routes := map[string]*traffic.Route{}
	for name, ep := range l.endpoints {
		routes[name] = ep.route
	}
	l.traffic.Serve(routes)
}

// takeOver makes an update that the fleet has let take over what requests find. l.mu is held.
func (l *Local) takeOver(ep *endpoint) {
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
	l.publishRoutes()
}

// wanted is the most instances of one type that the account would hold with the endpoint. l.mu is held.
func (l *Local) wanted(spec Endpoint) int {
	most, byType := 0, map[string]int{}
	for _, v := range spec.Variants {
		if byType[v.InstanceType] == 0 {
			_, byType[v.InstanceType] = l.quota(v.InstanceType)
		}
		byType[v.InstanceType] += v.Instances
		most = max(most, byType[v.InstanceType])
	}
	return most
}

// act does what the fleet's events ask for. l.mu is held; what takes time happens on its own goroutine, which reports
// back.
func (l *Local) act(ep *endpoint, events []fleet.Event) {
	if len(events) == 0 || l.ended {
		return
	}
	for _, e := range events {
		if e.Kind != fleet.Route { // what comes is routed to before what goes is not
			l.takeOver(ep)
		}
		switch e.Kind {
		case fleet.Start:
			d := ep.at(e.Revision)
			pool := d.route.Variant(e.Variant)
			if e.Component != "" {
				pool = d.route.Component(e.Component)
			}
			inst := l.newInstance(l.spec(ep, d, e), pool)
			ep.live[e.Instance] = inst
			l.work.Go(func() { l.start(ep, inst) })
		case fleet.Route:
			inst := ep.live[e.Instance]
			inst.pool.Add(inst.Instance, inst.container(), l.now())
		case fleet.Drain:
			inst := ep.live[e.Instance]
			inst.pool.Remove(inst.Instance)
			l.work.Go(func() {
				l.emptied(inst)
				l.stop(inst)
				l.report(ep, func(now time.Time) []fleet.Event { return ep.fleet.Gone(inst.spec.ID, now) })
			})
		case fleet.Stop:
			inst := ep.live[e.Instance]
			l.log.Printf("%s/%s: instance %s is given up: %s", ep.fleet.Name, e.Variant, e.Instance, e.Detail)
			if inst != nil {
				inst.pool.Remove(inst.Instance)
				inst.giveUp() // it may be starting still
				l.work.Go(func() { l.stop(inst) })
			}
		case fleet.Removed:
			if inst := ep.live[e.Instance]; inst != nil {
				inst.pool.Forget(inst.Instance, l.now())
				delete(ep.live, e.Instance)
			}
		case fleet.Changed:
			l.log.Printf("%s is %s", ep.fleet.Name, e.Detail)
			if ep.fleet.Status == fleet.InService {
				l.settled(ep)
			}
		case fleet.ComponentStatus:
			l.log.Printf("%s/%s is %s", ep.fleet.Name, e.Component, e.Detail)
			if e.Detail == string(fleet.InService) {
				l.scaler.Settled(l.now(), autoscale.Resource{Component: e.Component}.ID())
			}
		case fleet.ComponentDeleted:
			l.log.Printf("%s/%s is deleted", ep.fleet.Name, e.Component)
			l.componentGone(ep, e.Component)
		case fleet.Deleted:
			l.log.Printf("%s is deleted", ep.fleet.Name)
			delete(l.endpoints, ep.fleet.Name)
			l.tags.Forget(l.endpointARN(ep.fleet.Name))
			l.publishRoutes()
		}
	}
	l.takeOver(ep)
	l.wake()
}

func (l *Local) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// report tells the fleet what happened and acts on what comes of it.
func (l *Local) report(ep *endpoint, tell func(now time.Time) []fleet.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.act(ep, tell(l.now()))
	l.wake() // something may be due that no event tells of
}

func (l *Local) spec(ep *endpoint, d *deployment, e fleet.Event) Spec {
	for _, v := range d.spec.Variants {
		if v.Name == e.Variant {
			if e.Component != "" {
				v.Model = l.components[e.Component].run
			}
			s := Spec{ID: e.Instance, Endpoint: ep.fleet.Name, Variant: v.Name, Model: v.Model, Type: v.InstanceType,
				Seed: l.rng.Uint64(), AtOnce: ep.atOnce && ep.fleet.Status == fleet.Creating}
			group := "/aws/sagemaker/Endpoints/" + s.Endpoint
			if e.Component != "" {
				group = "/aws/sagemaker/InferenceComponents/" + e.Component
			}
			s.Output = l.logs.Output(group, s.Variant+"/"+s.ID)
			return s
		}
	}
	panic("the fleet has a variant that the endpoint does not")
}

// start starts an instance's container and waits until it is healthy or given up.
func (l *Local) start(ep *endpoint, inst *instance) {
	box, err := l.cfg.Start(inst.starting, inst.spec)
	if err != nil {
		inst.started(nil)
		l.report(ep, func(now time.Time) []fleet.Event {
			return ep.fleet.Broke(inst.spec.ID, now, fmt.Sprintf("start the container of instance %s: %v", inst.spec.ID, err))
		})
		return
	}
	inst.started(box)
	if healthy(inst.starting, inst.Client(), box.Addr()) {
		l.report(ep, func(now time.Time) []fleet.Event { return ep.fleet.Healthy(inst.spec.ID, now) })
	}
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
func (l *Local) emptied(inst *instance) {
	select {
	case <-inst.Idle():
	case <-time.After(leaveGrace):
	case <-l.run.Done():
	}
}

// stop ends an instance: SIGTERM, and SIGKILL after the platform's grace or when Run ends.
func (l *Local) stop(inst *instance) {
	box := inst.container()
	if box == nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.run, stopGrace)
	defer cancel()
	defer inst.Client().CloseIdleConnections()
	inst.Client().CloseIdleConnections() // a connection that was never used would hold up a container that closes tidily
	if err := box.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		l.log.Printf("stop instance %s: %v", inst.spec.ID, err)
	}
}

// stopAll ends every instance at once: Run's context has ended. Nothing is started after it.
func (l *Local) stopAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, ep := range l.endpoints {
		for _, inst := range ep.live {
			l.work.Go(func() { l.stop(inst) })
		}
	}
}

// clock advances the fleets when something is due, closes the metrics' periods, and has the alarms evaluated on them.
func (l *Local) clock(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(l.tick())
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.kick:
		}
	}
}

// tick does what is due now, and is how long it is until something is due again.
func (l *Local) tick() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	next := now.Truncate(traffic.ConcurrencyPeriod).Add(traffic.ConcurrencyPeriod)
	for _, ep := range l.endpoints {
		l.act(ep, ep.fleet.Advance(now))
	}
	l.traffic.Publish(now)
	l.scaler.Advance(now)
	for _, ep := range l.endpoints {
		if due, ok := ep.fleet.Next(); ok && due.Before(next) {
			next = due
		}
	}
	if due, ok := l.scaler.Next(); ok && due.Before(next) {
		next = due
	}
	return next.Sub(now)
}
