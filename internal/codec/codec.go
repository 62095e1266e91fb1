// Package codec makes MP3 and Opus of sound as it comes, by the programs lame and opusenc: a child process for each reply, so
// their licences, their memory and their failures stay on the other side of a pipe.
//
// It decides how the programs are called. What is encoded, who gets it and how fast he takes it is the caller's.
//
//	formats := codec.Formats()                     // those whose program is installed
//	w, err := formats["mp3"].Open(ctx, 24000, out) // what it makes goes to out, from a goroutine of its own
//	w.Write(pcm)                                   // 16-bit little-endian mono
//	err = w.Close()                                // all of it is in out
package codec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Format is a way to encode sound.
type Format struct {
	ContentType string
	program     string
	arguments   func(rate int) []string
}

// formats is those known, by the name that requests give them.
var formats = map[string]Format{
	// Constant 64 kbit/s are transparent for a voice at these rates; without the header of a variable rate, whose length nobody
	// knows yet.
	"mp3": {"audio/mpeg", "lame", func(rate int) []string {
		return []string{"--quiet", "-r", "-s", strconv.FormatFloat(float64(rate)/1000, 'f', -1, 64), "-m", "m", "--signed", "--little-endian",
			"--cbr", "-b", bitrate(rate), "-t", "--flush", "-", "-"}
	}},
	// opusenc holds back two seconds of sound for its own decisions, and by stdbuf no more.
	"opus": {"audio/ogg", "opusenc", func(rate int) []string {
		return []string{"--quiet", "--raw", "--raw-rate", strconv.Itoa(rate), "--raw-chan", "1", "--speech", "--bitrate", "32", "--max-delay", "40", "-", "-"}
	}},
}

// bitrate is kbit/s that MPEG allows at a rate.
func bitrate(rate int) string {
	if rate < 16000 {
		return "32"
	}
	return "64"
}

// Formats is the formats whose program is installed, by name.
func Formats() map[string]Format {
	found := make(map[string]Format)
	for name, f := range formats {
		if path, err := exec.LookPath(f.program); err == nil {
			f.program = path
			found[name] = f
		}
	}
	return found
}

// Encoder encodes one sound.
type Encoder struct {
	cmd  *exec.Cmd
	name string
	in   io.WriteCloser
	said tail

	once sync.Once
	err  error
	done chan error // of the copying to out
}

// Open starts an encoder of 16-bit little-endian mono sound at rate samples a second. What it makes is written to out, from
// a goroutine that ends before Close returns. When ctx ends the encoder is killed.
func (f Format) Open(ctx context.Context, rate int, out io.Writer) (*Encoder, error) {
	asked := ctx
	ctx, cancel := context.WithCancel(ctx)
	program, arguments := f.program, f.arguments(rate)
	if unbuffered, err := exec.LookPath("stdbuf"); err == nil {
		program, arguments = unbuffered, append([]string{"-o0", f.program}, arguments...)
	}
	e := &Encoder{cmd: exec.CommandContext(ctx, program, arguments...), name: f.program, done: make(chan error, 1)}
	e.cmd.WaitDelay = time.Second
	e.cmd.Stderr = &e.said
	var err error
	fail := func(err error) (*Encoder, error) {
		cancel()
		return nil, fmt.Errorf("start %s: %w", f.program, err)
	}
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		return fail(err)
	}
	made, err := e.cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if err := e.cmd.Start(); err != nil {
		return fail(err)
	}
	go func() {
		_, err := io.Copy(out, made)
		if err != nil {
			cancel() // nobody takes it: whoever writes is told by a broken pipe
		}
		err = errors.Join(err, e.cmd.Wait())
		if asked.Err() != nil { // whatever the program made of its end
			err = errors.Join(context.Cause(asked), err)
		}
		cancel()
		e.done <- err
	}()
	return e, nil
}

// Write encodes more sound. It waits while out does not take what was made.
func (e *Encoder) Write(pcm []byte) (int, error) { return e.in.Write(pcm) }

// Close ends the sound and returns once all of it is in out, or why it is not. A second call returns the same.
func (e *Encoder) Close() error {
	e.once.Do(func() {
		_ = e.in.Close()
		if err := <-e.done; err != nil {
			e.err = fmt.Errorf("%s: %w%s", e.name, err, e.said.text())
		}
	})
	return e.err
}

// tail keeps the end of what a program says.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - 500; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	s := strings.Join(strings.Fields(string(t.b)), " ")
	if s == "" {
		return ""
	}
	return " (it says: " + s + ")"
}
