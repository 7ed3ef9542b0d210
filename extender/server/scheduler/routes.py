"""The scheduler's port as an ASGI application: POST /filter, /prioritize, /preempt, /bind and /filter-dryrun.

A call from kube-scheduler that arrives in one piece is answered without starting a task (`at_once`).

Rule: every request gets exactly one response, in JSON, never a redirect.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from extender.errors import INTERNAL, CallerGone, Overloaded, RequestError, VerbDisabled
from extender.server.context import ServerContext
from extender.server.http.body import BodiesInFlight, Body, caller_of, check_headers, read_body
from extender.server.http.deadline import Deadline
from extender.server.http.errors import METHOD_NOT_ALLOWED, error_body
from extender.server.http.protocol import BEGUN_KEY, WRITE_TIMEOUT_SECONDS, Begin
from extender.server.http.response import CLOSE, Header, Response
from extender.server.observability.audit import shorten
from extender.server.observability.tracing import Tracing
from extender.server.scheduler import verbs
from extender.server.scheduler.bind import bind
from extender.server.scheduler.filter_dryrun import DryRuns
from extender.server.scheduler.result import Answer, CallVerb

log = logging.getLogger(__name__)

PATHS: dict[str, CallVerb] = {"/filter": "filter", "/prioritize": "prioritize", "/preempt": "preempt", "/bind": "bind"}

DRYRUN_PATH = "/filter-dryrun"
"""Path that an autoscaler calls; kube-scheduler calls PATHS."""

NOT_FOUND = (
    "no such path: this listener serves POST /filter, /prioritize, /preempt, /bind and /filter-dryrun; health, metrics "
    "and debug pages are on the admin listener (admin.port)"
)

BIND_DISABLED = "binding is disabled: set bind.enabled: true, or remove bindVerb from the scheduler's configuration"

BODIES_IN_FLIGHT = 1.5
"""Maximum total size of bodies and answers of all calls in flight, as a multiple of `server.maxBodyBytes`."""

SEND_BYTES = 256 << 10
"""Size of the parts in which a large answer is sent; the connection buffers the unread rest of a part twice."""

RETRY_AFTER_SECONDS = b"1"
"""Retry-After of an overload response, in seconds."""

# Response headers; openapi.json describes them.
DECISION_HEADER = b"x-extender-decision"
CACHE_HEADER = b"x-extender-cache"
NOT_EVALUATED_HEADER = b"x-extender-not-evaluated"
VETOED_HEADER = b"x-extender-vetoed"

_MAX_HEADER_CHARACTERS = 500

ReadBody = Callable[[int], Awaitable[bytes]]
"""Function from the maximum number of bytes to the body of the request."""


@dataclass(slots=True)
class SchedulerApp:
    """The application of the scheduler's listener."""

    server_context: ServerContext
    lifespan: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Context manager that runs the background tasks of the application."""
    stop: Callable[[], None] = lambda: None
    """Function that stops the process that serves the application; `server.run` sets it."""
    bodies: BodiesInFlight = field(init=False)
    dry_runs: DryRuns = field(init=False)

    def __post_init__(self) -> None:
        self.dry_runs = DryRuns(self.server_context)
        self.bodies = BodiesInFlight(int(BODIES_IN_FLIGHT * self.server_context.max_body_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.bodies.track() as body:
            request = Request(scope, receive)
            begun: Awaitable[Response] | None = scope.get(BEGUN_KEY)
            response = await (begun or self._respond(scope, lambda cap: read_body(request, cap, self.bodies, body)))
            response.after_send()
            if len(response.body) > SEND_BYTES:
                await _send_in_parts(response, request, send, self.bodies, body)
            else:
                await response.send(send)

    @property
    def at_once(self) -> dict[bytes, Begin]:
        """Path -> function that begins a call whose request is complete; only for verbs that rarely wait."""
        return {path.encode(): self._begin for path, name in PATHS.items() if name != "bind"}

    def _begin(self, scope: Scope, content: bytes) -> Coroutine[Any, Any, Response]:
        async def read(cap: int) -> bytes:
            check_headers(scope, cap)
            return content

        return self._respond(scope, read)

    async def _respond(self, scope: Scope, read: ReadBody) -> Response:
        """Return a response to any request; an unexpected error becomes a 500."""
        try:
            if scope["path"] not in PATHS and scope["path"] != DRYRUN_PATH:
                return Response(404, error_body(NOT_FOUND))
            if scope["method"] != "POST":
                return Response(405, error_body(METHOD_NOT_ALLOWED), ((b"allow", b"POST"),))
            if scope["path"] == DRYRUN_PATH:
                return await _dry_run(self.dry_runs, scope, read)
            return await _call(PATHS[scope["path"]], scope, read, self.server_context)
        except Exception:
            log.exception("internal error")
            return Response(500, error_body(INTERNAL))


async def _send_in_parts(response: Response, request: Request, send: Send, bodies: BodiesInFlight, body: Body) -> None:
    """Send a large answer as fast as the client reads it; close the connection if that takes too long."""
    content = memoryview(response.body)
    try:
        async with asyncio.timeout(WRITE_TIMEOUT_SECONDS) as body.timeout:
            await response.send_head(send)
            for start in range(0, len(content), SEND_BYTES):
                end = start + SEND_BYTES
                bodies.resize(body, len(content))
                await send({"type": "http.response.body", "body": content[start:end], "more_body": end < len(content)})
    except TimeoutError:
        caller_of(request.scope).abort()
        await request.receive()  # wait until it is closed, as uvicorn would log an incomplete response


async def _dry_run(dry_runs: DryRuns, scope: Scope, read: ReadBody) -> Response:
    """Answer one dry run; an error that is not the client's is returned in the body of a 200."""
    server_context, caller = dry_runs.server_context, caller_of(scope)
    ends_at = caller.arrived_at + server_context.timeout
    deadline = Deadline(ends_at, server_context.clock, is_caller_gone=caller.is_gone)
    try:
        answer = await dry_runs.answer(await _read_body("filter", read, server_context, deadline), deadline)
        closes = False
    except RequestError as error:
        answer, closes = Answer(error_body(str(error)), "error", error.status), error.status != 400
    except Exception as error:
        answer, closes = dry_runs.failed(error), True
    server_context.metrics.count("filter_dryruns", "failed" if answer.kind == "error" else "answered")
    return Response(answer.status, answer.body, _headers(answer, closes=closes))


