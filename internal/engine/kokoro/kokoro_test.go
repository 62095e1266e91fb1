package kokoro

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"loadline/internal/engine/kokoro/standin"
	"loadline/internal/serve"
	"loadline/internal/speech"
	"loadline/internal/speech/phoneme"
	"loadline/internal/speech/voice"
)

// letters is a front end that says every letter as itself.
type letters struct{}

func (letters) Load(ctx context.Context) error { return ctx.Err() }

func (letters) Check(language string) error {
	if language == "ja" {
		return errors.New("no front end")
	}
	return nil
}

func (letters) Spell(ctx context.Context, r speech.Reading) (phoneme.Spelling, error) {
	var s phoneme.Spelling
	text := strings.ReplaceAll(strings.ToLower(r.Text()), "g", "ɡ")
	for _, c := range text {
		if phoneme.Known(c) {
			s.Phonemes += string(c)
		} else {
			s.Dropped++
		}
	}
	s.Omitted = r.Omitted
	return s, ctx.Err()
}

// cycle is a frame of a tone of 440 Hz.
var cycle = func() (c [frameSize]float32) {
	for i := range c {
		c[i] = float32(math.Sin(2 * math.Pi * 440 * float64(i) / Rate))
	}
	return c
}()

// tones is a session whose sound is 600 samples a token, loud for letters and hissing for the rest.
type tones struct {
	frames bool
	calls  *[][]int64
	gate   chan struct{} // if set, a run waits for it
}

func (s tones) run(ctx context.Context, tokens []int64, style []float32, speed float64) ([]float32, []int64, error) {
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	if s.calls != nil {
		*s.calls = append(*s.calls, tokens)
	}
	var sound []float32
	var frames []int64
	for _, t := range tokens {
		level, n := 0.3, 4
		if t <= 16 {
			level, n = 0.0005, 20
		}
		for range n {
			for _, x := range cycle {
				sound = append(sound, float32(level)*x)
			}
		}
		frames = append(frames, int64(n))
	}
	if !s.frames {
		frames = nil
	}
	return sound, frames, ctx.Err()
}

func (tones) close() {}

// made is an engine on sessions of the test's own.
func made(t testing.TB, c Config, sessions ...session) *Engine {
	t.Helper()
	c.Files, c.FrontEnd, c.Sessions = files(content(standin.Config{})), letters{}, len(sessions)
	e := New(c)
	folder, err := fs.Sub(c.Files, "voices")
	if err != nil {
		t.Fatal(err)
	}
	if e.voices, err = voice.Open(folder, 8); err != nil {
		t.Fatal(err)
	}
	if err := e.standard(); err != nil {
		t.Fatal(err)
	}
	e.idle = make(chan session, len(sessions))
	for _, s := range sessions {
		e.idle <- s
	}
	t.Cleanup(e.Close)
	return e
}

var contents sync.Map

// content is a stand-in folder, made once: its voices are a million random numbers.
func content(c standin.Config) map[string][]byte {
	if made, ok := contents.Load(c); ok {
		return made.(map[string][]byte)
	}
	made := standin.Folder(c)
	contents.Store(c, made)
	return made
}

func files(content map[string][]byte) fstest.MapFS {
	m := fstest.MapFS{}
	for name, b := range content {
		m[name] = &fstest.MapFile{Data: b}
	}
	return m
}

// say is the sound of a text, piece by piece.
func say(ctx context.Context, e *Engine, text, name string) (pieces [][]byte, err error) {
	for i, s := range speech.Sentences(text) {
		u, err := e.Prepare(ctx, serve.Request{Text: s, Index: i, Voice: name, Speed: 1})
		if err != nil {
			return nil, err
		}
		for u.Size() > 0 {
			b, err := u.Next(ctx, time.Now())
			if err != nil {
				return nil, err
			}
			pieces = append(pieces, bytes.Join(b, nil))
		}
	}
	return pieces, nil
}

