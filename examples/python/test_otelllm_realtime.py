"""Realtime sessions: what the server and the application got, and what is recorded of it. TestSessionsInPython compares the
facts of each response with those that Go records."""

import asyncio
import json
import socket
import threading
import unittest

import aiohttp
import aiohttp.web

import otelllm_facts as facts
import otelllm_realtime as realtime
from test_otelllm_facts import Case

try:
    import websockets
except ImportError:
    websockets = None

CREATED = {'type': 'response.created', 'response': {'id': 'resp_1'}}
CALL = {'type': 'function_call', 'id': 'item_1', 'call_id': 'call_1', 'name': 'pay', 'arguments': '{"secret":"CANARY"}', 'status': 'completed'}
CALLED = {'type': 'response.done', 'response': {'id': 'resp_1', 'status': 'completed', 'output': [CALL]}}
ANSWERED = {'type': 'response.done', 'response': {'id': 'resp_2', 'status': 'completed', 'output': []}}


def delta(text):
    return {'type': 'response.output_text.delta', 'response_id': 'resp_1', 'delta': text}


def output(event_id=None):
    return {'type': 'conversation.item.create', **({'event_id': event_id} if event_id else {}),
            'item': {'type': 'function_call_output', 'call_id': 'call_1', 'output': 'CANARY'}}


class Sessions(Case):
    def feed(self, session, *steps):
        for step, frame in steps:
            getattr(session, step)(json.dumps(frame))

    def paying(self):
        with facts.tool(id='call_1', name='pay', effect='non_idempotent') as tool:
            pass
        return tool

    def begun(self):
        session = realtime.Session()
        self.feed(session, ('sent', {'type': 'response.create'}), ('received', CREATED), ('received', CALLED))
        return session

    def test_an_output_that_is_sent_is_delivered(self):
        with facts.run('coder'):
            session = self.begun()
            self.paying()
            self.feed(session, ('sent', output()))
            session.close()
        self.assertEqual(self.one('execute_tool')['llm.tool.output_delivery'], 'sent')

    def test_an_output_that_could_not_be_sent(self):
        with facts.run('coder'):
            session = self.begun()
            self.paying()
            session.send_failed(json.dumps(output()), ConnectionResetError(104, 'CANARY'))
            session.close(ConnectionResetError(104, 'CANARY'))
        tool = self.one('execute_tool')
        self.assertEqual((tool['llm.tool.output_delivery'], tool['llm.tool.output_error']), ('failed', 'ConnectionResetError'))
        self.assertNotIn('CANARY', json.dumps([s.raw for s in self.spans]))

    def test_an_output_that_the_server_refused(self):
        refusal = {'type': 'error', 'error': {'type': 'invalid_request_error', 'event_id': 'evt_7', 'message': 'CANARY'}}
        with facts.run('coder'):
            session = self.begun()
            self.paying()
            self.feed(session, ('sent', output('evt_7')), ('sent', {'type': 'response.create'}), ('received', refusal),
                      ('received', {'type': 'response.created', 'response': {'id': 'resp_2'}}), ('received', ANSWERED))
            session.close()
        tool = self.one('execute_tool')
        self.assertEqual((tool['llm.tool.output_delivery'], tool['llm.tool.output_error']), ('failed', 'OutputRefused'))
        second = [s for s in self.spans if s.name.startswith('chat')][1]
        self.assertEqual((second['llm.history.tool_calls'], second['llm.history.tool_outputs']), (['call_1'], []))

    def test_an_output_before_a_response_that_began_is_not_refused(self):
        late = {'type': 'error', 'error': {'type': 'invalid_request_error', 'event_id': 'evt_7'}}
        with facts.run('coder'):
            session = self.begun()
            self.paying()
            self.feed(session, ('sent', output('evt_7')), ('sent', {'type': 'response.create'}),
                      ('received', {'type': 'response.created', 'response': {'id': 'resp_2'}}), ('received', late))
            session.close()
        self.assertEqual(self.one('execute_tool')['llm.tool.output_delivery'], 'sent')

    def test_an_output_that_nothing_answered_was_written(self):
        with facts.run('coder'):
            session = self.begun()
            self.paying()
            self.feed(session, ('sent', output('evt_7')))
            session.close()
        self.assertEqual(self.one('execute_tool')['llm.tool.output_delivery'], 'sent')

    def test_a_call_without_an_output(self):
        with facts.run('coder'):
            self.begun().close()
        tool = self.one('execute_tool')
        self.assertEqual((tool['llm.tool.observed'], tool['llm.tool.effect'], tool['gen_ai.tool.call.id']), ('history', 'unknown', 'call_1'))
        self.assertIsNone(tool['llm.tool.outcome'])
        self.assertEqual(self.one('invoke_agent')['llm.run.tools'], 1)

    def test_a_stopped_run_ends_its_responses(self):
        with facts.run('coder') as run:
            session = realtime.Session()
            self.feed(session, ('sent', {'type': 'response.create'}), ('received', CREATED), ('received', delta('CANARY')))
            run.abort('user', 'stop_button')
            self.feed(session, ('received', CALLED))
            session.close()
        chat = self.one()
        self.assertEqual((chat['llm.stream.end'], chat['llm.abort.source'], chat['llm.abort.reason']), ('cancelled', 'user', 'stop_button'))

    def test_without_a_run(self):
        self.begun().close()
        self.assertEqual(self.one()['llm.stream.tool_calls'], 1)

    def test_a_session_that_nobody_closed(self):
        session = realtime.Session()
        self.feed(session, ('sent', {'type': 'response.create'}), ('received', CREATED))
        del session
        self.assertEqual(self.one()['llm.stream.end'], 'abandoned')

    def test_what_is_kept_is_bounded(self):
        session = realtime.Session()
        for n in range(500):
            self.feed(session, ('sent', {'type': 'response.create'}))
        self.assertEqual(len(session._asked), 8)
        for n in range(500):
            self.feed(session, ('received', {'type': 'response.created', 'response': {'id': f'r{n}'}}), ('sent', output(f'evt_{n}')))
        self.assertLessEqual(len(session._open), 8)
        self.assertEqual((len(session._outputs), len(session._refusable)), (64, 64))
        session.close()

    def test_nothing_that_a_server_sends_fails(self):
        for value in (None, 1, 'x', [], {}, {'id': {}}, {'id': 7, 'output': {'a': 1}, 'status': []}, {'output': [7, {'type': 'function_call', 'call_id': []}]}):
            session = realtime.Session()
            for kind in ('session.created', 'session.updated', 'response.created', 'response.done', 'response.output_item.added', 'error', 'x'):
                for step in (session.received, session.sent):
                    step(json.dumps({'type': kind, 'response': value, 'session': value, 'error': value, 'item': value, 'response_id': value}))
                session.received(b'\xff\x00')
            session.close()
            self.spans.clear()


