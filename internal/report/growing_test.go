package report

import (
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"loadline/internal/ladder"
	"loadline/internal/scaleout"
)

// growing is a scale-out as its watcher sees it, at a few moments.
func growing() []scaleout.Progress {
	warm := scaleout.Progress{
		Probe: ladder.Progress{
			Title: "kokoro-82m, p95 of first audio within 300 ms", Rung: "run 1 of 1", Load: "90 in flight",
			Percentile: 95, SLO: 0.3, SentLimit: 0.003, ConnLimit: 0.015, Elapsed: time.Second, Left: 28 * time.Minute,
		},
		Status: "InService", Now: 1, Wanted: 1, Awaited: scaleout.DesiredSet, For: time.Second, AtMost: 30 * time.Second,
		Rule: scaleout.Rule{Window: time.Minute, Quantile: 0.95, Target: 0.358},
	}
	asked := warm
	asked.Probe.Done, asked.Probe.Late, asked.Probe.At, asked.Probe.Held, asked.Probe.Sent, asked.Probe.Conn = 200, 200, 0.512, 89.6, 0.00009, 0.0004
	asked.Probe.Elapsed, asked.Probe.Left = 2*time.Minute+10*time.Second, 25*time.Minute+50*time.Second
	asked.Probe.Spent, asked.Probe.Total = 0.1018, 1.3139
	asked.Status, asked.Wanted, asked.Awaited, asked.For, asked.AtMost = "Updating", 2, scaleout.InService, 100*time.Second, 24*time.Minute+30*time.Second
	asked.Reached = []scaleout.Reached{{Name: scaleout.DesiredSet}}
	policy := asked
	policy.Probe.Rung, policy.Probe.Sent, policy.Probe.Limit = "run 12 of 30", 0.0123, 0.9
	policy.Reached = []scaleout.Reached{{Name: scaleout.Breach, After: -135 * time.Second}, {Name: scaleout.Alarm, After: -15 * time.Second},
		{Name: scaleout.Decision}, {Name: scaleout.DesiredSet}}
	serves := asked
	serves.Status, serves.Now, serves.Awaited, serves.For, serves.AtMost = "InService", 2, scaleout.TrafficRecovered, 20*time.Second, 3*time.Minute
	serves.Reached = append(asked.Reached[:1:1], scaleout.Reached{Name: scaleout.InService, After: 210 * time.Second})
	serves.Probe.Elapsed, serves.Probe.Left, serves.Probe.Spent, serves.Probe.Total = 4*time.Minute+20*time.Second, 2*time.Minute+40*time.Second, 0.2034, 0.3285
	over := serves
	over.Awaited, over.For = "", 90*time.Second
	over.Reached = append(serves.Reached[:2:2], scaleout.Reached{Name: scaleout.TrafficRecovered, After: 222 * time.Second})
	over.Probe.At, over.Probe.Late, over.Probe.Elapsed, over.Probe.Left, over.Probe.Spent = 0.2881, 3, 5*time.Minute+30*time.Second, 90*time.Second, 0.2582
	rate := serves
	rate.Rule = scaleout.Rule{Window: time.Minute, Quantile: 0.95, Rate: 268.5}
	return []scaleout.Progress{warm, asked, policy, serves, over, rate}
}

// TestScaleOutProgress draws the moments as a terminal and as a log show them; doc/measure.md shows some of them.
func TestScaleOutProgress(t *testing.T) {
	var got, log strings.Builder
	for i, p := range growing() {
		got.WriteString(strings.Join(ScaleOutFrame(p, 79, 0, false), "\n") + "\n\n")
		line := ScaleOutLine(p)
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
		if i < 5 {
			log.WriteString(line + "\n")
		}
		for _, size := range [][2]int{{79, 24}, {59, 20}, {59, 6}, {39, 24}, {29, 4}} {
			rows := ScaleOutFrame(p, size[0], size[1], false)
			for i, row := range rows {
				if n := utf8.RuneCountInString(row); n > size[0] || len(rows) > size[1] {
					t.Errorf("%v: %d columns, %d rows: %s", size, n, len(rows), row)
				}
				if coloured := ScaleOutFrame(p, size[0], size[1], true)[i]; plainly.Replace(coloured) != row {
					t.Errorf("colour says more than words: %q and %q", coloured, row)
				}
			}
			all := strings.Join(strings.Fields(strings.Join(rows, " ")), " ")
			if !strings.Contains(all, against(p.Probe)) {
				t.Errorf("%v: the verdict is not whole:\n%s", size, strings.Join(rows, "\n"))
			}
			if size[0] >= 59 && size[1] >= 20 && strings.Contains(all, "…") {
				t.Errorf("%v: something is cut off:\n%s", size, strings.Join(rows, "\n"))
			}
		}
	}
	got.WriteString(log.String())
	want, err := os.ReadFile("testdata/growing.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant testdata/growing.txt\n%s", got.String(), want)
	}
	page, err := os.ReadFile("../../doc/measure.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{strings.Join(ScaleOutFrame(growing()[3], 79, 0, false), "\n"), log.String()} {
		if !strings.Contains(string(page), shown) {
			t.Errorf("doc/measure.md does not show the view as it is:\n%s", shown)
		}
	}
}

// TestLiveScaleOut: a frame on a terminal, a line a second elsewhere.
func TestLiveScaleOut(t *testing.T) {
	p := growing()[1]
	var b, plain strings.Builder
	l := NewLive(&b, true, 80)
	l.DrawScaleOut(time.Unix(0, 0), growing()[4])
	l.DrawScaleOut(time.Unix(1, 0), p)
	if got, want := strings.Join(screen(b.String()), "\n"), strings.Join(ScaleOutFrame(p, 79, 0, false), "\n"); got != want {
		t.Errorf("the terminal shows\n%s\nwant\n%s", got, want)
	}
	l = NewLive(&plain, false, 80)
	for i := range 21 {
		l.DrawScaleOut(time.Unix(0, int64(i)*1e8), p)
	}
	if got := plain.String(); got != strings.Repeat(ScaleOutLine(p)+"\n", 3) {
		t.Errorf("two seconds off a terminal: %q", got)
	}
}
