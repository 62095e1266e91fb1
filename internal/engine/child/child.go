// Package child runs a program that reads lines and answers on its output for as long as it is kept: what the engines that
// have eSpeak NG at work share. What is asked and how an answer ends is theirs.
//
//	p, err := child.Start("espeak-ng", "--stdout")
//	defer p.End()
//	p.By(time.Now().Add(time.Second))
//	io.WriteString(p.In, "A line.\n")
package child

import (
	"fmt"
	"io"
	"os/exec"
	"time"
)

// Process is a program at work. It takes nothing from this one's environment.
type Process struct {
	In  io.WriteCloser
	Out io.ReadCloser
	Cmd *exec.Cmd
}

// Start starts the program; the error names it.
func Start(program string, args ...string) (*Process, error) {
	cmd := exec.Command(program, args...)
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
	return &Process{In: in, Out: out, Cmd: cmd}, nil
}

// By sets the time by which reads and writes are over; it may be called while they are under way.
func (p *Process) By(t time.Time) {
	for _, f := range []any{p.In, p.Out} {
		if d, ok := f.(interface{ SetDeadline(time.Time) error }); ok {
			_ = d.SetDeadline(t) // a pipe has one
		}
	}
}

// End kills the process and waits for it.
func (p *Process) End() {
	_ = p.Cmd.Process.Kill()
	_ = p.In.Close()
	_ = p.Cmd.Wait() // its end is what was wanted
}
