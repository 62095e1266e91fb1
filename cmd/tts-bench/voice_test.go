package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without a target, a server of this machine is started, speaks with a real voice, and ends.
func TestSayHere(t *testing.T) {
	if _, err := exec.LookPath(realVoice); err != nil {
		t.Skip("espeak-ng is not installed: apt-get install espeak-ng")
	}
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "loadline/cmd/speech-server").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	b := start(t, dir, "say", "--out", "hello.wav", "Your table is ready.")
	if code := b.end(); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, &b.said, &b.stdout)
	}
	if out := b.stdout.String(); !strings.Contains(out, "on this machine, with espeak-ng\n") || !strings.Contains(out, "first audio ") {
		t.Errorf("said:\n%s", out)
	}
	wav, err := os.ReadFile(filepath.Join(dir, "hello.wav"))
	if err != nil || !bytes.HasPrefix(wav, []byte("RIFF")) || len(wav) < 24000*2 {
		t.Errorf("%d bytes: %v", len(wav), err)
	}
	// A target that is half named is not guessed.
	b = start(t, dir, "say", "--endpoint-url", "http://127.0.0.1:1", "hello")
	if code := b.end(); code != 2 || !strings.Contains(b.said.String(), "nothing to ask") {
		t.Errorf("exit %d\n%s", code, &b.said)
	}
}
