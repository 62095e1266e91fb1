// Command sagemaker-local serves a SageMaker endpoint, its scaling target and its metrics on loopback, with instances that
// play a measured server's times, so that everything which asks AWS can be tried without an account.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // schedules name time zones, and not every machine has them

	"github.com/spf13/cobra"

	"loadline/internal/exit"
)

// version is set by the build (-ldflags -X main.version=…).
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "sagemaker-local",
		Short:         "a SageMaker endpoint on this machine",
		Version:       toolVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Misuse(fmt.Errorf("unknown command %q: sagemaker-local --help lists them", args[0]))
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Misuse(fmt.Errorf("%w: %s --help lists the flags", err, cmd.CommandPath()))
	})
	root.AddCommand(serveCommand(stdout, stderr))
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "sagemaker-local: %v\n", err)
	}
	return exit.Code(err)
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

// oneOf is a flag that takes one of some words, each standing for a value.
type oneOf[T comparable] struct {
	at    *T
	words []string
	means []T
}

func (f oneOf[T]) String() string {
	for i, m := range f.means {
		if f.at != nil && *f.at == m {
			return f.words[i]
		}
	}
	return ""
}

func (f oneOf[T]) Type() string { return "word" }

func (f oneOf[T]) Set(s string) error {
	for i, w := range f.words {
		if s == w {
			*f.at = f.means[i]
			return nil
		}
	}
	return errors.New("it is one of " + fmt.Sprint(f.words))
}
