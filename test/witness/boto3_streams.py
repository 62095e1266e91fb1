"""200 response streams with boto3, eight at a time: each whole, none broken."""

import concurrent.futures

import boto3
import botocore.config

import oracle  # the environment

rt = boto3.client("sagemaker-runtime", config=botocore.config.Config(max_pool_connections=8, retries={"total_max_attempts": 1}))
STREAMS = 200


def one(_):
    r = rt.invoke_endpoint_with_response_stream(EndpointName="speech-kokoro-82m", ContentType="application/json", Body=b'{"text":"Good morning."}')
    sound = b"".join(e["PayloadPart"]["Bytes"] for e in r["Body"])
    assert sound[:4] == b"RIFF", sound[:40]
    return len(sound)


with concurrent.futures.ThreadPoolExecutor(8) as pool:
    sizes = set(pool.map(one, range(STREAMS)))
assert len(sizes) == 1, sizes
print(f"{STREAMS} streams of {sizes.pop()} bytes, none broken")
