"""Keep the cached objects of one kind in sync with the API server: list, watch, retry with backoff, relist.

Mirrors client-go's Reflector (tools/cache/reflector.go: ListAndWatch, watchList, watchHandler). A lost watch resumes
from the last resourceVersion, so that no event is lost or repeated. An expired resourceVersion (410 Gone) costs one
relist. Unlike in client-go, a list that is older than the cache (etcd restored from a backup, an API server that lags)
takes effect only if a second list confirms it, and a watch without bookmarks for too long counts as broken.

Rule: the store receives complete lists, and events in order. Whatever the server sends, the loop continues, and `state`
reports how current the kind is.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from extender.cluster.apiserver.client import ApiServer, QueryParams
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.cluster.cache.cache import Change, compare_resource_versions, identity
from extender.cluster.watch import list_watch
from extender.cluster.watch.decode import Decoder
from extender.cluster.watch.delta_queue import DeltaQueue
from extender.cluster.watch.list_watch import ListerWatcher, PartialObjectMetadata, Resource, WatchSettings
from extender.cluster.watch.object_reader import ObjectReader
from extender.cluster.watch.retry import Outage, RetryTimer
from extender.cluster.watch.state import CurrentWatch, EarlierRounds, InitialEvents, Phase, ReflectorState
from extender.k8s.kinds import Key
from extender.k8s.objects import Object

log = logging.getLogger(__name__)

MAX_IN_A_ROW = 3  # Refusals, incomplete initial events or too large resourceVersions in a row that count as permanent

MAX_SILENT_WATCHES = 2
"""Consecutive watches without any line before a relist: only a list shows whether etcd was restored from a backup."""


class Reflector:
    """List and watch one kind: `run` in its own thread, `stop`, `request_relist` and `list_metadata` in any thread."""

    def __init__(
        self,
        resource: Resource,
        api: ApiServer,
        decoder: Decoder,
        store: DeltaQueue,
        settings: WatchSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
        jitter: Callable[[], float] = random.random,
        outage: Outage | None = None,
    ) -> None:
        """`jitter` returns a uniform random number in [0, 1); `outage` is shared by the reflectors of an API server."""
        self.resource = resource
        self.settings = settings or WatchSettings()
        self.state = ReflectorState()
        self._clock = clock
        new_backoff = partial(list_watch.backoff, *self.settings.backoff, jitter)
        self._retry = RetryTimer(outage or Outage(clock), new_backoff, wait, jitter)
        self._api = ListerWatcher(resource, api, self._retry.stopped)
        self._reader = ObjectReader(resource.kind, decoder, store, self.state, clock)
        self._must_list = True
        self._initial = InitialEvents()
        self._watch = CurrentWatch()
        self._history = EarlierRounds()

    # --- for other threads ---

    def stop(self) -> None:
        """Make `run` return at once, interrupting any wait."""
        self._retry.stop()
        self._api.interrupt()

    def request_relist(self, reason: str) -> None:
        """Relist now, or as soon as the API server can be reached."""
        self._api.relist_reason = reason
        self._api.interrupt()

    def list_metadata(self) -> dict[Key, tuple[str, str]]:
        """Return (namespace, name) -> (uid, resourceVersion) from the API server; raises ApiError or ApiUnreachable."""
        return self._api.list_metadata(self.settings.page_size)

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
        """Run one round; return the seconds to wait before the next one."""
        # 1. Relist if another thread has requested it.
        reason = self._api.relist_reason
        if reason is not None:
            self._api.relist_reason = None
            self._schedule_relist(reason)
        self._watch, self._initial.objects = CurrentWatch(), None
        if self._must_list and not self.state.phase.is_unreadable:
            self.state.enter(Phase.LISTING, self._clock())
        # 2. List in pages if a list is due and the watch cannot deliver it as initial events. Then watch until the
        #    watch ends.
        failure: ApiError | ApiUnreachable | None = None
        try:
            if self._must_list and not self._initial.enabled:
                self._list()
            self._run_watch()
        except (ApiError, ApiUnreachable) as error:
            failure = error
        # 3. Start over if `stop` or `request_relist` interrupted a request, which does not count as a failure.
        if self._api.is_interrupted:
            return 0.0
        # 4. Reset the backoff if the watch lasted or advanced.
        is_success = self._count_success()
        # 5. After a failure, back off, relist (410 Gone), or wait minutes (an optional kind with 403 or 404).
        if failure is not None:
            return self._handle_error(failure)
        # 6. A watch that ended normally resumes at once, unless it was too short to be of use.
        seconds = 0.0 if is_success else self._retry.delay()
        if seconds > 0:
            short = ApiUnreachable("very short watch: it ended without progress")
            self.state.enter(Phase.BACKOFF, self._clock(), short)
        return seconds

    def _schedule_relist(self, reason: str, must_decode: bool = True) -> None:
        """Make the next round begin with a list; `must_decode`: reuse no cached object."""
        log.info("relisting %s: %s", self.resource.plural, reason)
        self._must_list = True
        self._reader.must_decode |= must_decode
        self.state.relists += 1

    # --- list -------------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        def fetch(params: QueryParams) -> bytes:
            with self._api.open(params, (self.settings.connect_timeout, self.settings.list_timeout)) as stream:
                self._retry.succeed()
                return stream.read()

        objects: list[Object] = []
        version = ""
        decode = partial(list_watch.decode_page, kind=self.resource.kind)
        for page in list_watch.list_pages(fetch, decode, self.settings.page_size):
            self.state.last_contact = self._clock()
            version = page.metadata.resource_version
            objects += filter(None, map(self._reader.read_item, page.items or ()))
        self._store_list(objects, version)

    def _store_list(self, objects: list[Object], version: str) -> None:
        """Pass a complete list to the store; if it is older than the cache, a second list must confirm it first."""
        if not self.state.regressed and compare_resource_versions(version, self.state.version) < 0:
            self.state.regressed = True
            self._regress(version)
        self._reader.put_list(objects, version)
        reason, self._initial.fallback_reason = self._initial.fallback_reason, None
        if reason is not None:
            log.info("listing %s in pages, initial events failed: %s", self.resource.plural, reason)
        self._must_list = False
        self._history.too_large = 0
        self.state.take_list(version, self._clock())

    def _regress(self, version: str) -> NoReturn:
        """Schedule a relist because the server's state is older than the cache."""
        reason = f"the API server is at resourceVersion {version}, the cache at {self.state.version}"
        self._schedule_relist(reason)
        raise ApiUnreachable(reason)

    # --- watch ------------------------------------------------------------------------------------------------------

    def _run_watch(self) -> None:
        """Run one watch to its end; if a list is due, request it as initial events."""
        low, high = self.settings.watch_timeout_seconds
        seconds = int(low + self._retry.jitter() * (high - low))
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        read_timeout = self.settings.idle_timeout
        if self._must_list:
            self._initial.objects = {}
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            read_timeout = min(read_timeout, self.settings.initial_events_timeout)
        else:
            params |= {"resourceVersion": self.state.version}
        with self._api.open(params, (self.settings.connect_timeout, read_timeout)) as stream:
            self._retry.succeed()
            self._watch.accepted_at = self.state.last_contact = self._clock()
            self._history.refusals = self._history.too_large = self._api.path.missing = 0
            if self._initial.objects is None:
                self.state.watch_restarts += self._history.synced
                self._mark_synced()
            for lines in stream.lines():
                self.state.last_contact = self._clock()
                self._watch.has_received = True
                self._take(lines)
        if self._initial.objects is not None:
            raise ApiUnreachable("the watch ended before its initial events were complete")

    def _mark_synced(self) -> None:
        """Record that the kind is in sync: the store has everything so far, and events follow."""
        if self._history.logged_error:
            log.info("watch of %s re-established", self.resource.plural)
        self._history.logged_error, self._history.logged_phase = "", None
        self._history.synced = True
        self.state.enter(Phase.WATCHING, self._clock())

    def _take(self, lines: list[bytes]) -> None:
        """Queue the events of one read, including those that precede an ERROR event."""
        changes: list[Change] = []
        try:
            for line in lines:
                change = self._reader.read_event(line) if self._initial.objects is None else None
                if change is None:
                    change = self._take_event(list_watch.decode_event(line))
                if change is not None:
                    changes.append(change)
                    self._advance(identity(change.object)[1])
        finally:
            self._reader.put_changes(changes)

    def _take_event(self, event: list_watch.WatchEvent) -> Change | None:
        """Handle an event off the fast path; return its change, None for bookmarks, initial and skipped objects."""
        meta = self._reader.read_metadata(event.object)
        if meta is None:
            return None
        if event.type == "BOOKMARK":
            self._take_bookmark(meta)
        elif event.type not in list_watch.OBJECT_EVENT_TYPES:
            self._reader.skip(meta.key, f"unknown event type {event.type[:100]!r}")
        elif self._initial.objects is not None:
            self._collect_initial(self._initial.objects, meta, event)
        else:
            change = self._reader.read_change(meta, event.object, event.type == "DELETED")
            self._advance(meta.metadata.resource_version)  # also past a skipped object, or a retry would repeat it
            return change
        return None

    def _take_bookmark(self, meta: PartialObjectMetadata) -> None:
        version = meta.metadata.resource_version
        if self._initial.objects is None:
            if compare_resource_versions(version, self.state.version) < 0:
                self._regress(version)
            self._advance(version)
        elif (meta.metadata.annotations or {}).get(list_watch.INITIAL_EVENTS_END) == "true":
            objects, self._initial.objects = list(self._initial.objects.values()), None
            self._initial.cuts = 0
            self._store_list(objects, version)
            self._mark_synced()
        else:  # the server does not support sendInitialEvents and ignored it
            self._abandon_initial_events("a bookmark without the initial-events-end annotation")

    def _collect_initial(
        self, objects: dict[Key, Object], meta: PartialObjectMetadata, event: list_watch.WatchEvent
    ) -> None:
        if event.type == "DELETED":  # changes may arrive among the initial events
            objects.pop(meta.key, None)
        elif (found := self._reader.read_listed(meta, event.object)) is not None:
            objects[meta.key] = found
        if self._clock() - (self._watch.accepted_at or 0.0) > self.settings.initial_events_timeout:
            self._abandon_initial_events("initial events timed out")

    def _abandon_initial_events(self, reason: str) -> NoReturn:
        self._initial.fall_back(reason)
        raise ApiUnreachable(reason)

    def _advance(self, version: str) -> None:
        if version and version != self.state.version and compare_resource_versions(version, self.state.version) > 0:
            self._watch.has_progressed = True
            self.state.version = version

    # --- failures: each method returns the seconds to wait ----------------------------------------------------------

    def _handle_error(self, error: ApiError | ApiUnreachable) -> float:
        initial, history = self._initial, self._history
        # 1. No complete response: back off. Give up initial events that are cut off repeatedly.
        if isinstance(error, ApiUnreachable):
            if initial.objects is not None and self._watch.accepted_at is not None:
                initial.cuts += 1
                if initial.cuts >= MAX_IN_A_ROW:
                    initial.fall_back(f"initial events were cut {initial.cuts} times: {error}")
            return self._schedule_retry(error)
        # 2. Forbidden, or not served.
        if error.code in (403, 404):
            return self._handle_refusal(error)
        # 3. Gone: etcd has compacted the resourceVersion. Relist, and reuse cached objects.
        if error.code == 410 or error.reason in ("Expired", "Gone"):  # isExpiredError
            self._schedule_relist(error.reason, must_decode=False)
            return self._schedule_retry(error, is_expired=True)
        # 4. Initial events were refused: list in pages at once. If the list then fails with 5xx, the server has a
        #    problem of its own, and initial events are requested again.
        if initial.objects is not None and error.code not in (401, 429):
            initial.fall_back(str(error))
            return 0.0
        if initial.fallback_reason is not None and error.code >= 500:
            initial.enabled, initial.fallback_reason = True, None
        # 5. The resourceVersion is invalid, or newer than the server's for too long: relist.
        if error.code in (400, 422) and not self._must_list:
            self._schedule_relist(f"the API server rejected resourceVersion {self.state.version}")
        if "Too large resource version" in error.message:  # isTooLargeResourceVersionError: the server lags behind
            history.too_large += 1
            if history.too_large == MAX_IN_A_ROW:
                self._schedule_relist("the API server does not reach the cached resourceVersion")
        # 6. Back off, at least for Retry-After.
        retry_after = error.retry_after or (1.0 if error.code == 429 else 0.0)
        return self._schedule_retry(error, at_least=min(retry_after, self.settings.max_retry_after))

    def _handle_refusal(self, error: ApiError) -> float:
        """Handle 403 (forbidden) and 404 (not served)."""
        history, plural = self._history, self.resource.plural
        # 1. Try the path of another version.
        if error.code == 404 and self._api.path.try_next():
            self._must_list = True
            return 0.0
        # 2. An API server that is starting answers 403 until it has read its roles.
        if self._retry.is_outage:
            return self._schedule_retry(error)
        # 3. A core kind that was never permitted ends the source. After a success, MAX_IN_A_ROW refusals are needed:
        #    a role binding that is being replaced is missing for a moment.
        history.refusals += 1
        if self.resource.core and error.code == 403 and not history.synced:
            self.state.fatal = f"no permission to {self._api.verb} {plural}, which is required: {error}"
            log.error("%s", self.state.fatal)
            self.state.enter(Phase.BACKOFF, self._clock(), error)
            return 0.0
        if self.resource.core or (history.synced and history.refusals < MAX_IN_A_ROW):
            return self._schedule_retry(error)
        # 4. Drop an optional kind until it is readable again.
        phase, seconds = Phase.FORBIDDEN if error.code == 403 else Phase.ABSENT, self.settings.unreadable_retry_seconds
        if history.logged_phase is not phase:
            is_usual = phase is Phase.ABSENT and not history.synced  # most clusters lack some optional kind
            level = logging.INFO if is_usual else logging.WARNING
            log.log(level, "%s %s, retrying in %.1fs: %s", plural, phase, seconds, error)
        if self.state.phase is not phase:
            self._reader.put_nothing(is_forbidden=phase is Phase.FORBIDDEN)
        history.logged_phase = phase
        self._must_list, history.synced = True, False
        self.state.enter(phase, self._clock(), error)
        return seconds

    def _schedule_retry(self, error: Exception, is_expired: bool = False, at_least: float = 0.0) -> float:
        self.state.enter(Phase.BACKOFF, self._clock(), error)
        seconds = max(self._retry.delay(error, is_expired), at_least)
        is_new = seconds > 0 and str(error) != self._history.logged_error
        if is_new:
            self._history.logged_error = str(error)
        level = logging.WARNING if is_new else logging.DEBUG
        verb = self._api.verb
        log.log(level, "%s of %s failed, retrying in %.1fs: %s", verb, self.resource.plural, seconds, error)
        return seconds

    def _count_success(self) -> bool:
        """Return whether the watch lasted or advanced; if so, reset the backoff."""
        if self._watch.accepted_at is None:
            return False
        history, seconds = self._history, self._clock() - self._watch.accepted_at
        has_lasted = seconds >= self.settings.min_watch_seconds
        is_success = has_lasted or self._watch.has_progressed
        if is_success:
            self._retry.reset(has_lasted)
        is_silent = seconds >= self.settings.idle_timeout
        history.silent_watches = 0 if self._watch.has_received else history.silent_watches + is_silent
        if history.silent_watches == MAX_SILENT_WATCHES:
            history.silent_watches = 0
            self._schedule_relist(f"{MAX_SILENT_WATCHES} consecutive watches received nothing")
        return is_success
