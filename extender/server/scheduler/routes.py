"""The scheduler's port as an ASGI application: POST /filter, /prioritize, /preempt and /bind.

Rule: every request gets exactly one response, in JSON, never a redirect.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from extender.errors import INTERNAL, CallerGone, Overloaded, RequestError, VerbDisabled
from extender.server.context import ServerContext
from extender.server.http.body import BodiesInFlight, Body, caller_of, read_body
from extender.server.http.deadline import Deadline
from extender.server.http.errors import METHOD_NOT_ALLOWED, error_body, error_response
from extender.server.http.protocol import WRITE_TIMEOUT_SECONDS
from extender.server.observability.audit import shorten
from extender.server.observability.tracing import Tracing
from extender.server.scheduler import openapi, verbs
from extender.server.scheduler.bind import bind
from extender.server.scheduler.result import Answer, CallVerb

PATHS: dict[str, CallVerb] = {"/filter": "filter", "/prioritize": "prioritize", "/preempt": "preempt", "/bind": "bind"}

NOT_FOUND = (
    "no such path: this listener serves POST /filter, /prioritize, /preempt and /bind; health, metrics and debug pages "
    "are on the admin listener (admin.port)"
)

BIND_DISABLED = "binding is disabled: set bind.enabled: true, or remove bindVerb from the scheduler's configuration"

BODIES_IN_FLIGHT = 1.5
"""Limit for the bodies and answers of all calls in flight together, as a multiple of `server.maxBodyBytes`."""

SEND_BYTES = 256 << 10
"""Part of a large answer that is written at once: what the client has not read is in the connection's buffer twice."""

RETRY_AFTER_SECONDS = "1"
"""Retry-After of an overload."""

_MAX_HEADER_CHARACTERS = 500


