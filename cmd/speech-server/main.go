// Command speech-server is the program inside a speech container: it answers the routes that the platform calls, speaks
// with the engine of choice, and stops when it is told to.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"loadline/internal/command"
)

// version is set by the build (-ldflags -X main.version=…).
var version string

func main() {
	// A second signal changes nothing: the first has said it all, and what it began ends in time.
	ctx, stop := signal.NotifyContext(context.Background(), command.Ends(signal.Ignored)...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // see command.Output; not Ignore, which child processes would inherit
	code := run(ctx, os.Args[1:], command.Env(os.Environ()), command.NewOutput(os.Stdout), os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, env map[string]string, stdout, stderr io.Writer) int {
	root := command.Root("speech-server", "the server in a speech container", version)
	root.AddCommand(serveCommand(env, stdout), readCommand(os.Stdin, stdout), standInCommand(stdout))
	return command.Run(ctx, root, args, os.Stdin, stdout, stderr)
}
