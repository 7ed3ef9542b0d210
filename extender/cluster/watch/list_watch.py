"""Define list and watch except I/O: resources, pages, watch events, errors, timeouts, backoff.

Mirrors client-go's ListWatch, ListPager and the types around Reflector (tools/cache/listwatch.go, reflector.go;
tools/pager), and metav1's ListMeta, WatchEvent and PartialObjectMetadata.

Rule: nothing here reads a socket or a clock, and input that is not understood is an error, never a guess.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, field

from extender.cluster.apiserver.client import QueryParams
from extender.cluster.apiserver.stream import ApiStatus, ApiUnreachable
from extender.k8s.kinds import KINDS, Key, kind_without_group
from extender.k8s.workloads import PodGroup

T = TypeVar("T")

METADATA_ONLY_ACCEPT = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""Accept header for a list of names, UIDs and resourceVersions; a server without support sends whole objects."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events of a watch (KEP-3157)."""


# --- resources ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind and the API path that lists its objects in all namespaces."""

    kind: str  # A key of `KINDS`
    path: str
    core: bool  # True if decisions are impossible without this kind
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
        self._paths = deque((resource.path, *resource.other_paths))
        self.missing = 0  # 404s since a path was found; the reflector sets it to 0 when one is

    @property
    def current(self) -> str:
        return self._paths[0]

    def try_next(self) -> bool:
        """Turn to the next path after a 404; return False if that was the last one that had not been tried."""
        self._paths.rotate(-1)
        self.missing = (self.missing + 1) % len(self._paths)
        return self.missing > 0


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
    kind: str = ""  # Kind as the object gives it, without API group; see `kind_without_group`

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return self.metadata.namespace, self.metadata.name


decode_metadata = msgspec.json.Decoder(PartialObjectMetadata).decode
"""Return kind and metadata of an object's JSON; ValueError if it is not an object."""


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
    items: list[Any] | None = None  # Raw JSON, or objects (`Decoder.decode_page`)


class _RawPage(ListPage):
    items: list[Raw] | None = None


_PAGE_DECODER = msgspec.json.Decoder(_RawPage)


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


def start_thread(function: Callable[[], T]) -> "Future[T]":
    """Run the function in a daemon thread, which does not keep the process from exiting."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def list_pages(
    fetch: Callable[[QueryParams], bytes],
    decode: Callable[[bytes], ListPage],
    size: int,
    params: QueryParams | None = None,
    *,
    is_ahead: bool = False,
) -> Iterator[ListPage]:
    """Yield the pages of one list, all at the same resourceVersion (client-go's ListPager).

    `size`: objects of a page, 0 for the whole list at once; `params`: of every request, besides those of the page.
    `is_ahead`: request the next page, in a thread, before the caller handles the last one.
    """
    params = dict(params or {}) | ({"limit": str(size)} if size else {})
    body = fetch(params)
    while True:
        page = decode(body)
        token = page.metadata.continue_token
        if not token:
            yield page
            return
        fetch_next: Callable[[], bytes] = partial(fetch, params | {"continue": token})
        if is_ahead:
            fetch_next = start_thread(fetch_next).result
        yield page
        body = fetch_next()


# --- watches --------------------------------------------------------------------------------------------------------


OBJECT_EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED")  # Watch event types that carry an object


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

    page_size: int = 500  # Objects per page of a paginated list (client-go's WatchListPageSize)
    connect_timeout: float = 10.0
    list_timeout: float = 60.0  # Seconds without data after which a list is abandoned
    idle_timeout: float = 90.0  # Seconds without data after which a watch is abandoned; bookmarks come every minute
    watch_timeout_seconds: tuple[int, int] = (300, 600)
    """Range from which `timeoutSeconds` of a watch is drawn (client-go: minWatchTimeout, 5 to 10 minutes)."""
    initial_events_timeout: float = 60.0
    """Seconds within which the initial events of a watch must be complete; a slower server is listed in pages."""
    min_watch_seconds: float = 5.0  # A watch that lasted this long counts as a success, even without events
    backoff: tuple[float, float] = (0.8, 30.0)
    """First and longest wait between failures (client-go's reflector: 800 ms to 30 s)."""
    max_retry_after: float = 300.0  # Bound on a Retry-After that the server asks for
    unreadable_retry_seconds: float = 300.0  # Seconds until an optional kind that is forbidden or absent is tried again


def backoff(first: float, cap: float, jitter: Callable[[], float]) -> Iterator[float]:
    """Yield the seconds to wait after each failure in a row: 0, then `first`, doubling up to `cap`.

    Each wait is reduced by a random part of up to one half. The first retry is immediate because most connections end
    for transient reasons. After a success, begin a new one.
    """
    yield 0.0
    while True:
        yield first * (0.5 + jitter() / 2)
        first = min(cap, first * 2)
