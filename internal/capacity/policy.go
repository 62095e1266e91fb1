package capacity

import "math"

// Names of the policies of a plan. What is deployed is matched by content, not by name.
const (
	PolicyConcurrency = "loadline-concurrency-out"
	PolicyStepIn      = "loadline-concurrency-in"
	PolicyRate        = "loadline-rate"
)

const (
	missingOK = "notBreaching"
	atOrBelow = "LessThanOrEqualToThreshold"
	above     = "GreaterThanThreshold"
)

// SlotsPolicies are the published rule's policies for a variant, none without a target. The scale-in threshold is in
// units of the metric's Maximum, so Maximum is what the alarm reads; and an idle endpoint's silence is no breach.
func SlotsPolicies(r Rule, endpoint, variant string) ([]Policy, []Alarm) {
	if !r.Defined || r.ScalingTarget == nil {
		return nil, nil
	}
	zero := 0.0
	out := Policy{
		Name: PolicyConcurrency, Type: TargetTracking,
		Metric: Metric{Predefined: "SageMakerVariantConcurrentRequestsPerModelHighResolution"},
		Period: FastPeriod, Target: r.ScalingTarget, Evaluation: periods, Datapoints: periods,
		NoScaleIn: true, OutCooldown: r.OutCooldown, InCooldown: r.InCooldown,
		Source: "C_scale_max × the CloudWatch ratio",
	}
	in := Policy{
		Name: PolicyStepIn, Type: StepScaling, Metric: ofVariant("ConcurrentRequestsPerModel", endpoint, variant), Statistic: "Maximum",
		Period: SlowPeriod, Threshold: r.ScaleIn, Comparison: atOrBelow,
		Steps: []Step{{Upper: &zero, Change: -1}}, Adjustment: "ChangeInCapacity",
		Evaluation: periods, Datapoints: periods, MissingData: missingOK,
		OutCooldown: r.OutCooldown, InCooldown: r.InCooldown,
		Source: "C_scale_min × the CloudWatch ratio",
	}
	return []Policy{out, in}, []Alarm{alarmOf(in, in.Statistic, endpoint, variant)}
}

func ofVariant(metric, endpoint, variant string) Metric {
	return Metric{Namespace: "AWS/SageMaker", Name: metric, Dimensions: map[string]string{"EndpointName": endpoint, "VariantName": variant}}
}

// alarmOf is the alarm that a step policy acts on. What it reads may be a Sum; of its datapoints a policy takes the mean, the
// least or the most.
func alarmOf(p Policy, statistic, endpoint, variant string) Alarm {
	return Alarm{
		Name: endpoint + "-" + variant + "-" + p.Name, Metric: p.Metric, Statistic: statistic, Period: p.Period,
		Comparison: p.Comparison, Threshold: *p.Threshold, Evaluation: p.Evaluation, Datapoints: p.Datapoints,
		MissingData: p.MissingData, Policy: p.Name, Source: p.Source,
	}
}

// FlowPolicies are the flow rule's policies for a variant. The rate is linear in the load, so that what target tracking
// asks for is right in both directions and it owns scale-in. Concurrency sees a surge sooner, and says nothing about its
// size once instances are full: it adds the surge's share of the fleet, once, and never removes. Where a rate cannot be
// counted (long streams) concurrency is tracked instead, in both directions.
func FlowPolicies(r Rule, h float64, endpoint, variant string) ([]Policy, []Alarm) {
	if !r.Defined {
		return nil, nil
	}
	cooldowns := "out: provisioning, since updates wait in line; in: max(300, 3 T)"
	track := Policy{
		Name: PolicyRate, Type: TargetTracking,
		Metric:    Metric{Predefined: "SageMakerVariantInvocationsPerInstance"},
		Statistic: "Sum", Period: SlowPeriod, Target: r.ScalingTarget, Evaluation: periods, Datapoints: periods,
		OutCooldown: r.OutCooldown, InCooldown: r.InCooldown,
		Source: "60 × λ*, invocations a minute and instance", Cooldowns: cooldowns,
	}
	if r.Signal == SignalConcurrency {
		track.Name, track.Statistic, track.Period, track.Predicted = PolicyConcurrency, "", FastPeriod, !r.ThresholdMeasured
		track.Metric = Metric{Predefined: "SageMakerVariantConcurrentRequestsPerModelHighResolution"}
		track.Source = "requests held at λ*, from the chain: " + r.SignalWhy
		return []Policy{track}, nil
	}
	if r.Threshold == nil || h <= 0 {
		return []Policy{track}, nil
	}
	zero := 0.0
	step := Policy{
		Name: PolicyConcurrency, Type: StepScaling, Metric: ofVariant("ConcurrentRequestsPerModel", endpoint, variant), Statistic: "Maximum", Period: FastPeriod,
		Threshold: r.Threshold, Comparison: above,
		Steps: []Step{{Lower: &zero, Change: int(math.Ceil(100 * h * (1 - 1e-12)))}}, Adjustment: "PercentChangeInCapacity",
		Evaluation: periods, Datapoints: periods, MissingData: missingOK, NoScaleIn: true,
		OutCooldown: r.OutCooldown, InCooldown: r.InCooldown, Predicted: !r.ThresholdMeasured,
		Source:    "what the busiest instance holds at λ* in all but 5 % of periods; one step adds h of the fleet",
		Cooldowns: cooldowns,
	}
	if r.ThresholdMeasured {
		step.Source += ": " + r.ThresholdSource
	}
	return []Policy{track, step}, []Alarm{alarmOf(step, step.Statistic, endpoint, variant)}
}

// ServiceAlarm tells people that an instance serves slower than when it was measured: the container's own service time,
// which leaves queue wait out, against what a client saw at N = 1. Nil where N = 1 was not measured.
func ServiceAlarm(m Measured, endpoint, variant string) *Alarm {
	if m.SAt != 1 {
		return nil
	}
	return &Alarm{
		Name: endpoint + "-" + variant + "-service-time",
		Metric: Metric{Namespace: "Loadline/Speech", Name: "ServiceTime",
			Dimensions: map[string]string{"EndpointName": endpoint, "VariantName": variant}},
		Statistic: "p95", Period: SlowPeriod, Comparison: above, Threshold: 1000 * m.SP95, Unit: "Milliseconds",
		Evaluation: 3, Datapoints: 2, MissingData: missingOK,
		Source: "S_p95 at N = 1, which no queue lengthens",
	}
}
