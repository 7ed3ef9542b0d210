"""List and watch: resources, pages, watch events, the requests of a reflector, timeouts and backoff.

Mirrors client-go's ListWatch, ListPager and the types around Reflector (tools/cache/listwatch.go, reflector.go;
tools/pager), and metav1's ListMeta, WatchEvent and PartialObjectMetadata.

Rule: input that is not understood is an error, never a guess.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, field

from extender.cluster.apiserver.client import ApiServer, QueryParams
from extender.cluster.apiserver.stream import ApiStatus, ApiUnreachable, Stream
from extender.k8s.kinds import ADMISSION_KINDS, KINDS, Key, kind_without_group, plural_of
from extender.k8s.workloads import PodGroup
from extender.utilities.daemon_thread import start_daemon_thread

METADATA_ONLY_ACCEPT = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""Accept header for a list of names, UIDs and resourceVersions; a server without support sends whole objects."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"  # Annotation of the bookmark after the initial events (KEP-3157)


# --- resources ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind and the API path that lists its objects in all namespaces."""

    kind: str  # A key of `KINDS`
    path: str
    core: bool  # True if decisions are impossible without this kind
    other_paths: tuple[str, ...] = ()  # Paths of other versions, tried in turn if the server does not have `path`

    @property
    def plural(self) -> str:
        return self.path.rpartition("/")[2]


CORE_KINDS = ("Node", "Pod", "PodDisruptionBudget")


def _resource(kind: str) -> Resource:
    """Return the Resource for a key of KINDS."""
    of_kind, plural = KINDS[kind], plural_of(kind)
    root = "apis" if of_kind.group else "api"
    path, *others = (f"/{root}/{of_kind.group}/{version}/{plural}".replace("//", "/") for version in of_kind.versions)
    return Resource(kind, path, kind in CORE_KINDS, tuple(others))


class ServedPath:
    """The API path at which a server serves a resource: paths are tried in turn until one does not return 404."""

    def __init__(self, resource: Resource) -> None:
        self._paths = deque((resource.path, *resource.other_paths))
        self.missing = 0  # 404s in a row; the reflector resets it when a path works

    @property
    def current(self) -> str:
        return self._paths[0]

    def try_next(self) -> bool:
        """Switch to the next path after a 404; return False if all paths have been tried."""
        self._paths.rotate(-1)
        self.missing = (self.missing + 1) % len(self._paths)
        return self.missing > 0


RESOURCES = tuple(_resource(kind) for kind, of_kind in KINDS.items() if of_kind.type is not PodGroup)
POD_GROUP_RESOURCES = tuple(_resource(kind) for kind, of_kind in KINDS.items() if of_kind.type is PodGroup)
"""Kinds watched only if the configuration uses pod groups; most clusters have none."""


def no_permission(kind: str) -> str:
    """Return the warning about an optional kind that may not be listed."""
    # Decisions don't read the kinds of admission: nothing is left to kube-scheduler without them.
    if kind in ADMISSION_KINDS:
        return f"no permission to list {kind}: manifests are admitted without them"
    return f"no permission to list {kind}: plugins that read them are not evaluated"


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
        return self.metadata.namespace, self.metadata.name


decode_metadata = msgspec.json.Decoder(PartialObjectMetadata).decode  # ValueError if the JSON is not an object


# --- lists ----------------------------------------------------------------------------------------------------------


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = field(default="", name="continue")
    remaining_item_count: int | None = None  # Objects after this page; optional, and never set with selectors


class ListPage(msgspec.Struct):
    """A page of a list; `metadata.continue_token` requests the next page."""

    metadata: ListMeta
    kind: str = ""
    items: list[Any] | None = None  # Raw JSON, or objects (`Decoder.decode_page`)


class _RawPage(ListPage):
    items: list[Raw] | None = None


_PAGE_DECODER = msgspec.json.Decoder(_RawPage)


def decode_page(body: bytes, kind: str) -> ListPage:
    """Decode a page of a list; ApiUnreachable if the response is not a list of the kind."""
    listed = f"{kind_without_group(kind)}List"
    try:
        page = _PAGE_DECODER.decode(body)
    except (ValueError, RecursionError) as error:
        raise ApiUnreachable(f"the response is not a list: {error}") from error
    if page.kind not in ("", listed, "PartialObjectMetadataList"):
        raise ApiUnreachable(f"the response is a {page.kind[:100]!r}, not a {listed}")
    return page


