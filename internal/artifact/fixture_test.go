package artifact

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// The fixtures in testdata/published hold the figures of the published run in the published layout; ATTRIBUTION.md says
// whose they are. They are written from the figures typed here:
//
//go:generate go test -run TestPublishedFixtures -update .

var update = flag.Bool("update", false, "rewrite fixtures and goldens")

const (
	publishedQMaxFile   = "testdata/published/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json"
	publishedTTotalFile = "testdata/published/ttotal-kokoro-82m-force-desired-g5xlarge-8b1b96bc.json"
)

// publishedRungs is the published ladder: one pass, 60 s measured of each 240 s held.
var publishedRungs = []struct {
	n, completed, ok, chars    int
	p50, p95, p99, mean, meanQ float64 // first byte in ms; whole response, mean and p95, in s
	drift, serverP95, gpu, cpu float64 // ms, ms, percent, percent
}{
	{1, 965, 965, 24321, 60.021, 65.37169031798838, 68.537, 0.06132258724884511, 0.06613509664312005, -0.242, 287.490, 40, 44.92},
	{5, 1074, 1074, 27111, 278.020, 286.172, 289.964, 0.278087, 0.287233, -0.620, 285.865, 0, 99.06},
	{10, 1075, 1075, 27127, 554.922, 568.486, 573.521, 0.556350, 0.569948, -0.462, 1122.725, 37, 50.31},
	{20, 1075, 1075, 27074, 1112.123, 1129.324, 1137.060, 1.114302, 1.131381, -2.520, 1127.828, 38, 100.66},
	{30, 1074, 1074, 27056, 1674.183, 1689.802, 1700.651, 1.673906, 1.691436, 1.488, 2207.807, 0, 53.13},
	{40, 1073, 1073, 27099, 2235.278, 2245.005, 2247.936, 2.234859, 2.246986, 1.046, 2239.383, 39, 100.61},
	{50, 1072, 1072, 27059, 2793.501, 2805.663, 2840.484, 2.794474, 2.807741, 6.325, 2798.579, 0, 60.69},
	{60, 1074, 1073, 27073, 3353.923, 3374.779, 3403.993, 3.355422, 3.376899, -1.383, 3376.818, 38, 100.56},
}

// publishedStages is the published scale-out, in the order of its file.
var publishedStages = []struct {
	stage, at string
	bounded   bool
	source    string
}{
	{"load_applied", "2026-08-04T14:44:21.706308+00:00", false, "probe start"},
	{"desired_set", "2026-08-04T14:44:51.707868+00:00", false, "capacity call"},
	{"instance_logging", "2026-08-04T14:47:52.543000+00:00", true, "log stream first event"},
	{"framework_init", "2026-08-04T14:47:56.281000+00:00", false, "container log marker"},
	{"weights_ready", "2026-08-04T14:48:02.756000+00:00", false, "container log marker"},
	{"warmup_done", "2026-08-04T14:48:03.802000+00:00", false, "container log marker"},
	{"ready", "2026-08-04T14:48:03.802000+00:00", false, "container log marker"},
	{"container_started", "2026-08-04T14:47:56.267000+00:00", true, "from the first marker's elapsed time"},
	{"in_service", "2026-08-04T14:48:24.515499+00:00", false, "endpoint's current count"},
	{"traffic_recovered", "2026-08-04T14:49:11.956364+00:00", true, "probe p95"},
}

type object map[string]any // encoding/json sorts its keys

const digest = "8b1b96bc4dc0b30ddd84d8fe37af7c490937333c44a9f8f7d77b918c3d7eaced"

var deployed = object{"instance_type": "ml.g5.xlarge", "image_digest": digest, "container_env": object{}}

