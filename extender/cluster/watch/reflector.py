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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from extender.cluster.apiserver.client import ApiServer, QueryParams
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable, Stream
from extender.cluster.cache.cache import Change, compare_resource_versions, identity
from extender.cluster.watch import list_watch
from extender.cluster.watch.decode import Decoder
from extender.cluster.watch.delta_queue import DeltaQueue, Deltas, Replaced
from extender.cluster.watch.list_watch import (
    UNREADABLE_PHASES,
    PartialObjectMetadata,
    ReflectorState,
    Resource,
    WatchSettings,
)
from extender.cluster.watch.object_reader import ObjectReader
from extender.cluster.watch.retry import MAX_CONSECUTIVE_REFUSALS, MAX_SILENT_WATCHES, Outage, RetryTimer
from extender.k8s.kinds import Key
from extender.k8s.objects import Object

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Reflector:
    """List and watch one kind: `run` in its own thread; `stop`, `request_relist`, `list_metadata` from any."""

    resource: Resource
    api: ApiServer
    decoder: Decoder
    store: DeltaQueue
    settings: WatchSettings = field(default_factory=WatchSettings)
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[threading.Event, float], object] = threading.Event.wait
    jitter: Callable[[], float] = random.random
    """Returns a uniform random number in [0, 1)."""
    outage: Outage | None = None
    """Shared by all reflectors of an API server; None if this is the only one."""

    def __post_init__(self) -> None:
        self.state = ReflectorState()
        self._path = list_watch.ServedPath(self.resource)
        self._reader = ObjectReader(self.resource.kind, self.decoder, self.store, self.state, self.clock)
        self._retry = RetryTimer(self.outage or Outage(self.clock), self._new_backoff, self.wait, self.jitter)
        self._relist_reason: str | None = None
        self._stream: Stream | None = None
        self._must_list = True
        self._use_initial_events = True
        self._fallback_reason: str | None = None
        """Reason why initial events failed, until a list in pages has succeeded instead."""
        self._initial: dict[Key, Object] | None = None
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
        self._relist_backoff = self._new_backoff()

    def _new_backoff(self) -> Iterator[float]:
        return list_watch.backoff(*self.settings.backoff, self.jitter)

    # --- for other threads ---

    def stop(self) -> None:
        """Make `run` return at once, interrupting any wait."""
        self._retry.stop()
        self._interrupt()

    def request_relist(self, reason: str) -> None:
        """Relist now, or as soon as the API server can be reached."""
        self._relist_reason = reason
        self._interrupt()

    def list_metadata(self) -> dict[Key, tuple[str, str]]:
        """Return (namespace, name) -> (uid, resourceVersion) from the API server; raises ApiError or ApiUnreachable."""

        def fetch(params: QueryParams) -> bytes:
            return self.api.get(self._path.current, params, accept=list_watch.METADATA_ONLY_ACCEPT)

        return list_watch.list_metadata(fetch, self.resource.kind, self.settings.page_size)

    def _interrupt(self) -> None:
        stream = self._stream
        if stream is not None:
            stream.close()

    # --- the loop ---

    def run(self) -> None:
        """List and watch until `stop`, or until `state.fatal` is set."""
        while not self._retry.stopped.is_set() and self.state.fatal is None:
            self._retry.begin()
            try:
                seconds = self._list_and_watch()
            except Exception as error:  # a bug must not end the sync; cached objects may be wrong now
                log.exception("unexpected error in the reflector of %s", self.resource.plural)
                self._schedule_relist("unexpected error")
                seconds = self._schedule_retry(error)
            if seconds > 0:
                self._retry.sleep(seconds)

    def _list_and_watch(self) -> float:
        """List if that is due, then watch until the watch ends; return the seconds to wait before the next round."""
        reason = self._relist_reason
        if reason is not None:
            self._relist_reason = None
            self._schedule_relist(reason)
        self._accepted_at = self._initial = None
        if self._must_list and self.state.phase not in UNREADABLE_PHASES:
            self.state.phase = "listing"
        failure: ApiError | ApiUnreachable | None = None
        try:
            if self._must_list and not self._use_initial_events:
                self._list()
            self._watch()
        except (ApiError, ApiUnreachable) as error:
            failure = error
        if self._is_interrupted():
            return 0.0
        is_success = self._count_success()
        if failure is not None:
            return self._handle_error(failure)
        seconds = 0.0 if is_success else self._retry.delay()
        if seconds > 0:
            self.state.mark_broken("very short watch: it ended without progress", self.clock())
        return seconds

    def _is_interrupted(self) -> bool:
        return self._retry.stopped.is_set() or self._relist_reason is not None

    def _schedule_relist(self, reason: str, must_decode: bool = True) -> None:
        """Make the next round begin with a list; `must_decode`: reuse no cached object."""
        log.info("relisting %s: %s", self.resource.plural, reason)
        self._must_list = True
        self._reader.must_decode |= must_decode
        self.state.relists += 1

    # --- list -------------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        def fetch(params: QueryParams) -> bytes:
            with self._open(params, self.settings.list_timeout) as stream:
                self._retry.succeed()
                return stream.read()

        objects: list[Object] = []
        version = ""
        for page in list_watch.list_pages(fetch, self.resource.kind, self.settings.page_size):
            self.state.last_contact = self.clock()
            version = page.metadata.resource_version
            found = map(self._reader.read_item, page.items or ())
            objects += [one for one in found if one is not None]
        self._store_list(objects, version)

    def _store_list(self, objects: list[Object], version: str) -> None:
        """Pass a complete list to the store; one older than the cache only if the previous list was older, too."""
        if not self.state.regressed and compare_resource_versions(version, self.state.version) < 0:
            self.state.regressed = True
            self._regress(version)
        self.store.put(Replaced(self.resource.kind, objects, version))
        if self._fallback_reason is not None:
            log.info("listing %s in pages, initial events failed: %s", self.resource.plural, self._fallback_reason)
            self._fallback_reason = None
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
        low, high = self.settings.watch_timeout_seconds
        seconds = int(low + self.jitter() * (high - low))
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        read_timeout = self.settings.idle_timeout
        if self._must_list:
            self._initial = {}
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            read_timeout = min(read_timeout, self.settings.initial_events_timeout)
        else:
            params |= {"resourceVersion": self.state.version}
        with self._open(params, read_timeout) as stream:
            self._retry.succeed()
            self._accepted_at = self.state.last_contact = self.clock()
            self._has_received = self._has_progressed = False
            self._consecutive_refusals = self._too_large = 0
            self._path.found()
            if self._initial is None:
                self.state.watch_restarts += self._synced
                self._mark_synced()
            for lines in stream.lines():
                self.state.last_contact = self.clock()
                self._has_received = True
                self._take(lines)
        if self._initial is not None:
            raise ApiUnreachable("the watch ended before its initial events were complete")

    def _open(self, params: QueryParams, read_timeout: float) -> Stream:
        self._verb = "watch" if "watch" in params else "list"
        timeout = (self.settings.connect_timeout, read_timeout)
        self._stream = self.api.stream(self._path.current, params, timeout=timeout)
        if self._is_interrupted():
            self._stream.close()  # the interrupting thread may have closed the previous stream
        return self._stream

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
        """Queue the events of one read, including those that precede an ERROR event."""
        changes: list[Change] = []
        try:
            for line in lines:
                change = self._reader.read_event(line) if self._initial is None else None
                if change is None:
                    change = self._take_event(list_watch.decode_event(line))
                if change is not None:
                    changes.append(change)
                    self._advance(identity(change.object)[1])
        finally:
            if changes:
                self.state.events += len(changes)
                self.store.put(Deltas(self.resource.kind, changes))

    def _take_event(self, event: list_watch.WatchEvent) -> Change | None:
        """Take an event that is not a change of the fast path; return the change, if it is one and can be read."""
        meta = self._reader.read_metadata(event.object)
        if meta is None:
            return None
        if event.type == "BOOKMARK":
            self._take_bookmark(meta)
        elif event.type not in list_watch.OBJECT_EVENT_TYPES:
            self._reader.skip(meta.key, f"unknown event type {event.type[:100]!r}")
        elif self._initial is not None:
            self._collect_initial(meta, event)
        else:
            change = self._reader.read_change(meta, event.object, event.type == "DELETED")
            self._advance(meta.metadata.resource_version)
            return change
        return None

    def _take_bookmark(self, meta: PartialObjectMetadata) -> None:
        version = meta.metadata.resource_version
        if self._initial is None:
            if compare_resource_versions(version, self.state.version) < 0:
                self._regress(version)
            self._advance(version)
        elif (meta.metadata.annotations or {}).get(list_watch.INITIAL_EVENTS_END) == "true":
            objects, self._initial = list(self._initial.values()), None
            self._cut_initial_events = 0
            self._store_list(objects, version)
            self._mark_synced()
        else:
            self._abandon_initial_events("a bookmark without the initial-events-end annotation")

    def _collect_initial(self, meta: PartialObjectMetadata, event: list_watch.WatchEvent) -> None:
        """Collect an initial event; the server may send changes among them."""
        assert self._initial is not None
        if event.type == "DELETED":
            self._initial.pop(meta.key, None)
        elif (found := self._reader.read_listed(meta, event.object)) is not None:
            self._initial[meta.key] = found
        if self.clock() - (self._accepted_at or 0.0) > self.settings.initial_events_timeout:
            self._abandon_initial_events("initial events timed out")

    def _abandon_initial_events(self, reason: str) -> NoReturn:
        self._fall_back(reason)
        raise ApiUnreachable(reason)

    def _fall_back(self, reason: str) -> None:
        """List in pages from now on, as client-go does for one list (ListAndWatch, fallbackToList)."""
        self._use_initial_events, self._fallback_reason = False, reason

    def _advance(self, version: str) -> None:
        """Advance the last resourceVersion; it never goes backwards if old events are repeated."""
        if version and version != self.state.version and compare_resource_versions(version, self.state.version) > 0:
            self._has_progressed = True
            self.state.version = version

    # --- failures: each method returns the seconds to wait ----------------------------------------------------------

    def _handle_error(self, error: ApiError | ApiUnreachable) -> float:
        if isinstance(error, ApiUnreachable):
            if self._initial is not None and self._accepted_at is not None:
                self._cut_initial_events += 1
                if self._cut_initial_events >= MAX_CONSECUTIVE_REFUSALS:
                    self._fall_back(f"initial events were cut {self._cut_initial_events} times: {error}")
            return self._schedule_retry(error)
        if error.code in (403, 404):
            return self._handle_refusal(error)
        if error.code == 410 or error.reason in ("Expired", "Gone"):  # isExpiredError
            self._schedule_relist(error.reason, must_decode=False)
            return self._schedule_retry(error, self._relist_backoff)
        if self._initial is not None and error.code not in (401, 429):
            self._fall_back(str(error))
            return 0.0
        if self._fallback_reason is not None and error.code >= 500:  # the server fails, not only its initial events
            self._use_initial_events, self._fallback_reason = True, None
        if error.code in (400, 422) and not self._must_list:
            self._schedule_relist(f"the API server rejected resourceVersion {self.state.version}")
        if "Too large resource version" in error.message:  # isTooLargeResourceVersionError: the server lags behind
            self._too_large += 1
            if self._too_large == MAX_CONSECUTIVE_REFUSALS:
                self._schedule_relist("the API server does not reach the cached resourceVersion")
        retry_after = error.retry_after or (1.0 if error.code == 429 else 0.0)
        return self._schedule_retry(error, at_least=min(retry_after, self.settings.max_retry_after))

    def _handle_refusal(self, error: ApiError) -> float:
        """Handle 403 and 404; those of an API server that starts are retried, and the first ones after a success."""
        if error.code == 404 and self._path.try_next():
            self._must_list = True
            return 0.0
        if self._retry.is_outage:
            return self._schedule_retry(error)
        self._consecutive_refusals += 1
        if self.resource.core and error.code == 403 and not self._synced:
            self.state.fatal = f"no permission to {self._verb} {self.resource.plural}, which is required: {error}"
            log.error("%s", self.state.fatal)
            self.state.mark_broken(str(error), self.clock())
            return 0.0
        if self.resource.core or (self._synced and self._consecutive_refusals < MAX_CONSECUTIVE_REFUSALS):
            return self._schedule_retry(error)
        # drop an optional kind until it is readable again
        state, seconds = self.state, self.settings.unreadable_retry_seconds
        reason = "forbidden" if error.code == 403 else "absent"
        if self._unreadable != reason:
            is_usual = reason == "absent" and not self._synced  # every cluster lacks some kind
            level = logging.INFO if is_usual else logging.WARNING
            log.log(level, "%s %s, retrying in %.1fs: %s", self.resource.plural, reason, seconds, error)
        if state.phase != reason:
            self.store.put(Replaced(self.resource.kind, (), "", is_forbidden=reason == "forbidden"))
        self._unreadable = state.phase = reason
        self._must_list, self._synced = True, False
        state.version, state.last_error = "", str(error)
        state.broken_since, state.regressed = None, False
        return seconds

    def _schedule_retry(self, error: Exception, backoff: Iterator[float] | None = None, at_least: float = 0.0) -> float:
        self.state.mark_broken(str(error), self.clock())
        seconds = max(self._retry.delay(error, backoff), at_least)
        is_new = seconds > 0 and str(error) != self._logged_error  # a warning once, not at every retry
        self._logged_error = str(error) if is_new else self._logged_error
        level = logging.WARNING if is_new else logging.DEBUG
        log.log(level, "%s of %s failed, retrying in %.1fs: %s", self._verb, self.resource.plural, seconds, error)
        return seconds

    def _count_success(self) -> bool:
        """Return whether the watch was a success, because it lasted or advanced; if so, reset the backoff."""
        if self._accepted_at is None:
            return False
        lasted = self.clock() - self._accepted_at
        if lasted >= self.settings.min_watch_seconds:
            self._relist_backoff = self._new_backoff()
        if lasted >= self.settings.min_watch_seconds or self._has_progressed:
            self._retry.reset()
        is_silent = not self._has_received
        self._silent_watches = self._silent_watches + (lasted >= self.settings.idle_timeout) if is_silent else 0
        if self._silent_watches == MAX_SILENT_WATCHES:
            self._silent_watches = 0
            self._schedule_relist(f"{MAX_SILENT_WATCHES} consecutive watches received nothing")
        return lasted >= self.settings.min_watch_seconds or self._has_progressed
