"""Runs the agents of a list of tasks concurrently, over one client, and prints a line of JSON for each:

    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 python3 run.py httpx tasks.json

The clients are httpx, httpx-sync and aiohttp.
"""

import asyncio
import concurrent.futures
import contextlib
import errno
import json
import os
import sys
import threading

import aiohttp
import httpx

import otelllm_facts as facts
from lib import agent, reader


def seconds(task, name, otherwise):
    limit = (task.get('timeouts') or {}).get(name)
    return limit / 1000 if limit else otherwise


def httpx_timeouts(task):
    return httpx.Timeout(600, connect=seconds(task, 'connect', 5), read=seconds(task, 'headers', seconds(task, 'body', 600)))


def aiohttp_timeouts(task):
    return aiohttp.ClientTimeout(total=600, sock_connect=seconds(task, 'connect', 5), sock_read=seconds(task, 'headers', seconds(task, 'body', 600)))


def run_of(task):
    return facts.run('coder', conversation_id='thread-' + task['name'], tools_recorded=True, judge=judge)


class LostError(ConnectionError):
    """The channel over which outputs are sent, beside the requests, is gone."""


async def agent_async(task, run, events):
    """An agent in asyncio. events asks the model."""
    model, me = agent.conversation(task), asyncio.current_task()
    for _ in range(agent.MAX_TURNS):
        try:
            with facts.stoppable() as attempt:
                calls = await ask_async(task, run, events, model, me, attempt)
        except asyncio.CancelledError:
            if task.get('abortOn') != 'attempt':
                raise
            me.uncancel()
            calls = await ask_async({**task, 'abortOn': None}, run, events, model, me, None)
        if not calls:
            return
        for call in calls:
            json.loads(call['input'])  # partial input ends the run
            try:
                with facts.tool(id=call['id'], name=call['name'], effect=agent.TOOLS[call['name']][0]) as tool:
                    output = await execute_async(task, run, call, me)
            except Exception as error:
                if task.get('endOnToolFailure'):
                    raise
                output = f'the tool failed: {type(error).__name__}'
            deliver(task, tool)
            model.output(call, output)


async def ask_async(task, run, events, model, me, attempt):
    """One request. Return the calls, or None if the reader stopped reading."""
    model.begin()
    async with contextlib.aclosing(events(model.body())) as stream:
        text = await show(stream, model)
        if text:
            how = task.get('abortOn')
            if how == 'text':
                run.abort('user', 'stop_button')
                me.cancel()
            elif how == 'watchdog':
                watch(run, me)
            elif how == 'attempt':
                watch(attempt, me)
            if task.get('stopReading'):
                return None
            limit = task.get('deadline')
            while text:
                text = await asyncio.wait_for(show(stream, model), limit and limit / 1000)
    return model.calls()


async def show(stream, model):
    """Read up to the next text. Return None at the end of the stream."""
    async for event in stream:
        text = model.take(event)
        if text:
            return text
    return None


def watch(stopped, me):
    """The application's own watchdog: it stops what hears nothing for 100 ms."""
    def fire():
        stopped.abort('watchdog', 'idle', limit=0.1)
        me.cancel()
    asyncio.get_running_loop().call_later(0.1, fire)


def deliver(task, tool):
    """Outputs of realtime sessions go beside the requests."""
    if task.get('tool') == 'unsent':
        tool.output_failed(LostError())
        raise LostError
    if task.get('tool') == 'sent':
        tool.output_failed(LostError())
        tool.output_cached()
        tool.output_sent()


async def execute_async(task, run, call, me):
    if call['name'] == 'read_file':
        return 'package main'
    if task.get('tool') == 'throws':
        raise agent.PatchError('the file has changed since')
    if task.get('abortOn') == 'tool':
        run.abort('user', 'stop_button')
        me.cancel()
    if task.get('tool') == 'waits':
        await asyncio.Event().wait()
    return 'patched'


