package load

import (
	"context"
	"net"
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
	Seed       uint64                    // of the jitter of back-off
	KeepChunks bool                      // record every chunk of every reply

	// Echo makes the two ends of the canary's connection; nil: TCP over loopback, which is what streams suffer too. A
	// test under a fake clock gives net.Pipe: real sockets stop that clock.
	Echo func() (client, server net.Conn, err error)
}

// Closed holds a number of requests in flight: each of its workers sends the next request when its last one has ended.
// Make it with NewClosed, keep Run going, and call Hold for each rung; Hold and Idle are for one goroutine at a time.
type Closed struct{ cfg Config }

// NewClosed is a closed loop that holds nothing yet. It starts nothing: Run does.
func NewClosed(cfg Config) *Closed { return &Closed{cfg: cfg} }

// Run owns every goroutine of the loop, workers and canary. It returns when ctx has ended and every worker with it: nil,
// or an error when it could not begin, or when a transport kept a request past the grace.
func (c *Closed) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Hold keeps n requests in flight and hands every completed one to observe, in order of completion, from the caller's
// goroutine, until observe says done or ctx ends. Workers outlive it and go on sending, so that there is no drain between
// rungs: a next Hold adds the difference, staggered over one service time, or lets the surplus end after their current
// request. A request's Rung is the one that was held when it started, so the first requests handed over after a change
// may be of the rung before; none is left out.
//
// What the client says of itself covers the time of this call.
func (c *Closed) Hold(ctx context.Context, rung, n int, observe func(sample.Request) (done bool)) (sample.Client, error) {
	return sample.Client{}, nil
}

// Idle lets every request in flight end and hands it to observe, until nothing is in flight.
func (c *Closed) Idle(ctx context.Context, observe func(sample.Request)) error { return nil }

// Rest is the requests that completed and that nobody has observed, for the log; it may be called once Run has returned.
// Requests cut short by the end of Run are in no list: they say nothing.
func (c *Closed) Rest() []sample.Request { return nil }
