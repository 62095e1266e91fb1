// Package serve is the program inside a speech container: readiness, the HTTP routes and the WebSocket, admission,
// streaming, drain, startup markers and metrics. What the speech sounds like, and how long it takes, is the engine's; who
// may enter and who is next is decided in package admission; listening, signals and the environment are the command's.
//
//	s, err := serve.New(serve.Config{Engine: e, QueueDepth: 50, Log: os.Stdout})
//	go s.Run(ctx)                         // warms up, becomes ready, reports metrics until ctx ends
//	hs := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
//	<-s.Ready()
//	err = s.Drain(ctx)                    // refuse new work, let what is inside end
//
// A request is counted from the moment it is admitted, after its body was read and understood, until its reply is written.
// Its text is spoken sentence by sentence and piece by piece; it executes only while the engine works on a piece, and never
// while its reader is slow. A WebSocket session counts only while it has something to say.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"loadline/internal/admission"
	"loadline/internal/speech"
)

// Engine turns text into sound. It is safe for concurrent use.
type Engine interface {
	// Load makes the engine able to speak and calls mark as it passes StageFramework, StageFetched and StageWeights, in
	// this order.
	Load(ctx context.Context, mark func(stage string)) error
	// Prepare does what needs no place: it checks the request (*FieldError) and readies its text.
	Prepare(ctx context.Context, r Request) (Utterance, error)
	Info() Info
}

// Utterance is one sentence being spoken, or one text by an engine that takes texts whole. It is used by one goroutine at a
// time.
type Utterance interface {
	// Size is the characters of the piece that Next would work on, 0 after the last.
	Size() int
	// Next works on one piece and returns its sound, int16 little endian mono, in order. It is called with a place held;
	// since is the instant from which the piece could have been worked on, had a place been free. When ctx ends it stops at
	// once. The sound is the caller's to read, not to change.
	Next(ctx context.Context, since time.Time) ([][]byte, error)
}

// Info is what an engine says of itself.
type Info struct {
	Places int  // pieces it works on at the same time, at least 1
	Rate   int  // samples a second
	Whole  bool // it takes a text as it is, and does not want its sentences one by one
}

// Request is one sentence to speak, cleaned and checked as far as its form goes.
type Request struct {
	ID      string
	Text    string
	Index   int     // of the sentence in its text, or of what of it stands between pauses; a listener waits for the first
	More    bool    // the sentence goes on after a pause
	Voice   string  // "" is the engine's default
	Speed   float64 // 0.5 to 2
	Arrived time.Time

	Language string          // as speech.Language names it; "" is the voice's
	Lexicon  *speech.Lexicon // how the caller wants words said; nil: none
}

// Omitter is an Utterance that knows what of its text is not said: words and symbols that the engine cannot speak. It is
// asked once the sentence was spoken.
type Omitter interface {
	Omitted() []string
}

// Codec encodes sound in a format other than the server's own, which are wav and pcm.
type Codec struct {
	ContentType string
	// Open starts an encoder of int16 little-endian mono sound at rate samples a second. What it makes goes to out as it
	// comes, from one goroutine that ends before Close returns; after Close, all of it has. When ctx ends it stops.
	Open func(ctx context.Context, rate int, out io.Writer) (io.WriteCloser, error)
}

