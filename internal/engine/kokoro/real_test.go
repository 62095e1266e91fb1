//go:build cgo

package kokoro

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"loadline/internal/engine/phonemes"
	"loadline/internal/speech/phoneme"
	"loadline/internal/speech/voice"
)

// doubts is what speaks against a sound being so many words of speech.
func doubts(pcm []byte, rate, words int) (found []string) {
	doubt := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	n := len(pcm) / 2
	x := make([]float64, n)
	sum, mean, step, clipped := 0.0, 0.0, 0.0, 0
	for i := range x {
		x[i] = float64(int16(binary.LittleEndian.Uint16(pcm[2*i:]))) / math.MaxInt16
		sum += x[i] * x[i]
		mean += x[i] / float64(n)
		if i > 0 {
			step = math.Max(step, math.Abs(x[i]-x[i-1]))
		}
		if math.Abs(x[i]) > 0.999 {
			clipped++
		}
	}
	if d := float64(n) / float64(rate) / float64(words); !(d > 0.15 && d < 0.8) {
		doubt("%.2f s a word", d)
	}
	if db := 10 * math.Log10(sum/float64(max(1, n))); !(db > -38 && db < -8) {
		doubt("a level of %.1f dB", db)
	}
	if math.Abs(mean) > 0.01 {
		doubt("an offset of %.3f", mean)
	}
	if clipped > n/1000 {
		doubt("%d of %d samples at the limit", clipped, n)
	}
	// A voice: nearly nothing below 50 Hz, most of it below 4 kHz, some of it above 1.5 kHz, and never the same for long.
	const size = 512
	var sin, cos, hann [size]float64
	for i := range size {
		sin[i], cos[i] = math.Sincos(2 * math.Pi * float64(i) / size)
		hann[i] = 0.5 - 0.5*cos[i]
	}
	var low, voiced, high, all float64
	var centres []float64
	for at := 0; at+size <= n; at += 8 * size {
		var w [size]float64
		for i := range size {
			w[i] = hann[i] * x[at+i]
		}
		energy, centre := 0.0, 0.0
		for k := 1; k < size/2; k++ {
			re, im := 0.0, 0.0
			for i, v := range w {
				re, im = re+v*cos[k*i%size], im+v*sin[k*i%size]
			}
			e, hz := re*re+im*im, float64(k*rate)/size
			energy += e
			centre += e * hz
			switch {
			case hz < 50:
				low += e
			case hz < 4000:
				voiced += e
			}
			if hz > 1500 {
				high += e
			}
		}
		all += energy
		if energy > 0.01 {
			centres = append(centres, centre/energy)
		}
	}
	if low > 0.05*all || voiced < 0.7*all || high < 0.01*all || high > 0.7*all {
		doubt("%.1f %% below 50 Hz, %.1f %% to 4 kHz, %.1f %% above 1.5 kHz", 100*low/all, 100*voiced/all, 100*high/all)
	}
	mid, spread := 0.0, 0.0
	for _, c := range centres {
		mid += c / float64(len(centres))
	}
	for _, c := range centres {
		spread += (c - mid) * (c - mid) / float64(len(centres))
	}
	if len(centres) < 8 || math.Sqrt(spread) < 0.1*mid {
		doubt("a spectrum that stays at %.0f Hz, by %.0f", mid, math.Sqrt(spread))
	}
	if step > 0.6 {
		doubt("a step of %.2f from one sample to the next", step)
	}
	return found
}

// What tells speech from other sounds accepts real speech, and nothing else that was tried.
func TestDoubts(t *testing.T) {
	const rate, words = 22050, 18
	sound := func(f func(i int) float64) []byte {
		b := make([]byte, 2*rate*6)
		for i := range len(b) / 2 {
			binary.LittleEndian.PutUint16(b[2*i:], uint16(int16(f(i)*math.MaxInt16)))
		}
		return b
	}
	r := rand.New(rand.NewPCG(1, 2))
	for name, b := range map[string][]byte{
		"silence": sound(func(int) float64 { return 0 }),
		"noise":   sound(func(int) float64 { return 0.1 * r.NormFloat64() }),
		"tone":    sound(func(i int) float64 { return 0.2 * math.Sin(float64(i)*0.05) }),
		"nothing": nil,
	} {
		if d := doubts(b, rate, words); len(d) == 0 {
			t.Errorf("%s passes for speech", name)
		}
	}
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skip("espeak-ng is not installed: make setup")
	}
	wav, err := exec.CommandContext(t.Context(), "espeak-ng", "--stdout", "-v", "en-us", quick).Output()
	if err != nil || len(wav) < 44 {
		t.Fatalf("%d bytes: %v", len(wav), err)
	}
	speech := wav[44 : len(wav)/2*2]
	if d := doubts(speech, rate, words); len(d) > 0 {
		t.Errorf("speech is taken for something else: %v", d)
	}
	clicked := bytes.Clone(speech)
	binary.LittleEndian.PutUint16(clicked[len(clicked)/2/2*2:], 0x7fff)
	if d := doubts(clicked, rate, words); len(d) == 0 {
		t.Error("a click is not heard")
	}
}

