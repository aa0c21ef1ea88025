"""Verdicts as the retry policies of frameworks. Each is written from the framework's source, as of August 2026, and imports nothing of
it before it is used. Tried with the real package: tenacity. Not tried with the real packages: openai-agents, pydantic-ai, LangChain;
their tests have stand-ins for the interface. The model's client has to be recorded, by otelllm.watch or OtelllmInstrumentor, and
without retries of its own (max_retries=0).
"""

from __future__ import annotations

import dataclasses
import inspect
import weakref
from typing import Any, Callable, Dict, Optional

from . import facts
from ._retry import Failure, RetryPolicy, _in_thread, failure_of, retry, retry_async


def openai_agents(policy: Optional[RetryPolicy] = None) -> Callable[[Any], Any]:
    """The policy of openai-agents' ModelRetrySettings. Not tried with the real package.

        ModelSettings(retry=ModelRetrySettings(max_retries=3, policy=openai_agents(RetryPolicy(ask=confirm))))

    The runner counts the attempts (max_retries), and repeats no streamed call that has shown anything. What the SDK calls unsafe to
    replay is asked for although it may look safe here, and only then approve_unsafe_replay is set. Of the policy it takes attempts,
    backoff, budget and ask.
    """
    policy = _policy(policy)

    async def decide(context):
        from agents import RetryDecision
        failure = await _in_thread(failure_of, context.error)
        if failure is None:
            return RetryDecision(retry=False)
        unsafe = context.replay_safety == 'unsafe'
        failure, again = _next(policy, failure, context.attempt, careful=unsafe)
        if again is None:
            again = policy.ask(failure)
            again = (await again if inspect.isawaitable(again) else again) is True
        again = again and policy.budget._take(_host_of(failure))
        return RetryDecision(retry=again, delay=failure.wait, reason=failure.verdict.get('llm.retry.reason'), approve_unsafe_replay=again and unsafe)
    return decide


def pydantic_ai(policy: Optional[RetryPolicy] = None) -> Callable[..., Any]:
    """A model-request hook of pydantic-ai: retry_async around each model request. Not tried with the real package.

        Agent(model, capabilities=[Hooks(model_request=pydantic_ai(RetryPolicy(ask=confirm)))])

    Of a streamed answer it repeats only what fails before the stream is handed over.
    """
    async def model_request(_, *, request_context, handler):
        return await retry_async(policy, lambda: handler(request_context))
    return model_request


def langchain(model: Any, policy: Optional[RetryPolicy] = None) -> Any:
    """A Runnable with retry around each call of a model, in the place of model.with_retry(), which can neither see what happened nor
    wait as the provider asks. Not tried with the real package.

        chain = prompt | langchain(model.bind_tools(tools), RetryPolicy(ask=confirm))

    As with with_retry(), the answer comes as a whole.
    """
    from langchain_core.runnables import RunnableLambda

    def call(messages, config=None):
        return retry(policy, lambda: model.invoke(messages, config))

    async def call_async(messages, config=None):
        return await retry_async(policy, lambda: model.ainvoke(messages, config))
    return RunnableLambda(call, afunc=call_async)


def tenacity(policy: Optional[RetryPolicy] = None) -> Dict[str, Any]:
    """The arguments of tenacity's retry, Retrying and AsyncRetrying, and of pydantic-ai's RetryConfig for its transports, which repeat
    a request before its answer begins.

        for attempt in tenacity.Retrying(**frameworks.tenacity(RetryPolicy(ask=confirm))): ...
        AsyncTenacityTransport(RetryConfig(**frameworks.tenacity()), wrapped=otelllm.AsyncTransport(), validate_response=Response.raise_for_status)

    The error of the last attempt is raised as it is. ask may not be a coroutine function. An answer that broke off without an error of the SDK
    is not noticed; otelllm.retry does that.
    """
    policy = _policy(policy)
    loops: Any = weakref.WeakKeyDictionary()  # by their state: the wait, the host, and how many tokens were taken

    def again(state):
        if not state.outcome.failed:
            if state in loops:
                policy.budget._succeeded(*loops[state][1:])
            return False
        failure = failure_of(state.outcome.exception())
        if failure is None:
            return False
        failure, decision = _next(policy, failure, state.attempt_number)
        if state.seconds_since_start + failure.wait > policy.elapsed:
            return False
        if decision is None:
            decision = policy.ask(failure) is True
        host = _host_of(failure)
        if decision and policy.budget._take(host):
            loops[state] = failure.wait, host, loops[state][2] + 1 if state in loops else 1
            return True
        return False
    return {'retry': again, 'wait': lambda state: loops[state][0] if state in loops else 0.0, 'reraise': True}


_budgets: Any = weakref.WeakSet()  # of the policies of frameworks that do not tell that a call went well


def _went_well(host):
    for budget in tuple(_budgets):
        budget._succeeded(host, 0)


facts._succeeded.append(_went_well)


def _policy(policy):
    policy = policy or RetryPolicy()
    _budgets.add(policy.budget)
    return policy


def _host_of(failure):
    return facts._recording_of(failure.error).host


def _next(policy, failure: Failure, attempts: int, careful=False):
    """Return the failure with what is known of the next attempt, and whether to make it: None to ask."""
    wait = max(failure.after, policy.backoff_of(attempts))
    failure = dataclasses.replace(failure, attempts=attempts, wait=wait)
    if failure.safety == 'no_retry' or attempts >= policy.attempts or not policy.budget._has(_host_of(failure)):
        return failure, False
    if failure.safety == 'safe_auto_retry' and not careful:
        return failure, True
    return failure, None if policy.ask else False
