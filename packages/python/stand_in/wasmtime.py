"""A stand-in for the part of the package wasmtime that otelllm uses, for machines where that cannot be installed: Node runs the module,
and has its memory. It takes the arguments that wasmtime takes (as of version 46), and is wrong where that is understood wrongly."""

import base64
import json
import subprocess

_NODE = r"""
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { WASI } from 'node:wasi'

let instance, wasi
const does = {
  load({ path }) {
    wasi = new WASI({ version: 'preview1', returnOnExit: true })
    instance = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(path)), wasi.getImportObject())
    return Object.keys(instance.exports)
  },
  call({ name, args }) {
    return name === '_initialize' ? wasi.initialize(instance) : instance.exports[name](...args)
  },
  write({ start, bytes }) {
    new Uint8Array(instance.exports.memory.buffer).set(Buffer.from(bytes, 'base64'), start)
  },
  read({ start, stop }) {
    return Buffer.from(instance.exports.memory.buffer.slice(start, stop)).toString('base64')
  },
}
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line)
  let answer
  try {
    answer = { value: does[asked.op](asked) ?? null }
  } catch (error) {
    answer = { error: error.name }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
}
"""


class Trap(Exception):
    pass


class Engine:
    pass


class WasiConfig:
    pass


class Module:
    @classmethod
    def from_file(cls, engine, path):
        module = cls()
        module.path = path
        return module


class Store:
    def __init__(self, engine):
        self.node = subprocess.Popen(['node', '--no-warnings', '--input-type=module', '-e', _NODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def set_wasi(self, config):
        assert isinstance(config, WasiConfig)

    def does(self, **asked):
        self.node.stdin.write(json.dumps(asked).encode() + b'\n')
        self.node.stdin.flush()
        answer = json.loads(self.node.stdout.readline())
        if 'error' in answer:
            raise Trap(answer['error'])
        return answer['value']

    def __del__(self):
        self.node.stdin.close()
        self.node.stdout.close()
        self.node.wait()


class Linker:
    def __init__(self, engine):
        self.wasi = False

    def define_wasi(self):
        self.wasi = True

    def instantiate(self, store, module):
        assert self.wasi
        return Instance(store.does(op='load', path=module.path))


class Instance:
    def __init__(self, names):
        self.names = names

    def exports(self, store):
        return {name: Memory() if name == 'memory' else Func(name) for name in self.names}


class Func:
    def __init__(self, name):
        self.name = name

    def __call__(self, store, *args):
        assert isinstance(store, Store)
        return store.does(op='call', name=self.name, args=args)


class Memory:
    def write(self, store, value, start=None):
        return store.does(op='write', start=start, bytes=base64.b64encode(value).decode())

    def read(self, store, start=0, stop=None):
        return bytearray(base64.b64decode(store.does(op='read', start=start, stop=stop)))
