package local

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"loadline/internal/autoscale"
	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// autoscaling is Application Auto Scaling; what it does is package autoscale's.
func (l *Local) autoscaling() service.Service {
	return service.Service{Target: "AnyScaleFrontendService", Name: "application-autoscaling", Operations: service.Operations{
		"RegisterScalableTarget":    service.Op(l.registerTarget),
		"DeregisterScalableTarget":  service.Op(l.deregisterTarget),
		"DescribeScalableTargets":   service.Op(l.describeTargets),
		"PutScalingPolicy":          service.Op(l.putPolicy),
		"DeleteScalingPolicy":       service.Op(l.deletePolicy),
		"DescribeScalingPolicies":   service.Op(l.describePolicies),
		"PutScheduledAction":        service.Op(l.putScheduled),
		"DeleteScheduledAction":     service.Op(l.deleteScheduled),
		"DescribeScheduledActions":  service.Op(l.describeScheduled),
		"DescribeScalingActivities": service.Op(l.describeActivities),
		"TagResource":               service.Op(l.tagTarget),
		"UntagResource":             service.Op(l.untagTarget),
		"ListTagsForResource":       service.Op(l.listTargetTags),
	}}
}

// The only namespace, and the dimension that the tests scale.
const (
	sagemakerNamespace = "sagemaker"
	instanceCount      = autoscale.InstanceCount
)

type target struct {
	ServiceNamespace  string
	ResourceId        string
	ScalableDimension string
	ScalableTargetARN string
	MinCapacity       int
	MaxCapacity       int
	RoleARN           string
	CreationTime      wire.Stamp
	SuspendedState    suspended
}

type suspended struct {
	DynamicScalingInSuspended  bool
	DynamicScalingOutSuspended bool
	ScheduledScalingSuspended  bool
}

type registerIn struct {
	ServiceNamespace, ResourceId, ScalableDimension *string
	MinCapacity, MaxCapacity                        *int
	SuspendedState                                  *struct {
		DynamicScalingInSuspended, DynamicScalingOutSuspended, ScheduledScalingSuspended *bool
	}
	Tags map[string]string
}

type registerOut struct{ ScalableTargetARN string }

func resourceID(endpoint, variant string) string {
	return autoscale.Resource{Endpoint: endpoint, Variant: variant}.ID()
}

// scalable checks what names a target: its form first, without looking anything up.
func scalable(namespace, resource, dimension *string) (string, error) {
	if err := inNamespace(namespace); err != nil {
		return "", err
	}
	r, err := autoscale.ParseResource(service.Or(resource, ""))
	if d := service.Or(dimension, ""); err == nil && d != r.Dimension() || d != autoscale.InstanceCount && d != autoscale.CopyCount {
		return "", wire.Refuse(wire.ValidationException, "Unsupported scalable dimension %q for the resource ID %q.", d, service.Or(resource, ""))
	}
	return r.ID(), scaleFault(err)
}

func inNamespace(namespace *string) error {
	if n := service.Or(namespace, ""); n != sagemakerNamespace {
		return wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%s' at 'serviceNamespace' failed to satisfy constraint: only sagemaker is part of this local account", n)
	}
	return nil
}

func (l *Local) registerTarget(_ context.Context, in *registerIn) (*registerOut, error) {
	id, err := scalable(in.ServiceNamespace, in.ResourceId, in.ScalableDimension)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := autoscale.Registration{Resource: id, Min: in.MinCapacity, Max: in.MaxCapacity}
	if s := in.SuspendedState; s != nil {
		r.Suspended = &autoscale.Suspension{In: s.DynamicScalingInSuspended, Out: s.DynamicScalingOutSuspended, Scheduled: s.ScheduledScalingSuspended}
	}
	t, err := l.scaler.Register(l.now(), r)
	if err != nil {
		return nil, scaleFault(err)
	}
	if in.Tags != nil {
		l.tags.Set(t.ARN, in.Tags)
	}
	l.wake()
	return &registerOut{t.ARN}, nil
}

