// Command tts-bench measures a speech endpoint, certifies how many requests one instance holds, and plans its scaling.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"loadline/internal/exit"
)

// version is set by the build (-ldflags -X main.version=…).
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// app is what every command needs of the outside.
type app struct {
	env            map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer
}

func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{env: environ(env), stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errSaid) {
		fmt.Fprintf(stderr, "tts-bench: %v\n", err)
	}
	return exit.Code(err)
}

// errSaid is an outcome that the command has already told: only its exit code is left to give.
var errSaid = errors.New("said")

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "tts-bench",
		Short:         "measure a speech endpoint, certify its concurrency, plan its scaling",
		Version:       toolVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Misuse(fmt.Errorf("unknown command %q: tts-bench --help lists them", args[0]))
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Misuse(fmt.Errorf("%w: %s --help lists the flags", err, cmd.CommandPath()))
	})
	root.AddCommand(a.demoCommand(), a.sayCommand(), a.qmaxCommand(), a.ratesCommand(), a.ttotalCommand(), a.planCommand(), a.thawCommand())
	root.AddCommand(a.reportCommand())
	root.AddCommand(a.operations()...)
	return root
}

func environ(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			m[k] = v
		}
	}
	return m
}

func toolVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
