"""The paths that are served, and HTTP around the verbs.

Rule: every request gets exactly one answer, JSON or the plain text of health and metrics, and never a redirect.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.requests import ClientDisconnect

from extender.errors import ExtenderError, RequestError
from extender.server import metrics, openapi, verbs
from extender.server.body import read_body
from extender.server.errors import error_response
from extender.server.picture import check_lines

CLOSE = {"Connection": "close"}
"""After a refusal the rest of the body may still be on its way: do not read it as the next request."""

_LONGEST_HEADER = 500

NO_BIND = "binding is switched off: set bind.enabled: true, or leave bindVerb out of the scheduler's configuration"


def create_router() -> APIRouter:
    """All routes; `app.state` holds the Service and the source of the picture."""
    router = APIRouter(redirect_slashes=False)
    for name, verb in verbs.VERBS.items():
        router.add_api_route(
            f"/{name}",
            _endpoint(name, verb),
            methods=["POST"],
            response_class=Response,
            operation_id=name,
            **openapi.OPERATIONS[name],
        )
    router.add_api_route(
        "/bind", bind, methods=["POST"], response_class=Response, operation_id="bind", **openapi.OPERATIONS["bind"]
    )
    router.add_api_route("/livez", livez, methods=["GET"], operation_id="livez", **openapi.OPERATIONS["livez"])
    router.add_api_route("/readyz", readyz, methods=["GET"], operation_id="readyz", **openapi.OPERATIONS["readyz"])
    router.add_api_route(
        "/metrics",
        show_metrics,
        methods=["GET"],
        response_class=PlainTextResponse,
        operation_id="metrics",
        **openapi.OPERATIONS["metrics"],
    )
    return router


def _endpoint(name: str, verb: verbs.Verb[Any, Any]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        service: verbs.Service = request.app.state.service
        try:
            body = await read_body(request, service.max_body_full)
            answer = verbs.answer(verb, service, body)
            headers = {} if answer.picture is None else {openapi.PICTURE: answer.picture}
            if answer.not_evaluated:
                headers[openapi.NOT_EVALUATED] = ", ".join(answer.not_evaluated)
            if answer.vetoed:
                headers[openapi.VETOED] = _in_header(answer.vetoed)
            return _json(answer, headers)
        except RequestError as error:
            return error_response(error.status, str(error), CLOSE if error.status != 400 else None)
        except ClientDisconnect:
            return error_response(400, "the connection was closed before the body was complete")
        except Exception as error:
            return _json(verbs.on_failure(name, service, error))

    return endpoint


def _in_header(text: str) -> str:
    """At most 500 printable ASCII characters of a text."""
    printable = "".join(char if " " <= char <= "~" else "?" for char in text)
    return printable if len(printable) <= _LONGEST_HEADER else printable[: _LONGEST_HEADER - 3] + "..."


def _json(answer: verbs.Answer, headers: Mapping[str, str] | None = None) -> Response:
    return Response(answer.body, answer.status, headers=headers, media_type="application/json")


async def bind(request: Request) -> Response:
    """Bind a pod, where that is switched on."""
    service: verbs.Service = request.app.state.service
    if service.binder is None:
        return error_response(404, NO_BIND, CLOSE)
    try:
        body = await read_body(request, service.max_body_names)
        return _json(verbs.Answer(await verbs.bind(service, service.binder, body)))
    except RequestError as error:
        return error_response(error.status, str(error), CLOSE if error.status != 400 else None)
    except ClientDisconnect:
        return error_response(400, "the connection was closed before the body was complete")
    except Exception as error:
        return _json(verbs.on_failure("bind", service, error))


async def livez() -> Response:
    """Does the event loop turn? Asks nothing else."""
    return PlainTextResponse("ok")


async def readyz(request: Request) -> Response:
    """Is there a picture of the cluster to decide on, where one is needed? `?verbose` lists what is checked."""
    problem, checks = _readiness(request)
    if "verbose" in request.query_params:
        verdict = "readyz check failed" if problem else "readyz check passed"
        return PlainTextResponse("\n".join([*checks, verdict, ""]), 503 if problem else 200)
    return error_response(503, problem) if problem else PlainTextResponse("ok")


async def show_metrics(request: Request) -> Response:
    """Counters since the start, in the Prometheus text format."""
    service: verbs.Service = request.app.state.service
    return Response(service.metrics.text(), media_type=metrics.CONTENT_TYPE)


def _readiness(request: Request) -> tuple[str, list[str]]:
    """(why not ready, or ""; one line per check)."""
    service: verbs.Service = request.app.state.service
    checks = []
    try:
        snapshot = service.snapshot()
        counts = (
            f"{len(snapshot.nodes)} nodes, {len(snapshot.running.row_of)} running pods, {len(snapshot.budgets)} budgets"
        )
        checks.append(f"[+] cluster: version {service.store.version}: {counts}")
        problem = ""
    except (ExtenderError, ValueError) as error:
        needed = service.settings.needs_picture
        problem = str(error) if needed else ""
        checks.append(f"[{'-' if needed else '!'}] cluster: {error}")
    checks += check_lines(service.source)
    checks += [f"[!] {warning}" for warning in (*service.source.warnings(), *service.configured.warnings())]
    rejections = service.metrics.guard_rejections()
    checks.append(f"[!] guard: rejected candidates: {rejections}" if rejections else "[+] guard: nothing rejected")
    return problem, checks
