package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"loadline/internal/exit"
)

// realVoice is the program behind speech-server's real voice.
const realVoice = "espeak-ng"

// localVoice starts speech-server on loopback, with a real voice where one is installed, and returns where it takes texts.
// stop ends it and waits.
func localVoice(ctx context.Context, stderr io.Writer) (url, engine string, stop func(), err error) {
	program := "speech-server"
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), program); isFile(beside) {
			program = beside
		}
	}
	if program, err = exec.LookPath(program); err != nil {
		return "", "", nil, errors.New("speech-server is neither beside tts-bench nor on PATH: run make build, or name a target")
	}
	engine = "replay"
	if _, err := exec.LookPath(realVoice); err == nil {
		engine = "espeak"
	}
	cmd := exec.CommandContext(ctx, program, "serve", "--addr", "127.0.0.1:0", "--engine", engine, "--drain", "1s")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", "", nil, fmt.Errorf("start speech-server: %w", err)
	}
	drained := make(chan struct{})
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
		<-drained
		_ = cmd.Wait() // what it says of its own end is of no use here
	}
	lines := bufio.NewReader(stdout)
	first, err := lines.ReadString('\n')
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, lines)
	}()
	base, _, ok := strings.Cut(strings.TrimPrefix(first, "listening "), " ")
	if err == nil && ok {
		if err = pinged(ctx, base+"/ping"); err == nil {
			return base + "/invocations", engine, stop, nil
		}
	}
	stop()
	return "", "", nil, fmt.Errorf("speech-server did not come up: it said %q: %w", strings.TrimSpace(first), err)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// pinged waits until a server says that it is ready.
func pinged(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", url, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// named says whether anything about a target was said.
func (f *targetFlags) named(set func(string) bool) bool {
	return f.url != "" || slices.ContainsFunc([]string{"model", "endpoint", "variant", "region", "endpoint-url", "transport", "url", "name", "header"}, set)
}

// sayHere speaks through a server of this machine, started for it, where no target is named.
func (a *app) sayHere(cmd *cobra.Command, f sayFlags, args []string) error {
	url, engine, stop, err := localVoice(cmd.Context(), a.stderr)
	if err != nil {
		return exit.Misuse(fmt.Errorf("say: nothing to ask: give --model NAME, --endpoint NAME or --url URL; %w", err))
	}
	defer stop()
	voice := "the replayed engine's hum: " + realVoice + " is not installed"
	if engine == "espeak" {
		voice = realVoice
	}
	fmt.Fprintf(a.saying(f.json), "no target named: speech-server on this machine, with %s\n", voice)
	f.target.url = url
	return a.say(cmd, f, args)
}

// demoVoice has the demo's end told by a real voice, where this machine has one.
func (a *app) demoVoice(ctx context.Context, out, text string) {
	if _, err := exec.LookPath(realVoice); err != nil {
		return
	}
	_, _, stop, err := localVoice(ctx, io.Discard)
	if err != nil {
		return // speech-server was not built with the rest
	}
	stop()
	if err := a.step(ctx, "say", "--out", filepath.Join(out, "told.wav"), text); err != nil {
		fmt.Fprintf(a.stderr, "demo: %v\n", err) // the chain is told in letters all the same
	}
}
