"""The paths of the scheduler's port, and HTTP around the verbs.

Rule: every request gets exactly one answer, in JSON, and never a redirect.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from extender.errors import Overloaded, RequestError, SwitchedOff
from extender.server.http.body import began, read_body
from extender.server.http.deadline import Deadline
from extender.server.http.errors import error_body, on_error
from extender.server.observability.tracing import Tracing
from extender.server.scheduler import openapi, verbs

CLOSE = {"Connection": "close"}
"""After a refusal the rest of the body may still be on its way: do not read it as the next request. After a failure the
next connection may lead to another of several that stand behind one Service."""

_LONGEST_HEADER = 500

NO_BIND = "binding is switched off: set bind.enabled: true, or leave bindVerb out of the scheduler's configuration"


Endpoint = Callable[[Request], Awaitable[Response]]


class Application(FastAPI):
    """FastAPI, but for the verbs' calls: these go straight to their endpoints, past what FastAPI does for those that
    have it read and check their arguments, which takes a fifth of a small call's time.
    """

    endpoints: Mapping[str, Endpoint] = {}
    """By path, for POST; all else is FastAPI's to answer."""

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
            raise  # for the log
        await response(scope, receive, send)


def add_routes(app: Application) -> None:
    """All routes; `app.state` holds the ServerContext."""
    answering = {name: _decided(verb) for name, verb in verbs.VERBS.items()} | {"bind": _bind}
    endpoints = {f"/{name}": _endpoint(name, answer) for name, answer in answering.items()}
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


Answering = Callable[[Request, verbs.ServerContext, Deadline], Awaitable[verbs.Answer]]


def _endpoint(name: str, answering: Answering) -> Endpoint:
    """What answers the verb's calls: limited, timed and counted, and whatever goes wrong is an answer too."""

    async def endpoint(request: Request) -> Response:
        service: verbs.ServerContext = request.app.state.service
        start = began(request)
        with service.metrics.under_way() as calls:
            answer, headers = await _answered(
                name, answering, request, service.deadline(start, _overload(service, calls))
            )
        seconds = service.clock() - start
        service.metrics.answered(name, answer.status, seconds)
        if service.tracing is not None:
            _trace(service.tracing, name, request, answer, seconds)
        return Response(answer.body, answer.status, headers, media_type="application/json")

    return endpoint


def _overload(service: verbs.ServerContext, calls: int) -> Overloaded | None:
    if calls <= service.max_in_flight:
        return None
    return Overloaded(f"more than {service.max_in_flight} calls are under way (server.maxInFlight)")


async def _answered(
    name: str, answering: Answering, request: Request, deadline: Deadline
) -> tuple[verbs.Answer, Mapping[str, str]]:
    """The answer and its headers, whatever comes."""
    service: verbs.ServerContext = request.app.state.service
    try:
        answer = await answering(request, service, deadline)
        return answer, _headers(answer) | (CLOSE if answer.status == 503 else {})
    except RequestError as error:
        return _refusal(error.status, str(error)), CLOSE if error.status != 400 else {}
    except ClientDisconnect:
        return _refusal(400, "the connection was closed before the body was complete"), {}
    except Exception as error:
        return verbs.on_failure(name, service, error), CLOSE


def _refusal(status: int, message: str) -> verbs.Answer:
    return verbs.Answer(error_body(message), status)


def _decided(verb: verbs.Verb[Any, Any]) -> Answering:
    async def decide(request: Request, service: verbs.ServerContext, deadline: Deadline) -> verbs.Answer:
        if deadline.refused is not None and service.settings.needs_picture:  # else all is left to kube-scheduler
            raise deadline.refused
        return verbs.answer(verb, service, await read_body(request, service.max_body_full), deadline=deadline)

    return decide


async def _bind(request: Request, service: verbs.ServerContext, deadline: Deadline) -> verbs.Answer:
    if service.binder is None:
        raise SwitchedOff(NO_BIND)
    if deadline.refused is not None:
        raise deadline.refused
    return await verbs.bind(service, service.binder, await read_body(request, service.max_body_names), deadline)


def _headers(answer: verbs.Answer) -> dict[str, str]:
    """What is told beside the answer."""
    headers = {} if answer.id is None else {openapi.DECISION: answer.id}
    if answer.picture is not None:
        headers[openapi.PICTURE] = answer.picture
    if answer.not_evaluated:
        headers[openapi.NOT_EVALUATED] = ", ".join(answer.not_evaluated)
    if answer.vetoed:
        headers[openapi.VETOED] = _in_header(answer.vetoed)
    return headers


def _in_header(text: str) -> str:
    """At most 500 printable ASCII characters of a text."""
    printable = "".join(char if " " <= char <= "~" else "?" for char in text)
    return printable if len(printable) <= _LONGEST_HEADER else printable[: _LONGEST_HEADER - 3] + "..."


def _trace(tracing: Tracing, name: str, request: Request, answer: verbs.Answer, seconds: float) -> None:
    attributes: dict[str, str | int] = {
        "http.request.method": "POST",
        "http.route": f"/{name}",
        "http.response.status_code": answer.status,
        "extender.verb": name,
    }
    if answer.id is not None:
        attributes["extender.decision"] = answer.id
    if answer.about is not None:
        about = answer.about
        attributes |= {
            "extender.mode": about.mode,
            "extender.nodes.offered": about.offered,
            "extender.nodes.kept": about.kept,
            "k8s.namespace.name": about.namespace,
            "k8s.pod.name": about.pod,
        }
    failed = answer.status >= 500 or (answer.about is not None and answer.about.mode == "failed")
    parent = request.headers.get("traceparent")
    tracing.note(f"POST /{name}", seconds, attributes, parent=parent, is_error=failed)
