package plan

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/chart"
)

// width is the widest line of the text, in characters.
const width = 80

// Text is a plan for people: what was measured, both rules side by side, the findings of the selected one worst first,
// and the configuration block. No line is wider than 80 characters.
func Text(p *artifact.Plan) string {
	t := &text{}
	t.wrap("", "Plan for %s%s, rule %s: %s", p.Target.Model, on(p.Fingerprint.InstanceType), p.Rule, verdict(p))
	t.measured(p)
	t.rules(p)
	t.flow(p)
	t.surge(p)
	t.published(p.Slots)
	t.findings(p)
	t.notes(p.Notes)
	t.config(p)
	return t.b.String()
}

// text is lines of at most width characters.
type text struct{ b strings.Builder }

func (t *text) line(format string, a ...any) {
	t.b.WriteString(strings.TrimRight(fmt.Sprintf(format, a...), " ") + "\n")
}

func (t *text) head(format string, a ...any) {
	t.b.WriteByte('\n')
	t.line(format, a...)
}

// wrap breaks a paragraph at spaces. It begins with lead, as it stands; its other lines are indented by as much.
func (t *text) wrap(lead, format string, a ...any) {
	indent := utf8.RuneCountInString(lead)
	line, empty := lead, true
	for _, word := range words(fmt.Sprintf(format, a...), width-indent) {
		switch {
		case empty:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			t.line("%s", line)
			line = strings.Repeat(" ", indent) + word
		default:
			line += " " + word
		}
		empty = false
	}
	t.line("%s", line)
}

// words are those of s, one that no line has room for cut in pieces, a path after a slash.
func words(s string, room int) []string {
	var ws []string
	for _, w := range strings.Fields(s) {
		r := []rune(w)
		for len(r) > room {
			cut := room
			if i := strings.LastIndexByte(string(r[:room]), '/'); i >= 0 {
				cut = utf8.RuneCountInString(string(r[:room])[:i+1])
			}
			ws, r = append(ws, string(r[:cut])), r[cut:]
		}
		ws = append(ws, string(r))
	}
	return ws
}

// item is a named value, wrapped under its own column.
func (t *text) item(name, format string, a ...any) {
	t.wrap(fmt.Sprintf("  %-15s", name), format, a...)
}

func (t *text) measured(p *artifact.Plan) {
	m := p.Measured
	t.head("Measured")
	t.item("ladder", "%s", m.QMaxFile)
	if m.TTotalFile != "" {
		t.item("scale-out", "%s", m.TTotalFile)
	}
	t.item("Q_max", "%d in flight = %.2f a second at %.3f s each (%s)", m.QMax, m.QRPS, m.QSMean, m.QSource)
	t.item("service time", "%.1f ms mean, %.1f ms p95 at N = %d", 1000*m.SMean, 1000*m.SP95, m.SAt)
	t.item("μ", "%.3f a second at most (%s)%s", m.MuPlan, m.Mu.Source, lower(m))
	if m.CS2 != nil {
		t.item("c_s²", "%.4f (%s)", *m.CS2, m.CS2Src)
	}
	t.item("objective", "p%g within %g ms", m.Pct, m.SLO*1000)
	t.item("T, 10 s signal", "%s", spanned(m.Lag))
	if p.Flow.Defined {
		t.item("T, 60 s signal", "%s", spanned(p.Flow.Lag))
	}
	if m.PricePerHour != nil {
		t.item("price", "%s an hour and instance (%s)", chart.Money(*m.PricePerHour, 3), m.PriceSource)
	} else {
		t.item("price", "unknown, so every cost is")
	}
	s := p.Scenario
	t.head("Scenario")
	t.item("peak", "%s", load(s.PeakRPS, s.PeakStreams, m.SMean))
	t.item("trough", "%s", load(s.TroughRPS, s.TroughStreams, m.SMean))
	t.item("surge", "ratio %s within T, h = %s (%s)", figure(s.SurgeRatio), figure(s.SurgeRatio-1), why(s.SurgeSource, "stated"))
	t.item("routing", "%s; ε %g; lost instances made up for: %d", why(s.Routing, capacity.RouteRandom), epsilon(s), s.Spare)
	t.item("min floor", "%d", s.MinFloor)
	t.item("ceiling", "%g s for one invocation", s.Ceiling)
}

