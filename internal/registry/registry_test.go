package registry

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func TestShippedRegistry(t *testing.T) {
	f, err := Load("../../models.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := f.Model("kokoro-82m")
	if err != nil {
		t.Fatal(err)
	}
	if m.ScalingEnabled() {
		t.Error("scaling is on before anything was measured")
	}
	if m.Endpoint != "speech-kokoro-82m" || m.Variant != "primary" || m.SLOMS != 3000 || m.Percentile != 95 || math.Abs(m.Price.PerHour*9-12.672) > 1e-9 {
		t.Errorf("got %+v", m)
	}
}

const minimal = `models:
  - model_name: a
    instance_type: ml.g5.xlarge
    ttfab_slo_ms: 300
`

func TestDefaults(t *testing.T) {
	f, err := Parse("models.yaml", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	want := Model{Name: "a", Endpoint: "speech-a", Variant: "primary", InstanceType: "ml.g5.xlarge", StreamingMode: "response",
		MinInstances: 1, MaxInstances: 1, SLOMS: 300, Percentile: 95}
	if d := cmp.Diff(want, f.Models[0]); d != "" {
		t.Error(d)
	}
}

func TestScalingEnabled(t *testing.T) {
	for _, c := range []struct {
		min, max int
		want     bool
	}{{1, 1, false}, {0, 1, false}, {1, 2, true}, {2, 2, false}, {0, 2, true}} {
		if got := (&Model{MinInstances: c.min, MaxInstances: c.max}).ScalingEnabled(); got != c.want {
			t.Errorf("min %d max %d: %v", c.min, c.max, got)
		}
	}
}

// TestRefused holds each testdata/bad/NAME.yaml against the message in NAME.txt.
func TestRefused(t *testing.T) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	if len(files) < 5 {
		t.Fatal("the bad registries are not there")
	}
	for _, in := range files {
		data, err := os.ReadFile(in)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse("models.yaml", data)
		if err == nil {
			t.Errorf("%s was taken", in)
			continue
		}
		golden(t, strings.TrimSuffix(in, ".yaml")+".txt", err.Error()+"\n")
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s:\n%s", path, d)
	}
}

func TestDidYouMean(t *testing.T) {
	f, err := Parse("models.yaml", []byte(minimal+strings.ReplaceAll(minimal[len("models:\n"):], "model_name: a", "model_name: kokoro-82m")))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, want string }{
		{"kokoro82m", `models.yaml has no model "kokoro82m" (did you mean kokoro-82m?): it lists a, kokoro-82m`},
		{"Kokoro-82M", `models.yaml has no model "Kokoro-82M" (did you mean kokoro-82m?): it lists a, kokoro-82m`},
		{"parrot", `models.yaml has no model "parrot": it lists a, kokoro-82m`},
	} {
		if _, err := f.Model(c.name); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func TestLoadMissing(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "models.yaml"))
	if err == nil || !strings.Contains(err.Error(), "--models FILE") {
		t.Error(err)
	}
}

// planned is what plan --write sets.
var planned = map[string]any{
	"min_instances": 1, "max_instances": 9, "scaling_target_value": new(37.5), "scale_in_threshold": 25.0, "queue_max_depth": 50,
	"scale_out_cooldown_s": 30, "scale_in_cooldown_s": 960, "peak_rps": 5000.0, "trough_rps": 10.0,
	"plan": "artifacts/plan-kokoro-82m-slots-g5xlarge-8b1b96bc.json",
}

