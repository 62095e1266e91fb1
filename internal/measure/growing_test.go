package measure

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/freeze"
	"loadline/internal/ladder"
	"loadline/internal/sample"
	"loadline/internal/scaleout"
)

// watchedGrower keeps what its watcher is shown.
type watchedGrower struct {
	*grower
	shown []scaleout.Progress
	at    []time.Time
}

func (w *watchedGrower) Draw(time.Time, ladder.Progress) {}
func (w *watchedGrower) DrawScaleOut(now time.Time, p scaleout.Progress) {
	w.shown, w.at = append(w.shown, p), append(w.at, now)
}

// TestTTotalShown: whoever watches a scale-out is told at least once a second, also between looks, what has been reached and
// what is awaited, and how the probe fares.
func TestTTotalShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &grower{endpoint: newEndpoint(1), start: time.Now(), takes: 200 * time.Second, drains: 50 * time.Second}
		w := &watchedGrower{grower: g}
		_, err := TTotal(t.Context(), ScaleOut{
			Doc: &artifact.TTotal{}, Prober: g, Probe: 10, Mark: sample.OnFirstAudio, SLO: 0.3, Price: 1.5, Start: g.start,
			Rule: scaleout.Rule{Window: time.Minute, Quantile: 0.95, Target: 0.2}, Warmup: 30 * time.Second, Settle: 3 * time.Minute,
			MaxWait: 25 * time.Minute, Poll: 10 * time.Second, Progress: w, Freeze: freeze.Record(g.state), Fleet: g, Records: g, Scaler: g, Logs: g,
		})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for i, p := range w.shown {
			if i > 0 && w.at[i].Sub(w.at[i-1]) > time.Second {
				t.Errorf("nothing is shown for %s", w.at[i].Sub(w.at[i-1]))
			}
			if b := p.Probe; b.Elapsed+b.Left > 28*time.Minute+time.Second || i > 0 && (b.Spent <= 0 || b.Total < b.Spent) || p.For > p.AtMost {
				t.Errorf("times and money: %+v", p)
			}
			var names []string
			for _, r := range p.Reached {
				names = append(names, r.Name)
			}
			if s := strings.Join(names, " ") + " > " + p.Awaited; len(told) == 0 || told[len(told)-1] != s {
				told = append(told, s)
			}
		}
		want := []string{" > desired_set", "desired_set > in_service", "desired_set in_service > traffic_recovered", "desired_set in_service traffic_recovered > "}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		slow, fast := w.shown[100].Probe, w.shown[len(w.shown)-1]
		if slow.Done != latest || slow.Met() || slow.Late != latest || slow.Held < 9 || slow.Held > 11 || !slow.Fit() {
			t.Errorf("before: %+v", slow)
		}
		if !fast.Probe.Met() || fast.Now != 2 || fast.Wanted != 2 {
			t.Errorf("after: %+v", fast)
		}
	})
}