func (t *text) rules(p *artifact.Plan) {
	t.head("%-30s %20s %20s", "Both rules", heading(p, capacity.RuleSlots), heading(p, capacity.RuleFlow))
	row := func(name string, cell func(capacity.Rule) string) {
		of := func(r capacity.Rule) string {
			if !r.Defined {
				return "-"
			}
			return cell(r)
		}
		t.line("  %-28s %20s %20s", name, of(p.Slots), of(p.Flow))
	}
	whole := func(n int) string { return fmt.Sprint(n) }
	row("scales on", func(r capacity.Rule) string {
		if r.CScaleMax != nil {
			return "concurrency, 10 s"
		}
		return scalesOn(p)
	})
	row("target", func(r capacity.Rule) string { return opt(r.ScalingTarget, "%.3f") })
	row("instance carries", func(r capacity.Rule) string {
		if r.LambdaStar != nil {
			return fmt.Sprintf("%.3f a second", *r.LambdaStar)
		}
		return fmt.Sprintf("%.3f in flight", *r.CScaleMax)
	})
	row("instances min", func(r capacity.Rule) string { return whole(r.Min) })
	row("instances at trough", func(r capacity.Rule) string {
		if r.Trough == nil {
			return "not stated"
		}
		return whole(*r.Trough)
	})
	row("instances at peak", func(r capacity.Rule) string { return whole(r.Peak) })
	row("instances max", func(r capacity.Rule) string { return whole(r.Max) })
	row("fleet completes, at most", func(r capacity.Rule) string {
		if r.FleetRPS < 10 { // of long streams, in whole ones nothing
			return fmt.Sprintf("%s of %s", figure(math.Floor(1000*r.FleetRPS)/1000), figure(r.PeakRPS))
		}
		return fmt.Sprintf("%.0f of %s", math.Floor(r.FleetRPS), figure(r.PeakRPS))
	})
	row("queue depth", func(r capacity.Rule) string { return whole(r.QueueMaxDepth) })
	row("cooldown out / in, s", func(r capacity.Rule) string { return fmt.Sprintf("%d / %d", r.OutCooldown, r.InCooldown) })
	row("cost an hour at min", func(r capacity.Rule) string { return money(r.Cost.Min, 2) })
	row("cost an hour at trough", func(r capacity.Rule) string {
		if r.Trough == nil {
			return "not stated"
		}
		return money(r.Cost.Trough, 2)
	})
	row("cost an hour at peak", func(r capacity.Rule) string { return money(r.Cost.Peak, 2) })
	row("cost a million characters", func(r capacity.Rule) string { return money(r.CostPerMChars, 4) })
	row("fleet_throughput", func(r capacity.Rule) string {
		if f := r.Find("fleet_throughput"); f != nil {
			return string(f.Verdict)
		}
		return "-"
	})
	row("verdict", func(r capacity.Rule) string { return string(r.Verdict) })
}

// flow is the flow rule's reasoning: its bounds, what it scales on, and what its inputs are worth.
func (t *text) flow(p *artifact.Plan) {
	r := p.Flow
	if !r.Defined {
		t.head("Flow rule")
		t.wrap("  not defined: ", "%s", r.Reason)
		return
	}
	t.head("Flow rule: %s binds, λ* = %.3f a second = %.3f of μ", r.Binding, *r.LambdaStar, *r.Rho)
	for _, b := range r.Bounds {
		limit := "no limit"
		if b.Rho != nil {
			limit = fmt.Sprintf("ρ %.3f, %d instances", *b.Rho, *b.Instances)
		}
		mark := " "
		if b.Name == r.Binding {
			mark = "*"
		}
		t.wrap(fmt.Sprintf("  %s %-9s ", mark, b.Name), "%s: %s", limit, b.Detail)
	}
	t.item("chain", "%d Erlang stages (%s), Poisson arrivals", r.Stages, r.StagesSource)
	for _, i := range r.Invocations {
		t.item("at "+i.At, "%.2f held ÷ %.3f s each = %.3f a second × 60 = %.1f invocations a minute", i.Concurrency, i.Response, i.PerSecond, i.PerMinute)
	}
	for _, pol := range p.Policies {
		if p.Rule == capacity.RuleFlow {
			t.item("policy", "%s", policy(pol, p.Alarms))
		}
	}
	if len(r.Sensitivity) > 0 {
		t.line("  %-27s %10s %10s", "were", "ρ*", "instances")
	}
	for _, s := range r.Sensitivity {
		t.line("    %-25s %10.3f %10d", sensitive(s), s.Rho, s.Instances)
	}
}

