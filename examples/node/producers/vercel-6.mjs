// Version 6 of the AI SDK, which traces itself.
import { createOpenAI } from '@ai-sdk/openai-6';
import * as ai from 'ai-6';
import { vercel } from '../lib/vercel.mjs';

export function run(r) {
  const openai = createOpenAI(r.client);
  return vercel(ai, r.api === 'responses' ? openai.responses('gpt-5.5') : openai.chat('gpt-5.5'), {
    experimental_telemetry: { isEnabled: true, recordInputs: false, recordOutputs: false },
  }, r);
}
