"""A model call that is repeated while that is safe, by the verdict on what otelllm.facts recorded of it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import inspect
import itertools
import logging
import random
import threading
import time
from typing import Any, Awaitable, Callable, Dict, Optional, TypeVar, Union

from . import facts
from ._judge import JudgeError, Plan, Verdict, available, judge

T = TypeVar('T')
_log = logging.getLogger('otelllm')


class RetryBudget:
    """Bounds the retries of all callers of a host, so that they do not multiply an outage: while a host is down they send no more
    than 100 retries together, and after that one for every ten calls that succeed. It keeps at most 1,024 hosts."""

    _tokens, _returned, _max_hosts = 100.0, 0.1, 1024

    def __init__(self) -> None:
        self._lock, self._taken = threading.Lock(), {}  # tokens by host; a full bucket is not here

    def _has(self, host):
        with self._lock:
            return self._taken.get(host, 0.0) + 1 <= self._tokens

    def _take(self, host):
        with self._lock:
            taken = self._taken.get(host, 0.0)
            if taken + 1 > self._tokens:
                return False
            if host not in self._taken and len(self._taken) >= self._max_hosts:
                del self._taken[min(self._taken, key=self._taken.get)]
            self._taken[host] = taken + 1
            return True

    def _succeeded(self, host, retries):
        """Return the tokens of a call that succeeded after so many retries."""
        with self._lock:
            left = self._taken.pop(host, 0.0) - max(retries, self._returned)
            if left > 0:
                self._taken[host] = left


_process_budget = RetryBudget()


@dataclasses.dataclass(frozen=True)
class Failure:
    """A model call that failed, as it was recorded. It has no content of the call."""
    summary: str  # fit to be shown to a person
    verdict: Verdict
    plan: Plan
    text_shown: bool  # text was shown, which another attempt shows again
    error: Optional[BaseException] = dataclasses.field(repr=False)  # the SDK's own; None if it reported nothing
    attempts: int = 1  # how many there were
    wait: float = 0.0  # seconds that the next attempt will wait

    @property
    def safety(self) -> str:
        """'safe_auto_retry', 'user_confirmed_retry' or 'no_retry'."""
        return self.verdict.get('llm.retry.safety', 'no_retry')

    @property
    def after(self) -> float:
        """The seconds that the provider asked to wait."""
        return self.verdict.get('llm.retry.after') or 0.0


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """How far a model call is repeated. All times are seconds."""
    attempts: int = 4  # at most, the first one and those of the SDK included
    elapsed: float = 120.0  # after the beginning, in which the last attempt may begin
    backoff: float = 0.5  # the most to wait before the first retry, and twice that before the next
    backoff_most: float = 30.0  # the most of all
    budget: RetryBudget = dataclasses.field(default_factory=lambda: _process_budget)
    # Whether to go on although something might happen twice: it returns True, and nothing else counts. It may be a coroutine function
    # for retry_async. Without it such an attempt is not made.
    ask: Optional[Callable[[Failure], Union[bool, Awaitable[bool]]]] = None
    # For tests, and for event loops other than asyncio's. sleep may be a coroutine function for retry_async.
    now: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random
    sleep: Optional[Callable[[float], Any]] = None

    def __post_init__(self) -> None:
        for name in ('attempts', 'elapsed', 'backoff', 'backoff_most'):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ValueError(f'otelllm: {name} of a RetryPolicy has to be a number above 0')
        for name in ('ask', 'now', 'random', 'sleep'):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise TypeError(f'otelllm: {name} of a RetryPolicy has to be a function')
        if not isinstance(self.budget, RetryBudget):
            raise TypeError('otelllm: budget of a RetryPolicy has to be a RetryBudget')

    def backoff_of(self, attempts: int) -> float:
        """A random part of the backoff after so many attempts."""
        return self.random() * min(self.backoff * 2.0 ** min(attempts - 1, 64), self.backoff_most)


class RetryError(Exception):
    """A retry gave up. __cause__ is the SDK's own error, and None if it reported nothing.

    decision is 'declined', 'no_hook', 'no_retry', 'attempts_spent', 'time_spent', 'host_spent' or 'output_left_out'.
    """

    def __init__(self, failure: Failure, decision: str) -> None:
        n = failure.attempts
        super().__init__(f"{failure.summary} (gave up after {n} {'attempt' if n == 1 else 'attempts'}: {decision})")
        self.failure, self.decision, self.attempts = failure, decision, n
        self.verdict, self.plan = failure.verdict, failure.plan


def retry(policy: Optional[RetryPolicy], fn: Callable[[], T]) -> T:
    """Call fn, which makes one model call over a recorded client and reads its stream to the end, until it succeeds or the policy
    allows no further attempt. fn builds its request anew in each call, with the outputs of all tools that ran.

    A failure that is safe_auto_retry: it waits for as long as the provider asked, or for a random part of the backoff if that is
    longer. user_confirmed_retry: policy.ask decides; without it, retry gives up. no_retry: it gives up. Giving up raises a RetryError
    from the SDK's error. An error without a recorded failure is the application's own, and is raised as it is. If fn returns although
    the answer broke off, that is a failure; after a request without an answer it is not: fn has handled it. What is no Exception, such
    as KeyboardInterrupt, ends the loop.
    """
    return _repeat(_Loop(policy), fn)


async def retry_async(policy: Optional[RetryPolicy], fn: Callable[[], Awaitable[T]]) -> T:
    """retry for a coroutine function."""
    return await _repeat_async(_Loop(policy), fn)


def retry_turn(policy: Optional[RetryPolicy], turn: Callable[[], T]) -> T:
    """Call turn, which makes the model calls of one turn of an agent and executes its tools, until it succeeds or the policy allows no
    further attempt. The turn keeps its history outside of itself and goes on from it: its first model call of a further attempt carries
    the outputs of all tools that have run.

    It never repeats what ran. A model call of a further attempt that lacks the output of a tool call which ran, and which may have had
    an effect, is not sent, and retry_turn gives up with 'output_left_out'; so is one whose history is not observed: over aiohttp, from a
    stream, or where the provider keeps it. Once the model has answered a call that has them all, later ones are not held back. If it is
    not known what ran, it asks.

    The turn is the run around it, or one that retry_turn begins. Its attempts are calls of the turn. Turns that go on at the same time
    each need a run of their own. Everything else is as in retry.
    """
    with _run_around():
        return _repeat(_TurnLoop(policy), turn)


async def retry_turn_async(policy: Optional[RetryPolicy], turn: Callable[[], Awaitable[T]]) -> T:
    """retry_turn for a coroutine function."""
    with _run_around():
        return await _repeat_async(_TurnLoop(policy), turn)


def _run_around():
    scope = facts._current.get()
    return contextlib.nullcontext() if scope is not None and scope.within is not None else facts.run('agent')


def _repeat(loop, fn):
    while True:
        call, value, error = loop.call(), None, None
        with call:
            try:
                value = fn()
            except Exception as e:  # noqa: BLE001
                error = e
        _not_coroutine(value, 'the function')
        failure = call.failure(error)
        if failure is None:
            try:
                return loop.done(value, error)
            finally:
                del error, call  # a traceback refers to this frame
        failure, decision = loop.decide(failure, call)
        if decision is None:
            asked = loop.now()
            answer = loop.ask(failure)
            decision = loop.answered(_not_coroutine(answer, 'ask of the RetryPolicy'), asked)
        loop.settle(failure, decision)
        _not_coroutine((loop.sleep or time.sleep)(failure.wait), 'sleep of the RetryPolicy')


async def _repeat_async(loop, fn):
    while True:
        call, value, error = loop.call(), None, None
        with call:
            try:
                value = await fn()
            except Exception as e:  # noqa: BLE001
                error = e
        failure = await _in_thread(call.failure, error)
        if failure is None:
            try:
                return loop.done(value, error)
            finally:
                del error, call  # a traceback refers to this frame
        failure, decision = loop.decide(failure, call)
        if decision is None:
            asked = loop.now()
            answer = loop.ask(failure)
            decision = loop.answered(await answer if inspect.isawaitable(answer) else answer, asked)
        loop.settle(failure, decision)
        slept = (loop.sleep or asyncio.sleep)(failure.wait)
        if inspect.isawaitable(slept):
            await slept


def _not_coroutine(value, what):
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError(f'otelllm: {what} is a coroutine function, which needs retry_async')
    return value


async def _in_thread(f, *args):
    """Call f in a thread, so that the loop goes on; without asyncio, as under trio, here."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return f(*args)
    return await loop.run_in_executor(None, f, *args)


