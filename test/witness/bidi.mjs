// The JavaScript SDK over a bidirectional stream. It has no published client for the operation, so this is its runtime for
// a service of the same protocol (restJson1, HTTP/2, signed events) with this operation's schema: what signs, frames and
// reads is the SDK's own. BIDI_URL says where; NODE_EXTRA_CA_CERTS trusts the certificate.
import assert from "node:assert/strict";
import { BedrockRuntimeClient, BedrockRuntimeServiceException } from "@aws-sdk/client-bedrock-runtime";
import { getEventStreamPlugin } from "@aws-sdk/middleware-eventstream";
import { makeBuilder } from "@smithy/core/client";
import { getEndpointPlugin } from "@smithy/core/endpoints";
import { TypeRegistry } from "@smithy/core/schema";
import { NodeHttp2Handler } from "@smithy/node-http-handler";

const ns = "com.amazonaws.sagemakerruntimehttp2";
const registry = new TypeRegistry(ns);
const errors = {};
function error(name, status, members, types) {
  errors[name] = class extends BedrockRuntimeServiceException {
    constructor(o) {
      super({ name, $fault: status < 500 ? "client" : "server", ...o });
      Object.setPrototypeOf(this, errors[name].prototype); // the SDK's own sets another
    }
  };
  const schema = [-3, ns, name, { error: status < 500 ? "client" : "server", httpError: status }, members, types];
  registry.registerError(schema, errors[name]);
  return schema;
}
const Coded = [["Message", "ErrorCode"], [0, 0]];
error("InputValidationError", 400, ...Coded);
error("InternalServerError", 500, ...Coded);
error("ServiceUnavailableError", 503, ...Coded);
error("ModelError", 424, ["Message", "OriginalStatusCode", "OriginalMessage", "LogStreamArn", "ErrorCode"], [0, 1, 0, 0, 0]);
const ModelStreamError = error("ModelStreamError", 400, ...Coded);
const InternalStreamFailure = error("InternalStreamFailure", 500, ["Message"], [0]);

const part = (name) => [3, ns, name, 0, ["Bytes", "DataType", "CompletionState", "P"], [[21, { eventPayload: 1 }], ...Array(3).fill([0, { eventHeader: 1 }])]];
const RequestPayloadPart = part("RequestPayloadPart");
const ResponsePayloadPart = part("ResponsePayloadPart");
const RequestStreamEvent = [4, ns, "RequestStreamEvent", { streaming: 1 }, ["PayloadPart"], [[() => RequestPayloadPart, 0]]];
const ResponseStreamEvent = [4, ns, "ResponseStreamEvent", { streaming: 1 }, ["PayloadPart", "ModelStreamError", "InternalStreamFailure"],
  [[() => ResponsePayloadPart, 0], [() => ModelStreamError, 0], [() => InternalStreamFailure, 0]]];
const header = (name) => [0, { httpHeader: `X-Amzn-SageMaker-${name}` }];
const In = [3, ns, "InvokeEndpointWithBidirectionalStreamInput", 0, ["EndpointName", "Body", "TargetVariant", "ModelInvocationPath", "ModelQueryString"],
  [[0, 1], [() => RequestStreamEvent, 16], header("Target-Variant"), header("Model-Invocation-Path"), header("Model-Query-String")], 2];
const Out = [3, ns, "InvokeEndpointWithBidirectionalStreamOutput", 0, ["Body", "InvokedProductionVariant"],
  [[() => ResponseStreamEvent, 16], [0, { httpHeader: "X-Amzn-Invoked-Production-Variant" }]], 1];
const operation = [9, ns, "InvokeEndpointWithBidirectionalStream", { http: ["POST", "/endpoints/{EndpointName}/invocations-bidirectional-stream", 200] }, () => In, () => Out];
const command = makeBuilder({ Endpoint: { type: "builtInParams", name: "endpoint" }, Region: { type: "builtInParams", name: "region" } },
  "AmazonSageMakerRuntimeHttp2", "SageMakerRuntimeHTTP2Client", getEndpointPlugin);
class Invoke extends command({}, (C, stack, config) => [getEventStreamPlugin(config)], "InvokeEndpointWithBidirectionalStream", operation) {}

function client(secretAccessKey) {
  const c = new BedrockRuntimeClient({
    endpoint: process.env.BIDI_URL, region: "us-east-1", credentials: { accessKeyId: "AKIDEXAMPLE", secretAccessKey }, maxAttempts: 1,
    requestHandler: new NodeHttp2Handler(),
    protocolSettings: { defaultNamespace: ns, errorTypeRegistries: [registry], version: "2025-10-01", serviceTarget: "AmazonSageMakerRuntimeHttp2" },
    httpAuthSchemeProvider: ({ region }) => [{ schemeId: "aws.auth#sigv4", signingProperties: { name: "sagemaker", region },
      propertiesExtractor: (config, context) => ({ signingProperties: { config, context } }) }],
  });
  c.config.signingName = "sagemaker";
  return c;
}

