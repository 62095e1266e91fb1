package admission

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

var epoch = time.Unix(1000, 0)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func admit(t *testing.T, g *Gate, ms int) *Ticket {
	t.Helper()
	tk, err := g.Admit(at(ms))
	if err != nil {
		t.Fatalf("admit at %d ms: %v", ms, err)
	}
	return tk
}

func TestBoundCountsQueuedAndExecuting(t *testing.T) {
	g := New(50, 1)
	var in []*Ticket
	for i := range 50 {
		tk := admit(t, g, i)
		if got := g.Queue(tk, at(i)); got != (i == 0) {
			t.Fatalf("request %d got a place: %v", i+1, got)
		}
		in = append(in, tk)
	}
	_, err := g.Admit(at(50))
	var full *Saturated
	if !errors.As(err, &full) || full.Depth != 50 || full.Max != 50 {
		t.Fatalf("the 51st: %v", err)
	}
	if next := g.Release(in[0], at(60)); next != in[1] {
		t.Fatal("the first to queue is not the first to be served")
	}
	admit(t, g, 61)
	want := Counts{Admitted: 51, Refused: 1, Finished: 1, InSystem: 50, Queued: 48, Executing: 1}
	if got := g.Counts(); got != want {
		t.Fatalf("counts %+v, want %+v", got, want)
	}
}

func TestUnbounded(t *testing.T) {
	g := New(0, 1)
	for i := range 10000 {
		g.Queue(admit(t, g, i), at(i))
	}
	if c := g.Counts(); c.InSystem != 10000 || c.Queued != 9999 {
		t.Fatalf("counts %+v", c)
	}
}

func TestAbandonedWorkIsNeverExecuted(t *testing.T) {
	g := New(0, 1)
	a, b, c, d := admit(t, g, 0), admit(t, g, 0), admit(t, g, 0), admit(t, g, 0)
	for _, tk := range []*Ticket{a, b, c, d} {
		g.Queue(tk, at(0))
	}
	if next := g.Release(c, at(1)); next != nil {
		t.Fatal("a waiting request that goes frees no place")
	}
	if next := g.Release(a, at(2)); next != b {
		t.Fatal("b is next")
	}
	if next := g.Release(b, at(3)); next != d {
		t.Fatal("c is gone, d is next")
	}
	for range 3 { // a second release is none
		if next := g.Release(b, at(4)); next != nil {
			t.Fatal("released twice")
		}
	}
	if next := g.Release(d, at(5)); next != nil {
		t.Fatal("nobody is left")
	}
	if got, want := g.Counts(), (Counts{Admitted: 4, Finished: 3, Abandoned: 1}); got != want {
		t.Fatalf("counts %+v, want %+v", got, want)
	}
}

func TestLeaveGoesToTheEnd(t *testing.T) {
	g := New(0, 1)
	a, b := admit(t, g, 0), admit(t, g, 0)
	g.Queue(a, at(0))
	g.Queue(b, at(0))
	if g.Leave(a, at(10)) != b {
		t.Fatal("b is next")
	}
	if g.Queue(a, at(12)) {
		t.Fatal("a must wait")
	}
	if g.Leave(b, at(20)) != a || g.Leave(a, at(25)) != nil {
		t.Fatal("a again, then nobody")
	}
	if a.Waited() != 8*time.Millisecond || a.Held() != 15*time.Millisecond {
		t.Fatalf("a waited %v and held %v", a.Waited(), a.Held())
	}
	if c := g.Counts(); c.InSystem != 2 || c.Executing != 0 {
		t.Fatalf("counts %+v", c)
	}
}

func TestBusyIsPlaceTime(t *testing.T) {
	g := New(0, 2)
	a, b, c := admit(t, g, 0), admit(t, g, 0), admit(t, g, 0)
	if g.Busy(at(0)) != 0 {
		t.Fatal("nothing ran yet")
	}
	g.Queue(a, at(0))
	g.Queue(b, at(10))
	g.Queue(c, at(10))
	if got := g.Busy(at(20)); got != 30*time.Millisecond {
		t.Fatalf("busy %v, want 20 + 10 ms", got)
	}
	g.Release(a, at(30)) // c starts
	g.Release(b, at(40))
	if got := g.Busy(at(50)); got != (30+30+20)*time.Millisecond {
		t.Fatalf("busy %v, want 80 ms", got)
	}
	g.Release(c, at(50))
	if got := g.Busy(at(1000)); got != 80*time.Millisecond {
		t.Fatalf("busy %v after the end, want 80 ms", got)
	}
}

