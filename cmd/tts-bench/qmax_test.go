package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"loadline/internal/artifact"
	"loadline/internal/awsfleet"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/ladder"
	"loadline/internal/sample"
	"loadline/internal/store"
)

const localEndpoint = "speech-kokoro-82m"

// served starts sagemaker-local and returns its URL; it ends with the test.
func served(t *testing.T, flags ...string) string {
	t.Helper()
	url, _ := launch(t, flags...)
	return url
}

func launch(t *testing.T, flags ...string) (string, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(localBinary, append([]string{"serve", "--quiet", "--profile", "quick", "--publication-delay", "0"}, flags...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // its exit after the interrupt says nothing of the test
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ok {
		t.Fatalf("sagemaker-local said %q: %v", line, err)
	}
	return url, cmd
}

// bench is a tts-bench process whose stderr is read line by line.
type bench struct {
	cmd    *exec.Cmd
	stderr *bufio.Reader
	said   strings.Builder
	stdout bytes.Buffer
}

// start runs tts-bench in a folder of its own, with its state there.
func start(t *testing.T, dir string, args ...string) *bench {
	t.Helper()
	return begin(t, dir, "tts-bench", args...)
}

func begin(t *testing.T, dir, program string, args ...string) *bench {
	t.Helper()
	b := prepare(dir, program, args...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b.cmd.Stderr, b.stderr = w, bufio.NewReader(r)
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		r.Close()
	})
	return b
}

// prepare is such a process before it is started.
func prepare(dir, program string, args ...string) *bench {
	b := &bench{cmd: exec.Command(program, args...)}
	b.cmd.Dir = dir
	b.cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_PROFILE=", "AWS_REGION=us-east-1")
	b.cmd.Stdout = &b.stdout
	return b
}

// until reads stderr up to a line that holds text.
func (b *bench) until(t *testing.T, text string) {
	t.Helper()
	for {
		line, err := b.stderr.ReadString('\n')
		b.said.WriteString(line)
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			t.Fatalf("it never said %q: %v\n%s%s", text, err, &b.said, &b.stdout)
		}
	}
}

// end waits for the process and is its exit code, -1 for a kill.
func (b *bench) end() int {
	for {
		line, err := b.stderr.ReadString('\n')
		b.said.WriteString(line)
		if err != nil {
			break
		}
	}
	_ = b.cmd.Wait()
	return b.cmd.ProcessState.ExitCode()
}

// ran runs tts-bench to its end and wants an exit code and words.
func ran(t *testing.T, dir string, code int, says string, args ...string) string {
	t.Helper()
	b := start(t, dir, args...)
	got := b.end()
	all := b.said.String() + b.stdout.String()
	if got != code || !strings.Contains(all, says) {
		t.Errorf("%v: exit code %d, want %d and %q:\n%s", args, got, code, says, all)
	}
	return all
}

