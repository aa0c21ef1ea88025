"""Model calls under otelllm.retry and otelllm.retry_turn, for the tests of examples/retry: python3 retry_agent.py <TASKS, a JSON object a line. It prints a
line with what happened for each.

    {"name", "url", "wire"}                one call, one attempt: the verdict
    {"name", "url", "wire", "seed", …}     an agent that pays invoices while its model calls break: what it paid, and what it asked. Its
                                           loop is around each call, or around the turn

The wires are chat and messages, and chat-async and messages-async over httpx.AsyncClient. The SDKs are not here: lib/reader.py stands
for them.
"""

import asyncio
import concurrent.futures
import contextlib
import json
import random
import sys

import httpx

import otelllm
from lib import reader


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def body_of(api, history):
    tools = [{'name': 'pay', 'input_schema': {'type': 'object'}}]
    messages = [{'role': 'user', 'content': 'pay'}]
    for call in history:
        if api == 'messages':
            messages.append({'role': 'assistant', 'content': [{'type': 'tool_use', 'id': call['id'], 'name': 'pay', 'input': json.loads(call['input'])}]})
            messages.append({'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': call['id'], 'content': 'paid'}]})
        else:
            function = {'name': 'pay', 'arguments': call['input']}
            messages.append({'role': 'assistant', 'tool_calls': [{'id': call['id'], 'type': 'function', 'function': function}]})
            messages.append({'role': 'tool', 'tool_call_id': call['id'], 'content': 'paid'})
    if api != 'messages':
        tools = [{'type': 'function', 'function': {'name': 'pay', 'parameters': {'type': 'object'}}}]
    return {'model': 'm', 'max_tokens': 100, 'stream': True, 'messages': messages, 'tools': tools}


def take(api, event, indices, on):
    """Give what an event has to on: text(), and the pieces of calls by piece(index, id, input)."""
    if api != 'messages':
        for choice in event.get('choices', [])[:1]:
            if choice.get('delta', {}).get('content'):
                on.text()
            for call in choice.get('delta', {}).get('tool_calls') or ():
                on.piece(call['index'], call.get('id') or '', call.get('function', {}).get('arguments') or '')
    elif event['type'] == 'content_block_start' and event['content_block']['type'] == 'tool_use':
        indices[event['index']] = len(indices)
        on.piece(indices[event['index']], event['content_block']['id'], '')
    elif event['type'] == 'content_block_delta' and event['delta']['type'] == 'text_delta':
        on.text()
    elif event['type'] == 'content_block_delta' and event['delta']['type'] == 'input_json_delta':
        on.piece(indices[event['index']], '', event['delta']['partial_json'])


class Model:
    """What an application does over an SDK: one model call."""

    def __init__(self, task, transport=None):
        self.api, _, kind = task['wire'].partition('-')
        self.url, self.sdk, self.transport, self.is_async = task['url'], task.get('sdk', 0), transport, kind == 'async'

    def retry(self, policy, history, on, after=lambda: None, again=otelllm.retry, again_async=otelllm.retry_async):
        """Make a call under retry, or under what is given. Whatever is sent and read again begins with on.begin(), and ends with on.end()."""
        def whole(events):
            with on:
                indices = {}
                with contextlib.closing(events) as stream:
                    for event in stream:
                        take(self.api, event, indices, on)
                return after()

        async def whole_async(events):
            with on:
                indices = {}
                async with contextlib.aclosing(events) as stream:
                    async for event in stream:
                        take(self.api, event, indices, on)
                return after()

        async def calls():
            async with httpx.AsyncClient(transport=otelllm.AsyncTransport(self.transport or httpx.AsyncHTTPTransport(verify=False)), timeout=60) as client:
                return await again_async(policy, lambda: whole_async(
                    reader.read_async(client, self.url, self.api, body_of(self.api, history), self.sdk)))
        if self.is_async:
            return asyncio.run(calls())
        with httpx.Client(transport=otelllm.Transport(self.transport or httpx.HTTPTransport(verify=False)), timeout=60) as client:
            return again(policy, lambda: whole(reader.read(client, self.url, self.api, body_of(self.api, history), self.sdk)))


class Nothing(contextlib.nullcontext):
    def text(self):
        pass

    def piece(self, *_):
        pass


def cell(task):
    """One call with one attempt."""
    try:
        Model(task).retry(otelllm.RetryPolicy(attempts=1, budget=otelllm.RetryBudget()), [], Nothing())
    except otelllm.RetryError as error:
        return {'verdict': error.verdict, 'decision': error.decision, 'cause': type(error.__cause__).__name__}
    except Exception as error:
        return {'own': type(error).__name__}
    return {}


def once(policy, call):
    return call()