const c = client("secret");
const EndpointName = "speech-kokoro-82m";
const utf8 = new TextEncoder(), text = new TextDecoder();

// speak sends texts, each when the one before it has been spoken, and is what came of them.
async function speak(texts, more = {}, dataType = "UTF8") {
  let next, told = new Promise((r) => (next = r));
  async function* body() {
    for (const [i, t] of texts.entries()) {
      const whole = utf8.encode(JSON.stringify({ text: t, request_id: `r${i}` }));
      const cut = Math.floor(whole.length / 2); // anywhere, also inside a character
      const kind = dataType ? { DataType: dataType } : {};
      yield { PayloadPart: { Bytes: whole.slice(0, cut), CompletionState: "PARTIAL", ...kind } };
      yield { PayloadPart: { Bytes: whole.slice(cut), CompletionState: "COMPLETE", ...kind } };
      await told;
      told = new Promise((r) => (next = r));
    }
  }
  const out = await c.send(new Invoke({ EndpointName, Body: body(), ...more }));
  const seen = { variant: out.InvokedProductionVariant, bytes: 0, messages: [] };
  for await (const event of out.Body) {
    if (!event.PayloadPart) throw event.ModelStreamError ?? event.InternalStreamFailure ?? new Error(JSON.stringify(event));
    const { Bytes, DataType, CompletionState } = event.PayloadPart;
    assert.equal(CompletionState, "COMPLETE");
    if (DataType === "BINARY") {
      seen.bytes += Bytes.length;
      continue;
    }
    assert.equal(DataType, "UTF8");
    const m = JSON.parse(text.decode(Bytes));
    seen.messages.push(m);
    if (m.type === "synthesis_complete" || m.type === "error") next();
  }
  return seen;
}

// Two texts in one session, in characters of more than one byte, cut in the middle.
for (const dataType of ["UTF8", "BINARY", undefined]) {
  const s = await speak(["Zażółć “gęślą” jaźń, café 👋 and more.", "Your table is ready."], { TargetVariant: "primary", ModelQueryString: "sample_rate=16000" }, dataType);
  const done = s.messages.filter((m) => m.type === "synthesis_complete");
  assert.equal(s.variant, "primary");
  assert.deepEqual(done.map((m) => m.request_id), ["r0", "r1"]);
  assert.equal(s.messages.find((m) => m.type === "synthesis_start").sample_rate, 16000);
  assert.equal(2 * done.reduce((n, m) => n + m.samples, 0), s.bytes);
}

// What the container refuses, in the session and before it; what the platform does.
assert.equal((await speak(["..."])).messages.at(-1).error, "invalid_request");
await assert.rejects(speak(["x"], { ModelQueryString: "sample_rate=nonsense" }), (e) => e instanceof errors.ModelError && e.OriginalStatusCode === 400 && /invalid_request/.test(e.OriginalMessage));
await assert.rejects(speak(["x"], { ModelInvocationPath: "/v1/speak" }), (e) => e instanceof errors.InputValidationError && e.ErrorCode === "InputValidationError");
await assert.rejects(speak(["x"], { EndpointName: "nobody" }), (e) => e instanceof errors.InputValidationError && /nobody/.test(e.message));
await assert.rejects(client("another").send(new Invoke({ EndpointName, Body: (async function* () {})() })), { name: "InvalidSignatureException" });

// A frame that the container takes for nonsense closes its session with 1007: an exception, by that code.
let over;
const told = new Promise((r) => (over = r));
await assert.rejects(async () => {
  async function* body() {
    yield { PayloadPart: { Bytes: new Uint8Array([0xff]), DataType: "UTF8" } };
    await told;
  }
  try {
    const out = await c.send(new Invoke({ EndpointName, Body: body() }));
    for await (const event of out.Body) if (event.ModelStreamError) throw event.ModelStreamError;
  } finally {
    over();
  }
}, (e) => e instanceof errors.ModelStreamError && e.ErrorCode === "1007");

// Twenty at once, on one connection.
const all = await Promise.all(Array.from({ length: 20 }, (_, i) => speak([`Text number ${i}.`])));
assert(all.every((s) => s.bytes > 1000 && s.messages.some((m) => m.type === "synthesis_complete")));
c.destroy();
console.log("25 sessions and 4 refusals, every event signed");
