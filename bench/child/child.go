//go:build linux

// Package child runs a bench's own program again as another process: a server beside the client, or a client that is
// alone on one processor. What a process costs, or what it suffers, can only be told from outside of the others.
package child

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Anywhere leaves a child the processors that its parent may use.
const Anywhere = -1

// Server starts this program with args on a processor and returns the first line that it prints. It ends when stop is
// called, and also with its parent: it must end when its standard input does.
func Server(cpu int, args ...string) (line string, stop func(), err error) {
	c, err := command(args)
	if err != nil {
		return "", nil, err
	}
	in, err := c.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := startOn(cpu, c); err != nil {
		return "", nil, err
	}
	stop = func() { in.Close(); c.Wait() }
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("%s: no first line: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(line), stop, nil
}

// Run runs this program with args on a processor to its end and decodes the JSON that it prints into v.
func Run(cpu int, v any, args ...string) error {
	c, err := command(args)
	if err != nil {
		return err
	}
	var out strings.Builder
	c.Stdout = &out
	if err := startOn(cpu, c); err != nil {
		return err
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return json.Unmarshal([]byte(out.String()), v)
}

func command(args []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, args...)
	c.Stderr = os.Stderr
	return c, nil
}

// startOn starts a process on one processor: a child may run where the thread may that starts it.
func startOn(cpu int, c *exec.Cmd) error {
	if cpu == Anywhere {
		return c.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var was, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		return err
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("pin to processor %d: %w", cpu, err)
	}
	defer unix.SchedSetaffinity(0, &was)
	return c.Start()
}