class _Loop:
    """The state of a retry."""

    def __init__(self, policy):
        self.policy = policy = RetryPolicy() if policy is None else policy
        if not isinstance(policy, RetryPolicy):
            raise TypeError('otelllm: the policy has to be a RetryPolicy, or None')
        available()  # without a judge it ends here, and not with the first failure
        self.budget, self.ask, self.now, self.sleep = policy.budget, policy.ask, policy.now, policy.sleep
        self.host, self.sent, self.retries = '', 0, 0  # attempts, and tokens that were taken
        self.began = self.now()

    def call(self):
        return _Call(self)

    def done(self, value, error):
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        self.budget._succeeded(self.host, self.retries)
        return value

    def spent(self, wait=0.0):
        """Return which budget allows no further attempt after a wait, or None."""
        if self.sent >= self.policy.attempts:
            return 'attempts_spent'
        if self.now() + wait - self.began > self.policy.elapsed:
            return 'time_spent'
        return None if self.budget._has(self.host) else 'host_spent'

    def decide(self, failure, call):
        """Return the failure with what is known of the next attempt, and a decision, or None if a person has to be asked."""
        wait = max(failure.after, self.policy.backoff_of(self.sent))
        failure = dataclasses.replace(failure, attempts=self.sent, wait=wait)
        if call.refused:
            return failure, call.refused
        if _declined_within(failure.error):
            return failure, 'declined'
        if failure.safety not in ('safe_auto_retry', 'user_confirmed_retry'):
            return failure, 'no_retry'
        spent = self.spent(wait)
        if spent or call.safe(failure):
            return failure, spent or 'again'
        return failure, None if self.ask else 'no_hook'

    def answered(self, answer, asked):
        self.began += self.now() - asked  # the time that a person takes does not count
        return 'confirmed' if answer is True else 'declined'

    def settle(self, failure, decision):
        """Return if fn is to be called again, and otherwise raise."""
        again = decision in ('again', 'confirmed')
        if again and not self.budget._take(self.host):
            again, decision = False, 'host_spent'  # another caller took the last one
        verdict = failure.verdict
        facts._safely(facts._event, 'llm.retry.decided', {
            'llm.retry.decision': decision, 'llm.request.attempt': failure.attempts, 'llm.failure.class': verdict.get('llm.failure.class'),
            'llm.retry.safety': verdict.get('llm.retry.safety'), 'llm.retry.reason': verdict.get('llm.retry.reason'),
            'llm.resume.send': failure.plan.get('send'), 'llm.retry.wait': float(failure.wait) if again else None,
        })
        if not again:
            raise RetryError(failure, decision) from failure.error
        self.retries += 1


