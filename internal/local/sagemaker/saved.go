package sagemaker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"loadline/internal/fleet"
)

// Saved is what the platform was told, as it is saved. The instances come back as many as they were meant to be, at once;
// an endpoint that has failed or is being deleted does not.
type Saved struct {
	Models     []savedModel
	Configs    []savedConfig
	Endpoints  []savedEndpoint
	Components []savedComponent
}

type savedModel struct {
	Name    string
	Created time.Time
	Members members
	Run     Model
}

type savedConfig struct {
	Name     string
	Created  time.Time
	Members  members
	Variants []configVariant
}

type savedEndpoint struct {
	Spec    Endpoint // its instances and weights as they were meant to be
	Config  savedConfig
	Created time.Time
}

type savedComponent struct {
	Name, Endpoint, Variant string
	Specification           members
	Copies                  int
}

// Save is what there is. Lock is held.
func (p *Platform) Save() Saved {
	var s Saved
	for _, name := range slices.Sorted(maps.Keys(p.models)) {
		m := p.models[name]
		s.Models = append(s.Models, savedModel{m.name, m.created, m.members, m.run})
	}
	for _, name := range slices.Sorted(maps.Keys(p.configs)) {
		s.Configs = append(s.Configs, p.configs[name].saved())
	}
	for _, name := range slices.Sorted(maps.Keys(p.endpoints)) {
		ep := p.endpoints[name]
		if ep.fleet.Status == fleet.Failed || ep.fleet.Status == fleet.Deleting {
			continue
		}
		e := savedEndpoint{ep.spec, ep.config.saved(), ep.fleet.Created}
		e.Spec.Variants = append([]Variant(nil), ep.spec.Variants...)
		for i, v := range ep.fleet.Variants() {
			e.Spec.Variants[i].Instances, e.Spec.Variants[i].Weight = v.Desired, v.Weight
		}
		s.Endpoints = append(s.Endpoints, e)
		for _, c := range ep.fleet.Components() {
			if own := p.components[c.Name]; own != nil && c.Status != fleet.Failed && c.Status != fleet.Deleting {
				s.Components = append(s.Components, savedComponent{c.Name, name, c.Variant, own.members, c.Desired})
			}
		}
	}
	return s
}

func (c *endpointConfig) saved() savedConfig {
	return savedConfig{c.name, c.created, c.members, c.variants}
}

func (c savedConfig) restored() *endpointConfig {
	return &endpointConfig{name: c.Name, created: c.Created, members: c.Members, variants: c.Variants}
}

// Restore makes the platform what it was; what its endpoints need to be in service first is for Resume.
func (p *Platform) Restore(s Saved) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range s.Models {
		p.models[m.Name] = &model{m.Name, m.Created, m.Members, m.Run}
	}
	for _, c := range s.Configs {
		p.configs[c.Name] = c.restored()
	}
	for _, e := range s.Endpoints {
		if len(e.Config.Variants) != len(e.Spec.Variants) {
			return fmt.Errorf("endpoint %s does not fit its configuration", e.Spec.Name)
		}
		for i := range e.Spec.Variants {
			if v := &e.Spec.Variants[i]; e.Config.Variants[i].ModelName == "" {
				v.hosting, v.Instances = e.Config.Variants[i].hosting(), max(v.Instances, e.Config.Variants[i].InitialInstanceCount)
			}
		}
		if err := p.place(e.Spec, e.Config.restored(), true); err != nil {
			return fmt.Errorf("endpoint %s: %w", e.Spec.Name, err)
		}
		p.endpoints[e.Spec.Name].fleet.Created = e.Created
	}
	return nil
}

// Resume restores what stands on endpoints that are in service.
func (p *Platform) Resume(ctx context.Context, s Saved) error {
	for _, c := range s.Components {
		in := &createComponentIn{InferenceComponentName: &c.Name, EndpointName: &c.Endpoint, VariantName: &c.Variant,
			Specification: c.Specification, RuntimeConfig: &copyCount{&c.Copies}}
		if _, err := p.createComponent(ctx, in); err != nil {
			return fmt.Errorf("inference component %s: %w", c.Name, err)
		}
	}
	return nil
}
