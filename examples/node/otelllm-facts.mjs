// What happened to each model request, on spans of its own: the facts of
// docs/reference/attributes.md, from which llm_classify makes its verdicts. It needs
// @opentelemetry/api and nothing else; copy this file and otelllm-catalogue.mjs. The process needs an SDK: a
// TracerProvider (the service's name is OTEL_SERVICE_NAME) and a context manager, an
// AsyncLocalStorageContextManager, without which no request or tool knows its run.
//
//   const openai = new OpenAI({ fetch: factsFetch() });   // or Anthropic: whatever takes a fetch
//   const stop = new AbortController();                   // stop.abort(new Abort('user', 'stop_button'))
//   await withRun('coder', { signal: stop.signal }, async () => {
//     const stream = await openai.chat.completions.create({ … }, { signal: stop.signal });
//     …
//     await withTool({ id: call.id, name: call.name, effect: 'non_idempotent' }, () => applyPatch(input));
//   });
//
// With `otelllm judge` (OTELLLM_JUDGE=otelllm) a retry loop can ask before it acts: await verdict() in the run.
//
// It supports OpenAI's Chat Completions and Responses and Anthropic's Messages, streamed or not. The
// bytes, errors and timing of a response do not change: it is read when the client reads it, and input
// that the recording cannot follow ends only the recording. Names, counts, ids, times and codes are
// recorded, but no content.
import { context, createContextKey, diag, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { catalogue } from './otelllm-catalogue.mjs';

const tracer = trace.getTracer('otelllm-facts');
const runKey = createContextKey('otelllm run');
const signalKey = createContextKey('otelllm signal');
const callKey = createContextKey('otelllm call'); // of otelllm-retry.mjs

// succeeded has functions that are told the host of each request that went well outside of the loops of otelllm-retry.mjs.
export const succeeded = new Set();

// Abort is a reason for AbortController.abort that names its source: 'user', 'application', 'shutdown' or
// 'deadline', with a reason of your choice. For 'watchdog', a timer of yours, reason is what it watched:
// 'connect', 'first_progress', 'idle' or 'total', and limit its seconds.
export class Abort extends Error {
  name = 'AbortError';
  constructor(source, reason, limit) {
    super('aborted');
    this.source = source;
    this.reason = reason;
    this.limit = limit;
  }
}

// clock returns a clock for the times of spans, in milliseconds since 1970. All parts of a run have the same one, so that
// their order is that in which they happened: the SDK's own has whole milliseconds for a start and fractions for an end.
function clock() {
  const offset = Date.now() - performance.now();
  return () => offset + performance.now();
}

// withSignal runs fn with the signal that stops its requests, as a watchdog for one attempt does. Clients wrap signals
// and lose their reasons. The run goes on.
export function withSignal(signal, fn) {
  return context.with(context.active().setValue(signalKey, signal), fn);
}

// hasContext reports whether there is a context manager, without which no request or tool knows its run.
let warned = false;
function hasContext() {
  const found = context.with(context.active().setValue(signalKey, hasContext), () => context.active().getValue(signalKey)) === hasContext;
  if (found || warned) return found;
  warned = true;
  const said = 'otelllm-facts: there is no context manager, so that requests and tools do not know their run; set an AsyncLocalStorageContextManager';
  diag.warn(said);
  globalThis.process?.emitWarning?.(said, { code: 'OTELLLM_NO_CONTEXT' });
  return false;
}

// withRun runs fn as one run of an agent. signal is the signal that stops the run: clients wrap signals
// and lose their reasons. conversation is the id of the conversation that the run is part of. Only with toolsRecorded, which declares that every tool runs in withTool, is it
// known that no tool ran. A run in which withTool was called counts as one that records all tools.
//
// judge is a Judge for verdict(), by default that of the run around it, or one of the program that OTELLLM_JUDGE names.
export function withRun(agent, { signal, conversation, toolsRecorded = false, judge } = {}, fn) {
  hasContext();
  const outer = context.active().getValue(runKey);
  const named = defined({ 'gen_ai.agent.name': safeName(agent), 'gen_ai.conversation.id': safeName(conversation) });
  const attributes = { 'gen_ai.operation.name': 'invoke_agent', ...named, ...(outer && { 'llm.run.id': outer.id }) };
  const now = outer?.now ?? clock();
  return tracer.startActiveSpan(named['gen_ai.agent.name'] ? `invoke_agent ${named['gen_ai.agent.name']}` : 'invoke_agent', { attributes, startTime: now() }, async (recorded) => {
    const run = { id: recorded.spanContext().spanId, now, named, outer, signal, requests: 0, tools: 0, open: new Set(), waiting: new Map(), abort: undefined };
    run.judge = judge ?? outer?.judge ?? safely(judgeOfEnvironment);
    run.judged = String(++judgedParts);
    run.ledger = outer?.ledger ?? new Ledger();
    const span = new Told(recorded, run, now, { kind: 'run' }, attributes);
    span.tell({ state: 'begun', parent_run: outer && outer.judge === run.judge ? outer.judged : undefined, 'llm.run.tools': toolsRecorded ? 0 : undefined });
    try {
      return await context.with(context.active().setValue(runKey, run), fn);
    } catch (error) {
      // Clients have their own names for an abort. Only the run knows its source.
      const abort = isAbort(error, signal) ? abortOf(error, signal) : /Abort|Timeout/.test(nameOf(error)) ? run.abort : undefined;
      if (abort?.source === 'watchdog') failed(span, 'watchdog_timeout');
      else if (abort) setAbort(span, abort);
      else failed(span, nameOf(error));
      throw error;
    } finally {
      for (const request of run.open) request.end('abandoned'); // nothing reads it any more
      for (const tool of run.waiting.values()) tool.release();
      span.setAttributes({ 'llm.run.requests': run.requests, ...((run.tools || toolsRecorded) && { 'llm.run.tools': run.tools }) });
      span.end();
    }
  });
}

// begun counts a request or a tool for the run and for the runs around it.
function begun(run, what) {
  for (let r = run; r; r = r.outer) r[what]++;
}

const outputWait = 5000; // ms for which the span of a tool waits for the delivery of its output
const maxWaiting = 256; // spans of a run that wait

// withTool runs fn as the execution of one tool call. effect is 'read_only', 'idempotent',
// 'non_idempotent' or 'unknown'. An MCP result with isError is a failure.
//
// An output that reaches the model by other means than the next request, as in a realtime session, is recorded with
// outputSent(id), outputFailed(id, error) or outputCached(id), in the run. So the span has its end time from the end of fn, but
// leaves when the output was sent, with the first request that carries it, with the end of the run, or after five seconds,
// whichever comes first.
export function withTool({ id, name, effect = 'unknown' }, fn) {
  const run = context.active().getValue(runKey);
  begun(run, 'tools');
  const attributes = {
    'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': safeName(name), 'gen_ai.tool.call.id': safeName(id),
    'llm.tool.effect': effect, ...(run && { 'llm.run.id': run.id }),
  };
  const now = run?.now ?? clock();
  return tracer.startActiveSpan(`execute_tool ${safeName(name)}`, { attributes, startTime: now() }, async (recorded) => {
    const span = new Told(recorded, run, now, { kind: 'tool', id: String(++judgedParts) }, attributes);
    span.tell({ state: 'begun' });
    let outcome = 'succeeded';
    try {
      const call = context.active().getValue(callKey);
      const result = await (call && run ? context.with(context.active().setValue(callKey, call.inTool()), fn) : fn());
      if (result?.isError === true) {
        outcome = 'failed';
        failed(span, 'tool_error');
      }
      return result;
    } catch (error) {
      outcome = 'failed';
      if (isAbort(error, run?.signal)) {
        const abort = abortOf(error, run?.signal);
        outcome = abort.source === 'deadline' ? 'timed_out' : 'interrupted';
        setAbort(span, abort);
        if (run) run.abort = abort;
      }
      if (outcome !== 'interrupted') failed(span, nameOf(error));
      throw error;
    } finally {
      span.setAttribute('llm.tool.outcome', outcome);
      if (outcome === 'interrupted' || !run || run.waiting.size >= maxWaiting) {
        if (outcome !== 'interrupted') span.setAttribute('llm.tool.output_delivery', 'pending');
        span.end();
      } else {
        span.tell();
        waitForDelivery(run, id, span);
      }
    }
  });
}

// waitForDelivery ends the span of a tool now, and lets it leave later.
function waitForDelivery(run, id, span) {
  const ended = span.now();
  const key = id != null && !run.waiting.has(id) ? id : Symbol('a call without an id of its own');
  const tool = {
    delivery: 'pending',
    release() {
      if (!run.waiting.delete(key)) return;
      clearTimeout(timer);
      span.setAttribute('llm.tool.output_delivery', tool.delivery);
      span.end(ended);
    },
    deliver(delivery, error) {
      tool.delivery = delivery;
      if (error !== undefined) span.setAttribute('llm.tool.output_error', error === null ? '_OTHER' : nameOf(error));
      if (delivery !== 'cached') span.addEvent(`llm.tool.output_${delivery}`);
      if (delivery === 'sent') tool.release(); // what has arrived cannot be lost any more
    },
  };
  const timer = unrefTimer(setTimeout(() => tool.release(), outputWait));
  run.waiting.set(key, tool);
}

const delivered = (id, delivery, error) => safely(() => context.active().getValue(runKey)?.waiting.get(id)?.deliver(delivery, error));

// outputSent records that the output of a call has reached the model by other means than the next request.
export const outputSent = (id) => delivered(id, 'sent');

// outputFailed records that sending it failed. outputSent may follow.
export const outputFailed = (id, error = null) => delivered(id, 'failed', error);

// outputCached records that the application keeps it, to send it later.
export const outputCached = (id) => delivered(id, 'cached');

// effectOf is the effect that an MCP tool's annotations declare. Only what the server
// declared counts, and only of a server that you trust.
export function effectOf(annotations) {
  const { readOnlyHint, idempotentHint, destructiveHint, openWorldHint } = annotations ?? {};
  if (readOnlyHint) return 'read_only';
  if (idempotentHint) return 'idempotent';
  return destructiveHint || openWorldHint ? 'non_idempotent' : 'unknown';
}

// factsFetch returns a fetch that records model requests and passes on all others.
export function factsFetch(fetch = globalThis.fetch) {
  return async (input, init) => {
    const request = safely(() => Recording.of(input, init));
    if (!request) return fetch(input, init);
    if (request.unsent) throw request.unsent;
    let response;
    try {
      response = await context.with(trace.setSpan(context.active(), request.span.recorded), fetch, undefined, input, init);
    } catch (error) {
      request.end('error', error);
      throw error;
    }
    return safely(() => request.watch(response)) ?? response;
  };
}

const safely = (f) => {
  try {
    return f();
  } catch {
    return undefined;
  }
};

const isJSON = (text) => safely(() => JSON.parse(text)) !== undefined;

// unrefTimer returns the timer after making sure that it does not keep the process alive.
const unrefTimer = (timer) => (timer.unref?.(), timer);

// watched lists what a watchdog may watch.
const watched = ['connect', 'first_progress', 'idle', 'total'];

const maxBody = 8 << 20; // maximum characters of one event or document; the recording gives up on longer ones
const maxErrorBody = 64 << 10; // of a response with an error status, the characters that are read

// Recording is the recording of one HTTP request.
class Recording {
  // of starts a recording, or returns undefined if this is not a model request.
  static of(input, init) {
    const url = new URL(input.url ?? input);
    const protocol = protocols.find((p) => url.pathname.endsWith(p.path));
    if (!protocol || (init?.method ?? input.method)?.toUpperCase() !== 'POST') return undefined;
    const body = typeof init?.body === 'string' ? safely(() => JSON.parse(init.body)) : undefined;
    const outputs = body && safely(() => protocol.history(body)?.outputs.map(safeName));
    const unsent = context.active().getValue(callKey)?.refuse(url.host, outputs);
    if (unsent) return { unsent };
    if (!body) return undefined;
    return new Recording(protocol, url, body, new Headers(init.headers), init.signal ?? undefined);
  }

  constructor(protocol, url, body, headers, signal) {
    this.start = performance.now();
    this.host = url.host;
    this.inLoop = context.active().getValue(callKey) !== undefined;
    this.run = context.active().getValue(runKey);
    this.signal = signal;
    this.stops = context.active().getValue(signalKey);
    this.protocol = protocol;
    this.state = {
      protocol, events: 0, bytes: 0, keepalives: 0, text: 0, reasoning: 0, providerTools: 0, providerToolTypes: new Set(), calls: [], choices: new Map(),
      phase: 'response_started', finish: [], terminal: false, complete: false, error: undefined, violation: undefined,
      fills: fillsInputs(headers, url),
      unread: false, // the counts do not include everything that the client got: a count of zero proves nothing
    };
    const retries = headers.get('x-stainless-retry-count');
    const history = protocol.history(body);
    const attributes = {
      'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': protocol.provider, 'gen_ai.request.model': safeName(body.model),
      'gen_ai.request.stream': body.stream === true,
      'server.address': url.hostname, 'server.port': Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
      ...defined({
        'llm.request.provider_tools': mayHide(body, protocol.members) ? undefined : protocol.providerTools(body),
        'gen_ai.request.max_tokens': bound(body), 'user_agent.original': product(headers.get('user-agent')), 'llm.history.ends_with_outputs': protocol.endsWithOutputs?.(body) || undefined,
        'llm.request.background': body.background === true || undefined,
      }),
      ...(/^\d+$/.test(retries) && { 'llm.request.attempt': Number(retries) + 1 }),
      ...(history && { 'llm.history.tool_calls': ids(history.calls), 'llm.history.tool_outputs': ids(history.outputs) }),
      ...(this.run && { 'llm.run.id': this.run.id, ...this.run.named }),
    };
    const now = this.run?.now ?? clock();
    const recorded = tracer.startSpan(`chat ${safeName(body.model)}`, { kind: SpanKind.CLIENT, attributes, startTime: now() });
    this.span = new Told(recorded, this.run, now, { kind: 'request', id: String(++judgedParts) }, attributes);
    this.span.tell({ state: 'begun' });
    context.active().getValue(callKey)?.sent(this.span.part.id, this);
    if (this.run) {
      for (const id of history?.outputs.slice(-64) ?? []) this.run.waiting.get(id)?.release();
      begun(this.run, 'requests');
      this.run.open.add(this);
      this.run.abort = undefined;
    }
    // The application that stops a stream may not read on to see the error.
    this.onAbort = () => this.end('error', signal.reason);
    signal?.addEventListener('abort', this.onAbort, { once: true });
  }

  seconds = () => Math.max(performance.now() - this.start, 0.001) / 1000;

  // watch returns the response with a body that is recorded as it is read.
  watch(response) {
    const type = response.headers.get('content-type') ?? '';
    this.status = response.status;
    this.toHeaders = this.seconds();
    this.headers = response.headers;
    this.requestId = ['x-request-id', 'request-id', 'cf-ray'].map((h) => response.headers.get(h)).find(Boolean);
    this.document = this.status >= 400 || type.includes('json');
    if (!this.document && !type.includes('event-stream')) this.state.violation = 'unexpected_content_type';
    if (!response.body) {
      this.read = true;
      this.end('eof');
      return response;
    }
    let reader;
    const body = new ReadableStream({
      pull: async (controller) => {
        let chunk;
        try {
          chunk = await (reader ??= response.body.getReader()).read();
        } catch (error) {
          this.end('error', error);
          throw error; // the reader gets the same error
        }
        if (chunk.done) {
          this.eof();
          controller.close();
        } else {
          this.bytes(chunk.value);
          controller.enqueue(chunk.value);
        }
      },
      cancel: (reason) => {
        this.end('close');
        return (reader ?? response.body).cancel(reason);
      },
    }, { highWaterMark: 0 }); // no buffer of its own: a chunk is read when the reader asks for it
    const watched = new Response(body, response);
    for (const key of ['url', 'redirected', 'type']) Object.defineProperty(watched, key, { value: response[key] });
    return watched;
  }

  // bytes records a chunk of the body before the client gets it.
  bytes(chunk) {
    const s = this.state;
    s.bytes += chunk.byteLength;
    if (!this.over && !this.lost) this.guard(() => this.take((this.decoder ??= new TextDecoder()).decode(chunk, { stream: true })));
  }

  take(text) {
    this.rest = (this.rest ?? '') + text;
    this.held = (this.held ?? 0) + text.length;
    if (this.status >= 400) this.rest = this.rest.slice(0, maxErrorBody);
    else if (this.held > maxBody) throw new Error('too long to follow');
    if (this.document) return;
    const lines = this.rest.split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith(':')) this.state.keepalives++;
      else if (line.startsWith('data:')) {
        if (this.data && isJSON(this.data.join('\n'))) this.dispatch(); // some servers end an event with one newline
        (this.data ??= []).push(line.slice(line[5] === ' ' ? 6 : 5));
      }
      else if (line.startsWith('event:')) this.name = line.slice(6).trim();
      else if (/^(error: ?)?\{/.test(line)) this.stray(line.slice(line.indexOf('{')));
      else if (line === '') this.dispatch();
      else if (!this.cut && !/^(event|id|retry)(:|$)/.test(line)) this.state.unread = true;
    }
  }

  dispatch() {
    const { data = this.name === 'error' ? [] : undefined, name } = this; // NestJS omits the data of an error without a message
    this.data = this.name = undefined;
    if (!data) return;
    this.held = this.rest.length;
    this.event(data.join('\n'), name);
  }

  // stray reads an object that a server wrote without framing, or in a field of its own (llama.cpp): mostly an error.
  stray(text) {
    const fault = faultIn(safely(() => JSON.parse(text)));
    if (!fault.seen && !fault.known) {
      this.state.unread ||= !this.cut;
      return;
    }
    this.state.events++;
    fail(this.state, fault.error);
    this.awaitEnd();
  }

  event(data, name) {
    const s = this.state;
    const at = this.seconds();
    if (data.trim() === '' && name === 'error') {
      s.events++;
      fail(s, new Fault().error);
      this.awaitEnd();
      return;
    }
    if (data.trim() === '') { // a heartbeat, which has at most a name
      s.keepalives++;
      return;
    }
    if (data === '[DONE]') {
      s.events++;
      if (!s.terminal) {
        unstated(s);
        fillIn(s);
      }
      s.terminal = true;
    } else {
      const event = safely(() => JSON.parse(data));
      if (!isObject(event) && this.cut) return; // no client reads it
      if (!isObject(event)) {
        s.violation ??= 'malformed_event';
        s.broken ||= !s.complete && !s.terminal && event === undefined && isBroken(data);
        s.unread = true;
        const behind = faultIn(safely(() => JSON.parse(data.slice(data.lastIndexOf('\n') + 1)))); // a gateway's, in place of the rest of an event
        if (!behind.seen) return;
        s.events++;
        fail(s, behind.error);
        this.awaitEnd();
        return;
      }
      if (/^(ping|keepalive|codex\.(rate_limits|response\.metadata))$/.test(event.type)) {
        s.keepalives++;
        return;
      }
      this.sawForm(event);
      this.protocol.event(event, s, name);
      if (s.events++ > 0) this.gap = Math.max(this.gap ?? 0, at - this.lastProgress);
      this.lastProgress = at;
    }
    if (this.broke) return;
    // This is the protocol's final event: nothing after it counts.
    if (s.terminal && !s.error) this.end('close');
    else if (s.error) this.awaitEnd();
  }

  // sawForm records whether one of the objects of the body had the form of the protocol. Gateways answer on the path of one protocol in
  // the form of another: nothing is known of how such an answer ends, so it is unread, and not a failure.
  sawForm(object) {
    if (this.form !== 'own' && isObject(object) && Object.keys(object).length > 0) this.form = this.protocol.own(object) ? 'own' : 'foreign';
  }

  get unknown() {
    const s = this.state;
    return this.form === 'foreign' && !s.error && !s.complete && !this.answered && !s.finish.length && !s.id && (s.unread || this.document);
  }

  get answered() {
    const s = this.state;
    return s.text > 0 || s.reasoning > 0 || s.calls.length > 0 || s.providerTools > 0;
  }

  // awaitEnd gives what may still reach the client after an error a second.
  awaitEnd() {
    this.closing ??= unrefTimer(setTimeout(() => this.end('close'), 1000));
  }

  eof() {
    if (!this.over && !this.lost) {
      this.guard(() => {
        if (!this.document) {
          this.cut = true;
          this.take('\n\n'); // the end of the stream may end an event
          if (!this.over) {
            ended(this.state);
            fillIn(this.state);
          }
          return;
        }
        this.read = true;
        if (this.status >= 400) return; // endingOf reads what there is
        const body = JSON.parse(this.rest ?? '');
        if (!isObject(body)) throw new Error('not an answer');
        this.state.events++;
        this.lastProgress = this.seconds();
        this.sawForm(body);
        this.protocol.document(body, this.state);
        if (this.answered || this.state.complete || this.state.error) return;
        const fault = faultIn(body); // an object that has nothing of an answer may say that it is an error
        if (fault.seen || fault.known) fail(this.state, fault.error);
      });
    }
    this.end('eof');
  }

  // flush reads what no blank line has ended when the connection broke. Some clients read an event that is whole by then; it ends nothing.
  flush() {
    const s = this.state;
    const { terminal, complete } = s;
    this.cut = this.broke = true;
    this.take('\n\n');
    s.terminal = terminal;
    s.complete = complete;
  }

  // guard ends the recording of the body if it cannot be followed.
  guard(f) {
    try {
      f();
    } catch {
      this.lost = this.state.unread = true;
    }
  }

  // end sets the facts, once: the first end is the cause. how is 'eof', 'error', 'close' (by the consumer)
  // or 'abandoned'.
  end(how, error) {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.closing);
    const pending = !this.document && (this.data || this.rest?.trim());
    if (pending && how === 'error' && !this.lost) this.guard(() => this.flush());
    else if (pending && !this.state.complete) this.state.unread = true; // the client left inside an event
    if (this.unknown) this.lost = this.state.unread = true;
    this.run?.open.delete(this);
    this.signal?.removeEventListener('abort', this.onAbort);
    safely(() => this.settle(endingOf(this, how, error)));
    this.span.end();
    if (!this.inLoop && this.status < 400 && this.span.facts.status !== 'error') for (const told of succeeded) safely(() => told(this.host));
  }

  settle(c) {
    const s = this.state;
    if (s.fills && !s.error && s.finish.some((reason) => cutByLimit.test(reason))) for (const call of s.calls) call.completed = true;
    const known = this.status < 400;
    const { calls } = s;
    const count = (n) => (s.unread && !n ? undefined : n);
    const some = (list) => (list.length ? list : undefined);
    const whole = calls.filter((x) => x.completed && x.id).slice(-64);
    if (c.abort && this.run) this.run.abort = c.abort;
    const error = s.error && this.refusal();
    this.span.setAttributes(defined({
      'llm.stream.end': c.end, 'llm.stream.phase': c.phase,
      'http.response.status_code': this.status, 'llm.request.id': this.requestId && safeName(this.requestId),
      'llm.stream.time_to_headers': this.toHeaders, 'llm.stream.last_progress': this.lastProgress, 'llm.stream.longest_gap': this.gap,
      'llm.stream.bytes': this.status ? s.bytes : undefined, 'llm.retry.after': error?.after || undefined,
      'llm.transport.stage': c.stage, 'llm.transport.cause': c.cause, 'llm.transport.code': c.code, 'llm.transport.error_chain': c.chain,
      'llm.provider_error.kind': error?.kind, 'llm.provider_error.code': error?.code, 'llm.provider_error.in_band': error && known,
      'llm.provider_error.history': error?.history, 'llm.provider_error.intermediary': (error ? error.intermediary : s.spliced) || undefined,
      'llm.watchdog.kind': c.watchdog, 'llm.watchdog.limit': c.limit,
      ...(known && {
        'llm.stream.unread': s.unread || undefined,
        'llm.stream.events': count(s.events), 'llm.stream.keepalives': s.keepalives,
        'llm.stream.text_chunks': count(s.text), 'llm.stream.reasoning_chunks': count(s.reasoning),
        'llm.stream.tool_inputs_started': count(calls.length), 'llm.stream.tool_inputs_completed': count(calls.filter((x) => x.completed).length),
        'llm.stream.tool_inputs_invalid': calls.filter((x) => x.invalid).length || undefined,
        'llm.stream.tool_calls': count(calls.filter((x) => x.ready).length),
        'llm.stream.tool_call_ids': some(ids(whole.map((x) => x.id))),
        'llm.stream.tool_call_names': whole.some((x) => x.name) ? whole.map((x) => safeName(x.name || undefined) ?? '') : undefined,
        'llm.stream.open_tool_call_ids': some(ids(calls.filter((x) => !x.completed).map((x) => x.id))),
        'llm.stream.provider_tools_started': count(s.providerTools),
        'llm.stream.provider_tools': s.providerToolTypes.size ? [...s.providerToolTypes].slice(0, 64).map(safeName) : undefined,
        'gen_ai.response.id': s.id && safeName(s.id), 'gen_ai.response.model': s.model && safeName(s.model),
        'gen_ai.usage.input_tokens': s.input, 'gen_ai.usage.output_tokens': s.output,
        'gen_ai.response.finish_reasons': s.finish.length || c.due ? [...s.finish.map(safeName), ...(c.due ? ['error'] : [])] : undefined,
      }),
    }));
    if (c.abort) setAbort(this.span, c.abort);
    if (c.end === 'http_error') failed(this.span, String(this.status));
    else if (error) failed(this.span, error.code === 'redacted' ? error.kind : error.code ?? error.kind);
    else if (c.watchdog || c.end === 'watchdog') failed(this.span, 'watchdog_timeout');
    else if (!c.abort && (c.cause || c.end === 'no_response')) failed(this.span, c.cause ?? c.chain?.at(-1) ?? '_OTHER');
    else if (c.end === 'terminal_event' && c.due) failed(this.span, 'no_content');
  }

  // refusal returns what is recorded of the error: what it means, its name, and the seconds to wait. A rate limit of more than ten
  // minutes is an exhausted quota: that rule is llm_classify's, by llm.retry.after.
  refusal() {
    const { error } = this.state;
    const after = (this.status >= 400 && retryAfter(this.headers)) || error.after;
    const meaning = meaningOf(this.status, error, after);
    const said = error.code || error.type;
    const own = catalogue.ownTypes.includes((error.type || '').toLowerCase()); // the gateway's own error
    const refusal = { kind: meaning.kind, history: meaning.history, code: said ? safeCode(said) : undefined, after, intermediary: own };
    if (this.status < 400) return refusal;
    return {
      ...refusal, kind: kindByHeaders(meaning, this.headers),
      intermediary: own || !error.shaped && (meaning.intermediary || isIntermediary(this.status, this.headers, this.read ? this.rest ?? '' : undefined)),
    };
  }
}

