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
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

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
