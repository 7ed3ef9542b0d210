"""Define list and watch except I/O: resources, pages, watch events, errors, timeouts, backoff.

Mirrors client-go's ListWatch, ListPager and the types around Reflector (tools/cache/listwatch.go, reflector.go;
tools/pager), and metav1's ListMeta, WatchEvent and PartialObjectMetadata.

Rule: bytes and numbers in, values out. Nothing here reads a socket or a clock, and input that is not understood is an
error or a reason, never a guess.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
from msgspec import Raw, field

from extender.cluster.apiserver.client import QueryParams
from extender.cluster.apiserver.stream import ApiStatus, ApiUnreachable
from extender.k8s.controllers import PodGroup
from extender.k8s.kinds import KINDS, Key, kind_without_group

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
    core: bool
    """True if decisions are impossible without this kind."""
    other_paths: tuple[str, ...] = ()
    """Paths of other versions, which are tried in turn if the server does not have `path`."""

    @property
    def plural(self) -> str:
        return self.path.rpartition("/")[2]


CORE_KINDS = ("Node", "Pod", "PodDisruptionBudget")


def _resource(kind: str) -> Resource:
    """Return the resource of a key of KINDS, with the plural of meta.UnsafeGuessKindToResource (apimachinery)."""
    of_kind, name = KINDS[kind], kind_without_group(kind).lower()
    plural = f"{name}es" if name.endswith("s") else f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
    root = "apis" if of_kind.group else "api"
    path, *others = (f"/{root}/{of_kind.group}/{version}/{plural}".replace("//", "/") for version in of_kind.versions)
    return Resource(kind, path, kind in CORE_KINDS, tuple(others))


class ServedPath:
    """The path at which a server has a resource: of its versions, the first that is not answered by 404."""

    def __init__(self, resource: Resource) -> None:
        self._paths = (resource.path, *resource.other_paths)
        self._index = self._missing = 0

    @property
    def current(self) -> str:
        return self._paths[self._index]

    def found(self) -> None:
        """Keep the current path."""
        self._missing = 0

    def try_next(self) -> bool:
        """Turn to the next path after a 404; return False if that was the last one that had not been tried."""
        self._missing += 1
        if len(self._paths) > 1:
            self._index = (self._index + 1) % len(self._paths)
        if self._missing < len(self._paths):
            return True
        self._missing = 0
        return False


RESOURCES = tuple(_resource(kind) for kind, of_kind in KINDS.items() if of_kind.type is not PodGroup)
"""The kinds that are always watched."""

POD_GROUP_RESOURCES = tuple(_resource(kind) for kind, of_kind in KINDS.items() if of_kind.type is PodGroup)
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

    metadata: PartialMetadata
    kind: str = ""
    """Kind as the object gives it, without API group; see `kind_without_group`."""

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return self.metadata.namespace, self.metadata.name


_METADATA_DECODER = msgspec.json.Decoder(PartialObjectMetadata)


def decode_metadata(raw: bytes | Raw) -> PartialObjectMetadata:
    """Return kind and metadata of an object's JSON; ValueError if it is not an object."""
    return _METADATA_DECODER.decode(raw)


# --- lists ----------------------------------------------------------------------------------------------------------


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = field(default="", name="continue")
    remaining_item_count: int | None = None
    """Objects behind this page; None on the last page, of a list with selectors, and if the server does not say."""


class ListPage(msgspec.Struct):
    """A page of a list; `metadata.continue_token` requests the next one."""

    metadata: ListMeta
    kind: str = ""
    items: list[Raw] | None = None


_PAGE_DECODER = msgspec.json.Decoder(ListPage)


def decode_page(body: bytes, kind: str) -> ListPage:
    """Return a page of a list; ApiUnreachable for a response of another kind."""
    listed = f"{kind_without_group(kind)}List"
    try:
        page = _PAGE_DECODER.decode(body)
    except (ValueError, RecursionError) as error:
        raise ApiUnreachable(f"the response is not a list: {error}") from error
    if page.kind not in ("", listed, "PartialObjectMetadataList"):
        raise ApiUnreachable(f"the response is a {page.kind[:100]!r}, not a {listed}")
    return page


def list_pages(fetch: Callable[[QueryParams], bytes], kind: str, size: int) -> Iterator[ListPage]:
    """Yield the pages of one list, all at the same resourceVersion; ApiUnreachable for a response of another kind."""
    params = {"limit": str(size)}
    while True:
        page = decode_page(fetch(params), kind)
        yield page
        if not page.metadata.continue_token:
            return
        params = {"limit": str(size), "continue": page.metadata.continue_token}


def list_metadata(fetch: Callable[[QueryParams], bytes], kind: str, size: int) -> dict[Key, tuple[str, str]]:
    """Return (namespace, name) -> (uid, resourceVersion) of one list; items without metadata are left out."""
    found: dict[Key, tuple[str, str]] = {}
    for page in list_pages(fetch, kind, size):
        for raw in page.items or ():
            with contextlib.suppress(ValueError):
                meta = decode_metadata(raw)
                found[meta.key] = meta.metadata.uid, meta.metadata.resource_version
    found.pop(("", ""), None)
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


def backoff(first: float, cap: float, jitter: Callable[[], float]) -> Iterator[float]:
    """Yield the seconds to wait after each failure in a row: 0, then `first`, doubling up to `cap`.

    Each wait is reduced by a random part of up to one half. The first retry is immediate because most connections end
    for transient reasons. After a success, begin a new one.
    """
    yield 0.0
    while True:
        yield first * (0.5 + jitter() / 2)
        first = min(cap, first * 2)


PHASES = ("starting", "listing", "watching", "broken", "forbidden", "absent")
"""The phases of a reflector."""

UNREADABLE_PHASES = ("forbidden", "absent")
"""The phases in which a kind counts as having no objects."""


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

    def mark_broken(self, reason: str, now: float) -> None:
        """Record that a list or watch failed; a kind that is unreadable stays so."""
        self.last_error = reason
        if self.phase in UNREADABLE_PHASES:
            return
        self.phase = "broken"
        if self.broken_since is None:
            self.broken_since = now
            self.interruptions += 1
