"""Decode the body of `POST /simulate` into a Scenario and the policies to simulate it under.

Rule: a mistake is a RequestError that names the object and its field.
"""

from typing import Annotated, Any

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

# --- POST /simulate -------------------------------------------------------------------------------------------------


class AddNodes(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Nodes to add, all like one."""

    node: Any
    """A Node."""
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Number of nodes; several are named after the node, with a number."""


class SimulateBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of POST /simulate. At least a pod, a workload, `pending` or a change of nodes is required."""

    pod: Any = None
    """One Pod."""
    pods: list[Any] = []
    """Several Pods, instead of `pod`."""
    claims: list[Any] = []
    """ResourceClaims that the pods name and the cluster lacks."""
    pending: bool = False
    """Schedule the pending pods of the cluster too."""
    workloads: list[Any] = []
    """Deployments, ReplicaSets, StatefulSets and Jobs, whose missing replicas are created."""
    add_nodes: list[AddNodes] = []
    cordon: list[str] = []
    """Names of nodes to make unschedulable."""
    remove_nodes: list[str] = []
    """Names of nodes that are lost with their pods."""
    drain: list[str] = []
    """Names of nodes to cordon and drain, within disruption budgets."""
    until_full: bool = False
    """Count how many copies of the one pod, or pods of the one workload, fit without preemption."""
    gang: bool = False
    """Schedule all pods that arrive, or none."""
    replace_evicted: bool = True
    """Evicted pods come back through their controllers."""
    preset: str | None = None
    """Name of a preset; the configured policies if omitted."""
    preemption: dict[str, Any] | None = None
    """Keys of the configuration's `preemption` section, on top of `preset`."""
    compare: tuple[str, str] | None = None
    """Names of two presets to compare, instead of `preset` and `preemption`."""
    seed: int | None = None
    """Seed for the random choice among nodes of equal score; the first name wins if omitted."""


def decode_body(body: bytes, base: KubeScheduler) -> tuple[Scenario, list[SimulatedPolicy]]:
    """Return the scenario, and one policy or the two to compare; `base`: the configured policies."""
    parsed = _decode(body)
    given = ([] if parsed.pod is None else [parsed.pod]) + parsed.pods
    nodes = [_parse_node(one.node, f"added node {n} of the request") for n, one in enumerate(parsed.add_nodes, 1)]
    scenario = Scenario(
        pods=[_parse_pod(one, f"pod {number} of the request") for number, one in enumerate(given, 1)],
        claims=[_parse_claim(one, f"claim {number} of the request") for number, one in enumerate(parsed.claims, 1)],
        pending=parsed.pending,
        seed=parsed.seed,
        add_nodes=[AddedNodes(node, one.count) for node, one in zip(nodes, parsed.add_nodes, strict=True)],
        cordon=parsed.cordon,
        remove_nodes=parsed.remove_nodes,
        drain=parsed.drain,
        workloads=[_parse_workload(one, f"workload {n} of the request") for n, one in enumerate(parsed.workloads, 1)],
        until_full=parsed.until_full,
        gang=parsed.gang,
        replace_evicted=parsed.replace_evicted,
    )
    if not (scenario.pods or scenario.pending or scenario.workloads or scenario.changes_nodes):
        raise RequestError("nothing to schedule: give `pod`, `pods`, `workloads`, `pending: true` or a change of nodes")
    return scenario, _policies(base, parsed)


def _decode(body: bytes) -> SimulateBody:
    try:
        parsed = msgspec.json.decode(body, type=SimulateBody)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"invalid body: {decode_error_message(error)}") from error
    if parsed.pod is not None and parsed.pods:
        raise RequestError("give `pod` or `pods`, not both")
    if parsed.compare is not None and (parsed.preset is not None or parsed.preemption is not None):
        raise RequestError("`compare` names both policies: omit `preset` and `preemption`")
    return parsed


def _policies(base: KubeScheduler, parsed: SimulateBody) -> list[SimulatedPolicy]:
    if parsed.compare is not None:
        return [preset_policy(base, name) for name in parsed.compare]
    if parsed.preemption is not None:
        preset_of = {} if parsed.preset is None else {"preset": parsed.preset}
        return [custom_policy(base, {**preset_of, **parsed.preemption})]
    return [preset_policy(base, parsed.preset or CONFIGURED)]


# --- pods -----------------------------------------------------------------------------------------------------------


def _parse_pod(given: Any, place: str) -> Pod:
    if not isinstance(given, dict):
        raise RequestError(f"{place}: expected an object with metadata and spec")
    kind = given.get("kind") or "Pod"
    if isinstance(kind, str) and kind in WORKLOAD_KINDS:
        raise RequestError(f"{place}: {kind!r} is not a Pod: give it in `workloads`")
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
            f"{place}: a simulation creates no claim from a ResourceClaimTemplate: give a ResourceClaim with its spec, "
            "and name it as resourceClaimName in the pod"
        )
    return f"{place}: {kind!r} is not a Pod, {', '.join([*API_VERSIONS][:-1])} or {[*API_VERSIONS][-1]}"


def _parse_claim(given: Any, place: str) -> ResourceClaim:
    if not isinstance(given, dict) or given.get("kind", "ResourceClaim") != "ResourceClaim":
        raise RequestError(f"{place}: expected a ResourceClaim with metadata and spec")
    claims = _load({"apiVersion": "resource.k8s.io/v1", **given, "kind": "ResourceClaim"}, place).resource_claims
    if not claims:
        raise RequestError(f"{place}: apiVersion: must be of resource.k8s.io, not {given['apiVersion']!r:.100}")
    return claims[0]


# --- workloads and nodes --------------------------------------------------------------------------------------------


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