// FieldError is a request that can never succeed: the field of its body at fault, and why.
type FieldError struct {
	Field, Message string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// Stages of the start, in their order.
const (
	StageStart     = "container_start"
	StageFramework = "framework_init"
	StageFetched   = "weights_fetched"
	StageWeights   = "weights_ready"
	StageWarm      = "warmup_done"
	StageReady     = "ready"
)

// Config is a server's settings. The zero value of each is its default; FromEnv reads those that operators set.
type Config struct {
	Engine Engine
	Codecs map[string]Codec // by format; mp3 and opus are offered where they are here

	QueueDepth int           // most requests queued and executing; 0 unbounded
	MaxAge     time.Duration // a request that waited longer for its place is stale; default 56 s
	MaxBody    int64         // bytes of a request body; default 256 KiB
	MaxReply   int64         // bytes of a reply that is not streamed; default 6 MiB, the platform's limit
	BodyWait   time.Duration // a body must have come within this; default 10 s
	WriteWait  time.Duration // a reader must take each 64 KiB within this; default 10 s
	SLO        time.Duration // objective on first audio; 0: Slack is not reported, and pieces are ordered by 300 ms
	Order      admission.Order
	Predict    bool          // refuse who would not hear the first sound within the SLO, full or not
	Ahead      time.Duration // a stream with that much sound to play waits for the others; default 8 s, below 0 never
	Margin     time.Duration // a stream's next piece is due so long before its sound ends; default 150 ms
	Stuck      time.Duration // with a place held for so long and nothing done, /ping fails; default 30 s
	PingEvery  time.Duration // of WebSocket peers, who have as long to answer; default 20 s
	Wind       time.Duration // before a drain's end, streams stop at the end of a sentence, whatever its pace; default 2 s
	WarmupText string        // spoken before the server is ready

	Endpoint string    // EndpointName of the metrics; default unnamed
	Variant  string    // VariantName of the metrics; default primary
	Instance string    // if set, replies name it: X-Amzn-SageMaker-Custom-Attributes: instance=…
	Started  time.Time // when the container started; default: the call of New
	Log      io.Writer // markers and metrics, one write a line; nil: dropped
}

// Server is the container. Make it with New.
type Server struct {
	cfg    Config
	info   Info
	idBase uint64
	ids    atomic.Uint64
	log    *lineLog
	met    metrics

	hard     context.Context // ends when work under way must stop
	hardStop context.CancelFunc
	ready    chan struct{}

	drain  chan struct{}             // closed when a drain begins
	wind   chan struct{}             // closed when streams must stop at the end of their sentence
	stopBy atomic.Pointer[time.Time] // the end of a drain

	mu       sync.Mutex // guards what follows
	gate     *admission.Gate
	waiting  map[*admission.Ticket]chan struct{} // closed when the ticket's turn comes
	alarm    *time.Timer                         // for who waits for its listener, nil before the first
	sessions int
	draining bool
	idle     chan struct{} // made by Drain, closed when nothing is left
}

// New is a server that is not ready yet: Run makes it so.
func New(c Config) (*Server, error) {
	if c.Engine == nil {
		return nil, errors.New("a server needs an engine")
	}
	if c.QueueDepth < 0 {
		return nil, fmt.Errorf("queue depth %d is negative: use 0 for unbounded", c.QueueDepth)
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&c.MaxAge, 56 * time.Second}, {&c.BodyWait, 10 * time.Second}, {&c.WriteWait, 10 * time.Second}, {&c.Ahead, 8 * time.Second},
		{&c.Margin, 150 * time.Millisecond}, {&c.Stuck, 30 * time.Second}, {&c.PingEvery, 20 * time.Second}, {&c.Wind, 2 * time.Second}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if c.MaxBody == 0 {
		c.MaxBody = 256 << 10
	}
	if c.MaxReply == 0 {
		c.MaxReply = 6 << 20
	}
	if c.WarmupText == "" {
		c.WarmupText = "Ready to speak."
	}
	if c.Endpoint == "" {
		c.Endpoint = "unnamed"
	}
	if c.Variant == "" {
		c.Variant = "primary"
	}
	if c.Started.IsZero() {
		c.Started = time.Now()
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	info := c.Engine.Info()
	s := &Server{
		cfg: c, info: info, log: &lineLog{w: c.Log}, ready: make(chan struct{}), drain: make(chan struct{}), wind: make(chan struct{}),
		gate: admission.New(admission.Config{Depth: c.QueueDepth, Places: info.Places, Order: c.Order, SLO: cmp.Or(c.SLO, 300*time.Millisecond),
			Margin: c.Margin, Ahead: max(0, c.Ahead), MaxAge: c.MaxAge, Predict: c.Predict}),
		waiting: make(map[*admission.Ticket]chan struct{}), idBase: idBase(),
	}
	s.hard, s.hardStop = context.WithCancel(context.Background())
	return s, nil
}

// Run loads the engine, makes it speak once, becomes ready, and reports metrics until ctx ends. A server whose engine
// cannot speak never becomes ready: Run says why. It is called once.
func (s *Server) Run(ctx context.Context) error {
	s.mark(StageStart, s.cfg.Started)
	err := s.cfg.Engine.Load(ctx, func(stage string) { s.mark(stage, time.Now()) })
	if err != nil {
		err = fmt.Errorf("load the engine: %w", err)
	} else if err = s.warm(ctx); err != nil {
		err = fmt.Errorf("warm up: %w", err)
	}
	if ctx.Err() != nil {
		return nil // stopped on its way: nothing failed
	}
	if err != nil {
		return err
	}
	s.mark(StageWarm, time.Now())
	s.mark(StageReady, time.Now())
	close(s.ready)
	s.report(ctx)
	return nil
}

// warm speaks the warm-up text and throws the sound away.
func (s *Server) warm(ctx context.Context) error {
	u, err := s.cfg.Engine.Prepare(ctx, Request{ID: "warm-up", Text: s.cfg.WarmupText, Speed: 1, Arrived: time.Now()})
	if err != nil {
		return err
	}
	n := 0
	for u.Size() > 0 {
		sound, err := u.Next(ctx, time.Now())
		if err != nil {
			return err
		}
		n += bytesOf(sound)
	}
	if n == 0 {
		return errors.New("the engine made no sound")
	}
	return nil
}

// Ready is closed once the server has spoken its warm-up text.
func (s *Server) Ready() <-chan struct{} { return s.ready }

func (s *Server) isReady() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// Drain refuses new work and waits until what is inside has ended; nobody is held back any more for being ahead. A stream
// whose next sentence would not be spoken before ctx ends stops at the end of this one and says where to resume; when ctx
// ends the rest is broken off, and Drain returns how many that were.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	if !s.draining {
		s.draining = true
		close(s.drain)
		s.gate.Hurry()
		s.pump(time.Now())
	}
	left := s.gate.Counts().InSystem + s.sessions
	if left > 0 && s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	if left == 0 {
		return nil
	}
	if end, ok := ctx.Deadline(); ok {
		s.stopBy.Store(&end)
		soft := time.AfterFunc(time.Until(end)-s.cfg.Wind, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			select {
			case <-s.wind:
			default:
				close(s.wind)
			}
		})
		defer soft.Stop()
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	left = s.InFlight()
	s.hardStop()
	<-idle
	return fmt.Errorf("drain: requests broken off: %d: %w", left, context.Cause(ctx))
}

