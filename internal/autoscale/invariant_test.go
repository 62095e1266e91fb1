package autoscale

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestInvariants drives scalers with anything that their interface takes: whatever comes, a capacity that was set lies
// within the bounds of that moment, nothing is set while the resource changes, at most one activity is in progress and
// none when nothing changes, and the same words make the same history.
func TestInvariants(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 3))
		script := randomScript(rng)
		w := newWorld(t)
		w.run(script)
		for _, line := range strings.Split(w.out.String(), "\n") {
			if strings.Contains(line, "Cannot update in-progress") {
				t.Fatalf("seed %d: a change was asked for during a change: %s\n%s", seed, line, w.out.String())
			}
		}
		log, running := w.s.Activities(""), 0
		for _, a := range log {
			switch a.Status {
			case InProgress:
				running++
			case Pending:
				if w.u.Updating != Queue || !w.Busy {
					t.Errorf("seed %d: %+v is pending", seed, a)
				}
			default:
				if a.End.IsZero() || a.End.Before(a.Start) {
					t.Errorf("seed %d: %+v", seed, a)
				}
			}
		}
		if running > 1 || running == 1 && !w.Busy {
			t.Errorf("seed %d: %d activities are in progress, busy %v\n%s", seed, running, w.Busy, w.out.String())
		}
		for _, b := range w.broken {
			t.Errorf("seed %d: %s\n%s", seed, b, w.out.String())
		}
		if again := newWorld(t); again.run(script) != w.out.String() {
			t.Errorf("seed %d: a second run differs", seed)
		}
	}
}

func randomScript(rng *rand.Rand) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	one := func(of ...string) string { return of[rng.IntN(len(of))] }
	for _, s := range switches {
		say("unknown %s=%s", s.name, s.settings[rng.IntN(2)])
	}
	say("unknown publication_delay_s=%d", rng.IntN(121))
	fleet := func() string {
		return fmt.Sprintf("provision=%ds", []int{0, 60, 200, 900}[rng.IntN(4)]) + one("", "", " refuse=no", " lose=lost")
	}
	say("fleet %d %s", 1+rng.IntN(5), fleet())
	say("target %d %d", rng.IntN(3), 3+rng.IntN(20))
	for range 60 {
		switch rng.IntN(16) {
		case 0:
			say("fleet %s", fleet())
		case 1:
			least := rng.IntN(8)
			say("target %d %d", least, least+rng.IntN(10))
		case 2:
			say("%s %s", one("suspend", "resume"), one("in", "out", "scheduled"))
		case 3:
			say("track a %s %d out=%ds in=%ds%s", one("rate", "fast", "custom:m"), 1+rng.IntN(20), rng.IntN(600), rng.IntN(600), one("", " noin"))
		case 4:
			say("track b %s %d", one("rate", "fast"), 1+rng.IntN(20))
		case 5:
			say("step s %s cooldown=%ds ..-5:%d -5..0:%d 0..5:%d 5..:%d", one("ChangeInCapacity", "PercentChangeInCapacity"), rng.IntN(600),
				-rng.IntN(50), -rng.IntN(5), rng.IntN(5), rng.IntN(200))
		case 6:
			say("step x ExactCapacity ..0:%d 0..:%d", rng.IntN(10), rng.IntN(30))
		case 7:
			say("alarm one %s %s %d period=%s n=%d policy=%s missing=%s", one("rate", "fast", "custom:m"), one(">", "<", "ge", "le"), rng.IntN(20),
				one("10s", "30s", "60s", "300s"), 1+rng.IntN(5), one("s", "x", "a"), one("missing", "ignore", "breaching", "notBreaching"))
		case 8:
			say("schedule n %s; min=%d", one("rate(7 minutes)", "cron(0/9 * * * ? *)"), rng.IntN(9))
		case 9:
			say("delete %s", one("policy a", "policy s", "alarm one", "schedule n", "alarm a/high"))
		case 10:
			say("state %s %s", one("one", "a/high", "a/low"), one("ALARM", "OK", "INSUFFICIENT_DATA"))
		case 11, 12:
			say("load %s %d", one("rate", "fast", "custom:m"), rng.IntN(200))
		default:
			say("run %ds", []int{10, 45, 200, 1000}[rng.IntN(4)])
		}
	}
	say("fleet provision=0s")
	say("run %s", time.Hour)
	return b.String()
}
