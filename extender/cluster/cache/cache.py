"""Hold the cluster cache, the counterpart of kube-scheduler's cache (pkg/scheduler/backend/cache, v1.36).

Files replace the whole cache (`replace`); list and watch fill it kind by kind (`build`, `relist`) and then apply single
changes (`apply`). Long operations are generators that yield after a bounded number of objects, so that requests are
answered in between, from the cache as it was before. Unlike kube-scheduler, which copies changed NodeInfos into a
snapshot per scheduling cycle (UpdateSnapshot), this cache updates one snapshot in place. A deletion goes through
`apply` and `Snapshot.remove` to the `pod_removed` of each Index.

Rule: a reader sees the cache before a change or after it, never half of a change. The result of `snapshot()` is valid
until the reader yields to the event loop. All methods except `replace` and `api_object` belong to the loop's thread.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from extender.cluster.cache.assume import AssumeCache
from extender.cluster.cache.recent_deletions import RecentDeletions
from extender.core.engine import prepare, prepare_in_steps
from extender.core.profile import UNCONFIGURED, KubeScheduler
from extender.core.snapshot.snapshot import OBJECTS_PER_STEP, OnSkipped, Snapshot
from extender.errors import NotReady
from extender.k8s.kinds import KIND_LOAD_ORDER, KINDS, ClusterObjects, Key, key_of
from extender.k8s.objects import Object, ObjectMeta, Pod
from extender.utilities.lru import LRU
from extender.utilities.source_file import SourceFile

MAX_CHANGES_IN_PLACE = 200  # Differences between a list and the cache; with more, a new snapshot is built
MAX_REMEMBERED_DELETIONS = 10_000  # UIDs of deleted objects per kind, so that a late event does not resurrect one


class Change(msgspec.Struct, frozen=True, gc=False):
    """Addition, update or deletion of one object (the counterpart of client-go's Delta)."""

    kind: str  # A key of `KINDS`
    object: Object
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class ReflectorStatus:
    """Freshness of the cached objects of one kind: the published copy of a reflector's state."""

    # Defined here and not beside the reflector, so that metrics and `/debug` do not import an HTTP client.
    kind: str
    phase: str  # Value of a `watch.state.Phase`
    version: str  # resourceVersion of the last list, event or bookmark; empty before the first list
    age: float | None  # Seconds since the last list, event or bookmark of this kind; None before the first one
    error: str | None  # Current failure; None while the kind is being watched
    relists: int
    watch_restarts: int
    events: int
    skipped: int  # Objects that could not be decoded or applied
    divergences: int  # Objects found to differ from the API server by a verification


class ClusterCache:
    """Keep one snapshot up to date with the API server or a file, and assumed pods on top of it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.recent_deletions = RecentDeletions(clock)  # Pods that kube-scheduler's cache may still hold
        # Assumed states of pods, which override the API server's until a watch event confirms them.
        self.assumed = AssumeCache(
            self.mutable_snapshot, self.recent_deletions, clock, lambda uid: uid in self._deleted_uids["Pod"]
        )
        self._scheduler = UNCONFIGURED
        self._snapshot: Snapshot | None = None
        self._version = 0
        self._next_change: asyncio.Future[None] | None = None
        self.files: tuple[SourceFile, ...] = ()  # What the objects were read from, if from files
        self.listed_at: dict[str, str] = {}  # Kind -> resourceVersion of its last list; may be empty or missing
        self._deleted_uids = {kind: LRU[str, None](MAX_REMEMBERED_DELETIONS) for kind in KINDS}

    @property
    def version(self) -> int:
        """Number of changes so far; 0 before the first sync."""
        return self._version

    def next_change(self) -> "asyncio.Future[None]":
        """Return a future that is done at the next change of the cache; all waiters share it."""
        if self._next_change is None or self._next_change.done():
            self._next_change = asyncio.get_running_loop().create_future()
        return self._next_change

    def _changed(self) -> None:
        self._version += 1
        if self._next_change is not None and not self._next_change.done():
            self._next_change.set_result(None)

    def snapshot(self) -> Snapshot:
        """Return the snapshot for a decision, with expired assumptions removed; NotReady before the first sync."""
        if self._snapshot is None:
            raise NotReady("the cache has not synced yet")
        self.assumed.expire()
        self._snapshot.refresh_layout()
        return self._snapshot

    def prepare_for(self, scheduler: KubeScheduler) -> None:
        """Run `adopt` in one step, but keep the snapshot if the features of the version are the same."""
        if self._snapshot is not None and self._snapshot.features == scheduler.features:
            self._scheduler = scheduler
            self._snapshot.refresh_layout()
            prepare(self._snapshot, scheduler)
        else:
            for _ in self.adopt(scheduler, lambda: None):
                pass

    def adopt(
        self, scheduler: KubeScheduler, activate: Callable[[], None], on_skipped: OnSkipped | None = None
    ) -> Iterator[None]:
        """Rebuild the snapshot for a new KubeScheduler in steps, while decisions continue with the previous one.

        `activate` is called when the new snapshot replaces the previous one, so that no decision combines new settings
        with the old snapshot, or the reverse. If the rebuild is abandoned before that, nothing changes.
        """
        if self._snapshot is None:
            self._scheduler = scheduler
            activate()
        else:
            yield from self.rebuild(on_skipped, scheduler=scheduler, activate=activate)

    def mutable_snapshot(self) -> Snapshot:
        """Return the snapshot for updates and lookups; its arrays may lag, so decisions use `snapshot`."""
        if self._snapshot is None:
            raise NotReady("the cache has not synced yet: no snapshot to change")
        return self._snapshot

    def api_object(self, kind: str, key: Key) -> Object | None:
        """Return the object as the API server sent it (assumecache.GetAPIObj); callable from any thread."""
        while (snapshot := self._snapshot) is not None:
            table = snapshot.objects.of(kind)
            cached = table.get(key)
            from_api = self._without_assumption(cached)
            if table.get(key) is cached and self._snapshot is snapshot:
                return from_api  # otherwise its assumption may have ended between the two reads
        return None

    def api_objects(self) -> ClusterObjects:
        """Return all objects as the API server sent them; NotReady before the first sync."""
        snapshot = self.mutable_snapshot()
        pods = tuple(self.assumed.api_objects(snapshot.objects.pods).values())
        return msgspec.structs.replace(snapshot.frozen(), pods=pods)

    def _without_assumption(self, cached: Object | None) -> Object | None:
        return self.assumed.api_object(cached) if isinstance(cached, Pod) else cached

    # --- replacing and relisting ------------------------------------------------------------------------------

    def replace(self, objects: ClusterObjects) -> None:
        """Replace all objects; ValueError, with the cache unchanged, if one of them is invalid.

        The new snapshot is built on the caller's thread and swapped in at the end, so readers never wait. Callable off
        the event loop's thread only for files, where nothing is assumed: `AssumeCache` belongs to the loop's thread.
        """
        unread = [kind for kind, of_kind in KINDS.items() if of_kind.field in objects.unreadable_tables]
        for _ in self.build({kind: getattr(objects, of_kind.field) for kind, of_kind in KINDS.items()}, unread):
            pass
        self.files = objects.files

    def build(
        self,
        objects: Mapping[str, Sequence[Object]],
        unread: Iterable[str] = (),
        on_skipped: OnSkipped | None = None,
        scheduler: KubeScheduler | None = None,
        activate: Callable[[], None] | None = None,
    ) -> Iterator[None]:
        """Replace all objects in steps.

        `objects`: kind -> objects; `unread`: kinds without list permission; `scheduler`, `activate`: see `adopt`.
        ValueError for an invalid object if `on_skipped` is None.
        """
        # 1. Fill a new snapshot beside the current one, and compute what its first decision would wait for.
        wanted = self._scheduler
        scheduler = scheduler or wanted
        snapshot = prepare(Snapshot(scheduler.features), scheduler)
        snapshot.unreadable_tables = _field_names(unread)
        for kind in KIND_LOAD_ORDER:
            yield from snapshot.put_all(kind, objects.get(kind, ()), on_skipped)
        while not snapshot.refresh_layout(max_nodes=OBJECTS_PER_STEP):
            yield
        yield from prepare_in_steps(snapshot, scheduler)
        # 2. Start over if `prepare_for` has changed the kube-scheduler before the first sync.
        if self._snapshot is None and self._scheduler is not wanted:
            yield from self.build(objects, unread, on_skipped, activate=activate)
            return
        # 3. Swap the snapshot in together with its settings, in one step. Assumptions apply to it from now on.
        self._snapshot, self._scheduler = snapshot, scheduler
        if activate is not None:
            activate()
        self.assumed.reapply()
        self._changed()

    def relist(
        self, kind: str, objects: Sequence[Object], on_skipped: OnSkipped | None = None, is_unread: bool = False
    ) -> Iterator[None]:
        """Replace the objects of a kind with those of a list, in steps, even if the list is older than the cache.

        `is_unread`: list permission is missing; the kind is marked unread when its objects disappear.
        """
        unread = self.unread - {kind} | ({kind} if is_unread else frozenset())
        cached = self.mutable_snapshot().objects.of(kind)
        listed: dict[Key, Object] = {}
        new, deleted = [], []
        # 1. Compare the list with the cache: new and changed objects, then cached objects that the list lacks.
        for number, one in enumerate(objects):
            key = key_of(kind, one)
            self._deleted_uids[kind].pop(identity(one)[0], None)
            from_api = self._without_assumption(cached.get(key))
            if from_api is None or from_api != one:
                listed[key] = one
                new.append(key)
            else:
                listed[key] = from_api  # recorded decisions refer to the cached object: hold one object, not two
            if number % (10 * OBJECTS_PER_STEP) == 0:
                yield
        for number, key in enumerate(tuple(cached)):
            from_api = self._without_assumption(cached.get(key)) if key not in listed else None
            if from_api is not None:
                if isinstance(from_api, Pod):
                    self.recent_deletions.note(from_api, None)
                deleted.append(key)
                self._remember_deletion(kind, identity(from_api)[0])
            if number % (10 * OBJECTS_PER_STEP) == 0:
                yield
        # 2. Apply a few differences in place, without a step in between; for many, build a new snapshot.
        if len(deleted) + len(new) <= MAX_CHANGES_IN_PLACE:
            for key in deleted:
                self._remove(kind, key)
            for key in new:
                self._put(kind, listed[key], on_skipped)
            self.mutable_snapshot().unreadable_tables = _field_names(unread)
            if deleted or new:
                self._changed()
        else:
            relisted = {kind: tuple(listed.values())}
            del listed, objects  # memory: two snapshots exist while the new one is built
            yield from self.rebuild(on_skipped, relisted, unread)

    def rebuild(
        self,
        on_skipped: OnSkipped | None = None,
        relisted: Mapping[str, Sequence[Object]] | None = None,
        unread: Iterable[str] | None = None,
        scheduler: KubeScheduler | None = None,
        activate: Callable[[], None] | None = None,
    ) -> Iterator[None]:
        """Build a new snapshot from the cached objects, then dismantle the old one, both in steps.

        `relisted`: kind -> objects to use instead; `unread`: see `build`, unchanged by default.
        """
        previous = self.mutable_snapshot()
        objects: dict[str, Sequence[Object]] = {kind: tuple(previous.objects.of(kind).values()) for kind in KINDS}
        objects["Pod"] = tuple(self.assumed.api_objects(previous.objects.pods).values())
        unread = self.unread if unread is None else unread
        yield from self.build(objects | dict(relisted or {}), unread, on_skipped, scheduler, activate)
        yield from previous.dismantle()

    @property
    def unread(self) -> frozenset[str]:
        """Kinds whose objects are unknown because list permission is missing."""
        fields = self._snapshot.unreadable_tables if self._snapshot is not None else frozenset()
        return frozenset(kind for kind, of_kind in KINDS.items() if of_kind.field in fields)

    # --- single changes ---------------------------------------------------------------------------------------

    def apply(self, change: Change) -> bool:
        """Insert, update or delete one object; return whether anything changed.

        ValueError for an invalid object; NotReady before the first sync.
        """
        kind, key = change.kind, key_of(change.kind, change.object)
        if not self._is_news(change, self.mutable_snapshot().objects.of(kind).get(key)):
            return False
        if change.deleted:
            self._remove(kind, key)
        else:
            self._put(kind, change.object)
        self._changed()
        return True

    def _is_news(self, change: Change, cached: Object | None) -> bool:
        """Return whether an event changes the cached object; events may be repeated, late or out of order."""
        # 1. The last list includes the event, possibly superseded by a later one. A list counts even if it is older.
        uid, version = identity(change.object)
        if compare_resource_versions(version, self.listed_at.get(change.kind, "")) <= 0:
            return False
        # 2. A deletion applies to the object with its UID; without UID, to any of its name (DeletedFinalStateUnknown).
        if change.deleted:
            self._remember_deletion(change.kind, uid)
            return cached is not None and uid in ("", identity(cached)[0])
        # 3. A UID is never reused, so this is a state from before the deletion.
        if uid in self._deleted_uids[change.kind]:
            return False
        # 4. The object is new. If it is only assumed, the API server's state takes precedence over a request's.
        from_api = self._without_assumption(cached)
        if from_api is None:
            return True
        # 5. Otherwise the later state wins; the comparison of objects is for versions that have no order.
        return compare_resource_versions(version, identity(from_api)[1]) > 0 and change.object != from_api

    def _remember_deletion(self, kind: str, uid: str) -> None:
        if uid:  # an empty UID would match every object without one
            self._deleted_uids[kind].put(uid, None)

    def _put(self, kind: str, one: Object, on_skipped: OnSkipped | None = None) -> None:
        """Store the object; a cached object of the same name with a different UID is removed first."""
        key = key_of(kind, one)
        cached = self.mutable_snapshot().objects.of(kind).get(key)
        if cached is not None and identity(cached)[0] != identity(one)[0]:
            self._remove(kind, key)
            cached = None
        before: Any = self._without_assumption(cached)
        try:
            if isinstance(one, Pod):
                self.assumed.update(one)
                self.recent_deletions.note(before, one)
            else:
                self.mutable_snapshot().put(kind, one)
        except ValueError as error:
            if on_skipped is None:
                raise
            on_skipped(kind, error)

    def _remove(self, kind: str, key: Key) -> None:
        snapshot = self.mutable_snapshot()
        removed = snapshot.objects.of(kind).get(key)
        before = self._without_assumption(removed)  # read first: the assumption ends with its pod
        snapshot.remove(kind, key)
        if kind == "Pod":
            self.recent_deletions.note(before if isinstance(before, Pod) else None, None)
            self.assumed.remove(key)


def _field_names(kinds: Iterable[str]) -> frozenset[str]:
    return frozenset(KINDS[kind].field for kind in kinds)


def identity(one: Any) -> tuple[str, str]:
    """Return (uid, resourceVersion): equal for the same state of the same object, unless etcd was restored."""
    metadata: ObjectMeta = one.metadata
    return metadata.uid, metadata.resource_version


def compare_resource_versions(version: str, other: str) -> int:
    """Return < 0, 0 or > 0 if `version` is older, equal or newer (CompareResourceVersion)."""
    # Versions that are missing or not numbers have no order: the one received last counts as newer.
    return int(version) - int(other) if version.isdecimal() and other.isdecimal() else 1
