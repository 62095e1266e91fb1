package sagemaker

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// Service is the control plane's operations.
func (p *Platform) Service() service.Service {
	return service.Service{Target: "SageMaker", Name: "sagemaker", Operations: service.Operations{
		"CreateModel":                        service.Op(p.createModel),
		"DescribeModel":                      service.Op(p.describeModel),
		"ListModels":                         service.Op(p.listModels),
		"DeleteModel":                        service.Op(p.deleteModel),
		"CreateEndpointConfig":               service.Op(p.createEndpointConfig),
		"DescribeEndpointConfig":             service.Op(p.describeEndpointConfig),
		"ListEndpointConfigs":                service.Op(p.listEndpointConfigs),
		"DeleteEndpointConfig":               service.Op(p.deleteEndpointConfig),
		"CreateEndpoint":                     service.Op(p.createEndpoint),
		"DescribeEndpoint":                   service.Op(p.describeEndpoint),
		"ListEndpoints":                      service.Op(p.listEndpoints),
		"UpdateEndpoint":                     service.Op(p.updateEndpoint),
		"DeleteEndpoint":                     service.Op(p.deleteEndpoint),
		"UpdateEndpointWeightsAndCapacities": service.Op(p.updateWeightsAndCapacities),
		"CreateInferenceComponent":           service.Op(p.createComponent),
		"DescribeInferenceComponent":         service.Op(p.describeComponent),
		"ListInferenceComponents":            service.Op(p.listComponents),
		"UpdateInferenceComponent":           service.Op(p.updateComponent),
		"DeleteInferenceComponent":           service.Op(p.deleteComponent),

		"UpdateInferenceComponentRuntimeConfig": service.Op(p.updateComponent),

		"AddTags":    service.Op(p.addTags),
		"ListTags":   service.Op(p.listTags),
		"DeleteTags": service.Op(p.deleteTags),
	}}
}

func (p *Platform) endpointARN(name string) string {
	return p.cfg.Account.ARN("sagemaker", "endpoint/"+name)
}

var nameForm = regexp.MustCompile(`^[a-zA-Z0-9](-*[a-zA-Z0-9])*$`)

// named checks a resource name before it is looked up, in AWS's words.
func named(member string, name *string, longest int) (string, error) {
	switch {
	case name == nil:
		return "", wire.Refuse(wire.ValidationException, "1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", member)
	case len(*name) > longest:
		return "", wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must have length less than or equal to %d", *name, member, longest)
	case !nameForm.MatchString(*name):
		return "", wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9])*", *name, member)
	}
	return *name, nil
}

// endpointNamed is the endpoint of that name. p.mu is held.
func (p *Platform) endpointNamed(member string, name *string) (*endpoint, error) {
	n, err := named(member, name, 63)
	if err != nil {
		return nil, err
	}
	ep := p.endpoints[n]
	if ep == nil {
		return nil, wire.Refuse(wire.ValidationException, "Could not find endpoint %q.", p.endpointARN(n))
	}
	return ep, nil
}

// listIn is what listings of SageMaker's resources are asked with.
type listIn struct {
	NameContains, SortBy, SortOrder, NextToken *string
	MaxResults                                 *int
	CreationTimeAfter, CreationTimeBefore      *wire.Stamp
}

// outside says whether a time is not between two others, where they are given.
func outside(t time.Time, after, before *wire.Stamp) bool {
	return after != nil && !t.After(after.Time) || before != nil && !t.Before(before.Time)
}

// listed is the page of a listing that is asked for; of tells an item's name and when it was created.
func listed[T any](all []T, in *listIn, of func(T) (string, time.Time)) (page []T, next string, err error) {
	all = slices.DeleteFunc(all, func(x T) bool {
		name, created := of(x)
		return !strings.Contains(name, service.Or(in.NameContains, "")) || outside(created, in.CreationTimeAfter, in.CreationTimeBefore)
	})
	byName := service.Or(in.SortBy, "CreationTime") == "Name"
	slices.SortFunc(all, func(x, y T) int {
		if service.Or(in.SortOrder, "Descending") == "Descending" {
			x, y = y, x
		}
		a, since := of(x)
		b, until := of(y)
		if byName {
			return strings.Compare(a, b)
		}
		return cmp.Or(since.Compare(until), strings.Compare(a, b))
	})
	return service.Page(all, in.MaxResults, in.NextToken, 10, 100, wire.ValidationException)
}

type tagsIn struct {
	ResourceArn *string
	Tags        []service.Tag
	TagKeys     []string
	MaxResults  *int
	NextToken   *string
}

type tagsOut struct {
	Tags      []service.Tag
	NextToken string `json:",omitempty"`
}

const mostTags = 50

// tagged is the ARN of a resource that exists. p.mu is held.
func (p *Platform) tagged(arn *string) (string, error) {
	if arn == nil {
		return "", wire.Refuse(wire.ValidationException, "1 validation error detected: Value null at 'resourceArn' failed to satisfy constraint: Member must not be null")
	}
	rest, ours := strings.CutPrefix(*arn, p.cfg.Account.ARN("sagemaker", ""))
	kind, name, _ := strings.Cut(rest, "/")
	exists := false
	switch kind {
	case "endpoint":
		exists = p.endpoints[name] != nil
	case "endpoint-config":
		exists = p.configs[name] != nil
	case "model":
		exists = p.models[name] != nil
	case "inference-component":
		exists = p.components[name] != nil
	}
	if !ours || !exists {
		return "", wire.Refuse(wire.ValidationException, "Could not find resource %q.", *arn)
	}
	return *arn, nil
}

func (p *Platform) addTags(_ context.Context, in *tagsIn) (*tagsOut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	arn, err := p.tagged(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	merged := p.cfg.Tags.Of(arn)
	for _, t := range in.Tags {
		switch {
		case t.Key == "" || len(t.Key) > 128 || len(t.Value) > 256:
			return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: the tag %q has a key of %d and a value of %d characters: 1 to 128 and 0 to 256 are possible", t.Key, len(t.Key), len(t.Value))
		case strings.HasPrefix(strings.ToLower(t.Key), "aws:"):
			return nil, wire.Refuse(wire.ValidationException, "aws: prefixed tag key names are not allowed for external use.")
		}
		merged[t.Key] = t.Value
	}
	if len(merged) > mostTags {
		return nil, wire.Refuse(wire.LimitExceeded, "The resource %q would have %d tags, %d are the limit.", arn, len(merged), mostTags)
	}
	p.cfg.Tags.Set(arn, merged)
	return &tagsOut{Tags: service.SortedTags(merged)}, nil
}

func (p *Platform) listTags(_ context.Context, in *tagsIn) (*tagsOut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	arn, err := p.tagged(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	page, next, err := service.Page(service.SortedTags(p.cfg.Tags.Of(arn)), in.MaxResults, in.NextToken, mostTags, mostTags, wire.ValidationException)
	if err != nil {
		return nil, err
	}
	return &tagsOut{page, next}, nil
}

func (p *Platform) deleteTags(_ context.Context, in *tagsIn) (*service.Nothing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	arn, err := p.tagged(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	p.cfg.Tags.Remove(arn, in.TagKeys)
	return &service.Nothing{}, nil
}
