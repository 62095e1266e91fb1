package phonemes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"loadline/internal/engine/child"
)

// The program reads a line and writes its phonemes, a line for each clause that it finds. Nothing marks where those of one
// line end, so each is followed by one that says in the program's own notation what no word says.
const (
	mark   = "pktpkt"
	marked = "[[" + mark + "]]\n"
)

// most is the most bytes of a line: the program cuts what is longer, wherever that is.
const most = 300

// limit is the most bytes that are read for one line: far more than any has.
const limit = 1 << 20

// batch is how many bytes of lines are written before their answers are read: a pipe takes them without a wait.
const batch = 4096

// manner follows the name of a voice. The program makes its sound even where nobody hears it; a fast, high voice with few
// overtones takes a third of its time for that, and this variant of a voice half of the rest. A program that lacks the
// variant goes on without. The phonemes are the same.
const manner = "+anika"

// speller is one process, of one language.
type speller struct {
	*child.Process
	language string
	lines    *bufio.Reader
}

func start(program, language, voice string) (*speller, error) {
	p, err := child.Start(program, "-q", "--ipa", "--tie=^", "-s", "449", "-p", "99", "-v", voice+manner)
	if err != nil {
		return nil, err
	}
	return &speller{Process: p, language: language, lines: bufio.NewReader(p.Out)}, nil
}

// say has each text spelled, in order. The program works on while what it has said is read.
func (c *speller) say(texts []string) ([]string, error) {
	all := make([]string, len(texts))
	var lines []byte
	var of []int // text of each line that is written and not read
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
			all[i] = strings.TrimSpace(all[i] + " " + ipa)
		}
		lines, of = lines[:0], of[:0]
		return nil
	}
	for i, t := range texts {
		for _, line := range fitting(t) {
			if len(lines)+len(line)+1+len(marked) > batch {
				if err := exchange(); err != nil {
					return nil, err
				}
			}
			lines, of = append(append(append(lines, line...), '\n'), marked...), append(of, i)
		}
	}
	if err := exchange(); err != nil {
		return nil, err
	}
	return all, nil
}

// read takes what comes before the mark.
func (c *speller) read() (string, error) {
	var out strings.Builder
	for {
		line, err := c.lines.ReadString('\n')
		line = strings.TrimSpace(line)
		switch {
		case err == io.EOF:
			return "", errors.New("espeak: the process ended")
		case err != nil:
			return "", fmt.Errorf("espeak: read the phonemes: %w", err)
		case line == mark:
			return out.String(), nil
		case out.Len()+len(line) > limit:
			return "", fmt.Errorf("espeak: more than %d bytes of phonemes for one line", limit)
		case line != "":
			if out.Len() > 0 {
				out.WriteByte(' ')
			}
			out.WriteString(line)
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
