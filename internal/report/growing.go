package report

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"loadline/internal/chart"
	"loadline/internal/scaleout"
)

// DrawScaleOut replaces what is drawn by a scale-out that is being measured: a frame on a terminal, a line a second elsewhere.
func (l *Live) DrawScaleOut(now time.Time, p scaleout.Progress) {
	l.draw(now, ScaleOutLine(p), func(width, height int) []string { return ScaleOutFrame(p, width, height, l.Colour) })
}

// ScaleOutFrame draws a scale-out that is being measured, within width and height as Frame does.
func ScaleOutFrame(p scaleout.Progress, width, height int, colour bool) []string {
	f := frame{width: width}
	probe := p.Probe
	f.title(probe.Title, 5)
	wanted := ""
	if p.Wanted != p.Now {
		wanted = fmt.Sprintf(", %d wanted", p.Wanted)
	}
	f.say(1, probe.Rung, fmt.Sprintf("%s: %s%s", p.Status, instances(p.Now), wanted))
	held := ""
	if probe.Held > 0 {
		held = fmt.Sprintf(", %.1f held", probe.Held)
	}
	if probe.Done > 0 {
		held += fmt.Sprintf("; late %d of the last %d", probe.Late, probe.Done)
	}
	f.say(6, "probe", probe.Load+held)
	f.percentile(probe)
	if len(p.Reached) > 0 {
		var said []string
		for _, r := range p.Reached {
			said = append(said, words(r.Name)+" "+signed(r.After))
		}
		f.say(3, "reached", strings.Join(said, ", "))
	}
	f.say(2, "awaited", awaited(p))
	if p.Awaited == scaleout.TrafficRecovered {
		f.say(7, "recovered", recovered(p.Rule))
	}
	f.say(4, "client", client(probe))
	f.say(4, "time", fmt.Sprintf("%s in this run, at most %s more to measure", minutes(probe.Elapsed), minutes(probe.Left)))
	if probe.Spent > 0 {
		most := probe.Total
		if probe.Limit > 0 {
			most = min(most, probe.Limit)
		}
		f.say(5, "money", fmt.Sprintf("%s spent, at most %s", chart.Money(probe.Spent, 2), chart.Money(most, 2)))
	}
	return f.rows(height, colour)
}

// ScaleOutLine is the same in one line of at most 80 columns, for logs.
func ScaleOutLine(p scaleout.Progress) string {
	s := fmt.Sprintf("%s, %s: ", strings.ReplaceAll(p.Probe.Rung, " of ", "/"), minutes(p.Probe.Elapsed))
	if !p.Probe.Fit() {
		s += "client NOT FIT, "
	}
	s += fmt.Sprintf("p%g %s, %s %d/%d", p.Probe.Percentile, brief(p.Probe), p.Status, p.Now, p.Wanted)
	if p.Awaited == "" {
		s += ", recovered"
	} else {
		s += ", awaits " + words(p.Awaited)
	}
	if p.Probe.Spent > 0 {
		if more := ", " + chart.Money(p.Probe.Spent, 2); utf8.RuneCountInString(s+more) <= 80 {
			s += more
		}
	}
	return clip(s, 80)
}

func awaited(p scaleout.Progress) string {
	if p.Awaited == "" {
		return fmt.Sprintf("that it stays recovered to the end of the probe, %s of %s", minutes(p.For), minutes(p.AtMost))
	}
	return fmt.Sprintf("%s, for %s of at most %s", words(p.Awaited), minutes(p.For), minutes(p.AtMost))
}

// recovered is what recovered traffic is.
func recovered(r scaleout.Rule) string {
	s := fmt.Sprintf("%.1f completed a second", r.Rate)
	if r.Target > 0 {
		s = fmt.Sprintf("p%g at most %s", 100*r.Quantile, period(r.Target))
	}
	return fmt.Sprintf("means %s in every window of %s", s, minutes(r.Window))
}

// signed is a time that may lie before the one that it is counted from.
func signed(d time.Duration) string {
	if d <= -time.Second/2 {
		return "-" + minutes(-d)
	}
	return minutes(max(0, d))
}
