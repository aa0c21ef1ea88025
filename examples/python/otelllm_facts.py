"""What happened to each model request, on spans of its own: the facts of docs/reference/attributes.md, from
which llm_classify makes its verdicts. It needs the standard library, and httpx, httpx2 or aiohttp; copy this file and
otelllm_catalogue.py.

    import otelllm_facts as facts

    client = OpenAI(http_client=facts.watch(httpx.Client()))        # or Anthropic; AsyncOpenAI with httpx.AsyncClient
    session = aiohttp.ClientSession(trace_configs=[facts.trace_config()])

    with facts.run('coder', conversation_id=thread_id) as run:      # run.abort('user', 'stop_button') where it is stopped
        stream = client.chat.completions.create(...)
        ...
        with facts.tool(id=call.id, name=call.name, effect='non_idempotent'):
            apply_patch(call.input)

Spans go through OpenTelemetry's SDK if the application has set one up, and otherwise as OTLP/HTTP JSON to
OTEL_EXPORTER_OTLP_ENDPOINT, http://localhost:4318 by default, from a thread of this module. The service's name is
OTEL_SERVICE_NAME.

It supports OpenAI's Chat Completions and Responses and Anthropic's Messages, streamed or not. The bytes, errors and
timing of a response do not change: it is read when the client reads it, and input that the recording cannot follow
ends only the recording. Names, counts, ids, times and codes are recorded, but no content. All that it keeps is bounded.
"""

from __future__ import annotations

import asyncio
import atexit
import codecs
import collections
import contextlib
import contextvars
import datetime
import email.utils
import errno
import hashlib
import heapq
import http.client
import itertools
import json
import logging
import math
import os
import queue
import random
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
import weakref
import zlib

try:
    from . import otelllm_catalogue  # both files in a package
except ImportError:
    import otelllm_catalogue

try:
    import httpx
except ImportError:
    httpx = None
try:
    import httpx2  # httpx under a new name: the SDKs of OpenAI from 3 on and of Anthropic from 1 on are built on it
except ImportError:
    httpx2 = None
try:
    import aiohttp
except ImportError:
    aiohttp = None
try:
    from opentelemetry import trace as otel
except ImportError:
    otel = None

_SCOPE = 'otelllm-facts'
_log = logging.getLogger('otelllm_facts')
_current = contextvars.ContextVar('otelllm_scope', default=None)  # the innermost _Stoppable
_call = contextvars.ContextVar('otelllm_call', default=None)  # the model call that the package's retry watches
_succeeded = []  # functions that are told the host of a request that went well, outside of the package's retry

_lock = threading.RLock()  # of all counts and lists here; a finalizer may come back to it
_numbers = random.Random()  # of ids; the application may seed the module's own

_MAX_TEXT = 8 << 20  # characters of one event or document; the recording gives up on longer ones
_MAX_ERROR = 64 << 10  # of a response with an error status, the characters that are read
_MAX_REQUEST = 32 << 20  # bytes of a request that is parsed
_MAX_PARTS = 1024  # tool calls and choices of one response; the recording gives up on more
_OUTPUT_WAIT = 5.0  # seconds for which the span of a tool waits for the delivery of its output


def _safely(f, *args):
    """Return f(*args), or None if it fails: recording must not fail what it watches."""
    try:
        return f(*args)
    except Exception:  # noqa: BLE001
        return None


# Names. A value that a provider or a model chose is recorded only in the form of a name, a code or an id.

_NAME = re.compile(r'[\w.:/@-]{1,128}', re.ASCII)
_MODEL = re.compile(r'[\w.:/@\[\]()+#~,-]{1,256}', re.ASCII)
_TOKEN = re.compile(
    r'(?<![A-Za-z0-9])(?:(?:sk-|sk_|rk_|pk_live_|pk-lf-|AIza|AQ\.|ya29\.|GOCSPX-|hf_|gsk_|xai-|pplx-|csk-|nvapi-|r8_|tvly-|ABSK|dapi|lsv2_|pcsk_|'
    r'A[KS]IA|ABIA|ACCA|LTAI|gh[pousr]_|github_pat_|gl(?:pat|dt|ft|rt|ptt|oas)-|npm_|pypi-|rubygems_|dckr_[po]at_|hv[sb]\.|glsa_|glc_|xox[a-eoprs]-|'
    r'xapp-|SG\.|whsec_|sb_secret_|sbp_|pscale_(?:tkn|pw|oauth)_|PMA[KT]-|nf[pocu]_|vc[pkair]_|tskey-|lin_(?:api|oauth)_|apify_api_|fig[dopu]_|'
    r'ntn_|shp(?:at|ca|pa|ss)_|do[opr]_v1_|sntry[su]_|sgp_|NRAK-|CFPAT-|HRKU-|xkeysib-|ph[xcs]_|rpa_|e2b_|bb_live_|rzp_live_|'
    r'eyJ|[Bb]earer[_:-])[\w-]{8,}|(?:re_|fk-|fc-|key-|secret_)[\w-]{20,})', re.ASCII)
_RUN = re.compile(r'[A-Za-z0-9]{24,}')


def _random(text):
    """Whether the text has more random characters than a name has."""
    return any(re.search('[a-z]', r) and re.search('[A-Z]', r) and re.search('[0-9]', r) for r in _RUN.findall(text))


def _name(said, form=_NAME):
    """Return a name or a code, or 'redacted' if it does not look like one, or looks like a credential."""
    if said is None:
        return None
    said = str(said)[:512]
    return said if form.fullmatch(said) and '://' not in said and not _TOKEN.search(said) and not _random(said) else 'redacted'


def _code(said):
    """Return the code of an error, None for none."""
    said = _name(said or None)
    return said if said is None or re.fullmatch(r'[\w.:-]{1,80}', said, re.ASCII) else 'redacted'


def _product(agent):
    """Return what is recorded of a User-Agent: its first product with the version, such as codex_exec/0.169.0, or alone if what
    follows is no version. The rest may name the user's machine."""
    found = re.match(r'([\w.:-]{1,64})/([\w.:-]{1,64})(?= |$)', agent or '', re.ASCII)
    if not found or 'redacted' in (_name(found[1]), _name(found[2])):
        return None
    return found[0] if re.match('v?[0-9]', found[2]) else found[1]


def _id(said):
    """Return an id, or a digest of it: ids have to stay comparable."""
    if said is None or said == '':
        return None
    said = str(said)
    if len(said) <= 128 and _NAME.fullmatch(said) and not _TOKEN.search(said):
        return said
    return 'id-' + hashlib.sha256(said.encode('utf-8', 'replace')).hexdigest()[:16]


def _ids(said):
    return [i for i in map(_id, said[-64:]) if i]


def _type(error):
    """Return the name of an error's type."""
    name = type(error).__name__
    return name if _NAME.fullmatch(name) else 'redacted'


# Spans: OpenTelemetry's if the application has set up its SDK, or this module's own.

_now = time.time_ns


def _tracer():
    """Return a tracer of the application's TracerProvider, or None without one."""
    if otel is None:
        return None
    provider = otel.get_tracer_provider()
    # The API alone has only providers that record nothing.
    if type(provider).__module__.startswith('opentelemetry.trace'):
        return None
    return provider.get_tracer(_SCOPE)


class _Span:
    """A span. It is sent when it ends."""

    def __init__(self, name, kind, parent, attributes):
        self.name, self.kind, self.attributes = name, kind, attributes
        self.start, self.clock = _now(), time.perf_counter()
        self.failed, self.events, self.pid = False, [], os.getpid()
        self.trace_id = parent.trace_id if parent else f'{_numbers.getrandbits(128) or 1:032x}'
        self.parent_id = parent.span_id if parent else ''
        self.span_id = f'{_numbers.getrandbits(64) or 1:016x}'

    def seconds(self):
        return max(time.perf_counter() - self.clock, 1e-6)

    def rename(self, name):
        self.name = name

    def set(self, attributes):
        self.attributes.update((k, v) for k, v in attributes.items() if v is not None)

    def fail(self, error_type):
        self.failed = True
        self.attributes['error.type'] = error_type

    def event(self, name, attributes=None):
        if len(self.events) < 32:
            self.events.append((name, self.start + int(self.seconds() * 1e9), attributes or {}))

    def end(self, seconds):
        if self.pid == os.getpid():  # a forked process does not send what its parent began
            _sender.send(self, self.start + int(seconds * 1e9))

    def active(self):
        return contextlib.nullcontext()

    def otlp(self, end):
        return {
            'traceId': self.trace_id, 'spanId': self.span_id, 'parentSpanId': self.parent_id, 'name': self.name, 'kind': self.kind,
            'startTimeUnixNano': str(self.start), 'endTimeUnixNano': str(end), 'status': {'code': 2} if self.failed else {},
            'attributes': [{'key': k, 'value': _value(v)} for k, v in self.attributes.items() if v is not None],
            'events': [{'name': n, 'timeUnixNano': str(at), 'attributes': [{'key': k, 'value': _value(v)} for k, v in more.items()]}
                       for n, at, more in self.events],
        }


class _SDKSpan(_Span):
    """A span of OpenTelemetry's SDK."""

    def __init__(self, tracer, name, kind, parent, attributes):
        super().__init__(name, kind, parent, {})
        context = None  # the current one
        if isinstance(parent, _SDKSpan) and not otel.get_current_span().get_span_context().is_valid:
            context = otel.set_span_in_context(parent.span)  # in a thread that does not have OpenTelemetry's context
        self.span = tracer.start_span(name, context=context, kind=otel.SpanKind.CLIENT if kind == 3 else otel.SpanKind.INTERNAL, start_time=self.start)
        of = self.span.get_span_context()
        self.trace_id, self.span_id = f'{of.trace_id:032x}', f'{of.span_id:016x}'
        self.set(attributes)

    def rename(self, name):
        self.span.update_name(name)

    def set(self, attributes):
        super().set(attributes)
        self.span.set_attributes({k: v for k, v in attributes.items() if v is not None})

    def fail(self, error_type):
        super().fail(error_type)
        self.span.set_attribute('error.type', error_type)
        self.span.set_status(otel.StatusCode.ERROR)

    def event(self, name, attributes=None):
        self.span.add_event(name, attributes or None)

    def end(self, seconds):
        if self.pid == os.getpid():
            self.span.end(end_time=self.start + int(seconds * 1e9))

    def active(self):
        return otel.use_span(self.span, end_on_exit=False, record_exception=False, set_status_on_exception=False)


def _start_span(name, kind, parent, attributes):
    attributes = {k: v for k, v in attributes.items() if v is not None}
    tracer = _safely(_tracer)
    if tracer is not None:
        span = _safely(_SDKSpan, tracer, name, kind, parent, attributes)
        if span is not None:
            return span
    return _Span(name, kind, parent, attributes)


def _event(name, attributes):
    """Record an event on the current span, or without an SDK on the span of the run."""
    attributes = {k: v for k, v in attributes.items() if v is not None}
    if _tracer() is not None:
        otel.get_current_span().add_event(name, attributes)
        return
    scope = _current.get()
    if scope is not None and scope.within is not None:
        scope.within.span.event(name, attributes)


def _value(v):
    if isinstance(v, bool):
        return {'boolValue': v}
    if isinstance(v, int):
        return {'intValue': str(v)}
    if isinstance(v, float):
        return {'doubleValue': v}
    if isinstance(v, list):
        return {'arrayValue': {'values': [_value(x) for x in v]}}
    return {'stringValue': v}


class _Sender:
    """The thread that sends spans, and that does what is due later. It holds at most 2,048 spans and 8 MiB."""

    max_spans, max_bytes, batch = 2048, 8 << 20, 512

    def __init__(self):
        self.reset()

    def reset(self):
        """Begin anew. A forked process has neither the thread nor what it was to send."""
        self.inbox = queue.SimpleQueue()  # its put may be called from a finalizer, at any time
        self.thread, self.starting = None, threading.Lock()
        self.spans, self.bytes, self.dropped, self.said, self.closed = 0, 0, 0, False, False

    def send(self, span, end):
        if os.environ.get('OTEL_SDK_DISABLED', '').lower() == 'true' or os.environ.get('OTEL_TRACES_EXPORTER') == 'none':
            return
        line = json.dumps(span.otlp(end), separators=(',', ':')).encode()
        with _lock:
            if self.closed or self.spans >= self.max_spans or self.bytes + len(line) > self.max_bytes:
                self.dropped += 1
                return
            self.spans += 1
            self.bytes += len(line)
        self.put(('span', line))

    def later(self, seconds, f):
        """Call f after the time, in the thread."""
        self.put(('later', time.monotonic() + seconds, f))

    def put(self, message):
        self.inbox.put(message)
        if self.thread is None and self.starting.acquire(blocking=False):
            try:
                if self.thread is None:
                    thread = threading.Thread(target=self.work, name='otelllm-facts', daemon=True)
                    thread.start()
                    self.thread = thread
            except RuntimeError:
                pass  # the interpreter shuts down
            finally:
                self.starting.release()

    def work(self):
        due, order = [], itertools.count()  # a heap of what is due later
        left, waiting, flushed, tried, pause = [], None, [], 0, 0.0
        while True:
            times = [t for t in (due[0][0] if due else None, waiting) if t is not None]
            try:
                message = self.inbox.get(timeout=max(0.0, min(times) - time.monotonic()) if times else None)
            except queue.Empty:
                message = ('tick',)
            if message[0] == 'span':
                left.append(message[1])
                if waiting is None:
                    waiting = time.monotonic() + self.delay()
            elif message[0] == 'later':
                heapq.heappush(due, (message[1], next(order), message[2]))
            elif message[0] == 'flush':
                if message[2]:
                    while due:
                        _safely(heapq.heappop(due)[2])  # it would be too late
                    self.inbox.put(('flush', message[1], False))  # after what they send
                else:
                    flushed.append(message[1])
                    waiting = time.monotonic()
            while due and due[0][0] <= time.monotonic():
                _safely(heapq.heappop(due)[2])
            if not left:
                waiting = None
            elif waiting is not None and (waiting <= time.monotonic() or len(left) >= self.batch and not tried):
                now, left = left[:self.batch], left[self.batch:]
                again = _safely(self.post, now)
                if again is None and not self.said:
                    self.said = True
                    _log.warning('spans could not be sent: the endpoint is not valid')
                if again and tried < 5 and not self.closed:
                    tried, pause = tried + 1, min(max(2 * pause, 1.0), 30.0)
                    left = now + left
                    waiting = time.monotonic() + pause
                else:
                    with _lock:
                        self.spans -= len(now)
                        self.bytes -= sum(map(len, now))
                    tried, pause = 0, 0.0
                    waiting = (time.monotonic() if flushed else time.monotonic() + self.delay()) if left else None
            if flushed and (not left or tried):
                for done in flushed:
                    done.set()
                flushed = []

    def delay(self):
        return _number(os.environ.get('OTEL_BSP_SCHEDULE_DELAY'), 1000.0) / 1000

    def post(self, lines):
        """Send spans. Return False if they are done with: sent, or refused for good."""
        env = os.environ.get
        url = env('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT') or env('OTEL_EXPORTER_OTLP_ENDPOINT', 'http://localhost:4318').rstrip('/') + '/v1/traces'
        to = urllib.parse.urlsplit(url)
        resource = {'service.name': 'unknown_service:python', **_pairs(env('OTEL_RESOURCE_ATTRIBUTES'))}
        if env('OTEL_SERVICE_NAME'):
            resource['service.name'] = env('OTEL_SERVICE_NAME')
        head = json.dumps({'attributes': [{'key': k, 'value': _value(v)} for k, v in resource.items()]})
        body = b'{"resourceSpans":[{"resource":%b,"scopeSpans":[{"scope":{"name":"%b"},"spans":[%b]}]}]}' % (
            head.encode(), _SCOPE.encode(), b','.join(lines))
        headers = {'content-type': 'application/json', **_pairs(env('OTEL_EXPORTER_OTLP_TRACES_HEADERS') or env('OTEL_EXPORTER_OTLP_HEADERS'))}
        timeout = _number(env('OTEL_EXPORTER_OTLP_TIMEOUT'), 10000.0) / 1000
        kind = http.client.HTTPSConnection if to.scheme == 'https' else http.client.HTTPConnection
        connection = kind(to.hostname, to.port, timeout=timeout)
        why = None
        try:
            connection.request('POST', to.path or '/', body, headers)
            status = connection.getresponse().status
            if status >= 300:
                why = f'status {status}'
            again = status in (429, 502, 503, 504)
        except (OSError, http.client.HTTPException) as error:
            why, again = _type(error), True
        finally:
            connection.close()
        if why and not self.said:
            self.said = True
            _log.warning('spans could not be sent to %s: %s', to.hostname, why)
        return again if why else False

    def flush(self, seconds, last=False):
        if self.thread is None or self.thread is threading.current_thread():
            return self.thread is None
        done = threading.Event()
        self.put(('flush', done, last))
        return done.wait(seconds)


