package admission

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

var epoch = time.Unix(1000, 0)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func admit(t *testing.T, g *Gate, ms int) *Ticket {
	t.Helper()
	tk, err := g.Admit(at(ms), false)
	if err != nil {
		t.Fatalf("admit at %d ms: %v", ms, err)
	}
	return tk
}

// ask queues a piece and takes whoever may execute.
func ask(g *Gate, tk *Ticket, ms int) *Ticket {
	g.Queue(tk, at(ms), Piece{Size: 1})
	return g.Next(at(ms))
}

func TestBoundCountsQueuedAndExecuting(t *testing.T) {
	for _, order := range []Order{Deadline, FIFO} {
		g := New(Config{Depth: 50, Order: order, SLO: time.Second})
		var in []*Ticket
		for i := range 50 {
			tk := admit(t, g, i)
			if got := ask(g, tk, i); (got == tk) != (i == 0) {
				t.Fatalf("request %d got a place: %v", i+1, got == tk)
			}
			in = append(in, tk)
		}
		for _, err := range []error{g.Refuse(at(50)), func() error { _, err := g.Admit(at(50), false); return err }()} {
			var full *Saturated
			if !errors.As(err, &full) || full.Depth != 50 || full.Max != 50 || full.Late {
				t.Fatalf("the 51st: %v", err)
			}
		}
		g.Release(in[0], at(60))
		if next := g.Next(at(60)); next != in[1] {
			t.Fatal("the first to come is not the first to be served")
		}
		if err := g.Refuse(at(60)); err != nil {
			t.Fatal(err)
		}
		admit(t, g, 61)
		want := Counts{Admitted: 51, Refused: 2, Finished: 1, InSystem: 50, Queued: 48, Executing: 1}
		if got := g.Counts(); got != want {
			t.Fatalf("counts %+v, want %+v", got, want)
		}
	}
}

func TestUnbounded(t *testing.T) {
	g := New(Config{})
	for i := range 10000 {
		ask(g, admit(t, g, i), i)
	}
	if c := g.Counts(); c.InSystem != 10000 || c.Queued != 9999 {
		t.Fatalf("counts %+v", c)
	}
}

func TestAbandonedWorkIsNeverExecuted(t *testing.T) {
	g := New(Config{})
	var in []*Ticket
	for range 4 {
		in = append(in, admit(t, g, 0))
		ask(g, in[len(in)-1], 0)
	}
	g.Release(in[2], at(1))
	if g.Next(at(1)) != nil {
		t.Fatal("a waiting request that goes frees no place")
	}
	g.Release(in[0], at(2))
	if g.Next(at(2)) != in[1] {
		t.Fatal("the second is next")
	}
	for range 3 { // a second release is none
		g.Release(in[1], at(3))
	}
	if g.Next(at(3)) != in[3] || g.Next(at(3)) != nil {
		t.Fatal("the third is gone, the fourth is next")
	}
	g.Release(in[3], at(5))
	if got, want := g.Counts(), (Counts{Admitted: 4, Finished: 3, Abandoned: 1}); got != want {
		t.Fatalf("counts %+v, want %+v", got, want)
	}
}

func TestFIFOGoesToTheEnd(t *testing.T) {
	g := New(Config{Order: FIFO, SLO: time.Millisecond})
	a, b := admit(t, g, 0), admit(t, g, 0)
	ask(g, a, 0)
	ask(g, b, 0)
	g.Heard(a, at(10), time.Millisecond) // soon dry, which is nothing to FIFO
	g.Leave(a, at(10))
	if g.Next(at(10)) != b {
		t.Fatal("b is next")
	}
	if ask(g, a, 12) != nil {
		t.Fatal("a must wait")
	}
	g.Leave(b, at(20))
	if g.Next(at(20)) != a {
		t.Fatal("a again")
	}
	g.Leave(a, at(25))
	if a.Waited() != 8*time.Millisecond || a.Held() != 15*time.Millisecond {
		t.Fatalf("a waited %v and held %v", a.Waited(), a.Held())
	}
	if c := g.Counts(); c.InSystem != 2 || c.Executing != 0 {
		t.Fatalf("counts %+v", c)
	}
}

