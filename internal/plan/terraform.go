package plan

import (
	"encoding/json"
	"fmt"
	"strings"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
)

// terraform is the requests as resources of HashiCorp's AWS provider. The provider itself, its region and credentials are
// left to the configuration that they are put into.
func terraform(p *artifact.Plan, r Requests) string {
	h := &hcl{names: map[string]bool{}}
	h.line("# Scaling of %s, as planned by tts-bench plan.", r.Target["ResourceId"])
	h.line("")
	h.open(`resource "aws_appautoscaling_target" "loadline"`)
	h.set("service_namespace", r.Target["ServiceNamespace"])
	h.set("resource_id", r.Target["ResourceId"])
	h.set("scalable_dimension", r.Target["ScalableDimension"])
	h.set("min_capacity", r.Target["MinCapacity"])
	h.set("max_capacity", r.Target["MaxCapacity"])
	h.close()
	label := map[string]string{} // of policies, by name
	for _, pol := range p.Policies {
		label[pol.Name] = h.label(pol.Name)
		h.line("")
		h.open(`resource "aws_appautoscaling_policy" ` + quoted(label[pol.Name]))
		h.set("name", pol.Name)
		for _, same := range []string{"service_namespace", "resource_id", "scalable_dimension"} {
			h.refer(same, "aws_appautoscaling_target.loadline."+same)
		}
		switch pol.Type {
		case capacity.TargetTracking:
			h.tracking(pol)
		case capacity.StepScaling:
			h.steps(pol)
		}
		h.close()
	}
	for i, a := range p.Alarms {
		req := r.Alarms[i].Request
		h.line("")
		h.open(`resource "aws_cloudwatch_metric_alarm" ` + quoted(h.label(a.Name)))
		for _, m := range []struct{ name, member string }{{"alarm_name", "AlarmName"}, {"namespace", "Namespace"}, {"metric_name", "MetricName"},
			{"statistic", "Statistic"}, {"extended_statistic", "ExtendedStatistic"}, {"unit", "Unit"}, {"period", "Period"}, {"evaluation_periods", "EvaluationPeriods"},
			{"datapoints_to_alarm", "DatapointsToAlarm"}, {"threshold", "Threshold"}, {"comparison_operator", "ComparisonOperator"}, {"treat_missing_data", "TreatMissingData"}} {
			if v := req[m.member]; v != nil {
				h.set(m.name, v)
			}
		}
		h.open("dimensions =")
		for _, d := range dimensions(a.Metric) {
			h.set(d["Name"], d["Value"])
		}
		h.close()
		if to := label[a.Policy]; to != "" {
			h.refer("alarm_actions", "[aws_appautoscaling_policy."+to+".arn]")
		}
		h.close()
	}
	return h.b.String()
}

func (h *hcl) tracking(pol capacity.Policy) {
	h.set("policy_type", "TargetTrackingScaling")
	h.open("target_tracking_scaling_policy_configuration")
	h.set("target_value", *pol.Target)
	h.set("disable_scale_in", pol.NoScaleIn)
	h.set("scale_out_cooldown", pol.OutCooldown)
	h.set("scale_in_cooldown", pol.InCooldown)
	if pol.Metric.Predefined != "" {
		h.open("predefined_metric_specification")
		h.set("predefined_metric_type", pol.Metric.Predefined)
	} else {
		h.open("customized_metric_specification")
		h.set("namespace", pol.Metric.Namespace)
		h.set("metric_name", pol.Metric.Name)
		h.set("statistic", pol.Statistic)
		for _, d := range dimensions(pol.Metric) {
			h.open("dimensions")
			h.set("name", d["Name"])
			h.set("value", d["Value"])
			h.close()
		}
	}
	h.close()
	h.close()
}

func (h *hcl) steps(pol capacity.Policy) {
	h.set("policy_type", "StepScaling")
	h.open("step_scaling_policy_configuration")
	h.set("adjustment_type", pol.Adjustment)
	h.set("metric_aggregation_type", pol.Statistic)
	h.set("cooldown", stepCooldown(pol))
	for _, s := range pol.Steps {
		h.open("step_adjustment")
		h.set("scaling_adjustment", s.Change)
		if s.Lower != nil {
			h.set("metric_interval_lower_bound", *s.Lower)
		}
		if s.Upper != nil {
			h.set("metric_interval_upper_bound", *s.Upper)
		}
		h.close()
	}
	h.close()
}

// hcl writes Terraform's language, as terraform fmt would lay it out: the values of neighbouring arguments are aligned.
type hcl struct {
	b     strings.Builder
	depth int
	names map[string]bool // labels so far
	args  [][2]string     // names and values that are not written yet
}

func (h *hcl) flush() {
	width := 0
	for _, a := range h.args {
		width = max(width, len(a[0]))
	}
	for _, a := range h.args {
		fmt.Fprintf(&h.b, "%s%-*s = %s\n", strings.Repeat("  ", h.depth), width, a[0], a[1])
	}
	h.args = nil
}

func (h *hcl) line(format string, args ...any) {
	h.flush()
	if format != "" {
		h.b.WriteString(strings.Repeat("  ", h.depth))
	}
	fmt.Fprintf(&h.b, format+"\n", args...)
}

func (h *hcl) open(head string) { h.line("%s {", head); h.depth++ }

func (h *hcl) close() {
	h.flush()
	h.depth--
	h.line("}")
}

func (h *hcl) set(name string, v any) {
	if s, ok := v.(string); ok {
		v = quoted(s)
	}
	h.refer(name, fmt.Sprint(v))
}

// refer sets an argument to an expression.
func (h *hcl) refer(name, expression string) {
	h.args = append(h.args, [2]string{name, expression})
}

// label is a name as a label that nothing else has.
func (h *hcl) label(name string) string {
	base := strings.Map(func(r rune) rune {
		if letter(r) || r == '-' {
			return r
		}
		return '_'
	}, name)
	if base == "" || base[0] >= '0' && base[0] <= '9' || base[0] == '-' {
		base = "_" + base
	}
	label := base
	for n := 2; h.names[label]; n++ {
		label = fmt.Sprintf("%s_%d", base, n)
	}
	h.names[label] = true
	return label
}

// quoted is a string literal: JSON's escapes are Terraform's, and what would begin a template is doubled.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""`
	}
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strings.TrimSuffix(b.String(), "\n"))
}
