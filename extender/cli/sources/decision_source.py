"""Read decisions from a running service: the JSON of GET /decisions and GET /decisions/{id}.

`sources.recorded_decisions` reads a recording, and `sources.audit_files` an audit log, which has less to say.

Rule: every failure raises an ExtenderError that suggests what to check.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from extender.cli.http_client import NOT_ADMIN_LISTENER, TLSClientConfig, error_in
from extender.errors import ExtenderError, RequestError
from extender.k8s.time import read_time
from extender.report.schema import MAX_LISTED_DECISIONS, VerbName

if TYPE_CHECKING:
    import httpx


class DecisionSourceError(ExtenderError):
    """No admin listener answers at the URL, or its response cannot be decoded."""


@dataclass(frozen=True, slots=True)
class DecisionListOptions:
    """Query parameters of GET /decisions; None restricts nothing."""

    pod: str | None = None
    node: str | None = None
    verb: VerbName | None = None
    since: str | None = None
    limit: int = MAX_LISTED_DECISIONS


def parse_since(options: DecisionListOptions, now: Callable[[], int]) -> int | None:
    """Parse --since into nanoseconds since 1970; `now`: the time before which a duration counts."""
    try:
        return None if options.since is None else read_time(options.since, now)
    except ValueError:
        expected = "a time such as 2026-03-01T12:00:00Z or a duration such as 15m"
        raise RequestError(f"--since must be {expected}, not {options.since!r}") from None


class DecisionSource(Protocol):
    """A running service, or a recording."""

    def list_decisions(self, options: DecisionListOptions) -> bytes:
        """Return JSON `{"decisions": [DecisionSummary]}`, the latest first."""

    def get_decision(self, decision_id: str, *, node: str | None = None, pods: bool = True) -> bytes | None:
        """Return the DecisionReport with this ID as JSON, or None.

        `node`: return only this node, with its pods; `pods`: return nodes with their pods.
        """

    def close(self) -> None:
        """Close connections and files."""


class ServiceDecisions:
    """Decisions of a running service, over HTTP."""

    def __init__(self, url: str, timeout: float, tls: TLSClientConfig) -> None:
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._tls = tls
        self._client = tls.client(url, timeout)

    def list_decisions(self, options: DecisionListOptions) -> bytes:
        parameters = {name: value for name, value in dataclasses.asdict(options).items() if value is not None}
        return _successful_body(self._get_json("/decisions", parameters))

    def get_decision(self, decision_id: str, *, node: str | None = None, pods: bool = True) -> bytes | None:
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
        except httpx.HTTPError as error:
            raise DecisionSourceError(self._tls.connection_error(error, self._url, self._timeout)) from error
        # The scheduler's port, and a service without debug.enabled, have other answers for these paths.
        is_json = response.headers.get("content-type", "").startswith("application/json")
        if not is_json or (path == "/decisions" and response.status_code in (404, 405)):
            served = f"{self._url} does not serve decisions ({response.status_code})"
            raise DecisionSourceError(f"{served}: {NOT_ADMIN_LISTENER}")
        return response


def _successful_body(response: "httpx.Response") -> bytes:
    """Return the body of a 200; RequestError with the service's message for any other status."""
    if response.status_code == 200:
        return response.content
    raise RequestError(error_in(response.content) or f"unexpected response: {response.content[:100]!r}")
