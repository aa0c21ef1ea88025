// What happened to each model request, on spans of its own: the facts of
// docs/reference/attributes.md, from which llm_classify makes its verdicts. It needs
// @opentelemetry/api and nothing else; copy this file. The process needs an SDK: a
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

const tracer = trace.getTracer('otelllm-facts');
const runKey = createContextKey('otelllm run');
const signalKey = createContextKey('otelllm signal');

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
  return tracer.startActiveSpan(`invoke_agent ${safeName(agent)}`, { attributes, startTime: now() }, async (recorded) => {
    const run = { id: recorded.spanContext().spanId, now, named, outer, signal, requests: 0, tools: 0, open: new Set(), waiting: new Map(), abort: undefined };
    run.judge = judge ?? outer?.judge ?? safely(judgeOfEnvironment);
    run.judged = String(++judgedParts);
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
      const result = await fn();
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

// unrefTimer returns the timer after making sure that it does not keep the process alive.
const unrefTimer = (timer) => (timer.unref?.(), timer);

// watched lists what a watchdog may watch.
const watched = ['connect', 'first_progress', 'idle', 'total'];

const maxBody = 8 << 20; // maximum characters of one event or document; the recording gives up on longer ones

// Recording is the recording of one HTTP request.
class Recording {
  // of starts a recording, or returns undefined if this is not a model request.
  static of(input, init) {
    const url = new URL(input.url ?? input);
    const protocol = protocols.find((p) => url.pathname.endsWith(p.path));
    if (!protocol || (init?.method ?? input.method)?.toUpperCase() !== 'POST' || typeof init?.body !== 'string') return undefined;
    return new Recording(protocol, url, JSON.parse(init.body), new Headers(init.headers), init.signal ?? undefined);
  }

  constructor(protocol, url, body, headers, signal) {
    this.start = performance.now();
    this.run = context.active().getValue(runKey);
    this.signal = signal;
    this.stops = context.active().getValue(signalKey);
    this.protocol = protocol;
    this.state = {
      protocol, events: 0, bytes: 0, keepalives: 0, text: 0, reasoning: 0, providerTools: 0, providerToolTypes: new Set(), calls: [], choices: new Map(),
      phase: 'response_started', finish: [], terminal: false, complete: false, error: undefined, violation: undefined,
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
        'gen_ai.request.max_tokens': bound(body), 'llm.history.ends_with_outputs': protocol.endsWithOutputs?.(body) || undefined,
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
    this.retryAfter = retryAfter(response.headers);
    this.requestId = ['x-request-id', 'request-id', 'cf-ray'].map((h) => response.headers.get(h)).find(Boolean);
    this.document = this.status >= 400 || type.includes('json');
    if (!this.document && !type.includes('event-stream')) this.state.violation = 'unexpected_content_type';
    if (!response.body) {
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
    if (this.held > maxBody) throw new Error('too long to follow');
    if (this.document) return;
    const lines = this.rest.split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith(':')) this.state.keepalives++;
      else if (line.startsWith('data:')) (this.data ??= []).push(line.slice(line[5] === ' ' ? 6 : 5));
      else if (line === '' && this.data) {
        const data = this.data.join('\n');
        this.data = undefined;
        this.held = this.rest.length;
        this.event(data);
      } else if (line !== '' && !/^(event|id|retry)(:|$)/.test(line)) this.state.unread = true;
    }
  }

  event(data) {
    const s = this.state;
    const at = this.seconds();
    if (data === '[DONE]') {
      if (!s.terminal) unstated(s);
      s.terminal = true;
    } else {
      let event;
      try {
        event = JSON.parse(data);
      } catch {
        s.violation ??= 'malformed_event';
        s.unread = true;
        return;
      }
      if (event.type === 'ping') {
        s.keepalives++;
        return;
      }
      this.protocol.event(event, s);
      if (s.events++ > 0) this.gap = Math.max(this.gap ?? 0, at - this.lastProgress);
      this.lastProgress = at;
    }
    // This is the protocol's final event: nothing after it counts. After an error, more may still reach
    // the client.
    if (s.terminal && !s.error) this.end('close');
    else if (s.error) this.closing ??= unrefTimer(setTimeout(() => this.end('close'), 1000));
  }

  eof() {
    if (!this.over && !this.lost) {
      this.guard(() => {
        if (!this.document) {
          this.take('\n\n'); // the end of the stream may end an event
          if (!this.over) ended(this.state);
          return;
        }
        const body = JSON.parse(this.rest ?? '');
        if (this.status >= 400) this.state.error = errorIn(body) ?? {};
        else this.protocol.document(body, this.state);
        this.lastProgress = this.seconds();
      });
    }
    this.end('eof');
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
    if (pending && !this.state.complete) this.state.unread = true; // the stream was cut inside an event
    this.run?.open.delete(this);
    this.signal?.removeEventListener('abort', this.onAbort);
    safely(() => this.settle(endingOf(this, how, error)));
    this.span.end();
  }

  settle(c) {
    const s = this.state;
    const known = this.status < 400;
    const { calls } = s;
    const count = (n) => (s.unread && !n ? undefined : n);
    const named = (some) => (s.unread && !some.length ? undefined : ids(some.map((x) => x.id)));
    if (c.abort && this.run) this.run.abort = c.abort;
    this.span.setAttributes(defined({
      'llm.stream.end': c.end, 'llm.stream.phase': c.phase,
      'http.response.status_code': this.status, 'llm.request.id': this.requestId && safeName(this.requestId),
      'llm.stream.time_to_headers': this.toHeaders, 'llm.stream.last_progress': this.lastProgress, 'llm.stream.longest_gap': this.gap,
      'llm.stream.bytes': this.status ? s.bytes : undefined, 'llm.retry.after': this.retryAfter,
      'llm.transport.stage': c.stage, 'llm.transport.cause': c.cause, 'llm.transport.code': c.code, 'llm.transport.error_chain': c.chain,
      'llm.provider_error.kind': s.error && errorKind(this.status, s.error), 'llm.provider_error.code': s.error && safeName(s.error.code ?? s.error.type),
      'llm.provider_error.in_band': s.error && this.status < 400 ? true : undefined,
      'llm.watchdog.kind': c.watchdog, 'llm.watchdog.limit': c.limit,
      ...(known && {
        'llm.stream.unread': s.unread || undefined,
        'llm.stream.events': count(s.events), 'llm.stream.keepalives': s.keepalives,
        'llm.stream.text_chunks': count(s.text), 'llm.stream.reasoning_chunks': count(s.reasoning),
        'llm.stream.tool_inputs_started': count(calls.length), 'llm.stream.tool_inputs_completed': count(calls.filter((x) => x.completed).length),
        'llm.stream.tool_inputs_invalid': calls.filter((x) => x.invalid).length || undefined,
        'llm.stream.tool_calls': count(calls.filter((x) => x.ready).length),
        'llm.stream.tool_call_ids': named(calls.filter((x) => x.completed)),
        'llm.stream.open_tool_call_ids': named(calls.filter((x) => !x.completed)),
        'llm.stream.provider_tools_started': count(s.providerTools),
        'llm.stream.provider_tools': s.providerToolTypes.size ? [...s.providerToolTypes].slice(0, 64).map(safeName) : undefined,
        'gen_ai.response.id': s.id && safeName(s.id), 'gen_ai.response.model': s.model && safeName(s.model),
        'gen_ai.usage.input_tokens': s.input, 'gen_ai.usage.output_tokens': s.output,
        'gen_ai.response.finish_reasons': s.finish.length || c.due ? [...s.finish.map(safeName), ...(c.due ? ['error'] : [])] : undefined,
      }),
    }));
    if (c.abort) setAbort(this.span, c.abort);
    if (c.end === 'http_error') failed(this.span, String(this.status));
    else if (s.error) failed(this.span, safeName(s.error.code ?? s.error.type) ?? errorKind(this.status, s.error));
    else if (c.watchdog || c.end === 'watchdog') failed(this.span, 'watchdog_timeout');
    else if (!c.abort && (c.cause || c.end === 'no_response')) failed(this.span, c.cause ?? c.chain?.at(-1) ?? '_OTHER');
    else if (c.end === 'terminal_event' && c.due) failed(this.span, 'no_content');
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
    s.error ??= {}; // its body was not read
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
  if (s.complete && (s.terminal || how !== 'error' || abort)) return { end: 'terminal_event', phase: 'stream_end' };
  if (s.terminal && !s.text && !s.reasoning && !s.calls.length && !s.providerTools) return { end: 'terminal_event', phase: 'stream_end', due: true };
  if (s.terminal) return { end: 'eof', phase: s.phase, stage: 'body', cause: 'clean_eof', due: true };
  if (s.violation) return { end: stop().end, phase: s.phase, stage: 'body', cause: s.violation, due: true };
  return { phase: s.phase, ...stop(), ...(s.complete && { due: false }) };
}

// Told is a span whose facts the judge of its run gets as well.
class Told {
  constructor(recorded, run, now, part, attributes) {
    Object.assign(this, { recorded, run, now, part, facts: { ...attributes } });
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
    if (!this.run?.judge || this.run.told) return;
    const line = { run: this.run.judged, ...this.part, ...this.facts, ...more };
    if (this.part.kind === 'run') this.run.told = !more; // after its end the judge has forgotten it
    else if (!more && (!this.ended || this.run.last === this.ended)) this.run.last = this.ended = line; // a tool ends, and is delivered later
    safely(() => this.run.judge.tell(line));
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
function begin(s, key, id, part, free = false) {
  leave(s);
  s.phase = 'tool_input';
  s.writing = { key, id, free, input: 'empty', depth: 0, quoted: false, escaped: false, completed: false, ready: false };
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

// follow keeps where the input of a call is in JSON, and nothing of it.
function follow(call, c) {
  if (call.quoted) {
    if (call.escaped) call.escaped = false;
    else if (c === '\\') call.escaped = true;
    else if (c === '"') call.quoted = false;
    if (!call.quoted && call.depth === 0) call.input = 'whole';
    return;
  }
  if (/\s/.test(c)) return;
  if (call.input === 'whole') call.input = 'broken';
  if (call.input === 'empty') call.input = 'open';
  if (call.input !== 'open') return;
  if (c === '"') call.quoted = true;
  else if (c === '{' || c === '[') call.depth++;
  else if (c === '}' || c === ']') { if (--call.depth <= 0) call.input = call.depth < 0 ? 'broken' : 'whole'; }
  else if (call.depth === 0) call.input = 'scalar'; // it may be whole with each of its characters
}

// ended is for the end of a body that its reader takes for the end of the answer: calls without arguments
// so far are executed, and those of any form. A stop_reason ends a message without message_stop.
function ended(s) {
  for (const c of s.calls) if (c.free || c.input === 'empty') complete(s, c);
  if (s.protocol === messages && s.finish.length && !s.terminal) done(s);
}

// unstated completes a chat that its server has ended, with content and not one finish reason: some servers
// send none. One that ended within the input of a call stays incomplete.
function unstated(s) {
  ended(s);
  if (s.protocol !== chat || s.complete || s.finish.length || !(s.text || s.calls.length) || s.calls.some((c) => !c.completed)) return;
  for (const c of s.calls) { endInput(s, c); c.ready = true; }
  s.finish.push('unstated');
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
  members: members(commonMembers, `messages audio functions function_call max_tokens max_completion_tokens modalities prediction verbosity web_search_options thinking
  enable_thinking`),
  history: ({ messages = [] }) => ({
    calls: messages.flatMap((m) => m.tool_calls?.map((c) => c.id) ?? []),
    outputs: messages.filter((m) => m.role === 'tool').map((m) => m.tool_call_id),
  }),
  providerTools: ({ model, tools = [], web_search_options: web }) => (/(^|\/)compound/.test(model) ? undefined : [ // Groq's, which calls its own tools
    ...offered(tools, ['function', 'custom']), ...(web ? ['web_search'] : [])]),
  event(e, s) {
    identify(s, e);
    usage(s, e.usage?.prompt_tokens, e.usage?.completion_tokens);
    for (const { index, delta = {}, finish_reason: reason } of e.choices ?? []) {
      s.choices.set(index, s.choices.get(index) || reason != null);
      if (delta.reasoning_content || delta.reasoning) thought(s);
      if (delta.content || delta.refusal) text(s);
      if (Object.entries(delta).some(([k, v]) => !chatKeys.has(k) && holds(v))) unknownPart(s);
      s.refused ||= Boolean(delta.refusal);
      for (const c of delta.tool_calls ?? []) {
        const key = `${index}/${c.index}`;
        const part = c.custom ? c.custom.input : c.function?.arguments;
        const known = call(s, key);
        if (known) add(s, known, part);
        else begin(s, key, c.id, part, Boolean(c.custom));
      }
      if (reason == null) continue;
      s.finish.push(reason === 'stop' && s.refused ? 'refusal' : String(reason)); // OpenAI ends a refusal like an answer
      if (/^(length|content_filter|error)$/.test(reason)) continue; // it may be cut inside a call
      for (const c of s.calls.filter((x) => x.key.startsWith(`${index}/`))) {
        endInput(s, c);
        c.ready = true;
      }
    }
    s.complete = s.choices.size > 0 && [...s.choices.values()].every(Boolean);
    if (s.complete) s.phase = s.calls.some((c) => c.ready) ? 'tool_call_ready' : 'stream_end';
    if (e.error) fail(s, errorIn(e));
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
  members: members(commonMembers, `access_programs background context_management conversation include input instructions max_output_tokens max_tool_calls moderation
  previous_response_id prompt text truncation client_metadata`),
  history: ({ input, previous_response_id: before, conversation }) => (before || conversation ? undefined : { // the provider has the rest
    calls: items(input).filter((i) => /^(function|custom_tool)_call$/.test(i.type)).map((i) => i.call_id),
    outputs: items(input).filter((i) => /^(function|custom_tool)_call_output$/.test(i.type)).map((i) => i.call_id),
  }),
  providerTools: ({ prompt, tools = [] }) => (prompt ? undefined : offered(tools, ['function', 'custom', 'computer', 'computer_use_preview', 'local_shell', 'apply_patch'])), // a stored prompt may have tools, too
  event(e, s) {
    const { item } = e;
    const ours = item && /^(function|custom_tool)_call$/.test(item.type);
    identify(s, e.response);
    switch (e.type) {
      case 'response.output_item.added':
        leave(s);
        if (ours) begin(s, e.output_index, item.call_id, item.arguments, item.type !== 'function_call');
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
        s.finish.push(e.response.incomplete_details?.reason ?? (s.asks ? 'approval_required' : s.refused ? 'refusal' : s.calls.some((c) => c.ready) ? 'tool_calls' : 'stop'));
        done(s);
        break;
      case 'response.failed': fail(s, errorIn(e.response) ?? {}); break;
      case 'error': fail(s, errorIn(e) ?? {}); break;
      default: if (/\.delta$/.test(e.type) && !/_call_\w+\.delta$|^response\.mcp_call/.test(e.type)) unknownPart(s);
    }
  },
  document(response, s) {
    if (/^(queued|in_progress)$/.test(response.status)) { // the provider is still working
      identify(s, response);
      s.finish.push(response.status);
      done(s);
      return;
    }
    for (const [i, item] of items(response.output).entries()) {
      responses.event({ type: 'response.output_item.added', output_index: i, item }, s);
      responses.event({ type: 'response.output_item.done', output_index: i, item }, s);
      s.refused ||= items(item.content).some((c) => c.type === 'refusal');
    }
    responses.event({ type: `response.${response.status ?? 'completed'}`, response }, s);
  },
};

const messages = {
  path: '/v1/messages', provider: 'anthropic',
  members: members(commonMembers, `messages system max_tokens stop_sequences thinking cache_control container context_management output_config output_format
  mcp_servers inference_geo speed anthropic_version anthropic_beta betas`),
  endsWithOutputs: ({ messages: all = [] }) => items(all.at(-1)?.content).some((b) => b.type === 'tool_result'),
  history: ({ messages: all = [] }) => {
    const blocks = all.flatMap((m) => items(m.content));
    return { calls: blocks.filter((b) => b.type === 'tool_use').map((b) => b.id), outputs: blocks.filter((b) => b.type === 'tool_result').map((b) => b.tool_use_id) };
  },
  providerTools: ({ tools = [], mcp_servers: mcp = [], container }) => [
    ...offered(tools, ['custom', 'bash', 'text_editor', 'computer', 'memory']), ...(mcp.length ? ['mcp'] : []), ...(container?.skills?.length ? ['skills'] : [])],
  event(e, s) {
    switch (e.type) {
      case 'message_start':
        identify(s, e.message);
        usage(s, e.message.usage?.input_tokens);
        break;
      case 'content_block_start':
        leave(s);
        if (e.content_block.type === 'tool_use') begin(s, e.index, e.content_block.id, Object.keys(e.content_block.input ?? {}).length ? e.content_block.input : undefined);
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
      case 'error': fail(s, errorIn(e) ?? {}); break;
    }
  },
  document(body, s) {
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
const offered = (tools, ours) => ids(tools.map((t) => (t.type ?? ours[0]).replace(/_(preview|\d).*$/, '')).filter((t) => !ours.includes(t)));

function fail(s, error) {
  if (s.error) return; // the first error is the cause
  s.error = error;
  s.terminal = true;
  s.complete = false;
}

// errorIn returns the code and the type of the error in a body or an event.
function errorIn(body) {
  const e = body?.error ?? (body?.code || body?.type === 'error' ? body : undefined);
  if (!e) return undefined;
  return { code: e.code ?? undefined, type: e.type === 'error' ? undefined : e.type };
}

// The kinds, first by the providers' codes and types, then by the status.
const kinds = [
  [/^(insufficient_quota|billing_(error|hard_limit_reached|not_active)|quota_exceeded)$/, 'quota_exhausted'],
  [/^(context_length_exceeded|string_above_max_length)$/, 'context_length_exceeded'],
  [/^(content_filter|content_policy_violation)$/, 'content_policy'],
  [/^(rate_limit_exceeded|rate_limit_error|tokens|requests|429)$/, 'rate_limited'],
  [/^(overloaded_error|server_is_overloaded|slow_down|service_unavailable|503|529)$/, 'overloaded'],
  [/^(authentication_error|invalid_api_key|401)$/, 'authentication'],
  [/^(permission_error|403)$/, 'permission'],
  [/^(not_found_error|model_not_found|404)$/, 'not_found'],
  [/^(timeout_error|408|504)$/, 'timeout'],
  [/^(invalid_request_error|invalid_prompt|request_too_large|400|413|422)$/, 'invalid_request'],
  [/^(server_error|api_error|internal_error|5\d\d)$/, 'server_error'],
];

function errorKind(status, { code, type }) {
  for (const said of [code, type, status >= 400 ? status : undefined]) {
    const kind = kinds.find(([words]) => said != null && words.test(said));
    if (kind) return kind[1];
  }
  return 'unknown';
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

function retryAfter(headers) {
  const ms = Number(headers.get('retry-after-ms') ?? NaN);
  const s = Number.isNaN(ms) ? Number(headers.get('retry-after') ?? NaN) : ms / 1000;
  return s > 0 ? s : undefined;
}

// safeName returns a name, a code or an id, or 'redacted' if it does not look like one.
const safeName = (said) => (said == null ? undefined : /^[\w.:/@-]{1,128}$/.test(said) ? String(said) : 'redacted');

const ids = (list) => list.slice(-64).map(safeName).filter(Boolean);

const defined = (attributes) => Object.fromEntries(Object.entries(attributes).filter(([, v]) => v !== undefined));
