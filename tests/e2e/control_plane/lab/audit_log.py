"""The API server's audit log: its policy, and its events as typed records."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

JSON = dict[str, Any]


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One completed request."""

    received: float
    """Seconds since 1970 when the request arrived."""
    completed: float
    """Seconds since 1970 when the answer was sent."""
    user: str
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    status: int = 200
    uri: str = ""
    request: JSON = {}
    """Body of the request, where the policy keeps it."""
    response: JSON = {}
    """Body of the answer, where the policy keeps it."""


def audit_policy() -> JSON:
    """Return a policy that keeps the bodies of what changes pods, nodes and events, and metadata of the rest."""
    bodies = {
        "level": "RequestResponse",
        "verbs": ["create", "delete", "patch", "update"],
        "resources": [
            {"group": "", "resources": ["pods", "pods/binding", "pods/status", "nodes", "events"]},
            {"group": "events.k8s.io", "resources": ["events"]},
        ],
    }
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": True,
        "rules": [bodies, {"level": "Metadata"}],
    }


def read_audit_log(path: Path) -> list[AuditEvent]:
    """Return the completed requests in the order of their completion; a line that is being written is left out."""
    with path.open("rb") as file:
        lines = [line for line in file if line.endswith(b"\n")]
    return [read_event(json.loads(line)) for line in lines]


def read_event(line: JSON) -> AuditEvent:
    """Read one line; a watch is seen when it begins (stage ResponseStarted) and when it ends."""
    about = line.get("objectRef", {})
    return AuditEvent(
        received=_seconds(line["requestReceivedTimestamp"]),
        completed=_seconds(line["stageTimestamp"]),
        user=line["user"]["username"],
        verb=line["verb"],
        group=about.get("apiGroup", ""),
        resource=about.get("resource", ""),
        subresource=about.get("subresource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        status=line.get("responseStatus", {}).get("code", 0),
        uri=line["requestURI"],
        request=line.get("requestObject") or {},
        response=line.get("responseObject") or {},
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
