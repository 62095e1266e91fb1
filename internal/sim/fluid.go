package sim

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"loadline/internal/arrival"
	"loadline/internal/autoscale"
)

// Fluid plays the mean of the requests: each instance holds, completes and refuses what one in steady state would that
// holds as much. What chance adds to what alarms read is drawn. It does not know of callers' patience, nor of a gate that
// predicts or expires: that is an error, and Requests plays it.
func Fluid(c Config) (Result, error) {
	if c.Retry.Patience > 0 || c.Gate.Predict || c.Gate.MaxAge > 0 {
		return Result{}, errors.New("simulation: callers who give up and gates that predict or expire are played request by request only: use mode requests")
	}
	w, err := newWorld(c)
	if err != nil {
		return Result{}, err
	}
	f, err := newFluid(w)
	if err != nil {
		return Result{}, err
	}
	w.play = f
	if err := w.run(); err != nil {
		return Result{}, err
	}
	if f.err != nil {
		return Result{}, f.err
	}
	return w.result(ModeFluid), nil
}

func newFluid(w *world) (*fluid, error) {
	f := &fluid{w: w, slot: -1, many: map[*node]float64{}, later: map[int]*[mostAttempts + 1]float64{},
		lor: w.c.Routing == autoscale.LeastOutstanding, load: load{p: w.c.Load}, noise: rand.New(rand.NewPCG(w.c.Seed, causeNoise))}
	return f, f.use(1)
}

// cohort is instances that hold the same. Where requests go to the one that holds the fewest there is only one, and its
// state is that of all together.
type cohort struct {
	ids []string
	state
}

// ebb is an instance that takes no more traffic.
type ebb struct {
	id   string
	held float64
}

type fluid struct {
	w       *world
	lor     bool
	flows   *flows
	load    load
	noise   *rand.Rand
	cohorts []cohort
	ebbing  []ebb

	t          tally
	came       float64
	area, told float64 // as of requests
	untold     float64
	served     float64
	allowed    float64
	slot       int                       // the second under way
	again      [mostAttempts + 1]float64 // by attempt: those that come again in it
	later      map[int]*[mostAttempts + 1]float64
	heard      []*node // at which requests were heard since the last point
	many       map[*node]float64
	err        error
}

// use takes the curves of a server slowed by a factor.
func (f *fluid) use(factor float64) error {
	curves := f.w.c.Server.flow // of all that are played with this server: the curves of a large pool take longer than the play
	if factor != 1 {
		curves = func() (*flows, error) { return newFlows(f.w.c.Server, factor) }
	}
	flows, err := curves()
	if err != nil {
		return err
	}
	f.flows = flows
	for i := range f.cohorts {
		f.cohorts[i].state = f.find(&f.cohorts[i])
	}
	return nil
}

// find is a cohort's state after the curves have changed.
func (f *fluid) find(c *cohort) state {
	if !f.lor {
		return f.flows.one.find(c.held)
	}
	curve, of := f.pooled(len(c.ids))
	if curve == nil {
		return c.state
	}
	s := curve.find(c.held * float64(of) / float64(max(1, len(c.ids))))
	s.held = c.held
	return s
}

func (f *fluid) pooled(n int) (*curve, int) {
	if n == 0 {
		return nil, 0
	}
	c, of, err := f.flows.pool(n)
	if err != nil {
		f.err = err
		return nil, 0
	}
	return c, of
}

func (f *fluid) slow(factor float64) {
	if err := f.use(factor); err != nil {
		f.err = err
	}
}

func (f *fluid) add(id string) {
	switch {
	case len(f.cohorts) > 0 && (f.lor || f.cohorts[len(f.cohorts)-1].held == 0):
		c := &f.cohorts[len(f.cohorts)-1]
		c.ids = append(c.ids, id)
		c.state = f.find(c)
	default:
		c := cohort{ids: []string{id}}
		c.state = f.find(&c)
		f.cohorts = append(f.cohorts, c)
	}
}

// take takes an instance out of its cohort, with what it holds.
func (f *fluid) take(id string) (held float64, found bool) {
	for n := len(f.cohorts) - 1; n >= 0; n-- { // those that came last go first
		c := &f.cohorts[n]
		at := len(c.ids) - 1
		for at >= 0 && c.ids[at] != id {
			at--
		}
		if at < 0 {
			continue
		}
		held = c.held
		if f.lor {
			held /= float64(len(c.ids))
			c.held -= held
		}
		c.ids = slices.Delete(c.ids, at, at+1)
		if len(c.ids) == 0 {
			f.cohorts = slices.Delete(f.cohorts, n, n+1)
		} else {
			c.state = f.find(c)
		}
		return held, true
	}
	return 0, false
}

