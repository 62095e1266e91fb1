package traffic

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"loadline/internal/duplex"
	"loadline/internal/local/access"
	"loadline/internal/wire"
)

// relay does the steps of one session. Three come at it: the handler reads the container's frames, a goroutine the
// caller's parts, and a timer. Each asks the session what to do, and does it; what goes out one way is in order, and what
// is slow to be taken there holds up that way alone.
type relay struct {
	now    func() time.Time
	frames *duplex.Reader

	mu      sync.Mutex // guards session, timer and closed
	session *duplex.Session
	timer   *time.Timer
	closed  bool           // the handler is about to return
	doing   sync.WaitGroup // steps

	boxMu   sync.Mutex // writes to box
	box     net.Conn
	hung    bool
	toBox   []byte
	asked   time.Time // the first frame was sent to the container
	renewed time.Time // its write deadline

	outMu   sync.Mutex // writes to out
	out     io.Writer
	flush   flusher
	writing atomic.Int64 // since when, in ns; 0: not now
	ended   bool
	told    bool // the caller was told how it ended
	failed  bool
	toOut   []byte
	first   time.Time // the first part was given to the caller
	came    time.Time // from the container
}

// flusher is what is asked of an http.ResponseController.
type flusher interface {
	Flush() error
	SetWriteDeadline(time.Time) error
}

// start is before all else.
func (r *relay) start(rules duplex.Rules) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = duplex.New(r.now(), rules)
	r.timer = time.AfterFunc(r.session.Next().Sub(r.now()), r.tick)
}

// run reads the container's frames to the session's end.
func (r *relay) run() {
	for more := true; more; {
		f, err := r.frames.Next()
		more = r.step(func(s *duplex.Session) []duplex.Step {
			if err != nil {
				return s.Broke()
			}
			return s.Frame(r.now(), f)
		})
	}
	r.mu.Lock()
	r.closed = true
	r.timer.Stop()
	r.mu.Unlock()
	r.doing.Wait()
	r.box.Close()
}

// listen takes the caller's parts to the end of its input.
func (r *relay) listen(next func() (duplex.Part, error)) {
	for more := true; more; {
		p, err := next()
		var f *wire.Fault
		switch {
		case err == nil:
			more = r.step(func(s *duplex.Session) []duplex.Step { return s.Part(p) })
			continue
		case err == io.EOF:
			r.step(func(s *duplex.Session) []duplex.Step { return s.End(r.now()) })
		case errors.As(err, &f):
			r.refuse(f)
			r.step((*duplex.Session).Left)
		default:
			r.step((*duplex.Session).Left)
		}
		return
	}
}

func (r *relay) tick() {
	if since := r.writing.Load(); since != 0 && time.Since(time.Unix(0, since)) > writeTime {
		_ = r.flush.SetWriteDeadline(time.Now()) // the caller takes nothing; a deadline that stands would end a quiet stream as well
	}
	r.step(func(s *duplex.Session) []duplex.Step { return s.Tick(r.now()) })
}

// step asks the session and does what it says; false once it is over.
func (r *relay) step(ask func(*duplex.Session) []duplex.Step) bool {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return false
	}
	was := r.session.Next()
	steps := ask(r.session)
	over := r.session.Over()
	if next := r.session.Next(); !over && !next.Equal(was) {
		r.timer.Reset(next.Sub(r.now()))
	}
	r.doing.Add(1)
	r.mu.Unlock()
	defer r.doing.Done()
	for _, s := range steps {
		switch s.Kind {
		case duplex.Send:
			r.send(s.Frame)
		case duplex.Give:
			r.give(s.Part)
		case duplex.Fail:
			r.last(wire.Exception(wire.StreamError, s.Message, s.Code))
		case duplex.Over:
			r.last(nil)
		case duplex.Hang:
			r.box.Close()
		}
	}
	return !over
}