// InFlight is the number of requests admitted and not yet answered.
func (s *Server) InFlight() int { return s.Counts().InSystem }

// Counts is the gate's account and gauges.
func (s *Server) Counts() admission.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate.Counts()
}

// Busy is the place-time used since the start: divided by time and places it is the utilisation.
func (s *Server) Busy() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate.Busy(time.Now())
}

// Handler is the routes.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.route) }

// The gate, with a lock around it and a wake-up for whoever waits.

func (s *Server) admit(whole bool) (*admission.Ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil, errDraining
	}
	return s.gate.Admit(time.Now(), whole)
}

// place waits for a place for a piece and returns since when it could have been worked on. When ctx or quit ends first the
// ticket is still to be released.
func (s *Server) place(ctx context.Context, quit <-chan struct{}, t *admission.Ticket, p admission.Piece) (since time.Time, err error) {
	turn := make(chan struct{})
	s.mu.Lock()
	s.waiting[t] = turn
	now := time.Now()
	s.gate.Queue(t, now, p)
	s.pump(now)
	s.mu.Unlock()
	select {
	case <-turn:
	default:
		select {
		case <-turn:
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		case <-quit:
			return time.Time{}, errDraining
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate.Since(t), t.Refused()
}

// heard books the sound of a piece, gives the place back where keep does not say otherwise, and returns how long the
// listener had waited for it.
func (s *Server) heard(t *admission.Ticket, sound time.Duration, keep bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	silence := s.gate.Heard(t, now, sound)
	if !keep {
		s.gate.Leave(t, now)
		s.pump(now)
	}
	return silence
}

func (s *Server) last(t *admission.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate.Last(t)
}

func (s *Server) leave(t *admission.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	delete(s.waiting, t)
	s.gate.Leave(t, now)
	s.pump(now)
}

func (s *Server) release(t *admission.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	delete(s.waiting, t)
	s.gate.Release(t, now)
	s.pump(now)
	s.settle()
}

// settle tells a drain when nothing is left.
func (s *Server) settle() {
	if s.idle != nil && s.gate.Counts().InSystem+s.sessions == 0 {
		close(s.idle)
		s.idle = nil
	}
}

// pump wakes whoever has a place now, and sets the alarm for who is held back.
func (s *Server) pump(now time.Time) {
	for t := s.gate.Next(now); t != nil; t = s.gate.Next(now) {
		if turn, ok := s.waiting[t]; ok {
			close(turn)
			delete(s.waiting, t)
		}
	}
	at, ok := s.gate.Wake(now)
	switch {
	case !ok:
	case s.alarm == nil:
		s.alarm = time.AfterFunc(at.Sub(now), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pump(time.Now())
		})
	default:
		s.alarm.Reset(at.Sub(now))
	}
}
