package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/exit"
	"loadline/internal/proof"
	"loadline/internal/store"
)

// proveLadder writes the published ladder as one of the local endpoint, which serves as fast as it says, and is its name.
func proveLadder(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile("../../internal/artifact/testdata/published/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json")
	if err != nil {
		t.Fatal(err)
	}
	q, err := artifact.ReadQMax(data)
	if err != nil {
		t.Fatal(err)
	}
	q.Schema, q.RunID, q.Complete = artifact.SchemaQMax, "PROVEN", true
	q.Target.Endpoint, q.Target.Variant, q.Target.Transport = demoEndpoint, "primary", responseStream
	q.Fingerprint.Region, q.Fingerprint.NoRegion = "us-east-1", false
	q.Corpus.ID = "clips"
	if data, err = artifact.Encode(q); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "qmax.json")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// unanswered stands before a local endpoint whose model answers nothing.
func unanswered(t *testing.T, to string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/invocations") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestProve is one endpoint with two plans, each deployed as it asks to be: what the flow rule promises holds under load,
// and what the published rule does is more than an instance can do; where nothing is completed, nothing holds. How a fleet
// grows under a surge takes minutes of real time: TestProveWhole.
func TestProve(t *testing.T) {
	dir := t.TempDir()
	ladder := proveLadder(t, dir)
	for _, tt := range []struct {
		name, rule string
		args       []string
		want       int
		says       string
		check      map[string]capacity.Verdict
	}{
		{"flow", capacity.RuleFlow, []string{"--checks", "rate,queue"}, exit.OK, "holds as far as it was asked for",
			map[string]capacity.Verdict{proof.Lambda: capacity.OK, proof.Below: capacity.OK, proof.ScaleOut: capacity.NotChecked}},
		{"slots", capacity.RuleSlots, []string{"--checks", "rate"}, exit.No, "not proved", map[string]capacity.Verdict{proof.Lambda: capacity.Stop}},
		{"dead", capacity.RuleFlow, []string{"--checks", "rate"}, exit.No, "no request of", map[string]capacity.Verdict{proof.Lambda: capacity.Stop}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(dir, tt.name)
			env := []string{"HOME=" + filepath.Join(out, "home"), "AWS_EC2_METADATA_DISABLED=true", "PATH=" + os.Getenv("PATH")}
			call := func(args ...string) (int, string) {
				var stdout, stderr bytes.Buffer
				code := run(t.Context(), args, env, nil, &stdout, &stderr)
				return code, stdout.String() + stderr.String()
			}
			if code, said := call("plan", "--qmax", ladder, "--assume-t-total", "320", "--rule", tt.rule, "--peak-rps", "50", "--trough-rps", "10", "--accept", "fleet_throughput", "--out", out); code != 0 {
				t.Fatalf("plan: %d\n%s", code, said)
			}
			plans, _ := filepath.Glob(filepath.Join(out, "plan-*.json"))
			if len(plans) != 1 {
				t.Fatalf("plans: %v", plans)
			}
			url, stop, err := startLocal(t.Context(), t.Output(), localBinary, []string{"serve", "--profile", "kokoro-g5", "--quiet", "--publication-delay", "0", "--start", "1s", "--queue-depth", "50", "--routing", "random"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = stop() })
			if tt.name == "dead" {
				url = unanswered(t, url)
			}
			args := append([]string{"prove", "--plan", plans[0], "--endpoint-url", url, "--hold", "6s", "--queue-hold", "4s", "--idle", "1s", "--out", out}, tt.args...)
			if code, said := call(args...); code != exit.No || !strings.Contains(said, "policy_missing") {
				t.Fatalf("before it is deployed: %d\n%s", code, said)
			}
			if code, said := call("apply", "--plan", plans[0], "--endpoint-url", url, "--yes"); code != 0 {
				t.Fatalf("apply: %d\n%s", code, said)
			}
			if code, said := call(args...); code != exit.No || !strings.Contains(said, "needs your consent") {
				t.Fatalf("without consent: %d\n%s", code, said)
			}
			code, said := call(append(args, "--yes")...)
			t.Log(said)
			if code == exit.Unknown {
				t.Skipf("this machine is too busy to tell:\n%s", said)
			}
			if code != tt.want || !strings.Contains(said, tt.says) {
				t.Errorf("exit %d\n%s", code, said)
			}
			if code, said := call("thaw", "--endpoint", demoEndpoint, "--endpoint-url", url); code != 0 || !strings.Contains(said, "nothing to do") {
				t.Errorf("it was not left as found: %d\n%s", code, said)
			}
			files, _ := filepath.Glob(filepath.Join(out, "prove-*-g5xlarge-*.json"))
			if len(files) != 1 {
				t.Fatalf("records: %v", files)
			}
			data, err := store.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			doc, err := artifact.ReadProof(data)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range doc.Checks {
				if want := tt.check[c.Name]; want != "" && c.Verdict != want {
					t.Errorf("%s: %s: %s", c.Name, c.Verdict, c.Detail)
				}
			}
		})
	}
}
