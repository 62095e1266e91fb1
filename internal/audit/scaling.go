package audit

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
)

// Scaling is what makes one variant scale: what a plan puts in place, and what is saved before it does.
type Scaling struct {
	Resource string
	Target   *Target // nil: none
	Policies []Policy
	Alarms   []Alarm // of ours; those that target tracking makes for itself are left out
}

// Planned is the scaling that the plan declares.
func Planned(p *artifact.Plan) Scaling {
	res, _ := p.Target.Scales()
	s := Scaling{Resource: res, Target: &Target{Resource: res, Min: max(1, p.Config.MinInstances), Max: max(1, p.Config.MaxInstances)}}
	for _, w := range p.Policies {
		out := Policy{Name: w.Name, Resource: res, Type: w.Type, Metric: w.Metric, NoScaleIn: w.NoScaleIn}
		switch w.Type {
		case capacity.TargetTracking:
			out.Target, out.OutCooldown, out.InCooldown = w.Target, new(w.OutCooldown), new(w.InCooldown)
			if w.Metric.Predefined == "" {
				out.Statistic = w.Statistic
			}
		case capacity.StepScaling:
			out.Metric = capacity.Metric{}
			out.Steps, out.Adjustment, out.Statistic, out.Cooldown = w.Steps, w.Adjustment, w.Statistic, new(w.InCooldown)
			if w.NoScaleIn {
				out.Cooldown = new(w.OutCooldown)
			}
			out.NoScaleIn = false
		default:
			continue
		}
		s.Policies = append(s.Policies, out)
	}
	for _, w := range p.Alarms {
		s.Alarms = append(s.Alarms, Alarm{Name: w.Name, Metric: w.Metric, Statistic: w.Statistic, Period: w.Period, Comparison: w.Comparison, Threshold: w.Threshold,
			Evaluation: w.Evaluation, Datapoints: w.Datapoints, MissingData: w.MissingData, Unit: w.Unit, Enabled: true, Triggers: w.Policy})
	}
	return s
}

// ours says whether a policy or an alarm is one that plans make.
func ours(name string) bool { return strings.Contains(name, "loadline-") }

// Now is the scaling of a resource as it is deployed. Of alarms it holds those of step policies, and those that a plan
// names.
func Now(d Deployed, resource string, planned Scaling) Scaling {
	s := Scaling{Resource: resource}
	for _, t := range d.Targets {
		if t.Resource == resource {
			s.Target = &t
		}
	}
	arns := map[string]string{}
	for _, p := range d.Policies {
		if p.Resource == resource {
			s.Policies = append(s.Policies, p)
			if p.Type == capacity.StepScaling {
				arns[p.ARN] = p.Name
			}
		}
	}
	for _, a := range d.Alarms {
		if strings.HasPrefix(a.Name, "TargetTracking-") {
			continue
		}
		for _, action := range a.Actions {
			a.Triggers = cmp.Or(a.Triggers, arns[action])
		}
		named := slices.ContainsFunc(planned.Alarms, func(w Alarm) bool { return w.Name == a.Name })
		if a.Triggers != "" || named {
			s.Alarms = append(s.Alarms, a)
		}
	}
	return s
}

// Changes is what turns a scaling into another one, in the order in which it is done. What is in neither plan is left alone
// unless it carries a name that plans give.
type Changes struct {
	Register     *Target // bounds and suspension
	Put          []Policy
	PutAlarms    []Alarm
	Delete       []string // policies
	DeleteAlarms []string
	Deregister   bool
	altered      []string // of Put, those that were there
}

// Empty says whether nothing is to be done.
func (c Changes) Empty() bool {
	return c.Register == nil && len(c.Put)+len(c.PutAlarms)+len(c.Delete)+len(c.DeleteAlarms) == 0 && !c.Deregister
}

