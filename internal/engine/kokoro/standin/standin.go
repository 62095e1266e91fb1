// Package standin makes a model folder without a model: an ONNX graph with the inputs and outputs of Kokoro-82M's exports,
// which hums a tone for every token, and voices that differ in pitch. Servers, schedulers and load tests can be tried on it
// where the weights are not to be had; nobody would take it for speech.
//
// A token lasts two to four frames of 25 ms, punctuation ten; the graph begins and ends with a quarter of a second of faint
// hiss, as the model does. Its cost grows with its sound as the model's does: Layers convolutions of Channels channels.
//
//	files := standin.Folder(standin.Config{Channels: 64, Layers: 2}) // path in the folder to content
package standin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// Export is one of the ways in which the model was published.
type Export string

const (
	// Hub takes input_ids, style and a float speed, and gives waveform [1, samples].
	Hub Export = "hub"
	// Timed takes input_ids, style and a whole speed, and gives waveform and the duration of each token in frames.
	Timed Export = "timed"
	// Tokens takes tokens, style and a float speed, and gives audio [samples].
	Tokens Export = "tokens"
)

// Exports is all of them.
var Exports = []Export{Hub, Timed, Tokens}

// Config is what a graph is like.
type Config struct {
	Export   Export // default Hub
	Channels int    // of each convolution; default 8. 1024 and 20 layers cost two processors about 3 % of the sound's length
	Layers   int    // default 1
}

const (
	alphabet = 178 // token numbers
	styleLen = 256
	rows     = 510
	rate     = 24000
	frame    = 600 // samples
	hiss     = 0.0005
)

// Frames is how long a token lasts at speed 1, in frames of 600 samples.
func Frames(token int64) int {
	switch {
	case token <= 15: // the padding at both ends, and punctuation
		return 10
	default:
		return 2 + int(token%3)
	}
}

