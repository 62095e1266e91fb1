package load

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"loadline/internal/sample"
)

// Sent is what an open loop did.
type Sent struct {
	Client  sample.Client
	Origin  sample.Nanos // the schedule's 0
	Planned int          // arrivals that came due
	Started int          // requests sent
	Dropped int          // arrivals not sent because MaxStreams were in flight
	Peak    int          // most in flight at once
	Invalid string       // why the run says nothing of the server; empty when it may
}

// Open sends one request at each time of the schedule, however the ones before fare, hands every completed one to observe
// from the caller's goroutine, and returns when all have ended. Times are offsets from the call, in order. Never is an
// arrival sent later because requests are slow: at MaxStreams in flight it is dropped, counted, and the run is invalid.
//
// Latency counts from the intended time, so that a client that sends late shows as slow; sample.FromStarted is the other
// one. When ctx ends, so do the requests in flight, unobserved.
func Open(ctx context.Context, cfg Config, rung int, schedule []time.Duration, observe func(sample.Request)) (Sent, error) {
	o := &open{jobs: make(chan sample.Request)}
	o.init(cfg)
	if err := o.check(); err != nil {
		return Sent{}, err
	}
	for i, at := range schedule {
		if at < 0 || i > 0 && at < schedule[i-1] {
			return Sent{}, fmt.Errorf("load: arrival %d at %v: wants times of 0 or more, in order", i, at)
		}
	}
	stop, err := o.meter.start()
	if err != nil {
		return Sent{}, err
	}
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := o.tally()
	o.sent.Origin = t.since

	scheduled := make(chan struct{})
	go func() {
		defer close(scheduled)
		defer close(o.jobs)
		o.schedule(ctx, rung, schedule)
	}()
	err = o.collect(ctx, scheduled, func(r *sample.Request) { t.add(r); observe(*r) })
	cancel()
	<-scheduled
	err = errors.Join(err, o.wait())
	o.sent.Client = t.client()
	if o.sent.Dropped > 0 {
		o.sent.Invalid = fmt.Sprintf("%d of %d arrivals were not sent: %d requests were in flight, the most that was allowed",
			o.sent.Dropped, o.sent.Planned, o.MaxStreams)
	}
	return o.sent, err
}

// open is an open loop at work.
type open struct {
	runner
	jobs chan sample.Request // taken at once by a goroutine that waits, or nobody waits
	fly  atomic.Int64
	sent Sent // the scheduler's until it has ended
}

// schedule is the one goroutine that decides when: it never waits for anything but the clock.
func (o *open) schedule(ctx context.Context, rung int, at []time.Duration) {
	clock := newAlarm()
	defer clock.stop()
	for i, due := range at {
		head := sample.New(o.Seq + i)
		head.Rung, head.Intended = rung, o.sent.Origin+sample.Since(due)
		if !clock.sleep(ctx, (head.Intended - o.now()).Duration()) {
			return
		}
		o.sent.Planned++
		n := o.fly.Add(1)
		if int(n) > o.MaxStreams {
			o.fly.Add(-1)
			o.sent.Dropped++
			continue
		}
		o.sent.Started++
		o.sent.Peak = max(o.sent.Peak, int(n))
		select {
		case o.jobs <- head:
		default:
			go o.work(o.join(ctx), head)
		}
	}
}

// work sends requests until none is left to send.
func (o *open) work(l *lane, head sample.Request) {
	defer o.leave(l)
	for ok := true; ok; head, ok = <-o.jobs {
		switch o.send(l, head) {
		case lost: // counted out by who gave it up
			return
		case completed:
			o.out.put(l.rec)
		}
		if o.fly.Add(-1) == 0 {
			o.out.ring()
		}
	}
}

// collect hands over completed requests until the schedule is over and nothing is in flight.
func (o *open) collect(ctx context.Context, scheduled <-chan struct{}, see func(*sample.Request)) error {
	look := time.NewTimer(o.Deadline)
	defer look.Stop()
	var batch []sample.Request
	for over := false; ; {
		enough := over && o.fly.Load() == 0
		batch = o.out.take(batch)
		for i := range batch {
			see(&batch[i])
		}
		switch {
		case len(batch) > 0:
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		case enough:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-o.out.wake:
		case <-scheduled:
			scheduled, over = nil, true
		case <-look.C:
			lost, calm := o.watch()
			o.fly.Add(-int64(len(lost)))
			look.Reset(calm)
		}
	}
}
