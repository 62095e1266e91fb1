// Command speech-infra deploys speech endpoints with the AWS CDK: roles, weights and images once, and a stack for each model,
// whose scaling exists only where a plan stands behind it.
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

	"loadline/infra/stack"
	"loadline/internal/exit"
	"loadline/internal/registry"
)

// version is set by the build (-ldflags -X main.version=…).
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, newApp(os.Environ(), os.Stdin, os.Stdout, os.Stderr), os.Args[1:])
	stop()
	os.Exit(code)
}

// app is what every command needs of the outside.
type app struct {
	environ        []string
	env            map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer
	// synth makes the templates into a folder.
	synth func(out string, s stack.Settings, all []registry.Model, models []stack.Model) error
}

func newApp(env []string, stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{environ: env, env: map[string]string{}, stdin: stdin, stdout: stdout, stderr: stderr, synth: synthesise}
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			a.env[k] = v
		}
	}
	return a
}

func run(ctx context.Context, a *app, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errSaid) {
		fmt.Fprintf(a.stderr, "speech-infra: %v\n", err)
	}
	return exit.Code(err)
}

// errSaid is an outcome that the command has already told: only its exit code is left to give.
var errSaid = errors.New("said")

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "speech-infra",
		Short:         "deploy speech endpoints, scaled only by what was measured",
		Version:       toolVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Misuse(fmt.Errorf("unknown command %q: speech-infra --help lists them", args[0]))
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Misuse(fmt.Errorf("%w: %s --help lists the flags", err, cmd.CommandPath()))
	})
	root.AddCommand(a.listCommand(), a.statusCommand(), a.synthCommand(), a.diffCommand(), a.deployCommand(), a.destroyCommand())
	return root
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
