package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
)

// Formats that Emit knows.
var Formats = []string{"json", "aws-cli", "cloudformation", "terraform"}

// Requests are the API calls that put a plan in place, in order: the scalable target, the policies, then the alarms. The
// alarm of a step policy names it in Policy: its action is that policy's ARN, which only putting the policy tells.
type Requests struct {
	Target   map[string]any `json:"RegisterScalableTarget"`
	Policies []any          `json:"PutScalingPolicy"`
	Alarms   []AlarmRequest `json:"PutMetricAlarm"`
}

// AlarmRequest is one alarm and the policy that it triggers, if any.
type AlarmRequest struct {
	Policy  string         `json:"policy,omitempty"`
	Request map[string]any `json:"request"`
}

// Emit prints what puts the plan in place: the calls as JSON, or as commands of the AWS CLI that a POSIX shell runs; or the
// same target, policies and alarms as a CloudFormation template, or as Terraform resources. A stopped plan is not emitted,
// nor one without policies.
func Emit(p *artifact.Plan, format string) (string, error) {
	switch {
	case p.Verdict == capacity.Stop:
		return "", fmt.Errorf("the plan is stopped by %s: its calls are not printed until that is mended or taken on (--accept)", strings.Join(Stops(p), ", "))
	case len(p.Policies) == 0:
		return "", fmt.Errorf("the plan has no policies to put in place: its notes say why")
	}
	r := requests(p)
	switch format {
	case "json":
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return "", fmt.Errorf("print the calls: %w", err)
		}
		return string(data) + "\n", nil
	case "aws-cli":
		return commands(p, r)
	case "cloudformation":
		return template(r)
	case "terraform":
		return terraform(p, r), nil
	}
	return "", fmt.Errorf("format %q: one of %s is known", format, strings.Join(Formats, ", "))
}

func requests(p *artifact.Plan) Requests {
	id, dimension := p.Target.Scales()
	resource := map[string]any{"ServiceNamespace": "sagemaker", "ResourceId": id, "ScalableDimension": dimension}
	with := func(more map[string]any) map[string]any {
		for k, v := range resource {
			more[k] = v
		}
		return more
	}
	r := Requests{Target: with(map[string]any{
		"MinCapacity": max(1, p.Config.MinInstances), "MaxCapacity": max(1, p.Config.MaxInstances),
	}), Alarms: []AlarmRequest{}}
	for _, pol := range p.Policies {
		req := map[string]any{"PolicyName": pol.Name}
		switch pol.Type {
		case capacity.TargetTracking:
			req["PolicyType"] = "TargetTrackingScaling"
			track := map[string]any{"TargetValue": *pol.Target, "DisableScaleIn": pol.NoScaleIn,
				"ScaleOutCooldown": pol.OutCooldown, "ScaleInCooldown": pol.InCooldown}
			if pol.Metric.Predefined != "" {
				track["PredefinedMetricSpecification"] = map[string]any{"PredefinedMetricType": pol.Metric.Predefined}
			} else {
				track["CustomizedMetricSpecification"] = map[string]any{"Namespace": pol.Metric.Namespace, "MetricName": pol.Metric.Name,
					"Dimensions": dimensions(pol.Metric), "Statistic": pol.Statistic}
			}
			req["TargetTrackingScalingPolicyConfiguration"] = track
		case capacity.StepScaling:
			req["PolicyType"] = "StepScaling"
			var steps []map[string]any
			for _, s := range pol.Steps {
				step := map[string]any{"ScalingAdjustment": s.Change}
				if s.Lower != nil {
					step["MetricIntervalLowerBound"] = *s.Lower
				}
				if s.Upper != nil {
					step["MetricIntervalUpperBound"] = *s.Upper
				}
				steps = append(steps, step)
			}
			req["StepScalingPolicyConfiguration"] = map[string]any{
				"AdjustmentType": pol.Adjustment, "MetricAggregationType": pol.Statistic,
				"Cooldown": stepCooldown(pol), "StepAdjustments": steps,
			}
		}
		r.Policies = append(r.Policies, with(req))
	}
	for _, a := range p.Alarms {
		req := map[string]any{
			"AlarmName": a.Name, "Namespace": a.Metric.Namespace, "MetricName": a.Metric.Name,
			"Dimensions": dimensions(a.Metric), "Period": a.Period, "EvaluationPeriods": a.Evaluation, "DatapointsToAlarm": a.Datapoints,
			"Threshold": a.Threshold, "ComparisonOperator": a.Comparison, "TreatMissingData": a.MissingData,
		}
		if strings.HasPrefix(a.Statistic, "p") {
			req["ExtendedStatistic"] = a.Statistic
		} else {
			req["Statistic"] = a.Statistic
		}
		if a.Unit != "" {
			req["Unit"] = a.Unit
		}
		r.Alarms = append(r.Alarms, AlarmRequest{Policy: a.Policy, Request: req})
	}
	return r
}

// stepCooldown is that of the direction in which a step policy goes.
func stepCooldown(pol capacity.Policy) int {
	if pol.NoScaleIn {
		return pol.OutCooldown
	}
	return pol.InCooldown
}

// dimensions of a metric as the API takes them, by name.
func dimensions(m capacity.Metric) []map[string]string {
	list := []map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(m.Dimensions)) {
		list = append(list, map[string]string{"Name": name, "Value": m.Dimensions[name]})
	}
	return list
}

// commands prints each request as one command that hands it over as JSON, so that nothing but one quoted word reaches
// the shell. The ARN of a step policy goes from the command that makes it into its alarm's action. They run in a subshell
// that ends at the first failure, so that a pasted one leaves the user's own shell as it was.
func commands(p *artifact.Plan, r Requests) (string, error) {
	var b strings.Builder
	region := ""
	if p.Fingerprint.Region != "" {
		region = " --region " + quote(p.Fingerprint.Region)
	}
	b.WriteString("( set -e\n")
	call := func(assign, service, operation string, req any, tail string) error {
		data, err := json.Marshal(req)
		if err != nil {
			return fmt.Errorf("print the calls: %w", err)
		}
		end := ""
		if assign != "" {
			assign, end = assign+`="$(`, `)"`
		}
		fmt.Fprintf(&b, "%saws %s %s%s \\\n  --cli-input-json %s%s%s\n", assign, service, operation, region, quote(string(data)), tail, end)
		return nil
	}
	if err := call("", "application-autoscaling", "register-scalable-target", r.Target, ""); err != nil {
		return "", err
	}
	arn := map[string]string{}
	for i, req := range r.Policies {
		name, tail := "", ""
		if p.Policies[i].Type == capacity.StepScaling {
			name, tail = fmt.Sprintf("policy_arn_%d", i+1), " --query PolicyARN --output text"
			arn[p.Policies[i].Name] = name
		}
		if err := call(name, "application-autoscaling", "put-scaling-policy", req, tail); err != nil {
			return "", err
		}
	}
	for _, a := range r.Alarms {
		tail := ""
		if name := arn[a.Policy]; name != "" {
			tail = ` --alarm-actions "$` + name + `"`
		}
		if err := call("", "cloudwatch", "put-metric-alarm", a.Request, tail); err != nil {
			return "", err
		}
	}
	b.WriteString(")\n")
	return b.String(), nil
}

// quote makes s one word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Stops are the names of the findings that stop the plan.
func Stops(p *artifact.Plan) []string {
	var names []string
	for _, f := range p.Findings {
		if f.Verdict == capacity.Stop {
			names = append(names, f.Name)
		}
	}
	return names
}
