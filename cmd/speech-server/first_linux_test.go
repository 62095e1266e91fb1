package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// In its container the server is the first process, for which the kernel has no default signal handling, and need not be
// root.
func TestFirstProcessWithoutRoot(t *testing.T) {
	trial := exec.Command("true")
	trial.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := trial.Run(); err != nil {
		t.Skipf("a process namespace of its own is not to be had here: %v", err)
	}
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(me)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "speech-server-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "speech-server")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // anybody may run it
		t.Fatal(err)
	}
	cmd := exec.Command(path, "serve", "--engine", "replay", "--addr", "127.0.0.1:0")
	cmd.Dir = "/"
	cmd.Env = []string{self + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	p := started(t, cmd)
	p.signal(syscall.SIGTERM)
	if out := p.ended(); !strings.Contains(out, "STAGE ready") {
		t.Errorf("it did not say that it was ready:\n%s", out)
	}
}
