package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"loadline/internal/audio"
	"loadline/internal/exit"
	"loadline/internal/store"
	"loadline/speech"
)

const sayExample = `  # on this machine, from nothing
  tts-bench say "Your table is ready."

  # through a local endpoint, in another shell: sagemaker-local serve
  tts-bench say --model kokoro-82m --endpoint-url http://127.0.0.1:4999 "Your table is ready."

  # a server of your own, a longer text, through the speakers
  tts-bench say --url http://127.0.0.1:8880/v1/audio/speech --body openai-speech --play - <letter.txt

  # the same server's WebSocket
  tts-bench say --url ws://127.0.0.1:8080 "Your table is ready."`

// players is the programs that can play a WAV file, with their arguments before its name.
var players = [][]string{{"aplay", "-q"}, {"paplay"}, {"pw-play"}, {"afplay"}, {"play", "-q"}, {"ffplay", "-autoexit", "-nodisp", "-loglevel", "error"}}

// sayFlags are the flags of say.
type sayFlags struct {
	target   targetFlags
	out      string
	play     bool
	deadline time.Duration
	json     bool
}

// said is one reply for machines. Times are of when the request began; null: never.
type said struct {
	File         string   `json:"file"`
	Whole        bool     `json:"whole"`
	Connected    *float64 `json:"connected_ms"`
	Headers      *float64 `json:"headers_ms"`
	FirstByte    *float64 `json:"first_byte_ms"`
	FirstAudio   *float64 `json:"first_audio_ms"`
	FirstAudible *float64 `json:"first_audible_ms"`
	End          *float64 `json:"end_ms"`
	Audio        float64  `json:"audio_s"`
	Stall        float64  `json:"stall_s"` // that a listener would have waited in between
	Chunks       int      `json:"chunks"`
}

func saidOf(r *speech.Reply, file string, whole bool) said {
	ms := func(at time.Duration) *float64 {
		if at == speech.Never {
			return nil
		}
		return new(at.Seconds() * 1000)
	}
	t := r.Times
	return said{file, whole, ms(t.Connected), ms(t.Headers), ms(t.FirstByte), ms(t.FirstAudio), ms(t.FirstAudible), ms(t.End), r.Duration.Seconds(), t.Stall.Seconds(), t.Chunks}
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
	f.target.componentFlags(fl)
	fl.StringVar(&f.out, "out", "say.wav", "WAV file to write; an earlier one is replaced")
	fl.BoolVar(&f.play, "play", false, "play it too, with the first player found on this machine")
	fl.Var(durationFlag{&f.deadline}, "deadline", "longest that the request may take")
	fl.BoolVar(&f.json, "json", false, "print the times as JSON; what is said goes to stderr")
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
	if f.deadline <= 0 {
		return exit.Misuse(fmt.Errorf("say: --deadline %s: it must be above 0", f.deadline))
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
	c := speech.Over(tr, f.deadline, speech.Retry{Tries: 1})
	defer c.Close()
	reply, failed := c.Synthesize(cmd.Context(), text)
	out := a.saying(f.json)
	fmt.Fprint(out, sayTimes(reply))
	if failed != nil && reply.WAV == nil {
		return exit.Refuse(fmt.Errorf("say: %s: %w", cmp.Or(to.Target.URL, to.Endpoint), failed))
	}
	if err := store.WriteFile(f.out, reply.WAV); err != nil {
		return fmt.Errorf("say: %w", err)
	}
	fmt.Fprintf(out, "saved %s\n", f.out)
	if err := a.did(f.json, saidOf(reply, f.out, failed == nil)); err != nil {
		return err
	}
	if f.play {
		if err := a.playFile(cmd.Context(), f.out); err != nil {
			return err
		}
	}
	if failed != nil {
		return exit.Refuse(fmt.Errorf("say: the reply is not whole: %w", failed))
	}
	fmt.Fprintln(out, "next: tts-bench qmax with the same target finds how many of these one instance holds")
	return nil
}

// sayTimes is when each part of the reply arrived.
func sayTimes(r *speech.Reply) string {
	var b strings.Builder
	t := r.Times
	for _, m := range []struct {
		name string
		at   time.Duration
	}{{"connected", t.Connected}, {"headers", t.Headers}, {"first byte", t.FirstByte}, {"first audio", t.FirstAudio}, {"first audible", t.FirstAudible}, {"end", t.End}} {
		if m.at == speech.Never {
			fmt.Fprintf(&b, "%-13s %9s\n", m.name, "never")
		} else {
			fmt.Fprintf(&b, "%-13s %9.1f ms", m.name, m.at.Seconds()*1000)
			if m.name == "first audible" && m.at > t.FirstAudio {
				fmt.Fprintf(&b, ", played at once: the sound begins with %.1f ms of silence", (m.at-t.FirstAudio).Seconds()*1000)
			}
			b.WriteString("\n")
		}
	}
	if r.Duration > 0 {
		fmt.Fprintf(&b, "%-13s %9.2f s in %d chunks", "audio", r.Duration.Seconds(), t.Chunks)
		if t.Stall > 0 {
			fmt.Fprintf(&b, ", a listener would have waited %.2f s in between", t.Stall.Seconds())
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
