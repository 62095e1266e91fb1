package phonemes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"loadline/internal/speech"
	"loadline/internal/speech/phoneme"
)

var update = flag.Bool("update", false, "write how texts are said into the golden file")

// load is a pool on the real program.
func load(t testing.TB, processes int) *Pool {
	t.Helper()
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skip("espeak-ng is not installed: apt-get install espeak-ng")
	}
	p := New(Config{Processes: processes})
	t.Cleanup(p.Close)
	if err := p.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func spell(t testing.TB, p *Pool, text, language string) phoneme.Spelling {
	t.Helper()
	s, err := p.Spell(t.Context(), speech.Read(speech.Clean(text), language, nil))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return s
}

// Every line of the golden file is a text, and after " => " how it is said, in the model's alphabet.
func TestSpelling(t *testing.T) {
	p := load(t, 2)
	const file = "testdata/spelling.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	language := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# language "); ok {
			language = name
		} else {
			text, want, _ := strings.Cut(line, " => ")
			s := spell(t, p, text, language)
			got := s.Phonemes
			if len(s.Omitted) > 0 || s.Dropped > 0 {
				got += fmt.Sprintf(" | not said: %s, %d symbols", strings.Join(s.Omitted, ", "), s.Dropped)
			}
			if got != want && !*update {
				t.Errorf("%s: %q is said\n     %q\nwant %q", language, text, got, want)
			}
			line = text + " => " + got
		}
		out.WriteString(line + "\n")
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Text is text, whatever the program might make of it, and nothing of it reaches the next.
func TestHostileText(t *testing.T) {
	p := load(t, 1)
	want := spell(t, p, "alpha bravo charlie", "en-us").Phonemes
	for name, text := range map[string]string{
		"its notation":     "[[pktpktpktkpt]] hello",
		"its mark":         "pktpktpktkpt",
		"options":          "-v de --help",
		"lines":            "one\ntwo\r\nthree\x00four\vfive",
		"control":          "\x01v20 hello \x1b[0m",
		"markup":           "<voice name=\"de\">x</voice> & <mark/>",
		"no spaces":        strings.Repeat("abcdefgh", 500),
		"many words":       strings.Repeat("alpha bravo charlie ", 150),
		"other scripts":    "Здравствуйте 漢字 नमस्ते",
		"separators":       "a\u2028b\u2029c\u0085d",
		"combining":        "e" + strings.Repeat("\u0301", 2000),
		"private":          "\ue000\uf8ff x",
		"invalid and null": "a\xff\x00b",
	} {
		for _, raw := range []string{text, speech.Clean(text)} {
			s, err := p.Spell(t.Context(), speech.Read(raw, "en-us", nil))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if strings.Contains(s.Phonemes, mark) || !utf8.ValidString(s.Phonemes) {
				t.Errorf("%s: %.200q", name, s.Phonemes)
			}
			if _, dropped := phoneme.Tokens(s.Phonemes); dropped > 0 {
				t.Errorf("%s: %d symbols without a token", name, dropped)
			}
			if name == "many words" && len(strings.Fields(s.Phonemes)) != 450 {
				t.Errorf("%s: %d of 450 words", name, len(strings.Fields(s.Phonemes)))
			}
		}
		p.memory = memory{}
		if got := spell(t, p, "alpha bravo charlie", "en-us").Phonemes; got != want {
			t.Errorf("after %s, the first text is %q, not %q", name, got, want)
		}
	}
}

