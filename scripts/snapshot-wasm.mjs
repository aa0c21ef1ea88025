// Starts a WebAssembly module of Go, a WASI reactor, and writes it as it is then: with its memory and its globals. Go's runtime and the
// package variables are initialised once, here, and not in each process that loads it. Wizer does the same for modules of Rust and C.
// Its _initialize does nothing any more.
//
// The module sees a clock that stands still and no randomness, so that the result is the same each time. The seeds of Go's maps are
// therefore those of the file: the facts come from the process itself.
// Usage: node scripts/snapshot-wasm.mjs FILE
import { readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';

const [file] = process.argv.slice(2);
if (!file) throw new Error('usage: node scripts/snapshot-wasm.mjs FILE');
const raw = readFileSync(file);

// The binary format: https://webassembly.github.io/spec/core/binary/modules.html
const section = { custom: 0, type: 1, import: 2, function: 3, memory: 5, global: 6, export: 7, code: 10, data: 11 };
const i32 = 0x7f;
const i64 = 0x7e;
const op = { end: 0x0b, i32const: 0x41, i64const: 0x42 };

const unsigned = (n) => {
  const bytes = [];
  do bytes.push((n & 127) | (n > 127 ? 128 : 0)); while ((n >>>= 7));
  return Buffer.from(bytes);
};
const signed = (value) => {
  const bytes = [];
  for (let n = BigInt(value); ; n >>= 7n) {
    const last = n >= -64n && n < 64n;
    bytes.push(Number(n & 127n) | (last ? 0 : 128));
    if (last) return Buffer.from(bytes);
  }
};
const sized = (...parts) => {
  const body = Buffer.concat(parts);
  return Buffer.concat([unsigned(body.length), body]);
};
const list = (entries) => Buffer.concat([unsigned(entries.length), ...entries]);

// Reader reads numbers and names of a section.
class Reader {
  at = 0;
  constructor(bytes) {
    this.bytes = bytes;
  }
  number() { // also one with a sign, the value of which is not wanted
    for (let value = 0, shift = 1; ; shift *= 128) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  }
  take(n) {
    return this.bytes.subarray(this.at, (this.at += n));
  }
  list(entry) {
    return Array.from({ length: this.number() }, entry);
  }
}

const sections = [];
for (const reader = new Reader(raw.subarray(8)); reader.at < reader.bytes.length;) sections.push([reader.number(), reader.take(reader.number())]);
const bodyOf = (id) => sections.find(([other]) => other === id)[1];
const entries = (id, entry) => {
  const reader = new Reader(bodyOf(id));
  return reader.list(() => entry(reader));
};
const globals = entries(section.global, (r) => {
  const [type, mutable] = r.take(2);
  const [code] = r.take(1);
  if (![i32, i64].includes(type) || ![op.i32const, op.i64const].includes(code)) throw new Error('a global is not a constant integer');
  r.number();
  r.take(1);
  return { type, mutable };
});
const exported = entries(section.export, (r) => ({ name: r.take(r.number()).toString(), kind: r.number(), index: r.number() }));
const functions = entries(section.function, (r) => r.number());
const imports = WebAssembly.Module.imports(new WebAssembly.Module(raw));
const write = (changed) => Buffer.concat([raw.subarray(0, 8), ...sections.filter(([id]) => id !== section.custom).map(([id, body]) => Buffer.concat([Buffer.from([id]), sized(changed[id] ?? body)]))]);
const writeExports = (all) => list(all.map(({ name, kind, index }) => Buffer.concat([sized(Buffer.from(name)), Buffer.from([kind]), unsigned(index)])));

// The module with its globals exported, as it runs.
const compiled = new WebAssembly.Module(write({ [section.export]: writeExports([...exported, ...globals.map((_, index) => ({ name: `global ${index}`, kind: 3, index }))]) }));
const badFile = 8;
const memory = () => module.memory.buffer;
const zero = (...addresses) => {
  for (const address of addresses) new DataView(memory()).setUint32(address, 0, true);
  return 0;
};
const { exports: module } = new WebAssembly.Instance(compiled, {
  wasi_snapshot_preview1: {
    ...Object.fromEntries(imports.map(({ name }) => [name, () => badFile])),
    args_sizes_get: zero, environ_sizes_get: zero, args_get: () => 0, environ_get: () => 0, sched_yield: () => 0, random_get: () => 0,
    clock_time_get(_id, _precision, address) {
      new DataView(memory()).setBigUint64(address, 1n, true);
      return 0;
    },
  },
});
module._initialize();
// Facts of each kind, so that what is made on first use is there as well.
const facts = Buffer.from(JSON.stringify([
  { run: 'r', kind: 'run', state: 'begun', 'llm.run.tools': 0 }, { run: 'r', kind: 'tool', id: 't', 'gen_ai.tool.call.id': 'c', 'llm.tool.effect': 'read_only' },
  { run: 'r', kind: 'request', id: 'q', 'llm.stream.end': 'read_error', 'llm.stream.tool_calls': 0, 'llm.history.tool_outputs': ['c'] }, { run: 'r', call: ['q'] },
]));
const address = module.buffer(facts.length) >>> 0;
new Uint8Array(memory(), address).set(facts);
module.judge(facts.length);

const bytes = Buffer.from(memory());
const data = [];
const gap = 32; // zeros in a row that are left out
for (let at = 0; at < bytes.length;) {
  if (!bytes[at]) {
    at++;
    continue;
  }
  let end = at + 1;
  for (let i = end; i < bytes.length && i - end < gap; i++) if (bytes[i]) end = i + 1;
  data.push(Buffer.concat([Buffer.from([0, op.i32const]), signed(at | 0), Buffer.from([op.end]), sized(bytes.subarray(at, end))]));
  at = end;
}
const imported = imports.filter(({ kind }) => kind === 'function').length;
const initialize = exported.find(({ name }) => name === '_initialize');
const nothing = imported + functions.length; // a function of the same type
const codes = new Reader(bodyOf(section.code));
writeFileSync(file, write({
  [section.function]: list([...functions, functions[initialize.index - imported]].map(unsigned)),
  [section.memory]: list([Buffer.concat([Buffer.from([0]), unsigned(bytes.length >> 16)])]),
  [section.global]: list(globals.map(({ type, mutable }, i) => Buffer.concat([
    Buffer.from([type, mutable, type === i32 ? op.i32const : op.i64const]), signed(module[`global ${i}`].value), Buffer.from([op.end])]))),
  [section.export]: writeExports(exported.map((e) => (e === initialize ? { ...e, index: nothing } : e))),
  [section.code]: Buffer.concat([unsigned(codes.number() + 1), codes.bytes.subarray(codes.at), sized(Buffer.from([0, op.end]))]),
  [section.data]: list(data),
}));