def list_pages(
    fetch: Callable[[QueryParams], bytes],
    decode: Callable[[bytes], ListPage],
    size: int,
    params: QueryParams | None = None,
    *,
    is_ahead: bool = False,
) -> Iterator[ListPage]:
    """Yield the pages of one list, all at the same resourceVersion (client-go's ListPager).

    `size`: objects per page, 0 for the whole list at once; `params`: query parameters of every request.
    `is_ahead`: fetch the next page in a thread while the caller processes the current one.
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
            fetch_next = start_daemon_thread(fetch_next).result
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


# --- requests of a reflector ----------------------------------------------------------------------------------------


class ListerWatcher:
    """Lists and watches one resource for a reflector, one request at a time.

    Other threads may interrupt it: that ends the request in flight, or else the next request.
    """

    def __init__(self, resource: Resource, api: ApiServer, stopped: threading.Event) -> None:
        self.path = ServedPath(resource)
        self.verb = "list"  # Verb of the last request
        self.relist_reason: str | None = None  # Set by any thread to request a relist; None once the relist has begun
        self._kind = resource.kind
        self._api = api
        self._stopped = stopped
        self._stream: Stream | None = None

    @property
    def is_interrupted(self) -> bool:
        return self._stopped.is_set() or self.relist_reason is not None

    def interrupt(self) -> None:
        """End the request in flight."""
        stream = self._stream
        if stream is not None:
            stream.close()

    def open(self, params: QueryParams, timeout: tuple[float, float]) -> Stream:
        """Return the stream of a list or watch request; `timeout`: (connect, read) in seconds."""
        self.verb = "watch" if "watch" in params else "list"
        self._stream = self._api.stream(self.path.current, params, timeout=timeout)
        if self.is_interrupted:  # the interrupting thread may have closed the previous stream
            self._stream.close()
        return self._stream

    def list_metadata(self, page_size: int) -> dict[Key, tuple[str, str]]:
        """Return (namespace, name) -> (uid, resourceVersion); callable from any thread, and not interruptible.

        Items without metadata are omitted. Raises ApiError or ApiUnreachable.
        """
        fetch = partial(self._api.get, self.path.current, accept=METADATA_ONLY_ACCEPT)
        found: dict[Key, tuple[str, str]] = {}
        for page in list_pages(fetch, partial(decode_page, kind=self._kind), page_size):
            for raw in page.items or ():
                with contextlib.suppress(ValueError):
                    meta = decode_metadata(raw)
                    found[meta.key] = meta.metadata.uid, meta.metadata.resource_version
        found.pop(("", ""), None)
        return found


# --- timeouts and backoff -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Timeouts and retry intervals of list and watch, in seconds except `page_size`."""

    page_size: int = 500  # Objects per page of a paginated list (client-go's WatchListPageSize)
    connect_timeout: float = 10.0
    list_timeout: float = 60.0  # Seconds without data after which a list is abandoned
    idle_timeout: float = 90.0  # Seconds without data after which a watch is abandoned; bookmarks come every minute
    # `timeoutSeconds` of a watch is drawn from this range, so that watches do not all end together (client-go's
    # minWatchTimeout: 5 to 10 minutes).
    watch_timeout_seconds: tuple[int, int] = (300, 600)
    initial_events_timeout: float = 60.0  # Time limit for the initial events of a watch; after it, list in pages
    min_watch_seconds: float = 5.0  # A watch that lasted this long counts as a success, even without events
    backoff: tuple[float, float] = (0.8, 30.0)  # First and longest wait after failures, as in client-go's reflector
    max_retry_after: float = 300.0  # Upper bound on a Retry-After from the server
    unreadable_retry_seconds: float = 300.0  # Seconds between retries of an optional kind that is forbidden or absent


def backoff(first: float, cap: float, jitter: Callable[[], float]) -> Iterator[float]:
    """Yield the seconds to wait after each failure in a row: 0, then `first`, doubling up to `cap`.

    Jitter shortens each wait by up to one half. After a success, begin a new backoff.
    """
    yield 0.0  # most connections end for transient reasons, so the first retry is immediate
    while True:
        yield first * (0.5 + jitter() / 2)
        first = min(cap, first * 2)
