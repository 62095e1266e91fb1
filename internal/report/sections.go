package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/chart"
	"loadline/internal/ladder"
)

// ladder tells of a closed ladder: what one instance holds.
func (p *page) ladder(f Filed[*artifact.QMax], i int) {
	q := f.Record
	s := p.section("ladder", "What one instance holds", i)
	target := "within " + millis(q.SLOMS)
	switch c := q.Certificate; {
	case q.QMax == nil:
		s.Text = append(s.Text, "No concurrency was certified: "+cmp.Or(q.Reason, "no rung met the objective")+".")
	case c != nil:
		s.Text = append(s.Text, fmt.Sprintf("With %s requests in flight %s of %s lay %s. Certificate: %s of %s fresh samples late, worth %s independent ones; %.0f %% confidence.",
			count(*q.QMax), percentile(q.Percentile), mark(q.SLOOn), target, count(c.Late), count(c.N), count(int(c.NEff+0.5)), 100*c.Confidence))
	default:
		s.Text = append(s.Text, fmt.Sprintf("With %s requests in flight %s of %s lay %s, without a certificate: %s.", count(*q.QMax), percentile(q.Percentile), mark(q.SLOOn), target, q.Verdict))
	}
	if q.Bracket.Fail > 0 {
		s.Text = append(s.Text, fmt.Sprintf("The highest that passed is %s, the lowest that did not %s.", count(q.Bracket.Pass), count(q.Bracket.Fail)))
	} else if q.Bracket.Pass > 0 {
		s.Text = append(s.Text, fmt.Sprintf("Nothing above %s missed the objective: Q_max is a lower bound.", count(q.Bracket.Pass)))
	}
	s.Charts = append(s.Charts, drawnFigure(ladderFigure(fmt.Sprintf("ladder-%d", i+1), q), "Rungs that are not valid decide nothing and are left out of the picture; the table has them."))
	t := table{Caption: "every rung", Label: "rungs", Folded: true, Heads: heads("in flight", "why", "verdict", "#p95", "#p95 at most", "#a second", "#samples", "#late", "#failed")}
	for _, r := range q.Rungs {
		verdict := string(r.Verdict)
		if !r.Valid {
			verdict = "not valid: " + r.Cause
		}
		t.Rows = append(t.Rows, []string{count(r.N), string(r.Purpose), verdict, optional(r.P95, millis), optional(r.P95Upper, millis), number(r.X), count(r.Samples), count(r.Late), count(r.Samples - r.OK)})
	}
	s.Tables = append(s.Tables, t)
	held := card{Name: "Q_max, requests one instance holds", Value: "none certified", From: source{Field: "q_max", How: q.Verdict}}
	if q.QMax != nil {
		held.Value = count(*q.QMax)
		if c := q.Certificate; c != nil {
			held.Note = fmt.Sprintf("%s of %s late, %.0f %% confidence", count(c.Late), count(c.N), 100*c.Confidence)
			held.From.How = "sequential test of the share of late requests on fresh samples; the certificate beside it"
		}
	}
	p.figures(f.File, q.RunID, held,
		card{Name: "μ, most it completes", Value: number(q.Mu.Value) + "/s", Note: interval(q.Mu), From: source{Field: "mu_rps", How: q.Mu.Source}},
		card{Name: "objective", Value: percentile(q.Percentile) + " " + millis(q.SLOMS), Note: "of " + mark(q.SLOOn), From: source{Field: "slo_ms, percentile, slo_on", How: "stated for the run"}})
	if q.SMean != nil {
		p.figures(f.File, q.RunID, card{Name: "whole reply alone, mean", Value: secondsOf(*q.SMean), From: source{Field: "s_mean_s", How: "mean of the rung with one request in flight"}})
	}
}

