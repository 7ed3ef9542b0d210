"""Limit of the requests in flight that take long or wait: 503 for those above it.

Rule: a client that has closed its connection is not served any further.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

from extender.errors import CallerGone

RETRY_AFTER_SECONDS = 5
"""Retry-After of a request that is not served because of others."""

T = TypeVar("T")


def busy(message: str) -> HTTPException:
    """Return the 503 for a request that is not served because of others."""
    return HTTPException(503, message, {"Retry-After": str(RETRY_AFTER_SECONDS)})


class InFlightLimit:
    """Lets `limit` requests be in flight at the same time; used on one event loop."""

    def __init__(self, limit: int, things: str) -> None:
        """`things`: what is limited, for the message: `simulations`."""
        self._limit = limit
        self._things = things
        self._in_flight = 0

    @contextlib.contextmanager
    def track(self) -> Iterator[None]:
        """Count a request inside the `with` block; raises HTTPException (503) above the limit."""
        if self._in_flight >= self._limit:
            raise busy(f"{self._in_flight} {self._things} are running or waiting already: try again later")
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1


async def unless_gone(request: Request, work: Coroutine[None, None, T]) -> T:
    """Return the result of `work`; cancel it and raise CallerGone if the client closes its connection meanwhile.

    The body of the request must have been read.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerGone("the caller closed the connection before it was answered")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait((working, leaving))


async def _disconnected(request: Request) -> None:
    """Return once the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
