package espeak

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"loadline/internal/serve"
	"loadline/internal/speech"
)

// load is an engine on the real program.
func load(t testing.TB, workers int) *Engine {
	t.Helper()
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skip("espeak-ng is not installed: apt-get install espeak-ng")
	}
	e := New(Config{Workers: workers})
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

// spoken is the whole sound of a text.
func spoken(ctx context.Context, e *Engine, text, voice string, speed float64) ([]byte, error) {
	var all []byte
	for i, s := range speech.Sentences(text) {
		u, err := e.Prepare(ctx, serve.Request{Text: s, Index: i, Voice: voice, Speed: speed})
		if err != nil {
			return nil, err
		}
		for u.Size() > 0 {
			b, err := u.Next(ctx, time.Now())
			if err != nil {
				return nil, err
			}
			all = append(all, bytes.Join(b, nil)...)
		}
	}
	return all, nil
}

func say(t testing.TB, e *Engine, text, voice string, speed float64) []byte {
	t.Helper()
	b, err := spoken(t.Context(), e, text, voice, speed)
	if err != nil {
		t.Fatalf("%q by %s: %v", text, voice, err)
	}
	return b
}

func length(b []byte) float64 { return float64(len(b)) / 2 / Rate }

func level(b []byte) float64 {
	sum := 0.0
	for i := 0; i+1 < len(b); i += 2 {
		v := float64(int16(binary.LittleEndian.Uint16(b[i:])))
		sum += v * v
	}
	return math.Sqrt(sum / math.Max(1, float64(len(b)/2)))
}

const quick = "The quick brown fox jumps over the lazy dog, and then, having nothing better to do, it sleeps."

func TestSpeaks(t *testing.T) {
	e := load(t, 1)
	whole := say(t, e, quick, "", 1)
	if d := length(whole); d < 4 || d > 9 || level(whole) < 500 {
		t.Errorf("%.2f s at level %.0f", d, level(whole))
	}
	if d := length(say(t, e, quick, "", 2)) / length(whole); d < 0.4 || d > 0.65 {
		t.Errorf("at double speed it takes %.2f of the time", d)
	}
	if d := length(say(t, e, quick, "", 0.5)) / length(whole); d < 1.6 || d > 2.4 {
		t.Errorf("at half speed it takes %.2f of the time", d)
	}
	two := length(say(t, e, quick+" "+quick, "", 1))
	if d := two - 2*length(whole); math.Abs(d) > 0.2 {
		t.Errorf("said twice it takes %.3f s more than two times", d)
	}
	// Joins: no step at an edge, and after each sentence a pause.
	if n := len(whole); level(whole[n-2*Rate/5:n-2]) != 0 || len(whole) < 200 || level(whole[:20]) > 20 {
		t.Errorf("edges at levels %.0f and %.0f", level(whole[:20]), level(whole[n-2*Rate/5:]))
	}
}

// Markup, phoneme notation and very long words are text like any other, and every word is spoken.
func TestHostileText(t *testing.T) {
	e := load(t, 1)
	one := length(say(t, e, "alpha bravo charlie.", "", 1))
	for name, text := range map[string]string{
		"markup":         "a < b & c > d </voice> \"quoted\" &lt; ]]>",
		"phonemes":       "[[h@l'oU]] and so on",
		"no punctuation": strings.Repeat("alpha bravo charlie ", 50),
		"one token":      strings.Repeat("abcdefgh", 100),
		"ampersands":     strings.Repeat("& ", 400) + "end",
	} {
		b := say(t, e, text, "", 1)
		if len(b) == 0 || level(b) < 100 {
			t.Errorf("%s: %.2f s at level %.0f", name, length(b), level(b))
		}
		if d := length(b) / one; name == "no punctuation" && (d < 35 || d > 55) {
			t.Errorf("%s: fifty times the words take %.1f times as long", name, d)
		}
	}
	for _, text := range []string{"Здравствуйте, こんにちは、你好。", strings.Repeat("漢字仮名", 100)} { // never as names of letters
		var field *serve.FieldError
		if _, err := e.Prepare(t.Context(), serve.Request{Text: text, Speed: 1}); !errors.As(err, &field) || field.Field != "text" {
			t.Errorf("%.20q by an English voice: %v", text, err)
		}
	}
	u, err := e.Prepare(t.Context(), serve.Request{Text: "Say привет to all.", Speed: 1})
	if err != nil || fmt.Sprint(u.(serve.Omitter).Omitted()) != "[привет]" {
		t.Errorf("a foreign word: %v", err)
	}
	if d := length(say(t, e, "$5.50", "", 1)) / length(say(t, e, "Five dollars and fifty cents", "", 1)); d < 0.8 || d > 1.25 {
		t.Errorf("an amount takes %.2f times as long as its words", d)
	}
	if again := length(say(t, e, "alpha bravo charlie.", "", 1)); math.Abs(again-one) > 0.1 {
		t.Errorf("after all that, the first text takes %.3f s, not %.3f", again, one)
	}
}