class Model:
    """A realtime server that answers each response.create with a delta and an end, or breaks after the delta."""

    def __init__(self):
        self.breaks = False

    async def handle(self, request):
        ws = aiohttp.web.WebSocketResponse()
        await ws.prepare(request)
        await ws.send_json({'type': 'session.created', 'session': {'model': 'gpt-realtime', 'tools': []}})
        async for message in ws:
            if json.loads(message.data)['type'] != 'response.create':
                continue
            await ws.send_json(CREATED)
            await ws.send_json(delta('CANARY'))
            if self.breaks:
                request.transport.get_extra_info('socket').setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
                request.transport.abort()
                return ws
            await ws.send_json({'type': 'response.done', 'response': {'id': 'resp_1', 'status': 'completed', 'output': []}})
        return ws


class Connections(Case):
    """Real connections of aiohttp and websockets to a server."""

    async def serve(self, use, breaks):
        model = Model()
        model.breaks = breaks
        app = aiohttp.web.Application()
        app.router.add_get('/v1/realtime', model.handle)
        runner = aiohttp.web.AppRunner(app)
        await runner.setup()
        site = aiohttp.web.TCPSite(runner, '127.0.0.1', 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        try:
            return await use(f'ws://127.0.0.1:{port}/v1/realtime')
        finally:
            await runner.cleanup()

    async def over_aiohttp(self, url):
        got = []
        async with aiohttp.ClientSession() as client, client.ws_connect(url) as ws:
            self.assertIs(realtime.watch(ws), ws)
            await ws.receive_json()
            await ws.send_json({'type': 'response.create'})
            async for message in ws:
                got.append(json.loads(message.data)['type'])
                if got[-1] == 'response.done':
                    break
        return got

    async def over_websockets(self, url):
        got = []
        async with websockets.connect(url) as ws:
            realtime.watch(ws)
            await ws.recv()
            await ws.send(json.dumps({'type': 'response.create'}))
            try:
                async for message in ws:
                    got.append(json.loads(message)['type'])
                    if got[-1] == 'response.done':
                        break
            except websockets.ConnectionClosedError as error:
                got.append(type(error).__name__)
        return got

    async def over_a_sdk(self, url):
        """The shape of OpenAI's SDK: its connection has that of websockets, and sends and receives by it."""
        class Connection:
            def __init__(self, ws):
                self._connection = ws

            async def recv(self):
                return json.loads(await self._connection.recv())

            async def send(self, event):
                await self._connection.send(json.dumps(event))
        got = []
        async with websockets.connect(url) as ws:
            connection = realtime.watch(Connection(ws))
            await connection.recv()
            await connection.send({'type': 'response.create'})
            try:
                while not got or got[-1] != 'response.done':
                    got.append((await connection.recv())['type'])
            except websockets.ConnectionClosedError as error:
                got.append(type(error).__name__)
        return got

    def clients(self):
        return [self.over_aiohttp] + ([self.over_websockets, self.over_a_sdk] if websockets else [])

    def test_a_complete_response(self):
        for use in self.clients():
            self.spans.clear()
            got = asyncio.run(self.serve(use, False))
            self.assertEqual(got, ['response.created', 'response.output_text.delta', 'response.done'])
            chat = self.one()
            self.assertEqual((chat.name, chat['llm.stream.end'], chat['llm.stream.text_chunks'], chat['gen_ai.response.finish_reasons']),
                             ('chat gpt-realtime', 'terminal_event', 1, ['stop']), use)
            self.assertNotIn('CANARY', chat.raw)

    def test_a_connection_that_breaks(self):
        for use in self.clients():
            self.spans.clear()
            got = asyncio.run(self.serve(use, True))
            self.assertEqual(got[:2], ['response.created', 'response.output_text.delta'])
            chat = self.one()
            self.assertEqual((chat['llm.stream.end'], chat['llm.stream.phase'], chat['llm.stream.text_chunks'], chat.failed), ('read_error', 'text', 1, True), use)

    def test_a_timeout_of_a_reader_is_no_end(self):
        async def use(url):
            async with aiohttp.ClientSession() as client, client.ws_connect(url) as ws:
                realtime.watch(ws)
                await ws.receive_json()
                with self.assertRaises(asyncio.TimeoutError):
                    await ws.receive(timeout=0.01)
                return True
        self.assertTrue(asyncio.run(self.serve(use, False)))

    def test_a_frame_by_its_name(self):
        async def use(url):
            async with aiohttp.ClientSession() as client, client.ws_connect(url) as ws:
                realtime.watch(ws)
                await ws.receive_json()
                await ws.send_str(data=json.dumps({'type': 'response.create'}))
                while (await ws.receive_json())['type'] != 'response.done':
                    pass
        asyncio.run(self.serve(use, False))
        self.assertEqual(self.one()['llm.stream.end'], 'terminal_event')

    def test_what_is_no_connection(self):
        with self.assertLogs('otelllm_facts', 'WARNING'):
            realtime.watch(object())


class Threads(Case):
    def test_one_thread_writes_and_another_reads(self):
        with facts.run('coder') as run:
            session = realtime.Session()

            def write():
                for n in range(200):
                    session.sent(json.dumps({'type': 'response.create', 'event_id': f'evt_{n}'}))

            def read():
                for n in range(200):
                    session.received(json.dumps({'type': 'response.created', 'response': {'id': f'r{n}'}}))
                    session.received(json.dumps({'type': 'response.done', 'response': {'id': f'r{n}', 'status': 'completed', 'output': []}}))
            threads = [threading.Thread(target=f) for f in (write, read)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            session.close()
        self.assertEqual(run.requests, len([s for s in self.spans if s.name.startswith('chat')]))


if __name__ == '__main__':
    unittest.main()
