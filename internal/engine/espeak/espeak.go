// Package espeak is an engine that speaks with eSpeak NG: real speech, in many languages, on any machine, with no weights.
// Each place has a child process of its own that lives on from piece to piece, so the program's licence and its failures
// stay on the other side of a pipe.
//
// It decides how a sentence is cut and handed to the program, and how its sound is trimmed and joined; text is cleaned and
// split into sentences before it comes here, and numbers are put into words by package speech.
//
//	e, err := espeak.New(espeak.Config{})
//	s, err := serve.New(serve.Config{Engine: e})
//	…
//	e.Close()
package espeak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"loadline/internal/serve"
	"loadline/internal/speech"
)

// Rate is the program's samples a second.
const Rate = 22050

// Pieces of a sentence, in characters: the program is some hundred times as fast as speech, so even a long piece is ready
// in milliseconds, and sounds better than its parts.
var limits = speech.Limits{Max: 200}

// Pauses after a piece.
const (
	afterSentence = 250 * time.Millisecond
	afterClause   = 100 * time.Millisecond
	afterWord     = 15 * time.Millisecond
)

// Config is an engine's settings.
type Config struct {
	Program  string        // default espeak-ng, looked for in the path
	Workers  int           // child processes, as many pieces at a time; default one a processor
	Patience time.Duration // for a piece, before its child is given up; default 10 s
}

// Engine speaks. Its children start when they are needed.
type Engine struct {
	cfg    Config
	voices map[string]string // by language, the program's own names; set by Load

	mu     sync.Mutex
	idle   []*speaker
	closed bool
}

var _ serve.Engine = (*Engine)(nil)

// New is an engine that speaks once Load has found the program.
func New(c Config) *Engine {
	if c.Program == "" {
		c.Program = "espeak-ng"
	}
	if c.Workers <= 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Patience <= 0 {
		c.Patience = 10 * time.Second
	}
	return &Engine{cfg: c}
}

// Info is the workers and the sample rate.
func (e *Engine) Info() serve.Info { return serve.Info{Places: e.cfg.Workers, Rate: Rate} }

// Load finds the program and its languages.
func (e *Engine) Load(ctx context.Context, mark func(string)) error {
	path, err := exec.LookPath(e.cfg.Program)
	if err != nil {
		return fmt.Errorf("%s is not installed (apt-get install espeak-ng): %w", e.cfg.Program, err)
	}
	e.cfg.Program = path
	mark(serve.StageFramework)
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--voices").Output()
	if err != nil {
		return fmt.Errorf("list the languages of %s: %w", path, err)
	}
	if e.voices = languages(out); e.voices["en-us"] == "" {
		return fmt.Errorf("%s has no voice for en-us: its data is missing (apt-get install espeak-ng-data)", path)
	}
	mark(serve.StageFetched)
	mark(serve.StageWeights)
	return nil
}

// Close ends the children. Nothing may be spoken any more.
func (e *Engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, c := range e.idle {
		c.End()
	}
	e.idle = nil
}

// languages reads the program's table of voices: priority, language, age and gender, name, file, more languages.
func languages(table []byte) map[string]string {
	voices := make(map[string]string)
	for line := range bytes.Lines(table) {
		if f := strings.Fields(string(line)); len(f) >= 5 && f[0] != "Pty" {
			voices[strings.ToLower(f[1])] = strings.ReplaceAll(f[3], "_", " ")
		}
	}
	return voices
}

var (
	kokoroName = regexp.MustCompile(`^[a-z][fm]_[a-z0-9]+$`)
	ownName    = regexp.MustCompile(`^([a-z]{2,3}(?:-[a-z0-9]+)*)((?:\+[fm][1-8])?)$`)
)

// voice is the program's name of a voice, and its language: one named after a language, with or without a variant, as in
// en-gb+f3, or one that stands in for a voice of Kokoro. A language that is asked for goes before the voice's own.
func (e *Engine) voice(name, asked string) (voice, language string, err error) {
	language, variant := "en-us", ""
	switch own := ownName.FindStringSubmatch(name); {
	case name == "":
	case kokoroName.MatchString(name) && speech.VoiceLanguage(name) != "":
		language, variant = speech.VoiceLanguage(name), "+f2"
		if name[1] == 'm' {
			variant = "+m3"
		}
	case own != nil:
		language, variant = own[1], own[2]
	default:
		language = ""
	}
	if e.voices[language] == "" {
		return "", "", &serve.FieldError{Field: "voice", Message: fmt.Sprintf("voice is %.40q: this engine has languages like en-us, with +f1 to +f8 or +m1 to +m8 if wanted, and stand-ins for Kokoro's voices, like af_heart", name)}
	}
	if asked != "" {
		language = asked
	}
	v := e.voices[language]
	if v == "" {
		return "", "", &serve.FieldError{Field: "language", Message: fmt.Sprintf("language is %.20q: this engine has no voice for it; espeak-ng --voices lists those it has", language)}
	}
	return v + variant, language, nil
}

