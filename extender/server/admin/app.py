"""The admin listener: health checks and metrics and, with `debug.enabled`, decisions, simulations and the web page.

Probes and Prometheus connect from other machines with arbitrary Host headers, so health checks and metrics are open to
every client.

Rule: a request for any other path may come from a browser that another site has directed here (DNS rebinding, CSRF).
So these paths refuse remote clients unless `debug.allowRemote` is set, Host headers other than an address, localhost or
`admin.host`, other origins, and bodies that are neither JSON nor YAML; response headers forbid injected scripts.
"""

import ipaddress

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.config import Configuration
from extender.server.admin.decision_thread import DecisionThread
from extender.server.admin.health import HealthEndpoints
from extender.server.admin.in_flight_limit import InFlightLimit
from extender.server.admin.routes import DebugEndpoints
from extender.server.context import ServerContext
from extender.server.http.body import YAML_TYPE, media_type_of
from extender.server.http.errors import add_error_handlers, error_response
from extender.version import __version__

PUBLIC_PATHS = frozenset({"/livez", "/readyz", "/metrics"})

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

MAX_DEBUG_REQUESTS = 32
"""Maximum number of concurrent requests to debug endpoints; the page sends up to 6."""

_NOT_FOUND = (
    "no such path; available: GET /livez, /readyz, /metrics, /ui, /pending, /nodes, /why/{namespace}/{name}, "
    "/decisions, /decisions/{id}, /cluster, /status, /simulate and /recording, POST /simulate and /recording"
)
_NOT_FOUND_WITHOUT_DEBUG = (
    "no such path; available: GET /livez, /readyz and /metrics, and with debug.enabled: true (it is disabled) also "
    "/ui, /pending, /nodes, /why, /decisions, /cluster, /status, /simulate and /recording"
)
_REMOTE_REFUSED = (
    "remote clients may only read /livez, /readyz and /metrics: use kubectl port-forward and connect to localhost, or "
    "set debug.allowRemote: true"
)


def create_admin_app(
    server_context: ServerContext, config: Configuration, decision_thread: DecisionThread | None = None
) -> ASGIApp:
    """Build the application of the admin listener; without `decision_thread`, one event loop serves both listeners."""
    decision_thread = decision_thread or DecisionThread()
    app = FastAPI(version=__version__, openapi_url=None, redirect_slashes=False)
    health = HealthEndpoints(server_context, decision_thread)
    for path, endpoint in ("/livez", health.livez), ("/readyz", health.readyz), ("/metrics", health.metrics):
        app.add_api_route(path, endpoint, response_class=PlainTextResponse)
    if config.debug.enabled:
        app.include_router(DebugEndpoints(server_context, decision_thread).router())
    add_error_handlers(app, _NOT_FOUND if config.debug.enabled else _NOT_FOUND_WITHOUT_DEBUG)
    return _BrowserGuard(app, config)


class _BrowserGuard:
    """ASGI middleware that refuses forbidden clients and adds the security headers to every response."""

    # Plain ASGI: Starlette's BaseHTTPMiddleware passes each response through a queue and a task of its own.
    def __init__(self, app: ASGIApp, config: Configuration) -> None:
        self._app = app
        self._host = config.admin.host.lower()
        self._has_debug = config.debug.enabled
        self._allows_remote = config.debug.allow_remote
        self._debug_requests = InFlightLimit(MAX_DEBUG_REQUESTS, "requests of debug endpoints")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_ENCODED_HEADERS]
            await send(message)

        if not self._has_debug or scope["path"] in PUBLIC_PATHS:
            await self._app(scope, receive, send_with_headers)
            return
        app = self._refusal(Request(scope)) or self._app
        try:
            with self._debug_requests.track():
                await app(scope, receive, send_with_headers)
        except HTTPException as error:  # from `track`: the application itself answers its own errors
            await error_response(error.status_code, error.detail, error.headers)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        if not self._allows_remote and not is_loopback(request.scope.get("client")):
            return error_response(403, _REMOTE_REFUSED)
        # A page of another site whose name now resolves to this address (DNS rebinding) still sends its own name.
        host = request.headers.get("host", "")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].lower()
        if not self._is_allowed_host(name):
            return error_response(403, "the Host header must be an IP address, localhost or admin.host")
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return error_response(403, "cross-origin requests are not allowed")
        # A form can send no JSON, and a script of another site only after a preflight, which has no route here (CSRF).
        # The same holds for application/yaml, which POST /simulate takes.
        allowed = ("application/json", YAML_TYPE) if request.url.path == "/simulate" else ("application/json",)
        if request.method == "POST" and media_type_of(request.headers) not in allowed:
            return error_response(415, "the body must be JSON: with curl, add -H 'Content-Type: application/json'")
        return None

    def _is_allowed_host(self, name: str) -> bool:
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in ("localhost", self._host)
        return True


_ENCODED_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


def is_loopback(client: tuple[str, int] | None) -> bool:
    """Return whether the client is at 127.0.0.1 or ::1."""
    # A Unix socket has no address, and a proxy may be behind it. The other addresses of 127.0.0.0/8 are not trusted
    # either: the sidecar of a service mesh forwards remote requests from one of them (Envoy: 127.0.0.6).
    try:
        address = ipaddress.ip_address(client[0] if client is not None else "")
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address in _LOOPBACK


_LOOPBACK = (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))
