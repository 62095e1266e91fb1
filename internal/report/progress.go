package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"loadline/internal/chart"
	"loadline/internal/ladder"
)

// barWidth is the columns of the bar of the percentile where there is room; the objective stands at three quarters of it.
const barWidth = 32

// The colours, and what takes them away again.
const (
	red   = "\x1b[31m"
	green = "\x1b[32m"
	plain = "\x1b[0m"
)

var plainly = strings.NewReplacer(red, "", green, "", plain, "")

// Frame draws a rung that is being measured, none of its lines wider than width, and no more of them than height (0: as many
// as it takes). What matters is said in words; colour only repeats it.
func Frame(p ladder.Progress, width, height int, colour bool) []string {
	f := frame{width: width}
	f.title(p.Title, 4)
	held := ""
	if p.Held > 0 {
		held = fmt.Sprintf(", %.1f held", p.Held)
	}
	f.say(1, p.Rung, p.Load+held+aim(p.Purpose))
	f.percentile(p)
	late := fmt.Sprintf("%d of %d", p.Late, p.Done)
	if p.Done > 0 {
		late += fmt.Sprintf(", %.1f %%; at most %.4g %%", 100*float64(p.Late)/float64(p.Done), 100-p.Percentile)
	}
	f.say(5, "late", late)
	f.say(6, "proof", p.Proof)
	if p.Edge != "" {
		f.say(7, "edge", p.Edge)
	}
	f.say(2, "client", client(p))
	f.say(3, "time", span(p))
	if p.Spent > 0 {
		f.say(4, "money", spent(p))
	}
	return f.rows(height, colour)
}

// frame is a few named figures, one below the other.
type frame struct {
	width   int
	entries []entry
}

type entry struct {
	rows []string
	rank int // those of the highest are left out first where there is no room
}

func (f *frame) title(s string, rank int) {
	rows := strings.Split(Fold(s, f.width), "\n")
	for i, row := range rows {
		rows[i] = clip(row, f.width)
	}
	f.entries = append(f.entries, entry{rows, rank})
}

// nameWidth is the columns of the names, with what stands before them.
const nameWidth = 15

// say adds a figure, on as many lines as it takes.
func (f *frame) say(rank int, name, said string) {
	head, indent := fmt.Sprintf("  %-*s", nameWidth-2, name), nameWidth
	if f.width < 3*nameWidth {
		head, indent = "  "+name+" ", 2+utf8.RuneCountInString(name)+1
	}
	rows := strings.Split(Fold(said, max(1, f.width-indent)), "\n")
	for i, row := range rows {
		if i > 0 {
			head = strings.Repeat(" ", indent)
		}
		rows[i] = clip(head+row, f.width)
	}
	f.entries = append(f.entries, entry{rows, rank})
}

// percentile adds the percentile, with as much of the bar as there is room for.
func (f *frame) percentile(p ladder.Progress) {
	said := against(p)
	if room := min(barWidth, f.width-nameWidth-len("[] ")-utf8.RuneCountInString(said)); room >= 8 {
		said = bar(p, room) + " " + said
	}
	f.say(0, fmt.Sprintf("p%g", p.Percentile), said)
}

func (f *frame) rows(height int, colour bool) []string {
	lines := 0
	for _, e := range f.entries {
		lines += len(e.rows)
	}
	for height > 0 && lines > height && len(f.entries) > 1 {
		least := 0
		for i, e := range f.entries {
			if e.rank >= f.entries[least].rank {
				least = i
			}
		}
		lines -= len(f.entries[least].rows)
		f.entries = slices.Delete(f.entries, least, least+1)
	}
	var rows []string
	for _, e := range f.entries {
		rows = append(rows, e.rows...)
	}
	if height > 0 && len(rows) > height {
		rows = rows[:height]
	}
	if colour {
		for i, row := range rows {
			row = strings.Replace(row, " MISSED", " "+red+"MISSED"+plain, 1)
			row = strings.Replace(row, " NOT FIT", " "+red+"NOT FIT"+plain, 1)
			if left, ok := strings.CutSuffix(row, ", met"); ok { // the verdict, not the word
				row = left + ", " + green + "met" + plain
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
func bar(p ladder.Progress, width int) string {
	mark := width * 3 / 4
	b := []byte(strings.Repeat(".", width))
	if p.Done > 0 {
		full := p.At / p.SLO * float64(mark)
		for i := range b {
			if float64(i) < full {
				b[i] = '='
			}
		}
		if full > float64(width) {
			b[width-1] = '>'
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
