// Command tts-bench measures a speech endpoint, certifies how many requests one instance holds, and plans its scaling.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"loadline/internal/command"
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
	a := &app{env: command.Env(env), stdin: stdin, stdout: stdout, stderr: stderr}
	return command.Run(ctx, a.root(), args, stdin, stdout, stderr)
}

func (a *app) root() *cobra.Command {
	root := command.Root("tts-bench", "measure a speech endpoint, certify its concurrency, plan its scaling", version)
	root.AddCommand(a.demoCommand(), a.sayCommand(), a.qmaxCommand(), a.ratesCommand(), a.ttotalCommand(), a.planCommand(), a.thawCommand())
	root.AddCommand(a.reportCommand())
	root.AddCommand(a.operations()...)
	return root
}

// tool is this program and its version, as records name it.
func tool() string { return "tts-bench " + command.Version(version) }
