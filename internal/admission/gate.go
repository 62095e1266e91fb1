// Package admission decides who may enter a speech server and whose sound is made next. The gate bounds how many requests
// are in the system, and gives the executing places to those that wait: by playback deadline, or first come first served.
//
// A request is served piece by piece: it asks for a place, makes one piece of its sound, and asks again. Its first piece is
// due when the objective on first audio runs out; each later one some margin before its listener, who plays what was made
// at normal speed, hears silence. The earliest due piece is next, except that a first piece which would be late goes ahead
// of a stream that can still spare the time, and that a stream far ahead of its listener waits until it is needed.
//
// It is a state machine: the caller brings the time, the lock and whatever it takes to wake a request whose turn has
// come. What a place is worth, and how long it is held, is the caller's.
//
//	g := admission.New(admission.Config{Depth: 50, SLO: 300 * time.Millisecond})
//	t, err := g.Admit(now, false)              // *Saturated once 50 are inside
//	g.Queue(t, now, admission.Piece{Size: 17})
//	for n := g.Next(now); n != nil; n = g.Next(now) { wake(n) } // after every change; and again at g.Wake(now)
//	g.Heard(t, now, 1200*time.Millisecond)     // its listener has so much more to play
//	g.Leave(t, now)
//	g.Release(t, now)
package admission

import (
	"container/heap"
	"slices"
	"time"
)

// Order is whose turn is next.
type Order uint8

const (
	// Deadline serves the piece that is due first.
	Deadline Order = iota
	// FIFO serves in the order of asking. Callers hold a place for a whole request then: a lock per request.
	FIFO
)

func (o Order) String() string {
	if o == FIFO {
		return "fifo"
	}
	return "deadline"
}

// Config is a gate's settings.
type Config struct {
	Depth  int // requests in the system, queued and executing; 0: unbounded
	Places int // executing at once, at least 1
	Order  Order

	SLO    time.Duration // objective on first audio
	Margin time.Duration // a later piece is due so long before its listener hears silence: the network and the player's own buffer
	Ahead  time.Duration // a stream whose next piece is due later than this waits; 0: none waits
	MaxAge time.Duration // a first piece that waited longer has no listener any more; 0: never
	// Predict refuses who would hear the first sound later than SLO by what is queued and due now, or would bring the
	// streams' demand above utilisation, and asks again when the turn comes.
	Predict bool
}

// Full says whether a gate that holds so many requests refuses the next one, whoever it is.
func (c Config) Full(inSystem int) bool { return c.Depth > 0 && inSystem >= c.Depth }

// utilisation is the share of the places that Predict lets the streams inside demand: above it, queues of random arrivals
// grow faster than deadlines allow.
const utilisation = 0.95

// Piece is the work that a ticket asks a place for.
type Piece struct {
	// Size of the piece in the caller's unit, for instance characters. Costs are learned per unit.
	Size float64
	// Fresh says that the listener waited for text, not for the server: the piece is due like a first one.
	Fresh bool
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
	state   state
	ran     bool // has held a place
	whole   bool // nobody plays it while it is made
	alone   bool // let in with nobody else inside or listening
	playing bool // has been heard
	last    bool // what was heard last was its end
	first   bool // the piece asked for is a first one
	fresh   bool
	refused error

	arrived time.Time
	dry     time.Time // when the listener hears silence
	asked   time.Time
	since   time.Time // start of the present hold
	waited  time.Duration
	held    time.Duration
	size    float64

	due time.Time // of the piece asked for
	seq uint64    // of the asking
	at  int       // in its queue
	in  *line
}

// Waited is the time spent waiting for places so far, the wait under way excluded. The time in which a stream was far ahead
// of its listener is none.
func (t *Ticket) Waited() time.Duration { return t.waited }

// Held is the time places were held so far, the hold under way excluded.
func (t *Ticket) Held() time.Duration { return t.held }

// Refused is why the ticket that Next returned got no place: *Expired or *Saturated. It can only be released.
func (t *Ticket) Refused() error { return t.refused }

// Counts is the gate's account since it was made, and its gauges now. Admitted = InSystem + Finished + Abandoned.
type Counts struct {
	Admitted  int64
	Refused   int64 // turned away at the door
	Finished  int64 // released after it held a place
	Abandoned int64 // released before it ever held one: never executed
	Expired   int64 // of the abandoned: waited longer than MaxAge
	Shed      int64 // of the abandoned: refused when its turn came, because it would have been late

	InSystem  int // admitted and not yet released
	Queued    int // asking for a place, those included that are far ahead
	Executing int
}

// Gate is the state of admission. It is not safe for concurrent use.
type Gate struct {
	cfg    Config
	counts Counts
	seq    uint64
	eager  line // may start now: first pieces, whole replies, everything under FIFO
	paced  line // streams that are being played
	run    []*Ticket

	listening drys // of those who are gone, with sound left to play

	held      time.Duration // sum of finished holds
	running   time.Duration // sum of (epoch - start of hold) over those executing
	epoch     time.Time
	progress  time.Time // when sound was last made, a hold last ended, or the first place was taken
	costs     costs
	margin    time.Duration // of first pieces beyond what they are expected to need: see judge
	perTicket time.Duration // exponentially weighted mean of a finished ticket's holds
	finished  bool
}

