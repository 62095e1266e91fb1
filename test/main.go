// Command test is the gate behind `make test`: it runs every check, prints what failed and why tests were skipped, and
// ends with one line that counts them. It exits 1 when anything failed or nothing ran.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// step is one check: a `go test -json`, or a command that passes when it exits 0.
type step struct {
	name  string
	env   []string
	argv  []string
	tests bool
	quiet bool // any output is a failure: gofmt -l
}

// racing is the packages with goroutines of their own, tested again under the race detector.
var racing = []string{
	"./internal/load/...", "./internal/transport/...", "./internal/serve/...", "./internal/engine/...", "./internal/local/...",
	"./internal/measure/...", "./internal/awsfleet/...", "./internal/store/...", "./internal/report/...",
}

// realTime is the packages whose tests measure in real time: they run alone, one after the other.
var realTime = []string{"loadline/cmd/tts-bench", "loadline/bench/selfaudit"}

var steps = []step{
	{name: "gofmt", argv: []string{"gofmt", "-l", "."}, quiet: true},
	{name: "build without cgo", env: []string{"CGO_ENABLED=0"}, argv: []string{"go", "build", "./..."}},
	{name: "vet", argv: []string{"go", "vet", "./..."}},
	{name: "test", argv: append([]string{"go", "test", "-json", "-timeout", "10m"}, others()...), tests: true},
	{name: "test in real time", argv: append([]string{"go", "test", "-json", "-timeout", "10m", "-p", "1"}, realTime...), tests: true},
	{name: "kubernetes manifests", argv: []string{"go", "test", "-C", "test/kube", "-json", "-timeout", "10m", "./..."}, tests: true},
	{name: "race", argv: append([]string{"go", "test", "-json", "-timeout", "10m", "-race", "-short"}, racing...), tests: true},
}

func main() {
	var t tally
	for _, s := range steps {
		began := time.Now()
		t.run(s)
		fmt.Printf("--- %s: %.1f s\n", s.name, time.Since(began).Seconds())
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped)
	if t.failed > 0 || t.passed == 0 {
		os.Exit(1)
	}
}

// others is every package that does not measure in real time.
func others() []string {
	out, err := exec.Command("go", "list", "./...").Output()
	if err != nil {
		return []string{"./..."} // go test says what is wrong
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(p string) bool { return slices.Contains(realTime, p) })
}

type tally struct{ passed, failed, skipped int }

func (t *tally) count(ok bool) {
	if ok {
		t.passed++
	} else {
		t.failed++
	}
}

func (t *tally) run(s step) {
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Env = append(os.Environ(), s.env...)
	if s.tests {
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			fmt.Printf("%s: %v\n", s.name, err)
			t.failed++
			return
		}
		before := t.failed
		t.read(bufio.NewScanner(out))
		if err := cmd.Wait(); err != nil && t.failed == before {
			fmt.Printf("%s: %v\n", s.name, err)
			t.failed++
		}
		return
	}
	out, err := cmd.CombinedOutput()
	ok := err == nil && (!s.quiet || len(bytes.TrimSpace(out)) == 0)
	if !ok {
		fmt.Printf("FAIL %s (%v)\n%s", s.name, err, out)
	}
	t.count(ok)
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// read counts the tests of a stream and prints what did not pass.
func (t *tally) read(lines *bufio.Scanner) {
	lines.Buffer(nil, 16<<20)
	said := map[string]*strings.Builder{} // output so far, by package and test
	failedIn := map[string]bool{}
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text())
			continue
		}
		key := e.Package + e.ImportPath + "\x00" + e.Test
		switch e.Action {
		case "output", "build-output":
			if said[key] == nil {
				said[key] = new(strings.Builder)
			}
			said[key].WriteString(e.Output)
			continue
		case "pass":
			if e.Test != "" {
				t.passed++
			} else {
				fmt.Printf("ok   %s %.1fs\n", e.Package, e.Elapsed)
			}
		case "skip":
			if e.Test != "" {
				t.skipped++
				fmt.Printf("SKIP %s %s\n%s", e.Package, e.Test, said[key])
			}
		case "build-fail":
			fmt.Printf("FAIL build %s\n%s", e.ImportPath, said[key])
		case "fail":
			if e.Test == "" && failedIn[e.Package] {
				fmt.Printf("FAIL %s\n", e.Package)
				continue
			}
			t.failed++
			failedIn[e.Package] = true
			fmt.Printf("FAIL %s %s\n%s", e.Package, e.Test, said[key])
		default:
			continue
		}
		delete(said, key)
	}
}
