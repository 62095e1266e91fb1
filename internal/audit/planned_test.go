package audit

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/plan"
)

// planned is a plan of the published ladder.
func planned(t *testing.T, rule string, more plan.Scaled) *artifact.Plan {
	t.Helper()
	data, err := os.ReadFile("../artifact/testdata/published/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json")
	if err != nil {
		t.Fatal(err)
	}
	q, err := artifact.ReadQMax(data)
	if err != nil {
		t.Fatal(err)
	}
	in := plan.Input{QMax: q, AssumeT: 320, Scenario: capacity.Scenario{Rule: rule, PeakRPS: 100, TroughRPS: 10, SurgeRatio: 1.25, MinFloor: 1, Ceiling: 60, Accept: []string{"fleet_throughput"}}, Scaled: more}
	p, err := plan.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// emitted is what a CloudFormation template of the plan deploys, in the words of Planned.
func emitted(t *testing.T, p *artifact.Plan) Scaling {
	t.Helper()
	text, err := plan.Emit(p, "cloudformation")
	if err != nil {
		t.Fatal(err)
	}
	type metric struct {
		PredefinedMetricType, Namespace, MetricName, Statistic string
		Dimensions                                             []struct{ Name, Value string }
	}
	var doc struct {
		Resources map[string]struct {
			Type       string
			Properties struct {
				ResourceId               string
				MinCapacity, MaxCapacity int
				PolicyName               string
				Track                    *struct {
					TargetValue                                                  *float64
					DisableScaleIn                                               bool
					ScaleOutCooldown, ScaleInCooldown                            *int
					PredefinedMetricSpecification, CustomizedMetricSpecification metric
				} `json:"TargetTrackingScalingPolicyConfiguration"`
				Step *struct {
					AdjustmentType, MetricAggregationType string
					Cooldown                              *int
					StepAdjustments                       []struct {
						MetricIntervalLowerBound, MetricIntervalUpperBound *float64
						ScalingAdjustment                                  int
					}
				} `json:"StepScalingPolicyConfiguration"`
				metric
				AlarmName, ExtendedStatistic, Unit, ComparisonOperator, TreatMissingData string
				Period, EvaluationPeriods, DatapointsToAlarm                             int
				Threshold                                                                float64
				AlarmActions                                                             []struct{ Ref string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	read := func(m metric) capacity.Metric {
		out := capacity.Metric{Predefined: m.PredefinedMetricType, Namespace: m.Namespace, Name: m.MetricName}
		for _, d := range m.Dimensions {
			if out.Dimensions == nil {
				out.Dimensions = map[string]string{}
			}
			out.Dimensions[d.Name] = d.Value
		}
		return out
	}
	var s Scaling
	for _, r := range doc.Resources {
		x := r.Properties
		switch {
		case r.Type == "AWS::ApplicationAutoScaling::ScalableTarget":
			s.Resource, s.Target = x.ResourceId, &Target{Resource: x.ResourceId, Min: x.MinCapacity, Max: x.MaxCapacity}
		case x.Track != nil:
			out := Policy{Name: x.PolicyName, Type: capacity.TargetTracking, Target: x.Track.TargetValue, NoScaleIn: x.Track.DisableScaleIn, OutCooldown: x.Track.ScaleOutCooldown,
				InCooldown: x.Track.ScaleInCooldown, Metric: read(x.Track.PredefinedMetricSpecification)}
			if out.Metric.Predefined == "" {
				out.Metric, out.Statistic = read(x.Track.CustomizedMetricSpecification), x.Track.CustomizedMetricSpecification.Statistic
			}
			s.Policies = append(s.Policies, out)
		case x.Step != nil:
			out := Policy{Name: x.PolicyName, Type: capacity.StepScaling, Adjustment: x.Step.AdjustmentType, Statistic: x.Step.MetricAggregationType, Cooldown: x.Step.Cooldown}
			for _, a := range x.Step.StepAdjustments {
				out.Steps = append(out.Steps, capacity.Step{Lower: a.MetricIntervalLowerBound, Upper: a.MetricIntervalUpperBound, Change: a.ScalingAdjustment})
			}
			s.Policies = append(s.Policies, out)
		default:
			out := Alarm{Name: x.AlarmName, Metric: read(x.metric), Statistic: cmp.Or(x.Statistic, x.ExtendedStatistic), Period: x.Period, Comparison: x.ComparisonOperator, Threshold: x.Threshold,
				Evaluation: x.EvaluationPeriods, Datapoints: x.DatapointsToAlarm, MissingData: x.TreatMissingData, Unit: x.Unit, Enabled: true}
			for _, a := range x.AlarmActions {
				out.Triggers = doc.Resources[a.Ref].Properties.PolicyName
			}
			s.Alarms = append(s.Alarms, out)
		}
	}
	slices.SortFunc(s.Policies, func(a, b Policy) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Alarms, func(a, b Alarm) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// TestEmittedIsPlanned: a template deploys what apply would put, value by value.
func TestEmittedIsPlanned(t *testing.T) {
	for rule, more := range map[string]plan.Scaled{capacity.RuleSlots: {CPU: 70, VCPUs: 4}, capacity.RuleFlow: {Component: "voice"}} {
		p := planned(t, rule, more)
		have, want := emitted(t, p), Planned(p)
		if c := Between(have, want, true); !c.Empty() || have.Resource != want.Resource || len(have.Policies) != len(p.Policies) || len(have.Alarms) != len(p.Alarms) {
			t.Errorf("%s: %s, %d policies, %d alarms; apply would still %q", rule, have.Resource, len(have.Policies), len(have.Alarms), c.Lines())
		}
	}
}

// TestComponent: the copies of an inference component are compared as instances are.
func TestComponent(t *testing.T) {
	base := func() (Declared, Deployed) {
		want, have := clean()
		want.Component, have.Component = "voice", &Component{Name: "voice", Status: "InService", Desired: 2, Current: 2, Copy: &artifact.Copy{CPUs: 4}}
		want.Copy = &artifact.Copy{CPUs: 4}
		for i := range have.Policies {
			have.Policies[i].Resource = "inference-component/voice"
		}
		have.Targets[0].Resource = "inference-component/voice"
		return want, have
	}
	want, have := base()
	if r := Compare(want, have, now); r.Drift() {
		t.Errorf("clean: %+v", r.Findings)
	}
	for _, c := range []struct {
		kind string
		do   func(*Deployed)
	}{
		{"component_missing", func(h *Deployed) { h.Component = nil }},
		{"target_orphan", func(h *Deployed) { h.Component = nil }},
		{"component_status", func(h *Deployed) { h.Component.Status, h.Component.Reason = "Failed", "no memory" }},
		{"copy", func(h *Deployed) { h.Component.Copy.CPUs = 8 }},
		{"below_min", func(h *Deployed) { h.Component.Desired = 0 }},
		{"target_missing", func(h *Deployed) { h.Targets = nil }},
		{"target_value", func(h *Deployed) { h.Policies[0].Target = new(1.0) }},
	} {
		want, have := base()
		c.do(&have)
		r := Compare(want, have, now)
		i := slices.IndexFunc(r.Findings, func(f Finding) bool {
			return f.Kind == c.kind && strings.Contains(f.Resource, "inference-component/voice")
		})
		if i < 0 {
			t.Errorf("%s is not found: %+v", c.kind, r.Findings)
		} else if m := r.Findings[i].Mend; strings.HasPrefix(m, "aws application-autoscaling") && !strings.Contains(m, "sagemaker:inference-component:DesiredCopyCount") {
			t.Errorf("%s is mended by %s", c.kind, m)
		}
	}
}
