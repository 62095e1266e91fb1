package plan

import (
	"strings"
	"testing"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
)

func at(v float64) *float64 { return &v }

func kubePlan() *artifact.Plan {
	p := &artifact.Plan{Rule: capacity.RuleFlow, Verdict: capacity.OK, Flow: capacity.Rule{
		Defined: true, Signal: capacity.SignalRate, LambdaStar: at(8.25), ScalingTarget: at(495), Min: 2, Max: 9, Peak: 7, QueueMaxDepth: 53,
		InCooldown: 5000, Lag: capacity.Lag{T: 320},
	}, Slots: capacity.Rule{Defined: true, CScaleMax: at(37.5), Min: 3, Max: 4, Peak: 4, InCooldown: 600}}
	p.Target = artifact.Target{Model: "mine", URL: "http://127.0.0.1/", Transport: "http"}
	return p
}

func TestKubernetes(t *testing.T) {
	for _, tc := range []struct {
		name, format string
		edit         func(p *artifact.Plan)
		want         []string
		refused      string
	}{
		{"rate", "keda", nil, []string{"name: speech-mine", "minReplicaCount: 2", "maxReplicaCount: 9", "replicas: 7", "sum(rate(http_requests_total", `threshold: "7.5"`,
			"stabilizationWindowSeconds: 3600", "periodSeconds: 320", "8.25 requests a second (λ*)"}, ""},
		{"rate", "hpa", nil, []string{"kind: HorizontalPodAutoscaler", "minReplicas: 2", "name: http_requests_per_second", `averageValue: "7.5"`}, ""},
		{"streams", "keda", func(p *artifact.Plan) {
			p.Flow.Signal, p.Flow.ScalingTarget, p.Flow.SignalWhy = capacity.SignalConcurrency, at(2.2), "too few"
		}, []string{"sum(http_requests_in_flight", `threshold: "2"`, "held at λ*: too few"}, ""},
		{"slots", "keda", func(p *artifact.Plan) { p.Rule = capacity.RuleSlots }, []string{"sum(http_requests_in_flight", `threshold: "34.09"`, "minReplicaCount: 3"}, ""},
		{"stopped", "keda", func(p *artifact.Plan) { p.Verdict = capacity.Stop }, nil, "the plan is stopped"},
		{"an endpoint", "hpa", func(p *artifact.Plan) { p.Target.URL = "" }, nil, "SageMaker endpoint"},
		{"nothing to scale on", "hpa", func(p *artifact.Plan) { p.Flow.LambdaStar = nil }, nil, "no figure"},
	} {
		p := kubePlan()
		if tc.edit != nil {
			tc.edit(p)
		}
		got, err := Kubernetes(p, tc.format)
		if tc.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		for _, w := range tc.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s, %s: no %q in\n%s", tc.name, tc.format, w, got)
			}
		}
	}
}

func TestLabel(t *testing.T) {
	for in, want := range map[string]string{"speech-kokoro-82m": "speech-kokoro-82m", "speech-My_Voice.v2": "speech-my-voice-v2", "speech-" + strings.Repeat("x", 80): "speech-" + strings.Repeat("x", 56),
		"speech-żółw!": "speech-w"} {
		if got := label(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
