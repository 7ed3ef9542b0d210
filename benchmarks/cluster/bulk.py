"""Send thousands of requests to the API server in parallel, and follow when pods are bound.

Rule: any error status ends the benchmark, except 404 for a deletion.
"""

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

JSON = dict[str, Any]

WORKERS = 12
TIMEOUT_SECONDS = 120.0
IDLE_SECONDS = 20.0
MERGE_PATCH = "application/merge-patch+json"


class Request(NamedTuple):
    method: str
    path: str
    body: JSON | None = None


class BulkClient:
    """An API client with a kept-alive connection per thread."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        self._address = urlsplit(url).netloc
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._token = token
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(WORKERS)

    def send_all(self, requests: Iterable[Request]) -> None:
        """Send the requests in parallel, in no particular order."""
        for _ in self._pool.map(self.send, requests):
            pass

    def send(self, request: Request) -> bytes:
        """Send one request over this thread's connection and return the answer's body."""
        connection = self._connection()
        self.begin(connection, request)
        response = connection.getresponse()
        answer: bytes = response.read()
        if response.status >= 300 and (request.method, response.status) != ("DELETE", 404):
            raise RuntimeError(f"{request.method} {request.path}: {response.status} {answer[:300]!r}")
        return answer

    def _connection(self) -> http.client.HTTPSConnection:
        """Return this thread's connection; a new one if the API server may have closed it because it was idle."""
        now = time.monotonic()
        if now - getattr(self._own, "used", 0.0) > IDLE_SECONDS:
            self._own.connection = self.connect()
        self._own.used = now
        connection: http.client.HTTPSConnection = self._own.connection
        return connection

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._address, timeout=TIMEOUT_SECONDS, context=self._tls)

    def begin(self, connection: http.client.HTTPSConnection, request: Request) -> None:
        content = MERGE_PATCH if request.method == "PATCH" else "application/json"
        body = None if request.body is None else json.dumps(request.body)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content}
        connection.request(request.method, request.path, body, headers)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Event(msgspec.Struct):
    object: _Pod


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[_Pod]


_EVENTS = msgspec.json.Decoder(_Event)
_LISTS = msgspec.json.Decoder(_List)


def pods_in(client: BulkClient, namespace: str) -> tuple[set[str], str]:
    """Return the names of all pods in a namespace, and the list's resourceVersion."""
    listed = _LISTS.decode(client.send(Request("GET", pods_path(namespace))))
    return {pod.metadata.name for pod in listed.items}, listed.metadata.resource_version


def pods_path(namespace: str, name: str = "", subresource: str = "") -> str:
    return "/".join(part for part in (f"/api/v1/namespaces/{namespace}/pods", name, subresource) if part)


@dataclass(slots=True)
class Bindings:
    """When each pod of a namespace was seen bound for the first time (`time.monotonic`)."""

    times: dict[str, float] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, name: str) -> None:
        with self._changed:
            if name not in self.times:
                self.times[name] = time.monotonic()
                self._changed.notify_all()

    def wait_for(self, name: str, within: float) -> float:
        """Return when the pod was bound, waiting for it."""
        self._wait(lambda: name in self.times, within, f"{name} to be bound")
        return self.times[name]

    def wait_for_count(self, count: int, within: float) -> list[float]:
        """Wait until `count` pods are bound; return all times in order."""
        self._wait(lambda: len(self.times) >= count, within, f"{count} pods to be bound")
        return sorted(self.times.values())

    def _wait(self, condition: Any, within: float, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, within):
                raise TimeoutError(f"waited {within:g} s for {what}; {len(self.times)} are")


@contextlib.contextmanager
def following(client: BulkClient, namespace: str) -> Iterator[Bindings]:
    """Watch the pods of a namespace from now on."""
    _, version = pods_in(client, namespace)
    connection = client.connect()
    client.begin(connection, Request("GET", f"{pods_path(namespace)}?watch=1&resourceVersion={version}"))
    response = connection.getresponse()
    assert connection.sock is not None
    bindings = Bindings()

    def follow() -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):  # closed at the end
            for line in response:
                pod = _EVENTS.decode(line).object
                if pod.spec.node_name:
                    bindings.add(pod.metadata.name)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield bindings
    finally:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(2)
        thread.join(5)
        connection.close()
