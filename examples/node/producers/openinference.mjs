// OpenInference's instrumentations of the openai client and of Anthropic's.
import Anthropic from '@anthropic-ai/sdk';
import { AnthropicInstrumentation } from '@arizeai/openinference-instrumentation-anthropic';
import { OpenAIInstrumentation } from '@arizeai/openinference-instrumentation-openai';
import OpenAI from 'openai-7';
import { loop } from '../lib/agent.mjs';
import { messages } from '../lib/messages.mjs';
import { chat } from '../lib/chat.mjs';
import { responses } from '../lib/responses.mjs';

export function instrument(tracerProvider) {
  const traceConfig = { hideInputs: true, hideOutputs: true };
  new OpenAIInstrumentation({ tracerProvider, traceConfig }).manuallyInstrument(OpenAI);
  new AnthropicInstrumentation({ tracerProvider, traceConfig }).manuallyInstrument(Anthropic);
}

export const run = (r) => loop({
  chat: () => chat(new OpenAI(r.client), r.tools),
  responses: () => responses(new OpenAI(r.client), r.tools),
  messages: () => messages(new Anthropic({ ...r.client, openTelemetry: false }), r.tools),
}[r.api](), r);
