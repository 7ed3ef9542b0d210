"""Speak HTTP with one API server: requests with credentials that stay good, answers as raw bytes, errors as ours.

The official client loads the credentials and makes the connection pool; no model of it is used. A token in a file is
read again every 30 s, an exec plugin runs again before its answer expires, and a 401 loads everything anew, once for
all threads that got one, before the request is tried a second time.

Rule: nothing is hidden. No retry but the one after a 401, no redirect, and an answer that was cut short is an error.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Self
from urllib.parse import urlencode, urlsplit

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

log = logging.getLogger(__name__)

JSON_CONTENT_TYPE = "application/json"

TOKEN_RELOAD_SECONDS = 30.0
"""How long a token from a file is used before the file is read again."""

MAX_POOLED_CONNECTIONS = 64
"""Connections kept for later: more than there are streams, binds and compares at a time."""

Timeout = tuple[float, float]
"""(connect, read): seconds until there is a connection, and between two pieces of the answer."""


@dataclass(frozen=True, slots=True, eq=False)
class _Session:
    """Credentials in use."""

    pools: urllib3.PoolManager
    host: str
    credentials: Credentials
    due: float | None
    """When, on our clock, the token is looked at again."""


class ApiServer:
    """One API server. All methods block, and may be called from many threads at once."""

    def __init__(self, load: Callable[[], Credentials], clock: Callable[[], float] = time.monotonic) -> None:
        """Raise CredentialsError if nothing can be loaded; no request is made."""
        self._load = load
        self._clock = clock
        self._lock = threading.Lock()
        self._session = self._new_session()

    @classmethod
    def connect(
        cls,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> Self:
        """Load credentials as `credentials.load` finds them: kubeconfig, else this pod, else the default kubeconfig."""
        return cls(partial(credentials.load, kubeconfig, context), clock)

    @property
    def host(self) -> str:
        """The server's URL."""
        return self._session.host

    @property
    def place(self) -> str:
        """Where the credentials come from, for people."""
        return self._session.credentials.place

    def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        accept: str = JSON_CONTENT_TYPE,
        timeout: Timeout = (10, 60),
    ) -> bytes:
        """Return the body of a 2xx answer; ApiError, ApiUnreachable."""
        with self._stream("GET", path, params, {"Accept": accept}, None, timeout) as stream:
            return stream.read()

    def post(self, path: str, body: bytes, timeout: Timeout = (10, 30)) -> bytes:
        """Return the body of a 2xx answer to a JSON body. After ApiUnreachable nobody knows whether it took effect."""
        headers = {"Accept": JSON_CONTENT_TYPE, "Content-Type": JSON_CONTENT_TYPE}
        with self._stream("POST", path, None, headers, body, timeout) as stream:
            return stream.read()

    def stream(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        accept: str = JSON_CONTENT_TYPE,
        connect_timeout: float = 10,
        read_timeout: float = 90,
    ) -> Stream:
        """Return a GET that is sent when its `with` block begins."""
        return self._stream("GET", path, params, {"Accept": accept}, None, (connect_timeout, read_timeout))

    def close(self) -> None:
        """Let go of idle connections; streams that are open end by their own `close`."""
        self._session.pools.clear()

    def _stream(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        headers: dict[str, str],
        body: bytes | None,
        timeout: Timeout,
    ) -> Stream:
        target = f"{path}?{urlencode(params)}" if params else path
        return Stream(lambda: self._request(method, target, headers, body, timeout))

    def _request(
        self, method: str, target: str, headers: dict[str, str], body: bytes | None, timeout: Timeout
    ) -> BaseHTTPResponse:
        session = self._current_session()
        try:
            return _send(session, method, target, headers, body, timeout)
        except ApiError as error:
            if error.code != 401:
                raise
            session = self._session_after(session, error)
        return _send(session, method, target, headers, body, timeout)

    # --- credentials that stay good ---

    def _current_session(self) -> _Session:
        """Return the session, its token looked at again if that is due; if it cannot be had, the old one goes on."""
        with self._lock:
            session, now = self._session, self._clock()
            if session.due is None or now < session.due:
                return session
            try:
                self._session = self._with_token_of_now(session)
            except CredentialsError as error:
                log.warning("credentials not renewed, the old ones stay: %s", error)
                self._session = replace(session, due=now + TOKEN_RELOAD_SECONDS / 3)
            return self._session

    def _session_after(self, refused: _Session, error: ApiError) -> _Session:
        """Return a session newer than the one that got a 401, loaded by whichever thread comes first."""
        with self._lock:
            if self._session is refused:
                try:
                    self._session = self._new_session()
                except CredentialsError as failed:
                    message = f"{error.message}; new credentials: {failed}"
                    raise ApiError(error.code, error.reason, message, error.retry_after) from failed
            return self._session

    def _with_token_of_now(self, session: _Session) -> _Session:
        token_file = session.credentials.token_file
        if token_file is None:
            return self._new_session()
        fresh = replace(session.credentials, authorization=f"Bearer {credentials.read_token(token_file)}")
        return replace(session, credentials=fresh, due=self._clock() + TOKEN_RELOAD_SECONDS)

    def _new_session(self) -> _Session:
        loaded = self._load()
        due = None
        if loaded.token_file is not None:
            due = self._clock() + TOKEN_RELOAD_SECONDS
        elif loaded.lifetime is not None:  # a minute early, or at half time; and never more often than every 5 s
            due = self._clock() + max(loaded.lifetime - 60, loaded.lifetime / 2, 5)
        return _Session(_pools(loaded), loaded.configuration.host.rstrip("/"), loaded, due)


