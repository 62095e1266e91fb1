package kube

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestManifests(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "cmd/tts-bench/testdata/qmax-quick.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bench := filepath.Join(dir, "tts-bench")
	command(t, root, nil, "go", "build", "-o", bench, "./cmd/tts-bench")
	for _, m := range []struct {
		name string
		edit func(ladder map[string]any)
		args []string
	}{
		{"rate.keda.yaml", nil, []string{"--peak-rps", "1000", "--trough-rps", "100", "--emit", "keda"}},
		{"rate.hpa.yaml", nil, []string{"--peak-rps", "1000", "--trough-rps", "100", "--emit", "hpa"}},
		{"streams.keda.yaml", minutes, []string{"--peak-streams", "50", "--emit", "keda", "--ceiling", "30m", "--accept", "slo_budget", "--accept", "invocation_ceiling"}},
	} {
		var ladder map[string]any
		if err := json.Unmarshal(data, &ladder); err != nil {
			t.Fatal(err)
		}
		ladder["target"] = map[string]any{"model": "My_Voice.v2", "url": "http://127.0.0.1:8880/v1/audio/speech", "transport": "openai-speech", "payload": "audio"}
		ladder["request_log"] = ""
		if m.edit != nil {
			m.edit(ladder)
		}
		text, err := json.Marshal(ladder)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, m.name+".qmax.json")
		write(t, file, text)
		write(t, filepath.Join(dir, m.name), command(t, root, nil, bench, append([]string{"plan", "--qmax", file, "--assume-t-total", "90", "--no-save"}, m.args...)...))
	}
	overlay := filepath.Join(dir, "overlay.json")
	write(t, overlay, kedaOverlay(t))
	out := command(t, ".", []string{"KUBE_MANIFESTS=" + dir}, "go", "test", "-overlay", overlay, "-count=1", "./testdata/decoded")
	t.Logf("%s", out)
}

// minutes makes a ladder one of streams that take five minutes each.
func minutes(l map[string]any) {
	l["mu_rps"] = map[string]any{"value": 4. / 300, "low": 4. / 300, "high": 4. / 300}
	l["s_mean_s"], l["s_p95_s"] = 300., 300.
	l["q_max"], l["certificate"], l["q_max_per_run"] = 4, nil, []int{4}
	var rungs []any
	for _, n := range []int{1, 2, 4} {
		rungs = append(rungs, map[string]any{"n": n, "x_rps": float64(n) / 300, "p50_ms": 100, "p95_ms": 120, "s_mean_s": 300, "n_samples": 100, "verdict": "pass", "valid": true})
	}
	l["rungs"] = rungs
}

// kedaOverlay is the package keda of this module: the files of KEDA's types, where they are.
func kedaOverlay(t *testing.T) []byte {
	t.Helper()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	command(t, ".", nil, "go", "mod", "download", "github.com/kedacore/keda/v2")
	module := strings.TrimSpace(string(command(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/kedacore/keda/v2")))
	files, err := filepath.Glob(filepath.Join(module, "apis/keda/v1alpha1/*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("KEDA's types are not in %s: %v", module, err)
	}
	replace := map[string]string{}
	for _, f := range files {
		name := filepath.Base(f)
		switch {
		case strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, "_webhook.go"), name == "scalable_object.go": // of the controller
		default:
			replace[filepath.Join(here, "keda", name)] = f
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func command(t *testing.T, dir string, env []string, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, stderr.String())
	}
	return out
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
