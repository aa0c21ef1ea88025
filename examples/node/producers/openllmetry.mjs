// OpenLLMetry's instrumentations of the openai client and of Anthropic's.
import { AnthropicInstrumentation } from '@traceloop/instrumentation-anthropic';
import { OpenAIInstrumentation } from '@traceloop/instrumentation-openai';
import * as anthropic from 'anthropic-0'; // the instrumentation fails with version 1
import * as openai from 'openai';
import { loop } from '../lib/agent.mjs';
import { messages } from '../lib/messages.mjs';
import { chat } from '../lib/chat.mjs';
import { responses } from '../lib/responses.mjs';

export function instrument(tracerProvider) {
  for (const [instrumentation, module] of [
    [new OpenAIInstrumentation({ traceContent: false }), openai.OpenAI],
    [new AnthropicInstrumentation({ traceContent: false }), anthropic],
  ]) {
    instrumentation.setTracerProvider(tracerProvider);
    instrumentation.manuallyInstrument(module);
  }
}

export const run = (r) => loop({
  chat: () => chat(new openai.OpenAI(r.client), r.tools),
  responses: () => responses(new openai.OpenAI(r.client), r.tools),
  messages: () => messages(new anthropic.Anthropic({ ...r.client, openTelemetry: false }), r.tools),
}[r.api](), r);
