"""Read each object that the API server sends: reuse the cached one, decode it, or skip it.

An object that decisions could not read is counted and skipped: its cached state stays, and its deletion still applies.

Rule: an object that cannot be decoded affects no other object.
"""

import logging
from collections.abc import Callable
from functools import partial

from msgspec import Raw

from extender.cluster.watch import list_watch
from extender.cluster.watch.list_watch import (
    OBJECT_EVENT_TYPES,
    ObjectDecoder,
    PartialObjectMetadata,
    ReflectorState,
    ReflectorStore,
)
from extender.k8s.objects import Value

log = logging.getLogger(__name__)

SKIP_LOG_INTERVAL_SECONDS = 60.0
"""Minimum seconds between two log lines about skipped objects of a kind."""


class ObjectReader:
    """Reads the objects of one kind for a reflector; counts skipped ones in `state.skipped`."""

    def __init__(
        self,
        kind: str,
        decoder: ObjectDecoder,
        store: ReflectorStore,
        state: ReflectorState,
        clock: Callable[[], float],
    ) -> None:
        self._kind = kind
        self._decoder = decoder
        self._store = store
        self._get_cached = partial(store.get_for_event, kind)
        self._state = state
        self._clock = clock
        self._logged: float | None = None
        self.must_decode = False
        """True if the next list decodes every object: cached ones may be wrong despite an equal resourceVersion."""

    def read_event(self, line: bytes) -> tuple[str, Value] | None:
        """Return (event type, object) of a watch line on the fast path, for nearly all events; else None."""
        found = self._decoder.decode_event(line, self._get_cached)
        return found if found is not None and found[0] in OBJECT_EVENT_TYPES else None

    def read_metadata(self, raw: Raw) -> PartialObjectMetadata | None:
        """Return kind and metadata; None, counted as skipped, if the JSON is not an object."""
        try:
            return list_watch.decode_metadata(raw)
        except ValueError as error:
            self.skip(PartialObjectMetadata(), str(error))
            return None

    def read_listed(self, meta: PartialObjectMetadata, raw: Raw) -> Value | None:
        """Return an item of a list: the cached object if its resourceVersion is equal or the item cannot be decoded."""
        if not self._is_expected(meta):
            return None
        cached = self._cached(meta)
        is_same = cached is not None and cached.metadata.resource_version == meta.version  # type: ignore[attr-defined]
        if is_same and not self.must_decode:
            return cached
        return self._decode(meta, raw) or cached

    def read_changed(self, meta: PartialObjectMetadata, raw: Raw) -> Value | None:
        """Return the object of an ADDED or MODIFIED event; None if it is skipped."""
        return self._decode(meta, raw) if self._is_expected(meta) else None

    def read_deleted(self, meta: PartialObjectMetadata, raw: Raw) -> Value | None:
        """Return the object of a DELETED event; the cached one if its last state cannot be decoded."""
        return (self._decode(meta, raw) or self._cached(meta)) if self._is_expected(meta) else None

    def skip(self, meta: PartialObjectMetadata, reason: str) -> None:
        """Count a skipped object and log it, at most once per SKIP_LOG_INTERVAL_SECONDS."""
        self._state.skipped += 1
        now = self._clock()
        if self._logged is None or now - self._logged >= SKIP_LOG_INTERVAL_SECONDS:
            self._logged = now
            log.warning("%s %r skipped: %s", self._kind, "/".join(meta.key), reason)

    def _is_expected(self, meta: PartialObjectMetadata) -> bool:
        fault = meta.fault(self._kind)
        if fault is not None:
            self.skip(meta, fault)
        return fault is None

    def _decode(self, meta: PartialObjectMetadata, raw: Raw) -> Value | None:
        try:
            return self._decoder.decode(raw)
        except (ValueError, RecursionError) as error:
            self.skip(meta, str(error))
            return None

    def _cached(self, meta: PartialObjectMetadata) -> Value | None:
        """Return the cached object if it has the same UID, not just the same name."""
        cached = self._store.get_for_list(self._kind, *meta.key)
        return cached if cached is not None and cached.metadata.uid == meta.uid else None  # type: ignore[attr-defined]