def _declined_within(error):
    """Whether a loop within the function asked, and was declined."""
    for _ in range(8):
        if isinstance(error, RetryError) and error.decision == 'declined':
            return True
        error = error and error.__cause__
    return False


_names = itertools.count(1)  # of calls outside of a run, for the judge
_MAX_REQUESTS = 256  # of one call that the judge is asked about

# The classes of answers that break off. They are failures although the function returned: SDKs do not report each of them. Any other
# end of a stream that the function left is its own doing.
_BROKEN = {'connection_failed', 'provider_error', 'stream_interrupted', 'protocol_violation', 'empty_completion', 'watchdog_timeout'}


class _Call:
    """One call of the function. otelllm.facts finds it in the context."""

    def __init__(self, loop=None):
        self.loop, self.name, self.ledger, self.recordings = loop, f'call {next(_names)}', facts._Ledger(), []
        self.again, self.refused = False, None  # why a model call was not sent
        self.turn = None  # around this call

    def __enter__(self):
        outer = facts._call.get()
        self.turn = outer if isinstance(outer, _Turn) else getattr(outer, 'turn', None)
        scope = facts._current.get()
        self.run = scope.within if scope is not None else None
        self.token = facts._call.set(self)
        return self

    def __exit__(self, *_):
        facts._call.reset(self.token)
        return False

    # What otelllm.facts calls.

    def refuse(self, host, outputs):
        """Return the error of a request that is not to be sent: a retry of the SDK, which is one after a request that failed, beyond
        a budget. outputs are the ids of those in its history, or None if it is not observed."""
        loop, unsent = self.loop, self.turn and self.turn.refuse(host, outputs)
        if unsent:
            return unsent
        self.again = self.last_failed()
        if self.again:
            self.refused = self.refused or loop.spent() or (None if loop.budget._take(host) else 'host_spent')
            _report_sdk_retries()
            if self.refused:
                return RuntimeError(f"otelllm: the request was not sent: its budget is spent ({self.refused}). Set the SDK's own retries to 0")
            loop.retries += 1
        loop.host = host
        return None

    def sent(self, recording):
        if self.turn:
            self.turn.sent(recording)
        if self.again or not self.recordings:
            self.loop.sent += 1
        self.recordings.append(recording)

    def in_tool(self):
        """Return what a tool within the call has in its place."""
        return _InTool(self)

    def tell(self, line):
        self.ledger.add(facts._line(self.name, line))

    # What the loop calls.

    def last_failed(self):
        last = self.recordings[-1] if self.recordings else None
        return last is not None and (last.span.failed or (last.status or 0) >= 400 or last.state.error is not None)

    def safe(self, failure):
        """Whether another attempt needs no question."""
        return failure.safety == 'safe_auto_retry'

    def failure(self, error):
        """Return the failure of the call, or None if none was recorded."""
        recordings = self.recordings
        if not recordings:
            return None
        if error is not None:
            for recording in recordings:
                recording.end('close')  # nothing reads it any more
        if self.other_run():
            return None
        failure = _failure_of(recordings[-_MAX_REQUESTS:], self.run, self.ledger, self.name, error)
        if failure is None:
            return None
        broke = failure.verdict.get('llm.failure.class') in _BROKEN
        if error is None:
            return failure if broke and (recordings[-1].status or 999) < 400 else None
        left = any(r.span.attributes.get('llm.stream.end') == 'consumer_closed' for r in recordings)
        return None if left and not broke else failure


    def other_run(self):
        other = any(r.run is not self.run for r in self.recordings)
        if other:
            _log.warning('retry has no verdict: a run began within the function. Begin it around retry')
        return other


