package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"loadline/internal/capacity"
)

func parseAt(s string) (time.Time, error) { return time.Parse("2006-01-02T15:04:05", s) }

// key tells metrics apart, whatever they are called by.
func key(m capacity.Metric) string {
	if m.Predefined != "" {
		return m.Predefined
	}
	switch m.Namespace + " " + m.Name {
	case "AWS/SageMaker InvocationsPerInstance":
		return "SageMakerVariantInvocationsPerInstance"
	}
	return m.Namespace + " " + m.Name
}

func metricText(m capacity.Metric) string {
	if m.Predefined != "" {
		return m.Predefined
	}
	return m.Namespace + " " + m.Name
}

func dims(m capacity.Metric) string {
	var s []string
	for _, k := range slices.Sorted(maps.Keys(m.Dimensions)) {
		s = append(s, k+"="+m.Dimensions[k])
	}
	return strings.Join(s, " ")
}

// policies matches what is declared and what is deployed by name, then by type and metric, and compares each pair whole.
func (c *comparison) policies(res string) {
	var have []Policy
	for _, p := range c.have.Policies {
		if p.Resource == res {
			have = append(have, p)
		}
	}
	taken := make([]bool, len(have))
	match := make([]int, len(c.want.Policies))
	for i, w := range c.want.Policies {
		match[i] = slices.IndexFunc(have, func(p Policy) bool { return p.Name == w.Name && p.Type == w.Type })
		if match[i] >= 0 {
			taken[match[i]] = true
		}
	}
	for i, w := range c.want.Policies {
		for k, p := range have {
			if match[i] < 0 && !taken[k] && p.Type == w.Type && (w.Type == capacity.StepScaling || key(p.Metric) == key(w.Metric)) {
				match[i], taken[k] = k, true
			}
		}
	}
	for i, w := range c.want.Policies {
		switch {
		case w.Type == capacity.Scheduled:
		case match[i] < 0:
			c.find("policy_missing", High, res+"#"+w.Name, "no such policy", fmt.Sprintf("%s on %s", w.Type, metricText(w.Metric)), c.apply())
		case w.Type == capacity.TargetTracking:
			c.tracking(res, w, have[match[i]])
		default:
			c.step(res, w, have[match[i]])
		}
	}
	for k, p := range have {
		c.fires(res, p)
		if !taken[k] {
			c.extra(res, p, have)
		}
	}
	if c.unread("alarms") {
		return
	}
	for _, w := range c.want.Alarms { // those that tell people
		if w.Policy != "" {
			continue
		}
		if a, ok := c.alarm(w.Name); ok {
			c.declaredAlarm(w, a, "")
		} else {
			c.find("alarm_missing", Medium, "alarm/"+w.Name, "no such alarm", w.Statistic+" of "+metricText(w.Metric), c.apply())
		}
	}
}

// extra is a policy that nobody declared: it acts nevertheless. It is never given a delete command: somebody made it.
func (c *comparison) extra(res string, p Policy, have []Policy) {
	for _, o := range have {
		if o.Name == p.Name || p.Type != capacity.TargetTracking || o.Type != p.Type || key(o.Metric) != key(p.Metric) || o.Target == nil || p.Target == nil {
			continue
		}
		governs, other := o, p
		if *p.Target < *o.Target {
			governs, other = p, o
		}
		c.find("policy_duplicate", High, res+"#"+p.Name,
			fmt.Sprintf("a second policy on %s: %s (target %s) governs scale-out, since the larger capacity is taken; scale-in waits until %s (target %s) agrees",
				metricText(p.Metric), governs.Name, shown(governs.Target), other.Name, shown(other.Target)), "one policy on a metric", "")
		return
	}
	what := "target tracking at " + shown(p.Target) + " on " + metricText(p.Metric)
	if p.Type == capacity.StepScaling {
		what = "step scaling"
	}
	s := Medium
	if len(c.want.Policies) == 0 && c.want.Max == 0 { // nothing is declared of scaling
		s = Info
	}
	c.find("policy_extra", s, res+"#"+p.Name, "unmanaged and active: "+what+"; any policy may scale out, and scale-in waits for every tracking policy", "the policies of the plan only", "")
}

