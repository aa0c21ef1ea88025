"""The rules of `otelllm judge`: by WebAssembly in this process where the package wasmtime is installed, or else by the program
otelllm as a child process."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import threading
from typing import Any, List, Mapping, Optional, Sequence, TypedDict, Union

Facts = Mapping[str, object]
"""A line of facts, as docs/judge.md describes it: 'run', 'kind', 'id', and facts of the vocabulary."""

Verdict = Mapping[str, Any]
"""Attributes of the vocabulary, such as 'llm.retry.safety' and 'llm.failure.summary'."""


class PlannedCall(TypedDict, total=False):
    """A tool call of a plan."""
    id: str
    name: str
    effect: str  # 'read_only', 'idempotent', 'non_idempotent' or 'unknown'
    output: str  # 'delivered', 'kept' or 'lost'


class Plan(TypedDict, total=False):
    """How to go on: which tool calls ran, and what to send."""
    ran: List[PlannedCall]
    may_have_run: List[PlannedCall]
    never_ran: List[PlannedCall]
    more: bool  # calls may have run that are not listed
    send: str  # 'again', 'rest', 'repaired_history' or 'nothing'
    wait: float  # seconds that the provider asked for
    ask: str  # why a person decides first
    words: str  # the plan in sentences


class Judgement(TypedDict, total=False):
    """The answer to the last of the facts."""
    run: str
    verdict: Optional[Verdict]  # on the run; None if nothing is said of one
    part: Verdict  # on the request or tool, or on the call of a question, if it failed
    plan: Plan
    invalid: List[str]  # facts with a value that the vocabulary does not have
    ignored: int
    incomplete: bool
    id: str
    ref: Union[int, float, str]


class JudgeError(Exception):
    """What is wrong with facts, or with the judge. line is the number of the fact, from 1 on, or None."""

    def __init__(self, message: str, line: Optional[int] = None) -> None:
        super().__init__(message if line is None else f'fact {line}: {message}')
        self.line = line


def judge(facts: Union[Facts, Sequence[Facts]]) -> Judgement:
    """Judge facts, one or a list of them in their order, and return the answer to the last one. It keeps nothing.

    It raises a JudgeError for facts that are not valid, and if there is no judge: it needs the package wasmtime, or the program
    otelllm on the PATH or at OTELLLM_BIN. The first call compiles the rules, or starts the program; that blocks for a moment.
    """
    try:
        text = json.dumps(facts, allow_nan=False, separators=(',', ':')) if isinstance(facts, (Mapping, list, tuple)) else None
    except (TypeError, ValueError, RecursionError):
        text = None  # the message may quote the facts
    if text is None:
        raise JudgeError('the facts have to be a dict or a list of dicts that JSON can have')
    answer = json.loads(judge_json(text))
    if 'error' in answer:
        raise JudgeError(answer['error'], answer.get('line'))
    return answer


_MAX_FACTS = 64 << 20  # bytes


def judge_json(text: str) -> str:
    """judge for facts and an answer as JSON; errors in the facts are answers as well."""
    facts = text.replace('\n', ' ').encode()
    if len(facts) >= _MAX_FACTS:
        raise JudgeError(f'the facts have {len(facts)} bytes, more than {_MAX_FACTS}')
    return available().answer(facts).decode()


_MISSING = ('there is no judge: `pip install wasmtime`, or put the program otelllm on the PATH or its path into OTELLLM_BIN')


def available() -> Union[_Module, _Program]:
    """Return what judges in this process, or raise a JudgeError that says what to install."""
    global _judge
    with _lock:
        if _judge is None:
            if _WASM.is_file() and importlib.util.find_spec('wasmtime') is not None:
                _judge = _Module()
            else:
                program = os.environ.get('OTELLLM_BIN') or shutil.which('otelllm')
                if not program:
                    raise JudgeError(_MISSING)
                _judge = _Program(program)
        return _judge


_WASM = pathlib.Path(__file__).with_name('judge.wasm')
_lock = threading.Lock()
_judge: Optional[Union[_Module, _Program]] = None


def _forked():
    """A forked process has a judge of its own: the child process answers its parent, and another thread may have held the lock."""
    global _lock, _judge
    if isinstance(_judge, _Program):
        atexit.unregister(_judge.stop)
    _lock, _judge = threading.Lock(), None


if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=_forked)


class _Module:
    """judge.wasm, which is described in cmd/otelllm/judgewasm."""

    def __init__(self):
        self.lock, self.module, self.engine, self.store = threading.Lock(), None, None, None

    def answer(self, facts):
        with self.lock:
            try:
                if self.store is None:
                    self.load()
                store, memory, buffer, judge, answer = self.store
                memory.write(store, facts, buffer(store, len(facts)) & 0xffffffff)  # i32 are signed here
                size = judge(store, len(facts)) & 0xffffffff
                start = answer(store) & 0xffffffff
                return bytes(memory.read(store, start, start + size))
            except Exception as error:
                self.store = None  # after a trap its memory is not to be trusted
                raise JudgeError(f'judge.wasm cannot be used: {type(error).__name__}') from None

    def load(self):
        import wasmtime  # only here: that takes its time
        if self.module is None:
            self.engine = wasmtime.Engine()
            self.module = wasmtime.Module.from_file(self.engine, str(_WASM))
        store, linker = wasmtime.Store(self.engine), wasmtime.Linker(self.engine)
        linker.define_wasi()
        store.set_wasi(wasmtime.WasiConfig())  # no file, argument or variable
        exports = linker.instantiate(store, self.module).exports(store)
        exports['_initialize'](store)
        self.store = (store, *(exports[name] for name in ('memory', 'buffer', 'judge', 'answer')))


class _Program:
    """`otelllm judge --once` as a child process."""

    seconds = 20.0  # that an answer may take

    def __init__(self, program):
        self.program, self.lock, self.child, self.fresh = program, threading.Lock(), None, True

    def answer(self, facts):
        with self.lock:
            for again in (True, False):
                try:
                    if self.child is None:
                        self.start()
                    line = self.ask(facts)
                    if line.endswith(b'\n'):
                        return line[:-1]
                    why = 'it ended without an answer'
                except OSError as error:
                    why = type(error).__name__
                fresh = self.fresh
                self.stop()
                if fresh or not again:  # one that had been answered before may have been killed meanwhile
                    raise JudgeError(f'`otelllm judge --once` cannot be used ({why}): {_MISSING}')

    def start(self):
        # In a session of its own: a signal of the terminal is for the application.
        self.child = subprocess.Popen([self.program, 'judge', '--once'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, start_new_session=True)
        self.fresh = True
        atexit.register(self.stop)

    def ask(self, facts):
        timer = threading.Timer(self.seconds, self.child.kill)
        timer.daemon = True
        timer.start()
        try:
            self.child.stdin.write(facts + b'\n')
            self.child.stdin.flush()
            line = self.child.stdout.readline()
        finally:
            timer.cancel()
        self.fresh = self.fresh and not line
        return line

    def stop(self):
        atexit.unregister(self.stop)
        child, self.child = self.child, None
        if child is None:
            return
        for end in (child.stdin, child.stdout):
            try:
                end.close()
            except OSError:
                pass
        child.kill()
        child.wait()
