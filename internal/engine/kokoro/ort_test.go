//go:build cgo

package kokoro

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	for name, content := range content(c) {
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
		if err == nil && i == 0 || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("broken off after %d ms: %v", i, err)
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
	want, style := map[int][]float32{}, map[int][]float32{}
	for n := 10; n < 60; n += 10 {
		style[n] = row(t, "am_adam", n)
		sound, _, err := s[0].run(t.Context(), input(n), style[n], 1)
		if err != nil {
			t.Fatal(err)
		}
		want[n] = sound
	}
	var wg sync.WaitGroup
	for _, one := range s {
		wg.Go(func() {
			for i := range 15 {
				n := 10 + 10*(i%5)
				if sound, _, err := one.run(t.Context(), input(n), style[n], 1); err != nil || !slices.Equal(sound, want[n]) {
					t.Errorf("%d tokens: %d samples, alone %d: %v", n, len(sound), len(want[n]), err)
				}
			}
		})
	}
	wg.Wait()
}

// loaded is an engine on a stand-in graph.
func loaded(t testing.TB, c standin.Config, cfg Config) *Engine {
	t.Helper()
	cfg.Library, cfg.Dir = library(t), folder(t, c)
	cfg.Files, cfg.Device = os.DirFS(cfg.Dir), CPU
	if cfg.FrontEnd == nil {
		cfg.FrontEnd = letters{}
	}
	e := New(cfg)
	var stages []string
	if err := e.Load(t.Context(), func(s string) { stages = append(stages, s) }); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(stages) != "[framework_init weights_fetched weights_ready]" {
		t.Errorf("stages %v", stages)
	}
	t.Cleanup(e.Close)
	return e
}

const quick = "The quick brown fox jumps over the lazy dog, and then, having nothing better to do, it sleeps."

// The engine speaks on every export; edges, seams and pauses are as wanted.
func TestSpeaks(t *testing.T) {
	for _, export := range standin.Exports {
		e := loaded(t, standin.Config{Export: export}, Config{})
		pieces, err := say(t.Context(), e, quick+" "+quick, "")
		if err != nil || len(pieces) < 4 {
			t.Fatalf("%s: %d pieces, %v", export, len(pieces), err)
		}
		var all []byte
		for _, p := range pieces {
			all = append(all, p...)
		}
		at := func(i int) int { return int(int16(binary.LittleEndian.Uint16(all[2*i:]))) }
		seams, inside := 0, 0
		n := 0
		for _, p := range pieces {
			for i := 1; i < len(p)/2; i++ {
				inside = max(inside, at(n+i)-at(n+i-1), at(n+i-1)-at(n+i))
			}
			if n > 0 {
				seams = max(seams, at(n)-at(n-1), at(n-1)-at(n))
			}
			n += len(p) / 2
		}
		if seams > inside || at(0) != 0 || at(n-1) != 0 {
			t.Errorf("%s: steps up to %d at seams, %d inside; edges %d and %d", export, seams, inside, at(0), at(n-1))
		}
		// Nothing longer than a sentence's pause is silent, and the last sound is followed by that pause and no more.
		silent, longest := 0, 0
		for i := range n {
			if a := at(i); a > 200 || a < -200 {
				silent = 0
			} else if silent++; silent > longest {
				longest = silent
			}
		}
		if d := time.Duration(longest) * time.Second / Rate; d > afterSentence+40*time.Millisecond {
			t.Errorf("%s: %v of silence", export, d)
		}
		if d := time.Duration(silent) * time.Second / Rate; d < afterSentence-20*time.Millisecond || d > afterSentence+40*time.Millisecond {
			t.Errorf("%s: ends with %v of silence", export, d)
		}
	}
}

// Cases D1: every word of a text without punctuation is voiced, as long as in a short control.
func TestLongTexts(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of sound, made at once: not under the race detector")
	}
	e := loaded(t, standin.Config{}, Config{})
	length := func(text string) float64 {
		t.Helper()
		pieces, err := say(t.Context(), e, text, "")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, p := range pieces {
			n += len(p)
		}
		return float64(n) / 2 / Rate
	}
	word := length(strings.Repeat("alpha bravo charlie ", 3)) / 9
	for name, c := range map[string]struct {
		text  string
		words float64
	}{
		"no punctuation": {strings.Repeat("alpha bravo charlie ", 200), 600},
		"sentences":      {strings.Repeat("Alpha bravo charlie alpha bravo charlie alpha bravo charlie alpha. ", 100), 1000},
	} {
		if r := length(c.text) / c.words / word; r < 0.8 || r > 1.2 {
			t.Errorf("%s: a word takes %.2f of the control's time", name, r)
		}
	}
	if d := length(strings.Repeat("x", 3000)); d < 100 {
		t.Errorf("one word of 3,000 letters takes %.1f s", d)
	}
}

