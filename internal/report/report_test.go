package report

import (
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	got := Table([]string{"N", "p95 ms", "<note"}, [][]string{{"1", "65.4", ""}, {"53", "2974.1", "certified µ"}})
	want := "N   p95 ms  note\n1     65.4\n53  2974.1  certified µ\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestLivePlain(t *testing.T) {
	var b strings.Builder
	l := NewLive(&b, false, 80)
	now := time.Unix(0, 0)
	for i := range 25 { // ten a second for two and a half seconds
		l.Show(now.Add(time.Duration(i)*100*time.Millisecond), "line")
	}
	l.Note("stays")
	l.Close()
	if got, want := b.String(), "line\nline\nline\nstays\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLiveTerminal(t *testing.T) {
	var b strings.Builder
	l := NewLive(&b, true, 20)
	l.Show(time.Unix(0, 0), strings.Repeat("é", 30))
	l.Note("stays")
	l.Close()
	want := "\r\x1b[K" + strings.Repeat("é", 18) + "…" + "\r\x1b[Kstays\n"
	if got := b.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
