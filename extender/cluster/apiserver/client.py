"""Send HTTP requests to one API server, with credentials that are refreshed, and return raw bytes.

The official client loads the credentials and creates the connection pool; its models are not used. A token file is
reloaded every 30 s, an exec plugin runs again before its credentials expire, and a changed kubeconfig is reloaded. A
401 reloads all credentials, once for all threads that got a 401, and the request is retried once. After a change of
address, CA or client certificate, open watches end, so that they continue over a new connection. The counterpart of
client-go's exec authenticator and transport (token_source.go, cert_rotation.go), which does not follow a kubeconfig.

Rule: no retry except after a 401, no redirect, and a truncated response is an error.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Self
from urllib.parse import urlencode, urlsplit
from weakref import WeakSet

import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning
from urllib3.response import BaseHTTPResponse

from extender.cluster.apiserver import credentials
from extender.cluster.apiserver.credentials import Credentials, CredentialsError
from extender.cluster.apiserver.stream import (
    ApiError,
    ApiUnreachable,
    Stream,
    api_error_from,
    root_cause,
    socket_options,
    use_reporting_connections,
)
from extender.utilities.file_watch import POLL_INTERVAL_SECONDS, ChangeDetector, signature_of
from extender.version import __version__

log = logging.getLogger(__name__)

JSON_CONTENT_TYPE = "application/json"
MERGE_PATCH_CONTENT_TYPE = "application/merge-patch+json"
USER_AGENT = f"kube-scheduler-extender/{__version__}"
TOKEN_RELOAD_SECONDS = 30.0  # Seconds for which a token from a file is used before the file is read again
MAX_POOLED_CONNECTIONS = 64  # Connections kept open: more than there are watches, binds and verifications at a time

QueryParams = Mapping[str, str]

Timeout = tuple[float, float]  # Seconds to connect, and between two reads of the response


@dataclass(frozen=True, slots=True, eq=False)
class _Session:
    """A connection pool and the credentials used with it."""

    pools: urllib3.PoolManager
    host: str
    credentials: Credentials
    refresh_at: float | None  # Clock time at which the credentials are refreshed; None if never


class ApiServer:
    """A client of one API server. All methods block and are thread-safe."""

    def __init__(self, load: Callable[[], Credentials], clock: Callable[[], float] = time.monotonic) -> None:
        """Load the credentials, without a request; raises CredentialsError."""
        self._load = load
        self._clock = clock
        self._lock = threading.Lock()
        self._watches: WeakSet[Stream] = WeakSet()
        self._logged_error: str | None = None
        self._is_outdated = False  # True from a change of the kubeconfig until it has been loaded
        self._session = self._new_session()
        self._kubeconfig = ChangeDetector(self._session.credentials.signature, must_settle=False)
        self._poll_at = self._clock() + POLL_INTERVAL_SECONDS

    @classmethod
    def connect(
        cls, kubeconfig: str | None = None, context: str | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> Self:
        """Connect with the credentials that `credentials.load` finds."""
        return cls(partial(credentials.load, kubeconfig, context), clock)

    @property
    def host(self) -> str:
        return self._session.host

    @property
    def place(self) -> str:
        """Source of the credentials, for log lines."""
        return self._session.credentials.place

    @property
    def namespace(self) -> str:
        """Namespace of the kubeconfig's context, or of the pod."""
        return self._session.credentials.namespace

    @property
    def context(self) -> str:
        """The kubeconfig's context; empty in a pod."""
        return self._session.credentials.context

    def get(
        self,
        path: str,
        params: QueryParams | None = None,
        *,
        accept: str = JSON_CONTENT_TYPE,
        timeout: Timeout = (10, 60),
    ) -> bytes:
        """Return the body of a 2xx response; raises ApiError or ApiUnreachable."""
        with self.stream(path, params, accept=accept, timeout=timeout) as stream:
            return stream.read()

    def post(self, path: str, body: bytes, timeout: Timeout = (10, 30)) -> bytes:
        """Send a JSON body; return the body of a 2xx response. ApiUnreachable: the request may have taken effect."""
        return self._write("POST", path, JSON_CONTENT_TYPE, body, timeout)[0]

    def create(
        self, path: str, params: QueryParams, body: bytes, timeout: Timeout = (10, 30)
    ) -> tuple[bytes, tuple[str, ...]]:
        """Send a JSON body like `post`; return also the texts of the response's Warning headers."""
        return self._write("POST", f"{path}?{urlencode(params)}", JSON_CONTENT_TYPE, body, timeout)

    def patch(self, path: str, body: bytes, timeout: Timeout = (10, 30)) -> bytes:
        """Send a JSON merge patch; like `post` otherwise."""
        return self._write("PATCH", path, MERGE_PATCH_CONTENT_TYPE, body, timeout)[0]

    def _write(
        self, method: str, path: str, content_type: str, body: bytes, timeout: Timeout
    ) -> tuple[bytes, tuple[str, ...]]:
        headers = {"Accept": JSON_CONTENT_TYPE, "Content-Type": content_type}
        send = partial(_send, method, path, headers, timeout, body)
        with Stream(lambda: self._authenticated(send)) as stream:
            return stream.read(), stream.warnings

    def stream(
        self,
        path: str,
        params: QueryParams | None = None,
        *,
        accept: str = JSON_CONTENT_TYPE,
        timeout: Timeout = (10, 90),
    ) -> Stream:
        """Return a GET request that is sent when its `with` block begins."""
        target = f"{path}?{urlencode(params)}" if params else path
        send = partial(_send, "GET", target, {"Accept": accept}, timeout, None)
        is_watch = params is not None and "watch" in params
        opened = Stream(lambda: self._authenticated(send, opened if is_watch else None))
        return opened

    def close(self) -> None:
        """Close idle connections; open streams are closed by their own `close`."""
        self._session.pools.clear()

    def _authenticated(
        self, send: Callable[[_Session], BaseHTTPResponse], watch: Stream | None = None
    ) -> BaseHTTPResponse:
        """Send a request with the current credentials, and once more with new ones after a 401."""
        session = self._current_session()
        try:
            response = send(session)
        except ApiError as error:
            if error.code != 401:
                raise
            session = self._reload_session(session, error)
            response = send(session)
        if watch is not None:
            self._add_watch(watch, session)
        return response

    def _add_watch(self, watch: Stream, session: _Session) -> None:
        """Record an open watch, to be closed once new connections differ in address, TLS settings or proxy."""
        with self._lock:
            if session.credentials.connection == self._session.credentials.connection:
                self._watches.add(watch)
            else:
                watch.close()

    # --- refreshing credentials ---

    def _current_session(self) -> _Session:
        """Return the session, refreshed if due; if the refresh fails, the old credentials stay in use."""
        with self._lock:
            # 1. A refresh is due by time, or after a change of the kubeconfig, which is polled only while there are
            #    requests.
            session, now = self._session, self._clock()
            is_due = session.refresh_at is not None and now >= session.refresh_at
            if now >= self._poll_at:
                self._poll_at = now + POLL_INTERVAL_SECONDS
                if self._kubeconfig.should_reload(signature_of(session.credentials.files)):
                    self._is_outdated = is_due = True
            # 2. A token file alone is read again; exec plugins and a changed kubeconfig need a new session.
            if is_due:
                try:
                    self._use(self._new_session() if self._is_outdated else self._refreshed(session))
                # 3. After a failure try again later, and log an error once, not at every attempt.
                except CredentialsError as error:
                    self._session = replace(session, refresh_at=self._clock() + TOKEN_RELOAD_SECONDS / 3)
                    if str(error) != self._logged_error:
                        log.warning("refreshing credentials failed, keeping the old ones: %s", error)
                    self._logged_error = str(error)
            return self._session

    def _reload_session(self, refused: _Session, error: ApiError) -> _Session:
        """Return a session newer than `refused`, which got a 401; the first of the waiting threads creates it."""
        with self._lock:
            if self._session is refused:
                try:
                    self._use(self._new_session())
                except CredentialsError as failed:
                    message = f"{error.message}; new credentials: {failed}"
                    raise ApiError(error.code, error.reason, message, error.retry_after) from failed
            return self._session

    def _use(self, session: _Session) -> None:
        old, self._session = self._session, session
        self._is_outdated, self._logged_error = False, None
        if session.credentials.signature != old.credentials.signature:
            log.info("%s: reloaded", session.credentials.place)
            self._kubeconfig = ChangeDetector(session.credentials.signature, must_settle=False)
        if session.credentials.connection != old.credentials.connection:
            old.pools.clear()
            for stream in self._watches:
                stream.close()
            self._watches = WeakSet()

    def _refreshed(self, session: _Session) -> _Session:
        token_file = session.credentials.token_file
        if token_file is None:
            return self._new_session()
        fresh = replace(session.credentials, authorization=f"Bearer {credentials.read_token(token_file)}")
        return replace(session, credentials=fresh, refresh_at=self._clock() + TOKEN_RELOAD_SECONDS)

    def _new_session(self) -> _Session:
        loaded = self._load()
        refresh_at = None
        if loaded.token_file is not None:
            refresh_at = self._clock() + TOKEN_RELOAD_SECONDS
        elif loaded.lifetime is not None:  # a minute before expiry, or half-way if that is later; at most every 5 s
            refresh_at = self._clock() + max(loaded.lifetime - 60, loaded.lifetime / 2, 5)
        return _Session(_pools(loaded), loaded.configuration.host.rstrip("/"), loaded, refresh_at)


