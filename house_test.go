package loadline_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ring0 is the pure packages in import order: each imports only packages before it.
var ring0 = []string{
	"exit", "chart", "sample", "stat", "arrival", "trace", "audio", "corpus", "speech/number", "speech/normal", "speech", "speech/phoneme", "speech/voice", "ladder", "scaleout", "queueing", "openloop", "capacity",
	"alarm", "schedule", "autoscale", "admission", "duplex", "metric", "fleet", "sim", "proof", "artifact", "compare", "freeze", "plan", "audit", "gate",
}

// ring1 is the packages of one technology each, with the siblings each may import: the one whose interface it
// implements, or the parts that it is made of.
var ring1 = map[string][]string{
	"command":               nil,
	"parallel":              nil,
	"load":                  nil,
	"store":                 nil,
	"registry":              nil,
	"report":                nil,
	"measure":               nil,
	"serve":                 nil,
	"codec":                 nil,
	"transport":             {"load"},
	"awsfleet":              {"measure"},
	"wire":                  nil,
	"local":                 {"wire", "local/service", "local/access", "local/autoscaling", "local/cloudwatch", "local/logs", "local/sagemaker", "local/traffic"},
	"local/access":          {"wire", "local/service"},
	"local/autoscaling":     {"wire", "local/service", "local/cloudwatch"},
	"local/cloudwatch":      {"wire", "local/service"},
	"local/logs":            {"wire", "local/service"},
	"local/sagemaker":       {"wire", "local/service", "local/access", "local/autoscaling", "local/logs", "local/traffic"},
	"local/traffic":         {"wire", "local/service", "local/access", "local/logs"},
	"local/service":         {"wire"},
	"engine/replay":         {"serve"},
	"engine/child":          nil,
	"engine/espeak":         {"serve", "engine/child"},
	"engine/phonemes":       {"engine/child"},
	"engine/kokoro":         {"serve"},
	"engine/kokoro/standin": nil,
}

// pureModules is what a pure package may use besides the standard library.
var pureModules = []string{
	"gonum.org/v1/gonum/stat", "gonum.org/v1/gonum/stat/distuv", "gonum.org/v1/gonum/mathext",
	"github.com/HdrHistogram/hdrhistogram-go",
}

// impure is what a pure package may not import, sub-packages included.
var impure = []string{"os", "net", "log", "syscall", "unsafe"}

// clock is what would make a pure package read or wait for the time, or draw from a hidden source.
var clock = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"math/rand": {"Int", "Intn", "Int31", "Int31n", "Int63", "Int63n", "Uint32", "Uint64", "Float32", "Float64",
		"ExpFloat64", "NormFloat64", "Perm", "Shuffle", "Seed", "Read"},
	"math/rand/v2": {"Int", "IntN", "Int32", "Int32N", "Int64", "Int64N", "Uint", "UintN", "Uint32", "Uint32N", "Uint64",
		"Uint64N", "Float32", "Float64", "ExpFloat64", "NormFloat64", "Perm", "Shuffle", "N"},
}

// files is the packages that open files; load reads the kernel's own accounts of this process.
var files = []string{"store", "registry", "load"}

// awsClients is the packages that hold AWS clients.
var awsClients = []string{"awsfleet", "transport"}

var badNames = []string{"util", "utils", "common", "types", "helpers", "models", "interfaces", "constants", "testutil"}

type pkg struct {
	ImportPath, Dir, Name, Doc string
	GoFiles, CgoFiles, Imports []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Name,Doc,GoFiles,CgoFiles,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var ps []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles)+len(p.CgoFiles) > 0 {
			ps = append(ps, p)
		}
	}
	return ps
}

func within(path string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && first != "loadline"
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		name, internal := strings.CutPrefix(p.ImportPath, "loadline/internal/")
		rank := slices.Index(ring0, name)
		siblings, edge := ring1[name]
		switch {
		case !internal:
		case rank < 0 && !edge:
			t.Errorf("%s has no place in the house: add it to ring0 or ring1 of this test", name)
			continue
		case slices.Contains(badNames, p.Name):
			t.Errorf("%s: a package is named after one thing a user would name", name)
		}
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
		if len(p.CgoFiles) > 0 && name != "engine/kokoro" {
			t.Errorf("%s uses cgo: only engine/kokoro may", p.ImportPath)
		}
		for _, imp := range p.Imports {
			ours, isInternal := strings.CutPrefix(imp, "loadline/internal/")
			switch {
			case strings.HasPrefix(imp, "loadline/cmd/"):
				t.Errorf("%s imports %s: nothing imports cmd", p.ImportPath, imp)
			case !internal:
			case isInternal && rank >= 0:
				if at := slices.Index(ring0, ours); at < 0 || at >= rank {
					t.Errorf("%s imports %s, which does not come before it", name, ours)
				}
			case isInternal:
				if slices.Index(ring0, ours) < 0 && !slices.Contains(siblings, ours) {
					t.Errorf("%s imports its sibling %s, whose interface it does not implement", name, ours)
				}
			case rank >= 0 && within(imp, impure):
				t.Errorf("%s is pure and imports %s", name, imp)
			case rank >= 0 && !standard(imp) && !slices.Contains(pureModules, imp):
				t.Errorf("%s is pure and imports %s", name, imp)
			case strings.HasPrefix(imp, "github.com/aws/aws-sdk-go-v2/service/") && !slices.Contains(awsClients, name):
				t.Errorf("%s holds an AWS client (%s): only %v may", name, imp, awsClients)
			}
		}
	}
}

// TestPure walks the pure packages for goroutines, clocks and hidden random sources, and all internal ones for the
// environment, exits and files.
func TestPure(t *testing.T) {
	for _, p := range packages(t) {
		name, internal := strings.CutPrefix(p.ImportPath, "loadline/internal/")
		if !internal {
			continue
		}
		pure := slices.Contains(ring0, name)
		for _, f := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, f), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			imports := map[string]string{}
			for _, spec := range file.Imports {
				path := strings.Trim(spec.Path.Value, `"`)
				local := path[strings.LastIndex(path, "/")+1:]
				if path == "math/rand/v2" {
					local = "rand"
				}
				if spec.Name != nil {
					local = spec.Name.Name
				}
				imports[local] = path
			}
			at := func(n ast.Node) string { return fmt.Sprintf("%s/%s:%d", name, f, fset.Position(n.Pos()).Line) }
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					if pure {
						t.Errorf("%s: a pure package starts a goroutine", at(n))
					}
				case *ast.SelectorExpr:
					id, ok := n.X.(*ast.Ident)
					if !ok {
						return true
					}
					path := imports[id.Name]
					switch {
					case pure && slices.Contains(clock[path], n.Sel.Name):
						t.Errorf("%s: a pure package calls %s.%s", at(n), path, n.Sel.Name)
					case path == "os" && slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "Exit", "Setenv"}, n.Sel.Name),
						path == "os/signal":
						t.Errorf("%s: only cmd reads the environment, handles signals and exits (%s.%s)", at(n), path, n.Sel.Name)
					case path == "os" && slices.Contains([]string{"Open", "OpenFile", "Create", "CreateTemp", "ReadFile", "WriteFile", "ReadDir", "Rename", "Remove"}, n.Sel.Name) && !slices.Contains(files, name):
						t.Errorf("%s: only cmd and %v open files (os.%s)", at(n), files, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// TestHouseIsWhole keeps the lists honest: an order that nobody follows proves nothing.
func TestHouseIsWhole(t *testing.T) {
	if len(packages(t)) < 10 {
		t.Fatal("the walk found too few packages: it looks in the wrong place")
	}
}
