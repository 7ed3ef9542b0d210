"""POST /bind: bytes -> request -> API server -> bytes, within the call's deadline.

Rule: what is answered is what the API server said, or why that is not known; nothing is sent once the deadline has
passed.
"""

import asyncio
import logging
import time
from dataclasses import replace

from extender.cluster.apiserver import binding
from extender.cluster.apiserver.binding import BindResult
from extender.k8s.time import format_time
from extender.server.context import Binder, ServerContext
from extender.server.http.deadline import NEVER, Deadline
from extender.server.observability.audit import BindLine, Mode, PodSaid
from extender.server.scheduler import journal
from extender.server.scheduler.failure_policy import failure, said
from extender.server.scheduler.result import Answer, CallSummary
from extender.wire import BindRequest, decode_bind, encode_bind

log = logging.getLogger(__name__)

AFTER_TIMEOUT = 0.3
"""Seconds, or a tenth of what is left if that is less, that a binding may take beyond its own timeout before nobody
waits for it any more."""

NO_END = BindResult("unknown", "not known whether the pod was bound: there was no end within bind.timeout")


ANSWERED: Mode = "answered"

GIVEN_UP = "not known whether the pod was bound: the call was given up"


async def bind(service: ServerContext, binder: Binder, body: bytes, deadline: Deadline = NEVER) -> Answer:
    """Bind the pod; the answer says why not if the API server does not say that it is bound. Raises RequestError."""
    began = time.perf_counter()
    request = decode_bind(body)
    service.check_size(body, full=False)
    number, mode, result = service.decisions.next_id("bind"), ANSWERED, BindResult("refused")
    try:
        deadline.check()
        result = await _bound(binder, request, deadline)
        answer = _answered(service, request, result)
    except asyncio.CancelledError:
        _audit(service, number, request, BindResult("unknown", GIVEN_UP), "failed", time.perf_counter() - began)
        raise
    except Exception as error:
        answer, mode, result = failure("bind", service, error), "failed", replace(result, error=said(error))
    _audit(service, number, request, result, mode, time.perf_counter() - began)
    return replace(answer, id=number, about=CallSummary(request.pod_namespace, request.pod_name, mode, 1))


async def _bound(binder: Binder, request: BindRequest, deadline: Deadline) -> BindResult:
    left = deadline.left()
    limit = min(binder.timeout, left - min(AFTER_TIMEOUT, left / 10))
    ends = time.monotonic() + limit

    def work() -> BindResult:
        return binding.bind(binder.api, request, ends - time.monotonic())

    try:
        async with asyncio.timeout(min(limit + AFTER_TIMEOUT, left)):
            return await asyncio.get_running_loop().run_in_executor(binder.threads, work)
    except TimeoutError:  # the thread goes on, and ends by its own timeouts
        return NO_END


def _answered(service: ServerContext, request: BindRequest, result: BindResult) -> Answer:
    if result.outcome == "bound" and service.cache.version:
        service.cache.assumed.bound(request.pod_namespace, request.pod_name, request.pod_uid, request.node)
    service.metrics.bind(result.outcome)
    pod = f"{request.pod_namespace}/{request.pod_name}"
    log.info("bind %r to %r: %s after %d tries %r", pod, request.node, result.outcome, result.tries, result.error)
    return Answer(encode_bind(result.error))


def _audit(
    service: ServerContext, number: str, request: BindRequest, result: BindResult, mode: Mode, seconds: float
) -> None:
    line = BindLine(
        event="audit",
        timestamp=format_time(time.time_ns(), 6),
        id=number,
        verb="bind",
        mode=mode,
        status=200,
        milliseconds=round(seconds * 1000, 3),
        pod=PodSaid(namespace=request.pod_namespace, name=request.pod_name, uid=request.pod_uid),
        node=request.node,
        outcome=result.outcome,
        error=result.error,
        tries=result.tries,
    )
    journal.write(service, lambda: line)
