// The agent that every producer here instruments: it asks, shows the streamed text, runs the
// tools that the model calls, and asks again with their outputs.
import { Agent, fetch } from 'undici';

// maxTurns is the maximum number of requests in one run.
const maxTurns = 4;

// loop runs an agent on a model that keeps its own history:
//   user(text), ask({signal, onText}) → calls [{id, name, input}], output(call, text)
// onText returns true when the reader stops reading.
export async function loop(model, { prompt, tools, signal, onText, endOnToolFailure }) {
  model.user(prompt);
  for (let turn = 0; turn < maxTurns; turn++) {
    const calls = await model.ask({ signal, onText });
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
      model.output(call, output);
    }
  }
}

// A task describes one run; every field but the first two is optional:
//   baseURL           of the model server
//   api               'chat', 'responses' or 'messages'
//   prompt            what the agent is asked to do
//   maxRetries        of the SDK; 0 if absent
//   timeouts          {connect, headers, body} of undici, in ms
//   abortOn           'text' or 'tool': when the user presses stop
//   deadline          ms after the first text, for AbortSignal.timeout
//   stopReading       leave the stream after the first text
//   tool              'throws': it fails; 'waits': it ends only with the signal; 'lost': its
//                     MCP server dies
//   endOnToolFailure  the run ends when a tool fails
export function runOf(task, pressedStop = () => undefined) {
  const stop = new AbortController();
  const { signal } = stop;
  const { connect, headers, body } = task.timeouts ?? {};
  const dispatcher = task.timeouts && new Agent({
    headersTimeout: headers, bodyTimeout: body, ...(connect && { connect: { timeout: connect } }),
  });
  return {
    api: task.api,
    prompt: task.prompt ?? 'Fix the bug in main.go.',
    signal,
    endOnToolFailure: task.endOnToolFailure,
    onText() {
      if (task.abortOn === 'text') stop.abort(pressedStop());
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
