"""Inference components with boto3: copies on instances of their own, to none and back."""

import oracle
from oracle import refused

import boto3

sm, rt = boto3.client("sagemaker"), boto3.client("sagemaker-runtime")
fast = {"Delay": 0.1, "MaxAttempts": 200}
role = "arn:aws:iam::000000000000:role/r"
sm.create_model(ModelName="m", ExecutionRoleArn=role, PrimaryContainer={"Image": "image"})
sm.create_endpoint_config(EndpointConfigName="c", ExecutionRoleArn=role, ProductionVariants=[{"VariantName": "all", "InstanceType": "ml.g5.xlarge",
    "InitialInstanceCount": 1, "ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": 2}, "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}}])
sm.create_endpoint(EndpointName="e", EndpointConfigName="c")
sm.get_waiter("endpoint_in_service").wait(EndpointName="e", WaiterConfig=fast)
part = {"ModelName": "m", "ComputeResourceRequirements": {"NumberOfCpuCoresRequired": 1, "MinMemoryRequiredInMb": 1024}}
sm.create_inference_component(InferenceComponentName="i", EndpointName="e", VariantName="all", Specification=part, RuntimeConfig={"CopyCount": 1})


def status(name):
    for _ in range(300):
        d = sm.describe_inference_component(InferenceComponentName=name)
        if d["InferenceComponentStatus"] in ("InService", "Failed"):
            return d
        oracle.time.sleep(0.05)
    raise AssertionError(d)


assert status("i")["RuntimeConfig"] == {"DesiredCopyCount": 1, "CurrentCopyCount": 1}
assert [c["InferenceComponentName"] for c in sm.list_inference_components(EndpointNameEquals="e")["InferenceComponents"]] == ["i"]
ask = {"EndpointName": "e", "InferenceComponentName": "i", "ContentType": "application/json", "Body": b'{"text":"Good morning."}'}
assert rt.invoke_endpoint(**ask)["Body"].read(4) == b"RIFF"
sm.update_inference_component_runtime_config(InferenceComponentName="i", DesiredRuntimeConfig={"CopyCount": 2})
assert status("i")["RuntimeConfig"]["CurrentCopyCount"] == 2
sm.update_inference_component_runtime_config(InferenceComponentName="i", DesiredRuntimeConfig={"CopyCount": 0})
assert status("i")["RuntimeConfig"]["DesiredCopyCount"] == 0
refused("ValidationException", sm.describe_inference_component, InferenceComponentName="nobody")
sm.delete_inference_component(InferenceComponentName="i")
for _ in range(200):
    if not sm.list_inference_components()["InferenceComponents"]:
        break
    oracle.time.sleep(0.05)
sm.delete_endpoint(EndpointName="e")
sm.get_waiter("endpoint_deleted").wait(EndpointName="e", WaiterConfig=fast)
oracle.done()
