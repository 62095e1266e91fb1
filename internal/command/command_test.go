package command

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"loadline/internal/exit"
)

// TestRun: what a program answers, where, and with which code.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"", exit.OK, "Usage:", ""},
		{"--version", exit.OK, "prog version 1.2.3", ""},
		{"nothing", exit.Misused, "", "prog: unknown command \"nothing\": prog --help lists them\n"},
		{"--nothing", exit.Misused, "", "prog: unknown flag: --nothing: prog --help lists the flags\n"},
		{"deep --nothing", exit.Misused, "", "prog: unknown flag: --nothing: prog deep --help lists the flags\n"},
		{"deep no", exit.No, "", "prog: no\n"},
		{"deep said", exit.Unknown, "", ""},
	} {
		root := Root("prog", "a program", "1.2.3")
		root.AddCommand(&cobra.Command{Use: "deep", RunE: func(_ *cobra.Command, args []string) error {
			if args[0] == "said" {
				return exit.CannotTell(exit.Said)
			}
			return exit.Refuse(errors.New(args[0]))
		}})
		var out, err bytes.Buffer
		if code := Run(t.Context(), root, strings.Fields(c.args), nil, &out, &err); code != c.code {
			t.Errorf("%q ends with %d, not %d", c.args, code, c.code)
		}
		if !strings.Contains(out.String(), c.out) || c.out == "" && out.Len() > 0 || err.String() != c.err {
			t.Errorf("%q says %q and %q", c.args, out.String(), err.String())
		}
	}
}

// TestOutput: a result that could not be written is no success; a reader that has left is none of the program's business.
func TestOutput(t *testing.T) {
	for _, c := range []struct {
		fails error
		code  int
		err   string
	}{
		{nil, exit.OK, ""},
		{syscall.EPIPE, exit.OK, ""},
		{syscall.ENOSPC, exit.No, "prog: what was to be printed is lost, at least in part: no space left on device\n"},
	} {
		root := Root("prog", "a program", "1.2.3")
		out := NewOutput(failing{c.fails})
		root.RunE = func(*cobra.Command, []string) error { fmt.Fprintln(out, "a line"); return nil }
		var err bytes.Buffer
		if code := Run(t.Context(), root, nil, nil, out, &err); code != c.code || err.String() != c.err {
			t.Errorf("%v: it ends with %d and says %q", c.fails, code, err.String())
		}
	}
}

type failing struct{ err error }

func (f failing) Write(p []byte) (int, error) { return len(p), f.err }

func TestEnds(t *testing.T) {
	for _, ignored := range []bool{false, true} {
		ends := Ends(func(s os.Signal) bool { return ignored && s == syscall.SIGHUP })
		if slices.Contains(ends, os.Signal(syscall.SIGHUP)) == ignored || !slices.Contains(ends, os.Signal(syscall.SIGTERM)) {
			t.Errorf("ignored %t: %v", ignored, ends)
		}
	}
}

func TestEnv(t *testing.T) {
	want := map[string]string{"A": "1", "B": "", "C": "x=y"}
	if got := Env([]string{"A=1", "B=", "C=x=y", "D"}); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	if err := JSON(&out, map[string]int{"a": 1}); err != nil || out.String() != "{\n  \"a\": 1\n}\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := JSON(&out, func() {}); err == nil {
		t.Error("what is no JSON is written")
	}
}

func TestStateDir(t *testing.T) {
	for _, c := range []struct {
		env       map[string]string
		dir, want string
	}{
		{map[string]string{"HOME": "/home/me"}, "here", "here"},
		{map[string]string{"HOME": "/home/me"}, "", "/home/me/.local/state/loadline"},
		{map[string]string{"HOME": "/home/me", "XDG_STATE_HOME": "/state"}, "", "/state/loadline"},
		{map[string]string{"HOME": "/home/me", "XDG_STATE_HOME": "state"}, "", "/home/me/.local/state/loadline"},
	} {
		if got, err := StateDir(c.env, c.dir, "records go"); got != c.want || err != nil {
			t.Errorf("%v, %q: %q, %v", c.env, c.dir, got, err)
		}
	}
	_, err := StateDir(map[string]string{"HOME": "me"}, "", "records go")
	if exit.Code(err) != exit.Misused || !strings.Contains(err.Error(), "says where records go: give --state-dir") {
		t.Errorf("nowhere: %v", err)
	}
}

// TestAgreeNobody: where nobody can be asked, nothing is agreed to.
func TestAgreeNobody(t *testing.T) {
	var out bytes.Buffer
	unasked := errors.New("--yes gives it")
	if err := Agree(t.Context(), strings.NewReader("y\n"), &out, "it costs", unasked); !errors.Is(err, unasked) || exit.Code(err) != exit.No || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}
