"""Decode the body of `POST /simulate` into a Scenario and the policies to simulate it under.

A body of YAML has manifests as for kubectl: pods, workloads, nodes to add, and what pods need. One document without a
kind has any of the keys of the JSON body.

Rule: a mistake is a RequestError that names the object and its field.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal

import msgspec

from extender.cluster.files.manifests import RawManifest, read_settings_and_manifests
from extender.core.profile import KubeScheduler
from extender.errors import ClusterFileError, RequestError
from extender.k8s.kinds import KINDS, kind_without_group
from extender.k8s.validation import decode_error_message
from extender.whatif.arrivals import key_of_kind
from extender.whatif.policies import CONFIGURED, SimulatedPolicy, custom_policy, preset_policy
from extender.whatif.scenario import AddedNodes, Scenario
from extender.whatif.workloads import API_VERSIONS, WORKLOAD_KINDS, check_workload


class AddNodes(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Nodes to add, all like one."""

    node: Any
    """A Node, or a text with Nodes as YAML or JSON."""
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Number of nodes; several are named after the node, with a number."""


# The keys are the fields of a Scenario, so that none is spelled twice. Objects come as manifests, which the parsers
# below read: their errors name the object.
_MANIFESTS = {"pods": list[Any], "claims": list[Any], "workloads": list[Any], "add_nodes": list[AddNodes]}
_POLICIES: list[tuple[str, Any, Any]] = [
    ("preset", str | None, None),  # name of a preset; the configured policies if omitted
    ("preemption", dict[str, Any] | None, None),  # keys of the section `preemption`, on top of the preset
    ("compare", tuple[str, str] | None, None),  # two presets to compare, instead of both
]
SimulateBody = msgspec.defstruct(
    "SimulateBody",
    [
        *(
            (one.name, _MANIFESTS.get(one.name, one.type), [] if one.default == () else one.default)
            for one in fields(Scenario)
        ),
        ("pod", Any, None),  # instead of `pods`
        *_POLICIES,
    ],
    rename="camel",
    forbid_unknown_fields=True,
    namespace={
        "__doc__": "The body of POST /simulate. At least a pod, a workload, `pending` or a change of nodes is required."
    },
)


def decode_body(body: bytes, base: KubeScheduler, *, is_yaml: bool = False) -> tuple[Scenario, list[SimulatedPolicy]]:
    """Return the scenario, and one policy or the two to compare; `base`: the configured policies."""
    parsed = _decode(_json_of_yaml(body) if is_yaml else body)
    given = {one.name: getattr(parsed, one.name) for one in fields(Scenario)}
    if parsed.pod is not None:
        given["pods"] = [parsed.pod]
    if parsed.admission == "server":
        raise RequestError("admission: server needs permission to create pods, which the service lacks: use the CLI")
    added = [(node, one.count) for one in given["add_nodes"] for node in _nodes_of(one.node)]
    given |= {
        "pods": manifests(given["pods"], "pod", _OF_REQUEST),
        "claims": manifests(given["claims"], "claim", _OF_REQUEST),
        "workloads": manifests(given["workloads"], "workload", _OF_REQUEST),
        "add_nodes": [
            AddedNodes(node, count)
            for node, (_, count) in zip(
                manifests([node for node, _ in added], "added node", _OF_REQUEST), added, strict=True
            )
        ],
    }
    scenario = Scenario(**given)
    if not (scenario.pods or scenario.pending or scenario.workloads or scenario.changes_nodes):
        given_by = "`pod`, `pods`, `workloads`, `pending: true` or a change of nodes"
        raise RequestError(f"nothing to schedule: specify {given_by}")
    return scenario, _policies(base, parsed)


def _json_of_yaml(body: bytes) -> bytes:
    """Return the body as JSON: its settings, and its manifests by the key that takes their kind."""
    try:
        settings, objects = read_settings_and_manifests("the body", body)
    except ClusterFileError as error:
        raise RequestError(str(error)) from error
    found: dict[str, list[Any]] = {}
    for one in objects:
        if one.kind == "Node":
            found.setdefault("addNodes", []).append({"node": one.object})
        else:
            key = "pods" if one.kind == "Pod" else "workloads" if one.kind in WORKLOAD_KINDS else "claims"
            if key == "claims":
                _check_claim(one)  # here it has the number of its document
            found.setdefault(key, []).append(one.object)
    for key, several in found.items():
        if not isinstance(settings.setdefault(key, []), list):
            raise RequestError(f"invalid body: {key}: expected a list")
        settings[key] = several + settings[key]
    try:
        return msgspec.json.encode(settings)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"invalid body: {error}") from error


def _nodes_of(given: Any) -> list[Any]:
    if not isinstance(given, str):
        return [given]
    try:
        return [one.object for one in read_settings_and_manifests("addNodes", given.encode(), "Node")[1]]
    except ClusterFileError as error:
        raise RequestError(str(error)) from error


def _decode(body: bytes) -> Any:
    try:
        parsed: Any = msgspec.json.decode(body, type=SimulateBody)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"invalid body: {decode_error_message(error)}") from error
    if parsed.pod is not None and parsed.pods:
        raise RequestError("specify `pod` or `pods`, not both")
    if parsed.compare is not None and (parsed.preset is not None or parsed.preemption is not None):
        raise RequestError("`compare` names both policies: omit `preset` and `preemption`")
    return parsed


def _policies(base: KubeScheduler, parsed: Any) -> list[SimulatedPolicy]:
    if parsed.compare is not None:
        return [preset_policy(base, name) for name in parsed.compare]
    if parsed.preemption is not None:
        preset_of = {} if parsed.preset is None else {"preset": parsed.preset}
        return [custom_policy(base, {**preset_of, **parsed.preemption})]
    return [preset_policy(base, parsed.preset or CONFIGURED)]


# --- manifests ------------------------------------------------------------------------------------------------------


Noun = Literal["pod", "claim", "workload", "added node"]

_OF_REQUEST = " of the request"


def manifests(given: Iterable[Any], noun: Noun, origin: str = "") -> list[RawManifest]:
    """Return the manifests, each with its number as its place; RequestError for one of another kind."""
    found = []
    for number, one in enumerate(given, 1):
        place = f"{noun} {number}{origin}"
        if not isinstance(one, Mapping):
            raise RequestError(f"{place}: expected an object with metadata and spec")
        kind = one.get("kind") or _KINDS.get(noun, "")
        found.append(RawManifest(place, kind if isinstance(kind, str) else str(kind)[:80], dict(one)))
        _CHECKS[noun](found[-1])
    return found


_KINDS = {"pod": "Pod", "claim": "ResourceClaim", "added node": "Node"}
"""Kind of a manifest that names none."""


def _check_pod(one: RawManifest) -> None:
    if one.kind in WORKLOAD_KINDS:
        raise RequestError(f"{one.place}: {one.kind!r} is not a Pod: put it into `workloads`")
    if one.kind != "Pod":
        *others, last = API_VERSIONS
        raise RequestError(f"{one.place}: {one.kind!r} is not a Pod, {', '.join(others)} or {last}")


def _check_claim(one: RawManifest) -> None:
    """Refuse pods, nodes and workloads, and a known kind of another API; others, like a ConfigMap, are not read."""
    is_read = key_of_kind(one) is not None and one.kind not in ("Pod", "Node")
    is_mistaken = one.kind in {*WORKLOAD_KINDS, *map(kind_without_group, KINDS)} or not one.kind[:1].isupper()
    if is_mistaken and not is_read:
        given = " ".join(filter(None, (str(one.object.get("apiVersion") or "")[:80], one.kind)))
        raise RequestError(f"{one.place}: expected a ResourceClaim, or another object that pods need, not {given}")


def _check_node(one: RawManifest) -> None:
    if one.kind != "Node":
        raise RequestError(f"{one.place}: expected a Node with metadata and status.allocatable")


_CHECKS: Mapping[Noun, Callable[[RawManifest], object]] = {
    "pod": _check_pod,
    "claim": _check_claim,
    "workload": check_workload,
    "added node": _check_node,
}
