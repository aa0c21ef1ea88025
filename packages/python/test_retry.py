"""What judge and retry of the installed package decide, on the verdicts of the real rules, over real connections that break. The
judge is wasmtime, or the program that OTELLLM_BIN names."""

import asyncio
import contextlib
import json
import logging
import os
import pathlib
import socket
import struct
import sys
import tempfile
import threading
import unittest
from unittest import mock

import aiohttp
import httpx
import otelllm
import tenacity
from otelllm import _judge, facts, frameworks
from otelllm.facts import Abort


def setUpModule():
    environ = mock.patch.dict(os.environ, {'OTEL_TRACES_EXPORTER': 'none'})
    environ.start()
    unittest.addModuleCleanup(environ.stop)


def chunk(delta, finish=None):
    return 'data: ' + json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]}) + '\n\n'


BEGUN, TEXT = chunk({'role': 'assistant'}), chunk({'content': 'CANARY_text'})
WHOLE = BEGUN + TEXT + chunk({}, 'stop') + 'data: [DONE]\n\n'


def call(arguments='{"CANARY":1}'):
    return chunk({'tool_calls': [{'index': 0, 'id': 'call_1', 'function': {'name': 'pay', 'arguments': arguments}}]})


def answer(body, end=''):
    """An answer: its status, its headers, its body, and how the connection ends: 'reset', 'closed' within the body, or well."""
    return 200, {'content-type': 'text/event-stream'}, body, end


def refused(status, type, **headers):
    headers = {'content-type': 'application/json', **{k.replace('_', '-'): v for k, v in headers.items()}}
    return status, headers, json.dumps({'error': {'type': type, 'message': 'CANARY_message'}}), ''


class Server:
    """A model that gives these answers, then whole ones."""

    def __init__(self, answers):
        self.answers, self.requests, self.lock = list(answers), 0, threading.Lock()
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.url = 'http://127.0.0.1:%d/v1/chat/completions' % self.listener.getsockname()[1]
        self.released = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def close(self):
        self.released.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection, contextlib.suppress(OSError):  # the client may have left
            head = b''
            while b'\r\n\r\n' not in head:
                head += connection.recv(65536)
            head, _, body = head.partition(b'\r\n\r\n')
            size = int(next(line.split(b':')[1] for line in head.lower().split(b'\r\n') if line.startswith(b'content-length')))
            while len(body) < size:
                body += connection.recv(65536)
            with self.lock:
                status, headers, text, end = self.answers[self.requests] if self.requests < len(self.answers) else answer(WHOLE)
                self.requests += 1
            lines = [f'HTTP/1.1 {status} -', 'connection: close', 'transfer-encoding: chunked', *(f'{k}: {v}' for k, v in headers.items())]
            connection.sendall(('\r\n'.join(lines) + '\r\n\r\n').encode())
            if text:
                connection.sendall(b'%x\r\n%b\r\n' % (len(text.encode()), text.encode()))
            if end == 'reset':
                self.released.wait(0.05)  # what came before it has to be read first
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            elif end == 'open':
                self.released.wait(10)
            elif not end:
                connection.sendall(b'0\r\n\r\n')


class StatusError(Exception):
    """As the SDKs of OpenAI and Anthropic have it."""

    def __init__(self, response):
        super().__init__('CANARY_status')
        self.response, self.status_code, self.request = response, response.status_code, response.request


class StreamError(Exception):
    """An error that an SDK found in a stream."""

    def __init__(self, request):
        super().__init__('CANARY_stream')
        self.request = request


CALLED = BEGUN + call('{}') + chunk({}, 'tool_calls') + 'data: [DONE]\n\n'


def in_stream(text, request):
    if '"error"' in text:
        raise StreamError(request)


BODY = {'model': 'm', 'stream': True, 'messages': [{'role': 'user', 'content': 'CANARY_prompt'}]}


