// What retry decides, on the verdicts of the real rules. Beside this file it needs judge.wasm.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { factsFetch, withRun, withTool } from './otelllm-facts.mjs';
import { judge, JudgeError } from './otelllm-judge.mjs';
import { retry, RetryBudget, RetryError, retryTurn } from './otelllm-retry.mjs';

const exporter = new InMemorySpanExporter();
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));

const chunk = (delta, finish = null) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const begun = chunk({ role: 'assistant' });
const text = chunk({ content: 'CANARY_text' });
const whole = [begun, text, chunk({}, 'stop'), 'data: [DONE]\n\n'];
const call = chunk({ tool_calls: [{ index: 0, id: 'call_1', function: { name: 'pay', arguments: '{"CANARY":1}' } }] });
const reset = () => Object.assign(new TypeError('terminated'), { cause: Object.assign(new Error('CANARY_cause'), { code: 'ECONNRESET' }) });
const cut = (...chunks) => ({ chunks, error: reset() });
const refused = (status, type, headers = {}) => ({ status, headers: { 'content-type': 'application/json', ...headers }, chunks: [JSON.stringify({ error: { type, message: 'CANARY_message' } })] });

// model is a model that gives these answers, then complete ones, and what an SDK over it does.
function model(...answers) {
  const m = { requests: 0, slept: [] };
  const fetch = factsFetch(async () => {
    const { status = 200, headers = { 'content-type': 'text/event-stream' }, chunks, error } = answers[m.requests++] ?? { chunks: whole };
    const left = [...chunks];
    const body = new ReadableStream({
      pull(controller) {
        if (left.length) controller.enqueue(new TextEncoder().encode(left.shift()));
        else if (error) controller.error(error);
        else controller.close();
      },
    }, { highWaterMark: 0 });
    return new Response(body, { status, headers });
  });
  const prompt = { role: 'user', content: 'CANARY_prompt' };
  m.open = (history = []) => fetch('https://model.example/v1/chat/completions', { method: 'POST', body: JSON.stringify({ model: 'm', stream: true, messages: [prompt, ...history] }) });
  m.ask = async (history) => {
    const response = await m.open(history);
    const got = await response.text();
    if (!response.ok) throw Object.assign(new Error('CANARY_status'), { status: response.status });
    return got;
  };
  m.policy = (more) => ({ budget: new RetryBudget(), random: () => 1, sleep: async (ms) => { m.slept.push(ms); }, ...more });
  return m;
}

// gaveUp returns the RetryError of a promise.
async function gaveUp(promise, decision) {
  const error = await promise.then(() => assert.fail('it did not give up'), (e) => e);
  assert.ok(error instanceof RetryError, error?.stack);
  assert.equal(error.decision, decision);
  assert.doesNotMatch(JSON.stringify([error.message, error.verdict, error.plan]), /CANARY/);
  return error;
}

test('a safe retry waits as the provider asked, or for the backoff', async () => {
  const m = model(refused(429, 'rate_limit_exceeded', { 'retry-after': '7' }), refused(503, 'overloaded'), cut(begun));
  assert.equal(await retry(() => m.ask(), m.policy()), whole.join(''));
  assert.deepEqual(m.slept, [7000, 1000, 2000]);
});

test('jitter is a random part of the backoff', async () => {
  const m = model(refused(503, 'overloaded'), refused(503, 'overloaded'));
  await retry(() => m.ask(), m.policy({ random: () => 0.25 }));
  assert.deepEqual(m.slept, [125, 250]);
});

