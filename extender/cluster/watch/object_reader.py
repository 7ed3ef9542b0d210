"""Decide what becomes of each object that the server sends: taken as it is held, decoded, or skipped.

An object that decisions could not read is counted and leaves what is held as it was; its deletion still deletes.

Rule: one bad object costs nothing but itself.
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
"""What is skipped is logged at most so often."""


class ObjectReader:
    """Reads objects of one kind; counts in `status.skipped` those that it cannot read."""

    def __init__(
        self,
        kind: str,
        decoder: ObjectDecoder,
        sink: ReflectorStore,
        status: ReflectorState,
        clock: Callable[[], float],
    ) -> None:
        self._kind = kind
        self._decoder = decoder
        self._sink = sink
        self._before = partial(sink.held, kind)
        self._status = status
        self._clock = clock
        self._logged: float | None = None
        self.doubts = False
        """Whether what is held may be wrong: then the same version is no proof that it is the same."""

    def event(self, line: bytes) -> tuple[str, Value] | None:
        """Return type and object of a line that tells of a change that can be read: nearly all do. None for others."""
        found = self._decoder.event(line, self._before)
        return found if found is not None and found[0] in OBJECT_EVENT_TYPES else None

    def head(self, raw: Raw) -> PartialObjectMetadata | None:
        """Return kind and metadata, or None."""
        try:
            return list_watch.decode_metadata(raw)
        except ValueError as error:
            self.skip(PartialObjectMetadata(), str(error))
            return None

    def listed(self, head: PartialObjectMetadata, raw: Raw) -> Value | None:
        """Return an object of a list: the one that is held if it is the same, or if this one cannot be read."""
        if not self._is_ours(head):
            return None
        held = self._held(head)
        same = held is not None and held.metadata.resource_version == head.version  # type: ignore[attr-defined]
        if same and not self.doubts:
            return held
        return self._decoded(head, raw) or held

    def changed(self, head: PartialObjectMetadata, raw: Raw) -> Value | None:
        """Return the object of an ADDED or MODIFIED event."""
        return self._decoded(head, raw) if self._is_ours(head) else None

    def deleted(self, head: PartialObjectMetadata, raw: Raw) -> Value | None:
        """Return the object of a DELETED event; the one that is held if its last state cannot be read."""
        return (self._decoded(head, raw) or self._held(head)) if self._is_ours(head) else None

    def skip(self, head: PartialObjectMetadata, why: str) -> None:
        """Count something that is not taken, and log it if nothing was logged lately."""
        self._status.skipped += 1
        now = self._clock()
        if self._logged is None or now - self._logged >= SKIP_LOG_INTERVAL_SECONDS:
            self._logged = now
            log.warning("%s %r skipped: %s", self._kind, "/".join(head.key), why)

    def _is_ours(self, head: PartialObjectMetadata) -> bool:
        fault = head.fault(self._kind)
        if fault is not None:
            self.skip(head, fault)
        return fault is None

    def _decoded(self, head: PartialObjectMetadata, raw: Raw) -> Value | None:
        try:
            return self._decoder.decode(raw)
        except (ValueError, RecursionError) as error:
            self.skip(head, str(error))
            return None

    def _held(self, head: PartialObjectMetadata) -> Value | None:
        """What is held, if it is the same object and not an older one of the same name."""
        held = self._sink.known(self._kind, *head.key)
        return held if held is not None and held.metadata.uid == head.uid else None  # type: ignore[attr-defined]