// endingOf decides how a request ended. What the stream itself reported takes precedence over how the
// reading of it stopped.
function endingOf(r, how, error) {
  const s = r.state;
  const abort = error !== undefined && (isAbort(error, r.signal) || r.stops?.aborted) ? abortOf(error, r.stops, r.run?.signal, r.signal) : undefined;
  // Clients abort a stream that the application leaves, with a signal of their own.
  if (abort?.source === 'unknown' && r.status && r.run?.signal?.aborted === false && !r.stops?.aborted) how = 'close';
  const broke = how === 'error' && !abort ? transportOf(error, r.status) : {};
  if (abort?.source === 'watchdog' && how === 'error' && !s.complete && !s.error) {
    const phase = r.status ? s.phase : 'unknown';
    return { end: 'watchdog', phase, watchdog: watched.includes(abort.reason) ? abort.reason : undefined, limit: Number.isFinite(abort.limit) ? abort.limit : undefined, abort: { source: 'watchdog', reason: abort.reason }, due: Boolean(r.status) };
  }
  if (!r.status) {
    const phase = ['dns', 'connect', 'tls', 'proxy'].includes(broke.stage) ? 'before_connection' : broke.stage ? 'awaiting_response' : 'unknown';
    if (abort) return { end: 'cancelled', phase: 'unknown', abort };
    return { end: 'no_response', phase, chain: chainOf(error), ...broke };
  }
  if (r.status >= 400) {
    s.error = safely(() => errorIn(r.rest ?? '', r.headers)) ?? new Fault().error;
    return { end: 'http_error', phase: 'response_started' };
  }
  const stop = () => {
    if (abort && how === 'error') return { end: 'cancelled', abort, stage: 'body', cause: 'cancelled' };
    if (broke.watchdog) return { end: 'watchdog', watchdog: broke.watchdog, stage: 'body', cause: 'cancelled', due: true };
    if (how === 'error') return { end: 'read_error', chain: chainOf(error), ...broke, due: true };
    if (how === 'eof') return { end: 'eof', stage: 'body', cause: 'clean_eof', due: true };
    return { end: how === 'close' ? 'consumer_closed' : how, abort: { source: 'consumer' } };
  };
  if (r.lost) return how === 'error' || how === 'abandoned' ? { ...stop(), phase: 'unknown' } : { phase: 'unknown' };
  if (s.error) return { end: 'terminal_event', phase: s.phase, due: true };
  if (s.complete && (s.terminal || how !== 'error' || abort)) {
    return { end: 'terminal_event', phase: 'stream_end', ...(s.broken && { stage: 'body', cause: 'malformed_event' }) };
  }
  if (s.violation) return { end: stop().end, phase: s.phase, stage: 'body', cause: s.violation, due: true };
  if (s.terminal && !s.unread && !s.text && !s.reasoning && !s.calls.length && !s.providerTools) return { end: 'terminal_event', phase: 'stream_end', due: true };
  if (s.terminal) return { end: 'eof', phase: s.phase, stage: 'body', cause: 'clean_eof', due: true };
  return { phase: s.phase, ...stop(), ...(s.complete && { due: false }) };
}

