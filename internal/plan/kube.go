package plan

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
)

// KubeFormats are the manifests that Kubernetes prints, for a plan that was measured by URL.
var KubeFormats = []string{"keda", "hpa"}

// tolerance is what Kubernetes' autoscaler lets pass: up to a tenth above its target it adds nothing
// (--horizontal-pod-autoscaler-tolerance). The target is set so much lower, and an instance still carries what it may.
const tolerance = 0.1

// Limits of an autoscaler's behaviour (autoscaling/v2).
const (
	longestWindow = 3600 // seconds of stabilisation
	longestPeriod = 1800 // seconds of a policy
)

// Kubernetes prints the plan as a manifest: a ScaledObject of KEDA, which reads Prometheus itself, or a
// HorizontalPodAutoscaler, to which an adapter serves the metric of each pod. What Kubernetes cannot know of the plan's
// server, the name of its Deployment and of its metric, stands in it as a guess to be changed. A stopped plan is not
// printed, nor one of a SageMaker endpoint.
func Kubernetes(p *artifact.Plan, format string) (string, error) {
	k, err := kube(p)
	if err != nil {
		return "", err
	}
	if format == "hpa" {
		return k.hpa(), nil
	}
	return k.keda(), nil
}

// manifest is what both say.
type manifest struct {
	name          string // a DNS label
	metric        string // of a pod
	per           string // what the metric counts
	target        float64
	whole         string // where the target comes from
	min, max      int
	peak          int
	upBy, upEach  int // percent, seconds
	window, every int
	about         []string
}

func kube(p *artifact.Plan) (manifest, error) {
	switch {
	case p.Verdict == capacity.Stop:
		return manifest{}, fmt.Errorf("the plan is stopped by %s: no manifest is printed until that is mended or taken on (--accept)", strings.Join(Stops(p), ", "))
	case p.Target.URL == "":
		return manifest{}, errors.New("the plan is of a SageMaker endpoint, which Kubernetes does not scale: --emit aws-cli, or measure your own server by --url")
	}
	r := p.Selected()
	k := manifest{name: label("speech-" + p.Target.Model), min: r.Min, max: max(r.Max, r.Min), peak: r.Peak}
	switch {
	case p.Rule == capacity.RuleSlots && r.CScaleMax != nil:
		k.metric, k.per, k.target, k.whole = "http_requests_in_flight", "requests in flight", *r.CScaleMax, "C_scale_max"
	case r.Signal == capacity.SignalConcurrency && r.ScalingTarget != nil:
		k.metric, k.per, k.target, k.whole = "http_requests_in_flight", "requests in flight", *r.ScalingTarget, "held at λ*: "+r.SignalWhy
	case r.LambdaStar != nil:
		k.metric, k.per, k.target, k.whole = "http_requests", "requests a second", *r.LambdaStar, "λ*"
	default:
		return manifest{}, errors.New("the plan has no figure to scale on: its notes say why")
	}
	k.target /= 1 + tolerance
	// Out as soon as it is seen, up to twice the fleet a minute: the plan's max bounds it. In by one instance in the time
	// that one more would take to come back, and only when the highest that was wanted within the cooldown allows it.
	k.upBy, k.upEach = 100, 60
	k.window = min(longestWindow, max(1, r.InCooldown))
	k.every = min(longestPeriod, max(60, int(math.Ceil(r.Lag.T))))
	k.about = []string{
		fmt.Sprintf("%s, as planned by tts-bench plan (run %s, rule %s).", p.Target.Model, p.RunID, p.Rule),
		fmt.Sprintf("An instance carries %s %s (%s). The target is a tenth lower, for the autoscaler lets a tenth pass.", number3(k.target*(1+tolerance)), k.per, k.whole),
		fmt.Sprintf("The peak takes %d; an instance may hold %d requests at once: bound its queue there.", r.Peak, r.QueueMaxDepth),
		"Yours to change: the name of the Deployment, the namespace, and where its metric is read.",
	}
	return k, nil
}

// metric of a whole Deployment, in the language of Prometheus.
func (k manifest) query() string {
	if k.metric == "http_requests" {
		return fmt.Sprintf(`sum(rate(http_requests_total{deployment=%q}[1m]))`, k.name)
	}
	return fmt.Sprintf(`sum(%s{deployment=%q})`, k.metric, k.name)
}

func (k manifest) head(b *strings.Builder, version, kind string) {
	for _, line := range k.about {
		fmt.Fprintf(b, "# %s\n", strings.Join(strings.Fields(line), " "))
	}
	fmt.Fprintf(b, `apiVersion: %[1]s
kind: %[2]s
metadata:
  name: %[3]s
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: %[3]s
`, version, kind, k.name)
}

// behavior is how fast the autoscaler may follow, indented by so many spaces.
func (k manifest) behavior(indent int) string {
	lines := fmt.Sprintf(`behavior:
  scaleUp:
    stabilizationWindowSeconds: 0
    policies:
    - type: Percent
      value: %d
      periodSeconds: %d
  scaleDown:
    stabilizationWindowSeconds: %d
    policies:
    - type: Pods
      value: 1
      periodSeconds: %d
`, k.upBy, k.upEach, k.window, k.every)
	pad := strings.Repeat(" ", indent)
	return pad + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n"+pad) + "\n"
}

// keda is a ScaledObject.
func (k manifest) keda() string {
	var b strings.Builder
	k.head(&b, "keda.sh/v1alpha1", "ScaledObject")
	fmt.Fprintf(&b, `  minReplicaCount: %d
  maxReplicaCount: %d
  pollingInterval: 10
  fallback: # where the metric cannot be read, the fleet of the peak
    failureThreshold: 3
    replicas: %d
  advanced:
    horizontalPodAutoscalerConfig:
`, k.min, k.max, max(k.min, min(k.peak, k.max)))
	b.WriteString(k.behavior(6))
	fmt.Fprintf(&b, `  triggers:
  - type: prometheus
    metricType: AverageValue
    metadata:
      serverAddress: http://prometheus-server.monitoring.svc
      query: %s
      threshold: "%s"
`, single(k.query()), number3(k.target))
	return b.String()
}

// hpa is a HorizontalPodAutoscaler.
func (k manifest) hpa() string {
	var b strings.Builder
	k.head(&b, "autoscaling/v2", "HorizontalPodAutoscaler")
	metric := k.metric
	if metric == "http_requests" {
		metric = "http_requests_per_second"
	}
	fmt.Fprintf(&b, `  minReplicas: %d
  maxReplicas: %d
`, k.min, k.max)
	b.WriteString(k.behavior(2))
	fmt.Fprintf(&b, `  metrics:
  - type: Pods
    pods:
      metric:
        name: %s
      target:
        type: AverageValue
        averageValue: "%s"
`, metric, number3(k.target))
	return b.String()
}

// number3 is x down to a thousandth, as a decimal that Kubernetes takes for a quantity.
func number3(x float64) string {
	s := fmt.Sprintf("%.3f", math.Max(0.001, math.Floor(x*1000*(1+1e-9))/1000))
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// single is s as a YAML scalar between single quotes.
func single(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// label makes a name fit for an object of Kubernetes: lower-case letters, digits and dashes, 63 at most.
func label(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	name := b.String()
	return strings.Trim(name[:min(len(name), 63)], "-")
}
