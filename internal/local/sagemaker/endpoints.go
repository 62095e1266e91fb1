package sagemaker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/fleet"
	"loadline/internal/local/autoscaling"
	"loadline/internal/local/service"
	"loadline/internal/local/traffic"
	"loadline/internal/wire"
)

type createEndpointIn struct {
	EndpointName, EndpointConfigName *string
	Tags                             []service.Tag
}

func (p *Platform) createEndpoint(_ context.Context, in *createEndpointIn) (*endpointARNOut, error) {
	name, err := named("endpointName", in.EndpointName, 63)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	arn := p.endpointARN(name)
	if p.endpoints[name] != nil {
		return nil, wire.Refuse(wire.ValidationException, "Cannot create already existing endpoint %q.", arn)
	}
	cfg, spec, err := p.deployable(name, in.EndpointConfigName)
	if err != nil {
		return nil, err
	}
	for _, v := range spec.Variants {
		if limit, used := p.quota(v.InstanceType); used+spec.instances(v.InstanceType) > limit {
			return nil, overLimit(&fleet.LimitError{InstanceType: v.InstanceType, Limit: limit, Used: used, Delta: spec.instances(v.InstanceType)})
		}
	}
	if err := p.place(spec, cfg, false); err != nil {
		return nil, err
	}
	p.cfg.Tags.Add(arn, in.Tags)
	return &endpointARNOut{arn}, nil
}

// instances is how many of a type the endpoint has at its start.
func (e *Endpoint) instances(instanceType string) int {
	n := 0
	for _, v := range e.Variants {
		if v.InstanceType == instanceType {
			n += v.Instances
		}
	}
	return n
}

// deployable is a configuration of that name, and what an endpoint of it is to run. p.mu is held.
func (p *Platform) deployable(endpoint string, config *string) (*endpointConfig, Endpoint, error) {
	spec := Endpoint{Name: endpoint}
	cfg, err := p.configNamed(config)
	if err != nil {
		return nil, spec, err
	}
	if p.cfg.Start == nil {
		return nil, spec, wire.Refuse(wire.ValidationException, "This local account has nothing to start instances with.")
	}
	for _, v := range cfg.variants {
		m := p.models[v.ModelName]
		switch {
		case v.InitialInstanceCount < 1 || v.InstanceType == "":
			return nil, spec, wire.Refuse(wire.ValidationException, "Variant %q of configuration %q is not a real-time one: only those can be deployed in this local account.", v.VariantName, cfg.name)
		case m == nil && v.ModelName != "":
			return nil, spec, wire.Refuse(wire.ValidationException, "Could not find model %q.", p.cfg.Account.ARN("sagemaker", "model/"+v.ModelName))
		}
		stages := p.cfg.Stages
		if s := v.ContainerStartupHealthCheckTimeoutInSeconds; s > 0 {
			stages.Health = time.Duration(s) * time.Second
		}
		var hosting *fleet.Hosting
		var run Model
		if m == nil {
			hosting = v.hosting()
		} else {
			run = m.run
		}
		if run.Env = maps.Clone(run.Env); run.Env == nil {
			run.Env = map[string]string{}
		}
		for k, x := range map[string]string{"ENDPOINT_NAME": endpoint, "VARIANT_NAME": v.VariantName} {
			if run.Env[k] == "" {
				run.Env[k] = x
			}
		}
		routing := v.RoutingConfig.RoutingStrategy
		if routing == "" {
			routing = traffic.Random
		}
		spec.Variants = append(spec.Variants, Variant{Name: v.VariantName, Model: run, InstanceType: v.InstanceType,
			Instances: v.InitialInstanceCount, Weight: v.InitialVariantWeight, Routing: routing, Stages: stages, hosting: hosting})
	}
	return cfg, spec, nil
}

type updateEndpointIn struct {
	EndpointName, EndpointConfigName *string
	RetainAllVariantProperties       bool
	ExcludeRetainedVariantProperties []struct{ VariantPropertyType string }
}