// Lines are the changes for people.
func (c Changes) Lines() []string {
	var out []string
	if t := c.Register; t != nil {
		out = append(out, "register the target: "+shown(t.Min)+" to "+shown(t.Max)+" "+counted(t.Resource))
	}
	for _, p := range c.Put {
		verb := "create"
		if slices.Contains(c.altered, p.Name) {
			verb = "change"
		}
		what := "steps " + stepText(p.Steps, p.Adjustment)
		if p.Type == capacity.TargetTracking && p.Target != nil {
			what = "tracks " + rounded(*p.Target) + " of " + metricText(p.Metric) + ", cooldowns " + shown(p.OutCooldown) + " and " + shown(p.InCooldown) + " s"
		}
		out = append(out, verb+" policy "+p.Name+": "+what)
	}
	for _, a := range c.PutAlarms {
		out = append(out, "put alarm "+a.Name+": "+a.Statistic+" of "+metricText(a.Metric)+" "+a.Comparison+" "+rounded(a.Threshold)+", "+shown(a.Evaluation)+" × "+shown(a.Period)+" s")
	}
	for _, n := range c.Delete {
		out = append(out, "delete policy "+n+", which an earlier plan made")
	}
	for _, n := range c.DeleteAlarms {
		out = append(out, "delete alarm "+n+", which an earlier plan made")
	}
	if c.Deregister {
		out = append(out, "deregister the target: there was none")
	}
	return out
}

// counted is what a target's bounds count.
func counted(resource string) string {
	if Dimension(resource) == artifact.CopyCount {
		return "copies"
	}
	return "instances"
}

// Between is what turns have into want. A suspension is kept as it is, unless want states one itself (undo).
func Between(have, want Scaling, undo bool) Changes {
	var c Changes
	if t := want.Target; t != nil {
		next := *t
		if have.Target != nil && !undo {
			next.Out, next.In, next.Sched = have.Target.Out, have.Target.In, have.Target.Sched
		}
		if have.Target == nil || *have.Target != next {
			c.Register = &next
		}
	} else if have.Target != nil {
		c.Deregister = true // its policies go with it
	}
	for _, p := range want.Policies {
		i := slices.IndexFunc(have.Policies, func(h Policy) bool { return h.Name == p.Name })
		if i >= 0 && equal(have.Policies[i], p) {
			continue
		}
		if i >= 0 {
			c.altered = append(c.altered, p.Name)
			if have.Policies[i].Type != p.Type { // a type cannot be changed in place
				c.Delete = append(c.Delete, p.Name)
			}
		}
		c.Put = append(c.Put, p)
	}
	for _, a := range want.Alarms {
		i := slices.IndexFunc(have.Alarms, func(h Alarm) bool { return h.Name == a.Name })
		replaced := slices.ContainsFunc(c.Put, func(p Policy) bool { return p.Name == a.Triggers })
		if i < 0 || replaced || !equalAlarms(have.Alarms[i], a) {
			c.PutAlarms = append(c.PutAlarms, a)
		}
	}
	for _, h := range have.Policies {
		if !c.Deregister && (ours(h.Name) || undo) && !slices.ContainsFunc(want.Policies, func(p Policy) bool { return p.Name == h.Name }) {
			c.Delete = append(c.Delete, h.Name)
		}
	}
	for _, h := range have.Alarms {
		if (ours(h.Name) || undo) && !slices.ContainsFunc(want.Alarms, func(a Alarm) bool { return a.Name == h.Name }) {
			c.DeleteAlarms = append(c.DeleteAlarms, h.Name)
		}
	}
	return c
}

// equal compares policies but for what AWS adds.
func equal(a, b Policy) bool {
	for _, p := range []*Policy{&a, &b} {
		p.ARN, p.Alarms, p.Resource = "", nil, ""
		if len(p.Metric.Dimensions) == 0 {
			p.Metric.Dimensions = nil
		}
	}
	return same(a, b)
}

func equalAlarms(a, b Alarm) bool {
	for _, x := range []*Alarm{&a, &b} {
		x.ARN, x.Actions, x.Datapoints = "", nil, cmp.Or(x.Datapoints, x.Evaluation)
		x.MissingData = cmp.Or(x.MissingData, "missing")
	}
	return same(a, b)
}

// same compares two values as they are written.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