// Prepare checks the voice, puts the sentence into words and cuts it.
func (e *Engine) Prepare(ctx context.Context, r serve.Request) (serve.Utterance, error) {
	voice, language, err := e.voice(r.Voice, r.Language)
	if err != nil {
		return nil, err
	}
	if r.Lexicon.Phonetic() {
		return nil, &serve.FieldError{Field: "pronunciations", Message: "this engine takes other words for a word, not phonetic symbols"}
	}
	read := speech.Read(r.Text, language, r.Lexicon)
	u := &utterance{e: e, before: fmt.Sprintf(`<voice name="%s"><prosody rate="%.0f%%">`, voice, 100*r.Speed), more: r.More, omitted: read.Omitted}
	for _, p := range speech.Pieces(read.Text(), limits) {
		u.pieces = append(u.pieces, fitting(p)...)
	}
	if len(u.pieces) == 0 {
		if r.Index == 0 {
			return nil, &serve.FieldError{Field: "text", Message: fmt.Sprintf("nothing of %.60q can be said in %s", r.Text, language)}
		}
		u.pieces = []string{"…"} // a pause
	}
	return u, ctx.Err()
}

// longest is the most bytes of a piece as the program reads it: its line buffer holds a thousand.
const longest = 800

// escaped is text as the program reads markup. Its own notation for phonemes is not for callers.
var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "[", " ", "]", " ", "\n", " ", "\r", " ", "\x00", " ")

// fitting cuts a piece until it fits the program's line.
func fitting(piece string) []string {
	if len(escaped.Replace(piece)) <= longest {
		return []string{piece}
	}
	var out []string
	for _, p := range speech.Pieces(piece, speech.Limits{Max: max(1, utf8.RuneCountInString(piece)/2)}) {
		out = append(out, fitting(p)...)
	}
	return out
}

// utterance is one sentence.
type utterance struct {
	e      *Engine
	before string // markup of its voice and speed
	pieces []string
	more   bool // the sentence goes on

	omitted []string
}

// Omitted is what of the sentence is not said.
func (u *utterance) Omitted() []string { return u.omitted }

// Size is the characters of the next piece.
func (u *utterance) Size() int {
	if len(u.pieces) == 0 {
		return 0
	}
	return utf8.RuneCountInString(u.pieces[0])
}

// Next speaks the next piece.
func (u *utterance) Next(ctx context.Context, _ time.Time) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // what is begun takes milliseconds: it is never broken off
	}
	piece := u.pieces[0]
	u.pieces = u.pieces[1:]
	if !speech.Speakable(piece) {
		return [][]byte{make([]byte, 2*int(afterSentence.Seconds()*Rate))}, nil
	}
	sound, err := u.e.say(ctx, u.before+escaped.Replace(piece)+`</prosody></voice><break time="400ms"/>`)
	if err != nil {
		return nil, err
	}
	last, _ := utf8.DecodeLastRuneInString(piece)
	clause := strings.ContainsRune(",;:—–…、，；：)", last)
	pause := afterWord
	switch {
	case len(u.pieces) == 0 && !(u.more && clause):
		pause = afterSentence
	case clause:
		pause = afterClause
	}
	return [][]byte{joined(sound, pause)}, nil
}

// say has a child read a line, and another if that one fails.
func (e *Engine) say(ctx context.Context, line string) ([]byte, error) {
	for try := 0; ; try++ {
		c, err := e.take()
		if err != nil {
			return nil, err
		}
		sound, err := c.say(line, time.Now().Add(e.cfg.Patience))
		if err == nil {
			e.put(c)
			return sound, nil
		}
		c.End()
		if try == 1 || ctx.Err() != nil {
			return nil, err
		}
	}
}

var errClosed = errors.New("espeak: the engine is closed")

func (e *Engine) take() (*speaker, error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, errClosed
	}
	if n := len(e.idle); n > 0 {
		c := e.idle[n-1]
		e.idle = e.idle[:n-1]
		e.mu.Unlock()
		return c, nil
	}
	e.mu.Unlock()
	return start(e.cfg.Program)
}

func (e *Engine) put(c *speaker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || len(e.idle) >= e.cfg.Workers {
		c.End()
		return
	}
	e.idle = append(e.idle, c)
}
