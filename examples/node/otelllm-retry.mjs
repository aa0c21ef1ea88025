// A model call that is repeated while that is safe, by the verdict of otelllm-judge.mjs on what otelllm-facts.mjs recorded of it:
//
//   const openai = new OpenAI({ fetch: factsFetch(), maxRetries: 0 }); // or another SDK that takes a fetch
//   const answer = await retry(async () => {
//     const stream = await openai.chat.completions.create({ model, messages: history(), stream: true });
//     return read(stream); // to its end
//   }, { ask: ({ summary, plan }) => confirm(`${summary}\n${plan.words}`) });
import { context, createContextKey, trace } from '@opentelemetry/api';
import { Ledger, succeeded, withRun } from './otelllm-facts.mjs';
import { judge, prepare } from './otelllm-judge.mjs';

const runKey = createContextKey('otelllm run');
const callKey = createContextKey('otelllm call');

// RetryError is thrown by retry when it gives up on a model call that failed. Its cause is what the function threw: the SDK's own error.
// It has no content of the call.
export class RetryError extends Error {
  name = 'RetryError';
  constructor(failure, decision) {
    const { attempts } = failure;
    super(`${failure.summary} (gave up after ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}: ${decision})`, { cause: failure.error });
    Object.assign(this, { decision, attempts, verdict: failure.verdict, plan: failure.plan });
  }
}

const tokens = 100; // retries of a host that nothing succeeds on
const returned = 0.1; // by a call that succeeds at once
const maxHosts = 1024; // that a budget keeps: of more, those with the most tokens taken

// RetryBudget bounds the retries of all callers of a host, so that they do not multiply an outage: while a host is down they send no
// more than 100 retries together, and after that one for every ten calls that succeed.
export class RetryBudget {
  #taken = new Map(); // tokens by host; a full bucket is not here

