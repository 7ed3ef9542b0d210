"""Misbehaving clients: invalid requests, slow bodies, silent connections, and clients without a certificate.

Rule: each gets the expected error status or its connection is closed; none of it may affect a scheduler's call.
"""

import contextlib
import gzip
import itertools
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.generate import Plan
from benchmarks.soak import tenants
from benchmarks.soak.caller import Context, Tally

CLOSED = 0
"""Pseudo status: the connection was closed without a response."""

MAX_RESPONSE_SECONDS = 20.0
INTERVAL_SECONDS = 0.5
"""Pause between two invalid requests."""
TENANT_INTERVAL_SECONDS = 5.0
"""Time between two calls for waiting pods: two pods, each retried after kube-scheduler's longest backoff, 10 s."""
MAX_ERROR_BYTES = 1024
"""Maximum size of an error body."""


def post(path: str, body: bytes, content_type: str = "application/json", *more: str) -> bytes:
    headers = (f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *more)
    return _head("POST", path, *headers) + body


def _head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]).encode()


DEEP = b"[" * 100_000 + b"]" * 100_000
_POD = b'{"Pod":{"metadata":{"name":"a","namespace":"b"},"spec":{"containers":[]}},"NodeNames":["worker-00000"]}'


@dataclass(frozen=True, slots=True)
class BadRequest:
    """An invalid request, and its acceptable statuses."""

    name: str
    sent: bytes
    statuses: Sequence[int]


INVALID_REQUESTS: tuple[BadRequest, ...] = (
    BadRequest("no body", post("/filter", b""), (400,)),
    BadRequest("truncated JSON", post("/filter", _POD[:40]), (400,)),
    BadRequest("another shape", post("/preempt", b"[1,2,3]"), (400,)),
    BadRequest("no Pod", post("/filter", b'{"Pod":null,"NodeNames":[]}'), (400,)),
    BadRequest("NaN", post("/prioritize", b'{"Pod":NaN,"NodeNames":[]}'), (400,)),
    BadRequest("100,000 levels", post("/filter", DEEP), (400,)),
    BadRequest("bad UTF-8", post("/filter", b'{"Pod":{"metadata":{"name":"\xff"}},"NodeNames":[]}'), (400,)),
    BadRequest("gzip", post("/filter", gzip.compress(_POD), "application/json", "Content-Encoding: gzip"), (415,)),
    BadRequest("a form", post("/filter", b"a=b", "application/x-www-form-urlencoded"), (415,)),
    BadRequest("an unknown path", post("/filters", _POD), (404,)),
    BadRequest("a path with a slash", post("/filter/", _POD), (404,)),
    BadRequest("GET", _head("GET", "/filter"), (405,)),
    BadRequest("300 MB announced", _head("POST", "/filter", "Content-Length: 300000000"), (413,)),
    BadRequest("64 KiB of headers", _head("GET", "/filter", "X-Long: " + 65536 * "a"), (400, 431, CLOSED)),
    BadRequest("no HTTP", b"\x00\x01\x02\x03 hello\r\n\r\n", (400, CLOSED)),
)
"""Invalid requests, each sent on its own connection."""


def quick(port: int, context: Context, tally: Tally, stopped: threading.Event) -> None:
    """Send invalid requests one after another, and every fifth time also abort a request halfway."""
    number = 0
    while not stopped.wait(INTERVAL_SECONDS):
        request = INVALID_REQUESTS[number % len(INVALID_REQUESTS)]
        number += 1
        if number % 5 == 0:
            guarded(lambda: _abort(port, context), tally, "aborted request")
        guarded(lambda one=request: _judge(one, send(port, context, one.sent), tally), tally, request.name)  # type: ignore[misc]


def slow_body(port: int, context: Context, tally: Tally, stopped: threading.Event) -> None:
    """Send a body at a byte per half second: a response or a close must come before the body is complete."""
    while not stopped.wait(1):
        guarded(lambda: _trickle(port, context, tally, stopped), tally, "slow body")


def silent(port: int, context: Context, tally: Tally, stopped: threading.Event) -> None:
    """Open connections that send nothing, one after another; half of them skip the TLS handshake."""
    while not stopped.wait(1):
        with contextlib.suppress(OSError), _plain(port):
            stopped.wait(5)
        with contextlib.suppress(OSError), _connection(port, context):
            stopped.wait(5)
        tally.count("silent")


