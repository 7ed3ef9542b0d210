"""POST /bind: bytes -> request -> API server -> bytes, within the call's deadline.

Rule: the answer is the API server's result, or the reason why the result is unknown; no API request is sent after the
deadline.
"""

import asyncio
import logging
import time
from dataclasses import replace

from msgspec import structs

from extender.cluster.apiserver import binding
from extender.cluster.apiserver.binding import BindResult
from extender.core.eviction_history import EvictionHistory
from extender.report.schema import DecisionMode
from extender.server.context import Binder, ServerContext
from extender.server.http.deadline import NO_DEADLINE, Deadline
from extender.server.scheduler import journal
from extender.server.scheduler.failure_policy import error_message, failure_answer
from extender.server.scheduler.journal import Call
from extender.server.scheduler.result import Answer, CallResult, CallSummary
from extender.wire import ExtenderBindingArgs
from extender.wire.decode import decode_bind
from extender.wire.encode import encode_bind

log = logging.getLogger(__name__)

MAX_TIMEOUT_OVERRUN_SECONDS = 0.3
"""Maximum time by which a binding may exceed its timeout before the call abandons it; at most 10 % of the time left."""

TIMED_OUT = BindResult("unknown", "not known whether the pod was bound: no response within bind.timeout")
"""Result of a binding whose thread did not return in time."""

CANCELLED = "not known whether the pod was bound: the call was cancelled"
"""Error in the audit line of a cancelled call (shutdown)."""


async def bind(server_context: ServerContext, binder: Binder, body: bytes, deadline: Deadline = NO_DEADLINE) -> Answer:
    """Bind the pod; the answer contains an error unless the API server confirms the binding. Raises RequestError."""
    started = time.perf_counter()
    request = decode_bind(body)
    call_id, result = server_context.decisions.next_id("bind"), BindResult("refused")
    mode: DecisionMode = "answered"
    try:
        deadline.check()
        result = await _bind_in_thread(binder, request, deadline)
        if result.outcome == "bound" and server_context.cache.version:
            assumed = server_context.cache.assumed
            assumed.assume_bound(request.pod_namespace, request.pod_name, request.pod_uid, request.node)
        server_context.metrics.count("binds", result.outcome)
        pod, tries = f"{request.pod_namespace}/{request.pod_name}", result.tries
        log.info("bind %r to %r: %s after %d attempt(s) %r", pod, request.node, result.outcome, tries, result.error)
        answer = Answer(encode_bind(result.error), "error" if result.error else "decided")
    except Exception as error:
        result, mode = replace(result, error=error_message(error)), "failed"
        answer = failure_answer("bind", server_context, error)
    except BaseException:  # cancelled, or the event loop has ended
        result, mode, answer = BindResult("unknown", CANCELLED), "failed", Answer(encode_bind(CANCELLED), "error")
        raise
    finally:
        milliseconds, now = (time.perf_counter() - started) * 1000, EvictionHistory(time.time_ns())
        call_result = CallResult(answer, mode, error=result.error)
        call = Call(call_id, "bind", call_result, now, request, body, milliseconds, result)
        journal.write(server_context, call)
    return structs.replace(answer, id=call_id, summary=CallSummary(request.pod_namespace, request.pod_name, mode, 1))


async def _bind_in_thread(binder: Binder, request: ExtenderBindingArgs, deadline: Deadline) -> BindResult:
    remaining = deadline.ends_at - deadline.clock()
    limit = min(binder.timeout, remaining - min(MAX_TIMEOUT_OVERRUN_SECONDS, remaining / 10))
    ends_at = time.monotonic() + limit

    def work() -> BindResult:
        deadline.check()  # again: the binding may have waited for a thread
        return binding.bind(binder.api, request, ends_at - time.monotonic())

    try:
        async with asyncio.timeout(min(limit + MAX_TIMEOUT_OVERRUN_SECONDS, remaining)):
            return await asyncio.get_running_loop().run_in_executor(binder.threads, work)
    except TimeoutError:  # the thread continues until its own timeouts end it
        return TIMED_OUT
