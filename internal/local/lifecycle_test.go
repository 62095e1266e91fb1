package local

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker"
	smtypes "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"

	"loadline/internal/fleet"
)

// made creates a model, a configuration of so many instances and an endpoint, all of that name.
func (w *world) made(t *testing.T, name string, instances int32) error {
	t.Helper()
	_, err := w.sm.CreateModel(t.Context(), &sm.CreateModelInput{ModelName: &name, ExecutionRoleArn: aws.String("arn:aws:iam::000000000000:role/x"),
		PrimaryContainer: &smtypes.ContainerDefinition{Image: aws.String("image")}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.sm.CreateEndpointConfig(t.Context(), &sm.CreateEndpointConfigInput{EndpointConfigName: &name, ProductionVariants: []smtypes.ProductionVariant{
		{VariantName: aws.String("primary"), ModelName: &name, InstanceType: "ml.g5.xlarge", InitialInstanceCount: &instances}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.sm.CreateEndpoint(t.Context(), &sm.CreateEndpointInput{EndpointName: &name, EndpointConfigName: &name})
	return err
}

// ends waits until an endpoint is no longer being changed.
func (w *world) ends(t *testing.T, name string) *sm.DescribeEndpointOutput {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(2 * time.Millisecond) {
		out, err := w.sm.DescribeEndpoint(t.Context(), &sm.DescribeEndpointInput{EndpointName: &name})
		if err != nil {
			t.Fatal(err)
		}
		if s := string(out.EndpointStatus); !strings.HasSuffix(s, "ing") {
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still %s", name, out.EndpointStatus)
		}
	}
}

// TestThreeAnswers is case A9: a quota, a machine that is not to be had, and nothing at all are told apart, and none of
// them looks like a container that is at fault.
func TestThreeAnswers(t *testing.T) {
	w := serving(t, Config{Quota: 2}, ok)
	wants(t, w.made(t, "much", 3), "ResourceLimitExceeded", 400,
		"'ml.g5.xlarge for endpoint usage' is 2 Instances, with current utilization of 0 Instances and a request delta of 3 Instances")
	_, err := w.sm.DescribeEndpoint(t.Context(), &sm.DescribeEndpointInput{EndpointName: aws.String("much")})
	wants(t, err, "ValidationException", 400, "Could not find endpoint")

	w = serving(t, Config{Faults: fleet.Faults{fleet.FailPlacement: 1}, Stages: fleet.Stages{Placement: 20 * time.Millisecond}}, ok)
	if err := w.made(t, "none", 1); err != nil {
		t.Fatal(err)
	}
	if out := w.ends(t, "none"); out.EndpointStatus != "Failed" || !strings.HasSuffix(aws.ToString(out.FailureReason), "InsufficientInstanceCapacity") {
		t.Errorf("no machine: %s %q", out.EndpointStatus, aws.ToString(out.FailureReason))
	}
	if _, err := w.sm.DeleteEndpoint(t.Context(), &sm.DeleteEndpointInput{EndpointName: aws.String("none")}); err != nil {
		t.Errorf("a failed endpoint cannot be deleted: %v", err)
	}

	w = serving(t, Config{Faults: fleet.Faults{fleet.FailStuck: 1}}, ok)
	if err := w.made(t, "stuck", 1); err != nil {
		t.Fatal(err)
	}
	out, err := w.sm.DescribeEndpoint(t.Context(), &sm.DescribeEndpointInput{EndpointName: aws.String("stuck")})
	if err != nil || out.EndpointStatus != "Creating" || !out.LastModifiedTime.Equal(*out.CreationTime) || out.FailureReason != nil || len(w.specs) > 0 {
		t.Errorf("stuck: %v %+v", err, out)
	}
	if len(w.logs.Save()) != 0 {
		t.Error("what never came has logged")
	}
}

// TestUpdateRollsBack: a configuration whose instances do not come leaves everything as it was, traffic included.
func TestUpdateRollsBack(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(2)}, Faults: fleet.Faults{fleet.FailPlacement: 1}, Stages: fleet.Stages{Placement: 20 * time.Millisecond}}, ok)
	before := w.settled(t)
	if _, err := w.sm.CreateModel(t.Context(), &sm.CreateModelInput{ModelName: aws.String("m"), PrimaryContainer: &smtypes.ContainerDefinition{Image: aws.String("image")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.sm.CreateEndpointConfig(t.Context(), &sm.CreateEndpointConfigInput{EndpointConfigName: aws.String("next"), ProductionVariants: []smtypes.ProductionVariant{
		{VariantName: aws.String("primary"), ModelName: aws.String("m"), InstanceType: "ml.g5.xlarge", InitialInstanceCount: aws.Int32(1)}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.sm.UpdateEndpoint(t.Context(), &sm.UpdateEndpointInput{EndpointName: aws.String(speech), EndpointConfigName: aws.String("next")}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.invoke(t, "x"); err != nil {
		t.Errorf("while it is updated: %v", err)
	}
	after := w.ends(t, speech)
	if after.EndpointStatus != "InService" || *after.EndpointConfigName != *before.EndpointConfigName || *after.ProductionVariants[0].CurrentInstanceCount != 2 ||
		after.PendingDeploymentSummary != nil || !strings.Contains(aws.ToString(after.FailureReason), "InsufficientInstanceCapacity") {
		t.Errorf("after it: %+v", after)
	}
	if _, err := w.invoke(t, "x"); err != nil {
		t.Error(err)
	}
}