def strangers(port: int, context: Context, tally: Tally, stopped: threading.Event) -> None:
    """Connect without a client certificate where one is required; the service must not respond."""
    while not stopped.wait(2):
        if context() is not None:
            guarded(lambda: _without_certificate(port, tally), tally, "no certificate")


Client = Callable[[int, Context, Tally, threading.Event], None]

ALL: tuple[Client, ...] = (quick, slow_body, silent, strangers)


class WaitingPods:
    """Waiting pods of a hostile tenant: a /filter call for one every few seconds, as kube-scheduler retries them."""

    def __init__(self, plan: Plan) -> None:
        self._bodies = tenants.filter_bodies(plan)

    def __call__(self, port: int, context: Context, tally: Tally, stopped: threading.Event) -> None:
        for body in itertools.cycle(self._bodies):
            if stopped.wait(TENANT_INTERVAL_SECONDS):
                return
            guarded(lambda body=body: self._call(port, context, body, tally), tally, "hostile pod")  # type: ignore[misc]

    @staticmethod
    def _call(port: int, context: Context, body: bytes, tally: Tally) -> None:
        start = time.monotonic()
        status, _ = send(port, context, post("/filter", body))
        tally.took("hostile pod", time.monotonic() - start)
        tally.count(f"hostile pod {status}")


def guarded(ask: Callable[[], object], tally: Tally, name: str) -> None:
    """Only count connection failures here, since the schedulers detect an unreachable service as well."""
    try:
        ask()
    except OSError as error:
        tally.count("bad client not tried", f"{name}: {error}")


def _judge(request: BadRequest, answer: tuple[int, bytes], tally: Tally) -> None:
    status, body = answer
    if status not in request.statuses or (status != CLOSED and not _is_error(body)):
        tally.count("bad client answered wrongly", f"{request.name}: {status} {body[:100]!r}")
    else:
        tally.count("bad client")


def _is_error(body: bytes) -> bool:
    try:
        return len(body) <= MAX_ERROR_BYTES and isinstance(json.loads(body)["Error"], str)
    except (ValueError, KeyError, TypeError):
        return False


def send(port: int, context: Context, sent: bytes) -> tuple[int, bytes]:
    with _connection(port, context) as sock:
        with contextlib.suppress(OSError):  # the service may reject and close before everything was sent
            sock.sendall(sent)
        return _answer(sock)


def _answer(sock: socket.socket) -> tuple[int, bytes]:
    """Read one response; return (status or CLOSED, body)."""
    data = b""
    try:
        while not _is_whole(data):
            more = sock.recv(65536)
            if not more:
                break
            data += more
    except ConnectionResetError:
        pass
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head.split(b" ", 2)[1]), body) if head.startswith(b"HTTP/1.1 ") else (CLOSED, data)


def _is_whole(data: bytes) -> bool:
    head, found, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(found) and bool(lengths) and len(body) >= int(lengths[0].partition(b":")[2])


def _abort(port: int, context: Context) -> None:
    with _connection(port, context) as sock:
        sock.sendall(post("/filter", _POD)[:-20])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _trickle(port: int, context: Context, tally: Tally, stopped: threading.Event) -> None:
    start = time.monotonic()
    with _connection(port, context) as sock:
        sock.sendall(post("/filter", _POD)[: -len(_POD)])
        sock.settimeout(0.5)
        for byte in _POD:
            try:
                sock.sendall(bytes((byte,)))
                sock.recv(1)
                break
            except TimeoutError:
                if stopped.is_set():
                    return
            except OSError:
                break
    seconds = time.monotonic() - start
    if seconds < MAX_RESPONSE_SECONDS:
        tally.count("bad client")
    else:
        tally.count("bad client answered wrongly", f"slow body: {seconds:.0f} s")


def _without_certificate(port: int, tally: Tally) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    status = CLOSED
    with contextlib.suppress(ssl.SSLError, ConnectionResetError), context.wrap_socket(_plain(port)) as sock:
        sock.sendall(post("/filter", _POD))
        status, _ = _answer(sock)
    if status == CLOSED:
        tally.count("bad client")
    else:
        tally.count("bad client answered wrongly", f"no certificate: {status}")


def _plain(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=MAX_RESPONSE_SECONDS)


def _connection(port: int, context: Context) -> socket.socket:
    credentials = context()
    sock = _plain(port)
    return sock if credentials is None else credentials.wrap_socket(sock, server_hostname="127.0.0.1")
