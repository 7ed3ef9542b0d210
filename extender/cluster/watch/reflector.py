"""Keep one kind of objects equal to the API server's: list, watch, and after any fault whichever of the two is needed.

A lost connection is taken up from the last resourceVersion: nothing is lost and nothing comes twice. A version that
the server has forgotten (410) costs one new list. A list that is older than what is held is not believed before a
second one says the same. Silence is a fault too: bookmarks are expected every minute.

Rule: the sink hears of whole lists and of events in their order, nothing in between; whatever the server sends, the
loop goes on, and `status` says how true the picture is.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from extender.cluster.apiserver.stream import ApiError, ApiUnreachable, Stream
from extender.cluster.cache.cache import Change, version_of
from extender.cluster.watch import list_watch
from extender.cluster.watch.list_watch import (
    Backoff,
    ListerWatcher,
    ObjectDecoder,
    PartialObjectMetadata,
    QueryParams,
    ReflectorState,
    ReflectorStore,
    Resource,
    WatchEvent,
    WatchSettings,
)
from extender.cluster.watch.object_reader import ObjectReader
from extender.k8s.kinds import Key
from extender.k8s.objects import Value

log = logging.getLogger(__name__)

MAX_CONSECUTIVE_REFUSALS = 3
"""After so many refusals, cut initial events or too large versions in a row, the server is taken at its word."""

MAX_SILENT_WATCHES = 2
"""After so many watches in a row that brought nothing at all, the server may have gone back: only a list can tell."""

UNREADABLE_PHASES = ("forbidden", "absent")


class Reflector:
    """Follows one kind. `run` in a thread of its own; `stop`, `request_relist` and `metadata_list` from any other."""

    def __init__(
        self,
        resource: Resource,
        api: ListerWatcher,
        decoder: ObjectDecoder,
        sink: ReflectorStore,
        *,
        settings: WatchSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`chance` is uniform in [0, 1)."""
        self.resource = resource
        self.status = ReflectorState()
        self._api = api
        self._sink = sink
        self._reader = ObjectReader(resource.kind, decoder, sink, self.status, clock)
        self._settings = settings or WatchSettings()
        self._clock = clock
        self._wait = wait
        self._chance = chance
        self._stopped = threading.Event()
        self._relist_wanted: str | None = None
        self._stream: Stream | None = None
        self._must_list = True
        self._asks_initial_events = True
        self._initial: dict[Key, Value] | None = None
        """The initial events of this watch so far; None once they are complete."""
        self._cut_initial_events = 0
        self._answered_at: float | None = None
        """When this watch was accepted."""
        self._heard = self._progress = False
        """Whether this watch has brought a line, and one that was news."""
        self._synced = False
        """Whether we have followed since the kind was last unreadable."""
        self._unreadable: str | None = None
        self._verb = self._told = ""
        self._silences = self._refusals = self._too_large = 0
        self._retry = Backoff(*self._settings.backoff, chance)
        self._relist = Backoff(*self._settings.backoff, chance)

    # --- for other threads ---

    def stop(self) -> None:
        """End `run`, whatever it waits for."""
        self._stopped.set()
        self._interrupt()

    def request_relist(self, reason: str) -> None:
        """Make the reflector list everything anew, now or, if the server cannot be reached, as soon as it can."""
        self._relist_wanted = reason
        self._interrupt()

    def metadata_list(self) -> dict[Key, tuple[str, str]]:
        """Return (namespace, name) -> (uid, resourceVersion) as the server has it; ApiError, ApiUnreachable."""

        def fetch(params: QueryParams) -> bytes:
            return self._api.get(self.resource.path, params, accept=list_watch.METADATA_ONLY_ACCEPT)

        return list_watch.list_resource_versions(fetch, self.resource.kind, self._settings.page_size)

    def _interrupt(self) -> None:
        stream = self._stream
        if stream is not None:
            stream.close()

    # --- the loop ---

    def run(self) -> None:
        """Follow the server until `stop`, or until `status.fatal` says why that is pointless."""
        while not self._stopped.is_set() and self.status.fatal is None:
            try:
                seconds = self._round()
            except Exception as error:  # a bug of ours must not end the following; what is held may be wrong now
                log.exception("%s: unexpected error", self.resource.kind)
                self._order_list("after an unexpected error")
                seconds = self._broken(error)
            if seconds > 0:
                self._wait(self._stopped, seconds)

    def _round(self) -> float:
        """List if that is due and watch until the watch ends; return how long to wait before the next round."""
        reason = self._relist_wanted
        if reason is not None:
            self._relist_wanted = None
            self._order_list(reason)
        try:
            self._list_and_watch()
        except (ApiError, ApiUnreachable) as error:
            return 0.0 if self._interrupted() else self._after(error)
        return 0.0 if self._interrupted() else self._after_the_end()

    def _list_and_watch(self) -> None:
        self._answered_at = self._initial = None
        if self._must_list:
            if self.status.phase not in UNREADABLE_PHASES:
                self.status.phase = "listing"
            if not self._asks_initial_events:
                self._list()
        self._watch()

    def _interrupted(self) -> bool:
        return self._stopped.is_set() or self._relist_wanted is not None

    def _order_list(self, reason: str, doubt: bool = True) -> None:
        """Have everything listed anew; and decoded anew, where there is doubt about what is held."""
        log.info("%s: listing anew: %s", self.resource.kind, reason)
        self._must_list = True
        self._reader.doubts |= doubt
        self.status.relists += 1

    # --- list -------------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        objects: list[Value] = []
        version = ""
        for page in list_watch.list_pages(self._page, self.resource.kind, self._settings.page_size):
            self.status.last_contact = self._clock()
            version = page.metadata.resource_version
            for raw in page.items or ():
                head = self._reader.head(raw)
                found = self._reader.listed(head, raw) if head is not None else None
                if found is not None:
                    objects.append(found)
        self._listed(objects, version)

    def _page(self, params: QueryParams) -> bytes:
        with self._open(params, self._settings.list_timeout) as stream:
            return stream.read()

    def _listed(self, objects: list[Value], version: str) -> None:
        """Hand over a complete list; one that is older than what we hold only if the list before it was, too."""
        if not self.status.regressed and list_watch.is_older_version(version, self.status.version):
            self.status.regressed = True
            self._gone_back(version)
        self._sink.listed(self.resource.kind, objects, version)
        self._must_list = self._progress = self._reader.doubts = False
        self._too_large = 0
        self.status.version = version
        self.status.regressed = False
        self.status.phase = "listing"
        self.status.broken_since = None

    def _gone_back(self, version: str) -> NoReturn:
        """An etcd was restored from a backup, or the server is another one."""
        why = f"the server is at version {version}, we hold {self.status.version}"
        self._order_list(why)
        raise ApiUnreachable(why)

    # --- watch ------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Follow one watch to its end; where a list is due, the watch begins with it."""
        low, high = self._settings.watch_seconds
        seconds = int(low + self._chance() * (high - low))
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        patience = self._settings.silence
        if self._must_list:
            self._initial = {}
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            patience = min(patience, self._settings.initial_events)
        else:
            params |= {"resourceVersion": self.status.version}
        with self._open(params, patience) as stream:
            self._accepted()
            for lines in stream.lines():
                self.status.last_contact = self._clock()
                self._heard = True
                self._take(lines)

    def _open(self, params: QueryParams, patience: float) -> Stream:
        settings = self._settings
        self._verb = "watch" if "watch" in params else "list"
        timeouts = {"connect_timeout": settings.connect_timeout, "read_timeout": patience}
        self._stream = self._api.stream(self.resource.path, params, **timeouts)
        if self._interrupted():
            self._stream.close()  # whoever interrupts may have seen the stream before this one
        return self._stream

    def _accepted(self) -> None:
        """The server has begun to answer a watch."""
        self._answered_at = self.status.last_contact = self._clock()
        self._heard = self._progress = False
        self._refusals = self._too_large = 0
        if self._initial is None:
            self.status.watch_restarts += self._synced
            self._follows()

    def _follows(self) -> None:
        """All that happened so far has been handed over, and what happens from now on will come."""
        if self._told:
            log.info("%s: followed again", self.resource.kind)
        self._told = ""
        self._synced = True
        self._unreadable = None
        self.status.phase = "watching"
        self.status.broken_since = None

    def _take(self, lines: list[bytes]) -> None:
        """Hand over what one read brought; what comes before an error counts."""
        changes: list[Change] = []
        try:
            for line in lines:
                found = self._reader.event(line) if self._initial is None else None
                if found is not None:
                    self._take_change(*found, changes)
                else:
                    self._take_event(list_watch.decode_event(line), changes)
        finally:
            if changes:
                self.status.events += len(changes)
                self._sink.changed(self.resource.kind, changes)

    def _take_change(self, type_: str, found: Value, changes: list[Change]) -> None:
        changes.append(Change(self.resource.kind, found, type_ == "DELETED"))
        self._reached(version_of(found))

    def _take_event(self, event: WatchEvent, changes: list[Change]) -> None:
        head = self._reader.head(event.object)
        if head is None:
            return
        if event.type == "BOOKMARK":
            self._take_bookmark(head)
        elif event.type not in list_watch.OBJECT_EVENT_TYPES:
            self._reader.skip(head, f"unknown event type {event.type[:100]!r}")
        elif self._initial is not None:
            self._gather(head, event)
        else:
            deleted = event.type == "DELETED"
            found = (self._reader.deleted if deleted else self._reader.changed)(head, event.object)
            if found is not None:
                changes.append(Change(self.resource.kind, found, deleted))
            self._reached(head.version)

    def _take_bookmark(self, head: PartialObjectMetadata) -> None:
        if head.metadata is None:
            self._reader.skip(head, "a bookmark without metadata")
        elif self._initial is None:
            if list_watch.is_older_version(head.version, self.status.version):
                self._gone_back(head.version)
            self._reached(head.version)
        elif list_watch.ends_initial_events(head):
            objects, self._initial = list(self._initial.values()), None
            self._cut_initial_events = 0
            self._listed(objects, head.version)
            self._follows()
        else:
            self._list_in_pages("the server does not mark the end of initial events")

    def _gather(self, head: PartialObjectMetadata, event: WatchEvent) -> None:
        """Keep an initial event; changes may come among them."""
        assert self._initial is not None
        if event.type == "DELETED":
            self._initial.pop(head.key, None)
        elif (found := self._reader.listed(head, event.object)) is not None:
            self._initial[head.key] = found
        if self._clock() - (self._answered_at or 0.0) > self._settings.initial_events:
            self._list_in_pages("the initial events take too long")

    def _list_in_pages(self, why: str) -> NoReturn:
        log.info("%s: listing in pages from now on: %s", self.resource.kind, why)
        self._asks_initial_events = False
        raise ApiUnreachable(why)

    def _reached(self, version: str) -> None:
        """Remember how far we are; never an earlier place, should old events come again."""
        if version and version != self.status.version and not list_watch.is_older_version(version, self.status.version):
            self._progress = True
            self.status.version = version

    # --- what to do after an error: each returns the seconds to wait ------------------------------------------------

    def _after(self, error: ApiError | ApiUnreachable) -> float:
        self._count_success()
        if isinstance(error, ApiUnreachable):
            return self._after_no_answer(error)
        if error.code in (403, 404):
            return self._after_refusal(error)
        if list_watch.is_expired(error):
            self._order_list(error.reason, doubt=False)
            return self._broken(error, self._relist)
        if error.code in (400, 422) and self._initial is not None:
            log.debug("%s: listing in pages from now on: %s", self.resource.kind, error)
            self._asks_initial_events = False
            return 0.0
        if error.code in (400, 422) and not self._must_list:
            self._order_list(f"the server does not understand version {self.status.version}")
        if list_watch.is_too_large_version(error):
            self._too_large += 1
            if self._too_large == MAX_CONSECUTIVE_REFUSALS:
                self._order_list("the server does not get to our version")
        asked = error.retry_after or (1.0 if error.code == 429 else 0.0)
        return self._broken(error, self._retry, min(asked, self._settings.longest_retry_after))

    def _after_no_answer(self, error: ApiUnreachable) -> float:
        if self._initial is not None and self._answered_at is not None:
            self._cut_initial_events += 1
            self._asks_initial_events &= self._cut_initial_events < MAX_CONSECUTIVE_REFUSALS
        return self._broken(error)

    def _after_refusal(self, error: ApiError) -> float:
        """403 or 404. What was allowed before may be refused for a moment by a server that has just started."""
        self._refusals += 1
        if self.resource.core and error.code == 403 and not self._synced:
            self.status.fatal = f"no permission to {self._verb} {self.resource.plural}, which must be read: {error}"
            log.error("%s", self.status.fatal)
            self._fell_behind(str(error))
            return 0.0
        if self.resource.core or (self._synced and self._refusals < MAX_CONSECUTIVE_REFUSALS):
            return self._broken(error)
        self._give_up("forbidden" if error.code == 403 else "absent", error)
        return self._settings.refused

    def _give_up(self, why: str, error: ApiError) -> None:
        """Do without an optional kind for a while."""
        status = self.status
        if self._unreadable != why:
            log.warning("%s: %s: %s", self.resource.kind, why, error)
        if status.phase != why:
            self._sink.unreadable(self.resource.kind, why)
        self._unreadable = status.phase = why
        self._must_list, self._synced = True, False
        status.version, status.last_error = "", str(error)
        status.broken_since, status.regressed = None, False

    def _after_the_end(self) -> float:
        """A watch ended as it should. One that ends as soon as it has begun is a failure all the same."""
        healthy = self._count_success()
        if self._initial is not None:
            return self._after_no_answer(ApiUnreachable("the watch ended before its initial events did"))
        seconds = 0.0 if healthy else self._retry.next()
        if seconds > 0:
            self._fell_behind("the watch ended as soon as it had begun")
        return seconds

    def _broken(self, error: Exception, backoff: Backoff | None = None, at_least: float = 0.0) -> float:
        self._fell_behind(str(error))
        seconds = max((backoff or self._retry).next(), at_least)
        is_news = seconds > 0 and str(error) != self._told  # said once, not at every try
        self._told = str(error) if is_news else self._told
        level = logging.WARNING if is_news else logging.DEBUG
        log.log(level, "%s: again in %.1f s: %s", self.resource.kind, seconds, error)
        return seconds

    def _fell_behind(self, why: str) -> None:
        status = self.status
        status.last_error = why
        if status.phase not in UNREADABLE_PHASES:
            status.phase = "broken"
            if status.broken_since is None:
                status.broken_since = self._clock()
                status.interruptions += 1

    def _count_success(self) -> bool:
        """Return whether the watch lasted or brought news: then it was no failure. Silence is no proof of anything."""
        if self._answered_at is None:
            return False
        lasted = self._clock() - self._answered_at
        if lasted >= self._settings.healthy:
            self._relist.reset()
        if lasted >= self._settings.healthy or self._progress:
            self._retry.reset()
        self._silences = 0 if self._heard else self._silences + (lasted >= self._settings.silence)
        if self._silences == MAX_SILENT_WATCHES:
            self._silences = 0
            self._order_list(f"{MAX_SILENT_WATCHES} watches in a row brought nothing")
        return lasted >= self._settings.healthy or self._progress
