package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"loadline/internal/artifact"
	"loadline/internal/chart"
	"loadline/internal/exit"
	"loadline/internal/ladder"
	"loadline/internal/measure"
	"loadline/internal/report"
	"loadline/internal/store"
)

// cost estimates the run with this service time.
func (j *qmaxJob) cost(service time.Duration) ladder.Cost {
	if j.fixed {
		return ladder.EstimateSchedule(j.steps, service)
	}
	c, err := ladder.EstimateSearch(j.search, service)
	if err != nil {
		return ladder.Cost{} // the search was made from the same configuration
	}
	return c
}

// dryRun says what the run would take.
func (a *app) dryRun(j *qmaxJob) error {
	c := j.cost(j.service)
	published := ladder.EstimateSchedule(ladder.Published, j.service)
	runs := time.Duration(j.runs)
	w := &strings.Builder{}
	fmt.Fprintf(w, "%s, p%g of %s within %s; no AWS call is made\n\n", j.name(), j.percentile, words(j.sloOn), short(milliseconds(j.sloMS)))
	if j.fixed {
		fmt.Fprintf(w, "schedule    %s in flight, each held %s, the last %s measured, %s idle between\n",
			join(j.concurrency), short(j.steps.Hold), short(j.steps.Window), short(j.steps.Idle))
	} else {
		fmt.Fprintf(w, "schedule    adaptive: 1 and 8 in flight, doubling up to %d, narrowing, certifying on fresh samples\n", j.search.Max)
	}
	if j.runs > 1 {
		fmt.Fprintf(w, "passes      %d\n", j.runs)
	}
	fmt.Fprintf(w, "wall clock  about %s, at most %s; the published schedule takes %s\n", short(runs*c.Wall), short(runs*c.MaxWall), short(published.Wall))
	if j.to.URL == "" && !j.noCloudWatch {
		fmt.Fprintf(w, "            and up to 3m more, thawed, until CloudWatch has published\n")
	}
	fmt.Fprintf(w, "rungs       about %d, at most %d\n", j.runs*c.Probes, j.runs*c.MaxProbes)
	fmt.Fprintf(w, "requests    about %s, at most %s, at an assumed %s each (--dry-run-s)\n", chart.About(float64(j.runs*c.Requests)), chart.About(float64(j.runs*c.MaxRequests)), short(j.service))
	fmt.Fprintf(w, "texts       %s: %d texts, %.1f characters on average\n", j.texts.ID(), j.texts.Len(), j.texts.Stats().CharsMean)
	switch m := j.to.model; {
	case j.to.URL != "":
		fmt.Fprintf(w, "money       unknown for a target by URL\n")
	case m == nil || m.Price == nil:
		fmt.Fprintf(w, "money       unknown: %s has no price for it\n", j.target.models)
	default:
		hour := m.Price.PerHour
		fmt.Fprintf(w, "money       about $%.2f, at most $%.2f, for one %s at $%.3f an hour\n            (%s, %s)\n",
			hour*(runs*c.Wall).Hours(), hour*(runs*c.MaxWall).Hours(), m.InstanceType, hour, m.Price.Source, m.Price.Date)
	}
	fmt.Fprintf(w, "next: the same without --dry-run\n")
	_, err := fmt.Fprint(a.stdout, w.String())
	return err
}

// name is what is measured, for people.
func (j *qmaxJob) name() string {
	if j.to.URL != "" {
		return j.to.Model + " at " + j.to.URL
	}
	s := j.to.Model + " at " + j.to.what()
	if j.to.Variant != "" {
		s += "/" + j.to.Variant
	}
	return s + " by " + j.to.Transport
}

// finishQMax prints the result and turns it into an exit code. stopped is why it ended early.
func (a *app) finishQMax(j *qmaxJob, doc *artifact.QMax, files *store.Journal, stopped error) error {
	status := a.stdout
	if j.json {
		status = a.stderr
		data, err := artifact.Encode(doc)
		if err != nil {
			return err
		}
		if _, err := a.stdout.Write(data); err != nil {
			return fmt.Errorf("print the artifact: %w", err)
		}
	} else if len(doc.Rungs) > 0 {
		fmt.Fprint(a.stdout, qmaxText(j.name(), doc))
	}
	path := ""
	if files != nil && len(doc.Rungs) > 0 {
		path = files.Path()
		fmt.Fprintf(status, "saved %s\n", path)
		fmt.Fprintf(status, "saved %s\n", filepath.Join(filepath.Dir(path), doc.RequestLog))
	}
	if stopped != nil {
		if path != "" {
			again := "tts-bench qmax --resume " + path
			if doc.Target.URL != "" {
				again += " --url " + doc.Target.URL
			}
			fmt.Fprintf(status, "next: %s\n      goes on after the last closed rung\n", again)
		}
		return stopped
	}
	switch ladder.Outcome(doc.Verdict) {
	case ladder.None:
		next := "a smaller --corpus text, a larger --slo-ms, or a faster instance"
		if !slices.ContainsFunc(doc.Rungs, func(r ladder.Rung) bool { return r.OK > 0 }) {
			next = "tts-bench say with the same target, until it answers: no request was served"
		}
		fmt.Fprintln(status, "next: "+next)
		return exit.Refuse(exit.Said)
	case ladder.CannotTell:
		fmt.Fprintln(status, "next: the same again, when the cause above is mended")
		return exit.CannotTell(exit.Said)
	}
	if doc.Target.URL == "" {
		fmt.Fprintf(status, "next: tts-bench ttotal --qmax %s\n", cmp.Or(path, "FILE"))
		return nil
	}
	fmt.Fprintf(status, "next: tts-bench plan --qmax %s --assume-t-total 320 --peak-rps N\n", cmp.Or(path, "FILE"))
	return nil
}