func sensitive(s capacity.Sensitivity) string {
	switch s.Of {
	case "t":
		return fmt.Sprintf("T %.0f s", s.Value)
	case "h":
		return fmt.Sprintf("h %.3f", s.Value)
	}
	return fmt.Sprintf("ε %.4g", s.Value)
}

// scalesOn is the signals of the flow rule's policies, where they are known, else of the rule.
func scalesOn(p *artifact.Plan) string {
	if p.Surge != nil && p.Surge.Flow != nil {
		return p.Surge.Flow.Candidate
	}
	if p.Flow.Signal == capacity.SignalConcurrency {
		return "concurrency, 10 s"
	}
	return "invocations, 60 s"
}

// surge is what the simulation says: both rules in the surge, and why the flow rule's policies were chosen.
func (t *text) surge(p *artifact.Plan) {
	s := p.Surge
	if s == nil {
		return
	}
	t.head("The surge, simulated: load × %s at %.0f s for %.0f s of %.0f s", figure(s.Ratio), s.AtS, s.LengthS, s.DurationS)
	const columns = "  %-24s %11s %9s %9s %9s %9s"
	t.line(columns, "", "instances", "late, not", "", "instance-", "first")
	t.line(columns, "", "from to", "served", "at worst", "hours", "out after")
	row := func(name string, o *artifact.SurgeOutcome) {
		if o == nil || o.Usual == nil {
			return
		}
		out := "never"
		if o.Usual.FirstOutS != nil {
			out = fmt.Sprintf("%.0f s", *o.Usual.FirstOutS)
		}
		worst := "-"
		if o.Played > 1 {
			worst = percent(o.Worst.BadShare)
		}
		t.line(columns, name, fmt.Sprintf("%d to %d", o.Instances, o.Usual.Peak), percent(o.Usual.BadShare), worst, fmt.Sprintf("%.1f", o.Usual.InstanceHours), out)
	}
	row("  published rule", s.Slots)
	for i, o := range s.Candidates {
		name := o.Candidate
		if s.Flow != nil && o.Candidate == s.Flow.Candidate {
			name = "* " + name
		} else {
			name = "  " + name
		}
		row(name, &s.Candidates[i])
	}
	for _, o := range s.Candidates {
		t.wrap(fmt.Sprintf("    %-22s ", o.Candidate), "%s", o.Why)
	}
	if o := s.Slots; o != nil {
		t.wrap(fmt.Sprintf("    %-22s ", "published rule"), "%s", o.Why)
	}
	settings := fmt.Sprintf("%d settings", s.Flow.Played)
	if s.Flow.Played == 1 {
		settings = "one setting"
	}
	t.wrap("  ", "The chosen policies were played under %s of what AWS does not publish; the usual ones: %s.", settings, s.Usual)
}

// policy is one policy in a sentence.
func policy(p capacity.Policy, alarms []capacity.Alarm) string {
	predicted := ""
	if p.Predicted {
		predicted = ", predicted"
	}
	if p.Type == capacity.StepScaling {
		change, cooldown := fmt.Sprintf("%+d %% of the fleet", p.Steps[0].Change), p.OutCooldown
		if p.Adjustment == "ChangeInCapacity" {
			change = fmt.Sprintf("%+d instance", p.Steps[0].Change)
		}
		compared, direction := "above", "never in"
		if !p.NoScaleIn {
			compared, direction, cooldown = "below", "never out", p.InCooldown
		}
		read := p.Statistic
		for _, a := range alarms {
			if a.Policy == p.Name {
				read = a.Statistic
			}
		}
		return fmt.Sprintf("%s: %s when %s %s is %s %s in %d of %d × %d s%s; %s; cooldown %d s",
			p.Name, change, p.Metric.Name, read, compared, figure(*p.Threshold), p.Datapoints, p.Evaluation, p.Period, predicted, direction, cooldown)
	}
	direction := "out and in"
	if p.NoScaleIn {
		direction = "out only"
	}
	return fmt.Sprintf("%s: tracks %s at %s%s, %s; cooldowns %d and %d s (%s)",
		p.Name, cmp.Or(p.Metric.Predefined, p.Metric.Name), figure(*p.Target), predicted, direction, p.OutCooldown, p.InCooldown, p.Cooldowns)
}

