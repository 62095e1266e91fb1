package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the goldens of the scripts")

// localBinary is sagemaker-local, built once for all scripts.
var localBinary string

func TestMain(m *testing.M) {
	testscript.Main(builder{m}, map[string]func(){"tts-bench": main, "liar": liar})
}

// builder builds sagemaker-local before the first script runs; a script's own tts-bench process skips it.
type builder struct{ m *testing.M }

func (b builder) Run() int {
	dir, err := os.MkdirTemp("", "loadline-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Three at a time, for they wait more than they work; what measures for real is not in parallel with anything.
	if err := flag.Set("test.parallel", "3"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	localBinary = filepath.Join(dir, "sagemaker-local")
	if out, err := exec.Command("go", "build", "-o", localBinary, "loadline/cmd/sagemaker-local").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build sagemaker-local: %v\n%s", err, out)
		return 1
	}
	return b.m.Run()
}

func TestScripts(t *testing.T) { scripts(t, "testdata/script") }

// TestScriptsAlone are the scripts that measure for real: one at a time.
func TestScriptsAlone(t *testing.T) { scripts(t, "testdata/alone") }

func scripts(t *testing.T, dir string) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition:           condition,
		Setup: func(env *testscript.Env) error {
			env.Setenv("ROOT", root)
			env.Setenv("SAGEMAKER_LOCAL", localBinary)
			env.Setenv("QUICK", filepath.Join(root, "cmd/tts-bench/testdata/qmax-quick.json"))
			env.Setenv("PUBLISHED", filepath.Join(root, "internal/artifact/testdata/published"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			env.Setenv("AWS_ACCESS_KEY_ID", "")
			env.Setenv("AWS_SECRET_ACCESS_KEY", "")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"local":   local,
			"speaker": speaker,
			"kokoro":  kokoro,
			"glob":    glob,
			"code":    code,
			"wav":     wav,
			"reader":  reader,
			"does":    does,
			"printed": printed,
		},
	})
}

// local starts sagemaker-local with the given flags, waits until it is ready and sets $URL and $LOCAL_PID; it is ended
// with the script.
func local(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: local [flags]")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, localBinary, append([]string{"serve"}, args...)...)
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
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			ts.Setenv("URL", url)
			ts.Setenv("LOCAL_PID", fmt.Sprint(cmd.Process.Pid))
			if slices.Contains(args, "--bidi-addr") && lines.Scan() {
				ts.Setenv("BIDI", strings.TrimPrefix(lines.Text(), "ready-bidi "))
			}
			go func() {
				for lines.Scan() { // keep its pipe from filling
				}
			}()
			return
		}
	}
	ts.Fatalf("sagemaker-local ended before it was ready: %s", stderr.String())
}
