// Model calls under retry, over the official SDKs, for the tests of examples/retry: node retry-agent.mjs <TASKS, a JSON object a line. It
// prints a line with what happened for each.
//
//   {"name", "url", "wire"}                one call, one attempt: the verdict; with @openai/agents, if it asks its policy for one
//   {"name", "url", "wire", "seed", …}     an agent that pays invoices while its model calls break: what it paid, and what it asked. Its
//                                          loop is around each call, around the turn, or the AI SDK's own
import { createInterface } from 'node:readline';
import process from 'node:process';
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { TracerProvider } from '@opentelemetry/sdk-trace';
import { createOpenAI } from '@ai-sdk/openai';
import Anthropic from '@anthropic-ai/sdk';
import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled } from '@openai/agents';
import { jsonSchema, stepCountIs, streamText, tool, wrapLanguageModel } from 'ai';
import OpenAI from 'openai';
import OpenAI7 from 'openai-7';
import { retryMiddleware } from './otelllm-ai-sdk.mjs';
import { factsFetch, withRun, withTool } from './otelllm-facts.mjs';
import { retryPolicy } from './otelllm-openai-agents.mjs';
import { decide, retry, RetryBudget, RetryError, retryTurn } from './otelllm-retry.mjs';

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(new TracerProvider());
setTracingDisabled(true);

// randomOf returns a generator of numbers in [0, 1), by Marsaglia's xorshift.
function randomOf(seed) {
  let state = (seed * 2654435761 + 1) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

const isJSON = (text) => {
  try {
    return JSON.parse(text) !== undefined;
  } catch {
    return false;
  }
};

// chat makes one model call. piece gets the pieces of calls, and text that there was some.
async function chat(client, history, { piece, text }) {
  const messages = [{ role: 'user', content: 'pay' }, ...history.flatMap(({ id, input }) => [
    { role: 'assistant', tool_calls: [{ id, type: 'function', function: { name: 'pay', arguments: input } }] }, { role: 'tool', tool_call_id: id, content: 'paid' }])];
  const tools = [{ type: 'function', function: { name: 'pay', parameters: { type: 'object' } } }];
  for await (const { choices: [choice] } of await client.chat.completions.create({ model: 'm', messages, tools, stream: true })) {
    if (choice?.delta?.content) text();
    for (const { index, id, function: f } of choice?.delta?.tool_calls ?? []) await piece(index, id ?? '', f?.arguments ?? '');
  }
}

async function messages(client, history, { piece, text }) {
  const all = [{ role: 'user', content: 'pay' }, ...history.flatMap(({ id, input }) => [
    { role: 'assistant', content: [{ type: 'tool_use', id, name: 'pay', input: JSON.parse(input) }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'paid' }] }])];
  const tools = [{ name: 'pay', input_schema: { type: 'object' } }];
  const indices = new Map();
  for await (const event of await client.messages.create({ model: 'm', max_tokens: 100, messages: all, tools, stream: true })) {
    if (event.type === 'content_block_start' && event.content_block.type === 'tool_use') {
      indices.set(event.index, indices.size);
      await piece(indices.get(event.index), event.content_block.id, '');
    } else if (event.type === 'content_block_delta') {
      if (event.delta.type === 'text_delta') text();
      if (event.delta.type === 'input_json_delta') await piece(indices.get(event.index), '', event.delta.partial_json);
    }
  }
}

// aiSDK makes one model call without a history. The AI SDK has errors among the parts of its stream.
async function aiSDK(model) {
  const { fullStream } = streamText({ model, prompt: 'pay', maxRetries: 0, onError() {} });
  for await (const part of fullStream) if (part.type === 'error') throw part.error;
}

function callOf({ url, wire, sdk = 0 }, fetch) {
  const options = { baseURL: url, apiKey: 'none', maxRetries: sdk, fetch: factsFetch(fetch) };
  if (wire === 'messages') return messages.bind(undefined, new Anthropic(options));
  if (wire === 'ai-sdk') return aiSDK.bind(undefined, createOpenAI(options).chat('m'));
  return chat.bind(undefined, new OpenAI(options));
}

