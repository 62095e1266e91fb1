package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"

	"loadline/internal/awsfleet"
	"loadline/internal/exit"
)

const localImage = "000000000000.dkr.ecr.us-east-1.amazonaws.com/speech@sha256:8b1b96bc4dc0b30ddd84d8fe37af7c490937333c44a9f8f7d77b918c3d7eaced"

func awsAt(t *testing.T, url string) aws.Config {
	t.Helper()
	cfg, _, err := awsfleet.Load(t.Context(), awsfleet.Config{Region: "us-east-1", EndpointURL: url})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// withComponent makes an endpoint whose one variant holds one copy of an inference component.
func withComponent(t *testing.T, url, component string) {
	t.Helper()
	c := sagemaker.NewFromConfig(awsAt(t, url))
	name, role := aws.String(localEndpoint), aws.String("arn:aws:iam::000000000000:role/speech")
	if _, err := c.CreateEndpointConfig(t.Context(), &sagemaker.CreateEndpointConfigInput{EndpointConfigName: name, ExecutionRoleArn: role, ProductionVariants: []sm.ProductionVariant{{
		VariantName: aws.String("primary"), InstanceType: "ml.g5.xlarge", InitialInstanceCount: aws.Int32(1)}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateEndpoint(t.Context(), &sagemaker.CreateEndpointInput{EndpointName: name, EndpointConfigName: name}); err != nil {
		t.Fatal(err)
	}
	if err := sagemaker.NewEndpointInServiceWaiter(c, func(o *sagemaker.EndpointInServiceWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 100*time.Millisecond
	}).Wait(t.Context(), &sagemaker.DescribeEndpointInput{EndpointName: name}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateInferenceComponent(t.Context(), &sagemaker.CreateInferenceComponentInput{InferenceComponentName: &component, EndpointName: name, VariantName: aws.String("primary"),
		RuntimeConfig: &sm.InferenceComponentRuntimeConfig{CopyCount: aws.Int32(1)},
		Specification: &sm.InferenceComponentSpecification{
			Container:                   &sm.InferenceComponentContainerSpecification{Image: aws.String(localImage), Environment: map[string]string{"MAX_QUEUE_DEPTH": "53"}},
			ComputeResourceRequirements: &sm.InferenceComponentComputeResourceRequirements{MinMemoryRequiredInMb: aws.Int32(1024), NumberOfCpuCoresRequired: aws.Float32(1)},
		}}); err != nil {
		t.Fatal(err)
	}
	for ctx := t.Context(); ; {
		out, err := c.DescribeInferenceComponent(ctx, &sagemaker.DescribeInferenceComponentInput{InferenceComponentName: &component})
		if err != nil || out.InferenceComponentStatus == sm.InferenceComponentStatusFailed {
			t.Fatal(err, aws.ToString(out.FailureReason))
		}
		if out.InferenceComponentStatus == sm.InferenceComponentStatusInService {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// oneSecond adds a second to the scale-in cooldown of a target-tracking policy.
func oneSecond(ctx context.Context, t *testing.T, cfg aws.Config, resource, dimension, policy string) {
	t.Helper()
	c := applicationautoscaling.NewFromConfig(cfg)
	out, err := c.DescribeScalingPolicies(ctx, &applicationautoscaling.DescribeScalingPoliciesInput{ServiceNamespace: aas.ServiceNamespaceSagemaker, ResourceId: &resource, PolicyNames: []string{policy}})
	if err != nil || len(out.ScalingPolicies) != 1 {
		t.Fatalf("policy %s of %s: %v", policy, resource, err)
	}
	tracking := out.ScalingPolicies[0].TargetTrackingScalingPolicyConfiguration
	*tracking.ScaleInCooldown++
	if _, err := c.PutScalingPolicy(ctx, &applicationautoscaling.PutScalingPolicyInput{ServiceNamespace: aas.ServiceNamespaceSagemaker, ResourceId: &resource, ScalableDimension: aas.ScalableDimension(dimension),
		PolicyName: &policy, PolicyType: aas.PolicyTypeTargetTrackingScaling, TargetTrackingScalingPolicyConfiguration: tracking}); err != nil {
		t.Fatal(err)
	}
}

// TestSignals takes every signal through plan, apply, drift and validate: invocations, high-resolution concurrency, both of
// an inference component's copies, and processors.
func TestSignals(t *testing.T) {
	t.Parallel()
	ladder, err := filepath.Abs("testdata/qmax-quick.json")
	if err != nil {
		t.Fatal(err)
	}
	variant := served(t, "--queue-depth", "53")
	copies := served(t, "--empty", "--start", "100ms")
	withComponent(t, copies, "voice")
	const instances, components = "endpoint/" + localEndpoint + "/variant/primary", "inference-component/voice"
	for _, c := range []struct {
		name, url, resource, dimension, policy string
		args                                   []string
		says                                   []string
	}{
		{"rate and concurrency", variant, instances, "sagemaker:variant:DesiredInstanceCount", "loadline-rate", []string{"--candidate", "both, steps"},
			[]string{"metric: SageMakerVariantInvocationsPerInstance", "metric: AWS/SageMaker ConcurrentRequestsPerModel", "period: 10"}},
		{"concurrency", variant, instances, "sagemaker:variant:DesiredInstanceCount", "loadline-concurrency-out", []string{"--rule", "slots"},
			[]string{"metric: SageMakerVariantConcurrentRequestsPerModelHighResolution", "period: 10"}},
		{"processors", variant, instances, "sagemaker:variant:DesiredInstanceCount", "loadline-cpu", []string{"--cpu", "70", "--vcpus", "4"},
			[]string{"#loadline-cpu: target value: 280", "metric: /aws/sagemaker/Endpoints CPUUtilization", "dimensions: EndpointName=" + localEndpoint + " VariantName=primary", "#loadline-cpu: scale-in disabled: on"}},
		{"rate and concurrency per copy", copies, components, "sagemaker:inference-component:DesiredCopyCount", "loadline-rate", []string{"--component", "voice", "--candidate", "both, steps"},
			[]string{"metric: SageMakerInferenceComponentInvocationsPerCopy", "metric: AWS/SageMaker ConcurrentRequestsPerCopy", "dimensions: InferenceComponentName=voice"}},
		{"concurrency per copy", copies, components, "sagemaker:inference-component:DesiredCopyCount", "loadline-concurrency-out", []string{"--component", "voice", "--rule", "slots"},
			[]string{"metric: SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"}},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "models.yaml"), []byte("models:\n  - model_name: "+localEndpoint+"\n    endpoint_name: "+localEndpoint+"\n    instance_type: ml.g5.xlarge\n    ttfab_slo_ms: 300\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		ran(t, dir, exit.OK, "wrote "+localEndpoint, append([]string{"plan", "--qmax", ladder, "--assume-t-total", "170", "--peak-rps", "800", "--trough-rps", "40", "--write", "--accept", "fleet_throughput"}, c.args...)...)
		plans, err := filepath.Glob(filepath.Join(dir, "artifacts/plan-*.json"))
		if err != nil || len(plans) != 1 {
			t.Fatalf("%s: plans %v, %v", c.name, plans, err)
		}
		validate := []string{"validate", "--plan", plans[0], "--endpoint-url", c.url}
		apply := []string{"apply", "--plan", plans[0], "--endpoint-url", c.url, "--yes"}
		drift := []string{"drift", "--model", localEndpoint, "--endpoint-url", c.url}
		ran(t, dir, exit.OK, "applied and read back", apply...)
		said := ran(t, dir, exit.OK, "every alarm and the fingerprint equal the plan", validate...)
		for _, want := range append(c.says, c.resource) {
			if !strings.Contains(said, want) {
				t.Errorf("%s: validate does not compare %s:\n%s", c.name, want, said)
			}
		}
		ran(t, dir, exit.OK, "preflight-ok", drift...)
		ran(t, dir, exit.OK, "nothing to do", append(apply, "--dry-run")...)

		oneSecond(t.Context(), t, awsAt(t, c.url), c.resource, c.dimension, c.policy)
		ran(t, dir, exit.No, "DIFFERS "+c.resource+"#"+c.policy+": scale-in cooldown", validate...)
		ran(t, dir, exit.No, "scale-in cooldown", drift...)
		ran(t, dir, exit.OK, "change policy "+c.policy, apply...)
		ran(t, dir, exit.OK, "preflight-ok", drift...)
	}
	dir := t.TempDir()
	ran(t, dir, exit.Misused, "exclude each other: processors", "plan", "--qmax", ladder, "--assume-t-total", "170", "--peak-rps", "800", "--component", "voice", "--cpu", "70", "--vcpus", "4")
	ran(t, dir, exit.Misused, "give --vcpus N", "plan", "--qmax", ladder, "--assume-t-total", "170", "--peak-rps", "800", "--cpu", "70")
}