func ladderFigure(id string, q *artifact.QMax) chart.Figure {
	wait := chart.Series{Name: "p95", Kind: chart.Line}
	rate := chart.Series{Name: "completed", Kind: chart.Line}
	best := map[int]ladder.Rung{}
	for _, r := range q.Rungs {
		if r.Valid && r.P95 != nil && r.Samples > best[r.N].Samples {
			best[r.N] = r
		}
	}
	var ns []int
	for n := range best {
		ns = append(ns, n)
	}
	slices.Sort(ns)
	for _, n := range ns {
		r := best[n]
		pt := chart.Point{X: float64(n), Y: *r.P95}
		if r.P95Upper != nil && *r.P95Upper > *r.P95 {
			pt.Low, pt.High = *r.P95, *r.P95Upper
		}
		wait.Points = append(wait.Points, pt)
		x := chart.Point{X: float64(n), Y: r.X}
		if r.XLow != nil && r.XHigh != nil {
			x.Low, x.High = *r.XLow, *r.XHigh
		}
		rate.Points = append(rate.Points, x)
	}
	top := chart.Panel{Y: chart.Axis{Label: mark(q.SLOOn) + ", p95", Kind: chart.Millis}, Series: []chart.Series{wait}, Rules: []chart.Rule{{Label: "objective", At: q.SLOMS}}, Height: 190}
	desc := fmt.Sprintf("%d concurrencies measured.", len(ns))
	if q.QMax != nil {
		top.Rules = append(top.Rules, chart.Rule{Label: fmt.Sprintf("Q_max %d", *q.QMax), At: float64(*q.QMax), Upright: true})
		desc += fmt.Sprintf(" The objective of %s is met up to %d in flight.", millis(q.SLOMS), *q.QMax)
	}
	below := chart.Panel{Y: chart.Axis{Label: "completed a second"}, Series: []chart.Series{rate}, Height: 120}
	if top, _, paced := q.Paced(); paced {
		desc += fmt.Sprintf(" It completed at most %s a second, with %d in flight: its replies are sent no faster than they are played.", number(top.X), top.N)
	} else if q.Mu.Value > 0 {
		below.Rules = []chart.Rule{{Label: "μ", At: q.Mu.Value}}
		desc += fmt.Sprintf(" It completes at most %s a second.", number(q.Mu.Value))
	}
	return chart.Figure{ID: id, Title: "First audio and throughput", Desc: desc, X: chart.Axis{Label: "requests in flight", Min: new(0.0)}, Panels: []chart.Panel{top, below}}
}

// openLoop tells of arrivals that do not wait for each other.
func (p *page) openLoop(f Filed[*artifact.Rates], i int) {
	o := f.Record
	s := p.section("open-loop", "What it does at a rate", i)
	s.Text = append(s.Text, fmt.Sprintf("Requests came at random, however those before them fared (Poisson, seed %d); latency counts from the moment at which each was due.", o.Seed))
	wait := chart.Series{Name: "p95, 95 % interval", Kind: chart.Points}
	mean := chart.Series{Name: "measured", Kind: chart.Points}
	chain := chart.Series{Name: "predicted by the ladder", Kind: chart.Line}
	t := table{Caption: "every rate", Label: "rates", Folded: true, Heads: heads("a second", "of μ", "verdict", "#p95", "#interval", "#in flight", "#predicted", "#most in 10 s", "#samples", "#late")}
	valid := 0
	for _, r := range o.Rungs {
		verdict := string(r.Verdict)
		if !r.Valid {
			verdict = "not valid: " + r.Cause
		}
		span := "–"
		if r.P95Low != nil && r.P95High != nil {
			span = millis(*r.P95Low) + "–" + millis(*r.P95High)
		}
		t.Rows = append(t.Rows, []string{number(r.Rate), fmt.Sprintf("%.0f %%", 100*r.Share), verdict, optional(r.P95, millis), span, number(r.Mean), optional(r.Predicted, number), number(r.TenMax), count(r.Samples), count(r.Late)})
		if !r.Valid {
			continue
		}
		valid++
		if r.P95 != nil {
			pt := chart.Point{X: r.Rate, Y: *r.P95}
			if r.P95Low != nil && r.P95High != nil {
				pt.Low, pt.High = *r.P95Low, *r.P95High
			}
			wait.Points = append(wait.Points, pt)
		}
		mean.Points = append(mean.Points, chart.Point{X: r.Rate, Y: r.Mean})
		if r.Predicted != nil {
			chain.Points = append(chain.Points, chart.Point{X: r.Rate, Y: *r.Predicted})
		}
	}
	held := chart.Panel{Y: chart.Axis{Label: "in flight, mean"}, Series: []chart.Series{mean}, Height: 130}
	if len(chain.Points) > 0 {
		held.Series = append(held.Series, chain)
	}
	s.Charts = append(s.Charts, drawnFigure(chart.Figure{
		ID: fmt.Sprintf("open-%d", i+1), Title: "First audio at a rate",
		Desc: fmt.Sprintf("%d valid rates of %d, against an objective of %s and μ of %s a second.", valid, len(o.Rungs), millis(o.SLOMS), number(o.Mu.Value)),
		X:    chart.Axis{Label: "arrivals a second", Min: new(0.0)},
		Panels: []chart.Panel{
			{Y: chart.Axis{Label: mark(o.SLOOn) + ", p95", Kind: chart.Millis}, Series: []chart.Series{wait}, Height: 190,
				Rules: []chart.Rule{{Label: "objective", At: o.SLOMS}, {Label: "μ", At: o.Mu.Value, Upright: true}}},
			held,
		}}, ""))
	s.Tables = append(s.Tables, t)
}

