"""Decode, reuse or skip each object that the API server sends, and queue the result.

An invalid object is counted and skipped: its cached state stays, and its deletion still applies.

Rule: an object that cannot be decoded affects no other object.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec import Raw
from msgspec.structs import replace

from extender.cluster.cache.cache import Change, identity
from extender.cluster.watch import list_watch
from extender.cluster.watch.decode import Decoder
from extender.cluster.watch.delta_queue import DeltaQueue, Deltas, Replaced
from extender.cluster.watch.list_watch import OBJECT_EVENT_TYPES, PartialObjectMetadata
from extender.cluster.watch.state import ReflectorState
from extender.k8s.kinds import Key, kind_without_group
from extender.k8s.objects import Object
from extender.utilities.log_throttle import Throttle

log = logging.getLogger(__name__)

OBJECTS_PER_PAUSE = 20  # Objects of a list that a thread reads between two pauses
PAUSE_SECONDS = 0.0005  # Length of a pause, in which the event loop gets the interpreter lock
SKIP_LOG_INTERVAL_SECONDS = 60.0  # Minimum seconds between two log lines about skipped objects of a kind


@dataclass(eq=False)
class ObjectReader:
    """Reads the objects of one kind for a reflector."""

    kind: str
    decoder: Decoder
    store: DeltaQueue
    state: ReflectorState
    clock: Callable[[], float]
    must_decode: bool = False  # True if the next list must not reuse cached objects: they may be wrong

    def __post_init__(self) -> None:
        self._throttle = Throttle(SKIP_LOG_INTERVAL_SECONDS, self.clock)
        self._get_cached = partial(self.store.get_for_event, self.kind)
        self._reads = 0

    def read_event(self, line: bytes) -> Change | None:
        """Return the change of a watch line; None for bookmarks, errors and lines that cannot be decoded."""
        found = self.decoder.decode_event(line, self._get_cached)
        if found is None or found[0] not in OBJECT_EVENT_TYPES:
            return None
        return Change(self.kind, found[1], found[0] == "DELETED")

    def read_item(self, raw: Raw) -> Object | None:
        """Return the object of a list item; None if it is skipped."""
        # Once the cache has synced, most items are cached at the same resourceVersion: only their metadata is decoded.
        if not self.store.has_synced:
            with contextlib.suppress(ValueError):  # the reason is found and counted below
                return self.decoder.decode(raw)
        meta = self.read_metadata(raw)
        return None if meta is None else self.read_listed(meta, raw)

    def read_metadata(self, raw: Raw) -> PartialObjectMetadata | None:
        """Return kind and metadata; None, counted as skipped, if the JSON is not an object."""
        try:
            return list_watch.decode_metadata(raw)
        except ValueError as error:
            self.skip(("", ""), str(error))
            return None

    def read_listed(self, meta: PartialObjectMetadata, raw: Raw) -> Object | None:
        """Return the object of a list item: the cached object if its version is the same, or if the item is invalid."""
        cached = self._cached(meta)
        sent = meta.metadata.uid, meta.metadata.resource_version
        if cached is not None and identity(cached) == sent and not self.must_decode:
            return cached
        return self._decode(meta, raw, cached)

    def read_change(self, meta: PartialObjectMetadata, raw: Raw, is_deleted: bool) -> Change | None:
        """Return the change of an event; a deletion with an invalid object carries the cached object instead."""
        cached = self._cached(meta) if is_deleted else None
        if cached is not None:  # with the deletion's version: with its own, the change would count as already listed
            metadata = replace(cached.metadata, resource_version=meta.metadata.resource_version)
            cached = replace(cached, metadata=metadata)
        found = self._decode(meta, raw, cached)
        return None if found is None else Change(self.kind, found, is_deleted)

    def put_list(self, objects: Sequence[Object], version: str) -> None:
        """Queue a complete list."""
        self.store.put(Replaced(self.kind, objects, version))
        self.must_decode = False

    def put_nothing(self, is_forbidden: bool) -> None:
        """Queue an empty list: the kind has no objects, or they are unknown (`is_forbidden`)."""
        self.store.put(Replaced(self.kind, (), "", is_forbidden))

    def put_changes(self, changes: Sequence[Change]) -> None:
        if changes:
            self.state.events += len(changes)
            self.store.put(Deltas(self.kind, changes))

    def skip(self, key: Key, reason: str) -> None:
        """Count a skipped object and log it, at most once per SKIP_LOG_INTERVAL_SECONDS."""
        self.state.skipped += 1
        if self._throttle.is_due():
            log.warning("%s %r skipped: %s", self.kind, "/".join(key), reason)

    def _decode(self, meta: PartialObjectMetadata, raw: Raw, otherwise: Object | None) -> Object | None:
        """Return the object; None if its kind differs or its name is missing, `otherwise` if it cannot be decoded."""
        if meta.kind not in ("", kind_without_group(self.kind)):
            self.skip(meta.key, f"unexpected kind {meta.kind[:100]!r}")
            return None
        if not meta.metadata.name:
            self.skip(meta.key, "metadata.name is missing")
            return None
        try:
            return self.decoder.decode(raw)
        except ValueError as error:
            self.skip(meta.key, str(error))
            return otherwise

    def _cached(self, meta: PartialObjectMetadata) -> Object | None:
        """Return the cached object of the same name if it also has the same UID."""
        # Sleep now and then, because the event loop's thread needs the interpreter lock, too: a sleeping thread
        # releases it at once, a running one only after the switch interval.
        self._reads += 1
        if self._reads % OBJECTS_PER_PAUSE == 0 and self.store.has_synced:
            time.sleep(PAUSE_SECONDS)
        cached = self.store.get_for_list(self.kind, meta.key)
        return cached if cached is not None and identity(cached)[0] == meta.metadata.uid else None
