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

// step is one check: a `go test -json` of some packages, or a command that passes when it exits 0.
type step struct {
	name     string
	env      []string
	argv     []string
	packages []string // argv is a go test of these
	quiet    bool     // any output is a failure: gofmt -l
}

// mostAgain is how many tests of a step may be run again when they failed. More than that is not the machine.
const mostAgain = 3

// racing is the packages with goroutines of their own, tested again under the race detector.
var racing = []string{
	"./internal/load/...", "./internal/transport/...", "./speech/...", "./internal/serve/...", "./internal/engine/...", "./internal/local/...",
	"./internal/codec/...", "./internal/measure/...", "./internal/awsfleet/...", "./internal/store/...", "./internal/report/...", "./internal/command/...",
}

// fuzzed is the parsers of what others write, by package: each is given a few thousand inputs made up anew, a second or two.
// What once failed is kept with the package's tests.
var fuzzed = [][2]string{
	{"./internal/artifact", "FuzzRead"}, {"./internal/trace", "FuzzRead"}, {"./internal/audio", "FuzzCuts"}, {"./internal/wire", "FuzzCBOR"},
	{"./internal/wire", "FuzzEvents"}, {"./internal/serve", "FuzzRequestBody"}, {"./internal/scaleout", "FuzzParseMarker"}, {"./internal/registry", "FuzzEdit"},
}

// realTime is the packages whose tests measure in real time: they run alone, one after the other.
var realTime = []string{"loadline/cmd/tts-bench", "loadline/bench/selfaudit"}

// steps is every check, in order.
func steps() []step {
	all := []step{
		{name: "gofmt", argv: []string{"gofmt", "-l", "."}, quiet: true},
		{name: "build without cgo", env: []string{"CGO_ENABLED=0"}, argv: []string{"go", "build", "./..."}},
		{name: "vet", argv: []string{"go", "vet", "./..."}},
		{name: "test", argv: []string{"go", "test", "-json", "-timeout", "10m"}, packages: others()},
		{name: "test in real time", env: []string{"LOADLINE_REAL_TIME=1"}, argv: []string{"go", "test", "-json", "-timeout", "10m", "-p", "1"}, packages: realTime},
		{name: "kubernetes manifests", argv: []string{"go", "test", "-C", "test/kube", "-json", "-timeout", "10m"}, packages: []string{"./..."}},
		// The stacks are a module of their own, whose requirements follow this one's: what they lack of it is added.
		{name: "vet the stacks", argv: []string{"go", "vet", "-C", "infra", "-mod=mod", "./..."}},
		{name: "test the stacks", argv: []string{"go", "test", "-C", "infra", "-mod=mod", "-json", "-timeout", "10m", "-p", "1"}, packages: []string{"./..."}},
		{name: "race", argv: []string{"go", "test", "-json", "-timeout", "10m", "-race", "-short"}, packages: racing},
	}
	for _, f := range fuzzed {
		all = append(all, step{name: "fuzz " + f[0] + " " + f[1], argv: []string{"go", "test", "-run", "^$", "-fuzz", "^" + f[1] + "$", "-fuzztime", "3000x", "-parallel", "2", f[0]}})
	}
	return all
}

func main() {
	var t tally
	for _, s := range steps() {
		began := time.Now()
		t.run(s)
		fmt.Printf("--- %s: %.1f s\n", s.name, time.Since(began).Seconds())
	}
	if t.unsteady != nil {
		fmt.Printf("unsteady, passed only when run again alone: %s\n", strings.Join(t.unsteady, " "))
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

type tally struct {
	passed, failed, skipped int
	unsteady                []string // failed first, passed alone
}

func (t *tally) count(ok bool) {
	if ok {
		t.passed++
	} else {
		t.failed++
	}
}

func (t *tally) run(s step) {
	if s.packages != nil {
		failed := t.test(s, s.packages)
		if n := failed.tests(); n == 0 || n > mostAgain {
			return
		}
		t.again(s, failed)
		return
	}
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Env = append(os.Environ(), s.env...)
	out, err := cmd.CombinedOutput()
	ok := err == nil && (!s.quiet || len(bytes.TrimSpace(out)) == 0)
	if !ok {
		fmt.Printf("FAIL %s (%v)\n%s", s.name, err, out)
	}
	t.count(ok)
}

// failures is what failed in a run of go test: the names of tests by package, subtests too. A package that failed in
// another way (it does not build, it panicked, raced or ran out of time) has the name "" among them.
type failures map[string][]string

// tests counts the tests at the top level, or is 0 where something else failed.
func (f failures) tests() (n int) {
	for _, names := range f {
		if slices.Contains(names, "") {
			return 0
		}
		n += len(topLevel(names))
	}
	return n
}

func topLevel(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, "/") })
}

// again runs failed tests once more, alone. What measures in real time beside other tests on a busy machine can lose to the
// machine; what is wrong fails twice. It is said which tests needed it.
func (t *tally) again(s step, failed failures) {
	for pkg, names := range failed {
		var second tally
		top := topLevel(names)
		alone := s
		alone.argv = append(slices.Clone(s.argv), "-count=1", "-run", "^("+strings.Join(top, "|")+")$")
		fmt.Printf("AGAIN %s %s\n", pkg, strings.Join(top, " "))
		if second.test(alone, []string{pkg}); second.failed > 0 || second.passed == 0 {
			continue
		}
		t.failed -= len(names)
		t.passed += len(names)
		t.unsteady = append(t.unsteady, top...)
	}
}

// test runs go test on packages and counts; it gives what failed.
func (t *tally) test(s step, packages []string) failures {
	cmd := exec.Command(s.argv[0], append(slices.Clone(s.argv[1:]), packages...)...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Printf("%s: %v\n", s.name, err)
		t.failed++
		return nil
	}
	before := t.failed
	failed := t.read(bufio.NewScanner(out))
	if err := cmd.Wait(); err != nil && t.failed == before {
		fmt.Printf("%s: %v\n", s.name, err)
		t.failed++
	}
	return failed
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// read counts the tests of a stream, prints what did not pass, and gives what failed.
func (t *tally) read(lines *bufio.Scanner) failures {
	lines.Buffer(nil, 16<<20)
	said := map[string]*strings.Builder{} // output so far, by package and test
	failed := failures{}
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
			if strings.HasPrefix(e.Output, "WARNING: DATA RACE") || strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ") {
				failed[e.Package] = append(failed[e.Package], "")
			}
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
			if e.Test == "" && len(failed[e.Package]) > 0 && failed[e.Package][0] != "" {
				fmt.Printf("FAIL %s\n", e.Package)
				continue
			}
			t.failed++
			failed[e.Package] = append(failed[e.Package], e.Test)
			fmt.Printf("FAIL %s %s\n%s", e.Package, e.Test, said[key])
		default:
			continue
		}
		delete(said, key)
	}
	return failed
}
