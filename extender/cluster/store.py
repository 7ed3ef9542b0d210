"""The cluster as it is now: the one mutable object of the service.

Whole pictures come from files (`replace`) or, kind by kind, from lists (`build`, `relist`); single changes from watches
(`apply`). What is long is done in steps, between which decisions go on with the picture as it was.

Rule: a reader sees the picture before a change or after it, never half of it. `snapshot()` is good until the reader
gives up control: it is changed in place. All but `replace` belongs to the thread that decides.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extender.core.engine import prepare
from extender.core.snapshot import BUILDING_ORDER, Snapshot
from extender.errors import NotReady
from extender.k8s.kinds import KINDS, ClusterObjects, Key, key_of
from extender.k8s.objects import Value

STEP = 50
"""Objects that are put into a new picture, or nodes that are laid out, before others may have their turn."""

AT_ONCE = 200
"""Up to so many differences between a list and the picture are applied in one go; for more a new picture is made."""

REMEMBERED_DELETIONS = 10_000
"""UIDs per kind: an event that is late must not bring back what was deleted."""


@dataclass(frozen=True, slots=True)
class Change:
    """One object came, changed or went."""

    kind: str
    """A key of `KINDS`."""
    object: Value
    deleted: bool = False


class ClusterStore:
    """Holds the snapshot and keeps it up to date."""

    def __init__(self) -> None:
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
        self._snapshot.settle()
        return self._snapshot

    def settle(self, at_most: int) -> bool:
        """Lay out some of the nodes that changes touched, so that the next reader need not -> whether none is left."""
        return self._changing().settle(at_most)

    def _changing(self) -> Snapshot:
        if self._snapshot is None:
            raise NotReady("a change came before the first picture of the cluster")
        return self._snapshot

    def known(self, kind: str, key: Key) -> Value | None:
        """What the picture holds of that name; may be asked from any thread."""
        snapshot = self._snapshot
        return None if snapshot is None else snapshot.objects.of(kind).get(key)

    # --- whole pictures ---------------------------------------------------------------------------------------

    def replace(self, objects: ClusterObjects) -> None:
        """Put a whole new picture in place; ValueError, and nothing changes, if no snapshot can be made of it.

        The work is done before the swap, on the caller's thread: readers never wait for it.
        """
        for _ in self.build({kind: getattr(objects, of_kind.field) for kind, of_kind in KINDS.items()}):
            pass

    def build(self, objects: Mapping[str, Sequence[Value]], unread: Iterable[str] = ()) -> Iterator[None]:
        """The same in steps: kind -> objects; `unread`: kinds that may not be read."""
        snapshot = prepare(Snapshot())
        snapshot.unread = frozenset(KINDS[kind].field for kind in unread)
        for kind in BUILDING_ORDER:
            for number, one in enumerate(objects.get(kind, ())):
                snapshot.put(kind, one)
                if number % STEP == 0:
                    yield
        while not snapshot.settle(at_most=STEP):
            yield
        prepare(snapshot)
        self._snapshot = snapshot
        self._version += 1

    def relist(self, kind: str, objects: Sequence[Value]) -> Iterator[None]:
        """Make the objects of a kind those of a list, older ones included, in steps; NotReady without a picture."""
        held = self._changing().objects.of(kind)
        listed: dict[Key, Value] = {}
        for number, one in enumerate(objects):
            listed[key_of(kind, one)] = one
            if number % (100 * STEP) == 0:
                yield
        gone = [key for key in held if key not in listed]
        new = [one for key, one in listed.items() if not _is_same(held.get(key), one)]
        yield
        if len(gone) + len(new) <= AT_ONCE:
            snapshot = self._changing()
            for key in gone:
                snapshot.remove(kind, key)
            for one in new:
                _put(snapshot, kind, one)
            self._version += bool(gone or new)
        else:
            tables = self._changing().objects
            everything: dict[str, Sequence[Value]] = {other: tuple(tables.of(other).values()) for other in KINDS}
            yield from self.build(everything | {kind: objects}, self.unread)
        self._gone[kind].clear()

    @property
    def unread(self) -> frozenset[str]:
        """Kinds about which nothing is known."""
        fields = self._snapshot.unread if self._snapshot is not None else frozenset()
        return frozenset(kind for kind, of_kind in KINDS.items() if of_kind.field in fields)

    def set_unread(self, kind: str, is_unread: bool) -> None:
        """Say of a kind whether it may be read."""
        snapshot = self._changing()
        field = frozenset((KINDS[kind].field,))
        snapshot.unread = snapshot.unread | field if is_unread else snapshot.unread - field

    # --- single changes ---------------------------------------------------------------------------------------

    def apply(self, change: Change) -> bool:
        """Insert, update or delete one object -> whether anything changed.

        Of two states of an object the one with the higher resourceVersion stays, whichever comes first. An object of
        the same name with another UID is another object: it replaces the old one and goes to the end of the list.
        Raises ValueError for an object that decisions could not read, NotReady before the first picture.
        """
        held = self._changing().objects.of(change.kind).get(key_of(change.kind, change.object))
        changed = self._delete(change, held) if change.deleted else self._upsert(change, held)
        self._version += changed
        return changed

    def _upsert(self, change: Change, held: Any) -> bool:
        one = change.object
        if uid_of(one) in self._gone[change.kind] or held == one:
            return False
        if held is not None and _is_not_newer(one, held):
            return False
        _put(self._changing(), change.kind, one)
        return True

    def _delete(self, change: Change, held: Any) -> bool:
        """An object without a uid stands for whatever bears its name."""
        uid, gone = uid_of(change.object), self._gone[change.kind]
        if uid:
            gone[uid] = None
            while len(gone) > REMEMBERED_DELETIONS:
                del gone[next(iter(gone))]
        if held is None or (uid and uid_of(held) != uid):
            return False
        self._changing().remove(change.kind, key_of(change.kind, change.object))
        return True


def _put(snapshot: Snapshot, kind: str, one: Value) -> None:
    key = key_of(kind, one)
    held = snapshot.objects.of(kind).get(key)
    if held is not None and uid_of(held) != uid_of(one):
        snapshot.remove(kind, key)
    snapshot.put(kind, one)


def uid_of(one: Any) -> str:
    uid: str = one.metadata.uid
    return uid


def _is_same(held: Any, one: Any) -> bool:
    """Is it the same state of the same object?"""
    if held is None or uid_of(held) != uid_of(one):
        return False
    version: str = one.metadata.resource_version
    return version == held.metadata.resource_version if version else bool(held == one)


def _is_not_newer(one: Any, held: Any) -> bool:
    """By resourceVersion; where that is no number on both sides, the later event is taken to be the newer one."""
    versions = one.metadata.resource_version, held.metadata.resource_version
    return all(map(str.isdecimal, versions)) and int(versions[0]) <= int(versions[1])
