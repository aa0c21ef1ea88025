import type { RetryPolicy } from 'otelllm';

/** Middleware for wrapLanguageModel of the AI SDK, ai 6 and 7, in the form that it takes. */
export interface RetryMiddleware {
  // The types of ai 6 and 7 have another constant here, and neither reads it.
  readonly specificationVersion: any;
  wrapGenerate<T>(options: { doGenerate: () => PromiseLike<T>; params: { abortSignal?: AbortSignal } }): Promise<T>;
  wrapStream<T extends { stream: ReadableStream }>(options: { doStream: () => PromiseLike<T>; params: { abortSignal?: AbortSignal } }): Promise<T>;
}

/** Repeats a model call as retry does. A call of an answer is passed on, and so executed, only once that answer is complete. */
export declare function retryMiddleware(policy?: RetryPolicy): RetryMiddleware;
