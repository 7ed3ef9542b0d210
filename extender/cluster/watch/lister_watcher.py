"""Send the requests of one reflector, which other threads may interrupt (client-go's ListerWatcher).

Rule: an interruption ends the request under way, or the next one if none is.
"""

import threading

from extender.cluster.apiserver.client import ApiServer, QueryParams
from extender.cluster.apiserver.stream import Stream
from extender.cluster.watch.list_watch import METADATA_ONLY_ACCEPT, Resource, ServedPath


class ListerWatcher:
    """Lists and watches one resource, one request at a time."""

    def __init__(self, resource: Resource, api: ApiServer, stopped: threading.Event) -> None:
        self.path = ServedPath(resource)
        self.verb = "list"  # Verb of the last request
        self.relist_reason: str | None = None
        """Set by any thread to request a relist; None once the reflector has begun it."""
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

    def fetch_metadata(self, params: QueryParams) -> bytes:
        """Return a page of a list of metadata; callable from any thread, and not interrupted."""
        return self._api.get(self.path.current, params, accept=METADATA_ONLY_ACCEPT)