class Schedule(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """An agent with what it really did. It is the transport of its own client as well: some requests go where none is answered."""

    def __init__(self, task):
        self.task, self.random = task, random.Random(task['seed'])
        self.history, self.paid, self.asked, self.early, self.most, self.sent, self.error = [], {}, 0, 0, 0, 0, None
        self.tries = 0  # of the turn
        self.due = 0  # questions after which something would have been repeated
        self.unknown = 0  # those of which the client cannot know that: it has a call that could be executed, of a tool that is not recorded
        self.unasked = 0  # attempts that repeated something, and that no one was asked about
        self.now = self.not_before = 0.0  # by a clock that only waiting moves
        self.shown = self.dropped = self.ready = self.open = False
        self.model = Model(task, self)
        self.inner = httpx.AsyncHTTPTransport(verify=False) if self.model.is_async else httpx.HTTPTransport(verify=False)
        self.attempts = self.random.randrange(2, 6)
        self.refusals = 0 if task.get('quick') else self.random.randrange(3)
        self.policy = otelllm.RetryPolicy(attempts=self.attempts, elapsed=60, budget=otelllm.RetryBudget(), random=self.random.random,
                                          now=lambda: self.now, sleep=self.sleep, ask=self.ask)

    def sleep(self, seconds):
        self.now += seconds

    def ask(self, failure):
        self.asked += 1
        if self.shown or self.dropped:
            self.due += 1
        elif self.ready and not self.task.get('declared'):
            self.unknown += 1
        self.open = False
        return not self.dropped

    def before(self, request):
        self.sent += 1
        if self.now < self.not_before:
            self.early += 1
        self.not_before = 0.0
        if self.refusals and self.random.random() < 0.1:
            self.refusals -= 1
            host, _, port = self.task['closed'].partition(':')
            return httpx.Request(request.method, request.url.copy_with(host=host, port=int(port)), content=request.content, extensions=request.extensions)
        return request

    def after(self, response):
        self.not_before = self.now + float(response.headers.get('retry-after', 0))
        return response

    def handle_request(self, request):
        return self.after(self.inner.handle_request(self.before(request)))

    async def handle_async_request(self, request):
        return self.after(await self.inner.handle_async_request(self.before(request)))

    def close(self):
        pass

    async def aclose(self):
        await self.inner.aclose()
        self.inner = httpx.AsyncHTTPTransport(verify=False)  # each call has an event loop of its own

    def work(self):
        try:
            if self.task.get('declared'):
                with otelllm.run('schedule', tools_recorded=True):
                    self.loop()
            else:
                self.loop()
        except otelllm.RetryError as error:
            self.error = error.decision
        except Exception as error:
            self.error = type(error).__name__
        return {name: getattr(self, name) for name in ('paid', 'asked', 'due', 'unknown', 'unasked', 'early', 'most', 'attempts', 'error')}

    def loop(self):
        if self.task.get('loop') != 'turns':
            self.turn()
            return

        def turn():
            self.tries += 1
            self.turn(again=once, again_async=once)
        otelllm.retry_turn(self.policy, turn)

    def turn(self, **again):
        for _ in range(20):
            sent = self.sent
            try:
                calls = self.model.retry(self.policy, self.history, self, self.calls, **again)
            finally:
                self.most = max(self.most, self.tries or self.sent - sent)
            self.open = self.dropped = False  # the calls are in the history from now on
            if not calls:
                return
            for call in calls:
                if not self.task.get('eager'):
                    self.pay(call)
                self.history.append(call)

    # One attempt. An eager agent executes calls on the way; what they returned is lost if the answer breaks.

    def __enter__(self):
        self.unasked += self.open
        self.shown = self.dropped = self.ready = self.open = False
        self.pieces = {}
        return self

    def __exit__(self, *_):
        self.open = self.shown or self.dropped
        return False

    def text(self):
        self.shown = True

    def piece(self, index, id, part):
        call = self.pieces.setdefault(index, {'id': '', 'input': ''})
        call['id'] += id
        call['input'] += part
        if call.get('done') or not is_json(call['input']):
            return
        call['done'] = self.ready = True
        if self.task.get('eager'):
            self.dropped = True
            self.pay(call)

    def calls(self):
        calls = list(self.pieces.values())
        self.ready = bool(calls)  # without an error clients have it for complete, and some repair the input
        if not all(is_json(call['input']) for call in calls):
            raise ValueError('the arguments are not JSON')
        return calls

    def pay(self, call):
        invoice = json.loads(call['input'])['invoice']
        if self.task.get('declared'):
            with otelllm.tool(id=call['id'], name='pay', effect=self.task['effect']):
                self.paid[invoice] = self.paid.get(invoice, 0) + 1
        else:
            self.paid[invoice] = self.paid.get(invoice, 0) + 1


def work(line):
    task = json.loads(line)
    result = cell(task) if 'seed' not in task else Schedule(task).work()
    return json.dumps({'name': task['name'], **{k: v for k, v in result.items() if v is not None}})


async def warm():
    """anyio imports what httpx needs of it with the first request, and two threads that do so at the same time fail."""
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(verify=False)) as client:
        with contextlib.suppress(httpx.ConnectError):
            await client.get('http://127.0.0.1:1/')


if __name__ == '__main__':
    asyncio.run(warm())
    with concurrent.futures.ThreadPoolExecutor(16) as pool:  # some of them wait
        for result in pool.map(work, sys.stdin):
            print(result)