def _pools(loaded: Credentials) -> urllib3.PoolManager:
    """Return the official client's connection pool, with keepalives and connections that can be interrupted."""
    from kubernetes.client import ApiClient  # imported late: it takes half a second that only a live cluster needs

    configuration = loaded.configuration
    configuration.socket_options = socket_options()
    configuration.connection_pool_maxsize = MAX_POOLED_CONNECTIONS
    if not configuration.verify_ssl:
        log.warning("%s: the API server's certificate is not verified (insecure-skip-tls-verify)", loaded.place)
        urllib3.disable_warnings(InsecureRequestWarning)  # warned once above, not with every request
    over_socks = (configuration.proxy or "").startswith("socks")
    if over_socks and find_spec("socks") is None:
        raise CredentialsError(f"{loaded.place}: a SOCKS proxy cannot be used without the package PySocks")
    try:
        pools: urllib3.PoolManager = ApiClient(configuration).rest_client.pool_manager
    except (HTTPError, ValueError) as error:
        raise CredentialsError(f"{loaded.place}: its server or proxy-url cannot be used: {root_cause(error)}") from None
    if not over_socks:  # a SOCKS pool has its own connection classes
        use_reporting_connections(pools)
    return pools


def _send(
    method: str, target: str, headers: dict[str, str], timeout: Timeout, body: bytes | None, session: _Session
) -> BaseHTTPResponse:
    headers = headers | {"User-Agent": USER_AGENT}
    if session.credentials.authorization:
        headers["Authorization"] = session.credentials.authorization
    address = urlsplit(session.host).netloc.rpartition("@")[2]  # without user information, which may be a password
    try:
        response = session.pools.urlopen(
            method,
            session.host + target,
            headers=headers,
            body=body,
            timeout=urllib3.Timeout(connect=timeout[0], read=timeout[1]),
            preload_content=False,
            retries=False,
            redirect=False,
        )
    except (HTTPError, OSError) as error:
        raise ApiUnreachable(f"{address}: {root_cause(error)}") from error
    except ValueError:  # not quoted: http.client's message contains the header, and with it the token
        raise ApiUnreachable(f"{address}: the request cannot be sent") from None
    if 200 <= response.status < 300:
        return response
    raise api_error_from(response)
