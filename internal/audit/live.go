package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/freeze"
)

// stuckAfter is how long an endpoint may go on changing before that is said: instances that come take minutes, and a health
// check ten of them unless it is given more.
const stuckAfter = 30 * time.Minute

// endpoint compares everything, from what matters most.
func (c *comparison) endpoint() {
	e, d := c.have, c.want
	if e.Missing {
		c.find("endpoint_missing", High, "endpoint/"+e.Endpoint, "it does not exist", "model "+d.Model, "speech-infra deploy "+d.Model)
		c.orphans()
		return
	}
	if c.unread("endpoint") {
		return
	}
	switch age := c.now.Sub(e.Modified); {
	case e.Status == "" || e.Status == freeze.InService:
	case strings.HasSuffix(e.Status, "ing") && !e.Modified.IsZero() && age >= stuckAfter:
		desired, current := 0, 0
		for _, v := range e.Variants {
			desired, current = desired+v.Desired, current+v.Current
		}
		c.find("endpoint_stuck", High, "endpoint/"+e.Endpoint, strings.TrimSpace(fmt.Sprintf("no progress for %s: it is %s, with %d of %d instances, and was last modified then. %s",
			age.Round(time.Minute), e.Status, current, desired, e.Reason)), freeze.InService,
			"wait no longer: another instance type, or AWS support where it cannot be deleted; what is there is billed meanwhile")
	default:
		c.find("endpoint_status", High, "endpoint/"+e.Endpoint, strings.TrimSpace("it is "+e.Status+" "+e.Reason), freeze.InService, "")
	}
	frozen := c.frozen()
	var live *Variant
	for i := range e.Variants {
		if e.Variants[i].Name == d.Variant {
			live = &e.Variants[i]
		}
	}
	if live == nil {
		var names []string
		for _, v := range e.Variants {
			names = append(names, v.Name)
		}
		c.find("variant_missing", High, c.resource(), "the endpoint has "+strings.Join(names, ", "), "variant "+d.Variant, "")
	} else {
		c.variant(live, frozen)
	}
	c.component()
	c.scaling(live, frozen)
	c.orphans()
}

// component says what is wrong with the inference component whose copies the plan scales.
func (c *comparison) component() {
	name, have := c.want.Component, c.have.Component
	if name == "" || c.unread("component") {
		return
	}
	res := c.resource()
	switch {
	case have == nil:
		c.find("component_missing", High, res, "the endpoint has no such inference component", "component "+name, "")
		for _, t := range c.have.Targets {
			if t.Resource == res {
				c.find("target_orphan", High, res, "a scalable target of an inference component that does not exist", "none", c.aas("deregister-scalable-target", res))
			}
		}
	case have.Status != freeze.InService:
		c.find("component_status", High, res, strings.TrimSpace("it is "+have.Status+" "+have.Reason), freeze.InService, "")
	}
	if have != nil && have.Copy != nil && c.want.Copy != nil {
		c.same("copy", High, res, "a copy has", *have.Copy, *c.want.Copy, "")
	}
}

// unread says whether something could not be read.
func (c *comparison) unread(what string) bool {
	return slices.ContainsFunc(c.have.Unread, func(u Unread) bool { return u.What == what })
}

// frozen says whether a run has left the endpoint frozen, or is at it.
func (c *comparison) frozen() bool {
	e := c.have
	mend := "tts-bench thaw --endpoint " + e.Endpoint
	if tag, ok := e.Tags[freeze.TagKey]; ok {
		c.find("frozen", Critical, "endpoint/"+e.Endpoint, "it carries the tag "+freeze.TagKey+" = "+tag+": a run froze it, and is measuring or was killed", "not frozen", mend)
		return true
	}
	if r := e.Freeze; r != nil {
		c.find("frozen", Critical, "endpoint/"+e.Endpoint, fmt.Sprintf("a freeze record of run %s (%s) lies on this machine: the run is measuring or was killed", r.RunID, r.Command),
			"not frozen", mend+" --variant "+r.Variant)
		return true
	}
	return false
}

