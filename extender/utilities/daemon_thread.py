"""Wait for blocking calls, such as reading a file, without keeping the process from exiting.

The executor of `asyncio.to_thread` is joined when the event loop and the interpreter end: a read that hangs, as on a
network file system, would hold the process for ever. A daemon thread ends with the process.

Rule: only for work that may be cut off at any point, such as reading.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

SLOW_RELOAD_SECONDS = 10.0
"""Time after which a reload that still runs is reported."""

MAX_RELOAD_SHARE = 0.2
"""Share of the time in which a file that changes all the time is read."""


async def run_in_daemon_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what the function returns, or raise what it raises, run in a thread of its own.

    If the caller is cancelled, the thread runs on and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(settle: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(lambda: None if future.done() else settle())

    def run() -> None:
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            caught = error  # the name `error` ends with the block
            deliver(lambda: future.set_exception(caught))
        else:
            deliver(lambda: future.set_result(result))

    threading.Thread(target=run, name=f"read-{getattr(function, '__name__', 'file')}", daemon=True).start()
    return await future


class ReloadThread:
    """Runs the reloads of a file, each in a daemon thread, and reports one that takes long."""

    def __init__(self, subject: str, slow_seconds: float = SLOW_RELOAD_SECONDS) -> None:
        """`subject`: what is reloaded, for messages: `configuration`."""
        self._subject = subject
        self._slow_seconds = slow_seconds
        self._slow_since: float | None = None
        """When the reload that is overdue began, by the monotonic clock."""
        self._seconds = 0.0
        """Seconds that the runs since the last `pause` took."""

    def warnings(self) -> list[str]:
        """Return one line if a reload is overdue."""
        since = self._slow_since
        if since is None:
            return []
        return [
            f"{self._subject}: a reload has been running for {time.monotonic() - since:.0f}s; using the previous one"
        ]

    def pause(self, poll_interval: float) -> float:
        """Return the seconds until the next poll: after a reload that took long, more than `poll_interval`."""
        seconds, self._seconds = self._seconds, 0.0
        return max(poll_interval, seconds * (1 / MAX_RELOAD_SHARE - 1))

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the function returns, or raise what it raises."""
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
        log.warning(
            "%s: a reload is not finished after %gs, using the previous one meanwhile",
            self._subject,
            self._slow_seconds,
        )
