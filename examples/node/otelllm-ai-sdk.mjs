// Middleware for the AI SDK (ai 6 and 7) that obeys the verdict: model calls are repeated as otelllm-retry.mjs repeats them. The package ai is
// not loaded here.
//
//   const openai = createOpenAI({ fetch: factsFetch() });
//   const model = wrapLanguageModel({ model: openai('gpt-5.5'), middleware: retryMiddleware({ ask }) });
//   streamText({ model, maxRetries: 0, … });
import { retry } from './otelllm-retry.mjs';

// retryMiddleware returns the middleware, with the policy of retry. A model call that it gives up on fails with a RetryError, whose cause
// is the SDK's own error; an abort is the SDK's own.
//
// Text and reasoning of a stream are passed on as they arrive. From the first part of a tool call on everything is kept back until the
// answer is known to be complete, so that the SDK executes no call of an answer that broke off. If an attempt follows after something was
// passed on, which ask has allowed, what was open is closed, and the new answer follows it.
export function retryMiddleware(policy = {}) {
  return {
    specificationVersion: 'v4',
    wrapGenerate: ({ doGenerate, params }) => obey(policy, params?.abortSignal, doGenerate),
    wrapStream: ({ doStream, params }) => new Promise((begun, failed) => {
      new Stream(doStream, begun).run(policy, params?.abortSignal).catch(failed);
    }),
  };
}

// obey is retry, but for an abort, which is the SDK's own error.
async function obey(policy, abort, attempt) {
  const signals = [policy.signal, abort].filter(Boolean);
  try {
    return await retry(attempt, signals.length ? { ...policy, signal: AbortSignal.any(signals) } : policy);
  } catch (error) {
    throw abort?.aborted ? error.cause ?? error : error;
  }
}

const opens = { 'text-start': 'text-end', 'reasoning-start': 'reasoning-end' };
const closes = new Set(Object.values(opens));

// showsNothing reports whether a part need not be passed on before the next one.
const showsNothing = ({ type, delta }) => type === 'stream-start' || type === 'response-metadata' || type in opens || delta === '';

// Stream is a stream of parts over several attempts.
class Stream {
  shown = new Map(); // what was passed on and is open: the type of the part that closes it, by its id
  begins = false; // something was passed on
  held = []; // of the attempt that is going on

  constructor(doStream, begun) {
    Object.assign(this, { doStream, begun });
    this.readable = new ReadableStream({
      start: (controller) => { this.out = controller; },
      pull: () => new Promise((served) => {
        this.served = served;
        this.asked?.();
      }),
      cancel: (reason) => {
        this.over = true;
        this.asked?.();
        return this.reader?.cancel(reason);
      },
    }, { highWaterMark: 0 }); // a part is passed on when the consumer asks for it, so that an error drops none
  }

  // put gives the consumer what it asks for: put(controller) enqueues a part, or ends the stream.
  async put(put) {
    if (!this.served && !this.over) await new Promise((asked) => { this.asked = asked; });
    if (this.over) return;
    const { served } = this;
    this.served = this.asked = undefined;
    put(this.out);
    served();
  }

  // run passes on the answer. It throws if there was no attempt that began.
  async run(policy, abort) {
    try {
      await obey(policy, abort, () => this.attempt());
      await this.release();
      await this.put((out) => out.close());
    } catch (error) {
      if (this.over) return;
      if (!this.resolved) throw error;
      if (this.thrown) {
        await this.put((out) => out.error(error));
        return;
      }
      // As a provider of the SDK reports it.
      await this.put((out) => out.enqueue({ type: 'error', error }));
      this.held = this.held.filter(({ type }) => type === 'finish');
      await this.release();
      await this.put((out) => out.close());
    }
  }

  async attempt() {
    this.held = [];
    this.thrown = this.keeps = false;
    const { stream, ...rest } = await this.doStream();
    this.reader = stream.getReader();
    if (!this.resolved) {
      this.resolved = true;
      this.begun({ ...rest, stream: this.readable });
    }
    for (const [id, type] of this.shown) await this.put((out) => out.enqueue({ type, id }));
    this.shown.clear();
    if (this.begins) this.again = (this.again ?? 1) + 1;
    let reported;
    for (;;) {
      const { done, value: part } = await this.reader.read().catch((error) => {
        this.thrown = true;
        throw error;
      });
      if (done) break;
      if (part.type === 'error') reported ??= part;
      else await this.take(part);
    }
    if (reported) throw reported.error;
  }

  // take passes a part on, or keeps it.
  async take(part) {
    this.keeps ||= part.type.startsWith('tool-') || part.type === 'finish';
    if (this.keeps || showsNothing(part) || closes.has(part.type) && !this.shown.has(part.id)) {
      this.held.push(part);
      return;
    }
    await this.release();
    await this.pass(part);
  }

  // release passes on what was kept. An answer has one beginning, that of the first attempt of which something is passed on.
  async release() {
    const { held, begins } = this;
    this.held = [];
    for (const part of held) if (!begins || part.type !== 'stream-start') await this.pass(part);
  }

  // pass passes on a part. The texts of a further attempt have ids of their own.
  async pass(part) {
    this.begins = true;
    if (this.again && part.id !== undefined && !part.type.startsWith('tool-')) part = { ...part, id: `${part.id}-${this.again}` };
    if (opens[part.type]) this.shown.set(part.id, opens[part.type]);
    else if (this.shown.get(part.id) === part.type) this.shown.delete(part.id);
    await this.put((out) => out.enqueue(part));
  }
}
