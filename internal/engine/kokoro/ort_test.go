//go:build cgo

package kokoro

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"loadline/internal/engine/kokoro/standin"
	"loadline/internal/speech/phoneme"
	"loadline/internal/speech/voice"
)

// library is ONNX Runtime as make setup leaves it.
func library(t testing.TB) string {
	t.Helper()
	for _, p := range []string{os.Getenv("LOADLINE_ONNXRUNTIME"), "../../../.onnxruntime/libonnxruntime.so.1"} {
		if _, err := os.Stat(p); p != "" && err == nil {
			p, err = filepath.Abs(p)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	t.Skip("ONNX Runtime is not here: make setup gets it, LOADLINE_ONNXRUNTIME names another")
	return ""
}

// folder writes a stand-in model folder.
func folder(t testing.TB, c standin.Config) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range standin.Folder(c) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// sessions loads a stand-in.
func sessions(t testing.TB, c standin.Config, n int) ([]session, signature) {
	t.Helper()
	lib := library(t)
	if err := start(lib); err != nil {
		t.Fatal(err)
	}
	s, sig, _, err := load(t.Context(), Config{Library: lib, Device: CPU, Sessions: n}, filepath.Join(folder(t, c), "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range s {
			s.close()
		}
	})
	return s, sig
}

func row(t testing.TB, name string, n int) []float32 {
	t.Helper()
	style, err := voice.Decode(standin.Voice(name))
	if err != nil {
		t.Fatal(err)
	}
	return style.Row(phoneme.StyleRow(n))
}

// Every published export is recognised by its session, runs, and sounds for as long as its tokens last.
func TestExports(t *testing.T) {
	for _, e := range standin.Exports {
		s, sig := sessions(t, standin.Config{Export: e}, 1)
		want := map[standin.Export]string{
			standin.Hub:    "(input_ids, style, float speed) -> (waveform)",
			standin.Timed:  "(input_ids, style, int speed) -> (waveform, duration)",
			standin.Tokens: "(tokens, style, float speed) -> (audio)",
		}[e]
		if sig.String() != want {
			t.Errorf("%s: %s, want %s", e, sig, want)
		}
		ids, dropped := phoneme.Tokens("həlˈO, wˈɜɹld.")
		sound, frames, err := s[0].run(t.Context(), ids, row(t, "af_heart", len(ids)-2), 1)
		if err != nil || dropped != 0 {
			t.Fatalf("%s: %v, %d dropped", e, err, dropped)
		}
		total := 0
		for i, id := range ids {
			if n := standin.Frames(id); e == standin.Timed && frames[i] != int64(n) {
				t.Errorf("%s: token %d lasts %d frames, want %d", e, i, frames[i], n)
			}
			total += standin.Frames(id)
		}
		if len(sound) != frameSize*total || (frames != nil) != (e == standin.Timed) {
			t.Errorf("%s: %d samples, want %d; durations %v", e, len(sound), frameSize*total, frames)
		}
		twice, _, err := s[0].run(t.Context(), ids, row(t, "af_heart", len(ids)-2), 2)
		if r := float64(len(twice)) / float64(len(sound)); err != nil || r < 0.4 || r > 0.65 {
			t.Errorf("%s: at double speed %.2f of the samples: %v", e, r, err)
		}
		peak := 0.0
		for _, x := range sound {
			peak = math.Max(peak, math.Abs(float64(x)))
		}
		if peak < 0.1 || peak > 1 {
			t.Errorf("%s: peak %.3f", e, peak)
		}
	}
}

// A run that is broken off ends at once, says so, leaves no tensor, and harms no later one.
func TestCancel(t *testing.T) {
	s, _ := sessions(t, standin.Config{Channels: 256, Layers: 40}, 1)
	ids := make([]int64, 202)
	for i := range 200 {
		ids[1+i] = 43 + int64(i%26)
	}
	style := row(t, "af_heart", 200)
	before, _, err := s[0].run(t.Context(), ids, style, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		began := time.Now()
		_, _, err := s[0].run(ctx, ids, style, 1)
		if ended := ctx.Err() != nil; (err != nil) != ended {
			t.Errorf("broken off: %v, error %v", ended, err)
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("after %d ms it took %v", i, d)
		}
		cancel()
	}
	after, _, err := s[0].run(t.Context(), ids, style, 1)
	if err != nil || len(after) != len(before) {
		t.Errorf("afterwards %d samples, before %d: %v", len(after), len(before), err)
	}
	if n := alive.Load(); n != 0 {
		t.Errorf("%d tensors are left", n)
	}
}

// Several sessions at once give what each gives alone.
func TestParallelRuns(t *testing.T) {
	s, _ := sessions(t, standin.Config{}, 3)
	input := func(n int) []int64 {
		ids := make([]int64, n+2)
		for i := range n {
			ids[1+i] = 43 + int64((i*n)%26)
		}
		return ids
	}
	want := map[int][]float32{}
	for n := 10; n < 60; n += 10 {
		sound, _, err := s[0].run(t.Context(), input(n), row(t, "am_adam", n), 1)
		if err != nil {
			t.Fatal(err)
		}
		want[n] = sound
	}
	var wg sync.WaitGroup
	for _, one := range s {
		wg.Go(func() {
			for i := range 30 {
				n := 10 + 10*(i%5)
				sound, _, err := one.run(t.Context(), input(n), row(t, "am_adam", n), 1)
				if err != nil || len(sound) != len(want[n]) {
					t.Errorf("%d tokens: %d samples, alone %d: %v", n, len(sound), len(want[n]), err)
					return
				}
				for j := range sound {
					if sound[j] != want[n][j] {
						t.Errorf("%d tokens: sample %d is %v, alone %v", n, j, sound[j], want[n][j])
						return
					}
				}
			}
		})
	}
	wg.Wait()
}
