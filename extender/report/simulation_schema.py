"""The JSON schema of a simulation, as `extender simulate -o json` and `POST /simulate` show it.

Amounts are in the scheduler's units: millicores of cpu, bytes, or a count.

Rule: types only; `whatif.simulator` fills them in.
"""

from typing import Literal

import msgspec

from extender.core.scheduling_cycle.result import (
    CycleOutcome,
    CyclePostFilter,
    CycleScore,
    RejectedNodes,
    ReservedClaim,
)
from extender.report.schema import OBJECTS, ResourceAmounts, SourceReport

NodeState = Literal["added", "removed", "drained", "draining", "cordoned"]
"""draining: evictions of the node's pods stay blocked."""

EvictionCause = Literal["Preempted", "Drained", "NodeRemoved"]

EvictionRefusal = Literal["NotAllowed", "SeveralBudgets", "NotProcessed"]
"""Why the eviction API refuses: the budget allows no disruption, several budgets select the pod, or the disruption
controller has not processed the budget's latest change."""


class SimulationStruct(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base class of the schema: keys in camelCase."""


class ClusterSize(SimulationStruct, frozen=True):
    """Size of the cluster before the simulation."""

    nodes: int
    pods: int
    """All pods, including pending and finished ones."""


class EvictedPod(SimulationStruct, frozen=True):
    """A pod that was evicted."""

    pod: str
    uid: str
    priority: int
    node: str
    budgets: list[str]
    """Disruption budgets that its eviction counts against."""
    preemptor: str
    """Key of the pod that it was evicted for."""
    terminating: bool
    """True if it was already terminating."""


class CycleReport(SimulationStruct, frozen=True):
    """One attempt to schedule one pod."""

    pod: str
    uid: str
    priority: int
    attempt: int
    """1 for the first attempt to schedule the pod."""
    outcome: CycleOutcome
    node: str | None
    """The node that it was bound to, or null."""
    feasible: int
    """Number of nodes that passed the filters; 1 if the nominated node did, which is filtered first."""
    score: CycleScore | None
    """Null unless several nodes were feasible."""
    message: str
    """kube-scheduler's message for a pod that was not scheduled."""
    rejected: list[RejectedNodes]
    """Why no node passed the filters; empty if one did, or if none was filtered."""
    post_filter: CyclePostFilter | None
    nominated_node: str | None
    victims: list[EvictedPod]
    # rename="camel" would make numPdbViolations of it.
    num_pdb_violations: int = msgspec.field(name="numPDBViolations")
    vetoed: str | None
    """Reason why the policies allowed no eviction, where kube-scheduler alone would have evicted pods."""
    claims: list[ReservedClaim]
    """Resource claims that the pod reserved when it was bound, in the order of its spec."""
    deallocated: str | None
    """`namespace/name` of the resource claim that was deallocated: no pod uses it, and this one did not fit."""
    hint: str | None
    """What to do if a resource claim of the pod does not exist yet."""
    not_evaluated: list[str]
    """Filter plugins that may reject the pod and that we do not evaluate: kube-scheduler may decide otherwise."""


class PendingPod(SimulationStruct, frozen=True):
    """A pod without a node at the end."""

    pod: str
    uid: str
    priority: int
    attempts: int
    message: str
    nominated_node: str | None
    vetoed: str | None


class NodeUsage(SimulationStruct, frozen=True):
    """Requests of all pods of a node that the simulation changed."""

    name: str
    before: ResourceAmounts
    """Zero for a node that was added."""
    after: ResourceAmounts
    """Zero for a node that was removed."""
    allocatable: ResourceAmounts
    state: NodeState | None = None
    """How the scenario changed the node; null: only its pods changed."""


class SimulationSummary(SimulationStruct, frozen=True):
    """Totals of a simulation."""

    scheduled: int
    """Pods that were scheduled and still run at the end."""
    pending: int
    skipped: int
    evicted: int
    pdb_violations: int
    nodes: list[NodeUsage]
    """Nodes on which pods were bound or evicted, and those that the scenario changed."""


# --- scenarios ------------------------------------------------------------------------------------------------------


class BlockedEviction(SimulationStruct, frozen=True):
    """A pod that a drain could not evict."""

    pod: str
    budgets: list[str]
    """Disruption budgets that select the pod."""
    cause: EvictionRefusal
    message: str
    """Message of the eviction API."""


class DrainedNode(SimulationStruct, frozen=True):
    """Pods of a drained node, by namespace and name."""

    node: str
    evicted: list[str]
    """In the order of their eviction."""
    ignored: list[str]
    """DaemonSet pods and mirror pods, which stay."""
    blocked: list[BlockedEviction]
    """Pods that disruption budgets still protect at the end."""
    lost: list[str]
    """Evicted pods without a controller, which never come back."""


class RemovedNode(SimulationStruct, frozen=True):
    """Pods of a removed node: all are deleted, whatever their disruption budgets."""

    node: str
    deleted: list[str]
    lost: list[str]
    """Deleted pods that never come back: those without a controller, DaemonSet pods and mirror pods."""


class Replacement(SimulationStruct, frozen=True):
    """A pod that its controller created for an evicted one."""

    pod: str
    of: str
    """The evicted pod; pods of a StatefulSet keep its name."""
    cause: EvictionCause
    old_node: str
    outcome: CycleOutcome
    """Outcome of the last attempt to schedule it."""
    node: str | None
    message: str


class AdmissionReport(SimulationStruct, frozen=True):
    """What admission made of the manifests of a request."""

    mode: str
    """local: as the extender knows an API server; server: a dry run of the API server; none: taken as they are."""
    version: str
    """Version of the API server, such as 1.36."""
    left_out: list[str]
    """Required fields that are missing and do not change the answer."""
    pruned: list[str]
    """Unknown fields, which an API server drops."""
    assumed: list[str]
    """What the answer depends on and was not given."""
    existing: list[str] = []
    """Objects beside the pods that the cluster has already, so that the given ones do not count."""
    warnings: list[str] = []
    """Warnings of the API server (mode server)."""


class WorkloadPods(SimulationStruct, frozen=True):
    """Pods that a workload of the request needs."""

    workload: str
    """Such as `Deployment default/web`."""
    existing: int
    """Number of its replicas that the cluster has already."""
    created: list[str]
    """Empty after a gang that was not scheduled: all were taken back."""
    waiting: list[str]
    """Pods of a StatefulSet with podManagementPolicy OrderedReady that wait for one with a lower ordinal."""
    refused: int = 0
    """Number of pods that the API server refuses, for example because of a quota."""
    refusal: str = ""
    """Its message for the first of them."""
    excluded: dict[str, str] = {}
    """Nodes on which a DaemonSet runs no pod -> why."""


class CopiesOnNode(SimulationStruct, frozen=True):
    """Number of copies that fit on a node."""

    node: str
    pods: int


class UntilFull(SimulationStruct, frozen=True):
    """How many copies of a pod fit, without preemption."""

    pod: str
    fits: int
    limit_reached: bool
    """True: the simulation stopped at its limit, and more may fit."""
    nodes: list[CopiesOnNode]
    """Copies by node, sorted by name."""
    next: CycleReport | None
    """The attempt to schedule one more, whose victims are not evicted; null if the limit was reached, or if the API
    server refuses one more."""
    refusal: str = ""
    """Its message if it refuses one more, as quotas do."""


class Gang(SimulationStruct, frozen=True):
    """All pods of the request, or none."""

    scheduled: bool
    pods: int
    message: str
    """Reason why none is scheduled, or why there was nothing to schedule."""


class ScenarioReport(SimulationStruct, frozen=True):
    """How the scenario of the request changed the cluster."""

    added: list[str]
    cordoned: list[str]
    removed: list[RemovedNode]
    drained: list[DrainedNode]
    workloads: list[WorkloadPods]
    until_full: UntilFull | None
    gang: Gang | None


# --- the whole result -----------------------------------------------------------------------------------------------


class Simulation(SimulationStruct, frozen=True):
    """The result of a simulation, in the order of events."""

    sentence: str
    """The result in one plain sentence."""
    cluster: ClusterSize
    policies: str
    """Name of the preemption policies; empty if they have none."""
    version: str
    """Version of kube-scheduler whose verdicts these are, such as 1.36."""
    release: str
    """The version with its patch, such as 1.36.2; without one if only the minor is known."""
    version_source: str
    """Where the version was found or set, or that it is not known."""
    feature_gates: dict[str, bool]
    """Feature gates that differ from the version's defaults."""
    notes: list[str]
    """What the simulation does not take into account, one sentence each."""
    seed: int | None
    """Seed of the choice among equal nodes; null: by name."""
    cycles: list[CycleReport]
    pending: list[PendingPod]
    evicted: list[EvictedPod]
    """Pods that preemption evicted."""
    summary: SimulationSummary
    replacements: list[Replacement] = []
    """Pods that controllers created for evicted ones, in the order of their creation."""
    scenario: ScenarioReport | None = None
    """Null unless the request changes nodes, has workloads, or asks for `untilFull` or `gang`."""
    admission: AdmissionReport | None = None
    """Null if no manifest was admitted."""
    source: SourceReport = OBJECTS

    @property
    def attempts(self) -> list[CycleReport]:
        """Return all cycles, by which simulations are compared: also the one that ends `untilFull`."""
        full = self.scenario.until_full if self.scenario is not None else None
        return self.cycles if full is None or full.next is None else [*self.cycles, full.next]


# --- two policies -----------------------------------------------------------------------------------------------------


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
    """A pod with different outcomes under two policies."""

    pod: str
    outcomes: list[PodOutcome | None]
    """One per policy; null: the pod does not occur."""


class Comparison(SimulationStruct, frozen=True):
    """Two simulations that differ in the policies."""

    sentence: str
    """The result in one plain sentence."""
    compared: list[str]
    """Names of the policies."""
    results: list[Simulation]
    differences: list[PolicyDifference]
    """Pods whose outcome, node, victims or PDB violations differ."""