func TestIdentify(t *testing.T) {
	in := func(tokens, speed string) []port {
		return []port{{tokens, "int64", []int64{1, -1}}, {"style", "float32", []int64{1, 256}}, {"speed", speed, []int64{1}}}
	}
	sound := port{"waveform", "float32", []int64{1, -1}}
	for _, c := range []struct {
		in, out []port
		want    string
	}{
		{in("input_ids", "float32"), []port{sound}, "(input_ids, style, float speed) -> (waveform)"},
		{in("input_ids", "int32"), []port{sound, {"duration", "int64", []int64{-1}}}, "(input_ids, style, int speed) -> (waveform, duration)"},
		{in("tokens", "float32"), []port{{"audio", "float32", []int64{-1}}}, "(tokens, style, float speed) -> (audio)"},
	} {
		if got, err := identify(c.in, c.out); err != nil || got.String() != c.want {
			t.Errorf("%v: %s, want %s (%v)", c.in, got, c.want, err)
		}
	}
	wide := in("tokens", "float32")
	wide[1].dims = []int64{1, 512}
	for _, c := range [][2][]port{
		{in("input", "float32"), {sound}}, {in("tokens", "float16"), {sound}}, {wide, {sound}}, {in("tokens", "float32")[:2], {sound}},
		{in("tokens", "float32"), {{"logits", "float32", []int64{1}}}}, {in("tokens", "float32"), {{"audio", "float16", []int64{1}}}},
		{append(in("tokens", "float32"), port{"seed", "int64", []int64{1}}), {sound}}, {nil, nil},
	} {
		if got, err := identify(c[0], c[1]); err == nil || !strings.Contains(err.Error(), "no export of Kokoro-82M") {
			t.Errorf("%v -> %v: %s, %v", c[0], c[1], got, err)
		}
	}
}

