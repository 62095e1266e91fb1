package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/chart"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/proof"
	"loadline/internal/report"
	"loadline/internal/store"
)

// walls are how long one instance is held, and how long the surge's fleet.
func (j *proveJob) walls() (one, surge time.Duration) {
	if j.step != nil {
		one += j.step.Profile.Len() + j.idle
	}
	if j.queue != nil {
		one += 2 * (j.queue.Hold + j.idle)
	}
	if s := j.surge; s != nil {
		surge = s.Begins + s.Align + s.Lasts
	}
	return one, surge
}

// money is what the instances cost, about and at most; 0 and 0 where no price is known.
func (j *proveJob) money() (about, most float64) {
	m := j.to.model
	if m == nil || m.Price == nil {
		return 0, 0
	}
	one, surge := j.walls()
	grown := math.Min(math.Ceil(float64(j.instances)*j.ratio), float64(j.most))
	return m.Price.PerHour * (one.Hours() + math.Max(grown, 1)*surge.Hours()), m.Price.PerHour * (one.Hours() + float64(j.most)*surge.Hours())
}

func (j *proveJob) name() string {
	return j.to.Endpoint + "/" + j.plan.Target.Variant + " by " + j.to.Transport
}

// instances is so many of them, in words.
func instances(n int) string {
	if n == 1 {
		return "1 instance"
	}
	return fmt.Sprintf("%d instances", n)
}

func (j *proveJob) dryRunText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s against %s (%s); no AWS call is made\n\n", j.name(), j.planFlag.plan, j.plan.Rule)
	m := j.plan.Measured
	requests := 0
	if s := j.step; s != nil {
		requests += len(s.At)
		fmt.Fprintf(&b, "rate        %.2f a second on one instance (%.0f %% of μ), for %s: p%g within %s\n", s.Rate, 100*s.Share, short(s.Profile.Len()), m.Pct, short(seconds(m.SLO)))
	}
	if q := j.queue; q != nil {
		requests += int(2 * m.MuPlan * q.Hold.Seconds())
		fmt.Fprintf(&b, "queue       %d held for %s: none refused; ", q.Below, short(q.Hold))
		if q.Bound > 0 {
			fmt.Fprintf(&b, "%d, beyond the bound of %d: refused within %s\n", q.Above, q.Bound, short(q.Prompt))
		} else {
			b.WriteString("unbounded\n")
		}
	}
	if s := j.surge; s != nil {
		requests += len(s.At)
		fmt.Fprintf(&b, "surge       × %.2f for %s from %s: one more asked for within %s (detection %s, and\n            one period of the alarm); at most %g %% late or not served, %.2g %% refused\n", j.ratio, short(s.Lasts), instances(s.Instances), short(s.Within), short(s.Within-s.Align), 100-m.Pct, 100*s.Epsilon)
	}
	one, surge := j.walls()
	fmt.Fprintf(&b, "changes     pinned to 1 instance, scaling suspended")
	if j.surge != nil {
		fmt.Fprintf(&b, "; then %s, scale-out let go, at most %d", instances(j.instances), j.most)
	}
	b.WriteString(";\n            the count and scaling it had are put back\n")
	fmt.Fprintf(&b, "wall clock  %s, and as long as the endpoint takes to change its count\nrequests    about %s, drawn with seed %d\n", short(one+surge), chart.About(float64(requests)), j.seed)
	if j.surge != nil {
		fmt.Fprintf(&b, "quota       %s\n", instances(j.most))
	}
	if about, most := j.money(); most > 0 {
		fmt.Fprintf(&b, "money       about %s, at most %s, at %s an instance-hour\n", chart.Money(about, 2), chart.Money(most, 2), chart.Money(j.to.model.Price.PerHour, 3))
	} else {
		fmt.Fprintf(&b, "money       unknown: %s has no price for it\n", j.target.models)
	}
	for _, n := range j.notes {
		b.WriteString(wrap("note: "+n) + "\n")
	}
	b.WriteString("next: the same without --dry-run\n")
	return b.String()
}

