package store

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/artifact"
)

func freezeOf(run string) *artifact.Freeze {
	return &artifact.Freeze{Schema: artifact.SchemaFreeze, RunID: run, CreatedAt: time.Date(2026, 8, 4, 0, 0, 0, 0, time.UTC),
		Owner: "me@here 1", Command: "tts-bench qmax", Region: "us-east-1", Endpoint: "speech-a", Variant: "primary", HadTarget: true, Min: 1, Max: 9, Desired: 3}
}

func state(t *testing.T) (*State, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state", "loadline")
	s, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func hold(t *testing.T, s *State, endpoint string) *Hold {
	t.Helper()
	h, err := s.Lock(endpoint, "primary", "me@here 1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Release() })
	return h
}

func TestFreezeRecord(t *testing.T) {
	s, dir := state(t)
	h := hold(t, s, "speech-a")
	if f, err := h.Record(); f != nil || err != nil {
		t.Fatal(f, err)
	}
	if err := h.Write(freezeOf("A")); err != nil {
		t.Fatal(err)
	}
	if h.Path() != filepath.Join(dir, "freeze-speech-a-primary.json") {
		t.Error(h.Path())
	}
	if info, err := os.Stat(h.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	f, err := h.Record()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(freezeOf("A"), f); d != "" {
		t.Error(d)
	}
	if err := h.Write(freezeOf("B")); err == nil || !strings.Contains(err.Error(), "freeze record of run A is still there") {
		t.Error(err)
	}
	other := freezeOf("A")
	other.Variant = "shadow"
	if err := h.Write(other); err == nil {
		t.Error("a record was written under another variant's lock")
	}
	if fs, err := s.Records(); err != nil || len(fs) != 1 {
		t.Error(fs, err)
	}
	for range 2 { // the second time there is nothing to remove
		if err := h.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := h.Record(); f != nil || err != nil {
		t.Error(f, err)
	}
	if fs, err := s.Records(); err != nil || len(fs) != 0 {
		t.Error(fs, err)
	}
}

func TestOneRunHolds(t *testing.T) {
	s, _ := state(t)
	h := hold(t, s, "speech-a")
	_, err := s.Lock("speech-a", "primary", "you@there 2")
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.Owner != "me@here 1" || held.Endpoint != "speech-a" {
		t.Fatalf("%v", err)
	}
	hold(t, s, "speech-b") // another endpoint is free
	for range 2 {
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
	}
	hold(t, s, "speech-a")
}

func TestFreezeNames(t *testing.T) {
	s, _ := state(t)
	for _, bad := range []string{"", "../x", "a/b", "a.b", "a b", strings.Repeat("a", 64)} {
		if _, err := s.Lock(bad, "primary", ""); err == nil || !strings.Contains(err.Error(), "no name of a SageMaker endpoint") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := s.Lock("a", "b/c", ""); err == nil || !strings.Contains(err.Error(), "no name of a SageMaker variant") {
		t.Error(err)
	}
}

func TestFreezeRecordDamagedOrForeign(t *testing.T) {
	s, dir := state(t)
	h := hold(t, s, "speech-a")
	if err := os.WriteFile(h.Path(), []byte(`{"schema":"loadline/fre`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Record(); err == nil || !strings.Contains(err.Error(), "it was cut off") || !strings.Contains(err.Error(), "thaw --restore-capacity") {
		t.Error(err)
	}
	if err := h.Write(freezeOf("A")); err == nil {
		t.Error("a damaged record was written over")
	}
	// endpoint speech, variant a-primary has the same file name as endpoint speech-a, variant primary.
	foreign := freezeOf("A")
	foreign.Endpoint, foreign.Variant = "speech", "a-primary"
	data, err := artifact.Encode(foreign)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Path(), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Record(); err == nil || !strings.Contains(err.Error(), "is that of endpoint speech variant a-primary") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "freeze-x-y.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if fs, err := s.Records(); len(fs) != 1 || err == nil || !strings.Contains(err.Error(), "freeze-x-y.json") {
		t.Error(fs, err)
	}
}

// TestKilledRunLeavesItsRecord: while the run lives nobody else gets in; once it is killed the lock is free and the
// record there.
func TestKilledRunLeavesItsRecord(t *testing.T) {
	s, dir := state(t)
	cmd := command(t, "hold", dir, "")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatal(line, err)
	}
	if _, err := s.Lock("speech-a", "primary", "you@there 2"); err == nil || !strings.Contains(err.Error(), "held by another run (me@here 1)") {
		t.Error(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	h := hold(t, s, "speech-a")
	f, err := h.Record()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(freezeOf("A"), f); d != "" {
		t.Error(d)
	}
}

// TestKilledWhileFreezing: the record is whole or not there.
func TestKilledWhileFreezing(t *testing.T) {
	for step, there := range map[string]bool{"create": false, "write": false, "sync": false, "rename": false, "syncdir": true} {
		t.Run(step, func(t *testing.T) {
			s, dir := state(t)
			killed(t, "hold", dir, step)
			f, err := hold(t, s, "speech-a").Record()
			if err != nil || (f != nil) != there {
				t.Errorf("record %v: %v", f, err)
			}
		})
	}
}
