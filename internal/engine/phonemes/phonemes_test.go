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

	"loadline/internal/corpus"
	"loadline/internal/speech"
	"loadline/internal/speech/phoneme"
)

var update = flag.Bool("update", false, "write how texts are said into the golden file")

// load is a pool on a program: own or espeak-ng.
func load(t testing.TB, program string, processes int) *Pool {
	t.Helper()
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skip("espeak-ng is not installed: apt-get install espeak-ng")
	}
	if program == own {
		program = build(t)
	}
	p := New(Config{Program: program, Processes: processes})
	t.Cleanup(p.Close)
	if err := p.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// build makes the project's program from its source, and is its path.
func build(t testing.TB) string {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "cc", "-E", "-include", "espeak-ng/speak_lib.h", "-x", "c", os.DevNull, "-o", os.DevNull).Run(); err != nil {
		t.Skip("no C compiler, or libespeak-ng-dev is not installed: make setup gets it")
	}
	path := filepath.Join(t.TempDir(), own)
	out, err := exec.CommandContext(t.Context(), "cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", path, "speller/"+own+".c", "-lespeak-ng").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// both runs a test on a pool of each program.
func both(t *testing.T, processes int, test func(*testing.T, *Pool)) {
	for _, program := range []string{own, "espeak-ng"} {
		t.Run(program, func(t *testing.T) { test(t, load(t, program, processes)) })
	}
}

func spell(t testing.TB, p *Pool, text, language string) phoneme.Spelling {
	t.Helper()
	s, err := p.Spell(t.Context(), speech.Read(speech.Clean(text), language, nil))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return s
}

// golden is a file whose every line is a text, and after " => " how it is said, in the model's alphabet.
const golden = "testdata/spelling.txt"

// said is a text and how it is said.
type said struct{ language, text, phonemes string }

// spoken is the golden file.
func spoken(t *testing.T) (all []said) {
	t.Helper()
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	language := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# language "); ok {
			language = name
			continue
		}
		text, phonemes, _ := strings.Cut(line, " => ")
		all = append(all, said{language, text, phonemes})
	}
	return all
}

func TestSpelling(t *testing.T) { both(t, 2, testSpelling) }

