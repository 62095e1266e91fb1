package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"loadline/internal/local"
)

// Tries to start a process on a port that nobody took in the meantime, and how long one is watched for it.
const (
	portTries = 3
	portWatch = 100 * time.Millisecond
)

// containers starts instances that are processes of a command, each with the environment of its container, a port of its
// own on loopback in SAGEMAKER_BIND_TO_PORT, and its output in the instance's log stream. A command without arguments gets
// the one that the platform gives, serve.
func containers(command []string) (local.Starter, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil, err
	}
	args := command[1:]
	if len(args) == 0 {
		args = []string{"serve"}
	}
	return func(_ context.Context, s local.Spec) (local.Instance, error) {
		var p *process
		for range portTries {
			addr, err := freePort()
			if err != nil {
				return nil, err
			}
			cmd := exec.Command(path, args...)
			cmd.Env = environ(s, addr)
			cmd.Stdout, cmd.Stderr = s.Output, s.Output
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is this program's to act on
			cmd.WaitDelay = time.Second
			if err := cmd.Start(); err != nil {
				return nil, fmt.Errorf("start the container: %w", err)
			}
			p = &process{cmd: cmd, addr: addr, ended: make(chan struct{})}
			go func() {
				defer close(p.ended)
				p.err = cmd.Wait()
			}()
			select {
			case <-p.ended: // its port may have been taken; whatever it was, its log says
			case <-time.After(portWatch):
				return p, nil
			}
		}
		return nil, fmt.Errorf("the container ended at once, %d times: %w", portTries, cmp.Or(p.err, errors.New("exit 0")))
	}, nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// environ is the container's environment: the model's, and of this program's own what finds programs and files.
func environ(s local.Spec, addr string) []string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err) // the kernel's own
	}
	env := []string{"SAGEMAKER_BIND_TO_PORT=" + port, "SPEECH_ADDR=" + addr, "SPEECH_INSTANCE=" + s.ID, fmt.Sprintf("SPEECH_SEED=%d", s.Seed),
		fmt.Sprintf("CONTAINER_START_EPOCH=%.3f", float64(time.Now().UnixMilli())/1e3)}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if slices.Contains([]string{"PATH", "HOME", "TMPDIR", "LANG"}, name) || strings.HasPrefix(name, "SPEECH_") {
			env = append(env, pair)
		}
	}
	for k, v := range s.Model.Env {
		env = append(env, k+"="+v)
	}
	return env
}

// process is one container.
type process struct {
	cmd   *exec.Cmd
	addr  string
	ended chan struct{}
	err   error // how it ended
}

func (p *process) Addr() string { return p.addr }

// Usage is what the kernel counts for the process and its children that have ended; other systems than Linux count nothing.
func (p *process) Usage() local.Usage {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return local.Usage{}
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // the name before it may hold anything
	fields := strings.Fields(string(rest))
	if len(fields) < 22 {
		return local.Usage{}
	}
	const hertz = 100 // of the kernel's clock, as every Linux shows it
	ticks := 0.0
	for _, f := range fields[11:15] { // user and system time, its own and its children's
		v, _ := strconv.ParseFloat(f, 64)
		ticks += v
	}
	u := local.Usage{CPU: ticks / hertz}
	// The first line of /proc/meminfo is the machine's memory in kB.
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		pages, _ := strconv.ParseFloat(fields[21], 64)
		var kb float64
		if _, err := fmt.Sscanf(string(info), "MemTotal: %f kB", &kb); err == nil && kb > 0 {
			u.Memory = 100 * pages * float64(os.Getpagesize()) / (1024 * kb)
		}
	}
	return u
}

// Stop asks the process to end, and kills its group when ctx does.
func (p *process) Stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-p.ended:
	case <-ctx.Done():
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
		return fmt.Errorf("the container at %s did not end in time and was killed", p.addr)
	}
	if p.err != nil {
		return fmt.Errorf("the container at %s ended badly: %w", p.addr, p.err)
	}
	return nil
}
