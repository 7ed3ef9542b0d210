"""The admin listener: health and metrics for machines and, where `debug` is on, what was decided and why for people.

It shares the service with the scheduler's port and nothing else: no path of the one is on the other. Probes and
Prometheus come from other machines and name us as they like, so health and metrics are answered to everybody.

Rule: all other paths are for people, and a browser may have been sent here by another site. So they are refused to
other machines unless `debug.allowRemote`, the Host header must be an address, localhost or our own host name,
questions must be JSON from our own page, and nothing is answered that a page may run.
"""

import asyncio
import ipaddress
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.config import Configuration
from extender.server.admin import health, routes
from extender.server.admin import openapi as openapi_admin
from extender.server.context import ServerContext
from extender.server.http.errors import add_error_handlers, error_response
from extender.version import __version__

FOR_EVERYBODY = frozenset({"/livez", "/readyz", "/metrics"})

SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_NOT_FOUND = (
    "no such path; there are GET /livez, /readyz, /metrics, /ui, /decisions, /decisions/{id}, /status and /recording, "
    "POST /simulate and /recording"
)
_SWITCHED_OFF = (
    "no such path; there are GET /livez, /readyz and /metrics, and with debug.enabled: true (it is switched off) also "
    "/ui, /decisions, /status, /simulate and /recording"
)
_REMOTE = (
    "only /livez, /readyz and /metrics are for other machines: use kubectl port-forward and ask at localhost, or set "
    "debug.allowRemote: true"
)


def create_admin_app(service: ServerContext, config: Configuration) -> ASGIApp:
    """The application of the admin listener; its Host header may name `admin.host`, beside addresses."""
    app = _unguarded(with_debug=config.debug.enabled)
    app.state.service = service
    app.state.simulating = asyncio.Lock()
    return _Guarded(app, config)


def openapi_document() -> dict[str, Any]:
    """The OpenAPI document of the admin listener, as it stands in openapi/admin.json."""
    return openapi_admin.document(_unguarded(with_debug=True))


def _unguarded(*, with_debug: bool) -> FastAPI:
    app = FastAPI(version=__version__, openapi_url=None, redirect_slashes=False)
    app.include_router(_health())
    if with_debug:
        app.include_router(routes.create_router())
    add_error_handlers(app, _NOT_FOUND if with_debug else _SWITCHED_OFF)
    return app


def _health() -> APIRouter:
    router = APIRouter(redirect_slashes=False)
    for path, endpoint in ("/livez", health.livez), ("/readyz", health.readyz), ("/metrics", health.show_metrics):
        operation = openapi_admin.OPERATIONS[endpoint.__name__]
        router.add_api_route(
            path, endpoint, methods=["GET"], response_class=PlainTextResponse, operation_id=path[1:], **operation
        )
    return router


class _Guarded:
    """Refuses who may not ask, and sets the headers that keep a browser careful."""

    def __init__(self, app: ASGIApp, config: Configuration) -> None:
        self._app = app
        self._host = config.admin.host.lower()
        self._has_debug = config.debug.enabled
        self._allows_remote = config.debug.allow_remote

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_carefully(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_ENCODED]
            await send(message)

        is_guarded = self._has_debug and scope["path"] not in FOR_EVERYBODY
        refusal = self._refusal(Request(scope)) if is_guarded else None
        await (refusal or self._app)(scope, receive, send_carefully)

    def _refusal(self, request: Request) -> Response | None:
        if not self._allows_remote and not is_this_machine(request.scope.get("client")):
            return error_response(403, _REMOTE)
        host = request.headers.get("host", "")
        if not self._is_ours(_name(host)):
            return error_response(403, "ask by address, or as localhost: the Host header is neither")
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return error_response(403, "the question comes from another site")
        is_json = request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
        if request.method == "POST" and not is_json:
            return error_response(415, "the body must be JSON: with curl, add -H 'Content-Type: application/json'")
        return None

    def _is_ours(self, name: str) -> bool:
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in ("localhost", self._host)
        return True


_ENCODED = [(name.lower().encode(), value.encode()) for name, value in SECURITY.items()]


def _name(host: str) -> str:
    """`name:port` or `[address]:port` -> name or address."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def is_this_machine(client: tuple[str, int] | None) -> bool:
    """Is it the loopback address? Who has no address (a Unix socket) may be sent by anybody, so it is not.

    Nor are other addresses of 127.0.0.0/8: the sidecar of a service mesh hands on from one what other machines ask.
    """
    try:
        address = ipaddress.ip_address(client[0] if client is not None else "")
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address in _LOOPBACK


_LOOPBACK = (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))
