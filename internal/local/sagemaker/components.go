package sagemaker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/fleet"
	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// Inference components: copies of a model on instances that hold several, scaled by their number, to none if need be.

// component is an inference component as it was created.
type component struct {
	endpoint string
	members  members // its specification
	run      Model
}

// componentSpec is what is acted on of a component's specification.
type componentSpec struct {
	ModelName *string
	Container *struct {
		Image       string
		Environment map[string]string
	}
	StartupParameters *struct {
		ContainerStartupHealthCheckTimeoutInSeconds int
	}
	ComputeResourceRequirements *struct {
		NumberOfCpuCoresRequired, NumberOfAcceleratorDevicesRequired float64
		MinMemoryRequiredInMb                                        int
	}
}

type copyCount struct{ CopyCount *int }

type createComponentIn struct {
	InferenceComponentName, EndpointName, VariantName *string
	Specification                                     members
	RuntimeConfig                                     *copyCount
	Tags                                              []service.Tag
}

type componentARNOut struct{ InferenceComponentArn string }

func (p *Platform) componentARN(name string) string {
	return p.cfg.Account.ARN("sagemaker", "inference-component/"+name)
}

// Room of an instance for components. An instance type that is not in the table holds one copy of anything.
var rooms = map[string]fleet.Room{
	"ml.g5.xlarge":   {CPUs: 4, Accelerators: 1, Memory: 16 << 10},
	"ml.g5.2xlarge":  {CPUs: 8, Accelerators: 1, Memory: 32 << 10},
	"ml.g5.12xlarge": {CPUs: 48, Accelerators: 4, Memory: 192 << 10},
	"ml.g5.48xlarge": {CPUs: 192, Accelerators: 8, Memory: 768 << 10},
	"ml.g6.xlarge":   {CPUs: 4, Accelerators: 1, Memory: 16 << 10},
	"ml.g6.12xlarge": {CPUs: 48, Accelerators: 4, Memory: 192 << 10},
	"ml.m5.xlarge":   {CPUs: 4, Memory: 16 << 10},
	"ml.m5.4xlarge":  {CPUs: 16, Memory: 64 << 10},
	"ml.c5.xlarge":   {CPUs: 4, Memory: 8 << 10},
}

// managedScaling is a variant's ManagedInstanceScaling.
type managedScaling struct {
	Status                             *string
	MinInstanceCount, MaxInstanceCount *int
}

// hosting is what a variant without a model is for the fleet.
func (v *configVariant) hosting() *fleet.Hosting {
	room, known := rooms[v.InstanceType]
	if !known {
		room = fleet.Room{CPUs: 1 << 10, Accelerators: 1, Memory: 1 << 30}
	}
	h := &fleet.Hosting{Room: room}
	if m := v.ManagedInstanceScaling; m != nil && service.Or(m.Status, "ENABLED") == "ENABLED" {
		h.Min, h.Max = service.Or(m.MinInstanceCount, 1), service.Or(m.MaxInstanceCount, max(v.InitialInstanceCount, 1))
	}
	return h
}

