// Package schedule reads the schedules of Application Auto Scaling and says when they are due: one time, a rate, or a cron
// expression in a time zone with its daylight saving.
//
// It decides what an expression means. It leaves to its caller when to ask, what is done then, and looking up the zone.
//
//	p, err := schedule.Parse("cron(0 9 ? * MON-FRI *)", berlin, now)
//	next, ok := p.Next(now) // the next working day at nine, in summer and in winter
package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Plan is a parsed schedule.
type Plan struct {
	once     time.Time
	rate     time.Duration // 0: none
	from     time.Time     // where rates count from
	cron     *cron
	location *time.Location
}

// Once says whether the schedule is a single time.
func (p *Plan) Once() bool { return !p.once.IsZero() }

// Next is the first time after t; false when there is none.
func (p *Plan) Next(t time.Time) (time.Time, bool) {
	switch {
	case p.Once():
		return p.once, p.once.After(t)
	case p.cron != nil:
		return p.cron.next(t, p.location)
	case t.Before(p.from):
		return p.from, true
	}
	return p.from.Add((t.Sub(p.from)/p.rate + 1) * p.rate), true
}

// Parse reads at(yyyy-mm-ddThh:mm:ss), rate(n minutes|hours|days) or cron(six or seven fields). at and cron are in the
// location, UTC where it is nil; a rate counts from the given time.
func Parse(s string, location *time.Location, from time.Time) (*Plan, error) {
	if location == nil {
		location = time.UTC
	}
	p := &Plan{from: from, location: location}
	kind, rest, _ := strings.Cut(s, "(")
	body, closed := strings.CutSuffix(rest, ")")
	switch {
	case !closed:
	case kind == "at":
		t, err := time.ParseInLocation("2006-01-02T15:04:05", body, location)
		if err != nil {
			return nil, fmt.Errorf("%q is not a time of the form yyyy-mm-ddThh:mm:ss", body)
		}
		p.once = t
		return p, nil
	case kind == "rate":
		number, unit, _ := strings.Cut(body, " ")
		n, err := strconv.Atoi(number)
		d := map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[strings.TrimSuffix(unit, "s")]
		if err != nil || n < 1 || n > 1e5 || d == 0 || (n == 1) == strings.HasSuffix(unit, "s") {
			return nil, fmt.Errorf("%q is no rate: it is a positive number and minute(s), hour(s) or day(s), in the singular for 1", body)
		}
		p.rate = time.Duration(n) * d
		return p, nil
	case kind == "cron":
		c, err := parseCron(body)
		p.cron = c
		return p, err
	}
	return nil, fmt.Errorf("a schedule is at(yyyy-mm-ddThh:mm:ss), rate(value unit) or cron(fields)")
}
