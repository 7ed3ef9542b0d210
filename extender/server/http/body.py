"""Read the body of a request, or refuse it as early as possible.

Rule: never hold more than the cap, whatever the headers promise.
"""

import asyncio
import re

from starlette.requests import Request

from extender.errors import BodyTooSlow, RequestTooLarge, UnsupportedBody

TIMEOUT = 10.0
"""Seconds from a request's first byte to its last; a scheduler sends it at once."""

BEGAN = "extender.began"
"""Key of the ASGI scope under which the protocol says when a request's first byte came, by the event loop's clock."""

_READ = frozenset({b"content-encoding", b"content-type", b"content-length"})
"""The first header of each name counts."""

_JSON_TYPE = re.compile(r"(application|text)/json|[\w.+-]+/[\w.+-]+\+json", re.IGNORECASE)


async def read_body(request: Request, cap: int) -> bytes:
    """The body, of at most `cap` bytes; RequestError (408, 413, 415) if it is too slow, too large or no JSON."""
    check_headers(request, cap)
    try:
        async with asyncio.timeout_at(began(request) + TIMEOUT):
            return await _collect(request, cap)
    except TimeoutError:
        raise BodyTooSlow(f"the body did not arrive within {TIMEOUT:.0f} seconds") from None


def began(request: Request) -> float:
    """When the request's first byte came, by the event loop's clock (`time.monotonic`); now, where nobody noted it."""
    moment: float | None = request.scope.get(BEGAN)
    return asyncio.get_running_loop().time() if moment is None else moment


async def _collect(request: Request, cap: int) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > cap:
            raise too_large(cap)
        if chunk:  # the last one is empty, and one chunk alone need not be copied
            chunks.append(chunk)
    return b"".join(chunks)


def check_headers(request: Request, cap: int) -> None:
    """RequestError if the headers alone show that the body cannot be used."""
    sent = {name: value.decode("latin-1") for name, value in reversed(request.scope["headers"]) if name in _READ}
    encoding = sent.get(b"content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedBody("compressed bodies are not read: leave Content-Encoding out")
    media_type = sent.get(b"content-type", "").partition(";")[0].strip()
    if media_type and not _JSON_TYPE.fullmatch(media_type):
        raise UnsupportedBody("the body must be JSON: with curl, add -H 'Content-Type: application/json'")
    length = sent.get(b"content-length", "")
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > cap):
        raise too_large(cap)


def too_large(cap: int) -> RequestTooLarge:
    return RequestTooLarge(f"the body is larger than the {cap} bytes that are allowed")