// agentsCell is one call of @openai/agents.
async function agentsCell({ url }) {
  const model = new OpenAIChatCompletionsModel(new OpenAI7({ baseURL: url, apiKey: 'none', maxRetries: 0, fetch: factsFetch() }), 'm');
  let verdict;
  let decision;
  const policy = async (failed) => {
    ({ verdict, decision } = (await decide({}, failed.attempt, failed.error)) ?? {});
    const answer = await retryPolicy()(failed);
    if (answer.retry !== (decision === 'again')) throw new Error('the policy does not obey');
    return false;
  };
  const agent = new Agent({ name: 'cell', model, modelSettings: { retry: { maxRetries: 1, policy } } });
  try {
    await withRun('cell', {}, async () => {
      for await (const event of await run(agent, 'pay', { stream: true, maxTurns: 1 })) void event;
    });
    return {};
  } catch (error) {
    return { verdict, decision, own: error?.constructor?.name };
  }
}

// hookedCell is one call of the AI SDK with the middleware.
async function hookedCell({ url }) {
  const model = wrapLanguageModel({ model: createOpenAI({ baseURL: url, apiKey: 'none', fetch: factsFetch() }).chat('m'), middleware: retryMiddleware({ attempts: 1, budget: new RetryBudget() }) });
  return aiSDK(model);
}

// cell is one call with one attempt.
async function cell(task) {
  if (task.wire === 'openai-agents') return agentsCell(task);
  if (task.wire === 'ai-sdk-hook') {
    return hookedCell(task).then(() => ({}), (error) => (error instanceof RetryError ? { verdict: error.verdict, decision: error.decision } : { own: error?.constructor?.name }));
  }
  const call = callOf(task);
  try {
    await retry(() => call([], { piece() {}, text() {} }), { attempts: 1, budget: new RetryBudget() });
    return {};
  } catch (error) {
    if (!(error instanceof RetryError)) return { own: error?.constructor?.name };
    return { verdict: error.verdict, decision: error.decision, cause: error.cause?.constructor?.name };
  }
}

// Schedule is an agent with what it really did.
class Schedule {
  history = [];
  paid = {};
  asked = 0;
  due = 0; // questions after which something would have been repeated
  unknown = 0; // those of which the client cannot know that: it has a call that could be executed, of a tool that is not recorded
  unasked = 0; // attempts that repeated something, and that no one was asked about
  early = 0; // requests before the provider's wait was over
  most = 0; // requests of one model call
  sent = 0;
  now = 0; // ms, by a clock that only waiting moves
  notBefore = 0;

  constructor(task) {
    Object.assign(this, { task, random: randomOf(task.seed) });
    this.attempts = 2 + Math.floor(this.random() * 4);
    this.call = callOf(task, (input, init) => this.fetch(input, init));
    this.refusals = task.quick ? 0 : Math.floor(this.random() * 3);
    this.policy = {
      attempts: this.attempts, elapsed: 60_000, budget: new RetryBudget(), random: this.random, now: () => this.now,
      sleep: async (ms) => { this.now += ms; },
      ask: () => {
        this.asked++;
        if (this.shown || this.dropped) this.due++;
        else if (this.ready && !task.declared) this.unknown++;
        this.open = this.shown = false;
        return !this.dropped;
      },
    };
  }

  async fetch(input, init) {
    this.sent++;
    if (this.task.loop === 'ai-sdk') {
      if (this.shown) this.unasked++;
      this.most = Math.max(this.most, ++this.sentOfCall);
    }
    if (this.now < this.notBefore) this.early++;
    this.notBefore = 0;
    if (this.refusals > 0 && this.random() < 0.1) {
      this.refusals--;
      return fetch(String(input).replace(/\/\/[^/]+/, `//${this.task.closed}`), init);
    }
    const response = await fetch(input, init);
    this.notBefore = this.now + 1000 * Number(response.headers.get('retry-after') ?? 0);
    return response;
  }

