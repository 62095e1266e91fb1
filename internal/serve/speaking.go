package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"loadline/internal/admission"
	"loadline/internal/speech"
)

// ahead is how many pieces may wait for the reader.
const ahead = 16

// script hands out the parts of one text, io.EOF after the last. waited says that there was nothing to speak for a
// while: the text had not come yet.
type script func(ctx context.Context) (part speech.Part, waited bool, err error)

// list is a script of parts that are all there.
func list(parts []speech.Part) script {
	return func(context.Context) (speech.Part, bool, error) {
		if len(parts) == 0 {
			return speech.Part{}, false, io.EOF
		}
		p := parts[0]
		parts = parts[1:]
		return p, false, nil
	}
}

// piece is what the engine made at a time.
type piece struct {
	sound [][]byte
	ends  bool // a sentence, whose last piece this is
}

// interrupted is the end of a stream that stopped at the end of a sentence because the server stops.
type interrupted struct {
	resume int // sentences spoken: where to go on
}

func (i *interrupted) Error() string {
	return fmt.Sprintf("the server stops: interrupted, resume at %d", i.resume)
}

// speaking is one admitted request: a goroutine that holds a place only while the engine works, and hands the pieces to
// the handler, which alone touches the connection.
type speaking struct {
	s      *Server
	ctx    context.Context // ends when the caller goes or the server breaks off
	t      *admission.Ticket
	cancel context.CancelCauseFunc
	unhook func() bool
	pieces chan piece
	err    error // why pieces was closed, nil after the last one; read only after that

	arrived     time.Time
	first, last time.Time // when pieces reached the handler
	bytes       int64     // of sound that reached it, and sentences
	sentences   int
	underruns   int
	omitted     omissions
	removed     []string // tags of the text, where it is all there
	whole       bool     // the last piece reached the handler
	ended       bool
}

// speak starts on a script, which begins with sentence a.resume, and hands out its pieces by next. Whoever calls it calls
// end. out may be nil.
func (s *Server) speak(ctx context.Context, out *http.ResponseController, t *admission.Ticket, a ask, next script) *speaking {
	ctx, cancel := context.WithCancelCause(ctx)
	sp := &speaking{s: s, ctx: ctx, t: t, cancel: cancel, pieces: make(chan piece, ahead), arrived: a.Arrived, sentences: a.resume,
		unhook: context.AfterFunc(s.hard, func() {
			cancel(errDraining)
			if out != nil {
				_ = out.SetWriteDeadline(time.Now()) // a write under way ends too
			}
		})}
	go func() {
		defer close(sp.pieces)
		sp.err = sp.run(ctx, a, next)
	}()
	return sp
}

// run speaks until the last piece is handed over. It gives back the place, never the ticket.
func (sp *speaking) run(ctx context.Context, a ask, next script) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine panicked: %v", p)
		}
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		sp.s.leave(sp.t)
	}()
	// Under FIFO the place is held to the end of what there is to say.
	turn := &turn{sp: sp, keep: sp.s.cfg.Order == admission.FIFO}
	r, made, sentences := a.Request, 0, a.resume
	var pace time.Duration // of the last part, a byte of text
	within := false        // a sentence has begun
	for r.Index = a.resume; ; r.Index++ {
		if a.live && turn.holds { // its text may be long in coming
			sp.s.leave(sp.t)
			turn.holds = false
		}
		part, waited, err := next(ctx)
		switch {
		case err == io.EOF && made == 0:
			return errors.New("the engine made no sound")
		case err == io.EOF:
			sp.s.last(sp.t)
			return nil
		case err != nil:
			return err
		}
		r.Text, r.More = part.Text, part.More
		if r.Index > a.resume {
			if !within && r.Text != "" && sp.s.winding(pace*time.Duration(len(r.Text))) {
				return &interrupted{resume: sentences}
			}
			r.Arrived = time.Now()
		}
		rest := silence(part.Pause, sp.s.info.Rate)
		if len(rest) > 0 && made > 0 && (!waited || r.Text == "") { // else it goes with what follows, which is timed
			if sp.s.heard(sp.t, part.Pause, true) > 0 && !waited {
				sp.underruns++
			}
			made += bytesOf(rest)
			if err := sp.hand(ctx, piece{rest, false}, turn); err != nil {
				return err
			}
			rest = nil
		}
		if r.Text == "" {
			continue
		}
		began := time.Now()
		u, err := sp.s.cfg.Engine.Prepare(ctx, r)
		if err != nil {
			return err
		}
		turn.fresh, turn.before = waited, append(turn.before, rest...)
		for size := u.Size(); size > 0; {
			sound, err := turn.take(ctx, u, size)
			if err != nil {
				return err
			}
			size = u.Size()
			made += bytesOf(sound)
			if err := sp.hand(ctx, piece{sound, size == 0 && !part.More}, turn); err != nil {
				return err
			}
		}
		if o, ok := u.(Omitter); ok {
			sp.omitted.add(o.Omitted())
		}
		if within = part.More; !within {
			sentences++
		}
		pace = time.Since(began) / time.Duration(len(r.Text))
	}
}

