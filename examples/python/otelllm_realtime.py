"""Realtime sessions over a WebSocket, recorded with otelllm_facts: copy this file beside it.

    import otelllm_realtime as realtime

    async with client.realtime.connect(model='gpt-realtime') as connection:   # OpenAI's SDK
        realtime.watch(connection)
    async with websockets.connect(url) as socket:                             # websockets, asyncio or threads
        realtime.watch(socket)
    async with session.ws_connect(url) as socket:                             # aiohttp
        realtime.watch(socket)

Each response of the OpenAI Realtime API becomes the span of a model request in the current facts.run. A function call's
output that is sent counts as delivered to the model, if facts.tool was given the call's id. If the server refuses it, by an
error that names its event_id, the delivery has failed. For any other WebSocket library report the frames to a Session.

Frames pass unchanged. Names, counts, ids, times and codes are recorded, but no content.
"""

from __future__ import annotations

import collections
import functools
import json
import re
import threading

try:
    from . import facts  # in a package
except ImportError:
    import otelllm_facts as facts

_MAX_OPEN = 8  # responses that are open, or asked for, at the same time; beyond that the oldest is forgotten
_MAX_IDS = 64  # calls and outputs of the conversation that are remembered, the newest
_MAX_FRAME = 8 << 20  # characters of a frame that is read

# What a session or a response may set without offering tools that the server runs. Another member hides which are offered.
_MEMBERS = set("""audio conversation include input instructions max_output_tokens metadata model output_modalities parallel_tool_calls
  reasoning tool_choice tools tracing truncation type modalities voice input_audio_format output_audio_format input_audio_transcription
  input_audio_noise_reduction turn_detection temperature max_response_output_tokens speed client_secret expires_at id object""".split())

_TEXT = re.compile(r'response\.(output_)?(text|audio|audio_transcript)\.delta')
_ACTIVE = 'conversation_already_has_active_response'  # the error of a response that may not begin beside another


class _Protocol:
    """What a recording asks of its protocol."""
    own = staticmethod(lambda event: True)

    def __init__(self, provider):
        self.provider = provider

    @staticmethod
    def event(e, s, name=None):
        kind = e['type']
        if _TEXT.fullmatch(kind):
            if e.get('delta'):
                facts._text(s)
        elif kind == 'response.done':
            _Protocol.done(e.get('response') or {}, s)
        elif re.fullmatch(r'response\.\w+\.(added|delta|done)', kind):
            facts._Responses.event(e, s)

    @staticmethod
    def done(response, s):
        """Read the end of a response. It has all of the answer once more."""
        facts._identify(s, response)
        usage = response.get('usage') or {}
        facts._usage(s, usage.get('input_tokens'), usage.get('output_tokens'))
        for item in facts._items(response.get('output')):
            call = next((c for c in s.calls if c.id == facts._id(item.get('call_id'))), None)
            if item.get('type') == 'function_call':
                if call is None:
                    facts._begin_call(s, -1 - len(s.calls), item.get('call_id'), item.get('name'), item.get('arguments'))
                    call = s.calls[-1]
                if item.get('status') != 'incomplete':
                    facts._end_input(s, call)
                    call.ready = True
            elif not s.text and any(c.get('text') or c.get('transcript') or c.get('audio') for c in facts._items(item.get('content'))):
                facts._text(s)
        status, details = response.get('status'), response.get('status_details') or {}
        if status == 'completed':
            facts._finished(s, 'tool_calls' if any(c.ready for c in s.calls) else 'stop')
            facts._done(s)
        elif status == 'incomplete':
            facts._finished(s, details.get('reason') or 'incomplete')
            facts._done(s)
        elif status == 'failed':
            facts._fail(s, facts._Fault().read(details.get('error')).error())
        elif status == 'cancelled':
            facts._finished(s, 'cancelled')
        s.terminal = True  # an unknown status proves nothing