func (p *Platform) createComponent(_ context.Context, in *createComponentIn) (*componentARNOut, error) {
	name, err := named("inferenceComponentName", in.InferenceComponentName, 63)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ep, err := p.endpointNamed("endpointName", in.EndpointName)
	if err != nil {
		return nil, err
	}
	var spec componentSpec
	if err := in.Specification.into(&spec); err != nil {
		return nil, wire.Refuse(wire.Serialization, "%v", err)
	}
	c := &component{endpoint: ep.fleet.Name, members: in.Specification}
	switch need := spec.ComputeResourceRequirements; {
	case p.components[name] != nil:
		return nil, wire.Refuse(wire.ValidationException, "Cannot create already existing inference component %q.", p.componentARN(name))
	case in.RuntimeConfig == nil || in.RuntimeConfig.CopyCount == nil:
		return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value null at 'runtimeConfig.copyCount' failed to satisfy constraint: Member must not be null")
	case need == nil:
		return nil, wire.Refuse(wire.ValidationException, "The specification of an inference component needs ComputeResourceRequirements.")
	case spec.ModelName != nil:
		m := p.models[*spec.ModelName]
		if m == nil {
			return nil, wire.Refuse(wire.ValidationException, "Could not find model %q.", p.modelARN(*spec.ModelName))
		}
		c.run = m.run
	case spec.Container != nil:
		c.run = Model{name, spec.Container.Image, spec.Container.Environment}
	default:
		return nil, wire.Refuse(wire.ValidationException, "The specification of an inference component needs a ModelName or a Container.")
	}
	cfg := fleet.ComponentConfig{Name: name, Variant: service.Or(in.VariantName, ep.spec.Variants[0].Name), Copies: *in.RuntimeConfig.CopyCount,
		Need: fleet.Room{CPUs: spec.ComputeResourceRequirements.NumberOfCpuCoresRequired, Accelerators: spec.ComputeResourceRequirements.NumberOfAcceleratorDevicesRequired,
			Memory: spec.ComputeResourceRequirements.MinMemoryRequiredInMb},
		Stages: p.cfg.CopyStages}
	if p := spec.StartupParameters; p != nil && p.ContainerStartupHealthCheckTimeoutInSeconds > 0 {
		cfg.Stages.Health = time.Duration(p.ContainerStartupHealthCheckTimeoutInSeconds) * time.Second
	}
	on := ep.route.Variant(cfg.Variant)
	if on == nil {
		return nil, wire.Refuse(wire.ValidationException, "Could not find variant(s) %q in endpoint %q.", cfg.Variant, p.endpointARN(ep.fleet.Name))
	}
	copies, err := p.cfg.Traffic.NewCopies(name, on)
	if err != nil {
		return nil, err
	}
	events, err := ep.fleet.CreateComponent(p.cfg.Now(), cfg)
	if err != nil {
		return nil, p.componentFault(name, err)
	}
	p.components[name] = c
	ep.route.Put(copies)
	p.cfg.Tags.Add(p.componentARN(name), in.Tags)
	p.act(ep, events)
	return &componentARNOut{p.componentARN(name)}, nil
}

// componentFault is the fleet's refusal in AWS's words.
func (p *Platform) componentFault(name string, err error) error {
	var (
		variant *fleet.VariantError
		count   *fleet.CountError
	)
	switch {
	case errors.Is(err, fleet.ErrInProgress):
		return wire.Refuse(wire.ValidationException, "Cannot update in-progress inference component %q.", p.componentARN(name))
	case errors.As(err, &variant):
		return wire.Refuse(wire.ValidationException, "Could not find variant(s) %q.", variant.Variant)
	case errors.As(err, &count):
		return wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%d' at 'copyCount' failed to satisfy constraint: Member must have value greater than or equal to 0", count.Count)
	}
	return wire.Refuse(wire.ValidationException, "%s.", strings.ToUpper(err.Error()[:1])+err.Error()[1:])
}

type componentNameIn struct{ InferenceComponentName *string }

// componentNamed is a component, its endpoint and how it stands. p.mu is held.
func (p *Platform) componentNamed(name *string) (*component, *endpoint, fleet.Component, error) {
	n, err := named("inferenceComponentName", name, 63)
	if err != nil {
		return nil, nil, fleet.Component{}, err
	}
	if c := p.components[n]; c != nil {
		ep := p.endpoints[c.endpoint]
		for _, f := range ep.fleet.Components() {
			if f.Name == n {
				return c, ep, f, nil
			}
		}
	}
	return nil, nil, fleet.Component{}, wire.Refuse(wire.ValidationException, "Could not find inference component %q.", p.componentARN(n))
}

type describeComponentOut struct {
	InferenceComponentName, InferenceComponentArn string
	EndpointName, EndpointArn, VariantName        string
	FailureReason                                 string `json:",omitempty"`
	Specification                                 members
	RuntimeConfig                                 runtimeConfigSummary
	CreationTime, LastModifiedTime                wire.Stamp
	InferenceComponentStatus                      fleet.Status
}

type runtimeConfigSummary struct{ DesiredCopyCount, CurrentCopyCount int }

