"""What the recording must never do: change, delay or break what the client reads, or record its content."""

import asyncio
import contextlib
import gc
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import zlib

import aiohttp
import httpx

import otelllm_facts as facts

URL = 'https://model.example/v1/chat/completions?key=CANARY_query'
HERE = os.path.dirname(os.path.abspath(__file__))


class Span:
    def __init__(self, span, end):
        sent = json.loads(json.dumps(span.otlp(end)))  # as it would be sent
        self.name, self.id, self.trace, self.raw = sent['name'], sent['spanId'], sent['traceId'], json.dumps(sent)
        self.failed, self.events = sent['status'] == {'code': 2}, [e['name'] for e in sent['events']]
        self.start, self.end = int(sent['startTimeUnixNano']), int(sent['endTimeUnixNano'])
        self.attributes = {a['key']: plain(a['value']) for a in sent['attributes']}

    def __getitem__(self, key):
        return self.attributes.get(key)


def plain(value):
    [(kind, v)] = value.items()
    return [plain(x) for x in v['values']] if kind == 'arrayValue' else int(v) if kind == 'intValue' else v


def chunk(delta, finish=None):
    return b'data: %b\n\n' % json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]}).encode()


def event(e):
    return b'data: %b\n\n' % json.dumps(e).encode()


DONE = b'data: [DONE]\n\n'


