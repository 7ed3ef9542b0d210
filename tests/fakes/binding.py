"""POST pods/NAME/binding: a write that the fake API server takes over HTTP.

Rule: what is refused is refused as the registry of pods does (pkg/registry/core/pod/storage, BindingREST).
"""

from typing import Any

import msgspec

from tests.fakes import statuses
from tests.fakes.kinds import Target
from tests.fakes.statuses import Refused
from tests.fakes.storage import Storage, key_of

JSON = dict[str, Any]


def bound(storage: Storage, target: Target, body: bytes) -> JSON:
    """The pod as it is to be stored, on its node; Refused if it must not be bound."""
    binding = _binding(body)
    _check(binding, target)
    name = target.name
    stored = storage.get("Pod", key_of("Pod", name, target.namespace))
    if stored is None:
        raise Refused(statuses.not_found(target.resource, name))
    pod: JSON = msgspec.json.decode(stored.body)
    uid = (binding.get("metadata") or {}).get("uid")
    if uid and uid != stored.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored.uid}"
        raise Refused(statuses.conflict(name, why))
    if pod["metadata"].get("deletionTimestamp"):
        raise Refused(statuses.conflict(name, f"pod {name} is being deleted, cannot be assigned to a host"))
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        raise Refused(statuses.conflict(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"'))
    return pod | {"spec": spec | {"nodeName": binding["target"]["name"]}}


def _binding(body: bytes) -> JSON:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Refused(
            statuses.failure(400, f"Binding in version v1 cannot be handled as a Binding: {error}")
        ) from error


def _check(binding: JSON, target: Target) -> None:
    name = (binding.get("metadata") or {}).get("name", target.name)
    if name != target.name:
        why = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise Refused(statuses.failure(400, why))
    to = binding.get("target") or {}
    if to.get("kind", "") not in ("", "Node"):
        why = (
            f'Binding "{name}" is invalid: target.kind: Unsupported value: "{to["kind"]}": supported values: "Node", ""'
        )
        raise Refused(statuses.failure(422, why))
    if not to.get("name"):
        raise Refused(statuses.failure(422, f'Binding "{name}" is invalid: target.name: Required value'))