// New is a gate.
func New(c Config) *Gate {
	c.Depth, c.Places = max(0, c.Depth), max(1, c.Places)
	return &Gate{cfg: c, eager: line{fifo: c.Order == FIFO}}
}

// Admit lets one request in, or returns *Saturated. Whoever is admitted must be released. whole says that the reply is
// wanted in one piece: nobody plays it while it is made, so it is never held back for being ahead.
func (g *Gate) Admit(now time.Time, whole bool) (*Ticket, error) {
	if err := g.Refuse(now); err != nil {
		return nil, err
	}
	t := &Ticket{whole: whole, alone: g.idle(now), arrived: now, at: -1}
	g.counts.Admitted++
	g.counts.InSystem++
	return t, nil
}

// Refuse is the answer to who would not be admitted now, *Saturated, counted as refused; nil for all others, who are not
// counted. It is for doors before the gate's own.
func (g *Gate) Refuse(now time.Time) error {
	full := g.cfg.Full(g.counts.InSystem)
	if full || g.cfg.Predict && !g.fits(now) {
		g.counts.Refused++
		return g.saturated(!full)
	}
	return nil
}

func (g *Gate) saturated(late bool) *Saturated {
	return &Saturated{Depth: g.counts.InSystem, Max: g.cfg.Depth, Drain: g.Drain(), Late: late}
}

// Queue asks for a place for a piece. Next says when it is had. A ticket that already waits or executes keeps what it has.
func (g *Gate) Queue(t *Ticket, now time.Time, p Piece) {
	if t.state != admitted || t.refused != nil {
		return
	}
	g.seq++
	t.state, t.asked, t.size, t.seq = queued, now, p.Size, g.seq
	t.fresh = t.playing && p.Fresh && t.dry.Add(-g.cfg.Margin).Before(now.Add(g.cfg.SLO))
	t.first = !t.playing || t.fresh
	q := &g.eager
	switch {
	case !t.playing:
		t.due = t.arrived.Add(g.cfg.SLO)
	case t.fresh:
		t.due = now.Add(g.cfg.SLO)
	case t.whole:
		t.due = t.dry
	default:
		t.due = t.dry.Add(-g.cfg.Margin)
		if g.cfg.Order == Deadline {
			q = &g.paced
		}
	}
	t.in = q
	heap.Push(q, t)
	g.counts.Queued++
}

// Next takes the ticket that executes from now on, nil if there is none or no place. A ticket whose time is over by its
// turn comes out without a place: Refused says why.
func (g *Gate) Next(now time.Time) *Ticket {
	if g.counts.Executing >= g.cfg.Places {
		return nil
	}
	t := g.pick(now)
	if t == nil {
		return nil
	}
	g.unqueue(t, now)
	if t.refused = g.hopeless(t, now); t.refused == nil {
		g.start(t, now)
	}
	return t
}

// pick is the ticket whose turn it is.
func (g *Gate) pick(now time.Time) *Ticket {
	first, stream := g.eager.head(), g.paced.head()
	if stream != nil && g.ready(stream).After(now) {
		stream = nil
	}
	switch {
	case first == nil:
		return stream
	case stream == nil || !stream.due.Before(first.due):
		return first
	}
	// The stream is due first. Its margin is there to be used where that lets a first piece be in time.
	if both := now.Add(g.costs.of(stream.size) + g.costs.of(first.size)); first.first && both.After(first.due) && !both.After(stream.dry) {
		return first
	}
	return stream
}

// ready is when a queued ticket may be served.
func (g *Gate) ready(t *Ticket) time.Time {
	if t.in == &g.paced && g.cfg.Ahead > 0 {
		if at := t.due.Add(-g.cfg.Ahead); at.After(t.asked) {
			return at
		}
	}
	return t.asked
}

// hopeless says why a first piece is not worth its cost any more.
func (g *Gate) hopeless(t *Ticket, now time.Time) error {
	if t.ran {
		return nil
	}
	age := now.Sub(t.arrived)
	if g.cfg.MaxAge > 0 && age > g.cfg.MaxAge {
		g.counts.Expired++
		return &Expired{Waited: age, Max: g.cfg.MaxAge}
	}
	need := g.need(t.size)
	if t.alone {
		need = 0
	}
	if g.cfg.Predict && age+need > g.cfg.SLO {
		g.counts.Shed++
		return g.saturated(true)
	}
	return nil
}

// Wake is when a stream that is far ahead may be served, if a place is free for it and nothing else will call Next.
func (g *Gate) Wake(now time.Time) (time.Time, bool) {
	t := g.paced.head()
	if t == nil || g.counts.Executing >= g.cfg.Places {
		return time.Time{}, false
	}
	return g.ready(t), true
}

// Hurry ends all waiting for being far ahead: a server that stops has no better use for its places.
func (g *Gate) Hurry() { g.cfg.Ahead = 0 }

