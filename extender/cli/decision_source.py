"""Read decisions from a running service, or from a recording whose calls are replayed.

Both return the JSON of GET /decisions and GET /decisions/{id}.

Rule: every failure is an ExtenderError whose message names what to check.
"""

import dataclasses
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from extender.cli import logs
from extender.cli.http_client import TLSClientConfig
from extender.core.explain.schema import VerbName
from extender.errors import ExtenderError, RequestError
from extender.server.observability.decision_log import (
    MAX_LISTED_DECISIONS,
    DecisionLog,
    DecisionQuery,
    KeptDecision,
    read_time,
)

if TYPE_CHECKING:
    import httpx

    from extender.server.replay import RecordedCall


class DecisionSourceError(ExtenderError):
    """No admin listener answers at the URL, or its response cannot be decoded."""


@dataclass(frozen=True, slots=True)
class DecisionListOptions:
    """Query parameters of GET /decisions; None: no restriction."""

    pod: str | None = None
    node: str | None = None
    verb: VerbName | None = None
    since: str | None = None
    limit: int = MAX_LISTED_DECISIONS


# --- running service --------------------------------------------------------------------------------------------------


class ServiceDecisions:
    """Decisions of a running service, over HTTP."""

    def __init__(self, url: str, timeout: float, tls: TLSClientConfig) -> None:
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._tls = tls
        self._client = tls.client(url, timeout)

    def list_decisions(self, options: DecisionListOptions) -> bytes:
        """Return JSON `{"decisions": [DecisionSummary]}`, the latest first."""
        parameters = {name: value for name, value in dataclasses.asdict(options).items() if value is not None}
        return _successful_body(self._get_json("/decisions", parameters))

    def get_decision(self, decision_id: str, *, node: str | None = None, pods: bool = True) -> bytes | None:
        """Return the DecisionReport of this id as JSON, or None.

        `node`: only this node of it, with its pods; `pods`: whether nodes come with their pods.
        """
        parameters = ({} if node is None else {"node": node}) | ({} if pods else {"pods": "none"})
        response = self._get_json(f"/decisions/{decision_id}", parameters)
        return None if response.status_code == 404 else _successful_body(response)

    def close(self) -> None:
        self._client.close()

    def _get_json(self, path: str, parameters: dict[str, Any]) -> "httpx.Response":
        """Return a JSON response; DecisionSourceError for any other response, or none."""
        import httpx

        try:
            response = self._client.get(self._url + path, params=parameters)
        except httpx.TimeoutException as error:
            raise DecisionSourceError(f"{self._url} did not respond within {self._timeout:g}s") from error
        except httpx.HTTPError as error:
            raise DecisionSourceError(self._connection_error(error)) from error
        is_json = response.headers.get("content-type", "").startswith("application/json")
        if not is_json or (path == "/decisions" and response.status_code in (404, 405)):
            hint = "is it admin.port rather than the scheduler's port, and is debug.enabled set?"
            raise DecisionSourceError(f"{self._url} does not serve decisions ({response.status_code}): {hint}")
        return response

    def _connection_error(self, error: "httpx.HTTPError") -> str:
        """Return the failure and advice on what to check."""
        import httpx

        if tls_error := self._tls.error_message(error, self._url):
            return f"{self._url}: {tls_error}"
        if isinstance(error, httpx.ConnectError):
            return f"cannot connect to {self._url}: is the service running, and is this admin.port? ({error})"
        return f"{self._url}: {str(error) or type(error).__name__}"


