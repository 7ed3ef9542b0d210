"""List objects once, in pages, without a watch.

Rule: a list is complete or an error; invalid objects are counted and skipped, as by the watch.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import random
from typing import Any

from msgspec import Raw

from extender.cluster.apiserver.client import ApiServer, QueryParams
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.cluster.list.requests import ListRequest
from extender.cluster.watch.decode import Decoder
from extender.cluster.watch.list_watch import ServedPath, backoff, decode_metadata, list_pages
from extender.k8s.objects import Object

PAGE_SIZE = 2000  # Objects per page: with client-go's 500, listing 150,000 pods takes half as long again
MAX_ATTEMPTS = 3  # Attempts at a page that the server, or a proxy in front of it, fails to send

OnProgress = Callable[[str, int, int | None], None]  # (kind, objects so far, total if known); called from any thread


@dataclass(eq=False)
class Listed:
    """The objects of a list."""

    request: ListRequest
    objects: list[Object] = field(default_factory=list)
    skipped: int = 0  # Number of invalid objects
    skip_reason: str = ""  # Name and error of the first invalid object
    is_forbidden: bool = False  # True if list permission is missing: the objects are unknown


@dataclass(eq=False)
class Lister:
    """Lists kinds of one API server until `deadline`; every method is thread-safe."""

    api: ApiServer
    deadline: float  # Time by the monotonic clock after which nothing more is requested
    annotations: Mapping[str, frozenset[str]] = field(default_factory=dict)  # Kind -> annotations to keep in addition
    on_progress: OnProgress | None = None

    def read(self, request: ListRequest) -> Listed:
        """Return the objects of a list; none for an optional kind that is forbidden or not served.

        Raises ApiError or ApiUnreachable.
        """
        path, page_size = ServedPath(request.resource), PAGE_SIZE
        while True:
            try:
                return self._list(request, request.path_in(path.current), page_size)
            except ApiError as error:
                if error.code == 410 and page_size:  # the continue token has expired: list without pages
                    page_size = 0
                elif error.code == 404 and path.try_next():
                    continue
                elif request.resource.core or error.code not in (403, 404):
                    raise
                else:
                    return Listed(request, is_forbidden=error.code == 403)

    def _list(self, request: ListRequest, path: str, page_size: int) -> Listed:
        listed = Listed(request)
        decoder = Decoder(request.kind, self.annotations.get(request.kind, frozenset()))
        fetch = partial(self.fetch, path)
        # Requested ahead: the server prepares the next page while the current page is decoded.
        for page in list_pages(fetch, decoder.decode_page, page_size, request.params, is_ahead=True):
            for item in page.items or ():
                try:
                    listed.objects.append(decoder.prepare_item(item))
                except (ValueError, RecursionError) as error:
                    listed.skipped += 1
                    listed.skip_reason = listed.skip_reason or f"{_name_of(item)}: {error}"
            if self.on_progress is not None:
                done, left = len(listed.objects) + listed.skipped, page.metadata.remaining_item_count
                is_last = not page.metadata.continue_token
                self.on_progress(request.kind, done, done if is_last else None if left is None else done + left)
        return listed

    def fetch(self, path: str, params: QueryParams | None = None) -> bytes:
        """Return the body of a response; transient failures are retried until the deadline."""
        waits = backoff(0.2, 5.0, random)
        for attempt in range(MAX_ATTEMPTS):
            left = self.deadline - time.monotonic()
            if left <= 0:
                break
            try:
                return self.api.get(path, params, timeout=(min(10.0, left), left))
            except (ApiError, ApiUnreachable) as error:
                delay = next(waits)
                if isinstance(error, ApiError):
                    if error.code != 429 and error.code < 500:  # it would fail again
                        raise
                    delay = delay if error.retry_after is None else error.retry_after
                if attempt == MAX_ATTEMPTS - 1 or time.monotonic() + delay > self.deadline:
                    raise
                time.sleep(delay)
        raise ApiUnreachable("timed out")


def _name_of(item: Any) -> str:
    try:
        metadata = decode_metadata(item).metadata if isinstance(item, Raw) else item.metadata
    except ValueError:
        return "?"
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
