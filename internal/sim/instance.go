package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"loadline/internal/admission"
)

// job is one attempt inside an instance.
type job struct {
	arrived float64
	finish  float64 // by the instance's clock of service
	first   float64 // when it is heard; below 0: at its end
	attempt uint8
	gone    bool // its caller has given up, and the server has not noticed
	ticket  *admission.Ticket
}

// instance is one instance's queue. Its clock of service runs at the rate at which each of those that execute is served:
// a job ends when the clock has run on by the work that was drawn for it.
type instance struct {
	id      string
	rng     *rand.Rand
	n       int // held
	exec    []job
	wait    []job // from head on; the first is next
	head    int
	giving  int // of wait: the first whose caller still waits
	clock   float64
	at      float64 // of clock
	rate    float64
	next    float64 // when it ends a job, or a caller gives up; +Inf
	leaving bool
	gate    *admission.Gate // nil: its depth alone decides

	in []entry // of the part that is played

	// The concurrency of the period under way.
	area        float64 // requests × seconds since it was last read
	work        float64 // services' worth of work done, likewise
	areaAt      float64
	most, least int

	group *group
	index int // among those that take traffic
	held  int // what the pool knows it to hold
	level int // place among those that hold as many
	order int // place in the heap of what happens next
}

// entry is an attempt that comes to an instance.
type entry struct {
	at      float64
	attempt uint8
}

// group is instances that are played one after the other, and what became of their requests.
type group struct {
	t      tally
	failed []entry // attempts that came to nothing, and when
}

// touch brings the account of the level up to now.
func (i *instance) touch(now float64) {
	i.area += float64(i.n) * (now - i.areaAt)
	i.areaAt = now
}

func (i *instance) set(n int) {
	i.n = n
	i.most, i.least = max(i.most, n), min(i.least, n)
}

// run lets the clock of service run on to now.
func (i *instance) run(now float64) {
	done := (now - i.at) * i.rate
	i.clock += done
	i.work += done * float64(len(i.exec))
	i.at = now
}

// plan finds out what happens next, after the number of jobs has changed.
func (p *requests) plan(i *instance) {
	i.next = math.Inf(1)
	if len(i.exec) > 0 {
		if i.n < len(p.shares) {
			i.rate = p.shares[i.n]
		} else {
			i.rate = p.share(i.n)
		}
		i.next = i.at + max(0, i.exec[0].finish-i.clock)/i.rate
	} else {
		i.clock = 0
	}
	if p.patience > 0 && i.giving < len(i.wait) {
		i.next = min(i.next, i.wait[i.giving].arrived+p.patience)
	}
}

// arrive is one attempt that comes to an instance.
func (p *requests) arrive(i *instance, e entry, g *group) {
	i.touch(e.at)
	j := job{arrived: e.at, attempt: e.attempt}
	if i.gate != nil {
		t, err := i.gate.Admit(p.clockTime(e.at), true)
		if err != nil {
			g.t.shed++
			g.failed = append(g.failed, e)
			return
		}
		i.gate.Queue(t, p.clockTime(e.at), admission.Piece{Size: 1})
		j.ticket = t
	} else if p.gate.Full(i.n) {
		g.t.shed++
		g.failed = append(g.failed, e)
		return
	}
	i.run(e.at)
	i.set(i.n + 1)
	if i.gate == nil && len(i.exec) < p.places {
		p.start(i, j, e.at)
	} else {
		i.wait = append(i.wait, j)
		p.fill(i, e.at, g)
	}
	p.plan(i)
}

// start gives a job a place.
func (p *requests) start(i *instance, j job, now float64) {
	work := p.law.draw(i.rng)
	j.finish = i.clock + work
	j.first = -1
	if p.first < 1 {
		rate := p.share(max(1, i.n))
		j.first = now + p.first*work/rate
	}
	at := len(i.exec)
	i.exec = append(i.exec, j)
	for at > 0 && i.exec[at-1].finish > j.finish {
		i.exec[at] = i.exec[at-1]
		at--
	}
	i.exec[at] = j
}

// fill gives the free places to those that wait.
func (p *requests) fill(i *instance, now float64, g *group) {
	for i.head < len(i.wait) && len(i.exec) < p.places {
		j := i.wait[i.head]
		if i.gate != nil {
			t := i.gate.Next(p.clockTime(now))
			if t == nil {
				break
			}
			// Pieces of one size and one objective fall due in the order of their coming, whatever the order is called.
			if t != j.ticket {
				panic("the gate's order is not that of arrival")
			}
		}
		i.head++
		i.giving = max(i.giving, i.head)
		if j.ticket != nil && j.ticket.Refused() != nil {
			i.gate.Release(j.ticket, p.clockTime(now))
			i.set(i.n - 1)
			g.t.shed++
			g.failed = append(g.failed, entry{now, j.attempt})
			continue
		}
		p.start(i, j, now)
	}
	if i.head == len(i.wait) {
		i.wait, i.head, i.giving = i.wait[:0], 0, 0
	} else if i.head > 1024 && i.head > len(i.wait)/2 {
		i.wait = slices.Delete(i.wait, 0, i.head)
		i.giving -= i.head
		i.head = 0
	}
}

// happen is what happens next to an instance.
func (p *requests) happen(i *instance, g *group) {
	now := i.next
	i.touch(now)
	i.run(now)
	if p.patience > 0 && i.giving < len(i.wait) && i.wait[i.giving].arrived+p.patience <= now {
		p.giveUp(i, now, g)
		p.plan(i)
		return
	}
	j := i.exec[0]
	copy(i.exec, i.exec[1:])
	i.exec = i.exec[:len(i.exec)-1]
	i.set(i.n - 1)
	g.done(p, j, now)
	if i.gate != nil {
		i.gate.Release(j.ticket, p.clockTime(now))
	}
	if i.head < len(i.wait) {
		p.fill(i, now, g)
	}
	p.plan(i)
}

// done is the account of a job that has ended.
func (g *group) done(p *requests, j job, now float64) {
	if j.gone {
		g.t.wasted++
		return
	}
	heard := now
	if j.first >= 0 {
		heard = min(j.first, now)
	}
	g.t.completed++
	if heard-j.arrived > p.slo {
		g.t.late++
	}
	g.t.first.observe(heard-j.arrived, 1)
}

// giveUp is the caller of the first one that still waits, who goes.
func (p *requests) giveUp(i *instance, now float64, g *group) {
	j := &i.wait[i.giving]
	g.t.abandoned++
	g.failed = append(g.failed, entry{now, j.attempt})
	if p.unnoticed {
		j.gone = true
		i.giving++
		return
	}
	// Those that gave up before it have left: it is the first.
	if i.gate != nil {
		i.gate.Release(j.ticket, p.clockTime(now))
	}
	i.head++
	i.giving = i.head
	i.set(i.n - 1)
	if i.head == len(i.wait) {
		i.wait, i.head, i.giving = i.wait[:0], 0, 0
	}
}

// cut ends everything an instance holds.
func (p *requests) cut(i *instance, now float64, g *group) {
	i.touch(now)
	i.run(now)
	for _, list := range [][]job{i.exec, i.wait[i.head:]} {
		for _, j := range list {
			if j.gone {
				g.t.wasted++
				continue
			}
			g.t.cut++
			g.failed = append(g.failed, entry{now, j.attempt})
		}
	}
	i.exec, i.wait, i.head, i.giving, i.n = nil, nil, 0, 0, 0
}

// clockTime is a time for the gate.
func (p *requests) clockTime(s float64) time.Time {
	return p.w.start.Add(time.Duration(s * float64(time.Second)))
}
