// Package gate decides whether an endpoint may be given a scaling policy: only when a real, feasible, matching plan stands
// behind every number of it.
//
// It is told what models.yaml declares and the plan that it names, and answers open or closed, with every condition and
// how it came out. What is then put into a template is left to the stacks, reading files to the command.
//
//	d := gate.Decide(gate.Declared{Model: "kokoro-82m", Max: 9, PlanFile: "plan.json", …}, plan, nil)
//	d.Open          // false
//	fmt.Print(d)    // "scaling is off: the image digest is …"
package gate

import (
	"fmt"
	"slices"
	"strings"

	"loadline/internal/artifact"
	"loadline/internal/audit"
	"loadline/internal/capacity"
)

// Declared is what models.yaml says of one model, and where it is deployed. A nil pointer is a field that is not set.
type Declared struct {
	Model, Endpoint, Variant string
	Region                   string // "": not known, which matches nothing
	InstanceType             string
	ImageDigest              string // hex; "" before the first build
	Env                      map[string]string
	Min, Max                 int

	Target, ScaleIn         *float64
	QueueDepth              *int
	OutCooldown, InCooldown *int
	SLOMS, Percentile       float64
	Quota                   *int // of instances; nil: not known

	PlanFile string // "": none is named
}

// Uncertified is what --accept takes to open the gate to a ladder without a certificate.
const Uncertified = "uncertified"

// Condition is one thing that must hold.
type Condition struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Mend   string `json:"mend,omitempty"` // what to do where it does not hold
}

// Decision is open only when every condition holds.
type Decision struct {
	Model      string      `json:"model"`
	Open       bool        `json:"open"`
	Conditions []Condition `json:"conditions"` // in the order in which they were looked at; the first that fails ends what needs it
	Accepted   []string    `json:"accepted"`   // what the operator took on, in the plan and here
	Warnings   []string    `json:"warnings"`   // of the plan: they close nothing, and are to be seen
}

// Reason is why the gate is closed, in one line; "" when it is open.
func (d *Decision) Reason() string {
	for _, c := range d.Conditions {
		if !c.OK {
			return c.Detail
		}
	}
	return ""
}

// String is the decision in one line.
func (d *Decision) String() string {
	if d.Open {
		s := d.Model + ": scaling is on, as planned"
		if len(d.Accepted) > 0 {
			s += "; taken on: " + strings.Join(d.Accepted, ", ")
		}
		return s
	}
	return d.Model + ": scaling is off: " + d.Reason()
}

// Explain is every condition and how it came out.
func (d *Decision) Explain() string {
	var b strings.Builder
	fmt.Fprintln(&b, d)
	for _, c := range d.Conditions {
		mark := "OK  "
		if !c.OK {
			mark = "STOP"
		}
		fmt.Fprintf(&b, "  %s %-14s %s\n", mark, c.Name, c.Detail)
		if c.Mend != "" && !c.OK {
			fmt.Fprintf(&b, "       %-14s mend: %s\n", "", c.Mend)
		}
	}
	for _, w := range d.Warnings {
		fmt.Fprintf(&b, "  WARN %s\n", w)
	}
	return b.String()
}

func (d *Decision) hold(ok bool, name, detail, otherwise, mend string) bool {
	c := Condition{Name: name, OK: ok, Detail: detail}
	if !ok {
		c.Detail, c.Mend = otherwise, mend
	}
	d.Conditions = append(d.Conditions, c)
	return ok
}

// Decide looks at every condition. plan is nil where none is named or it could not be read, which unreadable then tells.
// accept names the stops that the operator takes on, each a second time after the plan recorded it.
func Decide(m Declared, plan *artifact.Plan, unreadable error, accept ...string) Decision {
	d := Decision{Model: m.Model, Accepted: []string{}, Warnings: []string{}}
	d.wanted(m)
	d.planned(m, plan, unreadable)
	if plan != nil {
		d.believed(m, plan, accept)
		d.matches(m, plan)
	}
	d.Open = !slices.ContainsFunc(d.Conditions, func(c Condition) bool { return !c.OK })
	return d
}