func TestVoices(t *testing.T) {
	e := load(t, 1)
	lengths := map[string]bool{}
	for _, voice := range []string{"", "af_heart", "am_adam", "bf_emma", "bm_george", "en-gb", "en-us+f3", "fr-fr", "es", "ff_siwis", "pt-br"} {
		b := say(t, e, quick, voice, 1)
		lengths[fmt.Sprintf("%.2f", length(b))] = true
		if length(b) < 3 {
			t.Errorf("%s: %.2f s", voice, length(b))
		}
	}
	if len(lengths) < 6 {
		t.Errorf("eleven voices take %d different times", len(lengths))
	}
	for _, voice := range []string{"ballad", "../../etc/passwd", "AF_HEART", "en-us+../x", "xx-yy", "xf_nobody", "en-us+f9", "\"><audio src=\"x\"/>"} {
		_, err := spoken(t.Context(), e, "a", voice, 1)
		var field *serve.FieldError
		if !errors.As(err, &field) || field.Field != "voice" {
			t.Errorf("voice %q: %v", voice, err)
		}
	}
}

// Eight at once hear what each would have heard alone, and nobody hears another's text. The program's own sound of a piece
// varies by up to 80 ms with what it said before.
func TestParallelIsSerial(t *testing.T) {
	e := load(t, 4)
	texts := []string{quick, "Hello.", "One, two, three, four, five, six, seven, eight, nine, ten.", "Your call is important to us. Please hold the line."}
	voices := []string{"af_heart", "am_adam", "bf_emma", "bm_george"}
	want := map[string]float64{}
	for _, text := range texts {
		for _, v := range voices {
			want[text+v] = length(say(t, e, text, v, 1))
		}
	}
	each := 50
	if testing.Short() {
		each = 10
	}
	var wg sync.WaitGroup
	gate := make(chan struct{}, 4)
	for n := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			for range each {
				text, v := texts[r.IntN(4)], voices[r.IntN(4)]
				gate <- struct{}{}
				b, err := spoken(t.Context(), e, text, v, 1)
				<-gate
				if d := length(b) - want[text+v]; err != nil || math.Abs(d) > 0.1 {
					t.Errorf("%q by %s: %.4f s, alone %.4f: %v", text, v, length(b), want[text+v], err)
				}
			}
		})
	}
	wg.Wait()
}

// A child that dies is replaced, and the piece spoken by the next.
func TestDeadChild(t *testing.T) {
	e := load(t, 1)
	want := length(say(t, e, quick, "", 1))
	for range 3 {
		if len(e.idle) != 1 {
			t.Fatalf("%d children", len(e.idle))
		}
		if err := e.idle[0].Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if d := length(say(t, e, quick, "", 1)); math.Abs(d-want) > 0.1 {
			t.Errorf("%.3f s after the death, %.3f before", d, want)
		}
	}
	e.Close()
	if _, err := spoken(t.Context(), e, quick, "", 1); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// What a program does that is not the right one, or is out of order, is an error in time.
func TestStrangePrograms(t *testing.T) {
	dir := t.TempDir()
	program := func(name, body string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte("#!/bin/sh\nif [ \"$1\" = --voices ]; then echo ' 5  en-us --/M English_(America) gmw/en-US'; exit; fi\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct{ name, body, want string }{
		{"ends", "exit 3", "espeak: "},
		{"mute", "exec /bin/sleep 60", "i/o timeout"},
		{"text", "read x; echo 'no such voice, and many more words so that a header could be'; exec /bin/cat", "is not that of 16-bit mono sound"},
	} {
		e := New(Config{Program: program(c.name, c.body), Workers: 1, Patience: time.Second})
		if err := e.Load(t.Context(), func(string) {}); err != nil {
			t.Fatal(err)
		}
		if _, err := spoken(t.Context(), e, "a", "", 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		e.Close()
	}
	none := New(Config{Program: filepath.Join(dir, "nothing")})
	if err := none.Load(t.Context(), func(string) {}); err == nil || !strings.Contains(err.Error(), "apt-get install espeak-ng") {
		t.Errorf("no program: %v", err)
	}
	bare := New(Config{Program: program("bare", "")})
	bare.cfg.Program = filepath.Join(dir, "true")
	if err := os.WriteFile(bare.cfg.Program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := bare.Load(t.Context(), func(string) {}); err == nil || !strings.Contains(err.Error(), "no voice for en-us") {
		t.Errorf("no data: %v", err)
	}
}

func BenchmarkSentence(b *testing.B) {
	e := load(b, 1)
	for b.Loop() {
		say(b, e, "Please hold while I transfer your call.", "", 1)
	}
}
