package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cron is a parsed cron expression of six fields, or seven with seconds first.
type cron struct {
	second, minute, hour, month, year []bool // by value; year from firstYear
	dom, dow                          day
}

const (
	firstYear = 1970
	lastYear  = 2199
)

// day is a field that chooses days: of the month (L, nW, LW) or of the week (nL, n#k).
type day struct {
	any     bool // * or ?
	in      []bool
	last    bool // L
	nearest int  // nW: the weekday nearest to n; 0: none; lastWeekday: LW
	lastOf  int  // nL: the last such day of the month
	nth     [2]int
}

const lastWeekday = -1

var (
	monthNames = []string{"", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	dayNames   = []string{"", "SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
)

func parseCron(body string) (*cron, error) {
	f := strings.Fields(body)
	if len(f) == 6 {
		f = append([]string{"0"}, f...)
	}
	if len(f) != 7 {
		return nil, fmt.Errorf("a cron expression has six fields (minutes, hours, day of month, month, day of week, year), or seven with seconds first, not %d", len(f))
	}
	c := &cron{}
	var err error
	for _, x := range []struct {
		at     *[]bool
		field  int
		name   string
		lo, hi int
		names  []string
	}{
		{&c.second, 0, "seconds", 0, 59, nil}, {&c.minute, 1, "minutes", 0, 59, nil}, {&c.hour, 2, "hours", 0, 23, nil},
		{&c.month, 4, "month", 1, 12, monthNames}, {&c.year, 6, "year", firstYear, lastYear, nil},
	} {
		if *x.at, err = parseField(f[x.field], x.lo, x.hi, x.names); err != nil {
			return nil, fmt.Errorf("%s %q: %w", x.name, f[x.field], err)
		}
	}
	if c.dom, err = parseDay(f[3], 31, nil); err != nil {
		return nil, fmt.Errorf("day of month %q: %w", f[3], err)
	}
	if c.dow, err = parseDay(f[5], 7, dayNames); err != nil {
		return nil, fmt.Errorf("day of week %q: %w", f[5], err)
	}
	if f[3] == "?" && f[5] == "?" {
		return nil, fmt.Errorf("day of month and day of week cannot both be ?")
	}
	return c, nil
}

func parseField(s string, lo, hi int, names []string) ([]bool, error) {
	in := make([]bool, hi-lo+1)
	for part := range strings.SplitSeq(s, ",") {
		span, by, stepped := strings.Cut(part, "/")
		from, to, step := lo, hi, 1
		if span != "*" {
			a, b, ranged := strings.Cut(span, "-")
			var err error
			if from, err = parseValue(a, lo, hi, names); err != nil {
				return nil, err
			}
			to = from
			if ranged {
				if to, err = parseValue(b, lo, hi, names); err != nil {
					return nil, err
				}
			} else if stepped {
				to = hi
			}
		}
		if stepped {
			var err error
			if step, err = strconv.Atoi(by); err != nil || step < 1 {
				return nil, fmt.Errorf("%q is no step", by)
			}
		}
		if from > to { // SAT-TUE goes around
			to += hi - lo + 1
		}
		for v := from; v <= to; v += step {
			in[(v-lo)%(hi-lo+1)] = true
		}
	}
	return in, nil
}

func parseValue(s string, lo, hi int, names []string) (int, error) {
	if i := slices.Index(names, strings.ToUpper(s)); i > 0 {
		return i, nil
	}
	v, err := strconv.Atoi(s)
	if err != nil || v < lo || v > hi {
		return 0, fmt.Errorf("%q is not between %d and %d", s, lo, hi)
	}
	return v, nil
}

func parseDay(s string, hi int, names []string) (day, error) {
	week := names != nil
	switch {
	case s == "*" || s == "?":
		return day{any: true}, nil
	case s == "L" && !week:
		return day{last: true}, nil
	case s == "LW" && !week:
		return day{nearest: lastWeekday}, nil
	case strings.HasSuffix(s, "W") && !week:
		v, err := parseValue(strings.TrimSuffix(s, "W"), 1, hi, nil)
		return day{nearest: v}, err
	case s == "L":
		return day{in: []bool{false, false, false, false, false, false, true}}, nil // Saturday ends the week
	case strings.HasSuffix(s, "L") && week:
		v, err := parseValue(strings.TrimSuffix(s, "L"), 1, hi, names)
		return day{lastOf: v}, err
	case strings.Contains(s, "#") && week:
		a, b, _ := strings.Cut(s, "#")
		v, err := parseValue(a, 1, hi, names)
		k, err2 := strconv.Atoi(b)
		if err != nil || err2 != nil || k < 1 || k > 5 {
			return day{}, fmt.Errorf("it is a day of the week, # and 1 to 5")
		}
		return day{nth: [2]int{v, k}}, nil
	}
	in, err := parseField(s, 1, hi, names)
	return day{in: in}, err
}

// matches says whether the day of the month d, the week's weekday (1 Sunday) of a month of so many days, is chosen.
func (x day) matches(d, weekday, days int) bool {
	switch {
	case x.any:
		return true
	case x.last:
		return d == days
	case x.lastOf > 0:
		return weekday == x.lastOf && d+7 > days
	case x.nth[0] > 0:
		return weekday == x.nth[0] && (d-1)/7+1 == x.nth[1]
	case x.nearest != 0:
		want := x.nearest
		if want == lastWeekday {
			want = days
		}
		if want > days {
			return false
		}
		switch on := (weekday - 1 + want - d%7 + 35) % 7; { // of the wanted day; 0 Sunday
		case on == 6 && want > 1:
			want--
		case on == 6:
			want += 2
		case on == 0 && want < days:
			want++
		case on == 0:
			want -= 2
		}
		return d == want
	case len(x.in) == 7:
		return x.in[weekday-1]
	}
	return x.in[d-1]
}

// next is the first time after t at which the clock of the location shows what the expression names; false when there is
// none. A time that the clock skips in spring is skipped; one that it shows twice in autumn counts the first time.
func (c *cron) next(t time.Time, location *time.Location) (time.Time, bool) {
	t = t.In(location)
	y, m, d := t.Date()
	for first := true; y <= lastYear; first = false {
		switch {
		case !c.year[y-firstYear]:
			y, m, d = y+1, 1, 1
			continue
		case !c.month[m-1]:
			if m, d = m+1, 1; m > 12 {
				y, m = y+1, 1
			}
			continue
		}
		days := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
		weekday := int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday()) + 1
		if c.dom.matches(d, weekday, days) && c.dow.matches(d, weekday, days) {
			if at, ok := c.within(y, m, d, t, location, first); ok {
				return at, true
			}
		}
		if d++; d > days {
			if m, d = m+1, 1; m > 12 {
				y, m = y+1, 1
			}
		}
	}
	return time.Time{}, false
}

// within is the first time on a day, after t where the day may be t's own.
func (c *cron) within(y int, m time.Month, d int, t time.Time, location *time.Location, today bool) (time.Time, bool) {
	for h, hours := range c.hour {
		if !hours || today && h+1 < t.Hour() {
			continue
		}
		for min, minutes := range c.minute {
			if !minutes {
				continue
			}
			for sec, seconds := range c.second {
				if !seconds {
					continue
				}
				at := time.Date(y, m, d, h, min, sec, 0, location)
				if at.Hour() != h || at.Minute() != min {
					continue // the clock skips it
				}
				if before := at.Add(-time.Hour); before.Hour() == h && before.Minute() == min {
					at = before // the clock shows it twice
				}
				if at.After(t) {
					return at, true
				}
			}
		}
	}
	return time.Time{}, false
}