func (p *Platform) updateEndpoint(_ context.Context, in *updateEndpointIn) (*endpointARNOut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ep, err := p.endpointNamed("endpointName", in.EndpointName)
	if err != nil {
		return nil, err
	}
	cfg, spec, err := p.deployable(ep.fleet.Name, in.EndpointConfigName)
	if err != nil {
		return nil, err
	}
	retains := func(property string) bool {
		return in.RetainAllVariantProperties && !slices.ContainsFunc(in.ExcludeRetainedVariantProperties,
			func(x struct{ VariantPropertyType string }) bool { return x.VariantPropertyType == property })
	}
	next, err := p.newDeployment(ep.fleet.Revision+1, spec, cfg, ep.route)
	if err != nil {
		return nil, err
	}
	u := fleet.Update{RetainCounts: retains("DesiredInstanceCount"), RetainWeights: retains("DesiredWeight"), Quota: p.quota,
		Scalable: func(variant string) bool {
			_, is := p.scaler.Target(resourceID(ep.fleet.Name, variant))
			return is
		}}
	for _, v := range spec.Variants {
		u.Variants = append(u.Variants, v.fleet())
	}
	events, err := ep.fleet.Update(p.cfg.Now(), u)
	if err != nil {
		return nil, p.changeFault(ep, err)
	}
	ep.next = next
	p.act(ep, events)
	return &endpointARNOut{p.endpointARN(ep.fleet.Name)}, nil
}

type endpointNameIn struct{ EndpointName *string }

// deleteEndpoint takes the endpoint's scalable targets with it, as AWS does where the caller may deregister them.
func (p *Platform) deleteEndpoint(_ context.Context, in *endpointNameIn) (*service.Nothing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ep, err := p.endpointNamed("endpointName", in.EndpointName)
	if err != nil {
		return nil, err
	}
	var targets []string
	for _, t := range p.scaler.Targets() {
		if r, err := autoscale.ParseResource(t.Resource); err == nil && r.Endpoint == ep.fleet.Name {
			targets = append(targets, t.Resource)
		}
	}
	if len(targets) > 0 && p.cfg.Access.Denied("application-autoscaling:DeregisterScalableTarget") {
		return nil, wire.Refuse(wire.AccessDenied, "User: %s is not authorized to perform: application-autoscaling:DeregisterScalableTarget on resource: %s", p.cfg.Account.User(), targets[0])
	}
	events, err := ep.fleet.Delete(p.cfg.Now())
	if err != nil {
		return nil, p.changeFault(ep, err)
	}
	for _, t := range targets {
		if err := p.scaler.Deregister(t); err != nil {
			return nil, autoscaling.Fault(err)
		}
	}
	p.act(ep, events)
	return &service.Nothing{}, nil
}

type describeEndpointIn struct{ EndpointName *string }

type describeEndpointOut struct {
	EndpointName       string
	EndpointArn        string
	EndpointConfigName string
	ProductionVariants []variantSummary
	EndpointStatus     fleet.Status
	FailureReason      string `json:",omitempty"`
	CreationTime       wire.Stamp
	LastModifiedTime   wire.Stamp

	PendingDeploymentSummary *pendingDeployment `json:",omitempty"`
}

// pendingDeployment is the update that an endpoint is in.
type pendingDeployment struct {
	EndpointConfigName string
	ProductionVariants []pendingVariant
	StartTime          wire.Stamp
}

type pendingVariant struct {
	VariantName                                string
	DesiredWeight                              float64
	CurrentInstanceCount, DesiredInstanceCount int
}

type variantSummary struct {
	VariantName          string
	DeployedImages       []deployedImage
	CurrentWeight        float64
	DesiredWeight        float64
	CurrentInstanceCount int
	DesiredInstanceCount int
	RoutingConfig        routingConfig
	VariantStatus        []variantStatus `json:",omitempty"`
}

type deployedImage struct {
	SpecifiedImage string
	ResolvedImage  string
	ResolutionTime wire.Stamp
}

type variantStatus struct {
	Status        string
	StartTime     wire.Stamp
	StatusMessage string `json:",omitempty"`
}

