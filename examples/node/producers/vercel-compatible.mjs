// Version 6 of the AI SDK with its provider for servers that speak Chat Completions. Both are of
// a release that executes a call as soon as its arguments are JSON; later ones wait for the
// end of the answer.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import * as ai from 'ai-6-eager';
import { vercel } from '../lib/vercel.mjs';

export function run(r) {
  const provider = createOpenAICompatible({ name: 'e2e', ...r.client });
  return vercel(ai, provider('gpt-5.5'), {
    experimental_telemetry: { isEnabled: true, recordInputs: false, recordOutputs: false },
  }, r);
}