// state reads the local endpoint's variant.
func state(t *testing.T, url string) freeze.Variant {
	t.Helper()
	cfg, _, err := awsfleet.Load(t.Context(), awsfleet.Config{Region: "us-east-1", EndpointURL: url})
	if err != nil {
		t.Fatal(err)
	}
	v, err := awsfleet.Open(t.Context(), cfg, localEndpoint, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := v.Inspect(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// whole says that the endpoint is as it was with this many instances.
func whole(t *testing.T, url string, desired int) {
	t.Helper()
	s := state(t, url)
	if s.Status != freeze.InService || s.Desired != desired || s.Current != desired || s.Target.Suspended != (freeze.Flags{}) ||
		s.Target.Min != 1 || s.Target.Max != 9 || s.Tags[freeze.TagKey] != "" {
		t.Errorf("not as it was: %s, desired %d, current %d, target %+v, tags %v", s.Status, s.Desired, s.Current, *s.Target, s.Tags)
	}
}

func artifactIn(t *testing.T, dir string) (*artifact.QMax, string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "artifacts", "qmax-*-g5xlarge-8b1b96bc.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("artifacts: %v, %v", found, err)
	}
	doc, err := readRecord(found[0], artifact.ReadQMax)
	if err != nil {
		t.Fatal(err)
	}
	return doc, found[0]
}

// ladderOf is a short fixed schedule of an endpoint with three instances: what it answers does not matter here.
func ladderOf(url string, more ...string) []string {
	return append([]string{"qmax", "--endpoint", localEndpoint, "--endpoint-url", url, "--slo-ms", "300", "--corpus", "clips",
		"--concurrency", "1,2,3", "--hold", "1s", "--measure-window", "1s", "--idle", "0", "--no-cloudwatch"}, more...)
}

// TestQMaxInterrupted: SIGTERM, and another while it restores, put everything back; the run is resumed where it was.
func TestQMaxInterrupted(t *testing.T) {
	t.Parallel()
	url, dir := served(t, "--instances", "3", "--start", "500ms"), t.TempDir()
	ran(t, dir, exit.No, "it has 3 instances", ladderOf(url)...)

	b := start(t, dir, ladderOf(url, "--yes")...)
	b.until(t, "rung 0: 1 in flight (scheduled)")
	if s := state(t, url); s.Desired != 1 || s.Target.Suspended != freeze.All || s.Tags[freeze.TagKey] != "out=0/in=0/sched=0/min=1/max=9/desired=3" {
		t.Errorf("not frozen: %+v, target %+v", s, s.Target)
	}
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	b.until(t, "putting its count back to 3")
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	_ = b.cmd.Process.Signal(os.Interrupt)
	if code := b.end(); code != exit.Unknown || !strings.Contains(b.said.String(), "interrupted: terminated") {
		t.Errorf("exit code %d\n%s", code, &b.said)
	}
	whole(t, url, 3)
	ran(t, dir, exit.OK, "nothing to do", "thaw", "--endpoint", localEndpoint, "--endpoint-url", url)
	doc, path := artifactIn(t, dir)
	if doc.Complete || len(doc.Rungs) == 0 {
		t.Fatalf("complete %t, %d rungs", doc.Complete, len(doc.Rungs))
	}

	ran(t, dir, exit.Misused, "the interrupted run had 300", "qmax", "--resume", path, "--slo-ms", "400")
	first := doc.Rungs[0]
	b = start(t, dir, "qmax", "--resume", path, "--yes")
	if code := b.end(); code != exit.OK && code != exit.Unknown { // a busy machine cannot tell
		t.Fatalf("exit code %d\n%s%s", code, &b.said, &b.stdout)
	}
	again, _ := artifactIn(t, dir)
	if !again.Complete || len(again.Rungs) != 3 || again.RunID != doc.RunID || again.Rungs[0].EndedNS != first.EndedNS || again.Rungs[1].StartedNS <= first.EndedNS {
		t.Errorf("resumed: complete %t, run %s, rungs %+v", again.Complete, again.RunID, again.Rungs)
	}
	log, err := store.ReadLog(filepath.Join(dir, "artifacts", again.RequestLog))
	if err != nil || len(log.Rungs) != 3 {
		t.Fatalf("request log: %v, %d rungs", err, len(log.Rungs))
	}
	seen := map[int]bool{}
	for _, rung := range log.Rungs {
		for _, r := range rung {
			if seen[r.Seq] {
				t.Fatalf("request %d is there twice", r.Seq)
			}
			seen[r.Seq] = true
		}
	}
	whole(t, url, 3)
	ran(t, dir, exit.Misused, "that run is complete", "qmax", "--resume", path)
}

// TestQMaxKilled: a kill leaves the record and the tag, the next run refuses by either, thaw restores, twice harmlessly.
func TestQMaxKilled(t *testing.T) {
	t.Parallel()
	url, dir := served(t, "--instances", "3", "--start", "500ms"), t.TempDir()
	b := start(t, dir, ladderOf(url, "--yes")...)
	b.until(t, "rung 0: 1 in flight (scheduled)")
	ran(t, dir, exit.No, "is held by another run", ladderOf(url, "--yes")...)
	ran(t, dir, exit.No, "is held by another run", "thaw", "--endpoint", localEndpoint)
	_ = b.cmd.Process.Kill()
	b.end()

	ran(t, dir, exit.No, "tts-bench thaw --endpoint "+localEndpoint+" --variant primary", ladderOf(url, "--yes")...)
	ran(t, t.TempDir(), exit.No, "another run froze it", ladderOf(url, "--yes")...)
	if s := state(t, url); s.Desired != 1 || s.Target.Suspended != freeze.All {
		t.Errorf("refusing changed it: %+v, target %+v", s, s.Target)
	}
	ran(t, dir, exit.OK, "put back from the freeze record: desired count 3", "thaw", "--endpoint", localEndpoint) // the record knows where
	whole(t, url, 3)
	ran(t, dir, exit.OK, "nothing to do", "thaw", "--endpoint", localEndpoint, "--endpoint-url", url)
	whole(t, url, 3)
}

// TestThawElsewhere: on another machine the tag is enough; with nothing at all the flags are cleared.
func TestThawElsewhere(t *testing.T) {
	t.Parallel()
	url, dir := served(t, "--instances", "2", "--start", "500ms"), t.TempDir()
	b := start(t, dir, ladderOf(url, "--yes")...)
	b.until(t, "rung 0: 1 in flight (scheduled)")
	_ = b.cmd.Process.Kill()
	b.end()
	ran(t, t.TempDir(), exit.OK, "put back from the tag", "thaw", "--endpoint", localEndpoint, "--endpoint-url", url)
	whole(t, url, 2)
	ran(t, dir, exit.OK, "nothing was changed any more", "thaw", "--endpoint", localEndpoint)
	ran(t, dir, exit.OK, "the count is set from 2 to 3", "thaw", "--endpoint", localEndpoint, "--endpoint-url", url, "--restore-capacity", "--desired", "3")
	whole(t, url, 3)
}

// TestRestoreFails: what could not be put back is named, with the way to do it, and the record stays.
func TestRestoreFails(t *testing.T) {
	t.Parallel()
	url, local := launch(t, "--instances", "2")
	dir := t.TempDir()
	b := start(t, dir, ladderOf(url, "--yes")...)
	b.until(t, "rung 0: 1 in flight (scheduled)")
	_ = local.Process.Kill() // the endpoint vanishes under the run
	code := b.end()
	for _, part := range []string{"is NOT put back", "the freeze record is kept", "tts-bench thaw --endpoint " + localEndpoint} {
		if code != exit.No || !strings.Contains(b.said.String(), part) {
			t.Errorf("exit code %d, want 1 and %q:\n%s", code, part, &b.said)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".local/state/loadline/freeze-"+localEndpoint+"-primary.json")); err != nil {
		t.Errorf("the record is gone: %v", err)
	}
}

// TestQMaxBounded: a bounded queue is refused, or measured through: what it sheds is late, and Q_max stays within it.
func TestQMaxBounded(t *testing.T) {
	t.Parallel()
	url, dir := served(t, "--queue-depth", "8"), t.TempDir()
	args := []string{"qmax", "--endpoint", localEndpoint, "--endpoint-url", url, "--slo-ms", "300", "--corpus", "clips", "--yes",
		"--concurrency", "1,4,16", "--hold", "1500ms", "--measure-window", "1s", "--idle", "0", "--no-cloudwatch"}
	ran(t, dir, exit.No, "refuses beyond 8", args...)
	b := start(t, dir, append(args, "--probe-depth", "--json")...)
	if code := b.end(); code != exit.OK && code != exit.Unknown { // a busy machine cannot tell
		t.Fatalf("exit code %d\n%s%s", code, &b.said, &b.stdout)
	}
	whole(t, url, 1)
	doc, path := artifactIn(t, dir)
	if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, b.stdout.Bytes()) { // --json is the artifact byte for byte
		t.Errorf("--json differs from the saved artifact: %v", err)
	}
	shed := doc.Rungs[2]
	if shed.Outcomes[string(sample.Rejected)] == 0 || *doc.Fingerprint.QueueBound != 8 || doc.Settings["probe-depth"] != "true" {
		t.Errorf("outcomes at 16: %v, bound %d, settings %v", shed.Outcomes, *doc.Fingerprint.QueueBound, doc.Settings)
	}
	if q := doc.QMax; q != nil && *q != 1 && *q != 4 || shed.Valid && (shed.Verdict != ladder.Fail || doc.Bracket.Fail != 16) {
		t.Errorf("Q_max %v, bracket %+v, verdict at 16: %s", q, doc.Bracket, shed.Verdict)
	}
}

// TestDryRun calls nobody: there is nothing at the URL, and no credentials.
func TestDryRun(t *testing.T) {
	dir := t.TempDir()
	said := ran(t, dir, exit.OK, "no AWS call is made", "qmax", "--endpoint", localEndpoint, "--endpoint-url", "http://127.0.0.1:1", "--dry-run")
	for _, part := range []string{"schedule", "wall clock", "the published schedule takes 35 min 30 s", "requests", "money       unknown"} {
		if !strings.Contains(said, part) {
			t.Errorf("it does not say %q:\n%s", part, said)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
}

func TestResumable(t *testing.T) {
	a := &app{env: map[string]string{}}
	flags := a.qmaxCommand().Flags()
	doc := &artifact.QMax{Header: artifact.Header{Settings: map[string]any{
		"slo-ms": "300", "concurrency": "[1,5]", "stop-alarm": "[]", "yes": "true", "endpoint-url": "http://127.0.0.1:1", "hold": "4m0s"}}}
	if err := resumable(doc, "f.json", flags); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"slo-ms": "300", "concurrency": "[1,5]", "yes": "false", "endpoint-url": "http://127.0.0.1:1"} {
		if got := flags.Lookup(name).Value.String(); got != want {
			t.Errorf("--%s is %s, want %s", name, got, want)
		}
	}
	if flags.Changed("hold") {
		t.Error("a default counts as given")
	}
	flags = a.qmaxCommand().Flags()
	if err := errors.Join(flags.Set("slo-ms", "400"), flags.Set("out", "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := resumable(doc, "f.json", flags); exit.Code(err) != exit.Misused || !strings.Contains(err.Error(), "had 300") {
		t.Errorf("another objective: %v", err)
	}
}

// TestLadderTable keeps the table within 80 columns.
func TestLadderTable(t *testing.T) {
	data, err := os.ReadFile("../../internal/artifact/testdata/qmax.json")
	if err != nil {
		t.Skipf("no artifact to print: %v", err)
	}
	doc, err := artifact.ReadQMax(data)
	if err != nil {
		t.Fatal(err)
	}
	doc.Rungs[0].Valid, doc.Rungs[0].Cause = false, strings.Repeat("a long cause ", 20)
	for line := range strings.Lines(qmaxText("kokoro-82m at speech-kokoro-82m/primary by response-stream", doc)) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 && !strings.Contains(line, " at ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestAnswerPaced: where replies are held back to playback, what was completed is not said to be the most.
func TestAnswerPaced(t *testing.T) {
	rung := func(n int, s, sound float64) ladder.Rung {
		x := float64(n) / s
		return ladder.Rung{N: n, Valid: true, X: x, SMean: &s, EndedNS: 60e9, AudioS: sound * x * 60}
	}
	doc := &artifact.QMax{QMax: new(8), Verdict: "certified", Mu: ladder.Interval{Value: 0.8}, Rungs: []ladder.Rung{rung(1, 10, 10), rung(8, 10, 10)}}
	said := strings.Join(strings.Fields(answer(doc)), " ")
	if !strings.Contains(said, "One instance completed at most 0.8 requests a second, with 8 in flight: its replies are sent no faster than they are played (10 s for 10 s of sound)") {
		t.Error(said)
	}
	doc.Rungs[0] = rung(1, 1.2, 10)
	if said := answer(doc); !strings.Contains(said, "One instance completes at most 0.8 requests a second") {
		t.Error(said)
	}
}
