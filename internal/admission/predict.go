package admission

import (
	"container/heap"
	"fmt"
	"time"
)

// Saturated is a refusal: the gate already holds as many requests as it may.
type Saturated struct {
	Depth int           // requests in the system, queued and executing
	Max   int           // the bound; 0: there is none
	Drain time.Duration // how long the work of those inside is expected to take
	Late  bool          // refused by prediction: below the bound, but its first sound would have come too late
}

func (s *Saturated) Error() string {
	if s.Late {
		return fmt.Sprintf("queue saturated: with %d requests inside, the first sound would come too late", s.Depth)
	}
	return fmt.Sprintf("queue saturated: %d requests of at most %d are queued or executing", s.Depth, s.Max)
}

// Expired is a request that waited for its first piece until nobody listens any more.
type Expired struct {
	Waited, Max time.Duration
}

func (e *Expired) Error() string {
	return fmt.Sprintf("waited %.1f s for its place, more than the %.1f s after which nobody listens any more", e.Waited.Seconds(), e.Max.Seconds())
}

// costs is what pieces have cost of late: a line of cost over size by least squares, with exponentially fading weights.
type costs struct {
	n            int
	x, y, xx, xy float64 // weighted means of size, cost in seconds, and their products
	sound        float64 // weighted mean of a piece's seconds of sound
	sounds       int
	first        float64 // weighted mean size of first pieces
	firsts       int
}

const memory = 64 // pieces, about

func (c *costs) spent(t *Ticket, d time.Duration) {
	if t.first {
		c.firsts++
		c.first += (t.size - c.first) / float64(min(c.firsts, memory))
	}
	c.n++
	w := 1 / float64(min(c.n, memory))
	x, y := t.size, d.Seconds()
	c.x += w * (x - c.x)
	c.y += w * (y - c.y)
	c.xx += w * (x*x - c.xx)
	c.xy += w * (x*y - c.xy)
}

func (c *costs) heard(sound time.Duration) {
	c.sounds++
	c.sound += (sound.Seconds() - c.sound) / float64(min(c.sounds, memory))
}

// of is the expected cost of a piece.
func (c *costs) of(size float64) time.Duration {
	slope := 0.0
	if v := c.xx - c.x*c.x; v > 1e-9*c.xx {
		slope = max(0, (c.xy-c.x*c.y)/v)
	}
	return time.Duration(max(0, c.y+slope*(size-c.x)) * float64(time.Second))
}

// demand is the share of a place that one stream takes while it is played.
func (c *costs) demand() float64 {
	if c.sound == 0 {
		return 0
	}
	return c.y / c.sound
}

const (
	tolerated = 0.005 // share of first pieces that may come late: half of the 1 % that is promised
	// widest is the most that the margin takes of what the objective leaves beside the expected cost, so that a gate which is
	// hardly used is never shut by what it saw when it was full.
	widest = 0.75
	// steps in an objective: one late piece widens the margin by one, and 200 in time narrow it by one.
	steps = 20
)

// need is what a first piece of that size has to be given: its expected cost, and the margin.
func (g *Gate) need(size float64) time.Duration {
	cost := g.costs.of(size)
	return cost + min(g.margin, g.bound(cost))
}

func (g *Gate) bound(cost time.Duration) time.Duration {
	return time.Duration(widest * float64(max(0, g.cfg.SLO-cost)))
}

// judge moves the margin by whether t heard its first sound in time. In the long run the share of the late is tolerated,
// whatever the law of the costs and however it changes, unless the margin is at its bound (Gibbs and Candès, Adaptive
// conformal inference under distribution shift, 2021; on the quantile itself: Angelopoulos, Candès and Tibshirani,
// Conformal PID control, 2023). Where few wait, few are late, and there is no margin. A piece that alone takes longer than
// the objective is no fault of the waiting: no margin would have helped it.
func (g *Gate) judge(t *Ticket, now time.Time) {
	if !g.cfg.Predict || t.state != executing {
		return
	}
	step := float64(g.cfg.SLO) / steps
	late := now.Sub(t.arrived) > g.cfg.SLO && now.Sub(t.since) <= g.cfg.SLO
	if late {
		g.margin += time.Duration((1 - tolerated) * step)
	} else {
		g.margin -= time.Duration(tolerated * step)
	}
	g.margin = min(max(0, g.margin), g.bound(g.costs.of(t.size)))
}

// idle says that nobody is inside, and nobody listens to what was made for him.
func (g *Gate) idle(now time.Time) bool {
	for len(g.listening) > 0 && !g.listening[0].After(now) {
		heap.Pop(&g.listening)
	}
	return g.counts.InSystem+len(g.listening) == 0
}

// fits says whether a request that comes now would hear its first sound in time, and leave the others theirs. An idle gate
// takes whoever comes: if it took nobody, nothing would teach it that pieces no longer cost what they did.
func (g *Gate) fits(now time.Time) bool {
	if g.idle(now) {
		return true
	}
	// Work for a stream is done ahead of its listener and must be paid for all the same: it counts until it was played.
	places := float64(g.cfg.Places)
	if float64(g.counts.InSystem+len(g.listening)+1)*g.costs.demand() > utilisation*places {
		return false
	}
	by := now.Add(g.cfg.SLO)
	var work time.Duration
	for _, t := range g.run {
		work += max(0, g.costs.of(t.size)-now.Sub(t.since))
	}
	for _, q := range []*line{&g.eager, &g.paced} {
		for _, t := range q.heap {
			if !t.due.After(by) {
				work += g.costs.of(t.size)
			}
		}
	}
	return time.Duration(float64(work)/places)+g.need(g.costs.first) <= g.cfg.SLO
}

// drys is a heap of instants.
type drys []time.Time

func (d drys) Len() int           { return len(d) }
func (d drys) Less(i, j int) bool { return d[i].Before(d[j]) }
func (d drys) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *drys) Push(x any)        { *d = append(*d, x.(time.Time)) }

func (d *drys) Pop() any {
	n := len(*d) - 1
	t := (*d)[n]
	*d = (*d)[:n]
	return t
}
