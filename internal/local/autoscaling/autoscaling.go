// Package autoscaling is Application Auto Scaling of a local account as it is called: targets, policies, scheduled actions
// and activities on the wire.
//
// It decides what a call may say and how what there is is told; what scales, when and how far is package autoscale's.
//
//	a := autoscaling.New(autoscaling.Config{Scaler: scaler, Lock: &mu, …})
//	front.Services = append(front.Services, a.Service())
package autoscaling

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// Config of New. All but LoseTokens must be given.
type Config struct {
	Now     func() time.Time
	Scaler  *autoscale.Scaler
	Lock    sync.Locker // held while Scaler is asked
	Changed func()      // called, under Lock, when something may be due at another time
	Tags    *service.Tags
	RoleARN string // that targets are scaled under
	// LoseTokens makes paged listings of scalable targets end early without a token, as AWS's has been seen to do.
	LoseTokens bool
}

// Autoscaling is the service. It is safe for concurrent use.
type Autoscaling struct {
	now        func() time.Time
	scaler     *autoscale.Scaler
	lock       sync.Locker
	changed    func()
	tags       *service.Tags
	roleARN    string
	loseTokens bool
}

// New is the front of a scaler.
func New(cfg Config) *Autoscaling {
	return &Autoscaling{cfg.Now, cfg.Scaler, cfg.Lock, cfg.Changed, cfg.Tags, cfg.RoleARN, cfg.LoseTokens}
}

// Service is its operations.
func (s *Autoscaling) Service() service.Service {
	return service.Service{Target: "AnyScaleFrontendService", Name: "application-autoscaling", Operations: service.Operations{
		"RegisterScalableTarget":    service.Op(s.registerTarget),
		"DeregisterScalableTarget":  service.Op(s.deregisterTarget),
		"DescribeScalableTargets":   service.Op(s.describeTargets),
		"PutScalingPolicy":          service.Op(s.putPolicy),
		"DeleteScalingPolicy":       service.Op(s.deletePolicy),
		"DescribeScalingPolicies":   service.Op(s.describePolicies),
		"PutScheduledAction":        service.Op(s.putScheduled),
		"DeleteScheduledAction":     service.Op(s.deleteScheduled),
		"DescribeScheduledActions":  service.Op(s.describeScheduled),
		"DescribeScalingActivities": service.Op(s.describeActivities),
		"TagResource":               service.Op(s.tagTarget),
		"UntagResource":             service.Op(s.untagTarget),
		"ListTagsForResource":       service.Op(s.listTargetTags),
	}}
}

// sagemakerNamespace is the only namespace that there is.
const sagemakerNamespace = "sagemaker"

const mostTags = 50 // of one target

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

// scalable checks what names a target: its form first, without looking anything up.
func scalable(namespace, resource, dimension *string) (string, error) {
	if err := inNamespace(namespace); err != nil {
		return "", err
	}
	r, err := autoscale.ParseResource(service.Or(resource, ""))
	if d := service.Or(dimension, ""); err == nil && d != r.Dimension() || d != autoscale.InstanceCount && d != autoscale.CopyCount {
		return "", wire.Refuse(wire.ValidationException, "Unsupported scalable dimension %q for the resource ID %q.", d, service.Or(resource, ""))
	}
	return r.ID(), Fault(err)
}

func inNamespace(namespace *string) error {
	if n := service.Or(namespace, ""); n != sagemakerNamespace {
		return wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%s' at 'serviceNamespace' failed to satisfy constraint: only sagemaker is part of this local account", n)
	}
	return nil
}