func (p *Platform) describeComponent(_ context.Context, in *componentNameIn) (*describeComponentOut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ep, f, err := p.componentNamed(in.InferenceComponentName)
	if err != nil {
		return nil, err
	}
	told := c.members
	if raw := told["Container"]; raw != nil { // told as a summary, with what was deployed
		var box members
		if err := json.Unmarshal(raw, &box); err == nil {
			told = *told.with(map[string]any{"Container": *box.only("ArtifactUrl", "Environment").with(map[string]any{
				"DeployedImage": deployedImage{c.run.Image, c.run.Image, wire.At(f.Created)}})})
		}
	}
	return &describeComponentOut{f.Name, p.componentARN(f.Name), ep.fleet.Name, p.endpointARN(ep.fleet.Name), f.Variant, f.Reason, told,
		runtimeConfigSummary{f.Desired, f.Current()}, wire.At(f.Created), wire.At(f.Modified), f.Status}, nil
}

type updateComponentIn struct {
	InferenceComponentName *string
	DesiredRuntimeConfig   *copyCount
	RuntimeConfig          *copyCount
	Specification          members
}

// updateComponent changes how many copies there are; another specification is not part of this account.
func (p *Platform) updateComponent(_ context.Context, in *updateComponentIn) (*componentARNOut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ep, f, err := p.componentNamed(in.InferenceComponentName)
	if err != nil {
		return nil, err
	}
	want := in.DesiredRuntimeConfig
	if want == nil {
		want = in.RuntimeConfig
	}
	switch {
	case in.Specification != nil:
		return nil, wire.Refuse(wire.ValidationException, "Another specification for an inference component is not part of this local account: create another one.")
	case want == nil || want.CopyCount == nil:
		return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value null at 'desiredRuntimeConfig.copyCount' failed to satisfy constraint: Member must not be null")
	}
	if err := p.setCopies(ep, f.Name, *want.CopyCount); err != nil {
		return nil, err
	}
	return &componentARNOut{p.componentARN(f.Name)}, nil
}

// setCopies asks the fleet. p.mu is held.
func (p *Platform) setCopies(ep *endpoint, name string, n int) error {
	events, err := ep.fleet.SetCopies(p.cfg.Now(), name, n)
	if err != nil {
		return p.componentFault(name, err)
	}
	p.act(ep, events)
	return nil
}

func (p *Platform) deleteComponent(_ context.Context, in *componentNameIn) (*service.Nothing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ep, f, err := p.componentNamed(in.InferenceComponentName)
	if err != nil {
		return nil, err
	}
	events, err := ep.fleet.DeleteComponent(p.cfg.Now(), f.Name)
	if err != nil {
		return nil, p.componentFault(f.Name, err)
	}
	if id := (autoscale.Resource{Component: f.Name}).ID(); p.scaler.Deregister(id) == nil {
		p.cfg.Log.Printf("%s is deregistered with its component", id)
	}
	p.act(ep, events)
	return &service.Nothing{}, nil
}

type listComponentsIn struct {
	listIn
	StatusEquals, EndpointNameEquals, VariantNameEquals *string
}

type listComponentsOut struct {
	InferenceComponents []componentSummary
	NextToken           string `json:",omitempty"`
}

type componentSummary struct {
	CreationTime, LastModifiedTime                                                        wire.Stamp
	InferenceComponentArn, InferenceComponentName, EndpointArn, EndpointName, VariantName string
	InferenceComponentStatus                                                              fleet.Status
}

func (p *Platform) listComponents(_ context.Context, in *listComponentsIn) (*listComponentsOut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []componentSummary{}
	for name, ep := range p.endpoints {
		for _, f := range ep.fleet.Components() {
			if service.Or(in.StatusEquals, string(f.Status)) == string(f.Status) && service.Or(in.EndpointNameEquals, name) == name && service.Or(in.VariantNameEquals, f.Variant) == f.Variant {
				all = append(all, componentSummary{wire.At(f.Created), wire.At(f.Modified), p.componentARN(f.Name), f.Name, p.endpointARN(name), name, f.Variant, f.Status})
			}
		}
	}
	page, next, err := listed(all, &in.listIn, func(c componentSummary) (string, time.Time) { return c.InferenceComponentName, c.CreationTime.Time })
	return &listComponentsOut{page, next}, err
}

// componentGone forgets a component whose copies have gone. p.mu is held.
func (p *Platform) componentGone(ep *endpoint, name string) {
	ep.route.Drop(name)
	delete(p.components, name)
	p.cfg.Tags.Forget(p.componentARN(name))
}