// published is the published rule in its own words, whichever rule is selected.
func (t *text) published(r capacity.Rule) {
	if !r.Defined {
		t.head("Published rule (slots)")
		t.wrap("  not defined: ", "%s", r.Reason)
		return
	}
	t.head("Published rule (slots): %s", r.PublishedVerdict)
	if n := *r.PublishedWarnings; n > 0 {
		t.line("  %d of its own findings warn", n)
	}
	if r.ScalingTarget != nil {
		t.line("  scaling_target_value : %.3f (C_scale_max)", *r.ScalingTarget)
		t.line("  scale_in_threshold : %.3f (C_scale_min)", *r.ScaleIn)
		t.line("  cw_units_ratio : %.3f", *r.CWRatio)
	} else {
		t.line("  scaling_target_value : unknown (C_scale_max %.3f, no CloudWatch ratio)", *r.CScaleMax)
		t.line("  scale_in_threshold : unknown (C_scale_min %.3f, no CloudWatch ratio)", *r.CScaleMin)
	}
	t.line("  w_max_s : %.3f", *r.WMax)
	if r.MinSafe != nil {
		t.line("  min_safe_instances : %d", *r.MinSafe)
	} else {
		t.line("  min_safe_instances : none")
	}
	t.line("  utilization_at_c_scale_max : %.1f %%", 100**r.Utilization)
	t.line("  shed_probability_at_c_scale_max : %.3f (M/M/1, first passage within T)", *r.Shed)
	for _, name := range capacity.Published {
		if f := r.Find(name); f != nil {
			t.line("  %s : %s", name, f.Verdict)
		}
	}
}

func (t *text) findings(p *artifact.Plan) {
	t.head("Findings of %s, worst first", p.Rule)
	for _, f := range p.Findings {
		accepted := ""
		if f.Accepted {
			accepted = " (a stop, accepted)"
		}
		t.line("  %-4s %s : %s%s", f.Verdict.Mark(), f.Name, f.Verdict, accepted)
		t.wrap("       ", "%s", f.Detail)
		if f.Recommendation != "" {
			t.wrap("       → ", "%s", f.Recommendation)
		}
	}
}

func (t *text) notes(notes []string) {
	if len(notes) == 0 {
		return
	}
	t.head("Notes")
	for _, n := range notes {
		t.wrap("  - ", "%s", n)
	}
}

func (t *text) config(p *artifact.Plan) {
	t.head("Configuration (models.yaml)")
	for _, f := range Fields(p) {
		if f.Value == "" {
			t.line("  # %s: not set (%s)", f.Name, f.Why)
			continue
		}
		t.line("  %-30s # %s", f.Name+": "+f.Value, f.Why)
	}
}

// Field is one line of the configuration block and where its value comes from. An empty value is one that is not known.
type Field struct{ Name, Value, Why string }

