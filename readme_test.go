package loadline_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the package list of the README anew")

const (
	listBegins = "<!-- packages: written by `go test . -update` -->\n"
	listEnds   = "<!-- end of packages -->\n"
)

// TestReadmeListsPackages keeps the README's list that of the house: every package, in import order, with the first
// sentence of its own comment.
func TestReadmeListsPackages(t *testing.T) {
	docs := map[string]string{}
	for _, p := range packages(t) {
		if name, ok := strings.CutPrefix(p.ImportPath, "loadline/internal/"); ok {
			docs[name] = p.Doc
		}
	}
	order := append([]string(nil), ring0...)
	edges := make([]string, 0, len(ring1))
	for name := range ring1 {
		edges = append(edges, name)
	}
	slices.Sort(edges)
	var b strings.Builder
	b.WriteString("| package | |\n|---|---|\n")
	for _, name := range append(order, edges...) {
		doc, ok := docs[name]
		if !ok {
			continue // a place that is kept free
		}
		short := name[strings.LastIndex(name, "/")+1:]
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.TrimPrefix(doc, "Package "+short+" "))
	}
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), listBegins)
	_, after, ok2 := strings.Cut(rest, listEnds)
	if !ok || !ok2 {
		t.Fatalf("README.md lacks the lines %q and %q", listBegins, listEnds)
	}
	want := before + listBegins + "\n" + b.String() + "\n" + listEnds + after
	if want == string(data) {
		return
	}
	if !*update {
		t.Fatal("README.md does not list the packages as they are: go test . -update")
	}
	if err := os.WriteFile("README.md", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