// scaleOut tells how long more capacity takes.
func (p *page) scaleOut(f Filed[*artifact.TTotal], i int) {
	t := f.Record
	s := p.section("scale-out", "How long more capacity takes", i)
	bar := chart.Bar{ID: fmt.Sprintf("stages-%d", i+1), Title: "From the decision to recovered traffic", Kind: chart.Seconds, Total: "T_total"}
	listed := table{Caption: "the stages, with their sources", Label: "stages", Folded: true, Heads: heads("to", "#seconds", "#share", "source")}
	sources := map[string]artifact.Stage{}
	for _, g := range t.Timeline {
		sources[g.Name] = g
	}
	sum := 0.0
	for _, d := range t.Durations {
		note := ""
		if d.Bounded {
			note = "at most"
		}
		bar.Parts = append(bar.Parts, chart.Part{Name: words(d.To), Value: d.Seconds, Note: note})
		listed.Rows = append(listed.Rows, []string{words(d.To), fmt.Sprintf("%.2f", d.Seconds), fmt.Sprintf("%.0f %%", 100*d.Share), strings.TrimPrefix(strings.Join([]string{note, sources[d.To].Source}, " "), " ")})
		sum += d.Seconds
	}
	says := fmt.Sprintf("T_total is %s%s: from the capacity call to traffic recovered. The stages add up to it.", atLeast(t.Bounded), secondsOf(t.TTotal))
	if math.Abs(sum-t.TTotal) > 0.01 {
		bar.Total = "listed stages"
		says = fmt.Sprintf("T_total is %s%s. The stages that the record lists add up to %s.", atLeast(t.Bounded), secondsOf(t.TTotal), secondsOf(sum))
		if t.ListsProbeWarmup {
			says += " The difference is the probe's own warm-up, which this kind of file counts among them."
		}
	}
	s.Text = append(s.Text, says)
	bar.Desc = says
	if d := t.Dominant; d != nil {
		s.Text = append(s.Text, fmt.Sprintf("The longest stage is from %s to %s, %s or %.0f %%; half of it would save %s. %s.", words(d.From), words(d.To), secondsOf(d.Seconds), 100*d.Share, secondsOf(d.Saves), sentence(d.Advice)))
	}
	for _, a := range t.Attempts {
		if a.Cause != "" {
			s.Text = append(s.Text, fmt.Sprintf("One run failed and is in no figure: %s. %s", a.Cause, a.Detail))
		}
	}
	if len(bar.Parts) > 0 {
		s.Charts = append(s.Charts, drawnBar(bar, ""))
		s.Tables = append(s.Tables, listed)
	}
	for _, m := range t.Missing {
		s.Text = append(s.Text, "Stage not seen: "+words(m)+".")
	}
	p.figures(f.File, t.RunID, card{Name: "T_total, call to recovered traffic", Value: atLeast(t.Bounded) + secondsOf(t.TTotal), Note: runs(t.Runs), From: source{Field: "t_total_s", How: "the sum of the stages, trigger " + t.Trigger}},
		card{Name: "detection, before the call", Value: secondsOf(t.Detection), From: source{Field: "detection_s", How: t.DetectionSource}})
}