// Eight at once get what each would have got alone, in every language, and no more processes run than places.
func TestParallelIsSerial(t *testing.T) {
	p := load(t, 3)
	type one struct{ text, language string }
	var all []one
	for _, language := range []string{"en-us", "en-gb", "fr-fr", "it"} {
		for _, text := range []string{"The quick brown fox, 3.5 km away.", "Hello.", "One, two, three; four — five.", "Your call is important to us."} {
			all = append(all, one{text, language})
		}
	}
	want := make(map[one]string)
	for _, o := range all {
		want[o] = spell(t, p, o.text, o.language).Phonemes
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 50 {
				if i%5 == 0 {
					p.memory.forget()
				}
				o := all[(n*7+i*5)%len(all)]
				s, err := p.Spell(t.Context(), speech.Read(o.text, o.language, nil))
				if err != nil || s.Phonemes != want[o] {
					t.Errorf("%+v: %q, alone %q: %v", o, s.Phonemes, want[o], err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(p.idle); n > 3 {
		t.Errorf("%d processes for 3 places", n)
	}
}

// A child that dies is replaced, and the text spelled by the next.
func TestDeadChild(t *testing.T) {
	p := load(t, 1)
	want := spell(t, p, "Hello, world.", "en-us").Phonemes
	for range 3 {
		if len(p.idle) != 1 {
			t.Fatalf("%d children", len(p.idle))
		}
		if err := p.idle[0].Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		p.memory = memory{}
		if got := spell(t, p, "Hello, world.", "en-us").Phonemes; got != want {
			t.Errorf("after a death %q, before %q", got, want)
		}
	}
	p.Close()
	if _, err := p.Spell(t.Context(), speech.Read("Hello there", "en-us", nil)); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recent, m.older = nil, nil
}

// What is in use is remembered, and no more than so much.
func TestMemory(t *testing.T) {
	var m memory
	m.keep("en-us", "often", "ˈɔfən")
	m.keep("en-us", strings.Repeat("a", memorable+1), "x")
	for i := range 5 * remembered {
		m.keep("en-us", fmt.Sprint("text ", i), "x")
		if i%500 == 0 {
			if ipa, ok := m.get("en-us", "often"); !ok || ipa != "ˈɔfən" {
				t.Fatalf("after %d others %q, %v", i, ipa, ok)
			}
		}
	}
	if n := len(m.recent) + len(m.older); n > 2*remembered {
		t.Errorf("%d texts are kept", n)
	}
	for _, text := range []string{"text 0", strings.Repeat("a", memorable+1)} {
		if _, ok := m.get("en-us", text); ok {
			t.Errorf("%.20s is kept", text)
		}
	}
	if _, ok := m.get("en-gb", "often"); ok {
		t.Error("another language remembers too")
	}
}

func TestLanguages(t *testing.T) {
	p := load(t, 1)
	if got := fmt.Sprint(p.Languages()); got != "[en-gb en-us es fr-fr hi it pt-br]" {
		t.Errorf("languages %s", got)
	}
	for _, language := range []string{"ja", "cmn", "de", "", "-v", "../en"} {
		_, err := p.Spell(t.Context(), speech.Reading{Language: language, Spans: []speech.Span{{Words: "a"}}})
		var missing *LanguageError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), "no front end for the language") || !strings.Contains(err.Error(), "en-us") {
			t.Errorf("%q: %v", language, err)
		}
	}
}

// What a program does that is not the right one, or hangs, is an error in time; so is a caller who goes.
func TestStrangePrograms(t *testing.T) {
	dir := t.TempDir()
	program := func(name, body string) string {
		path := filepath.Join(dir, name)
		script := "#!/bin/sh\nif [ \"$1\" = --voices ]; then echo ' 5  en-us --/M English_(America) gmw/en-US'; exit; fi\n" + body
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ name, body, want string }{
		{"ends", "exit 3", "espeak: "},
		{"mute", "exec /bin/sleep 60", "i/o timeout"},
		{"other", "while read x; do echo hullo; read y; echo " + mark + "; done", `says hello as "hullɔ", not as "həlˈO"`},
		{"endless", "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done", "espeak: "},
	} {
		p := New(Config{Program: program(c.name, c.body), Processes: 1, Patience: time.Second})
		if err := p.Load(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		p.Close()
	}
	if err := New(Config{Program: filepath.Join(dir, "nothing")}).Load(t.Context()); err == nil || !strings.Contains(err.Error(), "apt-get install espeak-ng") {
		t.Errorf("no program: %v", err)
	}
	mute := New(Config{Program: program("mute", "exec /bin/sleep 60"), Processes: 1, Patience: time.Minute})
	mute.speaks = map[string]bool{"en-us": true}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for range 2 { // one has the place, one waits for it
		go func() {
			_, err := mute.Spell(ctx, speech.Read("Hello", "en-us", nil))
			done <- err
		}()
	}
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who went: %v", err)
		}
	}
	if len(mute.places) != 0 || len(mute.idle) != 0 {
		t.Errorf("%d places are held, %d children are idle", len(mute.places), len(mute.idle))
	}
	mute.Close()
}

func BenchmarkSpell(b *testing.B) {
	p := load(b, 1)
	r := speech.Read("Please hold while I transfer your call to an agent who can help you today.", "en-us", nil)
	for b.Loop() {
		p.memory.forget()
		if _, err := p.Spell(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// What makes the program quick changes nothing that it says: its usual voice, a line at a time, says the same in every language.
func TestQuickIsPlain(t *testing.T) {
	p := load(t, 1)
	b, err := os.ReadFile("testdata/spelling.txt")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]string{}
	language := ""
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "# language "); ok {
			language = name
			continue
		}
		text, _, _ := strings.Cut(line, " => ")
		for _, s := range speech.Read(speech.Clean(text), language, nil).Spans {
			texts[language] = append(texts[language], fitting(s.Words)...)
		}
	}
	for language, lines := range texts {
		cmd := exec.CommandContext(t.Context(), p.cfg.Program, "-q", "--ipa", "--tie=^", "-v", languages[language])
		cmd.Env = []string{"PATH=", "LC_ALL=C.UTF-8"}
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"+marked) + "\n" + marked)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(string(out), mark+"\n")
		if len(want) != len(lines)+1 {
			t.Fatalf("%s: %d answers to %d lines", language, len(want)-1, len(lines))
		}
		got, err := p.say(t.Context(), language, lines)
		if err != nil {
			t.Fatal(err)
		}
		for i := range lines {
			if plain := strings.Join(strings.Fields(want[i]), " "); strings.Join(strings.Fields(got[i]), " ") != plain {
				t.Errorf("%s: %q is said %q, plainly %q", language, lines[i], got[i], plain)
			}
		}
	}
}
