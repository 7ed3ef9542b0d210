"""Limit the expensive requests in flight: further requests get a 503.

Rule: work for a client that has closed its connection is cancelled.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import ContentStream, StreamingResponse
from starlette.types import Receive, Scope, Send

from extender.errors import CallerGone

RETRY_AFTER_SECONDS = 5
"""Retry-After of a request that is refused because too many requests are in flight."""

T = TypeVar("T")


def busy(message: str) -> HTTPException:
    """Return the 503 for a request that is refused because too many requests are in flight."""
    return HTTPException(503, message, {"Retry-After": str(RETRY_AFTER_SECONDS)})


class InFlightLimit:
    """Allows `limit` requests in flight at the same time. Not thread-safe: used on one event loop."""

    def __init__(self, limit: int, things: str) -> None:
        """`things`: plural noun for the message, such as `simulations`."""
        self._limit = limit
        self._things = things
        self.in_flight = 0

    @contextlib.contextmanager
    def track(self) -> Iterator[None]:
        """Count a request inside the `with` block; raises HTTPException (503) above the limit."""
        if self.in_flight >= self._limit:
            raise busy(f"{self.in_flight} {self._things} are running or waiting already: try again later")
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1


class LimitedResponse(StreamingResponse):
    """A JSON response that counts as in flight until it is sent."""

    def __init__(self, content: ContentStream, in_flight: InFlightLimit) -> None:
        super().__init__(content, media_type="application/json")
        self._in_flight = in_flight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._in_flight.track():
            await super().__call__(scope, receive, send)


async def unless_gone(request: Request, work: Coroutine[None, None, T]) -> T:
    """Return the result of `work`; if the client closes its connection first, cancel `work` and raise CallerGone.

    The body of the request must have been read.
    """

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerGone("the caller closed the connection before it was answered")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait((working, leaving))
