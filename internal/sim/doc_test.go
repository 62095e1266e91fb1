package sim

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write doc/simulation.md's scenarios anew")

// TestDocumented: the page tells every scenario, with the bounds that the tests hold it to.
func TestDocumented(t *testing.T) {
	const path, begin, end = "../../doc/simulation.md", "<!-- scenarios -->\n", "<!-- end -->"
	page := string(must[[]byte](t)(os.ReadFile(path)))
	head, rest, ok := strings.Cut(page, begin)
	old, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("the page has no place for the scenarios")
	}
	var b strings.Builder
	for _, s := range Scenarios() {
		fmt.Fprintf(&b, "### %s\n\n%s\n\n| figure | bounds |\n|---|---|\n", s.Name, s.About)
		for _, e := range s.Expect {
			bounds := strconv.FormatFloat(e.Low, 'g', 6, 64)
			if e.High != e.Low {
				bounds += " to " + strconv.FormatFloat(e.High, 'g', 6, 64)
			}
			fmt.Fprintf(&b, "| %s | %s |\n", e.What, bounds)
		}
		b.WriteString("\n")
	}
	if old == b.String() {
		return
	}
	if !*update {
		t.Fatal("doc/simulation.md tells other scenarios: go test ./internal/sim -run TestDocumented -update")
	}
	if err := os.WriteFile(path, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
