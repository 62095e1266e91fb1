"""An endpoint's whole life with boto3: python3 boto3_life.py (AWS_ENDPOINT_URL says where)."""

import datetime
import json
import time

import oracle
from oracle import refused

import boto3

sm, rt, aas = boto3.client("sagemaker"), boto3.client("sagemaker-runtime"), boto3.client("application-autoscaling")
cw, logs, iam = boto3.client("cloudwatch"), boto3.client("logs"), boto3.client("iam")
sts, sq = boto3.client("sts"), boto3.client("service-quotas")
now = lambda: datetime.datetime.now(datetime.timezone.utc)

assert sts.get_caller_identity()["Account"] == "000000000000"

# A role, as Terraform and preflights ask for it.
trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}]}
role = iam.create_role(RoleName="speech", AssumeRolePolicyDocument=json.dumps(trust), Tags=[{"Key": "a", "Value": "b c"}])["Role"]
assert iam.get_role(RoleName="speech")["Role"]["AssumeRolePolicyDocument"] == trust
iam.put_role_policy(RoleName="speech", PolicyName="p", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": []}))
assert iam.list_role_policies(RoleName="speech")["PolicyNames"] == ["p"]
refused("DeleteConflict", iam.delete_role, RoleName="speech")
refused("NoSuchEntity", iam.get_role, RoleName="nobody")

# Model, configuration, endpoint.
image = "000000000000.dkr.ecr.us-east-1.amazonaws.com/speech@sha256:" + "ab" * 32
def model(name, **env):
    return sm.create_model(ModelName=name, ExecutionRoleArn=role["Arn"], Tags=[{"Key": "k", "Value": "v"}],
        PrimaryContainer={"Image": image, "Environment": env, "ContainerHostname": "h"})
def config(name, *variants, **more):
    return sm.create_endpoint_config(EndpointConfigName=name, **more, ProductionVariants=[
        {"VariantName": v, "ModelName": m, "InstanceType": t, "InitialInstanceCount": n} for v, m, t, n in variants])
model("m1", MAX_QUEUE_DEPTH="50")
model("m2")
refused("ValidationException", model, name="m1")
config("c1", ("primary", "m1", "ml.g5.xlarge", 1))
config("c2", ("primary", "m2", "ml.g5.xlarge", 1), ("canary", "m2", "ml.g5.xlarge", 1), MetricsConfig={"EnableEnhancedMetrics": True})
config("c3", ("primary", "m2", "ml.g6.xlarge", 1))
refused("ValidationException", config, "c1", ("primary", "m1", "ml.g5.xlarge", 1))
assert sm.describe_endpoint_config(EndpointConfigName="c2")["MetricsConfig"]["EnableEnhancedMetrics"]
assert sm.describe_model(ModelName="m1")["PrimaryContainer"]["ContainerHostname"] == "h"
assert [m["ModelName"] for p in sm.get_paginator("list_models").paginate(SortBy="Name", SortOrder="Ascending", PaginationConfig={"PageSize": 1}) for m in p["Models"]] == ["m1", "m2"]
refused("ValidationException", sm.create_endpoint, EndpointName="tts", EndpointConfigName="nothing")
sm.create_endpoint(EndpointName="tts", EndpointConfigName="c1", Tags=[{"Key": "team", "Value": "voice"}])
assert sm.describe_endpoint(EndpointName="tts")["EndpointStatus"] == "Creating"
refused("ValidationException", sm.delete_endpoint, EndpointName="tts")
serve = lambda: sm.get_waiter("endpoint_in_service").wait(EndpointName="tts", WaiterConfig={"Delay": 0.1, "MaxAttempts": 200})
serve()
arn = sm.describe_endpoint(EndpointName="tts")["EndpointArn"]
assert sm.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "voice"}]

# It speaks, whole and as a stream, and its container has logged the stages of its start.
ask = {"EndpointName": "tts", "ContentType": "application/json", "Body": b'{"text":"Good morning."}'}
whole = rt.invoke_endpoint(**ask)
assert whole["InvokedProductionVariant"] == "primary" and whole["Body"].read(4) == b"RIFF"
stream = rt.invoke_endpoint_with_response_stream(**ask)
assert b"".join(e["PayloadPart"]["Bytes"] for e in stream["Body"])[:4] == b"RIFF" and stream["ContentType"] == "audio/wav"
refused("ValidationError", rt.invoke_endpoint, **{**ask, "EndpointName": "nobody"})
refused("ModelError", rt.invoke_endpoint, **{**ask, "Body": b"{}"})
group = "/aws/sagemaker/Endpoints/tts"
name = logs.describe_log_streams(logGroupName=group)["logStreams"][0]["logStreamName"]
assert name.startswith("primary/i-")
text = "\n".join(e["message"] for e in logs.get_log_events(logGroupName=group, logStreamName=name, startFromHead=True)["events"])
for stage in "container_start framework_init weights_fetched weights_ready warmup_done ready".split():
    assert f"=== STAGE {stage} " in text, text

