// Package command is how every program here is called: what it answers to a word or a flag that it does not know, which
// version it is, whom it asks before it changes something, and where it keeps what outlives it.
//
// Which commands a program has, and what they do, is left to the program; so is reading the environment, taking signals and
// the end of the process.
//
//	root := command.Root("tts-bench", "measure a speech endpoint", version)
//	root.AddCommand(…)
//	os.Exit(command.Run(ctx, root, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"loadline/internal/exit"
)

// Root is a program without its commands. linked is the version that the build set, "" where it set none.
func Root(name, short, linked string) *cobra.Command {
	root := &cobra.Command{
		Use:           name,
		Short:         short,
		Version:       Version(linked),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Misuse(fmt.Errorf("unknown command %q: %s --help lists them", args[0], name))
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Misuse(fmt.Errorf("%w: %s --help lists the flags", err, cmd.CommandPath()))
	})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		cmd.InitDefaultHelpFlag()
		fmt.Fprint(cmd.OutOrStdout(), help(cmd))
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		usage(cmd.OutOrStderr(), cmd)
		return nil
	})
	return root
}

// Run calls a program and is its exit code. What went wrong is told on stderr, unless the command has told it itself
// (exit.Said).
func Run(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Short = "say more of a command"
		case "completion":
			c.Short = "print a script by which a shell completes commands and flags"
		}
	}
	err := root.ExecuteContext(ctx)
	if out, ok := stdout.(*Output); ok && err == nil {
		err = out.lost()
	}
	if err != nil && !errors.Is(err, exit.Said) {
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	}
	return exit.Code(err)
}

// Ends are the signals that end a program in order, with everything put back that it changed: a terminal that is closed too,
// unless it was started to outlive that (nohup). ignored is signal.Ignored.
func Ends(ignored func(os.Signal) bool) []os.Signal {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	return ends
}

// Output is a program's standard output, which Run asks at the end whether all of it was written. Where the reader has left
// (| head), a program goes on: what it measures is kept, and what it changed it puts back. For that, a program takes SIGPIPE,
// which would end it otherwise.
type Output struct {
	to  io.Writer
	mu  sync.Mutex
	err error // the first
}

// NewOutput is an output onto a file.
func NewOutput(to io.Writer) *Output { return &Output{to: to} }

func (o *Output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

func (o *Output) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil || errors.Is(o.err, syscall.EPIPE) {
		return nil
	}
	return fmt.Errorf("what was to be printed is lost, at least in part: %w", o.err)
}

// Version is linked, else the module's, else "devel".
func Version(linked string) string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

// Env is the environment by name, of the pairs of os.Environ.
func Env(pairs []string) map[string]string {
	env := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		if name, value, ok := strings.Cut(pair, "="); ok {
			env[name] = value
		}
	}
	return env
}

// JSON writes v for a program that reads it.
func JSON(out io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", data)
	return err
}

// StateDir is where a program keeps what outlives it: dir where one is given, else the user's folder for that. what is kept
// there is for the error, where the environment names none.
func StateDir(env map[string]string, dir, what string) (string, error) {
	switch {
	case dir != "":
		return dir, nil
	case filepath.IsAbs(env["XDG_STATE_HOME"]):
		return filepath.Join(env["XDG_STATE_HOME"], "loadline"), nil
	case filepath.IsAbs(env["HOME"]):
		return filepath.Join(env["HOME"], ".local", "state", "loadline"), nil
	}
	return "", exit.Misuse(fmt.Errorf("neither HOME nor XDG_STATE_HOME says where %s: give --state-dir DIR", what))
}

// Agree shows whoever sits at the terminal what is to be agreed to, and asks. Anything but a yes is a refusal; so is unasked,
// where in is no terminal and nobody can be asked.
func Agree(ctx context.Context, in io.Reader, out io.Writer, what string, unasked error) error {
	f, ok := in.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) {
		return exit.Refuse(unasked)
	}
	fmt.Fprintf(out, "%sGo on? [y/N] ", what)
	typed := make(chan string, 1)
	go func() { // a read of a terminal does not end with ctx; the process does
		line, _ := bufio.NewReader(f).ReadString('\n')
		typed <- line
	}()
	answer := ""
	select {
	case answer = <-typed:
	case <-ctx.Done():
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return exit.Refuse(errors.New("not agreed to: nothing was changed"))
}