// variant compares the live variant with what was measured and planned on.
func (c *comparison) variant(v *Variant, frozen bool) {
	d, res := c.want, "variant/"+c.have.Endpoint+"/"+v.Name
	redeploy := "speech-infra deploy " + d.Model
	if d.InstanceType != "" {
		c.same("instance_type", High, res, "instance type", v.InstanceType, d.InstanceType, c.retype(v, redeploy))
	}
	read := !c.unread("model") // else what it would say is not known, which is no difference
	if d.ImageDigest != "" && (read || v.ImageDigest != "") {
		c.same("image", High, res, "image", v.ImageDigest, d.ImageDigest, redeploy)
	}
	if d.Env != nil && v.Env != nil {
		diffs := artifact.Compare(artifact.Fingerprint{ContainerEnv: v.Env, NoRegion: true}, artifact.Fingerprint{ContainerEnv: d.Env, NoRegion: true})
		same := true
		for _, x := range diffs {
			name, isEnv := strings.CutPrefix(x.Field, "container_env.")
			if !isEnv {
				continue
			}
			same = false
			c.same("env", High, res, "environment "+name, x.A, x.B, redeploy)
		}
		if same {
			c.same("env", High, res, "environment", envText(v.Env), envText(v.Env), redeploy)
		}
	}
	if d.QueueBound != nil && read {
		c.same("queue_bound", High, res, "MAX_QUEUE_DEPTH", v.QueueBound, d.QueueBound, redeploy)
	}
	if d.Routing != "" {
		c.same("routing", High, res, "routing", v.Routing, d.Routing, redeploy)
	}
	for _, p := range append(periods(d), 60) { // a metric at less than a minute, other than concurrency, is an enhanced one
		if p < 60 && (!v.Enhanced || v.MetricsPeriod > p) {
			found := "enhanced metrics off"
			if v.Enhanced {
				found = fmt.Sprintf("enhanced metrics every %d s", v.MetricsPeriod)
			}
			c.find("metrics_config", High, res, found, fmt.Sprintf("enhanced metrics every %d s: the policy's alarm sees nothing otherwise", p), redeploy)
			break
		}
	}
	if frozen {
		return
	}
	if v.LastSet > v.Desired && v.Desired == v.Initial && c.have.Modified.After(v.LastSetAt) {
		c.find("count_reset", High, res, fmt.Sprintf("%d instances, as the endpoint config says, since a deployment after the scaler had set %d", v.Desired, v.LastSet),
			"a deployment keeps the live count (RetainAllVariantProperties)",
			fmt.Sprintf("aws sagemaker update-endpoint-weights-and-capacities --endpoint-name %s --desired-weights-and-capacities VariantName=%s,DesiredInstanceCount=%d", c.have.Endpoint, v.Name, v.LastSet))
	}
	if q, ok := c.have.Quota[v.InstanceType]; ok && d.Component == "" && d.Max > 0 && q < d.Max {
		c.find("quota", High, res, fmt.Sprintf("the account may run %d of %s", q, v.InstanceType), fmt.Sprintf("max_instances %d: a scale-out beyond the quota is refused whole", d.Max),
			fmt.Sprintf("aws service-quotas list-service-quotas --service-code sagemaker --query \"Quotas[?QuotaName=='%s for endpoint usage']\"", v.InstanceType))
	}
}

// retype is how a variant gets another instance type. SageMaker refuses the update while the variant is a scalable target,
// and what was measured of the old type says nothing of the new one.
func (c *comparison) retype(v *Variant, redeploy string) string {
	res := Resource(c.have.Endpoint, v.Name)
	if !slices.ContainsFunc(c.have.Targets, func(t Target) bool { return t.Resource == res }) {
		return redeploy
	}
	steps := []string{
		c.aas("describe-scalable-targets", "", "--resource-ids "+res, "> target.json"), c.aas("describe-scaling-policies", res, "> policies.json"), c.aas("describe-scheduled-actions", res, "> schedules.json"),
		c.aas("deregister-scalable-target", res), redeploy, "aws sagemaker wait endpoint-in-service --endpoint-name " + c.have.Endpoint,
		"tts-bench qmax, ttotal and plan again, since the plan's figures are of the other type", c.apply(), strings.Replace(c.apply(), " apply ", " validate ", 1),
	}
	return "in this order, since the update of a scalable target's type is refused:\n             " + strings.Join(steps, "\n             ")
}

func envText(env map[string]string) string {
	if len(env) == 0 {
		return "empty"
	}
	var s []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		s = append(s, k+"="+env[k])
	}
	return strings.Join(s, " ")
}

// periods are those below a minute that the declared alarms read of metrics which are not high-resolution by themselves.
func periods(d Declared) []int {
	var out []int
	for _, a := range d.Alarms {
		if a.Period < 60 && a.Metric.Namespace == "AWS/SageMaker" && !strings.HasPrefix(a.Metric.Name, "ConcurrentRequests") {
			out = append(out, a.Period)
		}
	}
	return out
}

