"""Run functions on the thread that decides, for the admin listener, which has a thread and an event loop of its own.

Rule: the cluster cache, settings, decision log and metrics belong to the thread that decides. The admin listener reads
them in functions that run there, between two decisions. The waiting requests are bounded in number and in time.
"""

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from extender.server.admin.in_flight_limit import busy
from extender.server.thread_dump import position

log = logging.getLogger(__name__)

MAX_WAITING_REQUESTS = 64
"""Maximum number of admin requests that wait for the thread that decides at the same time."""

MAX_WAIT_SECONDS = 10.0
"""Longest wait of an admin request for the thread that decides."""

TICK_SECONDS = 1.0
"""Time between two checks of the deciding thread's event loop."""

MAX_SILENT_SECONDS = 60.0
"""Time without a turn of the deciding thread's event loop after which the process counts as hung."""

T = TypeVar("T")


class DecisionThread:
    """The thread that decides, seen from the admin listener.

    Without `attach`, one event loop serves everything, and functions run at once.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._waiting = 0
        self._shared: dict[str, Future[Any]] = {}
        """Name -> result that later requests with this name share until its function begins."""
        self._has_turned = True
        self.silent_seconds = 0.0
        """Seconds for which the event loop of that thread has not turned."""
        # Counted in ticks of the admin listener's event loop, not by a clock: after SIGSTOP, or a suspended machine, a
        # clock would report a hang that never was.

    def attach(self) -> None:
        """Make the current thread, whose event loop is running, the thread that decides."""
        self._loop, self._thread_id = asyncio.get_running_loop(), threading.get_ident()

    @property
    def is_hung(self) -> bool:
        """Return whether the event loop of that thread has not turned for MAX_SILENT_SECONDS."""
        return self.silent_seconds >= MAX_SILENT_SECONDS

    async def run(self, work: Callable[[], T], discard: Callable[[T], object] = lambda _: None) -> T:
        """Run `work` on the thread that decides and return its result; HTTPException (503) if that takes too long.

        If the caller is cancelled, `work` does not run; if it has begun, `discard` gets its result, on any thread.
        """
        if self._is_current():
            return work()
        if self._waiting >= MAX_WAITING_REQUESTS:
            raise busy(f"{self._waiting} requests already wait for the decisions under way")
        future = self._post(work)
        self._waiting += 1
        try:
            return await _within_limit(asyncio.wrap_future(future))
        except BaseException:
            if not future.cancel():  # `work` has begun
                future.add_done_callback(lambda done: done.exception() or discard(done.result()))
            raise
        finally:
            self._waiting -= 1

    async def run_shared(self, name: str, work: Callable[[], T]) -> T:
        """Run `work` like `run`; waiting requests with the same name share one result."""
        # They do not count towards MAX_WAITING_REQUESTS, or other requests could make a probe of /readyz fail.
        if self._is_current():
            return work()
        future = self._shared.get(name)
        if future is None or future.running() or future.done():
            future = self._shared[name] = self._post(work)
        return await _within_limit(asyncio.shield(asyncio.wrap_future(future)))

    async def watch(self) -> None:
        """Measure `silent_seconds`, until cancelled."""

        def turned() -> None:
            self._has_turned = True

        while True:
            if self._has_turned and self._loop is not None:
                self._has_turned = False
                with contextlib.suppress(RuntimeError):  # its loop is closed: the process is ending
                    self._loop.call_soon_threadsafe(turned)
            await asyncio.sleep(TICK_SECONDS)
            self._count_silence()

    def _count_silence(self) -> None:
        was_hung = self.is_hung
        self.silent_seconds = 0.0 if self._has_turned else self.silent_seconds + TICK_SECONDS
        if self.is_hung and not was_hung:
            frame = sys._current_frames().get(self._thread_id)
            log.critical(
                "the thread that decides has been stuck for %.0fs, so /livez fails; it is at %s",
                self.silent_seconds,
                position(frame),
            )

    def _is_current(self) -> bool:
        return self._loop is None or self._loop is asyncio.get_running_loop()

    def _post(self, work: Callable[[], T]) -> Future[T]:
        """Let the thread that decides run `work` in its next turn, unless the future is cancelled by then."""
        future = Future[T]()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    result = work()
                except Exception as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)

        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(run)
        except RuntimeError:
            raise busy("shutting down") from None
        return future


async def _within_limit(future: asyncio.Future[T]) -> T:
    """Return the future's result; HTTPException (503) after MAX_WAIT_SECONDS."""
    try:
        return await asyncio.wait_for(future, MAX_WAIT_SECONDS)
    except TimeoutError:
        raise busy(f"decisions under way for more than {MAX_WAIT_SECONDS:.0f} s: try again") from None
