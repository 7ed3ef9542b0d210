"""Read a request body, or reject it as early as possible: too large, too slow, compressed or not JSON.

Rule: never buffer more than the cap, whatever Content-Length says.
"""

import asyncio
import re

from starlette.requests import Request

from extender.errors import BodyTooSlow, RequestTooLarge, UnsupportedBody
from extender.server.http.caller import CALLER_KEY, Caller

READ_TIMEOUT_SECONDS = 10.0
"""Limit from a request's first byte to its last; kube-scheduler sends a request at once."""

_CHECKED_HEADERS = frozenset({b"content-encoding", b"content-type", b"content-length"})
"""Headers that decide whether a body is read; the first header of each name counts."""

_JSON_TYPE = re.compile(r"(application|text)/json|[\w.+-]+/[\w.+-]+\+json", re.IGNORECASE)


async def read_body(request: Request, cap: int) -> bytes:
    """Return the body, of at most `cap` bytes; raises RequestError (408, 413, 415): too slow, too large, not JSON."""
    check_headers(request, cap)
    chunks, size = [], 0
    try:
        async with asyncio.timeout_at(caller_of(request).read_at + READ_TIMEOUT_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > cap:
                    raise too_large(cap)
                if chunk:  # the last chunk is empty; joining a single chunk copies nothing
                    chunks.append(chunk)
    except TimeoutError:
        raise BodyTooSlow(f"the body did not arrive within {READ_TIMEOUT_SECONDS:.0f} seconds") from None
    return b"".join(chunks)


def caller_of(request: Request) -> Caller:
    """Return the caller of the request; one that calls just now if the server does not say."""
    caller: Caller | None = request.scope.get(CALLER_KEY)
    if caller is None:
        now = asyncio.get_running_loop().time()
        caller = Caller(now, now)
    return caller


def check_headers(request: Request, cap: int) -> None:
    """Raise RequestError if the headers alone show that the body is not usable."""
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
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > cap):
        raise too_large(cap)


def too_large(cap: int) -> RequestTooLarge:
    return RequestTooLarge(f"the body exceeds the limit of {cap} bytes")
