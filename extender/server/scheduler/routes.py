"""The HTTP routes of the scheduler's port: POST /filter, /prioritize, /preempt and /bind.

Rule: every request gets exactly one response, in JSON, never a redirect.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from extender.errors import Overloaded, RequestError, VerbDisabled
from extender.server.http.body import read_body, request_started
from extender.server.http.deadline import Deadline
from extender.server.http.errors import error_body, on_error
from extender.server.observability.tracing import Tracing
from extender.server.scheduler import openapi, verbs

CLOSE_CONNECTION = {"Connection": "close"}
"""Header that closes the connection: the rest of a rejected body may still arrive and must not be parsed as a request.
After a failure, a new connection may reach another replica behind the Service."""

_MAX_HEADER_CHARACTERS = 500

BIND_DISABLED = "binding is disabled: set bind.enabled: true, or remove bindVerb from the scheduler's configuration"


Endpoint = Callable[[Request], Awaitable[Response]]


class Application(FastAPI):
    """FastAPI, except that verb calls go straight to their endpoints.

    They skip FastAPI's routing and argument validation, which takes a fifth of a small call's time.
    """

    endpoints: Mapping[str, Endpoint] = {}
    """Path -> endpoint of a verb (POST only); FastAPI answers everything else."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self.endpoints.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if endpoint is None:
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        request = Request(scope, receive, send)
        try:
            response = await endpoint(request)
        except Exception as error:
            await (await on_error(request, error))(scope, receive, send)
            raise  # uvicorn logs it
        await response(scope, receive, send)


def add_routes(app: Application) -> None:
    """Add the route of each verb; `app.state.server_context` holds the ServerContext."""
    handlers = {name: _decision_handler(verb) for name, verb in verbs.VERBS.items()} | {"bind": _bind}
    endpoints = {f"/{name}": _endpoint(name, answer) for name, answer in handlers.items()}
    for path, endpoint in endpoints.items():
        name = path.removeprefix("/")
        app.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            response_class=Response,
            operation_id=name,
            **openapi.OPERATIONS[name],
        )
    app.endpoints = endpoints


CallHandler = Callable[[Request, verbs.ServerContext, Deadline], Awaitable[verbs.Answer]]


def _endpoint(name: str, handler: CallHandler) -> Endpoint:
    """Return the endpoint of a verb: its calls are limited, timed and counted, and every error becomes a response."""

    async def endpoint(request: Request) -> Response:
        server_context: verbs.ServerContext = request.app.state.server_context
        started = request_started(request)
        with server_context.metrics.track_in_flight() as calls:
            answer, headers = await _handle_call(
                name, handler, request, server_context.deadline(started, _overload_error(server_context, calls))
            )
        seconds = server_context.clock() - started
        server_context.metrics.observe_request(name, answer.status, seconds)
        if server_context.tracing is not None:
            _trace(server_context.tracing, name, request, answer, seconds)
        return Response(answer.body, answer.status, headers, media_type="application/json")

    return endpoint


def _overload_error(server_context: verbs.ServerContext, calls: int) -> Overloaded | None:
    if calls <= server_context.max_in_flight:
        return None
    return Overloaded(f"more than {server_context.max_in_flight} calls in flight (server.maxInFlight)")


async def _handle_call(
    name: str, handler: CallHandler, request: Request, deadline: Deadline
) -> tuple[verbs.Answer, Mapping[str, str]]:
    """Return the answer and its headers; never raises."""
    server_context: verbs.ServerContext = request.app.state.server_context
    try:
        answer = await handler(request, server_context, deadline)
        return answer, _headers(answer) | (CLOSE_CONNECTION if answer.status == 503 else {})
    except RequestError as error:
        return _error_answer(error.status, str(error)), CLOSE_CONNECTION if error.status != 400 else {}
    except ClientDisconnect:
        return _error_answer(400, "the connection was closed before the body was complete"), {}
    except Exception as error:
        return verbs.on_failure(name, server_context, error), CLOSE_CONNECTION


def _error_answer(status: int, message: str) -> verbs.Answer:
    return verbs.Answer(error_body(message), "error", status)


def _decision_handler(verb: verbs.VerbHandler[Any, Any]) -> CallHandler:
    async def decide(request: Request, server_context: verbs.ServerContext, deadline: Deadline) -> verbs.Answer:
        # A pass-through answer costs next to nothing, so overload does not reject it.
        if deadline.rejection is not None and server_context.settings.needs_cluster:
            raise deadline.rejection
        return verbs.answer(
            verb, server_context, await read_body(request, server_context.max_body_bytes), deadline=deadline
        )

    return decide


async def _bind(request: Request, server_context: verbs.ServerContext, deadline: Deadline) -> verbs.Answer:
    if server_context.binder is None:
        raise VerbDisabled(BIND_DISABLED)
    if deadline.rejection is not None:
        raise deadline.rejection
    return await verbs.bind(
        server_context,
        server_context.binder,
        await read_body(request, server_context.max_node_names_body_bytes),
        deadline,
    )


def _headers(answer: verbs.Answer) -> dict[str, str]:
    """Return the response headers of an answer: decision ID, cache status, not evaluated plugins, veto reason."""
    headers = {} if answer.id is None else {openapi.DECISION_HEADER: answer.id}
    if answer.cache_status is not None:
        headers[openapi.CACHE_HEADER] = answer.cache_status
    if answer.not_evaluated:
        headers[openapi.NOT_EVALUATED_HEADER] = ", ".join(answer.not_evaluated)
    if answer.veto_reason:
        headers[openapi.VETOED_HEADER] = _header_value(answer.veto_reason)
    return headers


def _header_value(text: str) -> str:
    """Return the text as a header value: at most 500 characters, printable ASCII only."""
    printable = "".join(char if " " <= char <= "~" else "?" for char in text)
    return printable if len(printable) <= _MAX_HEADER_CHARACTERS else printable[: _MAX_HEADER_CHARACTERS - 3] + "..."


def _trace(tracing: Tracing, name: str, request: Request, answer: verbs.Answer, seconds: float) -> None:
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
        }
    failed = answer.status >= 500 or (answer.summary is not None and answer.summary.mode == "failed")
    parent = request.headers.get("traceparent")
    tracing.record_span(f"POST /{name}", seconds, attributes, parent=parent, is_error=failed)