// qmaxText is the ladder and its answer, at most 80 columns wide.
func qmaxText(name string, doc *artifact.QMax) string {
	var b strings.Builder
	where := ""
	if kind := doc.Fingerprint.InstanceType; kind != "" {
		where = ", one " + kind
	}
	fmt.Fprintf(&b, "%s%s\np%g of %s within %s\n\n", name, where, doc.Percentile, words(doc.SLOOn), short(milliseconds(doc.SLOMS)))
	b.WriteString(ladderTable(doc))
	b.WriteString("\n" + answer(doc))
	for _, r := range doc.Rungs {
		if r.CW != nil && !r.CW.Squared {
			b.WriteString(wrap("warning: CloudWatch at "+fmt.Sprint(r.N)+" in flight "+r.CW.Agreement) + "\n")
		}
	}
	for _, w := range doc.Warnings {
		b.WriteString(wrap("warning: "+w) + "\n")
	}
	return b.String()
}

func ladderTable(doc *artifact.QMax) string {
	heads := []string{"N", "p50 ms", fmt.Sprintf("p%g ms", doc.Percentile), "at most", "X/s", "late/n", "<verdict", "<note"}
	passes := slices.ContainsFunc(doc.Rungs, func(r ladder.Rung) bool { return r.Run > 0 })
	if passes {
		heads = append([]string{"run"}, heads...)
	}
	rows := make([][]string, len(doc.Rungs))
	for i, r := range doc.Rungs {
		verdict := string(r.Verdict)
		if !r.Valid {
			verdict = "invalid"
		}
		upper := r.P95Upper
		if doc.Percentile != 95 {
			upper = nil
		}
		note := string(r.Purpose)
		if r.Cause != "" {
			note += ": " + r.Cause
		}
		row := []string{fmt.Sprint(r.N), number(r.P50), number(measure.Quantile(r, doc.Percentile)), number(upper),
			fmt.Sprintf("%.1f", r.X), fmt.Sprintf("%d/%d", r.Late, r.Samples), verdict, note}
		if passes {
			row = append([]string{fmt.Sprint(r.Run + 1)}, row...)
		}
		rows[i] = row
	}
	table := report.Table(heads, rows)
	var b strings.Builder
	for line := range strings.Lines(table) {
		line = strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(line) > 80 {
			line = string([]rune(line)[:79]) + "…"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// answer is Q_max with its certificate and bracket, in words.
func answer(doc *artifact.QMax) string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(wrap(fmt.Sprintf(format, args...)) + "\n") }
	if doc.QMax == nil {
		say("Q_max: none: %s", cmp.Or(doc.Reason, doc.Verdict))
	} else {
		s := fmt.Sprintf("Q_max %d", *doc.QMax)
		if c := doc.Certificate; c != nil {
			s += fmt.Sprintf(", certified at %.0f %% confidence: %d of %d", 100*c.Confidence, c.Late, c.N)
			if c.Fresh {
				s += " fresh"
			}
			s += fmt.Sprintf(" samples late, worth %.0f independent ones.", c.NEff)
		} else {
			s += fmt.Sprintf(", not certified (%s).", doc.Verdict)
		}
		say("%s", s)
		if pass, fail := doc.Bracket.Pass, doc.Bracket.Fail; fail > 0 {
			say("%d in flight met the objective, %d missed it.", pass, fail)
		} else {
			say("%d in flight met the objective, and nothing higher missed it.", pass)
		}
	}
	if len(doc.PerRun) > 1 {
		passes := make([]string, len(doc.PerRun))
		for i, q := range doc.PerRun {
			if passes[i] = "none"; q != nil {
				passes[i] = fmt.Sprint(*q)
			}
		}
		say("By pass: %s; the smallest counts.", strings.Join(passes, ", "))
	}
	if top, sound, paced := doc.Paced(); paced {
		say("One %s completed at most %.1f requests a second, with %d in flight: its replies are sent no faster than they are played (%s for %s of sound), however few there are, so with more in flight it may complete more.",
			one(doc.Target), top.X, top.N, short(seconds(*top.SMean)), short(seconds(sound)))
	} else if doc.Mu.Value > 0 {
		s := fmt.Sprintf("One %s completes at most %.1f requests a second", one(doc.Target), doc.Mu.Value)
		if doc.Mu.Low != nil && doc.Mu.High != nil {
			s += fmt.Sprintf(" (%.1f to %.1f)", *doc.Mu.Low, *doc.Mu.High)
		}
		if doc.SMean != nil {
			s += fmt.Sprintf("; one request alone takes %s on average", short(time.Duration(*doc.SMean*float64(time.Second))))
		}
		say("%s.", s)
	}
	return b.String()
}

func number(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case math.IsInf(*v, 1):
		return "never"
	case *v < 1000:
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprintf("%.0f", *v)
}

// words is a mark for people.
func words(mark string) string { return strings.ReplaceAll(mark, "-", " ") }

// short is a duration without digits that nobody reads.
func short(d time.Duration) string { return chart.Length(d) }

func join(ns []int) string {
	s := make([]string, len(ns))
	for i, n := range ns {
		s[i] = fmt.Sprint(n)
	}
	return strings.Join(s, ", ")
}

// wrap breaks a paragraph into lines of at most 80 columns.
func wrap(s string) string { return report.Fold(strings.Join(strings.Fields(s), " "), 80) }
