// Package phonemes has eSpeak NG say how words are pronounced. It runs as child processes that live on from sentence to
// sentence, so its licence, its state and its failures stay on the other side of a pipe. They run the project's own program on
// eSpeak NG's library (speller/espeak-phonemes.c), or, where that is not built, eSpeak NG's, which takes milliseconds longer.
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
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"loadline/internal/speech"
	"loadline/internal/speech/phoneme"
)

// languages are those for which the program is a front end of a Kokoro model, and the program's names of them. Others need
// front ends of their own, which this package is not.
var languages = map[string]string{"en-us": "en-us", "en-gb": "en-gb", "es": "es", "fr-fr": "fr-fr", "hi": "hi", "it": "it", "pt-br": "pt-br"}

// Config is a front end's settings.
type Config struct {
	// Program is spoken to as what its name says it is: espeak-phonemes, or else espeak-ng. By default it is espeak-phonemes
	// beside this program or in the path, and where that does not work espeak-ng in the path.
	Program   string
	Processes int           // at a time, all languages together; default one a processor
	Patience  time.Duration // for a sentence, before its child is given up; default 5 s
	Log       func(string)  // gets a line where the default program is not used, and why; default: nobody reads it
}

// Pool is the children. It is safe for concurrent use.
type Pool struct {
	cfg    Config
	memory memory
	places chan struct{}

	program string          // set by Load, with
	speaks  map[string]bool // its languages

	mu     sync.Mutex
	idle   []*speller // the last one used last
	closed bool
}

// New is a pool that spells once Load has found the program.
func New(c Config) *Pool {
	if c.Log == nil {
		c.Log = func(string) {}
	}
	if c.Processes <= 0 {
		c.Processes = runtime.GOMAXPROCS(0)
	}
	if c.Patience <= 0 {
		c.Patience = 5 * time.Second
	}
	return &Pool{cfg: c, places: make(chan struct{}, c.Processes)}
}

// Load finds the program and its languages, and has it say a word of English.
func (p *Pool) Load(ctx context.Context) error {
	if p.cfg.Program != "" {
		return p.try(ctx, p.cfg.Program)
	}
	lacking := p.try(ctx, beside(own))
	if lacking == nil {
		return nil
	}
	p.clear() // of what may say other things
	if err := p.try(ctx, "espeak-ng"); err != nil {
		return err
	}
	p.cfg.Log(fmt.Sprintf("phonemes come from the program espeak-ng, which takes milliseconds more for each new sentence than %s: %v", own, lacking))
	return nil
}

// beside is the path of a program in the folder of this one, if it is there, and else its name.
func beside(name string) string {
	if program, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(program), name)); err == nil {
			return path
		}
	}
	return name
}

// packaged is where a program comes from.
var packaged = map[string]string{
	own:         "make build, with a C compiler and libespeak-ng-dev",
	"espeak-ng": "apt-get install espeak-ng",
}

// try takes a program as the one that is run, if it works.
func (p *Pool) try(ctx context.Context, program string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		from := packaged[filepath.Base(program)]
		if from == "" {
			from = packaged["espeak-ng"]
		}
		return fmt.Errorf("%s is not installed (%s): %w", program, from, err)
	}
	p.program = path
	wait, cancel := context.WithTimeout(ctx, p.cfg.Patience)
	defer cancel()
	table, err := exec.CommandContext(wait, path, "--voices").Output()
	if err != nil {
		return fmt.Errorf("list the languages of %s: %w", path, err)
	}
	p.speaks = make(map[string]bool)
	for line := range bytes.Lines(table) { // priority, language, …
		if f := strings.Fields(string(line)); len(f) > 1 && languages[strings.ToLower(f[1])] != "" {
			p.speaks[strings.ToLower(f[1])] = true
		}
	}
	if !p.speaks["en-us"] {
		return fmt.Errorf("%s has no voice for en-us: its data is missing (apt-get install espeak-ng-data)", path)
	}
	ipa, err := p.say(ctx, "en-us", []string{"hello"})
	if err != nil {
		return fmt.Errorf("try %s: %w", path, err)
	}
	if s := phoneme.FromEspeak(ipa[0], "en-us"); s != "həlˈO" {
		return fmt.Errorf("%s says hello as %q, not as %q: another version, or another program", path, s, "həlˈO")
	}
	return nil
}

