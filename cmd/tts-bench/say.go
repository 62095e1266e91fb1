package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"loadline/internal/audio"
	"loadline/internal/corpus"
	"loadline/internal/exit"
	"loadline/internal/load"
	"loadline/internal/sample"
	"loadline/internal/store"
)

const sayExample = `  # on this machine, from nothing
  tts-bench say "Your table is ready."

  # through a local endpoint, in another shell: sagemaker-local serve
  tts-bench say --model kokoro-82m --endpoint-url http://127.0.0.1:4999 "Your table is ready."

  # a server of your own, a longer text, through the speakers
  tts-bench say --url http://127.0.0.1:8880/v1/audio/speech --body openai-speech --play - <letter.txt`

// players is the programs that can play a WAV file, with their arguments before its name.
var players = [][]string{{"aplay", "-q"}, {"paplay"}, {"pw-play"}, {"afplay"}, {"play", "-q"}, {"ffplay", "-autoexit", "-nodisp", "-loglevel", "error"}}

// sayFlags are the flags of say.
type sayFlags struct {
	target   targetFlags
	out      string
	play     bool
	deadline time.Duration
}

func (a *app) sayCommand() *cobra.Command {
	f := sayFlags{deadline: time.Minute}
	cmd := &cobra.Command{
		Use:   "say TEXT",
		Short: "speak one text through the endpoint into a WAV file, with the times of that request",
		Long: `say sends one text, saves what comes back as a WAV file with true sizes, and prints when each part of the reply
arrived. TEXT of - is read from standard input. Nothing on the endpoint is changed. Without a target it speaks on this
machine: speech-server is started for it, with eSpeak NG's voice where that is installed.`,
		Example: sayExample,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.say(cmd, f, args) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	f.target.add(fl)
	fl.StringVar(&f.out, "out", "say.wav", "WAV file to write; an earlier one is replaced")
	fl.BoolVar(&f.play, "play", false, "play it too, with the first player found on this machine")
	fl.Var(durationFlag{&f.deadline}, "deadline", "longest that the request may take")
	return cmd
}

func (a *app) say(cmd *cobra.Command, f sayFlags, args []string) error {
	text := strings.Join(args, " ")
	if text == "-" {
		in, err := io.ReadAll(io.LimitReader(a.stdin, 1<<20))
		if err != nil {
			return exit.CannotTell(fmt.Errorf("say: read the text: %w", err))
		}
		text = string(in)
	}
	if !f.target.named(cmd.Flags().Changed) && strings.TrimSpace(text) != "" {
		return a.sayHere(cmd, f, []string{text})
	}
	to, err := a.target(f.target, cmd.Flags().Changed)
	if strings.TrimSpace(text) == "" {
		err = exit.Misuse(errors.Join(errors.New(`say what? tts-bench say --model NAME "Your table is ready."`), err))
	}
	if err != nil {
		return err
	}
	if to.payload != audio.Sound {
		return exit.Misuse(fmt.Errorf("say: replies of --payload %s hold no sound to save", f.target.payload))
	}
	var cfg aws.Config
	if to.URL == "" {
		if cfg, err = a.aws(cmd.Context(), f.target); err != nil {
			return err
		}
	}
	tr, err := a.open(cfg, to, 1)
	if err != nil {
		return err
	}
	defer tr.Close()

	rec, heard := sayOnce(cmd.Context(), tr, text, f.deadline)
	fmt.Fprint(a.stdout, sayTimes(&rec))
	if rec.Outcome != sample.OK && rec.Outcome != sample.Truncated {
		return exit.Refuse(fmt.Errorf("say: %s: %s", rec.Outcome, rec.Cause))
	}
	wav, _, err := heard.WAV()
	if err != nil {
		return exit.Refuse(fmt.Errorf("say: %w", err))
	}
	if err := store.WriteFile(f.out, wav); err != nil {
		return fmt.Errorf("say: %w", err)
	}
	fmt.Fprintf(a.stdout, "saved %s\n", f.out)
	if f.play {
		if err := a.playFile(cmd.Context(), f.out); err != nil {
			return err
		}
	}
	if rec.Outcome != sample.OK {
		return exit.Refuse(fmt.Errorf("say: the reply is not whole: %s: %s", rec.Outcome, rec.Cause))
	}
	fmt.Fprintln(a.stdout, "next: tts-bench qmax with the same target finds how many of these one instance holds")
	return nil
}

// sayOnce sends the text and keeps the sound.
func sayOnce(ctx context.Context, tr load.Transport, text string, deadline time.Duration) (sample.Request, *audio.Recorder) {
	heard := &audio.Recorder{}
	start := time.Now()
	now := func() sample.Nanos { return sample.Since(time.Since(start)) }
	rec := sample.New(0)
	rec.Worker, rec.Chars = 0, utf8.RuneCountInString(text)
	rec.Text = sample.TextID{Corpus: "say"}
	rec.Intended = now()
	rec.Started = rec.Intended
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	tr.Do(ctx, load.Call{Text: corpus.Text{ID: rec.Text, Body: text, Chars: rec.Chars}, Clock: now, Sink: heard, KeepChunks: true}, &rec)
	return rec, heard
}

// sayTimes is when each part of the reply arrived.
func sayTimes(r *sample.Request) string {
	var b strings.Builder
	for _, m := range []struct {
		name string
		at   sample.Nanos
	}{{"connected", r.Conn}, {"headers", r.Headers}, {"first byte", r.FirstByte}, {"first audio", r.FirstAudio}, {"first audible", r.FirstAudible}, {"end", r.End}} {
		if m.at.Known() {
			fmt.Fprintf(&b, "%-13s %9.1f ms\n", m.name, float64(m.at-r.Started)/1e6)
		} else {
			fmt.Fprintf(&b, "%-13s %9s\n", m.name, "never")
		}
	}
	if r.Audio > 0 {
		fmt.Fprintf(&b, "%-13s %9.2f s in %d chunks", "audio", r.Audio, len(r.Chunks))
		if r.Stall > 0 {
			fmt.Fprintf(&b, ", a listener would have waited %.2f s in between", r.Stall)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// playFile plays a WAV file with what this machine has.
func (a *app) playFile(ctx context.Context, path string) error {
	for _, p := range players {
		program, err := exec.LookPath(p[0])
		if err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, program, append(p[1:], path)...)
		cmd.Stderr = a.stderr
		if err := cmd.Run(); err != nil {
			return exit.CannotTell(fmt.Errorf("say: play %s with %s: %w", path, p[0], err))
		}
		return nil
	}
	names := make([]string, len(players))
	for i, p := range players {
		names[i] = p[0]
	}
	return exit.CannotTell(fmt.Errorf("say: no player on this machine (%s): open %s yourself", strings.Join(names, ", "), path))
}
