"""What the fake API server holds: objects as JSON bytes, one counter of revisions, and what happened, as etcd does.

Rule: nothing here locks; whoever calls holds the server's lock. An object is encoded once, when it is written.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from extender.k8s.kinds import kind_without_group
from tests.fakes.kinds import RESOURCES, resource_of

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """A version of an object; `body` is its JSON without kind and apiVersion, as a list holds it."""

    key: str
    uid: str
    revision: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to an object; `body` is what a watch shows of it."""

    type: str
    kind: str
    revision: int
    body: bytes
    before: Stored | None = None
    after: Stored | None = None


class _MetadataOnly(msgspec.Struct):
    metadata: msgspec.Raw


def key_of(kind: str, name: str, namespace: str = "") -> str:
    """The key in etcd, whose order is the order of lists; a namespaced object is in "default" unless said."""
    return f"{namespace or 'default'}/{name}" if resource_of(kind).namespaced else name


def whole(kind: str, body: bytes, partial: bool = False) -> bytes:
    """An object that stands on its own: with kind and apiVersion, and, if `partial`, nothing but metadata."""
    if partial:
        return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",' + metadata_of(body)[1:]
    return f'{{"kind":"{kind_without_group(kind)}","apiVersion":"{resource_of(kind).api_version}",'.encode() + body[1:]


def metadata_of(body: bytes) -> bytes:
    """The object reduced to its metadata."""
    return msgspec.json.encode(msgspec.json.decode(body, type=_MetadataOnly))


class Storage:
    """All objects, at `revision`; events up to `compacted` are forgotten."""

    HISTORY = 200_000
    """How many events are remembered; past twice as many, the older half is compacted."""

    def __init__(self) -> None:
        self.revision = 1
        self.compacted = 1
        self.history: list[Event] = []
        self._objects: dict[str, dict[str, Stored]] = {kind: {} for kind in RESOURCES}
        self._keys: dict[str, list[str]] = {kind: [] for kind in RESOURCES}

    def get(self, kind: str, key: str) -> Stored | None:
        return self._objects[resource_of(kind).kind].get(key)

    def all(self, kind: str) -> list[Stored]:
        """Every object of a kind, by key."""
        objects = self._objects[resource_of(kind).kind]
        return [objects[key] for key in self._keys[kind]]

    def at(self, kind: str, revision: int) -> list[Stored]:
        """`all` as of a revision that is not compacted."""
        objects = dict(self._objects[resource_of(kind).kind])
        for event in reversed(self.since(revision)):
            if event.kind == kind:
                _undo(objects, event)
        return [objects[key] for key in sorted(objects)]

    def since(self, revision: int) -> list[Event]:
        """What happened after a revision."""
        return self.history[bisect_right(self.history, revision, key=_revision) :]

    def put(self, kind: str, obj: JSON) -> list[Event]:
        """Creates or updates; an object whose UID is another is deleted and created. Returns the last event last."""
        given: JSON = obj.get("metadata") or {}
        before = self.get(kind, key_of(kind, given["name"], given.get("namespace") or ""))
        events = []
        if before is not None and given.get("uid", before.uid) != before.uid:
            events.append(self.delete(kind, before.key))
            before = None
        after = self._encoded(kind, obj, before)
        event_type = "ADDED" if before is None else "MODIFIED"
        events.append(self._happened(Event(event_type, kind, after.revision, after.body, before, after)))
        return events

    def delete(self, kind: str, key: str) -> Event:
        """Deletes an object; KeyError if there is none."""
        before = self.get(kind, key)
        if before is None:
            raise KeyError(f"{kind} {key} not found")
        self.revision += 1
        last: JSON = msgspec.json.decode(before.body)
        last["metadata"]["resourceVersion"] = str(self.revision)
        return self._happened(Event("DELETED", kind, self.revision, msgspec.json.encode(last), before))

    def load(self, kind: str, objs: Iterable[JSON]) -> int:
        """Puts many objects as if that was long ago: the history is compacted afterwards."""
        objects, count = self._objects[resource_of(kind).kind], 0
        for obj in objs:
            metadata = obj["metadata"]
            key = key_of(kind, metadata["name"], metadata.get("namespace") or "")
            objects[key] = self._encoded(kind, obj, objects.get(key))
            count += 1
        self._keys[kind] = sorted(objects)
        self.compact(self.revision)
        return count

    def compact(self, revision: int) -> None:
        """Forgets what happened up to a revision."""
        self.history = self.since(revision)
        self.compacted = max(self.compacted, revision)

    def rewind(self, revision: int) -> None:
        """Everything as it was at a revision that is not compacted; what happened since did not happen."""
        if not self.compacted <= revision <= self.revision:
            raise ValueError(f"revision {revision} is not in {self.compacted}..{self.revision}, what is remembered")
        undone = self.since(revision)
        for event in reversed(undone):
            _undo(self._objects[event.kind], event)
        for kind in {event.kind for event in undone}:
            self._keys[kind] = sorted(self._objects[kind])
        del self.history[len(self.history) - len(undone) :]
        self.revision = revision

    def _encoded(self, kind: str, obj: JSON, before: Stored | None) -> Stored:
        self.revision += 1
        metadata = dict(obj["metadata"])
        key = key_of(kind, metadata["name"], metadata.get("namespace") or "")
        if resource_of(kind).namespaced:
            metadata["namespace"] = metadata.get("namespace") or "default"
        uid = metadata.get("uid") or (before.uid if before else f"{kind.lower()}-{self.revision}")
        metadata |= {"uid": uid, "resourceVersion": str(self.revision)}
        if kind == "Pod":
            metadata.setdefault("generation", _generation(obj, before))
        body = {"metadata": metadata} | {k: v for k, v in obj.items() if k not in ("kind", "apiVersion", "metadata")}
        return Stored(key, uid, self.revision, msgspec.json.encode(body))

    def _happened(self, event: Event) -> Event:
        objects, keys = self._objects[event.kind], self._keys[event.kind]
        if event.after is None and event.before is not None:
            del objects[event.before.key]
            del keys[bisect_left(keys, event.before.key)]
        elif event.after is not None:
            objects[event.after.key] = event.after
            if event.before is None:
                insort(keys, event.after.key)
        self.history.append(event)
        if len(self.history) > 2 * self.HISTORY:
            self.compact(self.history[self.HISTORY].revision)
        return event


def _generation(pod: JSON, before: Stored | None) -> int:
    """Generation of a pod: how many specs it has had; a bind does not count."""
    if before is None:
        return 1
    last: JSON = msgspec.json.decode(before.body)
    spec, last_spec = ((one.get("spec") or {}) | {"nodeName": None} for one in (pod, last))
    generation: int = last["metadata"]["generation"] + (spec != last_spec)
    return generation


def _undo(objects: dict[str, Stored], event: Event) -> None:
    if event.before is not None:
        objects[event.before.key] = event.before
    elif event.after is not None:
        objects.pop(event.after.key, None)


def _revision(event: Event) -> int:
    return event.revision
