package capacity

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
	dims := map[string]string{"EndpointName": endpoint, "VariantName": variant}
	concurrent := Metric{Namespace: "AWS/SageMaker", Name: "ConcurrentRequestsPerModel", Dimensions: dims}
	zero := 0.0
	out := Policy{
		Name: PolicyConcurrency, Type: TargetTracking,
		Metric: Metric{Predefined: "SageMakerVariantConcurrentRequestsPerModelHighResolution"},
		Period: FastPeriod, Target: r.ScalingTarget, Evaluation: periods, Datapoints: periods,
		NoScaleIn: true, OutCooldown: r.OutCooldown, InCooldown: r.InCooldown,
		Source: "C_scale_max × the CloudWatch ratio",
	}
	in := Policy{
		Name: PolicyStepIn, Type: StepScaling, Metric: concurrent, Statistic: "Maximum",
		Period: SlowPeriod, Threshold: r.ScaleIn, Comparison: atOrBelow,
		Steps: []Step{{Upper: &zero, Change: -1}}, Adjustment: "ChangeInCapacity",
		Evaluation: periods, Datapoints: periods, MissingData: missingOK,
		OutCooldown: r.OutCooldown, InCooldown: r.InCooldown,
		Source: "C_scale_min × the CloudWatch ratio",
	}
	alarm := Alarm{
		Name: endpoint + "-" + variant + "-" + PolicyStepIn, Metric: concurrent, Statistic: in.Statistic, Period: in.Period,
		Comparison: in.Comparison, Threshold: *r.ScaleIn, Evaluation: periods, Datapoints: periods,
		MissingData: missingOK, Policy: in.Name, Source: in.Source,
	}
	return []Policy{out, in}, []Alarm{alarm}
}

// FlowPolicies are the flow rule's policies in its first form: the rate alone, which is linear in the load, so that what
// target tracking asks for is right in both directions and it may own scale-in.
func FlowPolicies(r Rule) []Policy {
	if !r.Defined {
		return nil
	}
	return []Policy{{
		Name: PolicyRate, Type: TargetTracking,
		Metric:    Metric{Predefined: "SageMakerVariantInvocationsPerInstance"},
		Statistic: "Sum", Period: SlowPeriod, Target: r.ScalingTarget, Evaluation: periods, Datapoints: periods,
		OutCooldown: r.OutCooldown, InCooldown: r.InCooldown,
		Source: "60 × λ*, invocations a minute and instance",
	}}
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