const maxLines = 4096; // of a ledger: the judge takes no more of a run

// Ledger is the facts of a run and of those within it, or of a model call outside of any, as lines for the judge. It is exported for
// otelllm-retry.mjs alone.
export class Ledger {
  lines = new Map();
  complete = true;

  // add adds a line to what is known of its part.
  add(line, ms) {
    const key = JSON.stringify([line.run, line.kind, line.id]);
    const known = this.lines.get(key);
    if (!known && this.lines.size >= maxLines) {
      this.complete = false;
      return;
    }
    const { state = 'ended' } = line;
    const times = { start: known?.start ?? ms / 1000, ...(state === 'ended' && { end: known?.end ?? ms / 1000 }) };
    this.lines.set(key, { ...known, ...line, state, ...times });
  }
}

// Told is a span whose facts the judge of its run gets as well, and the ledger of the run or else of the call.
class Told {
  constructor(recorded, run, now, part, attributes) {
    const { ledger, judged } = run ?? context.active().getValue(callKey) ?? {};
    Object.assign(this, { recorded, run, now, part, facts: { ...attributes }, ledger, judged });
  }
  setAttribute(key, value) {
    this.setAttributes({ [key]: value });
  }
  setAttributes(attributes) {
    Object.assign(this.facts, attributes);
    this.recorded.setAttributes(attributes);
  }
  setStatus(status) {
    if (status.code === SpanStatusCode.ERROR) this.facts.status = 'error';
    this.recorded.setStatus(status);
  }
  addEvent(name) {
    this.recorded.addEvent(name, this.now());
  }
  end(at = this.now()) {
    this.tell();
    this.recorded.end(at);
  }
  tell(more) {
    if (!this.ledger || this.run?.told) return;
    const line = { run: this.judged, ...this.part, ...this.facts, ...more };
    const parent = this.part.kind === 'run' && this.run.outer?.judged;
    this.ledger.add(parent ? { ...line, parent_run: parent } : line, this.now());
    if (!this.run) return;
    if (this.part.kind === 'run') this.run.told = !more; // after its end the judge has forgotten it
    else if (!more && (!this.ended || this.run.last === this.ended)) this.run.last = this.ended = line; // a tool ends, and is delivered later
    if (this.run.judge) safely(() => this.run.judge.tell(line));
  }
}

let judgedParts = 0; // names of runs, requests and tools for the judge

// verdict returns the answer of `otelllm judge` (docs/judge.md) on the run as of now: 'verdict' on the run, and 'part' on the
// request or tool that ended last, if it failed. It is undefined without a judge, or if there is no answer in time: then ask a
// person before anything is repeated.
export async function verdict(ms = 1000) {
  const run = context.active().getValue(runKey);
  return run?.judge && safely(() => run.judge.ask(run.last ?? { run: run.judged }, ms));
}

const maxBehind = 4 << 20; // bytes that wait for the judge, and characters of one answer

// Judge is `otelllm judge` as a child process, for withRun's judge. It starts with the first run. Nothing waits for it but
// verdict; if it dies, or falls behind by 4 MiB, it gives no more verdicts.
export class Judge {
  #child;
  #dead = false;
  #asked = new Map();
  #refs = 0;
  #rest = '';

  constructor(command = ['otelllm', 'judge']) {
    this.command = command;
  }

  tell(line) {
    this.#write({ answer: false, ...line });
  }