func testSpelling(t *testing.T, p *Pool) {
	var out strings.Builder
	language := ""
	for _, c := range spoken(t) {
		s := spell(t, p, c.text, c.language)
		got := s.Phonemes
		if len(s.Omitted) > 0 || s.Dropped > 0 {
			got += fmt.Sprintf(" | not said: %s, %d symbols", strings.Join(s.Omitted, ", "), s.Dropped)
		}
		if got != c.phonemes && !*update {
			t.Errorf("%s: %q is said\n     %q\nwant %q", c.language, c.text, got, c.phonemes)
		}
		if c.language != language {
			language = c.language
			fmt.Fprintf(&out, "# language %s\n", language)
		}
		fmt.Fprintf(&out, "%s => %s\n", c.text, got)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Text is text, whatever the program might make of it, and nothing of it reaches the next.
func TestHostileText(t *testing.T) { both(t, 1, testHostileText) }

func testHostileText(t *testing.T, p *Pool) {
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
func TestParallelIsSerial(t *testing.T) { both(t, 3, testParallelIsSerial) }

func testParallelIsSerial(t *testing.T, p *Pool) {
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

// A child that dies is replaced, and the text spelled by the next, though all others have died too.
func TestDeadChild(t *testing.T) { both(t, 3, testDeadChild) }

func testDeadChild(t *testing.T, p *Pool) {
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
	for range 2 {
		c, err := p.take("en-us", true)
		if err != nil {
			t.Fatal(err)
		}
		p.put(c)
	}
	for _, c := range p.idle {
		if err := c.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	p.memory = memory{}
	if got := spell(t, p, "Hello, world.", "en-us").Phonemes; got != want || len(p.idle) != 3 {
		t.Errorf("after %d deaths %q, before %q", len(p.idle), got, want)
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

func TestLanguages(t *testing.T) { both(t, 1, testLanguages) }

func testLanguages(t *testing.T, p *Pool) {
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
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ name, body, want string }{
		{"ends", "exit 3", "espeak: "},
		{"mute", "exec /bin/sleep 60", "i/o timeout"},
		{"other", "while read x; do echo hullo; read y; echo " + mark + "; done", `says hello as "hullɔ", not as "həlˈO"`},
		{"lasting/" + own, "while :; do printf aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done", "espeak: "},
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
	mute.program, mute.speaks = mute.cfg.Program, map[string]bool{"en-us": true}
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
	r := speech.Read("Please hold while I transfer your call to an agent who can help you today.", "en-us", nil)
	for _, program := range []string{own, "espeak-ng"} {
		b.Run(program, func(b *testing.B) {
			p := load(b, program, 1)
			for b.Loop() {
				p.memory.forget()
				if _, err := p.Spell(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What makes the programs quick changes nothing that they say: espeak-ng in its usual voice says the same in every language, of the
// golden texts, of calls, and of the words that others lean on.
func TestQuickIsPlain(t *testing.T) {
	pools := []*Pool{load(t, own, 2), load(t, "espeak-ng", 2)}
	calls, ok := corpus.Named("default")
	if !ok {
		t.Fatal("no corpus default")
	}
	texts := map[string][]string{}
	for _, c := range spoken(t) {
		texts[c.language] = append(texts[c.language], c.text)
	}
	for language := range languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			all, count := texts[language], 60
			switch {
			case testing.Short():
				count = 20
			case language == "en-us":
				count = 300
			}
			for i := range count {
				all = append(all, calls.At(i).Body)
			}
			all = append(all, "the", "of the", "what for", "to me", "is it", "not by us", "the of a to", "je ne", "de la", "um para", "y", "में", "और")
			var lines []string
			for _, text := range all {
				for _, s := range speech.Read(speech.Clean(text), language, nil).Spans {
					lines = append(lines, fitting(s.Words)...)
				}
			}
			lines = append(lines, "go to. the", "what for, of", "12, to me: of the; it", "of, the", "pst! into", ".", "…") // several clauses, and none
			cmd := exec.CommandContext(t.Context(), "espeak-ng", "-q", "--ipa", "--tie=^", "-v", languages[language])
			cmd.Env = []string{"PATH=", "LC_ALL=C.UTF-8"}
			cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"+marked) + "\n" + marked)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Split(string(out), mark+"\n")
			if len(want) != len(lines)+1 {
				t.Fatalf("%d answers to %d lines", len(want)-1, len(lines))
			}
			for _, p := range pools {
				got, err := p.say(t.Context(), language, lines)
				if err != nil {
					t.Fatal(err)
				}
				for i := range lines {
					if plain := strings.Join(strings.Fields(want[i]), " "); strings.Join(strings.Fields(got[i]), " ") != plain {
						t.Errorf("%s: %q is said %q, plainly %q", p.program, lines[i], got[i], plain)
					}
				}
			}
		})
	}
}

// The project's program answers every line with one, whatever is in it, and ends when it is spoken to in another way.
func TestOwnProgram(t *testing.T) {
	program := build(t)
	run := func(in string, args ...string) (out, errs string, status int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		var o, e strings.Builder
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &o, &e
		_ = cmd.Run() // its status says it
		return o.String(), e.String(), cmd.ProcessState.ExitCode()
	}
	hello, _, _ := run("hello\n", "en-us")
	there, _, _ := run("bonjour de là\n", "fr-fr")
	if out, errs, status := run("hello\n\tfr-fr\nbonjour de là\n\ten-us\nhello\n", "en-us"); status != 0 || out != hello+"\n"+there+"\n"+hello {
		t.Errorf("from one language to another: status %d, %q, %s", status, out, errs)
	}
	for name, line := range map[string]string{
		"nothing": "", "spaces": "   ", "null": "\x00", "nulls": "a\x00b\x00\x00", "notation": "[[pktpkt]] [[", "control": "\x01v20 \x1b[0m\r\x7f", "invalid": "a\xff\xc3",
		"half a character": "\xe2\x80", "surrogate": "\xed\xa0\x80", "markup": `<voice name="de">x</voice>&amp;&#0;`, "a long word": strings.Repeat("a", 60000),
		"many words": strings.Repeat("alpha of the ", 5000), "many clauses": strings.Repeat("of the. ", 500), "digits": strings.Repeat("9", 20000), "options": "--help -v de",
	} {
		out, errs, status := run(line+"\nhello\n", "en-us")
		if status != 0 || strings.Count(out, "\n") != 2 || !strings.HasSuffix(out, "\n"+hello) {
			t.Errorf("%s: status %d, %d lines that end with %.50q, want %q: %s", name, status, strings.Count(out, "\n"), out[max(0, len(out)-50):], hello, errs)
		}
	}
	for _, c := range []struct {
		name, in string
		args     []string
		want     string
	}{
		{"a line of a megabyte", strings.Repeat("a ", 1<<19) + "\nhello\n", []string{"en-us"}, "64 KiB"},
		{"no voice", "hello\n", []string{"xx"}, "no voice"},
		{"no voice later", "\txx\nhello\n", []string{"en-us"}, "no voice"},
		{"no argument", "hello\n", nil, "name of a voice"},
		{"two arguments", "hello\n", []string{"en-us", "de"}, "name of a voice"},
	} {
		if out, errs, status := run(c.in, c.args...); status != 1 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d, output %.50q, %q, want %q", c.name, status, out, errs, c.want)
		}
	}
}

// Without the project's program, or with one that does not work, espeak-ng is taken, and that is said.
func TestFallBack(t *testing.T) {
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skip("espeak-ng is not installed: apt-get install espeak-ng")
	}
	dir, path := t.TempDir(), os.Getenv("PATH")
	pool := func() (p *Pool, said []string) {
		p = New(Config{Processes: 1, Log: func(line string) { said = append(said, line) }})
		if err := p.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if got := spell(t, p, "Hello, world.", "en-us").Phonemes; got != "həlˈO, wˈɜɹld." {
			t.Errorf("said %q", got)
		}
		return p, said
	}
	for _, c := range []struct{ name, script, want string }{
		{"none", "", "not installed (make build"},
		{"broken", "#!/bin/sh\nexit 127\n", "list the languages of"},
		{"says other things", "#!/bin/sh\n[ $1 = --voices ] && echo '5 en-us' && exit\nwhile read x; do echo hullo; done\n", `says hello as "hullɔ"`},
		{"mute", "#!/bin/sh\n[ $1 = --voices ] && echo '5 en-us' && exit\nexit\n", "try "},
	} {
		if c.script != "" {
			t.Setenv("PATH", dir+string(os.PathListSeparator)+path)
			if err := os.WriteFile(filepath.Join(dir, own), []byte(c.script), 0o755); err != nil {
				t.Fatal(err)
			}
		} else if _, err := exec.LookPath(own); err == nil {
			continue // it is installed where this runs
		}
		p, said := pool()
		if len(said) != 1 || !strings.Contains(said[0], "program espeak-ng") || !strings.Contains(said[0], c.want) || filepath.Base(p.program) != "espeak-ng" {
			t.Errorf("%s: %s, said %q, want %q", c.name, p.program, said, c.want)
		}
	}
	t.Setenv("PATH", filepath.Dir(build(t))+string(os.PathListSeparator)+path)
	if p, said := pool(); len(said) > 0 || filepath.Base(p.program) != own {
		t.Errorf("%s, said %q", p.program, said)
	}
}
