"""The admin listener in a thread with an event loop of its own, so that /livez does not wait for decisions.

Rule: the thread ends when the listener is closed. If it ends for any other reason, so does the process, with an error.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from extender.server.admin.decision_thread import DecisionThread
from extender.server.http.listener import Listener

log = logging.getLogger(__name__)


class AdminThread:
    """`open()`, then `close()`, both awaited on the event loop that decides."""

    def __init__(self, listener: Listener, decision_thread: DecisionThread, on_failure: Callable[[], None]) -> None:
        """`on_failure`: called on the admin thread if it ends before `close`, which then raises the error."""
        self._listener = listener
        self._decision_thread = decision_thread
        self._on_failure = on_failure
        self._opened: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._may_close = asyncio.Event()
        self._close_timeout_seconds = 0.0
        self._closing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the thread and wait until the listener accepts connections."""
        self._decision_thread.attach()
        threading.Thread(target=self._run, name="admin", daemon=True).start()
        await asyncio.wrap_future(self._opened)

    async def close(self, timeout_seconds: float) -> None:
        """Close the listener (`Listener.close`) and wait for the thread to end; if cancelled, cut requests short."""
        self._close_timeout_seconds = timeout_seconds
        self._call(self._may_close.set)
        ended = asyncio.wrap_future(self._ended)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            self._call(lambda: self._closing and self._closing.cancel())
            await ended
            raise

    def _call(self, function: Callable[[], object]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the thread has ended
                self._loop.call_soon_threadsafe(function)

    # --- on the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._opened.done():
                log.critical("the admin listener has ended", exc_info=True)
                self._ended.set_exception(error)
                self._on_failure()
            else:
                self._opened.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._listener.open()
        watching = asyncio.create_task(self._decision_thread.watch(), name="watch-decisions")
        self._opened.set_result(None)
        closing = asyncio.create_task(self._may_close.wait())
        await asyncio.wait((watching, closing), return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            watching.result()  # `watch` never returns, so this raises its error
        self._closing = asyncio.create_task(self._listener.close(self._close_timeout_seconds), name="admin-close")
        await asyncio.wait([self._closing])
        watching.cancel()
