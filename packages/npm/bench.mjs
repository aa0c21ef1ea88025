// How long the first verdict of judge takes, in processes of its own, and how long further ones: node packages/npm/bench.mjs FOLDER,
// where FOLDER has otelllm-judge.mjs and judge.wasm, as the package has them.
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';

const [folder, part] = process.argv.slice(2);
if (!folder) throw new Error('usage: node packages/npm/bench.mjs FOLDER');
const run = 'r';
const request = (id) => ({
  run, kind: 'request', id, 'llm.stream.end': 'read_error', 'llm.transport.cause': 'connection_reset', 'llm.stream.phase': 'response_started', 'error.type': 'ECONNRESET',
  'llm.stream.text_chunks': 0, 'llm.stream.tool_inputs_started': 0, 'llm.stream.tool_inputs_completed': 0, 'llm.stream.tool_calls': 0,
  'llm.request.provider_tools': [], 'llm.history.tool_calls': [], 'llm.history.tool_outputs': [],
});
const facts = [{ run, kind: 'run', state: 'begun', 'llm.run.tools': 0 }, request('q1')];
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];

if (part === 'child') {
  const begun = performance.now();
  const { judge } = await import(pathToFileURL(join(resolve(folder), 'otelllm-judge.mjs')));
  judge(facts);
  const cold = performance.now() - begun;
  const warm = [];
  for (let i = 0; i < 2000; i++) {
    const from = performance.now();
    judge(facts);
    warm.push(performance.now() - from);
  }
  console.log(JSON.stringify({ cold, warm: median(warm.slice(1000)) }));
} else {
  const all = Array.from({ length: 9 }, () => JSON.parse(execFileSync(process.execPath, [process.argv[1], folder, 'child'])));
  const file = join(folder, 'judge.wasm');
  console.log(`judge.wasm: ${statSync(file).size} bytes, ${gzipSync(readFileSync(file), { level: 9 }).length} with gzip`);
  console.log(`first verdict: ${median(all.map((r) => r.cold)).toFixed(0)} ms, further ones: ${median(all.map((r) => r.warm)).toFixed(2)} ms (medians of 9 processes, Node ${process.version})`);
}