# Scaling: target, policy with its alarms, scheduled action, tags.
target = {"ServiceNamespace": "sagemaker", "ResourceId": "endpoint/tts/variant/primary", "ScalableDimension": "sagemaker:variant:DesiredInstanceCount"}
refused("ObjectNotFoundException", aas.put_scaling_policy, PolicyName="p", PolicyType="TargetTrackingScaling", **target,
    TargetTrackingScalingPolicyConfiguration={"TargetValue": 5, "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}})
refused("ValidationException", aas.register_scalable_target, **{**target, "ResourceId": "endpoint/tts/variant/AllTraffic"}, MinCapacity=1, MaxCapacity=2)
made = aas.register_scalable_target(**target, MinCapacity=2, MaxCapacity=4, Tags={"x": "y"})["ScalableTargetARN"]
assert aas.list_tags_for_resource(ResourceARN=made)["Tags"] == {"x": "y"}
serve()
assert sm.describe_endpoint(EndpointName="tts")["ProductionVariants"][0]["CurrentInstanceCount"] == 2
p = aas.put_scaling_policy(PolicyName="p", PolicyType="TargetTrackingScaling", **target, TargetTrackingScalingPolicyConfiguration={
    "TargetValue": 5.0, "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"}})
names = [a["AlarmName"] for a in p["Alarms"]]
assert len(names) == 2 and all(n.startswith("TargetTracking-endpoint/tts/variant/primary-Alarm") for n in names), names
assert sorted(names) == sorted(a["AlarmName"] for q in cw.get_paginator("describe_alarms").paginate(AlarmNamePrefix="TargetTracking-endpoint/tts", PaginationConfig={"PageSize": 1}) for a in q["MetricAlarms"])
aas.put_scheduled_action(ScheduledActionName="dawn", Schedule="cron(0 6 * * ? *)", Timezone="Europe/Berlin", **target, ScalableTargetAction={"MinCapacity": 2})
for call, key in (("describe_scaling_policies", "ScalingPolicies"), ("describe_scheduled_actions", "ScheduledActions"), ("describe_scaling_activities", "ScalingActivities"), ("describe_scalable_targets", "ScalableTargets")):
    assert [x for q in aas.get_paginator(call).paginate(ServiceNamespace="sagemaker", PaginationConfig={"PageSize": 1}) for x in q[key]], call

# Updates: counts fall back without retained properties, a pinned variant keeps its type, traffic does not stop.
sm.update_endpoint(EndpointName="tts", EndpointConfigName="c2", RetainAllVariantProperties=True)
assert sm.describe_endpoint(EndpointName="tts")["PendingDeploymentSummary"]["EndpointConfigName"] == "c2"
refused("ValidationException", sm.update_endpoint, EndpointName="tts", EndpointConfigName="c1")
rt.invoke_endpoint(**ask)
serve()
d = sm.describe_endpoint(EndpointName="tts")
assert d["EndpointConfigName"] == "c2" and [(v["VariantName"], v["CurrentInstanceCount"]) for v in d["ProductionVariants"]] == [("primary", 2), ("canary", 1)], d
assert rt.invoke_endpoint(**ask, TargetVariant="canary")["InvokedProductionVariant"] == "canary"
e = refused("ValidationException", sm.update_endpoint, EndpointName="tts", EndpointConfigName="c3")
assert "deregistered" in str(e), e
sm.update_endpoint_weights_and_capacities(EndpointName="tts", DesiredWeightsAndCapacities=[{"VariantName": "canary", "DesiredWeight": 0.0}])
serve()
assert all(rt.invoke_endpoint(**ask)["InvokedProductionVariant"] == "primary" for _ in range(20))

# Metrics: custom ones, sums and ratios of them, percentiles; EMF lines of a log; dashboards; alarms.
dims = [{"Name": "a", "Value": "b"}]
cw.put_metric_data(Namespace="N", MetricData=[{"MetricName": "m", "Dimensions": dims, "Values": [1, 2, 3, 10], "Counts": [1, 1, 1, 1], "Unit": "Count"}, {"MetricName": "n", "Value": 4}])
span = {"StartTime": now() - datetime.timedelta(minutes=5), "EndTime": now() + datetime.timedelta(minutes=2)}
s = cw.get_metric_statistics(Namespace="N", MetricName="m", Dimensions=dims, Period=300, **span, ExtendedStatistics=["p50", "p99"])["Datapoints"][-1]
assert s["ExtendedStatistics"] == {"p50": 2, "p99": 10}, s
stat = lambda id, name, dims: {"Id": id, "ReturnData": False, "MetricStat": {"Metric": {"Namespace": "N", "MetricName": name, "Dimensions": dims}, "Period": 300, "Stat": "Sum"}}
r = cw.get_metric_data(**span, MetricDataQueries=[stat("m", "m", dims), stat("n", "n", []), {"Id": "ratio", "Expression": "m / n"}, {"Id": "both", "Expression": "SUM(METRICS())", "Label": "sum"}])["MetricDataResults"]
assert [(x["Id"], x["Values"]) for x in r] == [("ratio", [4.0]), ("both", [20.0])], r
logs.create_log_group(logGroupName="/g", tags={"t": "u"})
logs.create_log_stream(logGroupName="/g", logStreamName="s")
at = int(time.time() * 1000)
emf = {"_aws": {"Timestamp": at, "CloudWatchMetrics": [{"Namespace": "E", "Dimensions": [["d"]], "Metrics": [{"Name": "v", "Unit": "Count"}]}]}, "d": "x", "v": [1, 2]}
logs.put_log_events(logGroupName="/g", logStreamName="s", logEvents=[{"timestamp": at, "message": json.dumps(emf)}, {"timestamp": at, "message": "plain words"}])
assert cw.list_metrics(Namespace="E")["Metrics"] == [{"Namespace": "E", "MetricName": "v", "Dimensions": [{"Name": "d", "Value": "x"}]}]
assert [e["message"] for e in logs.filter_log_events(logGroupName="/g", filterPattern="plain -other")["events"]] == ["plain words"]
group = logs.describe_log_groups(logGroupNamePrefix="/g")["logGroups"][0]
assert logs.list_tags_for_resource(resourceArn=group["logGroupArn"])["tags"] == {"t": "u"}
logs.put_retention_policy(logGroupName="/g", retentionInDays=7)
refused("ResourceAlreadyExistsException", logs.create_log_group, logGroupName="/g")
refused("ResourceNotFoundException", logs.describe_log_streams, logGroupName="/none")
cw.put_dashboard(DashboardName="d", DashboardBody='{"widgets":[]}')
assert cw.list_dashboards()["DashboardEntries"][0]["Size"] == 14 and cw.get_dashboard(DashboardName="d")["DashboardBody"] == '{"widgets":[]}'
refused("ResourceNotFound", cw.get_dashboard, DashboardName="e")
cw.put_metric_alarm(AlarmName="x", Namespace="N", MetricName="m", Dimensions=dims, Statistic="Sum", Period=60, EvaluationPeriods=1, Threshold=1, ComparisonOperator="GreaterThanThreshold", Tags=[{"Key": "a", "Value": "b"}])
alarm = cw.describe_alarms(AlarmNames=["x"])["MetricAlarms"][0]
assert alarm["StateValue"] == "INSUFFICIENT_DATA"
assert cw.list_tags_for_resource(ResourceARN=alarm["AlarmArn"])["Tags"] == [{"Key": "a", "Value": "b"}]
cw.set_alarm_state(AlarmName="x", StateValue="OK", StateReason="test")
assert cw.describe_alarm_history(AlarmName="x")["AlarmHistoryItems"]
refused("ValidationError", cw.put_metric_alarm, AlarmName="y", Namespace="N", MetricName="m", Statistic="Sum", Period=7, EvaluationPeriods=1, Threshold=1, ComparisonOperator="GreaterThanThreshold")
cw.delete_alarms(AlarmNames=["x"])
refused("InvalidParameterValue", cw.put_metric_data, Namespace="AWS/x", MetricData=[{"MetricName": "m", "Value": 1}])
quota = [q for p in sq.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker") for q in p["Quotas"] if q["QuotaName"] == "ml.g5.xlarge for endpoint usage"][0]
assert sq.get_service_quota(ServiceCode="sagemaker", QuotaCode=quota["QuotaCode"])["Quota"]["Value"] == 100
refused("NoSuchResourceException", sq.get_service_quota, ServiceCode="sagemaker", QuotaCode="L-00000000")

# Away with it: the endpoint takes its targets along.
sm.delete_endpoint(EndpointName="tts")
sm.get_waiter("endpoint_deleted").wait(EndpointName="tts", WaiterConfig={"Delay": 0.1, "MaxAttempts": 300})
assert not aas.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
assert not cw.describe_alarms(AlarmNamePrefix="TargetTracking-")["MetricAlarms"]
for c in ("c1", "c2", "c3"):
    sm.delete_endpoint_config(EndpointConfigName=c)
for m in ("m1", "m2"):
    sm.delete_model(ModelName=m)
refused("ValidationException", sm.describe_endpoint, EndpointName="tts")
iam.delete_role_policy(RoleName="speech", PolicyName="p")
iam.delete_role(RoleName="speech")
logs.delete_log_group(logGroupName="/g")
oracle.done()
