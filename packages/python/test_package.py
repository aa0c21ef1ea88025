"""The installed package: its entry point, and that the instrumentor has clients recorded. The helper's own tests run beside it."""

import asyncio
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import aiohttp
import httpx
from otelllm import facts

ASK = {'model': 'm', 'stream': True, 'messages': []}
URL = 'https://model.example/v1/chat/completions'


HTTPX2 = """
import asyncio
import httpx, httpx2, otelllm
from otelllm.instrumentation import OtelllmInstrumentor

assert httpx.Client is not httpx2.Client
names = []
otelllm.facts._sender.send = lambda span, end: names.append(span.name)
answer = httpx2.MockTransport(lambda request: httpx2.Response(200, headers={'content-type': 'application/json'}, stream=httpx2.ByteStream(b'{}')))
URL, ASK = 'https://model.example/v1/chat/completions', {'model': 'm', 'messages': []}
async def ask(client):
    async with client:
        await client.post(URL, json=ASK)
with otelllm.watch(httpx2.Client(transport=answer)) as c:
    c.post(URL, json=ASK)
asyncio.run(ask(otelllm.watch(httpx2.AsyncClient(transport=answer))))
asyncio.run(ask(httpx2.AsyncClient(transport=otelllm.AsyncHTTPX2Transport(answer))))
OtelllmInstrumentor().instrument()
with httpx2.Client(transport=answer) as c:
    c.post(URL, json=ASK)
print(names)
"""


class TestInstrumentor(unittest.TestCase):
    def setUp(self):
        self.names = []
        sender = mock.patch.object(facts._sender, 'send', lambda span, end: self.names.append(span.name))
        sender.start()
        self.addCleanup(sender.stop)
        [entry] = importlib.metadata.entry_points(group='opentelemetry_instrumentor', name='otelllm')
        self.instrumentor = entry.load()()
        self.addCleanup(self.instrumentor.uninstrument)

    def ask(self):
        answer = httpx.MockTransport(lambda request: httpx.Response(200, headers={'content-type': 'text/event-stream'}, stream=httpx.ByteStream(b'data: [DONE]\n\n')))

        class Derived(httpx.Client):  # as the clients of SDKs are
            def __init__(self):
                super().__init__(transport=answer)
        with Derived() as client:
            client.post(URL, json=ASK)

    def test_clients(self):
        self.ask()
        self.assertEqual(self.names, [])
        self.instrumentor.instrument(skip_dep_check=True)
        self.instrumentor.instrument()  # a second time changes nothing
        self.ask()
        self.assertEqual(self.names, ['chat m'])
        self.instrumentor.uninstrument()
        self.ask()
        self.assertEqual(self.names, ['chat m'])

    def test_a_client_that_is_watched_is_not_watched_twice(self):
        self.instrumentor.instrument()
        answer = httpx.MockTransport(lambda request: httpx.Response(200, headers={'content-type': 'application/json'}, stream=httpx.ByteStream(b'{}')))
        with facts.watch(httpx.Client(transport=answer)) as client:
            client.post(URL, json=ASK)
        self.assertEqual(self.names, ['chat m'])

    def test_httpx2(self):
        with tempfile.TemporaryDirectory() as folder:
            # A copy of httpx under the name stands for httpx2, which is httpx under a new name and is not among Debian's packages.
            shutil.copytree(pathlib.Path(httpx.__file__).parent, pathlib.Path(folder, 'httpx2'), ignore=shutil.ignore_patterns('__pycache__', '_main.py'))
            path = os.pathsep.join([folder, *sys.path])
            done = subprocess.run([sys.executable, '-c', HTTPX2], env={**os.environ, 'PYTHONPATH': path}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "['chat m', 'chat m', 'chat m', 'chat m']\n"), done.stderr)

    def test_sessions(self):
        self.instrumentor.instrument()

        async def refused():
            async with aiohttp.ClientSession() as session:
                with self.assertRaises(aiohttp.ClientError):
                    await session.post('http://127.0.0.1:1/v1/chat/completions', json=ASK)
        asyncio.run(refused())
        self.assertEqual(len(self.names), 1)


if __name__ == '__main__':
    unittest.main()
