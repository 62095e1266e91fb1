package phonemes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"loadline/internal/engine/child"
)

// own is the name of the project's program on eSpeak NG's library. It answers each line with one. A line that begins with a tab,
// as no text does, names the voice of those that follow.
const own = "espeak-phonemes"

// The program espeak-ng reads a line and writes its phonemes, a line for each clause that it finds. Nothing marks where those of
// one line end, so each is followed by one that says in the program's own notation what no word says.
const (
	mark   = "pktpkt"
	marked = "[[" + mark + "]]\n"
)

// most is the most bytes of a line: the program cuts what is longer, wherever that is.
const most = 300

// limit is the most bytes of phonemes of a line: far more than any has.
const limit = 1 << 16

// batch is how many bytes of lines are written before their answers are read: a pipe takes them without a wait.
const batch = 4096

// manner follows the name of espeak-ng's voice. That program makes its sound even where nobody hears it; a fast, high voice with few
// overtones takes a third of its time for that, and this variant of a voice half of the rest. A program that lacks the
// variant goes on without. The phonemes are the same.
const manner = "+anika"

// speller is one process, of one language at a time.
type speller struct {
	*child.Process
	language string
	end      string // follows each line, and then its answer; "" where an answer is one line
	ask      string // goes before the next line, and is answered too: the name of a voice
	lines    *bufio.Reader
}

func start(program, language, voice string) (*speller, error) {
	c := &speller{language: language}
	args := []string{voice}
	if filepath.Base(program) != own {
		c.end = marked
		args = []string{"-q", "--ipa", "--tie=^", "-s", "449", "-p", "99", "-v", voice + manner}
	}
	p, err := child.Start(program, args...)
	if err != nil {
		return nil, err
	}
	c.Process, c.lines = p, bufio.NewReaderSize(p.Out, limit)
	return c, nil
}

// turn has the process go on in another language, if it can.
func (c *speller) turn(language, voice string) bool {
	if c.end != "" {
		return false
	}
	c.language, c.ask = language, "\t"+voice+"\n"
	return true
}

// say has each text spelled, in order. The program works on while what it has said is read.
func (c *speller) say(texts []string) ([]string, error) {
	all := make([]string, len(texts))
	var lines []byte
	var of []int // text of each line that is written and not read; -1 is none
	exchange := func() error {
		if len(of) == 0 {
			return nil
		}
		if _, err := c.In.Write(lines); err != nil {
			return fmt.Errorf("espeak: write lines: %w", err)
		}
		for _, i := range of {
			ipa, err := c.read()
			if err != nil {
				return err
			}
			if i >= 0 {
				all[i] = strings.TrimSpace(all[i] + " " + ipa)
			}
		}
		lines, of = lines[:0], of[:0]
		return nil
	}
	if c.ask != "" {
		lines, of, c.ask = append(lines, c.ask...), append(of, -1), ""
	}
	for i, t := range texts {
		for _, line := range fitting(t) {
			if len(lines)+len(line)+1+len(c.end) > batch {
				if err := exchange(); err != nil {
					return nil, err
				}
			}
			lines, of = append(append(append(lines, line...), '\n'), c.end...), append(of, i)
		}
	}
	if err := exchange(); err != nil {
		return nil, err
	}
	return all, nil
}

// read takes the answer to a line.
func (c *speller) read() (string, error) {
	var out []byte
	for {
		line, err := c.lines.ReadSlice('\n')
		switch {
		case err == io.EOF:
			return "", errors.New("espeak: the process ended")
		case err == bufio.ErrBufferFull || len(out)+len(line) > limit:
			return "", fmt.Errorf("espeak: more than %d bytes of phonemes for one line", limit)
		case err != nil:
			return "", fmt.Errorf("espeak: read the phonemes: %w", err)
		}
		line = bytes.TrimSpace(line)
		if c.end != "" && string(line) == mark {
			return string(out), nil
		}
		if len(out) > 0 && len(line) > 0 {
			out = append(out, ' ')
		}
		if out = append(out, line...); c.end == "" {
			return string(out), nil
		}
	}
}

// fitting is a text as lines that the program takes: no notation of its own, no control characters, none too long.
func fitting(text string) []string {
	var out []string
	var line strings.Builder
	for _, w := range strings.FieldsFunc(text, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune("[]<>&|\\", r) || r == '\u0085' || r == '\u2028' || r == '\u2029'
	}) {
		for w != "" {
			n := len(w)
			if n > most {
				for n = most; n > most-4 && w[n]&0xC0 == 0x80; n-- { // between two characters
				}
			}
			if line.Len() > 0 && line.Len()+1+n > most {
				out = append(out, line.String())
				line.Reset()
			}
			if line.Len() > 0 {
				line.WriteByte(' ')
			}
			line.WriteString(w[:n])
			w = w[n:]
		}
	}
	if line.Len() > 0 {
		out = append(out, line.String())
	}
	return out
}
