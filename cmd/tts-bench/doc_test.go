package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestDoc executes every command of the pages in doc/ that have any in a fence of sh, in order, a page a folder of its own.
// A line of a fence is a command; one that ends in & is a program that stays, and gets a free port for the one that it
// names. "# exit 3" or "# exit 0 or 3" behind a command says how it ends, which is with 0 otherwise. Where a fence of text
// follows, its lines were printed, in that order, "…" standing for others. A comment <!-- test: … --> is a line of the
// script: what the reader's machine has done by then and this one has not.
func TestDoc(t *testing.T) {
	pages, err := filepath.Glob("../../doc/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var run []string
	dir := t.TempDir()
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		script := docScript(string(data))
		if script == nil {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(page), ".md") + ".txtar"
		if err := os.WriteFile(filepath.Join(dir, name), txtar.Format(script), 0o600); err != nil {
			t.Fatal(err)
		}
		run = append(run, name)
	}
	for _, want := range []string{"measure", "production", "invalid", "one-at-a-time", "stopped", "published", "elsewhere"} {
		if !slices.Contains(run, want+".txtar") {
			t.Errorf("doc/%s.md has no command", want)
		}
	}
	scripts(t, dir)
}

// docScript is a page as a script; nil where it has nothing to run.
func docScript(page string) *txtar.Archive {
	var script strings.Builder
	a := &txtar.Archive{}
	fence, block := "", ""
	commands := 0
	for line := range strings.Lines(page) {
		if setup, ok := strings.CutPrefix(line, "<!-- test: "); ok && fence == "" {
			setup, _, _ = strings.Cut(setup, "-->")
			script.WriteString(setup + "\n")
			continue
		}
		kind, ok := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case !ok:
			if fence != "" {
				block += line
			} else if strings.TrimSpace(line) != "" {
				commands = 0 // text of its own shows no command's output
			}
		case fence == "":
			fence, block = kind+" ", ""
		case fence == "sh ":
			for command := range strings.SplitSeq(strings.ReplaceAll(block, "\\\n", ""), "\n") {
				if command = strings.TrimSpace(command); command == "" || strings.HasPrefix(command, "#") {
					continue
				}
				commands++
				name := fmt.Sprintf("commands/%d", len(a.Files))
				a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(command + "\n")})
				fmt.Fprintf(&script, "does %s\n", name)
			}
			fence = ""
		case fence == "text " && commands > 0:
			name := fmt.Sprintf("printed/%d", len(a.Files))
			a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(block)})
			fmt.Fprintf(&script, "printed %s\n", name)
			commands, fence = 0, ""
		default:
			commands, fence = 0, ""
		}
	}
	if len(a.Files) == 0 {
		return nil
	}
	a.Comment = []byte("reader\n" + script.String())
	return a
}

// reader makes the script's folder look like the checkout of one who has built the programs: bin/, models.yaml and what is
// shipped.
func reader(ts *testscript.TestScript, neg bool, args []string) {
	root := ts.Getenv("ROOT")
	ts.Check(os.Mkdir(ts.MkAbs("bin"), 0o755))
	ts.Check(os.Symlink(filepath.Join(root, "internal"), ts.MkAbs("internal")))
	registry, err := os.ReadFile(filepath.Join(root, "models.yaml"))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("models.yaml"), registry, 0o600))
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), string(filepath.ListSeparator)) {
		program := filepath.Join(dir, "tts-bench")
		if _, err := os.Stat(program); err == nil {
			ts.Check(os.Symlink(program, ts.MkAbs("bin/tts-bench")))
			return
		}
	}
	ts.Fatalf("there is no tts-bench")
}

var (
	exits = regexp.MustCompile(`\s+# exit (\d(?:,? (?:or )?\d)*)$`)
	digit = regexp.MustCompile(`\d`)
	addr  = regexp.MustCompile(`--addr (127\.0\.0\.1:\d+)`)
)

// does runs the command of a page that stands in a file, and wants it to exit as it says.
func does(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: does FILE")
	}
	command := strings.TrimSpace(ts.ReadFile(args[0]))
	want := []string{"0"}
	if m := exits.FindStringSubmatch(command); m != nil {
		want, command = digit.FindAllString(m[1], -1), strings.TrimSuffix(command, m[0])
	}
	if stays, ok := strings.CutSuffix(command, "&"); ok {
		background(ts, strings.Fields(stays))
		return
	}
	for pair := range strings.FieldsSeq(ts.Getenv("ADDRS")) {
		port, real, _ := strings.Cut(pair, "=")
		command = strings.ReplaceAll(command, port, real)
	}
	err, got := ts.Exec("sh", "-c", command), "0"
	var exited *exec.ExitError
	if errors.As(err, &exited) {
		got = fmt.Sprint(exited.ExitCode())
	} else if err != nil {
		ts.Fatalf("%s: %v", command, err)
	}
	if !slices.Contains(want, got) {
		ts.Fatalf("%s\nexited %s, the page says %s", command, got, strings.Join(want, " or "))
	}
}

// background starts a program of a page on a free port in place of the one it names, waits until it is ready, and ends it
// with the script.
func background(ts *testscript.TestScript, argv []string) {
	named := addr.FindStringSubmatch(strings.Join(argv, " "))
	if named == nil {
		ts.Fatalf("%v names no --addr on loopback", argv)
	}
	argv[slices.Index(argv, named[1])] = "127.0.0.1:0"
	program, ready := localBinary, "ready http://"
	if filepath.Base(argv[0]) == "speech-server" {
		program, ready = ts.MkAbs("speech-server"), "listening http://"
		build := exec.Command("go", "build", "-o", program, "loadline/cmd/speech-server")
		build.Dir = ts.Getenv("ROOT")
		if out, err := build.CombinedOutput(); err != nil {
			ts.Fatalf("build speech-server: %v\n%s", err, out)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cancel()
		_ = cmd.Wait() // its exit after the interrupt says nothing of the script
	})
	found := ""
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), ready); ok {
			found, _, _ = strings.Cut(rest, " ")
		}
		if found != "" && (program == localBinary || strings.HasPrefix(lines.Text(), "=== STAGE ready ")) {
			ts.Setenv("ADDRS", ts.Getenv("ADDRS")+" "+named[1]+"="+found)
			go func() {
				for lines.Scan() { // keep its pipe from filling
				}
			}()
			return
		}
	}
	ts.Fatalf("%v ended before it was ready", argv)
}

// printed wants the lines of a file, in that order, in what the last command printed; the spaces between words do not
// count, and "…" stands for lines left out.
func printed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: printed FILE")
	}
	said := strings.Split(ts.ReadFile("stdout")+ts.ReadFile("stderr"), "\n")
	at := 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		line = spaced(line)
		if line == "" || line == "…" {
			continue
		}
		for at < len(said) && spaced(said[at]) != line {
			at++
		}
		if at == len(said) {
			ts.Fatalf("the page shows a line that was not printed, or not there: %s", line)
		}
		at++
	}
}

func spaced(line string) string { return strings.Join(strings.Fields(line), " ") }
