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
	drawn []int     // columns of the lines that stand on the terminal

	Colour bool                       // may be used to repeat what words say
	Size   func() (columns, rows int) // of the terminal now, asked at each drawing; 0: not known. nil: the width it began with
}

// narrowest is the fewest columns that are believed of a terminal.
const narrowest = 20

// NewLive draws on w; width is the terminal's columns, used when tty.
func NewLive(w io.Writer, tty bool, width int) *Live {
	if width < narrowest {
		width = 80
	}
	return &Live{w: w, tty: tty, width: width}
}

// Show replaces the line. Off a terminal it prints at most one line a second.
func (l *Live) Show(now time.Time, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tty {
		width, _ := l.size()
		l.put(width, []string{clip(line, width-1)})
		return
	}
	l.plain(now, line)
}

// Draw replaces what is drawn by a rung that is being measured: a frame on a terminal, a line a second elsewhere.
func (l *Live) Draw(now time.Time, p ladder.Progress) {
	l.draw(now, Line(p), func(width, height int) []string { return Frame(p, width, height, l.Colour) })
}

func (l *Live) draw(now time.Time, line string, frame func(width, height int) []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tty {
		l.plain(now, line)
		return
	}
	width, height := l.size()
	l.put(width, frame(min(width-1, 79), height))
}

// size is the terminal's now; height 0: not known.
func (l *Live) size() (width, height int) {
	if l.Size != nil {
		if w, h := l.Size(); w >= narrowest {
			l.width, height = w, h
		}
	}
	return l.width, height
}

// put draws lines in place of what is drawn, and leaves the cursor in the last of them.
func (l *Live) put(width int, rows []string) {
	home, below := l.home(width)
	fmt.Fprint(l.w, home+strings.Join(rows, "\r\n\x1b[K")+below)
	for _, row := range rows {
		l.drawn = append(l.drawn, utf8.RuneCountInString(plainly.Replace(row)))
	}
}

// home forgets what is drawn. It is what moves the cursor to its first row, which it empties, and what empties those below
// once something has been written: some terminals keep what they show when all of it is emptied at once. A terminal that was
// made narrower since has broken its lines.
func (l *Live) home(width int) (home, below string) {
	rows := 0
	for _, columns := range l.drawn {
		rows += max(1, (columns+width-1)/width)
	}
	l.drawn = l.drawn[:0]
	home = "\r\x1b[K"
	if rows > 1 {
		home, below = fmt.Sprintf("\x1b[%dA", rows-1)+home, "\x1b[J"
	}
	return home, below
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
	home, below := "", ""
	if l.tty {
		width, _ := l.size()
		line = Fold(line, width-1)
		if len(l.drawn) > 0 {
			home, below = l.home(width)
			line = strings.ReplaceAll(line, "\n", "\n\x1b[K")
		}
	}
	fmt.Fprint(l.w, home+line+"\n"+below)
}

// Close removes the live line.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.drawn) == 0 {
		return
	}
	width, _ := l.size()
	home, below := l.home(width)
	if below != "" {
		below = "\r\n" + below + "\x1b[1A"
	}
	fmt.Fprint(l.w, home+below)
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