// play runs a script of steps, one a line, against a gate with one place, and returns what happened. Times are in ms.
//
//	3 admit a          in
//	3 whole b          in, nobody plays it
//	3 ask a 5          queue a piece of size 5
//	9 fresh a          queue a piece whose text came late
//	9 made a 1200      the piece is done, with so much sound
//	9 gone a           released
//	9 tick
//
// After each step, whoever gets the place is told, and when the gate wants to be asked again.
func play(t *testing.T, c Config, script string) string {
	t.Helper()
	g := New(c)
	tickets, names := map[string]*Ticket{}, map[*Ticket]string{}
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
		var ms, n int
		var verb, name string
		fmt.Sscan(line, &ms, &verb, &name, &n)
		now := at(ms)
		tk := tickets[name]
		switch verb {
		case "admit", "whole":
			tk, err := g.Admit(now, verb == "whole")
			if err != nil {
				fmt.Fprintf(&out, "%d %s: %v\n", ms, name, err)
				continue
			}
			tickets[name], names[tk] = tk, name
		case "ask", "fresh":
			g.Queue(tk, now, Piece{Size: float64(n), Fresh: verb == "fresh"})
		case "made":
			if d := g.Heard(tk, now, time.Duration(n)*time.Millisecond); d > 0 {
				fmt.Fprintf(&out, "%d %s heard nothing for %v\n", ms, name, d)
			}
			g.Leave(tk, now)
		case "gone":
			g.Release(tk, now)
		case "hurry":
			g.Hurry()
		}
		for next := g.Next(now); next != nil; next = g.Next(now) {
			if err := next.Refused(); err != nil {
				fmt.Fprintf(&out, "%d %s: %v\n", ms, names[next], err)
			} else {
				fmt.Fprintf(&out, "%d %s\n", ms, names[next])
			}
		}
		if at, ok := g.Wake(now); ok {
			fmt.Fprintf(&out, "%d wake at %d\n", ms, at.Sub(epoch).Milliseconds())
		}
	}
	return out.String()
}

