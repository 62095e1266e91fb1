package sagemaker

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"loadline/internal/local/service"
	"loadline/internal/local/traffic"
	"loadline/internal/wire"
)

// endpointConfig is an endpoint configuration as it was created: what this account does not act on is kept and told again.
type endpointConfig struct {
	name     string
	created  time.Time
	members  members
	variants []configVariant
}

// configVariant is what is acted on of a production variant.
type configVariant struct {
	VariantName, ModelName, InstanceType        string
	InitialInstanceCount                        int
	InitialVariantWeight                        float64
	RoutingConfig                               routingConfig
	ContainerStartupHealthCheckTimeoutInSeconds int
	ManagedInstanceScaling                      *managedScaling
}

type routingConfig struct {
	RoutingStrategy traffic.Routing `json:",omitempty"`
}

const mostVariants = 10

type createConfigIn struct {
	EndpointConfigName *string
	ProductionVariants []members
	Tags               []service.Tag
	members
}

// UnmarshalJSON keeps all members beside those that are acted on.
func (in *createConfigIn) UnmarshalJSON(b []byte) error {
	type plain createConfigIn
	if err := json.Unmarshal(b, (*plain)(in)); err != nil {
		return err
	}
	return json.Unmarshal(b, &in.members)
}

type configOut struct{ EndpointConfigArn string }

func (p *Platform) configARN(name string) string {
	return p.cfg.Account.ARN("sagemaker", "endpoint-config/"+name)
}

func (p *Platform) createEndpointConfig(_ context.Context, in *createConfigIn) (*configOut, error) {
	name, err := named("endpointConfigName", in.EndpointConfigName, 63)
	if err != nil {
		return nil, err
	}
	if n := len(in.ProductionVariants); n < 1 || n > mostVariants {
		return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value at 'productionVariants' failed to satisfy constraint: Member must have length between 1 and %d", mostVariants)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.configs[name] != nil {
		return nil, wire.Refuse(wire.ValidationException, "Cannot create already existing endpoint configuration %q.", p.configARN(name))
	}
	c := &endpointConfig{name: name, created: p.cfg.Now(), members: in.members.only("DataCaptureConfig", "KmsKeyId", "AsyncInferenceConfig",
		"ExplainerConfig", "ShadowProductionVariants", "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation", "MetricsConfig")}
	var told []*members
	for _, raw := range in.ProductionVariants {
		v := configVariant{InitialVariantWeight: 1}
		if err := raw.into(&v); err != nil {
			return nil, wire.Refuse(wire.Serialization, "%v", err)
		}
		if err := p.checkVariant(v, raw, c.variants); err != nil {
			return nil, err
		}
		c.variants = append(c.variants, v)
		told = append(told, raw.with(map[string]any{"InitialVariantWeight": v.InitialVariantWeight}))
	}
	c.members = *c.members.with(map[string]any{"ProductionVariants": told})
	p.configs[name] = c
	p.cfg.Tags.Add(p.configARN(name), in.Tags)
	return &configOut{p.configARN(name)}, nil
}

// checkVariant checks one variant against what is there, and against those before it. p.mu is held.
func (p *Platform) checkVariant(v configVariant, raw members, before []configVariant) error {
	if _, err := named("productionVariants.1.member.variantName", &v.VariantName, 63); err != nil {
		return err
	}
	same := func(o configVariant) bool { return o.VariantName == v.VariantName }
	_, serverless := raw["ServerlessConfig"]
	switch {
	case slices.ContainsFunc(before, same):
		return wire.Refuse(wire.ValidationException, "Variant name %q is not unique in the endpoint configuration.", v.VariantName)
	case v.ModelName != "" && p.models[v.ModelName] == nil:
		return wire.Refuse(wire.ValidationException, "Could not find model %q.", p.modelARN(v.ModelName))
	case v.InitialVariantWeight < 0:
		return wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%v' at 'productionVariants.1.member.initialVariantWeight' failed to satisfy constraint: Member must have value greater than or equal to 0", v.InitialVariantWeight)
	case serverless:
		return nil
	case v.ModelName != "" && v.ManagedInstanceScaling != nil:
		return wire.Refuse(wire.ValidationException, "Managed instance scaling is for endpoints that host inference components: variant %q has a model of its own.", v.VariantName)
	case v.InitialInstanceCount < 1:
		return wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%d' at 'productionVariants.1.member.initialInstanceCount' failed to satisfy constraint: Member must have value greater than or equal to 1", v.InitialInstanceCount)
	case !strings.HasPrefix(v.InstanceType, "ml."):
		return wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%s' at 'productionVariants.1.member.instanceType' failed to satisfy constraint: Member must satisfy enum value set: an instance type such as ml.g5.xlarge", v.InstanceType)
	case v.ModelName == "" && v.hosting().Max > 0 && (v.hosting().Min < 0 || v.hosting().Min > v.hosting().Max):
		return wire.Refuse(wire.ValidationException, "The minimum of the managed instance scaling of variant %q cannot be negative, nor greater than its maximum.", v.VariantName)
	case !slices.Contains([]traffic.Routing{"", traffic.Random, traffic.LeastOutstanding}, v.RoutingConfig.RoutingStrategy):
		return wire.Refuse(wire.ValidationException, "The routing strategy %q is not part of this local account: %s and %s are.", v.RoutingConfig.RoutingStrategy, traffic.Random, traffic.LeastOutstanding)
	}
	return nil
}

type configNameIn struct{ EndpointConfigName *string }

// configNamed is the configuration of that name. p.mu is held.
func (p *Platform) configNamed(name *string) (*endpointConfig, error) {
	n, err := named("endpointConfigName", name, 63)
	if err != nil {
		return nil, err
	}
	if c := p.configs[n]; c != nil {
		return c, nil
	}
	return nil, wire.Refuse(wire.ValidationException, "Could not find endpoint configuration %q.", p.configARN(n))
}

func (p *Platform) describeEndpointConfig(_ context.Context, in *configNameIn) (*members, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.configNamed(in.EndpointConfigName)
	if err != nil {
		return nil, err
	}
	return c.members.with(map[string]any{"EndpointConfigName": c.name, "EndpointConfigArn": p.configARN(c.name), "CreationTime": wire.At(c.created)}), nil
}

func (p *Platform) deleteEndpointConfig(_ context.Context, in *configNameIn) (*service.Nothing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.configNamed(in.EndpointConfigName)
	if err != nil {
		return nil, err
	}
	delete(p.configs, c.name)
	p.cfg.Tags.Forget(p.configARN(c.name))
	return &service.Nothing{}, nil
}

type listConfigsOut struct {
	EndpointConfigs []configSummary
	NextToken       string `json:",omitempty"`
}

type configSummary struct {
	EndpointConfigName, EndpointConfigArn string
	CreationTime                          wire.Stamp
}

func (p *Platform) listEndpointConfigs(_ context.Context, in *listIn) (*listConfigsOut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []configSummary{}
	for _, c := range p.configs {
		all = append(all, configSummary{c.name, p.configARN(c.name), wire.At(c.created)})
	}
	page, next, err := listed(all, in, func(c configSummary) (string, time.Time) { return c.EndpointConfigName, c.CreationTime.Time })
	return &listConfigsOut{page, next}, err
}
