"""Both applications without a socket, asked in ways that no HTTP client would, and what every answer must be like.

Rule: an answer is right or refused; whatever else it is, is a bug.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any
from urllib.parse import unquote

from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.errors import RequestError
from extender.server.admin.app import create_admin_app
from extender.server.app import WritingApi, create_app
from extender.wire.decode import decode_filter
from tests.property.fuzz.corpus import cluster, corpus
from tests.property.fuzz.mutate import MARKER

Headers = Sequence[tuple[bytes, bytes]]
JSON: Headers = ((b"content-type", b"application/json"),)
DECIDING = ("filter", "prioritize", "preempt")
TO_US = (b"host", b"127.0.0.1:8889")


@dataclass(slots=True)
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


class Served:
    """The service with the recorded cluster; `api`: where pods are bound. A busy machine makes it miss no deadline."""

    def __init__(self, api: WritingApi | None = None, **sections: Any) -> None:
        config = Configuration.model_validate({"server": {"httpTimeout": "1h"}, **sections})
        self.cache = ClusterCache()
        self.cache.replace(cluster())
        self.scheduler = create_app(self.cache, config, api=api)
        self.server_context = self.scheduler.server_context
        self.admin = create_admin_app(self.server_context, config)
        self._runner = asyncio.Runner()
        self._good = {verb: self.post(f"/{verb}", corpus(verb)[0]).body for verb in DECIDING}
        self._next = cycle(DECIDING)
        self._version = self.cache.version

    def close(self) -> None:
        if self.server_context.binder is not None:
            self.server_context.binder.threads.shutdown()
        self._runner.close()

    def post(self, path: str, body: bytes, headers: Headers = JSON) -> Answer:
        """What the scheduler's port answers."""
        return self.ask(self.scheduler, "POST", path.encode(), headers=headers, body=body)

    def ask(
        self, app: Any, method: str, path: bytes, query: bytes = b"", headers: Headers = (), body: bytes = b""
    ) -> Answer:
        """What an application answers to a request as a server would hand it on."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": _unquoted(path),
            "raw_path": path,
            "root_path": "",
            "query_string": query,
            "headers": [TO_US, *headers],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 8888),
        }
        return self._runner.run(_called(app, scope, body))

    def assert_as_before(self) -> None:
        """The cluster cache is the same, and a good request, of another verb each time, is answered as at the start."""
        verb = next(self._next)
        answer = self.post(f"/{verb}", corpus(verb)[0])
        assert (answer.status, answer.body) == (200, self._good[verb])
        assert self.cache.version == self._version

    def is_unknown_node(self, body: bytes) -> bool:
        """E10: does a right request for `/filter` name a node that is not in the cluster cache?"""
        try:
            return not set(decode_filter(body).nodes) <= set(self.cache.snapshot().node_names)
        except RequestError:
            return False


def _unquoted(path: bytes) -> str:
    """As uvicorn does it."""
    return unquote(path.decode("ascii"))


async def _called(app: Any, scope: dict[str, Any], body: bytes) -> Answer:
    answer, sent = Answer(), False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()  # the connection stays open
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert answer.status == 0, "answered twice"
            answer.status = message["status"]
            answer.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    await app(scope, receive, send)
    return answer


# --- what is asserted -----------------------------------------------------------------------------------------------


def assert_is_error(answer: Answer, *, may_name_it: bool = False) -> None:
    """`{"Error": "…"}`, at most 1 KiB, readable in a terminal, no echo; what is for people may name what is wrong."""
    assert answer.headers["content-type"] == "application/json"
    assert len(answer.body) <= 1024
    decoded = json.loads(answer.body)
    assert list(decoded) == ["Error"]
    assert decoded["Error"]
    assert decoded["Error"].isprintable()
    assert may_name_it or MARKER not in answer.body.decode().lower()


def assert_has_shape(path: str, answer: Answer) -> None:
    """A 200 is what kube-scheduler decodes: the right keys, nothing null that must not be."""
    assert answer.headers["content-type"] == "application/json"
    decoded = json.loads(answer.body)
    match path:
        case "/filter":
            assert list(decoded) == ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]
            assert (decoded["Nodes"] is None) != (decoded["NodeNames"] is None)
            assert decoded["Error"] == ""
            assert not set(decoded["FailedNodes"]) & set(decoded["FailedAndUnresolvableNodes"])
        case "/filter-dryrun":
            assert list(decoded) == ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]
            assert (decoded["Error"] == "") == ((decoded["Nodes"] is None) != (decoded["NodeNames"] is None))
        case "/prioritize":
            assert len({score["Host"] for score in decoded}) == len(decoded)
            for score in decoded:
                assert list(score) == ["Host", "Score"]
                assert type(score["Score"]) is int
                assert 0 <= score["Score"] <= 10
        case "/preempt":
            assert list(decoded) == ["NodeNameToMetaVictims"]
            for victims in decoded["NodeNameToMetaVictims"].values():
                assert list(victims) == ["Pods", "NumPDBViolations"]
                assert all(list(pod) == ["UID"] and type(pod["UID"]) is str for pod in victims["Pods"])
                assert type(victims["NumPDBViolations"]) is int
        case "/bind":
            assert list(decoded) == ["Error"]
            assert type(decoded["Error"]) is str
        case _:
            raise AssertionError(path)