type targetNameIn struct {
	ServiceNamespace, ResourceId, ScalableDimension *string
}

func (l *Local) deregisterTarget(_ context.Context, in *targetNameIn) (*service.Nothing, error) {
	id, err := scalable(in.ServiceNamespace, in.ResourceId, in.ScalableDimension)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t, _ := l.scaler.Target(id)
	if err := l.scaler.Deregister(id); err != nil {
		return nil, scaleFault(err)
	}
	l.tags.Forget(t.ARN)
	return &service.Nothing{}, nil
}

type describeTargetsIn struct {
	ServiceNamespace, ScalableDimension, NextToken *string
	ResourceIds                                    []string
	MaxResults                                     *int
}

type describeTargetsOut struct {
	ScalableTargets []target
	NextToken       string `json:",omitempty"`
}

func (l *Local) describeTargets(_ context.Context, in *describeTargetsIn) (*describeTargetsOut, error) {
	if err := inNamespace(in.ServiceNamespace); err != nil {
		return nil, err
	}
	if len(in.ResourceIds) > 50 {
		return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value at 'resourceIds' failed to satisfy constraint: Member must have length less than or equal to 50")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := []target{}
	for _, t := range l.scaler.Targets() {
		if (len(in.ResourceIds) == 0 || slices.Contains(in.ResourceIds, t.Resource)) && service.Or(in.ScalableDimension, t.Dimension) == t.Dimension {
			all = append(all, target{
				ServiceNamespace: sagemakerNamespace, ResourceId: t.Resource, ScalableDimension: t.Dimension, ScalableTargetARN: t.ARN,
				MinCapacity: t.Min, MaxCapacity: t.Max, CreationTime: wire.At(t.Created),
				RoleARN:        fmt.Sprintf("arn:aws:iam::%s:role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint", l.cfg.Account),
				SuspendedState: suspended{t.Suspended.In, t.Suspended.Out, t.Suspended.Scheduled},
			})
		}
	}
	page, next, err := service.Page(all, in.MaxResults, in.NextToken, 50, 50, wire.InvalidNextToken)
	if err != nil {
		return nil, err
	}
	if l.cfg.LoseTokens && len(in.ResourceIds) == 0 {
		next = ""
	}
	return &describeTargetsOut{page, next}, nil
}

type targetTagsIn struct {
	ResourceARN *string
	Tags        map[string]string
	TagKeys     []string
}

type targetTagsOut struct{ Tags map[string]string }

// targetARN is the ARN of a scalable target that is there. l.mu is held.
func (l *Local) targetARN(arn *string) (string, error) {
	for _, t := range l.scaler.Targets() {
		if t.ARN == service.Or(arn, "") {
			return t.ARN, nil
		}
	}
	return "", wire.Refuse(wire.ResourceNotFound, "The resource %q doesn't exist.", service.Or(arn, ""))
}

func (l *Local) tagTarget(_ context.Context, in *targetTagsIn) (*service.Nothing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	arn, err := l.targetARN(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	merged := l.tags.Of(arn)
	maps.Copy(merged, in.Tags)
	if len(merged) > mostTags {
		return nil, wire.Refuse(wire.ValidationException, "The resource %q would have %d tags, %d are the limit.", arn, len(merged), mostTags)
	}
	l.tags.Set(arn, merged)
	return &service.Nothing{}, nil
}

func (l *Local) untagTarget(_ context.Context, in *targetTagsIn) (*service.Nothing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	arn, err := l.targetARN(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	l.tags.Remove(arn, in.TagKeys)
	return &service.Nothing{}, nil
}

func (l *Local) listTargetTags(_ context.Context, in *targetTagsIn) (*targetTagsOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	arn, err := l.targetARN(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return &targetTagsOut{l.tags.Of(arn)}, nil
}
