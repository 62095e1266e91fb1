package command

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelp: help is folded to what a terminal shows, lists commands by their groups in the order given, leaves examples and
// tables as they are written, and prints no default beside one that is told in words.
func TestHelp(t *testing.T) {
	run := func(*cobra.Command, []string) error { return nil }
	measure := &cobra.Command{Use: "measure TEXT", Short: "find out how many requests at a time one instance of an endpoint holds within the promise", RunE: run,
		Long: "measure holds more and more requests in flight until the promise is missed, and narrows\ndown to the edge.\n\n" +
			"code  meaning\n0     done\n1     no",
		Example: "  prog measure --model a-model-with-a-long-name --transport response-stream --folder artifacts"}
	measure.Flags().String("transport", "http", "how the server is asked (default: http; of a URL, what its scheme says)")
	measure.Flags().Int("seed", 7, "of everything that is drawn")
	help := func(args ...string) string {
		root := Root("prog", "a program", "1.2.3")
		root.Example = "  prog measure"
		Grouped(root, "Measure", measure, &cobra.Command{Use: "again", Short: "measure again", RunE: run})
		var out, err bytes.Buffer
		if code := Run(t.Context(), root, args, nil, &out, &err); code != 0 || err.Len() > 0 {
			t.Fatalf("%v: %d, %s", args, code, err.String())
		}
		return out.String()
	}
	const whole = `a program

Usage:
  prog COMMAND

Examples:
  prog measure

Measure:
  measure      find out how many requests at a time one instance of an endpoint
               holds within the promise
  again        measure again

Besides:
  completion   print a script by which a shell completes commands and flags
  help         say more of a command

Flags:
  -h, --help      help for prog
  -v, --version   version for prog

prog COMMAND --help says more of a command.
`
	const one = `measure holds more and more requests in flight until the promise is missed, and
narrows down to the edge.

code  meaning
0     done
1     no

Usage:
  prog measure TEXT [flags]

Examples:
  prog measure --model a-model-with-a-long-name --transport response-stream --folder artifacts

Flags:
  -h, --help               help for measure
      --seed int           of everything that is drawn (default 7)
      --transport string   how the server is asked (default: http; of a
                           URL, what its scheme says)
`
	for want, args := range map[string][]string{whole: {"--help"}, one: {"measure", "--help"}} {
		if got := help(args...); got != want {
			t.Errorf("%v:\n%s", args, got)
		}
	}
}