test('the budgets bound attempts, time and the retries of a host', async () => {
  const down = Array(400).fill(refused(503, 'overloaded'));
  const attempts = model(...down);
  const error = await gaveUp(retry(() => attempts.ask(), attempts.policy({ attempts: 3 })), 'attempts_spent');
  assert.equal(attempts.requests, 3);
  assert.equal(error.attempts, 3);
  assert.equal(error.cause.status, 503);
  assert.equal(error.plan.send, 'again');

  const time = model(refused(429, 'rate_limit_exceeded', { 'retry-after': '50' }));
  await gaveUp(retry(() => time.ask(), time.policy({ elapsed: 49_000 })), 'time_spent');

  const host = model(...down);
  const policy = host.policy();
  for (let i = 0; i < 60; i++) await assert.rejects(retry(() => host.ask(), policy));
  assert.equal(host.requests, 160);
  await gaveUp(retry(() => host.ask(), policy), 'host_spent');
});

test("the SDK's own retries count", async () => {
  const m = model(...Array(9).fill(refused(503, 'overloaded')));
  await gaveUp(retry(async () => {
    for (let left = 6; ; left--) {
      try {
        return await m.ask();
      } catch (error) {
        if (!left) throw error;
      }
    }
  }, m.policy()), 'attempts_spent');
  assert.equal(m.requests, 4);
});

test('shown text is asked for, with the summary and the plan', async () => {
  const m = model(cut(begun, text));
  const none = await gaveUp(retry(() => m.ask(), m.policy()), 'no_hook');
  assert.equal(none.cause.cause.code, 'ECONNRESET');
  for (const yes of [true, false]) {
    const again = model(cut(begun, text));
    const asked = [];
    const result = retry(() => again.ask(), again.policy({ ask: (question) => { asked.push(question); return yes; } }));
    if (yes) assert.equal(await result, whole.join(''));
    else await gaveUp(result, 'declined');
    assert.equal(asked.length, 1);
    assert.equal(asked[0].textShown, true);
    assert.equal(asked[0].attempts, 1);
    assert.equal(asked[0].plan.ask, 'visible_output');
    assert.match(asked[0].summary, /connection/i);
    assert.equal(asked[0].error.message, 'terminated');
  }
});

test('what another attempt of the call showed counts', async () => {
  const m = model(cut(begun, text), refused(503, 'overloaded'), refused(503, 'overloaded'));
  await gaveUp(retry(() => m.ask().catch(() => m.ask()), m.policy()), 'no_hook');
  assert.equal(m.requests, 2);
});

test('a call in an answer that broke off is asked for, unless tools are recorded', async () => {
  const m = model(cut(begun, call));
  await gaveUp(retry(() => m.ask(), m.policy()), 'no_hook');
  const recorded = model(cut(begun, call));
  await withRun('coder', { toolsRecorded: true }, () => retry(() => recorded.ask(), recorded.policy()));
  assert.equal(recorded.requests, 2);
  const eager = model(cut(begun, call));
  const error = await gaveUp(withRun('coder', { toolsRecorded: true }, () => retry(async () => {
    await withTool({ id: 'call_1', name: 'pay', effect: 'non_idempotent' }, () => undefined);
    return eager.ask();
  }, eager.policy())), 'no_hook');
  assert.equal(error.plan.ran[0]?.id ?? error.plan.may_have_run[0]?.id, 'call_1');
});

test('an error that no retry helps', async () => {
  const m = model(refused(401, 'authentication_error'));
  const error = await gaveUp(retry(() => m.ask(), m.policy({ ask: () => assert.fail('asked') })), 'no_retry');
  assert.equal(error.verdict['llm.failure.class'], 'provider_error');
  assert.equal(m.requests, 1);
});

test("the application's own error is thrown as it is", async () => {
  const own = new Error('own');
  const m = model();
  await assert.rejects(retry(async () => { await m.ask(); throw own; }, m.policy()), (e) => e === own);
  await assert.rejects(retry(async () => { throw own; }), (e) => e === own);
  assert.equal(m.requests, 1);
});

test('an error of the application in the middle of a stream is its own', async () => {
  const own = new Error('own');
  const m = model();
  await assert.rejects(retry(async () => {
    const reader = (await m.open()).body.getReader();
    await reader.read();
    throw own;
  }, m.policy({ ask: () => assert.fail('asked') })), (e) => e === own);
});

