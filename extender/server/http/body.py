"""Read a request body, or reject it as early as possible: too large, too slow, compressed or not JSON.

All bodies of a listener, and the answers that are being sent, share one limit (`BodiesInFlight`); beyond it, calls are
answered as overload.

Rule: never buffer more than the cap, whatever Content-Length says.
"""

import asyncio
import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from starlette.requests import Request
from starlette.types import Scope

from extender.errors import BodyTooSlow, Overloaded, RequestTooLarge, UnsupportedBody
from extender.server.http.caller import CALLER_KEY, Caller

READ_TIMEOUT_SECONDS = 10.0
"""Time limit from a request's first byte to its last; kube-scheduler sends a request at once."""

UNCOUNTED_BODY_BYTES = 512 << 10
"""Part of each body, and of each answer, that does not count as in flight: enough for the names of 15,000 nodes."""

_CHECKED_HEADERS = frozenset({b"content-encoding", b"content-type", b"content-length"})
"""Headers that decide whether a body is read; the first header of each name counts."""

_JSON_TYPE = re.compile(r"(application|text)/json|[\w.+-]+/[\w.+-]+\+json", re.IGNORECASE)

YAML_TYPE = "application/yaml"
"""Media type of YAML (RFC 9512); a browser does not send it to another site unasked."""


@dataclass(slots=True, eq=False)
class Body:
    """Bytes of one call in flight: its body as it arrives, then its answer as it is sent."""

    size: int = 0
    received: bytes | io.BytesIO = b""
    timeout: asyncio.Timeout | None = None
    """Timeout of the block that waits for the client to send the body or read the answer; None if nothing waits."""
    refusal: str | None = None
    """Reason why that block was ended early; None if it was not."""

    @property
    def counted_bytes(self) -> int:
        return max(0, self.size - UNCOUNTED_BODY_BYTES)

    @property
    def waits_for_client(self) -> bool:
        """Return whether the call waits for its client to send or read some bytes."""
        return self.timeout is not None and not self.timeout.expired() and self.refusal is None

    def append(self, chunk: bytes) -> None:
        # Most bodies arrive in one piece, which needs no copy. Joining a list of chunks would take twice the memory.
        if not self.received:
            self.received = chunk
            return
        if isinstance(self.received, bytes):
            first, self.received = self.received, io.BytesIO()
            self.received.write(first)
        self.received.write(chunk)

    def take(self) -> bytes:
        """Return the whole body and release it; called once."""
        received, self.received = self.received, b""
        return received if isinstance(received, bytes) else received.getvalue()


class BodiesInFlight:
    """The bodies and answers of all calls in flight, and the limit on their total size."""

    def __init__(self, max_bytes: int) -> None:
        self.bytes = 0
        """Bytes in flight, without the first UNCOUNTED_BODY_BYTES of each call."""
        self._max_bytes = max_bytes
        self._bodies: dict[Body, None] = {}
        """Bodies with counted bytes, ordered by their last change of size."""

    @contextlib.contextmanager
    def track(self) -> Iterator[Body]:
        """Count the bytes of one call as in flight inside the `with` block."""
        body = Body()
        try:
            yield body
        finally:
            self._forget(body)

    def resize(self, body: Body, size: int) -> None:
        """Set the size of a call; above the limit, refuse calls that wait for their clients.

        The call whose size has not changed for the longest time is refused first, and its bytes are freed at once.
        """
        self._forget(body)
        body.size = size
        if body.counted_bytes:
            self._bodies[body] = None
            self.bytes += body.counted_bytes
        while self.bytes > self._max_bytes:
            # Never this call's own answer: it is sent even if it exceeds the limit by itself.
            others = (one for one in self._bodies if one is not body or one.received)
            waiting = next((one for one in others if one.waits_for_client), None)
            if waiting is None:
                return
            self._forget(waiting)
            waiting.size, waiting.received = 0, b""
            waiting.refusal = f"more than {self._max_bytes} bytes of request bodies in flight"
            cast(asyncio.Timeout, waiting.timeout).reschedule(asyncio.get_running_loop().time())

    def _forget(self, body: Body) -> None:
        if body in self._bodies:
            del self._bodies[body]
            self.bytes -= body.counted_bytes


async def read_body(
    request: Request,
    cap: int,
    bodies: BodiesInFlight | None = None,
    body: Body | None = None,
    *,
    takes_yaml: bool = False,
) -> bytes:
    """Return the body; RequestError if it is too slow (408), larger than `cap` bytes (413) or not JSON (415).

    `body`: from `bodies.track`; raises Overloaded if it is refused. Without both, only `cap` limits the size.
    """
    check_headers(request.scope, cap, takes_yaml=takes_yaml)
    bodies, body = bodies or BodiesInFlight(cap), body or Body()
    try:
        async with asyncio.timeout_at(caller_of(request.scope).read_at + READ_TIMEOUT_SECONDS) as body.timeout:
            async for chunk in request.stream():
                if body.size + len(chunk) > cap:
                    raise too_large(cap)
                if chunk and body.refusal is None:  # the last chunk is empty
                    body.append(chunk)
                    bodies.resize(body, body.size + len(chunk))
    except TimeoutError:
        if body.refusal is None:
            raise BodyTooSlow(f"the body did not arrive within {READ_TIMEOUT_SECONDS:.0f} seconds") from None
    finally:
        body.timeout = None
    if body.refusal is not None:
        raise Overloaded(body.refusal)
    return body.take()


def caller_of(scope: Scope) -> Caller:
    """Return the caller of the request; without LimitedProtocol, a caller whose request has just arrived."""
    caller: Caller | None = scope.get(CALLER_KEY)
    if caller is None:
        now = asyncio.get_running_loop().time()
        caller = Caller(now, now)
    return caller


def media_type_of(headers: Mapping[str, str]) -> str:
    """Return the media type of a body, without parameters; empty if there is none."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def check_headers(scope: Scope, cap: int, *, takes_yaml: bool = False) -> None:
    """Raise RequestError if the headers show that the body is not usable."""
    sent = {name: value.decode("latin-1") for name, value in reversed(scope["headers"]) if name in _CHECKED_HEADERS}
    encoding = sent.get(b"content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedBody("compressed bodies are not supported: leave Content-Encoding out")
    media_type = sent.get(b"content-type", "").partition(";")[0].strip()
    is_yaml = takes_yaml and media_type.lower() == YAML_TYPE
    if media_type and not is_yaml and not _JSON_TYPE.fullmatch(media_type):
        raise UnsupportedBody("the body must be JSON: with curl, add -H 'Content-Type: application/json'")
    length = sent.get(b"content-length", "")
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > cap):
        raise too_large(cap)


def too_large(cap: int) -> RequestTooLarge:
    return RequestTooLarge(f"the body exceeds the limit of {cap} bytes")
