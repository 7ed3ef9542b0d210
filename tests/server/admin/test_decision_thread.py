"""What the admin listener asks of the thread that decides: where it runs, who shares it, and how long it may wait."""

import asyncio
import contextlib
import queue
import threading
import time

import pytest
from starlette.exceptions import HTTPException

from extender.server.admin import decision_thread as module
from extender.server.admin.decision_thread import DecisionThread

pytestmark = pytest.mark.anyio
LIMIT = 30.0


class Decisions:
    """A thread with an event loop that decides, and what keeps it busy."""

    def __init__(self):
        self.here = DecisionThread()
        self._attached = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self.thread.start()
        assert self._attached.wait(LIMIT)

    async def _serve(self):
        self.here.attach()
        self.loop, self._is_over = asyncio.get_running_loop(), asyncio.Event()
        self._attached.set()
        await self._is_over.wait()

    @contextlib.contextmanager
    def deciding(self):
        """A decision takes as long as the `with` block."""
        began, over = threading.Event(), threading.Event()

        def decide():
            began.set()
            over.wait(LIMIT)

        self.loop.call_soon_threadsafe(decide)
        assert began.wait(LIMIT)
        try:
            yield
        finally:
            over.set()

    def close(self):
        with contextlib.suppress(RuntimeError):  # closed already
            self.loop.call_soon_threadsafe(self._is_over.set)
        self.thread.join()


@pytest.fixture
def decisions():
    with contextlib.closing(Decisions()) as one:
        yield one


async def test_with_one_event_loop_it_runs_at_once():
    assert await DecisionThread().run(threading.get_ident) == threading.get_ident()
    assert await DecisionThread().run_shared("ident", threading.get_ident) == threading.get_ident()


async def test_H3_it_runs_on_the_thread_that_decides_and_after_the_decision_under_way(decisions):
    with decisions.deciding():
        asked = asyncio.ensure_future(decisions.here.run(threading.get_ident))
        await asyncio.sleep(0.02)
        assert not asked.done()  # and this event loop goes on meanwhile
    assert await asked == decisions.thread.ident


async def test_errors_come_back(decisions):
    with pytest.raises(ZeroDivisionError):
        await decisions.here.run(lambda: 1 // 0)


async def test_H5_what_is_no_longer_wanted_does_not_run(decisions):
    ran = []
    with decisions.deciding():
        asked = asyncio.ensure_future(decisions.here.run(lambda: ran.append(1)))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    await decisions.here.run(lambda: None)
    assert ran == []


async def test_H5_a_result_that_comes_too_late_is_discarded(decisions):
    began, over, discarded = threading.Event(), threading.Event(), queue.SimpleQueue[str]()

    def work():
        began.set()
        over.wait(LIMIT)
        return "a child process"

    asked = asyncio.ensure_future(decisions.here.run(work, discarded.put))
    await asyncio.to_thread(began.wait, LIMIT)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    over.set()
    assert await asyncio.to_thread(discarded.get, timeout=LIMIT) == "a child process"


async def test_H5_requests_of_one_name_share_a_result_that_has_not_begun(decisions):
    ran = []
    with decisions.deciding():
        asked = [asyncio.ensure_future(decisions.here.run_shared("readyz", lambda: ran.append(1))) for _ in range(9)]
        await asyncio.sleep(0)
        asked.pop().cancel()  # one that leaves does not end it for the others
    await asyncio.gather(*asked)
    assert ran == [1]
    await decisions.here.run_shared("readyz", lambda: ran.append(2))
    assert ran == [1, 2]


async def test_H5_a_bounded_number_waits(decisions, monkeypatch):
    monkeypatch.setattr(module, "MAX_WAITING_REQUESTS", 3)
    with decisions.deciding():
        asked = [asyncio.ensure_future(decisions.here.run(time.monotonic)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(HTTPException, match="3 requests already wait for the decisions under way") as refused:
            await decisions.here.run(time.monotonic)
        assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "5"})
    assert len(await asyncio.gather(*asked)) == 3
    assert await decisions.here.run(lambda: 4) == 4


async def test_H5_requests_that_share_a_result_do_not_keep_others_from_waiting(decisions, monkeypatch):
    """Clients of /metrics must not fail a probe of /readyz."""
    monkeypatch.setattr(module, "MAX_WAITING_REQUESTS", 1)
    with decisions.deciding():
        scrapes = [asyncio.ensure_future(decisions.here.run_shared("metrics", lambda: 1)) for _ in range(66)]
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(decisions.here.run_shared("readyz", lambda: 2))]
        others.append(asyncio.ensure_future(decisions.here.run(lambda: 3)))
        await asyncio.sleep(0)
    assert await asyncio.gather(*scrapes, *others) == [1] * 66 + [2, 3]


@pytest.mark.parametrize("method", ["run", "run_shared"])
async def test_H5_nothing_waits_for_ever(method, decisions, monkeypatch):
    monkeypatch.setattr(module, "MAX_WAIT_SECONDS", 0.05)
    arguments = ["name"] if method == "run_shared" else []
    with decisions.deciding(), pytest.raises(HTTPException, match="decisions under way for more than"):
        await getattr(decisions.here, method)(*arguments, time.monotonic)


async def until(is_true):
    async with asyncio.timeout(LIMIT):
        while not is_true():  # noqa: ASYNC110 (it changes on another thread)
            await asyncio.sleep(0.01)


async def test_a_loop_that_is_closed_is_shutting_down(decisions):
    decisions.close()
    with pytest.raises(HTTPException, match="shutting down"):
        await decisions.here.run(time.monotonic)


async def test_H3_a_thread_that_does_not_turn_counts_as_hung_until_it_turns(decisions, monkeypatch, caplog):
    monkeypatch.setattr(module, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(module, "MAX_SILENT_SECONDS", 0.1)
    watching = asyncio.create_task(decisions.here.watch())
    await asyncio.sleep(0.1)
    with decisions.deciding():
        await until(lambda: decisions.here.is_hung)
    await until(lambda: not decisions.here.is_hung)
    watching.cancel()
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("the thread that decides has been stuck for 0s, so /livez fails; it is at ")