func (c *comparison) tracking(res string, w capacity.Policy, p Policy) {
	id := res + "#" + p.Name
	if !c.same("metric", High, id, "metric", key(p.Metric), key(w.Metric), c.apply()) && strings.Contains(key(w.Metric), "HighResolution") {
		c.find("slow_signal", High, id, "a metric of 60 s periods", "a 10 s one: detection takes six times as long", c.apply())
	}
	if w.Metric.Predefined == "" {
		c.same("dimension", High, id, "dimensions", dims(p.Metric), dims(w.Metric), c.apply())
		c.same("statistic", High, id, "statistic", p.Statistic, w.Statistic, c.apply())
	}
	c.same("target_value", High, id, "target value", p.Target, w.Target, c.apply())
	c.same("scale_in_flag", High, id, "scale-in disabled", p.NoScaleIn, w.NoScaleIn, c.apply())
	c.cooldown(id, "scale-out cooldown", p.OutCooldown, w.OutCooldown)
	c.cooldown(id, "scale-in cooldown", p.InCooldown, w.InCooldown)
	c.pair(id, w, p)
}

func (c *comparison) cooldown(id, field string, found *int, want int) {
	if found == nil {
		c.Checks = append(c.Checks, Check{id, field, "not set", shown(want), false})
		c.find("cooldown_unset", Medium, id, field+" is not set: AWS's own 300 s hold", fmt.Sprintf("%s %d s", field, want), c.apply())
		return
	}
	c.same("cooldown", Medium, id, field, found, want, c.apply())
}

// pair is the two alarms that target tracking makes for itself: above the target, and below nine tenths of it.
func (c *comparison) pair(id string, w capacity.Policy, p Policy) {
	if c.unread("alarms") || p.Target == nil {
		return
	}
	high, low := false, false
	for _, name := range p.Alarms {
		a, ok := c.alarm(name)
		if !ok {
			c.find("alarm_deleted", High, id, "its alarm "+name+" does not exist", "the pair of alarms that it made", c.apply())
			continue
		}
		above, want := strings.HasPrefix(a.Comparison, "Greater"), *p.Target
		if above {
			high = true
		} else if low = true; a.Threshold < want && a.Threshold >= want/2 { // how far below the target AWS does not say
			want = a.Threshold
		} else {
			want *= 0.9
		}
		if near(a.Threshold, want) {
			want = a.Threshold
		}
		c.same("alarm_edited", High, "alarm/"+a.Name, "threshold", a.Threshold, want, c.apply())
		if w.Period > 0 {
			kind := "alarm_period"
			if w.Period < 60 && a.Period >= 60 {
				kind = "slow_signal"
			}
			c.same(kind, High, "alarm/"+a.Name, "period", a.Period, w.Period, c.apply())
		}
		if above && w.Evaluation > 0 && !a.Enabled {
			c.find("alarm_disabled", High, "alarm/"+a.Name, "its actions are disabled: it never scales", "actions enabled", "aws cloudwatch enable-alarm-actions --alarm-names "+quote(a.Name))
		}
	}
	if len(p.Alarms) < 2 && !(high && low) {
		c.find("alarm_deleted", High, id, fmt.Sprintf("%d alarms", len(p.Alarms)), "the pair of alarms that it made: one above, one below", c.apply())
	}
}

func (c *comparison) alarm(name string) (Alarm, bool) {
	i := slices.IndexFunc(c.have.Alarms, func(a Alarm) bool { return a.Name == name })
	if i < 0 {
		return Alarm{}, false
	}
	return c.have.Alarms[i], true
}

