package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"loadline/internal/corpus"
	"loadline/internal/sample"
)

// Config is what both loops need.
type Config struct {
	Transport  Transport
	Texts      func(seq int) corpus.Text // pure; called from many goroutines
	Deadline   time.Duration             // of one request, from its start; required
	Grace      time.Duration             // how long after its deadline a request may take to return before it is given up; 0: 5 s
	Start      time.Time                 // zero of every time in the records; the zero Time: when the loop is made
	MaxStreams int                       // most requests in flight; 0: 100,000
	Seq        int                       // of the first request
	Seed       uint64                    // of the jitter of back-off
	KeepChunks bool                      // record every chunk of every reply

	// Echo makes the two ends of the canary's connection; nil: TCP over loopback, which is what streams suffer too. A
	// test under a fake clock gives net.Pipe: real sockets stop that clock.
	Echo func() (client, server net.Conn, err error)
}

// How a closed loop joins and backs off.
const (
	staggerUnknown = 100 * time.Millisecond // spread of new workers while no service time is known
	staggerMost    = 10 * time.Second
	staggerLeast   = 250 * time.Microsecond // between two: each may have to dial
	backoffFirst   = 20 * time.Millisecond  // doubled at each failure in a row
	backoffMost    = time.Second
	fastFailure    = 100 * time.Millisecond // a failure sooner than this is answered by backing off
)

// Closed holds a number of requests in flight: each of its workers sends the next request when its last one has ended.
// Make it with NewClosed, keep Run going, and call Hold for each rung; Hold and Idle are for one goroutine at a time.
type Closed struct {
	runner
	begun    atomic.Bool
	up, down chan struct{} // Run has begun; Run has ended
	err      error         // why Run ended; read after down
	recruits chan []recruit

	seq, want, rung atomic.Int64
	held            []bool // by worker: it has a goroutine. Guarded by mu
	backing         gauge

	batch   []sample.Request // taken from the outbox; the caller's
	next    int              // of batch: the first one not observed
	service time.Duration    // smoothed time of one request; the caller's
}

// recruit is a worker that is to begin.
type recruit struct {
	worker int
	after  time.Duration
}

// NewClosed is a closed loop that holds nothing yet. It starts nothing: Run does.
func NewClosed(cfg Config) *Closed {
	c := &Closed{up: make(chan struct{}), down: make(chan struct{}), recruits: make(chan []recruit)}
	c.init(cfg)
	c.seq.Store(int64(cfg.Seq))
	return c
}

// Run owns every goroutine of the loop, workers and canary. It returns when ctx has ended and every worker with it: nil,
// or an error when it could not begin, or when the transport kept a request past the grace.
func (c *Closed) Run(ctx context.Context) (err error) {
	if !c.begun.CompareAndSwap(false, true) {
		return errors.New("load: a closed loop runs once")
	}
	defer func() { c.err = err; close(c.down) }()
	if err := c.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, err := c.meter.start()
	if err != nil {
		return err
	}
	defer stop()
	close(c.up)

	look := time.NewTimer(c.Deadline)
	defer look.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case list := <-c.recruits:
			for _, r := range list {
				go c.work(cancel, c.join(ctx), r)
			}
		case <-look.C:
			lost, calm := c.watch()
			for _, worker := range lost { // it goes on in another lane
				go c.work(cancel, c.join(ctx), recruit{worker: worker})
			}
			look.Reset(calm)
		}
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, errUnseen) {
		err = cause
	}
	return errors.Join(err, c.wait())
}

// work is one worker: it sends request after request until it is surplus.
func (c *Closed) work(stop context.CancelCauseFunc, l *lane, r recruit) {
	defer c.leave(l)
	if r.after > 0 && !sleep(l.run, r.after) {
		return
	}
	var jitter *rand.Rand
	failures, free := 0, c.now()
	for l.run.Err() == nil && !c.surplus(r.worker) {
		head := sample.New(int(c.seq.Add(1) - 1))
		head.Worker, head.Rung, head.Intended = r.worker, int(c.rung.Load()), free
		if c.send(l, head) != completed {
			return
		}
		free = min(l.rec.End, c.now())
		if !c.out.put(l.rec) {
			stop(errUnseen)
			return
		}
		if !refused(&l.rec) {
			failures = 0
			continue
		}
		if jitter == nil {
			jitter = rand.New(rand.NewPCG(c.Seed, uint64(r.worker)))
		}
		pause := min(backoffFirst<<min(failures, 10), backoffMost)
		failures++
		c.backing.add(1, c.now())
		ok := sleep(l.run, pause/2+time.Duration(jitter.Int64N(int64(pause/2))))
		free = c.now()
		c.backing.add(-1, free)
		if !ok {
			return
		}
	}
}

// refused says whether the worker must pause before it tries again: without that, workers that are turned away at once
// would hammer the endpoint with every cycle they have.
func refused(r *sample.Request) bool {
	switch r.Outcome {
	case sample.OK:
		return false
	case sample.Rejected, sample.Throttled:
		return true
	}
	return (r.End - r.Started).Duration() < fastFailure
}