// Languages are those that can be spelled, sorted, as speech.Language names them.
func (p *Pool) Languages() []string {
	var all []string
	for l := range p.speaks {
		all = append(all, l)
	}
	slices.Sort(all)
	return all
}

// LanguageError is a language without a front end here.
type LanguageError struct {
	Language string
	Have     []string
}

func (e *LanguageError) Error() string {
	return fmt.Sprintf("this server has no front end for the language %.20q: it speaks %s", e.Language, strings.Join(e.Have, ", "))
}

// Check says whether a language can be spelled. Its error is a *LanguageError.
func (p *Pool) Check(language string) error {
	if !p.speaks[language] {
		return &LanguageError{language, p.Languages()}
	}
	return nil
}

// Spell is how a reading is said, its marks kept. It waits while all processes are at work.
func (p *Pool) Spell(ctx context.Context, r speech.Reading) (phoneme.Spelling, error) {
	if err := p.Check(r.Language); err != nil {
		return phoneme.Spelling{}, err
	}
	var all, unknown []string
	var at []int // of those unknown, in all
	for _, s := range r.Spans {
		if s.Words != "" {
			ipa, ok := p.memory.get(r.Language, s.Words)
			if !ok {
				unknown, at = append(unknown, s.Words), append(at, len(all))
			}
			all = append(all, ipa)
		}
	}
	said, err := p.say(ctx, r.Language, unknown)
	if err != nil {
		return phoneme.Spelling{}, err
	}
	for i, ipa := range said {
		all[at[i]] = ipa
		p.memory.keep(r.Language, unknown[i], ipa)
	}
	return phoneme.Join(r, all), nil
}

// say has texts spelled by a child, and by another if that one fails.
func (p *Pool) say(ctx context.Context, language string, texts []string) ([]string, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for try := 0; ; try++ {
		c, err := p.take(language, try > 0) // a second one has not been through what the first has
		if err != nil {
			return nil, err
		}
		c.By(time.Now().Add(p.cfg.Patience))
		unhook := context.AfterFunc(ctx, func() { c.By(time.Unix(1, 0)) })
		ipa, err := c.say(texts)
		if unhook() && err == nil {
			p.put(c)
			return ipa, nil
		}
		c.End() // in the middle of something, or about to be
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case try == 1:
			return nil, err
		}
	}
}

var errClosed = errors.New("phonemes: the front end is closed")

// take is a child of a language, the one used last; or else a new one, and where there are enough, the one that is idle longest,
// which turns to the language if it can, or makes place for a new one. With fresh it is a new one in any case.
func (p *Pool) take(language string, fresh bool) (*speller, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	for i := len(p.idle) - 1; i >= 0 && !fresh; i-- {
		if c := p.idle[i]; c.language == language {
			p.idle = slices.Delete(p.idle, i, i+1)
			return c, nil
		}
	}
	if len(p.idle) >= p.cfg.Processes-len(p.places)+1 {
		c := p.idle[0]
		p.idle = slices.Delete(p.idle, 0, 1)
		if !fresh && c.turn(language, languages[language]) {
			return c, nil
		}
		c.End()
	}
	return start(p.program, language, languages[language])
}

func (p *Pool) put(c *speller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.End()
		return
	}
	p.idle = append(p.idle, c)
}

// Close ends the children. Nothing is spelled any more.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.clear()
}

// clear ends the children that are idle.
func (p *Pool) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		c.End()
	}
	p.idle = nil
}