def _number(text, otherwise):
    try:
        number = float(text)
    except (TypeError, ValueError):
        return otherwise
    return number if math.isfinite(number) and number >= 0 else otherwise


def _pairs(text):
    """Return the pairs of a list key=value,key=value as OpenTelemetry's variables have it."""
    pairs = (p.split('=', 1) for p in (text or '').split(',') if '=' in p)
    return {urllib.parse.unquote(k.strip()): urllib.parse.unquote(v.strip()) for k, v in pairs}


_sender = _Sender()


def _forked():
    global _lock
    _lock = threading.RLock()  # another thread may have held it
    _numbers.seed()
    _sender.reset()


if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=_forked)


def flush(timeout=3.0):
    """Send what has ended, for at most this many seconds. It reports whether that was tried for all of it."""
    return bool(_safely(_sender.flush, timeout))


def shutdown(timeout=3.0):
    """Send what has ended, for at most this many seconds, and nothing after that. It runs when the process exits."""
    _safely(_sender.flush, timeout, True)
    _sender.closed = True


def _at_exit():
    if _sender.thread is not None:
        shutdown()


atexit.register(_at_exit)


# Runs and tools.

class _Ledger:
    """The facts of a run and of those within it, or of a model call outside of any, as lines for the package's judge."""

    max_lines = 4096  # the judge takes no more of a run

    def __init__(self):
        self.known, self.complete = {}, True

    def add(self, line):
        """Add a line to what is known of its part. That a run has ended is a line of its own: its parts come before it."""
        part = line['state'] if line['kind'] == 'run' else line['id']
        key, now = (line['run'], line['kind'], part), time.time()
        with _lock:
            known = self.known.get(key, {})
            if not known and len(self.known) >= self.max_lines:
                self.complete = False
                return
            line = {**known, **line, 'start': line.get('start', known.get('start', now))}
            if line['state'] == 'ended':
                line['end'] = line.get('end', now)
            self.known[key] = line

    def lines(self):
        with _lock:
            return list(self.known.values())


def _line(run, line):
    return {'run': run, **{k: v for k, v in line.items() if v is not None}}


class Abort(Exception):
    """Raise it, or name its parts in abort, where this side stops something on purpose.

    source is 'user', 'application', 'shutdown' or 'deadline', with a reason of your choice. For 'watchdog', a timer of
    yours, reason is what it watched: 'connect', 'first_progress', 'idle' or 'total', and limit its seconds.
    """

    def __init__(self, source, reason=None, limit=None):
        super().__init__('aborted')
        self.source, self.reason, self.limit = source, reason, limit


_SOURCES = ('user', 'application', 'shutdown', 'deadline', 'consumer', 'watchdog')
_WATCHED = ('connect', 'first_progress', 'idle', 'total')


def _abort_facts(abort):
    source = abort.source if abort.source in _SOURCES else 'unknown'
    if source == 'watchdog':
        return {'llm.abort.source': source, 'llm.watchdog.kind': abort.reason if abort.reason in _WATCHED else None,
                'llm.watchdog.limit': float(abort.limit) if isinstance(abort.limit, (int, float)) and math.isfinite(abort.limit) else None}
    reason = _name(abort.reason)
    return {'llm.abort.source': source, 'llm.abort.reason': reason and reason[:80]}


def _is_cancellation(error):
    """Whether the error comes from this side, which stopped what it waits for: asyncio's, trio's, or the user's signal."""
    return isinstance(error, BaseException) and not isinstance(error, (Exception, GeneratorExit, SystemExit))


def _chain(error, around=None):
    """Return an error and its causes, the outermost first. around is what was being handled before: retries from within a
    handler have the error of the attempt before them as their context."""
    found = []
    while error is not None and error is not around and len(found) < 8 and error not in found:
        found.append(error)
        nested = getattr(error, 'exceptions', None)
        if isinstance(nested, tuple) and nested:  # an exception group
            error = nested[0]
        else:
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


_TIMEOUTS = (TimeoutError, asyncio.TimeoutError)  # the same from Python 3.11 on


def _timed_out(error):
    """Whether a deadline of asyncio cancelled what ran: asyncio.timeout and wait_for raise TimeoutError from the cancellation.
    The types of clients are derived from it: those are timeouts of the transport."""
    return type(error) in _TIMEOUTS and any(_is_cancellation(e) for e in _chain(error)[1:])


def _declared(scope):
    """Return the abort that the application has declared, or None."""
    while scope is not None:
        if scope.aborted is not None:
            return scope.aborted
        scope = scope.outer
    return None


def _abort_in(error, scope, around=None):
    """Return the abort that the error is a consequence of, or None. After an abort nothing else is the cause: what
    fails then is cleanup."""
    declared = _declared(scope)
    if declared is not None:
        return declared
    for e in _chain(error, around):
        if isinstance(e, Abort):
            return e
    if isinstance(error, KeyboardInterrupt):
        return Abort('shutdown', 'interrupt')
    if isinstance(error, GeneratorExit):
        return Abort('consumer')
    return Abort('unknown') if _is_cancellation(error) else None


class _Stoppable:
    """What can be stopped on purpose: a run, or the requests and tools within a block."""

    def __init__(self):
        self.outer, self.aborted, self.token, self.around = None, None, None, None
        self.open = set()  # the requests that have not ended

    @property
    def within(self):
        """The run that this is in, or is."""
        return self.outer.within if self.outer is not None else None

    def abort(self, source, reason=None, limit=None):
        """Declare why what runs here is stopped. Call it first, then cancel the task or close the stream."""
        if self.aborted is None:
            self.aborted = Abort(source, reason, limit)
            for request in list(self.open):
                request.end('error', self.aborted)

    def enter(self):
        self.outer = _current.get()
        self.token = _current.set(self)

    def leave(self):
        token, self.token = self.token, None
        try:
            _current.reset(token)
        except (ValueError, TypeError, RuntimeError):
            pass  # it was entered in another context

    def __enter__(self):
        _safely(self.enter)
        return self

    def __exit__(self, kind, error, traceback):
        _safely(self.leave)
        if self.aborted is not None and error is not None and self.within is not None:
            self.within.passed = (error, self.aborted)
        return False

    async def __aenter__(self):
        return self.__enter__()

    async def __aexit__(self, kind, error, traceback):
        return self.__exit__(kind, error, traceback)


def stoppable():
    """Return a context whose requests and tools can be stopped by themselves, so that the run goes on:

        with facts.stoppable() as attempt:
            ...  # where the application's own timer fires: attempt.abort('watchdog', 'idle', limit=30)
    """
    return _Stoppable()


class Run(_Stoppable):
    """One run of an agent. Use it with `with` or `async with`; run() makes one."""

    def __init__(self, agent, conversation_id, tools_recorded, judge):
        super().__init__()
        self.agent, self.conversation, self.tools_recorded, self.judge = _name(agent), _id(conversation_id), tools_recorded, judge
        self.requests = self.tools = 0
        self.above, self.ledger = None, None  # the run around it; the facts of all runs within the outermost one
        self.span, self.passed, self.waiting, self.undecided, self.active, self.last, self.over = None, None, [], [], None, None, False
        self.tool_by_id = weakref.WeakValueDictionary()  # by the ids of their calls

    @property
    def within(self):
        return self

    @property
    def trace_id(self):
        """The id of the trace, in hexadecimal digits, or '' before the run has begun."""
        return self.span.trace_id if self.span else ''

    def enter(self):
        self.around = sys.exc_info()[1]
        outer = _current.get()
        self.above = above = outer.within if outer is not None else None
        self.ledger = above.ledger if above is not None and above.ledger is not None else _Ledger()
        attributes = {
            'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': self.agent, 'gen_ai.conversation.id': self.conversation,
            'llm.run.id': above.span.span_id if above else None,
        }
        self.span = _start_span(f'invoke_agent {self.agent}', 1, above.span if above else None, attributes)
        super().enter()
        self.active = self.span.active()
        self.active.__enter__()
        self.judge = self.judge or (above.judge if above else None)
        self.tell({'kind': 'run', 'state': 'begun', **self.span.attributes, 'llm.run.tools': 0 if self.tools_recorded else None})

    def __exit__(self, kind, error, traceback):
        if self.span is not None:
            _safely(self.finish, error)
            active, self.active = self.active, None
            _safely(active.__exit__, None, None, None)
        _safely(self.leave)
        return False

    def finish(self, error):
        if isinstance(error, SystemExit) and not error.code:
            error = None
        abort, around = None, self.around
        if error is not None:
            abort = self.passed[1] if self.passed and self.passed[0] in _chain(error) else _abort_in(error, self, around)
            if abort is None and (_timed_out(error) or type(error) in _TIMEOUTS and self.undecided):
                abort = Abort('deadline')
        self.around = None
        for request in list(self.open):  # nothing reads it any more
            request.end('error' if abort is not None else 'close' if request.left else 'abandoned', error)
        self.settle(abort)
        with _lock:
            self.over = True
            waiting, self.waiting = self.waiting, []
        for one in waiting:
            one.release()
        if abort is not None and abort.source != 'watchdog':
            self.span.set(_abort_facts(abort))
        elif error is not None:
            self.span.fail('watchdog_timeout' if abort is not None else _type(error))
        self.span.set({'llm.run.requests': self.requests, 'llm.run.tools': self.tools if self.tools or self.tools_recorded else None})
        self.tell({'kind': 'run', 'state': 'ended', **self.span.attributes, 'status': 'error' if self.span.failed else None})
        self.span.end(self.span.seconds())

    def settle(self, abort=None):
        """End the parts that were cancelled, which waited for the run to know whether that was a deadline."""
        with _lock:
            undecided, self.undecided = self.undecided, []
        for part in undecided:
            part.decide('deadline' if abort is not None and abort.source == 'deadline' else 'unknown')

    def hold(self, part):
        with _lock:
            if not self.over and len(self.undecided) < 64:
                self.undecided.append(part)
                return True
        return False

    def attach(self):
        """Return a context for a thread that does not have the run's: what happens in it belongs to the run."""
        return _Attached(self)

    def tell(self, line):
        parent = self.above if line['kind'] == 'run' and line['state'] == 'begun' else None
        line = _line(self.span.span_id, line)
        self.ledger.add({**line, 'parent_run': parent.span.span_id} if parent else line)
        if self.judge is not None:
            if parent and parent.judge is self.judge:
                line['parent_run'] = parent.span.span_id
            if line['kind'] != 'run' and line['state'] == 'ended':
                self.last = line
            self.judge.tell(line)

    def verdict(self, timeout=1.0):
        """Return the answer of `otelllm judge` (docs/judge.md) as of now: a dict with 'verdict', on the run, and 'part', on the
        request or tool that ended last, if it failed. Return None without a judge, or if it does not answer in time: then ask a
        person before anything is repeated. It blocks; in asyncio call it with asyncio.to_thread."""
        if self.judge is None or self.span is None:
            return None
        return _safely(self.judge.ask, self.last or {'run': self.span.span_id}, timeout)


class _Attached:
    def __init__(self, scope):
        self.scope = scope

    def __enter__(self):
        self.token = _current.set(self.scope)
        return self.scope

    def __exit__(self, *_):
        _safely(_current.reset, self.token)
        return False


def run(agent, *, conversation_id=None, tools_recorded=False, judge=None):
    """Return one run of an agent, for `with` or `async with`.

    Only with tools_recorded, which declares that every tool runs in tool(), is it known that no tool ran. A run in which
    tool() was called counts as one that records all tools. judge is a Judge, for verdicts while the run goes on.
    """
    return Run(agent, conversation_id, tools_recorded, judge)


def _begun(run, what):
    """Count a request or a tool for the run and for the runs around it."""
    while run is not None:
        with _lock:
            setattr(run, what, getattr(run, what) + 1)
        run = run.outer.within if run.outer is not None else None


def _tool_span(run, id, name, effect, observed=None):
    """Count a tool for its run, and start its span."""
    _begun(run, 'tools')
    return _start_span(f'execute_tool {name}', 1, run.span if run else None, {
        'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': name, 'gen_ai.tool.call.id': id, 'llm.tool.effect': effect,
        'llm.run.id': run.span.span_id if run else None, 'llm.tool.observed': observed,
    })


class Tool:
    """The execution of one tool call. Use it with `with` or `async with`; tool() makes one.

    Its span has its end time from its end, but leaves when its output was delivered, with the first request that carries
    the output, with the end of the run, or after five seconds, whichever comes first.
    """

    def __init__(self, id, name, effect):
        self.id, self.name = _id(id), _name(name) or 'unknown'
        self.effect = effect if effect in ('read_only', 'idempotent', 'non_idempotent') else 'unknown'
        self.span, self.run, self.outcome, self.error, self.before = None, None, None, None, None
        self.delivery, self.output_error, self.ended, self.once, self.abort, self.token = None, None, None, [None], None, None
        self.written = False

    def __enter__(self):
        _safely(self.enter)
        return self

    def enter(self):
        scope = _current.get()
        self.scope, self.around, self.call = scope, sys.exc_info()[1], _call.get()
        self.run = scope.within if scope is not None else None
        self.span = _tool_span(self.run, self.id, self.name, self.effect)
        if self.run is not None and self.id:
            self.run.tool_by_id[self.id] = self
        self.tell('begun')
        if self.call is not None and self.run is not None:
            self.token = _call.set(self.call.in_tool())
        self.active = self.span.active()
        self.active.__enter__()

    def __exit__(self, kind, error, traceback):
        if self.span is not None and self.ended is None:
            if self.token is not None:
                _safely(_call.reset, self.token)
            _safely(self.finish, error)
            _safely(self.active.__exit__, None, None, None)
        return False

    async def __aenter__(self):
        return self.__enter__()

    async def __aexit__(self, kind, error, traceback):
        return self.__exit__(kind, error, traceback)

    def failed(self, error_type='tool_error', *, before_effect=False):
        """Declare that the tool failed without an exception, such as an MCP result with isError. before_effect declares that it
        failed before it changed anything."""
        self.outcome, self.error = 'failed', _name(error_type)
        self.before = True if before_effect else self.before

    def rejected(self):
        """Declare that a person or a policy refused the call: it did not run."""
        self.outcome, self.error = 'rejected', 'rejected'

    def invalid_input(self):
        """Declare that the model's input is not valid for the tool: it did not run."""
        self.outcome, self.error = 'invalid_input', 'invalid_input'

    def output_sent(self):
        """Record that the output has reached the model by other means than the next request, as in a realtime session."""
        self.deliver('sent')

    def output_written(self):
        """Record that the output was sent by other means than the next request, and may still be refused: output_sent or
        output_failed may follow."""
        self.written = True

    def output_failed(self, error=None):
        """Record that sending the output by other means than the next request failed. output_sent may follow."""
        self.deliver('failed', '_OTHER' if error is None else _type(error))

    def output_cached(self):
        """Record that the application keeps the output, to send it later."""
        self.deliver('cached')

    def deliver(self, delivery, error=None):
        if self.span is None or self.delivery == 'sent':
            return  # what has arrived cannot be lost any more
        self.delivery, self.output_error = delivery, error or self.output_error
        if delivery != 'cached':
            _safely(self.span.event, f'llm.tool.output_{delivery}')
        if self.ended is not None:
            _safely(self.tell, 'ended')
            if delivery == 'sent':
                self.release()

    def finish(self, error):
        self.ended = self.span.seconds()
        if error is not None and not (isinstance(error, SystemExit) and not error.code):
            self.outcome = 'failed'
            self.abort = _abort_in(error, self.scope, self.around)
            self.around = None
            if self.abort is not None:
                self.outcome = 'timed_out' if self.abort.source in ('deadline', 'watchdog') else 'interrupted'
            elif isinstance(error, _TIMEOUTS):
                self.outcome = 'timed_out'
            if self.outcome != 'interrupted':
                self.error = _type(error)
        self.tell('ended')
        if self.run is None or self.delivery == 'sent' and self.abort is None:
            return self.release()
        with _lock:
            waits = not self.run.over and len(self.run.waiting) < 256
            if waits:
                self.run.waiting.append(self)
        if not waits:
            return self.release()
        if self.abort is not None and self.abort.source == 'unknown':
            self.run.hold(self)
        mine = weakref.ref(self)
        _sender.later(_OUTPUT_WAIT, lambda: (lambda t: t and t.release())(mine()))

    def decide(self, source):
        if source == 'deadline' and self.abort is not None:
            self.abort, self.outcome, self.error = Abort('deadline'), 'timed_out', 'TimeoutError'

    def facts(self):
        delivery = self.delivery or ('sent' if self.written else None if self.outcome == 'interrupted' else 'pending')
        return {
            'llm.tool.outcome': self.outcome or 'succeeded', 'llm.tool.failed_before_effect': self.before,
            'llm.tool.output_delivery': delivery, 'llm.tool.output_error': self.output_error, 'error.type': self.error,
            **(_abort_facts(self.abort) if self.abort is not None else {}),
        }

    def tell(self, state):
        teller = self.run or self.call
        if teller is not None:
            extra = self.facts() if state == 'ended' else {}
            extra.pop('llm.watchdog.kind', None)
            extra.pop('llm.watchdog.limit', None)
            teller.tell({'kind': 'tool', 'id': self.span.span_id, 'state': state, **self.span.attributes, **extra})

    def release(self):
        """Send the span, once."""
        try:
            self.once.pop()
        except IndexError:
            return
        if self.run is not None:
            with _lock:
                if self in self.run.waiting:
                    self.run.waiting.remove(self)
        _safely(self.send)

    def send(self):
        facts = self.facts()
        for key in ('llm.watchdog.kind', 'llm.watchdog.limit'):
            facts.pop(key, None)
        if self.error:
            self.span.fail(self.error)
        self.span.set(facts)
        self.span.end(self.ended)