// plan tells what both rules say.
func (p *page) plan(f Filed[*artifact.Plan], i int) {
	d := f.Record
	s := p.section("plan", "The fleet, by two rules", i)
	sc := d.Scenario
	load := fmt.Sprintf("%s requests a second at the peak", number(sc.PeakRPS))
	if sc.PeakStreams > 0 {
		load = fmt.Sprintf("%s streams at the peak", number(sc.PeakStreams))
	}
	s.Text = append(s.Text, fmt.Sprintf("For %s and a surge of %s times within the scale-out. The plan takes the %s rule; %s.", load, number(sc.SurgeRatio), d.Rule, "its verdict is "+string(d.Verdict)))
	t := table{Caption: "both rules, side by side", Label: "rules", Heads: heads("", "#slots", "#flow")}
	row := func(name string, of func(capacity.Rule) string) {
		slots, flow := "not defined", "not defined"
		if d.Slots.Defined {
			slots = of(d.Slots)
		}
		if d.Flow.Defined {
			flow = of(d.Flow)
		}
		t.Rows = append(t.Rows, []string{name, slots, flow})
	}
	row("instances at the peak", func(r capacity.Rule) string { return count(r.Peak) })
	row("they complete, a second", func(r capacity.Rule) string { return number(r.FleetRPS) })
	row("they are asked for, a second", func(r capacity.Rule) string { return number(r.PeakRPS) })
	row("one may carry, a second", func(r capacity.Rule) string { return optional(r.LambdaStar, number) })
	row("bound that binds", func(r capacity.Rule) string { return cmp.Or(r.Binding, "–") })
	row("min to max", func(r capacity.Rule) string { return count(r.Min) + "–" + count(r.Max) })
	row("T, with detection", func(r capacity.Rule) string { return secondsOf(r.Lag.T) })
	row("an hour at the minimum", func(r capacity.Rule) string { return optional(r.Cost.Min, money) })
	row("an hour at the trough", func(r capacity.Rule) string { return optional(r.Cost.Trough, money) })
	row("an hour at the peak", func(r capacity.Rule) string { return optional(r.Cost.Peak, money) })
	row("verdict", func(r capacity.Rule) string { return string(r.Verdict) })
	s.Tables = append(s.Tables, t)

	if g := d.Surge; g != nil {
		out := table{Caption: fmt.Sprintf("both rules in a simulated surge of %s times, for %s", number(g.Ratio), secondsOf(g.LengthS)), Label: "surge", Heads: heads("policies", "#instances before", "#late or not served, usual", "#worst setting", "#p95, usual", "#instance-hours", "why")}
		add := func(name string, o *artifact.SurgeOutcome) {
			if o == nil {
				return
			}
			r := []string{name, count(o.Instances), "–", "–", "–", "–", o.Why}
			if u := o.Usual; u != nil {
				r[2], r[4], r[5] = percent(u.BadShare), secondsOf(u.P95), number(u.InstanceHours)
			}
			if w := o.Worst; w != nil {
				r[3] = percent(w.BadShare)
			}
			out.Rows = append(out.Rows, r)
		}
		add("slots", g.Slots)
		if g.Flow != nil {
			add("flow: "+g.Flow.Candidate, g.Flow)
		}
		for k := range g.Candidates {
			if c := &g.Candidates[k]; g.Flow == nil || c.Candidate != g.Flow.Candidate {
				add(c.Candidate, c)
			}
		}
		s.Tables = append(s.Tables, out)
	}
	pol := table{Caption: "the policies, whole", Label: "policies", Folded: true, Heads: heads("name", "kind", "metric", "statistic", "#target or threshold", "#cooldowns, out and in", "source")}
	for _, c := range d.Policies {
		at := cmp.Or(c.Target, c.Threshold)
		pol.Rows = append(pol.Rows, []string{c.Name, words(c.Type), cmp.Or(c.Metric.Predefined, c.Metric.Name), fmt.Sprintf("%s over %d s", c.Statistic, c.Period), optional(at, number), fmt.Sprintf("%d s, %d s", c.OutCooldown, c.InCooldown), c.Source})
	}
	if len(pol.Rows) > 0 {
		s.Tables = append(s.Tables, pol)
	}
	if i == 0 {
		p.Findings = findingsOf(d.Findings)
	}
	rule := d.Selected()
	p.figures(f.File, d.RunID, card{Name: "instances at the peak", Value: count(rule.Peak), Note: d.Rule + " rule, " + cmp.Or(rule.Binding, "no bound") + " binds", From: source{Field: d.Rule + ".peak_instances", How: "⌈peak over what one may carry⌉"}})
	if rule.LambdaStar != nil {
		p.figures(f.File, d.RunID, card{Name: "λ*, what one may carry", Value: number(*rule.LambdaStar) + "/s", Note: optional(rule.Rho, func(v float64) string { return percent(v) + " of μ" }), From: source{Field: d.Rule + ".lambda_rps", How: "the smallest of the bounds; " + rule.Binding + " binds"}})
	}
	price := card{Name: "money at the peak", Value: "price not known", From: source{Field: d.Rule + ".cost_per_hour.peak", How: cmp.Or(d.Measured.PriceSource, "no price was given")}}
	if rule.Cost.Peak != nil {
		price.Value, price.Note = money(*rule.Cost.Peak)+" an hour", optional(d.Measured.PricePerHour, func(v float64) string { return money(v) + " an instance and hour" })
	}
	p.figures(f.File, d.RunID, price)
}

