// A retry policy for @openai/agents that obeys the verdict. The package @openai/agents is not loaded here.
//
//   setDefaultOpenAIClient(new OpenAI({ fetch: factsFetch(), maxRetries: 0 }));
//   const agent = new Agent({ modelSettings: { retry: { maxRetries: 3, policy: retryPolicy({ ask }) } }, … });
//   await withRun('coder', { toolsRecorded: true }, () => run(agent, input));
import { prepare } from './otelllm-judge.mjs';
import { decide } from './otelllm-retry.mjs';

// retryPolicy returns the policy. ask, backoff, backoffMost and budget are those of retry; the number of retries is the SDK's maxRetries. A yes of
// ask is the SDK's approveUnsafeReplay. The SDK repeats no stream of which it has passed on an event, and asks no policy then.
export function retryPolicy(policy = {}) {
  prepare();
  return async ({ error, attempt }) => {
    const decided = await decide(policy, attempt, error);
    if (!decided) return false; // no model call has failed: it is another error
    const { decision, verdict, wait } = decided;
    const reason = verdict['llm.failure.class'];
    if (decision === 'again') return { retry: true, delayMs: wait, reason };
    if (decision === 'confirmed') return { retry: true, delayMs: wait, reason, approveUnsafeReplay: true };
    return { retry: false, reason };
  };
}
