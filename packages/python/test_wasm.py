"""judge by WebAssembly gives the answers of the program that OTELLLM_BIN names, byte for byte. Where the package wasmtime is not
installed, stand_in/wasmtime.py is on the path. The vectors of cmd/otelllm/judgewasm are many more."""

import json
import os
import unittest

from otelllm import _judge


class TestModule(unittest.TestCase):
    def setUp(self):
        self.module, self.program = _judge._Module(), _judge._Program(os.environ['OTELLLM_BIN'])
        self.addCleanup(self.program.stop)

    def same(self, facts):
        text = json.dumps(facts).encode()
        answer = self.module.answer(text)
        self.assertEqual(answer, self.program.answer(text))
        return json.loads(answer)

    def test_the_module_is_used(self):
        self.assertIsInstance(_judge.available(), _judge._Module)

    def test_answers(self):
        begun = {'run': 'r', 'kind': 'run', 'state': 'begun', 'start': 1}
        self.assertEqual(self.same(begun)['verdict']['llm.run.outcome'], 'succeeded')
        cut = {'run': 'r', 'kind': 'request', 'id': 'q', 'start': 2, 'end': 3, 'llm.stream.end': 'read_error', 'llm.transport.cause': 'connection_reset'}
        self.assertIn('plan', self.same([begun, cut]))
        self.assertEqual(self.same([begun, {'run': 'r', 'kind': 'größe'}])['line'], 2)
        tools = [{'run': 'r', 'kind': 'tool', 'id': str(i), 'start': 2, 'end': 3, 'gen_ai.tool.name': 'n' * 100} for i in range(4000)]
        self.same([begun, *tools, cut])  # its memory grows
        self.same(begun)

    def test_after_a_trap_it_starts_again(self):
        begun = {'run': 'r', 'kind': 'run', 'state': 'begun', 'start': 1}
        self.same(begun)
        store = self.module.store
        self.module.store = (*store[:-1], lambda _: 1 / 0)
        with self.assertRaisesRegex(_judge.JudgeError, 'judge.wasm cannot be used: ZeroDivisionError'):
            self.module.answer(b'{}')
        self.assertIsNone(self.module.store)
        self.same(begun)


if __name__ == '__main__':
    unittest.main()
