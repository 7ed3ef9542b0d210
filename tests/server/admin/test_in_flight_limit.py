"""How many requests are admitted at the same time, and that none is served whose client has left."""

import asyncio

import pytest
from fastapi import Request
from starlette.exceptions import HTTPException

from extender.errors import CallerGone
from extender.server.admin.in_flight_limit import InFlightLimit, unless_gone

pytestmark = pytest.mark.anyio


def request_of(*messages):
    """A request whose body was read, and which gets these messages from its connection; then none."""
    left = list(messages)

    async def receive():
        return {"type": left.pop(0)} if left else await asyncio.Event().wait()

    return Request({"type": "http"}, receive)


def test_H5_above_the_limit_a_request_is_refused_until_another_one_ends():
    limit = InFlightLimit(2, "simulations")
    with limit.track():
        with limit.track():
            with pytest.raises(HTTPException, match="2 simulations are running or waiting already") as refused:
                limit.track().__enter__()
            assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "5"})
        with limit.track():
            pass


async def test_the_result_for_a_client_that_waits():
    assert await unless_gone(request_of("http.request"), asyncio.sleep(0, "done")) == "done"
    with pytest.raises(ZeroDivisionError):
        await unless_gone(request_of(), fails())


async def fails():
    await asyncio.sleep(0)
    raise ZeroDivisionError


async def test_H5_the_work_for_a_client_that_left_is_cancelled():
    ended = asyncio.Event()

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(CallerGone):
        await unless_gone(request_of("http.request", "http.disconnect"), work())
    assert ended.is_set()