// send writes one frame to the container. What cannot be written the reading side learns of.
func (r *relay) send(f duplex.Frame) {
	r.boxMu.Lock()
	defer r.boxMu.Unlock()
	if r.hung {
		return
	}
	if r.asked.IsZero() {
		r.asked = r.now()
	}
	var mask [4]byte
	_, _ = rand.Read(mask[:]) // it never fails
	r.toBox = f.Append(r.toBox[:0], mask)
	if now := time.Now(); now.Sub(r.renewed) > writeTime/4 { // a timer a frame would be a waste
		_ = r.box.SetWriteDeadline(now.Add(writeTime)) // what it cannot set, the write will show
		r.renewed = now
	}
	if _, err := r.box.Write(r.toBox); err != nil || f.Op == duplex.Close {
		r.hung = true
		if err != nil {
			r.box.Close()
		}
	}
	if cap(r.toBox) > mostKept {
		r.toBox = nil
	}
}

// mostKept is the most bytes of a buffer that a session keeps for its next message.
const mostKept = 64 << 10

// give writes one part to the caller.
func (r *relay) give(p duplex.Part) {
	r.outMu.Lock()
	defer r.outMu.Unlock()
	if r.ended {
		return
	}
	came := r.now()
	r.toOut = wire.AppendPart(r.toOut[:0], p)
	if !r.write(r.toOut) {
		r.ended = true
		r.box.Close()
	} else if r.first.IsZero() {
		r.first, r.came = r.now(), came
	}
	if cap(r.toOut) > mostKept {
		r.toOut = nil
	}
}

// last ends what the caller is told, with a message or without.
func (r *relay) last(message []byte) {
	r.outMu.Lock()
	defer r.outMu.Unlock()
	if r.ended {
		return
	}
	r.ended, r.failed = true, message != nil
	r.told = message == nil || r.write(message)
}

// refuse ends it with what was wrong with the caller's own events: no fault of the model.
func (r *relay) refuse(f *wire.Fault) {
	r.outMu.Lock()
	defer r.outMu.Unlock()
	if r.mu.Lock(); r.closed || r.ended {
		r.mu.Unlock()
		return
	}
	r.doing.Add(1)
	r.mu.Unlock()
	defer r.doing.Done()
	r.ended = true
	r.told = r.write(wire.StreamFault(f))
}

func (r *relay) write(message []byte) bool {
	r.writing.Store(time.Now().UnixNano())
	defer r.writing.Store(0)
	_, err := r.out.Write(message)
	return err == nil && r.flush.Flush() == nil
}

// session counts what is counted of bidirectional streams alone.
func (m *meter) session(now, began time.Time, s *relay) {
	if !s.first.IsZero() {
		micros := func(d time.Duration) float64 { return float64(max(d, 0).Microseconds()) }
		whole, model := s.first.Sub(began), s.came.Sub(s.asked)
		if s.asked.IsZero() || s.came.Before(s.asked) { // it spoke first
			model = 0
		}
		m.firstChunk.Observe(now, micros(whole), 1)
		m.firstModel.Observe(now, micros(model), 1)
		m.firstOverhead.Observe(now, micros(whole-model), 1)
	}
	broke := 0.0
	if s.failed {
		broke = 1
	}
	m.midStream.Observe(now, broke, 1)
}

// events are the parts that a caller sends, each in its signed envelope.
type events struct {
	in    *wire.Envelopes
	chain *access.Chain
}

// next is the next part; io.EOF at the end of the caller's input, which is signed too.
func (v *events) next() (duplex.Part, error) {
	e, err := v.in.Next()
	if err == io.EOF {
		return duplex.Part{}, io.ErrUnexpectedEOF // an input that ends without its end
	}
	if err != nil {
		return duplex.Part{}, err
	}
	if err := v.chain.Verify(e); err != nil {
		return duplex.Part{}, err
	}
	if len(e.Payload) == 0 {
		return duplex.Part{}, io.EOF
	}
	return e.Part()
}
