// Package admission decides who may enter a speech server and who is served next: the gate bounds how many requests are
// in the system, queued and executing together, and hands the executing places to the queued ones in their order.
//
// It is a state machine: the caller brings the time, the lock and whatever it takes to wake a request whose turn has
// come. What a place is worth, and how long it is held, is the caller's.
//
//	g := admission.New(50, 1)     // 50 in the system, one executing
//	t, err := g.Admit(now)        // *Saturated once 50 are inside
//	if !g.Queue(t, now) { wait }  // false: wait until a Leave or Release returns t
//	next := g.Release(t, now)     // next, if any, now executes: wake it
package admission

import (
	"fmt"
	"time"
)

// Saturated is a refusal: the gate already holds as many requests as it may.
type Saturated struct {
	Depth int           // requests in the system, queued and executing
	Max   int           // the bound
	Drain time.Duration // how long those inside are expected to take
}

func (s *Saturated) Error() string {
	return fmt.Sprintf("queue saturated: %d requests of at most %d are queued or executing", s.Depth, s.Max)
}

type state uint8

const (
	admitted  state = iota // inside, holding and asking for nothing
	queued                 // waiting for a place
	executing              // holding a place
	released
)

// Ticket is one request inside the gate. Only the gate changes it.
type Ticket struct {
	state      state
	ran        bool // has held a place
	prev, next *Ticket
	since      time.Time // start of the present hold
	waited     time.Duration
	held       time.Duration
	asked      time.Time
}

// Waited is the time spent waiting for places so far, the wait under way excluded.
func (t *Ticket) Waited() time.Duration { return t.waited }

// Held is the time places were held so far, the hold under way excluded.
func (t *Ticket) Held() time.Duration { return t.held }

// Counts is the gate's account since it was made, and its gauges now. Admitted = InSystem + Finished + Abandoned.
type Counts struct {
	Admitted  int64
	Refused   int64
	Finished  int64 // released after it held a place
	Abandoned int64 // released before it ever held one: never executed

	InSystem  int // admitted and not yet released
	Queued    int
	Executing int
}

// Gate is the state of admission. It is not safe for concurrent use.
type Gate struct {
	depth  int
	places int
	counts Counts
	// The waiting tickets in the order in which they are served, a list so that one that gives up in the middle costs the
	// same as one at the head.
	head, tail *Ticket

	held     time.Duration // sum of finished holds
	holds    int64
	recent   time.Duration // exponentially weighted mean hold
	running  time.Duration // sum of (epoch - start of hold) over those executing
	epoch    time.Time
	hasEpoch bool
}

// New is a gate for at most depth requests in the system (0: unbounded) and places executing at once (at least 1).
func New(depth, places int) *Gate {
	return &Gate{depth: max(0, depth), places: max(1, places)}
}

// Admit lets one request in, or returns *Saturated. Whoever is admitted must be released.
func (g *Gate) Admit(now time.Time) (*Ticket, error) {
	if g.depth > 0 && g.counts.InSystem >= g.depth {
		g.counts.Refused++
		return nil, &Saturated{Depth: g.counts.InSystem, Max: g.depth, Drain: g.Drain()}
	}
	g.counts.Admitted++
	g.counts.InSystem++
	return &Ticket{}, nil
}

// Queue asks for a place and says whether t holds it at once; if not, t waits for its turn. A ticket that already waits
// or executes keeps what it has.
func (g *Gate) Queue(t *Ticket, now time.Time) bool {
	if t.state != admitted {
		return t.state == executing
	}
	t.asked = now
	if g.counts.Executing < g.places {
		g.start(t, now)
		return true
	}
	t.state = queued
	g.counts.Queued++
	if t.prev = g.tail; t.prev == nil {
		g.head = t
	} else {
		t.prev.next = t
	}
	g.tail = t
	return false
}

// Leave gives back t's place, or its turn, and keeps it in the system: it may queue again, at the end. The ticket
// returned, if any, executes from now on.
func (g *Gate) Leave(t *Ticket, now time.Time) *Ticket {
	switch t.state {
	case queued:
		g.unlink(t)
		t.waited += now.Sub(t.asked)
	case executing:
		d := now.Sub(t.since)
		t.held += d
		g.counts.Executing--
		g.running += t.since.Sub(g.epoch)
		g.held += d
		g.holds++
		if g.holds == 1 {
			g.recent = d
		} else {
			g.recent += (d - g.recent) / 16
		}
	default:
		return nil
	}
	t.state = admitted
	next := g.head
	if next == nil || g.counts.Executing >= g.places {
		return nil
	}
	g.unlink(next)
	g.start(next, now)
	return next
}

// Release ends t, whatever it was doing; a second time does nothing. The ticket returned, if any, executes from now on.
func (g *Gate) Release(t *Ticket, now time.Time) *Ticket {
	if t.state == released {
		return nil
	}
	next := g.Leave(t, now)
	t.state = released
	g.counts.InSystem--
	if t.ran {
		g.counts.Finished++
	} else {
		g.counts.Abandoned++
	}
	return next
}

// Counts is the account and the gauges.
func (g *Gate) Counts() Counts { return g.counts }

// Busy is the place-time used so far: with one place, the seconds something executed; with k, up to k a second.
func (g *Gate) Busy(now time.Time) time.Duration {
	if !g.hasEpoch {
		return 0
	}
	return g.held + time.Duration(g.counts.Executing)*now.Sub(g.epoch) + g.running
}

// Drain is how long those inside are expected to take: their number times the recent mean hold, over the places. It is 0
// until one has finished.
func (g *Gate) Drain() time.Duration {
	return g.recent * time.Duration(g.counts.InSystem) / time.Duration(g.places)
}

func (g *Gate) start(t *Ticket, now time.Time) {
	if !g.hasEpoch {
		g.epoch, g.hasEpoch = now, true
	}
	t.state, t.ran, t.since = executing, true, now
	t.waited += now.Sub(t.asked)
	g.counts.Executing++
	g.running -= now.Sub(g.epoch)
}

func (g *Gate) unlink(t *Ticket) {
	if t.prev == nil {
		g.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		g.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	g.counts.Queued--
}
