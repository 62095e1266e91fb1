package awsfleet

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"loadline/internal/measure"
)

// TestPublished: of a component everything is looked up by its name alone, under the names that are per copy.
func TestPublished(t *testing.T) {
	v := &Variant{endpoint: "tts", name: "primary"}
	for _, c := range []struct{ component, namespace, name, want string }{
		{"", "AWS/SageMaker", "ConcurrentRequestsPerModel", "AWS/SageMaker ConcurrentRequestsPerModel EndpointName=tts VariantName=primary"},
		{"", "/aws/sagemaker/Endpoints", "CPUUtilization", "/aws/sagemaker/Endpoints CPUUtilization EndpointName=tts VariantName=primary"},
		{"voice", "AWS/SageMaker", "ConcurrentRequestsPerModel", "AWS/SageMaker ConcurrentRequestsPerCopy InferenceComponentName=voice"},
		{"voice", "AWS/SageMaker", "Invocations", "AWS/SageMaker InvocationsPerCopy InferenceComponentName=voice"},
		{"voice", "AWS/SageMaker", "ModelLatency", "AWS/SageMaker ModelLatency InferenceComponentName=voice"},
		{"voice", "/aws/sagemaker/Endpoints", "CPUUtilization", "/aws/sagemaker/InferenceComponents CPUUtilization InferenceComponentName=voice"},
	} {
		m := v.Of(c.component).published(measure.Metric{Namespace: c.namespace, Name: c.name, Stat: "Sum", Period: time.Minute})
		got := aws.ToString(m.Namespace) + " " + aws.ToString(m.MetricName)
		for _, d := range m.Dimensions {
			got += " " + aws.ToString(d.Name) + "=" + aws.ToString(d.Value)
		}
		if got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got := v.Of("voice").logGroup(); got != "/aws/sagemaker/InferenceComponents/voice" {
		t.Error(got)
	}
}