class _InTool:
    """A tool within a call: what it asks a model for is not the call that is repeated. It may be refused."""

    def __init__(self, call):
        self.refuse, self.tell = call.refuse, call.tell
        self.turn = self if isinstance(call, _Turn) or call.turn else None

    def sent(self, recording):
        pass

    def in_tool(self):
        return self


class _TurnLoop(_Loop):
    """The state of a retry_turn."""

    def __init__(self, policy):
        super().__init__(policy)
        self.earlier, self.outputs = [], []  # the outputs of earlier turns by ids; those that a model call has to carry, the newest last
        self.failed, self.first = None, time.time()

    def call(self):
        return _Turn(self)


class _Turn(_Call):
    """One call of a turn."""

    def __enter__(self):
        super().__enter__()
        self.outputs, self.carried, self.since, self.known, self.own = self.loop.outputs, False, time.time(), False, {}
        return self

    def refuse(self, host, outputs):
        """Return the error of a request that lacks the output of a call that ran."""
        loop, unsent = self.loop, self.turn and self.turn.refuse(host, outputs)
        if unsent:
            return unsent
        if self.carried and not self.last_failed():
            self.outputs = []  # the model has answered
        if self.outputs and not _carries(outputs or [], self.outputs, loop.earlier):
            self.refused = 'output_left_out'
        if self.refused:
            return RuntimeError('otelllm: the request was not sent: its history lacks the output of a tool call that ran, and that would '
                                'run again, or cannot be read before it is sent; keep the history between attempts')
        if not loop.host:
            loop.earlier = [id for id in outputs or () if not self.executed(id)]
        loop.host, self.carried = host, True
        return None

    def executed(self, id):
        """Whether the turn executed a call, by its id."""
        return any(line['kind'] == 'tool' and line['run'] == self.run.span.span_id and line.get('gen_ai.tool.call.id') == id
                   and line['start'] >= self.loop.first for line in self.run.ledger.lines())

    def sent(self, recording):
        if self.turn:
            self.turn.sent(recording)
        self.recordings.append(recording)

    def safe(self, failure):
        # What earlier attempts did was settled before this one: it was safe, or was confirmed.
        return self.known and not self.own.get('ask') and self.own['send'] in ('again', 'rest')

    def failure(self, error):
        """Return the failure of the turn, or None if no model call of it failed."""
        self.loop.sent += 1
        if self.refused:
            return dataclasses.replace(self.loop.failed, error=error)
        if error is None and not self.last_failed() or not self.recordings:
            return None
        if error is not None:
            for recording in self.recordings:
                recording.end('close')  # nothing reads it any more
        if self.other_run():
            return None
        run = self.run
        name = run.span.span_id
        answer, _ = _judged(run, run.ledger, {'run': name}, error)
        own, _ = _judged(run, run.ledger, {'run': name, 'since': self.since}, error)
        verdict, plan, self.own = answer.get('verdict') or {}, answer.get('plan'), own.get('plan') or {}
        broken, send = verdict.get('llm.failure.class'), self.own.get('send')
        if not plan or broken in (None, 'tool_failed', 'application_error') or not send or send == 'nothing' and not self.own.get('ask'):
            return None
        if error is None:
            last = self.recordings[-1]
            if broken not in _BROKEN or (last.status or 999) >= 400 or _failure_of([last], run, run.ledger, name, None) is None:
                return None
        ran, self.known = _outputs_of(self.own)
        ids = {id for id, _ in ran}
        self.loop.outputs = [o for o in self.loop.outputs if o[0] not in ids] + ran
        self.loop.failed = Failure(verdict.get('llm.failure.summary', ''), verdict, plan, False, error)
        return self.loop.failed


