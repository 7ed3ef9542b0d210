"""Clients that nobody wants: requests that are wrong, slow ones, and connections that are none.

Rule: each is answered as RELIABILITY says or its connection is closed; nothing of it may show in a scheduler's call.
"""

import contextlib
import gzip
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.soak.caller import Context, Tally

CLOSED = 0
"""Instead of a status: the connection ended without an answer."""

ANSWER_WITHIN = 20.0
EACH = 0.5
"""Seconds between two that are quick."""
MAX_ERROR = 1024
"""Bytes of an error's body."""


def post(path: str, body: bytes, content_type: str = "application/json", *more: str) -> bytes:
    headers = (f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *more)
    return _head("POST", path, *headers) + body


def _head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]).encode()


DEEP = b"[" * 100_000 + b"]" * 100_000
_POD = b'{"Pod":{"metadata":{"name":"a","namespace":"b"},"spec":{"containers":[]}},"NodeNames":["worker-00000"]}'


@dataclass(frozen=True, slots=True)
class Nuisance:
    """Something to send, and the statuses of which one must come back."""

    name: str
    sent: bytes
    statuses: Sequence[int]


WRONG: tuple[Nuisance, ...] = (
    Nuisance("no body", post("/filter", b""), (400,)),
    Nuisance("truncated JSON", post("/filter", _POD[:40]), (400,)),
    Nuisance("another shape", post("/preempt", b"[1,2,3]"), (400,)),
    Nuisance("no Pod", post("/filter", b'{"Pod":null,"NodeNames":[]}'), (400,)),
    Nuisance("NaN", post("/prioritize", b'{"Pod":NaN,"NodeNames":[]}'), (400,)),
    Nuisance("100,000 levels", post("/filter", DEEP), (400,)),
    Nuisance("bad UTF-8", post("/filter", b'{"Pod":{"metadata":{"name":"\xff"}},"NodeNames":[]}'), (400,)),
    Nuisance("gzip", post("/filter", gzip.compress(_POD), "application/json", "Content-Encoding: gzip"), (415,)),
    Nuisance("a form", post("/filter", b"a=b", "application/x-www-form-urlencoded"), (415,)),
    Nuisance("an unknown path", post("/filters", _POD), (404,)),
    Nuisance("a path with a slash", post("/filter/", _POD), (404,)),
    Nuisance("GET", _head("GET", "/filter"), (405,)),
    Nuisance("300 MB announced", _head("POST", "/filter", "Content-Length: 300000000"), (413,)),
    Nuisance("64 KiB of headers", _head("GET", "/filter", "X-Long: " + 65536 * "a"), (400, 431, CLOSED)),
    Nuisance("no HTTP", b"\x00\x01\x02\x03 hello\r\n\r\n", (400, CLOSED)),
)
"""What is wrong, each on a connection of its own."""


def quick(port: int, context: Context, tally: Tally, stopped: threading.Event) -> None:
    """One wrong request after the other, and now and then a client that goes away in the middle."""
    number = 0
    while not stopped.wait(EACH):
        nuisance = WRONG[number % len(WRONG)]
        number += 1
        if number % 5 == 0:
            _guarded(lambda: _goes_away(port, context), tally, "goes away")
        _guarded(lambda one=nuisance: _judge(one, _asked(port, context, one.sent), tally), tally, nuisance.name)  # type: ignore[misc]


def slow_body(port: int, context: Context, tally: Tally, stopped: threading.Event) -> None:
    """A byte each half second: the answer must come, or the end, before the body has."""
    while not stopped.wait(1):
        _guarded(lambda: _trickle(port, context, tally, stopped), tally, "slow body")


def silent(port: int, context: Context, tally: Tally, stopped: threading.Event) -> None:
    """Connections that never say anything, one after another: half of them not even a handshake."""
    while not stopped.wait(1):
        with contextlib.suppress(OSError), _plain(port):
            stopped.wait(5)
        with contextlib.suppress(OSError), _connection(port, context):
            stopped.wait(5)
        tally.count("silent")


def strangers(port: int, context: Context, tally: Tally, stopped: threading.Event) -> None:
    """Where certificates are asked for: who has none must not get an answer."""
    while not stopped.wait(2):
        if context() is not None:
            _guarded(lambda: _without_certificate(port, tally), tally, "no certificate")


ALL: tuple[Callable[[int, Context, Tally, threading.Event], None], ...] = (quick, slow_body, silent, strangers)


def _guarded(ask: Callable[[], object], tally: Tally, name: str) -> None:
    """Where the service cannot be reached at all, the schedulers notice as well; here it is only counted."""
    try:
        ask()
    except OSError as error:
        tally.count("nuisance not tried", f"{name}: {error}")


def _judge(nuisance: Nuisance, answer: tuple[int, bytes], tally: Tally) -> None:
    status, body = answer
    if status not in nuisance.statuses or (status != CLOSED and not _is_error(body)):
        tally.count("nuisance answered wrongly", f"{nuisance.name}: {status} {body[:100]!r}")
    else:
        tally.count("nuisance")


def _is_error(body: bytes) -> bool:
    try:
        return len(body) <= MAX_ERROR and isinstance(json.loads(body)["Error"], str)
    except (ValueError, KeyError, TypeError):
        return False


def _asked(port: int, context: Context, sent: bytes) -> tuple[int, bytes]:
    with _connection(port, context) as sock:
        with contextlib.suppress(OSError):  # it may have been refused before it was all sent
            sock.sendall(sent)
        return _answer(sock)


def _answer(sock: socket.socket) -> tuple[int, bytes]:
    """(status, or CLOSED; body)."""
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


def _goes_away(port: int, context: Context) -> None:
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
    if seconds < ANSWER_WITHIN:
        tally.count("nuisance")
    else:
        tally.count("nuisance answered wrongly", f"slow body: {seconds:.0f} s")


def _without_certificate(port: int, tally: Tally) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    status = CLOSED
    with contextlib.suppress(ssl.SSLError, ConnectionResetError), context.wrap_socket(_plain(port)) as sock:
        sock.sendall(post("/filter", _POD))
        status, _ = _answer(sock)
    if status == CLOSED:
        tally.count("nuisance")
    else:
        tally.count("nuisance answered wrongly", f"a stranger: {status}")


def _plain(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=ANSWER_WITHIN)


def _connection(port: int, context: Context) -> socket.socket:
    credentials = context()
    sock = _plain(port)
    return sock if credentials is None else credentials.wrap_socket(sock, server_hostname="127.0.0.1")
