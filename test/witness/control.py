"""A script for the operations that moto does right: python3 control.py prints what was answered, without times, request
ids and what is random, so that two servers' answers can be laid side by side."""

import json
import sys

import boto3
import botocore.exceptions

import oracle  # the environment

sm, aas, cw = boto3.client("sagemaker"), boto3.client("application-autoscaling"), boto3.client("cloudwatch")
iam, sts, logs = boto3.client("iam"), boto3.client("sts"), boto3.client("logs")
answers = []


def plain(v):
    if isinstance(v, dict):
        return {k: plain(x) for k, x in sorted(v.items()) if k != "ResponseMetadata"}
    if isinstance(v, list):
        return [plain(x) for x in v]
    if isinstance(v, float) and v == int(v):
        return int(v)
    return v if isinstance(v, (str, int, float, bool)) else type(v).__name__


def ask(client, operation, *keep, **arguments):
    """keep is paths into the answer, a.b.c with lists flattened; without any, only that it was answered is told."""
    name = f"{client.meta.service_model.service_name}.{operation}"
    try:
        answer = plain(getattr(client, operation)(**arguments))
    except botocore.exceptions.ClientError as e:
        answers.append([name, "refused", e.response["Error"]["Code"]])
        return
    told = {}
    for path in keep:
        values = [answer]
        for step in path.split("."):
            values = [x for v in values for x in (v if isinstance(v, list) else [v])]
            values = [v[step] for v in values if step in v]
        told[path] = values
    answers.append([name, "answered", told])


trust = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}]})
policy = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "logs:PutLogEvents", "Resource": "*"}]})
role = {"RoleName": "r"}
ask(sts, "get_caller_identity")
ask(iam, "create_role", "Role.Arn", "Role.Path", "Role.RoleName", **role, AssumeRolePolicyDocument=trust)
ask(iam, "create_role", **role, AssumeRolePolicyDocument=trust)
ask(iam, "get_role", "Role.Arn", "Role.AssumeRolePolicyDocument", "Role.MaxSessionDuration", **role)
ask(iam, "get_role", RoleName="nobody")
ask(iam, "put_role_policy", **role, PolicyName="p", PolicyDocument=trust)
ask(iam, "put_role_policy", **role, PolicyName="p", PolicyDocument=policy)
ask(iam, "get_role_policy", "PolicyName", "PolicyDocument", "RoleName", **role, PolicyName="p")
ask(iam, "list_role_policies", "PolicyNames", **role)
ask(iam, "delete_role", **role)
ask(iam, "delete_role_policy", **role, PolicyName="p")
account = sts.get_caller_identity()["Account"]
arn = f"arn:aws:iam::{account}:role/r"
container = {"Image": "image", "Environment": {"A": "b"}}
ask(sm, "create_model", "ModelArn", ModelName="m", ExecutionRoleArn=arn, PrimaryContainer=container, Tags=[{"Key": "k", "Value": "v"}])
ask(sm, "describe_model", "ModelName", "ModelArn", "ExecutionRoleArn", "PrimaryContainer.Image", "PrimaryContainer.Environment", ModelName="m")
ask(sm, "describe_model", ModelName="nobody")
variants = [{"VariantName": "primary", "ModelName": "m", "InstanceType": "ml.m5.xlarge", "InitialInstanceCount": 1, "InitialVariantWeight": 1.0,
    "ModelDataDownloadTimeoutInSeconds": 600, "ContainerStartupHealthCheckTimeoutInSeconds": 600}]
ask(sm, "create_endpoint_config", "EndpointConfigArn", EndpointConfigName="c", ProductionVariants=variants)
ask(sm, "describe_endpoint_config", "EndpointConfigName", "EndpointConfigArn", "ProductionVariants", EndpointConfigName="c")
ask(sm, "describe_endpoint_config", EndpointConfigName="nobody")
ask(sm, "list_endpoint_configs", "EndpointConfigs.EndpointConfigName", "EndpointConfigs.EndpointConfigArn")
ask(sm, "describe_endpoint", EndpointName="nobody")
ask(sm, "create_endpoint", "EndpointArn", EndpointName="e", EndpointConfigName="c", Tags=[{"Key": "k", "Value": "v"}])
sm.get_waiter("endpoint_in_service").wait(EndpointName="e", WaiterConfig={"Delay": 0.1, "MaxAttempts": 100})
ask(sm, "describe_endpoint", "EndpointName", "EndpointArn", "EndpointConfigName", "EndpointStatus", "ProductionVariants.VariantName",
    "ProductionVariants.CurrentInstanceCount", "ProductionVariants.DesiredInstanceCount", "ProductionVariants.CurrentWeight", EndpointName="e")