  ask(line, ms) {
    if (this.#dead) return undefined;
    const ref = ++this.#refs;
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#answer(ref), ms);
      this.#asked.set(ref, (answer) => { clearTimeout(timer); resolve(answer); });
      this.#write({ ...line, ref });
    });
  }

  // close ends the judge.
  close() {
    this.#end();
  }

  #write(line) {
    if (this.#dead) return;
    const to = (this.#child ??= this.#start())?.stdin;
    if (!to || to.writableLength > maxBehind) this.#end();
    else to.write(`${JSON.stringify(line)}\n`);
  }

  #start() {
    const spawn = globalThis.process?.getBuiltinModule?.('node:child_process')?.spawn;
    if (!spawn) return undefined;
    // Detached: a signal of the terminal is for the application.
    const child = spawn(this.command[0], this.command.slice(1), { stdio: ['pipe', 'pipe', 'ignore'], detached: true });
    const end = (error) => {
      if (!this.#dead) diag.warn(`otelllm-facts: otelllm judge cannot be used: ${safeName(error?.code) ?? 'it has ended'}`);
      this.#end();
    };
    child.on('error', end).on('exit', () => end());
    child.stdin.on('error', end);
    child.stdout.setEncoding('utf8').on('error', end).on('data', (text) => {
      const lines = (this.#rest + text).split('\n');
      this.#rest = lines.pop();
      if (this.#rest.length > maxBehind) end();
      for (const line of lines) {
        const answer = safely(() => JSON.parse(line));
        this.#answer(answer?.ref, answer?.error === undefined ? answer : undefined);
      }
    });
    for (const held of [child, child.stdin, child.stdout]) held.unref?.(); // it does not keep the process alive
    return child;
  }

  #answer(ref, answer) {
    this.#asked.get(ref)?.(answer);
    this.#asked.delete(ref);
  }

  #end() {
    this.#dead = true;
    safely(() => this.#child?.stdin?.destroy());
    safely(() => this.#child?.kill());
    for (const ref of [...this.#asked.keys()]) this.#answer(ref);
  }
}

let found;
function judgeOfEnvironment() {
  const program = globalThis.process?.env?.OTELLLM_JUDGE;
  return program ? (found ??= new Judge([program, 'judge'])) : undefined;
}

// The protocols. event and document update the state.

const text = (s) => { leave(s); s.text++; s.phase = 'text'; };
const thought = (s) => { leave(s); s.reasoning++; s.phase = 'reasoning'; };

// A client may execute a call as soon as its input is one JSON value, or a part of the answer arrives
// that is not of the call. The call is complete from then on; only one whose input is an open JSON value
// was executed by no client. An input of any form, of a custom tool, shows its end by neither.
function begin(s, key, id, name, part, free = false) {
  leave(s);
  s.phase = 'tool_input';
  s.writing = { key, id, name, free, ...nothingYet, completed: false, ready: false };
  s.calls.push(s.writing);
  add(s, s.writing, part);
}
function leave(s) {
  if (s.writing) complete(s, s.writing);
  s.writing = undefined;
}
function complete(s, call) {
  if (!call.completed) s.phase = 'tool_call_ready';
  call.completed = true;
}

// endInput records that the provider has said that the input of a call is complete.
function endInput(s, call) {
  complete(s, call);
  if (!call.free && /^(open|broken)$/.test(call.input)) call.invalid = true;
  call.free = true; // what comes after does not count
}

// add reads a part of the input of a call: a string, or a value that is all of it.
function add(s, call, part) {
  if (s.writing !== call) leave(s);
  s.writing = call;
  if (!call.completed) s.phase = 'tool_input';
  if (part != null && typeof part !== 'string') return complete(s, call);
  if (call.free) return;
  for (const c of part ?? '') follow(call, c);
  if (!/^(empty|open)$/.test(call.input)) complete(s, call);
}

// follow reads the next character of the input of a call, and keeps where it is in the grammar of JSON: nothing of the input itself.
function follow(call, c) {
  if (/^(broken|deep)$/.test(call.input)) return;
  call.due = after(call, c) ?? 'nothing';
  if (call.due === 'nothing') call.input = 'broken';
  else if (/^(deep|whole)$/.test(call.due)) call.input = call.due;
  else if (call.open) call.input = 'open';
  else call.input = { value: 'empty', number: 'scalar' }[call.due] ?? 'open'; // a number may be whole with each of its characters
}

const maxNesting = 64;
const closed = (call) => (call.open ? 'next' : 'whole');

// after returns what is due after the character c; undefined: it is not JSON. Of numbers only the characters are checked.
function after(call, c) {
  switch (call.due) {
    case 'string':
      if (c === '"') return call.named ? 'colon' : closed(call);
      return c === '\\' ? 'escape' : c < ' ' ? undefined : 'string';
    case 'escape':
      call.rest = 'hhhh';
      return c === 'u' ? 'hex' : /["\\/bfnrt]/.test(c) ? 'string' : undefined;
    case 'hex':
      call.rest = call.rest.slice(1);
      return !/[\da-f]/i.test(c) ? undefined : call.rest ? 'hex' : 'string';
    case 'literal':
      if (c !== call.rest[0]) return undefined;
      call.rest = call.rest.slice(1);
      return call.rest ? 'literal' : closed(call);
    case 'number':
      if (/[\d+\-.eE]/.test(c)) return 'number';
      call.due = closed(call);
  }
  if (/[ \t\n\r]/.test(c)) return call.due;
  const value = /^(value|element)$/.test(call.due);
  switch (c) {
    case '"':
      call.named = /^(member|name)$/.test(call.due);
      return call.named || value ? 'string' : undefined;
    case '{': case '[':
      if (!value) return undefined;
      if (call.open.length === maxNesting) return 'deep';
      call.open += c;
      return c === '{' ? 'member' : 'element';
    case '}': case ']':
      if (call.open.at(-1) !== (c === '}' ? '{' : '[') || ![c === '}' ? 'member' : 'element', 'next'].includes(call.due)) return undefined;
      call.open = call.open.slice(0, -1);
      return closed(call);
    case ',': return call.due !== 'next' ? undefined : call.open.at(-1) === '{' ? 'name' : 'value';
    case ':': return call.due === 'colon' ? 'value' : undefined;
  }
  call.rest = { t: 'rue', f: 'alse', n: 'ull' }[c];
  return !value ? undefined : call.rest ? 'literal' : /[\d+\-.eE]/.test(c) ? 'number' : undefined;
}

const nothingYet = { input: 'empty', due: 'value', open: '', rest: '', named: false };

// isBroken reports whether a payload that cannot be parsed would have been a part of the answer: it begins as an object, and not with a
// whole one. A word would not have been, and Python reads an object with a NaN or an Infinity.
function isBroken(payload) {
  if (payload.trimStart()[0] !== '{' || /NaN|Infinity/.test(payload)) return false;
  const object = { ...nothingYet };
  for (const c of payload) {
    follow(object, c);
    if (!/^(empty|open)$/.test(object.input)) break;
  }
  return object.input !== 'whole';
}

// ended is for the end of a body that its reader takes for the end of the answer: calls without arguments
// so far are executed, and those of any form. A stop_reason ends a message without message_stop.
function ended(s) {
  for (const c of s.calls) if (c.free || c.input === 'empty') complete(s, c);
  if (s.protocol === messages && s.finish.length && !s.terminal) done(s);
}

// fillIn is ended for a client that executes even a call whose input is an open JSON value: it repairs it, or takes {} instead.
function fillIn(s) {
  if (s.fills && !s.error) for (const c of s.calls) complete(s, c);
}

// cutByLimit matches the reasons of an answer that may have been cut within the input of a call.
const cutByLimit = /^(length|max_tokens|max_output_tokens|model_context_window_exceeded|content_filter|incomplete)$/i;

// checkingClients matches the User-Agents of clients that execute no call with half an input.
const checkingClients = /(^|\s)(opencode\/|Kilo-Code\/|codex[_-]|claude-cli\/)/;

// fillsInputs reports whether the client may do so at a clean end or a limit, as LangChain does and Cline. Such clients name the SDK
// below them, or nothing, so that it is assumed of each one that is not known to check. Of the AI SDK's providers
// @openrouter/ai-sdk-provider does, from 2.5.0 on (https://github.com/OpenRouterTeam/ai-sdk-provider/issues/558), and
// @ai-sdk/openai-compatible hands over such a call, which the application may repair. Where the application has a User-Agent of its own,
// the library below it, and OpenRouter's host, have to do.
function fillsInputs(headers, url) {
  const agent = (headers.get('user-agent') ?? '').replaceAll(/(?<=^|\s)ai-sdk-/g, 'ai-sdk/'); // as version 7 of the AI SDK writes it
  const version = /(?:^|\s)ai-sdk\/openrouter\/(\S+)/.exec(agent)?.[1];
  if (version) return !/^(0|1|2\.[0-4])\./.test(version);
  if (/(^|\s)ai-sdk\/(?!provider-utils\/|openai-compatible\/)/.test(agent)) return false;
  if (/(^|\s)ai-sdk\/provider-utils\//.test(agent) && url.hostname === 'openrouter.ai') return true;
  return !checkingClients.test(agent);
}

// unstated completes a chat that its server has ended, with content and not one finish reason: some servers
// send none. One that ended within the input of a call stays incomplete. An object that is not known may have been the end, and not a
// good one.
function unstated(s) {
  ended(s);
  if (s.protocol !== chat || s.complete || s.finish.length || !(s.text || s.calls.length || (s.strange && s.choices.size)) || s.calls.some((c) => !c.completed)) return;
  for (const c of s.calls) { endInput(s, c); c.ready = true; }
  s.finish.push(s.strange ? 'unrecognized' : 'unstated');
  s.complete = true;
  s.phase = 'stream_end';
}
const call = (s, key) => s.calls.findLast((c) => c.key === key);
const usage = (s, input, output) => { s.input = input ?? s.input; s.output = output ?? s.output; };
const identify = (s, { id, model } = {}) => { s.id ??= id; s.model ??= model; };

// unknownPart records that a part of the answer is of an unknown kind and not in the counts.
const unknownPart = (s) => { s.unread = true; };
const holds = (v) => v != null && v !== '' && !(Array.isArray(v) && v.length === 0);

// The keys of a delta or a message of a chat that are counted, or are not a part of the answer.
const chatKeys = new Set(['role', 'content', 'refusal', 'tool_calls', 'reasoning_content', 'reasoning', 'reasoning_details', 'annotations', 'extra_content']);

function done(s) {
  s.complete = s.terminal = true;
  for (const c of s.calls) c.ready = c.completed;
  s.phase = 'stream_end';
}

// The members of a request that offer no tool, or whose tools are read. Another one with a value may offer some, as agent,
// tool_ids and integrations do: then what is offered is not known, and a retry asks.
const members = (...lists) => new Set(lists.join(' ').split(/\s+/));
const commonMembers = `model stream metadata store user stop n seed temperature top_p top_k min_p frequency_penalty presence_penalty repetition_penalty
  logit_bias logprobs top_logprobs response_format reasoning reasoning_effort parallel_tool_calls tool_choice tools service_tier
  safety_identifier prompt_cache_key prompt_cache_retention stream_options chat_template_kwargs models provider session_id`;
const says = (v) => v != null && v !== false && v !== '' && (typeof v !== 'object' || (Array.isArray(v) ? v.length > 0 : Object.values(v).some(says)));
const mayHide = (body, known) => Object.entries(body).some(([name, v]) => !known.has(name) && says(v));

// bound returns the bound on the tokens of the answer.
const bound = (body) => [body.max_tokens, body.max_completion_tokens, body.max_output_tokens].filter((n) => Number.isInteger(n) && n >= 0).sort((a, b) => a - b)[0];

function providerTool(s, type) {
  s.providerTools++;
  s.providerToolTypes.add(type || 'unknown');
}

const chat = {
  path: '/chat/completions', provider: 'openai',
  own: (o) => ['choices', 'error', 'request_id', 'x_groq'].some((key) => key in o),
  members: members(commonMembers, `messages audio functions function_call max_tokens max_completion_tokens modalities prediction verbosity web_search_options thinking
  enable_thinking`),
  history: ({ messages = [] }) => ({
    calls: messages.flatMap((m) => m.tool_calls?.map((c) => c.id) ?? []),
    outputs: messages.filter((m) => m.role === 'tool').map((m) => m.tool_call_id),
  }),
  providerTools: ({ model, tools = [], web_search_options: web }) => (/(^|\/)compound/.test(model) ? undefined : [ // Groq's, which calls its own tools
    ...offered(tools, ['function', 'custom']), ...(web ? ['web_search'] : [])]),
  event(e, s, name) {
    identify(s, e);
    usage(s, e.usage?.prompt_tokens, e.usage?.completion_tokens);
    let failure;
    for (const { index, delta = {}, finish_reason: said, native_finish_reason: native } of e.choices ?? []) {
      let reason = /^(none|null)$/i.test(said) ? undefined : said; // some servers write their language's null
      // OpenRouter has written a stop for a limit or a failure of its provider.
      if (/^(stop|tool_calls)$/.test(reason) && (isFailure(native) || cutReasons.test(native))) reason = native;
      s.choices.set(index, s.choices.get(index) || reason != null);
      if (delta.reasoning_content || delta.reasoning) thought(s);
      if (delta.content || delta.refusal) text(s);
      if (Object.entries(delta).some(([k, v]) => !chatKeys.has(k) && holds(v))) unknownPart(s);
      s.refused ||= Boolean(delta.refusal);
      for (const c of delta.tool_calls ?? []) {
        const key = `${index}/${c.index}`;
        const part = c.custom ? c.custom.input : c.function?.arguments;
        const named = (c.custom ?? c.function)?.name;
        const known = call(s, key);
        if (known) {
          known.name ||= named;
          add(s, known, part);
        } else begin(s, key, c.id, named, part, Boolean(c.custom));
      }
      if (reason == null) continue;
      s.finish.push(reason === 'stop' && s.refused ? 'refusal' : String(reason)); // OpenAI ends a refusal like an answer
      if (isFailure(reason)) failure = reason;
      if (isFailure(reason) || cutReasons.test(reason)) continue; // it may be cut inside a call
      for (const c of s.calls.filter((x) => x.key.startsWith(`${index}/`))) {
        endInput(s, c);
        c.ready = true;
      }
    }
    const error = chatError(e, name, failure);
    if (error) {
      fail(s, error);
      return;
    }
    if (isAside(e) && Object.entries(e).some(([key, v]) => !headingKeys.has(key) && hasText(v))) {
      unknownPart(s);
      s.strange = true;
    }
    s.complete = s.choices.size > 0 && [...s.choices.values()].every(Boolean);
    if (s.complete) s.phase = s.calls.some((c) => c.ready) ? 'tool_call_ready' : 'stream_end';
  },
  document(body, s) {
    const choices = body.choices?.map((c) => ({ ...c, delta: { ...c.message, tool_calls: c.message?.tool_calls?.map((t, index) => ({ ...t, index })) } }));
    chat.event({ ...body, choices }, s);
    if (choices?.length && !s.error) unstated(s);
    s.terminal = true;
  },
};

const responses = {
  path: '/responses', provider: 'openai',
  own: (o) => (o.type && !/^(message|content_block)_/.test(o.type)) || 'output' in o || 'error' in o,
  members: members(commonMembers, `access_programs background context_management conversation include input instructions max_output_tokens max_tool_calls moderation
  previous_response_id prompt text truncation client_metadata`),
  history: ({ input, previous_response_id: before, conversation }) => (before || conversation ? undefined : { // the provider has the rest
    calls: items(input).filter((i) => /^(function|custom_tool)_call$/.test(i.type)).map((i) => i.call_id),
    outputs: items(input).filter((i) => /^(function|custom_tool)_call_output$/.test(i.type)).map((i) => i.call_id),
  }),
  providerTools: ({ prompt, tools = [] }) => (prompt ? undefined : offered(tools, ['function', 'custom', 'computer', 'computer_use_preview', 'local_shell', 'apply_patch'])), // a stored prompt may have tools, too
  event(e, s, name) {
    const { item, type = name || untyped(e) } = e;
    const ours = item && /^(function|custom_tool)_call$/.test(item.type);
    identify(s, e.response);
    switch (type) {
      case 'response.output_item.added':
        leave(s);
        if (ours) begin(s, e.output_index, item.call_id, item.name, item.arguments, item.type !== 'function_call');
        else if (item.type === 'mcp_approval_request') s.asks = true;
        else if (!/^(message|reasoning|mcp_list_tools|mcp_approval_response|\w+_call|\w+_call_output)$/.test(item.type)) unknownPart(s);
        if (items(item.content).some((c) => c.text || c.refusal)) text(s);
        if (ours) break;
        if (/_call$|^mcp_list_tools$/.test(item.type) && !/^(computer|local_shell|apply_patch)_call$/.test(item.type)) providerTool(s, item.type.replace(/_call$/, ''));
        break;
      case 'response.output_text.delta': text(s); break;
      case 'response.output_text.done': if (e.text && !s.text) text(s); break;
      case 'response.content_part.done': if ((e.part?.text || e.part?.refusal) && !s.text) text(s); break;
      case 'response.refusal.delta': text(s); s.refused = true; break;
      case 'response.reasoning_text.delta': case 'response.reasoning_summary_text.delta': thought(s); break;
      case 'response.function_call_arguments.delta': case 'response.custom_tool_call_input.delta': {
        const c = call(s, e.output_index);
        if (c) add(s, c, e.delta);
        else unknownPart(s);
        break;
      }
      case 'response.function_call_arguments.done': case 'response.custom_tool_call_input.done': {
        const c = call(s, e.output_index);
        if (c) endInput(s, c);
        break;
      }
      case 'response.output_item.done':
        if (ours) {
          const c = call(s, e.output_index);
          if (c && item.status !== 'incomplete') { endInput(s, c); c.ready = true; }
        }
        break;
      case 'response.completed': case 'response.incomplete':
        usage(s, e.response.usage?.input_tokens, e.response.usage?.output_tokens);
        s.finish.push(cutBy(e.response) ?? (type === 'response.incomplete' ? 'incomplete' : s.asks ? 'approval_required' : s.refused ? 'refusal' : s.calls.some((c) => c.ready) ? 'tool_calls' : 'stop'));
        s.broken &&= !items(e.response.output).length; // it has all of the answer once more
        done(s);
        break;
      case 'response.failed': case 'response.cancelled': case 'response.error': { // the last one of gateways
        let fault = new Fault().read(e.response?.error);
        if (!fault.seen) fault = flatFault(e); // a gateway has put it beside the response, or in its place
        if (type === 'response.cancelled') fault.code ||= 'cancelled';
        fail(s, fault.error);
        break;
      }
      case 'response.done': // of some servers: its status says how it ended
        return responses.event({ ...e, type: `response.${e.response?.status ?? 'completed'}` }, s);
      case 'error': fail(s, errorOfEvent(e)); break;
      default: if (/\.delta$/.test(type) && !/_call_\w+\.delta$|^response\.mcp_call/.test(type)) unknownPart(s);
    }
  },
  document(response, s) {
    const { output } = response;
    const status = typeof response.status === 'string' ? response.status : undefined;
    if (!status && !Array.isArray(output)) { // an error, or nothing that is known
      const fault = new Fault().read(response.error);
      if (fault.seen) fail(s, fault.error);
      else unknownPart(s);
      return;
    }
    if (/^(queued|in_progress)$/.test(status)) { // the provider is still working
      identify(s, response);
      s.finish.push(response.status);
      done(s);
      return;
    }
    for (const [i, item] of items(output).entries()) {
      responses.event({ type: 'response.output_item.added', output_index: i, item }, s);
      responses.event({ type: 'response.output_item.done', output_index: i, item }, s);
      s.refused ||= items(item.content).some((c) => c.type === 'refusal');
    }
    responses.event({ type: `response.${status ?? 'completed'}`, response }, s);
  },
};

// goesOn reports whether a thread goes on from an earlier response: the request has only what is new.
const goesOn = (thread) => says(thread) && thread.type !== 'create';

// definedIn returns the tools that messages define: their tool_addition blocks, also those in a compaction, offer them from there on. A
// reference is to a tool of the request.
const definedIn = (all) => all.flatMap((m) => items(m.content)).flatMap((b) => (b.type === 'compaction' ? items(b.tool_changes) : [b]))
  .filter((b) => b.type === 'tool_addition' && !/_reference$/.test(b.tool?.type)).map(({ tool }) => (tool?.type === 'tool_definition' ? tool.definition : tool) ?? { type: 'unknown' });

const messages = {
  path: '/v1/messages', provider: 'anthropic',
  own: (o) => (o.type && !/^response\./.test(o.type)) || 'error' in o,
  members: members(commonMembers, `messages system max_tokens stop_sequences thinking cache_control container context_management output_config output_format
  mcp_servers inference_geo speed anthropic_version anthropic_beta betas thread`),
  endsWithOutputs: ({ messages: all = [] }) => items(all.at(-1)?.content).some((b) => b.type === 'tool_result'),
  history: ({ messages: all = [], thread }) => {
    if (goesOn(thread)) return undefined; // the provider has the rest
    const blocks = all.flatMap((m) => items(m.content));
    return { calls: blocks.filter((b) => b.type === 'tool_use').map((b) => b.id), outputs: blocks.filter((b) => b.type === 'tool_result').map((b) => b.tool_use_id) };
  },
  providerTools: ({ tools, messages: all = [], mcp_servers: mcp, container, thread }) => (goesOn(thread) ? undefined : [ // the thread has its tools
    ...offered([...(tools ?? []), ...definedIn(all)], ['custom', 'bash', 'text_editor', 'computer', 'memory']), ...(mcp?.length ? ['mcp'] : []), ...(container?.skills?.length ? ['skills'] : [])]),
  event(e, s, name) {
    switch (e.type ?? (name || untyped(e))) {
      case 'message_start':
        if (s.blocks && !s.terminal && e.message.id && e.message.id === s.message) break; // gateways repeat it
        if (s.blocks && !s.terminal) { // a gateway has appended the answer of another attempt
          s.broken = s.spliced = true;
          s.violation ??= 'malformed_event';
          for (const c of s.calls) if (!c.free) endInput(s, c);
          s.writing = undefined;
        }
        s.message = e.message.id;
        identify(s, e.message);
        usage(s, e.message.usage?.input_tokens);
        break;
      case 'content_block_start':
        s.blocks = true;
        leave(s);
        if (e.content_block.type === 'tool_use') begin(s, e.index, e.content_block.id, e.content_block.name, Object.keys(e.content_block.input ?? {}).length ? e.content_block.input : undefined);
        else if (/^(server|mcp)_tool_use$/.test(e.content_block.type)) providerTool(s, e.content_block.type === 'mcp_tool_use' ? 'mcp' : e.content_block.name?.replace(/_tool_(regex|bm25)$/, ''));
        else if (e.content_block.type === 'text') { if (e.content_block.text) text(s); }
        else if (!/^((redacted_)?thinking|\w+_tool_result|container_upload)$/.test(e.content_block.type)) unknownPart(s);
        break;
      case 'content_block_delta':
        if (e.delta.type === 'text_delta') text(s);
        else if (e.delta.type === 'thinking_delta') thought(s);
        else if (e.delta.type === 'input_json_delta') { if (call(s, e.index)) add(s, call(s, e.index), e.delta.partial_json); }
        else if (!/^(signature|citations)_delta$/.test(e.delta.type)) unknownPart(s);
        break;
      case 'content_block_stop': {
        const c = call(s, e.index);
        if (c) endInput(s, c);
        break;
      }
      case 'message_delta':
        usage(s, undefined, e.usage?.output_tokens);
        if (e.delta.stop_reason) s.finish.push(e.delta.stop_reason);
        break;
      case 'message_stop':
        if (s.finish.length) done(s);
        s.terminal = true;
        break;
      case 'error': fail(s, errorOfEvent(e)); break;
    }
  },
  document(body, s) {
    if (body.type === 'error' || body.error) {
      messages.event({ ...body, type: 'error' }, s);
      return;
    }
    if (!Array.isArray(body.content)) unknownPart(s);
    identify(s, body);
    for (const [index, block] of items(body.content).entries()) {
      messages.event({ type: 'content_block_start', index, content_block: block }, s);
      messages.event({ type: 'content_block_stop', index }, s);
    }
    messages.event({ type: 'message_delta', delta: body, usage: body.usage }, s);
    messages.event({ type: 'message_stop' }, s);
  },
};

const protocols = [chat, responses, messages];

const items = (list) => (Array.isArray(list) ? list : []);

// offered returns the tools that the provider executes, by their types without versions.
const offered = (tools, ours) => ids((tools ?? []).map((t) => (t.type ?? ours[0]).replace(/_(preview|\d).*$/, '')).filter((t) => !ours.includes(t)));

function fail(s, error) {
  if (s.error) { // the first error is the cause; a later one adds what the first lacks
    for (const [k, v] of Object.entries(error)) if (k !== 'phrases') s.error[k] ||= v;
    s.error.phrases = longest([...s.error.phrases, ...error.phrases]);
    return;
  }
  s.error = error;
  s.terminal = true;
  s.complete = false;
}

// Errors. An error is { code, type, status, after, phrases, long, quoted, shaped }: its names, the HTTP status that it names itself, the
// seconds that it asks to wait, and of its words which phrases of the catalogue are in them, whether they name a limit of a long period,
// and the HTTP status of an error that they quote. The words are searched and not kept.

const isObject = (v) => v != null && typeof v === 'object' && !Array.isArray(v);
const textOf = (v) => (typeof v === 'string' ? v : typeof v === 'number' ? String(v) : '');
const maxWords = 4; // how many texts of one error are searched
const maxDepth = 4; // how deep they are nested
const maxMessage = 4096; // the beginning of a text that is searched
const maxName = 128;

// Fault reads an object that may be an error, in the form of any provider.
class Fault {
  seen = false; // it is an error by its form
  listed = false; // it is one of a list
  beside = false; // there are objects or lists in it that are not read
  failed = false; // it says that it is no success
  type = '';
  code = '';
  reason = ''; // Google's code, whose code is a status, or Anthropic's
  quota = ''; // Google's name of a quota that is used up for the day
  status = 0;
  after = 0;
  words = [];

  // read reads the value of a member that is an error: an object, a text, or a list, as of Cloudflare's AI Gateway. null, '', {} and []
  // are none.
  read(value) {
    if (isObject(value)) {
      for (const [key, v] of Object.entries(value)) { this.seen = true; this.member(key, v); }
    } else if (Array.isArray(value)) {
      this.inWords(value);
      this.listed = this.words.length > 0 || this.code !== '';
      this.seen ||= this.listed;
    } else if (typeof value === 'string' && value) {
      this.seen = true;
      this.say(value);
    }
    return this;
  }

  say(text) { if (text && this.words.length < maxWords) this.words.push(text.slice(0, maxMessage)); }

  member(key, v) {
    switch (uncapital(key)) {
      case 'type': this.type = textOf(v); break;
      case 'code': this.code = textOf(v); this.setStatus(v); break;
      case 'status': case 'status_code': case 'statusCode': case 'http_status': case 'http_status_code': case 'http_code':
        if (!this.setStatus(v) && !this.type) this.type = textOf(v); // a name in Google's errors
        break;
      case 'message': case 'msg': case 'detail': case 'title': case 'error_message': case 'error_description': case 'description':
      case 'innererror': case 'upstream_error': case 'errors': this.inWords(v); break;
      case 'value': if (isObject(v)) this.inWords(v); break; // of Vercel's gateway: the chunk of a provider that it did not know
      case 'base_resp': this.base(v); break;
      case 'reason': if (typeof v === 'string' && isKnown(v)) this.reason = v; break; // of Amazon's services, beside a message
      case 'retry_after': case 'retry_after_seconds': case 'resets_in_seconds': case 'reset_seconds': this.setAfter(v, 1); break;
      case 'retry_after_ms': this.setAfter(v, 0.001); break;
      case 'resets_at': case 'reset_at': case 'reset_time': this.setReset(v); break;
      case 'metadata': case 'details': for (const one of Array.isArray(v) ? v : [v]) this.detail(one); break;
      case 'success': this.failed = v === false; break;
      default: this.beside ||= v !== null && typeof v === 'object';
    }
  }

  // inWords reads a text, or what has one: an object or a list. The names in it count if the error has no other.
  inWords(v, depth = 0) {
    if (depth > maxDepth) return;
    if (typeof v === 'string') this.say(v);
    else if (Array.isArray(v)) for (const one of v) this.inWords(one, depth + 1);
    else if (isObject(v)) {
      for (const [key, one] of Object.entries(v)) {
        if (/^(code|reason)$/.test(key)) this.code ||= textOf(one);
        else if (key === 'type') { if (!this.type || this.type === 'error') this.type = typeof one === 'string' ? one : ''; }
        else if (/^(message|msg|detail|error|innererror|error_message)$/.test(key)) this.inWords(one, depth + 1);
      }
    }
  }

  // base reads MiniMax's status, which comes with every answer: 0 is success.
  base(v) {
    if (typeof v?.status_code === 'number' && v.status_code !== 0) { this.seen = true; this.code = `base_resp.${v.status_code}`; }
    if (typeof v?.status_msg === 'string') this.say(v.status_msg);
  }

  // detail reads OpenRouter's metadata, or one of Google's details.
  detail(v) {
    if (typeof v === 'string') this.say(v);
    if (!isObject(v)) return;
    for (const [key, one] of Object.entries(v)) {
      switch (key) {
        case 'retry_after': case 'retry_after_seconds': case 'retry_after_ms': this.member(key, one); break;
        case 'headers': for (const [name, at] of Object.entries(one ?? {})) if (name.toLowerCase() === 'x-ratelimit-reset') this.setReset(at); break;
        case 'retryDelay': this.after = delayIn(textOf(one)) || this.after; break;
        case 'reason': case 'error_code': this.reason = typeof one === 'string' ? one : ''; break;
        case 'error_type': this.type ||= textOf(one); break;
        case 'raw': case 'limit_source': case 'detail': this.inWords(one); break; // raw is the provider's own error
        // Only its name distinguishes a quota that is used up for the day from a limit of a minute.
        case 'violations': for (const q of items(one)) if (typeof q?.quotaId === 'string' && q.quotaId.includes('PerDay')) this.quota = q.quotaId; break;
      }
    }
  }

  setStatus(v) {
    const status = statusIn(textOf(v));
    this.status = status || this.status;
    return status > 0;
  }
  setAfter(v, unit) { if (textOf(v) && !Number.isNaN(Number(v))) this.after = within(Number(v) * unit); }
  setReset(v) { this.after ||= momentIn(textOf(v)); }

  get name() { return this.quota || (this.reason && (this.status || !this.code) ? this.reason : this.code); }

  // shaped: it has the form of a provider's error. An address as type is that of problem+json.
  get shaped() { return !this.listed && (this.seen || this.name !== '' || (this.type !== '' && !/:\/\/|^about:/.test(this.type))); }

  // known: it is an error by what it says, although it does not have the form of one.
  get known() {
    return this.status > 0 || isKnown(this.name) || (this.words.length > 0 && isKnown(this.type)) || this.words.some((w) => phrasesIn(w).length > 0)
      || ((this.failed || isFailureCode(this.code)) && this.words.length > 0 && !this.beside);
  }

  get error() {
    const e = { code: this.name.slice(0, maxName), type: this.type.slice(0, maxName), status: this.status, after: this.after, phrases: [], long: false, quoted: 0, shaped: this.shaped };
    for (const text of this.words) {
      e.after ||= waitIn(text);
      e.phrases = longest([...e.phrases, ...phrasesIn(text)]);
      e.long ||= namesLongPeriod(plain(text));
      e.quoted ||= statusQuoted(text);
      const quoted = isGeneral(e.code) || isGeneral(e.type) ? namesIn(text) : {};
      if (isGeneral(e.code)) e.code = quoted.code ?? e.code;
      if (isGeneral(e.type)) e.type = quoted.type ?? e.type;
    }
    return e;
  }
}

// faultIn reads a document that may be an error: {"error":{…}} or {"error":"text"} of most, or flat, as of vLLM, AWS and gateways.
function faultIn(document) {
  const nested = new Fault();
  const flat = new Fault();
  if (!isObject(document)) return flat;
  for (const [key, v] of Object.entries(document)) {
    switch (key) {
      case 'error': nested.read(v); break;
      case 'OriginalStatusCode': flat.setStatus(v); break; // of SageMaker: what the model answered
      case 'Response': case 'response': // of Tencent Cloud, which wraps an answer, too
        for (const [inner, error] of isObject(v) ? Object.entries(v) : []) if (uncapital(inner) === 'error') nested.read(error);
        break;
      case 'object': flat.seen ||= v === 'error'; break;
      case 'type': if (v === 'error') flat.seen = true; else flat.type = typeof v === 'string' ? v : ''; break;
      case '__type': flat.type ||= shapeName(textOf(v)); break;
      case 'error_code': if (!['', '0'].includes(textOf(v))) { flat.seen = true; flat.code = textOf(v); } break; // of FastChat and Qianfan
      case 'error_msg': flat.inWords(v); break;
      default: flat.member(key, v);
    }
  }
  if (flat.seen && typeof document.text === 'string') flat.say(document.text);
  if (!nested.seen) return flat;
  nested.after ||= flat.after;
  nested.status ||= flat.status;
  if (typeof document.error === 'string') Object.assign(nested, { type: flat.type, code: flat.code }); // the members beside it are those of the error
  for (const text of flat.words) nested.say(text);
  return nested;
}

// besides returns the error with what the members beside it say, if it is a text alone: {"error":"text","status":400,"details":"text"}.
function besides(fault, e) {
  if (!fault.seen || fault.status || fault.type || fault.name) return fault;
  const whole = faultIn(e);
  return whole.seen ? whole : fault;
}

// uncapital returns a key without the capital that the services of Amazon and Tencent Cloud begin it with.
const uncapital = (key) => (/^[A-Z]/.test(key) ? key[0].toLowerCase() + key.slice(1) : key);

// isFailureCode reports whether a code is a number that is not one of success.
const isFailureCode = (code) => /^-?\d{1,18}$/.test(code) && (Number(code) < 0 || Number(code) >= 400);

// shapeName returns the name of an AWS error without the namespace before it and the address after it.
const shapeName = (said) => said.split(':')[0].split('#').at(-1);

// isFailure reports whether a finish reason is an error. Such an answer is not complete, whatever preceded it.
const isFailure = (reason) => reason === 'error' || finishKinds.has(String(reason).toLowerCase());

// cutReasons are the finish reasons of an answer that something cut, and which may end within the input of a call.
const cutReasons = /^(length|max_tokens|max_output_tokens|model_length|model_context_window_exceeded|content_filter|safety|recitation|blocklist|prohibited_content|spii|refusal)$/i;

// The members of a chunk without choices that is not an error.
const chunkKeys = new Set(['id', 'model', 'usage', 'x_groq', 'object', 'created', 'obfuscation', 'request_id', 'system_fingerprint', 'service_tier', 'provider']);

// isAside reports whether an object is no chunk, and headingKeys are the members that say what a chunk is of.
const isAside = (e) => e.choices == null && Object.keys(e).some((key) => !chunkKeys.has(key));
const headingKeys = new Set(['id', 'model', 'object', 'request_id', 'system_fingerprint', 'service_tier', 'provider', 'x_groq']);
const hasText = (v) => (typeof v === 'string' ? v !== '' : v !== null && typeof v === 'object' && Object.values(v).some(hasText));

// chatError returns the error in an event of Chat Completions: in a member, flat (vLLM), by the name of the event, or as a reason to finish.
function chatError(e, name, failure) {
  const fault = new Fault().read(e.error);
  for (const choice of items(e.choices)) fault.read(choice?.error); // OpenRouter
  fault.base(e.base_resp);
  const groq = e.x_groq?.error;
  if (typeof groq === 'string' && groq) { fault.seen = true; fault.code = /^[\w.:/-]{1,64}$/.test(groq) ? groq : fault.code; } else fault.read(groq);
  if (fault.seen) return besides(fault, e).error;
  if (name === 'error' || e.object === 'error' || isAside(e)) {
    const flat = faultIn(e);
    if (name === 'error' || e.object === 'error' || flat.seen || flat.known) return flat.error;
  }
  return failure && { ...new Fault().error, type: failure };
}

// untyped is the type of an event that some gateways send without one: an error.
function untyped(e) {
  const fault = faultIn(e);
  return fault.seen || fault.known ? 'error' : undefined;
}

// cutBy returns what cut a response that has ended; gateways send response.completed then, too.
function cutBy({ status, stop_reason: stop, incomplete_details: details }) {
  return details?.reason ?? (/^(length|max_tokens|content_filter)$/.test(stop) ? stop : status === 'incomplete' ? status : undefined);
}

// errorOfEvent returns the error of an error event, which has it in a member or is flat.
function errorOfEvent(e) {
  const fault = new Fault().read(e.error);
  return (fault.seen ? besides(fault, e) : faultIn(e)).error;
}

// flatFault reads the error of an event of Responses, which has it in a member or in its own.
function flatFault(e) {
  const fault = new Fault().read(e.error);
  if (!fault.seen) for (const key of ['code', 'message', 'status', 'retry_after']) if (key in e) fault.member(key, e[key]);
  return besides(fault, e);
}

// errorIn returns the error in the body of a response with an error status, whatever form the body has.
function errorIn(body, headers) {
  body = body.replace(/^\ufeff/, '');
  const start = body.trimStart()[0];
  const found = start === '<' ? undefined : jsonIn(body);
  const fault = faultIn(Array.isArray(found) ? found.find(isObject) : found);
  if (!fault.shaped && fault.words.length === 0 && (start !== '{' || !found)) fault.say(body); // a text or a page
  const e = fault.error;
  const aws = shapeName(headers.get('x-amzn-errortype') ?? '');
  if (!e.type && isKnown(aws)) Object.assign(e, { type: aws, shaped: e.shaped || !headers.get('x-amz-apigw-id') });
  return e;
}

// jsonIn returns the document in a text, which may have something around it.
const jsonIn = (text) => safely(() => JSON.parse(text)) ?? safely(() => JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1)));

// The catalogue.

const names = new Map(Object.entries(catalogue.names));
const finishKinds = new Map(Object.entries(catalogue.finishReasons));
const phraseRules = catalogue.phrases.map(([text, rule], place) => ({ text, rule, place })); // the longest first
const intermediaries = new Set(catalogue.intermediaryServers);

// What decides, from the weakest on: any status, a name of many errors, a status that names a cause, a type, a phrase, a code that names
// the cause. Of several the strongest decides, of equal ones the first.
const strengths = ['nothing', 'class', 'family', 'status', 'type', 'phrase', 'specific'];

// meaningOf returns { kind, history, intermediary, by } of an error under the status of the response, which asks to wait for some seconds.
function meaningOf(responseStatus, error, after) {
  const said = [error.code, error.type];
  const own = error.status || statusIn(said[0]) || statusIn(said[1]);
  // 424 is that of a gateway: the error names the status of what failed.
  let status = responseStatus >= 400 && !(responseStatus === 424 && own) ? responseStatus : own;
  let best = { kind: 'unknown', by: 'nothing' };
  let intermediary = false;
  const take = ([kind, own, history, , front], by = own) => {
    if (strengths.indexOf(by) > strengths.indexOf(best.by)) best = { kind, history: history || undefined, by };
    intermediary ||= front === 1;
  };
  if (!(status >= 400 && status < 500) && error.quoted) { // a gateway has its own status for an error of a provider, or none within a stream
    status = error.quoted;
    take([catalogue.statuses[status] ?? 'invalid_request', 'status']);
  }
  for (const [i, name] of said.map(nameIn).entries()) {
    const rule = ruleOf(name, status);
    if (rule && rule[1] === 'family' && rule[0] === 'server_error' && status >= 400 && status < 500) continue; // the gateway's own type, beside the status of the provider
    if (rule) take(rule, i > 0 && rule[1] === 'specific' ? 'type' : rule[1]);
    else if (finishKinds.has(name)) take([finishKinds.get(name), 'type']);
  }
  for (const { rule } of error.phrases) if (!rule[3] || rule[3] === status || !status) take(rule);
  if (error.long && !noQuota.includes(status) && !(after > 0 && after <= shortWait)) take(['quota_exhausted', 'phrase']);
  if (catalogue.statuses[status]) take([catalogue.statuses[status], 'status']);
  if (status >= 400) take([status >= 500 ? 'server_error' : 'invalid_request', 'class']);
  return { ...best, intermediary };
}

// ruleOf returns the rule of a name under a status.
function ruleOf(name, status) {
  const rules = names.get(knownAs(name)) ?? [];
  return rules.find(([, , , only]) => !only || only === status) ?? (status ? undefined : rules[0])
    ?? (name.includes('perday') || (!rules.length && /[-_]/.test(name) && namesLongPeriod(name, true)) // Google's quotas of a day, and others
      ? ['quota_exhausted', 'specific'] : undefined);
}

// nameIn returns a name as the catalogue has it.
const nameIn = (said = '') => (said.length > 80 ? '' : said.toLowerCase());

// knownAs returns the name in the catalogue that a name means: without upstream_, which gateways write before it, or the last or the
// first of its parts, as in InternalError.Algo.InvalidParameter and AuthFailure.SignatureFailure.
function knownAs(name) {
  if (names.has(name)) return name;
  if (name.startsWith('upstream_')) return name.slice('upstream_'.length);
  const parts = name.split('.');
  return parts.length > 1 && names.has(parts.at(-1)) && !/^\d*$/.test(parts.at(-1)) ? parts.at(-1) : parts[0];
}
const isKnown = (name) => names.has(knownAs(nameIn(name)));
const isGeneral = (name) => !names.get(knownAs(nameIn(name)))?.some(([, by]) => by === 'specific'); // another name may say more
const statusIn = (text) => (/^[45]\d\d$/.test(text) ? Number(text) : 0);

// plain returns a text as it reads however often it was quoted.
const plain = (text) => text.slice(0, maxMessage).replaceAll('\\', '').replace(/[\0- ]+/g, ' ');

const longest = (found) => [...new Set(found)].sort((a, b) => a.place - b.place).slice(0, 4);

function phrasesIn(text) {
  const words = plain(text).toLowerCase();
  return longest(phraseRules.filter((p) => words.includes(p.text)));
}

// Limits of a long period, which do not pass within minutes: "monthly usage limit", "tokens per day limit exceeded". period.go of the
// catalogue has the same rules.

const noQuota = [401, 404, 405, 407, 410, 413]; // who asks is not known, or what is asked for does not exist
const shortWait = 600; // seconds: a limit of a long period whose window slides may pass so soon
const nearLimit = 48; // bytes between a period and what is limited
const maxPeriods = 16; // of one text that are looked at

// anyOf returns an expression for the words of a list: one of letters begins where a word of the text does, and a whole one ends there.
const anyOf = (list, whole = false) => `(?:${catalogue.periods[list].map((word) => (/^[#a-z0-9]/.test(word) ? '(?<![a-z0-9])' : '')
  + word.replace('#', '[0-9]+') + (whole && /[a-z0-9]$/.test(word) ? '(?![a-z0-9])' : '')).join('|')})`;
const periodWords = new RegExp(`(?<long>${anyOf('long', true)})|${anyOf('short', true)}|(?<owner>${anyOf('owners', true)}(?= ?(?:usage )?${anyOf('limits')}))`, 'g');
const limitWords = new RegExp(anyOf('limits'));
const countedWords = new RegExp(`${anyOf('limits')}|${anyOf('counted')}`);
const spentWords = new RegExp(anyOf('spent'));

// namesLongPeriod reports whether a message or a code names such a limit. The first period near a limit decides; without one, what
// has a limit that is no rate: "session limit".
function namesLongPeriod(said, isCode = false) {
  const text = said.toLowerCase().replace(/[-_]/g, ' ');
  const limits = isCode || spentWords.test(text) ? countedWords : limitWords;
  let owned = false;
  let seen = 0;
  for (const { 0: word, index, groups } of text.matchAll(periodWords)) {
    if (groups.owner) owned = true;
    else if (limits.test(around(text, index, index + word.length))) return groups.long !== undefined;
    else if (++seen === maxPeriods) break;
  }
  return owned;
}

// around returns what is near a part of a text, in the same sentence. A character that is cut fits no word.
function around(text, from, to) {
  const ends = /[.!?;] |[。！；]/;
  const bytes = (part, ...range) => new TextDecoder().decode(new TextEncoder().encode(part).slice(...range));
  return bytes(text.slice(0, from), -nearLimit).split(ends).at(-1) + text.slice(from, to) + bytes(text.slice(to), 0, nearLimit).split(ends)[0];
}

// The HTTP status that a message quotes, as a member, in words such as "Error code: 400" and "400 Bad Request", or by the name of LiteLLM's exception for it.
const exceptions = new Map([['badrequest', 400], ['unprocessableentity', 422], ['authentication', 401], ['permissiondenied', 403], ['notfound', 404], ['ratelimit', 429]]);
const quotedStatus = new RegExp(String.raw`\b(?:code|status|status_code|statuscode|http_status|http|returned)["']? *(?:[:=] *|of +)?["'(]?([45]\d\d)\b`
  + String.raw`|\b(4\d\d) (?:bad request|unauthorized|payment required|forbidden|not found|unprocessable entity|too many requests)\b`
  + String.raw`|\blitellm\.(${[...exceptions.keys()].join('|')})error\b`, 'g');

// statusQuoted returns the only status of 400 to 499 that a message quotes, or 0. Those of 500 and more are mostly the gateway's own, and
// what went wrong with a fallback says nothing about the request.
function statusQuoted(text) {
  const [words] = plain(text).toLowerCase().split('error doing the fallback');
  const found = [...words.matchAll(quotedStatus)].slice(0, 16).map(([, status, reasoned, name]) => Number(status ?? reasoned ?? exceptions.get(name)));
  const refused = new Set(found.filter((status) => status < 500));
  return refused.size === 1 ? [...refused][0] : 0;
}

// namesIn returns the first known code and type that a text quotes: gateways put the error of a provider into their own message.
function namesIn(text) {
  const found = {};
  for (const [, key, , value] of plain(text).matchAll(/(\w+)["'] *: *(["'])(.*?)\2/g)) {
    if (/^(code|reason|error_code)$/.test(key) && isKnown(value)) found.code ??= value;
    else if (/^(type|status|__type|error_type)$/.test(key) && isKnown(value)) found.type ??= value;
    else if (key === 'quotaId' && nameIn(value).includes('perday')) found.code = value;
  }
  return found;
}

// Waits, in seconds.

const maxWait = 86400;
const within = (seconds) => (seconds > 0 ? Math.min(seconds, maxWait) : 0);
const waitBefore = /(?:\b(?:in|after|within|for)|\bwait)\s+(?:about |another |approximately |~)?(?=\d)/gi;
const resetBefore = /\b(?:at|on|until)\s+(?=\d)/gi;
const waits = /again|retry|etry|reset|wait|available|refill|renew|replenish|refresh|restore|cool|unlock|until/i; // "100 requests in 5 hours" is no wait
const units = new Map([[0.001, 'ms millisecond milliseconds'], [1, 's sec secs second seconds'], [60, 'm min mins minute minutes'],
  [3600, 'h hr hrs hour hours'], [86400, 'd day days'], [604800, 'week weeks']].flatMap(([n, all]) => all.split(' ').map((unit) => [unit, n])));

// waitIn returns the wait that a message asks for: "try again in 1m3.5s", "resets at 2026-05-15T15:00:00Z"; 0: none.
function waitIn(message) {
  for (const [before, read] of [[waitBefore, delayIn], [resetBefore, momentIn]]) {
    for (const found of [...message.matchAll(before)].slice(0, 8)) {
      const end = found.index + found[0].length;
      const after = waits.test(message.slice(Math.max(0, found.index - 60), end)) ? read(message.slice(end)) : 0;
      if (after > 0) return after;
    }
  }
  return 0;
}

// delayIn reads a sequence of durations: 6m0s, 20ms, 1.5 seconds.
function delayIn(text) {
  for (let sum = 0; ;) {
    const [all, number, unit] = /^([\d.]{0,12}) *([a-z]*)/i.exec(text);
    if (!/\d/.test(number) || Number.isNaN(Number(number)) || !units.has(unit)) return sum;
    sum = within(sum + Number(number) * units.get(unit));
    text = text.slice(all.length);
  }
}

// momentIn returns the time until a moment: a date and a time, of UTC if it has no zone, or seconds or milliseconds since 1970.
function momentIn(text) {
  const [date, day, time, zone] = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:\d\d)?/.exec(text) ?? [];
  if (date) return within((Date.parse(`${day}T${time}${zone ?? 'Z'}`) - Date.now()) / 1000);
  const at = Number(/^[\d.]*/.exec(text)[0].replace(/\.$/, ''));
  return at >= 1e6 ? within((at > 1e11 ? at / 1000 : at) - Date.now() / 1000) : 0;
}

// retryAfter returns the wait that the headers ask for, against the sender's own clock where it says what it is.
function retryAfter(headers) {
  const said = (name) => headers.get(name) || undefined;
  const now = Date.parse(said('date')) || Date.now();
  const ms = Number(said('retry-after-ms'));
  if (!Number.isNaN(ms)) return within(ms / 1000);
  const after = said('retry-after');
  if (after) return within(Number.isNaN(Number(after)) ? (Date.parse(after) - now) / 1000 : Number(after));
  const resets = ['requests', 'tokens', 'input-tokens', 'output-tokens'] // of Anthropic, those that are used up
    .filter((limit) => said(`anthropic-ratelimit-${limit}-remaining`) === '0').map((limit) => Date.parse(said(`anthropic-ratelimit-${limit}-reset`)));
  if (said('anthropic-ratelimit-unified-status') === 'rejected') resets.push(Number(said('anthropic-ratelimit-unified-reset')) * 1000); // of a plan
  return Math.max(0, ...resets.map((at) => within((at - now) / 1000)));
}

// isIntermediary reports whether an error response, which does not have the form of a provider's, comes from something in front of
// the provider: a header or words of its own answers, a status that only such a server has, or a page, problem details or an empty body with
// the headers that it writes into every answer. body is undefined if it was not read.
function isIntermediary(status, headers, body) {
  if (catalogue.intermediaryStatuses.includes(status) || headers.get('cf-mitigated')) return true;
  const server = (headers.get('server') ?? '').split('/')[0].toLowerCase();
  const text = (body ?? '').trim().slice(0, 1024).toLowerCase();
  if (catalogue.ownServers.includes(server) || catalogue.ownHeaders.some((h) => headers.get(h)) || catalogue.ownWords.some((w) => text.includes(w))
    || ownForm(status, headers, text)) return true;
  const type = (headers.get('content-type') ?? '').split(';')[0].trim().toLowerCase();
  const page = type === 'text/html' || body?.trim().startsWith('<');
  if (!page && type !== 'application/problem+json' && body?.trim() !== '') return false;
  return page || intermediaries.has(server) || headers.has('cf-ray') || headers.has('via');
}

// ownForm reports whether a response has the form of one that Amazon API Gateway, Traefik or Cloudflare made itself.
function ownForm(status, headers, text) {
  if (text === '') return false;
  if (headers.get('x-amz-apigw-id') && headers.get('x-amzn-errortype')) return true;
  if (headers.get('apigw-requestid')) return /^\{\s*"message"\s*:\s*"[^"\\]+"\s*\}$/.test(text);
  return text === { 502: 'bad gateway', 504: 'gateway timeout' }[status] || /^error code: \d{1,4}$/.test(text);
}

// kindByHeaders corrects a kind by what only headers say: a CDN wants a person, or the provider advises for or against another attempt.
function kindByHeaders({ kind, by }, headers) {
  const advice = headers.get('x-should-retry');
  if (headers.get('cf-mitigated')?.toLowerCase() === 'challenge') return 'permission';
  if (advice === 'false' && kind === 'rate_limited') return 'quota_exhausted';
  if (advice === 'true' && kind === 'invalid_request' && strengths.indexOf(by) <= strengths.indexOf('family')) return 'rate_limited';
  return kind;
}

// The causes by the codes of undici and of the system: [cause, stage].
const causes = {
  ENOTFOUND: ['dns_not_found', 'dns'], EAI_AGAIN: ['dns_temporary', 'dns'],
  ECONNREFUSED: ['connect_refused', 'connect'], EHOSTUNREACH: ['connect_unreachable', 'connect'], ENETUNREACH: ['connect_unreachable', 'connect'],
  ETIMEDOUT: ['connect_timeout', 'connect'], UND_ERR_CONNECT_TIMEOUT: ['connect_timeout', 'connect'],
  UND_ERR_PRX_TLS: ['proxy', 'proxy'], UND_ERR_PRX_CONN: ['proxy', 'proxy'],
  EPIPE: ['write_failed', 'write'], UND_ERR_HEADERS_TIMEOUT: ['header_timeout', 'headers'],
  ECONNRESET: ['closed_before_headers', 'headers'], UND_ERR_SOCKET: ['closed_before_headers', 'headers'],
};
const bodyCauses = {
  ECONNRESET: 'connection_reset', ETIMEDOUT: 'connection_lost', UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'body_truncated',
};

// transportOf uses the first code in the chain of an error.
function transportOf(error, status) {
  for (let e = error, depth = 0; e && depth < 5; e = e.cause, depth++) {
    const { code } = e;
    if (typeof code !== 'string') continue;
    if (code === 'UND_ERR_BODY_TIMEOUT') return { watchdog: 'idle' };
    if (status) {
      // undici's only message for a FIN inside the body.
      const cause = bodyCauses[code] ?? (code === 'UND_ERR_SOCKET' ? (e.message === 'other side closed' ? 'body_truncated' : 'connection_reset') : undefined);
      return { cause: cause ?? (code.startsWith('HPE_') ? 'malformed_event' : undefined), stage: 'body', code: safeName(code) };
    }
    const [cause, stage] = causes[code] ?? (/CERT|SIGN|EPROTO|TLS|SSL|ALTNAME/.test(code) ? ['tls', 'tls'] : []);
    if (cause) return { cause, stage, code: safeName(code) };
  }
  return status ? { stage: 'body' } : {};
}

function nameOf(error) {
  const name = error?.constructor?.name ?? typeof error;
  return safeName(name === 'Error' || name === 'DOMException' ? error.name : name);
}

function chainOf(error) {
  const names = [];
  for (let e = error; e && names.length < 5; e = e.cause) names.push(nameOf(e));
  return names;
}

// isAbort reports whether the error comes from this side, which stopped the request.
// After the signal nothing else is the cause: what fails then is cleanup.
function isAbort(error, signal) {
  return Boolean(signal?.aborted) || error instanceof Abort || error?.name === 'AbortError' || error?.name === 'TimeoutError';
}

// abortOf returns the source of an abort, from the signal with the most information.
function abortOf(error, ...signals) {
  const reasons = [...signals.filter((s) => s?.aborted).map((s) => s.reason), error];
  const typed = reasons.find((r) => r instanceof Abort);
  if (typed) return { source: typed.source, reason: typed.reason, limit: typed.limit };
  return { source: reasons.some((r) => r?.name === 'TimeoutError') ? 'deadline' : 'unknown' };
}

function setAbort(span, { source, reason }) {
  span.setAttributes(defined({ 'llm.abort.source': source, 'llm.abort.reason': reason && safeName(reason) }));
}

function failed(span, type) {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

// safeName returns a name, a code or an id, or 'redacted' if it does not look like one.
const safeName = (said) => (said == null ? undefined : /^[\w.:/@-]{1,128}$/.test(said) ? String(said) : 'redacted');

// product returns what is recorded of a User-Agent: its first product with the version, such as codex_exec/0.169.0, or alone if what
// follows is no version. The rest may name the user's machine.
function product(agent) {
  const [first, name, version] = /^([\w.:-]{1,64})\/([\w.:-]{1,64})(?= |$)/.exec(agent ?? '') ?? [];
  return /^v?\d/.test(version) ? first : name;
}

// safeCode is safeName for the code of an error.
const safeCode = (said) => (/^[\w.:-]{1,80}$/.test(said) ? said : 'redacted');

const ids = (list) => list.slice(-64).map(safeName).filter(Boolean);

const defined = (attributes) => Object.fromEntries(Object.entries(attributes).filter(([, v]) => v !== undefined));