// scaling compares the target, the policies, their alarms and the schedules of the variant.
func (c *comparison) scaling(live *Variant, frozen bool) {
	res, d := c.resource(), c.want
	if c.unread("targets") {
		return
	}
	var t *Target
	for i := range c.have.Targets {
		if c.have.Targets[i].Resource == res {
			t = &c.have.Targets[i]
		}
	}
	if t == nil {
		if d.Scaling && !c.renamed() {
			c.find("target_missing", High, res, "no scalable target", fmt.Sprintf("%d to %d %s", d.Min, d.Max, counted(res)), c.apply())
		}
		return
	}
	if !d.Scaling && d.Max > 0 && len(d.Policies) == 0 {
		c.find("target_undeclared", Medium, res, fmt.Sprintf("a scalable target, %d to %d instances", t.Min, t.Max),
			"none: max_instances is not above max(min_instances, 1)", "tts-bench plan --qmax FILE --ttotal FILE --peak-rps N --write")
	}
	if d.Scaling {
		c.same("min", Medium, res, "min", t.Min, d.Min, c.apply())
		c.same("max", High, res, "max", t.Max, d.Max, c.apply())
	}
	if !frozen {
		thaw := "tts-bench thaw --endpoint " + c.have.Endpoint
		for _, s := range []struct {
			kind, what string
			on         bool
			sev        Severity
		}{{"suspended_out", "scale-out", t.Out, Critical}, {"suspended_scheduled", "scheduled scaling", t.Sched, High}, {"suspended_in", "scale-in", t.In, Medium}} {
			c.Checks = append(c.Checks, Check{res, s.what, map[bool]string{true: "suspended", false: "active"}[s.on], "active", !s.on})
			if s.on {
				c.find(s.kind, s.sev, res, s.what+" is suspended", s.what+" active", thaw)
			}
		}
		have := -1
		switch {
		case d.Component != "" && c.have.Component != nil:
			have = c.have.Component.Desired
		case d.Component == "" && live != nil:
			have = live.Desired
		}
		if have >= 0 && have < t.Min {
			c.find("below_min", High, res, fmt.Sprintf("%d %s", have, counted(res)), fmt.Sprintf("at least %d, the target's min", t.Min), c.apply())
		}
	}
	c.held(res)
	if r := c.have.Role; r != nil && !*r {
		c.find("role_missing", High, "role/"+LinkedRole, "it does not exist: Application Auto Scaling cannot set a count", LinkedRole,
			"aws iam create-service-linked-role --aws-service-name sagemaker.application-autoscaling.amazonaws.com")
	}
	if !c.unread("policies") {
		c.policies(res)
	}
	if !c.unread("schedules") {
		c.schedules(res)
	}
}

// LinkedRole is the role by which Application Auto Scaling sets the count of an endpoint.
const LinkedRole = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"

// schedules are compared with those of the plan, which has none so far.
func (c *comparison) schedules(res string) {
	declared := map[string]bool{}
	for _, p := range c.want.Policies {
		if p.Type == "scheduled" {
			declared[p.Name] = true
		}
	}
	for _, s := range c.have.Schedules {
		if s.Resource != res {
			continue
		}
		over := !s.End.IsZero() && s.End.Before(c.now)
		if at, ok := strings.CutPrefix(s.Expression, "at("); ok {
			if t, err := parseAt(strings.TrimSuffix(at, ")")); err == nil && t.Before(c.now) {
				over = true
			}
		}
		switch {
		case over:
			c.find("schedule_stale", Medium, res+"#"+s.Name, s.Expression+" lies in the past", "no schedule that is over",
				c.aas("delete-scheduled-action", res, "--scheduled-action-name "+quote(s.Name)))
		case !declared[s.Name]:
			c.find("schedule_extra", Medium, res+"#"+s.Name, fmt.Sprintf("%s sets min %s and max %s", s.Expression, shown(s.Min), shown(s.Max)),
				"no schedule: the plan has none of that name", "")
		}
	}
}

// renamed reports an orphan target of a variant that is gone beside a live one without a target as one finding.
func (c *comparison) renamed() bool {
	for _, t := range c.have.Targets {
		endpoint, v := variantOf(t.Resource)
		if endpoint != c.have.Endpoint || v == "" || slices.ContainsFunc(c.have.Variants, func(x Variant) bool { return x.Name == v }) {
			continue
		}
		c.find("renamed", High, c.resource(), fmt.Sprintf("no scalable target, and one of variant %s, which is gone", v), "the target of variant "+c.want.Variant,
			c.apply()+" && "+c.aas("deregister-scalable-target", t.Resource))
		return true
	}
	return false
}

// orphans are targets and alarms of variants, policies and endpoints that are gone.
func (c *comparison) orphans() {
	e := c.have
	renamed := slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Kind == "renamed" })
	for _, t := range e.Targets {
		endpoint, v := variantOf(t.Resource)
		gone := e.Missing || !slices.ContainsFunc(e.Variants, func(x Variant) bool { return x.Name == v })
		if endpoint == e.Endpoint && gone && !renamed {
			c.find("target_orphan", High, t.Resource, "a scalable target of a variant that does not exist", "none", c.aas("deregister-scalable-target", t.Resource))
		}
	}
	if c.unread("policies") {
		return
	}
	known := map[string]bool{}
	arns := map[string]bool{}
	for _, p := range e.Policies {
		arns[p.ARN] = true
		for _, a := range p.Alarms {
			known[a] = true
		}
	}
	for _, a := range c.want.Alarms {
		known[a.Name] = true
	}
	for _, a := range e.Alarms {
		scales := strings.HasPrefix(a.Name, "TargetTracking-") || slices.ContainsFunc(a.Actions, func(x string) bool { return strings.Contains(x, ":scalingPolicy:") })
		live := slices.ContainsFunc(a.Actions, func(x string) bool { return arns[x] })
		if !known[a.Name] && !live && scales {
			c.find("alarm_orphan", Medium, "alarm/"+a.Name, "it triggers a policy that does not exist", "none", "aws cloudwatch delete-alarms --alarm-names "+quote(a.Name))
		}
	}
}

// quote makes s one word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