class Model:
    """An SDK, with and without asyncio, over a recorded client."""

    def __init__(self, test, *answers):
        self.server = Server(answers)
        test.addCleanup(lambda: self.server.listener.fileno() >= 0 and self.server.close())
        self.slept, self.client = [], httpx.Client(transport=otelllm.Transport(verify=False))
        test.addCleanup(self.client.close)

    @property
    def requests(self):
        return self.server.requests

    def ask(self, body=BODY):
        with self.client.stream('POST', self.server.url, json=body) as response:
            if response.status_code >= 400:
                raise StatusError(response)
            text = ''
            for part in response.iter_text():
                text += part
                in_stream(text, response.request)
            return text

    async def ask_async(self, body=BODY):
        async with httpx.AsyncClient(transport=otelllm.AsyncTransport(verify=False)) as client:
            async with client.stream('POST', self.server.url, json=body) as response:
                if response.status_code >= 400:
                    raise StatusError(response)
                text = ''
                async for part in response.aiter_text():
                    text += part
                    in_stream(text, response.request)
                return text

    def policy(self, **more):
        return otelllm.RetryPolicy(**{'budget': otelllm.RetryBudget(), 'random': lambda: 1.0, 'sleep': self.slept.append, **more})


class Case(unittest.TestCase):
    """Each test runs with retry, and with retry_async."""

    asynchronous = False

    def retry(self, m, **policy):
        if not self.asynchronous:
            return otelllm.retry(m.policy(**policy), m.ask)
        return asyncio.run(otelllm.retry_async(m.policy(**policy), m.ask_async))

    def gives_up(self, decision, m, f=None, **policy):
        with self.assertRaises(otelllm.RetryError) as raised:
            (f or (lambda: self.retry(m, **policy)))()
        error = raised.exception
        self.assertEqual(error.decision, decision)
        self.assertNotIn('CANARY', json.dumps([str(error), error.verdict, error.plan]))
        return error


