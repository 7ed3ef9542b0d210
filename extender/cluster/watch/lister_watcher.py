"""Send the requests of one reflector, which other threads may interrupt (client-go's ListerWatcher).

Rule: an interruption ends the request under way, or the next one if none is.
"""

import contextlib
import threading
from functools import partial

from extender.cluster.apiserver.client import ApiServer, QueryParams
from extender.cluster.apiserver.stream import Stream
from extender.cluster.watch.list_watch import (
    METADATA_ONLY_ACCEPT,
    Resource,
    ServedPath,
    decode_metadata,
    decode_page,
    list_pages,
)
from extender.k8s.kinds import Key


class ListerWatcher:
    """Lists and watches one resource, one request at a time."""

    def __init__(self, resource: Resource, api: ApiServer, stopped: threading.Event) -> None:
        self.path = ServedPath(resource)
        self.verb = "list"  # Verb of the last request
        self.relist_reason: str | None = None
        """Set by any thread to request a relist; None once the reflector has begun it."""
        self._kind = resource.kind
        self._api = api
        self._stopped = stopped
        self._stream: Stream | None = None

    @property
    def is_interrupted(self) -> bool:
        return self._stopped.is_set() or self.relist_reason is not None

    def interrupt(self) -> None:
        """End the request under way."""
        stream = self._stream
        if stream is not None:
            stream.close()

    def open(self, params: QueryParams, timeout: tuple[float, float]) -> Stream:
        """Return the response to a list or watch; `timeout`: (connect, read) in seconds."""
        self.verb = "watch" if "watch" in params else "list"
        self._stream = self._api.stream(self.path.current, params, timeout=timeout)
        if self.is_interrupted:  # the interrupting thread may have closed the previous stream
            self._stream.close()
        return self._stream

    def list_metadata(self, page_size: int) -> dict[Key, tuple[str, str]]:
        """Return (namespace, name) -> (uid, resourceVersion); callable from any thread, and not interrupted.

        Items without metadata are left out. Raises ApiError or ApiUnreachable.
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
