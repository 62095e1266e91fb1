// The JavaScript SDK: describe, a response stream, typed errors. AWS_ENDPOINT_URL says where.
import assert from "node:assert/strict";
import { SageMakerClient, DescribeEndpointCommand, paginateListEndpoints } from "@aws-sdk/client-sagemaker";
import { SageMakerRuntimeClient, InvokeEndpointCommand, InvokeEndpointWithResponseStreamCommand, ModelError } from "@aws-sdk/client-sagemaker-runtime";
import { CloudWatchClient, ListMetricsCommand, PutMetricDataCommand, GetDashboardCommand } from "@aws-sdk/client-cloudwatch";

const endpoint = process.env.AWS_ENDPOINT_URL;
const at = { endpoint, region: "us-east-1", credentials: { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "secret" } };
const name = "speech-kokoro-82m";
const ask = { EndpointName: name, ContentType: "application/json", Body: '{"text":"Good morning."}' };

const sm = new SageMakerClient(at);
assert.equal((await sm.send(new DescribeEndpointCommand({ EndpointName: name }))).EndpointStatus, "InService");
for await (const page of paginateListEndpoints({ client: sm, pageSize: 1 }, {})) assert.equal(page.Endpoints[0].EndpointName, name);

const rt = new SageMakerRuntimeClient(at);
assert.equal(new TextDecoder().decode((await rt.send(new InvokeEndpointCommand(ask))).Body.slice(0, 4)), "RIFF");
for (let i = 0; i < 50; i++) {
  const r = await rt.send(new InvokeEndpointWithResponseStreamCommand(ask));
  assert.equal(r.ContentType, "audio/wav");
  assert.equal(r.InvokedProductionVariant, "primary");
  let bytes = 0;
  for await (const e of r.Body) bytes += e.PayloadPart.Bytes.length;
  assert(bytes > 1000, `stream ${i} has ${bytes} bytes`);
}
await assert.rejects(rt.send(new InvokeEndpointCommand({ ...ask, Body: "{}" })), (e) => e instanceof ModelError && e.OriginalStatusCode === 400);
await assert.rejects(rt.send(new InvokeEndpointCommand({ ...ask, EndpointName: "nobody" })), { name: "ValidationError" });

const cw = new CloudWatchClient(at);
await cw.send(new PutMetricDataCommand({ Namespace: "JS", MetricData: [{ MetricName: "m", Value: 1, Timestamp: new Date() }] }));
assert.equal((await cw.send(new ListMetricsCommand({ Namespace: "JS" }))).Metrics.length, 1);
await assert.rejects(cw.send(new GetDashboardCommand({ DashboardName: "none" })), (e) => e.Code === "ResourceNotFound" && e.$metadata.httpStatusCode === 404);
console.log("50 streams, none broken");
