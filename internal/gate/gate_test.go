package gate

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/ladder"
	"loadline/internal/plan"
)

const digest = "8b1b96bc4dc0b30ddd84d8fe37af7c490937333c44a9f8f7d77b918c3d7eaced"

// made is the plan of each rule, as it is written.
var made = func() map[string]func() []byte {
	list := map[string]func() []byte{}
	for rule, peak := range map[string]float64{capacity.RuleSlots: 5000, capacity.RuleFlow: 100} {
		list[rule] = sync.OnceValue(func() []byte {
			data, err := os.ReadFile("../artifact/testdata/published/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json")
			if err != nil {
				panic(err)
			}
			q, err := artifact.ReadQMax(data)
			if err != nil {
				panic(err)
			}
			q.Fingerprint = artifact.Fingerprint{Region: "us-east-1", InstanceType: "ml.g5.xlarge", ImageDigest: digest, ContainerEnv: map[string]string{"VOICE": "af"}, QueueBound: new(0)}
			q.Certificate = &ladder.Certificate{Confidence: 0.95, N: 307, NEff: 300, Fresh: true}
			p, err := plan.Make(plan.Input{QMax: q, QMaxFile: "qmax.json", AssumeT: 320, RunID: "01K0000000000000000000TEST", CreatedAt: time.Date(2026, 8, 5, 0, 0, 0, 0, time.UTC),
				Tool: "tts-bench test", Settings: map[string]any{}, Scenario: capacity.Scenario{Rule: rule, PeakRPS: peak, TroughRPS: 10, SurgeRatio: 1.25, MinFloor: 1, Ceiling: 60, Accept: []string{"fleet_throughput"}}})
			if err != nil {
				panic(err)
			}
			if data, err = json.Marshal(p); err != nil {
				panic(err)
			}
			return data
		})
	}
	return list
}()

// matching is a model and the plan that was made for it: the gate is open.
func matching(t *testing.T, rule string) (Declared, *artifact.Plan) {
	t.Helper()
	p, err := artifact.ReadPlan(made[rule]())
	if err != nil {
		t.Fatal(err)
	}
	c := p.Config
	m := Declared{Model: "kokoro-82m", Endpoint: "speech-kokoro-82m", Variant: "primary", Region: "us-east-1", InstanceType: "ml.g5.xlarge", ImageDigest: digest,
		Env: map[string]string{"VOICE": "af"}, Min: c.MinInstances, Max: c.MaxInstances, Target: c.ScalingTargetValue, ScaleIn: c.ScaleInThreshold, QueueDepth: new(c.QueueMaxDepth),
		OutCooldown: new(c.OutCooldown), InCooldown: new(c.InCooldown), SLOMS: c.SLOMS, Percentile: c.Percentile, PlanFile: "plan.json"}
	return m, p
}

func TestOpen(t *testing.T) {
	for _, rule := range []string{capacity.RuleSlots, capacity.RuleFlow} {
		m, p := matching(t, rule)
		var accept []string
		for _, f := range p.Findings {
			if f.Accepted {
				accept = append(accept, f.Name)
			}
		}
		d := Decide(m, p, nil, accept...)
		if !d.Open || d.Reason() != "" || !strings.Contains(d.String(), "scaling is on") {
			t.Errorf("%s: closed though everything matches:\n%s", rule, d.Explain())
		}
		if rule == capacity.RuleSlots && (!slices.Equal(d.Accepted, []string{"fleet_throughput"}) || !strings.Contains(d.String(), "taken on: fleet_throughput")) {
			t.Errorf("what was taken on: %v", d.Accepted)
		}
		m.Env, p.Fingerprint.ContainerEnv = nil, map[string]string{} // none is the same as empty
		if d := Decide(m, p, nil, accept...); !d.Open {
			t.Errorf("%s: no environment against an empty one: %s", rule, &d)
		}
	}
}