def ask(**body):
    return {'model': 'm', 'stream': True, 'messages': [{'role': 'user', 'content': 'CANARY_prompt'}], **body}


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body of chunks that ends, or fails with an error."""

    def __init__(self, chunks, error=None):
        self.chunks, self.error, self.pulls, self.closed = chunks, error, 0, False

    def __iter__(self):
        for one in self.chunks:
            self.pulls += 1
            yield one
        if self.error:
            raise self.error

    async def __aiter__(self):
        for one in self:
            yield one

    def close(self):
        self.closed = True

    async def aclose(self):
        self.closed = True


def client(chunks, error=None, status=200, type='text/event-stream', headers=(), raises=None):
    body = Body(chunks, error)

    def answer(request):
        if raises is not None:
            raise raises
        return httpx.Response(status, headers={'content-type': type, **dict(headers)}, stream=body)
    c = httpx.Client(transport=facts.FactsTransport(httpx.MockTransport(answer)))
    c.body = body
    return c


def post(c, url=URL, **body):
    return c.post(url, json=ask(**body), headers={'authorization': 'Bearer CANARY_key'})


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


class Case(unittest.TestCase):
    def setUp(self):
        self.spans, self.send = [], facts._Sender.send
        facts._Sender.send = lambda sender, span, end: self.spans.append(Span(span, end))

    def tearDown(self):
        facts._Sender.send = self.send
        self.assertIsNone(facts._current.get())

    def one(self, name='chat'):
        found = [s for s in self.spans if s.name.startswith(name)]
        self.assertEqual(len(found), 1, [s.name for s in self.spans])
        return found[0]


class Reading(Case):
    def test_every_chunk_arrives_unchanged_cut_anywhere(self):
        whole = chunk({'content': 'h\u00e4llo'}) + b': ping\r\n\r\n' + chunk({}, 'stop') + DONE
        for cut in range(1, len(whole)):
            self.spans.clear()
            with client([whole[:cut], whole[cut:]]).stream('POST', URL, json=ask()) as response:
                self.assertEqual(list(response.iter_raw()), [whole[:cut], whole[cut:]])
            self.assertEqual((self.one()['llm.stream.text_chunks'], self.one()['llm.stream.end']), (1, 'terminal_event'), cut)

    def test_a_thread_that_anthropic_keeps_and_tools_that_messages_define(self):
        def of(**body):
            self.spans.clear()
            client([]).post('https://model.example/v1/messages', json=ask(**body))
            span = self.one()
            return span['llm.request.provider_tools'], span['llm.history.tool_calls'], span['llm.history.tool_outputs']

        def user(*content):
            return [{'role': 'user', 'content': content}]

        def defines(**definition):
            return {'type': 'tool_addition', 'tool': {'type': 'tool_definition', 'definition': definition}}

        self.assertEqual(of(thread={'type': 'create'}, tools=[{'name': 'pay'}]), ([], [], []))
        going_on = of(thread={'type': 'continue', 'previous_message_id': 'msg_1'}, messages=user({'type': 'tool_result', 'tool_use_id': 'a'}))
        self.assertEqual(going_on, (None, None, None))
        for block, tools in ((defines(name='pay', input_schema={}), []),
                             (defines(type='web_search_20250305', name='x'), ['web_search']),
                             ({'type': 'compaction', 'tool_changes': [defines(type='mcp_toolset')]}, ['mcp_toolset']),
                             ({'type': 'tool_addition', 'tool': {'type': 'tool_reference', 'name': 'pay'}}, []),
                             ({'type': 'tool_addition', 'tool': {'type': 'agent'}}, ['agent']),
                             ({'type': 'tool_removal', 'tool': {'type': 'tool_reference', 'name': 'pay'}}, [])):
            self.assertEqual(of(messages=user(block))[0], tools, block)

    def test_a_longer_prefix_is_never_safer(self):
        """Cut at every byte, by an error and by a clean end: no count of zero where the client was given text or a call. An event
        whose JSON is cut is given to no client."""
        call = {'index': 0, 'id': 'call_1', 'function': {'name': 'f', 'arguments': '{}'}}
        for whole in (chunk({'role': 'assistant'}) + chunk({'content': 'x'}) + chunk({}, 'stop') + DONE,
                      chunk({'role': 'assistant'}) + chunk({'tool_calls': [call]}) + chunk({}, 'tool_calls') + DONE):
            for error in (None, httpx.ReadError('CANARY')):
                for cut in range(len(whole)):
                    self.spans.clear()
                    with contextlib.suppress(httpx.ReadError):
                        post(client([whole[:cut]], error))
                    span, lines = self.one(), whole[:cut].split(b'\n')
                    given = b'\n'.join(line for line in lines if line != b'data: ' and is_json(line[6:]))
                    text, begun = b'"content"' in given, b'tool_calls' in given
                    if text:
                        self.assertNotEqual(span['llm.stream.text_chunks'], 0, (cut, error))
                    if begun:
                        self.assertNotEqual(span['llm.stream.tool_inputs_started'], 0, (cut, error))
                    if span['llm.stream.end'] == 'terminal_event':
                        self.assertIn(b'"finish_reason": "', given)

    def test_a_call_is_complete_once_a_client_could_have_executed_it(self):
        """Only a call whose input is an open JSON value when the stream breaks was executed by no client."""
        def call(args, index=0, **more):
            function = {} if args is None else {'function': {'name': 'pay', 'arguments': args}}
            return {'tool_calls': [{'index': index, 'id': f'call_{index}', **function, **more}]}

        def item(args):
            return event({'type': 'response.output_item.added', 'output_index': 0,
                          'item': {'type': 'function_call', 'call_id': 'call_0', 'name': 'pay', 'arguments': args}})

        def part(args):
            return event({'type': 'response.function_call_arguments.delta', 'output_index': 0, 'delta': args})

        def block(**input):
            return event({'type': 'content_block_start', 'index': 0, 'content_block': {'type': 'tool_use', 'id': 'call_0', 'input': input}})

        def json_part(args):
            return event({'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'input_json_delta', 'partial_json': args}})

        chat = [chunk(call(''))]
        responses, messages = 'https://model.example/v1/responses', 'https://model.example/v1/messages'
        broken = httpx.ReadError('CANARY')
        for chunks, complete, where, error in (
                (chat, 0, URL, broken),
                ([*chat, chunk(call('{"a"')), chunk(call(':"}\\"'))], 0, URL, broken),
                ([*chat, chunk(call('{"a"')), chunk(call(':"}"}'))], 1, URL, broken),
                ([chunk(call('{}'))], 1, URL, broken),
                ([chunk(call({}))], 1, URL, broken),
                ([chunk(call('{"a')), chunk(call('', 1))], 1, URL, broken),
                ([chunk(call('{"a')), chunk({'content': 'x'})], 1, URL, broken),
                ([chunk(call(None, custom={'input': 'x'}))], 0, URL, broken),
                (chat, 1, URL, None),
                ([chunk(call('{"a'))], 1, URL, None),
                ([chunk(call('{"a')), b'data: [DONE]\n\n'], 1, URL, None),
                ([chunk(call('{"a')), chunk({}, 'length')], 1, URL, None),
                ([item('{}')], 1, responses, broken),
                ([item(''), part('{"a"')], 0, responses, broken),
                ([item(''), part('{"a"'), part(':1}')], 1, responses, broken),
                ([block(), json_part(''), json_part('{')], 0, messages, broken),
                ([block(), json_part('{'), json_part('}')], 1, messages, broken),
                ([block(a=1)], 1, messages, broken),
        ):
            self.spans.clear()
            with contextlib.suppress(httpx.ReadError):
                post(client(chunks, error), where)
            span = self.one()
            self.assertEqual(span['llm.stream.tool_inputs_completed'], complete, chunks)
            self.assertEqual(span['llm.stream.tool_calls'], 0, chunks)
            self.assertEqual(span['llm.stream.tool_call_ids'] or [], ['call_0'] * complete, chunks)

    def test_an_end_is_as_good_as_its_server_meant_it(self):
        def call(args):
            return chunk({'tool_calls': [{'index': 0, 'id': 'call_1', 'function': {'name': 'pay', 'arguments': args}}]})

        def native(reason):
            return event({'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop', 'native_finish_reason': reason}]})

        text = event({'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'text_delta', 'text': 'x'}})
        reason = event({'type': 'message_delta', 'delta': {'stop_reason': 'end_turn'}})
        for chunks, where, finish, end, invalid in (
                ([chunk({'content': 'x'}), DONE], URL, ['unstated'], 'terminal_event', None),
                ([call('{}'), DONE], URL, ['unstated'], 'terminal_event', None),
                ([chunk({'content': 'x'}), event({'note': 'lost'}), DONE], URL, ['unrecognized'], 'terminal_event', None),
                ([chunk({'content': 'x'}), b'data: {}x\n\n', chunk({}, 'stop'), DONE], URL, ['stop'], 'terminal_event', None),
                ([call('undefined'), chunk({}, 'tool_calls'), DONE], URL, ['tool_calls'], 'terminal_event', 1),
                ([call('{"a'), DONE], URL, ['error'], 'eof', None),
                ([DONE], URL, ['error'], 'terminal_event', None),
                ([chunk({'content': 'x'}), native('MAX_TOKENS'), DONE], URL, ['MAX_TOKENS'], 'terminal_event', None),
                ([chunk({'content': 'x'}), native('end_turn'), DONE], URL, ['stop'], 'terminal_event', None),
                ([call('{"a'), chunk({}, 'tool_calls'), DONE], URL, ['tool_calls'], 'terminal_event', 1),
                ([call('{}{}'), chunk({}, 'tool_calls'), DONE], URL, ['tool_calls'], 'terminal_event', 1),
                ([text, reason], 'https://model.example/v1/messages', ['end_turn'], 'terminal_event', None),
        ):
            self.spans.clear()
            post(client(chunks), where)
            span = self.one()
            self.assertEqual((span['gen_ai.response.finish_reasons'], span['llm.stream.end'], span['llm.stream.tool_inputs_invalid']),
                             (finish, end, invalid), chunks)

    def test_a_broken_object_leaves_a_hole(self):
        for broken, cause in ((b'data: {"choices":[{\n\n', 'malformed_event'), (b'data: ping\n\n', None)):
            self.spans.clear()
            post(client([chunk({'content': 'x'}), broken, chunk({}, 'stop'), DONE]))
            self.assertEqual((self.one()['llm.stream.end'], self.one()['llm.transport.cause']), ('terminal_event', cause))

    def test_the_reader_gets_the_same_error(self):
        error = httpx.ReadError('CANARY_message')
        error.__cause__ = ConnectionResetError(104, 'CANARY_message')
        with self.assertRaises(httpx.ReadError) as caught:
            post(client([chunk({'content': 'x'})], error))
        self.assertIs(caught.exception, error)
        self.assertEqual((self.one()['llm.transport.cause'], self.one()['llm.transport.code']), ('connection_reset', 'ECONNRESET'))
        self.assertNotIn('CANARY', self.one().raw)

    def test_nothing_is_read_ahead_of_the_client(self):
        c = client([b'a', b'b', b'c'])
        with c.stream('POST', URL, json=ask()) as response:
            self.assertEqual(c.body.pulls, 0)
            next(response.iter_raw())
            self.assertEqual(c.body.pulls, 1)
        self.assertTrue(c.body.closed)
        self.assertEqual(self.one()['llm.stream.end'], 'consumer_closed')

    def test_a_dropped_stream_has_no_reader(self):
        def leave():
            for _ in client([chunk({'content': 'x'}), chunk({'content': 'y'})]).send(request, stream=True).iter_raw():
                break
        request = httpx.Request('POST', URL, json=ask())
        leave()
        gc.collect()
        until = time.monotonic() + 10
        while not self.spans and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(self.one()['llm.stream.end'], 'consumer_closed')

    def test_input_that_cannot_be_followed_is_passed_on(self):
        deep = b'data: ' + b'[' * 100_000 + b'\n\n'
        for body in (b'data: {"choices":7}\n\n', b'data: {"choices":[{"index":0,"delta":7}]}\n\n', b'data: nothing\n\n', b'\0\xff\0', b'data: ' * (2 << 20),
                     b'data: 7\n\n', b'data: {"choices":[{"index":[],"delta":{}}]}\n\n', deep, b'data: {"usage":{"prompt_tokens":"CANARY"}}\n\n'):
            self.spans.clear()
            self.assertEqual(post(client([body])).content, body)
            self.assertNotEqual(self.one()['llm.stream.end'], 'terminal_event')
            self.assertNotIn('CANARY', self.one().raw)

    def test_a_line_in_many_chunks_does_not_cost_its_square(self):
        parts = [b'data: {"x":"'] + [b'y' * 100] * 40_000
        began = time.perf_counter()
        post(client(parts))
        self.assertLess(time.perf_counter() - began, 5)

    def test_memory_is_bounded(self):
        calls = b''.join(chunk({'tool_calls': [{'index': i, 'id': f'call_{i}'}]}) for i in range(5000))
        with client([calls, b'x' * 100]).stream('POST', URL, json=ask()) as response:
            for _ in response.iter_raw():
                pass
        self.assertEqual(self.one()['llm.stream.tool_inputs_started'], 1024)
        self.assertTrue(self.one()['llm.stream.unread'])
        self.assertLess(len(self.one().raw), 40_000)

    def test_an_event_that_ends_with_the_stream_counts(self):
        post(client([chunk({'content': 'x'}, 'stop').strip()]))
        self.assertEqual(self.one()['llm.stream.end'], 'terminal_event')

    def test_other_requests_are_unchanged(self):
        c = client([b'x'])
        for method, url, arguments in (('POST', 'https://model.example/v1/models', {'json': {}}), ('GET', URL, {}), ('POST', URL, {'content': b'no json'}),
                                       ('POST', URL, {'content': iter([b'{}'])}), ('POST', URL, {'json': [1]})):
            response = c.request(method, url, **arguments)
            self.assertEqual(response.content, b'x')
            self.assertIs(response.stream._stream, c.body)
        self.assertEqual(self.spans, [])

    def test_a_complete_document(self):
        document = json.dumps({'id': 'r', 'choices': [{'index': 0, 'message': {'content': 'CANARY'}, 'finish_reason': 'stop'}]}).encode()
        zipped = zlib.compressobj(wbits=31)
        for body, headers in ((document, ()), (zipped.compress(document) + zipped.flush(), {'content-encoding': 'gzip'})):
            self.spans.clear()
            self.assertEqual(post(client([body[:9], body[9:]], type='application/json', headers=headers), stream=False).json()['id'], 'r')
            self.assertEqual((self.one()['llm.stream.end'], self.one()['llm.stream.text_chunks']), ('terminal_event', 1))
        self.spans.clear()
        with client([b'?'], headers={'content-encoding': 'zstd'}).stream('POST', URL, json=ask()) as response:
            list(response.iter_raw())
        self.assertTrue(self.one()['llm.stream.unread'])
        self.assertIsNone(self.one()['llm.stream.text_chunks'])

    def test_no_content_is_recorded(self):
        call = {'index': 0, 'id': 'call_1', 'function': {'name': 'f', 'arguments': 'CANARY_arguments'}}
        error = json.dumps({'error': {'message': 'CANARY_error', 'type': 'CANARY of type', 'code': 'sk-CANARY0123456789abcdef'}}).encode()
        with facts.run('coder', conversation_id='CANARY of a conversation'):
            post(client([chunk({'content': 'CANARY_text', 'tool_calls': [call]}), chunk({}, 'CANARY of reasons'), DONE]))
            with self.assertRaises(KeyError), facts.tool(id='call_1', name='f'):
                raise KeyError('CANARY_tool')
            with facts.tool(id='CANARY id', name='CANARY name') as tool:
                tool.failed('CANARY of errors')
            post(client([error], status=400, type='application/json', headers={'x-request-id': 'CANARY of requests'}))
        self.assertEqual(len(self.spans), 5)
        for span in self.spans:
            self.assertNotIn('CANARY', span.raw)
        self.assertEqual(facts._id('CANARY id'), facts._id('CANARY id'))
        self.assertNotEqual(facts._id('CANARY id'), facts._id('CANARY ie'))

    def test_a_count_of_zero_is_recorded_only_if_everything_was_read(self):
        responses, messages = 'https://model.example/v1/responses', 'https://model.example/v1/messages'

        text, cut = chunk({'content': 'x'}), httpx.ReadError('')
        for chunks, to, texts, error in (
            ([chunk({'role': 'assistant'}), text.strip()], URL, None, cut),
            ([text.strip() + b'\ndata: nothing\n\n'], URL, 1, None),
            ([b'data: nothing\n\n', text], URL, 1, None),
            ([b' data: {}\n\n'], URL, None, None),
            ([chunk({'video': {'id': 'v'}})], URL, None, None),
            ([text, b'data: {"choices":7}\n\n'], URL, 1, None),
            ([b'data: {"error":{"code":"server_error"}}\n\ndata: nothing\n\n'], URL, None, None),
            ([event({'type': 'response.output_item.added', 'output_index': 0, 'item': {'type': 'hologram'}})], responses, None, None),
            ([event({'type': 'response.hologram.delta', 'delta': 'x'})], responses, None, None),
            ([event({'type': 'content_block_start', 'index': 0, 'content_block': {'type': 'hologram'}})], messages, None, None),
            ([event({'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'hologram_delta'}})], messages, None, None),
        ):
            self.spans.clear()
            with contextlib.suppress(httpx.ReadError):
                post(client(chunks, error), to)
            span = self.one()
            self.assertEqual((span['llm.stream.unread'], span['llm.stream.text_chunks'], span['llm.stream.tool_calls'], span['llm.stream.tool_call_ids']),
                             (True, texts, None, None), chunks)
        for half in (b'data: {"cho', b'data: ', b'dat', b'data:'):
            for error in (cut, None):
                self.spans.clear()
                with contextlib.suppress(httpx.ReadError):
                    post(client([chunk({'role': 'assistant'}), half], error))
                span = self.one()
                self.assertEqual((span['llm.stream.unread'], span['llm.stream.text_chunks'], span['llm.stream.tool_calls'], span['llm.transport.cause']),
                                 (None, 0, 0, 'connection_reset' if error else 'clean_eof'), (half, error))
        self.spans.clear()
        with contextlib.suppress(httpx.ReadError):
            post(client([b': ping\n', chunk({'role': 'assistant', 'audio': None}), b'event: x\nid: 1\nretry: 5\n\n'], cut))
        self.assertEqual((self.one()['llm.stream.unread'], self.one()['llm.stream.text_chunks']), (None, 0))

    def test_events_one_newline_apart_are_read(self):
        text = chunk({'content': 'x'})
        post(client([text.strip() + b'\n' + text, chunk({}, 'stop')]))
        self.assertEqual((self.one()['llm.stream.unread'], self.one()['llm.stream.text_chunks']), (None, 2))

    def test_an_error_whose_body_nobody_read_is_of_nobody(self):
        for body, read, in_front in ((b'', True, True), (b'', False, None), (b'{"error":{"code":"server_error"}}', True, None)):
            self.spans.clear()
            with client([body], status=500, type='application/json', headers={'cf-ray': '1'}).stream('POST', URL, json=ask()) as response:
                if read:
                    response.read()
            self.assertEqual((self.one()['llm.provider_error.kind'], self.one()['llm.provider_error.intermediary']), ('server_error', in_front))

    def test_words_of_an_error_decide_and_are_not_recorded(self):
        error = {'error': {'message': 'CANARY: your credit balance is too low. Try again in 13 hours.', 'type': 'invalid_request_error', 'code': None}}
        post(client([json.dumps(error).encode()], status=400, type='application/json'))
        span = self.one()
        self.assertEqual((span['llm.provider_error.kind'], span['llm.provider_error.code'], span['llm.retry.after']),
                         ('quota_exhausted', 'invalid_request_error', 13 * 3600))
        self.assertNotIn('CANARY', span.raw)
        self.assertNotIn('credit', span.raw)

    def test_errors_in_the_envelopes_of_gateways(self):
        for status, body, kind in (
                (200, {'Response': {'Error': {'Code': 'AuthFailure.SignatureFailure', 'Message': 'x'}, 'RequestId': '1'}}, 'authentication'),
                (200, {'code': 11200, 'message': 'x', 'sid': '1'}, 'unknown'),
                (200, {'success': False, 'message': 'x'}, 'unknown'),
                (424, {'Message': 'x', 'OriginalStatusCode': 500}, 'server_error'),
                (503, {'error': {'message': 'x returned 400: y'}}, 'invalid_request'),
                (400, {'error': {'message': 'x', 'type': 'api_error'}}, 'invalid_request'),
                (200, {'error': {'message': 'x', 'code': 'upstream_server_error'}}, 'server_error'),
                (200, {'code': 200, 'message': 'x'}, None),
                (200, {'code': 11200, 'message': 'x', 'data': {'answer': 'y'}}, None)):
            with self.subTest(body=body):
                self.spans.clear()
                post(client([json.dumps(body).encode()], status=status, type='application/json'))
                self.assertEqual(self.one()['llm.provider_error.kind'], kind)

    def test_a_limit_of_a_long_period_and_a_status_that_a_gateway_quotes(self):
        for status, message, kind, headers in (
                (429, 'You have reached your monthly usage limit', 'quota_exhausted', {}),
                (429, 'You have reached your monthly usage limit', 'rate_limited', {'retry-after': '600'}),  # its window slides
                (429, 'Limit of 60 requests per minute; the daily limit is 1000', 'rate_limited', {}),  # the first period decides
                (404, 'You have reached your monthly usage limit', 'not_found', {}),
                (429, 'Your weekly limit \ud800', 'quota_exhausted', {}),  # half a character
                (503, "litellm.BadRequestError: Error code: 400 - {'error': 'x'}", 'invalid_request', {}),
                (503, 'openai: HTTP 400; azure: HTTP 404', 'overloaded', {}),  # several say nothing
                (429, 'Error code: 400', 'rate_limited', {})):
            with self.subTest(status=status, message=message, headers=headers):
                self.spans.clear()
                post(client([json.dumps({'error': {'message': message}}).encode()], status=status, type='application/json', headers=headers))
                self.assertEqual(self.one()['llm.provider_error.kind'], kind)

    def test_causes_before_the_response(self):
        def of(kind, cause=None):
            error = kind('CANARY')
            error.__cause__ = cause
            return error
        for error, want in (
            (of(httpx.ConnectError, ConnectionRefusedError(111, '')), ('connect_refused', 'connect', 'before_connection')),
            (of(httpx.ConnectError, socket.gaierror(socket.EAI_NONAME, '')), ('dns_not_found', 'dns', 'before_connection')),
            (of(httpx.ConnectError, socket.gaierror(socket.EAI_AGAIN, '')), ('dns_temporary', 'dns', 'before_connection')),
            (of(httpx.ConnectTimeout), ('connect_timeout', 'connect', 'before_connection')),
            (of(httpx.ReadTimeout), ('header_timeout', 'headers', 'awaiting_response')),
            (of(httpx.ReadError, ConnectionResetError(104, '')), ('closed_before_headers', 'headers', 'awaiting_response')),
            (of(httpx.WriteError, BrokenPipeError(32, '')), ('write_failed', 'write', 'awaiting_response')),
            (httpx.RemoteProtocolError('Server disconnected without sending a response.'), ('closed_before_headers', 'headers', 'awaiting_response')),
            (httpx.ProxyError('403 Forbidden'), ('proxy_refused', 'proxy', 'before_connection')),
            (httpx.UnsupportedProtocol(''), ('invalid_url', None, 'unknown')),
            (ValueError('CANARY'), (None, None, 'unknown')),
        ):
            self.spans.clear()
            with self.assertRaises(type(error)):
                post(client([], raises=error))
            span = self.one()
            self.assertEqual((span['llm.transport.cause'], span['llm.transport.stage'], span['llm.stream.phase']), want)
            self.assertEqual(span['llm.stream.end'], 'no_response')
            self.assertNotIn('CANARY', span.raw)

    def test_the_error_of_an_attempt_before_is_not_the_cause(self):
        refused = httpx.ConnectError('')
        refused.__cause__ = ConnectionRefusedError(111, '')
        for before, want in ((refused, 'header_timeout'), (facts.Abort('user'), 'header_timeout')):
            self.spans.clear()
            with contextlib.suppress(httpx.ReadTimeout):
                try:
                    raise before
                except Exception:
                    post(client([], raises=httpx.ReadTimeout('')))  # a retry from within the handler
            self.assertEqual((self.one()['llm.transport.cause'], self.one()['llm.abort.source']), (want, None))
            self.spans.clear()
            with contextlib.suppress(httpx.ReadError):
                try:
                    raise before
                except Exception:
                    post(client([chunk({'content': 'x'})], httpx.ReadError('')))
            self.assertEqual((self.one()['llm.transport.cause'], self.one()['llm.abort.source']), ('connection_reset', None))

    def test_watch_keeps_the_settings(self):
        for c in (httpx.Client(), httpx.AsyncClient()):
            inner, mounts = c._transport, dict(c._mounts)
            self.assertIs(facts.watch(facts.watch(c)), c)
            self.assertIs(c._transport._inner, inner)
            self.assertEqual(list(c._mounts), list(mounts))


class Runs(Case):
    def answer(self, **body):
        post(client([chunk({}, 'stop'), DONE]), **body)

    def test_the_numbers_of_a_run(self):
        def numbers():
            runs = [s for s in self.spans if s.name.startswith('invoke_agent')]
            self.spans.clear()
            return [(s['llm.run.requests'], s['llm.run.tools']) for s in runs]
        with facts.run('coder'):
            self.answer()
        self.assertEqual(numbers(), [(1, None)], 'tools are not observed')
        with facts.run('coder', tools_recorded=True):
            self.answer()
        self.assertEqual(numbers(), [(1, 0)])
        with facts.run('outer') as outer:
            self.answer()
            with facts.run('inner') as inner, facts.tool(id='call_1', name='f'):
                self.answer()
            self.assertEqual(inner.trace_id, outer.trace_id)
        self.assertEqual(numbers(), [(1, 1), (2, 1)])

    def test_the_conversation(self):
        with facts.run('coder', conversation_id='thread_1'):
            self.answer()
        self.assertEqual([s['gen_ai.conversation.id'] for s in self.spans], ['thread_1', 'thread_1'])

    def test_the_delivery_of_outputs(self):
        class LostError(Exception):
            pass
        for deliver, want in (
            (lambda t: None, ('pending', None)), (lambda t: t.output_sent(), ('sent', None)), (lambda t: t.output_cached(), ('cached', None)),
            (lambda t: t.output_failed(LostError('CANARY')), ('failed', 'LostError')),
            (lambda t: (t.output_failed(), t.output_cached(), t.output_sent(), t.output_failed()), ('sent', '_OTHER')),
        ):
            self.spans.clear()
            with facts.run('coder'):
                with facts.tool(id='call_1', name='f') as tool:
                    pass
                ended = time.time_ns()
                time.sleep(0.01)
                deliver(tool)
                self.assertEqual(len(self.spans), want[0] == 'sent', 'the span waits')
            span = self.one('execute_tool')
            self.assertEqual((span['llm.tool.output_delivery'], span['llm.tool.output_error']), want)
            self.assertLessEqual(span.end, ended + 5_000_000, 'it ends when the tool did')
            self.assertNotIn('CANARY', span.raw)

    def test_an_output_that_a_request_carries_has_nothing_to_wait_for(self):
        with facts.run('coder'):
            with facts.tool(id='call_1', name='f'):
                pass
            self.answer(messages=[{'role': 'assistant', 'tool_calls': [{'id': 'call_1'}]}, {'role': 'tool', 'tool_call_id': 'call_1'}])
            self.assertEqual(self.spans[0].name, 'execute_tool f')

    def test_outcomes(self):
        for act, want in (
            (lambda t: None, ('succeeded', None)), (lambda t: t.failed(), ('failed', 'tool_error')), (lambda t: t.rejected(), ('rejected', 'rejected')),
            (lambda t: t.invalid_input(), ('invalid_input', 'invalid_input')), (lambda t: 1 / 0, ('failed', 'ZeroDivisionError')),
            (lambda t: (_ for _ in ()).throw(TimeoutError()), ('timed_out', 'TimeoutError')),
            (lambda t: (_ for _ in ()).throw(facts.Abort('user')), ('interrupted', None)),
        ):
            self.spans.clear()
            with contextlib.suppress(ZeroDivisionError, TimeoutError, facts.Abort), facts.tool(id='call_1', name='f') as tool:
                act(tool)
            self.assertEqual((self.one('exec')['llm.tool.outcome'], self.one('exec')['error.type']), want)

    def test_effects(self):
        class Annotations:
            readOnlyHint = None
            openWorldHint = True
        self.assertEqual([facts.effect_of(a) for a in (None, {'readOnlyHint': False}, {'readOnlyHint': True, 'destructiveHint': True},
                                                       {'idempotentHint': True, 'destructiveHint': True}, Annotations())],
                         ['unknown', 'unknown', 'read_only', 'idempotent', 'non_idempotent'])

    def test_a_stream_without_a_reader_ends_with_its_run(self):
        with facts.run('coder'):
            response = client([chunk({'content': 'x'})]).send(httpx.Request('POST', URL, json=ask()), stream=True)
        self.assertEqual((self.one()['llm.stream.end'], self.one()['llm.abort.source']), ('abandoned', 'consumer'))
        response.close()

    def test_the_source_of_an_abort(self):
        for abort, source in ((facts.Abort('user', 'stop_button'), 'user'), (facts.Abort('CANARY'), 'unknown'), (KeyboardInterrupt(), 'shutdown')):
            self.spans.clear()
            with contextlib.suppress(facts.Abort, KeyboardInterrupt), facts.run('coder'):
                with client([chunk({'content': 'x'})] * 2).stream('POST', URL, json=ask()) as response:
                    for _ in response.iter_raw():
                        raise abort
            for span in self.spans:
                self.assertEqual(span['llm.abort.source'], source)
            self.assertEqual(self.one()['llm.stream.end'], 'cancelled')

    def test_a_watchdog_of_one_attempt(self):
        with facts.run('coder'):
            with contextlib.suppress(RuntimeError), facts.stoppable() as attempt:
                with client([chunk({'content': 'x'})] * 2).stream('POST', URL, json=ask()) as response:
                    for _ in response.iter_raw():
                        attempt.abort('watchdog', 'idle', limit=30)
                        raise RuntimeError
            self.answer()
        first, second, run = self.spans
        self.assertEqual((first['llm.stream.end'], first['llm.watchdog.kind'], first['llm.watchdog.limit']), ('watchdog', 'idle', 30))
        self.assertEqual((second['llm.stream.end'], run['llm.abort.source'], run.failed), ('terminal_event', None, False))

    def test_threads(self):
        with facts.run('coder') as run:
            def work():
                self.answer()  # the thread does not have the run's context
                with run.attach():
                    self.answer()
            threads = [threading.Thread(target=work) for _ in range(20)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        self.assertEqual(sum(s['llm.run.id'] is not None for s in self.spans if s.name.startswith('chat')), 20)
        self.assertEqual(self.one('invoke_agent')['llm.run.requests'], 20)


class Asyncio(Case):
    def client(self, chunks, forever=False):
        class Async(httpx.AsyncByteStream):
            async def __aiter__(self):
                for c in chunks:
                    yield c
                if forever:
                    await asyncio.Event().wait()

        async def answer(request):
            return httpx.Response(200, headers={'content-type': 'text/event-stream'}, stream=Async())
        return httpx.AsyncClient(transport=facts.AsyncFactsTransport(httpx.MockTransport(answer)))

    async def read(self, c):
        async with c.stream('POST', URL, json=ask()) as response:
            async for _ in response.aiter_raw():
                pass

    def test_a_deadline_is_known_by_the_run(self):
        async def agent():
            async with facts.run('coder'):
                await asyncio.wait_for(self.read(self.client([chunk({'content': 'x'})], True)), 0.05)
        with self.assertRaises(asyncio.TimeoutError):
            asyncio.run(agent())
        self.assertEqual([s['llm.abort.source'] for s in self.spans], ['deadline', 'deadline'])

    def test_cancelled_tasks(self):
        async def agent(declared):
            async with facts.run('coder') as run:
                task = asyncio.create_task(self.read(self.client([chunk({'content': 'x'})], True)))
                await asyncio.sleep(0.02)
                if declared:
                    run.abort('user', 'stop_button')
                task.cancel()
                await task
        for declared, source in ((True, 'user'), (False, 'unknown')):
            self.spans.clear()
            with self.assertRaises(asyncio.CancelledError):
                asyncio.run(agent(declared))
            self.assertEqual([s['llm.abort.source'] for s in self.spans], [source, source])
            self.assertEqual(self.one()['llm.stream.end'], 'cancelled')

    def test_many_tasks_have_their_own_runs(self):
        async def agent(i):
            async with facts.run(f'a{i}') as run:
                await asyncio.gather(*(self.read(self.client([chunk({}, 'stop'), DONE])) for _ in range(3)))
                return run.trace_id

        async def main():
            return await asyncio.gather(*(agent(i) for i in range(30)))
        self.assertEqual(len(set(asyncio.run(main()))), 30)
        self.assertEqual({s['llm.run.requests'] for s in self.spans if s.name.startswith('invoke')}, {3})


class Server(http.server.ThreadingHTTPServer):
    """Serves the chunks of `bodies`, one a request, over a real connection."""

    daemon_threads = True

    def __init__(self, chunks, handler=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self):
                self.rfile.read(int(self.headers['content-length']))
                self.send_response(200)
                self.send_header('content-type', 'text/event-stream')
                self.send_header('transfer-encoding', 'chunked')
                self.end_headers()
                for c in chunks:
                    self.wfile.write(b'%x\r\n%b\r\n' % (len(c), c))
                self.wfile.write(b'0\r\n\r\n')

            def log_message(self, *_):
                pass
        super().__init__(('127.0.0.1', 0), handler or Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f'http://127.0.0.1:{self.server_address[1]}'

    def handle_error(self, *_):
        pass  # a client that leaves

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Aiohttp(Case):
    whole = chunk({'content': 'h\u00e4llo'}) + chunk({}, 'stop') + DONE

    def read(self, how, chunks=None):
        async def main(url):
            async with aiohttp.ClientSession(trace_configs=[facts.trace_config()]) as session:
                async with session.post(url + '/v1/chat/completions', json=ask()) as response:
                    return await how(response)
        with Server(chunks or [self.whole[i:i + 7] for i in range(0, len(self.whole), 7)]) as server:
            return asyncio.run(main(server.url))

    def test_every_way_of_reading(self):
        async def lines(r):
            return b''.join([x async for x in r.content])

        async def chunked(r):
            return b''.join([x async for x in r.content.iter_chunked(5)])

        async def chunks(r):
            return b''.join([x async for x, _ in r.content.iter_chunks()])

        async def anything(r):
            return b''.join([x async for x in r.content.iter_any()])

        async def exactly(r):
            return await r.content.readexactly(len(self.whole))

        async def until(r):
            found = b''
            while not r.content.at_eof():
                found += await r.content.readuntil(b'\n\n')
            return found

        async def text(r):
            self.assertIsInstance(r.content, aiohttp.StreamReader)
            return (await r.text()).encode()
        for how in (lines, chunked, chunks, anything, exactly, until, text, lambda r: r.read(), lambda r: r.content.read()):
            self.spans.clear()
            self.assertEqual(self.read(how), self.whole)
            self.assertEqual((self.one()['llm.stream.end'], self.one()['llm.stream.text_chunks'], self.one()['gen_ai.request.model']), ('terminal_event', 1, 'm'))
            self.assertEqual(self.one()['llm.connection.reused'], False)

    def test_a_reader_that_leaves(self):
        async def some(r):
            async for x in r.content.iter_any():
                return x
        self.read(some, [chunk({'content': 'x'})] + [b': more\n\n' * 100] * 2000)
        self.assertEqual(self.one()['llm.stream.end'], 'consumer_closed')

    def test_the_total_timeout_of_aiohttp_is_a_watchdog(self):
        class Stall(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.send_response(200)
                self.send_header('content-type', 'text/event-stream')
                self.end_headers()
                self.wfile.write(chunk({'content': 'x'}))
                self.wfile.flush()
                time.sleep(3)

            def log_message(self, *_):
                pass

        async def main(url):
            async with aiohttp.ClientSession(trace_configs=[facts.trace_config()], timeout=aiohttp.ClientTimeout(total=1)) as session:
                async with session.post(url + '/v1/chat/completions', json=ask()) as response:
                    await response.read()
        with Server(None, Stall) as server, self.assertRaises(asyncio.TimeoutError):
            asyncio.run(main(server.url))
        self.assertEqual((self.one()['llm.stream.end'], self.one()['llm.watchdog.kind'], self.one()['llm.watchdog.limit']), ('watchdog', 'total', 1))


class Sending(unittest.TestCase):
    """Programs of their own, since what is tried is the end of a process, a fork, or what does not answer."""

    def program(self, text, endpoint, timeout=20, **env):
        before = textwrap.dedent('''
            import httpx, json, os, sys, threading, time
            import otelllm_facts as facts
            def answer(request):
                return httpx.Response(200, headers={'content-type': 'text/event-stream'},
                                      stream=httpx.ByteStream(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\\n\\ndata: [DONE]\\n\\n'))
            client = httpx.Client(transport=facts.FactsTransport(httpx.MockTransport(answer)))
            def ask():
                began = time.perf_counter()
                client.post('https://m/v1/chat/completions', json={'model': 'm', 'stream': True, 'messages': []})
                return time.perf_counter() - began
        ''')
        began = time.perf_counter()
        done = subprocess.run([sys.executable, '-c', before + textwrap.dedent(text)], cwd=HERE, capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, 'OTEL_EXPORTER_OTLP_ENDPOINT': endpoint, 'OTEL_SERVICE_NAME': 'tested', 'PYTHONDONTWRITEBYTECODE': '1', **env})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('Traceback', done.stderr)
        return done, time.perf_counter() - began

    def collector(self, statuses=()):
        statuses = list(statuses)

        class Collector(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers['content-length'])))
                status = statuses.pop(0) if statuses else 200
                if status == 200:
                    server.got += [(rs['resource'], s) for rs in body['resourceSpans'] for ss in rs['scopeSpans'] for s in ss['spans']]
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b'{}')

            def log_message(self, *_):
                pass
        server = Server(None, Collector)
        server.got = []
        return server

    def test_everything_arrives_when_the_process_ends(self):
        with self.collector([503]) as server:
            self.program("""
                with facts.run('coder'):
                    for _ in range(700):
                        ask()
                facts.flush(); time.sleep(1.5)
            """, server.url)
            self.assertEqual(len({s['spanId'] for _, s in server.got}), 701)
            self.assertEqual(len(server.got), 701)
            self.assertEqual(server.got[0][0]['attributes'], [{'key': 'service.name', 'value': {'stringValue': 'tested'}}])

    def test_no_collector(self):
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            done, took = self.program("""
                with facts.run('coder'):
                    for _ in range(10000):
                        ask()
                assert facts._sender.spans <= 2048 and facts._sender.bytes <= 8 << 20
                assert facts._sender.dropped > 0
            """, f'http://127.0.0.1:{free.getsockname()[1]}', timeout=60)
        self.assertEqual(done.stderr.count('could not be sent'), 1)

    def test_a_collector_that_does_not_answer(self):
        with socket.create_server(('127.0.0.1', 0)) as silent:
            done, took = self.program("""
                with facts.run('coder'):
                    worst = max(ask() for _ in range(3000))
                assert worst < 1, worst
            """, f'http://127.0.0.1:{silent.getsockname()[1]}', timeout=60, OTEL_BSP_SCHEDULE_DELAY='10')
        self.assertLess(took, 30)

    def test_without_clients(self):
        blocked = "import sys; sys.modules['httpx'] = sys.modules['aiohttp'] = None; import otelllm_facts as f\nwith f.run('a'), f.tool(name='t'): pass"
        subprocess.run([sys.executable, '-c', blocked], cwd=HERE, check=True, env={**os.environ, 'OTEL_TRACES_EXPORTER': 'none', 'PYTHONDONTWRITEBYTECODE': '1'})

    def test_forks(self):
        with self.collector() as server:
            self.program("""
                with facts.run('coder'):
                    with facts.tool(id='call_1', name='f'):
                        ask()
                    pid = os.fork()
                    if pid == 0:
                        with facts.run('child'):
                            ask()
                        facts.shutdown()
                        os._exit(0)
                    assert os.waitpid(pid, 0)[1] == 0
                    pid = os.fork()
                    if pid == 0:
                        sys.exit(0)  # it leaves the run of its parent
                    assert os.waitpid(pid, 0)[1] == 0
            """, server.url)
            names = sorted(s['name'] for _, s in server.got)
            self.assertEqual(names, ['chat m', 'chat m', 'execute_tool f', 'invoke_agent child', 'invoke_agent coder'])

    def test_a_dropped_stream_at_the_end_of_the_process(self):
        with self.collector() as server:
            self.program("""
                whole = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\\n\\n'
                client = httpx.Client(transport=facts.FactsTransport(httpx.MockTransport(
                    lambda _: httpx.Response(200, headers={'content-type': 'text/event-stream'}, stream=httpx.ByteStream(whole)))))
                request = client.build_request('POST', 'https://m/v1/chat/completions', json={'model': 'm'})
                def leave():
                    for _ in client.send(request, stream=True).iter_raw():
                        break
                leave()
            """, server.url)
            self.assertEqual(len(server.got), 1)
            self.assertIn('"consumer_closed"', json.dumps(server.got[0][1]))

    def test_disabled(self):
        with self.collector() as server:
            self.program("ask()", server.url, OTEL_SDK_DISABLED='true')
            self.program("ask()", server.url, OTEL_TRACES_EXPORTER='none')
            self.assertEqual(server.got, [])

    def test_wrong_settings(self):
        for endpoint in ('nonsense', 'http://[', 'http://127.0.0.1:99999'):
            done, _ = self.program("ask()", endpoint)
            self.assertEqual(done.stderr.count('could not be sent'), 1, endpoint)
        with self.collector() as server:
            for delay in ('nan', '-1', 'inf', 'soon'):
                done, _ = self.program("ask(); time.sleep(0.3); assert time.process_time() < 2", server.url, OTEL_BSP_SCHEDULE_DELAY=delay,
                                       OTEL_EXPORTER_OTLP_TIMEOUT=delay)
            self.assertEqual(len(server.got), 4)


class Judging(Case):
    fake = [sys.executable, '-c', textwrap.dedent('''
        import json, sys
        for line in sys.stdin:
            line = json.loads(line)
            if line.get("answer"):
                print(json.dumps({"ref": line["ref"], "verdict": {"llm.retry.safety": "no_retry"}}), flush=True)
    ''')]

    def test_what_cannot_answer_gives_no_verdict(self):
        for command in (['/nonexistent/otelllm'], [sys.executable, '-c', 'pass'], [sys.executable, '-c', 'print("nothing"); input(); input()'],
                        [sys.executable, '-c', 'import time; time.sleep(9)']):
            judge = facts.Judge(command)
            with facts.run('coder', judge=judge) as run:
                began = time.perf_counter()
                post(client([chunk({}, 'stop'), DONE]))
                self.assertIsNone(run.verdict(0.3))
                self.assertLess(time.perf_counter() - began, 2)
            judge.close(0.1)

    def test_a_judge_that_reads_nothing_is_given_up(self):
        judge = facts.Judge([sys.executable, '-c', 'import time; time.sleep(9)'])
        with facts.run('coder', judge=judge) as run:
            for _ in range(3000):
                post(client([chunk({}, 'stop'), DONE]))
            self.assertTrue(judge.dead)
            self.assertIsNone(run.verdict(0.1))
        judge.close(0.1)

    def test_an_answer(self):
        judge = facts.Judge(self.fake)
        with facts.run('coder', judge=judge) as run:
            self.assertEqual(run.verdict(5)['verdict']['llm.retry.safety'], 'no_retry')
        judge.close()

    @unittest.skipUnless(os.environ.get('OTELLLM_BIN'), 'LEFT OUT: OTELLLM_BIN names no otelllm')
    def test_otelllm(self):
        for where in ('child', 'socket'):
            with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
                if where == 'child':
                    judge = facts.Judge([os.environ['OTELLLM_BIN'], 'judge'])
                else:
                    path = os.path.join(folder, 'judge.sock')
                    process = subprocess.Popen([os.environ['OTELLLM_BIN'], 'judge', '--socket', path], stderr=subprocess.DEVNULL)
                    stack.callback(process.wait)
                    stack.callback(process.terminate)
                    until = time.monotonic() + 10
                    while not os.path.exists(path) and time.monotonic() < until:
                        time.sleep(0.01)
                    judge = facts.Judge(socket_path=path)
                with facts.run('coder', judge=judge, tools_recorded=True) as run:
                    error = httpx.ReadError('')
                    error.__cause__ = ConnectionResetError(104, '')
                    with contextlib.suppress(httpx.ReadError):
                        post(client([chunk({'role': 'assistant'})], error))
                    answer = run.verdict(5)
                    self.assertEqual(answer['part']['llm.retry.safety'], 'safe_auto_retry')
                    self.assertEqual(answer['verdict']['llm.failure.class'], 'stream_interrupted')
                    with facts.tool(id='call_1', name='pay', effect='non_idempotent'):
                        pass
                    self.assertEqual(run.verdict(5)['verdict']['llm.retry.safety'], 'user_confirmed_retry')
                judge.close()


class FakeSDK(Case):
    """The part of OpenTelemetry's API that the helper uses, in place of the SDK, which Debian does not have."""

    def test_spans_go_through_the_application_s_provider(self):
        class SpanContext:
            is_valid = True

            def __init__(self, n):
                self.trace_id, self.span_id = 7, n

        class OtelSpan:
            def __init__(self, name, parent):
                made.append(self)
                self.name, self.parent, self.attributes, self.status, self.ended, self.n = name, parent, {}, None, None, len(made)

            def get_span_context(self):
                return SpanContext(self.n)

            def set_attributes(self, attributes):
                self.attributes.update(attributes)

            def set_attribute(self, key, value):
                self.attributes[key] = value

            def set_status(self, status):
                self.status = status

            def update_name(self, name):
                self.name = name

            def end(self, end_time):
                self.ended = end_time

        class Api:
            class SpanKind:
                CLIENT, INTERNAL = 3, 1

            class StatusCode:
                ERROR = 2
            stack = []

            def get_tracer_provider():
                return Provider()

            def get_current_span():
                return Api.stack[-1]

            @contextlib.contextmanager
            def use_span(span, **_):
                Api.stack.append(span)
                yield span
                Api.stack.pop()

        class Provider:
            def get_tracer(self, name):
                return self

            def start_span(self, name, context, kind, start_time):
                return OtelSpan(name, Api.stack[-1] if Api.stack else None)
        made, was = [], facts.otel
        facts.otel = Api
        try:
            with self.assertRaises(ZeroDivisionError), facts.run('coder') as run:
                self.assertEqual(run.trace_id, f'{7:032x}')
                post(client([chunk({}, 'stop'), DONE]))
                raise ZeroDivisionError
        finally:
            facts.otel = was
        self.assertEqual([(s.name, s.parent and s.parent.name) for s in made], [('invoke_agent coder', None), ('chat m', 'invoke_agent coder')])
        self.assertEqual((made[0].attributes['error.type'], made[0].status), ('ZeroDivisionError', 2))
        self.assertEqual(made[1].attributes['llm.stream.end'], 'terminal_event')
        self.assertTrue(all(s.ended for s in made))
        self.assertEqual((Api.stack, self.spans), ([], []))


if __name__ == '__main__':
    unittest.main()
