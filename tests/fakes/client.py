"""The smallest client of an API server, for tests of the fakes themselves: no retries, no timeouts that succeed.

Rule: it hides nothing; what the network does to it comes out as the exception of `http.client`.
"""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

JSON = dict[str, Any]

FAILS_AFTER = 10.0
"""Seconds after which a read that never ends fails."""


class Client:
    """Asks `url`, over one connection that is kept alive."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None, token: str = "") -> None:
        at = urlsplit(url)
        host, port = at.hostname or "", at.port
        if at.scheme == "https":
            self.connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=FAILS_AFTER, context=context
            )
        else:
            self.connection = http.client.HTTPConnection(host, port, timeout=FAILS_AFTER)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def get(self, path: str, accept: str = "application/json", **params: object) -> tuple[int, JSON]:
        """Status and body; `params` are the query, `continue_` standing for `continue`."""
        with self.request("GET", path, params, {"Accept": accept}) as response:
            return response.status, json.loads(response.read())

    def items(self, path: str, **params: object) -> list[str]:
        """The names in a list, which must be answered 200."""
        status, body = self.get(path, "application/json", **params)
        assert status == 200, body
        return [item["metadata"]["name"] for item in body["items"]]

    def post(self, path: str, body: object) -> tuple[int, JSON]:
        with self.request("POST", path, {}, {"Content-Type": "application/json"}, json.dumps(body)) as response:
            return response.status, json.loads(response.read())

    @contextmanager
    def watch(self, path: str, accept: str = "application/json", **params: object) -> Iterator["Stream"]:
        """An open watch, which must be answered 200."""
        with self.request("GET", path, {"watch": "1", **params}, {"Accept": accept}) as response:
            assert response.status == 200, response.read()
            yield Stream(response)

    @contextmanager
    def request(
        self, method: str, path: str, params: Mapping[str, object], headers: Mapping[str, str], body: str | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """An answer; if it breaks off or is not read to its end, the next request takes a new connection."""
        query = urlencode({name.rstrip("_"): value for name, value in params.items()}, quote_via=quote)
        url = f"{path}?{query}" if query else path
        at_its_end = False
        try:
            self.connection.request(method, url, body, {**self._headers, **headers})
            with self.connection.getresponse() as response:
                yield response
                at_its_end = response.isclosed()
        finally:
            if not at_its_end:
                self.close()


class Stream:
    """The lines of a watch."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def line(self) -> bytes:
        """The next line; nothing at the proper end of the watch."""
        return self._response.readline()

    def event(self) -> JSON:
        """The next event; EOFError at the end."""
        line = self.line()
        if not line:
            raise EOFError("the watch has ended")
        event: JSON = json.loads(line)
        return event

    def events(self, count: int) -> list[str]:
        """The next events as "ADDED a 3": type, name and resourceVersion."""
        return [_told(self.event()) for _ in range(count)]

    def rest(self) -> list[str]:
        """All events until the proper end."""
        told = []
        while line := self.line():
            told.append(_told(json.loads(line)))
        return told


def _told(event: JSON) -> str:
    metadata = event["object"].get("metadata") or {}
    return " ".join(part for part in (event["type"], metadata.get("name"), metadata.get("resourceVersion")) if part)