// turn is the goroutine's hold on places.
type turn struct {
	sp          *speaking
	keep, holds bool
	ran         bool
	fresh       bool
	before      [][]byte // silence that goes with the next piece
}

// take gets a place, if it is not held, and works on one piece.
func (t *turn) take(ctx context.Context, u Utterance, size int) ([][]byte, error) {
	sp := t.sp
	since := time.Now()
	if !t.holds {
		var quit <-chan struct{}
		if !t.ran {
			quit = sp.s.wind // who has heard nothing yet is better served elsewhere
		}
		var err error
		if since, err = sp.s.place(ctx, quit, sp.t, admission.Piece{Size: float64(size), Fresh: t.fresh}); err != nil {
			return nil, err
		}
		t.holds, t.ran = true, true
	}
	t.fresh = false
	sound, err := u.Next(ctx, since)
	if err != nil {
		return nil, err
	}
	t.holds = t.keep
	if bytesOf(sound) > 0 { // an engine that made nothing has failed, whatever was to come before
		sound, t.before = append(t.before, sound...), nil
	}
	if silence := sp.s.heard(sp.t, lasts(bytesOf(sound), sp.s.info.Rate), t.keep); silence > 0 {
		sp.underruns++
	}
	return sound, nil
}

// hand gives a piece to the handler. If the reader is too far behind, the place goes to others in the meantime.
func (sp *speaking) hand(ctx context.Context, p piece, t *turn) error {
	select {
	case sp.pieces <- p:
		return nil
	default:
	}
	if t.holds {
		sp.s.leave(sp.t)
		t.holds = false
	}
	select {
	case sp.pieces <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// winding says whether a drain leaves no time for a sentence that takes so long.
func (s *Server) winding(takes time.Duration) bool {
	if end := s.stopBy.Load(); end != nil && time.Until(*end) < takes {
		return true
	}
	select {
	case <-s.wind:
		return true
	default:
		return false
	}
}

// next is the next piece, io.EOF after the last, or what went wrong. It returns ok false where tick comes first.
func (sp *speaking) next(tick <-chan time.Time) (p piece, ok bool, err error) {
	var more bool
	select {
	case p, more = <-sp.pieces:
	case <-tick:
		return piece{}, false, nil
	}
	switch {
	case !more && sp.err != nil:
		return piece{}, true, sp.err
	case !more:
		sp.whole = true
		return piece{}, true, io.EOF
	case sp.ctx.Err() != nil:
		return piece{}, true, context.Cause(sp.ctx) // what is still waiting has no listener
	}
	sp.last = time.Now()
	if sp.first.IsZero() {
		sp.first = sp.last
	}
	sp.bytes += int64(bytesOf(p.sound))
	return p, true, nil
}

// took is the time from arrival to the last piece, waiting included.
func (sp *speaking) took() time.Duration { return sp.last.Sub(sp.arrived) }

// end stops what is still under way, waits for it, gives the ticket back and books the request. A second call does
// nothing.
func (sp *speaking) end() {
	if sp.ended {
		return
	}
	sp.ended = true
	sp.unhook()
	sp.cancel(nil)
	for range sp.pieces { // closed when the goroutine is done
	}
	sp.s.release(sp.t)
	sp.s.met.book(sp)
}

func bytesOf(sound [][]byte) int {
	n := 0
	for _, b := range sound {
		n += len(b)
	}
	return n
}

// zeros is half a second of silence at the highest rate of speech, which nobody writes to.
var zeros = make([]byte, maxRate)

// silence is so long a pause.
func silence(d time.Duration, rate int) (sound [][]byte) {
	for left := 2 * int(int64(d)*int64(rate)/int64(time.Second)); left > 0; {
		n := min(left, len(zeros))
		sound, left = append(sound, zeros[:n]), left-n
	}
	return sound
}

// lasts is how long so many bytes of int16 mono last.
func lasts(size, rate int) time.Duration {
	return time.Duration(int64(size/2) * int64(time.Second) / int64(rate))
}
