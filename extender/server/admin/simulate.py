"""What-if simulations under one policy or two, for `POST /simulate` and `extender simulate`.

Independent of HTTP. A scheduling cycle takes about a millisecond, tens of them where pods are evicted; building the
snapshot of a cluster with 150,000 pods takes seconds, which a child process that has one saves.

Rule: objects passed in never change: a simulation runs on a snapshot of its own, or on one that the caller gives up.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from extender.cluster.files.manifests import load_cluster
from extender.config import load_config
from extender.config.preemption import PRESETS, PreemptionSection
from extender.config.values import suggestion
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.profile import KubeScheduler
from extender.core.scheduling_cycle.schedule_one import seeded_draw
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ClusterFileError, ConfigError, RequestError
from extender.k8s.devices.objects import ResourceClaim
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Node, Pod
from extender.k8s.validation import decode_error_message
from extender.report.simulation_schema import CycleReport, Simulation, SimulationStruct
from extender.server.admin.fork_worker import ForkedWorker
from extender.whatif.scenario import AddedNodes, Scenario
from extender.whatif.scheduler import Step
from extender.whatif.simulator import NO_SCENARIO, simulate
from extender.whatif.workloads import API_VERSIONS, WORKLOAD_KINDS, WorkloadManifest, parse_workload

MAX_SIMULATED_PODS = 1000
"""Limit of the pods of one request (with pending pods and replicas), of its workloads and of its claims."""

MAX_ADDED_NODES = 1000
"""Limit of the nodes that one request adds."""

MAX_DISPLACED_PODS = 10_000
"""Limit of the pods on the nodes that one request removes and drains."""

SIMULATION_TIMEOUT_SECONDS = 60.0
"""Time limit of one simulation, or of two that are compared."""

CONFIGURED = "configured"
"""Name of the configured policies, in addition to the names of the presets."""

StepObserver = Callable[[Step], object]

# --- policies -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SimulatedPolicy:
    """The kube-scheduler of a simulation, with our policies in its profiles, and their name in the result."""

    name: str
    scheduler: KubeScheduler


def with_preemption(base: KubeScheduler, section: PreemptionSection) -> KubeScheduler:
    """Return the kube-scheduler with another preemption policy and unchanged filters and scores."""
    return base.with_preemption(section.policy(), section.most_candidates)


def preset_policy(base: KubeScheduler, name: str) -> SimulatedPolicy:
    """Return a preset on top of the defaults, or the configured policies; RequestError for any other name."""
    if name == CONFIGURED:
        return SimulatedPolicy(name, base)
    if name not in PRESETS:
        names = (*PRESETS, CONFIGURED)
        raise RequestError(f"unknown preset {name!r}{suggestion(name, names)}: available: {', '.join(names)}")
    return SimulatedPolicy(name, with_preemption(base, PreemptionSection.model_validate({"preset": name})))


def custom_policy(base: KubeScheduler, section: Any, name: str = "the request's own") -> SimulatedPolicy:
    """Return the policy of a `preemption` section; RequestError with one line per mistake if it is invalid."""
    try:
        config = load_config(None, {}, {"body": ("preemption", section)})
    except ConfigError as error:
        raise RequestError(str(error)) from error
    return SimulatedPolicy(name, with_preemption(base, config.preemption))


# --- one simulation, or two -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """The pods to schedule, and the options of the simulation."""

    pods: Sequence[Pod] = ()
    pending: bool = False
    """Schedule the pending pods of the cluster too."""
    seed: int | None = None
    history: EvictionHistory = NO_HISTORY
    claims: Sequence[ResourceClaim] = ()
    """Resource claims that the pods name and the cluster lacks."""
    scenario: Scenario = NO_SCENARIO


class PodOutcome(SimulationStruct, frozen=True):
    """The outcome of a pod after its last scheduling attempt."""

    outcome: str
    node: str | None
    message: str
    vetoed: str | None
    evicts: list[str]
    """Victims of all its attempts."""
    num_pdb_violations: int = msgspec.field(name="numPDBViolations")


class PolicyDifference(SimulationStruct, frozen=True):
    pod: str
    outcomes: list[PodOutcome | None]
    """[policy]: the outcome under each policy; null where the pod does not occur."""


class Comparison(SimulationStruct, frozen=True):
    compared: list[str]
    """Names of the policies."""
    results: list[Simulation]
    differences: list[PolicyDifference]
    """Pods whose outcome, node, victims or PDB violations differ."""


def run_simulation(
    cluster: ClusterObjects | Snapshot,
    policy: SimulatedPolicy,
    request: SimulationRequest,
    observer: StepObserver | None = None,
) -> Simulation:
    """Simulate under one policy; RequestError for pods that cannot be created.

    A snapshot is for the same version, and is changed; of objects one is built.
    """
    if not isinstance(cluster, Snapshot):
        try:
            cluster = Snapshot.build(cluster, policy.scheduler.features)
        except ValueError as error:
            raise ClusterFileError(str(error)) from error
    return simulate(
        cluster,
        policy.scheduler,
        request.pods,
        include_pending=request.pending,
        claims=request.claims,
        scenario=request.scenario,
        history=request.history,
        draw=None if request.seed is None else seeded_draw(request.seed),
        name=policy.name,
        seed=request.seed,
        on_step=observer,
    )


def run_simulations(
    cluster: ClusterObjects | Snapshot,
    policies: Sequence[SimulatedPolicy],
    request: SimulationRequest,
    observer: StepObserver | None = None,
) -> Simulation | Comparison:
    """Simulate under one policy, or the same pods under two; a snapshot is changed, as by `run_simulation`.

    Two policies on a snapshot need a system that can fork, as the process does that this one is a child of.
    """
    *others, last = policies
    if isinstance(cluster, Snapshot):
        results = [_simulate_on_copy(cluster, policy, request) for policy in others]
    else:
        results = [run_simulation(cluster, policy, request, observer) for policy in others]
    results.append(run_simulation(cluster, last, request, observer))
    if len(results) == 1:
        return results[0]
    one, other = map(pod_outcomes, results)
    differences = [
        PolicyDifference(pod=pod, outcomes=[one.get(pod), other.get(pod)])
        for pod in dict.fromkeys((*one, *other))
        if not _is_same_outcome(one.get(pod), other.get(pod))
    ]
    return Comparison(compared=[policy.name for policy in policies], results=results, differences=differences)


def _simulate_on_copy(snapshot: Snapshot, policy: SimulatedPolicy, request: SimulationRequest) -> Simulation:
    """Simulate on the copy of the snapshot that a forked child has: no other copy of a large one is made so fast."""

    def simulated() -> Simulation | str | None:
        try:
            return run_simulation(snapshot, policy, request)
        except RequestError as error:
            return str(error)
        except MemoryError:
            return None

    child = ForkedWorker.start(lambda: [msgspec.json.encode(simulated())], SIMULATION_TIMEOUT_SECONDS)
    found = msgspec.json.decode(child.wait(), type=Simulation | str | None)
    if isinstance(found, Simulation):
        return found
    raise MemoryError if found is None else RequestError(found)


def pod_outcomes(result: Simulation) -> dict[str, PodOutcome]:
    """Return pod -> its outcome, in the order of first attempts."""
    of_pod: dict[str, list[CycleReport]] = {}
    for cycle in result.attempts:
        of_pod.setdefault(cycle.pod, []).append(cycle)
    return {
        pod: PodOutcome(
            outcome=cycles[-1].outcome,
            node=cycles[-1].node,
            message=cycles[-1].message,
            vetoed=cycles[-1].vetoed,
            evicts=[victim.pod for cycle in cycles for victim in cycle.victims],
            num_pdb_violations=sum(cycle.num_pdb_violations for cycle in cycles),
        )
        for pod, cycles in of_pod.items()
    }


def _is_same_outcome(one: PodOutcome | None, other: PodOutcome | None) -> bool:
    """Return whether two outcomes are equal apart from the message, which depends on evictions for other pods too."""
    keys = [one and (one.outcome, one.node, sorted(one.evicts), one.num_pdb_violations) for one in (one, other)]
    return keys[0] == keys[1]


# --- pods -----------------------------------------------------------------------------------------------------------


def parse_pods(given: Sequence[Any]) -> list[Pod]:
    """Parse pods from JSON values; `kind` is optional. RequestError names the invalid pod and field."""
    return [_parse_pod(one, f"pod {number} of the request") for number, one in enumerate(given, 1)]


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


def parse_claims(given: Sequence[Any]) -> list[ResourceClaim]:
    """Parse resource claims from JSON values; `kind` is optional. RequestError names the invalid claim and field."""
    return [_parse_claim(one, f"claim {number} of the request") for number, one in enumerate(given, 1)]


def _parse_claim(given: Any, place: str) -> ResourceClaim:
    if not isinstance(given, dict) or given.get("kind", "ResourceClaim") != "ResourceClaim":
        raise RequestError(f"{place}: expected a ResourceClaim with metadata and spec")
    (claim,) = _load({"apiVersion": "resource.k8s.io/v1", **given, "kind": "ResourceClaim"}, place).resource_claims
    return claim


# --- workloads and nodes --------------------------------------------------------------------------------------------


def parse_workloads(given: Sequence[Any]) -> list[WorkloadManifest]:
    """Parse Deployments, ReplicaSets, StatefulSets and Jobs from JSON values; RequestError names the invalid one."""
    return [_parse_workload(one, f"workload {number} of the request") for number, one in enumerate(given, 1)]


def _parse_workload(given: Any, place: str) -> WorkloadManifest:
    try:
        return parse_workload(given)
    except RequestError as error:
        raise RequestError(f"{place}: {error}") from error


def parse_nodes(given: Sequence[Any]) -> list[Node]:
    """Parse nodes from JSON values; `kind` is optional. RequestError names the invalid node and field."""
    return [_parse_node(one, f"added node {number} of the request") for number, one in enumerate(given, 1)]


def _parse_node(given: Any, place: str) -> Node:
    if not isinstance(given, dict) or given.get("kind", "Node") != "Node":
        raise RequestError(f"{place}: expected a Node with metadata and status.allocatable")
    (node,) = _load({**given, "kind": "Node", "apiVersion": "v1"}, place).nodes
    return node


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


def simulate_request(
    cluster: ClusterObjects | Snapshot, base: KubeScheduler, body: bytes, history: EvictionHistory | None = None
) -> Simulation | Comparison:
    """Answer `POST /simulate`.

    `cluster`: see `run_simulation`. `base`: the kube-scheduler and the policies in effect. `history`: the time and the
    recent evictions; by default now, without evictions.
    Raises RequestError for an invalid body, or for one that exceeds a limit.
    """
    parsed = _decode(body)
    given = ([] if parsed.pod is None else [parsed.pod]) + parsed.pods
    scenario = _scenario(parsed)
    if not (given or parsed.pending or scenario.workloads or scenario.changes_nodes):
        raise RequestError("nothing to schedule: give `pod`, `pods`, `workloads`, `pending: true` or a change of nodes")
    request = SimulationRequest(
        parse_pods(given),
        parsed.pending,
        parsed.seed,
        history or EvictionHistory(time.time_ns()),
        parse_claims(parsed.claims),
        scenario,
    )
    _check_limits(cluster, request)
    return run_simulations(cluster, _policies(base, parsed), request)


def _check_limits(cluster: ClusterObjects | Snapshot, request: SimulationRequest) -> None:
    """Raise RequestError if a request is larger than one process may have to carry."""
    scenario = request.scenario
    waiting = cluster.pods_without_row() if isinstance(cluster, Snapshot) else cluster.pods
    pods = len(request.pods) + (sum(not pod.spec.node_name for pod in waiting) if request.pending else 0)
    pods += 0 if scenario.until_full else scenario.replicas
    for number, what, limit in (
        (pods, "pods", MAX_SIMULATED_PODS),
        (len(request.claims), "claims", MAX_SIMULATED_PODS),
        (len(scenario.workloads), "workloads", MAX_SIMULATED_PODS),
        (scenario.added, "added nodes", MAX_ADDED_NODES),
        (displaced_pods(cluster, scenario), "pods on removed and drained nodes", MAX_DISPLACED_PODS),
    ):
        if number > limit:
            raise RequestError(f"{number} {what} exceed the limit of {limit} per request")


def displaced_pods(cluster: ClusterObjects | Snapshot, scenario: Scenario) -> int:
    """Return the number of pods on the nodes that the scenario removes or drains."""
    nodes = {*scenario.remove_nodes, *scenario.drain}
    if isinstance(cluster, Snapshot):
        rows = (cluster.node_row[name] for name in nodes if name in cluster.node_row)
        return sum(len(cluster.pod_table.on_node[row]) for row in rows)
    return sum(pod.spec.node_name in nodes for pod in cluster.pods) if nodes else 0


def _scenario(parsed: SimulateBody) -> Scenario:
    nodes = parse_nodes([one.node for one in parsed.add_nodes])
    return Scenario(
        add_nodes=[AddedNodes(node, one.count) for node, one in zip(nodes, parsed.add_nodes, strict=True)],
        cordon=parsed.cordon,
        remove_nodes=parsed.remove_nodes,
        drain=parsed.drain,
        workloads=parse_workloads(parsed.workloads),
        until_full=parsed.until_full,
        gang=parsed.gang,
        replace_evicted=parsed.replace_evicted,
    )


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
