package local

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aastypes "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker"
	smtypes "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
	rt "github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	rttypes "github.com/aws/aws-sdk-go-v2/service/sagemakerruntime/types"

	"loadline/internal/fleet"
)

const voice = "voice"

// hosting creates an endpoint that holds inference components, on 0 to 2 instances, and one component of it.
func (s *stepper) hosting(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	if _, err := s.sm.CreateModel(ctx, &sm.CreateModelInput{ModelName: aws.String("kokoro"), ExecutionRoleArn: aws.String("arn:aws:iam::000000000000:role/r"),
		PrimaryContainer: &smtypes.ContainerDefinition{Image: aws.String("image@sha256:" + strings.Repeat("ab", 32))}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.sm.CreateEndpointConfig(ctx, &sm.CreateEndpointConfigInput{EndpointConfigName: aws.String("hosts"), ExecutionRoleArn: aws.String("arn:aws:iam::000000000000:role/r"),
		ProductionVariants: []smtypes.ProductionVariant{{VariantName: aws.String("primary"), InstanceType: "ml.g5.12xlarge", InitialInstanceCount: aws.Int32(1),
			ManagedInstanceScaling: &smtypes.ProductionVariantManagedInstanceScaling{Status: "ENABLED", MinInstanceCount: aws.Int32(0), MaxInstanceCount: aws.Int32(2)}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.sm.CreateEndpoint(ctx, &sm.CreateEndpointInput{EndpointName: aws.String(speech), EndpointConfigName: aws.String("hosts")}); err != nil {
		t.Fatal(err)
	}
	s.step(2 * time.Minute)
	if out := s.settled(t); *out.ProductionVariants[0].CurrentInstanceCount != 1 {
		t.Fatalf("%+v", out.ProductionVariants[0])
	}
	if _, err := s.sm.CreateInferenceComponent(ctx, &sm.CreateInferenceComponentInput{InferenceComponentName: aws.String(voice), EndpointName: aws.String(speech), VariantName: aws.String("primary"),
		Specification: &smtypes.InferenceComponentSpecification{ModelName: aws.String("kokoro"),
			ComputeResourceRequirements: &smtypes.InferenceComponentComputeResourceRequirements{MinMemoryRequiredInMb: aws.Int32(1024),
				NumberOfAcceleratorDevicesRequired: aws.Float32(1), NumberOfCpuCoresRequired: aws.Float32(2)}},
		RuntimeConfig: &smtypes.InferenceComponentRuntimeConfig{CopyCount: aws.Int32(1)}}); err != nil {
		t.Fatal(err)
	}
	s.copies(t, 1)
}

// copies steps until the component is in service with so many copies, which start in real time.
func (s *stepper) copies(t *testing.T, want int32) time.Duration {
	t.Helper()
	from := s.elapsed()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); s.step(5 * time.Second) {
		out, err := s.sm.DescribeInferenceComponent(t.Context(), &sm.DescribeInferenceComponentInput{InferenceComponentName: aws.String(voice)})
		if err != nil {
			t.Fatal(err)
		}
		if out.InferenceComponentStatus == "InService" && *out.RuntimeConfig.CurrentCopyCount == want && *out.RuntimeConfig.DesiredCopyCount == want {
			return s.elapsed() - from
		}
		<-time.After(time.Millisecond)
	}
	t.Fatalf("never %d copies; activities %+v", want, s.activitiesOf(t, "inference-component/"+voice))
	return 0
}

func (s *stepper) activitiesOf(t *testing.T, id string) []aastypes.ScalingActivity {
	t.Helper()
	out, err := s.aas.DescribeScalingActivities(t.Context(), &aas.DescribeScalingActivitiesInput{ServiceNamespace: "sagemaker", ResourceId: &id})
	if err != nil {
		t.Fatal(err)
	}
	return out.ScalingActivities
}

func (s *stepper) speak(t *testing.T) error {
	t.Helper()
	_, err := s.rt.InvokeEndpoint(t.Context(), &rt.InvokeEndpointInput{EndpointName: aws.String(speech), InferenceComponentName: aws.String(voice), Body: []byte("x")})
	return err
}

// TestComponentsLog: an error of a component's copy names the stream that its container writes to.
func TestComponentsLog(t *testing.T) {
	s := stepping(t, Config{CopyStages: fleet.Stages{Provision: 60 * time.Second}, Stages: fleet.Stages{Provision: 100 * time.Second}},
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	s.hosting(t)
	var me *rttypes.ModelError
	if err := s.speak(t); !errors.As(err, &me) {
		t.Fatal(err)
	}
	if want := "arn:aws:logs:us-east-1:000000000000:log-group:/aws/sagemaker/InferenceComponents/" + voice + ":log-stream:primary/"; !strings.HasPrefix(*me.LogStreamArn, want) {
		t.Errorf("%s, want %s…", *me.LogStreamArn, want)
	}
}

// TestScaleToZero: a component that nobody calls goes to no copy, and its endpoint to no instance; the next caller is
// refused, and a step policy on that brings one copy back.
func TestScaleToZero(t *testing.T) {
	s := stepping(t, Config{CopyStages: fleet.Stages{Provision: 60 * time.Second, Settle: 5 * time.Second}, Stages: fleet.Stages{Provision: 100 * time.Second}, Start: nil,
		Endpoints: nil}, ok)
	s.hosting(t)
	ctx := t.Context()
	id, dimension := aws.String("inference-component/"+voice), aastypes.ScalableDimension("sagemaker:inference-component:DesiredCopyCount")
	if _, err := s.aas.RegisterScalableTarget(ctx, &aas.RegisterScalableTargetInput{ServiceNamespace: "sagemaker", ResourceId: id, ScalableDimension: dimension,
		MinCapacity: aws.Int32(0), MaxCapacity: aws.Int32(6)}); err != nil {
		t.Fatal(err)
	}
	put := func(name, metric string, target float64) error {
		_, err := s.aas.PutScalingPolicy(ctx, &aas.PutScalingPolicyInput{PolicyName: &name, ServiceNamespace: "sagemaker", ResourceId: id, ScalableDimension: dimension,
			PolicyType: "TargetTrackingScaling", TargetTrackingScalingPolicyConfiguration: &aastypes.TargetTrackingScalingPolicyConfiguration{TargetValue: &target,
				PredefinedMetricSpecification: &aastypes.PredefinedMetricSpecification{PredefinedMetricType: aastypes.MetricType(metric)}}})
		return err
	}
	if err := put("calls", "SageMakerInferenceComponentInvocationsPerCopy", 5); err != nil {
		t.Fatal(err)
	}
	if err := put("streams", "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution", 2); err != nil {
		t.Fatal(err)
	}
	wants(t, put("wrong", "SageMakerVariantInvocationsPerInstance", 5), "ValidationException", 400, "Unsupported predefined metric type")
	wake, err := s.aas.PutScalingPolicy(ctx, &aas.PutScalingPolicyInput{PolicyName: aws.String("wake"), ServiceNamespace: "sagemaker", ResourceId: id, ScalableDimension: dimension,
		PolicyType: "StepScaling", StepScalingPolicyConfiguration: &aastypes.StepScalingPolicyConfiguration{AdjustmentType: "ChangeInCapacity", Cooldown: aws.Int32(60),
			StepAdjustments: []aastypes.StepAdjustment{{MetricIntervalLowerBound: aws.Float64(0), ScalingAdjustment: aws.Int32(1)}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.cw.PutMetricAlarm(ctx, &cw.PutMetricAlarmInput{AlarmName: aws.String("no-capacity"), Namespace: aws.String("AWS/SageMaker"), MetricName: aws.String("NoCapacityInvocationFailures"),
		Statistic: "Maximum", Period: aws.Int32(60), EvaluationPeriods: aws.Int32(1), Threshold: aws.Float64(1), ComparisonOperator: "GreaterThanOrEqualToThreshold",
		TreatMissingData: aws.String("notBreaching"), AlarmActions: []string{*wake.PolicyARN},
		Dimensions: []cwtypes.Dimension{{Name: aws.String("InferenceComponentName"), Value: aws.String(voice)}}}); err != nil {
		t.Fatal(err)
	}

	// Load: fourteen calls a minute at five a copy are three copies, which one instance holds.
	if err := s.speak(t); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		for range 14 {
			if err := s.speak(t); err != nil {
				t.Fatal(err)
			}
		}
		s.step(time.Minute)
		if len(s.activitiesOf(t, *id)) > 0 {
			break
		}
	}
	quiet := s.elapsed()
	s.copies(t, 3)

	// Silence: to nothing, and the instance goes a minute after the copies.
	s.copies(t, 0)
	if took := s.elapsed() - quiet; took < 14*time.Minute || took > 17*time.Minute {
		t.Errorf("it was scaled to nothing after %s", took)
	}
	s.step(70 * time.Second)
	if out := s.settledNow(t); *out.ProductionVariants[0].CurrentInstanceCount != 0 {
		t.Errorf("%d instances are left", *out.ProductionVariants[0].CurrentInstanceCount)
	}

	// A caller: refused, and a copy comes with its instance.
	wants(t, s.speak(t), "ValidationError", 400, "no capacity to process this request")
	if took := s.copies(t, 1); took < 3*time.Minute || took > 6*time.Minute {
		t.Errorf("a copy came %s after the call", took)
	}
	if err := s.speak(t); err != nil {
		t.Errorf("with a copy there: %v", err)
	}
	log := s.activitiesOf(t, *id)
	if a := log[0]; a.StatusCode != "Successful" || *a.Description != "Setting desired copy count to 1." || !strings.HasPrefix(*a.Cause, "monitor alarm no-capacity in state ALARM triggered policy wake") {
		t.Errorf("%s %s %s", a.StatusCode, *a.Description, *a.Cause)
	}

	// Deleting: components first, and their targets with them.
	_, err = s.sm.DeleteEndpoint(ctx, &sm.DeleteEndpointInput{EndpointName: aws.String(speech)})
	wants(t, err, "ValidationException", 400, "inference components")
	if _, err := s.sm.DeleteInferenceComponent(ctx, &sm.DeleteInferenceComponentInput{InferenceComponentName: aws.String(voice)}); err != nil {
		t.Fatal(err)
	}
	if out := s.targets(t, aas.DescribeScalableTargetsInput{}); len(out.ScalableTargets) != 0 {
		t.Errorf("%+v", out.ScalableTargets)
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if out, err := s.sm.ListInferenceComponents(ctx, &sm.ListInferenceComponentsInput{}); err == nil && len(out.InferenceComponents) == 0 {
			break
		}
	}
	if _, err := s.sm.DeleteEndpoint(ctx, &sm.DeleteEndpointInput{EndpointName: aws.String(speech)}); err != nil {
		t.Error(err)
	}
	_, err = s.sm.DescribeEndpoint(ctx, &sm.DescribeEndpointInput{EndpointName: aws.String(speech)})
	wants(t, err, "ValidationException", 400, "Could not find endpoint")
}

func (s *stepper) settledNow(t *testing.T) *sm.DescribeEndpointOutput {
	t.Helper()
	out, err := s.sm.DescribeEndpoint(t.Context(), &sm.DescribeEndpointInput{EndpointName: aws.String(speech)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
