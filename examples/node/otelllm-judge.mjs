// The rules of `otelllm judge` in this process: a WebAssembly module, judge.wasm beside this file, that reads no file and opens no
// connection. It needs nothing but Node (from 20.19 on).
//
//   const { verdict, part, plan } = judge([
//     { run: 'r1', kind: 'run', state: 'begun', 'llm.run.tools': 0 },
//     { run: 'r1', kind: 'request', id: 'q1', 'llm.stream.end': 'read_error', … },
//   ]);
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

// JudgeError is thrown for facts that cannot be judged. line is the number of the fact, from 1 on.
export class JudgeError extends Error {
  name = 'JudgeError';
  constructor(message, line) {
    super(line === undefined ? message : `fact ${line}: ${message}`);
    this.line = line;
  }
}

// judge judges facts, one or an array of them in their order, and returns the answer to the last one: docs/judge.md describes both.
// It keeps nothing. The first call compiles the module.
export function judge(facts) {
  const text = jsonOf(facts);
  const answer = JSON.parse(judgeJSON(text));
  if (answer.error !== undefined) throw new JudgeError(answer.error, answer.line);
  return answer;
}

// jsonOf returns the facts as JSON. What JSON leaves out or cannot have would be read as not observed.
function jsonOf(facts) {
  try {
    const text = JSON.stringify(facts);
    if (text !== undefined) return text;
  } catch {
    // Its message may quote the facts.
  }
  throw new JudgeError('the facts have to be an object or an array of objects that JSON can have');
}

const maxFacts = 64 << 20; // bytes

// judgeJSON is judge for facts and an answer as JSON; errors are answers as well.
export function judgeJSON(text) {
  const input = new TextEncoder().encode(text);
  if (input.length > maxFacts) throw new JudgeError(`the facts have ${input.length} bytes, more than ${maxFacts}`);
  try {
    module ??= load();
    const { memory, buffer, judge: run, answer } = module;
    // Each call may make the memory grow: memory.buffer is another one then.
    const at = buffer(input.length) >>> 0;
    new Uint8Array(memory.buffer, at).set(input);
    const size = run(input.length) >>> 0;
    const from = answer() >>> 0;
    return new TextDecoder().decode(new Uint8Array(memory.buffer, from, size));
  } catch (cause) {
    module = undefined; // after a trap its memory is not to be trusted
    throw new JudgeError(`judge.wasm cannot be used: ${cause?.code ?? cause?.name ?? 'it failed'}`);
  }
}

let module;
const file = new URL('judge.wasm', import.meta.url);
let preparing;
let prepared; // the module, compiled

// prepare compiles the module in another thread, so that the first verdict need not do it.
export function prepare() {
  preparing ??= readFile(file).then((bytes) => WebAssembly.compile(bytes)).then((compiled) => { prepared = compiled; }, () => undefined); // judge says why
}

// load starts the module.
function load() {
  const compiled = prepared ?? new WebAssembly.Module(readFileSync(file));
  const { exports } = new WebAssembly.Instance(compiled, { wasi_snapshot_preview1: wasi(compiled, () => exports.memory.buffer) });
  exports._initialize();
  return exports;
}

// wasi returns what the module imports: a clock, random numbers, and no file, argument or variable. What it would write, the trace of
// a crash, goes nowhere.
// https://github.com/WebAssembly/WASI/blob/main/legacy/preview1/docs.md
function wasi(compiled, memory) {
  const badFile = 8;
  const all = Object.fromEntries(WebAssembly.Module.imports(compiled).map(({ name }) => [name, () => badFile]));
  const none = (...addresses) => {
    for (const address of addresses) new DataView(memory()).setUint32(address, 0, true);
    return 0;
  };
  return Object.assign(all, {
    args_sizes_get: none, environ_sizes_get: none, args_get: () => 0, environ_get: () => 0, sched_yield: () => 0,
    clock_time_get(id, _precision, address) {
      const ms = id === 0 ? Date.now() : performance.now();
      new DataView(memory()).setBigUint64(address, BigInt(Math.round(ms * 1e6)), true);
      return 0;
    },
    random_get(address, size) {
      globalThis.crypto.getRandomValues(new Uint8Array(memory(), address, size));
      return 0;
    },
    fd_write(_file, list, count, written) { // to say that it was written ends the writing
      const view = new DataView(memory());
      let size = 0;
      for (let i = 0; i < count; i++) size += view.getUint32(list + 8 * i + 4, true);
      view.setUint32(written, size, true);
      return 0;
    },
    proc_exit() {
      throw new WebAssembly.RuntimeError('exit');
    },
  });
}
