package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/fleet"
	"loadline/internal/local/access"
	"loadline/internal/local/cloudwatch"
	"loadline/internal/local/logs"
)

// What survives a restart: what the account was told. Its metrics, its activities and the instances themselves do not; the
// endpoints come back with as many as they were meant to have, at once. An endpoint that has failed or is being deleted
// does not come back.

const (
	stateSchema = "loadline/account/1"
	saveEvery   = time.Second
)

type savedAccount struct {
	Schema     string
	Models     []savedModel
	Configs    []savedConfig
	Endpoints  []savedEndpoint
	Components []savedComponent
	Dashboards []cloudwatch.Dashboard
	Roles      []access.Role
	Policies   []access.Policy
	Groups     []logs.Group
	Tags       map[string]map[string]string
	Scaling    autoscale.Saved
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

// state is the account as it is saved.
func (l *Local) state() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := savedAccount{Schema: stateSchema, Tags: l.tags.All(), Scaling: l.scaler.Save()}
	for _, name := range slices.Sorted(maps.Keys(l.models)) {
		m := l.models[name]
		s.Models = append(s.Models, savedModel{m.name, m.created, m.members, m.run})
	}
	for _, name := range slices.Sorted(maps.Keys(l.configs)) {
		s.Configs = append(s.Configs, l.configs[name].saved())
	}
	for _, name := range slices.Sorted(maps.Keys(l.endpoints)) {
		ep := l.endpoints[name]
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
			if own := l.components[c.Name]; own != nil && c.Status != fleet.Failed && c.Status != fleet.Deleting {
				s.Components = append(s.Components, savedComponent{c.Name, name, c.Variant, own.members, c.Desired})
			}
		}
	}
	s.Roles, s.Policies = l.access.Identities()
	s.Dashboards, s.Groups = l.watch.Dashboards(), l.logs.Save()
	return json.Marshal(s)
}

func (c *endpointConfig) saved() savedConfig {
	return savedConfig{c.name, c.created, c.members, c.variants}
}

func (c savedConfig) restored() *endpointConfig {
	return &endpointConfig{name: c.Name, created: c.Created, members: c.Members, variants: c.Variants}
}

// restore makes the account what it was when it was saved; what its endpoints need to be in service first is in resume.
func (l *Local) restore(saved []byte) (*savedAccount, error) {
	s := &savedAccount{}
	if err := json.Unmarshal(saved, s); err != nil {
		return nil, fmt.Errorf("it is no state of an account: %w", err)
	}
	if s.Schema != stateSchema {
		return nil, fmt.Errorf("its schema is %q, not %q: another version wrote it", s.Schema, stateSchema)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range s.Models {
		l.models[m.Name] = &model{m.Name, m.Created, m.Members, m.Run}
	}
	for _, c := range s.Configs {
		l.configs[c.Name] = c.restored()
	}
	for arn, tags := range s.Tags {
		l.tags.Set(arn, tags)
	}
	l.watch.Restore(s.Dashboards)
	l.access.Restore(s.Roles, s.Policies)
	l.logs.Restore(s.Groups)
	for _, e := range s.Endpoints {
		if len(e.Config.Variants) != len(e.Spec.Variants) {
			return nil, fmt.Errorf("endpoint %s does not fit its configuration", e.Spec.Name)
		}
		for i := range e.Spec.Variants {
			if v := &e.Spec.Variants[i]; e.Config.Variants[i].ModelName == "" {
				v.hosting, v.Instances = e.Config.Variants[i].hosting(), max(v.Instances, e.Config.Variants[i].InitialInstanceCount)
			}
		}
		if err := l.place(e.Spec, e.Config.restored(), true); err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", e.Spec.Name, err)
		}
		l.endpoints[e.Spec.Name].fleet.Created = e.Created
	}
	return s, nil
}

// resume restores what stands on endpoints that are in service.
func (l *Local) resume(ctx context.Context, s *savedAccount) error {
	for _, c := range s.Components {
		in := &createComponentIn{InferenceComponentName: &c.Name, EndpointName: &c.Endpoint, VariantName: &c.Variant,
			Specification: c.Specification, RuntimeConfig: &copyCount{&c.Copies}}
		if _, err := l.createComponent(ctx, in); err != nil {
			return fmt.Errorf("inference component %s: %w", c.Name, err)
		}
	}
	for i := range s.Scaling.Scheduled {
		a := &s.Scaling.Scheduled[i]
		if a.Timezone == "" {
			continue
		}
		var err error
		if a.Location, err = time.LoadLocation(a.Timezone); err != nil {
			return fmt.Errorf("scheduled action %s: %w", a.Name, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.scaler.Restore(l.now(), s.Scaling); err != nil {
		return fmt.Errorf("scaling: %w", err)
	}
	return nil
}

// keep saves the account when it has changed, until ctx ends.
func (l *Local) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(saveEvery):
			l.save()
		}
	}
}

// save hands the account's state to Config.Save, unless it is what it was.
func (l *Local) save() {
	b, err := l.state()
	if err == nil && !bytes.Equal(b, l.saved) {
		if err = l.cfg.Save(b); err == nil {
			l.saved = b
		}
	}
	if err != nil {
		l.log.Printf("save the account's state: %v", err)
	}
}