// asks is what the owner agrees to.
func (j *proveJob) asks(s freeze.Variant) []string {
	ask := freeze.Consent(s)
	one, surge := j.walls()
	if j.surge != nil {
		ask = append(ask, fmt.Sprintf("its policies are let scale out under a surge, from %d up to %d instances", j.instances, j.most))
	}
	if about, most := j.money(); most > 0 {
		return append(ask, fmt.Sprintf("it is loaded to its limit for %s, which costs about %s and at most %s", short(one+surge), chart.Money(about, 2), chart.Money(most, 2)))
	}
	return append(ask, fmt.Sprintf("it is loaded to its limit for %s; what that costs is not known", short(one+surge)))
}

// finishProve prints and saves the result, and turns it into an exit code.
func (a *app) finishProve(j *proveJob, doc *artifact.Proof, files *store.Journal, live *report.Live, stopped error) error {
	if len(doc.Checks) < 2 { // nothing that is worth the name of an earlier run's file
		return stopped
	}
	status, err := a.finishRun(doc, proveText(j, doc), j.json, journal{files, live}, stopped)
	if err != nil {
		return err
	}
	untold := slices.ContainsFunc(doc.Checks, func(c proof.Check) bool { return c.Verdict == capacity.NotChecked && j.asked(c.Name) })
	switch {
	case doc.Verdict == capacity.Stop:
		fmt.Fprintf(status, "not proved: the plan does not keep what it promises\nnext: tts-bench plan --qmax %s --peak-rps N, from what was measured anew\n", j.plan.Measured.QMaxFile)
		return exit.Refuse(exit.Said)
	case untold:
		fmt.Fprintln(status, "cannot tell\nnext: the same again, when the cause above is mended")
		return exit.CannotTell(exit.Said)
	case doc.Verdict == capacity.NotChecked:
		fmt.Fprintf(status, "holds as far as it was asked for, which is not the whole proof\nnext: tts-bench prove --plan %s\n", j.planFlag.plan)
	default:
		fmt.Fprintf(status, "proved: every check holds\nnext: tts-bench watch --plan %s\n", j.planFlag.plan)
	}
	return nil
}

// asked says whether a check was to be made.
func (j *proveJob) asked(name string) bool {
	switch name {
	case proof.Lambda:
		return j.step != nil
	case proof.Below:
		return j.queue != nil
	case proof.Above:
		return j.queue != nil && j.queue.Bound > 0
	}
	return j.surge != nil
}

// proveText is the checks, at most 80 columns wide.
func proveText(j *proveJob, doc *artifact.Proof) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s (%s), p%g of %s within %s\n\n", j.name(), doc.PlanFile, doc.Rule, doc.Percentile, words(doc.SLOOn), short(milliseconds(doc.SLOMS)))
	for _, c := range doc.Checks {
		mark := map[capacity.Verdict]string{capacity.OK: "OK", capacity.Stop: "STOP"}[c.Verdict]
		if mark == "" {
			mark = "----"
		}
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-4s  %-15s %s", mark, c.Name, proved(c)), " ") + "\n")
		for _, line := range strings.Split(wrap(c.Detail), "\n") {
			fmt.Fprintf(&b, "      %s\n", strings.TrimSpace(line))
		}
	}
	for _, w := range doc.Warnings {
		b.WriteString(wrap("warning: "+w) + "\n")
	}
	return b.String()
}

// proved is what a check measured, between which bounds, and its budget.
func proved(c proof.Check) string {
	if c.Budget == nil || c.Verdict == capacity.NotChecked && c.Measured == nil {
		return ""
	}
	show := func(v float64) string { return fmt.Sprintf("%.4g", v) }
	unit := " " + c.Unit
	if c.Unit == "ms" {
		show = func(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }
	}
	if strings.HasPrefix(c.Unit, "share ") {
		show = func(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }
		unit = strings.TrimPrefix(c.Unit, "share")
	}
	s := "none"
	if c.Measured != nil {
		s = show(*c.Measured)
	}
	switch {
	case c.Low != nil && c.High != nil && *c.Low == *c.High:
		s += " (exact)"
	case c.Low != nil && c.High != nil:
		s += " (" + show(*c.Low) + " to " + show(*c.High) + ")"
	case c.High != nil:
		s += " (at most " + show(*c.High) + ")"
	case c.Low != nil:
		s += " (at least " + show(*c.Low) + ")"
	case c.Measured != nil:
		s += " (too few for an interval)"
	default: // a percentile among those that were never served
		return "unbounded, budget " + show(*c.Budget) + unit
	}
	return s + unit + ", budget " + show(*c.Budget)
}
