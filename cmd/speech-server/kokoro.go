package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/internal/codec"
	"loadline/internal/engine/kokoro"
	"loadline/internal/engine/kokoro/standin"
	"loadline/internal/engine/phonemes"
	"loadline/internal/exit"
	"loadline/internal/serve"
)

// kokoroSettings are the flags of the engine kokoro.
type kokoroSettings struct {
	dir, library, device, voice string
	revision, sum               string
	sessions, threads           int
	first, most                 int
}

func (k *kokoroSettings) flags(f *pflag.FlagSet) {
	f.StringVar(&k.dir, "model-dir", "/opt/ml/model", "for kokoro: the model folder, with model.onnx, voices/NAME.bin and weights.json")
	f.StringVar(&k.library, "onnxruntime", "", "for kokoro: ONNX Runtime's shared library, 1.24 or later; default one beside the program, in .onnxruntime, or the system's")
	f.StringVar(&k.device, "device", "auto", "for kokoro: cpu, cuda, or auto for cuda where it is there")
	f.IntVar(&k.sessions, "sessions", 1, "for kokoro: copies of the model, as many pieces at a time")
	f.IntVar(&k.threads, "threads", 0, "for kokoro: threads of a session on processors; 0 shares the processors")
	f.StringVar(&k.voice, "voice", "", "for kokoro: the voice of requests that name none; default af_heart, or the first")
	f.StringVar(&k.revision, "weights-revision", "", "for kokoro: the revision that weights.json must name")
	f.StringVar(&k.sum, "weights-sha256", "", "for kokoro: the sha256 that the model's file must have; default that of weights.json")
	f.IntVar(&k.first, "first-tokens", 16, "for kokoro: tokens of a text's first piece, about; 0: no smaller than others")
	f.IntVar(&k.most, "max-tokens", 200, "for kokoro: tokens of a piece at most; bounds memory, and how long a piece holds its place")
}

// spoken is the engine and its front end.
type spoken struct {
	*kokoro.Engine
	words *phonemes.Pool
}

func (s spoken) Close() {
	s.Engine.Close()
	s.words.Close()
}

func (k *kokoroSettings) engine(workers int, log io.Writer) (spoken, error) {
	var wrong []error
	if k.sessions < 1 || k.threads < 0 {
		wrong = append(wrong, errors.New("--sessions is 1 or more, --threads 0 or more"))
	}
	if k.first < 0 || k.most < 8 || k.most > 510 {
		wrong = append(wrong, fmt.Errorf("--first-tokens is 0 or more, and --max-tokens from 8 to the model's 510, not %d and %d", k.first, k.most))
	}
	device := kokoro.Device(k.device)
	if device != kokoro.Auto && device != kokoro.CPU && device != kokoro.CUDA {
		wrong = append(wrong, fmt.Errorf("--device is %q: it is auto, cpu or cuda", k.device))
	}
	if info, err := os.Stat(k.dir); err != nil {
		wrong = append(wrong, fmt.Errorf("--model-dir: %w: without weights, speech-server stand-in DIR makes a folder to try", err))
	} else if !info.IsDir() {
		wrong = append(wrong, fmt.Errorf("--model-dir: %s is a file: a folder with model.onnx and voices/ is wanted", k.dir))
	}
	if len(wrong) > 0 {
		return spoken{}, errors.Join(wrong...)
	}
	first := k.first
	if first == 0 {
		first = -1
	}
	say := func(line string) { fmt.Fprintln(log, line) }
	words := phonemes.New(phonemes.Config{Processes: workers, Log: say})
	return spoken{kokoro.New(kokoro.Config{
		Dir: k.dir, Files: os.DirFS(k.dir), Revision: k.revision, SHA256: k.sum, Library: library(k.library), Device: device,
		Sessions: k.sessions, Threads: k.threads, First: first, Max: k.most, Voice: k.voice, FrontEnd: words,
		Log: say,
	}), words}, nil
}

// library is the path of ONNX Runtime: the one that is named, else one that lies where it is put, else what the system's loader
// finds by the name.
func library(named string) string {
	const name = "libonnxruntime.so.1"
	if named != "" {
		return named
	}
	places := []string{".onnxruntime"}
	if program, err := os.Executable(); err == nil {
		at := filepath.Dir(program)
		places = append(places, at, filepath.Join(at, "..", ".onnxruntime"))
	}
	for _, p := range places {
		path := filepath.Join(p, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if path, err := filepath.Abs(path); err == nil {
			return path
		}
	}
	return name
}

// codecs is the encoders whose programs are installed.
func codecs() map[string]serve.Codec {
	all := make(map[string]serve.Codec)
	for name, f := range codec.Formats() {
		all[name] = serve.Codec{ContentType: f.ContentType, Open: func(ctx context.Context, rate int, out io.Writer) (io.WriteCloser, error) {
			return f.Open(ctx, rate, out)
		}}
	}
	return all
}

func standInCommand(stdout io.Writer) *cobra.Command {
	var c standin.Config
	var export string
	cmd := &cobra.Command{
		Use:   "stand-in DIR",
		Short: "make a model folder without a model",
		Long: `stand-in writes a model folder with a graph of Kokoro's inputs and outputs that
hums a tone for every token, and a few voices: enough to try the server, its
scheduler and a load test where the weights are not at hand. It says nothing
about how Kokoro sounds or how long it takes.

1024 channels and 20 layers cost two processors about 3 % of the sound's length,
which is what an accelerator takes for the model.`,
		Example: `  speech-server stand-in model
  speech-server serve --engine kokoro --model-dir model`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Misuse(errors.New("stand-in takes the folder to write: speech-server stand-in DIR"))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c.Export = standin.Export(export)
			switch {
			case c.Export != standin.Hub && c.Export != standin.Timed && c.Export != standin.Tokens:
				return exit.Misuse(fmt.Errorf("--export is %q: it is one of %v", export, standin.Exports))
			case c.Channels < 1 || c.Channels > 4096 || c.Layers < 1 || c.Layers > 1000:
				return exit.Misuse(fmt.Errorf("--channels is from 1 to 4096 and --layers from 1 to 1000, not %d and %d", c.Channels, c.Layers))
			}
			files := standin.Folder(c)
			for name, content := range files {
				path := filepath.Join(args[0], filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(path, content, 0o644); err != nil {
					return err
				}
			}
			fmt.Fprintf(stdout, "%s: %d files, a stand-in for Kokoro-82M that hums\n", args[0], len(files))
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&export, "export", string(standin.Hub), fmt.Sprintf("whose inputs and outputs the graph has: %v", standin.Exports))
	f.IntVar(&c.Channels, "channels", 8, "channels of its convolutions")
	f.IntVar(&c.Layers, "layers", 1, "convolutions")
	return cmd
}
