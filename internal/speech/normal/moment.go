package normal

import (
	"regexp"
	"strconv"
	"strings"

	"loadline/internal/speech/number"
)

var monthNames = strings.Fields("January February March April May June July August September October November December")

// months is their names, and their abbreviations.
var months = func() map[string]int {
	m := map[string]int{"sept": 9}
	for i, name := range monthNames {
		m[strings.ToLower(name)], m[strings.ToLower(name[:3])] = i+1, i+1
	}
	return m
}()

// monthOf is the month that a word names, 0 if none; it has a capital.
func monthOf(w word) int {
	if len(w.core) < 3 || len(w.core) > 9 || !capital(w.core) || w.post != "" && w.post != "." {
		return 0
	}
	return months[strings.ToLower(w.core)]
}

var (
	dateForm = regexp.MustCompile(`^(\d{1,4})([-/.])(\d{1,2})([-/.])(\d{4}|\d{2})$`)
	isoTime  = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2})T(\d{1,2}:\d{2})(?::\d{2}(?:\.\d+)?)?(Z|[+-]\d{2}:\d{2})?$`)
	dayForm  = regexp.MustCompile(`^(\d{1,2})(st|nd|rd|th)?$`)
	daysForm = regexp.MustCompile(`^(\d{1,2})(?:st|nd|rd|th)?[-–](\d{1,2})(?:st|nd|rd|th)?$`)
)

// dayOf is a day of a month, "" if it is none.
func dayOf(s string) string {
	if m := dayForm.FindStringSubmatch(s); m != nil && number.Value(m[1]) >= 1 && number.Value(m[1]) <= 31 {
		return number.Ordinal(number.Small(number.Value(m[1])))
	}
	return ""
}

// on is a date in words: as an American says it, or a Briton.
func (n *normaliser) on(day, month int, y string) string {
	d, m := number.Ordinal(number.Small(day)), monthNames[month-1]
	if y != "" {
		y = " " + number.Year(y, n.british)
		if !n.british {
			y = "," + y
		}
	}
	if n.british {
		return "the " + d + " of " + m + y
	}
	return m + " " + d + y
}

// date is a date in digits, or one whose day is before its month.
func (n *normaliser) date(i int) (string, int) {
	core := n.words[i].core
	clock := ""
	if m := isoTime.FindStringSubmatch(core); m != nil {
		c, ok := n.time(m[2], false)
		if !ok {
			return "", 0
		}
		core, clock = m[1], " at "+c
		if m[3] == "Z" {
			clock += " U-T-C"
		}
	}
	if m := dateForm.FindStringSubmatch(core); m != nil && m[2] == m[4] {
		a, b, c := m[1], m[3], m[5]
		day, month, y := 0, 0, ""
		switch {
		case len(a) == 4 && len(c) == 2:
			y, month, day = a, number.Value(b), number.Value(c)
		case len(a) > 2 || len(c) == 2 && m[2] == "-":
			return "", 0
		case m[2] == "." || n.british || number.Value(a) > 12:
			day, month, y = number.Value(a), number.Value(b), c
		default:
			month, day, y = number.Value(a), number.Value(b), c
		}
		if month > 12 && day <= 12 {
			day, month = month, day
		}
		if month < 1 || month > 12 || day < 1 || day > 31 {
			return "", 0
		}
		if len(y) == 2 {
			if y < "50" {
				y = "20" + y
			} else {
				y = "19" + y
			}
		}
		return n.on(day, month, y) + clock, 1
	}
	month := monthOf(n.at(i + 1))
	if n.words[i].post != "" || n.at(i+1).pre != "" || month == 0 {
		return "", 0
	}
	said := ""
	if m := daysForm.FindStringSubmatch(core); m != nil && dayOf(m[1]) != "" && dayOf(m[2]) != "" {
		said = dayOf(m[1]) + " to the " + dayOf(m[2])
	} else if said = dayOf(core); said == "" {
		return "", 0
	}
	if strings.ToLower(n.at(i-1).core) != "the" {
		said = "the " + said
	}
	said += " of " + monthNames[month-1]
	n.drop(i+1, false)
	if y := n.at(i + 2).core; len(y) == 4 && isDigits(y) && strings.Trim(n.at(i+1).post, ",") == "" && n.at(i+2).pre == "" {
		return said + " " + number.Year(y, n.british), 3
	}
	return said, 2
}

// monthFirst is a date that begins with its month: June 13, 2026.
func (n *normaliser) monthFirst(i int) (string, int) {
	w, next := n.at(i), n.at(i+1)
	month := monthOf(w)
	if month == 0 || next.pre != "" {
		return "", 0
	}
	day := ""
	if m := daysForm.FindStringSubmatch(next.core); m != nil && dayOf(m[1]) != "" && dayOf(m[2]) != "" {
		day = dayOf(m[1]) + " to " + dayOf(m[2])
	} else if day = dayOf(next.core); day == "" {
		if len(next.core) == 4 && isDigits(next.core) { // June 2026
			n.drop(i, false)
			return monthNames[month-1], 1
		}
		return "", 0
	}
	if n.british {
		day = "the " + day
	}
	said := monthNames[month-1] + " " + day
	if y := n.at(i + 2).core; len(y) == 4 && isDigits(y) && y >= "1000" && y < "2200" && strings.Trim(next.post, ",") == "" && n.at(i+2).pre == "" {
		return said + next.post + " " + number.Year(y, n.british), 3
	}
	return said, 2
}

var decadeForm = regexp.MustCompile(`^(\d{2})?(\d0)'?s$`)

