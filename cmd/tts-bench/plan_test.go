package main

import (
	"go/parser"
	"go/token"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// plan sends nothing: neither its file nor any of our packages that it uses reaches the network, directly or through
// another.
func TestPlanHasNoNetwork(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "plan.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if path == "net" || strings.HasPrefix(path, "net/") || strings.Contains(path, "aws-sdk") {
			t.Errorf("plan.go imports %s", path)
		}
		if strings.HasPrefix(path, "loadline/") {
			ours = append(ours, path)
		}
	}
	if len(ours) < 5 {
		t.Fatalf("plan.go uses %v of ours: is this still its file?", ours)
	}
	out, err := exec.Command("go", append([]string{"list", "-deps", "-f", "{{.ImportPath}}"}, ours...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if path == "net" || path == "net/http" || strings.Contains(path, "aws-sdk") {
			t.Errorf("plan reaches %s through %v", path, ours)
		}
	}
}