// Since is the instant from which an executing ticket's piece could have been worked on, a place given.
func (g *Gate) Since(t *Ticket) time.Time { return t.asked }

// Heard says that sound of that length went to the listener, and returns how long he heard silence before it, for want of
// the server.
func (g *Gate) Heard(t *Ticket, now time.Time, sound time.Duration) (silence time.Duration) {
	g.costs.heard(sound)
	g.progress = now
	if !t.playing {
		g.judge(t, now)
	}
	switch {
	case !t.playing && t.whole:
		t.dry = t.arrived.Add(g.cfg.SLO) // due as if it were played from its objective on
	case !t.playing:
		t.dry = now
	case now.After(t.dry) && !t.whole:
		if !t.fresh {
			silence = now.Sub(t.dry)
		}
		t.dry = now
	}
	t.playing = true
	t.dry = t.dry.Add(sound)
	return silence
}

// Last says that what was heard last was the end of t: released, it still counts as a stream until that is played.
func (g *Gate) Last(t *Ticket) { t.last = true }

// Leave gives back t's place, or its turn, and keeps it in the system.
func (g *Gate) Leave(t *Ticket, now time.Time) {
	switch t.state {
	case queued:
		g.unqueue(t, now)
	case executing:
		if !t.playing {
			g.judge(t, now) // its sound is heard from here on, if at all
		}
		d := now.Sub(t.since)
		t.state = admitted
		t.held += d
		g.held += d
		g.running += t.since.Sub(g.epoch)
		g.counts.Executing--
		g.run = slices.DeleteFunc(g.run, func(r *Ticket) bool { return r == t })
		g.progress = now
		g.costs.spent(t, d)
	}
}

// Release ends t, whatever it was doing; a second time does nothing.
func (g *Gate) Release(t *Ticket, now time.Time) {
	if t.state == released {
		return
	}
	g.Leave(t, now)
	t.state = released
	g.counts.InSystem--
	if g.cfg.Predict && t.last && !t.whole {
		heap.Push(&g.listening, t.dry)
	}
	if !t.ran {
		g.counts.Abandoned++
		return
	}
	g.counts.Finished++
	if !g.finished {
		g.finished, g.perTicket = true, t.held
	} else {
		g.perTicket += (t.held - g.perTicket) / 16
	}
}

// Counts is the account and the gauges.
func (g *Gate) Counts() Counts { return g.counts }

// Busy is the place-time used so far: with one place, the seconds something executed; with k, up to k a second.
func (g *Gate) Busy(now time.Time) time.Duration {
	if g.epoch.IsZero() {
		return 0
	}
	return g.held + time.Duration(g.counts.Executing)*now.Sub(g.epoch) + g.running
}

// Drain is how long the work of those inside is expected to take: their number times the recent mean, over the places. It
// is 0 until one has finished.
func (g *Gate) Drain() time.Duration {
	return g.perTicket * time.Duration(g.counts.InSystem) / time.Duration(g.cfg.Places)
}

// Stalled is for how long places have been held without any sound made or any place given back.
func (g *Gate) Stalled(now time.Time) time.Duration {
	if g.counts.Executing == 0 {
		return 0
	}
	return now.Sub(g.progress)
}

func (g *Gate) start(t *Ticket, now time.Time) {
	if g.epoch.IsZero() {
		g.epoch = now
	}
	if g.counts.Executing == 0 {
		g.progress = now
	}
	t.state, t.ran, t.since = executing, true, now
	g.counts.Executing++
	g.running -= now.Sub(g.epoch)
	g.run = append(g.run, t)
}

// unqueue takes t out of its queue. Its asking counts from when it could be served.
func (g *Gate) unqueue(t *Ticket, now time.Time) {
	heap.Remove(t.in, t.at)
	g.counts.Queued--
	t.asked = g.ready(t)
	if now.After(t.asked) {
		t.waited += now.Sub(t.asked)
	}
	t.state, t.in = admitted, nil
}

// line is the waiting tickets, a heap by due time, or by asking.
type line struct {
	fifo bool
	heap []*Ticket
}

func (l *line) head() *Ticket {
	if len(l.heap) == 0 {
		return nil
	}
	return l.heap[0]
}

func (l *line) Len() int { return len(l.heap) }

func (l *line) Less(i, j int) bool {
	a, b := l.heap[i], l.heap[j]
	if l.fifo || a.due.Equal(b.due) {
		return a.seq < b.seq
	}
	return a.due.Before(b.due)
}

func (l *line) Swap(i, j int) {
	l.heap[i], l.heap[j] = l.heap[j], l.heap[i]
	l.heap[i].at, l.heap[j].at = i, j
}

func (l *line) Push(x any) {
	t := x.(*Ticket)
	t.at = len(l.heap)
	l.heap = append(l.heap, t)
}

func (l *line) Pop() any {
	n := len(l.heap) - 1
	t := l.heap[n]
	l.heap[n], l.heap = nil, l.heap[:n]
	t.at = -1
	return t
}
