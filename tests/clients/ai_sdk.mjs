// The provider of npm's "@ai-sdk/openai-compatible", at the level on which the AI SDK calls it:
// node ai_sdk.mjs BASE_URL KEY
import assert from "node:assert/strict";
import {createOpenAICompatible} from "@ai-sdk/openai-compatible";

const [baseURL, apiKey] = process.argv.slice(2);
const provider = createOpenAICompatible({name: "soli", baseURL, apiKey, includeUsage: true});
const prompt = [
  {role: "system", content: "Be brief."},
  {role: "user", content: [{type: "text", text: "The captain looked at the sea"}]},
];
const options = {prompt, temperature: 0, maxOutputTokens: 12};

const model = provider.chatModel("demo");
const whole = await model.doGenerate(options);
const text = whole.content.filter((part) => part.type === "text").map((part) => part.text).join("");
assert.ok(text.length > 0);

const {stream} = await model.doStream(options);
const parts = [];
for await (const part of stream) parts.push(part);
assert.deepEqual(parts.filter((part) => part.type === "error"), []);
assert.equal(parts.filter((part) => part.type === "text-delta").map((part) => part.delta).join(""), text);
const finish = parts.find((part) => part.type === "finish");
assert.deepEqual(finish.finishReason, whole.finishReason);
assert.deepEqual(finish.usage.outputTokens, whole.usage.outputTokens);

const completion = await provider.completionModel("demo").doGenerate({...options, prompt: [prompt[1]]});
assert.ok(completion.content.length > 0);

const embedder = provider.embeddingModel("demo");
const {embeddings} = await embedder.doEmbed({values: ["The sea", "The land"]});
assert.equal(embeddings.length, 2);
assert.equal(embeddings[0].length, embeddings[1].length);

const refused = await model.doGenerate({...options, temperature: 100}).then(() => assert.fail("no error"), (e) => e);
assert.equal(refused.statusCode, 400);
assert.match(refused.message, /temperature/);
const wrong = createOpenAICompatible({name: "soli", baseURL, apiKey: "wrong-key"}).chatModel("demo");
assert.equal((await wrong.doGenerate(options).then(() => assert.fail("no error"), (e) => e)).statusCode, 401);
