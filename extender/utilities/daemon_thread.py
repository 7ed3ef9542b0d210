"""Run blocking calls, such as reading a file, in threads that do not keep the process from exiting.

`asyncio.to_thread` uses an executor that is joined when the event loop and the interpreter end: a read that hangs, as
on a network file system, would hold the process for ever. A daemon thread ends with the process.

Rule: only for work that may be cut off at any point, such as reading.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

SLOW_RELOAD_SECONDS = 10.0  # Seconds after which a reload that is still running is reported
MAX_RELOAD_SHARE = 0.2  # Maximum share of the time spent on reloading a file that changes all the time


def start_daemon_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
    """Run the function in a thread of its own and return its future, which cannot be cancelled."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # or a waiter that is cancelled would cancel it, and set_result would fail

    def run() -> None:
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=f"read-{getattr(function, '__name__', 'file')}", daemon=True).start()
    return future


async def run_in_daemon_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run the function in a daemon thread and return its result or raise its exception.

    If the caller is cancelled, the thread runs on and its result is dropped.
    """
    return await asyncio.wrap_future(start_daemon_thread(function, *args, **kwargs))


class ReloadThread:
    """Runs the reloads of a file, each in a daemon thread, and reports one that takes long."""

    def __init__(self, subject: str, slow_seconds: float = SLOW_RELOAD_SECONDS) -> None:
        """`subject`: what is reloaded, for messages, such as `configuration`."""
        self._subject = subject
        self._slow_seconds = slow_seconds
        self._slow_since: float | None = None  # Monotonic start time of the overdue reload; None if none is overdue
        self._seconds = 0.0  # Seconds spent in reloads since the last `pause`

    def warnings(self) -> list[str]:
        """Return one line if a reload is overdue."""
        since = self._slow_since
        if since is None:
            return []
        seconds = time.monotonic() - since
        return [f"{self._subject}: a reload has been running for {seconds:.0f}s; using the previous one"]

    def pause(self, poll_interval: float) -> float:
        """Return the seconds until the next poll: `poll_interval`, or more after a slow reload."""
        seconds, self._seconds = self._seconds, 0.0
        return max(poll_interval, seconds * (1 / MAX_RELOAD_SHARE - 1))

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one reload and return its result or raise its exception."""
        began = time.monotonic()
        overdue = asyncio.get_running_loop().call_later(self._slow_seconds, self._report, began)
        try:
            return await run_in_daemon_thread(function, *args, **kwargs)
        finally:
            overdue.cancel()
            seconds = time.monotonic() - began
            self._seconds += seconds
            if self._slow_since is not None:
                log.info("%s: the slow reload ended after %.0fs", self._subject, seconds)
                self._slow_since = None

    def _report(self, since: float) -> None:
        self._slow_since = since
        message = "%s: a reload is not finished after %gs, using the previous one meanwhile"
        log.warning(message, self._subject, self._slow_seconds)
