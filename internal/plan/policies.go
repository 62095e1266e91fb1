package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"loadline/internal/capacity"
)

// Set is policies and alarms of one scalable target, from a plan or from a file of somebody's own.
type Set struct {
	Policies []capacity.Policy
	Alarms   []capacity.Alarm
	Min, Max int
}

// ReadPolicies takes policies in any of these forms, told apart by what they hold:
//
//   - ours: `policies`, `alarms`, `min_instances` and `max_instances`, written as a plan writes them (there the two bounds
//     stand in `config`);
//   - the requests that plan --emit json prints: `RegisterScalableTarget`, `PutScalingPolicy`, `PutMetricAlarm`;
//   - what the AWS CLI prints, its objects in one: `ScalableTargets`, `ScalingPolicies`, `MetricAlarms`.
//
// Every alarm of a step policy must be there; those of target tracking are the autoscaler's own and are left out. Of
// several resources only what is on the given one is taken.
func ReadPolicies(data []byte, resource string) (Set, error) {
	var f policiesFile
	if err := json.Unmarshal(data, &f); err != nil {
		return Set{}, fmt.Errorf("policies: the file is not JSON: %w", err)
	}
	s := Set{Policies: f.Policies, Alarms: f.Alarms, Min: f.Min, Max: f.Max}
	if f.Config != nil {
		s.Min, s.Max = f.Config.Min, f.Config.Max
	}
	targets := f.Targets
	if f.Register != nil {
		targets = append(targets, *f.Register)
	}
	only, err := f.only(resource)
	if err != nil {
		return Set{}, err
	}
	for _, t := range targets {
		if only == "" || t.ResourceID == only {
			s.Min, s.Max = t.MinCapacity, t.MaxCapacity
		}
	}
	arns := map[string]string{}
	for _, p := range slices.Concat(f.Put, f.Scaling) {
		if only != "" && p.ResourceID != only {
			continue
		}
		pol, err := p.policy()
		if err != nil {
			return Set{}, err
		}
		arns[p.PolicyARN] = pol.Name
		s.Policies = append(s.Policies, pol)
	}
	for _, a := range f.PutAlarms {
		s.Alarms = append(s.Alarms, a.Request.alarm(a.Policy))
	}
	for _, a := range f.MetricAlarms {
		for _, arn := range a.AlarmActions {
			if name := arns[arn]; arn != "" && name != "" && !strings.HasPrefix(a.AlarmName, "TargetTracking-") {
				s.Alarms = append(s.Alarms, a.alarm(name))
			}
		}
	}
	return s, s.check()
}

// only is the resource that counts, where the file names several; empty: whatever there is.
func (f *policiesFile) only(resource string) (string, error) {
	var named []string
	for _, t := range f.Targets {
		named = append(named, t.ResourceID)
	}
	for _, p := range f.Scaling {
		named = append(named, p.ResourceID)
	}
	slices.Sort(named)
	named = slices.Compact(named)
	switch {
	case len(named) < 2:
		return "", nil
	case !slices.Contains(named, resource):
		return "", fmt.Errorf("policies: the file is of several resources, and the plan's, %s, is not among them: %s", resource, strings.Join(named, ", "))
	}
	return resource, nil
}

// check lists what keeps a set from being played.
func (s *Set) check() error {
	var bad []error
	if len(s.Policies) == 0 {
		bad = append(bad, errors.New("policies: there are none: the file needs policies, PutScalingPolicy or ScalingPolicies"))
	}
	if s.Max < 1 || s.Min < 0 || s.Min > s.Max {
		bad = append(bad, fmt.Errorf("policies: from %d to %d instances: min_instances and max_instances (or a scalable target) are needed", s.Min, s.Max))
	}
	for i := range s.Policies {
		p := &s.Policies[i]
		switch p.Type {
		case capacity.TargetTracking:
			if p.Target == nil || !(*p.Target > 0) {
				bad = append(bad, fmt.Errorf("policy %s: target tracking without a target above 0", p.Name))
			}
		case capacity.StepScaling:
			j := slices.IndexFunc(s.Alarms, func(a capacity.Alarm) bool { return a.Policy == p.Name })
			if j < 0 {
				bad = append(bad, fmt.Errorf("policy %s: a step policy acts on an alarm, and none names it", p.Name))
				continue
			}
			a := s.Alarms[j]
			p.Metric, p.Statistic, p.Period, p.Threshold, p.Comparison = a.Metric, a.Statistic, a.Period, &a.Threshold, a.Comparison
			p.Evaluation, p.Datapoints, p.MissingData = a.Evaluation, a.Datapoints, a.MissingData
		default:
			bad = append(bad, fmt.Errorf("policy %s: its type is %q: %s and %s are played", p.Name, p.Type, capacity.TargetTracking, capacity.StepScaling))
		}
	}
	return errors.Join(bad...)
}