def _successful_body(response: "httpx.Response") -> bytes:
    """Return the body; RequestError with the message of the service unless the status is 200."""
    if response.status_code == 200:
        return response.content
    try:
        message = str(msgspec.json.decode(response.content)["Error"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        message = f"unexpected response: {response.content[:100]!r}"
    raise RequestError(message)


# --- recording --------------------------------------------------------------------------------------------------------


class RecordedDecisions:
    """Decisions of a recording: its calls, replayed on the recorded cluster and settings."""

    def __init__(self, path: Path) -> None:
        from extender.server.replay import open_recording

        logs.silence()
        self._recording = open_recording(path)
        self._latest: KeptDecision | None = None

    def list_decisions(self, options: DecisionListOptions) -> bytes:
        """Return JSON as `ServiceDecisions.list_decisions` does."""
        if not 1 <= options.limit <= MAX_LISTED_DECISIONS:
            raise RequestError(f"--limit must be from 1 to {MAX_LISTED_DECISIONS}, not {options.limit}")
        since = None if options.since is None else self._parse_since(options.since)
        query = DecisionQuery(options.pod, options.node, options.verb, since, limit=options.limit)
        calls = self._matching_indexes(lambda call: _may_match(query, call))
        if query.pod is None and query.node is None:
            calls = calls[-query.limit :]
        matching = deque((kept for kept in self._replay_decisions(calls) if query.matches(kept)), query.limit)
        return msgspec.json.encode({"decisions": [kept.summary for kept in reversed(matching)]})

    def get_decision(self, decision_id: str, *, node: str | None = None, pods: bool = True) -> bytes | None:
        """Return JSON as `ServiceDecisions.get_decision` does."""
        if self._latest is None or self._latest.id != decision_id:
            # Ids restart at 1 with every process, so a recording may hold an id twice: take the latest.
            calls = self._matching_indexes(lambda call: call.id == decision_id)
            self._latest = next(self._replay_decisions(calls[-1:]), None)
        return None if self._latest is None else msgspec.json.encode(self._latest.decision(node, every_pod=pods))

    def close(self) -> None:
        """Do nothing: replay opens and closes each segment by itself."""

    def _parse_since(self, text: str) -> int:
        """Return nanoseconds since 1970 for a time, or for a duration before the last recorded call."""
        try:
            return read_time(text, lambda: max((call.history.now for call in self._recording.calls()), default=0))
        except ValueError:
            expected = "a time such as 2026-03-01T12:00:00Z or a duration such as 15m"
            raise RequestError(f"--since must be {expected}, not {text!r}") from None

    def _matching_indexes(self, matches: "Callable[[RecordedCall], bool]") -> list[int]:
        return [index for index, call in enumerate(self._recording.calls()) if matches(call)]

    def _replay_decisions(self, indexes: list[int]) -> Iterator[KeptDecision]:
        """Decide the calls at these indexes of the recording again, in order."""
        from extender.server.scheduler import verbs

        if not indexes:
            return
        selected, count = frozenset(indexes), iter(range(sys.maxsize))
        for replayed in self._recording.replayed(lambda _: next(count) in selected):
            call, collector = replayed.call, _SingleDecision(replayed.call.id)
            server_context = dataclasses.replace(replayed.server_context, decisions=collector)
            verbs.answer(verbs.VERBS[call.verb], server_context, call.request, call.history)
            if collector.kept is not None:
                yield collector.kept


DecisionSource = ServiceDecisions | RecordedDecisions


def _may_match(query: DecisionQuery, call: "RecordedCall") -> bool:
    """Return whether a call may match the query, without deciding it.

    Victims are unknown before a call is decided, so every preemption may match a pod.
    """
    name = (query.pod or "").rpartition("/")[2].encode()
    return (
        query.verb in (None, call.verb)
        and (query.since is None or call.history.now >= query.since)
        and (query.pod is None or call.verb == "preempt" or name in call.request)
    )


class _SingleDecision(DecisionLog):
    """Collects one decision, under its recorded id."""

    def __init__(self, decision_id: str) -> None:
        super().__init__(1, sys.maxsize)
        self._id = decision_id
        self.kept: KeptDecision | None = None

    def next_id(self, verb: VerbName | Literal["bind"]) -> str:
        return self._id

    def keep(self, kept: KeptDecision) -> None:
        self.kept = kept
