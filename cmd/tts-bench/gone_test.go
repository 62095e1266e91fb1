package main

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"loadline/internal/exit"
)

// TestTerminalGone: a terminal that is closed ends a measurement in order, unless it was started to outlive that.
func TestTerminalGone(t *testing.T) {
	t.Parallel()
	url, dir := served(t, "--instances", "3", "--start", "500ms"), t.TempDir()
	b := start(t, dir, ladderOf(url, "--yes")...)
	b.until(t, "rung 0: 1 in flight (scheduled)")
	_ = b.cmd.Process.Signal(syscall.SIGHUP)
	if code := b.end(); code != exit.Unknown || !strings.Contains(b.said.String(), "interrupted: hangup") {
		t.Errorf("exit code %d\n%s", code, &b.said)
	}
	whole(t, url, 3)
	ran(t, dir, exit.OK, "nothing to do", "thaw", "--endpoint", localEndpoint, "--endpoint-url", url)

	b = begin(t, dir, "nohup", append([]string{"tts-bench"}, ladderOf(url, "--yes")...)...)
	b.until(t, "rung 0: 1 in flight (scheduled)")
	_ = b.cmd.Process.Signal(syscall.SIGHUP)
	if code := b.end(); code != exit.OK && code != exit.Unknown { // a busy machine cannot tell
		t.Errorf("under nohup: exit code %d\n%s", code, &b.said)
	}
	if doc, _ := artifactIn(t, dir); !doc.Complete {
		t.Error("under nohup: the run is not complete")
	}
	whole(t, url, 3)
}

// TestReaderGone: who reads no further (| head) ends nothing: what is measured is kept, and the endpoint is put back.
func TestReaderGone(t *testing.T) {
	t.Parallel()
	url, dir := served(t, "--instances", "3", "--start", "500ms"), t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := prepare(dir, "tts-bench", ladderOf(url, "--yes")...)
	b.cmd.Stdout, b.cmd.Stderr = w, w
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	r.Close()
	_ = b.cmd.Wait()
	if code := b.cmd.ProcessState.ExitCode(); code != exit.OK && code != exit.Unknown { // a busy machine cannot tell
		t.Errorf("exit code %d: %v", code, b.cmd.ProcessState)
	}
	if doc, _ := artifactIn(t, dir); !doc.Complete {
		t.Error("the run is not complete")
	}
	whole(t, url, 3)
}
