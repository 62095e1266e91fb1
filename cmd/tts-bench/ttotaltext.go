package main

import (
	"fmt"
	"strings"

	"loadline/internal/artifact"
	"loadline/internal/report"
)

// ttotalText is the stages and the total.
func ttotalText(name string, t *artifact.TTotal) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d to %d %s\n\n", name, t.Trigger, t.From, t.To, several(t.Target))
	rows := make([][]string, 0, len(t.Durations)+1)
	source := map[string]artifact.Stage{}
	for _, s := range t.Timeline {
		source[s.Name] = s
	}
	for _, d := range t.Durations {
		mark := "measured"
		if d.Bounded {
			mark = "bounded"
		}
		rows = append(rows, []string{d.To, fmt.Sprintf("%.3f", d.Seconds), fmt.Sprintf("%.1f", 100*d.Share), mark, source[d.To].Source})
	}
	rows = append(rows, []string{"T_total", fmt.Sprintf("%.3f", t.TTotal), "100.0", "", ""})
	b.WriteString(report.Table([]string{"stage", "s", "%", "<", "<seen by"}, rows) + "\n")
	say := func(format string, args ...any) { b.WriteString(wrap(fmt.Sprintf(format, args...)) + "\n") }
	if t.Bounded {
		say("T_total is a floor: recovery was not seen.")
	}
	if len(t.Runs) > 1 {
		low, high := t.Runs[0], t.Runs[0]
		for _, r := range t.Runs {
			low, high = min(low, r), max(high, r)
		}
		say("%d runs took %.1f to %.1f s; the slowest is shown, and plans use it.", len(t.Runs), low, high)
	}
	say("Detection %.1f s (%s), so T is %.1f s.", t.Detection, t.DetectionSource, t.Planning)
	for i, s := range t.Detected {
		next, at := "desired_set", t.Timeline[0].At
		if i+1 < len(t.Detected) {
			next, at = t.Detected[i+1].Name, t.Detected[i+1].At
		}
		say("  %s to %s: %.1f s", s.Name, next, at.Sub(s.At).Seconds())
	}
	if r := t.Recovery; r != nil && t.Bounded {
		target := "p" + fmt.Sprint(r.Percentile) + " at most " + bound(r.TargetMS, "ms")
		if r.Rule != "latency" {
			target = "at least " + bound(r.TargetRPS, "a second")
		}
		say("Recovered would be %s; that was not kept to the end of the probe.", target)
	} else if r != nil {
		if r.Rule == "latency" {
			say("Recovered is p%g at most %s: it was %s before, and at most %s in every window of %g s afterwards.",
				r.Percentile, bound(r.TargetMS, "ms"), bound(r.BeforeMS, "ms"), bound(r.AfterMS, "ms"), r.WindowS)
		} else {
			say("Recovered is at least %s: it was at least %s in every window of %g s afterwards.", bound(r.TargetRPS, "a second"), bound(r.AfterRPS, "a second"), r.WindowS)
		}
	}
	if d := t.Dominant; d != nil {
		say("Longest: %s to %s, %.1f s, %.0f %% of T_total and %.0f %% of T. %s. Half of it would save %.1f s.",
			d.From, d.To, d.Seconds, 100*d.Share, 100*d.Planning, strings.ToUpper(d.Advice[:1])+d.Advice[1:], d.Saves)
	}
	if len(t.Missing) > 0 {
		say("Not seen: %s; their time is in the stage that follows.", strings.Join(t.Missing, ", "))
	}
	for i, at := range t.Attempts {
		if at.Cause != "" {
			say("Run %d failed (%s) and is in no figure: %s", i+1, at.Cause, at.Detail)
		}
	}
	for _, n := range t.Notes {
		say("note: %s", n)
	}
	return b.String()
}

// bound is a number with its unit, where there is one.
func bound(v *float64, unit string) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("%.0f %s", *v, unit)
}
