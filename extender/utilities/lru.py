"""A dict of the most recently used entries.

Rule: an LRU never holds more entries than its limit.
"""

from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRU(dict[K, V]):
    """At most `max_entries` entries, the least recently used first; beyond the limit, a new entry replaces the first.

    Only `use`, `put` and `use_or_make` count as a use: the methods of dict read and remove without changing the order.
    """

    def __init__(self, max_entries: int) -> None:
        super().__init__()
        self.max_entries = max_entries

    def use(self, key: K) -> V | None:
        """Return the value and mark it as the most recently used; None if the key is missing."""
        if key not in self:
            return None
        value = self[key] = self.pop(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Store the value as the most recently used one."""
        self.pop(key, None)  # assigning to an existing key would not move it to the end
        self[key] = value
        if len(self) > self.max_entries:
            self.pop_oldest()

    def use_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the value, made and stored if the key is missing."""
        value = self.use(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def pop_oldest(self) -> V:
        """Remove the least recently used entry and return its value."""
        return self.pop(next(iter(self)))
