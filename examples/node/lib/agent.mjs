// The agent that every producer here instruments: it asks, shows the streamed text, runs the
// tools that the model calls, and asks again with their outputs.
import { Agent, fetch } from 'undici';

// maxTurns is the maximum number of requests in one run.
const maxTurns = 4;

// loop runs an agent on a model that keeps its own history:
//   user(text), ask({signal, onText}) → calls [{id, name, input}], output(call, text)
// onText returns true when the reader stops reading.
export async function loop(model, r) {
  const { prompt, tools, signal, endOnToolFailure } = r;
  const onText = (text) => r.onText(text);
  model.user(prompt);
  for (let turn = 0; turn < maxTurns; turn++) {
    const calls = await ask(model, r, { signal, onText });
    if (!calls?.length) return;
    for (const call of calls) {
      const tool = tools.find((t) => t.name === call.name);
      const input = JSON.parse(call.input); // partial input ends the run
      let output;
      try {
        output = await tool.execute(input, { signal, callId: call.id });
      } catch (error) {
        if (endOnToolFailure || signal?.aborted) throw error;
        output = `the tool failed: ${error.name}`;
      }
      await r.deliver?.(call);
      model.output(call, output);
    }
  }
}

// ask asks the model. A request with a watchdog of its own that is stopped by it is sent again.
async function ask(model, r, { signal, onText }) {
  if (r.attempts < 2) return model.ask({ signal, onText });
  r.attempt = new AbortController();
  const { signal: stop } = r.attempt;
  try {
    const calls = await r.attempted(stop, () => model.ask({ signal: stop, onText }));
    if (!stop.aborted) return calls; // some clients end an aborted stream without an error
  } catch (error) {
    if (!stop.aborted) throw error;
  }
  r.attempt = undefined;
  r.attempts = 1;
  return model.ask({ signal, onText });
}

// A task describes one run; every field but the first two is optional:
//   baseURL           of the model server
//   api               'chat', 'responses' or 'messages'
//   prompt            what the agent is asked to do
//   maxRetries        of the SDK; 0 if absent
//   timeouts          {connect, headers, body} of undici, in ms
//   abortOn           'text' or 'tool': when the user presses stop; 'watchdog': the application's own watchdog, which hears
//                     nothing after the first text, ends the run; 'attempt': it ends that request, which is sent again
//   deadline          ms after the first text, for AbortSignal.timeout
//   stopReading       leave the stream after the first text
//   tool              'throws': it fails; 'waits': it ends only with the signal; 'lost': its
//                     MCP server dies; 'unsent': its output, which goes beside the requests, cannot be sent; 'sent': it
//                     can, at the second try
//   endOnToolFailure  the run ends when a tool fails
export function runOf(task, pressedStop = () => undefined, barked = () => undefined) {
  const stop = new AbortController();
  const { signal } = stop;
  const { connect, headers, body } = task.timeouts ?? {};
  const dispatcher = task.timeouts && new Agent({
    headersTimeout: headers, bodyTimeout: body, ...(connect && { connect: { timeout: connect } }),
  });
  let ran = false; // apply_patch
  return {
    ran: () => ran,
    api: task.api,
    prompt: task.prompt ?? 'Fix the bug in main.go.',
    conversation: `thread-${task.name}`,
    signal,
    attempts: task.abortOn === 'attempt' ? 2 : 1,
    attempt: undefined, // the AbortController of the request, if it has one
    delivery: task.tool,
    endOnToolFailure: task.endOnToolFailure,
    onText() {
      if (task.abortOn === 'text') stop.abort(pressedStop());
      if (task.abortOn === 'watchdog') setTimeout(() => stop.abort(barked()), 100);
      if (task.abortOn === 'attempt' && this.attempt) setTimeout((attempt) => attempt.abort(barked()), 100, this.attempt);
      if (task.deadline) {
        const late = AbortSignal.timeout(task.deadline);
        late.addEventListener('abort', () => stop.abort(late.reason));
      }
      return Boolean(task.stopReading);
    },
    tools: [{
      name: 'apply_patch',
      effect: 'non_idempotent',
      lost: task.tool === 'lost',
      description: 'Change a file.',
      parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
      async execute(_input, { signal: s = signal } = {}) {
        ran = true;
        if (task.tool === 'throws') throw new PatchError('the file has changed since');
        if (task.abortOn === 'tool') stop.abort(pressedStop());
        if (task.tool === 'waits' && !s.aborted) {
          await new Promise((resolve) => s.addEventListener('abort', resolve, { once: true }));
        }
        s.throwIfAborted();
        return 'patched';
      },
    }, {
      name: 'read_file',
      description: 'Read a file.',
      effect: 'read_only',
      parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
      execute: async () => 'package main',
    }],
    // The options that all clients share.
    client: {
      baseURL: task.baseURL, apiKey: 'none', maxRetries: task.maxRetries ?? 0,
      ...(dispatcher && { fetch: (url, init) => fetch(url, { ...init, dispatcher }) }),
    },
    dispatcher,
  };
}

class PatchError extends Error {
  name = 'PatchError';
}
