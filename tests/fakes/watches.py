"""Watches: a queue of lines for each client, and the loop that writes it out.

Rule: whoever offers holds the server's lock, so that every watch sees one order; only the loop writes.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from extender.k8s.kinds import kind_without_group
from tests.fakes.faults import CutEvent
from tests.fakes.http_server import LAST_CHUNK, Connection, chunk
from tests.fakes.kinds import resource_of
from tests.fakes.sockets import Waker
from tests.fakes.storage import Event, whole

BATCH = 256
"""How many lines are written at once when they queue up."""


@dataclass(frozen=True, slots=True)
class End:
    """The proper end of a watch."""


Item = Event | bytes | End


class Watch:
    """An open watch of a kind, which shows events after revision `after`."""

    def __init__(self, kind: str, after: int, *, bookmarks: bool = False, partial: bool = False) -> None:
        self.kind = kind
        self.after = after
        self.bookmarks = bookmarks
        self.partial = partial
        self.doubles = 0
        """How many of the next events are sent twice."""
        self.swapping = False
        """Whether the next two events are sent in swapped order."""
        self.sent: deque[Event] = deque(maxlen=1024)
        """The last events that were queued, for a replay."""
        self._held: Event | None = None
        self._queue: deque[Item] = deque()
        self._waker = Waker()

    def queue(self, items: Iterable[Item]) -> None:
        """Sends lines, events or the end, as they are."""
        self._queue.extend(items)
        self._waker.wake()

    def offer(self, event: Event) -> None:
        """Sends an event that happens now, with whatever is scripted for it."""
        if event.revision <= self.after:
            return
        if self.swapping and self._held is None:
            self._held = event
            return
        events = [event] if self._held is None else [event, self._held]
        self._held, self.swapping = None, False
        if self.doubles:
            self.doubles -= 1
            events = [event, *events]
        self.sent.extend(events)
        self.queue(events)

    def bookmark(self, revision: int, initial_end: bool = False) -> bool:
        """Sends a bookmark, if the client wants them and it would not go back nor pass an event that is held."""
        due = self.bookmarks and revision >= self.after and self._held is None
        if due:
            self.queue([bookmark_line(self.kind, revision, initial_end)])
        return due

    def run(
        self,
        connection: Connection,
        deadline: float | None,
        bookmark: Callable[["Watch"], float | None],
        written: Callable[[int], None],
        cut: CutEvent | None = None,
    ) -> bool:
        """Writes until the end; True if it was a proper one and the connection goes on.

        `bookmark` sends a periodic bookmark if it is time for one, and returns when the next is due.
        """
        connection.begin_stream()
        count = 0
        while True:
            self._waker.drain()
            due = bookmark(self)
            lines, ended = self._take()
            if lines:
                if cut is not None and count + len(lines) >= cut.nth:
                    return _cut(connection, lines[: cut.nth - count], cut)
                connection.send(b"".join(map(chunk, lines)))
                count += len(lines)
                written(len(lines))
            if ended or (deadline is not None and time.monotonic() >= deadline):
                connection.send(LAST_CHUNK)
                return True
            if not self._queue and not connection.wait(self._waker, _nearest(deadline, due)):
                return False

    def close(self) -> None:
        self._waker.close()

    def _take(self) -> tuple[list[bytes], bool]:
        lines: list[bytes] = []
        while self._queue and len(lines) < BATCH:
            item = self._queue.popleft()
            if isinstance(item, End):
                return lines, True
            lines.append(item if isinstance(item, bytes) else event_line(item, self.partial))
        return lines, False


def event_line(event: Event, partial: bool = False) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (event.type.encode(), whole(event.kind, event.body, partial))


def error_line(status: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"


def bookmark_line(kind: str, revision: int, initial_end: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    obj: dict[str, Any] = {
        "kind": kind_without_group(kind),
        "apiVersion": resource_of(kind).api_version,
        "metadata": metadata,
    }
    if kind == "Pod":  # what Go makes of an empty Pod
        obj |= {"spec": {"containers": None}, "status": {}}
    return msgspec.json.encode({"type": "BOOKMARK", "object": obj}) + b"\n"


def _nearest(deadline: float | None, due: float | None) -> float | None:
    """Seconds until the earlier of two times."""
    times = [moment for moment in (deadline, due) if moment is not None]
    return min(times) - time.monotonic() if times else None


def _cut(connection: Connection, lines: list[bytes], cut: CutEvent) -> bool:
    *before, last = lines
    half = last[: len(last) // 2]
    connection.send(b"".join(map(chunk, before)))
    if cut.how == "end":
        connection.send(chunk(half) + LAST_CHUNK)
        return True
    connection.send(b"%x\r\n%b" % (len(last), half))
    raise connection.drop(reset=cut.how == "reset")