// surplus says whether the worker is one too many, and if so lets it go.
func (c *Closed) surplus(worker int) bool {
	if int64(worker) < c.want.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if int64(worker) < c.want.Load() { // wanted again meanwhile
		return false
	}
	c.held[worker] = false
	return true
}

// staff sets how many are held, and is the workers that must begin for it.
func (c *Closed) staff(n int) []recruit {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want.Store(int64(n))
	for len(c.held) < n {
		c.held = append(c.held, false)
	}
	var list []recruit
	for w := range n {
		if !c.held[w] {
			c.held[w] = true
			list = append(list, recruit{worker: w})
		}
	}
	spread := c.service
	if spread == 0 {
		spread = staggerUnknown
	}
	spread = max(min(spread, staggerMost), staggerLeast*time.Duration(len(list)))
	for i := range list {
		list[i].after = spread * time.Duration(i) / time.Duration(len(list))
	}
	return list
}

// Hold keeps n requests in flight and hands every completed one to observe, in order of completion, from the caller's
// goroutine, until observe says done or ctx ends. Workers outlive it and go on sending, so that there is no drain between
// rungs: a next Hold adds the difference, staggered over one service time, or lets the surplus end after their current
// request. A request's Rung is the one that was held when it started, so the first requests handed over after a change
// may be of the rung before; none is left out. Before a long pause, call Idle: what nobody observes is kept in memory.
//
// A worker that was refused, or failed at once, pauses before its next request, longer each time in a row, up to a
// second; the pause is reported and is not lateness. In a closed loop a request is intended when its worker became free.
//
// What the client says of itself covers the time of this call.
func (c *Closed) Hold(ctx context.Context, rung, n int, observe func(sample.Request) (done bool)) (sample.Client, error) {
	if n < 1 || n > c.MaxStreams {
		return sample.Client{}, fmt.Errorf("load: hold %d requests: wants 1 to %d", n, c.MaxStreams)
	}
	if err := c.ready(ctx); err != nil {
		return sample.Client{}, err
	}
	t := c.tally()
	c.rung.Store(int64(rung))
	backed := c.backing.area(t.since)
	if err := c.enlist(n); err != nil {
		return sample.Client{}, err
	}
	err := c.collect(ctx, func(r *sample.Request) bool {
		t.add(r)
		return observe(*r)
	}, nil)
	client := t.client()
	now := c.now()
	if d := (now - t.since).Duration().Seconds(); d > 0 {
		client.BackingOff = (c.backing.area(now) - backed) / d
	}
	return client, err
}

// Idle lets every request in flight end and hands it to observe, until nothing is in flight.
func (c *Closed) Idle(ctx context.Context, observe func(sample.Request)) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	c.staff(0)
	return c.collect(ctx, func(r *sample.Request) bool { observe(*r); return false }, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, held := range c.held {
			if held {
				return false
			}
		}
		return true
	})
}

// Rest is the requests that completed and that nobody has observed, for the log; it may be called once Run has returned.
// Requests cut short by the end of Run are in no list: they say nothing.
func (c *Closed) Rest() []sample.Request {
	return append(append([]sample.Request(nil), c.batch[c.next:]...), c.out.take(nil)...)
}

// ready waits for Run.
func (c *Closed) ready(ctx context.Context) error {
	select {
	case <-c.up:
		return nil
	case <-c.down:
		return c.over()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Closed) over() error {
	if c.err != nil {
		return c.err
	}
	return errors.New("load: the loop has ended")
}

// enlist holds n.
func (c *Closed) enlist(n int) error {
	list := c.staff(n)
	if len(list) == 0 {
		return nil
	}
	select {
	case c.recruits <- list:
		return nil
	case <-c.down:
		return c.over()
	}
}

// collect hands over completed requests until see or, when nothing is left to hand over, empty says that it is enough.
// What had completed when ctx ended is handed over first: a caller that was kept from running must not lose it.
func (c *Closed) collect(ctx context.Context, see func(*sample.Request) bool, empty func() bool) error {
	hand := func() (done bool) {
		for c.next < len(c.batch) && !done {
			r := &c.batch[c.next]
			c.next++
			c.learn(r)
			done = see(r)
		}
		return done
	}
	for {
		// Both are asked before the outbox is: whoever has left by then has put its record in before.
		over, enough := ctx.Err() != nil, empty != nil && empty()
		if hand() {
			return nil
		}
		c.batch, c.next = c.out.take(c.batch), 0
		more := len(c.batch) > 0
		if hand() {
			return nil
		}
		switch {
		case over:
			return context.Cause(ctx)
		case more:
			continue
		case enough:
			return nil
		}
		select {
		case <-c.out.wake:
		case <-ctx.Done():
		case <-c.down:
			return c.over()
		}
	}
}

// learn keeps the service time, by which new workers are spread.
func (c *Closed) learn(r *sample.Request) {
	if r.Outcome != sample.OK {
		return
	}
	took := (r.End - r.Started).Duration()
	if c.service == 0 {
		c.service = took
	}
	c.service += (took - c.service) / 16
}

// sleep waits and says whether it did so to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
