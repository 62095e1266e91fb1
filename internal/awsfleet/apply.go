package awsfleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"loadline/internal/audit"
	"loadline/internal/capacity"
	"loadline/internal/freeze"
)

// Apply does the changes in their order and stops at the first that fails.
func (v *Variant) Apply(ctx context.Context, c audit.Changes) error {
	if t := c.Register; t != nil {
		v.Say("registering the scalable target")
		if err := v.registerNew(ctx, t); err != nil {
			return fmt.Errorf("register %s: %w", v.resource(), err)
		}
	}
	arns := map[string]string{}
	put := func(p audit.Policy) error {
		v.Say("putting policy " + p.Name)
		arn, err := v.putPolicy(ctx, p)
		if err != nil {
			return fmt.Errorf("put policy %s: %w", p.Name, err)
		}
		arns[p.Name] = arn
		return nil
	}
	remove := func(name string) error {
		v.Say("deleting policy " + name)
		_, err := v.scaling.DeleteScalingPolicy(ctx, &applicationautoscaling.DeleteScalingPolicyInput{
			ServiceNamespace: aas.ServiceNamespaceSagemaker, ScalableDimension: v.dimension(), ResourceId: aws.String(v.resource()), PolicyName: &name})
		var gone *aas.ObjectNotFoundException
		if err != nil && !errors.As(err, &gone) {
			return fmt.Errorf("delete policy %s: %w", name, cause(ctx, plain(err)))
		}
		return nil
	}
	for _, p := range c.Put {
		if slices.Contains(c.Delete, p.Name) { // of another type until now
			if err := remove(p.Name); err != nil {
				return err
			}
		}
		if err := put(p); err != nil {
			return err
		}
	}
	if err := v.putAlarms(ctx, c.PutAlarms, arns); err != nil {
		return err
	}
	for _, name := range c.Delete {
		if !slices.ContainsFunc(c.Put, func(p audit.Policy) bool { return p.Name == name }) {
			if err := remove(name); err != nil {
				return err
			}
		}
	}
	if len(c.DeleteAlarms) > 0 {
		v.Say("deleting alarms")
		if _, err := v.cloudwatch.DeleteAlarms(ctx, &cloudwatch.DeleteAlarmsInput{AlarmNames: c.DeleteAlarms}); err != nil {
			return fmt.Errorf("delete alarms %s: %w", strings.Join(c.DeleteAlarms, ", "), cause(ctx, plain(err)))
		}
	}
	if c.Deregister {
		v.Say("deregistering the scalable target")
		_, err := v.scaling.DeregisterScalableTarget(ctx, &applicationautoscaling.DeregisterScalableTargetInput{
			ServiceNamespace: aas.ServiceNamespaceSagemaker, ScalableDimension: v.dimension(), ResourceId: aws.String(v.resource())})
		var gone *aas.ObjectNotFoundException
		if err != nil && !errors.As(err, &gone) {
			return fmt.Errorf("deregister %s: %w", v.resource(), cause(ctx, plain(err)))
		}
	}
	return nil
}

// registerNew makes a target or changes one.
func (v *Variant) registerNew(ctx context.Context, t *audit.Target) error {
	f := freeze.Flags{Out: t.Out, In: t.In, Sched: t.Sched}
	_, err := v.scaling.RegisterScalableTarget(ctx, &applicationautoscaling.RegisterScalableTargetInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ScalableDimension: v.dimension(), ResourceId: aws.String(v.resource()),
		MinCapacity: aws.Int32(int32(t.Min)), MaxCapacity: aws.Int32(int32(t.Max)),
		SuspendedState: &aas.SuspendedState{DynamicScalingOutSuspended: &f.Out, DynamicScalingInSuspended: &f.In, ScheduledScalingSuspended: &f.Sched},
	})
	return cause(ctx, plain(err))
}

