"""Requests to stop the process, by signals or `stop()`, and the hard stop, which ends it even if something hangs.

SIGTERM, SIGHUP and SIGINT stop the process; SIGUSR1 and SIGUSR2, which by default would end it at once, are ignored
with a log line. A separate thread reads the signals, so that a hung decision delays neither `/readyz` nor the hard
stop.

Rule: the time of the hard stop can only move earlier.
"""

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any

from extender.server.thread_dump import running_threads
from extender.utilities.log_throttle import ThrottledLoggers

log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
IGNORED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)

ABORT_DELAY_SECONDS = 2.0
"""Time after the hard stop at which the process ends even if no Python code can run (the GIL is held, or writing the
log line blocks)."""

EXIT_SECONDS = 2.0
"""Time that threads have to end once the shutdown is complete."""


class HardStop:
    """Ends the process when its time is up, and logs what still hangs. Does nothing until `arm`."""

    def __init__(self, exit_process: Callable[[int], None] = os._exit) -> None:
        self._exit_process = exit_process
        self._changed = threading.Condition()
        self._ends_at: float | None = None
        self._exit_code: int | None = None
        """Exit code; None until the shutdown is complete."""
        self._null_fd: int | None = None

    def arm(self, seconds: float) -> None:
        """End the process in `seconds` with exit code 1; an earlier time that is already set stays."""
        with self._changed:
            ends_at = time.monotonic() + seconds
            if self._ends_at is None:
                threading.Thread(target=self._run, name="hard-stop", daemon=True).start()
            elif ends_at >= self._ends_at:
                return
            self._ends_at = ends_at
            if self._null_fd is None:
                self._null_fd = os.open(os.devnull, os.O_WRONLY)  # standard error may block
            faulthandler.dump_traceback_later(seconds + ABORT_DELAY_SECONDS, exit=True, file=self._null_fd)
            self._changed.notify()

    def complete(self, exit_code: int) -> None:
        """Note that the shutdown is complete: threads that still run delay the exit by at most EXIT_SECONDS."""
        with self._changed:
            self._exit_code = exit_code
            if self._ends_at is not None:
                self._ends_at = min(self._ends_at, time.monotonic() + EXIT_SECONDS)
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while self._ends_at is not None and (left := self._ends_at - time.monotonic()) > 0:
                self._changed.wait(left)
            exit_code = self._exit_code
        hanging = "; ".join(running_threads(include_main=exit_code is None))
        if exit_code is None:
            log.critical("shutdown not complete in time, ending the process; still running: %s", hanging)
        elif hanging:
            log.warning("ending the process; still running: %s", hanging)
        else:  # only the main thread is left: it is freeing a large cache
            return
        logging.shutdown()
        self._exit_process(1 if exit_code is None else exit_code)


class StopRequests:
    """Requests to stop the process, in the order in which they arrived; a context manager on the event loop."""

    def __init__(self, on_request: Callable[[int], None]) -> None:
        """`on_request`: called for each request at once, on any thread, with the signal's number; 0 for `stop`."""
        self._on_request = on_request
        self._requests: asyncio.Queue[int] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        # Python handles signals in the main thread only.
        self._signals = (
            [
                one
                for one in (*STOP_SIGNALS, *IGNORED_SIGNALS)
                if one != signal.SIGHUP or signal.getsignal(one) is not signal.SIG_IGN  # nohup
            ]
            if threading.current_thread() is threading.main_thread()
            else []
        )
        self._previous: dict[signal.Signals, Any] = {}
        self._receiving, self._sending = socket.socketpair()

    def __enter__(self) -> "StopRequests":
        if self._signals:
            self._sending.setblocking(False)
            signal.set_wakeup_fd(self._sending.fileno(), warn_on_full_buffer=False)
            # The handlers do nothing: Python itself writes the signal's number to the socket.
            self._previous = {one: signal.signal(one, lambda *_: None) for one in self._signals}
            threading.Thread(target=self._read_signals, name="signals", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._signals:
            signal.set_wakeup_fd(-1)
        self._sending.close()  # ends the thread
        if not self._signals:
            self._receiving.close()

    def _read_signals(self) -> None:
        log_ignored = ThrottledLoggers(log)
        with self._receiving:
            while numbers := self._receiving.recv(64):
                for number in numbers:
                    if number in STOP_SIGNALS:
                        self._request_from_thread(number)
                    else:
                        log_ignored("ignored", "signal ignored: %s", signal.Signals(number).name)

    def stop(self) -> None:
        """Stop without draining; safe to call from any thread."""
        self._request_from_thread(0)

    def _request_from_thread(self, number: int) -> None:
        self._on_request(number)
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            self._loop.call_soon_threadsafe(self._requests.put_nowait, number)

    async def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Return the next stop request: a signal number, or 0 for `stop`; None after `timeout_seconds` without any."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._requests.get()
        except TimeoutError:
            return None

    async def until_next_request(self, closing: Coroutine[None, None, None]) -> None:
        """Run `closing`, but cancel it when another stop request arrives."""
        close_task, stop_task = asyncio.ensure_future(closing), asyncio.ensure_future(self.wait())
        await asyncio.wait((close_task, stop_task), return_when=asyncio.FIRST_COMPLETED)
        for task in (close_task, stop_task):
            task.cancel()
        await asyncio.wait((close_task, stop_task))
        if not close_task.cancelled():
            close_task.result()