func (c *comparison) step(res string, w capacity.Policy, p Policy) {
	id := res + "#" + p.Name
	c.same("steps", High, id, "steps", stepText(p.Steps, p.Adjustment), stepText(w.Steps, w.Adjustment), c.apply())
	want := w.InCooldown
	if w.NoScaleIn {
		want = w.OutCooldown
	}
	c.cooldown(id, "cooldown", p.Cooldown, want)
	if w.Statistic != "" {
		c.same("statistic", High, id, "aggregation", cmp.Or(p.Statistic, "Average"), w.Statistic, c.apply())
	}
	if c.unread("alarms") {
		return
	}
	i := slices.IndexFunc(c.want.Alarms, func(a capacity.Alarm) bool { return a.Policy == w.Name })
	if i < 0 {
		return
	}
	wa := c.want.Alarms[i]
	a, ok := c.alarm(wa.Name)
	for _, name := range p.Alarms { // by what it does, where it is called otherwise
		if !ok {
			a, ok = c.alarm(name)
		}
	}
	if !ok {
		c.find("alarm_deleted", High, id, "no alarm triggers it: it does nothing", "alarm "+wa.Name, c.apply())
		return
	}
	c.declaredAlarm(wa, a, p.ARN)
}

// declaredAlarm compares an alarm of ours, whole.
func (c *comparison) declaredAlarm(w capacity.Alarm, a Alarm, arn string) {
	id := "alarm/" + a.Name
	c.same("metric", High, id, "metric", key(a.Metric), key(w.Metric), c.apply())
	c.same("dimension", High, id, "dimensions", dims(a.Metric), dims(w.Metric), c.apply())
	c.same("statistic", High, id, "statistic", a.Statistic, w.Statistic, c.apply())
	kind := "alarm_period"
	if w.Period < 60 && a.Period >= 60 {
		kind = "slow_signal" // 60 s where 10 s was meant: a silent sixfold delay
	}
	c.same(kind, High, id, "period", a.Period, w.Period, c.apply())
	c.same("threshold", High, id, "threshold", a.Threshold, w.Threshold, c.apply())
	c.same("alarm_edited", High, id, "comparison", a.Comparison, w.Comparison, c.apply())
	c.same("alarm_edited", High, id, "evaluation periods", a.Evaluation, w.Evaluation, c.apply())
	c.same("alarm_edited", High, id, "datapoints to alarm", cmp.Or(a.Datapoints, a.Evaluation), cmp.Or(w.Datapoints, w.Evaluation), c.apply())
	c.same("missing_data", Medium, id, "missing data", cmp.Or(a.MissingData, "missing"), cmp.Or(w.MissingData, "missing"), c.apply())
	if w.Unit != "" {
		c.same("alarm_edited", Medium, id, "unit", a.Unit, w.Unit, c.apply())
	}
	if arn != "" && !slices.Contains(a.Actions, arn) {
		c.find("never_fires", High, id, "it does not trigger the policy "+w.Policy, "its action is that policy", c.apply())
	}
	if arn != "" && !a.Enabled {
		c.find("alarm_disabled", High, id, "its actions are disabled: it never scales", "actions enabled", "aws cloudwatch enable-alarm-actions --alarm-names "+quote(a.Name))
	}
}

func stepText(steps []capacity.Step, adjustment string) string {
	var s []string
	for _, x := range steps {
		s = append(s, fmt.Sprintf("[%s, %s) %+d", bound(x.Lower), bound(x.Upper), x.Change))
	}
	return adjustment + " " + strings.Join(s, " ")
}

func bound(v *float64) string {
	if v == nil {
		return "…"
	}
	return shown(*v)
}

// Namespaces in which SageMaker publishes what policies are made on. In another one an alarm never holds a datapoint.
var namespaces = map[string]string{
	"CPUUtilization": "/aws/sagemaker/Endpoints", "MemoryUtilization": "/aws/sagemaker/Endpoints", "GPUUtilization": "/aws/sagemaker/Endpoints",
	"GPUMemoryUtilization": "/aws/sagemaker/Endpoints", "DiskUtilization": "/aws/sagemaker/Endpoints",
	"Invocations": "AWS/SageMaker", "InvocationsPerInstance": "AWS/SageMaker", "ModelLatency": "AWS/SageMaker", "OverheadLatency": "AWS/SageMaker",
	"ConcurrentRequestsPerModel": "AWS/SageMaker", "ConcurrentRequestsPerCopy": "AWS/SageMaker", "InvocationsPerCopy": "AWS/SageMaker",
}

