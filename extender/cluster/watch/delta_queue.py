"""Queue the reflectors' lists and events for the event loop to apply (the counterpart of client-go's DeltaFIFO).

Unlike DeltaFIFO, deltas of one object are not merged: the cache ignores states that are not newer.

Rule: first in, first out, and bounded: a reflector's thread blocks while the queue is full.
"""

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from extender.cluster.cache.cache import Change, ClusterCache
from extender.core.profile import Profile
from extender.k8s.kinds import Key
from extender.k8s.objects import Value

OBJECTS_PER_PAUSE = 20
"""Objects of a list that a thread reads before it pauses for PAUSE_SECONDS."""

PAUSE_SECONDS = 0.0005
"""Length of a pause in seconds, in which the event loop gets the interpreter lock."""

MAX_QUEUED_OBJECTS = 20_000
"""Bound on the objects and events that are queued."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """All objects of a kind, from a list at resourceVersion `version` (DeltaFIFO's Replaced)."""

    kind: str
    objects: Sequence[Value]
    version: str


@dataclass(frozen=True, slots=True)
class Deltas:
    """Watch events of a kind, in order."""

    kind: str
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A kind without readable objects: "absent" (the API is not served) or "forbidden" (no permission)."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """A change of the profile that decisions use."""

    profile: Profile
    is_ready: asyncio.Event
    """Set once the cache is prepared for the profile."""
    kind: ClassVar[str] = "Pod"
    """Kind to relist if the change fails."""


QueueItem = Replaced | Deltas | Unreadable | ProfileChange


class DeltaQueue:
    """A queue from the reflectors' threads to one event loop; implements ReflectorStore."""

    def __init__(self, cache: ClusterCache, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._clock = clock
        self._items: deque[tuple[float, int, QueueItem]] = deque()
        self._waiting = 0
        self._lists: Counter[str] = Counter()
        """Kind -> queued lists."""
        self._condition = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._not_empty = asyncio.Event()
        self._closed = False
        self._reads = 0

    # --- for the reflectors' threads ---

    def get_for_list(self, kind: str, namespace: str, name: str) -> Value | None:
        self._yield_interpreter()
        return self._cache.api_object(kind, (namespace, name))

    def get_for_event(self, kind: str, key: Key) -> Value | None:
        return self._cache.api_object(kind, key) if self._lists[kind] == 0 else None

    def _yield_interpreter(self) -> None:
        """Pause every OBJECTS_PER_PAUSE objects of a list, once the cache has synced, to let the event loop run.

        Both threads need the interpreter lock. A sleeping thread releases it at once; a running one only when the
        switch interval has passed.
        """
        self._reads += 1  # incremented by several threads without a lock: an approximate count is enough
        if self._reads % OBJECTS_PER_PAUSE == 0 and self._cache.version:
            time.sleep(PAUSE_SECONDS)

    def replace(self, kind: str, objects: list[Value], version: str) -> None:
        self._put(Replaced(kind, objects, version), len(objects))

    def apply(self, kind: str, changes: list[Change]) -> None:
        self._put(Deltas(kind, changes), len(changes))

    def drop(self, kind: str, reason: str) -> None:
        self._put(Unreadable(kind, reason), 1)

    def _put(self, item: QueueItem, weight: int) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._waiting < MAX_QUEUED_OBJECTS or self._closed)
            self._waiting += weight
            self._items.append((self._clock(), weight, item))
            self._lists[item.kind] += isinstance(item, Replaced)
            if self._loop is not None and not self._closed:
                self._loop.call_soon_threadsafe(self._not_empty.set)

    # --- for the event loop ---

    def adopt(self, profile: Profile) -> asyncio.Event:
        """Queue the preparation of the cache for a profile; return an event that is set when it is done."""
        item = ProfileChange(profile, asyncio.Event())
        with self._condition:
            self._items.append((self._clock(), 0, item))
        self._not_empty.set()
        return item.is_ready

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def close(self) -> None:
        """Release threads that wait for room: the queue is not read any more."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    async def get(self) -> QueueItem:
        """Wait for the first item; it stays queued until `done` (as in a workqueue: Get, Done)."""
        while not self._items:
            self._not_empty.clear()
            if not self._items:
                await self._not_empty.wait()
        return self._items[0][2]

    def done(self) -> None:
        """Remove the item that `get` returned: it has been applied."""
        with self._condition:
            _, weight, item = self._items.popleft()
            self._lists[item.kind] -= isinstance(item, Replaced)
            self._waiting -= weight
            self._condition.notify_all()

    @property
    def oldest(self) -> float | None:
        """Return the clock time at which the first item was queued; None if the queue is empty."""
        return self._items[0][0] if self._items else None
