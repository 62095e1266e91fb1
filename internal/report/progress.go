package report

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"loadline/internal/chart"
	"loadline/internal/ladder"
)

// barWidth is the columns of the bar of the percentile; the objective stands at three quarters of it.
const barWidth = 32

// Frame draws a rung that is being measured, a line each, none wider than width. What matters is said in words; colour only
// repeats it.
func Frame(p ladder.Progress, width int, colour bool) []string {
	rows := []string{}
	say := func(name, format string, args ...any) {
		rows = append(rows, clip(fmt.Sprintf("  %-13s", name)+fmt.Sprintf(format, args...), width))
	}
	rows = append(rows, clip(p.Title, width))
	held := ""
	if p.Held > 0 {
		held = fmt.Sprintf(", %.1f held", p.Held)
	}
	say(p.Rung, "%s%s%s", p.Load, held, aim(p.Purpose))
	say(fmt.Sprintf("p%g", p.Percentile), "%s %s", bar(p), against(p))
	say("late", "%d of %d", p.Late, p.Done)
	if p.Done > 0 {
		rows[len(rows)-1] += fmt.Sprintf(", %.1f %%; at most %.4g %%", 100*float64(p.Late)/float64(p.Done), 100-p.Percentile)
	}
	say("proof", "%s", p.Proof)
	if p.Edge != "" {
		say("edge", "%s", p.Edge)
	}
	say("client", "%s", client(p))
	say("time", "%s", span(p))
	if p.Spent > 0 {
		say("money", "%s", spent(p))
	}
	if colour {
		for i, row := range rows {
			row = strings.Replace(row, " MISSED", " \x1b[31mMISSED\x1b[0m", 1)
			row = strings.Replace(row, " NOT FIT", " \x1b[31mNOT FIT\x1b[0m", 1)
			if left, ok := strings.CutSuffix(row, ", met"); ok { // the verdict, not the word
				row = left + ", \x1b[32mmet\x1b[0m"
			}
			rows[i] = row
		}
	}
	return rows
}

// Line is the same in one line of at most 80 columns, for logs: percentile against objective, late of done.
func Line(p ladder.Progress) string {
	s := p.Rung
	if p.Purpose != "" {
		s += " " + string(p.Purpose)
	}
	s += ": "
	if !p.Fit() {
		s += "client NOT FIT, "
	}
	s += fmt.Sprintf("%s, p%g %s, %d/%d late", p.Load, p.Percentile, brief(p), p.Late, p.Done)
	if utf8.RuneCountInString(s) > 72 {
		return clip(s, 80)
	}
	switch {
	case p.Left > 0:
		s += ", " + minutes(p.Left) + " left"
	case p.Hold > 0:
		s += ", " + minutes(p.Elapsed) + " of " + minutes(p.Hold)
	default:
		s += ", " + minutes(p.Elapsed)
	}
	if p.Spent > 0 && utf8.RuneCountInString(s) <= 73 {
		s += ", " + chart.Money(p.Spent, 2)
	}
	return clip(s, 80)
}

func aim(purpose ladder.Purpose) string {
	said := map[ladder.Purpose]string{
		ladder.Survey: "to know the server", ladder.Double: "doubling", ladder.Bisect: "narrowing down", ladder.Certify: "to certify",
		ladder.Retest: "looked at again, for drift",
	}
	switch {
	case said[purpose] != "":
		return ", " + said[purpose]
	case purpose != "":
		return ", " + string(purpose)
	}
	return ""
}

// bar is the percentile on a scale that has the objective, a |, at three quarters; > where it lies beyond the scale.
func bar(p ladder.Progress) string {
	mark := barWidth * 3 / 4
	b := []byte(strings.Repeat(".", barWidth))
	if p.Done > 0 {
		full := p.At / p.SLO * float64(mark)
		for i := range b {
			if float64(i) < full {
				b[i] = '='
			}
		}
		if full > barWidth {
			b[barWidth-1] = '>'
		}
	}
	b[mark] = '|'
	return "[" + string(b) + "]"
}

func against(p ladder.Progress) string {
	switch {
	case p.Done == 0:
		return fmt.Sprintf("nothing yet, of %s", period(p.SLO))
	case p.Met():
		return fmt.Sprintf("%s of %s, met", period(p.At), period(p.SLO))
	}
	return fmt.Sprintf("%s of %s, MISSED", period(p.At), period(p.SLO))
}

func brief(p ladder.Progress) string {
	limit := period(p.SLO)
	switch {
	case p.Done == 0:
		return "-/" + limit
	case p.Met():
		return strings.TrimSuffix(period(p.At), " ms") + "/" + limit
	}
	return strings.TrimSuffix(period(p.At), " ms") + "/" + limit + " MISSED"
}

func client(p ladder.Progress) string {
	said := fmt.Sprintf("sent %s late of %s, connected in %s of %s", period(p.Sent), period(p.SentLimit), period(p.Conn), period(p.ConnLimit))
	switch {
	case p.Done == 0:
		return "nothing yet"
	case p.Fit():
		return "fit: " + said
	}
	return "NOT FIT: " + said
}

func span(p ladder.Progress) string {
	s := minutes(p.Elapsed)
	if p.Hold > 0 {
		s += " of " + minutes(p.Hold)
	}
	s += " in this rung"
	if p.Left > 0 {
		s += ", about " + minutes(p.Left) + " left in all"
	}
	return s
}

func spent(p ladder.Progress) string {
	s := chart.Money(p.Spent, 2) + " spent"
	if p.Total > 0 {
		s += " of about " + chart.Money(p.Total, 2)
	}
	if p.Limit > 0 {
		s += ", at most " + chart.Money(p.Limit, 2)
	}
	return s
}

// period is a time in milliseconds, from seconds.
func period(s float64) string {
	switch ms := 1000 * s; {
	case math.IsInf(ms, 1):
		return "never"
	case ms < 10:
		return fmt.Sprintf("%.2g ms", ms)
	default:
		return fmt.Sprintf("%.0f ms", ms)
	}
}

func minutes(d time.Duration) string {
	s := int(d.Round(time.Second) / time.Second)
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
