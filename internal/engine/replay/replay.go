// Package replay is an engine that has no model: it keeps the times of a measured server, read from a profile, and plays a
// voiced sound of the right length. It is what stands behind the local endpoint, and what load tools are tried on.
//
// It decides how long each piece of a text takes and when it is ready; who is next is the server's. The instants are
// absolute: a piece starts when its place became free, not when the last wake-up came, so that late timers delay replies by
// their lateness but never add up, and a saturated server completes exactly what its profile says.
//
//	p, err := replay.Builtin("kokoro-g5")
//	e, err := replay.New(p, seed)
//	s, err := serve.New(serve.Config{Engine: e, SLO: p.SLO()})
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"loadline/internal/serve"
)

// Engine plays one profile. It is safe for concurrent use and starts no goroutine.
type Engine struct {
	p Profile

	mu       sync.Mutex
	free     []time.Time // of each place nobody holds: when its last work ended
	service  *rand.Rand  // one stream a cause, so that changing one leaves the others as they were
	overhead *rand.Rand
	failure  *rand.Rand
}

var _ serve.Engine = (*Engine)(nil)

// New is an engine for a profile that Parse or Builtin returned; seed makes its draws repeatable.
func New(p Profile, seed uint64) (*Engine, error) {
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("profile %q: %w", p.Name, err)
	}
	return &Engine{p: p, free: make([]time.Time, p.Service.Places), service: rand.New(rand.NewPCG(seed, 1)),
		overhead: rand.New(rand.NewPCG(seed, 2)), failure: rand.New(rand.NewPCG(seed, 3))}, nil
}

// Info is the places and the sample rate.
func (e *Engine) Info() serve.Info { return serve.Info{Places: e.p.Service.Places, Rate: rate} }

// Load has nothing to load: every stage is passed at once.
func (e *Engine) Load(ctx context.Context, mark func(string)) error {
	loop()
	for _, stage := range []string{serve.StageFramework, serve.StageFetched, serve.StageWeights} {
		mark(stage)
	}
	return ctx.Err()
}

// Prepare checks the voice, draws the times of the request and lets its overhead pass.
func (e *Engine) Prepare(ctx context.Context, r serve.Request) (serve.Utterance, error) {
	if r.Voice != "" && !slices.Contains(e.p.Audio.Voices, r.Voice) {
		return nil, &serve.FieldError{Field: "voice", Message: fmt.Sprintf("voice is %q: this engine has %s", r.Voice, strings.Join(e.p.Audio.Voices, ", "))}
	}
	u := e.draw(float64(utf8.RuneCountInString(r.Text)) / r.Speed)
	u.ready = r.Arrived.Add(u.overhead)
	return u, sleepUntil(ctx, u.ready)
}

// draw plans a text that takes as long to say as chars characters at speed 1.
func (e *Engine) draw(chars float64) *utterance {
	p := &e.p
	u := &utterance{e: e, failAt: -1}
	samples := max(1, int(math.Round(chars*p.Audio.PerCharS*rate)))
	pieces := 1
	if p.Audio.PieceS > 0 {
		pieces = max(1, int(math.Ceil(float64(samples)/rate/p.Audio.PieceS)))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	u.overhead = secondsOf(p.Overhead.Ms / 1e3 * p.Overhead.Law.factor(e.overhead))
	slow := 1.0
	switch x := e.failure.Float64(); {
	case x < p.Failures.Error:
		u.failAt = e.failure.IntN(pieces)
	case x < p.Failures.Error+p.Failures.Empty:
		u.empty = true
	case x < p.Failures.Error+p.Failures.Empty+p.Failures.Slow:
		slow = p.Failures.SlowFactor
	}
	for i := range pieces {
		cost := (p.Service.BaseMs + p.Service.PerCharMs*chars/float64(pieces)) / 1e3 * p.Service.Law.factor(e.service) * slow
		u.pieces = append(u.pieces, piece{cost: secondsOf(cost), bytes: (samples*(i+1)/pieces - samples*i/pieces) * frame})
	}
	u.lead = int(math.Round(p.Audio.LeadSilenceMs/1e3*rate)) * frame
	return u
}

// take holds a place: the one that has been free for longest.
func (e *Engine) take() (time.Time, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.free) == 0 {
		return time.Time{}, fmt.Errorf("more than %d utterances are spoken at once", e.p.Service.Places)
	}
	at := 0
	for i, t := range e.free {
		if t.Before(e.free[at]) {
			at = i
		}
	}
	t := e.free[at]
	e.free = slices.Delete(e.free, at, at+1)
	return t, nil
}

func (e *Engine) put(free time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.free = append(e.free, free)
}

// utterance is one text being played.
type utterance struct {
	e        *Engine
	overhead time.Duration
	ready    time.Time // the earliest start of the next piece
	pieces   []piece   // still to be worked on
	failAt   int       // pieces until one fails; below 0: none does
	empty    bool

	lead   int // bytes of silence before the first piece's sound
	silent int // bytes of silence still to be handed over, then
	sound  int // bytes of sound, both already worked on
	played int // bytes of sound handed over
}

type piece struct {
	cost  time.Duration
	bytes int
}

var errDrawn = errors.New("replay: this request was drawn to fail")

// Next works on the next piece and hands over its sound, in blocks of at most loopS seconds: those after the first cost no
// time.
func (u *utterance) Next(ctx context.Context) ([]byte, error) {
	if u.silent+u.sound == 0 {
		if len(u.pieces) == 0 {
			return nil, io.EOF
		}
		if err := u.work(ctx, u.pieces[0].cost); err != nil {
			return nil, err
		}
		if u.failAt == 0 {
			return nil, errDrawn
		}
		u.failAt--
		if u.empty {
			u.pieces = nil
			return nil, io.EOF
		}
		u.silent, u.lead = u.lead, 0
		u.sound, u.pieces = u.pieces[0].bytes, u.pieces[1:]
	}
	if u.silent > 0 {
		n := min(u.silent, len(silence))
		u.silent -= n
		return silence[:n], nil
	}
	n := min(u.sound, loopS*second)
	from := u.played % second
	u.played += n
	u.sound -= n
	return loop()[from : from+n], nil
}

// work holds a place for so long, counted from the later of the text being ready and the place being free.
func (u *utterance) work(ctx context.Context, cost time.Duration) error {
	start, err := u.e.take()
	if err != nil {
		return err
	}
	if start.Before(u.ready) {
		start = u.ready
	}
	end := start.Add(cost)
	if err := sleepUntil(ctx, end); err != nil {
		u.e.put(time.Now())
		return err
	}
	u.ready = end
	u.e.put(end)
	return nil
}

// sleepUntil waits for an instant, which may have passed already.
func sleepUntil(ctx context.Context, at time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := time.Until(at)
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
