import {
  Abort, effectOf, factsFetch, Judge, judge as judgeFacts, JudgeError, outputCached, outputFailed, outputSent, retry, RetryBudget, RetryError, retryTurn, verdict,
  withRun, withSignal, withTool, type Facts,
} from 'otelllm';
import { retryMiddleware } from 'otelllm/ai-sdk';
import { retryPolicy } from 'otelllm/openai-agents';

const stop = new AbortController();
const judge: Judge = new Judge(['otelllm', 'judge']);
const text: string = await withRun('coder', { signal: stop.signal, judge }, async () => {
  const response: Response = await withSignal(stop.signal, () => factsFetch()('https://model.example/v1/responses'));
  await withTool({ id: 'call_1', name: 'apply_patch', effect: effectOf({ readOnlyHint: true }) }, () => undefined);
  outputCached('call_1');
  outputFailed('call_1', new Error('lost'));
  outputSent('call_1');
  const said = await verdict();
  if (said?.part?.['llm.retry.safety'] !== 'safe_auto_retry') stop.abort(new Abort('watchdog', 'idle', 30));
  return response.text();
});
judge.close();

const facts: Facts[] = [{ run: 'r', kind: 'run', state: 'begun' }, { run: 'r', kind: 'request', id: 'q', 'llm.stream.end': 'eof' }];
try {
  const outcome: unknown = judgeFacts(facts).verdict?.['llm.run.outcome'];
  const shown: number = await retry(async () => Number(outcome), { attempts: 2, budget: new RetryBudget(), ask: ({ summary, plan }) => summary === plan.words });
  const turn: string = await retryTurn(() => 'paid', { attempts: 3 });
  const streamed = await retryMiddleware({ ask: () => true }).wrapStream({ doStream: async () => ({ stream: new ReadableStream<{ type: string }>(), turn }), params: {} });
  const decided = await retryPolicy({ ask: async () => false })({ error: new Error(streamed.turn), attempt: 1 });
  console.log(shown, decided && decided.approveUnsafeReplay);
} catch (error) {
  if (error instanceof RetryError) console.log(error.decision, error.plan.send, error.cause);
  if (error instanceof JudgeError) console.log(error.line);
}

// @ts-expect-error: facts name their run
judgeFacts({ kind: 'tool' });
export { text };

// @ts-expect-error: no source of an abort is called so
new Abort('somebody');