class TestRetry(Case):
    def test_a_safe_retry_waits_as_the_provider_asked_or_for_the_backoff(self):
        m = Model(self, refused(429, 'rate_limit_exceeded', retry_after='7'), refused(503, 'overloaded'), answer(BEGUN, 'reset'))
        self.assertEqual(self.retry(m), WHOLE)
        self.assertEqual(m.slept, [7.0, 1.0, 2.0])

    def test_jitter_is_a_random_part_of_the_backoff(self):
        m = Model(self, refused(503, 'overloaded'), refused(503, 'overloaded'))
        self.retry(m, random=lambda: 0.25)
        self.assertEqual(m.slept, [0.125, 0.25])

    def test_the_verdicts(self):
        for fault, safety, cause in [
            (answer(BEGUN, 'reset'), 'safe_auto_retry', httpx.ReadError), (answer(BEGUN, 'closed'), 'safe_auto_retry', httpx.RemoteProtocolError),
            (answer(BEGUN), 'safe_auto_retry', None), (refused(429, 'rate_limit_exceeded', retry_after='2'), 'safe_auto_retry', StatusError),
            (answer(BEGUN + 'data: {"error": {"code": "overloaded"}}\n\n', 'open'), 'safe_auto_retry', StreamError),
            (answer(BEGUN + TEXT, 'closed'), 'user_confirmed_retry', httpx.RemoteProtocolError),
            (answer(BEGUN + call('{"CANARY":'), 'closed'), 'safe_auto_retry', httpx.RemoteProtocolError),
            (answer(BEGUN + call(), 'closed'), 'user_confirmed_retry', httpx.RemoteProtocolError),
            (answer(BEGUN + call('{"CANARY":')), 'user_confirmed_retry', None), (refused(401, 'authentication_error'), 'no_retry', StatusError),
        ]:
            with self.subTest(fault=fault):
                m = Model(self, fault)
                error = self.gives_up({'safe_auto_retry': 'attempts_spent', 'user_confirmed_retry': 'attempts_spent'}.get(safety, 'no_retry'), m, attempts=1)
                self.assertEqual(error.verdict['llm.retry.safety'], safety)
                self.assertIs(cause, error.__cause__ and type(error.__cause__))
                if cause is not None:
                    found = otelllm.failure_of(error.__cause__)
                    self.assertEqual(found.safety, safety)
                    self.assertEqual(found.verdict['llm.failure.class'], error.verdict['llm.failure.class'])

    def test_the_budgets_bound_attempts_time_and_the_retries_of_a_host(self):
        down = [refused(503, 'overloaded')] * 400
        m = Model(self, *down)
        error = self.gives_up('attempts_spent', m, attempts=3)
        self.assertEqual((m.requests, error.attempts, error.__cause__.status_code, error.plan['send']), (3, 3, 503, 'again'))
        self.gives_up('time_spent', Model(self, refused(429, 'rate_limit_exceeded', retry_after='50')), elapsed=49)
        m, budget = Model(self, *down), otelllm.RetryBudget()
        for _ in range(60):
            with self.assertRaises(otelllm.RetryError):
                self.retry(m, budget=budget)
        self.assertEqual(m.requests, 160)
        self.gives_up('host_spent', m, budget=budget)

    def test_shown_text_is_asked_for(self):
        error = self.gives_up('no_hook', Model(self, answer(BEGUN + TEXT, 'reset')))
        self.assertIsInstance(error.__cause__, httpx.ReadError)
        for said in (True, False, 'no'):
            m, asked = Model(self, answer(BEGUN + TEXT, 'reset')), []

            def ask(failure, said=said, asked=asked):
                asked.append(failure)
                return said
            if said is True:
                self.assertEqual(self.retry(m, ask=ask), WHOLE)
            else:
                self.gives_up('declined', m, ask=ask)
            [failure] = asked
            self.assertTrue(failure.text_shown)
            self.assertEqual((failure.attempts, failure.plan['ask']), (1, 'visible_output'))
            self.assertRegex(failure.summary, '(?i)connection')
            self.assertIsInstance(failure.error, httpx.ReadError)
            self.assertNotIn('CANARY', repr(failure))
            self.assertNotIn('ReadError', repr(failure))

    def test_an_answer_that_broke_off_is_a_failure_although_the_sdk_reports_none(self):
        m = Model(self, answer(BEGUN))
        self.assertEqual(self.retry(m), WHOLE)
        self.assertEqual(m.requests, 2)

    def test_a_call_in_an_answer_that_broke_off_is_asked_for_unless_tools_are_recorded(self):
        self.gives_up('no_hook', Model(self, answer(BEGUN + call(), 'reset')))
        m = Model(self, answer(BEGUN + call(), 'reset'))
        with otelllm.run('coder', tools_recorded=True):
            self.assertEqual(self.retry(m), WHOLE)
        self.assertEqual(m.requests, 2)
        ran = Model(self, answer(BEGUN + call(), 'reset'))
        with otelllm.run('coder', tools_recorded=True):
            with otelllm.tool(id='call_1', name='pay', effect='non_idempotent'):
                pass
            error = self.gives_up('no_hook', ran)
        self.assertIn('call_1', [c['id'] for c in error.plan['ran'] + error.plan['may_have_run']])

    def test_no_connection(self):
        m = Model(self)
        m.server.close()
        error = self.gives_up('attempts_spent', m, attempts=2)
        self.assertIsInstance(error.__cause__, httpx.ConnectError)
        self.assertEqual(error.attempts, 2)


class TestRetryAsync(TestRetry):
    asynchronous = True

    def test_ask_and_sleep_may_be_coroutine_functions(self):
        m, slept = Model(self, answer(BEGUN + TEXT, 'reset')), []

        async def yes(_):
            return True

        async def sleep(seconds):
            slept.append(seconds)
        self.assertEqual(self.retry(m, ask=yes, sleep=sleep), WHOLE)
        self.assertEqual(slept, [0.5])

    def test_a_cancellation_ends_the_loop(self):
        m = Model(self, answer(BEGUN, 'open'))

        async def cancelled():
            task = asyncio.create_task(otelllm.retry_async(m.policy(ask=lambda _: self.fail('asked')), m.ask_async))
            while not m.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        asyncio.run(cancelled())
        self.assertEqual(m.requests, 1)

    def test_a_deadline_within_the_function_is_known(self):
        m = Model(self, answer(BEGUN, 'open'))
        error = self.gives_up('no_hook', m, lambda: asyncio.run(otelllm.retry_async(m.policy(), lambda: asyncio.wait_for(m.ask_async(), 0.2))))
        self.assertEqual(error.verdict['llm.failure.cause'], 'deadline')