ask(sm, "list_endpoints", "Endpoints.EndpointName", "Endpoints.EndpointStatus")
ask(sm, "list_tags", "Tags", ResourceArn=sm.describe_endpoint(EndpointName="e")["EndpointArn"])
target = {"ServiceNamespace": "sagemaker", "ResourceId": "endpoint/e/variant/primary", "ScalableDimension": "sagemaker:variant:DesiredInstanceCount"}
ask(aas, "register_scalable_target", **target, MinCapacity=1, MaxCapacity=4)
ask(aas, "describe_scalable_targets", "ScalableTargets.ResourceId", "ScalableTargets.MinCapacity", "ScalableTargets.MaxCapacity", "ScalableTargets.ScalableDimension", ServiceNamespace="sagemaker")
tracking = {"TargetValue": 5.0, "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}}
ask(aas, "put_scaling_policy", PolicyName="p", PolicyType="TargetTrackingScaling", **target, TargetTrackingScalingPolicyConfiguration=tracking)
ask(aas, "describe_scaling_policies", "ScalingPolicies.PolicyName", "ScalingPolicies.PolicyType", "ScalingPolicies.ResourceId", "ScalingPolicies.TargetTrackingScalingPolicyConfiguration", ServiceNamespace="sagemaker")
ask(aas, "put_scheduled_action", ScheduledActionName="s", Schedule="cron(0 6 * * ? *)", **target, ScalableTargetAction={"MinCapacity": 1})
ask(aas, "describe_scheduled_actions", "ScheduledActions.ScheduledActionName", "ScheduledActions.Schedule", "ScheduledActions.ScalableTargetAction", ServiceNamespace="sagemaker")
ask(aas, "delete_scheduled_action", ScheduledActionName="s", **target)
ask(aas, "delete_scaling_policy", PolicyName="p", **target)
ask(aas, "deregister_scalable_target", **target)
ask(aas, "deregister_scalable_target", **target)
ask(cw, "put_metric_data", Namespace="N", MetricData=[{"MetricName": "m", "Value": 3.5, "Dimensions": [{"Name": "a", "Value": "b"}]}])
ask(cw, "list_metrics", "Metrics", Namespace="N")
alarm = {"AlarmName": "x", "Namespace": "N", "MetricName": "m", "Statistic": "Sum", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1, "ComparisonOperator": "GreaterThanThreshold"}
ask(cw, "put_metric_alarm", **alarm)
ask(cw, "describe_alarms", *(f"MetricAlarms.{k}" for k in alarm), "MetricAlarms.AlarmArn", "MetricAlarms.ActionsEnabled", AlarmNames=["x"])
ask(cw, "delete_alarms", AlarmNames=["x"])
ask(cw, "put_dashboard", DashboardName="d", DashboardBody='{"widgets":[]}')
ask(cw, "get_dashboard", "DashboardBody", "DashboardName", DashboardName="d")
ask(cw, "list_dashboards", "DashboardEntries.DashboardName", "DashboardEntries.Size")
ask(cw, "delete_dashboards", DashboardNames=["d"])
ask(cw, "get_dashboard", DashboardName="d")
ask(logs, "create_log_group", logGroupName="/g", tags={"t": "u"})
ask(logs, "create_log_group", logGroupName="/g")
ask(logs, "create_log_stream", logGroupName="/g", logStreamName="s")
ask(logs, "put_retention_policy", logGroupName="/g", retentionInDays=7)
ask(logs, "describe_log_groups", "logGroups.logGroupName", "logGroups.retentionInDays", "logGroups.arn", logGroupNamePrefix="/g")
ask(logs, "describe_log_streams", "logStreams.logStreamName", "logStreams.arn", logGroupName="/g")
ask(logs, "get_log_events", "events", logGroupName="/g", logStreamName="s")
ask(logs, "get_log_events", logGroupName="/none", logStreamName="s")
ask(logs, "delete_log_group", logGroupName="/g")
ask(sm, "delete_endpoint", EndpointName="e")
ask(sm, "delete_endpoint_config", EndpointConfigName="c")
ask(sm, "delete_model", ModelName="m")
ask(sm, "delete_model", ModelName="m")
ask(iam, "delete_role", **role)
for a in answers:
    print(json.dumps(a, sort_keys=True).replace(account, "ACCOUNT"))
