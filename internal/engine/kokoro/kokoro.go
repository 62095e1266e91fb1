// Package kokoro is an engine that speaks with Kokoro-82M on ONNX Runtime. Phonemes become tokens, tokens and a voice's style
// become sound, a piece of a sentence at a time, so that the first of it comes soon and the accelerator can turn to others.
//
// It decides which export of the model this is, how a sentence is cut, how the sound of a piece is trimmed and joined, and how
// a run is broken off. How text is read, which symbols the model knows and how voices are mixed is decided in package speech
// and those below it; how words are pronounced, by the front end that the caller gives; who is next, in package serve.
//
//	e := kokoro.New(kokoro.Config{Dir: dir, Files: os.DirFS(dir), Library: "libonnxruntime.so.1", FrontEnd: phonemes.New(phonemes.Config{})})
//	s, err := serve.New(serve.Config{Engine: e})
//	…
//	e.Close()
//
// The folder has model.onnx (or onnx/model.onnx), voices/NAME.bin, and weights.json where it says what it is: repo, revision,
// sha256 of the model and its file. Only this package uses cgo; built without, it says so when it is loaded.
package kokoro

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"loadline/internal/serve"
	"loadline/internal/speech"
	"loadline/internal/speech/phoneme"
	"loadline/internal/speech/voice"
)

// Rate is the model's samples a second.
const Rate = 24000

// FrontEnd says how words are pronounced.
type FrontEnd interface {
	Load(ctx context.Context) error
	// Check says why a language cannot be spelled.
	Check(language string) error
	Spell(ctx context.Context, r speech.Reading) (phoneme.Spelling, error)
}

// Device is what the model runs on.
type Device string

const (
	Auto Device = "auto" // CUDA where ONNX Runtime has it, else the processors
	CPU  Device = "cpu"
	CUDA Device = "cuda"
)

// Config is an engine's settings.
type Config struct {
	Dir      string // the model folder
	Files    fs.FS  // the same
	Model    string // the model's file in it; default: that of weights.json, model.onnx or onnx/model.onnx
	Revision string // that weights.json must name; "" any
	SHA256   string // that the model's file must have; "" that of weights.json, or any

	Library  string // ONNX Runtime's shared library
	Device   Device // default Auto
	Sessions int    // copies of the model, as many pieces at a time; default 1
	Threads  int    // of each session on processors; 0 is all of them

	First  int    // tokens of the first piece of a text, about; default 16, below 0 no smaller than others
	Max    int    // tokens of a piece at most; bounds memory and how long a piece holds its place; default 200
	Voice  string // where a request names none; default af_heart, or the folder's first
	Blends int    // styles kept in memory, half a megabyte each; default 64

	FrontEnd FrontEnd
	Log      func(line string) // what was found and loaded; nil: dropped
}

// Engine speaks once it is loaded.
type Engine struct {
	cfg    Config
	limits speech.Limits
	voices *voice.Library
	sig    signature
	ran    atomic.Int64 // nanoseconds

	mu     sync.Mutex
	closed bool
	idle   chan session // nil until loaded
	spare  []byte       // see slack
}

// slack is so much more that may be made before the collector runs. The sound of a sentence is a megabyte, dead when it is sent,
// in a heap of two: the collector would run after every few sentences, and its millisecond would be that of the next. The
// memory that makes it wait is never touched, so it takes none of the machine's.
const slack = 64 << 20

var _ serve.Engine = (*Engine)(nil)

// session is one copy of the model.
type session interface {
	// run is the sound of tokens, and how long each lasts in frames of 600 samples where the model says so. When ctx ends it
	// stops within a layer's work.
	run(ctx context.Context, tokens []int64, style []float32, speed float64) (sound []float32, frames []int64, err error)
	close()
}

// New is an engine that speaks once Load has found everything.
func New(c Config) *Engine {
	if c.Device == "" {
		c.Device = Auto
	}
	if c.First == 0 {
		c.First = 16
	}
	if c.Max <= 0 || c.Max > phoneme.MaxTokens {
		c.Max = 200
	}
	if c.Blends <= 0 {
		c.Blends = 64
	}
	c.Sessions, c.First = max(1, c.Sessions), max(0, c.First)
	if c.Log == nil {
		c.Log = func(string) {}
	}
	return &Engine{cfg: c, limits: speech.Limits{First: c.First, Second: 2 * c.First, Max: c.Max}}
}

// Info is the sessions and the sample rate.
func (e *Engine) Info() serve.Info { return serve.Info{Places: e.cfg.Sessions, Rate: Rate} }

