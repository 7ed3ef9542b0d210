"""The terms of list and watch: where kinds are served, what pages and lines mean, how long to wait, who hears of it.

Rule: bytes and numbers in, values out. Nothing here reads a socket or a clock, and what cannot be understood is an
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
from extender.k8s.kinds import Key, name_of
from extender.k8s.objects import Value

QueryParams = Mapping[str, str]

METADATA_ONLY_ACCEPT = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""Accept header for a list of names, UIDs and versions; a server that cannot do it sends whole objects."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events of a watch (KEP-3157)."""


# --- the kinds ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind, and where all of its objects are listed."""

    kind: str
    """A key of `KINDS`."""
    path: str
    core: bool = False
    """Whether no decision is possible without it."""

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
"""The kinds that are always followed."""

POD_GROUP_RESOURCES: tuple[Resource, ...] = (
    Resource("PodGroup", "/apis/scheduling.k8s.io/v1alpha2/podgroups"),
    Resource("PodGroup.scheduling.x-k8s.io", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"),
)
"""Those that are followed only where decisions ask for them; most clusters have neither."""


# --- objects, before they are decoded -------------------------------------------------------------------------------


class PartialMetadata(msgspec.Struct, rename="camel", gc=False):
    """What is read of every object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class PartialObjectMetadata(msgspec.Struct, gc=False):
    """Kind and metadata of an object; items of a list have no kind of their own."""

    kind: str = ""
    """As the object says it: see `name_of`."""
    metadata: PartialMetadata | None = None

    @property
    def key(self) -> Key:
        return (self.metadata.namespace, self.metadata.name) if self.metadata is not None else ("", "")

    @property
    def uid(self) -> str:
        return self.metadata.uid if self.metadata is not None else ""

    @property
    def version(self) -> str:
        """The resourceVersion."""
        return self.metadata.resource_version if self.metadata is not None else ""

    def fault(self, kind: str) -> str | None:
        """Return why this is not an object of that kind of KINDS, or None."""
        if self.kind not in ("", name_of(kind)):
            return f"it is a {self.kind[:100]!r}"
        if self.metadata is None or not self.metadata.name:
            return "it has no metadata or no name"
        return None


_HEADS = msgspec.json.Decoder(PartialObjectMetadata)


def decode_metadata(raw: bytes | Raw) -> PartialObjectMetadata:
    """Return the head of an object; ValueError if it has none."""
    return _HEADS.decode(raw)


# --- lists ----------------------------------------------------------------------------------------------------------


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    rest: str = field(default="", name="continue")


class ListPage(msgspec.Struct):
    """A page of a list; `metadata.rest` asks for the next one."""

    metadata: ListMeta
    kind: str = ""
    items: list[Raw] | None = None


_PAGES = msgspec.json.Decoder(ListPage)


def list_pages(fetch: Callable[[QueryParams], bytes], kind: str, size: int) -> Iterator[ListPage]:
    """Yield the pages of one list, which is of one moment. ApiUnreachable for anything that is no such list."""
    listed = f"{name_of(kind)}List"
    params = {"limit": str(size)}
    while True:
        try:
            page = _PAGES.decode(fetch(params))
        except ValueError as error:
            raise ApiUnreachable(f"the answer is no list: {error}") from error
        if page.kind not in ("", listed, "PartialObjectMetadataList"):
            raise ApiUnreachable(f"the answer is a {page.kind[:100]!r}, not a {listed}")
        yield page
        if not page.metadata.rest:
            return
        params = {"limit": str(size), "continue": page.metadata.rest}


def list_resource_versions(fetch: Callable[[QueryParams], bytes], kind: str, size: int) -> dict[Key, tuple[str, str]]:
    """Return (namespace, name) -> (uid, resourceVersion) of all items of a list that have them."""
    found: dict[Key, tuple[str, str]] = {}
    for page in list_pages(fetch, kind, size):
        for raw in page.items or ():
            with contextlib.suppress(ValueError):
                head = decode_metadata(raw)
                found[head.key] = (head.uid, head.version)
    found.pop(PartialObjectMetadata().key, None)
    return found


# --- watches --------------------------------------------------------------------------------------------------------


OBJECT_EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED")
"""Types of events that are about an object."""


class WatchEvent(msgspec.Struct):
    """A line of a watch."""

    type: str
    object: Raw


_EVENTS = msgspec.json.Decoder(WatchEvent)
_STATUSES = msgspec.json.Decoder(ApiStatus)


def decode_event(line: bytes) -> WatchEvent:
    """Return the event of a line. ApiError if it is an ERROR; ApiUnreachable if what sends it does not speak watch."""
    try:
        event = _EVENTS.decode(line)
        error = _STATUSES.decode(event.object).error() if event.type == "ERROR" else None
    except ValueError as failed:
        raise ApiUnreachable(f"a line of the watch is no event: {failed}") from failed
    if error is not None:
        raise error
    return event


def ends_initial_events(head: PartialObjectMetadata) -> bool:
    """Whether this is the bookmark after which everything has been sent."""
    annotations = head.metadata.annotations if head.metadata is not None else None
    return (annotations or {}).get(INITIAL_EVENTS_END) == "true"


# --- versions and errors --------------------------------------------------------------------------------------------


def is_older_version(version: str, held: str) -> bool:
    """Whether a resourceVersion comes before another; of two that are not both numbers, none does."""
    return version.isdecimal() and held.isdecimal() and int(version) < int(held)


def is_expired(error: ApiError) -> bool:
    """Whether the resourceVersion or continue token is too old: only a new list helps."""
    return error.code == 410 or error.reason in ("Expired", "Gone")


def is_too_large_version(error: ApiError) -> bool:
    """Whether the server has not come as far as our resourceVersion."""
    return "Too large resource version" in error.message


# --- waiting --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Seconds, except for `page_size`."""

    page_size: int = 500
    connect_timeout: float = 10.0
    list_timeout: float = 60.0
    """Silence in the middle of a list."""
    silence: float = 90.0
    """Silence of a watch: bookmarks come every minute."""
    watch_seconds: tuple[int, int] = (300, 600)
    """How long the server is asked to keep a watch open, by chance between the two."""
    initial_events: float = 60.0
    """How long the initial events of a watch may take; a server that needs more is listed in pages."""
    healthy: float = 5.0
    """A watch that lasted so long was no failure."""
    backoff: tuple[float, float] = (0.8, 30.0)
    """First and longest wait between failures."""
    longest_retry_after: float = 300.0
    refused: float = 300.0
    """Until an optional kind that is forbidden or absent is tried again."""


class Backoff:
    """Seconds to wait after each failure in a row: none, `first`, then twice as much up to `cap`, less a chance half.

    The first retry comes at once: most connections end for no reason that lasts. Whoever counts a success says `reset`.
    """

    def __init__(self, first: float, cap: float, chance: Callable[[], float]) -> None:
        self._first = first
        self._cap = cap
        self._chance = chance
        self._failures = 0

    def next(self) -> float:
        """Return the seconds to wait now; at most `cap`, so that nobody waits longer for a server that is back."""
        self._failures += 1
        if self._failures == 1:
            return 0.0
        whole = min(self._cap, self._first * 2.0 ** min(self._failures - 2, 32))
        return whole * (0.5 + self._chance() / 2)

    def reset(self) -> None:
        self._failures = 0


# --- who a reflector has to do with ---------------------------------------------------------------------------------


class ListerWatcher(Protocol):
    """What a reflector needs of ApiServer."""

    def get(self, path: str, params: QueryParams | None = None, *, accept: str) -> bytes: ...
    def stream(
        self, path: str, params: QueryParams | None = None, *, connect_timeout: float, read_timeout: float
    ) -> Stream: ...


class ObjectDecoder(Protocol):
    """What a reflector needs of `decode.Decoder`."""

    def decode(self, raw: Raw) -> Value:
        """Return the object; ValueError if decisions could not read it."""

    def event(self, line: bytes, held: Callable[[Key], Value | None]) -> tuple[str, Value] | None:
        """Return type and object of an event's line; None if it has to be looked at part by part."""


class ReflectorStore(Protocol):
    """Who keeps the objects; called by the reflector's thread only, in order."""

    def known(self, kind: str, namespace: str, name: str) -> Value | None:
        """Return the object that is held, so that a list does not decode anew what has not changed."""

    def held(self, kind: str, key: Key) -> Value | None:
        """The same for an event, which nobody else has to wait for; None while a list of the kind waits to be applied,
        since the event comes after that list."""

    def listed(self, kind: str, objects: list[Value], version: str) -> None:
        """Take these as all there are of a kind."""

    def changed(self, kind: str, changes: list[Change]) -> None:
        """Apply events in their order."""

    def unreadable(self, kind: str, why: str) -> None:
        """Drop the kind: "absent", there are no such objects; or "forbidden", we cannot know."""


PHASES = ("starting", "listing", "watching", "broken", "forbidden", "absent")
"""How a kind may stand."""


class ReflectorState:
    """How true the picture of one kind is. Written by the reflector's thread, read by any; times are its clock's."""

    def __init__(self) -> None:
        self.phase = "starting"
        """One of PHASES."""
        self.version = ""
        """The last resourceVersion of a list, an event or a bookmark."""
        self.last_contact: float | None = None
        """When the server last proved that the stream is current."""
        self.broken_since: float | None = None
        """Since when the picture has been falling behind; None while it does not."""
        self.regressed = False
        """The server lists an older state than we hold, and has not yet said so twice."""
        self.fatal: str | None = None
        """Why there is no point in going on; the reflector has ended."""
        self.last_error: str | None = None
        self.interruptions = 0
        """How often it has begun to fall behind."""
        self.relists = 0
        self.watch_restarts = 0
        self.events = 0
        self.skipped = 0
