package stack

import (
	"cmp"
	"math"
	"strings"

	"loadline/internal/artifact"
	"loadline/internal/audit"
	"loadline/internal/capacity"
)

// settle is how long, in seconds, beyond the measured scale-out a signal may stay above its target before people are told:
// detection and the publication of metrics.
const settle = 300

// autoscaling is the construct EndpointAutoscaling: the scalable target, the plan's policies and alarms as they stand in
// it, and alarms that say when scaling does not do what it was planned to.
//
// The target has no role: SageMaker's scaling is done by the service-linked one.
func autoscaling(s scope, m Model, ep resource, topic any) {
	id := audit.Resource(m.Endpoint, m.Variant)
	target := s.add("Target", "AWS::ApplicationAutoScaling::ScalableTarget", object{
		"ServiceNamespace": "sagemaker", "ScalableDimension": artifact.InstanceCount, "ResourceId": id,
		"MinCapacity": max(1, m.Plan.Config.MinInstances), "MaxCapacity": max(1, m.Plan.Config.MaxInstances),
	}).after(ep)
	policies := map[string]resource{}
	for _, p := range m.Plan.Policies {
		body := object{"PolicyName": p.Name, "ScalingTargetId": target.ref()}
		switch p.Type {
		case capacity.TargetTracking:
			tracked := object{"TargetValue": *p.Target, "DisableScaleIn": p.NoScaleIn, "ScaleOutCooldown": p.OutCooldown, "ScaleInCooldown": p.InCooldown}
			if p.Metric.Predefined != "" {
				tracked["PredefinedMetricSpecification"] = object{"PredefinedMetricType": p.Metric.Predefined}
			} else {
				tracked["CustomizedMetricSpecification"] = object{"Namespace": p.Metric.Namespace, "MetricName": p.Metric.Name, "Statistic": p.Statistic, "Dimensions": pairs(p.Metric.Dimensions)}
			}
			body["PolicyType"], body["TargetTrackingScalingPolicyConfiguration"] = "TargetTrackingScaling", tracked
		case capacity.StepScaling:
			var steps list
			for _, x := range p.Steps {
				step := object{"ScalingAdjustment": x.Change}
				if x.Lower != nil {
					step["MetricIntervalLowerBound"] = *x.Lower
				}
				if x.Upper != nil {
					step["MetricIntervalUpperBound"] = *x.Upper
				}
				steps = append(steps, step)
			}
			cooldown := p.InCooldown
			if p.NoScaleIn {
				cooldown = p.OutCooldown
			}
			body["PolicyType"] = "StepScaling"
			body["StepScalingPolicyConfiguration"] = object{"AdjustmentType": p.Adjustment, "MetricAggregationType": p.Statistic, "Cooldown": cooldown, "StepAdjustments": steps}
		default:
			continue
		}
		policies[p.Name] = s.add(logicalID(p.Name), "AWS::ApplicationAutoScaling::ScalingPolicy", body)
	}
	for _, a := range m.Plan.Alarms {
		body := object{
			"AlarmName": a.Name, "Namespace": a.Metric.Namespace, "MetricName": a.Metric.Name, "Dimensions": pairs(a.Metric.Dimensions),
			"Period": a.Period, "EvaluationPeriods": a.Evaluation, "DatapointsToAlarm": a.Datapoints, "Threshold": a.Threshold,
			"ComparisonOperator": a.Comparison, "TreatMissingData": a.MissingData,
		}
		if a.Unit != "" {
			body["Unit"] = a.Unit
		}
		if a.Statistic[0] == 'p' {
			body["ExtendedStatistic"] = a.Statistic
		} else {
			body["Statistic"] = a.Statistic
		}
		p, scales := policies[a.Policy]
		if scales {
			body["AlarmDescription"], body["AlarmActions"] = "Scales "+id+": "+a.Source, list{p.ref()}
		} else {
			body["AlarmDescription"], body["AlarmActions"], body["OKActions"] = "An instance serves slower than when it was measured: "+a.Source, list{topic}, list{topic}
		}
		s.add(logicalID(a.Name)+"Alarm", "AWS::CloudWatch::Alarm", body)
	}
	s.watch(m, topic)
}

// watch tells people when the fleet cannot grow any more, when it does not although it should, and when nothing can be told.
func (s scope) watch(m Model, topic any) {
	most := max(1, m.Plan.Config.MaxInstances)
	s.alarm(m, topic, notice{
		id: "AtMax", name: "at-max", says: "The fleet has been as large as it may be for a quarter of an hour: more load will be late or refused.",
		metrics: list{
			m.metric("asked", sagemaker, "Invocations", "Sum", 60), m.metric("each", sagemaker, "InvocationsPerInstance", "Sum", 60),
			result("instances", "asked / each"), // each is asked over the number of instances
		},
		over: float64(most) - 0.5, periods: 15, of: 15,
	})
	if signal := m.signal(); signal != nil {
		last := int(math.Ceil((m.Plan.Measured.Lag.Provision + settle) / 60))
		signal.id, signal.name, signal.periods, signal.of = "ScalingStuck", "scaling-stuck", last, last
		signal.says = "What scales the fleet has been above its target for longer than new capacity takes: scaling fails, or is at its limit."
		s.alarm(m, topic, *signal)
	}
	s.alarm(m, topic, notice{
		id: "SignalLost", name: "signal-lost", says: "Requests come, and the concurrency that scaling reads has no data: nothing would scale.",
		metrics: list{
			m.metric("asked", sagemaker, "Invocations", "Sum", 60), m.metric("held", sagemaker, "ConcurrentRequestsPerModel", "Maximum", 60),
			result("lost", "IF(FILL(asked, 0) > 0 AND FILL(held, -1) < 0, 1, 0)"),
		},
		over: 0, periods: 5, of: 5,
	})
	s.add("ScalingFailed", "AWS::Events::Rule", object{
		"Description": "A change of the endpoint was rolled back or failed, scaling included.",
		"EventPattern": object{"source": list{"aws.sagemaker"}, "detail-type": list{"SageMaker Endpoint State Change"},
			"detail": object{"EndpointName": list{m.Endpoint}, "EndpointStatus": list{"FAILED", "OUT_OF_SERVICE", "ROLLING_BACK", "UPDATE_ROLLBACK_FAILED"}}},
		"Targets": list{object{"Id": "people", "Arn": topic}},
	})
}

// signal is what grows the fleet, with what it should not stay above: a target that is tracked, else the threshold of steps
// that add. Nil where it cannot be read at a minute.
func (m *Model) signal() *notice {
	for _, kind := range []string{capacity.TargetTracking, capacity.StepScaling} {
		for _, p := range m.Plan.Policies {
			over := p.Target
			if kind == capacity.StepScaling {
				over = p.Threshold
			}
			if p.Type != kind || over == nil || strings.HasPrefix(p.Comparison, "LessThan") {
				continue
			}
			switch cmp.Or(p.Metric.Predefined, p.Metric.Name) {
			case "SageMakerVariantInvocationsPerInstance", "InvocationsPerInstance":
				return &notice{metrics: list{shown(m.metric("each", sagemaker, "InvocationsPerInstance", "Sum", 60))}, over: *over}
			case "SageMakerVariantConcurrentRequestsPerModelHighResolution", "ConcurrentRequestsPerModel":
				return &notice{metrics: list{shown(m.metric("held", sagemaker, "ConcurrentRequestsPerModel", "Maximum", 60))}, over: *over}
			}
		}
	}
	return nil
}