async def _call(name: CallVerb, scope: Scope, read: ReadBody, server_context: ServerContext) -> Response:
    """Answer one call; its duration is measured from its arrival, and every error becomes a response."""
    metrics, caller, is_overload = server_context.metrics, caller_of(scope), False
    deadline = Deadline(caller.arrived_at + server_context.timeout, server_context.clock, is_caller_gone=caller.is_gone)
    try:
        # 1. Read the body.
        content, limit = await _read_body(name, read, server_context, deadline), server_context.max_in_flight
        with metrics.track_in_flight() as in_flight:
            # 2. Reject an overload or a late call before it is decoded.
            if in_flight > limit:
                overload = Overloaded(f"more than {limit} calls in flight (server.maxInFlight)")
                deadline = structs.replace(deadline, rejection=overload)
            if name != "bind":
                if server_context.settings.needs_cluster:  # otherwise it is passed through, at next to no cost
                    deadline.check()
                # 3. Decide, or bind the pod.
                answer = await verbs.answer_live(verbs.VERBS[name], server_context, content, deadline)
            elif deadline.rejection is not None:
                raise deadline.rejection
            else:
                assert server_context.binder is not None  # `_read_body` raises
                answer = await bind(server_context, server_context.binder, content, deadline)
        closes = answer.status == 503
    except RequestError as error:
        # Before a 400 the whole body has been read, so the connection can be reused.
        answer, closes = Answer(error_body(str(error)), "error", error.status), error.status != 400
    except Exception as error:
        answer, closes = verbs.on_failure(name, server_context, error), True
        is_overload = isinstance(error, Overloaded) and answer.status == 503
    # 4. Record metrics and a trace span, and build the response.
    seconds = server_context.clock() - caller.arrived_at
    metrics.observe_request(name, answer.status, seconds)
    if server_context.tracing is not None:
        _trace(server_context.tracing, name, scope, answer, seconds)
    headers = _headers(answer, closes=closes)
    if is_overload:
        headers.append((b"retry-after", RETRY_AFTER_SECONDS))
    return Response(answer.status, answer.body, headers, answer.after_send)


async def _read_body(name: CallVerb, read: ReadBody, server_context: ServerContext, deadline: Deadline) -> bytes:
    """Read the body; raises RequestError, Overloaded, DeadlineMissed or CallerGone."""
    cap = server_context.max_body_bytes
    if name == "bind":
        if server_context.binder is None:
            raise VerbDisabled(BIND_DISABLED)
        cap = server_context.max_node_names_body_bytes
    try:
        return await read(cap)
    except ClientDisconnect:
        # A caller that disconnects after its deadline counts as late, because lateness is the cause.
        deadline.check()
        raise CallerGone("the caller closed the connection before its request was complete") from None


def _headers(answer: Answer, *, closes: bool) -> list[Header]:
    """Return the response headers. `closes`: whether the connection is closed after this response."""
    headers = []
    if answer.id is not None:
        headers.append((DECISION_HEADER, answer.id.encode()))
    if answer.cache_status is not None:
        headers.append((CACHE_HEADER, _printable(answer.cache_status)))
    if answer.not_evaluated:
        headers.append((NOT_EVALUATED_HEADER, _limited(", ".join(answer.not_evaluated))))
    if answer.veto_reason:
        headers.append((VETOED_HEADER, _limited(answer.veto_reason)))
    # The rest of a rejected body may still arrive and must not be parsed as a request. After a failure, a new
    # connection may reach a different replica behind the Service.
    if closes:
        headers.append(CLOSE)
    return headers


def _limited(text: str) -> bytes:
    """Return the text as printable ASCII of limited length, because it contains names that clients chose."""
    printable, limit = _printable(text), _MAX_HEADER_CHARACTERS
    return printable if len(printable) <= limit else printable[: limit - 3] + b"..."


def _printable(text: str) -> bytes:
    """Return the text with `?` for each character that is not printable ASCII."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(char if " " <= char <= "~" else "?" for char in text)
    return text.encode()


def _trace(tracing: Tracing, name: str, scope: Scope, answer: Answer, seconds: float) -> None:
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
    parent = Headers(scope=scope).get("traceparent")
    tracing.record_span(f"POST /{name}", seconds, attributes, parent=parent, is_error=failed)