func (p *Platform) describeEndpoint(_ context.Context, in *describeEndpointIn) (*describeEndpointOut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ep, err := p.endpointNamed("endpointName", in.EndpointName)
	if err != nil {
		return nil, err
	}
	f := ep.fleet
	out := &describeEndpointOut{
		EndpointName: f.Name, EndpointArn: p.endpointARN(f.Name), EndpointConfigName: ep.config.name,
		EndpointStatus: f.Status, FailureReason: f.Reason, CreationTime: wire.At(f.Created), LastModifiedTime: wire.At(f.Modified),
	}
	for i, v := range f.Variants() {
		image := ep.spec.Variants[i].Model.Image
		s := variantSummary{
			VariantName: v.Name, DeployedImages: []deployedImage{{image, image, wire.At(f.Created)}},
			CurrentWeight: v.Weight, DesiredWeight: v.DesiredWeight,
			CurrentInstanceCount: v.Current(), DesiredInstanceCount: v.Desired,
			RoutingConfig: routingConfig{ep.spec.Variants[i].Routing},
		}
		if f.Status == fleet.Creating || f.Status == fleet.Updating {
			s.VariantStatus = []variantStatus{{string(f.Status), wire.At(f.Modified), ""}}
		}
		out.ProductionVariants = append(out.ProductionVariants, s)
	}
	if next := ep.next; next != nil {
		p := &pendingDeployment{next.config.name, nil, wire.At(f.Modified)}
		for _, v := range next.spec.Variants {
			p.ProductionVariants = append(p.ProductionVariants, pendingVariant{v.Name, v.Weight, 0, v.Instances})
		}
		out.PendingDeploymentSummary = p
	}
	return out, nil
}

type listEndpointsIn struct {
	NameContains, StatusEquals, SortBy, SortOrder, NextToken *string
	MaxResults                                               *int
	CreationTimeAfter, CreationTimeBefore                    *wire.Stamp
	LastModifiedTimeAfter, LastModifiedTimeBefore            *wire.Stamp
}

type listEndpointsOut struct {
	Endpoints []endpointSummary
	NextToken string `json:",omitempty"`
}

type endpointSummary struct {
	EndpointName, EndpointArn      string
	CreationTime, LastModifiedTime wire.Stamp
	EndpointStatus                 fleet.Status
}

func (p *Platform) listEndpoints(_ context.Context, in *listEndpointsIn) (*listEndpointsOut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &listEndpointsOut{Endpoints: []endpointSummary{}}
	for name, ep := range p.endpoints {
		f := ep.fleet
		switch {
		case in.NameContains != nil && !strings.Contains(name, *in.NameContains),
			in.StatusEquals != nil && string(f.Status) != *in.StatusEquals,
			outside(f.Created, in.CreationTimeAfter, in.CreationTimeBefore),
			outside(f.Modified, in.LastModifiedTimeAfter, in.LastModifiedTimeBefore):
			continue
		}
		out.Endpoints = append(out.Endpoints, endpointSummary{name, p.endpointARN(name), wire.At(f.Created), wire.At(f.Modified), f.Status})
	}
	by, order := service.Or(in.SortBy, "CreationTime"), service.Or(in.SortOrder, "Descending")
	sort.Slice(out.Endpoints, func(i, j int) bool {
		a, b := out.Endpoints[i], out.Endpoints[j]
		if order == "Descending" {
			a, b = b, a
		}
		switch {
		case by == "CreationTime" && !a.CreationTime.Equal(b.CreationTime.Time):
			return a.CreationTime.Before(b.CreationTime.Time)
		case by == "Status" && a.EndpointStatus != b.EndpointStatus:
			return a.EndpointStatus < b.EndpointStatus
		}
		return a.EndpointName < b.EndpointName
	})
	page, next, err := service.Page(out.Endpoints, in.MaxResults, in.NextToken, 10, 100, wire.ValidationException)
	if err != nil {
		return nil, err
	}
	out.Endpoints, out.NextToken = page, next
	return out, nil
}