test('an error in the stream counts although the SDK has not read to its end', async () => {
  const m = model({ chunks: [begun, `data: ${JSON.stringify({ error: { type: 'server_error', code: 'overloaded' } })}\n\n`, ': open'] });
  await retry(async () => {
    const reader = (await m.open()).body.getReader();
    await reader.read();
    await reader.read();
    if (m.requests === 1) throw new Error('the SDK reports the error');
  }, m.policy());
  assert.equal(m.requests, 2);
});

test('an answer that broke off is a failure although the SDK reports none', async () => {
  const m = model({ chunks: [begun] });
  await retry(() => m.ask(), m.policy());
  assert.equal(m.requests, 2);
});

test('a request without an answer, which the function handled, is no failure', async () => {
  const m = model(refused(503, 'overloaded'));
  assert.equal(await retry(() => m.ask().catch(() => 'from the cache'), m.policy()), 'from the cache');
  assert.equal(m.requests, 1);
});

test('the time that a person takes does not count, and a loop within asks once', async () => {
  let now = 0;
  const m = model(cut(begun, text));
  assert.equal(await retry(() => m.ask(), m.policy({ now: () => now, elapsed: 1000, backoff: 1, ask: () => { now += 5000; return true; } })), whole.join(''));
  const inner = model(cut(begun, text));
  await gaveUp(retry(() => retry(() => inner.ask(), inner.policy({ ask: () => false })), inner.policy({ ask: () => assert.fail('asked again') })), 'declined');
});

test('a refusal counts although the SDK does not read its body', async () => {
  const m = model(refused(503, 'overloaded'));
  await retry(async () => {
    if (!(await m.open()).ok) throw new Error('the SDK');
  }, m.policy());
  assert.equal(m.requests, 2);
});

test('a signal ends the loop', async () => {
  const stop = new AbortController();
  const m = model(refused(503, 'overloaded'));
  await gaveUp(retry(() => m.ask(), m.policy({ signal: stop.signal, sleep: async () => stop.abort() })), 'cancelled');
  assert.equal(m.requests, 1);
});

test('decisions are events', async () => {
  exporter.reset();
  const m = model(refused(429, 'rate_limit_exceeded', { 'retry-after': '3' }), cut(begun, text));
  await assert.rejects(withRun('coder', {}, () => retry(() => m.ask(), m.policy())));
  const run = exporter.getFinishedSpans().find((span) => span.name === 'invoke_agent coder');
  assert.deepEqual(run.events.map((e) => [e.attributes['llm.retry.decision'], e.attributes['llm.retry.wait'], e.attributes['llm.resume.send']]),
    [['again', 3, 'again'], ['no_hook', undefined, 'rest']]);
});

const asksToPay = { chunks: [begun, call, chunk({}, 'tool_calls'), 'data: [DONE]\n\n'] };
const paidOnce = [{ role: 'assistant', tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'pay', arguments: '{}' } }] }, { role: 'tool', tool_call_id: 'call_1', content: 'paid' }];
const overloaded = refused(503, 'overloaded');

// payer is an agent that pays once it is asked to, and goes on from its history.
function payer(m, { recorded, forgets, history = [] } = {}) {
  const a = { history, paid: 0 };
  a.pay = async () => {
    const pay = () => { a.paid++; };
    if (recorded) await withTool({ id: 'call_1', name: 'pay', effect: 'non_idempotent' }, pay);
    else pay();
  };
  a.turn = async () => {
    let h = forgets ? [] : a.history;
    for (let step = 0; step < 3; step++) {
      if (!(await m.ask(h)).includes('tool_calls')) return 'paid';
      await a.pay();
      h = [...h, ...paidOnce];
      if (!forgets) a.history = h;
    }
    throw new Error('too many steps');
  };
  return a;
}

