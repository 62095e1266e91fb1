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
	ctx, stop := signal.NotifyContext(context.Background(), command.Ends(signal.Ignored)...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // see command.Output; not Ignore, which child processes would inherit
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdin, command.NewOutput(os.Stdout), os.Stderr)
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
	root.Example = "  # on this machine, from nothing\n  tts-bench demo\n\n" +
		"  # a SageMaker endpoint, in this order\n  tts-bench qmax --model kokoro-82m\n  tts-bench ttotal --qmax FILE\n" +
		"  tts-bench plan --qmax FILE --ttotal FILE --peak-rps 200\n  tts-bench apply --plan FILE\n  tts-bench prove --plan FILE"
	command.Grouped(root, "Begin", a.demoCommand(), a.sayCommand())
	command.Grouped(root, "Measure", a.qmaxCommand(), a.ratesCommand(), a.ttotalCommand(), a.thawCommand())
	command.Grouped(root, "Plan, and look at it", a.planCommand(), a.simulateCommand(), a.compareCommand(), a.reportCommand())
	command.Grouped(root, "Deploy, and check", a.iamCommand(), a.applyCommand(), a.validateCommand(), a.proveCommand(), a.driftCommand(), a.watchCommand())
	return root
}

// tool is this program and its version, as records name it.
func tool() string { return "tts-bench " + command.Version(version) }
