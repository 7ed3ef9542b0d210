"""Read a request body, or reject it as early as possible: too large, too slow, compressed or not JSON.

All bodies of a listener together are limited too (`BodiesInFlight`): what is too much is answered as overload.

Rule: never buffer more than the cap, whatever Content-Length says.
"""

import asyncio
import contextlib
import io
import re
from collections.abc import Iterator

from starlette.requests import Request

from extender.errors import BodyTooSlow, Overloaded, RequestTooLarge, UnsupportedBody
from extender.server.http.caller import CALLER_KEY, Caller

READ_TIMEOUT_SECONDS = 10.0
"""Limit from a request's first byte to its last; kube-scheduler sends a request at once."""

UNCOUNTED_BODY_BYTES = 512 << 10
"""Part of each body that does not count as in flight: the names of 15,000 nodes. Such calls are never refused."""

SLOW_BODY_SECONDS = 1.0
"""Time after which a call whose body is incomplete gives way to a new one, when too many are in flight."""

_CHECKED_HEADERS = frozenset({b"content-encoding", b"content-type", b"content-length"})
"""Headers that decide whether a body is read; the first header of each name counts."""

_JSON_TYPE = re.compile(r"(application|text)/json|[\w.+-]+/[\w.+-]+\+json", re.IGNORECASE)


class Body:
    """One body in flight: from its first byte to the answer to its call."""

    def __init__(self, bodies: "BodiesInFlight") -> None:
        self.size = 0
        self.refusal: str | None = None
        """Reason why the body is not read to its end; None: it is."""
        self._bodies = bodies
        self._received: bytes | io.BytesIO = b""
        self._timeout: asyncio.Timeout | None = None
        self.began_at = 0.0
        """When the body began to be read, by the event loop's clock."""

    @property
    def counted_bytes(self) -> int:
        """Return the bytes that count as in flight."""
        return max(0, self.size - UNCOUNTED_BODY_BYTES)

    @property
    def is_incomplete(self) -> bool:
        """Return whether more of the body is awaited."""
        return self._timeout is not None and self.refusal is None

    @contextlib.contextmanager
    def receiving(self, timeout: asyncio.Timeout) -> Iterator[None]:
        """Count the body as incomplete inside the `with` block; `timeout` ends the block if the body is refused."""
        self._timeout, self.began_at = timeout, asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self._timeout = None

    def check(self, content_length: int) -> None:
        """Raise Overloaded if a body of this length would exceed the limit now."""
        self._bodies.check(content_length)

    def append(self, chunk: bytes) -> None:
        """Add what has arrived; may refuse this body, or another one."""
        if self.refusal is not None:
            return
        before = self.counted_bytes
        self.size += len(chunk)
        if not self._received:  # no copy: most bodies arrive in one piece
            self._received = chunk
        else:  # a list of chunks would take twice the memory when it is joined
            if isinstance(self._received, bytes):
                first, self._received = self._received, io.BytesIO()
                self._received.write(first)
            self._received.write(chunk)
        self._bodies.count(self.counted_bytes - before)

    def take(self) -> bytes:
        """Return the whole body; called once."""
        received, self._received = self._received, b""
        return received if isinstance(received, bytes) else received.getvalue()

    def refuse(self, reason: str) -> None:
        """Free the body, and end its `receiving` block with a TimeoutError."""
        self.refusal, self._received = reason, b""
        self._bodies.count(-self.counted_bytes)
        self.size = 0
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())


class BodiesInFlight:
    """The bodies of all calls in flight, and the limit for their bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.bytes = 0
        """Bytes in flight, without the first UNCOUNTED_BODY_BYTES of each body."""
        self._max_bytes = max_bytes
        self._bodies: dict[Body, None] = {}
        """Bodies in flight, in the order in which their calls began."""

    @contextlib.contextmanager
    def track(self) -> Iterator[Body]:
        """Count one body as in flight inside the `with` block."""
        body = Body(self)
        self._bodies[body] = None
        try:
            yield body
        finally:
            del self._bodies[body]
            self.bytes -= body.counted_bytes

    def check(self, content_length: int) -> None:
        """Raise Overloaded if a body of this length would exceed the limit now."""
        if self.bytes + max(0, content_length - UNCOUNTED_BODY_BYTES) > self._max_bytes:
            raise Overloaded(self._reason)

    def count(self, added: int) -> None:
        """Count bytes; above the limit, refuse the largest incomplete body."""
        self.bytes += added
        if added > 0 and self.bytes > self._max_bytes:
            incomplete = [body for body in self._bodies if body.is_incomplete]
            if incomplete:
                max(incomplete, key=lambda body: body.size).refuse(self._reason)

    def drop_slow(self, reason: str) -> bool:
        """Refuse the oldest body that has been incomplete for SLOW_BODY_SECONDS; return whether there is one."""
        oldest = next((body for body in self._bodies if body.is_incomplete), None)
        if oldest is None or asyncio.get_running_loop().time() < oldest.began_at + SLOW_BODY_SECONDS:
            return False
        oldest.refuse(reason)
        return True

    @property
    def _reason(self) -> str:
        return f"more than {self._max_bytes} bytes of request bodies in flight"


async def read_body(request: Request, cap: int, body: Body | None = None) -> bytes:
    """Return the body, of at most `cap` bytes; raises RequestError (408, 413, 415): too slow, too large, not JSON.

    `body`: one of `BodiesInFlight.track`; raises Overloaded if it is refused. None: without a common limit.
    """
    length = check_headers(request, cap)
    body = body or Body(BodiesInFlight(cap))
    body.check(length)
    try:
        async with asyncio.timeout_at(caller_of(request).read_at + READ_TIMEOUT_SECONDS) as timeout:
            with body.receiving(timeout):
                async for chunk in request.stream():
                    if body.size + len(chunk) > cap:
                        raise too_large(cap)
                    if chunk:  # the last chunk is empty
                        body.append(chunk)
    except TimeoutError:
        if body.refusal is None:
            raise BodyTooSlow(f"the body did not arrive within {READ_TIMEOUT_SECONDS:.0f} seconds") from None
    if body.refusal is not None:
        raise Overloaded(body.refusal)
    return body.take()


def caller_of(request: Request) -> Caller:
    """Return the caller of the request; one that calls just now if the server does not say."""
    caller: Caller | None = request.scope.get(CALLER_KEY)
    if caller is None:
        now = asyncio.get_running_loop().time()
        caller = Caller(now, now)
    return caller


def check_headers(request: Request, cap: int) -> int:
    """Return Content-Length, or 0; raises RequestError if the headers alone show that the body is not usable."""
    sent = {
        name: value.decode("latin-1") for name, value in reversed(request.scope["headers"]) if name in _CHECKED_HEADERS
    }
    encoding = sent.get(b"content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedBody("compressed bodies are not supported: leave Content-Encoding out")
    media_type = sent.get(b"content-type", "").partition(";")[0].strip()
    if media_type and not _JSON_TYPE.fullmatch(media_type):
        raise UnsupportedBody("the body must be JSON: with curl, add -H 'Content-Type: application/json'")
    length = sent.get(b"content-length", "")
    if not (length.isascii() and length.isdigit()):
        return 0
    if len(length) > 18 or int(length) > cap:
        raise too_large(cap)
    return int(length)


def too_large(cap: int) -> RequestTooLarge:
    return RequestTooLarge(f"the body exceeds the limit of {cap} bytes")