def tool(*, id=None, name, effect='unknown'):
    """Return the execution of one tool call, for `with` or `async with`. effect is 'read_only', 'idempotent',
    'non_idempotent' or 'unknown'. An exception is a failure, and passes on."""
    return Tool(id, name, effect)


def _unanswered(run, call_id, name):
    """Record a call of a session that ended before the call had an output. It may not have been executed."""
    span = _tool_span(run, call_id, _name(name) or 'unknown', 'unknown', observed='history')
    run.tell({'kind': 'tool', 'id': span.span_id, 'state': 'ended', **span.attributes})
    span.end(span.seconds())


def effect_of(annotations):
    """Return the effect that an MCP tool's annotations declare. Only what the server declared counts, and only of a server
    that you trust."""
    def hint(key):
        return annotations.get(key) if isinstance(annotations, dict) else getattr(annotations, key, None)
    if hint('readOnlyHint'):
        return 'read_only'
    if hint('idempotentHint'):
        return 'idempotent'
    return 'non_idempotent' if hint('destructiveHint') or hint('openWorldHint') else 'unknown'


# Requests.

class _State:
    """What a response has said so far."""

    def __init__(self):
        self.events = self.bytes = self.keepalives = self.text = self.reasoning = self.provider_tools = 0
        self.provider_tool_types = []
        self.calls, self.by_key, self.choices = [], {}, {}
        self.writing = None  # the call that the last part of the answer was of
        self.phase, self.finish = 'response_started', []
        self.terminal = self.complete = self.refused = self.asks = False
        self.strange = self.broken = False  # an object came that is not known; after which the answer is not what the model wrote
        self.spliced = False  # another answer began within it, which a gateway appended
        self.blocks, self.message = False, None  # of Messages: a block has begun; the message's id
        self.error = self.violation = self.id = self.model = self.input = self.output = None
        # The counts do not include everything that the client got: a count of zero proves nothing.
        self.unread = False


class _Call:
    """A tool call. It keeps where its input is in the grammar of JSON, and nothing of it."""
    __slots__ = ('completed', 'due', 'free', 'id', 'input', 'invalid', 'key', 'name', 'named', 'open', 'ready', 'rest')

    def __init__(self, key, id, name, free):
        self.key, self.id, self.name, self.completed, self.ready = key, _id(id), _name(name), False, False
        self.input, self.due, self.open, self.rest, self.named = 'empty', 'value', '', '', False
        self.free, self.invalid = free, False  # free: its input is text of any form

    plain = re.compile(r'[^"\\\x00-\x1f]*')  # characters that do not end a string

    def follow(self, text):
        at = 0
        while at < len(text) and self.input not in ('broken', 'deep'):
            if self.due == 'string':
                at = self.plain.match(text, at).end()
                if at == len(text):
                    return
            self.due = self.after(text[at])
            at += 1
            if self.due is None:
                self.input = 'broken'
            elif self.due in ('deep', 'whole'):
                self.input = self.due
            elif self.open:
                self.input = 'open'
            else:  # a number may be whole with each of its characters
                self.input = {'value': 'empty', 'number': 'scalar'}.get(self.due, 'open')

    def closed(self):
        return 'next' if self.open else 'whole'

    def after(self, c):
        """Return what is due after the character c; None: it is not JSON. Of numbers only the characters are checked."""
        if self.due == 'string':
            if c == '"':
                return 'colon' if self.named else self.closed()
            return 'escape' if c == '\\' else None if c < ' ' else 'string'
        if self.due == 'escape':
            self.rest = 'hhhh'
            return 'hex' if c == 'u' else 'string' if c in '"\\/bfnrt' else None
        if self.due == 'hex':
            self.rest = self.rest[1:]
            return None if c not in '0123456789abcdefABCDEF' else 'hex' if self.rest else 'string'
        if self.due == 'literal':
            if c != self.rest[0]:
                return None
            self.rest = self.rest[1:]
            return 'literal' if self.rest else self.closed()
        if self.due == 'number':
            if c in '0123456789+-.eE':
                return 'number'
            self.due = self.closed()
        return self.due if c in ' \t\n\r' else self.token(c)

    def token(self, c):
        """Return what is due after the first character of a token."""
        value = self.due in ('value', 'element')
        if c == '"':
            self.named = self.due in ('member', 'name')
            return 'string' if self.named or value else None
        if c in '{[':
            if not value or len(self.open) == _MAX_NESTING:
                return 'deep' if value else None
            self.open += c
            return 'member' if c == '{' else 'element'
        if c in '}]':
            opened, empty = ('{', 'member') if c == '}' else ('[', 'element')
            if self.open[-1:] != opened or self.due not in (empty, 'next'):
                return None
            self.open = self.open[:-1]
            return self.closed()
        if c == ',':
            return None if self.due != 'next' else 'name' if self.open[-1:] == '{' else 'value'
        if c == ':':
            return 'value' if self.due == 'colon' else None
        self.rest = {'t': 'rue', 'f': 'alse', 'n': 'ull'}.get(c)
        return None if not value else 'literal' if self.rest else 'number' if c in '0123456789+-.eE' else None


_MAX_NESTING = 64  # of the input of a call; a deeper one is not followed


class _Recording:
    """The recording of one HTTP request, or of one response over a WebSocket."""

    http = begun = True

    def __init__(self, protocol, scheme, host, port, headers, timeout=None):
        self.protocol, self.state, self.once, self.timeout = protocol, _State(), [None], timeout
        self.scope, self.around, self.call = _current.get(), sys.exc_info()[1], _call.get()
        self.run = self.scope.within if self.scope is not None else None
        self.host = f'{host}:{port}' if port else host
        self.status = self.to_headers = self.headers = self.request_id = self.first = self.last = self.gap = None
        self.document = self.lost = self.over = self.skip = self.connected = False
        self.parts, self.data, self.held, self.closing, self.decoder, self.unzip, self.reused, self.peer = [], None, 0, False, None, None, None, None
        self.event_name = self.form = None
        self.read = False  # the body was read to its end
        retries = headers.get('x-stainless-retry-count') or ''
        self.span = _start_span('chat', 3, self.run.span if self.run else None, {
            'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': protocol.provider,
            'server.address': _name(host), 'server.port': (port or (443 if scheme == 'https' else 80)) if host else None,
            'llm.request.attempt': int(retries) + 1 if re.fullmatch('[0-9]{1,4}', retries) else None,
            'llm.run.id': self.run.span.span_id if self.run else None, 'user_agent.original': _product(headers.get('user-agent')),
            'gen_ai.agent.name': self.run.agent if self.run else None, 'gen_ai.conversation.id': self.run.conversation if self.run else None,
        })
        _begun(self.run, 'requests')
        scope = self.scope
        while scope is not None:
            scope.open.add(self)
            scope = scope.outer
        if self.run is not None:
            self.run.settle()

    def asked(self, body):
        """Record what the request's body says. Report whether it is a body of the protocol."""
        attributes = {}
        if body is not None and len(body) <= _MAX_REQUEST:
            said = json.loads(body)
            if not isinstance(said, dict):
                return False
            attributes = _safely(self.of_body, said) or {}
        self.span.set(attributes)
        self.span.rename(f"chat {attributes.get('gen_ai.request.model', 'unknown')}")
        self.tell()
        if self.call is not None:
            self.call.sent(self)
        if self.run is not None:
            carried = set(attributes.get('llm.history.tool_outputs') or ())
            with _lock:
                answered = [t for t in self.run.waiting if t.id in carried]
            for one in answered:
                one.release()
        return True

    def of_body(self, body):
        history = _safely(self.protocol.history, body)
        tools = None if _may_hide(body, self.protocol.members) else _safely(self.protocol.offered, body)
        return {
            'gen_ai.request.model': _name(body.get('model'), _MODEL), 'gen_ai.request.stream': body.get('stream') is True,
            'llm.request.provider_tools': tools, 'gen_ai.request.max_tokens': _bound(body),
            'llm.history.ends_with_outputs': True if _safely(self.protocol.ends_with_outputs, body) else None,
            'llm.request.background': True if body.get('background') is True else None,
            'llm.history.tool_calls': _ids(history[0]) if history else None, 'llm.history.tool_outputs': _ids(history[1]) if history else None,
        }

    def forget(self):
        """Undo the beginning: this was no model request."""
        self.once.clear()
        self.over = True
        self.leave()
        run = self.run
        while run is not None:
            with _lock:
                run.requests -= 1
            run = run.outer.within if run.outer is not None else None

    def leave(self):
        scope = self.scope
        while scope is not None:
            scope.open.discard(self)
            scope = scope.outer

    def seconds(self):
        return self.span.seconds()

    def watch(self, status, headers, decoded=False):
        """The headers of the response have arrived. decoded says that the body comes without its content coding."""
        kind = headers.get('content-type') or ''
        self.status, self.to_headers = status, self.seconds()
        self.headers = headers
        self.request_id = next((v for v in map(headers.get, ('x-request-id', 'request-id', 'cf-ray')) if v), None)
        self.document = status >= 400 or 'json' in kind
        if not self.document and 'event-stream' not in kind:
            self.state.violation = 'unexpected_content_type'
        coding = (headers.get('content-encoding') or '').strip().lower()
        if decoded or coding in ('', 'identity'):
            return
        if coding in ('gzip', 'x-gzip', 'deflate'):
            self.unzip = zlib.decompressobj(47)
        else:
            self.lost = self.state.unread = True

    def bytes(self, chunk):
        """Record a chunk of the body before the client gets it."""
        self.state.bytes += len(chunk)
        if not self.over and not self.lost:
            self.guard(self.decode, chunk)

    def decode(self, chunk):
        if self.decoder is None:
            self.decoder = codecs.getincrementaldecoder('utf-8')('replace')
        if self.unzip is None:
            return self.take(self.decoder.decode(chunk))
        while chunk and not self.over:
            plain = self.unzip.decompress(chunk, 1 << 20)
            chunk = self.unzip.unconsumed_tail
            if self.unzip.eof:
                chunk, self.unzip = self.unzip.unused_data, zlib.decompressobj(47)
            self.take(self.decoder.decode(plain))

    def take(self, text):
        if not text:
            return
        if (self.status or 0) >= 400:
            text = text[:_MAX_ERROR - self.held]
        self.held += len(text)
        if self.held > _MAX_TEXT:
            raise ValueError('too long to follow')
        if self.document:
            self.parts.append(text)
            return
        if self.skip and text[0] == '\n':
            text = text[1:]
        self.skip = text.endswith('\r')  # a newline that follows belongs to it
        lines = re.split('\r\n|\n|\r', text)
        if len(lines) == 1:
            self.parts.append(text)
            return
        lines[0] = ''.join(self.parts) + lines[0]
        rest = lines.pop()
        self.parts = [rest] if rest else []
        for line in lines:
            self.line(line)
            if self.over:
                return
        self.held = len(rest) + sum(map(len, self.data or ()))

    def line(self, line):
        if self.first_line:
            self.first_line = False
            line = line.lstrip('\ufeff')
        if line.startswith(':'):
            self.state.keepalives += 1
        elif line.startswith('data:'):
            if self.data is not None and _safely(json.loads, '\n'.join(self.data)) is not None:
                self.dispatch()  # some servers end an event with one newline
            if self.data is None:
                self.data = []
            self.data.append(line[6:] if line[5:6] == ' ' else line[5:])
        elif line.startswith('event:'):
            self.event_name = line[6:].strip()
        elif re.match(r'(error: ?)?\{', line):
            self.stray(line[line.index('{'):])
        elif line == '':
            self.dispatch()
        elif not re.match('(event|id|retry)(:|$)', line) and not (self.cut and 'data:'.startswith(line)):
            self.state.unread = True

    cut = False  # the body has ended: its last line and event may be halves
    first_line, left, ended = True, None, 0.0

    def dispatch(self):
        data, name = self.data, self.event_name
        self.data = self.event_name = None
        if data is None and name == 'error':
            data = []  # NestJS omits the data of an error without a message
        if data is not None:
            self.event('\n'.join(data), name)

    def stray(self, text):
        """Read an object that a server wrote without framing, or in a field of its own (llama.cpp): mostly an error."""
        said = _safely(json.loads, text)
        fault = _fault_in(said)
        if not fault.seen and not fault.known():
            self.state.unread = self.state.unread or not self.cut or said is not None
            return
        self.state.events += 1
        _fail(self.state, fault.error())
        self.await_end()

    def event(self, data, name=None):
        s, at = self.state, self.seconds()
        if not data.strip() and name == 'error':
            s.events += 1
            _fail(s, _Fault().error())
            self.await_end()
            return
        if not data.strip():  # a heartbeat, which has at most a name
            s.keepalives += 1
            return
        if data == '[DONE]':
            s.events += 1
            if not s.terminal:
                _unstated(s, self.protocol)
                _fill_in(s)
            s.terminal = True
        else:
            event = _safely(json.loads, data)
            if not isinstance(event, dict):
                if not self.cut or event is not None:  # one that the end of the body cut is an interruption, and no client takes it
                    s.violation = s.violation or 'malformed_event'
                    s.broken = s.broken or event is None and not s.complete and not s.terminal and _is_broken(data)
                    s.unread = True
                behind = _fault_in(_safely(json.loads, data[data.rfind('\n') + 1:]))  # a gateway's, in place of the rest of an event
                if behind.seen:
                    s.events += 1
                    _fail(s, behind.error())
                    self.await_end()
                return
            if event.get('type') in ('ping', 'keepalive', 'codex.rate_limits', 'codex.response.metadata'):
                s.keepalives += 1
                return
            self.saw_form(event)
            self.protocol.event(event, s, name)
            if s.events:
                self.gap = max(self.gap or 0.0, at - self.last)
            else:
                self.first = at
            s.events += 1
            self.last = at
        # This is the protocol's final event: nothing after it counts.
        if s.terminal and s.error is None:
            self.end('close')
        elif s.error is not None:
            self.await_end()

    def await_end(self):
        """Give what may still reach the client after an error a second."""
        if not self.closing:
            self.closing = True
            mine = weakref.ref(self)
            _sender.later(1.0, lambda: (lambda r: r and r.end('close'))(mine()))

    def saw_form(self, said):
        """Record whether one of the objects of the body had the form of the protocol. Gateways answer on the path of one protocol in
        the form of another: nothing is known of how such an answer ends, so it is unread, and not a failure."""
        if self.form != 'own' and isinstance(said, dict) and said:
            self.form = 'own' if self.protocol.own(said) else 'foreign'

    def unknown(self):
        s = self.state
        return (self.form == 'foreign' and s.error is None and not (s.complete or self.answered() or s.finish or s.id)
                and (s.unread or self.document))

    def answered(self):
        s = self.state
        return bool(s.text or s.reasoning or s.calls or s.provider_tools)

    def eof(self):
        if not self.over and not self.lost:
            self.guard(self.whole)
        self.end('eof')

    def whole(self):
        if not self.document:
            self.cut = True
            self.take('\n\n')  # the end of the stream may end an event
            if not self.over:
                _fill_in(self.state)
                if self.protocol is _Messages and self.state.finish and not self.state.terminal:
                    _done(self.state)  # some servers send no message_stop
            return
        if self.status >= 400:
            self.read = True
            return  # _ending reads what there is
        s, body = self.state, json.loads(''.join(self.parts) or 'null')
        if not isinstance(body, dict):
            raise ValueError('not an answer')
        s.events += 1
        self.last = self.seconds()
        self.saw_form(body)
        self.protocol.document(body, s)
        if not self.answered() and not s.complete and s.error is None:
            fault = _fault_in(body)  # an object that has nothing of an answer may say that it is an error
            if fault.seen or fault.known():
                _fail(s, fault.error())

    def guard(self, f, *args):
        """End the recording of the body if it cannot be followed."""
        try:
            f(*args)
        except Exception:  # noqa: BLE001
            self.lost = self.state.unread = True
            self.parts, self.data, self.held = [], None, 0

    def close(self):
        """The reader closes the response."""
        if self.over:
            return
        error = sys.exc_info()[1]  # what made it leave, if it unwinds
        for e in _chain(error, self.around):
            if _is_cancellation(e) or isinstance(e, Abort):
                return self.end('error', e)
        self.end('close')

    def drop(self):
        """Nothing reads the response any more. Why is not known yet: what makes the reader leave unwinds only after this."""
        if not self.over:
            self.left = self.seconds()
            _sender.later(1.0, lambda: self.end('close'))

    def end(self, how, error=None):
        """Set the facts, once: the first end is the cause. how is 'eof', 'error', 'close' (by the consumer) or 'abandoned'."""
        try:
            self.once.pop()
        except IndexError:
            return
        self.over = True
        self.ended = self.left or self.seconds()
        _safely(self.finish, how, error)

    def finish(self, how, error):
        s = self.state
        if not self.document and not s.complete and self.pending(how):
            s.unread = True  # the stream ended inside an event
        if s.error is None and any(reason.lower() in _CUT_BY_LIMIT for reason in s.finish):
            for call in s.calls:
                call.completed = True
        if self.unknown():
            self.lost = s.unread = True
        self.leave()
        c = self.ending(how, error)
        self.peer = self.around = None
        _safely(self.settle, c)
        self.parts, self.data, self.decoder, self.unzip, self.headers = [], None, None, None, None
        abort = c.get('abort')
        if abort is not None and abort.source == 'unknown' and self.run is not None and self.run.hold(self):
            return self.tell()
        self.decide('unknown')

    def ending(self, how, error):
        return _ending(self, how, error)

    def pending(self, how):
        """Whether there is more than was counted. An event that an error cut within its JSON reaches no client."""
        rest = ''.join(self.parts)
        if self.data is None and not rest.strip():
            return False
        data = '\n'.join([*(self.data or ()), *([rest[5:]] if rest.startswith('data:') else ())])
        return how != 'error' or bool(data.strip()) and _safely(json.loads, data) is not None

    def decide(self, source):
        """End the span. Its run knows whether a cancellation of unknown source was a deadline's."""
        if source == 'deadline':
            self.span.set({'llm.abort.source': 'deadline'})
        self.tell()
        self.span.end(self.ended)
        if self.call is None and not self.span.failed and 0 < (self.status or 0) < 400:
            for told in tuple(_succeeded):
                _safely(told, self.host)

    def tell(self):
        teller = self.run or self.call
        if teller is not None:
            teller.tell(self.facts())

    def facts(self):
        """Return what is known as of now."""
        line = {'kind': 'request', 'id': self.span.span_id, 'state': 'begun', **self.span.attributes, 'start': self.span.start / 1e9}
        if self.over:
            line.update(state='ended', end=self.span.start / 1e9 + self.ended, status='error' if self.span.failed else None)
        return line

    def settle(self, c):
        s, status = self.state, self.status
        calls, known = s.calls, self.begun and (status is None or status < 400)
        if s.events and not s.complete and not c.get('over') and self.last is not None:
            self.gap = max(self.gap or 0.0, self.ended - self.last)  # the silence before the end

        def count(n):
            return None if s.unread and not n else n

        error = self.refusal() if s.error is not None else {}
        whole = [x for x in calls if x.completed and x.id][-64:]
        facts = {
            'llm.stream.end': c.get('end'), 'llm.stream.phase': c.get('phase'),
            'http.response.status_code': status if self.http else None, 'llm.request.id': _id(self.request_id),
            'llm.stream.time_to_headers': self.to_headers, 'llm.stream.last_progress': self.last, 'llm.stream.longest_gap': self.gap,
            'gen_ai.response.time_to_first_chunk': self.first, 'llm.connection.reused': self.reused,
            'llm.stream.bytes': s.bytes if status and self.http else None,
            'llm.transport.stage': c.get('stage'), 'llm.transport.cause': c.get('cause'), 'llm.transport.code': c.get('code'),
            'llm.transport.error_chain': c.get('chain'),
            'llm.watchdog.kind': c.get('watchdog'), 'llm.watchdog.limit': c.get('limit'),
        }
        facts.update(error)
        if s.spliced and s.error is None:
            facts['llm.provider_error.intermediary'] = True
        if known:
            finish = [_name(f) for f in s.finish] + (['error'] if c.get('due') else [])
            facts.update({
                'llm.stream.unread': True if s.unread else None, 'llm.stream.events': count(s.events), 'llm.stream.keepalives': s.keepalives,
                'llm.stream.text_chunks': count(s.text), 'llm.stream.reasoning_chunks': count(s.reasoning),
                'llm.stream.tool_inputs_started': count(len(calls)), 'llm.stream.tool_inputs_completed': count(sum(x.completed for x in calls)),
                'llm.stream.tool_inputs_invalid': sum(x.invalid for x in calls) or None,
                'llm.stream.tool_calls': count(sum(x.ready for x in calls)),
                'llm.stream.tool_call_ids': _ids([x.id for x in whole]) or None,
                'llm.stream.tool_call_names': [x.name or '' for x in whole] if any(x.name for x in whole) else None,
                'llm.stream.open_tool_call_ids': _ids([x.id for x in calls if not x.completed]) or None,
                'llm.stream.provider_tools_started': count(s.provider_tools),
                'llm.stream.provider_tools': [_name(t) for t in s.provider_tool_types[:64]] or None,
                'gen_ai.response.id': _id(s.id), 'gen_ai.response.model': _name(s.model, _MODEL),
                'gen_ai.usage.input_tokens': s.input, 'gen_ai.usage.output_tokens': s.output,
                'gen_ai.response.finish_reasons': finish or None,
            })
        abort = c.get('abort')
        if abort is not None:
            facts.update({k: v for k, v in _abort_facts(abort).items() if v is not None})
        self.span.set(facts)
        end = c.get('end')
        if end == 'http_error':
            self.span.fail(str(status))
        elif error:
            code = error['llm.provider_error.code']
            self.span.fail(code if code and code != 'redacted' else error['llm.provider_error.kind'])
        elif end == 'watchdog':
            self.span.fail('watchdog_timeout')
        elif abort is None and (c.get('cause') or end in ('no_response', 'read_error')):
            self.span.fail(c.get('cause') or (c.get('chain') or ['_OTHER'])[-1])
        elif end == 'terminal_event' and c.get('due'):
            self.span.fail('no_content')

    def refusal(self):
        """Return what is recorded of the error: what it means, its name, and the seconds to wait. A rate limit of more than ten
        minutes is an exhausted quota: that rule is llm_classify's, by llm.retry.after."""
        error, refused = self.state.error, self.status >= 400
        after = refused and _retry_after(self.headers) or error['after']
        meaning = _meaning_of(self.status, error, after)
        kind, front = meaning.kind, (error['type'] or '').lower() in _CATALOGUE['ownTypes']  # the gateway's own error
        if refused:
            kind = _kind_by_headers(meaning, self.headers)
            front = front or not error['shaped'] and (meaning.front or _is_intermediary(self.status, self.headers, ''.join(self.parts) if self.read else None))
        return {
            'llm.provider_error.kind': kind, 'llm.provider_error.code': _code(error['code'] or error['type']),
            'llm.provider_error.in_band': not refused, 'llm.provider_error.history': meaning.history or None,
            'llm.provider_error.intermediary': True if front else None, 'llm.retry.after': after or None,
        }


