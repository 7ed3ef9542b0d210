"""A thread that writes what the thread that decides has queued: audit lines, recordings.

Rule: `put` never blocks. Items that are being written count towards the limit until all items taken with them are
written.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class WriterThread(threading.Thread, Generic[T]):
    """A daemon thread with a queue that is bounded in bytes; one other thread queues items."""

    def __init__(self, name: str, max_bytes: int, write: Callable[[list[T]], None], close: Callable[[], None]) -> None:
        """`write` gets the queued items, all at once and in order; `close` is called at the end of the thread."""
        super().__init__(name=name, daemon=True)
        self._max_bytes = max_bytes
        self._write = write
        self._close = close
        self._queue: list[T] = []
        self._queued_bytes = 0
        self._bytes_in_writing = 0
        self.is_ending = False
        """True once no further item is expected."""
        self._changed = threading.Condition()

    @property
    def size(self) -> int:
        """Bytes of the items that are queued or being written."""
        return self._queued_bytes + self._bytes_in_writing

    def put(self, item: T, size: int) -> bool:
        """Queue an item; return False if the queue is full. An empty queue accepts an item of any size."""
        with self._changed:
            if self.size and self.size + size > self._max_bytes:
                return False
            self._queue.append(item)
            self._queued_bytes += size
            self._changed.notify()
            return True

    def clear(self) -> list[T]:
        """Remove and return the queued items."""
        with self._changed:
            dropped, self._queue, self._queued_bytes = self._queue, [], 0
            return dropped

    def end(self) -> None:
        """End the thread once the queued items are written."""
        with self._changed:
            self.is_ending = True
            self._changed.notify()

    def finish(self, timeout: float) -> bool:
        """Write the queued items, for at most `timeout` seconds; return False if the thread has not ended by then."""
        self.end()
        self.join(timeout)
        return not self.is_alive()

    def run(self) -> None:
        try:
            while items := self._take():
                self._write(items)
        finally:
            self._close()

    def _take(self) -> list[T]:
        """Wait for items and take all of them; an empty list ends the thread."""
        with self._changed:
            self._bytes_in_writing = 0
            self._changed.wait_for(lambda: self._queue or self.is_ending)
            taken, self._queue = self._queue, []
            self._bytes_in_writing, self._queued_bytes = self._queued_bytes, 0
            return taken
