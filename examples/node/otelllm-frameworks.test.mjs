// The hooks of the AI SDK and of @openai/agents, with the real packages, on answers that break.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { TracerProvider } from '@opentelemetry/sdk-trace';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAI as createOpenAI6 } from '@ai-sdk/openai-6';
import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool as agentTool } from '@openai/agents';
import * as ai7 from 'ai';
import * as ai6 from 'ai-6';
import OpenAI from 'openai-7';
import { z } from 'zod';
import { retryMiddleware } from './otelllm-ai-sdk.mjs';
import { factsFetch, withRun, withTool } from './otelllm-facts.mjs';
import { retryPolicy } from './otelllm-openai-agents.mjs';
import { RetryBudget, RetryError } from './otelllm-retry.mjs';

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(new TracerProvider());
setTracingDisabled(true);

const chunk = (delta, finish = null) => `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const begun = chunk({ role: 'assistant', content: '' });
const text = (words) => chunk({ content: words });
const call = chunk({ tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'pay', arguments: '{"invoice":1}' } }] });
const done = [chunk({}, 'stop'), 'data: [DONE]\n\n'];
const reset = () => Object.assign(new TypeError('terminated'), { cause: Object.assign(new Error('read'), { code: 'ECONNRESET' }) });
const cut = (...chunks) => ({ chunks, error: reset() });
const refused = (status, code) => ({ status, type: 'application/json', chunks: [JSON.stringify({ error: { message: 'm', type: 'server_error', code } })] });
const asksToPay = { chunks: [begun, call, chunk({}, 'tool_calls'), 'data: [DONE]\n\n'] };
const paid = { chunks: [begun, text('It is paid.'), ...done] };
const document = (message, finish) => ({ type: 'application/json', chunks: [JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices: [{ index: 0, message: { role: 'assistant', content: null, ...message }, finish_reason: finish }], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } })] });

// server gives these answers, and counts requests.
function server(...answers) {
  const s = { requests: 0 };
  s.fetch = factsFetch(async () => {
    const { status = 200, type = 'text/event-stream', chunks, error } = answers[s.requests++] ?? paid;
    const left = [...chunks];
    const body = new ReadableStream({
      async pull(controller) {
        await new Promise(setImmediate); // the SDK drops parts that come with an error
        if (left.length) controller.enqueue(new TextEncoder().encode(left.shift()));
        else if (error) controller.error(error);
        else controller.close();
      },
    }, { highWaterMark: 0 });
    return new Response(body, { status, headers: { 'content-type': type } });
  });
  return s;
}

const policy = (more) => ({ budget: new RetryBudget(), random: () => 0, sleep: async () => undefined, ...more });

for (const [version, ai, create] of [['7', ai7, createOpenAI], ['6', ai6, createOpenAI6]]) {
  // agent runs an agent that pays, and returns its texts, errors, and how often it paid.
  const agent = async (s, more, { recorded = true, ...options } = {}) => {
    const got = { texts: '', errors: [], paid: 0, inputs: 0 };
    const model = ai.wrapLanguageModel({ model: create({ apiKey: 'k', baseURL: 'https://model.example/v1', fetch: s.fetch }).chat('m'), middleware: retryMiddleware(policy(more)) });
    const work = async () => {
      const result = ai.streamText({
        model, prompt: 'pay', maxRetries: 0, stopWhen: ai.stepCountIs(4), onError() {}, ...options,
        tools: { pay: ai.tool({ inputSchema: z.object({ invoice: z.number() }), execute: (input, { toolCallId: id }) => withTool({ id, name: 'pay', effect: 'non_idempotent' }, () => { got.paid++; return 'paid'; }) }) },
      });
      for await (const part of result.fullStream) {
        if (part.type === 'text-delta') got.texts += part.text;
        if (part.type === 'tool-input-start') got.inputs++;
        if (part.type === 'error') got.errors.push(part.error);
        if (part.type === 'abort') got.aborted = true;
        if (got.texts && options.leaves) break;
      }
    };
    // The SDK throws what its provider throws.
    await (recorded ? withRun('payer', { toolsRecorded: true }, work) : work()).catch((error) => got.errors.push(error));
    return got;
  };

  test(`AI SDK ${version}: failures before anything was shown are not seen, and no call of a broken answer runs`, async () => {
    const s = server(refused(503, 'overloaded'), cut(begun), cut(begun, call), asksToPay, { chunks: [begun] }, refused(429, 'rate_limit_exceeded'));
    const got = await agent(s, { attempts: 5 });
    assert.deepEqual({ ...got }, { texts: 'It is paid.', errors: [], paid: 1, inputs: 1 });
    assert.equal(s.requests, 7);
  });

  test(`AI SDK ${version}: shown text is asked for`, async () => {
    const broken = cut(begun, text('It is'));
    const none = await agent(server(broken), {});
    assert.equal(none.texts, 'It is');
    assert.equal(none.errors.length, 1);
    assert.ok(none.errors[0] instanceof RetryError, none.errors[0]?.stack);
    assert.equal(none.errors[0].decision, 'no_hook');
    assert.equal(none.errors[0].cause.cause.message, 'terminated');
    const asked = [];
    const yes = await agent(server(broken), { ask: (q) => asked.push(q) > 0 });
    assert.deepEqual(yes, { texts: 'It isIt is paid.', errors: [], paid: 0, inputs: 0 });
    assert.equal(asked[0].textShown, true);
    assert.equal(asked[0].plan.ask, 'visible_output');
    assert.match(asked[0].summary, /connection/i);
  });

  test(`AI SDK ${version}: an answer has one end, and the texts of another attempt have ids of their own`, async () => {
    const s = server({ chunks: [begun] }, cut(begun, text('It is')));
    const model = create({ apiKey: 'k', baseURL: 'https://model.example/v1', fetch: s.fetch }).chat('m');
    const prompt = [{ role: 'user', content: [{ type: 'text', text: 'pay' }] }];
    const { stream } = await ai.wrapLanguageModel({ model, middleware: retryMiddleware(policy({ ask: () => true })) }).doStream({ prompt });
    const parts = [];
    for await (const part of stream) if (part.type !== 'text-delta' || part.delta) parts.push(part);
    assert.deepEqual(parts.map(({ type }) => type).filter((type) => type !== 'response-metadata'),
      ['stream-start', 'text-start', 'text-delta', 'text-end', 'text-start', 'text-delta', 'text-end', 'finish']);
    const [first, second] = parts.filter(({ type }) => type === 'text-delta');
    assert.notEqual(first.id, second.id);
    for (const type of ['text-start', 'text-end']) assert.deepEqual(parts.filter((part) => part.type === type).map(({ id }) => id), [first.id, second.id]);
  });

  test(`AI SDK ${version}: a call in a broken answer is asked for where tools are not recorded`, async () => {
    const got = await agent(server(cut(begun, call)), {}, { recorded: false });
    assert.equal(got.errors[0].plan.ask, 'tool_state_unknown');
    assert.equal(got.paid, 0);
  });

  test(`AI SDK ${version}: errors that no retry helps, those in the stream, an abort and a reader that leaves`, async () => {
    const denied = server(refused(401, 'invalid_api_key'));
    const got = await agent(denied, {});
    assert.equal(got.errors[0].decision, 'no_retry');
    assert.equal(got.errors[0].cause.statusCode, 401);
    assert.equal(denied.requests, 1);

    const inBand = server({ chunks: [begun, `data: ${JSON.stringify({ error: { message: 'm', type: 'server_error', code: 'overloaded' } })}\n\n`, ...done] });
    assert.equal((await agent(inBand, {})).texts, 'It is paid.');

    const stop = new AbortController();
    const aborted = await agent(server(refused(503, 'overloaded')), { sleep: async () => stop.abort() }, { abortSignal: stop.signal });
    assert.ok(aborted.aborted || !(aborted.errors[0] instanceof RetryError), aborted.errors[0]?.stack);

    const left = server(cut(begun, text('It is'), text(' paid.')));
    assert.deepEqual((await agent(left, {}, { leaves: true })).errors, []);
    assert.equal(left.requests, 1);
  });

  test(`AI SDK ${version}: generateText`, async () => {
    const s = server(refused(503, 'overloaded'), document({ content: 'It is paid.' }, 'stop'));
    const model = ai.wrapLanguageModel({ model: create({ apiKey: 'k', baseURL: 'https://model.example/v1', fetch: s.fetch }).chat('m'), middleware: retryMiddleware(policy()) });
    assert.equal((await ai.generateText({ model, prompt: 'pay', maxRetries: 0 })).text, 'It is paid.');
    const denied = ai.wrapLanguageModel({ model: create({ apiKey: 'k', baseURL: 'https://model.example/v1', fetch: server(refused(401, 'invalid_api_key')).fetch }).chat('m'), middleware: retryMiddleware(policy()) });
    await assert.rejects(ai.generateText({ model: denied, prompt: 'pay', maxRetries: 0 }), (e) => e instanceof RetryError && e.cause.statusCode === 401);
  });
}

// agents runs an agent of @openai/agents that pays.
async function agents(s, more, { recorded = true, stream = false, providerData } = {}) {
  const got = { paid: 0 };
  const model = new OpenAIChatCompletionsModel(new OpenAI({ apiKey: 'k', baseURL: 'https://model.example/v1', fetch: s.fetch, maxRetries: 0 }), 'm');
  const pay = agentTool({
    name: 'pay', description: 'pay', parameters: z.object({ invoice: z.number() }),
    execute: (input, _context, details) => withTool({ id: details.toolCall.callId, name: 'pay', effect: 'non_idempotent' }, () => { got.paid++; return 'paid'; }),
  });
  const payer = new Agent({ name: 'payer', model, tools: [pay], modelSettings: { providerData, retry: { maxRetries: 3, policy: retryPolicy({ backoff: 1, ...more }) } } });
  await withRun('payer', { toolsRecorded: recorded }, async () => {
    const result = await run(payer, 'pay', { stream });
    if (stream) for await (const event of result) void event;
    got.output = result.finalOutput;
  });
  return got;
}

const jsonCall = document({ tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'pay', arguments: '{"invoice":1}' } }] }, 'tool_calls');
const jsonPaid = document({ content: 'It is paid.' }, 'stop');

test('@openai/agents: what is safe is repeated, and nothing else', async () => {
  const s = server(refused(503, 'overloaded'), jsonCall, refused(429, 'rate_limit_exceeded'), { ...cut(), type: 'application/json' }, jsonPaid);
  assert.deepEqual(await agents(s, {}), { paid: 1, output: 'It is paid.' });
  assert.equal(s.requests, 5);

  const denied = server(refused(401, 'invalid_api_key'));
  await assert.rejects(agents(denied, { ask: () => assert.fail('asked') }), (e) => e.status === 401);
  assert.equal(denied.requests, 1);
});

test('@openai/agents: ask approves a replay', async () => {
  // What a tool of the provider did in an answer that broke off is not known.
  const half = { chunks: jsonCall.chunks.map((c) => c.slice(0, -40)), type: 'application/json', error: reset() };
  const providerData = { tools: [{ type: 'mcp' }] };
  const none = server(half);
  await assert.rejects(agents(none, {}, { providerData }));
  assert.equal(none.requests, 1);
  const asked = [];
  const s = server(half, jsonPaid);
  assert.deepEqual(await agents(s, { ask: (q) => asked.push(q) > 0 }, { providerData }), { paid: 0, output: 'It is paid.' });
  assert.equal(asked.length, 1);
  assert.equal(asked[0].attempts, 1);
  assert.ok(asked[0].plan.ask && asked[0].summary && asked[0].error);
});

test('@openai/agents: all callers of a host share a budget', async () => {
  const down = refused(503, 'overloaded');
  const budget = new RetryBudget();
  for (let i = 0; i < 98; i++) budget.take('model.example'); // others have taken all but two of the 100 retries
  const outage = server(down, down, down, down, down);
  await assert.rejects(agents(outage, { budget }));
  await assert.rejects(agents(outage, { budget }));
  assert.equal(outage.requests, 3 + 1); // two retries were left, and then each asks once
  const back = server(...Array.from({ length: 11 }, () => jsonPaid), down, down, down);
  for (let i = 0; i < 11; i++) await agents(back, { budget });
  await assert.rejects(agents(back, { budget })); // calls that went well allow one retry for every ten
  assert.equal(back.requests, 11 + 2);
});

test('@openai/agents: a stream is repeated until its first event', async () => {
  const s = server(refused(503, 'overloaded'), asksToPay, paid);
  assert.deepEqual(await agents(s, {}, { stream: true }), { paid: 1, output: 'It is paid.' });
  const broken = server(cut(begun, call));
  await assert.rejects(agents(broken, {}, { stream: true }));
  assert.equal(broken.requests, 1);
});