  has(host) {
    return (this.#taken.get(host) ?? 0) + 1 <= tokens;
  }

  take(host) {
    if (!this.has(host)) return false;
    if (!this.#taken.has(host) && this.#taken.size === maxHosts) this.#forget();
    this.#taken.set(host, (this.#taken.get(host) ?? 0) + 1);
    return true;
  }

  // #forget forgets the host of which the fewest tokens are taken.
  #forget() {
    const [fewest] = [...this.#taken].reduce((a, b) => (b[1] < a[1] ? b : a));
    this.#taken.delete(fewest);
  }

  // succeeded returns the tokens of a call that succeeded after so many retries.
  succeeded(host, retries) {
    const left = (this.#taken.get(host) ?? 0) - Math.max(retries, returned);
    if (left > 0) this.#taken.set(host, left);
    else this.#taken.delete(host);
  }
}

const processBudget = new RetryBudget();

const defaults = {
  attempts: 4, // at most, the first one and those of the SDK included
  elapsed: 120_000, // ms after the beginning in which the last one may begin
  backoff: 500, backoffMost: 30_000, // ms: the most to wait before the first retry, twice that before the next, and the most of all
  budget: processBudget,
  // For tests.
  now: () => performance.now(), random: Math.random, sleep,
};

// retry calls fn, which makes one model call with a client over factsFetch and reads its stream to the end, until it succeeds or the
// policy allows no further attempt. fn builds its request anew in each call, with the outputs of all tools that ran.
//
// A failure that is safe_auto_retry: it waits for as long as the provider asked, or for a random part of the backoff if that is longer.
// user_confirmed_retry: policy.ask decides; without it, retry gives up. no_retry: it gives up. Giving up throws a RetryError. An error
// without a recorded failure is the application's own, and is thrown as it is. If fn returns although the answer broke off, that is a
// failure; after a request without an answer it is not: fn has handled it.
export async function retry(fn, policy = {}) {
  const loop = new Loop(policy);
  for (;;) {
    const call = new Call(loop);
    const outcome = await call.run(fn);
    const failure = call.failure(outcome);
    if (!failure) return loop.done(outcome);
    await loop.next(failure, call.refused);
  }
}

// retryTurn calls turn, which makes the model calls of one turn of an agent and executes its tools, until it succeeds or the policy allows
// no further attempt. The turn keeps its history outside of itself and goes on from it: its first model call of a further attempt carries
// the outputs of all tools that have run.
//
// It never repeats what ran. A model call of a further attempt that lacks the output of a tool call which ran, and which may have had an
// effect, is not sent, and retryTurn gives up with 'output_left_out'; so is one whose history is not observed, as where the provider
// keeps it. Once the model has answered a call that has them all, later ones are not held back. If it is not known what ran, it asks.
//
// The turn is the run around it, or one that retryTurn starts. Its attempts are calls of the turn. Turns that go on at the same time
// each need a run of their own. Everything else is as in retry.
export async function retryTurn(turn, policy = {}) {
  const run = context.active().getValue(runKey);
  if (!run) {
    return withRun(undefined, {}, () => {
      if (!context.active().getValue(runKey)) throw noContext();
      return retryTurn(turn, policy);
    });
  }
  const loop = new Loop(policy);
  const first = run.now() / 1000;
  loop.executed = (id) => [...run.ledger.lines.values()].some((line) => line.kind === 'tool' && line.run === run.judged && line['gen_ai.tool.call.id'] === id && line.start >= first);
  let outputs = []; // that a model call has to carry, the newest last
  for (;;) {
    const call = new Call(loop, outputs);
    const since = run.now() / 1000;
    const outcome = await call.run(turn);
    loop.sent++;
    const failure = call.refused ? { ...loop.failure, error: outcome.error } : call.turnFailure(outcome, since);
    if (!failure) return loop.done(outcome);
    // What earlier attempts did was settled before this one: it was safe, or was confirmed.
    if (failure.ran) outputs = [...outputs.filter(({ id }) => !failure.ran.some((o) => o.id === id)), ...failure.ran];
    await loop.next(failure, call.refused);
  }
}

// The budgets of frameworks, which do not say that a call went well.
const frameworkBudgets = new Set();
succeeded.add((host) => frameworkBudgets.forEach((budget) => budget.succeeded(host, 0)));

// hostOf returns the host of a request by its facts, as a URL has it.
const hostOf = ({ 'server.address': host, 'server.port': port }) => (port === 443 || port === 80 ? host : `${host}:${port}`);

// decide is for the loop of a framework, which calls it after a model call that failed, in the run of that call: what to do, after how many
// attempts, and how long to wait. It is undefined if no failure of a model call is recorded. What failed is the requests of the run that
// failed last, one after the other. The framework bounds the attempts of one call, and policy.budget those of all callers of a host.
export async function decide(policy, attempts, error) {
  const loop = new Loop({ ...policy, attempts: Infinity, elapsed: Infinity });
  frameworkBudgets.add(loop.budget);
  loop.sent = attempts;
  const run = context.active().getValue(runKey);
  if (!run) {
    globalThis.process?.emitWarning?.('otelllm: there is no run, so that no model call is repeated; call the framework in withRun', { code: 'OTELLLM_NO_RUN' });
    return undefined;
  }
  const requests = [...run.ledger.lines.values()].filter((line) => line.kind === 'request' && line.run === run.judged);
  const failed = requests.slice(requests.findLastIndex((line) => line.status !== 'error') + 1);
  const call = new Call(loop);
  call.agent = run;
  const failure = failed.length ? call.failed(failed.map((line) => line.id), failed, error) : undefined;
  if (!failure) return undefined;
  loop.host = hostOf(failed.at(-1));
  let decision = await loop.decide(failure);
  // Another caller may have taken the last one meanwhile.
  if ((decision === 'again' || decision === 'confirmed') && !loop.budget.take(loop.host)) decision = 'host_spent';
  record(failure, decision);
  return { decision, verdict: failure.verdict, wait: failure.wait };
}

const noContext = () => new Error('otelllm: retry needs a context manager, and there is none: set an AsyncLocalStorageContextManager, as NodeSDK does');

// outputsOf returns the outputs that exist of the calls that ran by a plan, and whether each that had an effect has an id.
function outputsOf(plan) {
  let known = true;
  const ran = [];
  for (const { id, effect, output } of plan.ran) {
    const acted = effect === 'non_idempotent' || effect === 'unknown';
    if (output === 'lost') continue;
    if (id) ran.push({ id, acted });
    else known &&= !acted;
  }
  return { ran, known };
}

// carries reports whether a history has the outputs of calls that had an effect, so that the model does not ask for them again. An id
// that stands among those of earlier turns was used again, and stands there once more.
function carries(history, outputs, earlier) {
  const count = (ids, id) => ids.filter((other) => other === id).length;
  return !outputs.some(({ id, acted }) => acted && count(history, id) <= count(earlier, id));
}

// Loop is the state of retry and of retryTurn.
class Loop {
  host = '';
  sent = 0; // attempts
  retries = 0; // tokens that were taken
  earlier = []; // of a turn: the outputs of earlier turns in the history of the first model call, by ids

  constructor(policy) {
    const given = Object.fromEntries(Object.entries(policy).filter(([, value]) => value !== undefined));
    Object.assign(this, { ...defaults, ...given });
    for (const name of ['attempts', 'elapsed', 'backoff', 'backoffMost']) {
      if (!(this[name] > 0)) throw new TypeError(`otelllm: retry's ${name} has to be a number above 0`);
    }
    if (this.ask !== undefined && typeof this.ask !== 'function') throw new TypeError("otelllm: retry's ask has to be a function");
    this.began = this.now();
    prepare(); // while the model answers
  }

  // done returns or throws the outcome of a function that has not failed.
  done(outcome) {
    if ('error' in outcome) throw outcome.error;
    this.budget.succeeded(this.host, this.retries);
    return outcome.value;
  }

  // spent returns which budget allows no further attempt after a wait, or undefined.
  spent(wait = 0) {
    if (this.sent >= this.attempts) return 'attempts_spent';
    if (this.now() + wait - this.began > this.elapsed) return 'time_spent';
    return this.budget.has(this.host) ? undefined : 'host_spent';
  }

  // next returns when fn is to be called again, and otherwise throws.
  async next(failure, refused) {
    this.failure = failure;
    const decision = await this.decide(failure, refused);
    if (decision !== 'again' && decision !== 'confirmed') throw this.#giveUp(failure, decision);
    if (!this.budget.take(this.host)) throw this.#giveUp(failure, 'host_spent'); // another caller took the last one
    this.retries++;
    record(failure, decision);
    await this.sleep(failure.wait, this.signal);
    if (this.signal?.aborted) throw this.#giveUp(failure, 'cancelled');
  }

  // decide returns what to do after a failure, and sets how many attempts there were and how long to wait.
  async decide(failure, refused) {
    failure.attempts = this.sent;
    failure.wait = Math.max(failure.after, this.random() * Math.min(this.backoff * 2 ** (this.sent - 1), this.backoffMost));
    if (this.signal?.aborted) return 'cancelled';
    if (refused) return refused;
    if (declinedWithin(failure.error)) return 'declined';
    const safety = failure.verdict['llm.retry.safety'];
    if (safety !== 'safe_auto_retry' && safety !== 'user_confirmed_retry') return 'no_retry';
    const spent = this.spent(failure.wait);
    if (spent) return spent;
    if (failure.safe) return 'again';
    if (!this.ask) return 'no_hook';
    const { after, safe, ran, ...question } = failure;
    const asked = this.now();
    const yes = (await this.ask(question)) === true;
    this.began += this.now() - asked; // the time that a person takes does not count
    if (this.signal?.aborted) return 'cancelled';
    return yes ? 'confirmed' : 'declined';
  }

  #giveUp(failure, decision) {
    record(failure, decision);
    return new RetryError(failure, decision);
  }
}

// declinedWithin reports whether a loop within the function asked, and was declined.
function declinedWithin(error) {
  for (let e = error, depth = 0; e && depth < 8; e = e.cause, depth++) if (e instanceof RetryError && e.decision === 'declined') return true;
  return false;
}

let calls = 0; // names of calls outside of a run

// Call is one call of the function. otelllm-facts.mjs finds it in the context.
class Call {
  outer = context.active().getValue(callKey); // a loop around this one
  judged = this.outer?.judged ?? `call ${++calls}`;
  ledger = this.outer?.ledger ?? new Ledger();
  requests = []; // their ids for the judge
  recordings = [];
  leftOpen = false; // the function threw before a stream had ended
  refused = undefined; // why a request was not sent

  // outputs are those that a turn has to carry, until the model has answered; undefined: the function is no turn.
  constructor(loop, outputs) {
    this.loop = loop;
    this.outputs = outputs;
  }

  get lastFailed() {
    const last = this.recordings.at(-1);
    return last?.span.facts.status === 'error' || last?.status >= 400;
  }

  // refuse returns the error of a request that is not to be sent to a host. outputs are the ids of those in its history; undefined: not
  // observed.
  refuse(host, outputs) {
    const outer = this.outer?.refuse(host, outputs);
    if (outer) return outer;
    const { loop } = this;
    this.again = this.outputs ? false : this.lastFailed;
    if (this.carried && !this.lastFailed) this.outputs = [];
    this.refused ??= this.outputs?.length && !carries(outputs ?? [], this.outputs, loop.earlier) ? 'output_left_out' : this.again ? loop.spent() : undefined;
    if (this.refused) return new Error(`otelllm: the request was not sent: ${unsent[this.refused] ?? `its budget is spent (${this.refused}). Set the SDK's own retries to 0`}`);
    if (this.again) {
      loop.budget.take(host);
      loop.retries++;
    }
    if (this.outputs && !loop.host) loop.earlier = (outputs ?? []).filter((id) => !loop.executed(id));
    loop.host = host;
    if (this.outputs) this.carried = true;
    return undefined;
  }

  // sent takes note of a request.
  sent(id, recording) {
    this.outer?.sent(id, recording);
    if (!this.outputs && (this.again || !this.requests.length)) this.loop.sent++;
    this.requests.push(id);
    this.recordings.push(recording);
  }

  // inTool is what a tool within the call has in its place: what it asks a model for may be refused, but is not the call that is repeated.
  inTool() {
    const { judged, ledger } = this;
    return { judged, ledger, refuse: (host, outputs) => this.refuse(host, outputs), sent() {}, inTool() { return this; } };
  }

  async run(fn) {
    const within = context.active().setValue(callKey, this);
    if (context.with(within, () => context.active().getValue(callKey)) !== this) throw noContext();
    this.agent = within.getValue(runKey);
    try {
      return { value: await context.with(within, fn) };
    } catch (error) {
      for (const recording of this.recordings) {
        if (recording.over) continue;
        this.leftOpen = true;
        recording.end('close'); // nothing reads it any more
      }
      return { error };
    }
  }

  // judge returns the answer to a question about a run, by default that around the call, or the call itself; undefined without one.
  judge(question, run = this.agent) {
    const { ledger, judged } = run ?? this;
    if (!ledger.complete) return undefined;
    try {
      return judge([...ledger.lines.values(), { run: judged, ...question }]);
    } catch (error) {
      globalThis.process?.emitWarning?.(`retry has no verdict: ${error.message}`, { code: 'OTELLLM_NO_VERDICT' });
      return undefined;
    }
  }

  // judgeCall judges requests as the attempts of one model call, by default of the run of the last one.
  judgeCall(requests, run = this.recordings.at(-1)?.run) {
    return requests.length ? this.judge({ call: requests.slice(-maxAttempts) }, run) : undefined;
  }

  // failure returns the failure of the call, or undefined if none was recorded.
  failure(outcome) {
    if (!('error' in outcome) && !this.lastFailed) return undefined; // as nearly always: no verdict is needed
    const failure = this.failed(this.requests, this.recordings.map(({ span }) => span.facts), outcome.error);
    if (!failure) return undefined;
    const brokeOff = broken.has(failure.verdict['llm.failure.class']);
    const answered = this.recordings.at(-1).status < 400;
    return ('error' in outcome ? this.leftOpen && !brokeOff : !brokeOff || !answered) ? undefined : failure;
  }

  // failed returns the failure of requests with their facts, the attempts of one model call; undefined if the last one has not failed.
  failed(requests, facts, error) {
    const { part: verdict, plan } = this.judgeCall(requests) ?? {};
    return verdict && {
      ...said(verdict), verdict, plan, safe: verdict['llm.retry.safety'] === 'safe_auto_retry', error,
      textShown: facts.some((fact) => fact['llm.stream.text_chunks'] > 0),
    };
  }

  // turnFailure returns the failure of a turn that began at a time of the run, or undefined if no model call of it failed.
  turnFailure(outcome, since) {
    if (!('error' in outcome) && !this.lastFailed) return undefined;
    const { verdict, plan } = this.judge({}) ?? {};
    if (!plan || [undefined, 'tool_failed', 'application_error'].includes(verdict['llm.failure.class'])) return undefined;
    const { plan: own } = this.judge({ since }) ?? {};
    if (!own?.send || own.send === 'nothing' && !own.ask) return undefined;
    if (!('error' in outcome)) {
      if (!this.judgeCall(this.requests.slice(-1))?.part || !broken.has(verdict['llm.failure.class']) || !(this.recordings.at(-1).status < 400)) return undefined;
    }
    const { ran, known } = outputsOf(own);
    return { ...said(verdict), verdict, plan, ran, safe: known && !own.ask && (own.send === 'again' || own.send === 'rest'), error: outcome.error, textShown: false };
  }
}

// said returns what a verdict says for a person, and how long to wait.
const said = (verdict) => ({ summary: verdict['llm.failure.summary'], after: 1000 * (verdict['llm.retry.after'] ?? 0) });

// unsent says why a request was not sent.
const unsent = {
  output_left_out: 'its history lacks the output of a tool call that ran, and that would run again, or cannot be read before it is sent; keep the history between attempts',
};

const maxAttempts = 256; // of one call that the judge is asked about

// The classes of answers that break off. They are failures although the function returned: SDKs do not report each of them. Any other end
// of a stream that the function left is its own doing.
const broken = new Set(['connection_failed', 'provider_error', 'stream_interrupted', 'protocol_violation', 'empty_completion', 'watchdog_timeout']);

// record writes a decision onto the active span.
function record({ verdict, plan, attempts, wait }, decision) {
  const again = decision === 'again' || decision === 'confirmed';
  trace.getActiveSpan()?.addEvent('llm.retry.decided', {
    'llm.retry.decision': decision, 'llm.request.attempt': attempts, 'llm.failure.class': verdict['llm.failure.class'],
    'llm.retry.safety': verdict['llm.retry.safety'], 'llm.retry.reason': verdict['llm.retry.reason'], 'llm.resume.send': plan?.send,
    ...(again && { 'llm.retry.wait': wait / 1000 }),
  });
}

// sleep returns after ms, or when signal is aborted.
function sleep(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done, { once: true });
    if (signal?.aborted) done();
  });
}
