package sagemaker

import (
	"errors"
	"fmt"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/fleet"
	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// scaled is the account as the autoscaler sees it: the capacities that it scales, and the metrics that its alarms read.
// p.mu is held.
type scaled struct{ *Platform }

// Capacity of a scalable resource.
func (s scaled) Capacity(resource string) (autoscale.Capacity, error) {
	r, err := autoscale.ParseResource(resource)
	if err != nil {
		return autoscale.Capacity{}, err
	}
	if r.Component != "" {
		_, _, c, err := s.componentNamed(&r.Component)
		if err != nil {
			return autoscale.Capacity{}, fmt.Errorf("Could not find inference component %q.", s.componentARN(r.Component))
		}
		return autoscale.Capacity{Desired: c.Desired, Current: c.Current(), Busy: c.Status != fleet.InService, Reason: c.Reason}, nil
	}
	ep := s.endpoints[r.Endpoint]
	if ep == nil {
		return autoscale.Capacity{}, fmt.Errorf("Could not find endpoint %q.", s.endpointARN(r.Endpoint))
	}
	for _, v := range ep.fleet.Variants() {
		if v.Name == r.Variant {
			return autoscale.Capacity{Desired: v.Desired, Current: v.Current(), Busy: ep.fleet.Status != fleet.InService, Reason: ep.fleet.Reason}, nil
		}
	}
	return autoscale.Capacity{}, fmt.Errorf("Could not find variant %q in endpoint %q.", r.Variant, s.endpointARN(r.Endpoint))
}

// SetCapacity does what UpdateEndpointWeightsAndCapacities does; its refusals are worded as they reach activities.
func (s scaled) SetCapacity(resource string, _ time.Time, desired int) error {
	r, err := autoscale.ParseResource(resource)
	if err != nil {
		return err
	}
	if r.Component != "" {
		var ep *endpoint
		if _, ep, _, err = s.componentNamed(&r.Component); err == nil {
			err = s.setCopies(ep, r.Component, desired)
		}
	} else {
		err = s.setCapacity(s.endpoints[r.Endpoint], []fleet.Change{{Variant: r.Variant, Desired: &desired}})
	}
	var f *wire.Fault
	if errors.As(err, &f) {
		return fmt.Errorf("%s (Service: AmazonSageMaker; Status Code: %d; Error Code: %s; Request ID: %s)", f.Message, f.Status(), f.Code, service.RequestID())
	}
	return err
}

// settled tells the autoscaler that an endpoint's change has ended. p.mu is held.
func (p *Platform) settled(ep *endpoint) {
	for _, v := range ep.fleet.Variants() {
		p.scaler.Settled(p.cfg.Now(), autoscale.Resource{Endpoint: ep.fleet.Name, Variant: v.Name}.ID())
	}
}

// resourceID names a variant as the autoscaler does.
func resourceID(endpoint, variant string) string {
	return autoscale.Resource{Endpoint: endpoint, Variant: variant}.ID()
}
