// The client of npm's "openai": node openai.mjs BASE_URL KEY
import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({baseURL, apiKey, maxRetries: 0});
const messages = [{role: "user", content: "The captain looked at the sea"}];
const chat = {model: "demo", messages, temperature: 0, max_tokens: 12};

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

async function fails(promise, type, status, code) {
  const error = await promise.then(() => assert.fail("no error"), (e) => e);
  assert.ok(error instanceof type, `${error}`);
  assert.equal(error.status, status);
  if (code) assert.equal(error.code, code);
  return error;
}

// Models.
const models = (await client.models.list()).data;
assert.deepEqual(models.map((model) => model.id), ["demo"]);
assert.equal((await client.models.retrieve("demo")).id, "demo");

// Chats, whole and streamed.
const whole = await client.chat.completions.create(chat);
assert.equal(whole.object, "chat.completion");
assert.equal(whole.choices[0].message.role, "assistant");
assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);
const stream = await client.chat.completions.create({...chat, stream: true, stream_options: {include_usage: true}});
const chunks = await collect(stream);
const deltas = chunks.flatMap((chunk) => chunk.choices).map((choice) => choice.delta.content ?? "");
assert.equal(deltas.join(""), whole.choices[0].message.content);
assert.equal(chunks[0].choices[0].delta.role, "assistant");
assert.equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);

// The client's own way to put a stream together.
const runner = client.chat.completions.stream(chat);
assert.equal(await runner.finalContent(), whole.choices[0].message.content);

// Several choices, with log probabilities.
const two = await client.chat.completions.create({...chat, n: 2, seed: 1, temperature: 1, logprobs: true,
                                                  top_logprobs: 3});
assert.deepEqual(two.choices.map((choice) => choice.index), [0, 1]);
for (const choice of two.choices) {
  for (const token of choice.logprobs.content) {
    assert.ok(token.logprob <= 0);
    assert.ok(token.top_logprobs.length >= 3);
    const own = token.top_logprobs.find((top) => top.token === token.token);
    if (own) assert.equal(own.logprob, token.logprob);
  }
}

// Completions, whole, streamed, stopped.
const text = {model: "demo", prompt: "The captain", temperature: 0, max_tokens: 24};
const completion = await client.completions.create(text);
const pieces = await collect(await client.completions.create({...text, stream: true}));
assert.equal(pieces.map((piece) => piece.choices[0].text).join(""), completion.choices[0].text);
const stop = completion.choices[0].text.slice(6, 9);
const stopped = await client.completions.create({...text, stop: [stop]});
assert.equal(stopped.choices[0].finish_reason, "stop");
assert.equal(stopped.choices[0].text, completion.choices[0].text.slice(0, completion.choices[0].text.indexOf(stop)));

// Embeddings, which the client asks for as base64 by itself.
const embeddings = await client.embeddings.create({model: "demo", input: ["The sea", "The land", "The sea"]});
const vectors = embeddings.data.map((item) => item.embedding);
assert.equal(vectors.length, 3);
assert.deepEqual(vectors[0], vectors[2]);
assert.notDeepEqual(vectors[0], vectors[1]);
assert.ok(Math.abs(Math.hypot(...vectors[0]) - 1) < 1e-5);

// Errors come as the client's own classes.
await fails(new OpenAI({baseURL, apiKey: "wrong-key", maxRetries: 0}).models.list(), OpenAI.AuthenticationError, 401,
            "invalid_api_key");
await fails(client.models.retrieve("other"), OpenAI.NotFoundError, 404);
const bad = await fails(client.chat.completions.create({...chat, temperature: -1}), OpenAI.BadRequestError, 400);
assert.equal(bad.param, "temperature");
await fails(client.chat.completions.create({...chat, messages: []}), OpenAI.BadRequestError, 400);
await fails(client.chat.completions.create({...chat, stream: true, frobnicate: 1}), OpenAI.BadRequestError, 400);

// A stream that is broken off ends its request: the server still answers, and at once.
const endless = await client.completions.create({...text, max_tokens: 3000, logit_bias: {2: -100}, stream: true});
for await (const piece of endless) {
  assert.ok(piece.choices);
  break;
}
assert.equal((await client.completions.create(text)).choices[0].text, completion.choices[0].text);
