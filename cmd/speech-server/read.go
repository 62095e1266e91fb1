package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadline/internal/engine/phonemes"
	"loadline/internal/exit"
	"loadline/internal/speech"
)

// readCommand shows what becomes of a text before it is sound.
func readCommand(stdin io.Reader, stdout io.Writer) *cobra.Command {
	var language string
	var spell bool
	var said map[string]string
	cmd := &cobra.Command{
		Use:   "read [TEXT]",
		Short: "show how a text is read",
		Long: `read prints a text as a voice gets it: sentence by sentence, with numbers, dates,
money and abbreviations in words, the pauses it asks for, and below what of it
is not said. Without TEXT it reads standard input. Nothing is spoken.`,
		Example: `  speech-server read 'Dr. Lee paid $5.50 at 9:30 a.m. on 6/13/2026.'
  speech-server read --phonemes --say Nguyen=win 'Ask Nguyen.'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.Join(args, " ")
			if len(args) == 0 {
				b, err := io.ReadAll(io.LimitReader(stdin, 16<<20))
				if err != nil {
					return fmt.Errorf("read the text: %w", err)
				}
				text = string(b)
			}
			lexicon, err := speech.NewLexicon(said)
			if err != nil {
				return exit.Misuse(fmt.Errorf("--say: %w", err))
			}
			language = speech.Language(language)
			var pool *phonemes.Pool
			if spell {
				pool = phonemes.New(phonemes.Config{Processes: 1, Log: func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }})
				defer pool.Close()
				if err := pool.Load(cmd.Context()); err != nil {
					return fmt.Errorf("start the front end: %w", err)
				}
				if err := pool.Check(language); err != nil {
					return exit.Misuse(fmt.Errorf("--language: %w", err))
				}
			}
			var split speech.Splitter
			parts := append(split.Write(text), split.Flush()...)
			if len(parts) == 0 {
				return errors.New("the text has no letter or digit in it that is read aloud: there is nothing to speak")
			}
			pause := func(d time.Duration) {
				if d > 0 {
					fmt.Fprintf(stdout, "  pause: %v\n", d)
				}
			}
			for _, part := range parts {
				pause(part.Pause)
				r := speech.Read(part.Text, language, lexicon)
				omitted := r.Omitted
				fmt.Fprintln(stdout, r.Text())
				if spell {
					p, err := pool.Spell(cmd.Context(), r)
					if err != nil {
						return err
					}
					fmt.Fprintln(stdout, "  "+p.Phonemes)
					omitted = p.Unsaid()
				}
				if len(omitted) > 0 {
					fmt.Fprintln(stdout, "  not said: "+strings.Join(omitted, ", "))
				}
			}
			pause(split.Pause())
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&language, "language", "en-us", "language of the text")
	f.BoolVar(&spell, "phonemes", false, "show the phonemes of Kokoro too (needs espeak-ng)")
	f.StringToStringVar(&said, "say", nil, "WORD=HOW: words, or phonetic symbols between slashes; may be repeated")
	return cmd
}
