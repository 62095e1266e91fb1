// Package chain runs this project's own programs for a bench, as people run them: it builds them, and starts the local
// endpoint. What is measured on it is the bench's.
//
//	err := chain.Build(ctx, dir)
//	url, stop, err := chain.Serve(ctx, dir, "--publication-delay", "0")
//	defer stop()
//	err = exec.CommandContext(ctx, filepath.Join(dir, "tts-bench"), "qmax", "--endpoint-url", url).Run()
package chain

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"loadline/bench/machine"
)

// Repeat is the whole of a bench that holds the programs against what they should say: once is called with a folder that has
// them in it, as often as -n says. It exits with 1 where anything was missed, with 3 where that could not be told.
func Repeat(name, input string, once func(ctx context.Context, dir string) (missed bool, err error)) {
	runs := flag.Int("n", 1, "repetitions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Printf("machine: %s\ninput: %s, %d repetitions\n", machine.String(), input, *runs)
	missed, err := repeat(ctx, *runs, once)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench/%s: %v\n", name, err)
		os.Exit(3)
	}
	if missed {
		os.Exit(1)
	}
}

func repeat(ctx context.Context, runs int, once func(ctx context.Context, dir string) (bool, error)) (missed bool, err error) {
	dir, err := os.MkdirTemp("", "loadline-bench-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := Build(ctx, dir); err != nil {
		return false, err
	}
	for i := range runs {
		m, err := once(ctx, dir)
		if err != nil {
			return false, fmt.Errorf("repetition %d: %w", i+1, err)
		}
		missed = missed || m
	}
	return missed, nil
}

// Build builds tts-bench and sagemaker-local into a folder.
func Build(ctx context.Context, dir string) error {
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", dir, "loadline/cmd/tts-bench", "loadline/cmd/sagemaker-local").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// Serve starts a folder's sagemaker-local with the profile kokoro-g5 and returns its URL once it is ready. It ends with ctx,
// or when stop is called.
func Serve(ctx context.Context, dir string, flags ...string) (url string, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	c := exec.CommandContext(ctx, filepath.Join(dir, "sagemaker-local"), append([]string{"serve", "--profile", "kokoro-g5", "--quiet"}, flags...)...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		cancel()
		return "", nil, err
	}
	stop = func() { cancel(); _ = c.Wait() } // its exit after the interrupt says nothing
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ready {
		stop()
		return "", nil, fmt.Errorf("sagemaker-local said %q in place of its address (%v)", line, err)
	}
	return url, stop, nil
}
