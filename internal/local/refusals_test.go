package local

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"loadline/internal/local/access"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker"
	rt "github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
)

// TestThrottledAlarms is case A7: that alarms could not be read, throttled or forbidden, comes under one code, and only
// the text says which.
func TestThrottledAlarms(t *testing.T) {
	ask := func(w *world) error {
		_, err := w.aas.DescribeScalingPolicies(t.Context(), &aas.DescribeScalingPoliciesInput{ServiceNamespace: "sagemaker"})
		return err
	}
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}, CallFaults: access.Faults{access.FailThrottle: 1}}, ok)
	wants(t, ask(w), "FailedResourceAccessException", 400, "Rate exceeded (Service: AmazonCloudWatch")
	_, err := w.aas.DescribeScalableTargets(t.Context(), &aas.DescribeScalableTargetsInput{ServiceNamespace: "sagemaker"})
	wants(t, err, "ThrottlingException", 400, "Rate exceeded")
	w = serving(t, Config{Endpoints: []Endpoint{one(1)}, Deny: []string{"CloudWatch:describe*"}}, ok)
	wants(t, ask(w), "FailedResourceAccessException", 400, "not authorized to perform: cloudwatch:DescribeAlarms")
	_, err = w.cw.DescribeAlarms(t.Context(), &cw.DescribeAlarmsInput{})
	wants(t, err, "AccessDenied", 403, "cloudwatch:DescribeAlarms")
}

func TestThrottledThirdTime(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}, CallFaults: access.Faults{access.FailThrottle: 0.5}, Seed: 7}, ok)
	good, bad := 0, 0
	for range 100 {
		if _, err := w.sm.ListEndpoints(t.Context(), &sm.ListEndpointsInput{}); err == nil {
			good++
		} else {
			wants(t, err, "ThrottlingException", 400, "Rate exceeded")
			bad++
		}
	}
	if good < 20 || bad < 20 {
		t.Errorf("%d answered and %d throttled of half each", good, bad)
	}
}

func TestBrokenCalls(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}, CallFaults: access.Faults{access.Fail5XX: 1}}, ok)
	_, err := w.sm.ListEndpoints(t.Context(), &sm.ListEndpointsInput{})
	wants(t, err, "InternalFailure", 500, "unknown error")
	_, err = w.invoke(t, "x")
	wants(t, err, "InternalFailure", 500, "unknown error")
	w = serving(t, Config{Endpoints: []Endpoint{one(1)}, CallFaults: access.Faults{access.FailTimeout: 1}}, ok)
	client := &http.Client{Timeout: 50 * time.Millisecond}
	if resp, err := client.Post(w.URL()+"/endpoints/"+speech+"/invocations", "", strings.NewReader("x")); err == nil {
		resp.Body.Close()
		t.Errorf("a call that times out was answered %s", resp.Status)
	}
}

func TestDenied(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}, NoLinkedRole: true,
		Deny: []string{"sagemaker:invokeEndpoint", "iam:CreateServiceLinkedRole", "sagemaker:UpdateEndpoint*", "application-autoscaling:Deregister*"}}, ok)
	_, err := w.invoke(t, "x")
	wants(t, err, "AccessDeniedException", 403, "sagemaker:InvokeEndpoint")
	if _, err := w.rt.InvokeEndpointWithResponseStream(t.Context(), &rt.InvokeEndpointWithResponseStreamInput{EndpointName: aws.String(speech), Body: []byte("x")}); err != nil {
		t.Errorf("what is not denied: %v", err)
	}
	wants(t, w.set(t, 2), "AccessDeniedException", 403, "sagemaker:UpdateEndpointWeightsAndCapacities")
	// The autoscaler tries the caller's permissions, and tells all that are missing at once.
	_, err = w.aas.RegisterScalableTarget(t.Context(), &aas.RegisterScalableTargetInput{ServiceNamespace: "sagemaker",
		ResourceId: aws.String("endpoint/" + speech + "/variant/primary"), ScalableDimension: instanceCount, MinCapacity: aws.Int32(1), MaxCapacity: aws.Int32(2)})
	wants(t, err, "ValidationException", 400, "sagemaker:UpdateEndpointWeightsAndCapacities, iam:CreateServiceLinkedRole")
	_, err = w.sm.DeleteEndpoint(t.Context(), &sm.DeleteEndpointInput{EndpointName: aws.String(speech)})
	wants(t, err, "AccessDeniedException", 403, "application-autoscaling:DeregisterScalableTarget")
}

