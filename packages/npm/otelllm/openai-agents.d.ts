import type { RetryPolicy } from 'otelllm';

/** What @openai/agents asks a retry policy about. */
export interface FailedModelCall {
  error: unknown;
  /** From 1 on. */
  attempt: number;
}

/** A retry policy for modelSettings.retry of @openai/agents. A yes of ask approves an unsafe replay. */
export declare function retryPolicy(policy?: Pick<RetryPolicy, 'ask' | 'backoff' | 'backoffMost' | 'budget' | 'signal' | 'random'>): (failed: FailedModelCall) => Promise<
  false | { retry: boolean; delayMs?: number; reason?: string; approveUnsafeReplay?: boolean }
>;
