package witness_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var binary string // sagemaker-local

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "witness")
	if err == nil {
		binary = filepath.Join(dir, "sagemaker-local")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", binary, "loadline/cmd/sagemaker-local").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// need is the path of a tool; without it the test is skipped, or fails where it is required.
func need(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		miss(t, fmt.Sprintf("%s is not on this machine", tool))
	}
	return path
}

func miss(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("REQUIRE_AWS_TOOLS") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// account is a running sagemaker-local.
type account struct {
	url  string
	bidi string   // of its second door, where that is open
	env  []string // of a client of it
}

// serve starts sagemaker-local with these flags; it is interrupted at the test's end and must then exit 0.
func serve(t *testing.T, flags ...string) account {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"serve", "--profile", "quick"}, flags...)...)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Errorf("sagemaker-local: %v", err)
		}
		if t.Failed() {
			t.Logf("sagemaker-local said:\n%s", log.String())
		}
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	url, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ready {
		t.Fatalf("not ready: %q %v", line, err)
	}
	env := append(os.Environ(), "AWS_ENDPOINT_URL="+url, "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=secret",
		"AWS_DEFAULT_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE=/dev/null", "CHECKPOINT_DISABLE=1", "NO_PROXY=*", "PYTHONDONTWRITEBYTECODE=1")
	a := account{url: url, env: env}
	if slices.Contains(flags, "--bidi-addr") {
		line, err := lines.ReadString('\n')
		if a.bidi, ready = strings.CutPrefix(strings.TrimSpace(line), "ready-bidi "); !ready {
			t.Fatalf("its second door is not ready: %q %v", line, err)
		}
	}
	return a
}

// run runs a client's command in dir and is what it printed; it fails the test unless the command exits 0.
func (a account) run(t *testing.T, dir string, argv ...string) string {
	t.Helper()
	out, err := a.try(t, dir, argv...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return out
}

func (a account) try(t *testing.T, dir string, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = a.env, dir
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// python is a Python with boto3.
func python(t *testing.T) string {
	t.Helper()
	path := need(t, "python3")
	if err := exec.Command(path, "-c", "import boto3").Run(); err != nil {
		miss(t, "python3 has no boto3")
	}
	return path
}

// TestBoto3 takes an endpoint, and one of inference components, through their lives; every answer is held to botocore's
// models of the services.
func TestBoto3(t *testing.T) {
	py := python(t)
	for _, script := range []string{"boto3_life.py", "boto3_components.py"} {
		a := serve(t, "--empty", "--start", "300ms", "--verify-signatures")
		t.Log(script + ": " + a.run(t, ".", py, script))
	}
}