class _Response(facts._Recording):
    """The recording of one response."""

    http = False

    def __init__(self, protocol, event_id=None, asked=True):
        super().__init__(protocol, None, None, None, {})
        self.event_id, self.asked_for = facts._id(event_id), asked

        self.begun, self.cancelled, self.status, self.headers = False, None, 200, {}  # the status of its session

    def refused(self, error):
        """The server has refused to begin it."""
        facts._fail(self.state, error)
        self.end('close')

    def record(self, event):
        """Record an event of the response."""
        self.guard(self.follow, event)

    def follow(self, event):
        s, at = self.state, self.seconds()
        self.protocol.event(event, s)
        if s.events:
            self.gap = max(self.gap or 0.0, at - self.last)
        else:
            self.first = at
        s.events += 1
        self.last = at

    def ending(self, how, error):
        s = self.state
        if self.cancelled is not None:
            return {'end': 'cancelled', 'abort': self.cancelled, 'phase': s.phase}
        if self.begun:
            return super().ending(how, error)
        waiting = {'phase': 'awaiting_response'}  # it was sent
        if s.error is not None:
            return {'end': 'terminal_event', 'due': True, **waiting}
        abort = facts._abort_in(error, self.scope, self.around) if how == 'error' else None
        if abort is not None:
            return {'end': 'cancelled', 'abort': abort, **waiting}
        if how == 'close':
            return {'end': 'consumer_closed', 'abort': facts.Abort('consumer'), **waiting}
        if how == 'abandoned':
            return {'end': 'abandoned', **waiting}
        chain = [facts._type(e) for e in facts._chain(error, self.around)[:5]]
        return {'end': 'no_response', 'chain': chain, **facts._transport_of(error, self), 'stage': 'headers', **waiting}


class _Sent:
    """An output of a tool that the server may still refuse."""

    def __init__(self, event_id, call_id, tool):
        self.event_id, self.call_id, self.tool, self.at = event_id, call_id, tool, facts._now()