func (f *fluid) drain(id string) {
	held, _ := f.take(id)
	f.ebbing = append(f.ebbing, ebb{id, held})
}

func (f *fluid) drop(id string) {
	held, found := f.take(id)
	if !found {
		at := slices.IndexFunc(f.ebbing, func(e ebb) bool { return e.id == id })
		if at < 0 {
			return
		}
		held = f.ebbing[at].held
		f.ebbing = slices.Delete(f.ebbing, at, at+1)
	}
	f.t.cut += held
	f.fail(1, held, f.w.now.Seconds())
}

func (f *fluid) emptied() []string {
	var ids []string
	f.ebbing = slices.DeleteFunc(f.ebbing, func(e ebb) bool {
		if e.held <= 0 {
			ids = append(ids, e.id)
		}
		return e.held <= 0
	})
	return ids
}

// step is the longest part that may be played at once.
func (f *fluid) step() time.Duration { return time.Minute }

// stride is the longest step of the equations.
const stride = 1.0

func (f *fluid) play(from, to float64) {
	f.came = 0
	n := max(1, math.Ceil((to-from)/stride-1e-9))
	for k := range int(n) {
		a, b := from+(to-from)*float64(k)/n, from+(to-from)*float64(k+1)/n
		if b > a {
			f.stride(a, b-a)
		}
	}
}

func (f *fluid) stride(at, seconds float64) {
	fresh := f.load.until(at+seconds) / seconds
	f.t.offered += fresh * seconds
	f.allowed += f.w.c.Retry.Budget * fresh * seconds
	rates := [mostAttempts + 1]float64{1: fresh}
	if slot := int(at); slot != f.slot {
		f.slot, f.again = slot, [mostAttempts + 1]float64{}
		if r := f.later[slot]; r != nil {
			f.again = *r
			delete(f.later, slot)
		}
	}
	copy(rates[2:], f.again[2:])
	lambda := 0.0
	for _, r := range rates {
		lambda += r
	}
	live := 0
	for i := range f.cohorts {
		live += len(f.cohorts[i].ids)
	}
	refused := 0.0
	if live == 0 {
		refused = lambda * seconds
		f.t.unserved += refused
	} else {
		f.came += lambda * seconds
		for i := range f.cohorts {
			refused += f.pass(&f.cohorts[i], lambda, live, seconds)
		}
		f.t.shed += refused
		f.merge()
	}
	if lambda > 0 && refused > 0 {
		for k, r := range rates {
			if r > 0 {
				f.fail(k, refused*r/lambda, at)
			}
		}
	}
	for i := range f.ebbing {
		e := &f.ebbing[i]
		served := math.Min(e.held, seconds*f.w.c.Server.x.Rate(math.Max(1, e.held))/f.flows.slowed)
		if f.w.c.Server.places > 1 && e.held > 0 { // each goes its own way to its end
			served = e.held * -math.Expm1(-seconds*f.w.c.Server.share(int(math.Max(1, math.Ceil(e.held))))/f.flows.slowed)
			if e.held-served < 0.05 {
				served = e.held
			}
		}
		f.area += (e.held - served/2) * seconds
		f.served += served
		f.t.completed += served
		e.held -= served
	}
}

// pass lets a cohort's share of the arrivals through it.
func (f *fluid) pass(c *cohort, lambda float64, live int, seconds float64) (refused float64) {
	n := float64(len(c.ids))
	curve, scale, each := f.flows.one, n, lambda/float64(live)
	unit := 1.0 // what a cohort's held counts: one instance, or all together
	if f.lor {
		var of int
		if curve, of = f.pooled(len(c.ids)); curve == nil {
			return 0
		}
		scale = n / float64(of)
		unit, each = scale, lambda/scale
	}
	before := c.state
	before.held /= unit
	to, served, turned := curve.step(before, each, seconds)
	if most := float64(f.w.c.Server.depth) * n / scale; to.over && most > 0 && to.held > most {
		turned += to.held - most
		to.held = most
	}
	f.area += scale * to.held * seconds
	done := served * scale
	f.served += done
	f.t.completed += done
	late, wait := curve.late(to)
	f.t.late += done * late
	if to.over {
		f.t.first.observe(wait, done)
	} else {
		a, b := curve.nodesOf(to)
		f.hear(a, done*(1-to.share))
		f.hear(b, done*to.share)
	}
	c.state = to
	c.held *= unit
	return turned * scale
}

// hear notes that so many requests were heard as those of a node are.
func (f *fluid) hear(n *node, many float64) {
	if many == 0 {
		return
	}
	if _, known := f.many[n]; !known {
		f.heard = append(f.heard, n)
	}
	f.many[n] += many
}

