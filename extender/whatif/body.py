"""Decode the body of `POST /simulate` into a Scenario and the policies to simulate it under.

Rule: a mistake is a RequestError that names the object and its field.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Annotated, Any, TypeVar

import msgspec

from extender.cluster.files.manifests import load_cluster
from extender.core.profile import KubeScheduler
from extender.errors import ClusterFileError, RequestError
from extender.k8s.devices.objects import ResourceClaim
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Node, Pod
from extender.k8s.validation import decode_error_message
from extender.whatif.policies import CONFIGURED, SimulatedPolicy, custom_policy, preset_policy
from extender.whatif.scenario import AddedNodes, Scenario
from extender.whatif.workloads import API_VERSIONS, WORKLOAD_KINDS, WorkloadManifest, parse_workload

R = TypeVar("R")


class AddNodes(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Nodes to add, all like one."""

    node: Any
    """A Node."""
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


def decode_body(body: bytes, base: KubeScheduler) -> tuple[Scenario, list[SimulatedPolicy]]:
    """Return the scenario, and one policy or the two to compare; `base`: the configured policies."""
    parsed = _decode(body)
    given = {one.name: getattr(parsed, one.name) for one in fields(Scenario)}
    if parsed.pod is not None:
        given["pods"] = [parsed.pod]
    added = given["add_nodes"]
    nodes = _parsed([one.node for one in added], _parse_node, "added node")
    given |= {
        "pods": _parsed(given["pods"], _parse_pod, "pod"),
        "claims": _parsed(given["claims"], _parse_claim, "claim"),
        "workloads": _parsed(given["workloads"], _parse_workload, "workload"),
        "add_nodes": [AddedNodes(node, one.count) for node, one in zip(nodes, added, strict=True)],
    }
    scenario = Scenario(**given)
    if not (scenario.pods or scenario.pending or scenario.workloads or scenario.changes_nodes):
        given_by = "`pod`, `pods`, `workloads`, `pending: true` or a change of nodes"
        raise RequestError(f"nothing to schedule: specify {given_by}")
    return scenario, _policies(base, parsed)


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


def _parsed(given: Sequence[Any], parse: Callable[[Any, str], R], noun: str) -> list[R]:
    return [parse(one, f"{noun} {number} of the request") for number, one in enumerate(given, 1)]


def _parse_pod(given: Any, place: str) -> Pod:
    if not isinstance(given, dict):
        raise RequestError(f"{place}: expected an object with metadata and spec")
    kind = given.get("kind") or "Pod"
    if isinstance(kind, str) and kind in WORKLOAD_KINDS:
        raise RequestError(f"{place}: {kind!r} is not a Pod: put it into `workloads`")
    if kind != "Pod":
        raise RequestError(not_a_pod_message(place, str(kind)[:80]))
    (pod,) = _load({**given, "kind": "Pod", "apiVersion": "v1"}, place).pods
    return pod


def _load(manifest: dict[str, Any], place: str) -> ClusterObjects:
    try:
        return load_cluster(manifest)
    except ClusterFileError as error:
        raise RequestError(str(error).replace("cluster: ", f"{place}: ", 1)) from error


def not_a_pod_message(place: str, kind: str) -> str:
    """Render the error for an object of another kind."""
    if kind == "ResourceClaimTemplate":
        return (
            f"{place}: a simulation creates no claim from a ResourceClaimTemplate: add a ResourceClaim with its spec, "
            "and name it as resourceClaimName in the pod"
        )
    return f"{place}: {kind!r} is not a Pod, {', '.join([*API_VERSIONS][:-1])} or {[*API_VERSIONS][-1]}"


def _parse_claim(given: Any, place: str) -> ResourceClaim:
    if not isinstance(given, dict) or given.get("kind", "ResourceClaim") != "ResourceClaim":
        raise RequestError(f"{place}: expected a ResourceClaim with metadata and spec")
    claims = _load({"apiVersion": "resource.k8s.io/v1", **given, "kind": "ResourceClaim"}, place).resource_claims
    if not claims:
        raise RequestError(f"{place}: apiVersion: must be in group resource.k8s.io, not {given['apiVersion']!r:.100}")
    return claims[0]


def _parse_workload(given: Any, place: str) -> WorkloadManifest:
    try:
        return parse_workload(given)
    except RequestError as error:
        raise RequestError(f"{place}: {error}") from error


def _parse_node(given: Any, place: str) -> Node:
    if not isinstance(given, dict) or given.get("kind", "Node") != "Node":
        raise RequestError(f"{place}: expected a Node with metadata and status.allocatable")
    (node,) = _load({**given, "kind": "Node", "apiVersion": "v1"}, place).nodes
    return node