// Load opens the library, checks the folder, loads the model and the front end, and has every session run pieces of all
// lengths, since the first of each is slow.
func (e *Engine) Load(ctx context.Context, mark func(string)) error {
	if err := start(e.cfg.Library); err != nil {
		return err
	}
	mark(serve.StageFramework)
	w, err := find(ctx, e.cfg)
	if err != nil {
		return err
	}
	if info, err := fs.Stat(e.cfg.Files, "voices"); err != nil || !info.IsDir() {
		return fmt.Errorf("the model folder %s: it has no folder voices, with the packs NAME.bin that came with the model", e.cfg.Dir)
	}
	folder, err := fs.Sub(e.cfg.Files, "voices")
	if err == nil {
		e.voices, err = voice.Open(folder, e.cfg.Blends)
	}
	if err != nil {
		return fmt.Errorf("the model folder %s: %w", e.cfg.Dir, err)
	}
	if err := e.standard(); err != nil {
		return err
	}
	mark(serve.StageFetched)
	if err := e.cfg.FrontEnd.Load(ctx); err != nil {
		return fmt.Errorf("the front end: %w", err)
	}
	sessions, sig, on, err := load(ctx, e.cfg, w.path)
	if err != nil {
		return fmt.Errorf("load %s: %w", w.path, err)
	}
	e.sig = sig
	idle := make(chan session, len(sessions))
	for _, s := range sessions {
		idle <- s
	}
	e.mu.Lock()
	e.idle, e.spare = idle, make([]byte, slack)
	e.mu.Unlock()
	debug.FreeOSMemory() // what loading took and running does not need
	e.cfg.Log(fmt.Sprintf("kokoro: %s, export %s, on %s, %d sessions, %d voices", w, sig, on, len(sessions), len(e.voices.Names())))
	mark(serve.StageWeights)
	return e.warm(ctx, sessions)
}

// standard settles the voice of requests that name none.
func (e *Engine) standard() error {
	names := e.voices.Names()
	switch _, found := slices.BinarySearch(names, "af_heart"); {
	case e.cfg.Voice == "" && found:
		e.cfg.Voice = "af_heart"
	case e.cfg.Voice == "":
		e.cfg.Voice = names[0]
	default:
		b, err := voice.ParseBlend(e.cfg.Voice)
		if err == nil {
			err = e.voices.Check(b)
		}
		if err != nil {
			return fmt.Errorf("the voice of requests that name none is %q: %w", e.cfg.Voice, err)
		}
	}
	return nil
}

// buckets is the numbers of tokens that are run before the engine is ready, besides the most that a piece may have.
var buckets = []int{4, 8, 16, 32, 64, 128, 256}

// warm runs pieces of all lengths in every session.
func (e *Engine) warm(ctx context.Context, sessions []session) error {
	b, err := voice.ParseBlend(e.cfg.Voice)
	if err != nil {
		return err
	}
	style, err := e.voices.Style(b)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		for _, n := range slices.Concat(buckets, []int{e.cfg.Max}) {
			if n > e.cfg.Max {
				continue
			}
			tokens := make([]int64, n+2)
			for i := range n {
				tokens[1+i] = 43 + int64(i%26) // letters
			}
			if _, _, err := s.run(ctx, tokens, style.Row(phoneme.StyleRow(n)), 1); err != nil {
				return fmt.Errorf("run %d tokens: %w", n, err)
			}
		}
	}
	return nil
}

// Ran is how long sessions have run so far, all together: the rest of the time to a sound is the server's own.
func (e *Engine) Ran() time.Duration { return time.Duration(e.ran.Load()) }

// Voices is the names of the folder's voices, once loaded.
func (e *Engine) Voices() []string { return e.voices.Names() }

// Close waits for what is running and ends the sessions. Nothing may be spoken any more.
func (e *Engine) Close() {
	e.mu.Lock()
	idle, closed := e.idle, e.closed
	e.closed, e.spare = true, nil
	e.mu.Unlock()
	if idle == nil || closed {
		return
	}
	for range cap(idle) {
		(<-idle).close()
	}
}

var errClosed = errors.New("kokoro: the engine is not loaded, or closed")

