// Command prove measures, in real time, that a proof tells plans apart: on two local endpoints of one profile the plan of the
// flow rule is proved, its surge, scale-out and all, and the plan of the published rule is not; and that both fleets are left
// as they were found.
//
//	go run ./bench/prove
//
// It takes some eight minutes: the alarms of a rate look at three whole minutes.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"loadline/bench/chain"
	"loadline/bench/machine"
	"loadline/internal/artifact"
	"loadline/internal/capacity"
)

func main() {
	t := flag.String("t", "150", "seconds that a scale-out is taken to need, seen by a signal of 10 s; plan adds what a rate's takes longer")
	published := flag.String("qmax", "internal/artifact/testdata/published/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json", "ladder of the profile kokoro-g5")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := bench(ctx, *published, *t)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench/prove:", err)
		os.Exit(3)
	case !ok:
		os.Exit(1)
	}
}

// side is one rule, planned, deployed and proved on an endpoint of its own.
type side struct {
	rule     string
	code     int
	said     string
	restored string
	err      error
}

func bench(ctx context.Context, published, t string) (bool, error) {
	dir, err := os.MkdirTemp("", "loadline-prove-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := chain.Build(ctx, dir); err != nil {
		return false, err
	}
	ladder, err := localised(published, dir)
	if err != nil {
		return false, err
	}
	fmt.Printf("machine     %s\ninputs      profile kokoro-g5, two endpoints, T %s s, one run each\n\n", machine.String(), t)
	sides := []*side{{rule: capacity.RuleFlow}, {rule: capacity.RuleSlots}}
	var group sync.WaitGroup
	for _, s := range sides {
		group.Go(func() { s.err = s.prove(ctx, dir, ladder, t) })
	}
	group.Wait()
	ok := true
	for _, s := range sides {
		if s.err != nil {
			return false, fmt.Errorf("%s: %w", s.rule, s.err)
		}
		fmt.Printf("%s: exit %d\n%s\n", s.rule, s.code, s.said)
		want := map[string]int{capacity.RuleFlow: 0, capacity.RuleSlots: 1}[s.rule]
		verdict := "met"
		if s.code != want || !strings.Contains(s.restored, "nothing to do") {
			ok, verdict = false, "MISSED"
		}
		fmt.Printf("%s       wanted exit %d, and the fleet as it was found (thaw: %s): %s\n\n", s.rule, want, strings.TrimSpace(s.restored), verdict)
	}
	return ok, nil
}

// localised is the published ladder as one of the local endpoint, whose profile it is.
func localised(published, dir string) (string, error) {
	data, err := os.ReadFile(published)
	if err != nil {
		return "", err
	}
	q, err := artifact.ReadQMax(data)
	if err != nil {
		return "", err
	}
	q.Schema, q.RunID, q.Complete = artifact.SchemaQMax, "BENCH", true
	q.Target.Endpoint, q.Target.Variant, q.Target.Transport = "speech-kokoro-82m", "primary", "response-stream"
	q.Fingerprint.Region, q.Fingerprint.NoRegion = "us-east-1", false
	q.Corpus.ID = "clips"
	if data, err = artifact.Encode(q); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "qmax.json")
	return file, os.WriteFile(file, data, 0o644)
}

// prove runs the chain of one rule.
func (s *side) prove(ctx context.Context, dir, ladder, t string) error {
	out := filepath.Join(dir, s.rule)
	tool := func(args ...string) (int, string, error) {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "tts-bench"), args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 30 * time.Second
		cmd.Env = append(os.Environ(), "HOME="+out, "XDG_STATE_HOME=", "AWS_EC2_METADATA_DISABLED=true")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			return 0, "", err
		}
		said := stdout.String()
		if cmd.ProcessState.ExitCode() != 0 {
			said += stderr.String()
		}
		return cmd.ProcessState.ExitCode(), said, nil
	}
	must := func(args ...string) error {
		code, said, err := tool(args...)
		if err == nil && code != 0 {
			err = fmt.Errorf("tts-bench %s: exit %d\n%s", args[0], code, said)
		}
		return err
	}
	if err := must("plan", "--qmax", ladder, "--assume-t-total", t, "--rule", s.rule, "--peak-rps", "50", "--trough-rps", "10", "--accept", "fleet_throughput", "--out", out); err != nil {
		return err
	}
	plans, err := filepath.Glob(filepath.Join(out, "plan-*.json"))
	if err != nil || len(plans) != 1 {
		return fmt.Errorf("plans %v: %w", plans, err)
	}
	data, err := os.ReadFile(plans[0])
	if err != nil {
		return err
	}
	plan, err := artifact.ReadPlan(data)
	if err != nil {
		return err
	}
	url, stop, err := chain.Serve(ctx, dir, "--publication-delay", "30s", "--start", "30s",
		"--routing", "random", "--queue-depth", fmt.Sprint(plan.Config.QueueMaxDepth), "--instances", "2")
	if err != nil {
		return err
	}
	defer stop()
	if err := must("apply", "--plan", plans[0], "--endpoint-url", url, "--yes"); err != nil {
		return err
	}
	if s.code, s.said, err = tool("prove", "--plan", plans[0], "--endpoint-url", url, "--hold", "20s", "--queue-hold", "10s", "--instances", fmt.Sprint(max(1, min(2, plan.Config.MaxInstances))), "--yes", "--out", out); err != nil {
		return err
	}
	_, s.restored, err = tool("thaw", "--endpoint", "speech-kokoro-82m", "--endpoint-url", url)
	return err
}