func (d *Decision) wanted(m Declared) {
	least := max(m.Min, 1)
	d.hold(m.Max > least, "bounds", fmt.Sprintf("max_instances %d is above %d", m.Max, least),
		fmt.Sprintf("max_instances %d leaves nothing to scale: min_instances is %d", m.Max, m.Min), "tts-bench plan --write, with the measurements")
	if q := m.Quota; q != nil {
		d.hold(*q >= m.Max, "quota", fmt.Sprintf("the account may run %d of %s", *q, m.InstanceType),
			fmt.Sprintf("the account may run %d of %s, and max_instances is %d: a scale-out beyond the quota is refused whole", *q, m.InstanceType, m.Max),
			"ask for a higher quota, or plan with --quota "+fmt.Sprint(*q))
	}
}

func (d *Decision) planned(m Declared, plan *artifact.Plan, unreadable error) {
	measure := "tts-bench qmax, ttotal, then plan --write"
	if !d.hold(m.PlanFile != "", "plan", "models.yaml names "+m.PlanFile, "models.yaml names no plan: nothing was measured", measure) {
		return
	}
	switch {
	case unreadable != nil:
		d.hold(false, "plan file", "", fmt.Sprintf("the plan could not be read: %v", unreadable), measure)
	case plan == nil:
		d.hold(false, "plan file", "", m.PlanFile+" does not exist", measure)
	default:
		d.hold(true, "plan file", fmt.Sprintf("run %s of %s", plan.RunID, plan.CreatedAt.UTC().Format("2006-01-02")), "", "")
	}
}

// believed is whether the plan may be acted on at all.
func (d *Decision) believed(m Declared, p *artifact.Plan, accept []string) {
	t := p.Target
	same := t.Model == m.Model && t.Endpoint == m.Endpoint && t.Variant == m.Variant
	d.hold(same, "model", fmt.Sprintf("the plan is of %s (%s)", t.Model, audit.Resource(t.Endpoint, t.Variant)),
		fmt.Sprintf("the plan is of another target: %s, %s, and this is %s, %s", t.Model, audit.Resource(t.Endpoint, t.Variant), m.Model, audit.Resource(m.Endpoint, m.Variant)),
		"name this model's own plan")

	var stops, open []string
	for _, f := range p.Findings {
		switch {
		case f.Verdict == capacity.Stop:
			stops = append(stops, f.Name)
		case f.Accepted && !slices.Contains(accept, f.Name):
			open = append(open, f.Name)
		case f.Accepted:
			d.Accepted = append(d.Accepted, f.Name)
		case f.Verdict == capacity.Warn:
			d.Warnings = append(d.Warnings, f.Name+": "+f.Detail)
		}
	}
	d.hold(len(stops) == 0 && p.Verdict != capacity.Stop, "verdict", "the plan's verdict is "+string(p.Verdict),
		"the plan is stopped by "+strings.Join(stops, ", "), "mend what the findings name, and plan again")
	d.hold(len(open) == 0, "accepted stops", "none that was not taken on here", "the plan took on "+strings.Join(open, ", ")+", which has to be done here again",
		"--accept "+strings.Join(open, " --accept "))

	certified := strings.HasPrefix(p.Measured.QSource, "certified at ")
	took := slices.Contains(accept, Uncertified)
	if !certified && took {
		d.Accepted = append(d.Accepted, Uncertified)
	}
	d.hold(certified || took, "certificate", fmt.Sprintf("Q_max %d: %s", p.Measured.QMax, p.Measured.QSource),
		fmt.Sprintf("Q_max %d is not certified (%s)", p.Measured.QMax, p.Measured.QSource), "tts-bench qmax, or --accept "+Uncertified)

	d.units(p)
	d.signals(m, p)
}

