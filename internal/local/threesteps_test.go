package local

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
)

// tool is the path of a program that AWS or others made. A test that needs it is skipped where it is not installed, and
// fails there when REQUIRE_AWS_TOOLS=1.
func tool(t *testing.T, name string, probe ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil && probe != nil {
		var out []byte
		if out, err = exec.Command(path, probe...).CombinedOutput(); err != nil {
			t.Logf("%s", out)
		}
	}
	switch {
	case err == nil:
		return path
	case os.Getenv("REQUIRE_AWS_TOOLS") == "1":
		t.Fatalf("%s is not usable, and REQUIRE_AWS_TOOLS=1: %v", name, err)
	}
	t.Skipf("%s is not usable here: %v", name, err)
	return ""
}

// foreign runs a program against the account.
func (w *world) foreign(t *testing.T, stdin, path string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=secret", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1", "AWS_PAGER=", "AWS_ENDPOINT_URL="+w.URL(), "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull)
	cmd.Stdin = strings.NewReader(stdin)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return string(out) + errs.String(), err
	}
	return string(out), nil
}

func tenants(instances int) Endpoint {
	e := one(instances)
	e.Name = "tenant-scorers"
	e.Variants[0].Name, e.Variants[0].Min, e.Variants[0].Max = "AllTraffic", 0, 0
	return e
}

const boto = `
import boto3

aas = boto3.client("application-autoscaling")
resource_id = "endpoint/tenant-scorers/variant/AllTraffic"

aas.register_scalable_target(
    ServiceNamespace="sagemaker",
    ResourceId=resource_id,
    ScalableDimension="sagemaker:variant:DesiredInstanceCount",
    MinCapacity=2,
    MaxCapacity=10,
)
aas.put_scaling_policy(
    PolicyName="invocations-per-instance",
    ServiceNamespace="sagemaker",
    ResourceId=resource_id,
    ScalableDimension="sagemaker:variant:DesiredInstanceCount",
    PolicyType="TargetTrackingScaling",
    TargetTrackingScalingPolicyConfiguration={
        "TargetValue": 70.0,
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
        },
        "ScaleInCooldown": 600,
        "ScaleOutCooldown": 300,
    },
)
for a in boto3.client("cloudwatch").get_paginator("describe_alarms").paginate(
        AlarmNamePrefix="TargetTracking-endpoint/tenant-scorers").search("MetricAlarms"):
    print(a["AlarmName"].split("-Alarm")[1].split("-")[0], a["Threshold"], a["EvaluationPeriods"], a["Period"], a["Statistic"], a["StateValue"])
aas.put_scheduled_action(
    ServiceNamespace="sagemaker", ResourceId=resource_id, ScalableDimension="sagemaker:variant:DesiredInstanceCount",
    ScheduledActionName="morning", Schedule="cron(0 9 ? * MON-FRI *)", Timezone="Europe/Berlin",
    ScalableTargetAction={"MinCapacity": 4},
)
for a in aas.describe_scheduled_actions(ServiceNamespace="sagemaker")["ScheduledActions"]:
    print(a["ScheduledActionName"], a["Schedule"], a["Timezone"], a["ScalableTargetAction"])
for a in aas.describe_scaling_activities(ServiceNamespace="sagemaker", ResourceId=resource_id)["ScalingActivities"]:
    print(a["StatusCode"], a["Description"], a["Cause"])
p = aas.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"][0]
print(p["PolicyType"], p["TargetTrackingScalingPolicyConfiguration"]["ScaleInCooldown"], len(p["Alarms"]))
try:
    aas.register_scalable_target(ServiceNamespace="sagemaker", ResourceId="endpoint/nobody/variant/AllTraffic",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount", MinCapacity=1, MaxCapacity=2)
except aas.exceptions.ValidationException as e:
    print(e.response["Error"]["Message"])
`