class Session:
    """One session of the OpenAI Realtime API. watch() reports the frames of common libraries to one. Without a run around it
    its responses are spans of their own. It is safe for use by several threads.

    A response lasts from the response.create that asked for it, or from its beginning if the server began it by itself, to
    its response.done.
    """

    def __init__(self, provider='openai'):
        self._protocol, self._lock = _Protocol(facts._name(provider)), threading.RLock()
        self._scope, self._model, self._server_model = facts._current.get(), None, False
        self._run = self._scope.within if self._scope is not None else None
        self._tools, self._hidden = None, False  # that the server runs: those offered; whether that cannot be known
        self._asked, self._open = collections.deque(), {}  # not begun yet; begun, by id
        self._calls, self._outputs, self._changed = collections.deque(maxlen=_MAX_IDS), collections.deque(maxlen=_MAX_IDS), False
        self._unanswered = collections.OrderedDict()  # calls without an output: their names, and the response of each
        self._refusable, self._last, self._closed = collections.deque(maxlen=_MAX_IDS), None, False

    def __del__(self):
        facts._safely(self._end, 'abandoned', None)

    def received(self, frame):
        """Record a text frame that came from the server."""
        facts._safely(self._take, self._received, frame)

    def sent(self, frame):
        """Record a text frame that was written to the server."""
        facts._safely(self._take, self._sent, frame)

    def send_failed(self, frame, error):
        """Record a text frame that could not be written: an output in it has not reached the model."""
        facts._safely(self._take, functools.partial(self._unsent, error), frame)

    def close(self, error=None):
        """End the recording with the error that the session ended on, or None if this side closed it. Responses that are open
        were cut. Calls after the first do nothing."""
        facts._safely(self._end, 'close' if error is None else 'error', error)

    def ended(self):
        """End the recording: the server has closed the session without an error."""
        facts._safely(self._end, 'eof', None)

    def _take(self, f, frame):
        if isinstance(frame, (bytes, bytearray)):
            frame = frame.decode('utf-8', 'replace')
        if not isinstance(frame, str) or len(frame) > _MAX_FRAME:
            return
        event = facts._safely(json.loads, frame)
        if isinstance(event, dict) and isinstance(event.get('type'), str):
            with self._lock:
                f(event['type'], event)

    def _received(self, kind, event):
        if kind == 'error':
            self._refused(event.get('error') or {})
        elif kind in ('session.created', 'session.updated'):
            self._configure(event.get('session') or {}, True)
        elif kind in ('conversation.item.deleted', 'conversation.item.truncated'):
            self._changed = True
        elif kind == 'response.created':
            self._begun(event)
        elif kind.startswith('response.'):
            said = event.get('response') if kind == 'response.done' else None
            id = said.get('id') if isinstance(said, dict) else event.get('response_id')
            r = self._open.get(facts._id(id)) if id else next(iter(self._open.values())) if len(self._open) == 1 else None
            if r is None:
                return
            r.record(event)
            if kind == 'response.done':
                self._done(r, said if isinstance(said, dict) else {})

    def _sent(self, kind, event):
        if kind == 'response.create':
            for r in self._open.values():
                if not r.asked_for:  # another thread has read its beginning before this one reported what asked for it
                    r.asked_for, r.event_id = True, facts._id(event.get('event_id'))
                    return self._accepted(r)
            r = self._begin(event.get('event_id'), self._offered(event.get('response')))
            if r is not None:
                self._asked.append(r)
                if len(self._asked) > _MAX_OPEN:
                    self._asked.popleft().end('abandoned')
        elif kind == 'conversation.item.create':
            item = event.get('item')
            if isinstance(item, dict) and item.get('type') == 'function_call_output':
                self._output_sent(facts._id(item.get('call_id')), facts._id(event.get('event_id')))
        elif kind in ('conversation.item.delete', 'conversation.item.truncate'):
            self._changed = True
        elif kind == 'session.update':
            self._configure(event.get('session') or {}, False)

    def _unsent(self, error, kind, event):
        if kind == 'response.create':
            r = self._begin(event.get('event_id'), self._offered(event.get('response')))
            if r is not None:
                r.end('error', error)
        elif kind == 'conversation.item.create' and isinstance(event.get('item'), dict):
            tool = self._tool_of(facts._id(event['item'].get('call_id')))
            if tool is not None and event['item'].get('type') == 'function_call_output':
                tool.output_failed(error)

    def _configure(self, session, server):
        if not isinstance(session, dict):
            return
        self._hidden = self._hidden or not server and facts._may_hide(session, _MEMBERS)
        if self._hidden:
            self._tools = None
        elif isinstance(session.get('tools'), list):
            self._tools = facts._offered(session['tools'], ('function',))
        model = facts._name(session.get('model') or None, facts._MODEL)
        if model is not None and (server or not self._server_model):
            self._model, self._server_model = model, server

    def _offered(self, response):
        """Return the tools of the server that a response.create offers; None if that is not known."""
        if not isinstance(response, dict):
            return self._tools
        if facts._may_hide(response, _MEMBERS):
            return None
        return facts._offered(response['tools'], ('function',)) if isinstance(response.get('tools'), list) else self._tools

    def _begin(self, event_id, tools, asked=True):
        """Begin the span of a response; None after the end of the session."""
        if self._closed:
            return None
        token = facts._current.set(self._scope)
        try:
            r = self._last = _Response(self._protocol, event_id, asked)
        finally:
            facts._current.reset(token)
        known = {} if self._changed else {'llm.history.tool_calls': list(self._calls), 'llm.history.tool_outputs': list(self._outputs)}
        r.span.set({'gen_ai.request.model': self._model, 'gen_ai.request.stream': True, 'llm.request.provider_tools': tools, **known})
        r.span.rename(f"chat {self._model or 'unknown'}")
        r.tell()
        return r

    def _begun(self, event):
        said = event.get('response')
        id = facts._id(said.get('id')) if isinstance(said, dict) else None
        if id in self._open:
            return self._open[id].record(event)
        if len(self._open) == _MAX_OPEN:
            self._open.pop(next(iter(self._open))).end('abandoned')
        if self._asked:
            r = self._asked.popleft()
            self._accepted(r)
        else:
            r = self._begin(None, self._tools, asked=False)
        if r is not None:
            self._open[id] = r
            r.begun = True
            r.state.id = id
            r.record(event)

    def _done(self, r, response):
        self._open = {id: one for id, one in self._open.items() if one is not r}
        for call in r.state.calls:
            if call.ready and call.id:
                self._calls.append(call.id)
                self._unanswered[call.id] = call.name, r
                if len(self._unanswered) > _MAX_IDS:
                    self._unanswered.popitem(last=False)
        if response.get('status') == 'cancelled':
            reason = (response.get('status_details') or {}).get('reason')
            if reason == 'turn_detected':  # a person began to speak
                r.cancelled = facts.Abort('user', reason)
            else:
                r.cancelled = facts._declared(self._scope) or facts.Abort('application', reason)
        r.end('close')

    def _tool_of(self, call_id):
        return self._run.tool_by_id.get(call_id) if self._run is not None and call_id else None

    def _output_sent(self, call_id, event_id):
        self._outputs.append(call_id)
        self._unanswered.pop(call_id, None)
        tool = self._tool_of(call_id)
        if not event_id:  # no error could name it
            if tool is not None:
                tool.output_sent()
            return
        if tool is not None:
            tool.output_written()
        self._refusable.append(_Sent(event_id, call_id, tool))

    def _accepted(self, r):
        """A response has begun that was asked for. A server takes events in order, so it refuses no output that was sent before."""
        for one in [one for one in self._refusable if one.at <= r.span.start]:
            self._refusable.remove(one)
            if one.tool is not None:
                one.tool.output_sent()

    def _refused(self, error):
        """Read an error of the server. It is about what names its event, or what its code is about; most errors are about neither."""
        if not isinstance(error, dict):
            return
        event_id, active = facts._id(error.get('event_id')), error.get('code') == _ACTIVE
        if not event_id and not active:
            return
        for r in self._asked:
            if active and not event_id or r.event_id == event_id:
                self._asked.remove(r)
                return r.refused(facts._Fault().read(error).error())
        for one in self._refusable:
            if event_id and one.event_id == event_id:
                self._refusable.remove(one)
                return self._output_refused(one)

    def _output_refused(self, one):
        with_output = [id for id in self._outputs if id == one.call_id]
        if with_output:
            self._outputs.remove(one.call_id)
        if len(with_output) > 1:
            return
        for r in [*self._asked, *self._open.values()]:
            outputs = r.span.attributes.get('llm.history.tool_outputs')
            if outputs and one.call_id in outputs:
                r.span.set({'llm.history.tool_outputs': [id for id in outputs if id != one.call_id]})
        if one.tool is not None:
            one.tool.output_failed(OutputRefused())

    def _end(self, how, error):
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for r in [*self._asked, *self._open.values()]:
                r.end(how, error)
            self._asked.clear()
            self._open.clear()
            for call_id, (name, of) in self._unanswered.items():
                # Whether a call had an output shows in the history of the response after it, if there is one.
                if of is self._last and self._run is not None and self._tool_of(call_id) is None:
                    facts._unanswered(self._run, call_id, name)
            self._unanswered.clear()


