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
	"syscall"
	_ "time/tzdata" // schedules name time zones, and not every machine has them

	"loadline/internal/command"
)

// version is set by the build (-ldflags -X main.version=…).
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), command.Ends(signal.Ignored)...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // see command.Output; not Ignore, which child processes would inherit
	code := run(ctx, os.Args[1:], command.NewOutput(os.Stdout), os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := command.Root("sagemaker-local", "a SageMaker endpoint on this machine", version)
	root.AddCommand(serveCommand(stdout, stderr))
	return command.Run(ctx, root, args, os.Stdin, stdout, stderr)
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