// CanFire says why a metric of one's own can never hold a datapoint of the variant; "" when it may.
func CanFire(m capacity.Metric, endpoint, variant string) string {
	if m.Predefined != "" {
		return ""
	}
	if right, known := namespaces[m.Name]; known && m.Namespace != right && (m.Namespace == "AWS/SageMaker" || m.Namespace == "/aws/sagemaker/Endpoints") {
		return fmt.Sprintf("%s is published in %s, never in %s", m.Name, right, m.Namespace)
	}
	if m.Namespace != "AWS/SageMaker" && m.Namespace != "/aws/sagemaker/Endpoints" {
		return ""
	}
	v, ok := m.Dimensions["VariantName"]
	switch {
	case !ok:
		return m.Name + " is never published without the dimension VariantName"
	case v != variant:
		return fmt.Sprintf("its dimension VariantName is %s, and the policy scales %s", v, variant)
	case m.Dimensions["EndpointName"] != endpoint:
		return fmt.Sprintf("its dimension EndpointName is %s, and the policy scales %s", shown(m.Dimensions["EndpointName"]), endpoint)
	}
	return ""
}

// deaf is how long an alarm may be without data while traffic flows before it is said that it can never fire.
const deaf = 15 * time.Minute

// fires finds a policy that can never fire.
func (c *comparison) fires(res string, p Policy) {
	endpoint, variant := variantOf(res)
	id := res + "#" + p.Name
	if why := CanFire(p.Metric, endpoint, variant); why != "" && p.Type == capacity.TargetTracking {
		c.find("never_fires", High, id, "this policy cannot fire: "+why, "a metric that is published", c.apply())
		return
	}
	if p.Type == capacity.StepScaling && len(p.Alarms) == 0 && !slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Resource == id && f.Kind == "alarm_deleted" }) {
		c.find("never_fires", High, id, "this policy cannot fire: no alarm triggers it", "an alarm", c.apply())
	}
	if c.unread("alarms") {
		return
	}
	for _, name := range p.Alarms {
		a, ok := c.alarm(name)
		if !ok || a.State != "INSUFFICIENT_DATA" {
			continue
		}
		traffic := c.have.Invocations
		switch since := c.now.Sub(a.Since); {
		case traffic != nil && *traffic > 0 && !a.Since.IsZero() && since > deaf:
			c.find("never_fires", High, "alarm/"+name, fmt.Sprintf("this policy cannot fire: no data for %s while %.0f requests came in 10 minutes", since.Round(time.Minute), *traffic),
				"a metric that is published", c.apply())
		case traffic != nil && *traffic > 0:
			c.find("no_data", Info, "alarm/"+name, "no data yet, while traffic flows", "data", "")
		default:
			c.find("no_data", Info, "alarm/"+name, "no data: the endpoint is idle, or its traffic could not be read", "data once requests come", "")
		}
	}
}

// Foreign is a target of an endpoint that is not in the registry: reported, and nobody's to delete here. One that carries
// a policy of this project is an orphan of ours.
func Foreign(t Target, policies []Policy, exists bool) Finding {
	f := Finding{Kind: "foreign", Severity: Info, Resource: t.Resource, Found: fmt.Sprintf("a scalable target, %d to %d instances, of an endpoint that no model here names", t.Min, t.Max),
		Expected: "nothing: it belongs to somebody else", Foreign: true}
	ours := slices.ContainsFunc(policies, func(p Policy) bool { return p.Resource == t.Resource && strings.HasPrefix(p.Name, "loadline-") })
	if ours && !exists {
		c := comparison{}
		f = Finding{Kind: "target_orphan", Severity: High, Resource: t.Resource, Found: "a scalable target of an endpoint that does not exist, with policies of this project", Expected: "none",
			Mend: c.aas("deregister-scalable-target", t.Resource)}
	}
	f.ID = f.Kind + ":" + t.Resource
	return f
}