func publishedLadderFile() object {
	const window = 60
	var steps []object
	for i, r := range publishedRungs {
		outcomes := object{"ok": r.ok}
		if r.ok < r.completed {
			outcomes["model_error"] = r.completed - r.ok
		}
		steps = append(steps, object{
			"run_index": 0, "step_index": i, "concurrency": r.n, "achieved_rps": float64(r.completed) / window,
			"completed": r.completed, "ok": r.ok, "rejected": 0, "chars": r.chars, "outcome_counts": outcomes,
			"ttfab_p50_ms": r.p50, "ttfab_p95_ms": r.p95, "ttfab_p99_ms": r.p99, "latency_p95_ms": r.meanQ * 1000,
			"s_mean_s": r.mean, "s_p95_s": r.meanQ, "concurrency_mean": float64(r.n), "concurrency_peak": r.n,
			"ttfab_drift_ms": r.drift, "meets_slo": r.p95 <= 3000, "saturated": false, "settled": true, "client_bound": false,
			"usable": true, "unusable_reason": nil, "capacity_changed": false, "instance_counts": []int{1},
			"server_concurrency_mean": float64(r.n), "server_concurrency_peak": float64(r.n),
			"server_model_latency_p95_ms": r.serverP95, "server_5xx_total": 0, "gpu_utilization_mean": r.gpu,
			"cpu_utilization_mean": r.cpu, "concurrency_agreement": "client and server concurrency agree",
		})
	}
	one := publishedRungs[0]
	return object{
		"model_name": "kokoro-82m", "endpoint": "speech-kokoro-82m", "instance_type": "ml.g5.xlarge", "run_id": "b8fa8ef48043",
		"slo_ms": 3000, "q_max": 50, "q_max_per_run": []int{50}, "q_max_bracketed": true, "ttfab_p95_at_q_max_ms": 2805.663,
		"s_mean_s": one.mean, "s_p95_s": one.meanQ, "frozen": true, "unbounded_queue": true,
		"instance_counts_observed": []int{1}, "ladder_truncated_at": nil, "transport": "response-stream",
		"deployed_config": deployed, "runs": 1, "hold_s": 240, "measure_window_s": window, "steps": steps,
		"provenance": object{
			"origin": "measured", "run_id": "b8fa8ef48043", "measured_at": "2026-08-04T14:42:58.733810+00:00",
			"endpoint": "speech-kokoro-82m", "note": "3000 ms p95 on response-stream, scaling frozen",
		},
		"ttfab_p95_at_c1_ms": one.p95,
	}
}

func publishedScaleOutFile() object {
	var timeline []object
	for _, s := range publishedStages {
		timeline = append(timeline, object{"stage": s.stage, "at": s.at, "bounded": s.bounded, "source": s.source, "note": nil})
	}
	var durations []object
	for _, d := range []struct {
		from, to string
		seconds  float64
		bounded  bool
		share    float64
	}{
		{"load_applied", "desired_set", 30.002, false, 0.1153},
		{"desired_set", "instance_logging", 180.835, true, 0.6949},
		{"instance_logging", "container_started", 3.724, true, 0.0143},
		{"container_started", "framework_init", 0.014, true, 0.0001},
		{"framework_init", "weights_ready", 6.475, false, 0.0249},
		{"weights_ready", "ready", 1.046, false, 0.004},
		{"ready", "warmup_done", 0, false, 0},
		{"warmup_done", "in_service", 20.713, false, 0.0796},
		{"in_service", "traffic_recovered", 47.441, true, 0.1823},
	} {
		durations = append(durations, object{"from": d.from, "to": d.to, "seconds": d.seconds, "bounded": d.bounded, "share": d.share})
	}
	return object{
		"model_name": "kokoro-82m", "endpoint": "speech-kokoro-82m", "run_id": "2cd00ae01f84", "trigger": "force-desired",
		"deployed_config": deployed, "config_slug": "g5xlarge-8b1b96bc", "t_total_s": 260.248496,
		"t_total_with_policy_bound_s": 320.248496, "policy_lag_bound_s": 60, "t_total_bounded": false,
		"aws_share_s": 184.559, "container_share_s": 7.535, "instance_id": "i-00000000000000000", "from_instances": 1,
		"to_instances": 2, "probe_concurrency": 10, "p95_expected_before_ms": 568.486, "p95_recovered_target_ms": 357.714,
		"p95_before_ms": 568.310, "p95_after_ms": 558.426, "requests_before": 3812, "requests_after": 5332,
		"timeline": timeline, "durations": durations,
		"dominant_stage": object{"from": "desired_set", "to": "instance_logging", "seconds": 180.835},
		"missing_stages": []string{},
		"notes":          []string{"forced under a scaling freeze; the policy's own detection is bounded apart at 60 s"},
	}
}

func TestPublishedFixtures(t *testing.T) {
	for path, file := range map[string]object{publishedQMaxFile: publishedLadderFile(), publishedTTotalFile: publishedScaleOutFile()} {
		got, err := json.MarshalIndent(file, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, path, append(got, '\n'))
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := read(t, path); !bytes.Equal(want, got) {
		t.Errorf("%s differs; go test -update ./internal/artifact rewrites it. got:\n%s", path, got)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