class TestLoop(Case):
    def test_the_sdks_own_retries_count(self):
        m = Model(self, *[refused(503, 'overloaded')] * 9)

        def sdk():
            for left in range(6, -1, -1):
                try:
                    return m.ask()
                except Exception:
                    if not left:
                        raise
        otelllm._retry._report_sdk_retries.cache_clear()
        with self.assertLogs('otelllm', logging.WARNING) as logs:
            self.gives_up('attempts_spent', m, lambda: otelllm.retry(m.policy(), sdk))
        self.assertEqual(m.requests, 4)
        self.assertEqual(len(logs.output), 1)

    def test_the_sdks_own_retries_count_over_aiohttp(self):
        m = Model(self, *[refused(503, 'overloaded')] * 9)

        async def sdk():
            async with aiohttp.ClientSession(trace_configs=[facts.trace_config()]) as session:
                for left in range(6, -1, -1):
                    try:
                        async with session.post(m.server.url, json=BODY) as response:
                            if (await response.read()) and response.status >= 400:
                                raise ValueError
                    except Exception:
                        if not left:
                            raise
        self.gives_up('attempts_spent', m, lambda: asyncio.run(otelllm.retry_async(m.policy(), sdk)))
        self.assertEqual(m.requests, 4)

    def test_what_another_attempt_of_the_call_showed_counts(self):
        m = Model(self, answer(BEGUN + TEXT, 'reset'), refused(503, 'overloaded'), refused(503, 'overloaded'))

        def twice():
            try:
                return m.ask()
            except Exception:
                return m.ask()
        self.gives_up('no_hook', m, lambda: otelllm.retry(m.policy(), twice))
        self.assertEqual(m.requests, 2)

    def test_a_tool_that_runs_while_the_answer_arrives(self):
        m = Model(self, answer(BEGUN + call(), 'reset'))

        def eager():
            with otelllm.tool(id='call_1', name='pay', effect='non_idempotent'):
                pass
            return m.ask()
        for around in (lambda f: f(), lambda f: self.in_run(f)):
            error = self.gives_up('no_hook', m, lambda around=around: around(lambda: otelllm.retry(m.policy(), eager)))
            self.assertIn('call_1', [c['id'] for c in error.plan['ran'] + error.plan['may_have_run']])
            m = Model(self, answer(BEGUN + call(), 'reset'))

    def in_run(self, f):
        with otelllm.run('coder', tools_recorded=True):
            return f()

    def test_an_error_of_the_application_is_raised_as_it_is(self):
        own, m = ValueError('own'), Model(self, answer(WHOLE), answer(BEGUN + TEXT, 'open'), answer(BEGUN + TEXT, 'open'))

        def after():
            m.ask()
            raise own

        def within():
            with m.client.stream('POST', m.server.url, json=BODY) as response:
                next(response.iter_text())
                raise own

        def left_open():
            response = m.client.send(m.client.build_request('POST', m.server.url, json=BODY), stream=True)
            self.addCleanup(response.close)
            next(response.iter_bytes())
            raise own

        def before():
            raise own
        for f in (after, within, left_open, before):
            with self.subTest(f=f), self.assertRaises(ValueError) as raised:
                otelllm.retry(m.policy(ask=lambda _: self.fail('asked')), f)
            self.assertIs(raised.exception, own)
            self.assertIsNone(own.__cause__)
            self.assertIsNone(otelllm.failure_of(own))
        self.assertEqual(m.requests, 3)

    def test_an_abort_is_no_failure_to_repeat(self):
        m = Model(self, answer(BEGUN + TEXT, 'open'))

        def stopped():
            with m.client.stream('POST', m.server.url, json=BODY) as response:
                next(response.iter_text())
                raise Abort('user', 'stop_button')
        with self.assertRaises((otelllm.RetryError, Abort)) as raised:
            otelllm.retry(m.policy(ask=lambda _: self.fail('asked')), stopped)
        self.assertEqual(m.requests, 1)
        if isinstance(raised.exception, otelllm.RetryError):
            self.assertEqual(raised.exception.decision, 'no_retry')

    def test_what_is_no_exception_ends_the_loop(self):
        m = Model(self)

        def interrupted():
            m.ask()
            raise KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            otelllm.retry(m.policy(), interrupted)

    def test_a_request_without_an_answer_which_the_function_handled_is_no_failure(self):
        m = Model(self, refused(503, 'overloaded'))

        def handled():
            try:
                return m.ask()
            except StatusError:
                return 'from the cache'
        self.assertEqual(otelllm.retry(m.policy(), handled), 'from the cache')
        self.assertEqual(m.requests, 1)

    def test_the_time_that_a_person_takes_does_not_count_and_a_loop_within_asks_once(self):
        now, m = [0.0], Model(self, answer(BEGUN + TEXT, 'reset'))

        def slowly(_):
            now[0] += 5
            return True
        self.assertEqual(otelllm.retry(m.policy(now=lambda: now[0], elapsed=1, backoff=0.001, ask=slowly), m.ask), WHOLE)
        m = Model(self, answer(BEGUN + TEXT, 'reset'))
        inner, outer = m.policy(ask=lambda _: False), m.policy(ask=lambda _: self.fail('asked again'))
        self.gives_up('declined', m, lambda: otelllm.retry(outer, lambda: otelllm.retry(inner, m.ask)))

    def test_a_failure_within_a_run_that_has_ended(self):
        m = Model(self, answer(BEGUN + call(), 'reset'))
        with self.assertRaises(httpx.ReadError) as raised:
            self.in_run(lambda: self.in_run(m.ask))
        self.assertEqual(otelllm.failure_of(raised.exception).safety, 'safe_auto_retry')

    def test_a_run_that_begins_within_the_function_is_reported(self):
        m = Model(self, answer(BEGUN, 'reset'))
        with self.assertLogs('otelllm', logging.WARNING) as logs, self.assertRaises(httpx.ReadError):
            otelllm.retry(m.policy(), lambda: self.in_run(m.ask))
        self.assertIn('Begin it around retry', logs.output[0])

    def test_decisions_are_events(self):
        m, spans = Model(self, refused(429, 'rate_limit_exceeded', retry_after='3'), answer(BEGUN + TEXT, 'reset')), []
        with mock.patch.object(facts._sender, 'send', lambda span, end: spans.append(span)), self.assertRaises(otelllm.RetryError):
            self.in_run(lambda: otelllm.retry(m.policy(), m.ask))
        [run] = [span for span in spans if span.name == 'invoke_agent coder']
        decided = [(more['llm.retry.decision'], more.get('llm.retry.wait'), more['llm.resume.send']) for name, _, more in run.events]
        self.assertEqual(decided, [('again', 3.0, 'again'), ('no_hook', None, 'rest')])
        self.assertEqual(run.otlp(0)['events'][0]['name'], 'llm.retry.decided')

    def test_threads_do_not_mix(self):
        models = [Model(self, refused(503, 'overloaded'), answer(BEGUN, 'reset')) for _ in range(8)]
        got = []
        threads = [threading.Thread(target=lambda m=m: got.append(otelllm.retry(m.policy(), m.ask))) for m in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, [WHOLE] * 8)
        self.assertEqual([m.requests for m in models], [3] * 8)

    def test_bad_input_says_what(self):
        for f, message in [
            (lambda: otelllm.RetryPolicy(attempts=0), 'attempts of a RetryPolicy has to be a number above 0'),
            (lambda: otelllm.RetryPolicy(elapsed='1'), 'elapsed of a RetryPolicy has to be a number above 0'),
            (lambda: otelllm.RetryPolicy(ask='yes'), 'ask of a RetryPolicy has to be a function'),
            (lambda: otelllm.RetryPolicy(budget=3), 'budget of a RetryPolicy has to be a RetryBudget'),
            (lambda: otelllm.retry(lambda: 1, None), 'the policy has to be a RetryPolicy, or None'),
            (lambda: otelllm.retry(None, Model(self).ask_async), 'the function is a coroutine function'),
            (lambda: otelllm.retry(otelllm.RetryPolicy(sleep=asyncio.sleep), Model(self, refused(503, 'overloaded')).ask), 'sleep of the RetryPolicy is'),
        ]:
            with self.assertRaisesRegex((TypeError, ValueError), message):
                f()


