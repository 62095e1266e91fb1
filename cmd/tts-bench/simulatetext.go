package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/chart"
	"loadline/internal/report"
	"loadline/internal/sim"
	"loadline/internal/store"
)

// finishSim saves the record, draws its picture and prints what was asked for, and what is known of a scenario.
func (a *app) finishSim(rec *artifact.Simulation, f simulateFlags, slo float64, known string) error {
	data, err := artifact.Encode(rec)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	var done []string
	if !f.noSave {
		kept, err := store.Save(f.out, rec.Name(), data)
		if err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		done = append(done, "saved "+filepath.Join(f.out, rec.Name()))
		if kept != "" {
			done = append(done, "kept the earlier one as "+filepath.Join(f.out, kept))
		}
	}
	if f.svg != "" {
		title := "Simulated: " + played(rec)
		if err := store.WriteFile(f.svg, []byte(report.Fleet("simulation", title, rec.Runs, slo).SVG())); err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		done = append(done, "drew "+f.svg)
	}
	status := a.stdout
	if f.json {
		status = a.stderr
		if _, err := a.stdout.Write(data); err != nil {
			return fmt.Errorf("simulate: print the artifact: %w", err)
		}
	} else {
		fmt.Fprint(a.stdout, simulateText(rec, slo)+"\n")
	}
	if known != "" {
		fmt.Fprintln(status, known)
	}
	for _, line := range done {
		fmt.Fprintln(status, line)
	}
	next := "tts-bench compare with another record of the same traffic, or --svg FILE for the picture"
	if f.svg != "" {
		next = "tts-bench compare with another record of the same traffic"
	}
	fmt.Fprintln(status, "next: "+next)
	return nil
}

func played(rec *artifact.Simulation) string {
	switch {
	case rec.Scenario != "":
		return "scenario " + rec.Scenario
	case rec.Trace != "":
		return "trace " + filepath.Base(rec.Trace)
	}
	return rec.Shape
}

// Rows that are printed: what there is more of is merged, or counted.
const (
	mostChanges = 24
	mostPoints  = 24
)