def _ending(r, how, error):
    """Decide how a request ended. What the stream itself reported takes precedence over how the reading of it stopped."""
    s = r.state
    abort = _abort_in(error, r.scope, r.around) if how == 'error' else None
    if abort is not None and abort.source == 'consumer':
        how, abort = 'close', None
    broke = _transport_of(error, r) if how == 'error' and abort is None else {}
    if abort is not None and abort.source == 'watchdog' and not s.complete and s.error is None:
        return {'end': 'watchdog', 'phase': s.phase if r.status else 'unknown', 'abort': abort, 'due': bool(r.status)}
    if not r.status:
        if abort is not None:
            return {'end': 'cancelled', 'phase': 'unknown', 'abort': abort}
        if broke.get('watchdog'):
            return {'end': 'watchdog', 'phase': 'unknown', **broke}
        stage = broke.get('stage')
        phase = 'before_connection' if stage in ('dns', 'connect', 'tls', 'proxy') else 'awaiting_response' if stage else 'unknown'
        return {'end': 'no_response', 'phase': phase, 'chain': [_type(e) for e in _chain(error, r.around)[:5]], **broke}
    if r.status >= 400:
        s.error = _safely(_error_in, ''.join(r.parts), r.headers) or _Fault().error()
        return {'end': 'http_error', 'phase': 'response_started'}

    def stop():
        if abort is not None:
            return {'end': 'cancelled', 'abort': abort, 'stage': 'body', 'cause': 'cancelled'}
        if broke.get('watchdog'):
            return {'end': 'watchdog', 'stage': 'body', 'cause': 'cancelled', 'due': True, **broke}
        if how == 'error':
            return {'end': 'read_error', 'chain': [_type(e) for e in _chain(error, r.around)[:5]], 'due': True, **broke}
        if how == 'eof':
            return {'end': 'eof', 'stage': 'body', 'cause': 'clean_eof', 'due': True}
        return {'end': 'consumer_closed' if how == 'close' else how, 'abort': Abort('consumer')}

    if r.lost:
        return {**stop(), 'phase': 'unknown'} if how in ('error', 'abandoned') else {'phase': 'unknown'}
    if s.error is not None:
        return {'end': 'terminal_event', 'phase': s.phase, 'due': True, 'over': True}
    if s.complete and (s.terminal or how != 'error' or abort is not None):
        broken = {'stage': 'body', 'cause': 'malformed_event'} if s.broken else {}
        return {'end': 'terminal_event', 'phase': 'stream_end', 'over': True, **broken}
    if s.violation:
        return {'end': stop()['end'], 'phase': s.phase, 'stage': 'body', 'cause': s.violation, 'due': True, **({'over': True} if s.terminal else {})}
    if s.terminal and not s.unread and not (s.text or s.reasoning or s.calls or s.provider_tools):
        return {'end': 'terminal_event', 'phase': 'stream_end', 'due': True, 'over': True}
    if s.terminal:
        return {'end': 'eof', 'phase': s.phase, 'stage': 'body', 'cause': 'clean_eof', 'due': True, 'over': True}
    return {'phase': s.phase, **stop(), **({'due': False} if s.complete else {})}


def _begin(method, scheme, host, port, path, headers, timeout=None):
    """Return a recording, or None if this is not a model request."""
    protocol = next((p for p in _PROTOCOLS if path.endswith(p.path)), None)
    if protocol is None or method.upper() != 'POST':
        return None
    return _Recording(protocol, scheme, host, port, headers, timeout)


# The protocols. event and document update the state.

def _items(said):
    return [x for x in said if isinstance(x, dict)] if isinstance(said, list) else []


def _text(s):
    _leave(s)
    s.text += 1
    s.phase = 'text'


def _thought(s):
    _leave(s)
    s.reasoning += 1
    s.phase = 'reasoning'


def _begin_call(s, key, id, name, part=None, free=False):
    if len(s.calls) >= _MAX_PARTS:
        raise ValueError('too many calls to follow')
    if not all(k is None or isinstance(k, int) for k in (key if isinstance(key, tuple) else (key,))):
        raise ValueError('not an index')
    _leave(s)
    s.phase = 'tool_input'
    s.writing = call = _Call(key, id, name, free)
    s.calls.append(call)
    s.by_key[key] = call
    _add_input(s, call, part)


# A client may execute a call as soon as its input is one JSON value, or a part of the answer arrives that is not of the
# call. The call is complete from then on; only one whose input is an open JSON value was executed by no client. An input
# of any form, of a custom tool, shows its end by neither.
def _add_input(s, call, part):
    """Add a part of the input of a call: a string, or a value that is all of it."""
    if s.writing is not call:
        _leave(s)
    s.writing = call
    if not call.completed:
        s.phase = 'tool_input'
    if part is not None and not isinstance(part, str):
        _complete(s, call)
    elif not call.free:
        call.follow(part or '')
        if call.input not in ('empty', 'open'):
            _complete(s, call)


def _leave(s):
    if s.writing is not None:
        _complete(s, s.writing)
    s.writing = None


def _complete(s, call):
    if not call.completed:
        s.phase = 'tool_call_ready'
    call.completed = True


def _end_input(s, call):
    """The provider has said that the input of a call is complete."""
    _complete(s, call)
    if not call.free and call.input in ('open', 'broken'):
        call.invalid = True
    call.free = True  # what comes after does not count


def _swallow(s):
    """The body ended, and its reader takes that for the end of the answer: it executes calls without arguments so far."""
    for call in s.calls:
        if call.free or call.input == 'empty':
            _complete(s, call)


def _fill_in(s):
    """The body ended without an error. A client may execute even a call whose input is an open JSON value: LangChain repairs it."""
    _swallow(s)
    if s.error is None:
        for call in s.calls:
            _complete(s, call)


# The reasons of an answer that may have been cut within the input of a call.
_CUT_BY_LIMIT = ('length', 'max_tokens', 'max_output_tokens', 'model_context_window_exceeded', 'content_filter', 'incomplete')


def _unstated(s, protocol):
    """Complete a chat that its server has ended, with content and not one finish reason: some servers send none.

    An object that is not known may have been the end, and not a good one.
    """
    _swallow(s)
    if protocol is not _Chat or s.complete or s.finish or not (s.text or s.calls or s.strange and s.choices) or not all(c.completed for c in s.calls):
        return
    for call in s.calls:
        _end_input(s, call)
        call.ready = True
    _finished(s, 'unrecognized' if s.strange else 'unstated')
    s.complete, s.phase = True, 'stream_end'


def _count_of(n):
    return n if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 53 else None


def _usage(s, input, output):
    s.input = _count_of(input) if _count_of(input) is not None else s.input
    s.output = _count_of(output) if _count_of(output) is not None else s.output


def _identify(s, said):
    if isinstance(said, dict):
        s.id = s.id or _id(said.get('id'))
        s.model = s.model or _name(said.get('model'), _MODEL)


def _finished(s, reason):
    if len(s.finish) < 64:
        s.finish.append(str(reason)[:128])


def _done(s):
    s.complete = s.terminal = True
    for call in s.calls:
        call.ready = call.completed
    s.phase = 'stream_end'


def _fail(s, error):
    if s.error is None:
        s.error, s.terminal, s.complete = error, True, False
        return
    for key, value in error.items():  # the first error is the cause; a later one adds what the first lacks
        s.error[key] = _longest(s.error[key] + value) if key == 'phrases' else s.error[key] or value


def _offered(tools, ours):
    """Return the tools that the provider executes, by their types without versions."""
    if tools is not None and not isinstance(tools, list):
        return None
    kinds = [re.sub(r'_(preview|\d).*$', '', str(t.get('type') or ours[0])) for t in _items(tools)]
    return [_name(k) for k in kinds if k not in ours][-64:]


# The members of a request that offer no tool, or whose tools are read. Another one with a value may offer some, as agent,
# tool_ids and integrations do: then what is offered is not known, and a retry asks.
_COMMON_MEMBERS = """model stream metadata store user stop n seed temperature top_p top_k min_p frequency_penalty presence_penalty repetition_penalty
  logit_bias logprobs top_logprobs response_format reasoning reasoning_effort parallel_tool_calls tool_choice tools service_tier
  safety_identifier prompt_cache_key prompt_cache_retention stream_options chat_template_kwargs models provider session_id
"""


