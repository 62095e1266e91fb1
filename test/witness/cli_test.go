package witness_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCLI takes the AWS CLI through what people type: an endpoint is looked at, called, scaled and watched.
func TestCLI(t *testing.T) {
	aws := need(t, "aws")
	a := serve(t, "--start", "200ms", "--verify-signatures", "--deny", "sagemaker:DeleteEndpoint,logs:Delete*")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "body"), []byte(`{"text":"Good morning."}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const target = "--service-namespace sagemaker --scalable-dimension sagemaker:variant:DesiredInstanceCount --resource-id endpoint/speech-kokoro-82m/variant/primary"
	const tracking = `{"TargetValue":37.5,"PredefinedMetricSpecification":{"PredefinedMetricType":"SageMakerVariantConcurrentRequestsPerModelHighResolution"},"ScaleOutCooldown":60,"ScaleInCooldown":300}`
	for _, c := range []struct{ line, want string }{
		{"sagemaker describe-endpoint --endpoint-name speech-kokoro-82m --query EndpointStatus --output text", "InService"},
		{"sagemaker-runtime invoke-endpoint --endpoint-name speech-kokoro-82m --content-type application/json --body fileb://body out.wav", "audio/wav"},
		// The set-up of scaling in three steps: register, put the policy, look for its alarms.
		{"application-autoscaling register-scalable-target " + target + " --min-capacity 2 --max-capacity 9", "scalable-target/"},
		{"application-autoscaling put-scaling-policy " + target + " --policy-name track --policy-type TargetTrackingScaling --target-tracking-scaling-policy-configuration " + tracking, "AlarmHigh"},
		{"cloudwatch describe-alarms --alarm-name-prefix TargetTracking-endpoint/speech-kokoro-82m --query length(MetricAlarms) --output text", "2"},
		{"application-autoscaling describe-scaling-activities --service-namespace sagemaker --query ScalingActivities[].Description --output text", "Setting desired instance count to 2."},
		{"sagemaker wait endpoint-in-service --endpoint-name speech-kokoro-82m", ""},
		{"logs filter-log-events --log-group-name /aws/sagemaker/Endpoints/speech-kokoro-82m --filter-pattern STAGE --query events[].message --output text", "=== STAGE ready "},
		{"cloudwatch put-metric-data --namespace Mine --metric-name m --value 3 --dimensions a=b", ""},
		{"cloudwatch list-metrics --namespace Mine --query Metrics[].MetricName --output text", "m"},
	} {
		if out := a.run(t, dir, append([]string{aws}, strings.Fields(c.line)...)...); !strings.Contains(out, c.want) {
			t.Errorf("aws %s: %s, without %q", c.line, out, c.want)
		}
	}
	for line, want := range map[string]string{
		"sagemaker delete-endpoint --endpoint-name speech-kokoro-82m": "AccessDenied",
		"logs delete-log-group --log-group-name /aws":                 "logs:DeleteLogGroup",
		"sagemaker list-domains":                                      "UnknownOperationException",
	} {
		if out, err := a.try(t, dir, append([]string{aws}, strings.Fields(line)...)...); err == nil || !strings.Contains(out, want) {
			t.Errorf("aws %s: %v %s, without %q", line, err, out, want)
		}
	}
	a.env = append(a.env, "AWS_SECRET_ACCESS_KEY=other")
	if out, err := a.try(t, dir, aws, "sagemaker", "list-endpoints"); err == nil || !strings.Contains(out, "InvalidSignature") {
		t.Errorf("a wrong key: %v %s", err, out)
	}
}

// TestReady is how long sagemaker-local takes until it serves.
func TestReady(t *testing.T) {
	best := time.Hour
	for range 5 {
		began := time.Now()
		serve(t)
		best = min(best, time.Since(began))
	}
	t.Logf("ready after %s at best", best.Round(time.Millisecond))
	if best > 300*time.Millisecond {
		t.Errorf("ready after %s, not within 300 ms", best)
	}
}
