"""The cluster as it is now: the one mutable object of the service.

Whole pictures come from files (`replace`) or, kind by kind, from lists (`build`, `relist`); single changes from watches
(`apply`). What is long is done in steps, between which decisions go on with the picture as it was.

Rule: a reader sees the picture before a change or after it, never half of it. `snapshot()` is good until the reader
gives up control: it is changed in place. All but `replace` belongs to the thread that decides.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extender.cluster.cache.assume import AssumeCache
from extender.core.engine import prepare
from extender.core.profile import UPSTREAM, Profile
from extender.core.snapshot.snapshot import BUILDING_ORDER, Snapshot
from extender.errors import NotReady
from extender.k8s.kinds import KINDS, ClusterObjects, Key, key_of
from extender.k8s.objects import Pod, Value

OBJECTS_PER_STEP = 50
"""Objects that are put into a new picture, or nodes that are laid out, before others may have their turn."""

MAX_CHANGES_IN_PLACE = 200
"""Up to so many differences between a list and the picture are applied in one go; for more a new picture is made."""

MAX_REMEMBERED_DELETIONS = 10_000
"""UIDs per kind: an event that is late must not bring back what was deleted."""


OnSkipped = Callable[[str, ValueError], None]
"""Told of an object that is left out because decisions could not read it: its kind, and why."""


@dataclass(frozen=True, slots=True)
class Change:
    """One object came, changed or went."""

    kind: str
    """A key of `KINDS`."""
    object: Value
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class ReflectorStatus:
    """How current the cached objects of one kind are: the published copy of a reflector's state.

    Served by `/debug` and the metrics; defined here, and not with the reflector, because a cache that is loaded from
    files reports it too, without importing an HTTP client.
    """

    kind: str
    phase: str
    """One of `list_watch.PHASES`."""
    version: str
    """resourceVersion of the last list, event or bookmark; empty before the first list."""
    age: float | None
    """Seconds since the last list, event or bookmark of this kind; None before the first one."""
    error: str | None
    """Current failure; None while the kind is being watched."""
    relists: int
    watch_restarts: int
    events: int
    skipped: int
    """Objects that could not be decoded or applied."""
    divergences: int
    """Objects found to differ from the API server by a verification."""


class ClusterCache:
    """Holds the snapshot and keeps it up to date."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.assumed = AssumeCache(self, clock)
        """What stands over what the API server says."""
        self._profile = UPSTREAM
        self._snapshot: Snapshot | None = None
        self._version = 0
        self._gone: dict[str, dict[str, None]] = {kind: {} for kind in KINDS}

    @property
    def version(self) -> int:
        """How many times the picture has changed; 0: there is none yet."""
        return self._version

    def snapshot(self) -> Snapshot:
        """Return the picture as it is now. NotReady if there is none."""
        if self._snapshot is None:
            raise NotReady("the cluster has not been read yet")
        self.assumed.expire()
        self._snapshot.settle()
        return self._snapshot

    def prepare_for(self, profile: Profile) -> None:
        """Decisions are made by this profile from now on; what it needs of the picture is worked out now."""
        self._profile = profile
        if self._snapshot is not None:
            self._snapshot.settle()
            prepare(self._snapshot, profile)

    def adopt(self, profile: Profile, refused: OnSkipped | None = None) -> Iterator[None]:
        """The same in steps, while decisions go on by the profile before."""
        self._profile = profile
        if self._snapshot is not None:
            yield from self.rebuild(refused)

    def settle(self, at_most: int) -> bool:
        """Lay out some of the nodes that changes touched, so that the next reader need not -> whether none is left."""
        return self.mutable_snapshot().settle(at_most)

    def mutable_snapshot(self) -> Snapshot:
        """The picture, to be changed or looked into but not to decide on; NotReady if there is none."""
        if self._snapshot is None:
            raise NotReady("a change came before the first picture of the cluster")
        return self._snapshot

    def api_object(self, kind: str, key: Key) -> Value | None:
        """The object of that name as it came; may be asked from any thread."""
        while True:
            held = self._held(kind, key)
            said = self._said(held)
            if self._held(kind, key) is held:  # else what was assumed of it may have ended in between
                return said

    def _held(self, kind: str, key: Key) -> Value | None:
        """The object of that name in the picture."""
        snapshot = self._snapshot
        return None if snapshot is None else snapshot.objects.of(kind).get(key)

    def _said(self, held: Value | None) -> Value | None:
        """An object of the picture as it came; None if it did not, and is only assumed."""
        return self.assumed.said(held) if isinstance(held, Pod) else held

    def holds(self, pod: Pod) -> bool:
        """Is this very object in the picture?"""
        return self._snapshot is not None and self._snapshot.objects.pods.get(key_of("Pod", pod)) is pod

    # --- whole pictures ---------------------------------------------------------------------------------------

    def replace(self, objects: ClusterObjects) -> None:
        """Put a whole new picture in place; ValueError, and nothing changes, if no snapshot can be made of it.

        The work is done before the swap, on the caller's thread: readers never wait for it.
        """
        unread = [kind for kind, of_kind in KINDS.items() if of_kind.field in objects.unread]
        for _ in self.build({kind: getattr(objects, of_kind.field) for kind, of_kind in KINDS.items()}, unread):
            pass

    def build(
        self, objects: Mapping[str, Sequence[Value]], unread: Iterable[str] = (), refused: OnSkipped | None = None
    ) -> Iterator[None]:
        """The same in steps: kind -> objects; `unread`: kinds that may not be read; ValueError without `refused`."""
        snapshot = prepare(Snapshot(), self._profile)
        snapshot.unread = _fields(unread)
        for kind in BUILDING_ORDER:
            for number, one in enumerate(objects.get(kind, ())):
                _put_or_skip(snapshot.put, kind, one, refused)
                if number % OBJECTS_PER_STEP == 0:
                    yield
        while not snapshot.settle(at_most=OBJECTS_PER_STEP):
            yield
        prepare(snapshot, self._profile)
        self._snapshot = snapshot
        self.assumed.renew()
        self._version += 1

    def relist(
        self, kind: str, objects: Sequence[Value], refused: OnSkipped | None = None, is_unread: bool = False
    ) -> Iterator[None]:
        """Make the objects of a kind those of a list, older ones included, in steps; NotReady without a picture.

        `is_unread`: the kind may not be read, from the moment on when its objects are no longer there.
        """
        unread = self.unread - {kind} | ({kind} if is_unread else frozenset())
        held = self.mutable_snapshot().objects.of(kind)
        listed: dict[Key, Value] = {}
        for number, one in enumerate(objects):
            listed[key_of(kind, one)] = one
            self._gone[kind].pop(uid_of(one), None)
            if number % (10 * OBJECTS_PER_STEP) == 0:
                yield
        gone, new = [], []
        for number, key in enumerate(tuple(held)):
            said = self._said(held.get(key)) if key not in listed else None
            if said is not None:
                gone.append(key)
                self._is_gone(kind, uid_of(said))
            if number % (10 * OBJECTS_PER_STEP) == 0:
                yield
        for number, (key, one) in enumerate(listed.items()):
            said = self._said(held.get(key))
            if said is None or not _is_same_state(said, one):
                new.append(one)
            else:
                listed[key] = said  # kept decisions hold it too: one object instead of two
            if number % (10 * OBJECTS_PER_STEP) == 0:
                yield
        if len(gone) + len(new) <= MAX_CHANGES_IN_PLACE:
            for key in gone:
                self._remove(kind, key)
            for one in new:
                _put_or_skip(self._put, kind, one, refused)
            self.mutable_snapshot().unread = _fields(unread)
            self._version += bool(gone or new)
        else:
            now = self._everything() | {kind: tuple(listed.values())}
            del listed, objects  # two pictures take enough
            yield from self._build_beside(now, unread, refused)

    def rebuild(self, refused: OnSkipped | None = None) -> Iterator[None]:
        """Make the picture anew of the objects that it holds, in steps."""
        yield from self._build_beside(self._everything(), self.unread, refused)

    def _build_beside(
        self, objects: Mapping[str, Sequence[Value]], unread: Iterable[str], refused: OnSkipped | None
    ) -> Iterator[None]:
        """A new picture beside the one that decisions are made on meanwhile."""
        before = self.mutable_snapshot()
        yield from self.build(objects, unread, refused)
        yield from before.dismantle()

    def _everything(self) -> dict[str, Sequence[Value]]:
        """Kind -> the objects as they came."""
        tables = self.mutable_snapshot().objects
        found: dict[str, Sequence[Value]] = {kind: tuple(tables.of(kind).values()) for kind in KINDS}
        return found | {"Pod": tuple(self.assumed.without(tables.pods).values())}

    @property
    def unread(self) -> frozenset[str]:
        """Kinds about which nothing is known."""
        fields = self._snapshot.unread if self._snapshot is not None else frozenset()
        return frozenset(kind for kind, of_kind in KINDS.items() if of_kind.field in fields)

    # --- single changes ---------------------------------------------------------------------------------------

    def apply(self, change: Change) -> bool:
        """Insert, update or delete one object -> whether anything changed.

        Of two states of an object the one with the higher resourceVersion stays, whichever comes first. An object of
        the same name with another UID is another object: it replaces the old one and goes to the end of the list.
        Raises ValueError for an object that decisions could not read, NotReady before the first picture.
        """
        kind, key = change.kind, key_of(change.kind, change.object)
        held = self.mutable_snapshot().objects.of(kind).get(key)
        changed = self._delete(change, held) if change.deleted else self._upsert(kind, key, change.object, held)
        self._version += changed
        return changed

    def _upsert(self, kind: str, key: Key, one: Value, held: Value | None) -> bool:
        uid = uid_of(one)
        if uid in self._gone[kind]:
            return False
        said = self._said(held) if held is not None and uid_of(held) == uid else held
        if said is not None and (_is_not_newer(one, said) or said == one):
            return False
        self._set(kind, key, one, held)
        return True

    def _delete(self, change: Change, held: Any) -> bool:
        """An object without a uid stands for whatever bears its name."""
        uid = uid_of(change.object)
        self._is_gone(change.kind, uid)
        if held is None or (uid and uid_of(held) != uid):
            return False
        self._remove(change.kind, key_of(change.kind, change.object))
        return True

    def _is_gone(self, kind: str, uid: str) -> None:
        """Remember that there is no such object any more."""
        gone = self._gone[kind]
        if uid:
            gone[uid] = None
        while len(gone) > MAX_REMEMBERED_DELETIONS:
            del gone[next(iter(gone))]

    def _put(self, kind: str, one: Value) -> None:
        key = key_of(kind, one)
        self._set(kind, key, one, self.mutable_snapshot().objects.of(kind).get(key))

    def _set(self, kind: str, key: Key, one: Value, held: Value | None) -> None:
        """`held`: what bears the name now, which may be another object."""
        if held is not None and uid_of(held) != uid_of(one):
            self._remove(kind, key)
        if isinstance(one, Pod):
            self.assumed.put(one)
        else:
            self.mutable_snapshot().put(kind, one)

    def _remove(self, kind: str, key: Key) -> None:
        self.mutable_snapshot().remove(kind, key)
        if kind == "Pod":
            self.assumed.gone(key)


def _put_or_skip(put: Callable[[str, Value], None], kind: str, one: Value, refused: OnSkipped | None) -> None:
    try:
        put(kind, one)
    except ValueError as error:
        if refused is None:
            raise
        refused(kind, error)


def _fields(kinds: Iterable[str]) -> frozenset[str]:
    return frozenset(KINDS[kind].field for kind in kinds)


def uid_of(one: Any) -> str:
    uid: str = one.metadata.uid
    return uid


def version_of(one: Any) -> str:
    version: str = one.metadata.resource_version
    return version


def _is_same_state(held: Any, one: Any) -> bool:
    """Is it the same state of the same object? After a restore of etcd, equal versions are no proof of that."""
    return held is one or bool(held == one)


def _is_not_newer(one: Any, held: Any) -> bool:
    """By resourceVersion; where that is no number on both sides, the later event is taken to be the newer one."""
    version, other = version_of(one), version_of(held)
    return version.isdecimal() and other.isdecimal() and int(version) <= int(other)
