// Package decoded holds what a plan printed for Kubernetes to KEDA's and Kubernetes' own types. Its package keda is made by
// the overlay that the test around it writes; KUBE_MANIFESTS is the folder of what was printed.
package decoded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	keda "loadline/test/kube/keda"
)

func manifest(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(os.Getenv("KUBE_MANIFESTS"), name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestScaledObject(t *testing.T) {
	text := manifest(t, "rate.keda.yaml")
	var so keda.ScaledObject
	if err := yaml.UnmarshalStrict(text, &so); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if so.APIVersion != keda.SchemeGroupVersion.String() || so.Kind != "ScaledObject" || len(validation.IsDNS1123Label(so.Name)) > 0 || so.Name != "speech-my-voice-v2" {
		t.Errorf("%s %s %q", so.APIVersion, so.Kind, so.Name)
	}
	for what, err := range map[string]error{
		"replicas": keda.CheckReplicaCountBoundsAreValid(&so), "fallback": keda.CheckFallbackValid(&so), "triggers": keda.ValidateTriggers(so.Spec.Triggers),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(so.Spec.Triggers) != 1 {
		t.Fatalf("%d triggers", len(so.Spec.Triggers))
	}
	trigger := so.Spec.Triggers[0]
	threshold := decimal(t, trigger.Metadata["threshold"])
	peak := float64(so.Spec.Fallback.Replicas)
	// The target is set a tenth below what an instance carries: with that tenth let pass, the fleet of the peak carries the
	// peak, and one instance less would not.
	if trigger.Type != "prometheus" || trigger.MetricType != autoscaling.AverageValueMetricType || 1.1*threshold*peak < 1000 || 1.1*threshold*(peak-1) >= 1000.1 {
		t.Errorf("%s %s: %.1f a second each, %g instances", trigger.Type, trigger.MetricType, threshold, peak)
	}
	behaved(t, so.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior)
}

func TestHorizontalPodAutoscaler(t *testing.T) {
	text := manifest(t, "rate.hpa.yaml")
	var h autoscaling.HorizontalPodAutoscaler
	if err := yaml.UnmarshalStrict(text, &h); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if h.APIVersion != autoscaling.SchemeGroupVersion.String() || h.Kind != "HorizontalPodAutoscaler" || *h.Spec.MinReplicas < 1 || h.Spec.MaxReplicas < *h.Spec.MinReplicas {
		t.Errorf("%s %s, %d to %d", h.APIVersion, h.Kind, *h.Spec.MinReplicas, h.Spec.MaxReplicas)
	}
	if len(h.Spec.Metrics) != 1 || h.Spec.Metrics[0].Type != autoscaling.PodsMetricSourceType {
		t.Fatalf("%+v", h.Spec.Metrics)
	}
	m := h.Spec.Metrics[0].Pods
	if m.Metric.Name != "http_requests_per_second" || m.Target.Type != autoscaling.AverageValueMetricType || !(m.Target.AverageValue.AsApproximateFloat64() > 0) {
		t.Errorf("%+v", m)
	}
	behaved(t, h.Spec.Behavior)
}

// Streams of minutes are scaled on how many are in flight.
func TestStreamsAreCountedInFlight(t *testing.T) {
	text := manifest(t, "streams.keda.yaml")
	var so keda.ScaledObject
	if err := yaml.UnmarshalStrict(text, &so); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if q := so.Spec.Triggers[0].Metadata["query"]; !strings.Contains(q, "in_flight") || !(decimal(t, so.Spec.Triggers[0].Metadata["threshold"]) < 4) {
		t.Errorf("%v", so.Spec.Triggers[0].Metadata)
	}
}

// behaved holds a behaviour to the API's limits.
func behaved(t *testing.T, b *autoscaling.HorizontalPodAutoscalerBehavior) {
	t.Helper()
	for _, rules := range []*autoscaling.HPAScalingRules{b.ScaleUp, b.ScaleDown} {
		if s := *rules.StabilizationWindowSeconds; s < 0 || s > 3600 {
			t.Errorf("a window of %d s", s)
		}
		for _, p := range rules.Policies {
			if p.PeriodSeconds <= 0 || p.PeriodSeconds > 1800 || p.Value <= 0 {
				t.Errorf("%+v", p)
			}
		}
	}
	if *b.ScaleDown.StabilizationWindowSeconds < 270 { // three times T of 90 s
		t.Errorf("scale-in after %d s", *b.ScaleDown.StabilizationWindowSeconds)
	}
}

func decimal(t *testing.T, s string) float64 {
	t.Helper()
	q, err := resource.ParseQuantity(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return q.AsApproximateFloat64()
}
