"""An instrumentor for `opentelemetry-instrument`: every client of httpx or httpx2 and aiohttp session that is made after it records its
model requests. Runs and tools are the application's to name, with otelllm.facts."""

from __future__ import annotations

import functools
import threading

from . import facts

_lock = threading.Lock()


class OtelllmInstrumentor:
    """It has the methods of opentelemetry-instrumentation's BaseInstrumentor, without that package."""

    _undo = None  # what uninstrument calls, if it is instrumented

    def instrumentation_dependencies(self):
        return ()  # one of httpx, httpx2 and aiohttp; without either there is nothing to record

    @property
    def is_instrumented_by_opentelemetry(self):
        return OtelllmInstrumentor._undo is not None

    def instrument(self, **_):
        with _lock:
            if OtelllmInstrumentor._undo is not None:
                return
            undo = []
            for module in facts.clients:
                for client in (module.Client, module.AsyncClient):
                    undo.append(_after_init(client, facts.watch))
            if facts.aiohttp is not None:
                undo.append(_after_init(facts.aiohttp.ClientSession, _watch_session))
            OtelllmInstrumentor._undo = undo

    def uninstrument(self, **_):
        """Clients that exist go on recording."""
        with _lock:
            for restore in OtelllmInstrumentor._undo or ():
                restore()
            OtelllmInstrumentor._undo = None


def _after_init(cls, watch):
    """Have watch called with each new object of a class or of one derived from it. Return what undoes that."""
    init = cls.__init__

    @functools.wraps(init)
    def watched(self, *args, **kwargs):
        init(self, *args, **kwargs)
        watch(self)

    cls.__init__ = watched

    def restore():
        if cls.__init__ is watched:  # else another one has wrapped it since
            cls.__init__ = init
    return restore


def _watch_session(session):
    """Add the trace configuration to a session that does not have it, frozen as aiohttp's own constructor does."""
    config = facts.trace_config()
    config.freeze()
    session.trace_configs.append(config)
