# Answers CloudFormation's custom resource: starts the build that fetches the weights, which answers in its own time.
import json
import os
import urllib.request

import boto3


def answer(event, status, reason, kept):
    body = json.dumps({
        "Status": status, "Reason": reason, "PhysicalResourceId": kept, "StackId": event["StackId"],
        "RequestId": event["RequestId"], "LogicalResourceId": event["LogicalResourceId"],
    }).encode()
    request = urllib.request.Request(event["ResponseURL"], data=body, method="PUT", headers={"Content-Type": ""})
    urllib.request.urlopen(request, timeout=30).close()


def handler(event, context):
    want = event["ResourceProperties"]
    kept = event.get("PhysicalResourceId", "weights/%s/none" % want["Model"])
    if event["RequestType"] == "Delete":
        return answer(event, "SUCCESS", "the weights are kept", kept)
    kept = "weights/%s/%s" % (want["Model"], want["Revision"])
    values = {
        "MODEL": want["Model"], "REPO": want["Repo"], "REVISION": want["Revision"], "SHA256": want["SHA256"], "KEPT": kept,
        "RESPONSE_URL": event["ResponseURL"], "STACK_ID": event["StackId"], "REQUEST_ID": event["RequestId"],
        "LOGICAL_ID": event["LogicalResourceId"],
    }
    try:
        boto3.client("codebuild").start_build(
            projectName=os.environ["PROJECT"],
            environmentVariablesOverride=[{"name": k, "value": v, "type": "PLAINTEXT"} for k, v in values.items()],
        )
    except Exception as e:
        answer(event, "FAILED", "the sync could not be started: %s" % e, kept)