// Real weights: set KOKORO_MODEL_DIR to a model folder. How it sounds is for ears; that it is speech, of the right length and
// without clicks, is asserted.
func TestRealWeights(t *testing.T) {
	dir := os.Getenv("KOKORO_MODEL_DIR")
	if dir == "" {
		t.Skip("no weights: set KOKORO_MODEL_DIR to a folder with Kokoro-82M's model.onnx and voices/")
	}
	words := phonemes.New(phonemes.Config{})
	t.Cleanup(words.Close)
	e := New(Config{Dir: dir, Files: os.DirFS(dir), Library: library(t), FrontEnd: words, Log: func(s string) { t.Log(s) }})
	if err := e.Load(t.Context(), func(stage string) { t.Log(stage) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	length := func(text, voice string, n int) float64 {
		t.Helper()
		pieces, err := say(t.Context(), e, text, voice)
		if err != nil {
			t.Fatal(err)
		}
		all := bytes.Join(pieces, nil)
		if d := doubts(all, Rate, n); len(d) > 0 {
			t.Errorf("%q by %q: %v", text[:min(len(text), 60)], voice, d)
		}
		at := func(i int) float64 { return math.Abs(float64(int16(binary.LittleEndian.Uint16(all[2*i:])))) }
		for edge := 0; len(pieces) > 1; pieces = pieces[1:] {
			edge += len(pieces[0]) / 2
			if at(edge-1) > 100 || at(edge) > 100 {
				t.Errorf("%q by %q: a seam at levels %.0f and %.0f", text[:min(len(text), 60)], voice, at(edge-1), at(edge))
			}
		}
		return float64(len(all)) / 2 / Rate
	}
	once := length(quick, "", 18)
	if r := length(quick+" "+quick, "", 36) / once; r < 1.8 || r > 2.2 {
		t.Errorf("said twice it takes %.2f times as long", r)
	}
	control := length(strings.Repeat("alpha bravo charlie ", 4), "", 12) / 12
	if r := length(strings.Repeat("alpha bravo charlie ", 40), "", 120) / 120 / control; r < 0.8 || r > 1.2 {
		t.Errorf("in a long text a word takes %.2f of its time", r)
	}
	for _, v := range e.Voices() {
		if v[0] == 'a' || v[0] == 'b' {
			length(quick, v, 18)
		}
	}
}

// Real voice packs, as the model's own package ships them.
func TestRealVoices(t *testing.T) {
	const dir = "../../../.voices"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no voice packs: make setup gets some")
	}
	lib, err := voice.Open(os.DirFS(dir), 4)
	if err != nil {
		t.Fatal(err)
	}
	style := func(name string) *voice.Style {
		t.Helper()
		b, err := voice.ParseBlend(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := lib.Style(b)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	apart := func(a, b []float32) float64 {
		sum := 0.0
		for i := range a {
			sum += math.Abs(float64(a[i] - b[i]))
		}
		return sum / float64(len(a))
	}
	heart := style("af_heart")
	// The row is chosen by length: neighbours are nearly one, the ends are not, and the choice stays in the pack.
	next, far := apart(heart.Row(100), heart.Row(101)), apart(heart.Row(0), heart.Row(509))
	if next > 0.02 || far < 5*next {
		t.Errorf("neighbouring rows are %.4f apart, the ends %.4f", next, far)
	}
	for n, want := range map[int]int{0: 0, 1: 0, 2: 1, 101: 100, 510: 509, 511: 509} {
		if got := phoneme.StyleRow(n); got != want {
			t.Errorf("%d tokens take row %d, want %d", n, got, want)
		}
	}
	// A blend lies between its voices, nearer to the heavier.
	bella, sky := style("af_bella").Row(50), style("af_sky").Row(50)
	blend := style("af_bella(2)+af_sky(1)").Row(50)
	whole, toBella, toSky := apart(bella, sky), apart(blend, bella), apart(blend, sky)
	if math.Abs(toBella-whole/3) > 1e-3*whole || math.Abs(toSky-2*whole/3) > 1e-3*whole {
		t.Errorf("the voices are %.4f apart, the blend %.4f and %.4f from them", whole, toBella, toSky)
	}
}
