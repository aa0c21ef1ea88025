// Packs the package otelllm and those with its binaries. The helpers are copied from examples/node, where they are developed, and
// judge.wasm is compiled here: it is the same for all systems. Needs Go.
// Usage, from the root of the repository: node packages/npm/build.mjs VERSION OUT BINARIES [--host]
// BINARIES has the programs as goreleaser lays them out, in otelllm_OS_ARCH*/. With --host, only that of this system.
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';

const [version, out, binaries, host] = process.argv.slice(2);
if (!binaries) throw new Error('usage: node packages/npm/build.mjs VERSION OUT BINARIES [--host]');

// A system as Node and as Go name it.
const platforms = ['linux', 'darwin', 'win32'].flatMap((os) => ['x64', 'arm64'].map((cpu) => ({
  os, cpu, go: `otelllm_${os === 'win32' ? 'windows' : os}_${cpu === 'x64' ? 'amd64' : cpu}`, program: os === 'win32' ? 'otelllm.exe' : 'otelllm',
})));

const notices = 'build/release/notices/otelllm.txt'; // scripts/release-files writes it; only a release has it
const work = mkdtempSync(join(tmpdir(), 'otelllm-npm-'));
const json = (file, value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
function pack(dir) {
  copyFileSync('LICENSE', join(dir, 'LICENSE'));
  execFileSync('npm', ['pack', '--silent', '--pack-destination', resolve(out)], { cwd: dir, stdio: ['ignore', 'ignore', 'inherit'] });
}

try {
  mkdirSync(out, { recursive: true });
  const from = 'packages/npm/otelllm';
  const main = join(work, 'otelllm');
  cpSync(from, main, { recursive: true });
  for (const file of ['otelllm-facts.mjs', 'otelllm-catalogue.mjs', 'otelllm-judge.mjs', 'otelllm-retry.mjs', 'otelllm-ai-sdk.mjs', 'otelllm-openai-agents.mjs']) copyFileSync(join('examples/node', file), join(main, file));
  for (const name of ['index', 'ai-sdk', 'openai-agents']) {
    for (const types of ['mts', 'cts']) copyFileSync(join(from, `${name}.d.ts`), join(main, `${name}.d.${types}`));
    rmSync(join(main, `${name}.d.ts`));
  }
  execFileSync('scripts/build-wasm', [join(main, 'judge.wasm')], { stdio: 'inherit' });
  if (existsSync(notices)) copyFileSync(notices, join(main, 'THIRD_PARTY_NOTICES.txt')); // those of the program cover judge.wasm
  const described = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'));
  json(join(main, 'package.json'), {
    ...described, version, optionalDependencies: Object.fromEntries(platforms.map((p) => [`@otelllm/${p.os}-${p.cpu}`, version])),
  });
  pack(main);

  for (const p of platforms) {
    if (host && (p.os !== process.platform || p.cpu !== process.arch)) continue;
    const found = readdirSync(binaries).filter((name) => name === p.go || name.startsWith(`${p.go}_`));
    if (found.length !== 1) throw new Error(`${binaries} has ${found.length} folders ${p.go}`);
    const dir = join(work, p.go);
    mkdirSync(join(dir, 'bin'), { recursive: true });
    copyFileSync(join(binaries, found[0], p.program), join(dir, 'bin', p.program));
    chmodSync(join(dir, 'bin', p.program), 0o755);
    if (existsSync(notices)) copyFileSync(notices, join(dir, 'THIRD_PARTY_NOTICES.txt'));
    const { license, homepage, repository, publishConfig } = described;
    json(join(dir, 'package.json'), {
      name: `@otelllm/${p.os}-${p.cpu}`, version, description: `The program otelllm for ${p.os} on ${p.cpu}; install otelllm`,
      license, homepage, repository: { type: repository.type, url: repository.url }, os: [p.os], cpu: [p.cpu], preferUnplugged: true,
      publishConfig, // public: npm takes a name with a scope for a private package, unless told otherwise
    });
    pack(dir);
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}
