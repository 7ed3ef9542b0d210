"""Intern values: keep one object for equal values, while they are in use.

Rule: a bound on every table, whatever is put in.
"""

from typing import Any, TypeVar

import msgspec

MAX_INTERNED_VALUES = 10_000  # Bound on each of the two generations of values in an InternPool

MAX_INTERNED_BYTES = 4 << 20
"""Bound on the JSON of each of the two generations: thousands of templates, but only a few pods of hostile length."""

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()


class InternPool:
    """Intern values: return the same object for equal values, while they are in use.

    Two generations bound the memory: when the recent one is full it replaces the previous one, and a value that is used
    again moves to the recent one. A value that is not used for two generations is forgotten.
    """

    def __init__(self) -> None:
        self._recent: dict[str | bytes, Any] = {}
        self._previous: dict[str | bytes, Any] = {}
        self._recent_bytes = 0

    def get(self, key: str | bytes, value: T) -> T:
        """Return the value interned under the key, or intern `value` and return it."""
        known: T | None = self._recent.get(key)
        if known is not None:
            return known
        if len(self._recent) >= MAX_INTERNED_VALUES or self._recent_bytes + len(key) > MAX_INTERNED_BYTES:
            self._recent, self._previous, self._recent_bytes = {}, self._recent, 0
        kept: T = self._previous.get(key, value)
        self._recent[key] = kept
        self._recent_bytes += len(key)
        return kept

    def has(self, key: str | bytes) -> bool:
        return key in self._recent or key in self._previous

    def text(self, value: str) -> str:
        """Intern a string."""
        return self.get(value, value) if value else value

    def intern(self, value: T) -> T:
        """Intern a value by its JSON; None and empty values are returned as they are."""
        return self.get(_ENCODER.encode(value), value) if value else value