  async work() {
    try {
      const loop = { calls: () => this.turn((attempt) => retry(attempt, this.policy)), turns: () => this.turns(), 'ai-sdk': () => this.aiSDK() }[this.task.loop];
      if (this.task.declared) await withRun('schedule', { toolsRecorded: true }, loop);
      else await loop();
    } catch (error) {
      this.error = error instanceof RetryError ? error.decision : error?.constructor?.name;
    }
    const { paid, asked, due, unknown, unasked, early, most, attempts, error } = this;
    return { paid, asked, due, unknown, unasked, early, most, attempts, error };
  }

  async turns() {
    await retryTurn(async () => {
      this.tries = (this.tries ?? 0) + 1;
      await this.turn((attempt) => attempt());
    }, this.policy);
  }

  // aiSDK leaves the loop and the tools to the AI SDK. What it has executed it sends with the next call.
  async aiSDK() {
    const schedule = this;
    const watch = { // outside of the middleware
      specificationVersion: 'v4',
      async wrapStream({ doStream }) {
        schedule.sentOfCall = 0;
        schedule.shown = false;
        const { stream, ...rest } = await doStream();
        return { ...rest, stream: stream.pipeThrough(new TransformStream({
          transform(part, controller) {
            if (part.type === 'text-delta' && part.delta) schedule.shown = true;
            if (part.type === 'finish') schedule.shown = false;
            controller.enqueue(part);
          },
        })) };
      },
    };
    const openai = createOpenAI({ baseURL: this.task.url, apiKey: 'none', fetch: factsFetch((input, init) => this.fetch(input, init)) });
    const { fullStream } = streamText({
      model: wrapLanguageModel({ model: openai.chat('m'), middleware: [watch, retryMiddleware(this.policy)] }),
      prompt: 'pay', maxRetries: 0, stopWhen: stepCountIs(20), onError() {},
      tools: { pay: tool({ inputSchema: jsonSchema({ type: 'object' }), execute: async (input, { toolCallId: id }) => {
        await this.pay({ id, input: JSON.stringify(input) });
        return 'paid';
      } }) },
    });
    for await (const part of fullStream) if (part.type === 'error') throw part.error;
  }

  async turn(repeat) {
    for (let step = 0; step < 20; step++) {
      const { sent } = this;
      let calls;
      try {
        calls = await repeat(() => this.attempt());
      } finally {
        this.most = Math.max(this.most, this.tries ?? this.sent - sent);
      }
      this.open = this.dropped = false; // the calls are in the history from now on
      if (!calls.length) return;
      for (const call of calls) {
        if (!this.task.eager) await this.pay(call);
        this.history.push(call);
      }
    }
  }

  // attempt makes one model call. An eager agent executes calls on the way; what they returned is lost if the answer breaks.
  async attempt() {
    if (this.open) this.unasked++;
    this.shown = this.dropped = this.ready = this.open = false;
    const calls = [];
    try {
      await this.call(this.history, {
        text: () => { this.shown = true; },
        piece: async (index, id, input) => {
          const call = (calls[index] ??= { id: '', input: '' });
          call.id += id;
          call.input += input;
          if (call.done || !isJSON(call.input)) return;
          call.done = this.ready = true;
          if (!this.task.eager) return;
          this.dropped = true;
          await this.pay(call);
        },
      });
      this.ready = calls.length > 0; // without an error clients have it for complete, and some repair the input
      if (!calls.every(({ input }) => isJSON(input))) throw new SyntaxError('the arguments are not JSON');
      return calls;
    } finally {
      this.open = this.shown || this.dropped;
    }
  }

  async pay({ id, input }) {
    const { invoice } = JSON.parse(input);
    const pay = () => { this.paid[invoice] = (this.paid[invoice] ?? 0) + 1; };
    if (this.task.declared) await withTool({ id, name: 'pay', effect: this.task.effect }, pay);
    else pay();
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  const result = task.seed === undefined ? await cell(task) : await new Schedule(task).work();
  process.stdout.write(`${JSON.stringify({ name: task.name, ...result })}\n`);
}
process.exit(0);
