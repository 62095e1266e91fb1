// Package report is what people see of a run: a live line while it measures, and tables at its end. It draws; what the
// numbers mean is decided elsewhere.
//
//	live := report.NewLive(os.Stderr, isTerminal, 80)
//	live.Show(time.Now(), "rung 5 · 32 in flight · p95 212 ms of 300 · 61 samples")
//	live.Note("rung 4 passed: p95 198 ms")
//	live.Close()
package report

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"loadline/internal/ladder"
)

// Live is what is told while something runs: a line, or a frame of them, drawn anew in place on a terminal, and a plain line
// a second elsewhere. Safe for concurrent use. A failed write is not an error of the run that it tells of.
type Live struct {
	mu    sync.Mutex
	w     io.Writer
	tty   bool
	width int
	last  time.Time // of the last plain line
	drawn int       // lines that stand on the terminal

	Colour bool // may be used to repeat what words say
}

// NewLive draws on w; width is the terminal's columns, used when tty.
func NewLive(w io.Writer, tty bool, width int) *Live {
	if width < 20 {
		width = 80
	}
	return &Live{w: w, tty: tty, width: width}
}

// Show replaces the line. Off a terminal it prints at most one line a second.
func (l *Live) Show(now time.Time, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tty {
		if l.drawn > 1 {
			l.clear()
		}
		fmt.Fprintf(l.w, "\r\x1b[K%s", clip(line, l.width-1))
		l.drawn = 1
		return
	}
	l.plain(now, line)
}

// Draw replaces what is drawn by a rung that is being measured: a frame on a terminal, a line a second elsewhere.
func (l *Live) Draw(now time.Time, p ladder.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tty {
		l.plain(now, Line(p))
		return
	}
	rows := Frame(p, min(l.width-1, 79), l.Colour)
	l.clear()
	fmt.Fprint(l.w, strings.Join(rows, "\r\n"))
	l.drawn = len(rows)
}

func (l *Live) plain(now time.Time, line string) {
	if now.Sub(l.last) >= time.Second {
		l.last = now
		fmt.Fprintln(l.w, line)
	}
}

// Note prints a line that stays.
func (l *Live) Note(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	if l.tty {
		line = Fold(line, l.width-1)
	}
	fmt.Fprintln(l.w, line)
}

// Close removes the live line.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

func (l *Live) clear() {
	switch {
	case l.drawn == 1:
		fmt.Fprint(l.w, "\r\x1b[K")
	case l.drawn > 1: // up to its first line, and all below it away
		fmt.Fprintf(l.w, "\x1b[%dA\r\x1b[J", l.drawn-1)
	}
	l.drawn = 0
}

// Fold breaks a line between words where it is wider than columns; what is broken off stands two to the right.
func Fold(s string, columns int) string {
	if strings.Contains(s, "\n") || utf8.RuneCountInString(s) <= columns {
		return s
	}
	var b strings.Builder
	at := 0
	for word := range strings.SplitSeq(s, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case at == 0:
		case at+1+n > columns:
			b.WriteString("\n  ")
			at = 2
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

func clip(s string, columns int) string {
	if utf8.RuneCountInString(s) <= columns {
		return s
	}
	runes := []rune(s)
	return string(runes[:columns-1]) + "…"
}