// Fields are the plan's part of models.yaml, in its order.
func Fields(p *artifact.Plan) []Field {
	c, m := p.Config, p.Measured
	r := p.Selected()
	target, in := "60 × λ*: invocations a minute", "target tracking scales in"
	if p.Flow.Signal == capacity.SignalConcurrency {
		target = "requests held at λ*"
	} else if len(p.Policies) > 0 && p.Policies[0].Metric.Predefined != "SageMakerVariantInvocationsPerInstance" && p.Policies[0].Metric.Name != "InvocationsPerInstance" {
		target = "most that an instance holds at λ*"
	}
	if p.Config.ScaleInThreshold != nil && p.Rule == capacity.RuleFlow {
		in = "below it one instance is taken away"
	}
	out, back := "T without detection: updates wait in line", "max(300, 3 T)"
	most := "peak × surge ratio / λ*, in one step"
	if c.InCooldown > int(max(300, 3*r.Lag.T)) {
		back = "what the longest replies take"
		if p.Scenario.MultiModel {
			back = "doubled for a cold cache"
		}
	}
	depth := fmt.Sprintf("Q_max %d", m.QMax)
	if c.QueueMaxDepth < m.QMax {
		depth = "below " + depth + ": see queue_depth"
	}
	if p.Rule == capacity.RuleSlots {
		target, in = "C_scale_max × CloudWatch ratio", "C_scale_min × CloudWatch ratio"
		out = "T / 2, within 10 to 30"
		most = "peak fleet, at least min"
	}
	why := "floor"
	if r.Trough != nil {
		why = fmt.Sprintf("max(floor, trough fleet %d)", *r.Trough)
	}
	return []Field{
		{"model_name", c.Model, "as measured"},
		{"instance_type", c.InstanceType, "as measured"},
		{"min_instances", fmt.Sprint(c.MinInstances), why},
		{"max_instances", fmt.Sprint(c.MaxInstances), most},
		{"scaling_target_value", optional(c.ScalingTargetValue), target},
		{"scale_in_threshold", optional(c.ScaleInThreshold), in},
		{"ttfab_slo_ms", exact(c.SLOMS), "objective of the ladder"},
		{"percentile", exact(c.Percentile), "likewise"},
		{"queue_max_depth", fmt.Sprint(c.QueueMaxDepth), depth},
		{"scale_out_cooldown_s", fmt.Sprint(c.OutCooldown), out},
		{"scale_in_cooldown_s", fmt.Sprint(c.InCooldown), back},
		{"peak_rps", optional(c.PeakRPS), "stated"},
		{"trough_rps", optional(c.TroughRPS), "stated"},
	}
}

func verdict(p *artifact.Plan) string {
	warns := 0
	for _, f := range p.Findings {
		if f.Verdict == capacity.Warn {
			warns++
		}
	}
	if p.Verdict == capacity.Warn {
		return fmt.Sprintf("%s (%d)", p.Verdict.Mark(), warns)
	}
	return p.Verdict.Mark()
}

func heading(p *artifact.Plan, rule string) string {
	if p.Rule == rule {
		return rule + " (selected)"
	}
	return rule
}

func on(instance string) string {
	if instance == "" {
		return ""
	}
	return " on " + instance
}

func lower(m artifact.PlanMeasured) string {
	if m.Mu.Value-m.MuPlan >= 0.0005 {
		return fmt.Sprintf("; the lower bound of %.3f", m.Mu.Value)
	}
	return ""
}

// spanned is T with its parts.
func spanned(l capacity.Lag) string {
	if l.Assumed {
		return fmt.Sprintf("%.1f s (%s)", l.T, l.Source)
	}
	return fmt.Sprintf("%.1f s = %.1f s provisioning + %.1f s detection (%s)", l.T, l.Provision, l.Detection, l.Source)
}

func epsilon(s capacity.Scenario) float64 {
	if s.Epsilon == 0 {
		return capacity.Epsilon
	}
	return s.Epsilon
}

func load(rps, streams, sMean float64) string {
	switch {
	case streams > 0:
		return fmt.Sprintf("%s streams = %s a second at %.3f s each", figure(streams), figure(streams/sMean), sMean)
	case rps > 0:
		return figure(rps) + " requests a second"
	}
	return "not stated"
}

func opt(v *float64, format string) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf(format, *v)
}

// optional is v exactly, as the registry is to hold it.
func optional(v *float64) string {
	if v == nil {
		return ""
	}
	return exact(*v)
}

func exact(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func money(v *float64, digits int) string {
	if v == nil {
		return "unknown"
	}
	return chart.Money(*v, digits)
}

// figure prints a number with up to three decimals and no idle zeros.
func figure(x float64) string {
	s := fmt.Sprintf("%.3f", x)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}
