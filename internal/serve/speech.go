package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"loadline/internal/admission"
)

// ahead is how many blocks may wait for the reader before its speech gives up the place until some are taken.
const ahead = 64

// speech is one admitted request being spoken: a goroutine that holds a place only while the engine works, and hands the
// blocks to the handler, which alone touches the connection.
type speech struct {
	s      *Server
	ctx    context.Context // ends when the caller goes or the server breaks off
	t      *admission.Ticket
	cancel context.CancelCauseFunc
	unhook func() bool
	blocks chan []byte
	err    error // why blocks was closed, nil after the last block; read only after that

	arrived     time.Time
	first, last time.Time // when blocks reached the handler
	bytes       int64
	dry         time.Time // when a listener at normal speed runs out of sound
	underruns   int
	whole       bool // the last block reached the handler
	ended       bool
}

func (s *Server) speak(ctx context.Context, out *http.ResponseController, t *admission.Ticket, a ask) *speech {
	ctx, cancel := context.WithCancelCause(ctx)
	sp := &speech{s: s, ctx: ctx, t: t, cancel: cancel, blocks: make(chan []byte, ahead), arrived: a.Arrived,
		unhook: context.AfterFunc(s.hard, func() {
			cancel(errDraining)
			_ = out.SetWriteDeadline(time.Now()) // a write under way ends too
		})}
	go func() {
		defer close(sp.blocks)
		sp.err = sp.run(ctx, a.Request)
	}()
	return sp
}

// run speaks until the last block is handed over. It gives back the place, never the ticket.
func (sp *speech) run(ctx context.Context, r Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine panicked: %v", p)
		}
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		sp.s.leave(sp.t)
	}()
	u, err := sp.s.cfg.Engine.Prepare(ctx, r)
	if err != nil {
		return err
	}
	if err := sp.s.place(ctx, sp.t); err != nil {
		return err
	}
	if waited := time.Since(r.Arrived); waited > sp.s.cfg.MaxAge {
		return stale(waited, sp.s.cfg.MaxAge)
	}
	for n := 0; ; n++ {
		b, err := u.Next(ctx)
		if err == io.EOF && n == 0 {
			return errors.New("the engine made no sound")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case sp.blocks <- b:
			continue
		default:
		}
		// The reader is that far behind. Others go on in the meantime.
		sp.s.leave(sp.t)
		select {
		case sp.blocks <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := sp.s.place(ctx, sp.t); err != nil {
			return err
		}
	}
}

// next is the next block, io.EOF after the last, or what went wrong.
func (sp *speech) next() ([]byte, error) {
	b, ok := <-sp.blocks
	switch {
	case !ok && sp.err != nil:
		return nil, sp.err
	case !ok:
		sp.whole = true
		return nil, io.EOF
	case sp.ctx.Err() != nil:
		return nil, context.Cause(sp.ctx) // what is still waiting has no listener
	}
	sp.last = time.Now()
	switch {
	case sp.first.IsZero():
		sp.first, sp.dry = sp.last, sp.last
	case sp.last.After(sp.dry):
		sp.underruns++
		sp.dry = sp.last
	}
	sp.dry = sp.dry.Add(time.Duration(seconds(int64(len(b)), sp.s.info.Rate) * float64(time.Second)))
	sp.bytes += int64(len(b))
	return b, nil
}

// took is the time from arrival to the last block, waiting included.
func (sp *speech) took() time.Duration { return sp.last.Sub(sp.arrived) }

// end stops what is still under way, waits for it, gives the ticket back and books the request. A second call does
// nothing.
func (sp *speech) end() {
	if sp.ended {
		return
	}
	sp.ended = true
	sp.unhook()
	sp.cancel(nil)
	for range sp.blocks { // closed when the goroutine is done
	}
	sp.s.release(sp.t)
	sp.s.met.book(sp)
}
