package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"loadline/internal/fleet"
	"loadline/internal/wire"
)

// autoscaling is Application Auto Scaling: scalable targets and their suspended state.
var autoscaling = service{"AnyScaleFrontendService", map[string]operation{
	"RegisterScalableTarget":   op((*Local).registerTarget),
	"DeregisterScalableTarget": op((*Local).deregisterTarget),
	"DescribeScalableTargets":  op((*Local).describeTargets),
	"DescribeScalingPolicies":  op((*Local).describePolicies),
}}

// The only namespace and dimension here.
const (
	sagemakerNamespace = "sagemaker"
	instanceCount      = "sagemaker:variant:DesiredInstanceCount"
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
}

type registerOut struct{ ScalableTargetARN string }

func resourceID(endpoint, variant string) string {
	return "endpoint/" + endpoint + "/variant/" + variant
}

// scalable checks what names a target: its form first, without looking anything up.
func scalable(namespace, resource, dimension *string) (endpoint, variant string, err error) {
	if err := inNamespace(namespace); err != nil {
		return "", "", err
	}
	if d := deref(dimension, ""); d != instanceCount {
		return "", "", wire.Refuse(wire.ValidationException, "Unsupported scalable dimension %q for the service namespace sagemaker: only %s is part of this local account.", d, instanceCount)
	}
	parts := strings.Split(deref(resource, ""), "/")
	if len(parts) != 4 || parts[0] != "endpoint" || parts[2] != "variant" || !nameForm.MatchString(parts[1]) || !nameForm.MatchString(parts[3]) {
		return "", "", wire.Refuse(wire.ValidationException, "Unsupported resource ID %q: it must be endpoint/NAME/variant/NAME.", deref(resource, ""))
	}
	return parts[1], parts[3], nil
}

func inNamespace(namespace *string) error {
	if n := deref(namespace, ""); n != sagemakerNamespace {
		return wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%s' at 'serviceNamespace' failed to satisfy constraint: only sagemaker is part of this local account", n)
	}
	return nil
}

func (l *Local) registerTarget(_ context.Context, in *registerIn) (*registerOut, error) {
	name, variant, err := scalable(in.ServiceNamespace, in.ResourceId, in.ScalableDimension)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ep := l.endpoints[name]
	if ep == nil {
		return nil, wire.Refuse(wire.ValidationException, "Could not find endpoint %q.", l.endpointARN(name))
	}
	at := slices.IndexFunc(ep.spec.Variants, func(v Variant) bool { return v.Name == variant })
	if at < 0 {
		return nil, wire.Refuse(wire.ValidationException, "Could not find variant %q in endpoint %q.", variant, l.endpointARN(name))
	}
	t := l.newTarget(name, variant, 0, 0)
	if old := l.targets[*in.ResourceId]; old != nil {
		*t = *old
	} else if in.MinCapacity == nil || in.MaxCapacity == nil {
		return nil, wire.Refuse(wire.ValidationException, "MinCapacity and MaxCapacity must be given when a scalable target is registered for the first time.")
	}
	t.MinCapacity, t.MaxCapacity = deref(in.MinCapacity, t.MinCapacity), deref(in.MaxCapacity, t.MaxCapacity)
	if t.MinCapacity < 0 || t.MinCapacity > t.MaxCapacity {
		return nil, wire.Refuse(wire.ValidationException, "Minimum capacity %d cannot be negative, nor greater than the maximum capacity %d.", t.MinCapacity, t.MaxCapacity)
	}
	if s := in.SuspendedState; s != nil {
		t.SuspendedState = suspended{
			deref(s.DynamicScalingInSuspended, t.SuspendedState.DynamicScalingInSuspended),
			deref(s.DynamicScalingOutSuspended, t.SuspendedState.DynamicScalingOutSuspended),
			deref(s.ScheduledScalingSuspended, t.SuspendedState.ScheduledScalingSuspended),
		}
	}
	l.targets[t.ResourceId] = t
	l.enforce(ep, variant, t)
	return &registerOut{t.ScalableTargetARN}, nil
}

func (l *Local) newTarget(endpoint, variant string, least, most int) *target {
	id := resourceID(endpoint, variant)
	return &target{
		ServiceNamespace: sagemakerNamespace, ResourceId: id, ScalableDimension: instanceCount,
		ScalableTargetARN: l.arn("application-autoscaling", fmt.Sprintf("scalable-target/0%016x", fnv64(id))),
		MinCapacity:       least, MaxCapacity: most,
		RoleARN:      fmt.Sprintf("arn:aws:iam::%s:role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint", l.cfg.Account),
		CreationTime: wire.At(l.now()),
	}
}

// enforce moves a capacity that lies outside a target's bounds inside at once, as any registration does, whether or not
// it changed the bounds. A change that the endpoint refuses now is left: enforce is asked again when the endpoint comes
// back into service. l.mu is held.
func (l *Local) enforce(ep *endpoint, variant string, t *target) {
	for _, v := range ep.fleet.Variants() {
		want := min(max(v.Desired, t.MinCapacity), t.MaxCapacity)
		if v.Name != variant || want == v.Desired || want < 1 {
			continue
		}
		err := l.setCapacity(ep, []fleet.Change{{Variant: variant, Desired: &want}})
		var f *wire.Fault
		if errors.As(err, &f) && ep.fleet.Status == fleet.InService {
			l.log.Printf("%s: failed to set desired instance count to %d: %s", t.ResourceId, want, f.Message)
		}
	}
}

type targetNameIn struct {
	ServiceNamespace, ResourceId, ScalableDimension *string
}

func (l *Local) deregisterTarget(_ context.Context, in *targetNameIn) (*nothing, error) {
	if _, _, err := scalable(in.ServiceNamespace, in.ResourceId, in.ScalableDimension); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.targets[*in.ResourceId] == nil {
		return nil, wire.Refuse(wire.ObjectNotFound, "No scalable target found for service namespace: sagemaker, resource ID: %s, scalable dimension: %s", *in.ResourceId, instanceCount)
	}
	delete(l.targets, *in.ResourceId)
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
	for id, t := range l.targets {
		if (len(in.ResourceIds) == 0 || slices.Contains(in.ResourceIds, id)) && deref(in.ScalableDimension, instanceCount) == instanceCount {
			all = append(all, *t)
		}
	}
	slices.SortFunc(all, func(a, b target) int { return strings.Compare(a.ResourceId, b.ResourceId) })
	page, next, err := paged(all, in.MaxResults, in.NextToken, 50, 50, wire.InvalidNextToken)
	if err != nil {
		return nil, err
	}
	if l.cfg.LoseTokens && len(in.ResourceIds) == 0 {
		next = ""
	}
	return &describeTargetsOut{page, next}, nil
}

type describePoliciesIn struct{ ServiceNamespace *string }

type describePoliciesOut struct{ ScalingPolicies []nothing }

// describePolicies knows of none: they cannot be put here.
func (l *Local) describePolicies(_ context.Context, in *describePoliciesIn) (*describePoliciesOut, error) {
	if err := inNamespace(in.ServiceNamespace); err != nil {
		return nil, err
	}
	return &describePoliciesOut{[]nothing{}}, nil
}