// Cases D3: many at once hear what each would have heard alone, sample for sample, and a blend is what its shares make it.
func TestParallelIsSerial(t *testing.T) {
	e := loaded(t, standin.Config{}, Config{Sessions: 2})
	texts := []string{quick, "Hello.", "One, two, three, four, five.", "Your call is important to us. Please hold the line."}
	voices := []string{"af_heart", "am_adam", "bf_emma", "af_bella(2)+af_sky(1)"}
	whole := func(text, v string) ([]byte, error) {
		pieces, err := say(t.Context(), e, text, v)
		return bytes.Join(pieces, nil), err
	}
	want := map[string][]byte{}
	for _, text := range texts {
		for _, v := range voices {
			b, err := whole(text, v)
			if err != nil {
				t.Fatal(err)
			}
			want[text+v] = b
		}
	}
	if a, err := whole(quick, "af_sky(2)+af_bella(4)"); err != nil || !bytes.Equal(a, want[quick+voices[3]]) {
		t.Errorf("the same shares in another order are another voice (%v)", err)
	}
	if bytes.Equal(want[quick+voices[0]], want[quick+voices[1]]) {
		t.Error("two voices are one")
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 10 {
				text, v := texts[(n+i)%4], voices[(n*3+i/2)%4]
				if b, err := whole(text, v); err != nil || !bytes.Equal(b, want[text+v]) {
					t.Errorf("%q by %s: %d bytes, alone %d: %v", text, v, len(b), len(want[text+v]), err)
				}
			}
		})
	}
	wg.Wait()
	if n := alive.Load(); n != 0 {
		t.Errorf("%d tensors are left", n)
	}
}

// What is wrong with a folder, a library or a device is said before anything is served.
func TestLoadErrors(t *testing.T) {
	lib := library(t)
	dir := folder(t, standin.Config{})
	broken := folder(t, standin.Config{})
	for name, content := range map[string]string{"model.onnx": "no graph", "weights.json": "{}"} {
		if err := os.WriteFile(filepath.Join(broken, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mute := folder(t, standin.Config{})
	if err := os.RemoveAll(filepath.Join(mute, "voices")); err != nil {
		t.Fatal(err)
	}
	short := folder(t, standin.Config{})
	if err := os.WriteFile(filepath.Join(short, "voices", "af_sky.bin"), make([]byte, 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"no CUDA":       {Config{Dir: dir, Device: CUDA}, "the device is cuda, but"},
		"no graph":      {Config{Dir: broken}, "not a graph"},
		"no voices":     {Config{Dir: mute}, "voices"},
		"a short voice": {Config{Dir: short}, "af_sky.bin has 1000 bytes"},
		"no such voice": {Config{Dir: dir, Voice: "af_nobody"}, "af_nobody"},
		"other library": {Config{Dir: dir, Library: "/nowhere/libonnxruntime.so.1"}, "a process has one"},
	} {
		if c.cfg.Library == "" {
			c.cfg.Library = lib
			if err := start(lib); err != nil {
				t.Fatal(err)
			}
		}
		c.cfg.Files, c.cfg.FrontEnd = os.DirFS(c.cfg.Dir), letters{}
		e := New(c.cfg)
		err := e.Load(t.Context(), func(string) {})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		} else {
			t.Logf("%s: %v", name, err)
		}
		e.Close()
	}
	var said []string
	e := New(Config{Dir: dir, Files: os.DirFS(dir), Library: lib, FrontEnd: letters{}, Log: func(s string) { said = append(said, s) }})
	if err := e.Load(t.Context(), func(string) {}); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if len(said) != 1 || !strings.Contains(said[0], "checked") || !strings.Contains(said[0], "on c") {
		t.Errorf("the log says %q", said)
	}
	t.Log(said)
}