func TestDrainIsTheWholeQueue(t *testing.T) {
	g := New(3, 1)
	a := admit(t, g, 0)
	g.Queue(a, at(0))
	g.Release(a, at(100))
	for range 3 {
		admit(t, g, 100)
	}
	_, err := g.Admit(at(100))
	var full *Saturated
	if !errors.As(err, &full) || full.Drain != 300*time.Millisecond {
		t.Fatalf("drain %v, want 3 holds of 100 ms", full.Drain)
	}
}

// plain is the gate as one would explain it: slices, searched from the front.
type plain struct {
	depth, places       int
	in, queue, executes []int
}

func (p *plain) fill() {
	for len(p.queue) > 0 && len(p.executes) < p.places {
		p.executes = append(p.executes, p.queue[0])
		p.queue = p.queue[1:]
	}
}

func drop(s []int, v int) []int {
	if i := slices.Index(s, v); i >= 0 {
		return slices.Delete(s, i, i+1)
	}
	return s
}

// FuzzGate plays any sequence of calls against the gate and against the plain one.
func FuzzGate(f *testing.F) {
	f.Add(uint8(3), uint8(1), []byte{0, 0, 0, 0, 1, 5, 9, 2, 6, 3, 7, 0, 1})
	f.Add(uint8(0), uint8(2), []byte{0, 1, 0, 5, 0, 9, 2, 3, 1, 7, 11})
	f.Fuzz(func(t *testing.T, depth, places uint8, calls []byte) {
		g, p := New(int(depth%8), int(places%4)), &plain{depth: int(depth % 8), places: max(1, int(places%4))}
		var tickets []*Ticket
		for i, c := range calls {
			now := at(i)
			who := -1
			if len(tickets) > 0 {
				who = int(c>>2) % len(tickets)
			}
			switch {
			case c&3 == 0:
				tk, err := g.Admit(now)
				if full := p.depth > 0 && len(p.in) >= p.depth; full != (err != nil) {
					t.Fatalf("call %d: admit: %v, want refused %v", i, err, full)
				}
				if err == nil {
					p.in = append(p.in, len(tickets))
					tickets = append(tickets, tk)
				}
			case who < 0:
			case c&3 == 1:
				held := g.Queue(tickets[who], now)
				if slices.Contains(p.in, who) && !slices.Contains(p.queue, who) && !slices.Contains(p.executes, who) {
					p.queue = append(p.queue, who)
					p.fill()
				}
				if want := slices.Contains(p.executes, who); held != want {
					t.Fatalf("call %d: queue %d: place %v, want %v", i, who, held, want)
				}
			default:
				before := slices.Clone(p.executes)
				p.queue, p.executes = drop(p.queue, who), drop(p.executes, who)
				p.fill()
				var next *Ticket
				if c&3 == 2 {
					next = g.Leave(tickets[who], now)
				} else {
					next = g.Release(tickets[who], now)
					p.in = drop(p.in, who)
				}
				want := -1
				for _, e := range p.executes {
					if !slices.Contains(before, e) {
						want = e
					}
				}
				if got := slices.Index(tickets, next); next == nil && want >= 0 || next != nil && got != want {
					t.Fatalf("call %d: next is %d, want %d", i, got, want)
				}
			}
			got := g.Counts()
			if fmt.Sprint(got.InSystem, got.Queued, got.Executing) != fmt.Sprint(len(p.in), len(p.queue), len(p.executes)) {
				t.Fatalf("call %d: gauges %+v, want %d %d %d", i, got, len(p.in), len(p.queue), len(p.executes))
			}
			if got.Admitted != int64(got.InSystem)+got.Finished+got.Abandoned {
				t.Fatalf("call %d: %+v does not add up", i, got)
			}
		}
	})
}
