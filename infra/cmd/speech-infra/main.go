// Command speech-infra deploys speech endpoints with the AWS CDK: roles, weights and images once, and a stack for each model,
// whose scaling exists only where a plan stands behind it.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"loadline/infra/stack"
	"loadline/internal/command"
	"loadline/internal/registry"
)

// version is set by the build (-ldflags -X main.version=…).
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), command.Ends(signal.Ignored)...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // see command.Output; not Ignore, which child processes would inherit
	code := run(ctx, newApp(os.Environ(), os.Stdin, command.NewOutput(os.Stdout), os.Stderr), os.Args[1:])
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
	return &app{environ: env, env: command.Env(env), stdin: stdin, stdout: stdout, stderr: stderr, synth: synthesise}
}

func run(ctx context.Context, a *app, args []string) int {
	root := command.Root("speech-infra", "deploy speech endpoints, scaled only by what was measured", version)
	root.AddCommand(a.listCommand(), a.statusCommand(), a.synthCommand(), a.diffCommand(), a.deployCommand(), a.destroyCommand())
	return command.Run(ctx, root, args, a.stdin, a.stdout, a.stderr)
}