func TestEditShipped(t *testing.T) {
	f, err := Load("../../models.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.Edit("kokoro-82m", planned)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Parse("models.yaml", out)
	if err != nil {
		t.Fatal(err)
	}
	m := g.Models[0]
	if !m.ScalingEnabled() || *m.ScalingTargetValue != 37.5 || *m.ScaleInThreshold != 25 || *m.QueueMaxDepth != 50 || *m.ScaleInCooldown != 960 || *m.PeakRPS != 5000 || m.Plan != planned["plan"] {
		t.Errorf("got %+v", m)
	}
	if before, after := strings.Count(string(f.text), "#"), strings.Count(string(out), "#"); before != after {
		t.Errorf("%d comments became %d", before, after)
	}
	// Whatever the edit did not name is there as before, in its order.
	rest := string(out)
	for _, line := range strings.SplitAfter(string(f.text), "\n") {
		key, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		if _, set := planned[key]; set {
			continue
		}
		at := strings.Index(rest, line)
		if at < 0 {
			t.Fatalf("lost: %s", line)
		}
		rest = rest[at+len(line):]
	}
	if again, err := g.Edit("kokoro-82m", planned); err != nil || string(again) != string(out) {
		t.Errorf("a second time is not the same: %v", err)
	}
}

func TestEdit(t *testing.T) {
	const head = "models:\n- model_name: a\n  instance_type: ml.g5.xlarge\n"
	for _, c := range []struct{ name, in, want string }{
		{"in place, comment kept", head + "  max_instances: 1 # most\n  ttfab_slo_ms: 300\n", head + "  max_instances: 9 # most\n  ttfab_slo_ms: 300\n"},
		{"quoted neighbour, odd spaces", head + "  plan:   'it''s' # x\n  max_instances:\t  1\n  ttfab_slo_ms: 300\n", head + "  plan:   'it''s' # x\n  max_instances:\t  9\n  ttfab_slo_ms: 300\n"},
		{"empty value", head + "  max_instances:   # to be filled\n  ttfab_slo_ms: 300\n", head + "  max_instances: 9   # to be filled\n  ttfab_slo_ms: 300\n"},
		{"absent: below the field before it", head + "  # the promise\n  ttfab_slo_ms: 300\n", head + "  max_instances: 9\n  # the promise\n  ttfab_slo_ms: 300\n"},
		{"absent, and no newline at the end", "models:\n- ttfab_slo_ms: 300\n  instance_type: ml.g5.xlarge\n  model_name: a", "models:\n- ttfab_slo_ms: 300\n  instance_type: ml.g5.xlarge\n  max_instances: 9\n  model_name: a"},
		{"absent after the last line", "models:\n- model_name: a\n  ttfab_slo_ms: 300\n  instance_type: ml.g5.xlarge", "models:\n- model_name: a\n  ttfab_slo_ms: 300\n  instance_type: ml.g5.xlarge\n  max_instances: 9"},
		{"carriage returns", "models:\r\n- model_name: a\r\n  instance_type: ml.g5.xlarge\r\n  ttfab_slo_ms: 300\r\n", "models:\r\n- model_name: a\r\n  instance_type: ml.g5.xlarge\r\n  max_instances: 9\r\n  ttfab_slo_ms: 300\r\n"},
		{"equal already, however written", head + "  max_instances: +9\n  ttfab_slo_ms: 300\n", head + "  max_instances: +9\n  ttfab_slo_ms: 300\n"},
		{"letters of many bytes before it", head + "  price_source: précis – 価格\n  price_per_hour: 1\n  price_date: 2026-08-04\n  max_instances: 1\n  ttfab_slo_ms: 300\n", head + "  price_source: précis – 価格\n  price_per_hour: 1\n  price_date: 2026-08-04\n  max_instances: 9\n  ttfab_slo_ms: 300\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse("models.yaml", []byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.Edit("a", map[string]any{"max_instances": 9})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, string(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestEditRefused(t *testing.T) {
	for _, c := range []struct {
		name, in, model string
		set             map[string]any
		want            string
	}{
		{"unknown model", minimal, "b", nil, "no model"},
		{"unknown field", minimal, "a", map[string]any{"max": 1}, "max is no field that can be set"},
		{"a block", minimal, "a", map[string]any{"weights": 1}, "no field that can be set"},
		{"breaks a rule", minimal, "a", map[string]any{"min_instances": 5}, "min may be at most max"},
		{"not finite", minimal, "a", map[string]any{"peak_rps": -1.0}, "requests a second above 0"},
		{"in braces", "models: [{model_name: a, instance_type: ml.g5.xlarge, ttfab_slo_ms: 3}]", "a", map[string]any{"max_instances": 2}, "written in braces"},
		{"over two lines", minimal + "    plan: \"a\n      b\"\n", "a", map[string]any{"plan": "c"}, "write it on one line"},
		{"not UTF-8", minimal, "a", map[string]any{"plan": "a\xfdb"}, "not UTF-8"},
		{"a type that cannot be written", minimal, "a", map[string]any{"plan": []int{1}}, "type []int"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse("models.yaml", []byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Edit(c.model, c.set); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// FuzzEdit: whatever is read can be set, reads back as set, changes no other model, and setting it again changes
// nothing.
func FuzzEdit(f *testing.F) {
	shipped, err := os.ReadFile("../../models.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(shipped), 9, 37.5, "artifacts/plan.json")
	f.Add(minimal, 2, 0.25, "null")
	f.Add("models:\n- {model_name: a, instance_type: ml.a.b, ttfab_slo_ms: 1}\n", 1, 1.0, "x: y # z")
	f.Add("models:\n - model_name: 'a'\n   instance_type: \"ml.a.b\"\n   ttfab_slo_ms: 1\n   plan: |\n    x\n   max_instances:\n", 3, 1.0, "…")
	f.Fuzz(func(t *testing.T, text string, max int, target float64, plan string) {
		file, err := Parse("models.yaml", []byte(text))
		if err != nil {
			return
		}
		name := file.Models[0].Name
		set := map[string]any{"max_instances": max, "scaling_target_value": target, "plan": plan}
		out, err := file.Edit(name, set)
		if err != nil {
			return
		}
		g, err := Parse("models.yaml", out)
		if err != nil {
			t.Fatal(err)
		}
		m := g.Models[0]
		if m.MaxInstances != max || m.ScalingTargetValue == nil || *m.ScalingTargetValue != target || m.Plan != plan {
			t.Fatalf("set %v, read %+v", set, m)
		}
		if !reflect.DeepEqual(file.Models[1:], g.Models[1:]) {
			t.Fatal("another model changed")
		}
		again, err := g.Edit(name, set)
		if err != nil || string(again) != string(out) {
			t.Fatalf("a second time: %v\n%s", err, again)
		}
	})
}
