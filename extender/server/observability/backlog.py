"""What waits for the thread that writes: a queue with a limit in bytes.

Rule: whoever puts something in never waits. What has been taken out counts until the next is taken.
"""

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Backlog(Generic[T]):
    """One thread puts in, another one takes out."""

    def __init__(self, at_most: int) -> None:
        """Bytes."""
        self._at_most = at_most
        self._waiting: list[T] = []
        self._size = 0
        self._taken = 0
        self._ended = False
        self._more = threading.Condition()

    @property
    def size(self) -> int:
        """Bytes of what waits or is being written."""
        return self._size

    @property
    def is_waiting(self) -> bool:
        """Is there something that was not taken yet?"""
        return bool(self._waiting)

    def put(self, one: T, size: int) -> bool:
        """Put it at the end -> False if there is no room for it; a single one always has room."""
        with self._more:
            if self._size and self._size + size > self._at_most:
                return False
            self._waiting.append(one)
            self._size += size
            if len(self._waiting) == 1:
                self._more.notify()
            return True

    def take(self) -> list[T]:
        """Everything that waits, once there is something; nothing: there will never be any more."""
        with self._more:
            self._size -= self._taken
            self._taken = 0
            while not (self._waiting or self._ended):
                self._more.wait()
            taken, self._waiting, self._taken = self._waiting, [], self._size
            return taken

    def clear(self) -> list[T]:
        """Take out what waits, so that nobody else gets it."""
        with self._more:
            dropped, self._waiting, self._size = self._waiting, [], self._taken
            return dropped

    def end(self) -> None:
        """Nothing is put in any more."""
        with self._more:
            self._ended = True
            self._more.notify()