for (const recorded of [false, true]) {
  test(`a turn goes on from its history, and does not ask (tools recorded: ${recorded})`, async () => {
    const m = model(overloaded, asksToPay, overloaded, cut(begun));
    const a = payer(m, { recorded });
    assert.equal(await retryTurn(a.turn, m.policy({ ask: ({ plan }) => assert.fail(JSON.stringify(plan)) })), 'paid');
    assert.equal(a.paid, 1);
    assert.equal(m.requests, 5);
  });

  test(`a turn that has lost its history is stopped (tools recorded: ${recorded})`, async () => {
    const m = model(asksToPay, overloaded, asksToPay);
    const a = payer(m, { recorded, forgets: true });
    const error = await gaveUp(retryTurn(a.turn, m.policy()), 'output_left_out');
    assert.equal(error.verdict['llm.failure.cause'], 'overloaded', 'that of the attempt before');
    assert.match(error.cause.message, /lacks the output of a tool call that ran/);
    assert.equal(a.paid, 1);
    assert.equal(m.requests, 2);
    if (recorded) assert.deepEqual(error.plan.ran.map(({ id }) => id), ['call_1']);
  });
}

test('a turn asks if a tool may have run', async () => {
  const m = model(cut(begun, call));
  const error = await gaveUp(retryTurn(payer(m).turn, m.policy()), 'no_hook');
  assert.equal(error.plan.ask, 'tool_state_unknown');
  assert.equal(error.plan.may_have_run.length, 1);
  const shown = model(cut(begun, text));
  assert.equal((await gaveUp(retryTurn(() => shown.ask(), shown.policy()), 'no_hook')).plan.ask, 'visible_output');
  const known = model(cut(begun, call), asksToPay);
  const a = payer(known, { recorded: true });
  await withRun('payer', { toolsRecorded: true }, () => retryTurn(a.turn, known.policy()));
  assert.equal(a.paid, 1);
});

test('that a tool ran unrecorded is known of later attempts of a turn', async () => {
  const second = cut(begun, call.replace('call_1', 'call_2'));
  const m = model(asksToPay, overloaded, second);
  const error = await gaveUp(withRun('payer', { toolsRecorded: true }, () => retryTurn(payer(m).turn, m.policy())), 'no_hook'); // which is wrong
  assert.equal(m.requests, 3);
  assert.equal(error.verdict['llm.retry.safety'], 'user_confirmed_retry');
});

test("a turn's own error is thrown as it is", async () => {
  const own = new Error('no such invoice');
  const m = model(overloaded);
  let turns = 0;
  await assert.rejects(retryTurn(async () => {
    turns++;
    await retry(() => m.ask(), m.policy());
    throw own;
  }, m.policy()), (e) => e === own);
  assert.equal(turns, 1);
  assert.equal(m.requests, 2, 'the call within it was repeated');
  turns = 0;
  const later = model(overloaded);
  await assert.rejects(retryTurn(async () => {
    if (++turns === 2) throw own;
    await later.ask();
  }, later.policy()), (e) => e === own);
  assert.equal(turns, 2);
  const tool = model(asksToPay);
  await assert.rejects(retryTurn(async () => {
    await tool.ask();
    await withTool({ id: 'call_1', name: 'pay' }, () => { throw own; });
  }, tool.policy()), (e) => e === own);
});

test('the attempts of a turn are its calls, and it is watched until the model has answered', async () => {
  const m = model(overloaded, overloaded, overloaded);
  const error = await gaveUp(retryTurn(() => m.ask(), m.policy({ attempts: 2 })), 'attempts_spent');
  assert.equal(error.attempts, 2);
  assert.equal(m.requests, 2);

  const late = model(asksToPay, overloaded, overloaded, asksToPay);
  const a = payer(late, { forgets: true });
  let turns = 0;
  await gaveUp(retryTurn(async () => {
    if (++turns === 2) await assert.rejects(late.ask(paidOnce));
    return a.turn();
  }, late.policy()), 'output_left_out');
  assert.equal(a.paid, 1);
});

