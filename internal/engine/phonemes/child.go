package phonemes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
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

// child is one process, of one language.
type child struct {
	language string
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      io.ReadCloser
	lines    *bufio.Reader
}

func start(program, language, voice string) (*child, error) {
	cmd := exec.Command(program, "-q", "--ipa", "--tie=^", "-s", "449", "-p", "99", "-v", voice+manner)
	cmd.Env = []string{"PATH=", "LC_ALL=C.UTF-8"}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return &child{language: language, cmd: cmd, in: in, out: out, lines: bufio.NewReader(out)}, nil
}

// end kills the process and waits for it.
func (c *child) end() {
	_ = c.cmd.Process.Kill()
	_ = c.in.Close()
	_ = c.cmd.Wait() // its end is what was wanted
}

// by sets the time by which reads and writes are over; it may be called while they are under way.
func (c *child) by(t time.Time) {
	for _, f := range []any{c.in, c.out} {
		if d, ok := f.(interface{ SetDeadline(time.Time) error }); ok {
			_ = d.SetDeadline(t) // a pipe has one
		}
	}
}

// say has each text spelled, in order. The program works on while what it has said is read.
func (c *child) say(texts []string) ([]string, error) {
	all := make([]string, len(texts))
	var lines []byte
	var of []int // text of each line that is written and not read
	exchange := func() error {
		if len(of) == 0 {
			return nil
		}
		if _, err := c.in.Write(lines); err != nil {
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
func (c *child) read() (string, error) {
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
