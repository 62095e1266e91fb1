package local

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker"
	smtypes "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
)

// config creates an endpoint configuration of one variant.
func (w *world) config(t *testing.T, name, variant, instanceType string, instances int32) {
	t.Helper()
	if _, err := w.sm.CreateEndpointConfig(t.Context(), &sm.CreateEndpointConfigInput{EndpointConfigName: &name, ProductionVariants: []smtypes.ProductionVariant{{
		VariantName: &variant, ModelName: aws.String("kokoro-82m"), InstanceType: smtypes.ProductionVariantInstanceType(instanceType), InitialInstanceCount: &instances}}}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) update(t *testing.T, config string, retain bool) error {
	_, err := w.sm.UpdateEndpoint(t.Context(), &sm.UpdateEndpointInput{EndpointName: aws.String(speech), EndpointConfigName: &config, RetainAllVariantProperties: &retain})
	return err
}

func (w *world) current(t *testing.T) int32 {
	t.Helper()
	return *w.settled(t).ProductionVariants[0].CurrentInstanceCount
}

// TestRedeployUnderATarget: six instances become what the new configuration starts with, unless the live properties are
// retained; a target then takes them back to its minimum, and no further.
func TestRedeployUnderATarget(t *testing.T) {
	e := one(1)
	w := serving(t, Config{Endpoints: []Endpoint{e}}, ok)
	for _, bound := range []int32{6, 2} {
		if err := w.register(t, primary, bounds(bound, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.current(t); n != 6 {
		t.Fatalf("%d instances", n)
	}
	w.config(t, "next", "primary", "ml.g5.xlarge", 1)
	if err := w.update(t, "next", true); err != nil {
		t.Fatal(err)
	}
	if n := w.current(t); n != 6 {
		t.Errorf("with retained properties six became %d", n)
	}
	if err := w.update(t, "next", false); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); w.current(t) == 6 && time.Now().Before(deadline); {
	}
	for deadline := time.Now().Add(20 * time.Second); w.current(t) != 2 && time.Now().Before(deadline); {
	}
	if n := w.current(t); n != 2 {
		t.Errorf("without, six became %d under a minimum of 2", n)
	}
	out, err := w.aas.DescribeScalingActivities(t.Context(), &aas.DescribeScalingActivitiesInput{ServiceNamespace: "sagemaker"})
	if err != nil || *out.ScalingActivities[0].Cause != "minimum capacity was set to 2" {
		t.Errorf("%v %+v", err, out.ScalingActivities)
	}
}

// TestPinnedByATarget: a variant that is a scalable target keeps its instance type and its name; deregistered, it may
// change both. Another model is no matter.
func TestPinnedByATarget(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}}, ok)
	w.config(t, "bigger", "primary", "ml.g6.xlarge", 1)
	w.config(t, "renamed", "AllTraffic", "ml.g5.xlarge", 1)
	w.config(t, "same", "primary", "ml.g5.xlarge", 1)
	for _, name := range []string{"bigger", "renamed"} {
		wants(t, w.update(t, name, true), "ValidationException", 400, "must be deregistered as scalable targets with AWS Auto Scaling before they can be removed or have their instance type updated")
	}
	if err := w.update(t, "same", true); err != nil {
		t.Errorf("another model: %v", err)
	}
	w.settled(t)
	if _, err := w.aas.DeregisterScalableTarget(t.Context(), &aas.DeregisterScalableTargetInput{ServiceNamespace: "sagemaker", ResourceId: aws.String(primary), ScalableDimension: instanceCount}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bigger", "renamed"} {
		if err := w.update(t, name, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w.settled(t)
	}
	if v := *w.settled(t).ProductionVariants[0].VariantName; v != "AllTraffic" {
		t.Errorf("the variant is %s", v)
	}
}

// TestDeletingTakesTargetsAlong: with the endpoint go its targets, their policies and alarms; one who may not deregister
// them cannot delete it.
func TestDeletingTakesTargetsAlong(t *testing.T) {
	const deregister = "application-autoscaling:DeregisterScalableTarget"
	for _, deny := range [][]string{{deregister}, nil} {
		s := stepping(t, Config{Endpoints: []Endpoint{one(1)}, Deny: deny}, ok)
		s.track(t, "rate", "SageMakerVariantInvocationsPerInstance", 10)
		_, err := s.sm.DeleteEndpoint(t.Context(), &sm.DeleteEndpointInput{EndpointName: aws.String(speech)})
		left := 1
		if deny != nil {
			if err == nil || !strings.Contains(err.Error(), deregister) {
				t.Errorf("%v does not name %s", err, deregister)
			}
		} else if left = 0; err != nil {
			t.Errorf("delete: %v", err)
		}
		if n := len(s.targets(t, aas.DescribeScalableTargetsInput{}).ScalableTargets); n != left {
			t.Errorf("denied %v: %d targets", deny, n)
		}
		alarms, err := s.cw.DescribeAlarms(t.Context(), &cw.DescribeAlarmsInput{})
		if err != nil || len(alarms.MetricAlarms) != 2*left {
			t.Errorf("denied %v: %v, %d alarms", deny, err, len(alarms.MetricAlarms))
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
	}
}
