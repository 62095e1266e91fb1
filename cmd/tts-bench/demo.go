package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/exit"
)

// The demo's endpoint and load. The peak is more than the published rule's fleet completes, so that both rules show.
const (
	demoEndpoint = "speech-kokoro-82m"
	demoSLO      = "300"
	demoPeak     = "800"
	demoTrough   = "40"
)

func (a *app) demoCommand() *cobra.Command {
	var out, local string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "the whole chain on this machine: a local endpoint, measured, certified, planned and set up",
		Long: `demo starts sagemaker-local with the quick profile, runs drift, qmax, ttotal, plan, apply and validate against it,
replays both rules in a surge, draws the report, says what happened, and ends what it started. It needs no AWS account and sends nothing
beyond this machine.`,
		Example: "  tts-bench demo",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), out, local) },
	}
	cmd.Flags().StringVar(&out, "out", filepath.Join("artifacts", "demo"), "folder that the results are saved in")
	cmd.Flags().StringVar(&local, "sagemaker-local", "", "the sagemaker-local program (default: beside this one, else on PATH)")
	return cmd
}

func (a *app) demo(ctx context.Context, out, local string) error {
	program, err := findLocal(local)
	if err != nil {
		return exit.Misuse(err)
	}
	began := time.Now()
	// AWS's delay of CloudWatch, and most of the time that a machine takes, would only be waited for here.
	args := []string{"serve", "--profile", "quick", "--endpoint", demoEndpoint, "--publication-delay", "0", "--start", "8s"}
	fmt.Fprintf(a.stdout, "$ sagemaker-local %s\n", strings.Join(args, " "))
	url, stop, err := startLocal(ctx, a.stderr, program, args)
	if err != nil {
		return exit.CannotTell(fmt.Errorf("demo: %w", err))
	}
	defer stop()
	fmt.Fprintf(a.stdout, "ready %s\n\n", url)

	// What differs is shown: nothing is declared of this endpoint yet.
	if err := a.step(ctx, "drift", "--endpoint", demoEndpoint, "--endpoint-url", url); err != nil && !errors.Is(err, exit.Said) {
		return fmt.Errorf("demo: drift: %w", err)
	}
	if err := a.step(ctx, "qmax", "--endpoint", demoEndpoint, "--endpoint-url", url, "--slo-ms", demoSLO, "--corpus", "clips", "--yes", "--out", out); err != nil {
		return fmt.Errorf("demo: qmax: %w", err)
	}
	ladder, file, err := newest(out, "qmax-", artifact.ReadQMax, func(d *artifact.QMax) time.Time { return d.CreatedAt })
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := a.step(ctx, "ttotal", "--qmax", file, "--endpoint-url", url, "--corpus", "clips", "--warmup", "2s", "--settle", "8s", "--window", "3s", "--yes", "--out", out); err != nil && exit.Code(err) != exit.Unknown { // on a busy machine it is a floor
		return fmt.Errorf("demo: ttotal: %w", err)
	}
	grown, scaleOut, err := newest(out, "ttotal-", artifact.ReadTTotal, func(d *artifact.TTotal) time.Time { return d.CreatedAt })
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := a.step(ctx, "plan", "--qmax", file, "--ttotal", scaleOut, "--peak-rps", demoPeak, "--trough-rps", demoTrough, "--out", out); err != nil {
		return fmt.Errorf("demo: plan: %w", err)
	}
	plan, planFile, err := newest(out, "plan-", artifact.ReadPlan, func(d *artifact.Plan) time.Time { return d.CreatedAt })
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := a.step(ctx, "apply", "--plan", planFile, "--endpoint-url", url, "--yes"); err != nil {
		return fmt.Errorf("demo: apply: %w", err)
	}
	// The queue bound is the container's: it comes with a deployment, so one value differs here.
	if err := a.step(ctx, "validate", "--plan", planFile, "--endpoint-url", url); err != nil && !errors.Is(err, exit.Said) {
		return fmt.Errorf("demo: validate: %w", err)
	}
	if err := stop(); err != nil {
		return exit.CannotTell(fmt.Errorf("demo: end sagemaker-local: %w", err))
	}
	// The rest needs no endpoint: both rules in the surge that the plan is made for, on the simulator.
	if err := a.step(ctx, "simulate", "--plan", planFile, "--rule", "both", "--shape", "surge", "--svg", filepath.Join(out, "surge.svg"), "--out", out); err != nil {
		return fmt.Errorf("demo: simulate: %w", err)
	}
	replayed, replay, err := newest(out, "simulation-", artifact.ReadSimulation, func(d *artifact.Simulation) time.Time { return d.CreatedAt })
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := a.step(ctx, "report", "--out", filepath.Join(out, "report.html"), file, scaleOut, planFile, replay); err != nil {
		return fmt.Errorf("demo: report: %w", err)
	}
	told := demoTold(ladder, grown, plan, replayed, out, time.Since(began))
	first, _, _ := strings.Cut(strings.ReplaceAll(told, "\n", " "), ": ")
	a.demoVoice(ctx, out, first+".")
	fmt.Fprint(a.stdout, told)
	return nil
}

