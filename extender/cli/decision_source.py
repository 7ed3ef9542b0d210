"""Where decisions are asked for: a running service, or a recording that is decided again.

Both answer the JSON of GET /decisions and GET /decisions/{id}.

Rule: what cannot be asked is an ExtenderError that says what to look at.
"""

import dataclasses
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from extender.cli.http_client import Trust
from extender.core.explain.schema import Verb
from extender.errors import ExtenderError, RequestError
from extender.server.observability.decision_log import Decisions, Kept, Query, read_time

if TYPE_CHECKING:
    import httpx

    from extender.server.recording.replay import RecordedCall

MOST = 1000
"""Decisions that are listed at once."""


class Unreachable(ExtenderError):
    """Nobody is there to be asked, or what is there is no admin listener."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which decisions are listed."""

    pod: str | None = None
    node: str | None = None
    verb: Verb | None = None
    since: str | None = None
    limit: int = MOST


class Source(Protocol):
    def find(self, asked: Asked) -> bytes:
        """{"decisions": [Summary]}, the latest first."""

    def decision(self, id: str, *, node: str | None = None, pods: bool = True) -> bytes | None:  # noqa: A002
        """A Decision, or what it says of one node it speaks of; None: there is none of that id."""

    def close(self) -> None:
        """Nothing more will be asked."""


# --- a service --------------------------------------------------------------------------------------------------------


class RunningService:
    """Asked by HTTP."""

    def __init__(self, url: str, timeout: float, trust: Trust) -> None:
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._trust = trust
        self._client = trust.client(url, timeout)

    def find(self, asked: Asked) -> bytes:
        given = {name: value for name, value in dataclasses.asdict(asked).items() if value is not None}
        status, body = self._get("/decisions", given)
        if status != 200:
            raise RequestError(_said(body))
        return body

    def decision(self, id: str, *, node: str | None = None, pods: bool = True) -> bytes | None:  # noqa: A002
        given = {} if node is None else {"node": node}
        status, body = self._get(f"/decisions/{id}", given if pods else {**given, "pods": "none"})
        if status == 404:
            return None
        if status != 200:
            raise RequestError(_said(body))
        return body

    def close(self) -> None:
        self._client.close()

    def _get(self, path: str, given: dict[str, Any]) -> tuple[int, bytes]:
        """(status, body) of an answer in JSON."""
        import httpx

        try:
            answer = self._client.get(self._url + path, params=given)
        except httpx.TimeoutException as error:
            raise Unreachable(f"{self._url} has not answered within {self._timeout:g}s") from error
        except httpx.HTTPError as error:
            raise Unreachable(self._why(error)) from error
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        if not is_json or (path == "/decisions" and answer.status_code in (404, 405)):
            hint = "is that admin.port and not the scheduler's, and is debug.enabled?"
            raise Unreachable(f"what answers at {self._url} tells no decisions ({answer.status_code}); {hint}")
        return answer.status_code, answer.content

    def _why(self, error: "httpx.HTTPError") -> str:
        """What to look at."""
        import httpx

        if of_https := self._trust.why(error, self._url):
            return f"{self._url}: {of_https}"
        if isinstance(error, httpx.ConnectError):
            return f"nothing answers at {self._url}; is the service running, and is that admin.port? ({error})"
        return f"{self._url}: {str(error) or type(error).__name__}"


def _said(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["Error"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return f"an answer that is none: {body[:100]!r}"


# --- a recording ------------------------------------------------------------------------------------------------------


class Recorded:
    """The calls of a recording, decided again on the picture and by the settings of then."""

    def __init__(self, path: Path) -> None:
        from extender.server.recording.replay import open_recording

        logging.getLogger("extender").addHandler(logging.NullHandler())
        logging.getLogger("extender").propagate = False  # what would be logged is what was logged then
        self._recording = open_recording(path)
        self._last: Kept | None = None

    def find(self, asked: Asked) -> bytes:
        if not 1 <= asked.limit <= MOST:
            raise RequestError(f"--limit must be from 1 to {MOST}, not {asked.limit}")
        since = None if asked.since is None else self._since(asked.since)
        query = Query(asked.pod, asked.node, asked.verb, since, limit=asked.limit)
        calls = self._places(lambda call: _may_be_wanted(query, call))
        if query.pod is None and query.node is None:
            calls = calls[-query.limit :]
        found = deque((kept for kept in self._decided(calls) if query.wants(kept)), query.limit)
        return msgspec.json.encode({"decisions": [kept.summary for kept in reversed(found)]})

    def decision(self, id: str, *, node: str | None = None, pods: bool = True) -> bytes | None:  # noqa: A002
        if self._last is None or self._last.id != id:
            # Numbers begin anew with every process: the latest is meant.
            calls = self._places(lambda call: call.id == id)
            self._last = next(self._decided(calls[-1:]), None)
        return None if self._last is None else msgspec.json.encode(self._last.decision(node, every_pod=pods))

    def close(self) -> None:
        """There is nothing open."""

    def _since(self, text: str) -> int:
        """Nanoseconds since 1970 of a time, or of so long before the last call."""
        try:
            return read_time(text, lambda: max((call.moment.now for call in self._recording.calls()), default=0))
        except ValueError:
            expected = "a time such as 2026-03-01T12:00:00Z or a duration such as 15m"
            raise RequestError(f"--since must be {expected}, not {text!r}") from None

    def _places(self, wanted: "Callable[[RecordedCall], bool]") -> list[int]:
        return [place for place, call in enumerate(self._recording.calls()) if wanted(call)]

    def _decided(self, places: list[int]) -> Iterator[Kept]:
        """The calls in these places, in order."""
        from extender.server.scheduler import verbs

        if not places:
            return
        wanted, count = frozenset(places), iter(range(sys.maxsize))
        for replayed in self._recording.replayed(lambda _: next(count) in wanted):
            call, ring = replayed.call, _One(replayed.call.id)
            service = dataclasses.replace(replayed.service, decisions=ring)
            verbs.answer(verbs.VERBS[call.verb], service, call.request, call.moment)
            if ring.kept is not None:
                yield ring.kept


def _may_be_wanted(query: Query, call: "RecordedCall") -> bool:
    """Without deciding it; victims are not known then, so every preemption may be about a pod."""
    name = (query.pod or "").rpartition("/")[2].encode()
    return (
        query.verb in (None, call.verb)
        and (query.since is None or call.moment.now >= query.since)
        and (query.pod is None or call.verb == "preempt" or name in call.request)
    )


class _One(Decisions):
    """Keeps one decision, under the id that it was recorded with."""

    def __init__(self, id: str) -> None:  # noqa: A002
        super().__init__(1, sys.maxsize)
        self._id = id
        self.kept: Kept | None = None

    def next_id(self, verb: Verb | Literal["bind"]) -> str:
        return self._id

    def keep(self, kept: Kept) -> None:
        self.kept = kept
