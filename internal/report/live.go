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
	"sync"
	"time"
	"unicode/utf8"
)

// Live is one line of progress: rewritten in place on a terminal, a plain line a second elsewhere. Safe for concurrent
// use. A failed write is not an error of the run that it tells of.
type Live struct {
	mu    sync.Mutex
	w     io.Writer
	tty   bool
	width int
	last  time.Time // of the last plain line
	drawn bool      // a line stands on the terminal
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
		fmt.Fprintf(l.w, "\r\x1b[K%s", clip(line, l.width-1))
		l.drawn = true
		return
	}
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
	fmt.Fprintln(l.w, line)
}

// Close removes the live line.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

func (l *Live) clear() {
	if l.drawn {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.drawn = false
	}
}

func clip(s string, columns int) string {
	if utf8.RuneCountInString(s) <= columns {
		return s
	}
	runes := []rune(s)
	return string(runes[:columns-1]) + "…"
}
