package report

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"loadline/internal/ladder"
)

// moments is a measurement as its watcher sees it, at a few moments.
func moments() []ladder.Progress {
	first := ladder.Progress{
		Title: "kokoro-82m, p95 of first audio within 300 ms", Rung: "rung 0", Purpose: ladder.Survey, Load: "1 in flight",
		Percentile: 95, SLO: 0.3, SentLimit: 0.003, ConnLimit: 0.015, Proof: "none yet", Edge: "nothing has met or missed the objective yet",
	}
	over := first
	over.Rung, over.Purpose, over.Load, over.Held = "rung 3", ladder.Double, "58 in flight", 57.6
	over.Done, over.Late, over.At, over.Sent, over.Conn = 74, 74, 0.325, 0.00009, 0.0004
	over.Elapsed, over.Left, over.Spent, over.Total = 2*time.Second, 25*time.Second, 0.0031, 0.0128
	over.Edge = "26 in flight met the objective, nothing has missed it"
	lost := over
	lost.Rung, lost.At, lost.Sent = "rung 4", math.Inf(1), 0.0123
	proof := over
	proof.Rung, proof.Purpose, proof.Load, proof.Held = "rung 7", ladder.Certify, "53 in flight", 52.9
	proof.Done, proof.Late, proof.At = 1827, 2, 0.2975
	proof.Elapsed, proof.Hold, proof.Left = 10*time.Second, 20*time.Second, 14*time.Second
	proof.Spent, proof.Total, proof.Limit = 0.0105, 0.0160, 0.5
	proof.Proof = "2 of 1827 fresh samples late at 53 in flight"
	proof.Edge = "53 in flight met the objective, 55 missed it"
	rate := first
	rate.Rung, rate.Purpose, rate.Load = "rate 2 of 6", "", "107.40/s (60 % of μ)"
	rate.Done, rate.At, rate.Elapsed, rate.Hold = 310, 0.0412, 3*time.Second, time.Minute
	rate.Proof, rate.Edge = "open loop: 6444 requests at this rate, sent when they are due", ""
	return []ladder.Progress{first, over, lost, proof, rate}
}

// TestProgress draws the moments as a terminal and as a log show them; doc/measure.md shows one of them.
func TestProgress(t *testing.T) {
	var got strings.Builder
	for _, p := range moments() {
		rows := Frame(p, 79, 0, false)
		for i, row := range rows {
			if n := utf8.RuneCountInString(row); n > 79 {
				t.Errorf("%d columns: %s", n, row)
			}
			if bare := plainly.Replace(Frame(p, 79, 0, true)[i]); bare != row {
				t.Errorf("colour says more than words: %q and %q", bare, row)
			}
			if coloured := Frame(p, 79, 0, true)[i]; strings.Contains(coloured, "\x1b[32m") && !strings.HasPrefix(row, fmt.Sprintf("  p%g ", p.Percentile)) {
				t.Errorf("%q is green: only a figure that meets the objective is", coloured)
			}
		}
		got.WriteString(strings.Join(rows, "\n") + "\n\n")
	}
	for _, p := range moments() {
		line := Line(p)
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
		got.WriteString(line + "\n")
	}
	want, err := os.ReadFile("testdata/progress.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant testdata/progress.txt\n%s", got.String(), want)
	}
	page, err := os.ReadFile("../../doc/measure.md")
	if err != nil {
		t.Fatal(err)
	}
	if shown := strings.Join(Frame(moments()[3], 79, 0, false), "\n"); !strings.Contains(string(page), shown) {
		t.Errorf("doc/measure.md does not show the view as it is:\n%s", shown)
	}
}

// TestLiveFrame plays a terminal: a frame replaces the one before, a note stays above, and the end leaves nothing behind.
func TestLiveFrame(t *testing.T) {
	var b strings.Builder
	l := NewLive(&b, true, 80)
	ps := moments()
	l.Show(time.Unix(0, 0), "finding the endpoint")
	l.Draw(time.Unix(1, 0), ps[0])
	l.Note("rung 0: pass")
	l.Note("rung 1: invalid: client-bound: " + strings.Repeat("slow ", 12) + "at the end")
	l.Draw(time.Unix(2, 0), ps[1])
	l.Draw(time.Unix(3, 0), ps[3])
	if got, want := screen(b.String()), append([]string{"rung 0: pass", "rung 1: invalid: client-bound: " + strings.Repeat("slow ", 8) + "slow", "  slow slow slow at the end"}, Frame(ps[3], 79, 0, false)...); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the terminal shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	l.Close()
	if got := strings.Join(screen(b.String()), "\n"); !strings.HasSuffix(strings.TrimRight(got, "\n"), "at the end") {
		t.Errorf("the end leaves %q", got)
	}

	var plain strings.Builder
	l = NewLive(&plain, false, 80)
	for i := range 21 {
		l.Draw(time.Unix(0, int64(i)*1e8), ps[3])
	}
	if got := strings.Count(plain.String(), "\n"); got != 3 {
		t.Errorf("%d lines in two seconds off a terminal, want one a second: %q", got, plain.String())
	}
}