class OutputRefused(Exception):
    """The error of an output that the server refused. Its type is recorded."""


def _is_polite(error):
    """Whether a connection was closed with a code that says that nothing is wrong."""
    return type(error).__name__ == 'ConnectionClosedOK'


def watch(connection, provider='openai'):
    """Record the session of a WebSocket connection, and return the connection: one of OpenAI's SDK, of websockets, or of
    aiohttp. Call it before the first frame. Its methods are replaced on this object alone."""
    inner = getattr(connection, '_connection', None)  # of OpenAI's SDK
    socket = inner if inner is not None and hasattr(inner, 'recv') else connection
    session = Session(provider)
    if hasattr(socket, 'receive') and hasattr(socket, 'send_str'):
        _watch_aiohttp(socket, session)
    elif hasattr(socket, 'recv') and hasattr(socket, 'send'):
        _watch_websockets(socket, session)
    else:
        facts._log.warning('watch takes a connection of OpenAI\'s SDK, websockets or aiohttp, and not %s: it is not recorded', facts._type(connection))
    return connection


def _reporting(method, report):
    """Return a method, or a coroutine function, that calls report with its arguments, and with the result or the error."""
    async def awaited(result, said):
        try:
            value = await result
        except BaseException as error:
            report(said, None, error)
            raise
        report(said, value, None)
        return value

    @functools.wraps(method)
    def reporting(*args, **kwargs):
        said = [*args, *kwargs.values()]
        try:
            value = method(*args, **kwargs)
        except BaseException as error:
            report(said, None, error)
            raise
        if hasattr(value, '__await__'):
            return awaited(value, said)
        report(said, value, None)
        return value
    return reporting


def _sending(send, session):
    """Return a method that sends a frame, its first argument, and reports it."""
    def report(said, _, error):
        frame = said[0] if said else None
        if error is None or facts._is_cancellation(error):  # a cancelled frame may have been sent
            session.sent(frame)
        else:
            session.send_failed(frame, error)
    return _reporting(send, report)


def _watch_websockets(socket, session):
    def received(_, frame, error):
        if error is None:
            session.received(frame)
        elif _is_polite(error):
            session.ended()
        elif not isinstance(error, TimeoutError) and not facts._is_cancellation(error):  # else the connection goes on
            session.close(error)

    close = socket.close

    @functools.wraps(close)
    def leave(*args, **kwargs):
        session.close()
        return close(*args, **kwargs)

    socket.send, socket.recv, socket.close = _sending(socket.send, session), _reporting(socket.recv, received), leave


def _watch_aiohttp(socket, session):
    receive, close = socket.receive, socket.close
    receiving = 0  # calls of receive, which closes a connection that broke

    @functools.wraps(receive)
    async def received(*args, **kwargs):
        nonlocal receiving
        receiving += 1
        try:
            message = await receive(*args, **kwargs)
        finally:
            receiving -= 1
        kind = getattr(message.type, 'name', '')
        if kind in ('TEXT', 'BINARY'):
            session.received(message.data)
        elif kind == 'ERROR':
            session.close(message.data if isinstance(message.data, BaseException) else ConnectionError('closed'))
        elif kind == 'CLOSING':  # this side closes it
            session.close()
        elif kind in ('CLOSE', 'CLOSED'):
            if socket.close_code in (None, 1000, 1001, 1005):
                session.ended()
            else:
                session.close(socket.exception() or ConnectionError('closed'))
        return message

    @functools.wraps(close)
    async def leave(*args, **kwargs):
        if not receiving:
            session.close()
        return await close(*args, **kwargs)

    socket.receive, socket.send_str, socket.close = received, _sending(socket.send_str, session), leave