// Words before tens with an s: a decade, or an age; a number of seconds.
var (
	decadeCues = wordSet("the his her their my our your its mid early late mid-to-late")
	spanCues   = wordSet("for in after within took takes every about")
)

// decade is 1990s, 90s or '90s.
func (n *normaliser) decade(i int) (string, int) {
	w := &n.words[i]
	m := decadeForm.FindStringSubmatch(w.core)
	if m == nil || m[1] == "" && m[2] == "00" {
		return "", 0
	}
	before := strings.ToLower(n.at(i - 1).core)
	if m[1] == "" && !strings.HasSuffix(w.pre, "'") && !decadeCues[before] && (m[2] < "50" || spanCues[before]) {
		return "", 0 // 30s is half a minute
	}
	w.pre = strings.TrimSuffix(w.pre, "'")
	if m[1] == "" {
		return number.Plural(number.Small(number.Value(m[2]))), 1
	}
	return number.Plural(number.Year(m[1]+m[2], n.british)), 1
}

var (
	timeForm = regexp.MustCompile(`^(\d{1,2}):(\d{1,2})(?::(\d{2}))?(?:\.(\d+))?$`)
	halfForm = regexp.MustCompile(`(?i)^(.*\d)(am|pm|a\.m|p\.m)$`)
)

// meridiem is A-M or P-M, "" for other words.
func meridiem(s string) string {
	switch strings.ToLower(s) {
	case "am", "a.m":
		return "A-M"
	case "pm", "p.m":
		return "P-M"
	}
	return ""
}

// time is hours and minutes in words; half says that A-M or P-M follows, or o'clock.
func (n *normaliser) time(s string, half bool) (string, bool) {
	m := timeForm.FindStringSubmatch(s)
	if m == nil || m[4] != "" || len(m[2]) != 2 || number.Value(m[1]) > 24 || number.Value(m[2]) > 59 || m[3] != "" && number.Value(m[3]) > 59 {
		return "", false
	}
	h, min := number.Value(m[1]), number.Value(m[2])
	said := number.Small(h)
	switch {
	case m[3] != "":
		return n.measured(number.Amount{Whole: strconv.Itoa(h)}, units["h"]) + " " + n.measured(number.Amount{Whole: strconv.Itoa(min)}, units["min"]) + " and " +
			n.measured(number.Amount{Whole: strconv.Itoa(number.Value(m[3]))}, units["s"]), true
	case min > 0 && min < 10:
		said += " oh " + number.Small(min)
	case min > 0:
		said += " " + number.Small(min)
	case half:
	case h == 0:
		return "midnight", true
	case h > 12:
		said += " hundred"
	default:
		said += " o'clock"
	}
	return said, true
}

// clock is a time of day, or two with a dash between; else numbers with colons are a proportion.
func (n *normaliser) clock(i int) (string, int) {
	w := &n.words[i]
	core, used := w.core, 1
	half := ""
	if m := halfForm.FindStringSubmatch(core); m != nil {
		core, half = m[1], meridiem(m[2])
		if strings.Contains(m[2], ".") {
			n.drop(i, true)
		}
	} else if next := n.follows(i); meridiem(next) != "" {
		if (next == "am" || next == "AM") && !strings.Contains(core, ":") && n.at(i+1).post == "" && strings.ToLower(n.at(i-1).core) == "i" {
			return "", 0
		}
		half, used = meridiem(next), 2
	} else if next == "o'clock" && strings.Contains(core, ":") {
		half, used = "o'clock", 2
	}
	from, to, two := strings.Cut(core, "–")
	if !two {
		from, to, two = strings.Cut(core, "-")
	}
	one := func(s string, half string) (string, bool) {
		if m := halfForm.FindStringSubmatch(s); m != nil {
			s, half = m[1], meridiem(m[2])
		}
		said, ok := n.time(s, half != "")
		if !ok && half != "" && half != "o'clock" && isDigits(s) && len(s) <= 2 && number.Value(s) <= 24 {
			said, ok = number.Small(number.Value(s)), true
		}
		if half != "" && ok {
			said += " " + half
		}
		return said, ok
	}
	var said string
	var ok bool
	if two {
		if !strings.Contains(core, ":") && half == "" || strings.Count(core, "-") > 1 {
			return "", 0
		}
		a, okA := n.time(from, half != "")
		if !okA && isDigits(from) && len(from) <= 2 && from != "" {
			a, okA = number.Small(number.Value(from)), true
		}
		if halfForm.MatchString(from) {
			a, okA = one(from, "")
		}
		b, okB := one(to, half)
		said, ok = a+" to "+b, okA && okB
	} else {
		said, ok = one(core, half)
	}
	if ok {
		if used == 2 && strings.Contains(n.at(i+1).core, ".") {
			n.drop(i+1, true)
		}
		return said, used
	}
	if m := timeForm.FindStringSubmatch(core); m != nil && half == "" {
		said := number.Cardinal(m[1], n.british) + " to " + number.Cardinal(m[2], n.british)
		if m[3] != "" {
			said += " to " + number.Cardinal(m[3], n.british)
		}
		return said, 1
	}
	return "", 0
}
