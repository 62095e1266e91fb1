package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHelp: every command says what it does and gives an example, within the width of a plain terminal.
func TestHelp(t *testing.T) {
	root := (&app{}).root()
	for _, cmd := range root.Commands() {
		if cmd.Long == "" || !cmd.HasExample() || cmd.GroupID == "" {
			t.Errorf("%s lacks a description, an example or a group", cmd.Name())
		}
		var out, err bytes.Buffer
		if code := run(t.Context(), []string{cmd.Name(), "--help"}, nil, nil, &out, &err); code != 0 {
			t.Errorf("%s --help ends with %d: %s", cmd.Name(), code, err.String())
		}
		text, _, _ := strings.Cut(out.String(), "\nExamples:\n")
		_, flags, _ := strings.Cut(out.String(), "\nFlags:\n")
		for line := range strings.Lines(text + flags) {
			// A flag's last words may stand out a little: pflag leaves no single word alone on a line.
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 84 {
				t.Errorf("%s --help: %d columns: %s", cmd.Name(), n, line)
			}
		}
	}
}

// TestCounted: one is one.
func TestCounted(t *testing.T) {
	for n, want := range map[int]string{0: "0 findings", 1: "1 finding", 2: "2 findings"} {
		if got := counted(n, "finding"); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
