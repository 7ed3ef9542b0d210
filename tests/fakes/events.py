"""POST and PATCH of Events (events.k8s.io/v1): the other writes that the fake API server takes over HTTP.

Rule: what is refused is refused as the API server's validation does (pkg/apis/core/validation, ValidateEventCreate and
ValidateEventUpdate).
"""

import re
from typing import Any

import msgspec

from tests.fakes import statuses
from tests.fakes.kinds import Target
from tests.fakes.statuses import Refused
from tests.fakes.storage import Storage, key_of

JSON = dict[str, Any]

KIND = "Event.events.k8s.io"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_REQUIRED = {"reportingController": 63, "reportingInstance": 128, "action": 128, "reason": 128}
"""Field -> how many bytes it may have."""
_NOTE_BYTES = 1024


def created(storage: Storage, target: Target, body: bytes) -> JSON:
    """The Event to store; Refused if it must not be created."""
    event = _object(body)
    metadata = event.get("metadata") or {}
    name = metadata.get("name", "")
    if metadata.get("namespace", target.namespace) != target.namespace:
        raise Refused(statuses.failure(400, "the namespace of the provided object does not match the namespace sent"))
    if storage.get(KIND, key_of(KIND, name, target.namespace)) is not None:
        raise Refused(statuses.failure(409, f'events.events.k8s.io "{name}" already exists', reason="AlreadyExists"))
    wrong = [field for field, most in _REQUIRED.items() if not 0 < len(event.get(field, "").encode()) <= most]
    wrong += [] if len(name) <= 253 and _NAME.fullmatch(name) else ["metadata.name"]
    wrong += [] if _MICRO_TIME.fullmatch(event.get("eventTime", "")) else ["eventTime"]
    wrong += [] if event.get("type") in ("Normal", "Warning") else ["type"]
    wrong += [] if len(event.get("note", "").encode()) <= _NOTE_BYTES else ["note"]
    wrong += [] if event.get("regarding", {}).get("namespace") == target.namespace else ["regarding.namespace"]
    if wrong or "series" in event:
        raise Refused(statuses.failure(422, f'Event "{name}" is invalid: {", ".join(wrong or ["series"])}'))
    return event


def patched(storage: Storage, target: Target, body: bytes, content_type: str) -> JSON:
    """The Event after a merge patch of its series, the only part that may change."""
    if content_type != "application/merge-patch+json":
        raise Refused(statuses.failure(415, f"the body of the request was in an unknown format: {content_type}"))
    stored, patch = storage.get(KIND, key_of(KIND, target.name, target.namespace)), _object(body)
    if stored is None:
        raise Refused(statuses.not_found(target.resource, target.name))
    series = patch.get("series") or {}
    if set(patch) != {"series"} or series.get("count", 0) < 2 or not _MICRO_TIME.fullmatch(series["lastObservedTime"]):
        raise Refused(statuses.failure(422, f'Event "{target.name}" is invalid'))
    event: JSON = msgspec.json.decode(stored.body)
    return event | patch


def _object(body: bytes) -> JSON:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise Refused(statuses.failure(400, f"Event in version v1 cannot be handled: {error}")) from error
