package autoscaling

import (
	"context"
	"errors"
	"slices"
	"time"

	"loadline/internal/alarm"
	"loadline/internal/autoscale"
	"loadline/internal/local/cloudwatch"
	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// The policy types.
const (
	targetTracking = "TargetTrackingScaling"
	stepScaling    = "StepScaling"
)

type trackingConfig struct {
	TargetValue                   *float64
	PredefinedMetricSpecification *predefinedMetric `json:",omitempty"`
	CustomizedMetricSpecification *customMetric     `json:",omitempty"`
	ScaleOutCooldown              *int              `json:",omitempty"`
	ScaleInCooldown               *int              `json:",omitempty"`
	DisableScaleIn                *bool             `json:",omitempty"`
}

type predefinedMetric struct {
	PredefinedMetricType *string
	ResourceLabel        *string `json:",omitempty"`
}

type customMetric struct {
	MetricName *string                `json:",omitempty"`
	Namespace  *string                `json:",omitempty"`
	Dimensions []cloudwatch.Dimension `json:",omitempty"`
	Statistic  *string                `json:",omitempty"`
	Unit       *string                `json:",omitempty"`
	Metrics    []cloudwatch.Query     `json:",omitempty"`
}

type stepConfig struct {
	AdjustmentType         *string          `json:",omitempty"`
	StepAdjustments        []stepAdjustment `json:",omitempty"`
	MinAdjustmentMagnitude *int             `json:",omitempty"`
	Cooldown               *int             `json:",omitempty"`
	MetricAggregationType  *string          `json:",omitempty"`
}

type stepAdjustment struct {
	MetricIntervalLowerBound *float64 `json:",omitempty"`
	MetricIntervalUpperBound *float64 `json:",omitempty"`
	ScalingAdjustment        *int
}

type putPolicyIn struct {
	PolicyName, ServiceNamespace, ResourceId, ScalableDimension, PolicyType *string
	StepScalingPolicyConfiguration                                          *stepConfig
	TargetTrackingScalingPolicyConfiguration                                *trackingConfig
	PredictiveScalingPolicyConfiguration                                    *service.Nothing
}

type putPolicyOut struct {
	PolicyARN string
	Alarms    []policyAlarm
}

type policyAlarm struct{ AlarmName, AlarmARN string }

func (s *Autoscaling) putPolicy(_ context.Context, in *putPolicyIn) (*putPolicyOut, error) {
	id, err := scalable(in.ServiceNamespace, in.ResourceId, in.ScalableDimension)
	if err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	p := autoscale.Policy{Name: service.Or(in.PolicyName, ""), Resource: id}
	for _, old := range s.scaler.Policies(id) {
		if old.Name == p.Name {
			p.Tracking, p.Step = old.Tracking, old.Step // what is not given stays
		}
	}
	kind := service.Or(in.PolicyType, "")
	switch {
	case kind == "PredictiveScaling" || in.PredictiveScalingPolicyConfiguration != nil:
		return nil, wire.Refuse(wire.ValidationException, "Predictive scaling is supported on Amazon ECS services only.")
	case kind == "" && p.Tracking == nil && p.Step == nil:
		return nil, wire.Refuse(wire.ValidationException, "PolicyType must be given when a policy is created: %s or %s.", targetTracking, stepScaling)
	case kind != "" && kind != targetTracking && kind != stepScaling:
		return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%s' at 'policyType' failed to satisfy constraint: Member must satisfy enum value set: [StepScaling, TargetTrackingScaling]", kind)
	case kind == targetTracking && in.StepScalingPolicyConfiguration != nil, kind == stepScaling && in.TargetTrackingScalingPolicyConfiguration != nil:
		return nil, wire.Refuse(wire.ValidationException, "The configuration given is not the one of a %s policy.", kind)
	}
	if c := in.TargetTrackingScalingPolicyConfiguration; c != nil {
		if p.Tracking, err = c.read(); err != nil {
			return nil, err
		}
		p.Step = nil
	}
	if c := in.StepScalingPolicyConfiguration; c != nil {
		p.Step, p.Tracking = c.read(), nil
	}
	made, err := s.scaler.PutPolicy(s.now(), p)
	if err != nil {
		return nil, Fault(err)
	}
	s.changed()
	return &putPolicyOut{made.ARN, policyAlarms(made)}, nil
}

func policyAlarms(p autoscale.Policy) []policyAlarm {
	out := []policyAlarm{}
	for _, a := range p.Alarms {
		out = append(out, policyAlarm{a.Name, a.ARN})
	}
	return out
}

func seconds(n *int) *time.Duration {
	if n == nil {
		return nil
	}
	d := time.Duration(*n) * time.Second
	return &d
}

func inSeconds(d *time.Duration) *int {
	if d == nil {
		return nil
	}
	n := int(*d / time.Second)
	return &n
}

func (c *trackingConfig) read() (*autoscale.Tracking, error) {
	if c.TargetValue == nil {
		return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value null at 'targetTrackingScalingPolicyConfiguration.targetValue' failed to satisfy constraint: Member must not be null")
	}
	tt := &autoscale.Tracking{Target: *c.TargetValue, OutCooldown: seconds(c.ScaleOutCooldown), InCooldown: seconds(c.ScaleInCooldown),
		NoScaleIn: service.Or(c.DisableScaleIn, false)}
	if p := c.PredefinedMetricSpecification; p != nil {
		if p.ResourceLabel != nil {
			return nil, wire.Refuse(wire.ValidationException, "A resource label is for ALBRequestCountPerTarget only.")
		}
		tt.Predefined = service.Or(p.PredefinedMetricType, "")
	}
	if m := c.CustomizedMetricSpecification; m != nil {
		if m.Metrics != nil {
			minute := 60 // the period that policies compute with, whatever is asked
			q, _, err := cloudwatch.MathQuery(m.Metrics, &minute)
			var f *wire.Fault
			if errors.As(err, &f) {
				return nil, wire.Refuse(wire.ValidationException, "CustomizedMetricSpecification: %s", f.Message)
			}
			tt.Custom = &q
			return tt, nil
		}
		q := alarm.Query{Namespace: service.Or(m.Namespace, ""), Name: service.Or(m.MetricName, ""), Statistic: service.Or(m.Statistic, ""), Unit: service.Or(m.Unit, "")}
		for _, d := range m.Dimensions {
			q.Dims = append(q.Dims, alarm.Dimension(d))
		}
		tt.Custom = &q
	}
	return tt, nil
}

func (c *stepConfig) read() *autoscale.Step {
	st := &autoscale.Step{Adjustment: autoscale.Adjustment(service.Or(c.AdjustmentType, "")), MinMagnitude: service.Or(c.MinAdjustmentMagnitude, 0),
		Cooldown: seconds(c.Cooldown), Aggregation: service.Or(c.MetricAggregationType, "")}
	for _, a := range c.StepAdjustments {
		st.Steps = append(st.Steps, autoscale.StepAdjustment{Lower: a.MetricIntervalLowerBound, Upper: a.MetricIntervalUpperBound, Change: service.Or(a.ScalingAdjustment, 0)})
	}
	return st
}

type policyNameIn struct {
	PolicyName, ServiceNamespace, ResourceId, ScalableDimension *string
}

func (s *Autoscaling) deletePolicy(_ context.Context, in *policyNameIn) (*service.Nothing, error) {
	id, err := scalable(in.ServiceNamespace, in.ResourceId, in.ScalableDimension)
	if err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	return &service.Nothing{}, Fault(s.scaler.DeletePolicy(id, service.Or(in.PolicyName, "")))
}

type describePoliciesIn struct {
	PolicyNames                                                []string
	ServiceNamespace, ResourceId, ScalableDimension, NextToken *string
	MaxResults                                                 *int
}

type describePoliciesOut struct {
	ScalingPolicies []scalingPolicy
	NextToken       string `json:",omitempty"`
}

type scalingPolicy struct {
	PolicyARN, PolicyName, ServiceNamespace, ResourceId, ScalableDimension, PolicyType string
	StepScalingPolicyConfiguration                                                     *stepConfig     `json:",omitempty"`
	TargetTrackingScalingPolicyConfiguration                                           *trackingConfig `json:",omitempty"`
	Alarms                                                                             []policyAlarm
	CreationTime                                                                       wire.Stamp
}

// within checks what a listing is limited to: nothing, or a resource with its dimension.
func within(namespace, resource, dimension *string) error {
	if err := inNamespace(namespace); err != nil {
		return err
	}
	if resource == nil {
		if dimension != nil {
			return wire.Refuse(wire.ValidationException, "If you specify a scalable dimension, you must also specify a resource ID.")
		}
		return nil
	}
	r, err := autoscale.ParseResource(*resource)
	if err == nil && dimension != nil && *dimension != r.Dimension() {
		return wire.Refuse(wire.ValidationException, "Unsupported scalable dimension %q for the resource ID %q.", *dimension, *resource)
	}
	return Fault(err)
}

func (s *Autoscaling) describePolicies(_ context.Context, in *describePoliciesIn) (*describePoliciesOut, error) {
	if err := within(in.ServiceNamespace, in.ResourceId, in.ScalableDimension); err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	all := []scalingPolicy{}
	for _, p := range s.scaler.Policies(service.Or(in.ResourceId, "")) {
		if len(in.PolicyNames) > 0 && !slices.Contains(in.PolicyNames, p.Name) {
			continue
		}
		r, _ := autoscale.ParseResource(p.Resource)
		out := scalingPolicy{PolicyARN: p.ARN, PolicyName: p.Name, ServiceNamespace: sagemakerNamespace, ResourceId: p.Resource,
			ScalableDimension: r.Dimension(), PolicyType: stepScaling, Alarms: policyAlarms(p), CreationTime: wire.At(p.Created)}
		if p.Tracking != nil {
			out.PolicyType, out.TargetTrackingScalingPolicyConfiguration = targetTracking, writeTracking(p.Tracking)
		} else {
			out.StepScalingPolicyConfiguration = writeStep(p.Step)
		}
		all = append(all, out)
	}
	page, next, err := service.Page(all, in.MaxResults, in.NextToken, 50, 50, wire.InvalidNextToken)
	if err != nil {
		return nil, err
	}
	return &describePoliciesOut{page, next}, nil
}

func writeTracking(tt *autoscale.Tracking) *trackingConfig {
	c := &trackingConfig{TargetValue: &tt.Target, ScaleOutCooldown: inSeconds(tt.OutCooldown), ScaleInCooldown: inSeconds(tt.InCooldown)}
	if tt.NoScaleIn {
		c.DisableScaleIn = &tt.NoScaleIn
	}
	if tt.Custom == nil {
		c.PredefinedMetricSpecification = &predefinedMetric{PredefinedMetricType: &tt.Predefined}
		return c
	}
	q := tt.Custom
	if q.Math != "" {
		c.CustomizedMetricSpecification = &customMetric{Metrics: withoutPeriods(cloudwatch.QueriesOf(q))}
		return c
	}
	c.CustomizedMetricSpecification = &customMetric{MetricName: &q.Name, Namespace: &q.Namespace, Statistic: &q.Statistic}
	if q.Unit != "" {
		c.CustomizedMetricSpecification.Unit = &q.Unit
	}
	for _, d := range q.Dims {
		c.CustomizedMetricSpecification.Dimensions = append(c.CustomizedMetricSpecification.Dimensions, cloudwatch.Dimension(d))
	}
	return c
}

// withoutPeriods are queries as policies have them: nobody gives them a period.
func withoutPeriods(queries []cloudwatch.Query) []cloudwatch.Query {
	for _, q := range queries {
		if q.MetricStat != nil {
			q.MetricStat.Period = nil
		}
	}
	return queries
}

func writeStep(st *autoscale.Step) *stepConfig {
	kind := string(st.Adjustment)
	c := &stepConfig{AdjustmentType: &kind, Cooldown: inSeconds(st.Cooldown)}
	if st.MinMagnitude != 0 {
		c.MinAdjustmentMagnitude = &st.MinMagnitude
	}
	if st.Aggregation != "" {
		c.MetricAggregationType = &st.Aggregation
	}
	for _, a := range st.Steps {
		c.StepAdjustments = append(c.StepAdjustments, stepAdjustment{a.Lower, a.Upper, &a.Change})
	}
	return c
}
