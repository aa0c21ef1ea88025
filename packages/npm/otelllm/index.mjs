export {
  Abort, effectOf, factsFetch, Judge, outputCached, outputFailed, outputSent, verdict, withRun, withSignal, withTool,
} from './otelllm-facts.mjs';
export { judge, JudgeError } from './otelllm-judge.mjs';
export { retry, RetryBudget, RetryError, retryTurn } from './otelllm-retry.mjs';
