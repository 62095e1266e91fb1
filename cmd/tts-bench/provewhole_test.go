package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/proof"
)

// realTime is the variable that asks for the tests that take minutes of real time.
const realTime = "LOADLINE_REAL_TIME"

// deployed is a plan in place on an endpoint of its own.
type deployed struct {
	dir, plan, url string
	found          freeze.Variant // before it is proved
}

// deploy plans a surge by one rule and puts it in place. The flow rule's plan follows concurrency, which an alarm reads every
// 10 s, as the published rule's does: the alarms of a rate look at three whole minutes.
func deploy(t *testing.T, ladder, rule string) deployed {
	t.Helper()
	d := deployed{dir: t.TempDir()}
	plan := []string{"plan", "--qmax", ladder, "--assume-t-total", "80", "--surge-ratio", "1.49", "--peak-rps", "36", "--trough-rps", "10", "--accept", "fleet_throughput", "--rule", rule}
	first := "1"
	if rule == capacity.RuleFlow {
		plan, first = append(plan, "--candidate", capacity.ConcurrencyTracking), "2"
	}
	ran(t, d.dir, exit.OK, "saved", plan...)
	plans, err := filepath.Glob(filepath.Join(d.dir, "artifacts/plan-*.json"))
	if err != nil || len(plans) != 1 {
		t.Fatalf("plans %v, %v", plans, err)
	}
	d.plan = plans[0]
	d.url = served(t, "--profile", "kokoro-g5", "--start", "2s", "--queue-depth", "50", "--routing", "random", "--instances", first)
	ran(t, d.dir, exit.OK, "applied and read back", "apply", "--plan", d.plan, "--endpoint-url", d.url, "--yes")
	d.found = state(t, d.url)
	return d
}

// proves is the call that proves it, from as many instances as it has.
func (d deployed) proves(more ...string) []string {
	return append([]string{"prove", "--plan", d.plan, "--endpoint-url", d.url, "--hold", "10s", "--queue-hold", "4s", "--idle", "1s", "--yes"}, more...)
}

// left says whether it is as it was found.
func (d deployed) left(t *testing.T) {
	t.Helper()
	is := state(t, d.url)
	is.Invocations = d.found.Invocations
	if diff := cmp.Diff(d.found, is); diff != "" {
		t.Errorf("it was not left as it was found:\n%s", diff)
	}
}

// grown starts the surge alone, and returns once the policies have asked for more instances.
func (d deployed) grown(t *testing.T) *bench {
	t.Helper()
	b := start(t, d.dir, d.proves("--checks", "surge", "--instances", "2")...)
	for {
		line, err := b.stderr.ReadString('\n')
		b.said.WriteString(line)
		switch {
		case strings.Contains(line, "instances were asked for"):
			if s := state(t, d.url); s.Desired <= d.found.Desired || !s.Target.Suspended.In || s.Target.Suspended.Out {
				t.Errorf("in the surge: %d instances desired, %+v", s.Desired, s.Target)
			}
			return b
		case err != nil && b.end() == exit.Unknown:
			t.Skipf("this machine is too busy to tell:\n%s%s", &b.said, &b.stdout)
		case err != nil:
			t.Fatalf("no instance was asked for:\n%s%s", &b.said, &b.stdout)
		}
	}
}

// TestProveWhole is the whole proof in real time, side by side for both rules' plans of one endpoint: the flow rule's is
// proved, its surge, scale-out and all, and the published rule's is not. A proof that is interrupted or killed in the
// middle of the surge, with more instances on their way, leaves nothing behind that thaw does not mend.
func TestProveWhole(t *testing.T) {
	if os.Getenv(realTime) == "" {
		t.Skip("two minutes of real time: " + realTime + "=1 runs it, as make test does")
	}
	ladder := proveLadder(t, t.TempDir())
	ok, stop, not := capacity.OK, capacity.Stop, capacity.NotChecked
	for _, tt := range []struct {
		rule string
		want int
		says string
		is   map[string]capacity.Verdict
	}{
		{capacity.RuleFlow, exit.OK, "proved: every check holds",
			map[string]capacity.Verdict{proof.Deployed: ok, proof.Lambda: ok, proof.Below: ok, proof.Above: ok, proof.ScaleOut: ok, proof.Surge: ok, proof.Shed: ok}},
		{capacity.RuleSlots, exit.No, "not proved: the plan does not keep what it promises",
			map[string]capacity.Verdict{proof.Deployed: ok, proof.Lambda: stop, proof.Below: ok, proof.Above: ok, proof.ScaleOut: not, proof.Surge: not, proof.Shed: not}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, ladder, tt.rule)
			b := start(t, d.dir, d.proves(map[string][]string{capacity.RuleFlow: {"--instances", "2"}}[tt.rule]...)...)
			code := b.end()
			said := b.stdout.String() + b.said.String()
			t.Log(said)
			d.left(t)
			ran(t, d.dir, exit.OK, "nothing to do", "thaw", "--endpoint", localEndpoint, "--endpoint-url", d.url)
			if code == exit.Unknown {
				t.Skipf("this machine is too busy to tell:\n%s", said)
			}
			if code != tt.want || !strings.Contains(said, tt.says) {
				t.Fatalf("exit code %d, want %d and %q", code, tt.want, tt.says)
			}
			files, _ := filepath.Glob(filepath.Join(d.dir, "artifacts/prove-*-g5xlarge-*.json"))
			if len(files) != 1 {
				t.Fatalf("records: %v", files)
			}
			doc, err := readRecord(files[0], artifact.ReadProof)
			if err != nil {
				t.Fatal(err)
			}
			if len(doc.Checks) != len(tt.is) || doc.T != 80 || !doc.Complete {
				t.Errorf("%d checks, T %g s, complete %t", len(doc.Checks), doc.T, doc.Complete)
			}
			for _, c := range doc.Checks {
				if c.Verdict != tt.is[c.Name] {
					t.Errorf("%s: %s: %s", c.Name, c.Verdict, c.Detail)
				}
				if c.Verdict == ok && c.Name != proof.Deployed && (c.Budget == nil || c.Measured == nil || c.High == nil && c.Name != proof.Lambda) {
					t.Errorf("%s has no budget, or no interval: %+v", c.Name, c)
				}
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		d := deploy(t, ladder, capacity.RuleFlow)
		b := d.grown(t)
		_ = b.cmd.Process.Signal(os.Interrupt)
		if code := b.end(); code != exit.Unknown || !strings.Contains(b.said.String(), "interrupted") {
			t.Errorf("exit code %d\n%s%s", code, &b.said, &b.stdout)
		}
		d.left(t)
		ran(t, d.dir, exit.OK, "nothing to do", "thaw", "--endpoint", localEndpoint, "--endpoint-url", d.url)
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		d := deploy(t, ladder, capacity.RuleFlow)
		b := d.grown(t)
		_ = b.cmd.Process.Kill()
		b.end()
		ran(t, d.dir, exit.No, "frozen", "drift", "--endpoint", localEndpoint, "--endpoint-url", d.url)
		ran(t, d.dir, exit.No, "tts-bench thaw --endpoint "+localEndpoint, d.proves()...)
		ran(t, d.dir, exit.OK, "put back from the freeze record: desired count 2", "thaw", "--endpoint", localEndpoint, "--endpoint-url", d.url)
		d.left(t)
		ran(t, d.dir, exit.OK, "nothing to do", "thaw", "--endpoint", localEndpoint, "--endpoint-url", d.url)
	})
}
