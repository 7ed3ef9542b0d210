"""The cluster as it is now: the one mutable object of the service.

One writer changes it (a file that is reloaded, later a watch); any number of readers take `snapshot()`, which is
built once per change and never altered afterwards.

Rule: a reader sees the picture before a change or after it, never half of it, and a change that cannot be
understood leaves the picture as it was.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from extender.cluster.files import validate
from extender.core.engine import prepare
from extender.core.snapshot import Snapshot
from extender.errors import NotReady
from extender.k8s.kinds import KINDS, ClusterObjects
from extender.k8s.objects import Value

Key = tuple[str, str]
"""(namespace, name)."""


@dataclass(frozen=True, slots=True)
class Change:
    """One object came, changed or went."""

    kind: str
    """A key of `KINDS`."""
    object: Value
    deleted: bool = False


class ClusterStore:
    """Holds the objects by kind and name, in the order in which they came, and the snapshot made of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, dict[Key, Any]] = {}
        self._snapshot: Snapshot | None = None
        self._version = 0

    @property
    def version(self) -> int:
        """How many times the picture has changed; 0: there is none yet."""
        return self._version

    def replace(self, objects: ClusterObjects) -> None:
        """Put a whole new picture in place; ValueError, and nothing changes, if no snapshot can be made of it.

        The work is done before the swap, on the caller's thread: readers never wait for it.
        """
        by_kind = {name: _by_key(getattr(objects, kind.field)) for name, kind in KINDS.items()}
        snapshot = prepare(Snapshot.build(objects))
        with self._lock:
            self._objects = by_kind
            self._snapshot = snapshot
            self._version += 1

    def apply(self, change: Change) -> None:
        """Insert, update or delete one object.

        An object of the same name with another uid is another object: it replaces the old one and goes to the end of
        the list. Deleting by an old uid does nothing. Raises ValueError for an object that decisions could not read,
        NotReady before the first `replace`.
        """
        if not change.deleted:
            validate(change.object)
        with self._lock:
            if not self._version:
                raise NotReady("a change came before the first picture of the cluster")
            held = self._objects[change.kind]
            if _delete(held, change.object) if change.deleted else _upsert(held, change.object):
                self._snapshot = None
                self._version += 1

    def snapshot(self) -> Snapshot:
        """Return the picture as it is now; the same object until the next change. NotReady if there is none."""
        snapshot = self._snapshot
        if snapshot is not None:
            return snapshot
        with self._lock:
            if not self._version:
                raise NotReady("the cluster has not been read yet")
            if self._snapshot is None:
                self._snapshot = prepare(Snapshot.build(self._as_objects()))
            return self._snapshot

    def _as_objects(self) -> ClusterObjects:
        return ClusterObjects(**{kind.field: tuple(self._objects[name].values()) for name, kind in KINDS.items()})


def _by_key(objects: Iterable[Any]) -> dict[Key, Any]:
    return {_key(one): one for one in objects}


def _key(one: Any) -> Key:
    return one.metadata.namespace, one.metadata.name


def _upsert(held: dict[Key, Any], one: Any) -> bool:
    """Return whether anything changed."""
    key = _key(one)
    before = held.get(key)
    if before == one:
        return False
    if before is not None and before.metadata.uid != one.metadata.uid:
        del held[key]
    held[key] = one
    return True


def _delete(held: dict[Key, Any], one: Any) -> bool:
    """Return whether it was there; an object without a uid stands for whatever bears its name."""
    before = held.get(_key(one))
    if before is None or (one.metadata.uid and before.metadata.uid != one.metadata.uid):
        return False
    del held[_key(one)]
    return True