def _outputs_of(plan):
    """Return the outputs that exist of the calls that ran, as ids and whether they acted, and whether each that acted has an id."""
    ran, known = [], True
    for call in plan.get('ran', ()):
        acted = call.get('effect') not in ('read_only', 'idempotent')
        if call.get('output') == 'lost':
            continue
        if call.get('id'):
            ran.append((call['id'], acted))
        else:
            known = known and not acted
    return ran, known


def _carries(history, outputs, earlier):
    """Whether a history has the outputs of calls that acted, so that the model does not ask for them again. An id that stands among
    those of earlier turns was used again, and stands there once more."""
    return all(history.count(id) > earlier.count(id) for id, acted in outputs if acted)


@functools.lru_cache(maxsize=None)
def _report_sdk_retries():
    """Say once that there are two loops."""
    _log.warning("the SDK retries model calls by itself within retry; they count as attempts, but wait and decide by the SDK's rules. "
                 'Set its own retries to 0')


def _failure_of(recordings, run, ledger, name, error):
    """Judge requests, which are the attempts of one model call."""
    if run is not None:
        ledger, name = run.ledger, run.span.span_id
    ids = [r.span.span_id for r in recordings]
    answer, lines = _judged(run, ledger, {'run': name, 'call': ids}, error)
    verdict: Optional[Dict[str, Any]] = answer.get('part')
    if not verdict:
        return None
    shown = any(line.get('llm.stream.text_chunks') for line in lines if line.get('id') in ids)
    return Failure(verdict.get('llm.failure.summary', ''), verdict, answer.get('plan', {}), shown, error)


def _judged(run, ledger, question, error):
    """Return the answer to a question about a run or a call, which is empty without one, and what was judged."""
    around = set()  # the runs that the call is in, which may have ended by now: the judge has forgotten those that have
    while run is not None:
        around.add(run.span.span_id)
        run = run.above
    if not ledger.complete:
        _log.warning('retry has no verdict: the run has more than %d parts', ledger.max_lines)
        return {}, []
    lines = [line for line in ledger.lines() if not (line['kind'] == 'run' and line['state'] == 'ended' and line['run'] in around)]
    if error is not None and facts._timed_out(error):  # what cancelled the request was asyncio's deadline
        lines = [{**line, 'llm.abort.source': 'deadline'} if line.get('llm.abort.source') == 'unknown' else line for line in lines]
    try:
        return judge([*lines, question]), lines
    except JudgeError as problem:
        _log.warning('retry has no verdict: %s', problem)
        return {}, []


def failure_of(error: BaseException) -> Optional[Failure]:
    """Return the recorded failure of the model request that an SDK's error is about, or None if there is none: the error is then the
    application's own. It finds the request by the error's request or response, or those of its causes, as the errors of httpx and of
    the SDKs of OpenAI and Anthropic have them. It blocks for the time of a verdict.
    """
    recording = facts._recording_of(error)
    if recording is None:
        return None
    recording.end('close')  # nothing reads it any more
    call = recording.call
    if call is None:
        call = _Call()
        call.tell(recording.facts())
    return _failure_of([recording], recording.run, call.ledger, call.name, error)