// Graph is an ONNX file.
func Graph(c Config) []byte {
	c = c.whole()
	var g graph
	one := func(name string, v ...int64) string { return g.constant(longs(name, []int64{int64(len(v))}, v...)) }
	table := func(name string, of func(token int64) float32) string {
		v := make([]float32, alphabet)
		for i := range v {
			v[i] = of(int64(i))
		}
		return g.constant(floats(name, []int64{alphabet}, v...))
	}

	ids, speedType := "input_ids", int64(float32Type)
	switch c.Export {
	case Tokens:
		ids = "tokens"
	case Timed:
		speedType = int32Type
	}
	g.input(port{ids, int64Type, []any{1, "tokens_length"}})
	g.input(port{"style", float32Type, []any{1, styleLen}})
	g.input(port{"speed", speedType, []any{1}})

	// How many frames each token lasts, and which token each frame belongs to.
	flat := one("flat", -1)
	tokens := g.op("Reshape", []string{ids, flat})
	speed := "speed"
	if c.Export == Timed {
		speed = g.op("Cast", []string{speed}, attribute{"to", int64(float32Type)})
	}
	frames := g.op("Gather", []string{table("frames", func(t int64) float32 { return float32(Frames(t)) }), tokens})
	frames = g.op("Round", []string{g.op("Div", []string{frames, speed})})
	frames = g.op("Max", []string{frames, g.constant(floats("least", []int64{1}, 1))})
	whole := g.op("Cast", []string{frames}, attribute{"to", int64(int64Type)})
	scalar := func(name string, v int64) string { return g.constant(longs(name, nil, v)) }
	zero, step := scalar("zero", 0), scalar("step", 1)
	ends := g.op("CumSum", []string{whole, zero})
	total := g.op("ReduceMax", []string{ends}, attribute{"keepdims", int64(0)})
	at := g.op("Range", []string{zero, total, step})
	past := g.op("GreaterOrEqual", []string{g.op("Unsqueeze", []string{at, one("second", 1)}), g.op("Unsqueeze", []string{ends, one("first", 0)})})
	past = g.op("Cast", []string{past}, attribute{"to", int64(int64Type)})
	owner := g.op("ReduceSum", []string{past, "second"}, attribute{"keepdims", int64(0)})
	spoken := g.op("Gather", []string{tokens, owner})

	// A tone for each, its pitch moved by the voice, without steps between frames.
	level := g.op("Gather", []string{table("level", func(t int64) float32 {
		switch {
		case t <= 15:
			return hiss
		case t == 16: // the space
			return 0.05
		}
		return 0.2 + 0.05*float32(t%4)
	}), spoken})
	pitch := g.op("Gather", []string{table("pitch", func(t int64) float32 { return 110 + 5*float32(t%13) }), spoken})
	mean := g.op("ReduceMean", []string{"style"}, attribute{"axes", []int64{0, 1}}, attribute{"keepdims", int64(0)})
	shift := g.op("Add", []string{g.op("Mul", []string{mean, g.constant(floats("range", nil, 4))}), g.constant(floats("unit", nil, 1))})
	pitch = g.op("Mul", []string{pitch, shift})
	row, scales := one("row", 1, -1), g.constant(floats("scales", []int64{2}, 1, frame))
	smooth := func(x string) string {
		x = g.op("Resize", []string{g.op("Reshape", []string{x, row}), "", scales}, attribute{"mode", "linear"})
		return g.op("Reshape", []string{x, flat})
	}
	turn := g.op("Mul", []string{smooth(pitch), g.constant(floats("turn", nil, 2*math.Pi/rate))})
	phase := g.op("CumSum", []string{turn, zero})
	wave := g.op("Mul", []string{g.op("Sin", []string{phase}), g.constant(floats("fundamental", nil, 0.7))})
	octave := g.op("Mul", []string{phase, g.constant(floats("two", nil, 2))})
	octave = g.op("Mul", []string{g.op("Sin", []string{octave}), g.constant(floats("octave", nil, 0.3))})
	wave = g.op("Mul", []string{g.op("Add", []string{wave, octave}), smooth(level)})

	// The work of the model: its result is far too small to be heard.
	n := int64(c.Channels)
	fill := func(name string, value float32, dims ...int64) string {
		return g.op("ConstantOfShape", []string{one(name, dims...)}, attribute{"value", floats("", []int64{1}, value)})
	}
	x := g.op("Gather", []string{fill("embedding", 0.1, alphabet, n), spoken})
	x = g.op("Add", []string{x, g.op("MatMul", []string{"style", fill("projection", 0.01, styleLen, n)})})
	x = g.op("Unsqueeze", []string{g.op("Transpose", []string{x}, attribute{"perm", []int64{1, 0}}), "first"})
	kernel := fill("kernel", 1/float32(3*n), n, n, 3)
	for range c.Layers {
		x = g.op("Conv", []string{x, kernel}, attribute{"pads", []int64{1, 1}})
		x = g.op("LeakyRelu", []string{x}, attribute{"alpha", float32(0.1)})
	}
	x = g.op("ReduceMean", []string{x}, attribute{"axes", []int64{0, 1, 2}}, attribute{"keepdims", int64(0)})
	x = g.op("Mul", []string{x, g.constant(floats("inaudible", nil, 1e-9))})
	wave = g.op("Add", []string{wave, x})

	if c.Export == Tokens {
		g.named("audio", "Identity", []string{wave})
		g.output(port{"audio", float32Type, []any{"audio_length"}})
	} else {
		g.named("waveform", "Reshape", []string{wave, row})
		g.output(port{"waveform", float32Type, []any{1, "num_samples"}})
	}
	if c.Export == Timed {
		g.named("duration", "Identity", []string{whole})
		g.output(port{"duration", int64Type, []any{"tokens_length"}})
	}
	return g.model("stand-in")
}

func (c Config) whole() Config {
	if c.Export == "" {
		c.Export = Hub
	}
	if c.Channels < 1 {
		c.Channels = 8
	}
	if c.Layers < 1 {
		c.Layers = 1
	}
	return c
}

// Voices is the names of the folder's voices: some of the model's own, so that requests made for it work.
var Voices = strings.Fields("af_heart af_bella af_sky am_adam bf_emma bm_george ff_siwis")

// Voice is a pack of styles: 510 rows of 256 numbers as little-endian float32. Its mean is the voice's pitch.
func Voice(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	r := rand.New(rand.NewPCG(uint64(sum[0])|uint64(sum[1])<<8, 1))
	pitch := 0.2 * r.Float64()
	if len(name) > 1 && name[1] == 'm' {
		pitch -= 0.1
	}
	v := make([]float32, rows*styleLen)
	for i := range v {
		v[i] = float32(pitch + 0.1*r.NormFloat64())
	}
	return floats("", nil, v...).raw
}

// Folder is a whole model folder: its files by their paths.
func Folder(c Config) map[string][]byte {
	model := Graph(c)
	sum := sha256.Sum256(model)
	c = c.whole()
	manifest, err := json.MarshalIndent(map[string]string{"repo": "loadline/stand-in", "sha256": hex.EncodeToString(sum[:]), "model": "model.onnx",
		"revision": fmt.Sprintf("%s-%d-%d", c.Export, c.Channels, c.Layers)}, "", "  ")
	if err != nil {
		panic(err) // strings
	}
	files := map[string][]byte{"weights.json": append(manifest, '\n'), "model.onnx": model}
	for _, v := range Voices {
		files["voices/"+v+".bin"] = Voice(v)
	}
	return files
}
