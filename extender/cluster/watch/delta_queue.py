"""Queue the lists and events of the reflectors for the event loop to apply (the counterpart of client-go's DeltaFIFO).

Unlike in DeltaFIFO, deltas of one object are not merged: the cache ignores states that are not newer.

Rule: first in, first out, and bounded: a reflector's thread blocks while the queue is full.
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from extender.cluster.cache.cache import Change, ClusterCache
from extender.k8s.kinds import Key
from extender.k8s.objects import Object

MAX_QUEUED_OBJECTS = 20_000  # Maximum number of queued objects and events


@dataclass(frozen=True, slots=True)
class Replaced:
    """All objects of a kind (DeltaFIFO's Replaced); none if its API is not served or list permission is missing."""

    kind: str
    objects: Sequence[Object]
    version: str  # resourceVersion of the list; empty without a list
    is_forbidden: bool = False  # True if list permission is missing: the objects are unknown


@dataclass(frozen=True, slots=True)
class Deltas:
    """Watch events of a kind, in order."""

    kind: str
    changes: Sequence[Change]


class DeltaQueue:
    """A queue from the reflectors' threads to one event loop (for a reflector, client-go's ReflectorStore)."""

    def __init__(self, cache: ClusterCache, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._clock = clock
        self._items: deque[tuple[float, int, Replaced | Deltas]] = deque()  # (clock time, number of objects, item)
        # Objects queued and objects applied; then lists queued and applied, by kind. Two counts instead of their
        # difference, because threads write the first and the loop the second, without a lock.
        self._put, self._taken = 0, 0
        self._lists: Counter[str] = Counter()
        self._lists_taken: Counter[str] = Counter()
        # Held by threads only, unless one of them waits for room: the loop must not wait for a thread.
        self._condition = threading.Condition()
        self._is_full = False  # True while a thread waits for room
        self._loop: asyncio.AbstractEventLoop | None = None
        self._not_empty = asyncio.Event()
        self._closed = False

    # --- for the reflectors' threads ---

    @property
    def has_synced(self) -> bool:
        """Whether the cache has been built; before that there are no cached objects to reuse."""
        return self._cache.version > 0

    def get_for_list(self, kind: str, key: Key) -> Object | None:
        """Return the cached object for an item of a list, so that an unchanged item is not decoded again."""
        return self._cache.api_object(kind, key)

    def get_for_event(self, kind: str, key: Key) -> Object | None:
        """Return the cached object for an event; None while a list that precedes the event is still queued."""
        return self._cache.api_object(kind, key) if self._lists[kind] == self._lists_taken[kind] else None

    def put(self, item: Replaced | Deltas) -> None:
        """Queue the item; block while the queue is full."""
        weight = len(item.objects) if isinstance(item, Replaced) else len(item.changes)
        with self._condition:
            self._condition.wait_for(self._has_room)
            self._put += weight
            self._lists[item.kind] += isinstance(item, Replaced)
            self._items.append((self._clock(), weight, item))
            # If the event is set already, the loop will look at the queue again before it waits.
            if self._loop is not None and not self._closed and not self._not_empty.is_set():
                self._loop.call_soon_threadsafe(self._not_empty.set)

    def _has_room(self) -> bool:
        # Set before the room is checked: `done` counts without the lock, and may make room in between.
        self._is_full = self._is_full or self._put - self._taken >= MAX_QUEUED_OBJECTS
        return self._put - self._taken < MAX_QUEUED_OBJECTS or self._closed

    # --- for the event loop ---

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def close(self) -> None:
        """Release the threads that wait for room, because reading has ended."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    async def get(self) -> Replaced | Deltas:
        """Wait for the first item; it stays queued until `done` (as in a workqueue: Get, Done)."""
        while not self._items:
            self._not_empty.clear()
            if not self._items:
                await self._not_empty.wait()
        return self.first

    def __len__(self) -> int:
        return len(self._items)

    @property
    def first(self) -> Replaced | Deltas:
        """The item that was queued first; the queue must not be empty."""
        return self._items[0][2]

    def done(self) -> None:
        """Remove the first item, which has been applied."""
        _, weight, item = self._items.popleft()
        self._lists_taken[item.kind] += isinstance(item, Replaced)
        self._taken += weight
        if self._is_full:
            with self._condition:
                self._is_full = False
                self._condition.notify_all()

    @property
    def oldest(self) -> float | None:
        """Clock time at which the first item was queued; None if the queue is empty."""
        return self._items[0][0] if self._items else None