// TestClosed is every way of failing: each closes the gate alone, and the reason names it.
func TestClosed(t *testing.T) {
	type edit = func(m *Declared, p *artifact.Plan)
	for _, c := range []struct {
		name, condition, reason string
		edit                    edit
	}{
		{"nothing to scale", "bounds", "leaves nothing to scale", func(m *Declared, p *artifact.Plan) {
			m.Max, m.Min, p.Config.MaxInstances, p.Config.MinInstances = 3, 3, 3, 3
		}},
		{"min 0, max 1", "bounds", "leaves nothing to scale", func(m *Declared, p *artifact.Plan) {
			m.Max, m.Min, p.Config.MaxInstances, p.Config.MinInstances = 1, 0, 1, 0
		}},
		{"quota", "quota", "may run 2 of ml.g5.xlarge", func(m *Declared, _ *artifact.Plan) { m.Quota = new(2) }},
		{"another model", "model", "of another target", func(m *Declared, p *artifact.Plan) { p.Target.Model = "piper" }},
		{"another endpoint", "model", "of another target", func(m *Declared, p *artifact.Plan) { p.Target.Endpoint = "speech-kokoro-82m-config" }},
		{"another variant", "model", "variant/AllTraffic", func(m *Declared, p *artifact.Plan) { p.Target.Variant = "AllTraffic" }},
		{"stopped", "verdict", "stopped by fleet_throughput", func(_ *Declared, p *artifact.Plan) {
			for i := range p.Findings {
				if p.Findings[i].Name == "fleet_throughput" {
					p.Findings[i].Verdict, p.Findings[i].Accepted = capacity.Stop, false
				}
			}
			p.Verdict = capacity.Stop
		}},
		{"a stop hidden by its verdict", "verdict", "stopped by", func(_ *Declared, p *artifact.Plan) {
			p.Findings[0].Verdict = capacity.Stop
			p.Findings[0].Accepted = false
		}},
		{"a stop taken on once", "accepted stops", "took on quota", func(_ *Declared, p *artifact.Plan) {
			p.Findings = append(p.Findings, capacity.Finding{Name: "quota", Verdict: capacity.Warn, Accepted: true})
		}},
		{"uncertified", "certificate", "not certified", func(_ *Declared, p *artifact.Plan) { p.Measured.QSource = "published schedule: bracketed by 50 and 60" }},
		{"no ratio", "metric units", "ratio is not known", func(_ *Declared, p *artifact.Plan) { p.Rule, p.Slots.CWRatio = capacity.RuleSlots, nil }},
		{"no policies", "metric units", "ratio is not known", func(_ *Declared, p *artifact.Plan) { p.Policies = nil }},
		{"no target", "metric units", "ratio is not known", func(_ *Declared, p *artifact.Plan) { p.Policies[0].Target = nil }},
		{"a namespace in which it is never published", "signals", "published in /aws/sagemaker/Endpoints", func(_ *Declared, p *artifact.Plan) {
			p.Policies[0].Metric = capacity.Metric{Namespace: "AWS/SageMaker", Name: "CPUUtilization", Dimensions: map[string]string{"EndpointName": "speech-kokoro-82m", "VariantName": "primary"}}
		}},
		{"an alarm on another variant", "signals", "VariantName is AllTraffic", func(_ *Declared, p *artifact.Plan) {
			p.Alarms = append(p.Alarms, capacity.Alarm{Name: "x", Metric: capacity.Metric{Namespace: "AWS/SageMaker", Name: "Invocations", Dimensions: map[string]string{"EndpointName": "speech-kokoro-82m", "VariantName": "AllTraffic"}}})
		}},
		{"no digest", "image", "no image digest", func(m *Declared, _ *artifact.Plan) { m.ImageDigest = "" }},
		{"another image", "fingerprint", "image_digest was 8b1b96bc4dc0…", func(m *Declared, _ *artifact.Plan) { m.ImageDigest = strings.Repeat("a", 64) }},
		{"another type", "fingerprint", "instance_type was ml.g5.xlarge when it was measured and is ml.g6.xlarge", func(m *Declared, _ *artifact.Plan) { m.InstanceType = "ml.g6.xlarge" }},
		{"another region", "fingerprint", "region was us-east-1", func(m *Declared, _ *artifact.Plan) { m.Region = "eu-west-1" }},
		{"no region", "region", "is not known", func(m *Declared, _ *artifact.Plan) { m.Region = "" }},
		{"a file without a region", "fingerprint", "region was not known", func(_ *Declared, p *artifact.Plan) { p.Fingerprint.Region, p.Fingerprint.NoRegion = "", true }},
		{"an environment that was not read", "fingerprint", "container_env was not known", func(_ *Declared, p *artifact.Plan) { p.Fingerprint.ContainerEnv = nil }},
		{"another environment", "fingerprint", "container_env.VOICE", func(m *Declared, _ *artifact.Plan) { m.Env = map[string]string{"VOICE": "am"} }},
		{"more environment", "fingerprint", "container_env.SCHED", func(m *Declared, _ *artifact.Plan) { m.Env = map[string]string{"VOICE": "af", "SCHED": "fifo"} }},
		{"min", "configuration", "min_instances", func(m *Declared, _ *artifact.Plan) { m.Min++ }},
		{"max", "configuration", "max_instances", func(m *Declared, _ *artifact.Plan) { m.Max++ }},
		{"target", "configuration", "scaling_target_value", func(m *Declared, _ *artifact.Plan) { m.Target = new(0.713) }},
		{"target not set", "configuration", "scaling_target_value is not set", func(m *Declared, _ *artifact.Plan) { m.Target = nil }},
		{"threshold", "configuration", "scale_in_threshold", func(m *Declared, p *artifact.Plan) { m.ScaleIn = new(0.2) }},
		{"depth", "configuration", "queue_max_depth", func(m *Declared, _ *artifact.Plan) { m.QueueDepth = new(*m.QueueDepth + 1) }},
		{"depth not set", "configuration", "queue_max_depth is not set", func(m *Declared, _ *artifact.Plan) { m.QueueDepth = nil }},
		{"out", "configuration", "scale_out_cooldown_s", func(m *Declared, _ *artifact.Plan) { m.OutCooldown = new(31) }},
		{"in", "configuration", "scale_in_cooldown_s is not set", func(m *Declared, _ *artifact.Plan) { m.InCooldown = nil }},
		{"slo", "configuration", "ttfab_slo_ms", func(m *Declared, _ *artifact.Plan) { m.SLOMS = 500 }},
		{"percentile", "configuration", "percentile", func(m *Declared, _ *artifact.Plan) { m.Percentile = 99 }},
	} {
		m, p := matching(t, capacity.RuleSlots)
		c.edit(&m, p)
		d := Decide(m, p, nil, "fleet_throughput")
		i := slices.IndexFunc(d.Conditions, func(x Condition) bool { return x.Name == c.condition })
		if d.Open || i < 0 || d.Conditions[i].OK || d.Conditions[i].Mend == "" || !strings.Contains(d.Conditions[i].Detail, c.reason) {
			t.Errorf("%s: want %s closed by %q:\n%s", c.name, c.condition, c.reason, d.Explain())
		}
		if d.Reason() == "" || !strings.Contains(d.String(), "scaling is off") {
			t.Errorf("%s: no reason is told: %s", c.name, &d)
		}
	}
}

