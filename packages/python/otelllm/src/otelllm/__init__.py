"""Why a model stream of an LLM agent broke, and whether to retry: otelllm.facts records it, judge gives the verdict, and retry obeys it."""

from . import facts
from ._judge import Facts, Judgement, JudgeError, Plan, PlannedCall, Verdict, judge
from ._retry import Failure, RetryBudget, RetryError, RetryPolicy, failure_of, retry, retry_async, retry_turn, retry_turn_async
from .facts import run, tool, watch

__all__ = [
    'Facts', 'Failure', 'Judgement', 'JudgeError', 'Plan', 'PlannedCall', 'RetryBudget', 'RetryError', 'RetryPolicy', 'Verdict', 'facts',
    'failure_of', 'judge', 'retry', 'retry_async', 'retry_turn', 'retry_turn_async', 'run', 'tool', 'watch',
]

# Transport(transport) and AsyncTransport(transport) record the model requests of an httpx transport, and change nothing.
if facts.httpx is not None:
    Transport, AsyncTransport = facts.FactsTransport, facts.AsyncFactsTransport
    __all__ += ['AsyncTransport', 'Transport']
if facts.httpx2 is not None:
    HTTPX2Transport, AsyncHTTPX2Transport = facts.HTTPX2FactsTransport, facts.AsyncHTTPX2FactsTransport
    __all__ += ['AsyncHTTPX2Transport', 'HTTPX2Transport']


def __getattr__(name):
    needs = {'Transport': 'httpx', 'AsyncTransport': 'httpx', 'HTTPX2Transport': 'httpx2', 'AsyncHTTPX2Transport': 'httpx2'}.get(name)
    if needs is not None:
        raise ImportError(f'otelllm.{name} needs {needs}: `pip install {needs}`')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