// simulation tells of fleets over time.
func (p *page) simulation(f Filed[*artifact.Simulation], i int) {
	d := f.Record
	played := cmp.Or(d.Scenario, d.Trace, d.Shape)
	s := p.section("fleet", "The fleet over time", i)
	w := d.Runs[0].Workload
	s.Text = append(s.Text, fmt.Sprintf("Simulated: %s, %s, up to %s requests a second, seed %d. The same autoscaler, alarms and instances as on the local endpoint, on a virtual clock.",
		played, secondsOf(w.DurationS), number(w.PeakRPS), w.Seed))
	fig := Fleet(fmt.Sprintf("fleet-%d", i+1), played, d.Runs, d.SLO)
	s.Charts = append(s.Charts, drawnFigure(fig, "Marks under the instances are changes of the desired count; the table below says which policy made each."))
	t := table{Caption: "what each did", Label: "runs", Heads: heads("policies", "#late or not served", "#p95", "#instance-hours", "#money", "#most instances", "#changes of direction")}
	changes := table{Caption: "every change of capacity", Label: "changes", Folded: true, Heads: heads("at", "policies", "#from", "#to", "decided by", "cause")}
	for _, r := range d.Runs {
		t.Rows = append(t.Rows, []string{cmp.Or(r.Label, "run"), percent(r.BadShare()), secondsOf(r.P95), number(r.InstanceHours), optional(r.Cost, money), count(r.PeakInstances), count(r.DirectionChanges)})
		for _, c := range append(slices.Clone(r.Changes), r.Refusals...) {
			cause := c.Cause
			if c.Status != "" && c.Status != "Successful" {
				cause = c.Status + ": " + cause
			}
			changes.Rows = append(changes.Rows, []string{secondsOf(c.At), cmp.Or(r.Label, "run"), count(c.From), count(c.To), c.Policy, cause})
		}
	}
	s.Tables = append(s.Tables, t)
	const most = 200 // rows: the record has them all
	if n := len(changes.Rows); n > most {
		changes.Caption = fmt.Sprintf("the first %d of %d changes of capacity", most, n)
		changes.Rows = changes.Rows[:most]
	}
	if len(changes.Rows) > 0 {
		s.Tables = append(s.Tables, changes)
	}
}

func percentile(p float64) string { return "p" + strconv.FormatFloat(p, 'f', -1, 64) }

func mark(on string) string { return strings.ReplaceAll(cmp.Or(on, "first-audio"), "-", " ") }

// sentence begins with a capital and has no full stop of its own.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".")
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

func atLeast(floor bool) string {
	if floor {
		return "at least "
	}
	return ""
}

func interval(v ladder.Interval) string {
	if v.Low == nil || v.High == nil {
		return "a point, without an interval"
	}
	low, high := number(*v.Low), number(*v.High)
	for digits := 1; low == high && *v.Low < *v.High && digits <= 3; digits++ {
		low, high = strconv.FormatFloat(*v.Low, 'f', digits, 64), strconv.FormatFloat(*v.High, 'f', digits, 64)
	}
	return low + "–" + high + ", 95 %"
}

func runs(all []float64) string {
	if len(all) < 2 {
		return ""
	}
	return fmt.Sprintf("%d runs, %s–%s; the upper one is planned with", len(all), secondsOf(slices.Min(all)), secondsOf(slices.Max(all)))
}

func optional(v *float64, say func(float64) string) string {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return "–"
	}
	return say(*v)
}

// count is how many there are.
func count(n int) string { return number(float64(n)) }

func number(v float64) string { return chart.Label(chart.Number, v) }

func millis(v float64) string { return secondsOf(v / 1000) }

// secondsOf is a length of time in the unit that people use for it.
func secondsOf(v float64) string {
	switch {
	case v < 0:
		return "-" + secondsOf(-v)
	case v == 0:
		return "0 s"
	case v < 1:
		return number(1000*v) + " ms"
	case v < 600:
		return number(v) + " s"
	}
	return chart.Length(time.Duration(v * float64(time.Second)))
}

func percent(share float64) string {
	switch {
	case share == 0:
		return "none"
	case share < 1e-4:
		return "under 0.01 %"
	}
	return number(100*share) + " %"
}

func money(v float64) string { return chart.Money(v, 2) }
