// Package replay is an engine that has no model: it keeps the times of a measured server, read from a profile, and plays a
// voiced sound of the right length. It is what stands behind the local endpoint, and what load tools are tried on.
//
// It decides how long each piece of a text takes and when it is ready; who is next is the server's. The instants are
// absolute: a piece starts when its place became free, not when the last wake-up came, so that late timers delay replies by
// their lateness but never add up, and a saturated server completes exactly what its profile says. A text is one utterance,
// cut into even pieces or none, unless the profile cuts sentences as a real voice does.
//
//	p, err := replay.Builtin("kokoro-g5")
//	e, err := replay.New(p, seed)
//	s, err := serve.New(serve.Config{Engine: e, SLO: p.SLO()})
package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"loadline/internal/serve"
	"loadline/internal/speech"
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
func (e *Engine) Info() serve.Info {
	return serve.Info{Places: e.p.Service.Places, Rate: rate, Whole: !e.p.Audio.Sentences}
}

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
	pieces := []float64{1} // shares of the text
	if e.p.Audio.Sentences {
		pieces = pieces[:0]
		for _, p := range speech.Pieces(r.Text, e.p.Audio.limits(r)) {
			pieces = append(pieces, float64(utf8.RuneCountInString(p)))
		}
	} else if d := float64(utf8.RuneCountInString(r.Text)) / r.Speed * e.p.Audio.PerCharS; e.p.Audio.PieceS > 0 && d > e.p.Audio.PieceS {
		pieces = slices.Repeat(pieces, int(math.Ceil(d/e.p.Audio.PieceS)))
	}
	u := e.draw(float64(utf8.RuneCountInString(r.Text))/r.Speed, pieces, r.Index == 0)
	u.ready = r.Arrived.Add(u.overhead)
	return u, sleepUntil(ctx, u.ready)
}

// limits are the sizes of a sentence's pieces in characters.
func (a Audio) limits(r serve.Request) speech.Limits {
	chars := func(s float64) int { return int(math.Round(s * r.Speed / a.PerCharS)) }
	l := speech.Limits{Max: chars(a.PieceS)}
	if r.Index == 0 {
		l.First, l.Second = chars(a.FirstS), chars(a.SecondS)
	}
	return l
}

// draw plans a text that takes as long to say as chars characters at speed 1, in pieces of those shares. What comes once a
// request comes with the first.
func (e *Engine) draw(chars float64, shares []float64, first bool) *utterance {
	p := &e.p
	u := &utterance{e: e, failAt: -1}
	samples := max(len(shares), int(math.Round(chars*p.Audio.PerCharS*rate)))
	e.mu.Lock()
	defer e.mu.Unlock()
	slow := 1.0
	if first {
		u.overhead = secondsOf(p.Overhead.Ms / 1e3 * p.Overhead.Law.factor(e.overhead))
		u.first = true
		u.lead = int(math.Round(p.Audio.LeadSilenceMs/1e3*rate)) * frame
		switch x := e.failure.Float64(); {
		case x < p.Failures.Error:
			u.failAt = e.failure.IntN(len(shares))
		case x < p.Failures.Error+p.Failures.Empty:
			u.empty = true
		case x < p.Failures.Error+p.Failures.Empty+p.Failures.Slow:
			slow = p.Failures.SlowFactor
		}
	}
	sum, done := 0.0, 0.0
	for _, s := range shares {
		sum += s
	}
	for _, s := range shares {
		cost := (p.Service.BaseMs + p.Service.PerCharMs*chars*s/sum) / 1e3 * p.Service.Law.factor(e.service) * slow
		from := int(math.Round(float64(samples) * done / sum))
		done += s
		u.pieces = append(u.pieces, piece{cost: secondsOf(cost), chars: max(1, int(math.Round(chars*s/sum))),
			bytes: (int(math.Round(float64(samples)*done/sum)) - from) * frame})
	}
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
	first    bool
	overhead time.Duration
	ready    time.Time // the earliest start of the next piece
	pieces   []piece   // still to be worked on
	failAt   int       // pieces until one fails; below 0: none does
	empty    bool
	lead     int // bytes of silence before the first piece's sound
	played   int // bytes of sound handed over
}

type piece struct {
	cost         time.Duration
	chars, bytes int
}

var errDrawn = errors.New("replay: this request was drawn to fail")

// Size is the characters of the next piece.
func (u *utterance) Size() int {
	if len(u.pieces) == 0 {
		return 0
	}
	return u.pieces[0].chars
}

// Next works on the next piece and hands over its sound.
func (u *utterance) Next(ctx context.Context, since time.Time) ([][]byte, error) {
	p := u.pieces[0]
	if !u.first { // the first may start as soon as its overhead was over, however late the wake-up from that was
		u.ready = since
	}
	u.first, u.pieces = false, u.pieces[1:]
	if err := u.work(ctx, p.cost); err != nil {
		return nil, err
	}
	if u.failAt == 0 {
		return nil, errDrawn
	}
	u.failAt--
	if u.empty {
		u.pieces = nil
		return nil, nil
	}
	var sound [][]byte
	for u.lead > 0 {
		n := min(u.lead, len(silence))
		u.lead -= n
		sound = append(sound, silence[:n])
	}
	for p.bytes > 0 {
		n := min(p.bytes, loopS*second)
		from := u.played % second
		u.played += n
		p.bytes -= n
		sound = append(sound, loop()[from:from+n])
	}
	return sound, nil
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