def agent_sync(task, run, client):
    """An agent in a thread. What stops it is declared and then raised."""
    model = agent.conversation(task)
    for _ in range(agent.MAX_TURNS):
        model.begin()
        with contextlib.closing(reader.read(client, task['baseURL'], task['api'], model.body(), task.get('maxRetries', 0))) as stream:
            for event in stream:
                if not model.take(event):
                    continue
                if task.get('abortOn') == 'text':
                    raise facts.Abort('user', 'stop_button')
                if task.get('abortOn') == 'watchdog':
                    raise facts.Abort('watchdog', 'idle', limit=0.1)
                if task.get('stopReading'):
                    return
        calls = model.calls()
        if not calls:
            return
        for call in calls:
            json.loads(call['input'])
            try:
                with facts.tool(id=call['id'], name=call['name'], effect=agent.TOOLS[call['name']][0]) as tool:
                    output = execute_sync(task, run, call)
            except facts.Abort:
                raise
            except Exception as error:
                if task.get('endOnToolFailure'):
                    raise
                output = f'the tool failed: {type(error).__name__}'
            deliver(task, tool)
            model.output(call, output)


def execute_sync(task, run, call):
    if call['name'] == 'read_file':
        return 'package main'
    if task.get('tool') == 'throws':
        raise agent.PatchError('the file has changed since')
    if task.get('tool') == 'waits':
        stop = threading.Event()
        if task.get('abortOn') == 'tool':
            threading.Timer(0.05, lambda: (run.abort('user', 'stop_button'), stop.set())).start()
        stop.wait()
        raise facts.Abort('user', 'stop_button')
    return 'patched'


async def over_httpx(task, run):
    async with facts.watch(httpx.AsyncClient(timeout=httpx_timeouts(task))) as client:
        await agent_async(task, run, lambda body: reader.read_async(client, task['baseURL'], task['api'], body, task.get('maxRetries', 0)))


async def over_aiohttp(task, run):
    async with aiohttp.ClientSession(timeout=aiohttp_timeouts(task), trace_configs=[facts.trace_config()]) as session:
        await agent_async(task, run, lambda body: reader.read_aiohttp(session, task['baseURL'], task['api'], body, task.get('maxRetries', 0)))


def print_result(task, run, saw):
    line = {'name': task['name'], 'trace': run.trace_id, 'saw': saw}
    if judge is not None:
        answer = verdicts.pop(task['name'], None)
        line['live'] = answer and answer['verdict']
    sys.stdout.write(json.dumps(line) + '\n')
    sys.stdout.flush()


def chain(error):
    """The names of an error and its causes, the outermost first."""
    names = []
    while error is not None and len(names) < 5:
        code = errno.errorcode.get(getattr(error, 'errno', None))
        names.append(type(error).__name__ + (f':{code}' if code else ''))
        error = error.__cause__
    return names


async def work(task, over):
    run, saw = run_of(task), []
    try:
        async with run:
            try:
                await over(task, run)
            finally:
                if judge is not None:
                    verdicts[task['name']] = await asyncio.to_thread(run.verdict, 5)
    except (Exception, asyncio.CancelledError) as error:
        saw = chain(error)
    print_result(task, run, saw)


async def work_all(tasks, over):
    await asyncio.gather(*(asyncio.create_task(work(task, over)) for task in tasks))


def work_sync(task):
    run, saw = run_of(task), []
    try:
        with run:
            try:
                with facts.watch(httpx.Client(timeout=httpx_timeouts(task))) as client:
                    agent_sync(task, run, client)
            finally:
                if judge is not None:
                    verdicts[task['name']] = run.verdict(5)
    except Exception as error:
        saw = chain(error)
    print_result(task, run, saw)


judge = facts.Judge([os.environ['OTELLLM_BIN'], 'judge']) if os.environ.get('OTELLLM_BIN') else None
verdicts = {}

if __name__ == '__main__':
    with open(sys.argv[2]) as file:
        todo = json.load(file)
    if sys.argv[1] == 'httpx-sync':
        with concurrent.futures.ThreadPoolExecutor(max(1, len(todo))) as pool:
            list(pool.map(work_sync, todo))
    else:
        asyncio.run(work_all(todo, {'httpx': over_httpx, 'aiohttp': over_aiohttp}[sys.argv[1]]))
    facts.shutdown(20)
    if judge is not None:
        judge.close()
