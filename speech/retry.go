package speech

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Retry says how often, and after how long, a text that was not spoken is tried again. The zero Retry is the defaults.
type Retry struct {
	Tries  int           // of one text, or one sentence of a stream, the first included; 3 when 0; 1: none is repeated
	Budget float64       // retries for each first try, over all texts of the client; 0.1 when 0. Ten are there from the start
	Base   time.Duration // longest pause before the first retry, doubled for each more; 100 ms when not above 0
	Most   time.Duration // longest pause of ours; 5 s when not above 0. What a server asks for comes on top
}

const startBudget = 10 // and the most that is saved up

// retrier is a Retry at work.
type retrier struct {
	Retry
	mu    sync.Mutex
	left  float64
	draw  *rand.Rand
	sleep func(context.Context, time.Duration) error
}

func newRetrier(r Retry) *retrier {
	if r.Tries == 0 {
		r.Tries = 3
	}
	if r.Budget == 0 {
		r.Budget = 0.1
	}
	if r.Base <= 0 {
		r.Base = 100 * time.Millisecond
	}
	if r.Most <= 0 {
		r.Most = 5 * time.Second
	}
	return &retrier{Retry: r, left: startBudget, draw: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), sleep: sleep}
}

// first books a first try.
func (r *retrier) first() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = min(startBudget, r.left+r.Budget)
}

// again waits until a text may be tried once more after its tries-th failure e, or says why it may not: e itself, or the
// end of ctx. A wait that ctx does not leave time for is not begun.
func (r *retrier) again(ctx context.Context, tries int, e *Error) error {
	e.Tries = tries
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !e.Retryable() || tries >= r.Tries {
		return e
	}
	r.mu.Lock()
	if r.left < 1 {
		r.mu.Unlock()
		e.Spent = true
		return e
	}
	r.left--
	wait := e.RetryAfter + time.Duration(r.draw.Int64N(int64(min(r.Most, r.Base<<min(tries-1, 20)))+1))
	r.mu.Unlock()
	if by, ok := ctx.Deadline(); ok && time.Until(by) <= wait {
		return e
	}
	return r.sleep(ctx, wait)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