type policiesFile struct {
	Policies []capacity.Policy `json:"policies"`
	Alarms   []capacity.Alarm  `json:"alarms"`
	Min      int               `json:"min_instances"`
	Max      int               `json:"max_instances"`
	Config   *struct {
		Min int `json:"min_instances"`
		Max int `json:"max_instances"`
	} `json:"config"`

	Register  *awsTarget  `json:"RegisterScalableTarget"`
	Put       []awsPolicy `json:"PutScalingPolicy"`
	PutAlarms []struct {
		Policy  string   `json:"policy"`
		Request awsAlarm `json:"request"`
	} `json:"PutMetricAlarm"`

	Targets      []awsTarget `json:"ScalableTargets"`
	Scaling      []awsPolicy `json:"ScalingPolicies"`
	MetricAlarms []awsAlarm  `json:"MetricAlarms"`
}

type awsTarget struct {
	ResourceID               string `json:"ResourceId"`
	MinCapacity, MaxCapacity int
}

type awsPolicy struct {
	ResourceID                        string `json:"ResourceId"`
	PolicyName, PolicyARN, PolicyType string
	Tracking                          *awsTracking `json:"TargetTrackingScalingPolicyConfiguration"`
	Step                              *awsStep     `json:"StepScalingPolicyConfiguration"`
}

type awsMetric struct {
	Namespace, MetricName string
	Dimensions            []struct{ Name, Value string }
}

func (m awsMetric) metric() capacity.Metric {
	out := capacity.Metric{Namespace: m.Namespace, Name: m.MetricName, Dimensions: map[string]string{}}
	for _, d := range m.Dimensions {
		out.Dimensions[d.Name] = d.Value
	}
	return out
}

type awsTracking struct {
	TargetValue                       float64
	DisableScaleIn                    bool
	ScaleOutCooldown, ScaleInCooldown *int
	Predefined                        *struct{ PredefinedMetricType string } `json:"PredefinedMetricSpecification"`
	Custom                            *struct {
		awsMetric
		Statistic string
	} `json:"CustomizedMetricSpecification"`
}

type awsStep struct {
	AdjustmentType, MetricAggregationType string
	Cooldown                              *int
	StepAdjustments                       []struct {
		Lower             *float64 `json:"MetricIntervalLowerBound"`
		Upper             *float64 `json:"MetricIntervalUpperBound"`
		ScalingAdjustment int
	}
}

type awsAlarm struct {
	AlarmName string
	awsMetric
	Statistic, ExtendedStatistic string
	Period, EvaluationPeriods    int
	DatapointsToAlarm            *int
	Threshold                    float64
	ComparisonOperator           string
	TreatMissingData             string
	AlarmActions                 []string
}

// defaultCooldown is the platform's, where a policy states none.
const defaultCooldown = 300

func cooldown(s *int) int {
	if s == nil {
		return defaultCooldown
	}
	return *s
}

func (p awsPolicy) policy() (capacity.Policy, error) {
	out := capacity.Policy{Name: p.PolicyName, Source: "as read"}
	switch {
	case p.Tracking != nil:
		t := p.Tracking
		out.Type, out.Target, out.NoScaleIn = capacity.TargetTracking, &t.TargetValue, t.DisableScaleIn
		out.OutCooldown, out.InCooldown = cooldown(t.ScaleOutCooldown), cooldown(t.ScaleInCooldown)
		switch {
		case t.Predefined != nil:
			out.Metric.Predefined = t.Predefined.PredefinedMetricType
		case t.Custom != nil:
			out.Metric, out.Statistic = t.Custom.metric(), t.Custom.Statistic
		default:
			return out, fmt.Errorf("policy %s: target tracking names no metric", p.PolicyName)
		}
	case p.Step != nil:
		out.Type, out.Adjustment = capacity.StepScaling, p.Step.AdjustmentType
		out.OutCooldown = cooldown(p.Step.Cooldown)
		out.InCooldown = out.OutCooldown
		out.NoScaleIn = true
		for _, s := range p.Step.StepAdjustments {
			out.Steps = append(out.Steps, capacity.Step{Lower: s.Lower, Upper: s.Upper, Change: s.ScalingAdjustment})
			out.NoScaleIn = out.NoScaleIn && s.ScalingAdjustment >= 0
		}
	default:
		return out, fmt.Errorf("policy %s: of type %s, which is not played: TargetTrackingScaling and StepScaling are", p.PolicyName, p.PolicyType)
	}
	return out, nil
}

func (a awsAlarm) alarm(policy string) capacity.Alarm {
	out := capacity.Alarm{Name: a.AlarmName, Metric: a.metric(), Statistic: a.Statistic, Period: a.Period, Comparison: a.ComparisonOperator,
		Threshold: a.Threshold, Evaluation: a.EvaluationPeriods, Datapoints: a.EvaluationPeriods, MissingData: a.TreatMissingData, Policy: policy, Source: "as read"}
	if out.Statistic == "" {
		out.Statistic = a.ExtendedStatistic
	}
	if a.DatapointsToAlarm != nil {
		out.Datapoints = *a.DatapointsToAlarm
	}
	return out
}