func simulateText(rec *artifact.Simulation, slo float64) string {
	var b strings.Builder
	w := rec.Runs[0].Workload
	fmt.Fprintf(&b, "Simulated (%s): %s, %s from %s, %.4g requests a second at the peak, seed %d\n", rec.Runs[0].Mode, played(rec), short(seconds(w.DurationS)), w.Start, w.PeakRPS, w.Seed)
	fmt.Fprintf(&b, "objective: first audio within %s\n", short(seconds(slo)))
	fmt.Fprintf(&b, "unknowns: %s\n\n", rec.Runs[0].Unknowns)
	var rows [][]string
	for _, r := range rec.Runs {
		money := "unknown"
		if r.Cost != nil {
			money = chart.Money(*r.Cost, 2)
		}
		all := r.Completed + refusedOf(r.Result)
		rows = append(rows, []string{r.Label, fmt.Sprintf("%.1f", r.InstanceHours), money, shareOf(r.Late, all), shareOf(refusedOf(r.Result), all),
			fmt.Sprintf("%.3g s", r.P95), fmt.Sprint(r.PeakInstances), fmt.Sprint(len(r.Changes)), fmt.Sprintf("%d (%d an hour)", r.DirectionChanges, r.MostAnHour)})
	}
	b.WriteString(report.Table([]string{"run", "instance-h", "money", "late", "not served", "p95", "most inst.", "changes", "turns"}, rows))
	for _, r := range rec.Runs {
		if why := lost(r.Result); why != "" {
			fmt.Fprintf(&b, "%s: %s\n", r.Label, why)
		}
		if shrunk := r.ShrunkWhileBad(); len(shrunk) > 0 {
			first := shrunk[0]
			b.WriteString(wrap(fmt.Sprintf("%s: scaled in while callers waited, %s, first at %s from %d to %d by %s: what decides that does not see the load",
				r.Label, counted(len(shrunk), "time"), clock(first.At), first.From, first.To, cmp.Or(first.Policy, "-"))) + "\n")
		}
	}
	for _, r := range rec.Runs {
		b.WriteString("\n" + changesText(r))
	}
	b.WriteString("\n" + timelineText(rec.Runs))
	for _, n := range rec.Notes {
		b.WriteString("\n" + wrap("note: "+n) + "\n")
	}
	return b.String()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func refusedOf(r sim.Result) float64 { return r.Shed + r.Unserved + r.Abandoned + r.Cut }

func shareOf(n, all float64) string {
	switch {
	case n == 0:
		return "none"
	case n/all < 1e-4:
		return "<0.01 %"
	}
	return fmt.Sprintf("%.2f %%", 100*n/all)
}

// lost is why requests were not served, and what callers did.
func lost(r sim.Result) string {
	var parts []string
	for _, c := range []struct {
		n    float64
		what string
	}{{r.Shed, "refused at the gate"}, {r.Unserved, "found no instance"}, {r.Abandoned, "given up"}, {r.Cut, "cut off with their instance"},
		{r.Wasted, "served after their callers had gone"}, {r.Retried, "came back"}, {r.Failed, "never served in the end"}} {
		if c.n >= 0.5 {
			parts = append(parts, fmt.Sprintf("%s %s", figures(new(c.n)), c.what))
		}
	}
	return strings.Join(parts, ", ")
}

// changesText is each change of the fleet with the policy that decided it, and what was decided and not done.
func changesText(r artifact.SimulationRun) string {
	var b strings.Builder
	heads := []string{r.Label, "from", "to", "<decided by", "<in force after", "<why"}
	var rows [][]string
	for i, c := range r.Changes {
		if i == mostChanges {
			rows = append(rows, []string{fmt.Sprintf("… and %d more", len(r.Changes)-i)})
			break
		}
		force := "never"
		if c.InForceS > 0 {
			force = short(seconds(c.InForceS - c.At))
		}
		rows = append(rows, []string{clock(c.At), fmt.Sprint(c.From), fmt.Sprint(c.To), cmp.Or(c.Policy, "-"), force, whyChanged(c.Cause)})
	}
	if len(rows) == 0 {
		fmt.Fprintf(&b, "%s: the fleet was never changed\n", r.Label)
	} else {
		b.WriteString(report.Table(heads, rows))
	}
	for i, c := range r.Refusals {
		if i == 8 {
			fmt.Fprintf(&b, "… and %d more that were not done\n", len(r.Refusals)-i)
			break
		}
		fmt.Fprintf(&b, "not done at %s: %d to %d by %s: %s\n", clock(c.At), c.From, c.To, cmp.Or(c.Policy, "-"), cutText(c.Cause, 160))
	}
	return b.String()
}

// whyChanged is a cause without the names that a reader knows.
func whyChanged(cause string) string {
	switch {
	case strings.Contains(cause, "-AlarmHigh-"):
		return "above its target"
	case strings.Contains(cause, "-AlarmLow-"):
		return "below nine tenths of its target"
	case strings.HasPrefix(cause, "monitor alarm "):
		return "its alarm"
	}
	return cutText(cause, 70)
}

func cutText(s string, n int) string {
	r := []rune(strings.ReplaceAll(s, "\n", " "))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}

// clock is a time from the start: h:mm:ss.
func clock(s float64) string {
	d := seconds(s).Round(time.Second)
	return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// unchanging leaves out rows that only repeat their neighbours on both sides but for the first cell, and marks where.
func unchanging(rows [][]string) [][]string {
	same := func(i, j int) bool { return slices.Equal(rows[i][1:], rows[j][1:]) }
	var out [][]string
	left := false
	for i, row := range rows {
		if i > 0 && i < len(rows)-1 && same(i, i-1) && same(i, i+1) {
			if !left {
				out = append(out, []string{"⋮"})
			}
			left = true
			continue
		}
		out, left = append(out, row), false
	}
	return out
}

// timelineText is the time line, its steps merged so that there are few; of several runs side by side, and shorter.
func timelineText(runs []artifact.SimulationRun) string {
	heads := []string{"time", "offered"}
	for i := range runs {
		if len(runs) == 1 {
			heads = append(heads, "inst.", "in flight", "late", "not served", "p95")
			break
		}
		of := fmt.Sprintf(" [%d]", i+1)
		heads = append(heads, "inst."+of, "late, not served"+of, "p95"+of)
	}
	points := len(runs[0].Timeline)
	merge := max(1, (points+mostPoints-1)/mostPoints)
	var rows [][]string
	for from := 0; from < points; from += merge {
		row := []string{clock(runs[0].Timeline[from].At), ""}
		for i, r := range runs {
			var m sim.Point
			n := 0.0
			for _, p := range r.Timeline[min(from, len(r.Timeline)):min(from+merge, len(r.Timeline))] {
				m.Offered, m.Instances, m.InFlight, n = m.Offered+p.Offered, m.Instances+p.Instances, m.InFlight+p.InFlight, n+1
				m.Late, m.Shed, m.Completed, m.P95 = m.Late+p.Late, m.Shed+p.Shed, m.Completed+p.Completed, max(m.P95, p.P95)
			}
			n, all := max(n, 1), m.Completed+m.Shed
			if i == 0 {
				row[1] = fmt.Sprintf("%.4g/s", m.Offered/n)
			}
			row = append(row, fmt.Sprintf("%.1f", m.Instances/n))
			if len(runs) == 1 {
				row = append(row, figures(new(m.InFlight/n)), shareOf(m.Late, all), shareOf(m.Shed, all))
			} else {
				row = append(row, shareOf(m.Late+m.Shed, all))
			}
			row = append(row, fmt.Sprintf("%.3g s", m.P95))
		}
		rows = append(rows, row)
	}
	text := report.Table(heads, unchanging(rows))
	if len(runs) > 1 {
		var names []string
		for i, r := range runs {
			names = append(names, fmt.Sprintf("[%d] %s", i+1, r.Label))
		}
		text += strings.Join(names, "  ") + "\n"
	}
	return text
}