test('an id of an earlier turn that is used again is not the output of the call that ran', async () => {
  for (const forgets of [false, true]) {
    const earlier = [...paidOnce, { role: 'user', content: 'Pay the other one, too.' }];
    const m = model(asksToPay, overloaded);
    const a = payer(m, { recorded: true, history: earlier });
    const result = retryTurn(() => {
      if (forgets) a.history = earlier;
      return a.turn();
    }, m.policy());
    if (forgets) await gaveUp(result, 'output_left_out');
    else await result;
    assert.equal(a.paid, 1);
  }
});

test('a turn may begin with a tool, and what a tool asks a model for is no attempt', async () => {
  const m = model(overloaded);
  const a = payer(m, { recorded: true });
  await retryTurn(async () => {
    if (!a.history.length) await a.pay();
    a.history = paidOnce;
    return a.turn();
  }, m.policy());
  assert.equal(a.paid, 1);

  const tools = model({ chunks: whole }, ...Array(5).fill(overloaded));
  let n = 0;
  await withRun('coder', { toolsRecorded: true }, () => retry(async () => {
    n++;
    await tools.ask();
    await withTool({ id: 'call_1', name: 'search', effect: 'read_only' }, async () => {
      for (let i = 0; i < 5; i++) await assert.rejects(tools.ask());
    });
  }, tools.policy()));
  assert.equal(n, 1);
});

test('a turn is stopped in an agent that is its tool, and if its history cannot be read', async () => {
  const m = model(asksToPay, overloaded, asksToPay);
  const a = payer(m, { recorded: true, forgets: true });
  await assert.rejects(retryTurn(() => withTool({ id: 'agent_1', name: 'agent', effect: 'read_only' }, a.turn), m.policy()));
  assert.equal(a.paid, 1);
  assert.equal(m.requests, 2);

  const streamed = factsFetch(async () => assert.fail('sent'));
  const next = model(asksToPay, overloaded);
  const b = payer(next, { recorded: true });
  let turns = 0;
  await gaveUp(retryTurn(() => (++turns === 1 ? b.turn() : streamed('https://model.example/v1/chat/completions', {
    method: 'POST', duplex: 'half', body: new ReadableStream(),
  })), next.policy()), 'output_left_out');
});

test('a turn is not failed by an answer that broke off before one that did not', async () => {
  const m = model(cut(begun));
  assert.equal(await retryTurn(async () => {
    await m.ask().catch(() => undefined);
    await m.ask();
    return 'done';
  }, m.policy()), 'done');
  assert.equal(m.requests, 2);
  const silent = model({ chunks: [begun] });
  await retryTurn(() => silent.ask(), silent.policy());
  assert.equal(silent.requests, 2);
});

test('the memory of the judge grows with the facts', () => {
  const request = { run: 'r', kind: 'request', 'llm.stream.end': 'eof' };
  for (let n = 64; n <= 1024; n *= 2) { // larger ones each time: its memory grows in the middle of a call
    const answer = judge([{ run: 'r', kind: 'run', state: 'begun' }, ...Array.from({ length: n - 2 }, (_, i) => ({ ...request, id: `q${i}`, ignored: 'x'.repeat(500) }))]);
    assert.equal(answer.ignored, 1);
  }
});

test('bad input says what and where', async () => {
  await assert.rejects(retry(() => 1, { attempts: 0 }), /attempts has to be a number above 0/);
  await assert.rejects(retry(() => 1, { ask: 'yes' }), /ask has to be a function/);
  for (const [facts, message, line] of [
    [undefined, /have to be an object or an array/], [{ run: 'r', kind: 'tool', x: 1n }, /have to be an object or an array/],
    [[], /the array is empty/, 1], [[{ run: 'r', kind: 'run' }, { run: 'r', kind: 'CANARY' }], /^fact 2: kind has to be run, request or tool/, 2],
  ]) {
    assert.throws(() => judge(facts), (e) => e instanceof JudgeError && message.test(e.message) && e.line === line && !/CANARY/.test(e.message));
  }
  assert.equal(judge({ run: 'r', kind: 'run', state: 'begun' }).verdict['llm.run.outcome'], 'succeeded');
});