func (s *Autoscaling) registerTarget(_ context.Context, in *registerIn) (*registerOut, error) {
	id, err := scalable(in.ServiceNamespace, in.ResourceId, in.ScalableDimension)
	if err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	r := autoscale.Registration{Resource: id, Min: in.MinCapacity, Max: in.MaxCapacity}
	if is := in.SuspendedState; is != nil {
		r.Suspended = &autoscale.Suspension{In: is.DynamicScalingInSuspended, Out: is.DynamicScalingOutSuspended, Scheduled: is.ScheduledScalingSuspended}
	}
	t, err := s.scaler.Register(s.now(), r)
	if err != nil {
		return nil, Fault(err)
	}
	if in.Tags != nil {
		s.tags.Set(t.ARN, in.Tags)
	}
	s.changed()
	return &registerOut{t.ARN}, nil
}

type targetNameIn struct {
	ServiceNamespace, ResourceId, ScalableDimension *string
}

func (s *Autoscaling) deregisterTarget(_ context.Context, in *targetNameIn) (*service.Nothing, error) {
	id, err := scalable(in.ServiceNamespace, in.ResourceId, in.ScalableDimension)
	if err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	t, _ := s.scaler.Target(id)
	if err := s.scaler.Deregister(id); err != nil {
		return nil, Fault(err)
	}
	s.tags.Forget(t.ARN)
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

func (s *Autoscaling) describeTargets(_ context.Context, in *describeTargetsIn) (*describeTargetsOut, error) {
	if err := inNamespace(in.ServiceNamespace); err != nil {
		return nil, err
	}
	if len(in.ResourceIds) > 50 {
		return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value at 'resourceIds' failed to satisfy constraint: Member must have length less than or equal to 50")
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	all := []target{}
	for _, t := range s.scaler.Targets() {
		if (len(in.ResourceIds) == 0 || slices.Contains(in.ResourceIds, t.Resource)) && service.Or(in.ScalableDimension, t.Dimension) == t.Dimension {
			all = append(all, target{
				ServiceNamespace: sagemakerNamespace, ResourceId: t.Resource, ScalableDimension: t.Dimension, ScalableTargetARN: t.ARN,
				MinCapacity: t.Min, MaxCapacity: t.Max, CreationTime: wire.At(t.Created),
				RoleARN:        s.roleARN,
				SuspendedState: suspended{t.Suspended.In, t.Suspended.Out, t.Suspended.Scheduled},
			})
		}
	}
	page, next, err := service.Page(all, in.MaxResults, in.NextToken, 50, 50, wire.InvalidNextToken)
	if err != nil {
		return nil, err
	}
	if s.loseTokens && len(in.ResourceIds) == 0 {
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

// targetARN is the ARN of a scalable target that is there. lock is held.
func (s *Autoscaling) targetARN(arn *string) (string, error) {
	for _, t := range s.scaler.Targets() {
		if t.ARN == service.Or(arn, "") {
			return t.ARN, nil
		}
	}
	return "", wire.Refuse(wire.ResourceNotFound, "The resource %q doesn't exist.", service.Or(arn, ""))
}

func (s *Autoscaling) tagTarget(_ context.Context, in *targetTagsIn) (*service.Nothing, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	arn, err := s.targetARN(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	merged := s.tags.Of(arn)
	maps.Copy(merged, in.Tags)
	if len(merged) > mostTags {
		return nil, wire.Refuse(wire.ValidationException, "The resource %q would have %d tags, %d are the limit.", arn, len(merged), mostTags)
	}
	s.tags.Set(arn, merged)
	return &service.Nothing{}, nil
}

func (s *Autoscaling) untagTarget(_ context.Context, in *targetTagsIn) (*service.Nothing, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	arn, err := s.targetARN(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	s.tags.Remove(arn, in.TagKeys)
	return &service.Nothing{}, nil
}

func (s *Autoscaling) listTargetTags(_ context.Context, in *targetTagsIn) (*targetTagsOut, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	arn, err := s.targetARN(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return &targetTagsOut{s.tags.Of(arn)}, nil
}

// Fault is the autoscaler's refusal on the wire; another error is itself.
func Fault(err error) error {
	var e *autoscale.Error
	if errors.As(err, &e) {
		return wire.Refuse(e.Code, "%s", e.Message)
	}
	return err
}