@dataclass(slots=True)
class SchedulerApp:
    """The application of the scheduler's listener."""

    server_context: ServerContext
    lifespan: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Context manager that runs the background tasks of the application."""
    stop: Callable[[], None] = lambda: None
    """Stops the process that serves the application; `server.run` sets it."""
    bodies: BodiesInFlight = field(init=False)

    def __post_init__(self) -> None:
        self.bodies = BodiesInFlight(int(BODIES_IN_FLIGHT * self.server_context.max_body_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with self.bodies.track() as body:
            try:
                if scope["path"] not in PATHS:
                    response = error_response(404, NOT_FOUND)
                elif scope["method"] != "POST":
                    response = error_response(405, METHOD_NOT_ALLOWED, {"Allow": "POST"})
                else:
                    response = await _call(PATHS[scope["path"]], request, self.server_context, self.bodies, body)
            except Exception:
                await error_response(500, INTERNAL)(scope, receive, send)
                raise  # uvicorn logs it
            if len(response.body) > SEND_BYTES:
                await _send_in_parts(response, request, send, self.bodies, body)
            else:
                await response(scope, receive, send)


async def _send_in_parts(response: Response, request: Request, send: Send, bodies: BodiesInFlight, body: Body) -> None:
    """Send a large answer as fast as it is read, counted as in flight; if that takes too long, close the connection."""
    content = memoryview(response.body)
    try:
        async with asyncio.timeout(WRITE_TIMEOUT_SECONDS) as body.timeout:
            await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
            for start in range(0, len(content), SEND_BYTES):
                end = start + SEND_BYTES
                bodies.resize(body, len(content))
                await send({"type": "http.response.body", "body": content[start:end], "more_body": end < len(content)})
    except TimeoutError:
        caller_of(request).abort()
        await request.receive()  # until it is closed: uvicorn would log an incomplete response


async def _call(
    name: CallVerb, request: Request, server_context: ServerContext, bodies: BodiesInFlight, body: Body
) -> Response:
    """Answer one call; its duration is counted from its arrival, and every error becomes a response."""
    metrics, caller, is_overload = server_context.metrics, caller_of(request), False
    deadline = Deadline(caller.arrived_at + server_context.timeout, server_context.clock, is_caller_gone=caller.is_gone)
    try:
        content = await _read_body(name, request, server_context, deadline, bodies, body)
        with metrics.track_in_flight() as in_flight:
            answer = await _answer(name, server_context, content, deadline, in_flight)
        closes = answer.status == 503
    except RequestError as error:
        answer, closes = Answer(error_body(str(error)), "error", error.status), error.status != 400
    except Exception as error:
        answer, closes = verbs.on_failure(name, server_context, error), True
        is_overload = isinstance(error, Overloaded) and answer.status == 503
    seconds = server_context.clock() - caller.arrived_at
    metrics.observe_request(name, answer.status, seconds)
    if server_context.tracing is not None:
        _trace(server_context.tracing, name, request, answer, seconds)
    headers = _headers(answer, closes=closes)
    if is_overload:
        headers["Retry-After"] = RETRY_AFTER_SECONDS
    return Response(answer.body, answer.status, headers, media_type="application/json")


async def _read_body(
    name: CallVerb,
    request: Request,
    server_context: ServerContext,
    deadline: Deadline,
    bodies: BodiesInFlight,
    body: Body,
) -> bytes:
    """Return the body; raises RequestError, Overloaded, DeadlineMissed or CallerGone."""
    cap = server_context.max_body_bytes
    if name == "bind":
        if server_context.binder is None:
            raise VerbDisabled(BIND_DISABLED)
        cap = server_context.max_node_names_body_bytes
    try:
        return await read_body(request, cap, bodies, body)
    except ClientDisconnect:
        deadline.check()
        raise CallerGone("the caller closed the connection before its request was complete") from None


async def _answer(
    name: CallVerb, server_context: ServerContext, content: bytes, deadline: Deadline, in_flight: int
) -> Answer:
    """Answer the call; an overload is rejected, and a late call too, before it is decoded."""
    limit = server_context.max_in_flight
    if in_flight > limit:
        deadline = replace(deadline, rejection=Overloaded(f"more than {limit} calls in flight (server.maxInFlight)"))
    if name == "bind":
        if deadline.rejection is not None:
            raise deadline.rejection
        assert server_context.binder is not None  # `_read_body` raises
        return await bind(server_context, server_context.binder, content, deadline)
    if server_context.settings.needs_cluster:  # else a pass-through answer, which costs next to nothing
        deadline.check()
    return await verbs.answer_live(verbs.VERBS[name], server_context, content, deadline)


def _headers(answer: Answer, *, closes: bool) -> dict[str, str]:
    """Return the response headers. `closes`: the connection ends with this response.

    The rest of a rejected body may still arrive and must not be parsed as a request. After a failure, a new connection
    may reach another replica behind the Service.
    """
    headers = {}
    if answer.id is not None:
        headers[openapi.DECISION_HEADER] = answer.id
    if answer.cache_status is not None:
        headers[openapi.CACHE_HEADER] = answer.cache_status
    if answer.not_evaluated:
        headers[openapi.NOT_EVALUATED_HEADER] = _header_value(", ".join(answer.not_evaluated))
    if answer.veto_reason:
        headers[openapi.VETOED_HEADER] = _header_value(answer.veto_reason)
    if closes:
        headers["Connection"] = "close"
    return headers


def _header_value(text: str) -> str:
    """Return text with names that others chose as ASCII of limited length."""
    printable = "".join(char if " " <= char <= "~" else "?" for char in text)
    if len(printable) > _MAX_HEADER_CHARACTERS:
        return printable[: _MAX_HEADER_CHARACTERS - 3] + "..."
    return printable


def _trace(tracing: Tracing, name: str, request: Request, answer: Answer, seconds: float) -> None:
    attributes: dict[str, str | int] = {
        "http.request.method": "POST",
        "http.route": f"/{name}",
        "http.response.status_code": answer.status,
        "extender.verb": name,
    }
    if answer.id is not None:
        attributes["extender.decision"] = answer.id
    if answer.summary is not None:
        summary = answer.summary
        attributes |= {
            "extender.mode": summary.mode,
            "extender.nodes.sent": summary.sent,
            "extender.nodes.kept": summary.kept,
            "k8s.namespace.name": summary.namespace,
            "k8s.pod.name": summary.pod,
            "extender.pod.scheduler_name": shorten(summary.scheduler_name),
        }
    failed = answer.status >= 500 or (answer.summary is not None and answer.summary.mode == "failed")
    parent = request.headers.get("traceparent")
    tracing.record_span(f"POST /{name}", seconds, attributes, parent=parent, is_error=failed)