class TestTurn(Case):
    """An agent with one tool that may run once. It asks for that as long as its history has no output."""

    def agent(self, m, keeps=True, effect='non_idempotent'):
        ran, history = [], []

        def messages():
            return [*BODY['messages'], *({'role': 'tool', 'tool_call_id': id, 'content': 'paid'} for id in history)]

        def execute(text):
            if 'tool_calls' not in text:
                return False
            with otelllm.tool(id='call_1', name='pay', effect=effect):
                ran.append('call_1')
            history.append('call_1')
            return True

        def turn():
            if not keeps:
                history.clear()
            while execute(m.ask({**BODY, 'messages': messages()})):
                pass
            return 'paid'

        async def turn_async():
            if not keeps:
                history.clear()
            while execute(await m.ask_async({**BODY, 'messages': messages()})):
                pass
            return 'paid'
        if self.asynchronous:
            return ran, lambda **policy: asyncio.run(otelllm.retry_turn_async(m.policy(**policy), turn_async))
        return ran, lambda **policy: otelllm.retry_turn(m.policy(**policy), turn)

    def test_a_turn_that_keeps_its_history_goes_on(self):
        for within in (lambda f: f(), self.in_run):
            m = Model(self, answer(CALLED), refused(503, 'overloaded'), answer(BEGUN, 'reset'))
            ran, turn = self.agent(m)
            self.assertEqual(within(turn), 'paid')
            self.assertEqual((ran, m.requests, m.slept), (['call_1'], 4, [0.5, 1.0]))

    def in_run(self, f):
        with otelllm.run('coder', tools_recorded=True):
            return f()

    def test_a_turn_that_has_lost_its_history_pays_once(self):  # as in agno#10366
        m = Model(self, answer(CALLED), refused(503, 'overloaded'), answer(CALLED))
        ran, turn = self.agent(m, keeps=False)
        error = self.gives_up('output_left_out', m, turn)
        self.assertEqual((ran, m.requests), (['call_1'], 2))
        self.assertEqual([(c['id'], c['output']) for c in error.plan['ran']], [('call_1', 'kept')])
        m = Model(self, answer(CALLED), refused(503, 'overloaded'), answer(CALLED))
        ran, turn = self.agent(m, keeps=False, effect='read_only')
        self.assertEqual((turn(), len(ran)), ('paid', 2))

    def test_what_is_not_known_is_asked_for(self):
        for shown in (TEXT, call()):
            m, asked = Model(self, answer(BEGUN + shown, 'reset'), answer(WHOLE)), []
            self.gives_up('no_hook', m, self.agent(Model(self, answer(BEGUN + shown, 'reset')))[1])
            ran, turn = self.agent(m)
            self.assertEqual(turn(ask=lambda failure, asked=asked: asked.append(failure.plan['ask']) or True), 'paid')
            self.assertEqual((len(asked), m.requests, ran), (1, 2, []))

    def test_the_budget_is_of_turns(self):
        m = Model(self, answer(CALLED), *[refused(503, 'overloaded')] * 9)
        ran, turn = self.agent(m)
        error = self.gives_up('attempts_spent', m, lambda: turn(attempts=3))
        self.assertEqual((error.attempts, m.requests, ran), (3, 4, ['call_1']))
        self.gives_up('no_retry', m, self.agent(Model(self, refused(401, 'authentication_error')))[1])

    def test_an_error_of_the_turn_is_raised_as_it_is(self):
        m, own = Model(self, answer(WHOLE)), ValueError('own')

        def turn():
            m.ask()
            raise own
        with self.assertRaises(ValueError) as raised:
            otelllm.retry_turn(m.policy(), turn)
        self.assertIs(raised.exception, own)

    def test_a_loop_within_the_turn(self):
        m = Model(self, refused(503, 'overloaded'), refused(503, 'overloaded'), refused(503, 'overloaded'))
        self.assertEqual(otelllm.retry_turn(m.policy(), lambda: otelllm.retry(m.policy(attempts=2), m.ask)), WHOLE)
        self.assertEqual(m.requests, 4)

    def test_what_a_tool_asks_a_model_for_is_no_model_call_of_the_turn(self):
        m, tries = Model(self, answer(WHOLE), refused(503, 'overloaded')), []

        def turn():
            tries.append(m.ask())
            with otelllm.tool(id='call_1', name='research', effect='read_only'), contextlib.suppress(StatusError):
                m.ask()
        otelllm.retry_turn(m.policy(ask=lambda _: self.fail('asked')), turn)
        self.assertEqual((m.requests, len(tries)), (2, 1))


