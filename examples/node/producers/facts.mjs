// The facts of this project's vocabulary, recorded by otelllm-facts.mjs.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai-7';
import { loop } from '../lib/agent.mjs';
import { messages } from '../lib/messages.mjs';
import { chat } from '../lib/chat.mjs';
import { responses } from '../lib/responses.mjs';
import { Abort, factsFetch, outputCached, outputFailed, outputSent, withRun, withSignal, withTool } from '../otelllm-facts.mjs';

export const pressedStop = () => new Abort('user', 'stop_button');

export const barked = () => new Abort('watchdog', 'idle', 0.1);

class LostError extends Error {}

// deliver sends an output beside the requests, as in a realtime session.
function deliver(how, call) {
  if (how !== 'unsent' && how !== 'sent') return;
  const error = new LostError('not connected');
  outputFailed(call.id, error);
  if (how === 'unsent') throw error;
  outputCached(call.id);
  outputSent(call.id);
}

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
  Object.assign(r, { tools, attempted: withSignal, deliver: (call) => deliver(r.delivery, call) });
  return withRun('coder', { signal: r.signal, conversation: r.conversation, toolsRecorded: true }, () => loop(model, r));
}