func TestDeadlines(t *testing.T) {
	slo := Config{SLO: 300 * time.Millisecond, Margin: 100 * time.Millisecond, Ahead: 2 * time.Second}
	predict := slo
	predict.Predict = true
	old := slo
	old.MaxAge = time.Second
	for _, c := range []struct {
		name         string
		cfg          Config
		script, want string
	}{
		{"the earliest due piece is next, whoever asked first", slo, `
			0 admit a
			0 ask a 1
			50 admit b
			50 ask b 1
			100 made a 150
			100 ask a 1
			110 made b 1000
			120 admit c
			120 ask c 1
			200 made a 1000
			210 ask b 1
			220 ask a 1
			300 made c 1000`, `
			0 a
			100 b
			110 a
			200 c
			300 b`},
		{"a stream far ahead waits, and a new one does not wait for it", slo, `
			0 admit a
			0 ask a 1
			100 made a 5000
			100 ask a 1
			200 admit b
			200 ask b 1
			300 made b 500
			3000 tick
			4000 made a 1000`, `
			0 a
			100 wake at 3000
			200 wake at 3000
			200 b
			300 wake at 3000
			3000 a`},
		{"nobody waits when the server stops", slo, `
			0 admit a
			0 ask a 1
			100 made a 5000
			100 ask a 1
			200 hurry`, `
			0 a
			100 wake at 3000
			200 a`},
		{"a first piece that would be late goes ahead of a stream that can spare the time", slo, `
			0 admit a
			0 ask a 10
			100 made a 500
			200 ask a 10
			300 made a 0
			300 admit b
			300 ask b 10
			400 made b 450
			420 admit c
			420 ask c 10
			460 ask b 10
			520 made c 500
			600 admit d
			620 ask d 10
			625 ask a 10
			700 made b 300
			750 ask b 10`, `
			0 a
			200 a
			300 b
			420 c
			520 b
			700 a`},
		{"text that comes late is due like a first piece", slo, `
			0 admit a
			0 ask a 1
			10 made a 100
			20 admit b
			20 ask b 1
			400 made b 250
			410 admit c
			410 ask c 1
			500 fresh a
			510 ask b 1
			600 made c 100
			610 made b 100`, `
			0 a
			20 b
			410 c
			600 b
			610 a`},
		{"a whole reply shares fairly and never waits for being ahead", slo, `
			0 whole a
			0 ask a 1
			100 made a 5000
			100 ask a 1
			150 admit b
			150 ask b 1
			200 made a 5000
			200 ask a 1
			300 made b 400
			300 ask b 1
			400 made a 100
			450 made b 100`, `
			0 a
			100 a
			200 b
			300 a
			400 b`},
		{"silence is told, but for want of text", slo, `
			0 admit a
			0 ask a 1
			100 made a 200
			100 ask a 1
			450 made a 100
			900 fresh a
			950 made a 100`, `
			0 a
			100 a
			450 a heard nothing for 150ms
			900 a`},
		{"waiting too long is dropped at its turn", old, `
			0 admit a
			0 ask a 1
			0 admit b
			0 ask b 1
			100 admit c
			100 ask c 1
			1050 made a 1000
			1100 gone b`, `
			0 a
			1050 b: waited 1.1 s for its place, more than the 1.0 s after which nobody listens any more
			1050 c`},
		{"by prediction, who would be late is refused at the door or at its turn", predict, `
			0 admit a
			0 ask a 1
			100 made a 2000
			100 admit b
			100 ask b 1
			100 admit c
			100 ask c 1
			100 admit d
			100 ask d 1
			100 admit e
			250 gone d
			380 made b 2000`, `
			0 a
			100 b
			100 e: queue saturated: with 4 requests inside, the first sound would come too late
			380 c: queue saturated: with 3 requests inside, the first sound would come too late`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := play(t, c.cfg, c.script)
			want := strings.ReplaceAll(strings.TrimSpace(c.want), "\t", "")
			if strings.TrimSpace(got) != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// No more streams are taken than the places can keep supplied.
func TestPredictionKeepsTheStreamsSupplied(t *testing.T) {
	g := New(Config{SLO: time.Second, Predict: true, Ahead: time.Second})
	n := 0
	for ms := 0; ; ms += 100 { // each piece takes 50 ms and lasts 500 ms: ten streams at most, nine by prediction
		tk, err := g.Admit(at(ms), false)
		if err != nil {
			break
		}
		if n++; n > 20 {
			t.Fatal("every stream is taken")
		}
		if ask(g, tk, ms) != tk {
			t.Fatal("the place is free")
		}
		g.Heard(tk, at(ms+50), 500*time.Millisecond)
		g.Leave(tk, at(ms+50))
	}
	if n != 9 {
		t.Errorf("%d streams of which ten fill the place, want 9", n)
	}
}

func TestCostsAreLearned(t *testing.T) {
	g := New(Config{})
	ms := 0
	for i := range 200 {
		size := float64(1 + i%7)
		tk := admit(t, g, ms)
		g.Queue(tk, at(ms), Piece{Size: size})
		g.Next(at(ms))
		ms += 20 + 3*int(size)
		g.Release(tk, at(ms))
	}
	for _, size := range []float64{1, 5, 30} {
		if got, want := g.costs.of(size).Seconds(), (20+3*size)/1e3; math.Abs(got-want) > 1e-4 {
			t.Errorf("a piece of %v is expected to cost %v s, want %v", size, got, want)
		}
	}
}

func TestBusyIsPlaceTime(t *testing.T) {
	g := New(Config{Places: 2})
	a, b, c := admit(t, g, 0), admit(t, g, 0), admit(t, g, 0)
	if g.Busy(at(0)) != 0 || g.Stalled(at(0)) != 0 {
		t.Fatal("nothing ran yet")
	}
	ask(g, a, 0)
	ask(g, b, 10)
	ask(g, c, 10)
	if got := g.Busy(at(20)); got != 30*time.Millisecond {
		t.Fatalf("busy %v, want 20 + 10 ms", got)
	}
	if got := g.Stalled(at(20)); got != 20*time.Millisecond {
		t.Fatalf("stalled for %v", got)
	}
	if g.Heard(a, at(22), time.Second); g.Stalled(at(25)) != 3*time.Millisecond {
		t.Fatal("sound is progress")
	}
	g.Release(a, at(30))
	if g.Next(at(30)) != c || g.Stalled(at(35)) != 5*time.Millisecond {
		t.Fatal("c starts")
	}
	g.Release(b, at(40))
	if got := g.Busy(at(50)); got != (30+30+20)*time.Millisecond {
		t.Fatalf("busy %v, want 80 ms", got)
	}
	g.Release(c, at(50))
	if got := g.Busy(at(1000)); got != 80*time.Millisecond || g.Stalled(at(1000)) != 0 {
		t.Fatalf("busy %v after the end, want 80 ms", got)
	}
}

func TestDrainIsTheWholeQueue(t *testing.T) {
	g := New(Config{Depth: 3})
	a := admit(t, g, 0)
	ask(g, a, 0)
	g.Release(a, at(100))
	for range 3 {
		admit(t, g, 100)
	}
	_, err := g.Admit(at(100), false)
	var full *Saturated
	if !errors.As(err, &full) || full.Drain != 300*time.Millisecond {
		t.Fatalf("drain %v, want 3 holds of 100 ms", full.Drain)
	}
}

// plain is the gate as one would explain it: every waiting ticket is looked at each time.
type plain struct {
	cfg              Config
	queue, executing []*Ticket
}

func (p *plain) next(g *Gate, now time.Time) *Ticket {
	if len(p.executing) >= max(1, p.cfg.Places) {
		return nil
	}
	var best *Ticket
	paced := func(t *Ticket) bool { return p.cfg.Order == Deadline && t.playing && !t.whole && !t.fresh }
	before := func(a, b *Ticket) bool {
		switch {
		case p.cfg.Order == FIFO, a.due.Equal(b.due) && paced(a) == paced(b):
			return a.seq < b.seq
		case a.due.Equal(b.due):
			return paced(b)
		}
		return a.due.Before(b.due)
	}
	for _, t := range p.queue {
		if paced(t) && p.cfg.Ahead > 0 && t.due.Sub(now) > p.cfg.Ahead {
			continue
		}
		if best == nil || before(t, best) {
			best = t
		}
	}
	if best != nil && paced(best) {
		for _, t := range p.queue { // the first piece that is due first
			if !paced(t) && (t.first || t.whole) && !slices.ContainsFunc(p.queue, func(u *Ticket) bool { return !paced(u) && before(u, t) }) {
				both := g.costs.of(best.size) + g.costs.of(t.size)
				if t.first && now.Add(both).After(t.due) && !now.Add(both).After(best.dry) && best.due.Before(t.due) {
					return t
				}
			}
		}
	}
	return best
}

// FuzzGate plays any sequence of calls against the gate and against the plain one.
func FuzzGate(f *testing.F) {
	f.Add(uint8(3), uint8(1), false, []byte{0, 0, 0, 0, 1, 5, 9, 2, 6, 3, 7, 0, 1})
	f.Add(uint8(0), uint8(2), true, []byte{0, 1, 0, 5, 0, 9, 2, 3, 1, 7, 11})
	f.Add(uint8(0), uint8(1), false, []byte{0, 1, 2, 0, 1, 9, 2, 1, 130, 1, 5, 0, 9, 66, 1, 5, 2, 6, 10, 3})
	f.Fuzz(func(t *testing.T, depth, places uint8, fifo bool, calls []byte) {
		cfg := Config{Depth: int(depth % 8), Places: int(places % 4), SLO: 30 * time.Millisecond, Margin: 10 * time.Millisecond, Ahead: 20 * time.Millisecond}
		if fifo {
			cfg.Order = FIFO
		}
		g, p := New(cfg), &plain{cfg: cfg}
		var tickets []*Ticket
		in := 0
		for i, c := range calls {
			now := at(3 * i)
			var tk *Ticket
			if len(tickets) > 0 {
				tk = tickets[int(c>>2)%len(tickets)]
			}
			was := slices.Clone(p.executing)
			drop := func(s []*Ticket) []*Ticket {
				return slices.DeleteFunc(slices.Clone(s), func(u *Ticket) bool { return u == tk })
			}
			switch {
			case c&3 == 0:
				nt, err := g.Admit(now, c&128 != 0)
				if full := cfg.Depth > 0 && in >= cfg.Depth; full != (err != nil) {
					t.Fatalf("call %d: admit: %v, want refused %v", i, err, full)
				}
				if err == nil {
					in++
					tickets = append(tickets, nt)
				}
			case tk == nil:
			case c&3 == 1:
				free := tk.state == admitted
				g.Queue(tk, now, Piece{Size: float64(c >> 5), Fresh: c&64 != 0})
				if free {
					p.queue = append(p.queue, tk)
				}
			case c&3 == 2:
				if tk.state == executing {
					g.Heard(tk, now, time.Duration(c>>2)*time.Millisecond)
				}
				g.Leave(tk, now)
				p.queue, p.executing = drop(p.queue), drop(p.executing)
			default:
				if tk.state != released {
					in--
				}
				g.Release(tk, now)
				p.queue, p.executing = drop(p.queue), drop(p.executing)
			}
			for {
				want := p.next(g, now)
				got := g.Next(now)
				if got != want {
					t.Fatalf("call %d: next is %d, want %d (were executing: %d)", i, slices.Index(tickets, got), slices.Index(tickets, want), len(was))
				}
				if got == nil {
					break
				}
				tk = got
				p.queue, p.executing = drop(p.queue), append(p.executing, got)
			}
			got := g.Counts()
			if fmt.Sprint(got.InSystem, got.Queued, got.Executing) != fmt.Sprint(in, len(p.queue), len(p.executing)) {
				t.Fatalf("call %d: gauges %+v, want %d %d %d", i, got, in, len(p.queue), len(p.executing))
			}
			if got.Admitted != int64(got.InSystem)+got.Finished+got.Abandoned {
				t.Fatalf("call %d: %+v does not add up", i, got)
			}
			if at, ok := g.Wake(now); ok && !at.After(now) {
				t.Fatalf("call %d: somebody could be served since %v", i, now.Sub(at))
			}
		}
	})
}
