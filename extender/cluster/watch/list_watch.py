"""Define list and watch except I/O: resources, pages, watch events, resourceVersions, timeouts, backoff, interfaces.

Mirrors client-go's ListWatch, ListPager and the types around Reflector (tools/cache/listwatch.go, reflector.go;
tools/pager), and metav1's ListMeta, WatchEvent and PartialObjectMetadata.

Rule: bytes and numbers in, values out. Nothing here reads a socket or a clock, and input that is not understood is an
error or a reason, never a guess.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import Raw, field

from extender.cluster.apiserver.stream import ApiError, ApiStatus, ApiUnreachable, Stream
from extender.cluster.cache.cache import Change
from extender.k8s.kinds import Key, kind_without_group
from extender.k8s.objects import Value

QueryParams = Mapping[str, str]

METADATA_ONLY_ACCEPT = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""Accept header for a list of names, UIDs and resourceVersions; a server without support sends whole objects."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events of a watch (KEP-3157)."""


# --- resources ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind and the API path that lists its objects in all namespaces."""

    kind: str
    """A key of `KINDS`."""
    path: str
    core: bool = False
    """True if decisions are impossible without this kind."""

    @property
    def plural(self) -> str:
        return self.path.rpartition("/")[2]


RESOURCES: tuple[Resource, ...] = (
    Resource("Node", "/api/v1/nodes", core=True),
    Resource("Pod", "/api/v1/pods", core=True),
    Resource("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets", core=True),
    Resource("Namespace", "/api/v1/namespaces"),
    Resource("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    Resource("Service", "/api/v1/services"),
    Resource("ReplicationController", "/api/v1/replicationcontrollers"),
    Resource("ReplicaSet", "/apis/apps/v1/replicasets"),
    Resource("StatefulSet", "/apis/apps/v1/statefulsets"),
    Resource("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    Resource("PersistentVolume", "/api/v1/persistentvolumes"),
    Resource("StorageClass", "/apis/storage.k8s.io/v1/storageclasses"),
    Resource("CSINode", "/apis/storage.k8s.io/v1/csinodes"),
    Resource("CSIDriver", "/apis/storage.k8s.io/v1/csidrivers"),
    Resource("CSIStorageCapacity", "/apis/storage.k8s.io/v1/csistoragecapacities"),
    Resource("VolumeAttachment", "/apis/storage.k8s.io/v1/volumeattachments"),
    Resource("DeviceClass", "/apis/resource.k8s.io/v1/deviceclasses"),
)
"""The kinds that are always watched."""

POD_GROUP_RESOURCES: tuple[Resource, ...] = (
    Resource("PodGroup", "/apis/scheduling.k8s.io/v1alpha2/podgroups"),
    Resource("PodGroup.scheduling.x-k8s.io", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"),
)
"""Kinds that are watched only if the configuration uses pod groups; most clusters have neither."""


# --- metadata, before an object is decoded --------------------------------------------------------------------------


class PartialMetadata(msgspec.Struct, rename="camel", gc=False):
    """The fields of ObjectMeta that list and watch need."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class PartialObjectMetadata(msgspec.Struct, gc=False):
    """Kind and metadata of an object (metav1.PartialObjectMetadata); items of a list have no kind."""

    kind: str = ""
    """Kind as the object gives it, without API group; see `kind_without_group`."""
    metadata: PartialMetadata | None = None

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return (self.metadata.namespace, self.metadata.name) if self.metadata is not None else ("", "")

    @property
    def uid(self) -> str:
        return self.metadata.uid if self.metadata is not None else ""

    @property
    def version(self) -> str:
        """resourceVersion; empty if the object has none."""
        return self.metadata.resource_version if self.metadata is not None else ""

    def fault(self, kind: str) -> str | None:
        """Return why this is not an object of the kind (a key of KINDS), or None."""
        if self.kind not in ("", kind_without_group(kind)):
            return f"it is a {self.kind[:100]!r}"
        if self.metadata is None or not self.metadata.name:
            return "it has no metadata or no name"
        return None


_METADATA_DECODER = msgspec.json.Decoder(PartialObjectMetadata)


def decode_metadata(raw: bytes | Raw) -> PartialObjectMetadata:
    """Return kind and metadata of an object's JSON; ValueError if it is not an object."""
    return _METADATA_DECODER.decode(raw)


# --- lists ----------------------------------------------------------------------------------------------------------


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = field(default="", name="continue")


class ListPage(msgspec.Struct):
    """A page of a list; `metadata.continue_token` requests the next one."""

    metadata: ListMeta
    kind: str = ""
    items: list[Raw] | None = None


_PAGE_DECODER = msgspec.json.Decoder(ListPage)


def list_pages(fetch: Callable[[QueryParams], bytes], kind: str, size: int) -> Iterator[ListPage]:
    """Yield the pages of one list, all at the same resourceVersion; ApiUnreachable for a response of another kind."""
    listed = f"{kind_without_group(kind)}List"
    params = {"limit": str(size)}
    while True:
        try:
            page = _PAGE_DECODER.decode(fetch(params))
        except ValueError as error:
            raise ApiUnreachable(f"the response is not a list: {error}") from error
        if page.kind not in ("", listed, "PartialObjectMetadataList"):
            raise ApiUnreachable(f"the response is a {page.kind[:100]!r}, not a {listed}")
        yield page
        if not page.metadata.continue_token:
            return
        params = {"limit": str(size), "continue": page.metadata.continue_token}


def list_resource_versions(fetch: Callable[[QueryParams], bytes], kind: str, size: int) -> dict[Key, tuple[str, str]]:
    """Return (namespace, name) -> (uid, resourceVersion) of a list's items; items without metadata are ignored."""
    found: dict[Key, tuple[str, str]] = {}
    for page in list_pages(fetch, kind, size):
        for raw in page.items or ():
            with contextlib.suppress(ValueError):
                meta = decode_metadata(raw)
                found[meta.key] = (meta.uid, meta.version)
    found.pop(PartialObjectMetadata().key, None)
    return found


# --- watches --------------------------------------------------------------------------------------------------------


OBJECT_EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED")
"""Watch event types that carry an object."""


class WatchEvent(msgspec.Struct):
    """One line of a watch (metav1.WatchEvent)."""

    type: str
    object: Raw


_EVENT_DECODER = msgspec.json.Decoder(WatchEvent)
_STATUS_DECODER = msgspec.json.Decoder(ApiStatus)


def decode_event(line: bytes) -> WatchEvent:
    """Return the event of a watch line; ApiError for an ERROR event, ApiUnreachable if the line is not an event."""
    try:
        event = _EVENT_DECODER.decode(line)
        error = _STATUS_DECODER.decode(event.object).error() if event.type == "ERROR" else None
    except ValueError as failed:
        raise ApiUnreachable(f"a watch line is not an event: {failed}") from failed
    if error is not None:
        raise error
    return event


def ends_initial_events(meta: PartialObjectMetadata) -> bool:
    """Return whether this bookmark marks the end of the initial events (KEP-3157)."""
    annotations = meta.metadata.annotations if meta.metadata is not None else None
    return (annotations or {}).get(INITIAL_EVENTS_END) == "true"


# --- resourceVersions and errors ------------------------------------------------------------------------------------


def is_older_version(version: str, other: str) -> bool:
    """Return whether `version` precedes `other`; False unless both are numbers."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)


def is_expired(error: ApiError) -> bool:
    """Return whether the resourceVersion or continue token has expired, which requires a relist (isExpiredError)."""
    return error.code == 410 or error.reason in ("Expired", "Gone")


def is_too_large_version(error: ApiError) -> bool:
    """Return whether the server lags behind the requested resourceVersion (isTooLargeResourceVersionError)."""
    return "Too large resource version" in error.message


# --- timeouts and backoff -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Timeouts and retry intervals of list and watch, in seconds except `page_size`."""

    page_size: int = 500
    """Objects per page of a paginated list (client-go's WatchListPageSize)."""
    connect_timeout: float = 10.0
    list_timeout: float = 60.0
    """Seconds without data after which a list is abandoned."""
    idle_timeout: float = 90.0
    """Seconds without data after which a watch is abandoned; bookmarks come every minute."""
    watch_timeout_seconds: tuple[int, int] = (300, 600)
    """Range from which `timeoutSeconds` of a watch is drawn (client-go: minWatchTimeout, 5 to 10 minutes)."""
    initial_events_timeout: float = 60.0
    """Seconds within which the initial events of a watch must be complete; a slower server is listed in pages."""
    min_watch_seconds: float = 5.0
    """A watch that lasted this long counts as a success, even without events."""
    backoff: tuple[float, float] = (0.8, 30.0)
    """First and longest wait between failures (client-go's reflector: 800 ms to 30 s)."""
    max_retry_after: float = 300.0
    """Bound on a Retry-After that the server asks for."""
    unreadable_retry_seconds: float = 300.0
    """Seconds until an optional kind that is forbidden or absent is tried again."""


class Backoff:
    """Exponential backoff with jitter: 0 after the first failure in a row, then `first`, doubling up to `cap`.

    Each wait is reduced by a random part of up to one half. The first retry is immediate because most connections end
    for transient reasons. The caller reports a success with `reset`.
    """

    def __init__(self, first: float, cap: float, jitter: Callable[[], float]) -> None:
        self._first = first
        self._cap = cap
        self._jitter = jitter
        self._failures = 0

    def next(self) -> float:
        """Return the seconds to wait before the next retry, at most `cap`."""
        self._failures += 1
        if self._failures == 1:
            return 0.0
        whole = min(self._cap, self._first * 2.0 ** min(self._failures - 2, 32))
        return whole * (0.5 + self._jitter() / 2)

    def reset(self) -> None:
        self._failures = 0


# --- the interfaces of a reflector ----------------------------------------------------------------------------------


class ListerWatcher(Protocol):
    """The requests that a reflector makes (client-go's ListerWatcher); ApiServer implements it."""

    def get(self, path: str, params: QueryParams | None = None, *, accept: str) -> bytes: ...
    def stream(
        self, path: str, params: QueryParams | None = None, *, connect_timeout: float, read_timeout: float
    ) -> Stream: ...


class ObjectDecoder(Protocol):
    """The decoder of one kind; `decode.Decoder` implements it."""

    def decode(self, raw: Raw) -> Value:
        """Return the object; ValueError if decisions could not read it."""

    def decode_event(self, line: bytes, get_cached: Callable[[Key], Value | None]) -> tuple[str, Value] | None:
        """Return (event type, object) of a watch line; None if the line needs the slow path, part by part."""


class ReflectorStore(Protocol):
    """The receiver of a reflector's objects (client-go's ReflectorStore); used by its thread only, in order."""

    def get_for_list(self, kind: str, namespace: str, name: str) -> Value | None:
        """Return the cached object for an item of a list, so that an unchanged item is not decoded again."""

    def get_for_event(self, kind: str, key: Key) -> Value | None:
        """Return the cached object for an event, without the yielding of `get_for_list`.

        None while a list of the kind is queued: the event follows that list, and the cached object precedes it.
        """

    def replace(self, kind: str, objects: list[Value], version: str) -> None:
        """Replace all objects of the kind."""

    def apply(self, kind: str, changes: list[Change]) -> None:
        """Apply events in order."""

    def drop(self, kind: str, reason: str) -> None:
        """Drop the objects of the kind: "absent" (the API is not served) or "forbidden" (no permission)."""


PHASES = ("starting", "listing", "watching", "broken", "forbidden", "absent")
"""The phases of a reflector."""


class ReflectorState:
    """The state of one reflector. Written by its thread, read by any; times are those of its clock, in seconds."""

    def __init__(self) -> None:
        self.phase = "starting"
        """One of PHASES."""
        self.version = ""
        """resourceVersion of the last list, event or bookmark (client-go's LastSyncResourceVersion)."""
        self.last_contact: float | None = None
        """Time of the last list page, event or bookmark."""
        self.broken_since: float | None = None
        """Time since which the cache may be stale; None while the kind is being watched."""
        self.regressed = False
        """True if the last list was older than the cache and no second list has confirmed that yet."""
        self.fatal: str | None = None
        """Reason why the reflector has ended for good."""
        self.last_error: str | None = None
        self.interruptions = 0
        """Number of times the watch was interrupted."""
        self.relists = 0
        self.watch_restarts = 0
        self.events = 0
        self.skipped = 0