def _says(value):
    """Whether a member with this value says anything."""
    if isinstance(value, dict):
        return any(_says(v) for v in value.values())
    return not (value is None or value is False or value == '' or value == [])


def _may_hide(body, known):
    return any(name not in known and _says(value) for name, value in body.items())


def _bound(body):
    """The bound on the tokens of the answer."""
    bounds = [body.get(k) for k in ('max_tokens', 'max_completion_tokens', 'max_output_tokens')]
    return min((n for n in bounds if isinstance(n, int) and not isinstance(n, bool) and n >= 0), default=None)


def _provider_tool(s, kind):
    s.provider_tools += 1
    kind = kind or 'unknown'
    if kind not in s.provider_tool_types:
        s.provider_tool_types.append(kind)


# The keys of a delta or a message of a chat that are counted, or are not a part of the answer.
_CHAT_KEYS = {'role', 'content', 'refusal', 'tool_calls', 'reasoning_content', 'reasoning', 'reasoning_details', 'annotations', 'extra_content'}


class _Chat:
    path, provider = '/chat/completions', 'openai'
    own = staticmethod(lambda o: any(key in o for key in ('choices', 'error', 'request_id', 'x_groq')))
    members = set((_COMMON_MEMBERS + """messages audio functions function_call max_tokens max_completion_tokens modalities prediction verbosity web_search_options thinking
  enable_thinking""").split())

    @staticmethod
    def ends_with_outputs(body):
        return False  # its models do not end a turn without a word

    @staticmethod
    def history(body):
        messages = _items(body.get('messages'))
        calls = [c.get('id') for m in messages for c in _items(m.get('tool_calls'))]
        return calls, [m.get('tool_call_id') for m in messages if m.get('role') == 'tool']

    @staticmethod
    def offered(body):
        if re.search('(^|/)compound', str(body.get('model'))):
            return None  # Groq's, which calls its own tools
        tools = _offered(body.get('tools'), ('function', 'custom'))
        return tools + ['web_search'] if tools is not None and body.get('web_search_options') is not None else tools

    @staticmethod
    def event(e, s, name=None):
        _identify(s, e)
        failure, usage = None, e.get('usage') or {}
        _usage(s, usage.get('prompt_tokens'), usage.get('completion_tokens'))
        for choice in e.get('choices') or []:
            index, delta, reason = choice.get('index'), choice.get('delta') or {}, choice.get('finish_reason')
            if index is not None and not isinstance(index, int):
                raise ValueError('not an index')
            if isinstance(reason, str) and reason.lower() in ('none', 'null'):
                reason = None  # some servers write their language's null
            native = choice.get('native_finish_reason')
            if reason in ('stop', 'tool_calls') and isinstance(native, str) and (_is_failure(native) or native.lower() in _CUT_REASONS):
                reason = native  # OpenRouter has written a stop for a limit or a failure of its provider
            s.choices[index] = s.choices.get(index) or reason is not None
            if len(s.choices) > _MAX_PARTS:
                raise ValueError('too many choices to follow')
            if delta.get('reasoning_content') or delta.get('reasoning'):
                _thought(s)
            if delta.get('content') or delta.get('refusal'):
                _text(s)
            if any(k not in _CHAT_KEYS and v is not None and v != '' and v != [] for k, v in delta.items()):
                s.unread = True  # a part of the answer of an unknown kind
            s.refused = s.refused or bool(delta.get('refusal'))
            for c in delta.get('tool_calls') or []:
                key, custom = (index, c.get('index')), c.get('custom')
                what = custom if isinstance(custom, dict) else c.get('function') or {}
                part = what.get('input' if isinstance(custom, dict) else 'arguments')
                if key in s.by_key:
                    s.by_key[key].name = s.by_key[key].name or _name(what.get('name'))
                    _add_input(s, s.by_key[key], part)
                else:
                    _begin_call(s, key, c.get('id'), what.get('name'), part, isinstance(custom, dict))
            if reason is None:
                continue
            _finished(s, 'refusal' if reason == 'stop' and s.refused else reason)  # OpenAI ends a refusal like an answer
            if _is_failure(reason):
                failure = reason
            if _is_failure(reason) or str(reason).lower() in _CUT_REASONS:
                continue  # it may be cut inside a call
            for call in s.calls:
                if call.key[0] == index:
                    _end_input(s, call)
                    call.ready = True
        error = _chat_error(e, name, failure)
        if error is not None:
            _fail(s, error)
            return
        if _is_aside(e) and any(_has_text(v) for key, v in e.items() if key not in _HEADING_KEYS):
            s.unread = s.strange = True
        s.complete = bool(s.choices) and all(s.choices.values())
        if s.complete:
            s.phase = 'tool_call_ready' if any(c.ready for c in s.calls) else 'stream_end'

    @staticmethod
    def document(body, s):
        choices = []
        for c in body.get('choices') or []:
            message = c.get('message') or {}
            calls = [{**t, 'index': i} for i, t in enumerate(message.get('tool_calls') or [])]
            choices.append({**c, 'delta': {**message, 'tool_calls': calls}})
        _Chat.event({**body, 'choices': choices}, s)
        if choices and s.error is None:
            _unstated(s, _Chat)
        s.terminal = True


class _Responses:
    path, provider = '/responses', 'openai'
    own = staticmethod(lambda o: o.get('type') and not re.match('message_|content_block_', str(o['type'])) or 'output' in o or 'error' in o)
    members = set((_COMMON_MEMBERS + """access_programs background context_management conversation include input instructions max_output_tokens max_tool_calls moderation
  previous_response_id prompt text truncation client_metadata""").split())
    ends_with_outputs = _Chat.ends_with_outputs
    ours = re.compile('(function|custom_tool)_call')
    known = re.compile(r'(message|reasoning|mcp_list_tools|mcp_approval_response|\w+_call|\w+_call_output)')

    @staticmethod
    def history(body):
        if body.get('previous_response_id') or body.get('conversation'):
            return None  # the provider has the rest
        found = _items(body.get('input'))
        kinds = [(str(i.get('type')), i.get('call_id')) for i in found]
        return ([id for k, id in kinds if re.fullmatch('(function|custom_tool)_call', k)],
                [id for k, id in kinds if re.fullmatch('(function|custom_tool)_call_output', k)])

    @staticmethod
    def offered(body):
        if body.get('prompt'):
            return None  # a stored prompt may have tools, too
        return _offered(body.get('tools'), ('function', 'custom', 'computer', 'computer_use_preview', 'local_shell', 'apply_patch'))

    @staticmethod
    def event(e, s, name=None):
        kind, item = str(e.get('type') or name or _untyped(e)), e.get('item') or {}
        ours = bool(_Responses.ours.fullmatch(str(item.get('type'))))
        _identify(s, e.get('response'))
        if kind == 'response.output_item.added':
            said = str(item.get('type'))
            _leave(s)
            if ours:
                _begin_call(s, e.get('output_index'), item.get('call_id'), item.get('name'), item.get('arguments'), said != 'function_call')
            elif said == 'mcp_approval_request':
                s.asks = True
            elif not _Responses.known.fullmatch(said):
                s.unread = True
            if any(c.get('text') or c.get('refusal') for c in _items(item.get('content'))):
                _text(s)
            if not ours and (said.endswith('_call') or said == 'mcp_list_tools') and said not in ('computer_call', 'local_shell_call', 'apply_patch_call'):
                _provider_tool(s, said[:-len('_call')] if said.endswith('_call') else said)
        elif kind == 'response.output_text.delta':
            _text(s)
        elif kind == 'response.output_text.done':
            if e.get('text') and not s.text:
                _text(s)
        elif kind == 'response.content_part.done':
            part = e.get('part') or {}
            if (part.get('text') or part.get('refusal')) and not s.text:
                _text(s)
        elif kind == 'response.refusal.delta':
            _text(s)
            s.refused = True
        elif kind in ('response.reasoning_text.delta', 'response.reasoning_summary_text.delta'):
            _thought(s)
        elif kind in ('response.function_call_arguments.delta', 'response.custom_tool_call_input.delta'):
            call = s.by_key.get(e.get('output_index'))
            if call:
                _add_input(s, call, e.get('delta'))
            else:
                s.unread = True
        elif kind in ('response.function_call_arguments.done', 'response.custom_tool_call_input.done'):
            call = s.by_key.get(e.get('output_index'))
            if call:
                _end_input(s, call)
        elif kind == 'response.output_item.done':
            call = s.by_key.get(e.get('output_index')) if ours else None
            if call and item.get('status') != 'incomplete':
                _end_input(s, call)
                call.ready = True
        elif kind in ('response.completed', 'response.incomplete'):
            response = e['response']
            usage = response.get('usage') or {}
            _usage(s, usage.get('input_tokens'), usage.get('output_tokens'))
            why = _cut_by(response) or ('incomplete' if kind == 'response.incomplete' else None)
            _finished(s, why or ('approval_required' if s.asks else 'refusal' if s.refused else
                                 'tool_calls' if any(c.ready for c in s.calls) else 'stop'))
            s.broken = s.broken and not _items(response.get('output'))  # it has all of the answer once more
            _done(s)
        elif kind in ('response.failed', 'response.cancelled', 'response.error'):  # the last one of gateways
            fault = _Fault().read((e.get('response') or {}).get('error'))
            if not fault.seen:
                fault = _flat_fault(e)  # a gateway has put it beside the response, or in its place
            if kind == 'response.cancelled':
                fault.code = fault.code or 'cancelled'
            _fail(s, fault.error())
        elif kind == 'response.done':  # of some servers: its status says how it ended
            _Responses.event({**e, 'type': f"response.{(e.get('response') or {}).get('status') or 'completed'}"}, s)
        elif kind == 'error':
            _fail(s, _error_of_event(e))
        elif kind.endswith('.delta') and not re.search(r'_call_\w+\.delta$|^response\.mcp_call', kind):
            s.unread = True

    @staticmethod
    def document(response, s):
        status, output = response.get('status'), response.get('output')
        if not isinstance(status, str) and not isinstance(output, list):  # an error, or nothing that is known
            fault = _Fault().read(response.get('error'))
            if fault.seen:
                _fail(s, fault.error())
            else:
                s.unread = True
            return
        status = status or 'completed'
        if status in ('queued', 'in_progress'):  # the provider is still working
            _identify(s, response)
            _finished(s, status)
            _done(s)
            return
        for i, item in enumerate(_items(output)):
            _Responses.event({'type': 'response.output_item.added', 'output_index': i, 'item': item}, s)
            _Responses.event({'type': 'response.output_item.done', 'output_index': i, 'item': item}, s)
            s.refused = s.refused or any(c.get('type') == 'refusal' for c in _items(item.get('content')))
        _Responses.event({'type': f'response.{status}', 'response': response}, s)


def _goes_on(thread):
    """Return whether a thread goes on from an earlier response: the request has only what is new."""
    return _says(thread) and (not isinstance(thread, dict) or thread.get('type') != 'create')


def _defined_in(messages):
    """Return the tools that messages define: their tool_addition blocks, also those in a compaction, offer them from there on."""
    blocks = [b for m in messages for b in _items(m.get('content'))]
    blocks = [c for b in blocks for c in (_items(b.get('tool_changes')) if b.get('type') == 'compaction' else [b])]
    tools = [b.get('tool') or {} for b in blocks if b.get('type') == 'tool_addition']
    tools = [t.get('definition') if t.get('type') == 'tool_definition' else t for t in tools if not str(t.get('type')).endswith('_reference')]
    return [t or {'type': 'unknown'} for t in tools]


class _Messages:
    path, provider = '/v1/messages', 'anthropic'
    own = staticmethod(lambda o: o.get('type') and not str(o['type']).startswith('response.') or 'error' in o)
    members = set((_COMMON_MEMBERS + """messages system max_tokens stop_sequences thinking cache_control container context_management output_config output_format
  mcp_servers inference_geo speed anthropic_version anthropic_beta betas thread""").split())

    @staticmethod
    def ends_with_outputs(body):
        last = _items(body.get('messages'))[-1:]
        return any(b.get('type') == 'tool_result' for m in last for b in _items(m.get('content')))

    @staticmethod
    def history(body):
        if _goes_on(body.get('thread')):
            return None  # the provider has the rest
        blocks = [b for m in _items(body.get('messages')) for b in _items(m.get('content'))]
        return ([b.get('id') for b in blocks if b.get('type') == 'tool_use'],
                [b.get('tool_use_id') for b in blocks if b.get('type') == 'tool_result'])

    @staticmethod
    def offered(body):
        if _goes_on(body.get('thread')):
            return None  # the thread has its tools
        tools = body.get('tools')
        if tools is None or isinstance(tools, list):
            tools = (tools or []) + _defined_in(_items(body.get('messages')))
        tools = _offered(tools, ('custom', 'bash', 'text_editor', 'computer', 'memory'))
        if tools is None:
            return None
        container = body.get('container')
        skills = isinstance(container, dict) and container.get('skills')
        return tools + (['mcp'] if body.get('mcp_servers') else []) + (['skills'] if skills else [])

    @staticmethod
    def event(e, s, name=None):
        kind = e.get('type') or name or _untyped(e)
        if kind == 'message_start':
            again = e['message'].get('id')
            if s.blocks and not s.terminal and again and again == s.message:
                return  # gateways repeat it
            if s.blocks and not s.terminal:  # a gateway has appended the answer of another attempt
                s.broken, s.spliced, s.violation, s.writing = True, True, s.violation or 'malformed_event', None
                for c in s.calls:
                    if not c.free:
                        _end_input(s, c)
            s.message = again
            _identify(s, e['message'])
            _usage(s, (e['message'].get('usage') or {}).get('input_tokens'), None)
        elif kind == 'content_block_start':
            block = e['content_block']
            s.blocks = True
            said = str(block.get('type'))
            _leave(s)
            if said == 'tool_use':
                _begin_call(s, e.get('index'), block.get('id'), block.get('name'), block.get('input') or None)
            elif said in ('server_tool_use', 'mcp_tool_use'):
                _provider_tool(s, 'mcp' if said == 'mcp_tool_use' else re.sub(r'_tool_(regex|bm25)$', '', str(block.get('name') or '')))
            elif said == 'text':
                if block.get('text'):
                    _text(s)
            elif not re.fullmatch(r'(redacted_)?thinking|\w+_tool_result|container_upload', said):
                s.unread = True
        elif kind == 'content_block_delta':
            said = str(e['delta'].get('type'))
            if said == 'text_delta':
                _text(s)
            elif said == 'thinking_delta':
                _thought(s)
            elif said == 'input_json_delta':
                if e.get('index') in s.by_key:
                    _add_input(s, s.by_key[e.get('index')], e['delta'].get('partial_json'))
            elif said not in ('signature_delta', 'citations_delta'):
                s.unread = True
        elif kind == 'content_block_stop':
            call = s.by_key.get(e.get('index'))
            if call:
                _end_input(s, call)
        elif kind == 'message_delta':
            _usage(s, None, (e.get('usage') or {}).get('output_tokens'))
            if e['delta'].get('stop_reason'):
                _finished(s, e['delta']['stop_reason'])
        elif kind == 'message_stop':
            if s.finish:
                _done(s)
            s.terminal = True
        elif kind == 'error':
            _fail(s, _error_of_event(e))

    @staticmethod
    def document(body, s):
        if body.get('type') == 'error' or body.get('error'):
            _Messages.event({**body, 'type': 'error'}, s)
            return
        s.unread = s.unread or not isinstance(body.get('content'), list)
        _identify(s, body)
        for i, block in enumerate(_items(body.get('content'))):
            _Messages.event({'type': 'content_block_start', 'index': i, 'content_block': block}, s)
            _Messages.event({'type': 'content_block_stop', 'index': i}, s)
        usage = body.get('usage') or {}
        _usage(s, usage.get('input_tokens'), None)
        _Messages.event({'type': 'message_delta', 'delta': body, 'usage': usage}, s)
        _Messages.event({'type': 'message_stop'}, s)


_PROTOCOLS = (_Chat, _Responses, _Messages)


# Errors. An error is a dict of code, type, status, after, phrases, long, quoted and shaped: its names, the HTTP status that it names
# itself, the seconds that it asks to wait, and of its words which phrases of the catalogue are in them, whether they name a limit of a
# long period, and the HTTP status of an error that they quote. The words are searched and not kept.

_MAX_WORDS = 4  # how many texts of one error are searched
_MAX_DEPTH = 4  # how deep they are nested
_MAX_MESSAGE = 4096  # the beginning of a text that is searched