class TestTurnAsync(TestTurn):
    asynchronous = True


class TestJudge(unittest.TestCase):
    def test_bad_facts_say_what_and_where(self):
        for given, message, line in [
            (None, 'have to be a dict or a list', None), ('CANARY', 'have to be a dict or a list', None), ({'run': b'CANARY'}, 'have to be a dict or a list', None),
            ({'run': 'r', 'x': float('nan')}, 'have to be a dict or a list', None), ([], 'the array is empty', 1),
            ([{'run': 'r', 'kind': 'run'}, {'run': 'r', 'kind': 'CANARY'}], '^fact 2: kind has to be run, request or tool', 2),
        ]:
            with self.assertRaisesRegex(otelllm.JudgeError, message) as raised:
                otelllm.judge(given)
            self.assertEqual(raised.exception.line, line)
            self.assertNotIn('CANARY', str(raised.exception))
        self.assertEqual(otelllm.judge({'run': 'r', 'kind': 'run', 'state': 'begun'})['verdict']['llm.run.outcome'], 'succeeded')

    def test_without_a_judge_it_says_what_to_install(self):
        with mock.patch.object(_judge, '_judge', None), mock.patch.dict(sys.modules, {'wasmtime': None}), \
                mock.patch.dict(os.environ, {'PATH': '', 'OTELLLM_BIN': ''}):
            for f in (lambda: otelllm.judge({'run': 'r'}), lambda: otelllm.retry(None, lambda: self.fail('called'))):
                with self.assertRaisesRegex(otelllm.JudgeError, 'pip install wasmtime.*OTELLLM_BIN'):
                    f()

    @unittest.skipIf(os.name == 'nt', 'a shell script stands for the program')
    def test_a_program_that_is_none_or_dies_or_hangs(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, why in [('exit 1', 'cannot be used'), ('exec sleep 60', 'without an answer')]:
                program = pathlib.Path(folder, 'otelllm')
                program.write_text(f'#!/bin/sh\n{text}\n')
                program.chmod(0o700)
                judge = _judge._Program(str(program))
                judge.seconds = 0.2
                with self.assertRaisesRegex(otelllm.JudgeError, why):
                    judge.answer(b'{}')
        with self.assertRaisesRegex(otelllm.JudgeError, 'FileNotFoundError'):
            _judge._Program(folder).answer(b'{}')

    def test_a_program_that_was_killed_is_started_again(self):
        judge = _judge._Program(os.environ['OTELLLM_BIN'])
        self.addCleanup(judge.stop)
        facts = b'{"run":"r","kind":"run","state":"begun"}'
        first = judge.answer(facts)
        judge.child.kill()
        judge.child.wait()
        self.assertEqual(judge.answer(facts), first)


class TestFrameworks(unittest.TestCase):
    def failed(self, *answers):
        m = Model(self, *answers)
        with self.assertRaises(Exception) as raised:
            m.ask()
        return raised.exception

    def openai_agents(self, policy, error, attempt=1, replay_safety='unknown'):
        """Ask the policy as the runner of openai-agents does, with a stand-in of its RetryDecision and RetryPolicyContext."""
        class RetryDecision:
            def __init__(self, retry, delay=None, reason=None, approve_unsafe_replay=False):
                self.retry, self.delay, self.reason, self.approve_unsafe_replay = retry, delay, reason, approve_unsafe_replay
        with mock.patch.dict(sys.modules, {'agents': mock.Mock(RetryDecision=RetryDecision)}):
            return asyncio.run(frameworks.openai_agents(policy)(mock.Mock(error=error, attempt=attempt, replay_safety=replay_safety)))

    def test_openai_agents(self):
        policy = otelllm.RetryPolicy(random=lambda: 1.0)
        safe = self.openai_agents(policy, self.failed(refused(429, 'rate_limit_exceeded', retry_after='7')))
        self.assertEqual((safe.retry, safe.delay, safe.approve_unsafe_replay), (True, 7.0, False))
        text = self.failed(answer(BEGUN + TEXT, 'reset'))
        self.assertFalse(self.openai_agents(policy, text).retry)
        self.assertFalse(self.openai_agents(policy, ValueError('own')).retry)
        self.assertFalse(self.openai_agents(policy, self.failed(refused(401, 'authentication_error'))).retry)
        self.assertFalse(self.openai_agents(policy, self.failed(refused(503, 'overloaded')), attempt=4).retry)
        asked = []

        async def yes(failure):
            asked.append(failure.plan['ask'] if 'ask' in failure.plan else failure.safety)
            return True
        policy = otelllm.RetryPolicy(ask=yes)
        confirmed = self.openai_agents(policy, text)
        self.assertEqual((confirmed.retry, confirmed.approve_unsafe_replay), (True, False))
        unsafe = self.openai_agents(policy, self.failed(refused(503, 'overloaded')), replay_safety='unsafe')
        self.assertEqual((unsafe.retry, unsafe.approve_unsafe_replay), (True, True))
        self.assertEqual(asked, ['visible_output', 'safe_auto_retry'])

    def test_pydantic_ai(self):
        m = Model(self, refused(503, 'overloaded'))
        hook = frameworks.pydantic_ai(m.policy())

        async def handler(request_context):  # a stand-in of what pydantic-ai gives to a hook
            self.assertEqual(request_context, 'request')
            return await m.ask_async()
        self.assertEqual(asyncio.run(hook('run', request_context='request', handler=handler)), WHOLE)
        self.assertEqual((m.requests, m.slept), (2, [0.5]))

    def test_langchain(self):
        m = Model(self, refused(503, 'overloaded'), answer(WHOLE), refused(503, 'overloaded'))

        class RunnableLambda:  # a stand-in of langchain_core's
            def __init__(self, func, afunc):
                self.func, self.afunc = func, afunc

        class ChatModel:
            def invoke(self, messages, config):
                return m.ask()

            async def ainvoke(self, messages, config):
                return await m.ask_async()
        with mock.patch.dict(sys.modules, {'langchain_core': mock.Mock(), 'langchain_core.runnables': mock.Mock(RunnableLambda=RunnableLambda)}):
            runnable = frameworks.langchain(ChatModel(), m.policy())
        self.assertEqual(runnable.func('messages'), WHOLE)
        self.assertEqual(asyncio.run(runnable.afunc('messages')), WHOLE)
        self.assertEqual((m.requests, m.slept), (4, [0.5, 0.5]))

    def test_tenacity(self):
        m = Model(self, refused(429, 'rate_limit_exceeded', retry_after='7'), answer(BEGUN, 'reset'), answer(BEGUN + TEXT, 'reset'))
        retrying = tenacity.Retrying(sleep=m.slept.append, **frameworks.tenacity(m.policy()))
        with self.assertRaises(httpx.ReadError):
            retrying(m.ask)
        self.assertEqual((m.requests, m.slept), (3, [7.0, 1.0]))
        m = Model(self, refused(429, 'rate_limit_exceeded', retry_after='7'), answer(BEGUN + TEXT, 'reset'))

        async def sleep(seconds):
            m.slept.append(seconds)

        async def attempts():
            async for attempt in tenacity.AsyncRetrying(sleep=sleep, **frameworks.tenacity(m.policy(ask=lambda _: True))):
                with attempt:
                    return await m.ask_async()
        self.assertEqual(asyncio.run(attempts()), WHOLE)
        self.assertEqual((m.requests, m.slept), (3, [7.0, 1.0]))
        own = ValueError('own')
        with self.assertRaises(ValueError):
            tenacity.Retrying(**frameworks.tenacity())(mock.Mock(side_effect=own))
        m = Model(self, refused(429, 'rate_limit_exceeded', retry_after='700'))
        with self.assertRaises(StatusError):
            tenacity.Retrying(sleep=m.slept.append, **frameworks.tenacity(m.policy()))(m.ask)


if __name__ == '__main__':
    unittest.main()