type updateWeightsIn struct {
	EndpointName                *string
	DesiredWeightsAndCapacities []struct {
		VariantName          *string
		DesiredWeight        *float64
		DesiredInstanceCount *int
	}
}

type endpointARNOut struct{ EndpointArn string }

func (p *Platform) updateWeightsAndCapacities(_ context.Context, in *updateWeightsIn) (*endpointARNOut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ep, err := p.endpointNamed("endpointName", in.EndpointName)
	if err != nil {
		return nil, err
	}
	if len(in.DesiredWeightsAndCapacities) == 0 {
		return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value null at 'desiredWeightsAndCapacities' failed to satisfy constraint: Member must not be null")
	}
	var changes []fleet.Change
	for _, c := range in.DesiredWeightsAndCapacities {
		name, err := named("desiredWeightsAndCapacities.1.member.variantName", c.VariantName, 63)
		if err != nil {
			return nil, err
		}
		if c.DesiredWeight != nil && !(*c.DesiredWeight >= 0) {
			return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%v' at 'desiredWeightsAndCapacities.1.member.desiredWeight' failed to satisfy constraint: Member must have value greater than or equal to 0", *c.DesiredWeight)
		}
		changes = append(changes, fleet.Change{Variant: name, Desired: c.DesiredInstanceCount, Weight: c.DesiredWeight})
	}
	if err := p.setCapacity(ep, changes); err != nil {
		return nil, err
	}
	return &endpointARNOut{p.endpointARN(ep.fleet.Name)}, nil
}

// setCapacity asks the fleet and puts its refusals in AWS's words. p.mu is held.
func (p *Platform) setCapacity(ep *endpoint, changes []fleet.Change) error {
	events, err := ep.fleet.SetCapacity(p.cfg.Now(), changes, p.quota)
	if err != nil {
		return p.changeFault(ep, err)
	}
	for _, v := range ep.fleet.Variants() {
		ep.route.Variant(v.Name).Weigh(v.Weight)
	}
	p.act(ep, events)
	return nil
}

// changeFault is the fleet's refusal of a change in AWS's words.
func (p *Platform) changeFault(ep *endpoint, err error) error {
	var (
		variant *fleet.VariantError
		count   *fleet.CountError
		limit   *fleet.LimitError
		pinned  *fleet.PinnedError
	)
	switch {
	case errors.Is(err, fleet.ErrInProgress):
		return wire.Refuse(wire.ValidationException, "Cannot update in-progress endpoint %q.", p.endpointARN(ep.fleet.Name))
	case errors.As(err, &variant):
		return wire.Refuse(wire.ValidationException, "Could not find variant(s) %q in endpoint %q.", variant.Variant, p.endpointARN(ep.fleet.Name))
	case errors.As(err, &count):
		return wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%d' at 'desiredWeightsAndCapacities.1.member.desiredInstanceCount' failed to satisfy constraint: Member must have value greater than or equal to 1", count.Count)
	case errors.As(err, &pinned):
		return wire.Refuse(wire.ValidationException, "The variant(s) %q must be deregistered as scalable targets with AWS Auto Scaling before they can be removed or have their instance type updated.", pinned.Variants)
	case errors.As(err, &limit):
		return overLimit(limit)
	}
	return wire.Refuse(wire.ValidationException, "%s.", strings.ToUpper(err.Error()[:1])+err.Error()[1:])
}

func overLimit(e *fleet.LimitError) error {
	return wire.Refuse(wire.LimitExceeded, "The account-level service limit '%s for endpoint usage' is %d Instances, with current utilization of %d Instances and a request delta of %d Instances. Please use AWS Service Quotas to request an increase for this quota.",
		e.InstanceType, e.Limit, e.Used, e.Delta)
}

// quota counts the account's instances of a type. p.mu is held.
func (p *Platform) quota(instanceType string) (limit, used int) {
	for _, ep := range p.endpoints {
		used += ep.fleet.Held(instanceType)
	}
	return p.cfg.Quota, used
}
