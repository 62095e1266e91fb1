package sagemaker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// model is a model as it was created: what this account does not act on is kept and told again.
type model struct {
	name    string
	created time.Time
	members members
	run     Model
}

// members is a part of a request or an answer, member by member.
type members map[string]json.RawMessage

// only is the members of these names, those that are null left out.
func (m members) only(names ...string) members {
	out := members{}
	for _, n := range names {
		if v := m[n]; v != nil && string(v) != "null" {
			out[n] = v
		}
	}
	return out
}

// with is a copy with further members.
func (m members) with(more map[string]any) *members {
	out := members{}
	for k, v := range m {
		out[k] = v
	}
	for k, v := range more {
		b, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Sprintf("the wire cannot have a %T: %v", v, err))
		}
		out[k] = b
	}
	return &out
}

// into decodes what a structure has of the members.
func (m members) into(v any) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// containerDefinition is what is acted on of a model's container.
type containerDefinition struct {
	Image       string
	Environment map[string]string
}

type createModelIn struct {
	ModelName, ExecutionRoleArn *string
	PrimaryContainer            *containerDefinition
	Containers                  []containerDefinition
	Tags                        []service.Tag
	members
}

// UnmarshalJSON keeps all members beside those that are acted on.
func (in *createModelIn) UnmarshalJSON(b []byte) error {
	type plain createModelIn
	if err := json.Unmarshal(b, (*plain)(in)); err != nil {
		return err
	}
	return json.Unmarshal(b, &in.members)
}

type modelOut struct{ ModelArn string }

func (p *Platform) modelARN(name string) string { return p.cfg.Account.ARN("sagemaker", "model/"+name) }

func (p *Platform) createModel(_ context.Context, in *createModelIn) (*modelOut, error) {
	name, err := named("modelName", in.ModelName, 63)
	if err != nil {
		return nil, err
	}
	first := in.PrimaryContainer
	switch {
	case first != nil && in.Containers != nil:
		return nil, wire.Refuse(wire.ValidationException, "PrimaryContainer and Containers cannot be given together.")
	case first == nil && len(in.Containers) == 0:
		return nil, wire.Refuse(wire.ValidationException, "A model needs a PrimaryContainer or Containers.")
	case first == nil:
		first = &in.Containers[0]
	}
	if first.Image == "" && in.PrimaryContainer != nil {
		var c struct{ ModelPackageName string }
		if err := json.Unmarshal(in.members["PrimaryContainer"], &c); err != nil || c.ModelPackageName == "" {
			return nil, wire.Refuse(wire.ValidationException, "The primary container needs an Image or a ModelPackageName.")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.models[name] != nil {
		return nil, wire.Refuse(wire.ValidationException, "Cannot create already existing model %q.", p.modelARN(name))
	}
	m := &model{name: name, created: p.cfg.Now(), run: Model{name, first.Image, first.Environment},
		members: in.members.only("PrimaryContainer", "Containers", "InferenceExecutionConfig", "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation")}
	if c := members(nil); m.members["PrimaryContainer"] != nil && json.Unmarshal(m.members["PrimaryContainer"], &c) == nil && c["Mode"] == nil {
		m.members = *m.members.with(map[string]any{"PrimaryContainer": c.with(map[string]any{"Mode": "SingleModel"})})
	}
	p.models[name] = m
	p.cfg.Tags.Add(p.modelARN(name), in.Tags)
	return &modelOut{p.modelARN(name)}, nil
}

type modelNameIn struct{ ModelName *string }

// modelNamed is the model of that name. p.mu is held.
func (p *Platform) modelNamed(name *string) (*model, error) {
	n, err := named("modelName", name, 63)
	if err != nil {
		return nil, err
	}
	if m := p.models[n]; m != nil {
		return m, nil
	}
	return nil, wire.Refuse(wire.ValidationException, "Could not find model %q.", p.modelARN(n))
}

func (p *Platform) describeModel(_ context.Context, in *modelNameIn) (*members, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := p.modelNamed(in.ModelName)
	if err != nil {
		return nil, err
	}
	more := map[string]any{"ModelName": m.name, "ModelArn": p.modelARN(m.name), "CreationTime": wire.At(m.created)}
	if m.members["EnableNetworkIsolation"] == nil {
		more["EnableNetworkIsolation"] = false
	}
	return m.members.with(more), nil
}

func (p *Platform) deleteModel(_ context.Context, in *modelNameIn) (*service.Nothing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := p.modelNamed(in.ModelName)
	if err != nil {
		return nil, err
	}
	delete(p.models, m.name)
	p.cfg.Tags.Forget(p.modelARN(m.name))
	return &service.Nothing{}, nil
}

type listModelsOut struct {
	Models    []modelSummary
	NextToken string `json:",omitempty"`
}

type modelSummary struct {
	ModelName, ModelArn string
	CreationTime        wire.Stamp
}

func (p *Platform) listModels(_ context.Context, in *listIn) (*listModelsOut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []modelSummary{}
	for _, m := range p.models {
		all = append(all, modelSummary{m.name, p.modelARN(m.name), wire.At(m.created)})
	}
	page, next, err := listed(all, in, func(m modelSummary) (string, time.Time) { return m.ModelName, m.CreationTime.Time })
	return &listModelsOut{page, next}, err
}
