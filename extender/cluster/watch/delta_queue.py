"""What the threads that list and watch hand over to the event loop.

Rule: in order, and bounded: a thread that is ahead of the loop waits.
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
PAUSE_SECONDS = 0.0005
"""After so many objects of a list a thread sleeps for so many seconds."""

MAX_QUEUED_OBJECTS = 20_000
"""Objects that may wait to be applied."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """All objects of a kind."""

    kind: str
    objects: Sequence[Value]
    version: str


@dataclass(frozen=True, slots=True)
class Deltas:
    """Events in their order."""

    kind: str
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """There are none ("absent"), or we may not know ("forbidden")."""

    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """Decisions will be made by another profile."""

    profile: Profile
    is_ready: asyncio.Event
    """To be set when the picture is."""
    kind: ClassVar[str] = "Pod"
    """What is to be listed anew if this fails."""


QueueItem = Replaced | Deltas | Unreadable | ProfileChange


class DeltaQueue:
    """A queue from many threads to one event loop; the Sink of reflectors."""

    def __init__(self, cache: ClusterCache, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._clock = clock
        self._items: deque[tuple[float, int, QueueItem]] = deque()
        self._waiting = 0
        self._lists: Counter[str] = Counter()
        """Kind -> lists that wait."""
        self._room = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._filled = asyncio.Event()
        self._closed = False
        self._read = 0

    # --- for the threads ---

    def known(self, kind: str, namespace: str, name: str) -> Value | None:
        self._give_way()
        return self._cache.api_object(kind, (namespace, name))

    def held(self, kind: str, key: Key) -> Value | None:
        return self._cache.api_object(kind, key) if self._lists[kind] == 0 else None

    def _give_way(self) -> None:
        """Asked for every object of a list: let the thread that decides go first, once there is something to decide on.

        Both need the interpreter; it goes from one to the other faster when the one sleeps than when the other asks.
        """
        self._read += 1  # by many threads, and so not exact
        if self._read % OBJECTS_PER_PAUSE == 0 and self._cache.version:
            time.sleep(PAUSE_SECONDS)

    def listed(self, kind: str, objects: list[Value], version: str) -> None:
        self._put(Replaced(kind, objects, version), len(objects))

    def changed(self, kind: str, changes: list[Change]) -> None:
        self._put(Deltas(kind, changes), len(changes))

    def unreadable(self, kind: str, why: str) -> None:
        self._put(Unreadable(kind, why), 1)

    def _put(self, item: QueueItem, weight: int) -> None:
        with self._room:
            self._room.wait_for(lambda: self._waiting < MAX_QUEUED_OBJECTS or self._closed)
            self._waiting += weight
            self._items.append((self._clock(), weight, item))
            self._lists[item.kind] += isinstance(item, Replaced)
            if self._loop is not None and not self._closed:
                self._loop.call_soon_threadsafe(self._filled.set)

    # --- for the event loop ---

    def policies(self, profile: Profile) -> asyncio.Event:
        """Let the picture be made ready for this profile, in its turn -> set when it is."""
        item = ProfileChange(profile, asyncio.Event())
        with self._room:
            self._items.append((self._clock(), 0, item))
        self._filled.set()
        return item.is_ready

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def close(self) -> None:
        """Nothing is read any more: nobody need wait."""
        with self._room:
            self._closed = True
            self._room.notify_all()

    async def next(self) -> QueueItem:
        """Wait for something to apply; it counts as waiting until `done`."""
        while not self._items:
            self._filled.clear()
            if not self._items:
                await self._filled.wait()
        return self._items[0][2]

    def done(self) -> None:
        """What `next` gave has been applied."""
        with self._room:
            _, weight, item = self._items.popleft()
            self._lists[item.kind] -= isinstance(item, Replaced)
            self._waiting -= weight
            self._room.notify_all()

    @property
    def oldest(self) -> float | None:
        """Since when the oldest thing waits."""
        return self._items[0][0] if self._items else None