def _text_of(value):
    """Return a text, or a number as text."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else ''


class _Fault:
    """Reads an object that may be an error, in the form of any provider."""

    def __init__(self):
        self.seen = False  # it is an error by its form
        self.listed = False  # it is one of a list
        self.beside = False  # there are objects or lists in it that are not read
        self.failed = False  # it says that it is no success
        self.type = self.code = ''
        self.reason = ''  # Google's code, whose code is a status, or Anthropic's
        self.quota = ''  # Google's name of a quota that is used up for the day
        self.status, self.after, self.words = 0, 0.0, []

    def read(self, value):
        """Read the value of a member that is an error: an object, a text, or a list, as of Cloudflare's AI Gateway. None, '', {} and [] are none."""
        if isinstance(value, dict):
            for key, v in value.items():
                self.seen = True
                self.member(key, v)
        elif isinstance(value, list):
            self.in_words(value)
            self.listed = bool(self.words or self.code)
            self.seen = self.seen or self.listed
        elif isinstance(value, str) and value:
            self.seen = True
            self.say(value)
        return self

    def say(self, text):
        if text and len(self.words) < _MAX_WORDS:
            self.words.append(text[:_MAX_MESSAGE])

    def member(self, key, v):
        key = _uncapital(key)
        if key == 'type':
            self.type = _text_of(v)
        elif key == 'code':
            self.code = _text_of(v)
            self.set_status(v)
        elif key in ('status', 'status_code', 'statusCode', 'http_status', 'http_status_code', 'http_code'):
            if not self.set_status(v) and not self.type:
                self.type = _text_of(v)  # a name in Google's errors
        elif key in ('message', 'msg', 'detail', 'title', 'error_message', 'error_description', 'description', 'innererror', 'upstream_error', 'errors'):
            self.in_words(v)
        elif key == 'value' and isinstance(v, dict):
            self.in_words(v)  # of Vercel's gateway: the chunk of a provider that it did not know
        elif key == 'base_resp':
            self.base(v)
        elif key == 'reason':  # of Amazon's services, beside a message
            if isinstance(v, str) and _is_known(v):
                self.reason = v
        elif key in ('retry_after', 'retry_after_seconds', 'resets_in_seconds', 'reset_seconds'):
            self.set_after(v, 1)
        elif key == 'retry_after_ms':
            self.set_after(v, 0.001)
        elif key in ('resets_at', 'reset_at', 'reset_time'):
            self.set_reset(v)
        elif key in ('metadata', 'details'):
            for one in v if isinstance(v, list) else [v]:
                self.detail(one)
        elif key == 'success':
            self.failed = v is False
        elif isinstance(v, (dict, list)):
            self.beside = True

    def in_words(self, v, depth=0):
        """Read a text, or what has one: an object or a list. The names in it count if the error has no other."""
        if depth > _MAX_DEPTH:
            return
        if isinstance(v, str):
            self.say(v)
        elif isinstance(v, list):
            for one in v:
                self.in_words(one, depth + 1)
        elif isinstance(v, dict):
            for key, one in v.items():
                if key in ('code', 'reason'):
                    self.code = self.code or _text_of(one)
                elif key == 'type':
                    if self.type in ('', 'error'):
                        self.type = one if isinstance(one, str) else ''
                elif key in ('message', 'msg', 'detail', 'error', 'innererror', 'error_message'):
                    self.in_words(one, depth + 1)

    def base(self, v):
        """Read MiniMax's status, which comes with every answer: 0 is success."""
        if not isinstance(v, dict):
            return
        status = v.get('status_code')
        if isinstance(status, (int, float)) and not isinstance(status, bool) and status != 0:
            self.seen, self.code = True, f'base_resp.{status}'
        if isinstance(v.get('status_msg'), str):
            self.say(v['status_msg'])

    def detail(self, v):
        """Read OpenRouter's metadata, or one of Google's details."""
        if isinstance(v, str):
            self.say(v)
        if not isinstance(v, dict):
            return
        for key, one in v.items():
            if key in ('retry_after', 'retry_after_seconds', 'retry_after_ms'):
                self.member(key, one)
            elif key == 'headers' and isinstance(one, dict):
                for name, at in one.items():
                    if name.lower() == 'x-ratelimit-reset':
                        self.set_reset(at)
            elif key == 'retryDelay':
                self.after = _delay_in(_text_of(one)) or self.after
            elif key in ('reason', 'error_code'):
                self.reason = one if isinstance(one, str) else ''
            elif key == 'error_type':
                self.type = self.type or _text_of(one)
            elif key in ('raw', 'limit_source', 'detail'):  # raw is the provider's own error
                self.in_words(one)
            elif key == 'violations':
                for q in _items(one):
                    # Only its name distinguishes a quota that is used up for the day from a limit of a minute.
                    if 'PerDay' in str(q.get('quotaId')):
                        self.quota = str(q['quotaId'])

    def set_status(self, v):
        status = _status_in(_text_of(v))
        self.status = status or self.status
        return status > 0

    def set_after(self, v, unit):
        seconds = _number(_text_of(v), None)
        if seconds is not None:
            self.after = _within(seconds * unit)

    def set_reset(self, v):
        self.after = self.after or _moment_in(_text_of(v))

    def name(self):
        return self.quota or (self.reason if self.reason and (self.status or not self.code) else self.code)

    def shaped(self):
        """Whether it has the form of a provider's error. An address as type is that of problem+json."""
        return not self.listed and (self.seen or self.name() != '' or self.type != '' and not re.search('://|^about:', self.type))

    def known(self):
        """Whether it is an error by what it says, although it does not have the form of one."""
        return (self.status > 0 or _is_known(self.name()) or bool(self.words) and _is_known(self.type)
                or any(_phrases_in(text) for text in self.words)
                or (self.failed or _is_failure_code(self.code)) and bool(self.words) and not self.beside)

    def error(self):
        code, kind, after, phrases, long, quoted_status = self.name()[:128], self.type[:128], self.after, [], False, 0
        for text in self.words:
            after = after or _wait_in(text)
            phrases = _longest(phrases + _phrases_in(text))
            long = long or _names_long_period(_plain(text))
            quoted_status = quoted_status or _status_quoted(text)
            quoted = _names_in(text) if _is_general(code) or _is_general(kind) else {}
            if _is_general(code):
                code = quoted.get('code', code)
            if _is_general(kind):
                kind = quoted.get('type', kind)
        return {'code': code, 'type': kind, 'status': self.status, 'after': after, 'phrases': phrases, 'long': long, 'quoted': quoted_status,
                'shaped': self.shaped()}


def _fault_in(document):
    """Read a document that may be an error: {"error":{…}} or {"error":"text"} of most, or flat, as of vLLM, AWS and gateways."""
    nested, flat = _Fault(), _Fault()
    if not isinstance(document, dict):
        return flat
    for key, v in document.items():
        if key == 'error':
            nested.read(v)
        elif key == 'OriginalStatusCode':  # of SageMaker: what the model answered
            flat.set_status(v)
        elif key in ('Response', 'response'):  # of Tencent Cloud, which wraps an answer, too
            for inner, error in v.items() if isinstance(v, dict) else ():
                if _uncapital(inner) == 'error':
                    nested.read(error)
        elif key == 'object':
            flat.seen = flat.seen or v == 'error'
        elif key == 'type' and v == 'error':
            flat.seen = True
        elif key == 'type':
            flat.type = v if isinstance(v, str) else ''
        elif key == '__type':
            flat.type = flat.type or _shape_name(_text_of(v))
        elif key == 'error_code':  # of FastChat and Qianfan
            if _text_of(v) not in ('', '0'):
                flat.seen, flat.code = True, _text_of(v)
        elif key == 'error_msg':
            flat.in_words(v)
        else:
            flat.member(key, v)
    if flat.seen and isinstance(document.get('text'), str):
        flat.say(document['text'])
    if not nested.seen:
        return flat
    nested.after, nested.status = nested.after or flat.after, nested.status or flat.status
    if isinstance(document.get('error'), str):
        nested.type, nested.code = flat.type, flat.code  # the members beside it are those of the error
    for text in flat.words:
        nested.say(text)
    return nested


def _besides(fault, e):
    """Return the error with what the members beside it say, if it is a text alone: {"error":"text","status":400,"details":"text"}."""
    if not fault.seen or fault.status or fault.type or fault.name():
        return fault
    whole = _fault_in(e)
    return whole if whole.seen else fault


def _uncapital(key):
    """Return a key without the capital that the services of Amazon and Tencent Cloud begin it with."""
    return key[0].lower() + key[1:] if 'A' <= key[:1] <= 'Z' else key


def _is_failure_code(code):
    """Whether a code is a number that is not one of success."""
    return bool(re.fullmatch('-?[0-9]{1,18}', code, re.ASCII)) and not 0 <= int(code) < 400


def _shape_name(said):
    """Return the name of an AWS error without the namespace before it and the address after it."""
    return said.split(':')[0].split('#')[-1]


def _is_failure(reason):
    """Whether a finish reason is an error. Such an answer is not complete, whatever preceded it."""
    return reason == 'error' or str(reason).lower() in _CATALOGUE['finishReasons']


# The finish reasons of an answer that something cut, and which may end within the input of a call.
_CUT_REASONS = {'length', 'max_tokens', 'max_output_tokens', 'model_length', 'model_context_window_exceeded', 'content_filter', 'safety', 'recitation',
                'blocklist', 'prohibited_content', 'spii', 'refusal'}


# The members of a chunk without choices that is not an error.
_CHUNK_KEYS = {'id', 'model', 'usage', 'x_groq', 'object', 'created', 'obfuscation', 'request_id', 'system_fingerprint', 'service_tier', 'provider'}


def _is_aside(e):
    """Whether an object is no chunk."""
    return e.get('choices') is None and any(key not in _CHUNK_KEYS for key in e)


# The members that say what a chunk is of.
_HEADING_KEYS = {'id', 'model', 'object', 'request_id', 'system_fingerprint', 'service_tier', 'provider', 'x_groq'}


def _has_text(v):
    if isinstance(v, (dict, list)):
        return any(_has_text(one) for one in (v.values() if isinstance(v, dict) else v))
    return isinstance(v, str) and v != ''


def _is_broken(payload):
    """Whether a payload that cannot be parsed would have been a part of the answer: an object that is not whole. A word would not have been."""
    try:
        return payload.lstrip().startswith('{') and json.JSONDecoder().raw_decode(payload.lstrip()) is None
    except (ValueError, RecursionError):
        return True


def _chat_error(e, name, failure):
    """Return the error in an event of Chat Completions: in a member, flat (vLLM), by the name of the event, or as a reason to finish."""
    fault = _Fault().read(e.get('error'))
    for choice in _items(e.get('choices')):
        fault.read(choice.get('error'))  # OpenRouter
    fault.base(e.get('base_resp'))
    groq = e.get('x_groq').get('error') if isinstance(e.get('x_groq'), dict) else None
    if isinstance(groq, str) and groq:
        fault.seen, fault.code = True, groq if re.fullmatch(r'[\w.:/-]{1,64}', groq, re.ASCII) else fault.code
    else:
        fault.read(groq)
    if fault.seen:
        return _besides(fault, e).error()
    marked = name == 'error' or e.get('object') == 'error'
    if marked or _is_aside(e):
        flat = _fault_in(e)
        if marked or flat.seen or flat.known():
            return flat.error()
    return {**_Fault().error(), 'type': str(failure)[:128]} if failure is not None else None


def _cut_by(response):
    """Return what cut a response that has ended; gateways send response.completed then, too."""
    stop = response.get('stop_reason')
    return ((response.get('incomplete_details') or {}).get('reason') or (stop if stop in ('length', 'max_tokens', 'content_filter') else None)
            or ('incomplete' if response.get('status') == 'incomplete' else None))


def _untyped(e):
    """Return the type of an event that some gateways send without one: an error."""
    fault = _fault_in(e)
    return 'error' if fault.seen or fault.known() else None


def _error_of_event(e):
    """Return the error of an error event, which has it in a member or is flat."""
    fault = _Fault().read(e.get('error'))
    return (_besides(fault, e) if fault.seen else _fault_in(e)).error()


def _flat_fault(e):
    """Read the error of an event of Responses, which has it in a member or in its own."""
    fault = _Fault().read(e.get('error'))
    if not fault.seen:
        for key in ('code', 'message', 'status', 'retry_after'):
            fault.member(key, e.get(key))
    return _besides(fault, e)


def _error_in(body, headers):
    """Return the error in the body of a response with an error status, whatever form the body has."""
    body = body.lstrip('\ufeff')
    start = body.lstrip()[:1]
    found = None if start == '<' else _json_in(body)
    if isinstance(found, list):
        found = next(iter(_items(found)), None)
    fault = _fault_in(found)
    if not fault.shaped() and not fault.words and (start != '{' or not found):
        fault.say(body)  # a text or a page
    e = fault.error()
    aws = _shape_name(headers.get('x-amzn-errortype') or '')
    if not e['type'] and _is_known(aws):
        e.update(type=aws, shaped=e['shaped'] or not headers.get('x-amz-apigw-id'))
    return e


def _json_in(text):
    """Return the document in a text, which may have something around it."""
    found = _safely(json.loads, text)
    return found if found is not None else _safely(json.loads, text[max(text.find('{'), 0):text.rfind('}') + 1])


# The catalogue.

_CATALOGUE = otelllm_catalogue.CATALOGUE
_Rule = collections.namedtuple('_Rule', 'kind by history only front', defaults=('', 0, 0))
_NAMES = {name: [_Rule(*r) for r in rules] for name, rules in _CATALOGUE['names'].items()}
_PHRASES = [(place, text, _Rule(*r)) for place, (text, r) in enumerate(_CATALOGUE['phrases'])]  # the longest first
_INTERMEDIARIES = set(_CATALOGUE['intermediaryServers'])

# What decides, from the weakest on: any status, a name of many errors, a status that names a cause, a type, a phrase, a code that names
# the cause. Of several the strongest decides, of equal ones the first.
_STRENGTHS = ('nothing', 'class', 'family', 'status', 'type', 'phrase', 'specific')


def _meaning_of(response_status, error, after):
    """Return what an error means under the status of the response, which asks to wait for some seconds: a rule."""
    said = error['code'], error['type']
    own = error['status'] or _status_in(said[0]) or _status_in(said[1])
    # 424 is that of a gateway: the error names the status of what failed.
    status = response_status if response_status >= 400 and not (response_status == 424 and own) else own
    found = []
    if not 400 <= status < 500 and error['quoted']:  # a gateway has its own status for an error of a provider, or none within a stream
        status = error['quoted']
        found.append(_Rule(_CATALOGUE['statuses'].get(str(status), 'invalid_request'), 'status'))
    for i, name in enumerate(map(_name_in, said)):
        rule = _rule_of(name, status)
        if rule is not None and rule.by == 'family' and rule.kind == 'server_error' and 400 <= status < 500:
            continue  # the gateway's own type, beside the status of the provider
        if rule is not None:
            found.append(rule._replace(by='type') if i > 0 and rule.by == 'specific' else rule)
        elif name in _CATALOGUE['finishReasons']:
            found.append(_Rule(_CATALOGUE['finishReasons'][name], 'type'))
    found += [rule for _, _, rule in error['phrases'] if not rule.only or rule.only == status or not status]
    if error['long'] and status not in _NO_QUOTA and not 0 < after <= _SHORT_WAIT:
        found.append(_Rule('quota_exhausted', 'phrase'))
    if str(status) in _CATALOGUE['statuses']:
        found.append(_Rule(_CATALOGUE['statuses'][str(status)], 'status'))
    if status >= 400:
        found.append(_Rule('server_error' if status >= 500 else 'invalid_request', 'class'))
    best = max(found, key=lambda rule: _STRENGTHS.index(rule.by), default=_Rule('unknown', 'nothing'))  # the first of equal ones
    return best._replace(front=any(rule.front for rule in found))


def _rule_of(name, status):
    """Return the rule of a name under a status, or None."""
    rules = _NAMES.get(_known_as(name), [])
    for rule in rules:
        if not rule.only or rule.only == status:
            return rule
    if rules and not status:
        return rules[0]
    if 'perday' in name or not rules and re.search('[-_]', name) and _names_long_period(name, code=True):  # Google's quotas of a day, and others
        return _Rule('quota_exhausted', 'specific')
    return None


def _name_in(said):
    """Return a name as the catalogue has it."""
    return said.lower() if len(said) <= 80 else ''


