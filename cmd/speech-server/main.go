// Command speech-server is the program inside a speech container: it answers the routes that the platform calls, speaks
// with the engine of choice, and stops when it is told to.
package main

import (
	"context"
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
	// A second signal changes nothing: the first has said it all, and what it began ends in time.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], environment(os.Environ()), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func environment(pairs []string) map[string]string {
	env := make(map[string]string)
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		env[k] = v
	}
	return env
}

func run(ctx context.Context, args []string, env map[string]string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "speech-server",
		Short:         "the server in a speech container",
		Version:       toolVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Misuse(fmt.Errorf("unknown command %q: speech-server --help lists them", args[0]))
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Misuse(fmt.Errorf("%w: %s --help lists the flags", err, cmd.CommandPath()))
	})
	root.AddCommand(serveCommand(env, stdout), readCommand(os.Stdin, stdout), standInCommand(stdout))
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "speech-server: %v\n", err)
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
