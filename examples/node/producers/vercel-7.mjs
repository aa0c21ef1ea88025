// Version 7 of the AI SDK with its OpenTelemetry integration.
import { createOpenAI } from '@ai-sdk/openai';
import { OpenTelemetry } from '@ai-sdk/otel';
import * as ai from 'ai';
import { vercel } from '../lib/vercel.mjs';

export const instrument = () => ai.registerTelemetry(new OpenTelemetry());

export function run(r) {
  const openai = createOpenAI(r.client);
  return vercel(ai, r.api === 'responses' ? openai.responses('gpt-5.5') : openai.chat('gpt-5.5'), {
    telemetry: { recordInputs: false, recordOutputs: false },
  }, r);
}