func TestSignatures(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}, VerifySignatures: true}, ok)
	list := func(c aws.Config) error {
		_, err := sm.NewFromConfig(c).ListEndpoints(t.Context(), &sm.ListEndpointsInput{})
		return err
	}
	if err := list(w.aws); err != nil {
		t.Errorf("rightly signed: %v", err)
	}
	if _, err := w.cw.ListMetrics(t.Context(), &cw.ListMetricsInput{}); err != nil {
		t.Errorf("rightly signed, in CBOR: %v", err)
	}
	if _, err := w.invoke(t, "ü x"); err != nil {
		t.Errorf("rightly signed, with headers and a body: %v", err)
	}
	for _, c := range []struct{ key, secret, region, code string }{
		{"AKIDEXAMPLE", "other", "us-east-1", "InvalidSignatureException"},
		{"AKIDOTHER", "secret", "us-east-1", "UnrecognizedClientException"},
		{"AKIDEXAMPLE", "secret", "eu-west-1", "InvalidSignatureException"},
	} {
		conf := w.aws.Copy()
		conf.Region, conf.Credentials = c.region, credentials.NewStaticCredentialsProvider(c.key, c.secret, "")
		wants(t, list(conf), c.code, 403, "")
	}
	conf := w.aws.Copy()
	conf.Credentials = aws.AnonymousCredentials{}
	wants(t, list(conf), "MissingAuthenticationTokenException", 403, "")
}

// TestQuery speaks the query protocol as older clients of CloudWatch do.
func TestQuery(t *testing.T) {
	w := serving(t, Config{}, ok)
	ask := func(form string) (int, string) {
		t.Helper()
		resp, err := http.Post(w.URL(), "application/x-www-form-urlencoded; charset=utf-8", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	now := time.Now().UTC()
	put := url.Values{"Action": {"PutMetricData"}, "Version": {"2010-08-01"}, "Namespace": {"N<&"}, "MetricData.member.1.MetricName": {"m"},
		"MetricData.member.1.Dimensions.member.1.Name": {"a"}, "MetricData.member.1.Dimensions.member.1.Value": {"b"},
		"MetricData.member.1.Values.member.2": {"4"}, "MetricData.member.1.Values.member.1": {"2.5"}, "MetricData.member.1.Timestamp": {now.Format(time.RFC3339)}}
	if status, body := ask(put.Encode()); status != 200 || !strings.Contains(body, "<PutMetricDataResponse xmlns=\"http://monitoring.amazonaws.com/doc/2010-08-01/\">") {
		t.Errorf("put: %d %s", status, body)
	}
	get := fmt.Sprintf("Action=GetMetricStatistics&Version=2010-08-01&Namespace=N%%3C%%26&MetricName=m&Dimensions.member.1.Name=a&Dimensions.member.1.Value=b&StartTime=%s&EndTime=%s&Period=60&Statistics.member.1=Sum&Statistics.member.2=Maximum",
		url.QueryEscape(now.Add(-time.Minute).Format(time.RFC3339)), url.QueryEscape(now.Add(time.Minute).Format(time.RFC3339)))
	if status, body := ask(get); status != 200 || !strings.Contains(body, "<Sum>6.5</Sum>") || !strings.Contains(body, "<Maximum>4</Maximum>") || strings.Contains(body, "<Average>") {
		t.Errorf("get: %d %s", status, body)
	}
	if _, body := ask("Action=ListMetrics&Version=2010-08-01"); !strings.Contains(body, "<Namespace>N&lt;&amp;</Namespace>") {
		t.Errorf("list: %s", body)
	}
	for form, want := range map[string]string{
		"Action=PutMetricData&Version=2010-08-01":                                          "<Code>MissingParameter</Code>",
		"Action=PutDashboard&Version=2010-08-01&DashboardName=d&DashboardBody=x":           "<Code>InvalidParameterInput</Code>",
		"Action=GetMetricStatistics&Version=2010-08-01&StartTime=yesterday":                "StartTime must be a time",
		"Action=GetMetricStatistics&Version=2010-08-01&Period=long":                        "Period must be a whole number",
		"Action=Nothing&Version=2010-08-01":                                                "<Code>InvalidAction</Code>",
		"Action=GetMetricStatistics&Version=1999-01-01":                                    "<Code>InvalidAction</Code>",
		"Action=GetMetricStatistics&Version=2010-08-01&" + strings.Repeat("a.", 99) + "=1": "nested too deeply",
		"%zz": "<Code>InvalidAction</Code>",
		"Action=GetRole&Version=2010-05-08&RoleName=%3Cb%3E": "The role with name &lt;b&gt; cannot be found.",
	} {
		if status, body := ask(form); status/100 != 4 || !strings.Contains(body, want) || !strings.Contains(body, "<ErrorResponse") {
			t.Errorf("%s: %d %s, without %s", form, status, body, want)
		}
	}
}