// A piece is trimmed to what is heard, whatever the model puts around it, and joins its neighbours without a click and with
// the pause that is wanted.
func TestJoined(t *testing.T) {
	tone := func(n int, level float64) []float32 {
		s := make([]float32, n)
		for i := range s {
			s[i] = float32(level * math.Sin(2*math.Pi*440*float64(i)/Rate))
		}
		return s
	}
	const speechLen = 12000
	sound := slices.Concat(tone(9000, 0.0005), tone(speechLen, 0.4), tone(14000, 0.0008))
	for _, pause := range []time.Duration{afterSentence, afterClause, afterWord} {
		pcm, err := joined(sound, span{}, pause)
		if err != nil {
			t.Fatal(err)
		}
		got := time.Duration(len(pcm)/2-speechLen) * time.Second / Rate
		if d := got - pause; d < -20*time.Millisecond || d > 20*time.Millisecond {
			t.Errorf("the pause is %v, want %v", got, pause)
		}
		at := func(i int) int { return int(int16(binary.LittleEndian.Uint16(pcm[2*i:]))) }
		if n := len(pcm)/2 - 1; at(0) != 0 || at(n) != 0 {
			t.Errorf("the edges are %d and %d", at(0), at(n))
		}
		step, sum := 0, 0
		for i := 1; i < len(pcm)/2; i++ {
			step = max(step, at(i)-at(i-1), at(i-1)-at(i))
			sum += at(i)
		}
		if most := 1510; step > most+2 {
			t.Errorf("a step of %d, more than the %d inside the tone", step, most)
		}
		if mean := float64(sum) / float64(len(pcm)/2); math.Abs(mean) > 10 {
			t.Errorf("an offset of %.1f", mean)
		}
	}
	// What the durations say is a token's is kept, however faint.
	faint := slices.Concat(tone(6000, 0.0005), tone(6000, 0.001), tone(12000, 0.4), tone(6000, 0.001), tone(12000, 0.0005))
	with, err := joined(faint, span{6000, 30000}, 0)
	if err != nil {
		t.Fatal(err)
	}
	without, err := joined(faint, span{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(with)/2 < 24000-2*frameSize || len(with)/2 > 24000+4*margin || len(without)/2 > 12000+4*margin {
		t.Errorf("%d samples with durations, %d without", len(with)/2, len(without)/2)
	}
	loud, err := joined(tone(4800, 3), span{}, 0)
	if err != nil || len(loud) == 0 {
		t.Errorf("a sound that is too loud: %v", err)
	}
	for name, bad := range map[string][]float32{"nothing": nil, "zeros": make([]float32, 4800), "not a number": {float32(math.NaN())}, "infinite": {float32(math.Inf(1))},
		"one of many": slices.Concat(tone(4800, 0.3), []float32{float32(math.NaN())}, tone(4800, 0.4))} {
		if pcm, err := joined(bad, span{}, afterWord); err == nil {
			t.Errorf("%s became %d bytes", name, len(pcm))
		}
	}
}

func TestSpoken(t *testing.T) {
	ids, _ := phoneme.Tokens("“ab.”")
	if got := spoken(ids, []int64{4, 1, 2, 3, 5, 1, 6}, 22*frameSize); got != (span{5 * frameSize, 10 * frameSize}) {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		frames  []int64
		samples int
	}{{nil, 600}, {[]int64{1}, 600}, {[]int64{4, 1, 2, 3, 5, 1, 6}, 21 * frameSize}} {
		if got := spoken(ids, c.frames, c.samples); got != (span{}) {
			t.Errorf("%v of %d samples: %+v", c.frames, c.samples, got)
		}
	}
}

// Streaming and whole, in one piece or many: the first piece of a text is small, none is longer than the cap, and every
// token reaches the model once.
func TestPieces(t *testing.T) {
	for name, text := range map[string]string{
		"one sentence":   "The first piece is small, because a listener waits for it, the next is longer, and the rest comes whole.",
		"no punctuation": strings.Repeat("alpha bravo charlie ", 40),
		"one word":       strings.Repeat("x", 1000),
		"sentences":      strings.Repeat("Ten words are in this sentence, more or less. ", 10),
	} {
		var calls [][]int64
		e := made(t, Config{Max: 100}, tones{calls: &calls})
		pieces, err := say(t.Context(), e, text, "")
		if err != nil || len(pieces) != len(calls) {
			t.Fatalf("%s: %d pieces, %d runs, %v", name, len(pieces), len(calls), err)
		}
		said := 0
		for i, ids := range calls {
			if n := len(ids) - 2; n > 100 || n < 1 || ids[0] != 0 || ids[n+1] != 0 {
				t.Errorf("%s: piece %d has %d tokens", name, i, n)
			}
			for _, id := range ids {
				if id > 16 {
					said++
				}
			}
		}
		want := 0
		for _, r := range text {
			if r >= 'A' {
				want++
			}
		}
		if said != want {
			t.Errorf("%s: %d letters reached the model, of %d", name, said, want)
		}
		if n := len(calls[0]) - 2; name != "one word" && (n < 8 || n > 26) {
			t.Errorf("%s: the first piece has %d tokens", name, n)
		}
	}
}

func TestRefusals(t *testing.T) {
	e := made(t, Config{}, tones{})
	e.sig.wholeSpeed = true
	for _, c := range []struct {
		r           serve.Request
		field, want string
	}{
		{serve.Request{Text: "a", Voice: "ballad"}, "voice", "no voice is named"},
		{serve.Request{Text: "a", Voice: "af_bela"}, "voice", "af_bella"},
		{serve.Request{Text: "a", Voice: "../../etc/passwd"}, "voice", "at character 1"},
		{serve.Request{Text: "a", Voice: "AF_BELLA"}, "voice", "af_bella"},
		{serve.Request{Text: "a", Voice: "af_bella(-1)+af_sky(2)"}, "voice", "at character 10"},
		{serve.Request{Text: "a", Voice: "af_bella(2"}, "voice", "at character"},
		{serve.Request{Text: "a", Voice: "af_bella+ff_siwis"}, "language", "different languages"},
		{serve.Request{Text: "a", Language: "ja"}, "language", "no front end"},
		{serve.Request{Text: "a", Speed: 1.5}, "speed", "whole numbers"},
		{serve.Request{Text: "Здравствуйте"}, "text", "can be said"},
	} {
		if c.r.Speed == 0 {
			c.r.Speed = 1
		}
		_, err := e.Prepare(t.Context(), c.r)
		var field *serve.FieldError
		if !errors.As(err, &field) || field.Field != c.field || !strings.Contains(field.Message, c.want) {
			t.Errorf("%+v: %v, want field %s and %q", c.r, err, c.field, c.want)
		}
	}
	// Inside a text, what cannot be said is a pause, and is told.
	u, err := e.Prepare(t.Context(), serve.Request{Text: "Здравствуйте", Index: 1, Speed: 1})
	if err != nil {
		t.Fatal(err)
	}
	sound, err := u.Next(t.Context(), time.Now())
	if err != nil || len(bytes.Join(sound, nil)) != 2*samples(afterSentence) || u.Size() != 0 {
		t.Errorf("%d bytes, size %d, %v", len(bytes.Join(sound, nil)), u.Size(), err)
	}
	if o, ok := u.(serve.Omitter); !ok || len(o.Omitted()) == 0 {
		t.Error("nothing is said to be left out")
	}
}

func TestWeights(t *testing.T) {
	good := content(standin.Config{})
	sum := sha256.Sum256(good["model.onnx"])
	hexSum := hex.EncodeToString(sum[:])
	change := func(name, content string) map[string][]byte {
		out := map[string][]byte{}
		for k, v := range good {
			out[k] = v
		}
		if content == "" {
			delete(out, name)
		} else {
			out[name] = []byte(content)
		}
		return out
	}
	hub := change("weights.json", "")
	hub["onnx/model.onnx"] = hub["model.onnx"]
	delete(hub, "model.onnx")
	for name, c := range map[string]struct {
		files map[string][]byte
		cfg   Config
		want  string // of the error, or of the description
	}{
		"as it is":         {good, Config{Revision: "hub-8-1"}, "loadline/stand-in@hub-8-1, sha256 " + hexSum + " (checked)"},
		"sum by setting":   {change("weights.json", ""), Config{SHA256: strings.ToUpper(hexSum)}, "(checked)"},
		"nothing is known": {change("weights.json", ""), Config{}, "not checked: neither"},
		"a hub's folder":   {hub, Config{}, "sha256 " + hexSum},
		"another revision": {good, Config{Revision: "abc"}, `revision "hub-8-1", not of "abc"`},
		"no revision":      {change("weights.json", ""), Config{Revision: "abc"}, `revision "", not of "abc"`},
		"damaged":          {change("model.onnx", "x"), Config{}, "weights.json says " + hexSum},
		"not the setting":  {good, Config{SHA256: "00"}, "the setting says 00"},
		"no model":         {change("model.onnx", ""), Config{}, "no model.onnx in it"},
		"pickle":           {change("weights.json", `{"model": "kokoro.pth"}`), Config{}, "no kokoro.pth in it"},
		"outside":          {change("weights.json", `{"model": "../model.onnx"}`), Config{}, "a path inside the folder"},
		"no JSON":          {change("weights.json", "x"), Config{}, "is not the JSON"},
		"another format":   {change("kokoro.pth", "x"), Config{Model: "kokoro.pth"}, "not in ONNX format"},
	} {
		c.cfg.Dir, c.cfg.Files = "/m", files(c.files)
		w, err := find(t.Context(), c.cfg)
		got := w.String()
		if err != nil {
			got = err.Error()
			if !strings.Contains(got, "the model folder /m") {
				t.Errorf("%s: %v does not say where", name, err)
			}
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %q", name, got, c.want)
		}
	}
}

// Whoever is gone while all sessions are taken leaves at once; after Close nothing is spoken.
func TestTakesTurns(t *testing.T) {
	gate := make(chan struct{})
	e := made(t, Config{}, tones{gate: gate})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := say(ctx, e, "Hello.", "af_bella(2)+af_sky(1)")
			done <- err
		}()
	}
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("broken off: %v", err)
		}
	}
	close(gate)
	if pieces, err := say(t.Context(), e, "Hello.", ""); err != nil || len(pieces) != 1 {
		t.Errorf("afterwards: %d pieces, %v", len(pieces), err)
	}
	e.Close()
	if _, err := say(t.Context(), e, "Hello.", ""); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := New(Config{}).Prepare(t.Context(), serve.Request{Text: "a"}); !errors.Is(err, errClosed) {
		t.Errorf("before Load: %v", err)
	}
}

