// In a folder in which the package is installed: what it exports, by import and by require, and what its types declare.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const all = [];
for (const [from, file] of [['otelllm', 'index'], ['otelllm/ai-sdk', 'ai-sdk'], ['otelllm/openai-agents', 'openai-agents']]) {
  const imported = await import(from);
  const required = require(from);
  const names = Object.keys(imported).sort();
  for (const name of names) assert.equal(required[name], imported[name], `${name}: require and import have to give the same`);
  const types = readFileSync(new URL(`node_modules/otelllm/${file}.d.mts`, import.meta.url), 'utf8');
  const declared = [...types.matchAll(/^export declare (?:class|function|const) (\w+)/gm)].map((found) => found[1]).sort();
  assert.deepEqual(declared, names, `packages/npm/otelllm/${file}.d.ts declares other names than the helper exports`);
  all.push(...names);
}
console.log(`npm: ${all.length} names, the same by import, require and types`);
