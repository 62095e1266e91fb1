package plan

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"loadline/internal/capacity"
)

// TestFurther: processors are counted over cores and only add; copies have metrics, dimensions, a resource and a scalable
// dimension of their own, and the numbers stay those of the rule.
func TestFurther(t *testing.T) {
	plain, cpu := emitted(t, capacity.RuleFlow, Scaled{}), emitted(t, capacity.RuleFlow, Scaled{CPU: 70, VCPUs: 4})
	pol := cpu.Policies[len(cpu.Policies)-1]
	if len(cpu.Policies) != len(plain.Policies)+1 || pol.Name != capacity.PolicyCPU || *pol.Target != 280 || !pol.NoScaleIn || pol.Metric.Namespace != "/aws/sagemaker/Endpoints" ||
		pol.Metric.Dimensions["VariantName"] != "primary" || pol.Statistic != "Average" || pol.OutCooldown != plain.Policies[0].OutCooldown {
		t.Errorf("%+v", pol)
	}
	if *cpu.Config.ScalingTargetValue != *plain.Config.ScalingTargetValue {
		t.Errorf("the registry's target is %g, was %g", *cpu.Config.ScalingTargetValue, *plain.Config.ScalingTargetValue)
	}

	copies := emitted(t, capacity.RuleFlow, Scaled{Component: "voice"})
	id, dimension := copies.Target.Scales()
	if id != "inference-component/voice" || dimension != "sagemaker:inference-component:DesiredCopyCount" {
		t.Errorf("%s %s", id, dimension)
	}
	if !slices.ContainsFunc(copies.Notes, func(n string) bool { return strings.Contains(n, "held one") }) {
		t.Errorf("%q", copies.Notes)
	}
	for i, pol := range copies.Policies {
		was := plain.Policies[i]
		if name := pol.Metric.Predefined + pol.Metric.Name; !strings.Contains(name, "PerCopy") || pol.Metric.Dimensions["EndpointName"] != "" {
			t.Errorf("%s is on %s %v", pol.Name, name, pol.Metric.Dimensions)
		}
		if pol.Target != nil && *pol.Target != *was.Target || pol.OutCooldown != was.OutCooldown || was.Metric.Predefined != "SageMakerVariantInvocationsPerInstance" && was.Metric.Name != "ConcurrentRequestsPerModel" {
			t.Errorf("%+v was %+v", pol, was)
		}
	}
	if a := copies.Alarms[0]; a.Metric.Name != "ConcurrentRequestsPerCopy" || len(a.Metric.Dimensions) != 1 || a.Metric.Dimensions["InferenceComponentName"] != "voice" || a.Name != "speech-kokoro-82m-voice-loadline-concurrency-out" {
		t.Errorf("%+v", a)
	}
}

// TestOfComponent: a ladder of a component's copies plans for them without being asked, and says what it is of.
func TestOfComponent(t *testing.T) {
	for asked, says := range map[string]string{"": "copies of voice here: Q_max is per copy, as the ladder measured it", "voice": "as the ladder measured it", "other": "copies of other here: Q_max is per copy, as long as it is what a copy of voice is"} {
		in := published(t, capacity.RuleFlow)
		in.QMax.Target.Component = "voice"
		in.Scaled.Component = asked
		in.Scenario.Accept = []string{"fleet_throughput"}
		p, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		if want := cmp.Or(asked, "voice"); p.Target.Component != want || !strings.Contains(strings.Join(p.Notes, "\n"), says) {
			t.Errorf("%q: of %q, notes %q", asked, p.Target.Component, p.Notes)
		}
		if m := p.Policies[0].Metric; !strings.Contains(m.Predefined+m.Name, "PerCopy") {
			t.Errorf("%q: %+v", asked, m)
		}
	}
}
