"""The state of the fake API server: what its requests and its tests both reach for.

Rule: `changed` is the one lock; it is notified of every request, answer, watch, line and object.
"""

import threading
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from tests.fakes.access import Access
from tests.fakes.dry_run import Admit
from tests.fakes.faults import Faults
from tests.fakes.listing import Pages
from tests.fakes.requests import Request
from tests.fakes.storage import Event, Storage, whole
from tests.fakes.watches import Watch

JSON = dict[str, Any]


class State:
    """Objects, open watches, the script of faults and the record of requests."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.storage = Storage()
        self.pages = Pages(self.storage)
        self.access = Access()
        self.faults = Faults()
        self.requests: list[Request] = []
        """Every request since the beginning, in the order of arrival."""
        self.watches: list[Watch] = []
        self.lines: dict[str, int] = {}
        self.version: str | None = None
        """gitVersion that GET /version answers; None: the path is not there."""
        self.watch_list = False
        """Whether a watch may ask for the initial events, as with the feature gate WatchList."""
        self.expired_as_status = False
        """Whether a watch from too old a revision gets HTTP status 410, instead of 200 and an ERROR event."""
        self.admit: Admit = lambda _: ()
        """What a dry run makes of an object."""
        self.bookmark_every: float | None = None
        """Seconds between the bookmarks of a watch; read when a watch begins. None: on demand only."""
        self._next_bookmark: dict[Watch, float] = {}

    def put(self, kind: str, obj: JSON) -> JSON:
        """Creates or updates an object and tells its watches; returns the stored copy, as a GET does.

        The namespace is "default" if it is missing; the UID is that of the object it replaces, or a new one. An object
        that comes with another UID than the one that is there replaces it: DELETED, then ADDED.
        """
        with self.changed:
            events = self.storage.put(kind, obj)
            self.publish(events)
            return decoded(events[-1])

    def publish(self, events: Iterable[Event]) -> None:
        """Tells watches what has happened."""
        for event in events:
            for watch in self.watches:
                if watch.kind == event.kind:
                    watch.offer(event)
        self.changed.notify_all()

    def arrived(self, request: Request) -> None:
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()

    def answered(self, request: Request, status: int) -> None:
        with self.changed:
            request.status = status
            self.changed.notify_all()

    def opened(self, watch: Watch) -> None:
        with self.changed:
            self.watches.append(watch)
            if self.bookmark_every is not None:
                self._next_bookmark[watch] = time.monotonic() + self.bookmark_every
            self.changed.notify_all()

    def closed(self, watch: Watch) -> None:
        with self.changed:
            self.watches.remove(watch)
            self._next_bookmark.pop(watch, None)
            watch.close()
            self.changed.notify_all()

    def written(self, kind: str, count: int) -> None:
        with self.changed:
            self.lines[kind] = self.lines.get(kind, 0) + count
            self.changed.notify_all()

    def periodic_bookmark(self, watch: Watch) -> float | None:
        """Sends a bookmark if it is time for one; returns when the next is due."""
        due = self._next_bookmark.get(watch)
        if due is None or self.bookmark_every is None or time.monotonic() < due:
            return due
        with self.changed:
            watch.bookmark(self.storage.revision)
            self._next_bookmark[watch] = due = time.monotonic() + self.bookmark_every
        return due


def decoded(event: Event) -> JSON:
    """The object of an event."""
    obj: JSON = msgspec.json.decode(whole(event.kind, event.body))
    return obj
