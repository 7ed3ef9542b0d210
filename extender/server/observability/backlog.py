"""A queue with a limit in bytes, between the thread that decides and a thread that writes.

Rule: `put` never blocks. Items that were taken count towards the limit until the next `take`, because the consumer
still holds them.
"""

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Backlog(Generic[T]):
    """A bounded queue with one producer and one consumer."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._waiting: list[T] = []
        self._size = 0
        self._taken = 0
        self._ended = False
        self._more = threading.Condition()

    @property
    def size(self) -> int:
        """Bytes of the items that are queued or being written."""
        return self._size

    @property
    def is_waiting(self) -> bool:
        """Return whether items are queued that were not taken yet."""
        return bool(self._waiting)

    def put(self, item: T, size: int) -> bool:
        """Append an item; return False if the queue is full. An empty queue accepts an item of any size."""
        with self._more:
            if self._size and self._size + size > self._max_bytes:
                return False
            self._waiting.append(item)
            self._size += size
            if len(self._waiting) == 1:
                self._more.notify()
            return True

    def take(self) -> list[T]:
        """Wait for items and take all of them; an empty list means that the queue was ended."""
        with self._more:
            self._size -= self._taken
            self._taken = 0
            while not (self._waiting or self._ended):
                self._more.wait()
            taken, self._waiting, self._taken = self._waiting, [], self._size
            return taken

    def clear(self) -> list[T]:
        """Remove and return the queued items, so that the consumer does not get them."""
        with self._more:
            dropped, self._waiting, self._size = self._waiting, [], self._taken
            return dropped

    def end(self) -> None:
        """Tell the consumer that no further item follows."""
        with self._more:
            self._ended = True
            self._more.notify()