// step runs a command of this program as a person would type it.
func (a *app) step(ctx context.Context, args ...string) error {
	fmt.Fprintf(a.stdout, "$ tts-bench %s\n", strings.Join(args, " "))
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	fmt.Fprintln(a.stdout)
	return err
}

// demoTold is what happened, in a few sentences.
func demoTold(q *artifact.QMax, t *artifact.TTotal, p *artifact.Plan, r *artifact.Simulation, out string, took time.Duration) string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(wrap(fmt.Sprintf(format, args...)) + "\n") }
	if q.QMax != nil && q.Certificate != nil {
		c := q.Certificate
		say("One instance held %d requests at once inside %.0f ms: certified at %.0f %% confidence, %d of %d fresh samples late.",
			*q.QMax, q.SLOMS, 100*c.Confidence, c.Late, c.N)
	} else {
		say("No concurrency was certified: %s.", q.Reason)
	}
	say("It completes at most %.0f requests a second, however many it holds: beyond a few, what it holds is a queue.", q.Mu.Value)
	if d := t.Dominant; d != nil {
		say("One more instance took %.1f s from the call to recovered traffic, %.1f s of it from %s to %s.", t.TTotal, d.Seconds, d.From, d.To)
	}
	say("For a peak of %s a second the published rule would run a fleet of %d, which completes %.0f of them; the flow rule runs %d.",
		demoPeak, p.Slots.Peak, min(p.Slots.FleetRPS, p.Slots.PeakRPS), p.Flow.Peak)
	say("Its policies and alarms were put in place and read back; the queue bound, which validate shows to differ, comes with a deployment of the container.")
	bad := map[string]float64{}
	for _, run := range r.Runs {
		bad[run.Label] = run.BadShare()
	}
	if len(bad) == 2 {
		say("Replayed in the surge that they were made for, the published rule's fleet leaves %s of all requests late or not served, the flow rule's %s.",
			shareOf(bad[capacity.RuleSlots], 1), shareOf(bad[capacity.RuleFlow], 1))
	}
	say("That took %s, nothing keeps running, and the ladder, the scale-out, every request, the plan and the replay are in %s; report.html shows them.", short(took), out)
	return b.String()
}

// findLocal is the sagemaker-local program.
func findLocal(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "sagemaker-local")
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath("sagemaker-local")
	if err != nil {
		return "", errors.New("demo: sagemaker-local is neither beside tts-bench nor on PATH: run make build, or name it with --sagemaker-local")
	}
	return path, nil
}

// startLocal starts the local endpoint and waits until it is ready. stop ends it and waits; it may be called twice.
func startLocal(ctx context.Context, stderr io.Writer, program string, args []string) (url string, stop func() error, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start sagemaker-local: %w", err)
	}
	ended := false
	stop = func() error {
		if ended {
			return nil
		}
		ended = true
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended already
		_, _ = io.Copy(io.Discard, stdout)
		return cmd.Wait()
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ok {
		return "", nil, errors.Join(fmt.Errorf("sagemaker-local did not come up: it said %q", line), stop())
	}
	return url, stop, nil
}

// newest reads the youngest record of a kind in a folder.
func newest[T any](dir, prefix string, read func([]byte) (*T, error), at func(*T) time.Time) (*T, string, error) {
	files, err := filepath.Glob(filepath.Join(dir, prefix+"*.json"))
	if err != nil {
		return nil, "", err
	}
	var best *T
	var name string
	for _, file := range files {
		v, err := readRecord(file, read)
		if err != nil {
			continue // a damaged file of an earlier run is not this one's
		}
		if best == nil || at(v).After(at(best)) {
			best, name = v, file
		}
	}
	if best == nil {
		return nil, "", exit.CannotTell(fmt.Errorf("%s holds no %s… file that can be read", dir, prefix))
	}
	return best, name, nil
}
