"""What was asked of the fake API server, one record per request, for tests to look at.

Rule: a record is written before the request is answered, faults included; `status` comes just before the answer.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fakes.http_server import Call
from tests.fakes.kinds import Target, target_of
from tests.fakes.listing import page_of


@dataclass(slots=True)
class Request:
    """`verb` is list, watch, get, bind or create, or the HTTP method; `kind` is empty where the path is unknown."""

    verb: str
    kind: str
    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    target: Target | None
    page: int = 1
    time: float = field(default_factory=time.monotonic)
    status: int = 0
    """The HTTP status, known before the client hears of it; 0 while there is none, and for ever if there never is."""

    @property
    def partial(self) -> bool:
        """Whether only metadata is wanted."""
        return "as=PartialObjectMetadata" in self.headers.get("accept", "")


def request_of(call: Call) -> Request:
    """The record of a request."""
    target = target_of(call.path)
    kind = target.resource.kind if target else ""
    verb = _verb(call, target)
    page = page_of(call.params) if verb == "list" else 1
    return Request(verb, kind, call.method, call.path, call.params, call.headers, call.body, target, page)


def _verb(call: Call, target: Target | None) -> str:
    match call.method, target:
        case "GET", Target(name="", subresource=""):
            return "watch" if flag(call.params, "watch") else "list"
        case "GET", Target(subresource=""):
            return "get"
        case "POST", Target(subresource="binding"):
            return "bind"
        case "POST", Target(name=""):
            return "create"
    return call.method.lower()


def flag(params: Mapping[str, str], name: str) -> bool:
    """A boolean query parameter as the API server reads it: there, and neither "false" nor "0"."""
    return params.get(name, "0").lower() not in ("false", "0")