def _known_as(name):
    """Return the name in the catalogue that a name means: without upstream_, which gateways write before it, or the last or the first of
    its parts, as in InternalError.Algo.InvalidParameter and AuthFailure.SignatureFailure."""
    if name in _NAMES:
        return name
    if name.startswith('upstream_'):
        return name[len('upstream_'):]
    parts = name.split('.')
    return parts[-1] if len(parts) > 1 and parts[-1] in _NAMES and not re.fullmatch('[0-9]*', parts[-1]) else parts[0]


def _is_known(name):
    return _known_as(_name_in(name)) in _NAMES


def _is_general(name):
    """Whether another name may say more."""
    return not any(rule.by == 'specific' for rule in _NAMES.get(_known_as(_name_in(name)), ()))


def _status_in(text):
    return int(text) if re.fullmatch('[45][0-9]{2}', text) else 0


def _plain(text):
    """Return a text as it reads however often it was quoted."""
    return re.sub('[\0- ]+', ' ', text[:_MAX_MESSAGE].replace('\\', ''))


def _longest(found):
    return sorted(set(found))[:4]


def _phrases_in(text):
    words = _plain(text).lower()
    return _longest([p for p in _PHRASES if p[1] in words])


# Limits of a long period, which do not pass within minutes: "monthly usage limit", "tokens per day limit exceeded". period.go of the
# catalogue has the same rules.

_NO_QUOTA = (401, 404, 405, 407, 410, 413)  # who asks is not known, or what is asked for does not exist
_SHORT_WAIT = 600  # seconds: a limit of a long period whose window slides may pass so soon
_NEAR_LIMIT = 48  # bytes between a period and what is limited
_MAX_PERIODS = 16  # of one text that are looked at


def _any_of(name, whole=False):
    """Return an expression for the words of a list: one of letters begins where a word of the text does, and a whole one ends there."""
    return '(?:' + '|'.join(
        ('(?<![a-z0-9])' if re.match('[#a-z0-9]', word) else '') + word.replace('#', '[0-9]+')
        + ('(?![a-z0-9])' if whole and re.search('[a-z0-9]$', word) else '') for word in _CATALOGUE['periods'][name]) + ')'


_PERIODS = re.compile(
    f"(?P<long>{_any_of('long', True)})|{_any_of('short', True)}|(?P<owner>{_any_of('owners', True)}(?= ?(?:usage )?{_any_of('limits')}))")
_LIMITS = re.compile(_any_of('limits'))
_COUNTED = re.compile(_any_of('limits') + '|' + _any_of('counted'))
_SPENT = re.compile(_any_of('spent'))
_SENTENCE_END = re.compile('[.!?;] |[。！；]')


def _names_long_period(said, code=False):
    """Whether a message or a code names such a limit. The first period near a limit decides; without one, what has a limit that is no
    rate: "session limit"."""
    text = re.sub('[-_]', ' ', said.lower())
    limits = _COUNTED if code or _SPENT.search(text) else _LIMITS
    owned, seen = False, 0
    for found in _PERIODS.finditer(text):
        if found['owner']:
            owned = True
        elif limits.search(_around(text, found.start(), found.end())):
            return found['long'] is not None
        else:
            seen += 1
            if seen == _MAX_PERIODS:
                break
    return owned


def _around(text, start, end):
    """Return what is near a part of a text, in the same sentence. A character that is cut fits no word."""
    before = text[:start].encode(errors='surrogatepass')[-_NEAR_LIMIT:].decode(errors='replace')
    after = text[end:].encode(errors='surrogatepass')[:_NEAR_LIMIT].decode(errors='replace')
    return _SENTENCE_END.split(before)[-1] + text[start:end] + _SENTENCE_END.split(after)[0]


# The HTTP status that a message quotes, as a member, in words such as "Error code: 400" and "400 Bad Request", or by the name of LiteLLM's exception for it.
_EXCEPTIONS = {'badrequest': 400, 'unprocessableentity': 422, 'authentication': 401, 'permissiondenied': 403, 'notfound': 404, 'ratelimit': 429}
_QUOTED_STATUS = re.compile(
    r"""\b(?:code|status|status_code|statuscode|http_status|http|returned)["']? *(?:[:=] *|of +)?["'(]?([45]\d\d)\b"""
    r"""|\b(4\d\d) (?:bad request|unauthorized|payment required|forbidden|not found|unprocessable entity|too many requests)\b"""
    rf"""|\blitellm\.({'|'.join(_EXCEPTIONS)})error\b""", re.ASCII)


def _status_quoted(text):
    """Return the only status of 400 to 499 that a message quotes, or 0. Those of 500 and more are mostly the gateway's own, and what
    went wrong with a fallback says nothing about the request."""
    words = _plain(text).lower().split('error doing the fallback')[0]
    found = itertools.islice(_QUOTED_STATUS.finditer(words), 16)
    refused = {status for status in (int(f[1] or f[2] or _EXCEPTIONS[f[3]]) for f in found) if status < 500}
    return refused.pop() if len(refused) == 1 else 0


_QUOTED = re.compile(r"""(\w+)["'] *: *(["'])(.*?)\2""", re.ASCII)


def _names_in(text):
    """Return the first known code and type that a text quotes: gateways put the error of a provider into their own message."""
    found = {}
    for key, _, value in _QUOTED.findall(_plain(text)):
        if key in ('code', 'reason', 'error_code') and _is_known(value):
            found.setdefault('code', value)
        elif key in ('type', 'status', '__type', 'error_type') and _is_known(value):
            found.setdefault('type', value)
        elif key == 'quotaId' and 'perday' in _name_in(value):
            found['code'] = value
    return found


# Waits, in seconds.

_MAX_WAIT = 86400.0
_WAIT_BEFORE = re.compile(r'(?:\b(?:in|after|within|for)|\bwait)\s+(?:about |another |approximately |~)?(?=[0-9])', re.ASCII | re.IGNORECASE)
_RESET_BEFORE = re.compile(r'\b(?:at|on|until)\s+(?=[0-9])', re.ASCII | re.IGNORECASE)
_WAITS = re.compile('again|retry|etry|reset|wait|available|refill|renew|replenish|refresh|restore|cool|unlock|until', re.IGNORECASE)  # "100 requests in 5 hours" is no wait
_UNITS = {unit: n for n, units in (
    (0.001, 'ms millisecond milliseconds'), (1, 's sec secs second seconds'), (60, 'm min mins minute minutes'), (3600, 'h hr hrs hour hours'),
    (86400, 'd day days'), (604800, 'week weeks')) for unit in units.split()}
_DELAY = re.compile('([0-9.]{0,12}) *([A-Za-z]*)')
_MOMENT = re.compile(r'([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})?')


def _within(seconds):
    return min(seconds, _MAX_WAIT) if seconds > 0 else 0.0


def _wait_in(message):
    """Return the wait that a message asks for: "try again in 1m3.5s", "resets at 2026-05-15T15:00:00Z"; 0: none."""
    for before, read in ((_WAIT_BEFORE, _delay_in), (_RESET_BEFORE, _moment_in)):
        for found in itertools.islice(before.finditer(message), 8):
            after = read(message[found.end():]) if _WAITS.search(message[max(0, found.start() - 60):found.end()]) else 0
            if after > 0:
                return after
    return 0.0


def _delay_in(text):
    """Read a sequence of durations: 6m0s, 20ms, 1.5 seconds."""
    total, at = 0.0, 0
    while True:
        found = _DELAY.match(text, at)
        number = _number(found[1], None)
        if number is None or found[2] not in _UNITS:
            return total
        total, at = _within(total + number * _UNITS[found[2]]), found.end()


def _moment_in(text):
    """Return the time until a moment: a date and a time, or seconds or milliseconds since 1970."""
    at = _day_in(text)
    if at is None:
        at = _number(re.match('[0-9.]*', text)[0].rstrip('.'), 0.0)
        at = at / 1000 if at > 1e11 else at if at >= 1e6 else 0.0
    return _within(at - time.time())


def _day_in(text):
    """Return a date and a time, of UTC if it has no zone, as seconds since 1970, or None."""
    found = _MOMENT.match(text)
    if not found:
        return None
    at = _safely(datetime.datetime.fromisoformat, f"{found[1]}T{found[2]}{'+00:00' if found[3] in (None, 'Z') else found[3]}")
    return at.timestamp() if at is not None else None


def _date(said):
    at = _safely(email.utils.parsedate_to_datetime, said) if said else None
    return at.timestamp() if at is not None else None


def _retry_after(headers):
    """Return the wait that the headers ask for, against the sender's own clock where it says what it is."""
    now = _date(headers.get('date')) or time.time()
    ms = _number(headers.get('retry-after-ms'), None)
    if ms is not None:
        return _within(ms / 1000)
    after = headers.get('retry-after')
    if after:
        seconds = _number(after, None)
        return _within(seconds if seconds is not None else (_date(after) or now) - now)
    wait = 0.0
    for limit in ('requests', 'tokens', 'input-tokens', 'output-tokens'):  # of Anthropic, those that are used up
        if headers.get(f'anthropic-ratelimit-{limit}-remaining') == '0':
            wait = max(wait, _within((_day_in(headers.get(f'anthropic-ratelimit-{limit}-reset') or '') or now) - now))
    if headers.get('anthropic-ratelimit-unified-status') == 'rejected':  # of a plan
        wait = max(wait, _within(_number(headers.get('anthropic-ratelimit-unified-reset'), 0.0) - now))
    return wait


def _is_intermediary(status, headers, body):
    """Whether an error response, which does not have the form of a provider's, comes from something in front of the provider: a
    header or words of its own answers, a status that only such a server has, or a page, problem details or an empty body with the
    headers that it writes into every answer. body is None if it was not read."""
    if status in _CATALOGUE['intermediaryStatuses'] or headers.get('cf-mitigated'):
        return True
    server = (headers.get('server') or '').split('/')[0].lower()
    text = (body or '').strip()[:1024].lower()
    if (server in _CATALOGUE['ownServers'] or any(headers.get(h) for h in _CATALOGUE['ownHeaders']) or
            any(w in text for w in _CATALOGUE['ownWords']) or _own_form(status, headers, text)):
        return True
    kind = (headers.get('content-type') or '').split(';')[0].strip().lower()
    page = kind == 'text/html' or (body or '').strip().startswith('<')
    if not page and kind != 'application/problem+json' and (body is None or body.strip()):
        return False
    return page or server in _INTERMEDIARIES or bool(headers.get('cf-ray') or headers.get('via'))


def _own_form(status, headers, text):
    """Whether a response has the form of one that Amazon API Gateway, Traefik or Cloudflare made itself."""
    if not text:
        return False
    if headers.get('x-amz-apigw-id') and headers.get('x-amzn-errortype'):
        return True
    if headers.get('apigw-requestid'):
        return re.fullmatch(r'\{\s*"message"\s*:\s*"[^"\\]+"\s*\}', text) is not None
    return text == {502: 'bad gateway', 504: 'gateway timeout'}.get(status) or re.fullmatch(r'error code: [0-9]{1,4}', text) is not None


def _kind_by_headers(meaning, headers):
    """Correct a kind by what only headers say: a CDN wants a person, or the provider advises for or against another attempt."""
    advice = headers.get('x-should-retry')
    if (headers.get('cf-mitigated') or '').lower() == 'challenge':
        return 'permission'
    if advice == 'false' and meaning.kind == 'rate_limited':
        return 'quota_exhausted'
    if advice == 'true' and meaning.kind == 'invalid_request' and _STRENGTHS.index(meaning.by) <= _STRENGTHS.index('family'):
        return 'rate_limited'
    return meaning.kind


# The causes by the system's codes: [cause, stage], before the response began.
_CODES = {
    'ECONNREFUSED': ('connect_refused', 'connect'), 'EHOSTUNREACH': ('connect_unreachable', 'connect'),
    'ENETUNREACH': ('connect_unreachable', 'connect'), 'EPIPE': ('write_failed', 'write'),
}
_DNS = {getattr(socket, name): name for name in ('EAI_AGAIN', 'EAI_NONAME', 'EAI_NODATA', 'EAI_FAIL', 'EAI_SERVICE') if hasattr(socket, name)}
_CONNECTING = {'ConnectError', 'ConnectTimeout', 'ClientConnectorError', 'ClientConnectorDNSError', 'ClientConnectorSSLError', 'ClientConnectorCertificateError'}

# The causes by the names of the classes of httpx, httpcore and aiohttp.
_CLASSES = {
    'ConnectTimeout': ('connect_timeout', 'connect'), 'ConnectionTimeoutError': ('connect_timeout', 'connect'), 'PoolTimeout': ('connect_timeout', 'connect'),
    'ReadTimeout': ('header_timeout', 'headers'), 'SocketTimeoutError': ('header_timeout', 'headers'),
    'WriteTimeout': ('write_failed', 'write'), 'WriteError': ('write_failed', 'write'),
    'ProxyError': ('proxy', 'proxy'), 'ClientProxyConnectionError': ('proxy', 'proxy'), 'ClientHttpProxyError': ('proxy_refused', 'proxy'),
    'ServerDisconnectedError': ('closed_before_headers', 'headers'), 'ReadError': ('closed_before_headers', 'headers'),
    'UnsupportedProtocol': ('invalid_url', None), 'InvalidURL': ('invalid_url', None), 'InvalidUrlClientError': ('invalid_url', None),
    'LocalProtocolError': ('invalid_request', None),
}
_DISCONNECTED = 'Server disconnected without sending a response.'  # httpcore's whole message
_TRUNCATED = re.compile(r'peer closed connection without sending complete message body \([^)]*\)')  # h11's
_BAD_CHUNK = re.compile('illegal chunk (header|footer).*')


def _transport_of(error, r):
    """Return the facts on a transport error: by the first code in its chain, then by the names of its classes."""
    chain = _chain(error, r.around)
    names = [type(e).__name__ for e in chain]
    connecting = any(n in _CONNECTING for n in names)
    for e in chain:
        if isinstance(e, ssl.SSLError):
            code = 'CERTIFICATE_VERIFY_FAILED' if isinstance(e, ssl.SSLCertVerificationError) else _name(e.reason)
            if r.status:
                return {'stage': 'body', 'cause': 'body_truncated' if isinstance(e, ssl.SSLEOFError) else None, 'code': code}
            return {'stage': 'tls', 'cause': 'tls', 'code': code} if connecting else {'stage': 'headers', 'code': code}
        if isinstance(e, socket.gaierror):
            temporary = e.errno == getattr(socket, 'EAI_AGAIN', None)
            return {'stage': 'dns', 'cause': 'dns_temporary' if temporary else 'dns_not_found', 'code': _DNS.get(e.errno)}
        if not isinstance(e, OSError) or not e.errno:
            continue
        code = errno.errorcode.get(e.errno)
        if r.status:
            return {'stage': 'body', 'cause': {'ECONNRESET': 'connection_reset', 'ETIMEDOUT': 'connection_lost'}.get(code), 'code': code}
        if code in _CODES:
            cause, stage = _CODES[code]
            return {'stage': stage, 'cause': cause, 'code': code}
        if connecting:
            return {'stage': 'connect', 'cause': 'connect_timeout' if code == 'ETIMEDOUT' else None, 'code': code}
        if code == 'ECONNRESET':
            if 'WriteError' in names:
                return {'stage': 'write', 'cause': 'write_failed', 'code': code}
            return {'stage': 'headers', 'cause': 'closed_before_headers', 'code': code}
        return {'stage': 'headers', 'code': code}
    for e, name in zip(chain, names):
        if name in ('ServerTimeoutError', 'SocketTimeoutError', 'ReadTimeout') and r.status:
            return {'watchdog': 'idle', 'limit': r.timeout}
        if name == 'ServerTimeoutError':
            return {'cause': 'header_timeout', 'stage': 'headers'} if r.connected else {'cause': 'connect_timeout', 'stage': 'connect'}
        if r.total and type(e) in _TIMEOUTS:
            # aiohttp's own timer, 300 s by default, or a shorter one of the program. Its own begins before the first hook.
            return {'watchdog': 'total', 'limit': float(r.total) if r.total is not True and r.ended >= 0.9 * r.total else None}
        if name == 'RemoteProtocolError':
            said = str(e)  # matched as a whole, and not recorded
            if not r.status:
                return {'cause': 'closed_before_headers' if said == _DISCONNECTED else None, 'stage': 'headers'}
            if _TRUNCATED.fullmatch(said):
                return {'cause': 'body_truncated', 'stage': 'body'}
            if said.startswith('<StreamReset '):
                return {'cause': 'h2_stream_reset', 'stage': 'body'}
            if said.startswith('<ConnectionTerminated '):
                return {'cause': 'h2_goaway', 'stage': 'body'}
            return {'cause': 'malformed_event' if _BAD_CHUNK.fullmatch(said) else None, 'stage': 'body'}
        if r.status and name == 'ClientPayloadError' and r.peer is not None:
            # Versions of aiohttp that do not say why leave it on the connection.
            why = r.peer.exception()
            if isinstance(why, OSError) and why.errno:
                code = errno.errorcode.get(why.errno)
                return {'cause': 'connection_reset' if code == 'ECONNRESET' else None, 'stage': 'body', 'code': code}
            return {'cause': 'body_truncated' if isinstance(why, aiohttp.ServerDisconnectedError) else None, 'stage': 'body'}
        if r.status and name == 'ReadError':
            return {'cause': 'connection_reset', 'stage': 'body'}
        if not r.status and name in _CLASSES:
            cause, stage = _CLASSES[name]
            if name == 'ProxyError' and re.match(r'\d{3} ', str(e)):
                cause = 'proxy_refused'
            return {'cause': cause, 'stage': stage}
    if connecting:
        return {'stage': 'connect'}
    return {'stage': 'body'} if r.status else {}


