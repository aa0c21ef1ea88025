#!/usr/bin/env node
'use strict';
// Runs the program otelllm of this system's package, which npm installs as an optional dependency.
const { spawn } = require('node:child_process');

const name = `@otelllm/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/otelllm${process.platform === 'win32' ? '.exe' : ''}`);
} catch {
  console.error(`otelllm: the package ${name} is not installed. There is one for Linux, macOS and Windows on x64 and arm64; --omit=optional leaves it out`);
  process.exit(2);
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
const signals = ['SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGTERM'];
for (const signal of signals) {
  process.on(signal, () => {
    // A terminal sends these two to all its processes, and otelllm takes a second one to mean at once.
    if (!process.stdin.isTTY || !/INT|QUIT/.test(signal)) child.kill(signal);
  });
}
child.on('error', (error) => {
  console.error(`otelllm: ${error.message}`);
  process.exit(126);
});
child.on('exit', (code, signal) => {
  if (!signal) process.exit(code);
  for (const s of signals) process.removeAllListeners(s);
  process.kill(process.pid, signal); // so that this ends in the same way
});
