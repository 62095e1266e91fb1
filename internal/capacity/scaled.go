package capacity

import (
	"fmt"
	"strings"
)

// PolicyCPU is the policy on processors, beside those of a rule.
const PolicyCPU = "loadline-cpu"

// CPUPolicy tracks a share of an instance's processors. CloudWatch sums CPUUtilization over cores, so that 70 % of four is
// 280. It adds instances only: a server that waits has idle processors and is busy all the same, so that low CPU is no
// reason to remove one, and CPU is never the only signal.
func CPUPolicy(percent float64, vcpus int, r Rule, endpoint, variant string) Policy {
	target := percent * float64(vcpus)
	return Policy{
		Name: PolicyCPU, Type: TargetTracking,
		Metric: Metric{Namespace: "/aws/sagemaker/Endpoints", Name: "CPUUtilization",
			Dimensions: map[string]string{"EndpointName": endpoint, "VariantName": variant}},
		Statistic: "Average", Period: SlowPeriod, Target: &target, Evaluation: periods, Datapoints: periods,
		NoScaleIn: true, OutCooldown: r.OutCooldown, InCooldown: r.InCooldown,
		Source: fmt.Sprintf("%g %% of %d vCPUs: the metric sums over cores", percent, vcpus),
	}
}

// perCopy is what stands for an instance's metric where copies of an inference component are what scales.
var perCopy = map[string]string{
	"SageMakerVariantInvocationsPerInstance":                   "SageMakerInferenceComponentInvocationsPerCopy",
	"SageMakerVariantConcurrentRequestsPerModelHighResolution": "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution",
	"InvocationsPerInstance":                                   "InvocationsPerCopy",
	"ConcurrentRequestsPerModel":                               "ConcurrentRequestsPerCopy",
}

// PerCopy makes policies and alarms on a variant's instances into those on the copies of an inference component. Numbers
// stay as they are: what was measured of one instance with one copy is what a copy carries.
func PerCopy(policies []Policy, alarms []Alarm, endpoint, variant, component string) {
	turned := func(m *Metric) {
		if name := perCopy[m.Predefined]; name != "" {
			m.Predefined = name
		}
		if name := perCopy[m.Name]; name != "" && m.Namespace == "AWS/SageMaker" {
			m.Name, m.Dimensions = name, map[string]string{"InferenceComponentName": component}
		}
	}
	for i := range policies {
		turned(&policies[i].Metric)
		policies[i].Source += "; per copy"
	}
	for i := range alarms {
		turned(&alarms[i].Metric)
		if rest, ok := strings.CutPrefix(alarms[i].Name, endpoint+"-"+variant+"-"); ok {
			alarms[i].Name = endpoint + "-" + component + "-" + rest
		}
	}
}