func ExampleEngine() {
	e := New(Config{Files: fstest.MapFS{}, Dir: "/opt/ml/model", Library: "/nowhere/libonnxruntime.so.1", FrontEnd: letters{}})
	defer e.Close()
	err := e.Load(context.Background(), func(stage string) { fmt.Println(stage) })
	fmt.Println(err != nil)
	// Output: true
}

func BenchmarkJoined(b *testing.B) {
	sound, _, err := tones{}.run(b.Context(), []int64{0, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 0}, nil, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(4 * len(sound)))
	for b.Loop() {
		if _, err := joined(sound, span{}, afterSentence); err != nil {
			b.Fatal(err)
		}
	}
}

// Numbers become samples as rounding and cutting them says.
func TestEncode(t *testing.T) {
	sound := []float32{0, 1, 1.00001, 0.99999, 1.00002, 2, 3, 127.99, 128, 255, 256, 257, 384, 512, 1e4, 1e9, 1e38, math.MaxFloat32, math.SmallestNonzeroFloat32, 0.5 / math.MaxInt16, 1.5 / math.MaxInt16}
	for _, x := range sound {
		sound = append(sound, -x)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		sound = append(sound, 3*r.Float32()-1.5, 2*r.Float32()-1, math.Float32frombits(r.Uint32()&^(1<<30))) // the last below 2
	}
	for _, from := range []int{0, 1, 2, 3} {
		pcm := make([]byte, 2*len(sound[from:]))
		encode(pcm, sound[from:])
		for i, x := range sound[from:] {
			want := max(math.MinInt16, min(math.MaxInt16, math.RoundToEven(float64(x*math.MaxInt16))))
			if got := int16(binary.LittleEndian.Uint16(pcm[2*i:])); float64(got) != want {
				t.Fatalf("%v is %d, not %v", x, got, want)
			}
		}
	}
}