func TestNoPlan(t *testing.T) {
	m, _ := matching(t, capacity.RuleSlots)
	for want, d := range map[string]Decision{
		"does not exist":    Decide(m, nil, nil),
		"could not be read": Decide(m, nil, errors.New("the file ends in the middle")),
		"names no plan":     func() Decision { m := m; m.PlanFile = ""; return Decide(m, nil, nil) }(),
	} {
		if d.Open || !strings.Contains(d.Reason(), want) {
			t.Errorf("want %q: %s", want, d.Explain())
		}
	}
}

func TestAcceptUncertified(t *testing.T) {
	m, p := matching(t, capacity.RuleSlots)
	p.Measured.QSource = "published schedule: bracketed"
	if d := Decide(m, p, nil, "fleet_throughput", Uncertified); !d.Open || !slices.Contains(d.Accepted, Uncertified) {
		t.Errorf("taken on, and closed: %s", d.Explain())
	}
}

func TestExplain(t *testing.T) {
	m, p := matching(t, capacity.RuleSlots)
	m.Max++
	d := Decide(m, p, nil, "fleet_throughput")
	for _, want := range []string{"kokoro-82m: scaling is off: models.yaml is not the plan's: max_instances is", "OK   certificate", "STOP configuration", "mend: tts-bench plan --write", "WARN surge_survival"} {
		if text := d.Explain(); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
