package local

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"loadline/internal/autoscale"
	"loadline/internal/wire"
)

// autoscaling is Application Auto Scaling; what it does is package autoscale's.
var autoscaling = service{"AnyScaleFrontendService", map[string]operation{
	"RegisterScalableTarget":    op((*Local).registerTarget),
	"DeregisterScalableTarget":  op((*Local).deregisterTarget),
	"DescribeScalableTargets":   op((*Local).describeTargets),
	"PutScalingPolicy":          op((*Local).putPolicy),
	"DeleteScalingPolicy":       op((*Local).deletePolicy),
	"DescribeScalingPolicies":   op((*Local).describePolicies),
	"PutScheduledAction":        op((*Local).putScheduled),
	"DeleteScheduledAction":     op((*Local).deleteScheduled),
	"DescribeScheduledActions":  op((*Local).describeScheduled),
	"DescribeScalingActivities": op((*Local).describeActivities),
	"TagResource":               op((*Local).tagTarget),
	"UntagResource":             op((*Local).untagTarget),
	"ListTagsForResource":       op((*Local).listTargetTags),
}}

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
	r, err := autoscale.ParseResource(deref(resource, ""))
	if d := deref(dimension, ""); err == nil && d != r.Dimension() || d != autoscale.InstanceCount && d != autoscale.CopyCount {
		return "", wire.Refuse(wire.ValidationException, "Unsupported scalable dimension %q for the resource ID %q.", d, deref(resource, ""))
	}
	return r.ID(), scaleFault(err)
}

func inNamespace(namespace *string) error {
	if n := deref(namespace, ""); n != sagemakerNamespace {
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
		l.tags[t.ARN] = in.Tags
	}
	l.wake()
	return &registerOut{t.ARN}, nil
}

type targetNameIn struct {
	ServiceNamespace, ResourceId, ScalableDimension *string
}

func (l *Local) deregisterTarget(_ context.Context, in *targetNameIn) (*nothing, error) {
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
	delete(l.tags, t.ARN)
	return &nothing{}, nil
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
		if (len(in.ResourceIds) == 0 || slices.Contains(in.ResourceIds, t.Resource)) && deref(in.ScalableDimension, t.Dimension) == t.Dimension {
			all = append(all, target{
				ServiceNamespace: sagemakerNamespace, ResourceId: t.Resource, ScalableDimension: t.Dimension, ScalableTargetARN: t.ARN,
				MinCapacity: t.Min, MaxCapacity: t.Max, CreationTime: wire.At(t.Created),
				RoleARN:        fmt.Sprintf("arn:aws:iam::%s:role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint", l.cfg.Account),
				SuspendedState: suspended{t.Suspended.In, t.Suspended.Out, t.Suspended.Scheduled},
			})
		}
	}
	page, next, err := paged(all, in.MaxResults, in.NextToken, 50, 50, wire.InvalidNextToken)
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

// targetTags is the tags of a scalable target by its ARN. l.mu is held.
func (l *Local) targetTags(arn *string) (map[string]string, error) {
	for _, t := range l.scaler.Targets() {
		if t.ARN == deref(arn, "") {
			if l.tags[t.ARN] == nil {
				l.tags[t.ARN] = map[string]string{}
			}
			return l.tags[t.ARN], nil
		}
	}
	return nil, wire.Refuse(wire.ResourceNotFound, "The resource %q doesn't exist.", deref(arn, ""))
}

func (l *Local) tagTarget(_ context.Context, in *targetTagsIn) (*nothing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, err := l.targetTags(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	merged := maps.Clone(have)
	maps.Copy(merged, in.Tags)
	if len(merged) > mostTags {
		return nil, wire.Refuse(wire.ValidationException, "The resource %q would have %d tags, %d are the limit.", *in.ResourceARN, len(merged), mostTags)
	}
	l.tags[*in.ResourceARN] = merged
	return &nothing{}, nil
}

func (l *Local) untagTarget(_ context.Context, in *targetTagsIn) (*nothing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, err := l.targetTags(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	for _, k := range in.TagKeys {
		delete(have, k)
	}
	return &nothing{}, nil
}

func (l *Local) listTargetTags(_ context.Context, in *targetTagsIn) (*targetTagsOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, err := l.targetTags(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return &targetTagsOut{maps.Clone(have)}, nil
}