// TestNarrowFrame draws the moments on small terminals: whatever there is no room for, the verdict is never cut off.
func TestNarrowFrame(t *testing.T) {
	for _, size := range [][2]int{{79, 24}, {59, 20}, {59, 5}, {39, 24}, {29, 3}, {19, 1}} {
		for _, p := range moments() {
			rows := Frame(p, size[0], size[1], false)
			if len(rows) > size[1] {
				t.Errorf("%v: %d rows:\n%s", size, len(rows), strings.Join(rows, "\n"))
			}
			for _, row := range rows {
				if n := utf8.RuneCountInString(row); n > size[0] {
					t.Errorf("%v: %d columns: %s", size, n, row)
				}
			}
			all := strings.Join(strings.Fields(strings.Join(rows, " ")), " ")
			if size[0] >= 29 && !strings.Contains(all, against(p)) {
				t.Errorf("%v: the verdict %q is not whole:\n%s", size, against(p), strings.Join(rows, "\n"))
			}
			if size[0] >= 59 && size[1] >= 20 && !(strings.Contains(all, client(p)) && strings.Contains(all, span(p)) && !strings.Contains(all, "…")) {
				t.Errorf("%v: something is cut off:\n%s", size, strings.Join(rows, "\n"))
			}
		}
	}
}

// TestLiveResized makes the terminal narrower, shorter and wide again: a frame takes all of the one before away, as it stands
// broken on the terminal, and what stays above is left alone.
func TestLiveResized(t *testing.T) {
	var b strings.Builder
	width, height := 80, 24
	l := NewLive(&b, true, 80)
	l.Colour = true
	l.Size = func() (int, int) { return width, height }
	p := moments()[3]
	l.Draw(time.Unix(0, 0), p)
	rows := 0
	for _, row := range Frame(p, 79, 0, false) {
		rows += (utf8.RuneCountInString(row) + 39) / 40
	}
	b.Reset()
	width, height = 40, 6
	l.Draw(time.Unix(1, 0), p)
	drawn := strings.Join(Frame(p, 39, 6, true), "\r\n\x1b[K")
	if got, want := b.String(), fmt.Sprintf("\x1b[%dA\r\x1b[K%s\x1b[J", rows-1, drawn); got != want {
		t.Errorf("made narrower: %q, want %q", got, want)
	}
	b.Reset()
	width, height = 120, 0
	l.Show(time.Unix(2, 0), "over")
	if got, want := b.String(), fmt.Sprintf("\x1b[%dA\r\x1b[Kover\x1b[J", strings.Count(drawn, "\n")); got != want {
		t.Errorf("made wide: %q, want %q", got, want)
	}
}

// screen is what a terminal shows that understands what Live writes.
func screen(s string) []string {
	rows, at, col := [][]rune{nil}, 0, 0
	for len(s) > 0 {
		var up int
		switch {
		case strings.HasPrefix(s, "\x1b[K"):
			rows[at], s = rows[at][:col], s[3:]
		case strings.HasPrefix(s, "\x1b[J"):
			rows[at], rows, s = rows[at][:col], rows[:at+1], s[3:]
		case strings.HasPrefix(s, "\x1b["):
			for s = s[2:]; s[0] != 'A'; s = s[1:] {
				up = 10*up + int(s[0]-'0')
			}
			at, s = at-up, s[1:]
		case s[0] == '\r':
			col, s = 0, s[1:]
		case s[0] == '\n':
			if at++; at == len(rows) {
				rows = append(rows, nil)
			}
			col, s = 0, s[1:]
		default:
			r, n := utf8.DecodeRuneInString(s)
			rows[at], s = append(rows[at][:col], r), s[n:]
			col++
		}
	}
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = string(row)
	}
	return out
}