// TestThreeStepsInPython is the set-up that tutorials show, with boto3: register, put a policy, look whether its alarms
// are there.
func TestThreeStepsInPython(t *testing.T) {
	python := tool(t, "python3", "-c", "import boto3")
	w := serving(t, Config{Endpoints: []Endpoint{tenants(1)}}, ok)
	out, err := w.foreign(t, boto, python, "-")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = `High 70 3 60 Sum INSUFFICIENT_DATA
Low 63 15 60 Sum INSUFFICIENT_DATA
morning cron(0 9 ? * MON-FRI *) Europe/Berlin {'MinCapacity': 4}
Successful Setting desired instance count to 2. minimum capacity was set to 2
TargetTrackingScaling 600 2
Could not find endpoint "arn:aws:sagemaker:us-east-1:000000000000:endpoint/nobody".
`
	if got := strings.ReplaceAll(out, "InProgress", "Successful"); got != want { // its second instance may be starting still
		t.Errorf("got\n%s", out)
	}
}

// TestThreeStepsInTheShell is the same with the AWS CLI.
func TestThreeStepsInTheShell(t *testing.T) {
	aws := tool(t, "aws", "--version")
	w := serving(t, Config{Endpoints: []Endpoint{tenants(1)}}, ok)
	run := func(args ...string) string {
		t.Helper()
		out, err := w.foreign(t, "", aws, args...)
		if err != nil {
			t.Fatalf("aws %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	const id = "endpoint/tenant-scorers/variant/AllTraffic"
	run("application-autoscaling", "register-scalable-target", "--service-namespace", "sagemaker", "--resource-id", id,
		"--scalable-dimension", instanceCount, "--min-capacity", "1", "--max-capacity", "10")
	run("application-autoscaling", "put-scaling-policy", "--policy-name", "concurrency", "--service-namespace", "sagemaker", "--resource-id", id,
		"--scalable-dimension", instanceCount, "--policy-type", "TargetTrackingScaling", "--target-tracking-scaling-policy-configuration",
		`{"TargetValue":5.0,"PredefinedMetricSpecification":{"PredefinedMetricType":"SageMakerVariantConcurrentRequestsPerModelHighResolution"}}`)
	var alarms struct {
		MetricAlarms []struct {
			AlarmName, StateValue     string
			Period, EvaluationPeriods int
			Threshold                 float64
		}
	}
	out := run("cloudwatch", "describe-alarms", "--alarm-name-prefix", "TargetTracking-endpoint/tenant-scorers", "--output", "json")
	if err := json.Unmarshal([]byte(out), &alarms); err != nil || len(alarms.MetricAlarms) != 2 {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, want := range []float64{5, 4.5} {
		a := alarms.MetricAlarms[i]
		if a.Threshold != want || a.Period != 10 || a.EvaluationPeriods != []int{3, 90}[i] || !strings.HasPrefix(a.AlarmName, "TargetTracking-"+id+"-Alarm"+[]string{"High", "Low"}[i]) {
			t.Errorf("%+v", a)
		}
	}
}

// TestPermissions: each permission that the set-up needs is asked for, and named where it is missing.
func TestPermissions(t *testing.T) {
	for _, action := range []string{
		"sagemaker:DescribeEndpoint", "sagemaker:DescribeEndpointConfig", "sagemaker:UpdateEndpointWeightsAndCapacities",
		"cloudwatch:PutMetricAlarm", "cloudwatch:DescribeAlarms", "cloudwatch:DeleteAlarms", "iam:CreateServiceLinkedRole",
		"application-autoscaling:RegisterScalableTarget",
	} {
		w := serving(t, Config{Endpoints: []Endpoint{tenants(1)}, Deny: []string{action}, NoLinkedRole: true}, ok)
		err := w.register(t, "endpoint/tenant-scorers/variant/AllTraffic", bounds(1, 4))
		code, status := "ValidationException", 400
		if strings.HasPrefix(action, "application-autoscaling:") {
			code, status = "AccessDeniedException", 403
		}
		wants(t, err, code, status, action)
		if err := w.end(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnreadableAlarms: policies cannot be described where their alarms cannot.
func TestUnreadableAlarms(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}, Deny: []string{"cloudwatch:DescribeAlarms"}}, ok)
	_, err := w.aas.DescribeScalingPolicies(t.Context(), &aas.DescribeScalingPoliciesInput{ServiceNamespace: "sagemaker"})
	wants(t, err, "FailedResourceAccessException", 400, "cloudwatch:DescribeAlarms")
}