_Recording.total = False  # whether a bare TimeoutError is the client's limit of the whole request


# httpx.

_recordings = weakref.WeakKeyDictionary()  # of requests that still exist, which the errors of SDKs do


def _recording_of(error):
    """Return the recording of the request that an SDK's error, or one of its causes, is about, or None."""
    for e in _chain(error):
        for about in (getattr(e, 'response', None), e):
            with contextlib.suppress(Exception):  # httpx raises one for an error without a request
                found = _recordings.get(about.request)
                if found is not None:
                    return found
    return None


def _unsent(method, url, body=lambda: None):
    """Return the error of a request that retry does not allow to be sent, or None. body returns its body, if that is known."""
    call = _call.get()
    if call is None or method.upper() != 'POST':
        return None
    protocol = next((p for p in _PROTOCOLS if url.path.endswith(p.path)), None)
    if protocol is None:
        return None
    try:
        outputs = [_id(said) for said in protocol.history(json.loads(body()))[1]]
    except Exception:  # noqa: BLE001: a body that is streamed, or no JSON
        outputs = None
    return call.refuse(f'{url.host}:{url.port}' if url.port else url.host, outputs)


def _begin_httpx(request):
    url = request.url
    limits = request.extensions.get('timeout') or {}
    r = _begin(request.method, url.scheme, url.host, url.port, url.path, request.headers, limits.get('read'))
    if r is None:
        return None
    try:
        asked = r.asked(request.content)
    except Exception:  # noqa: BLE001: a body that is streamed, or no JSON
        asked = False
    if not asked:
        r.forget()
        return None
    _recordings[request] = r
    return r


class _Bytes:
    """The body of a response, recorded as it is read."""

    def __init__(self, stream, recording):
        self._stream, self._recording = stream, recording

    def __getattr__(self, name):
        return getattr(self._stream, name)


class _Chunks:
    # Not generators: one that is dropped would be closed later than the stream is without it.
    def __init__(self, chunks, recording):
        self._chunks, self._recording = chunks, recording

    def __del__(self):
        _safely(self._recording.drop)


class _SyncChunks(_Chunks):
    def __iter__(self):
        return self

    def __next__(self):
        self._recording.around = sys.exc_info()[1]
        try:
            chunk = next(self._chunks)
        except StopIteration:
            _safely(self._recording.eof)
            raise
        except BaseException as error:
            _safely(self._recording.end, 'error', error)
            raise
        _safely(self._recording.bytes, chunk)
        return chunk

class _AsyncChunks(_Chunks):
    def __aiter__(self):
        return self

    async def __anext__(self):
        self._recording.around = sys.exc_info()[1]
        try:
            chunk = await self._chunks.__anext__()
        except StopAsyncIteration:
            _safely(self._recording.eof)
            raise
        except BaseException as error:
            _safely(self._recording.end, 'error', error)
            raise
        _safely(self._recording.bytes, chunk)
        return chunk


def _watch_httpx(r, response, kind):
    r.watch(response.status_code, response.headers)
    response.stream = kind(response.stream, r)


def _transports_of(httpx):
    """Return the classes of transports for httpx, or for httpx2, which has the same interface."""

    class _SyncBytes(_Bytes, httpx.SyncByteStream):
        def __iter__(self):
            return _SyncChunks(iter(self._stream), self._recording)

        def close(self):
            _safely(self._recording.close)
            self._stream.close()

    class _AsyncBytes(_Bytes, httpx.AsyncByteStream):
        def __aiter__(self):
            return _AsyncChunks(self._stream.__aiter__(), self._recording)

        async def aclose(self):
            _safely(self._recording.close)
            await self._stream.aclose()

    class FactsTransport(httpx.BaseTransport):
        """A transport that records model requests and passes on all others. It sends them by the transport that it is given,
        or by an httpx.HTTPTransport with the arguments. watch() puts one into a client without changing its settings."""

        def __init__(self, transport=None, **arguments):
            self._inner = transport if transport is not None else httpx.HTTPTransport(**arguments)

        def __getattr__(self, name):
            if name == '_inner':
                raise AttributeError(name)
            return getattr(self._inner, name)

        def __enter__(self):
            self._inner.__enter__()
            return self

        def __exit__(self, *error):
            return self._inner.__exit__(*error)

        def close(self):
            self._inner.close()

        def handle_request(self, request):
            unsent = _safely(_unsent, request.method, request.url, lambda: request.content)
            if unsent is not None:
                raise unsent
            r = _safely(_begin_httpx, request)
            if r is None:
                return self._inner.handle_request(request)
            try:
                with r.span.active():
                    response = self._inner.handle_request(request)
            except BaseException as error:
                r.end('error', error)
                raise
            _safely(_watch_httpx, r, response, _SyncBytes)
            return response

    class AsyncFactsTransport(httpx.AsyncBaseTransport):
        """FactsTransport for httpx.AsyncClient."""

        def __init__(self, transport=None, **arguments):
            self._inner = transport if transport is not None else httpx.AsyncHTTPTransport(**arguments)

        def __getattr__(self, name):
            if name == '_inner':
                raise AttributeError(name)
            return getattr(self._inner, name)

        async def __aenter__(self):
            await self._inner.__aenter__()
            return self

        async def __aexit__(self, *error):
            return await self._inner.__aexit__(*error)

        async def aclose(self):
            await self._inner.aclose()

        async def handle_async_request(self, request):
            unsent = _safely(_unsent, request.method, request.url, lambda: request.content)
            if unsent is not None:
                raise unsent
            r = _safely(_begin_httpx, request)
            if r is None:
                return await self._inner.handle_async_request(request)
            try:
                with r.span.active():
                    response = await self._inner.handle_async_request(request)
            except BaseException as error:
                r.end('error', error)
                raise
            _safely(_watch_httpx, r, response, _AsyncBytes)
            return response

    return FactsTransport, AsyncFactsTransport


clients = [module for module in (httpx, httpx2) if module is not None]
_TRANSPORTS = {module: _transports_of(module) for module in clients}
if httpx is not None:
    FactsTransport, AsyncFactsTransport = _TRANSPORTS[httpx]
if httpx2 is not None:
    HTTPX2FactsTransport, AsyncHTTPX2FactsTransport = _TRANSPORTS[httpx2]


def watch(client):
    """Make a client of httpx or httpx2 record its model requests, and return it. Its proxies, limits and certificates
    stay as they are: its transports are wrapped in place."""
    kind = next((asynchronous if isinstance(client, module.AsyncClient) else synchronous
                 for module, (synchronous, asynchronous) in _TRANSPORTS.items() if isinstance(client, (module.Client, module.AsyncClient))), None)
    if kind is None:
        _log.warning('watch takes a client of httpx or httpx2, and not %s: it is not recorded', _type(client))
        return client

    def wrapped(transport):
        return transport if transport is None or isinstance(transport, kind) else kind(transport)
    try:
        mounts = {pattern: wrapped(transport) for pattern, transport in client._mounts.items()}
        client._transport, client._mounts = wrapped(client._transport), mounts
    except AttributeError:
        _log.warning('this version of httpx has its transports elsewhere; give the client transport=%s() instead', kind.__name__)
    return client


# aiohttp.

if aiohttp is not None:

    class _Content(aiohttp.StreamReader):
        """The body of a response, recorded as it is read. What it does not change is the reader's own."""

        def __init__(self, reader, recording):  # without super(): it has no buffer of its own
            self._reader, self._recording = reader, recording

        def __del__(self):
            _safely(self._recording.drop)

        def __repr__(self):
            return repr(self._reader)

        def _took(self, data):
            r, reader = self._recording, self._reader
            if data:
                _safely(r.bytes, data)
            if not r.over and reader.at_eof() and reader.exception() is None:
                _safely(r.eof)
            return data

        async def _read(self, f, *args):
            self._recording.around = sys.exc_info()[1]
            try:
                return self._took(await f(*args))
            except ValueError:
                raise  # the reader's own limit of a line: nothing was lost
            except BaseException as error:
                partial = getattr(error, 'partial', None)
                if isinstance(partial, bytes):  # readexactly met the end
                    self._took(partial)
                else:
                    _safely(self._recording.end, 'error', error)
                raise

        async def read(self, n=-1):
            return await self._read(self._reader.read, n)

        async def readany(self):
            return await self._read(self._reader.readany)

        async def readline(self):
            return await self._read(self._reader.readline)

        async def readuntil(self, separator=b'\n'):
            return await self._read(self._reader.readuntil, separator)

        async def readexactly(self, n):
            return await self._read(self._reader.readexactly, n)

        async def readchunk(self):
            try:
                data, end = await self._reader.readchunk()
            except BaseException as error:
                _safely(self._recording.end, 'error', error)
                raise
            self._took(data)
            return data, end

        def read_nowait(self, n=-1):
            return self._took(self._reader.read_nowait(n))

        def set_exception(self, exc, *cause):
            # The network sets errors on the reader itself; the response sets one here when it is closed or released.
            _safely(self._recording.close)
            return self._reader.set_exception(exc, *cause)

    def _delegate(name):
        def method(self, *args, **kwargs):
            return getattr(self._reader, name)(*args, **kwargs)
        return method

    for _name_of in ('exception', 'on_eof', 'feed_eof', 'is_eof', 'at_eof', 'wait_eof', 'unread_data', 'feed_data', 'begin_http_chunk_receiving',
                     'end_http_chunk_receiving', 'get_read_buffer_limits'):
        if hasattr(aiohttp.StreamReader, _name_of):
            setattr(_Content, _name_of, _delegate(_name_of))
    _Content.__getattr__ = lambda self, name: getattr(object.__getattribute__(self, '_reader'), name)
    _Content.total_bytes = property(lambda self: self._reader.total_bytes)

    def trace_config():
        """Return a TraceConfig for aiohttp.ClientSession(trace_configs=[...]) that records model requests."""
        config = aiohttp.TraceConfig()

        def start(session, context, params):
            context.otelllm, context.otelllm_body = None, []
            url = params.url
            r = _begin(params.method, url.scheme, url.host, url.port, url.path, params.headers)
            if r is not None:
                context.otelllm, r.total = r, getattr(getattr(session, 'timeout', None), 'total', None) or True
                r.timeout = getattr(getattr(session, 'timeout', None), 'sock_read', None)

        def sent(session, context, params):
            if context.otelllm is not None and params.chunk and sum(map(len, context.otelllm_body)) <= _MAX_REQUEST:
                context.otelllm_body.append(bytes(params.chunk))

        def asked(context, needed):
            """Record the request's body, and report whether the request is to be recorded."""
            r, body = context.otelllm, b''.join(context.otelllm_body)
            if r is None:
                return False
            context.otelllm_body = []
            try:
                known = r.asked(body if body or needed else None)
            except Exception:  # noqa: BLE001: no JSON
                known = False
            if not known:
                r.forget()
            return known

        def connected(reused):
            def hook(session, context, params):
                if context.otelllm is not None:
                    context.otelllm.connected, context.otelllm.reused = True, reused
            return hook

        def end(session, context, params):
            if not asked(context, True):
                return
            r, response = context.otelllm, params.response
            r.watch(response.status, response.headers, decoded=getattr(session, 'auto_decompress', True))
            reader = response.content
            if reader.at_eof() and reader.exception() is None:
                r.read = True
                r.end('eof')  # a response without a body
            else:
                r.peer = getattr(response.connection, 'protocol', None)
                response.content = _Content(reader, r)

        def failed(session, context, params):
            if not asked(context, False):
                return
            r, error = context.otelllm, params.exception
            if isinstance(error, aiohttp.ClientResponseError) and error.status and error.status >= 400:  # raise_for_status
                r.watch(error.status, error.headers or {})
                r.end('close')
            else:
                r.end('error', error)

        def hook(f):
            async def call(session, context, params):
                _safely(f, session, context, params)
            return call

        async def first(session, context, params):
            unsent = _safely(_unsent, params.method, params.url)
            if unsent is not None:
                raise unsent
            _safely(start, session, context, params)
        config.on_request_start.append(first)
        config.on_request_chunk_sent.append(hook(sent))
        config.on_connection_create_end.append(hook(connected(False)))
        config.on_connection_reuseconn.append(hook(connected(True)))
        config.on_request_end.append(hook(end))
        config.on_request_exception.append(hook(failed))
        return config


# Verdicts while a run goes on.

class Judge:
    """`otelllm judge` (docs/judge.md), as a child process or on a Unix socket, for run(judge=...). It starts when the first
    run begins. Writing to it never waits; if it falls behind by more than 4,096 lines, or dies, it gives no more verdicts."""

    max_lines = 4096

    def __init__(self, command=('otelllm', 'judge'), socket_path=None):
        self.command, self.path, self.pid = list(command), socket_path, os.getpid()
        self.lines, self.answers, self.refs = queue.SimpleQueue(), {}, itertools.count(1)
        self.dead, self.thread, self.process, self.starting = False, None, None, threading.Lock()

    def tell(self, line):
        if self.dead or self.pid != os.getpid():
            return
        if self.lines.qsize() >= self.max_lines:
            self.dead = True
            return
        self.lines.put(json.dumps({'answer': False, **line}, separators=(',', ':')).encode() + b'\n')
        if self.thread is None and self.starting.acquire(blocking=False):
            try:
                if self.thread is None:
                    thread = threading.Thread(target=self.work, name='otelllm-judge', daemon=True)
                    thread.start()
                    self.thread = thread
            except RuntimeError:
                self.dead = True
            finally:
                self.starting.release()

    def ask(self, line, timeout):
        ref = next(self.refs)
        answered = self.answers[ref] = [threading.Event(), None]
        try:
            self.tell({**line, 'answer': True, 'ref': ref})
            if self.dead or self.pid != os.getpid() or not answered[0].wait(timeout):
                return None
            return answered[1]
        finally:
            self.answers.pop(ref, None)

    def work(self):
        try:
            if self.path:
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.connect(self.path)
                to, back = connection.makefile('wb', buffering=0), connection.makefile('rb')
            else:
                # In a session of its own: a signal of the terminal is for the application.
                self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                                bufsize=0, start_new_session=True)
                to, back = self.process.stdin, self.process.stdout
                back = open(back.fileno(), 'rb', closefd=False)
            threading.Thread(target=self.read, args=(back,), name='otelllm-judge-answers', daemon=True).start()
            while not self.dead:
                line = self.lines.get()
                if line is None:
                    break
                view = memoryview(line)
                while view:
                    view = view[to.write(view):]
            to.close()
        except Exception as error:  # noqa: BLE001
            if not self.dead:
                _log.warning('otelllm judge cannot be used: %s', _type(error))
        self.stop()

    def read(self, back):
        try:
            while True:
                line = back.readline(4 << 20)
                if not line.endswith(b'\n'):
                    break
                answer = json.loads(line)
                waiting = self.answers.get(answer.get('ref'))
                if waiting is not None:
                    waiting[1] = None if 'error' in answer else answer
                    waiting[0].set()
        except Exception:  # noqa: BLE001
            pass
        self.stop()

    def stop(self):
        self.dead = True
        if self.process is not None:
            self.process.poll()
        for waiting in list(self.answers.values()):
            waiting[0].set()

    def close(self, timeout=1.0):
        """End the judge."""
        self.lines.put(None)
        if self.process is not None and self.pid == os.getpid():
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                _safely(self.process.wait, timeout)
