// The facts of this project's vocabulary, recorded by otelllm-facts.mjs.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai-7';
import { loop } from '../lib/agent.mjs';
import { messages } from '../lib/messages.mjs';
import { chat } from '../lib/chat.mjs';
import { responses } from '../lib/responses.mjs';
import { Abort, factsFetch, withRun, withTool } from '../otelllm-facts.mjs';

export const pressedStop = () => new Abort('user', 'stop_button');

export function run(r) {
  const client = { ...r.client, fetch: factsFetch(r.client.fetch) };
  const tools = r.tools.map((t) => ({
    ...t,
    execute: (input, call) => withTool({ id: call.callId, name: t.name, effect: t.effect }, () => t.execute(input, call)),
  }));
  const model = {
    chat: () => chat(new OpenAI(client), tools),
    responses: () => responses(new OpenAI(client), tools),
    messages: () => messages(new Anthropic({ ...client, openTelemetry: false }), tools),
  }[r.api]();
  return withRun('coder', { signal: r.signal, toolsRecorded: true }, () => loop(model, { ...r, tools }));
}
