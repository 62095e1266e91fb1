package schedule

import (
	"testing"
	"time"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestNext is row SC3 and SC4: what expressions mean, in times that follow one another.
func TestNext(t *testing.T) {
	from := time.Date(2026, 11, 30, 12, 0, 30, 0, time.UTC) // a Monday
	for _, c := range []struct {
		schedule, zone string
		want           []string // in UTC
	}{
		{"at(2026-12-24T18:00:00)", "", []string{"2026-12-24T18:00"}},
		{"at(2026-12-24T18:00:00)", "Europe/Berlin", []string{"2026-12-24T17:00"}},
		{"rate(1 minute)", "", []string{"2026-11-30T12:01", "2026-11-30T12:02"}},
		{"rate(5 hours)", "", []string{"2026-11-30T17:00", "2026-11-30T22:00", "2026-12-01T03:00"}},
		{"rate(2 days)", "", []string{"2026-12-02T12:00", "2026-12-04T12:00"}},
		{"cron(0 10 * * ? *)", "", []string{"2026-12-01T10:00", "2026-12-02T10:00"}},
		{"cron(15 12 * * ? *)", "", []string{"2026-11-30T12:15", "2026-12-01T12:15"}},
		{"cron(0 18 ? * MON-FRI *)", "", []string{"2026-11-30T18:00", "2026-12-01T18:00", "2026-12-02T18:00", "2026-12-03T18:00", "2026-12-04T18:00", "2026-12-07T18:00"}},
		{"cron(0 8 1 * ? *)", "", []string{"2026-12-01T08:00", "2027-01-01T08:00"}},
		{"cron(0/15 * * * ? *)", "", []string{"2026-11-30T12:15", "2026-11-30T12:30", "2026-11-30T12:45", "2026-11-30T13:00"}},
		{"cron(0/20 8-9 ? * TUE *)", "", []string{"2026-12-01T08:00", "2026-12-01T08:20", "2026-12-01T08:40", "2026-12-01T09:00", "2026-12-01T09:20", "2026-12-01T09:40", "2026-12-08T08:00"}},
		{"cron(30 6 * * 2 *)", "", []string{"2026-12-07T06:30"}}, // 1 is Sunday
		{"cron(0 0 L * ? *)", "", []string{"2026-12-31T00:00", "2027-01-31T00:00", "2027-02-28T00:00"}},
		{"cron(0 0 LW * ? *)", "", []string{"2026-12-31T00:00", "2027-01-29T00:00", "2027-02-26T00:00"}},
		{"cron(0 9 15W * ? *)", "", []string{"2026-12-15T09:00", "2027-01-15T09:00", "2027-02-15T09:00", "2027-03-15T09:00", "2027-04-15T09:00", "2027-05-14T09:00"}},
		{"cron(0 9 1W * ? *)", "", []string{"2026-12-01T09:00", "2027-01-01T09:00", "2027-02-01T09:00", "2027-03-01T09:00", "2027-04-01T09:00", "2027-05-03T09:00"}},
		{"cron(0 9 ? * 6L *)", "", []string{"2026-12-25T09:00", "2027-01-29T09:00"}},
		{"cron(0 9 ? * TUE#2 *)", "", []string{"2026-12-08T09:00", "2027-01-12T09:00"}},
		{"cron(0 9 ? * L *)", "", []string{"2026-12-05T09:00"}},
		{"cron(0 9 ? * SAT-MON *)", "", []string{"2026-12-05T09:00", "2026-12-06T09:00", "2026-12-07T09:00", "2026-12-12T09:00"}},
		{"cron(0 0 29 2 ? *)", "", []string{"2028-02-29T00:00", "2032-02-29T00:00"}},
		{"cron(0 0 1 1 ? 2030,2035)", "", []string{"2030-01-01T00:00", "2035-01-01T00:00"}},
		{"cron(30 0 12 * * ? *)", "", []string{"2026-12-01T12:00", "2026-12-02T12:00"}}, // seven fields: at half a minute past twelve
		{"cron(0 9 * * ? *)", "Asia/Kolkata", []string{"2026-12-01T03:30"}},
		{"cron(0 9 1 7 ? *)", "America/New_York", []string{"2027-07-01T13:00"}},
		{"cron(0 9 1 1 ? *)", "America/New_York", []string{"2027-01-01T14:00"}},
	} {
		var l *time.Location
		if c.zone != "" {
			l = zone(t, c.zone)
		}
		p, err := Parse(c.schedule, l, from.Truncate(time.Minute))
		if err != nil {
			t.Errorf("%s: %v", c.schedule, err)
			continue
		}
		now := from
		for _, want := range c.want {
			next, ok := p.Next(now)
			if got := next.UTC().Format("2006-01-02T15:04"); !ok || got != want {
				t.Errorf("%s %s after %s: %s %v, want %s", c.schedule, c.zone, now.UTC(), got, ok, want)
				break
			}
			now = next
		}
	}
	for _, over := range []string{"at(2026-11-30T11:00:00)", "cron(0 0 1 1 ? 2020)", "cron(0 0 31 2 ? *)"} {
		p, err := Parse(over, nil, from)
		if err != nil {
			t.Fatal(err)
		}
		if next, ok := p.Next(from); ok {
			t.Errorf("%s: again at %s", over, next)
		}
	}
}

// TestDaylightSaving is rows SC9 and SC10: Berlin's clock skips 02:00 to 03:00 on 28 March 2027 and shows it twice on 31
// October.
func TestDaylightSaving(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	p, err := Parse("cron(30 2 * * ? *)", berlin, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ after, want string }{
		{"2027-03-26T12:00", "2027-03-27T01:30"},
		{"2027-03-27T12:00", "2027-03-29T00:30"}, // not on the 28th
		{"2027-10-30T12:00", "2027-10-31T00:30"}, // the first of two
		{"2027-10-31T00:30", "2027-11-01T01:30"},
	} {
		after, err := time.Parse("2006-01-02T15:04", c.after)
		if err != nil {
			t.Fatal(err)
		}
		next, _ := p.Next(after)
		if got := next.UTC().Format("2006-01-02T15:04"); got != c.want {
			t.Errorf("after %s: %s, want %s", c.after, got, c.want)
		}
	}
	nine, err := Parse("cron(0 9 * * ? *)", berlin, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for now, n := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), 0; n < 365; n++ {
		next, _ := nine.Next(now)
		if h := next.In(berlin).Hour(); h != 9 || next.Sub(now) > 26*time.Hour {
			t.Fatalf("after %s: %s", now, next.In(berlin))
		}
		now = next
	}
}

// TestAgainstMinutes compares with looking at every minute.
func TestAgainstMinutes(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe"} {
		l := zone(t, name)
		p, err := Parse("cron(7,40 1-4 ? 3,10 SUN *)", l, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2027, 3, 20, 0, 0, 0, 0, time.UTC)
		end := time.Date(2027, 4, 10, 0, 0, 0, 0, time.UTC)
		next, _ := p.Next(now)
		seen := map[string]bool{}
		for now = now.Add(time.Minute); now.Before(end); now = now.Add(time.Minute) {
			w := now.In(l)
			due := w.Weekday() == time.Sunday && w.Month() == time.March && w.Hour() >= 1 && w.Hour() <= 4 && (w.Minute() == 7 || w.Minute() == 40)
			wall := w.Format("01-02T15:04")
			if due && !seen[wall] {
				if !next.Equal(now) {
					t.Fatalf("%s: due at %s, the plan says %s", name, w, next.In(l))
				}
				next, _ = p.Next(now)
			}
			seen[wall] = seen[wall] || due
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"at(2026-12-24T18:00:00)", "rate(5 minutes)", "cron(0 10 * * ? *)", "cron(0/5 8-17 ? * MON-FRI *)",
		"cron(0 0 LW 2 ? 2028/4)", "cron(0 0 ? * 2#5 *)", "cron(*/0 * * * ? *)", "cron(59-1 * 31W * ? *)"} {
		f.Add(s)
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s, nil, now)
		if err != nil {
			return
		}
		if next, ok := p.Next(now); ok && !next.After(now) {
			t.Errorf("%q: after %s comes %s", s, now, next)
		}
	})
}
