"""A thread that writes what others have queued: log lines, audit lines, recordings, Events.

`put` takes no lock: a garbage collection may log while its thread holds one, and would wait for itself.

Rule: `put` never blocks. An item counts towards the limit until the next one is asked for, the last one of those that
were taken together until `write` returns.
"""

import os
import select
import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class WriterThread(threading.Thread, Generic[T]):
    """A daemon thread with a queue that is bounded in bytes; one other thread at a time queues items."""

    def __init__(
        self, name: str, max_bytes: int, write: Callable[[Iterator[T]], None], close: Callable[[], None] = lambda: None
    ) -> None:
        """`write` gets all items that are queued, in order; `close` is called at the end of the thread."""
        super().__init__(name=name, daemon=True)
        self._max_bytes = max_bytes
        self._write = write
        self._close = close
        self._queue: deque[tuple[T, int]] = deque()
        """Items with their sizes."""
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        """One for each item, and one for the end."""
        self._taking = threading.Lock()
        # One counter for each side, because `+=` is not atomic.
        self._queued_bytes = self._written_bytes = 0
        self.is_ending = False
        """True once no further item is expected."""

    @property
    def size(self) -> int:
        """Bytes of the items that are queued or being written."""
        return self._queued_bytes - self._written_bytes

    @property
    def has_queued(self) -> bool:
        """Return whether items wait that have not been taken to be written."""
        return bool(self._queue)

    def put(self, item: T, size: int) -> bool:
        """Queue an item; return False if the queue is full. An empty queue accepts an item of any size."""
        if size and self.size and self.size + size > self._max_bytes:
            return False
        self._queued_bytes += size
        self._queue.append((item, size))
        self._wakeups.put(None)
        return True

    def clear(self) -> list[T]:
        """Remove and return the queued items."""
        dropped = self._take_queued()
        self._queued_bytes -= sum(size for _, size in dropped)
        return [item for item, _ in dropped]

    def end(self) -> None:
        """End the thread once the queued items are written."""
        self.is_ending = True
        self._wakeups.put(None)

    def finish(self, timeout: float) -> bool:
        """Write the queued items, for at most `timeout` seconds; return False if the thread has not ended by then."""
        self.end()
        self.join(timeout)
        return not self.is_alive()

    def run(self) -> None:
        try:
            while not self.is_ending or self.has_queued:
                self._wakeups.get()
                taken = self._take_queued()
                written_bytes = self._written_bytes + sum(size for _, size in taken)
                if taken:
                    self._write(self._each(taken))
                self._written_bytes = written_bytes
        finally:
            self._close()

    def _each(self, taken: list[tuple[T, int]]) -> Iterator[T]:
        previous_size = 0
        for item, size in taken:
            self._written_bytes += previous_size
            yield item
            previous_size = size

    def _take_queued(self) -> list[tuple[T, int]]:
        taken = []
        # Without the lock, the thread and `clear` would take turns, and what is written would have gaps.
        with self._taking:
            while self._queue:
                taken.append(self._queue.popleft())
        return taken


def write_some(fd: int, data: memoryview) -> int:
    """Write a part of it and return its size; wait for a full pipe, also one that another process made non-blocking."""
    while True:
        try:
            return os.write(fd, data)
        except BlockingIOError:
            full_pipe = select.poll()
            full_pipe.register(fd, select.POLLOUT)
            full_pipe.poll()
