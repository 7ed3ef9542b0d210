"""Keep the cached objects of one kind in sync with the API server: list, watch, retry with backoff, relist.

Mirrors client-go's Reflector (tools/cache/reflector.go: ListAndWatch, watchList, watchHandler). A lost watch resumes
from the last resourceVersion, so that no event is lost or repeated. An expired resourceVersion (410 Gone) costs one
relist. Beyond client-go: a list that is older than the cache is stale (an etcd restored from a backup, an API server
that lags) and takes effect only if a second list confirms it; and a watch without bookmarks for too long is broken.

Rule: the store receives complete lists and events in order, nothing in between; whatever the server sends, the loop
continues, and `state` tells how current the kind is.
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
"""Refusals, incomplete initial events or too large resourceVersions in a row that count as permanent."""

MAX_SILENT_WATCHES = 2
"""Consecutive watches without any line before a relist: only a list shows whether etcd was restored from a backup."""

UNREADABLE_PHASES = ("forbidden", "absent")


class Reflector:
    """List and watch one kind: `run` in its own thread; `stop`, `request_relist`, `list_metadata` from any."""

    def __init__(
        self,
        resource: Resource,
        api: ListerWatcher,
        decoder: ObjectDecoder,
        store: ReflectorStore,
        *,
        settings: WatchSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`jitter` returns a uniform random number in [0, 1)."""
        self.resource = resource
        self.state = ReflectorState()
        self._api = api
        self._store = store
        self._reader = ObjectReader(resource.kind, decoder, store, self.state, clock)
        self._settings = settings or WatchSettings()
        self._clock = clock
        self._wait = wait
        self._jitter = jitter
        self._stopped = threading.Event()
        self._relist_reason: str | None = None
        self._stream: Stream | None = None
        self._must_list = True
        self._use_initial_events = True
        self._initial: dict[Key, Value] | None = None
        """Objects of this watch's initial events so far; None once they are complete, or if none were requested."""
        self._cut_initial_events = 0
        self._accepted_at: float | None = None
        """Time at which the server accepted this watch."""
        self._has_received = self._has_progressed = False
        """True if this watch has received a line, and one that advanced the resourceVersion."""
        self._synced = False
        """True if the kind has been watched since it was last unreadable."""
        self._unreadable: str | None = None
        self._verb, self._logged_error = "list", ""
        self._silent_watches = self._consecutive_refusals = self._too_large = 0
        self._retry_backoff = Backoff(*self._settings.backoff, jitter)
        self._relist_backoff = Backoff(*self._settings.backoff, jitter)

    # --- for other threads ---

    def stop(self) -> None:
        """Make `run` return at once, interrupting any wait."""
        self._stopped.set()
        self._interrupt()

    def request_relist(self, reason: str) -> None:
        """Relist now, or as soon as the API server can be reached."""
        self._relist_reason = reason
        self._interrupt()

    def list_metadata(self) -> dict[Key, tuple[str, str]]:
        """Return (namespace, name) -> (uid, resourceVersion) from the API server; raises ApiError or ApiUnreachable."""

        def fetch(params: QueryParams) -> bytes:
            return self._api.get(self.resource.path, params, accept=list_watch.METADATA_ONLY_ACCEPT)

        return list_watch.list_resource_versions(fetch, self.resource.kind, self._settings.page_size)

    def _interrupt(self) -> None:
        stream = self._stream
        if stream is not None:
            stream.close()

    # --- the loop ---

    def run(self) -> None:
        """List and watch until `stop`, or until `state.fatal` is set."""
        while not self._stopped.is_set() and self.state.fatal is None:
            try:
                seconds = self._list_and_watch_once()
            except Exception as error:  # a bug must not end the sync; cached objects may be wrong now
                log.exception("unexpected error in the reflector of %s", self.resource.plural)
                self._schedule_relist("unexpected error")
                seconds = self._schedule_retry(error)
            if seconds > 0:
                self._wait(self._stopped, seconds)

    def _list_and_watch_once(self) -> float:
        """List if that is due, then watch until the watch ends; return the seconds to wait before the next round."""
        reason = self._relist_reason
        if reason is not None:
            self._relist_reason = None
            self._schedule_relist(reason)
        try:
            self._list_and_watch()
        except (ApiError, ApiUnreachable) as error:
            return 0.0 if self._is_interrupted() else self._handle_error(error)
        return 0.0 if self._is_interrupted() else self._handle_end()

    def _list_and_watch(self) -> None:
        self._accepted_at = self._initial = None
        if self._must_list:
            if self.state.phase not in UNREADABLE_PHASES:
                self.state.phase = "listing"
            if not self._use_initial_events:
                self._list()
        self._watch()

    def _is_interrupted(self) -> bool:
        return self._stopped.is_set() or self._relist_reason is not None

    def _schedule_relist(self, reason: str, must_decode: bool = True) -> None:
        """Make the next round begin with a list; `must_decode`: reuse no cached object."""
        log.info("relisting %s: %s", self.resource.plural, reason)
        self._must_list = True
        self._reader.must_decode |= must_decode
        self.state.relists += 1

    # --- list -------------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        objects: list[Value] = []
        version = ""
        for page in list_watch.list_pages(self._page, self.resource.kind, self._settings.page_size):
            self.state.last_contact = self._clock()
            version = page.metadata.resource_version
            for raw in page.items or ():
                meta = self._reader.read_metadata(raw)
                found = self._reader.read_listed(meta, raw) if meta is not None else None
                if found is not None:
                    objects.append(found)
        self._store_list(objects, version)

    def _page(self, params: QueryParams) -> bytes:
        with self._open(params, self._settings.list_timeout) as stream:
            return stream.read()

    def _store_list(self, objects: list[Value], version: str) -> None:
        """Pass a complete list to the store; one older than the cache only if the previous list was older, too."""
        if not self.state.regressed and list_watch.is_older_version(version, self.state.version):
            self.state.regressed = True
            self._regress(version)
        self._store.replace(self.resource.kind, objects, version)
        self._must_list = self._has_progressed = self._reader.must_decode = False
        self._too_large = 0
        self.state.version = version
        self.state.regressed = False
        self.state.phase = "listing"
        self.state.broken_since = None

    def _regress(self, version: str) -> NoReturn:
        """Relist after a list older than the cache: etcd was restored from a backup, or an API server lags."""
        reason = f"the API server is at resourceVersion {version}, the cache at {self.state.version}"
        self._schedule_relist(reason)
        raise ApiUnreachable(reason)

    # --- watch ------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Run one watch to its end; if a list is due, the watch starts with initial events (client-go's watchList)."""
        low, high = self._settings.watch_timeout_seconds
        seconds = int(low + self._jitter() * (high - low))
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        read_timeout = self._settings.idle_timeout
        if self._must_list:
            self._initial = {}
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            read_timeout = min(read_timeout, self._settings.initial_events_timeout)
        else:
            params |= {"resourceVersion": self.state.version}
        with self._open(params, read_timeout) as stream:
            self._mark_accepted()
            for lines in stream.lines():
                self.state.last_contact = self._clock()
                self._has_received = True
                self._take(lines)

    def _open(self, params: QueryParams, read_timeout: float) -> Stream:
        settings = self._settings
        self._verb = "watch" if "watch" in params else "list"
        timeouts = {"connect_timeout": settings.connect_timeout, "read_timeout": read_timeout}
        self._stream = self._api.stream(self.resource.path, params, **timeouts)
        if self._is_interrupted():
            self._stream.close()  # the interrupting thread may have closed the previous stream
        return self._stream

    def _mark_accepted(self) -> None:
        """Record that the server has accepted a watch."""
        self._accepted_at = self.state.last_contact = self._clock()
        self._has_received = self._has_progressed = False
        self._consecutive_refusals = self._too_large = 0
        if self._initial is None:
            self.state.watch_restarts += self._synced
            self._mark_synced()

    def _mark_synced(self) -> None:
        """Record that the kind is in sync: the store has everything so far, and later events will follow."""
        if self._logged_error:
            log.info("watch of %s re-established", self.resource.plural)
        self._logged_error = ""
        self._synced = True
        self._unreadable = None
        self.state.phase = "watching"
        self.state.broken_since = None

    def _take(self, lines: list[bytes]) -> None:
        """Pass the events of one read to the store, including those that precede an ERROR event."""
        changes: list[Change] = []
        try:
            for line in lines:
                found = self._reader.read_event(line) if self._initial is None else None
                if found is not None:
                    self._take_change(*found, changes)
                else:
                    self._take_event(list_watch.decode_event(line), changes)
        finally:
            if changes:
                self.state.events += len(changes)
                self._store.apply(self.resource.kind, changes)

    def _take_change(self, type_: str, found: Value, changes: list[Change]) -> None:
        changes.append(Change(self.resource.kind, found, type_ == "DELETED"))
        self._advance(version_of(found))

    def _take_event(self, event: WatchEvent, changes: list[Change]) -> None:
        meta = self._reader.read_metadata(event.object)
        if meta is None:
            return
        if event.type == "BOOKMARK":
            self._take_bookmark(meta)
        elif event.type not in list_watch.OBJECT_EVENT_TYPES:
            self._reader.skip(meta, f"unknown event type {event.type[:100]!r}")
        elif self._initial is not None:
            self._collect_initial(meta, event)
        else:
            deleted = event.type == "DELETED"
            found = (self._reader.read_deleted if deleted else self._reader.read_changed)(meta, event.object)
            if found is not None:
                changes.append(Change(self.resource.kind, found, deleted))
            self._advance(meta.version)

    def _take_bookmark(self, meta: PartialObjectMetadata) -> None:
        if meta.metadata is None:
            self._reader.skip(meta, "a bookmark without metadata")
        elif self._initial is None:
            if list_watch.is_older_version(meta.version, self.state.version):
                self._regress(meta.version)
            self._advance(meta.version)
        elif list_watch.ends_initial_events(meta):
            objects, self._initial = list(self._initial.values()), None
            self._cut_initial_events = 0
            self._store_list(objects, meta.version)
            self._mark_synced()
        else:
            self._list_in_pages("a bookmark without the initial-events-end annotation")

    def _collect_initial(self, meta: PartialObjectMetadata, event: WatchEvent) -> None:
        """Collect an initial event; the server may send changes among them."""
        assert self._initial is not None
        if event.type == "DELETED":
            self._initial.pop(meta.key, None)
        elif (found := self._reader.read_listed(meta, event.object)) is not None:
            self._initial[meta.key] = found
        if self._clock() - (self._accepted_at or 0.0) > self._settings.initial_events_timeout:
            self._list_in_pages("initial events timed out")

    def _list_in_pages(self, reason: str) -> NoReturn:
        log.info("falling back to paginated lists of %s: %s", self.resource.plural, reason)
        self._use_initial_events = False
        raise ApiUnreachable(reason)

    def _advance(self, version: str) -> None:
        """Advance the last resourceVersion; it never goes backwards if old events are repeated."""
        if version and version != self.state.version and not list_watch.is_older_version(version, self.state.version):
            self._has_progressed = True
            self.state.version = version

    # --- failures: each method returns the seconds to wait ----------------------------------------------------------

    def _handle_error(self, error: ApiError | ApiUnreachable) -> float:
        self._count_success()
        if isinstance(error, ApiUnreachable):
            return self._handle_no_response(error)
        if error.code in (403, 404):
            return self._handle_refusal(error)
        if list_watch.is_expired(error):
            self._schedule_relist(error.reason, must_decode=False)
            return self._schedule_retry(error, self._relist_backoff)
        if error.code in (400, 422) and self._initial is not None:
            log.debug("falling back to paginated lists of %s: %s", self.resource.plural, error)
            self._use_initial_events = False
            return 0.0
        if error.code in (400, 422) and not self._must_list:
            self._schedule_relist(f"the API server rejected resourceVersion {self.state.version}")
        if list_watch.is_too_large_version(error):
            self._too_large += 1
            if self._too_large == MAX_CONSECUTIVE_REFUSALS:
                self._schedule_relist("the API server does not reach the cached resourceVersion")
        retry_after = error.retry_after or (1.0 if error.code == 429 else 0.0)
        return self._schedule_retry(error, self._retry_backoff, min(retry_after, self._settings.max_retry_after))

    def _handle_no_response(self, error: ApiUnreachable) -> float:
        if self._initial is not None and self._accepted_at is not None:
            self._cut_initial_events += 1
            self._use_initial_events &= self._cut_initial_events < MAX_CONSECUTIVE_REFUSALS
        return self._schedule_retry(error)

    def _handle_refusal(self, error: ApiError) -> float:
        """Handle 403 and 404; the first ones after a success are retried: a starting API server sends them, too."""
        self._consecutive_refusals += 1
        if self.resource.core and error.code == 403 and not self._synced:
            self.state.fatal = f"no permission to {self._verb} {self.resource.plural}, which is required: {error}"
            log.error("%s", self.state.fatal)
            self._mark_broken(str(error))
            return 0.0
        if self.resource.core or (self._synced and self._consecutive_refusals < MAX_CONSECUTIVE_REFUSALS):
            return self._schedule_retry(error)
        self._drop_kind("forbidden" if error.code == 403 else "absent", error)
        return self._settings.unreadable_retry_seconds

    def _drop_kind(self, reason: str, error: ApiError) -> None:
        """Drop an optional kind until it is readable again."""
        state = self.state
        if self._unreadable != reason:
            seconds = self._settings.unreadable_retry_seconds
            log.warning("%s %s, retrying in %.1fs: %s", self.resource.plural, reason, seconds, error)
        if state.phase != reason:
            self._store.drop(self.resource.kind, reason)
        self._unreadable = state.phase = reason
        self._must_list, self._synced = True, False
        state.version, state.last_error = "", str(error)
        state.broken_since, state.regressed = None, False

    def _handle_end(self) -> float:
        """Handle the regular end of a watch; one that was very short counts as a failure."""
        is_success = self._count_success()
        if self._initial is not None:
            return self._handle_no_response(ApiUnreachable("the watch ended before its initial events were complete"))
        seconds = 0.0 if is_success else self._retry_backoff.next()
        if seconds > 0:
            self._mark_broken("very short watch: it ended without progress")
        return seconds

    def _schedule_retry(self, error: Exception, backoff: Backoff | None = None, at_least: float = 0.0) -> float:
        self._mark_broken(str(error))
        seconds = max((backoff or self._retry_backoff).next(), at_least)
        is_new = seconds > 0 and str(error) != self._logged_error  # a warning once, not at every retry
        self._logged_error = str(error) if is_new else self._logged_error
        level = logging.WARNING if is_new else logging.DEBUG
        log.log(level, "%s of %s failed, retrying in %.1fs: %s", self._verb, self.resource.plural, seconds, error)
        return seconds

    def _mark_broken(self, reason: str) -> None:
        state = self.state
        state.last_error = reason
        if state.phase not in UNREADABLE_PHASES:
            state.phase = "broken"
            if state.broken_since is None:
                state.broken_since = self._clock()
                state.interruptions += 1

    def _count_success(self) -> bool:
        """Return whether the watch was a success, because it lasted or advanced; if so, reset the backoff."""
        if self._accepted_at is None:
            return False
        lasted = self._clock() - self._accepted_at
        if lasted >= self._settings.min_watch_seconds:
            self._relist_backoff.reset()
        if lasted >= self._settings.min_watch_seconds or self._has_progressed:
            self._retry_backoff.reset()
        is_silent = not self._has_received
        self._silent_watches = self._silent_watches + (lasted >= self._settings.idle_timeout) if is_silent else 0
        if self._silent_watches == MAX_SILENT_WATCHES:
            self._silent_watches = 0
            self._schedule_relist(f"{MAX_SILENT_WATCHES} consecutive watches received nothing")
        return lasted >= self._settings.min_watch_seconds or self._has_progressed
