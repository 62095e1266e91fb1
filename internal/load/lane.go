package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"loadline/internal/sample"
)

// Defaults and limits of a loop.
const (
	graceDefault = 5 * time.Second
	mostDefault  = 100_000
	mostUnseen   = 1 << 20 // completed requests that nobody has observed
)

var errUnseen = fmt.Errorf("load: %d requests have completed and nobody observes them: call Idle before a long pause", mostUnseen)

// runner is what the closed and the open loop share: lanes that carry requests, the queue of completed ones, and the
// meter of the client itself.
type runner struct {
	Config
	out   outbox
	meter meter

	mu    sync.Mutex
	lanes map[*lane]struct{} // one for each goroutine that sends
	quiet chan struct{}      // closed when the last lane has ended, once closing
}

func (r *runner) init(cfg Config) {
	if cfg.Start.IsZero() {
		cfg.Start = time.Now()
	}
	if cfg.Grace <= 0 {
		cfg.Grace = graceDefault
	}
	if cfg.MaxStreams <= 0 {
		cfg.MaxStreams = mostDefault
	}
	if cfg.Echo == nil {
		cfg.Echo = loopback
	}
	r.Config, r.lanes = cfg, map[*lane]struct{}{}
	r.out.wake = make(chan struct{}, 1)
	r.meter.echo = cfg.Echo
}

func (r *runner) check() error {
	switch {
	case r.Transport == nil:
		return errors.New("load: no transport")
	case r.Texts == nil:
		return errors.New("load: no texts")
	case r.Deadline <= 0:
		return fmt.Errorf("load: deadline %v: every request wants one above 0, so that none can hang the run", r.Deadline)
	}
	return nil
}

// now is the time in the records.
func (r *runner) now() sample.Nanos { return sample.Since(time.Since(r.Start)) }

// lane is the place of one goroutine that sends: what it has in flight, so that others can end it at its deadline, and
// give it up when the transport does not.
type lane struct {
	run context.Context
	rec sample.Request // the goroutine's own: what the transport fills in

	mu      sync.Mutex
	head    sample.Request // the request in flight, as it was dispatched
	busy    bool
	givenUp bool
	patience
}

// patience is the context of a lane's requests, one for all of them until one outlives its deadline. A context with a
// timer for each request would cost more than the rest of what is done here for it.
type patience struct {
	context.Context
	end context.CancelCauseFunc
}

// Err is that of a deadline when one has passed, whatever the standard library's cancelled context says.
func (p patience) Err() error {
	if context.Cause(p.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return p.Context.Err()
}

func (r *runner) join(ctx context.Context) *lane {
	l := &lane{run: ctx}
	l.Context, l.end = context.WithCancelCause(ctx)
	r.mu.Lock()
	r.lanes[l] = struct{}{}
	r.mu.Unlock()
	return l
}

func (r *runner) leave(l *lane) {
	l.end(nil)
	r.mu.Lock()
	delete(r.lanes, l)
	if r.quiet != nil && len(r.lanes) == 0 {
		close(r.quiet)
		r.quiet = nil
	}
	r.mu.Unlock()
	r.out.ring()
}

// end is how send ended.
type end int

const (
	completed end = iota // the record is in the lane
	cut                  // by the end of the run: no record, it says nothing of the server
	lost                 // given up meanwhile and reported: the lane's goroutine is to end without a word
)

// send carries one request: head says everything that is known before it is sent, but for Started and the text.
func (r *runner) send(l *lane, head sample.Request) end {
	text := r.Texts(head.Seq)
	head.Text, head.Chars = text.ID, text.Chars
	head.Started = r.now()
	l.rec = head
	l.mu.Lock()
	if l.Err() != nil { // the last request outlived its deadline
		l.Context, l.end = context.WithCancelCause(l.run)
	}
	l.head, l.busy = head, true
	ctx := l.patience
	l.mu.Unlock()

	r.Transport.Do(ctx, Call{Text: text, Clock: r.now, KeepChunks: r.KeepChunks}, &l.rec)

	l.mu.Lock()
	l.busy = false
	givenUp := l.givenUp
	l.mu.Unlock()
	if givenUp {
		return lost
	}
	if l.run.Err() != nil && l.rec.Outcome != sample.OK {
		return cut
	}
	if !l.rec.End.Known() {
		l.rec.End = r.now()
	}
	if l.rec.Outcome == "" {
		l.rec.Outcome, l.rec.Cause = sample.ClientFault, "transport gave no outcome"
	}
	return completed
}

// watch ends requests at their deadline, and reports those that the transport still holds a grace later as faults of this
// client. It says which workers these took with them, and how long nothing needs to be watched: a request that is sent
// meanwhile cannot be overdue before then.
func (r *runner) watch() (workers []int, calm time.Duration) {
	now := r.now()
	calm = r.Deadline
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.lanes {
		l.mu.Lock()
		if l.busy && !l.givenUp {
			left := r.Deadline - (now - l.head.Started).Duration()
			if left <= 0 {
				l.end(context.DeadlineExceeded)
				left += r.Grace
			}
			if left <= 0 {
				l.givenUp = true
				rec := l.head
				rec.End, rec.Outcome = now, sample.ClientFault
				rec.Cause = fmt.Sprintf("transport had not returned %v after the deadline", r.Grace)
				r.out.put(rec)
				workers = append(workers, rec.Worker)
				left = calm
			}
			calm = min(calm, left)
		}
		l.mu.Unlock()
	}
	return workers, calm
}

// wait returns when every lane has ended, or says how many had not a grace later. The run's context must have ended, or
// nothing be left to send.
func (r *runner) wait() error {
	quiet := make(chan struct{})
	r.mu.Lock()
	if len(r.lanes) == 0 {
		close(quiet)
	} else {
		r.quiet = quiet
	}
	r.mu.Unlock()
	late := time.NewTimer(r.Grace)
	defer late.Stop()
	select {
	case <-quiet:
		return nil
	case <-late.C:
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.lanes) == 0 {
			return nil
		}
		return fmt.Errorf("load: the transport kept %d requests %v after they were to end", len(r.lanes), r.Grace)
	}
}

// inFlight is the seconds that the requests now in flight have spent since an instant, each from when it may be taken to
// have held a connection.
func (r *runner) inFlight(since, now sample.Nanos, connWait time.Duration) (sum float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.lanes {
		l.mu.Lock()
		if l.busy && !l.givenUp {
			sum += max(0, (now - max(since, l.head.Started+sample.Nanos(connWait))).Duration().Seconds())
		}
		l.mu.Unlock()
	}
	return sum
}

// outbox is the completed requests, in order of completion, until they are observed.
type outbox struct {
	mu   sync.Mutex
	buf  []sample.Request
	wake chan struct{}
}

// put adds a record and says whether too many wait.
func (o *outbox) put(rec sample.Request) bool {
	o.mu.Lock()
	o.buf = append(o.buf, rec)
	n := len(o.buf)
	o.mu.Unlock()
	if n == 1 {
		o.ring()
	}
	return n < mostUnseen
}

// ring wakes who waits for the outbox.
func (o *outbox) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take is all that waits; spare, which the caller is done with, becomes the next buffer.
func (o *outbox) take(spare []sample.Request) []sample.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	got := o.buf
	o.buf = spare[:0]
	return got
}
