package main

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"loadline/bench/listener"
	"loadline/internal/admission"
	"loadline/internal/speech"
)

// accelerator works on one piece at a time: cost milliseconds and rtf seconds a second of sound. A character lasts perChar.
type accelerator struct {
	cost    time.Duration
	rtf     float64
	perChar float64 // seconds
}

// request is one text being served.
type request struct {
	user    int
	t       *admission.Ticket
	pieces  []int // characters each, still to be made
	arrived time.Duration
	first   time.Duration // after arrival
	dry     time.Duration // when its listener has played what there is
	silence time.Duration // heard in the middle
}

// result counts what listeners of one run had.
type result struct {
	first    []time.Duration // of those served
	starved  int             // of those served: more than listener.Patience of silence in all
	good     int             // first sound within the objective, and not starved
	offered  int
	refused  int
	busy     float64 // share of the time
	duration time.Duration
}

const warmUp = 100 * time.Second

// sim is a server on a virtual clock: the gate of package admission decides, everything else is arithmetic.
type sim struct {
	acc   accelerator
	gate  *admission.Gate
	fifo  bool
	slo   time.Duration
	rng   *rand.Rand
	now   time.Duration
	until time.Duration
	queue events
	wakes time.Duration // the earliest wake-up under way
	run   map[*admission.Ticket]*request
	out   result
	again func(user int) // after a request of a user ended
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events struct {
	list []event
	seq  int
}

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, j int) bool {
	a, b := e.list[i], e.list[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}
func (e *events) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *events) Push(x any)    { e.list = append(e.list, x.(event)) }
func (e *events) Pop() any {
	x := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return x
}

func (s *sim) at(at time.Duration, do func()) {
	s.queue.seq++
	heap.Push(&s.queue, event{at, s.queue.seq, do})
}

func (s *sim) clock() time.Time { return time.Unix(0, 0).Add(s.now) }

func newSim(acc accelerator, c admission.Config, seed uint64, until time.Duration) *sim {
	return &sim{acc: acc, gate: admission.New(c), fifo: c.Order == admission.FIFO, slo: c.SLO, rng: rand.New(rand.NewPCG(seed, 8)),
		until: until, run: make(map[*admission.Ticket]*request), wakes: -1}
}

// play runs to the end.
func (s *sim) play() result {
	for s.queue.Len() > 0 {
		e := heap.Pop(&s.queue).(event)
		if e.at > s.until {
			break
		}
		s.now = e.at
		e.do()
	}
	s.now = s.until
	s.out.busy = s.gate.Busy(s.clock()).Seconds() / s.until.Seconds()
	s.out.duration = s.until - warmUp
	return s.out
}

// text is a text's pieces, cut as the server cuts, in characters.
func (s *sim) text() []int {
	chars := func(d float64) int { return int(math.Round(d / s.acc.perChar)) }
	limits := speech.Limits{First: chars(1.2), Second: chars(2.4)}
	var pieces []int
	for _, sentence := range speech.Sentences(words(s.rng, s.acc.perChar)) {
		for _, p := range speech.Pieces(sentence, limits) {
			pieces = append(pieces, utf8.RuneCountInString(p))
		}
		limits = speech.Limits{}
	}
	return pieces
}

// words is a text of 3 to 8 sentences, each lognormal with a median of 4 s, between 1 and 12 s.
func words(rng *rand.Rand, perChar float64) string {
	var b strings.Builder
	for range 3 + rng.IntN(6) {
		d := math.Min(12, math.Max(1, 4*math.Exp(0.5*rng.NormFloat64())))
		word := "B" // a sentence begins with a capital
		for n := int(math.Round(d/perChar)) - 1; n > 0; word = "" {
			w := min(n, 2+rng.IntN(8))
			if n-w < 3 {
				w = n
			}
			b.WriteString(word + strings.Repeat("a", w-len(word)))
			switch n -= w + 1; {
			case n <= 0:
				b.WriteString(". ")
			case rng.IntN(7) == 0:
				b.WriteString(", ")
				n--
			default:
				b.WriteByte(' ')
			}
		}
	}
	return strings.TrimSpace(b.String())
}

func (s *sim) arrive(user int) {
	counts := s.now >= warmUp
	if counts {
		s.out.offered++
	}
	t, err := s.gate.Admit(s.clock(), false)
	if err != nil {
		if counts {
			s.out.refused++
		}
		return
	}
	r := &request{user: user, t: t, pieces: s.text(), arrived: s.now}
	s.run[t] = r
	s.ask(r)
	s.pump()
}

func (s *sim) ask(r *request) {
	s.gate.Queue(r.t, s.clock(), admission.Piece{Size: float64(r.pieces[0])})
}

// pump starts whoever has the place, and wakes the gate when it wants to.
func (s *sim) pump() {
	for t := s.gate.Next(s.clock()); t != nil; t = s.gate.Next(s.clock()) {
		r := s.run[t]
		if t.Refused() != nil {
			s.gate.Release(t, s.clock())
			delete(s.run, t)
			if r.arrived >= warmUp {
				s.out.refused++
			}
			continue
		}
		s.work(r)
	}
	if at, ok := s.gate.Wake(s.clock()); ok {
		d := max(s.now, at.Sub(time.Unix(0, 0)))
		if s.wakes < s.now || d < s.wakes {
			s.wakes = d
			s.at(d, s.pump)
		}
	}
}

func (s *sim) work(r *request) {
	sound := float64(r.pieces[0]) * s.acc.perChar
	s.at(s.now+s.acc.cost+time.Duration(s.acc.rtf*sound*1e9), func() { s.made(r, time.Duration(sound*1e9)) })
}

func (s *sim) made(r *request, sound time.Duration) {
	r.silence += s.gate.Heard(r.t, s.clock(), sound)
	if r.first == 0 {
		r.first, r.dry = s.now-r.arrived, s.now
	}
	r.dry = max(r.dry, s.now) + sound
	if r.pieces = r.pieces[1:]; len(r.pieces) > 0 && s.fifo {
		s.work(r) // a lock for the whole request
		return
	}
	s.gate.Leave(r.t, s.clock())
	if len(r.pieces) > 0 {
		s.ask(r)
	} else {
		s.gate.Last(r.t)
		s.gate.Release(r.t, s.clock())
		delete(s.run, r.t)
		s.end(r)
	}
	s.pump()
}

func (s *sim) end(r *request) {
	if r.arrived >= warmUp {
		s.out.first = append(s.out.first, r.first)
		starved := r.silence > listener.Patience
		if starved {
			s.out.starved++
		}
		if r.first <= s.slo && !starved {
			s.out.good++
		}
	}
	if s.again != nil {
		s.at(r.dry, func() { s.again(r.user) })
	}
}

// closed is n listeners who play to the end, think for 3 s on average, and ask again.
func closed(acc accelerator, c admission.Config, n int, seed uint64, until time.Duration) result {
	s := newSim(acc, c, seed, until)
	think := func(user int) {
		s.at(s.now+time.Duration(s.rng.ExpFloat64()*3e9), func() { s.arrive(user) })
	}
	s.again = think
	for u := range n {
		s.at(time.Duration(s.rng.Float64()*30e9), func() { s.arrive(u) })
	}
	return s.play()
}

// open is arrivals that come whatever happens, rate a second.
func open(acc accelerator, c admission.Config, rate float64, seed uint64, until time.Duration) result {
	s := newSim(acc, c, seed, until)
	var next func()
	next = func() {
		s.arrive(0)
		s.at(s.now+time.Duration(s.rng.ExpFloat64()/rate*1e9), next)
	}
	s.at(0, next)
	return s.play()
}