def _pools(loaded: Credentials) -> urllib3.PoolManager:
    """Return the official client's connection pool, with our socket options and connections that can be woken."""
    from kubernetes.client import ApiClient  # half a second that only a live cluster needs

    configuration = loaded.configuration
    configuration.socket_options = socket_options()
    configuration.connection_pool_maxsize = MAX_POOLED_CONNECTIONS
    if not configuration.verify_ssl:
        log.warning("%s: the API server's certificate is not checked (insecure-skip-tls-verify)", loaded.place)
        urllib3.disable_warnings(InsecureRequestWarning)  # said once, not with every request
    over_socks = (configuration.proxy or "").startswith("socks")
    if over_socks and find_spec("socks") is None:
        raise CredentialsError(f"{loaded.place}: a SOCKS proxy cannot be used without the package PySocks")
    try:
        pools: urllib3.PoolManager = ApiClient(configuration).rest_client.pool_manager
    except (HTTPError, ValueError) as error:
        raise CredentialsError(f"{loaded.place}: its server or proxy-url cannot be used: {root_cause(error)}") from None
    if not over_socks:  # which has connections of its own
        use_reporting_connections(pools)
    return pools


def _send(
    session: _Session, method: str, target: str, headers: dict[str, str], body: bytes | None, timeout: Timeout
) -> BaseHTTPResponse:
    headers = headers | {"User-Agent": USER_AGENT}
    if session.credentials.authorization:
        headers["Authorization"] = session.credentials.authorization
    limits = urllib3.Timeout(connect=timeout[0], read=timeout[1])
    try:
        response = session.pools.urlopen(
            method,
            session.host + target,
            headers=headers,
            body=body,
            timeout=limits,
            preload_content=False,
            retries=False,
            redirect=False,
        )
    except (HTTPError, OSError) as error:
        raise ApiUnreachable(f"{_address(session.host)}: {root_cause(error)}") from error
    except ValueError:  # http.client quotes the header, and with it the token, that it will not send
        raise ApiUnreachable(f"{_address(session.host)}: the request cannot be sent") from None
    if 200 <= response.status < 300:
        return response
    raise api_error_from(response)


def _address(host: str) -> str:
    """The server's name and port; a URL may hold a password."""
    return urlsplit(host).netloc.rpartition("@")[2]


def _user_agent() -> str:
    try:
        return f"kube-scheduler-extender/{version('kube-scheduler-extender')}"
    except PackageNotFoundError:
        return "kube-scheduler-extender"


USER_AGENT = _user_agent()