// take is a session that nobody uses, which goes back by put.
func (e *Engine) take(ctx context.Context) (s session, put func(), err error) {
	e.mu.Lock()
	idle := e.idle
	if e.closed {
		idle = nil
	}
	e.mu.Unlock()
	if idle == nil {
		return nil, nil, errClosed
	}
	select {
	case s = <-idle:
		return s, func() { idle <- s }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// Prepare checks the request, has its words spelled and cuts them into pieces.
func (e *Engine) Prepare(ctx context.Context, r serve.Request) (serve.Utterance, error) {
	if e.voices == nil {
		return nil, errClosed
	}
	name := r.Voice
	if name == "" {
		name = e.cfg.Voice
	}
	blend, err := voice.ParseBlend(name)
	if err == nil {
		err = e.voices.Check(blend)
	}
	if err != nil {
		return nil, &serve.FieldError{Field: "voice", Message: fmt.Sprintf("voice %.80q: %v", name, err)}
	}
	language, err := blend.Language(r.Language)
	switch {
	case err != nil:
		return nil, &serve.FieldError{Field: "language", Message: fmt.Sprintf("voice %.80q: %v", name, err)}
	case language == "":
		return nil, &serve.FieldError{Field: "language", Message: fmt.Sprintf("the name of voice %.80q tells no language: give one, like en-us", name)}
	}
	if err := e.cfg.FrontEnd.Check(language); err != nil {
		return nil, &serve.FieldError{Field: "language", Message: err.Error()}
	}
	if e.sig.wholeSpeed && r.Speed != float64(int(r.Speed)) {
		return nil, &serve.FieldError{Field: "speed", Message: fmt.Sprintf("speed is %v: this export of the model takes whole numbers, 1 or 2", r.Speed)}
	}
	spelling, err := e.cfg.FrontEnd.Spell(ctx, speech.Read(r.Text, language, r.Lexicon))
	if err != nil {
		return nil, err
	}
	u := &utterance{e: e, speed: r.Speed, more: r.More, omitted: spelling.Unsaid()}
	limits := e.limits
	if r.Index > 0 {
		limits.First, limits.Second = 0, 0
	}
	u.pieces = speech.Pieces(spelling.Phonemes, limits)
	if len(u.pieces) == 0 {
		if r.Index == 0 {
			return nil, &serve.FieldError{Field: "text", Message: fmt.Sprintf("nothing of %.60q can be said in %s", r.Text, language)}
		}
		u.pieces = []string{""} // a pause
		return u, nil
	}
	u.style, err = e.voices.Style(blend)
	return u, err
}

// utterance is one sentence.
type utterance struct {
	e       *Engine
	style   *voice.Style
	speed   float64
	more    bool
	pieces  []string // phonemes
	omitted []string
}

// Size is the tokens of the next piece.
func (u *utterance) Size() int {
	if len(u.pieces) == 0 {
		return 0
	}
	return max(1, len([]rune(u.pieces[0])))
}

// Omitted is what of the sentence is not said.
func (u *utterance) Omitted() []string { return u.omitted }

// Next speaks the next piece.
func (u *utterance) Next(ctx context.Context, _ time.Time) ([][]byte, error) {
	piece := u.pieces[0]
	pause := pauseAfter(piece, len(u.pieces) == 1, u.more)
	if piece == "" {
		u.pieces = u.pieces[1:]
		return [][]byte{silence(pause)}, ctx.Err()
	}
	tokens, _ := phoneme.Tokens(piece) // symbols without a token were counted by the front end
	s, put, err := u.e.take(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	sound, frames, err := s.run(ctx, tokens, u.style.Row(phoneme.StyleRow(len(tokens)-2)), u.speed)
	u.e.ran.Add(int64(time.Since(began)))
	put()
	if err != nil {
		return nil, err
	}
	u.pieces = u.pieces[1:]
	pcm, err := joined(sound, spoken(tokens, frames, len(sound)), pause)
	if err != nil {
		return nil, fmt.Errorf("%d tokens: %w", len(tokens), err)
	}
	return [][]byte{pcm}, nil
}

// signature is how an export of the model is called.
type signature struct {
	tokens, style, speed string // inputs
	wholeSpeed           bool   // speed is an integer
	sound, duration      string // outputs; duration may be ""
}

func (s signature) String() string {
	kind := "float"
	if s.wholeSpeed {
		kind = "int"
	}
	out := s.sound
	if s.duration != "" {
		out += ", " + s.duration
	}
	return fmt.Sprintf("(%s, %s, %s %s) -> (%s)", s.tokens, s.style, kind, s.speed, out)
}

// port is an input or output as the session describes it. A size below 1 is the caller's.
type port struct {
	name, kind string
	dims       []int64
}

func (p port) String() string { return fmt.Sprintf("%s %s%v", p.name, p.kind, p.dims) }

// identify finds the export among those known.
func identify(inputs, outputs []port) (signature, error) {
	var sig signature
	for _, p := range inputs {
		switch {
		case (p.name == "input_ids" || p.name == "tokens") && p.kind == "int64" && sig.tokens == "":
			sig.tokens = p.name
		case p.name == "style" && p.kind == "float32" && p.dims[len(p.dims)-1] == voice.Width:
			sig.style = p.name
		case p.name == "speed" && (p.kind == "float32" || p.kind == "int32"):
			sig.speed, sig.wholeSpeed = p.name, p.kind != "float32"
		}
	}
	for _, p := range outputs {
		switch {
		case (p.name == "waveform" || p.name == "audio") && p.kind == "float32":
			sig.sound = p.name
		case strings.HasPrefix(p.name, "duration") && p.kind == "int64":
			sig.duration = p.name
		}
	}
	if sig.tokens == "" || sig.style == "" || sig.speed == "" || sig.sound == "" || len(inputs) != 3 {
		return sig, fmt.Errorf("the graph takes %v and gives %v: this is no export of Kokoro-82M that is known here, which take input_ids or tokens, style [1 %d] and speed, and give waveform or audio",
			inputs, outputs, voice.Width)
	}
	return sig, nil
}
