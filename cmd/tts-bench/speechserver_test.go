package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScriptsKokoro measures for real too, so it has the machine to itself as well.
func TestScriptsKokoro(t *testing.T) { scripts(t, "testdata/kokoro") }

// runtimeLibrary is ONNX Runtime as make setup leaves it, or as LOADLINE_ONNXRUNTIME names it.
func runtimeLibrary() (path string, found bool) {
	path, err := filepath.Abs("../../.onnxruntime/libonnxruntime.so.1")
	if named := os.Getenv("LOADLINE_ONNXRUNTIME"); named != "" {
		path = named
	}
	if err == nil {
		_, err = os.Stat(path)
	}
	return path, err == nil
}

// condition is the scripts' own: [onnxruntime].
func condition(cond string) (bool, error) {
	if cond != "onnxruntime" {
		return false, fmt.Errorf("no condition %q", cond)
	}
	_, found := runtimeLibrary()
	return found, nil
}

// kokoro starts speech-server with the engine kokoro on a stand-in model folder, waits until it is ready and sets $KOKORO to
// its URL; it is ended with the script.
func kokoro(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: kokoro")
	}
	library, _ := runtimeLibrary()
	program := ts.MkAbs("speech-server")
	build := exec.Command("go", "build", "-o", program, "loadline/cmd/speech-server")
	build.Dir = ts.Getenv("ROOT")
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("build speech-server: %v\n%s", err, out)
	}
	ts.Check(exec.Command(program, "stand-in", ts.MkAbs("model")).Run())
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "serve", "--engine", "kokoro", "--model-dir", ts.MkAbs("model"), "--onnxruntime", library,
		"--addr", "127.0.0.1:0", "--slo", "800ms", "--drain", "1s")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cancel()
		_ = cmd.Wait() // its exit after the interrupt says nothing of the script
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			url, _, _ := strings.Cut(rest, " ")
			ts.Setenv("KOKORO", url)
		}
		if strings.HasPrefix(lines.Text(), "=== STAGE ready ") {
			go func() {
				for lines.Scan() { // keep its pipe from filling
				}
			}()
			return
		}
	}
	ts.Fatalf("speech-server ended before it was ready: %s", stderr.String())
}