// units is whether the plan knows what its policies' metrics read.
func (d *Decision) units(p *artifact.Plan) {
	known := len(p.Policies) > 0
	for _, pol := range p.Policies {
		known = known && (pol.Type != capacity.TargetTracking || pol.Target != nil && *pol.Target > 0)
	}
	if p.Rule == capacity.RuleSlots {
		known = known && p.Slots.CWRatio != nil
	}
	d.hold(known, "metric units", "what each policy's metric reads at the target is known",
		"the CloudWatch ratio is not known: no target can be set in the metric's own units", "tts-bench qmax with the CloudWatch join, then plan")
}

// signals is whether each policy and alarm is on a metric that is published for this very variant.
func (d *Decision) signals(m Declared, p *artifact.Plan) {
	var wrong []string
	look := func(name string, metric capacity.Metric) {
		if why := audit.CanFire(metric, m.Endpoint, m.Variant); why != "" {
			wrong = append(wrong, name+" can never fire: "+why)
		}
	}
	for _, pol := range p.Policies {
		look("policy "+pol.Name, pol.Metric)
	}
	for _, a := range p.Alarms {
		look("alarm "+a.Name, a.Metric)
	}
	d.hold(len(wrong) == 0, "signals", "every policy and alarm is on a metric that this variant publishes", strings.Join(wrong, "; "), "plan again")
}

// matches is whether what is deployed will be what was measured, and configured as was planned.
func (d *Decision) matches(m Declared, p *artifact.Plan) {
	env := m.Env
	if env == nil {
		env = map[string]string{}
	}
	d.hold(m.ImageDigest != "", "image", "the image is pinned by its digest", "models.yaml names no image digest: nothing says that what was measured is what is deployed",
		"speech-infra deploy --build, or --image-uri URI@sha256:…")
	d.hold(m.Region != "", "region", "the region is "+m.Region, "the region to deploy to is not known, so nothing says that what was measured is what is deployed", "--region, or AWS_REGION")
	var differs []string
	here := artifact.Fingerprint{Region: m.Region, InstanceType: m.InstanceType, ImageDigest: m.ImageDigest, ContainerEnv: env}
	for _, x := range artifact.Compare(p.Fingerprint, here) {
		differs = append(differs, fmt.Sprintf("%s was %s when it was measured and is %s", x.Field, short(x.A), short(x.B)))
	}
	d.hold(len(differs) == 0, "fingerprint", "region, instance type, image digest and environment are those that were measured",
		"what was measured is not what is deployed: "+strings.Join(differs, "; "), "measure again what is to be deployed, then plan --write")

	var unequal []string
	equal := func(field string, have, want any) {
		if a, b := value(have), value(want); a != b {
			unequal = append(unequal, fmt.Sprintf("%s is %s and the plan has %s", field, a, b))
		}
	}
	c := p.Config
	equal("min_instances", max(m.Min, 1), max(c.MinInstances, 1))
	equal("max_instances", m.Max, c.MaxInstances)
	equal("scaling_target_value", m.Target, c.ScalingTargetValue)
	equal("scale_in_threshold", m.ScaleIn, c.ScaleInThreshold)
	equal("queue_max_depth", m.QueueDepth, c.QueueMaxDepth)
	equal("scale_out_cooldown_s", m.OutCooldown, c.OutCooldown)
	equal("scale_in_cooldown_s", m.InCooldown, c.InCooldown)
	equal("ttfab_slo_ms", m.SLOMS, c.SLOMS)
	equal("percentile", m.Percentile, c.Percentile)
	d.hold(len(unequal) == 0, "configuration", "every value of models.yaml is the plan's", "models.yaml is not the plan's: "+strings.Join(unequal, "; "),
		"tts-bench plan --write, with the files that the plan was made from")
}

// short keeps a digest readable.
func short(s string) string {
	if len(s) == 64 {
		return s[:12] + "…"
	}
	return s
}

func value(v any) string {
	switch v := v.(type) {
	case *int:
		if v != nil {
			return fmt.Sprint(*v)
		}
	case *float64:
		if v != nil {
			return value(*v)
		}
	case float64:
		return fmt.Sprintf("%.10g", v)
	case int:
		return fmt.Sprint(v)
	}
	return "not set"
}
