// OpenTelemetry's own instrumentation of the openai client, which patches the client
// when it is loaded with require.
import { createRequire } from 'node:module';
import { registerInstrumentations } from '@opentelemetry/instrumentation';
import { OpenAIInstrumentation } from '@opentelemetry/instrumentation-openai';
import { loop } from '../lib/agent.mjs';
import { chat } from '../lib/chat.mjs';
import { responses } from '../lib/responses.mjs';

let OpenAI;

export function instrument(tracerProvider) {
  registerInstrumentations({ tracerProvider, instrumentations: [new OpenAIInstrumentation({ captureMessageContent: false })] });
  ({ OpenAI } = createRequire(import.meta.url)('openai'));
}

export const run = (r) => loop((r.api === 'responses' ? responses : chat)(new OpenAI(r.client), r.tools), r);