// merge makes one cohort of neighbours that hold the same.
func (f *fluid) merge() {
	for i := len(f.cohorts) - 1; i > 0; i-- {
		a, b := &f.cohorts[i-1], &f.cohorts[i]
		if d := math.Abs(a.held - b.held); d <= 0.01*math.Max(a.held, b.held) || d < 0.002 {
			na, nb := float64(len(a.ids)), float64(len(b.ids))
			a.held = (a.held*na + b.held*nb) / (na + nb)
			a.ids = append(a.ids, b.ids...)
			a.state = f.find(a)
			f.cohorts = slices.Delete(f.cohorts, i, i+1)
		}
	}
}

// fail sends attempts home, or to come again.
func (f *fluid) fail(attempt int, n, at float64) {
	r := &f.w.c.Retry
	if attempt >= r.Attempts {
		f.t.failed += n
		return
	}
	back := n
	if r.Budget > 0 {
		back = math.Min(n, math.Max(0, f.allowed))
		f.allowed -= back
		f.t.failed += n - back
	}
	f.t.retried += back
	long := min(r.Backoff<<(attempt-1), r.most()).Seconds()
	from, to := int(at+0.5*long)+1, int(at+long)+1
	for slot := from; slot <= to; slot++ {
		if f.later[slot] == nil {
			f.later[slot] = &[mostAttempts + 1]float64{}
		}
		f.later[slot][attempt+1] += back / float64(to-from+1)
	}
}

func (f *fluid) arrived() float64 {
	if f.came <= 0 || f.w.c.Even {
		return f.came
	}
	return count(f.noise, f.came)
}

// count is how many come when so many are expected, of a Poisson process.
func count(rng *rand.Rand, mean float64) float64 {
	if mean > 30 { // the normal law is near enough
		return math.Max(0, math.Round(mean+math.Sqrt(mean)*rng.NormFloat64()))
	}
	n := -1.0
	for t := 0.0; t <= mean; n++ {
		t += rng.ExpFloat64()
	}
	return n
}

func (f *fluid) read(seconds float64) (level, float64) {
	l := level{}
	held := 0.0
	for i := range f.cohorts {
		c := &f.cohorts[i]
		n := len(c.ids)
		l.n += float64(n)
		u := f.noise.Float64()
		if f.lor {
			held += c.held
			curve, of := f.pooled(n)
			if curve == nil {
				continue
			}
			s := c.state
			s.held *= float64(of) / float64(n)
			l.most = math.Max(l.most, math.Ceil(curve.peak(s, u, seconds, 1)/float64(of)-1e-9))
			continue
		}
		held += c.held * float64(n)
		l.most = math.Max(l.most, f.flows.one.peak(c.state, u, seconds, n))
	}
	for _, e := range f.ebbing {
		l.n++
		held += e.held
		l.most = math.Max(l.most, math.Ceil(e.held))
	}
	if l.n > 0 {
		l.mean = f.area / seconds / l.n
		if l.least = math.Floor(l.mean - 3*math.Sqrt(l.mean)); l.least < 0 {
			l.least = 0
		}
		if f.w.c.Unknowns.Across == autoscale.AcrossMean {
			// The mean over n instances strays as the whole does, by about the root of what is held.
			stray := math.Sqrt(math.Max(0, held)) / l.n
			l.most, l.least, l.n = math.Min(l.most, l.mean+1.5*stray), math.Max(0, l.mean-1.5*stray), 1
		}
	}
	f.untold += f.area - f.told
	f.area, f.told = 0, 0
	served := f.served
	f.served = 0
	return l, served
}

func (f *fluid) flush(t *tally) float64 {
	held := f.untold + f.area - f.told
	f.untold, f.told = 0, f.area
	for _, n := range f.heard {
		n.hear(&f.t.first, f.many[n])
	}
	clear(f.many)
	f.heard = f.heard[:0]
	t.add(&f.t)
	f.t = tally{}
	return held
}

// load is a profile that is read from its start on.
type load struct {
	p      arrival.Profile
	i      int
	passed float64 // up to the point i
	told   float64
}

// until is the expected arrivals since it was last asked, up to an instant.
func (l *load) until(at float64) float64 {
	sum := l.passed
	for l.i+1 < len(l.p) {
		a, b := l.p[l.i], l.p[l.i+1]
		from, long := a.At.Seconds(), (b.At - a.At).Seconds()
		if at < from+long {
			if t := at - from; t > 0 {
				sum += t * (a.Rate + (b.Rate-a.Rate)*t/long/2)
			}
			break
		}
		l.passed += long * (a.Rate + b.Rate) / 2
		sum = l.passed
		l.i++
	}
	d := sum - l.told
	l.told = sum
	return math.Max(0, d)
}
