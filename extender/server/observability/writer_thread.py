"""A thread that writes items queued by another thread: log lines, audit lines, recordings, Events.

Rule: `put` never blocks. An item counts towards the limit until it is written.
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
        """`write` gets all queued items, in order; `close` is called when the thread ends."""
        super().__init__(name=name, daemon=True)
        self._max_bytes = max_bytes
        self._write = write
        self._close = close
        self._queue: deque[tuple[T, int]] = deque()
        """Items with their sizes."""
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        """One entry for each item, and one for the end."""
        self._taking = threading.Lock()
        # Each counter has one thread that writes it, because `+=` is not atomic.
        self._queued_bytes = self._written_bytes = 0
        self.is_ending = False
        """True once no further item is expected."""

    @property
    def size(self) -> int:
        """Bytes that are queued or being written."""
        return self._queued_bytes - self._written_bytes

    @property
    def has_queued(self) -> bool:
        """Return whether items wait to be taken by the thread."""
        return bool(self._queue)

    def put(self, item: T, size: int) -> bool:
        """Queue an item; return False if the queue is full. An empty queue accepts an item of any size."""
        # No lock: a garbage collection may log while its thread is in this method, and would wait for itself.
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
        """Let the thread end when the queued items are written."""
        self.is_ending = True
        self._wakeups.put(None)

    def finish(self, timeout: float) -> bool:
        """End the thread, and return whether it has written everything within `timeout` seconds."""
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
        # Without the lock, `clear` and the thread would alternate, and the written items would have gaps.
        with self._taking:
            while self._queue:
                taken.append(self._queue.popleft())
        return taken


def write_some(fd: int, data: memoryview) -> int:
    """Write as much as the file or pipe takes, and return the number of bytes; wait while a pipe is full."""
    while True:
        try:
            return os.write(fd, data)
        except BlockingIOError:  # another process that shares the pipe may have made it non-blocking
            full_pipe = select.poll()
            full_pipe.register(fd, select.POLLOUT)
            full_pipe.poll()