func (v *Variant) putPolicy(ctx context.Context, p audit.Policy) (arn string, err error) {
	in := &applicationautoscaling.PutScalingPolicyInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ScalableDimension: v.dimension(), ResourceId: aws.String(v.resource()), PolicyName: &p.Name}
	narrow := func(n *int) *int32 {
		if n == nil {
			return nil
		}
		return aws.Int32(int32(*n))
	}
	switch p.Type {
	case capacity.TargetTracking:
		in.PolicyType = aas.PolicyTypeTargetTrackingScaling
		t := &aas.TargetTrackingScalingPolicyConfiguration{TargetValue: p.Target, DisableScaleIn: &p.NoScaleIn,
			ScaleOutCooldown: narrow(p.OutCooldown), ScaleInCooldown: narrow(p.InCooldown)}
		if p.Metric.Predefined != "" {
			t.PredefinedMetricSpecification = &aas.PredefinedMetricSpecification{PredefinedMetricType: aas.MetricType(p.Metric.Predefined)}
		} else {
			t.CustomizedMetricSpecification = &aas.CustomizedMetricSpecification{Namespace: &p.Metric.Namespace, MetricName: &p.Metric.Name, Statistic: aas.MetricStatistic(p.Statistic)}
			for name, value := range p.Metric.Dimensions {
				t.CustomizedMetricSpecification.Dimensions = append(t.CustomizedMetricSpecification.Dimensions, aas.MetricDimension{Name: &name, Value: &value})
			}
		}
		in.TargetTrackingScalingPolicyConfiguration = t
	default:
		in.PolicyType = aas.PolicyTypeStepScaling
		s := &aas.StepScalingPolicyConfiguration{AdjustmentType: aas.AdjustmentType(p.Adjustment), MetricAggregationType: aas.MetricAggregationType(p.Statistic), Cooldown: narrow(p.Cooldown)}
		for _, x := range p.Steps {
			s.StepAdjustments = append(s.StepAdjustments, aas.StepAdjustment{MetricIntervalLowerBound: x.Lower, MetricIntervalUpperBound: x.Upper, ScalingAdjustment: aws.Int32(int32(x.Change))})
		}
		in.StepScalingPolicyConfiguration = s
	}
	out, err := v.scaling.PutScalingPolicy(ctx, in)
	if err != nil {
		return "", cause(ctx, plain(err))
	}
	return aws.ToString(out.PolicyARN), nil
}

// putAlarms puts alarms whose action is the policy that they trigger; arns are those that were put just now.
func (v *Variant) putAlarms(ctx context.Context, alarms []audit.Alarm, arns map[string]string) error {
	for _, a := range alarms {
		v.Say("putting alarm " + a.Name)
		actions := slices.DeleteFunc(slices.Clone(a.Actions), func(x string) bool { return strings.Contains(x, ":scalingPolicy:") })
		if a.Triggers != "" {
			arn, err := v.policyARN(ctx, a.Triggers, arns)
			if err != nil {
				return fmt.Errorf("put alarm %s: %w", a.Name, err)
			}
			actions = append(actions, arn)
		}
		in := &cloudwatch.PutMetricAlarmInput{
			AlarmName: &a.Name, Namespace: &a.Metric.Namespace, MetricName: &a.Metric.Name, Period: aws.Int32(int32(a.Period)),
			EvaluationPeriods: aws.Int32(int32(a.Evaluation)), Threshold: &a.Threshold, ComparisonOperator: cw.ComparisonOperator(a.Comparison),
			Unit: cw.StandardUnit(a.Unit), ActionsEnabled: &a.Enabled, AlarmActions: actions,
		}
		if a.Datapoints > 0 {
			in.DatapointsToAlarm = aws.Int32(int32(a.Datapoints))
		}
		if a.MissingData != "" {
			in.TreatMissingData = &a.MissingData
		}
		if strings.HasPrefix(a.Statistic, "p") {
			in.ExtendedStatistic = &a.Statistic
		} else {
			in.Statistic = cw.Statistic(a.Statistic)
		}
		for name, value := range a.Metric.Dimensions {
			in.Dimensions = append(in.Dimensions, cw.Dimension{Name: &name, Value: &value})
		}
		if _, err := v.cloudwatch.PutMetricAlarm(ctx, in); err != nil {
			return fmt.Errorf("put alarm %s: %w", a.Name, cause(ctx, plain(err)))
		}
	}
	return nil
}

// policyARN is the ARN of a policy that is there, or was put just now.
func (v *Variant) policyARN(ctx context.Context, name string, arns map[string]string) (string, error) {
	if arn := arns[name]; arn != "" {
		return arn, nil
	}
	out, err := v.scaling.DescribeScalingPolicies(ctx, &applicationautoscaling.DescribeScalingPoliciesInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ScalableDimension: v.dimension(), ResourceId: aws.String(v.resource()), PolicyNames: []string{name}})
	if err != nil {
		return "", cause(ctx, plain(err))
	}
	if len(out.ScalingPolicies) == 0 {
		return "", fmt.Errorf("its policy %s does not exist", name)
	}
	return aws.ToString(out.ScalingPolicies[0].PolicyARN), nil
}
