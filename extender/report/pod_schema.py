"""The JSON schema of `extender why`: the verdict about one pod, and every node for it; or the list of pending pods.

Rule: types only; `report.diagnose` and `report.lists.pending` fill them in, and `cluster.list` the history.
"""

from typing import Literal

import msgspec

from extender.cluster.list.pod_history import PodHistory
from extender.core.scheduling_cycle.result import ReservedClaim
from extender.report.facts.schema import AnyFact, FactCount
from extender.report.schema import OBJECTS, Chance, NodeReport, SourceReport
from extender.report.simulation_schema import AdmissionReport, ClusterSize, EvictedPod

PodState = Literal["Pending", "Gated", "NotOurs", "Assigned", "Terminating", "Finished", "NotFound"]
"""Gated: kept out of the queue by a PreEnqueue plugin; NotOurs: no profile has its schedulerName; Assigned: has a node;
NotFound: the cluster has no such pod."""

Verdict = Literal["Fits", "FitsAfterPreemption", "DoesNotFit", "Unknown"]
"""Fits: also a pod that has its node already. Unknown: kube-scheduler does not try the pod, or a plugin or another
extender decides that we do not evaluate."""

EXIT_CODES: dict[Verdict, int] = {"Fits": 0, "DoesNotFit": 1, "FitsAfterPreemption": 3, "Unknown": 4}
"""Exit code of `extender why`; 2 is an error, as with all commands."""

NOT_TRIED_EXIT_CODE = 6
"""Exit code for `Unknown` where kube-scheduler does not try the pod; not where we do not evaluate what decides."""

NOT_FOUND_EXIT_CODE = 5
"""Exit code of `extender why` about a pod that the cluster does not have."""


Unit = Literal["millicores", "bytes", "count"]


class DiagnosisStruct(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base class of the schema: keys in camelCase."""


class ReasonCount(DiagnosisStruct, frozen=True, kw_only=True):
    """A reason of kube-scheduler's message, with its nodes. A node with several reasons counts for each."""

    code: str
    """Unschedulable (evicting pods may help), UnschedulableAndUnresolvable or Error."""
    plugin: str
    """The plugin that rejects; empty for a reason of the framework itself."""
    reason: str
    nodes: int
    candidates: int
    """Number of these nodes on which evicting pods would make room, as the dry run found."""
    examples: list[str]
    """Names of the first ten of these nodes."""
    facts: list[FactCount] = []
    """What exactly rejects these nodes: the five most common facts."""


class PluginStatus(DiagnosisStruct, frozen=True, kw_only=True):
    """framework.Status of a node."""

    code: str
    """Success, Unschedulable, UnschedulableAndUnresolvable or Error."""
    plugin: str
    reasons: list[str]


class NodeScores(DiagnosisStruct, frozen=True, kw_only=True):
    """Scores of a node on which the pod fits."""

    total: int
    plugins: dict[str, int]
    """Plugin -> weighted score."""
    rank: int
    """1 for the highest total; equal totals have the same rank."""


class NodePreemption(DiagnosisStruct, frozen=True, kw_only=True):
    """A preemption on one node: its victims, or the status that rejects the node as a candidate."""

    victims: list[str]
    """`namespace/name`, most important first; empty: the node is not a candidate."""
    # rename="camel" would make numPdbViolations of it.
    num_pdb_violations: int = msgspec.field(name="numPDBViolations")
    status: PluginStatus | None
    """Null for a candidate."""
    chance: list[Chance] = []
    """Why kube-scheduler may choose other victims there, these being one of its answers: BudgetOrder (several budgets
    over one pod, in the order of a Go map) or UnstableSort (of more than 12 pods equally important ones)."""


class NodeDiagnosis(DiagnosisStruct, frozen=True, kw_only=True):
    """One node for the pod."""

    name: str
    code: str
    """Success, Unschedulable, UnschedulableAndUnresolvable or Error."""
    plugin: str
    reasons: list[str]
    facts: list[AnyFact] = []
    """What exactly rejects the node."""
    scores: NodeScores | None
    """Null where the pod does not fit."""
    preemption: NodePreemption | None
    """Null where evicting pods cannot help: every node but those with the code Unschedulable."""
    not_evaluated: list[str]
    """Plugins and other extenders that kube-scheduler evaluates on this node and that we do not."""


class PreemptionOutcome(DiagnosisStruct, frozen=True, kw_only=True):
    """Outcome of the preemption, which is tried if the pod fits on no node."""

    node: str | None
    """The node that the pod would be nominated to; null: none."""
    ties: list[str]
    """Nodes that cost the same, including this one; kube-scheduler may choose any of them."""
    chance: list[Chance] = []
    """Why kube-scheduler may choose another node or other victims: the reasons of all nodes that it could choose."""
    candidates: int
    """Number of nodes on which evicting pods would make room."""
    victims: list[EvictedPod]
    """Pods that would be evicted, most important first."""
    num_pdb_violations: int = msgspec.field(name="numPDBViolations")
    vetoed: str | None
    """Reason why the policies allow no eviction, where kube-scheduler alone would evict pods."""
    message: str
    """kube-scheduler's message about preemption, part of its whole message; empty if a node is found up to 1.36, or if
    another PostFilter plugin ended the attempt before."""
    obstacle: str
    """If no node is a candidate: the commonest reason why evicting pods makes no room where that was tried."""


class Placement(DiagnosisStruct, frozen=True, kw_only=True):
    """How the node of an assigned pod compares with the others, judged as if the pod had none yet."""

    node: str
    status: PluginStatus | None = None
    """Filter status of its node; null: the node does not exist any more, or was not judged."""
    scores: NodeScores | None = None
    """Scores of its node; null: the pod would not fit there any more."""
    runners_up: list[str] = []
    """The three other nodes with the highest totals, best first."""
    is_static: bool
    """True for a static pod's mirror: the kubelet of its node runs it, and kube-scheduler never placed it."""


class PodVerdict(DiagnosisStruct, frozen=True, kw_only=True):
    """What a diagnosis of a pod and its entry in the list of pending pods have in common."""

    pod: str
    """`namespace/name`."""
    uid: str = ""
    priority: int = 0
    scheduler_name: str = ""
    state: PodState
    verdict: Verdict = "Unknown"
    message: str = ""
    """kube-scheduler's message: that of FailedScheduling, or why it does not try the pod; empty where the pod fits."""
    cause: str = ""
    """The commonest reason against the nodes, or why kube-scheduler does not try the pod; empty where it fits. In the
    list, never empty: the key of the pod's group."""
    cause_nodes: int = 0
    """Number of nodes with this cause; 0 if it is not about single nodes."""
    cause_facts: list[AnyFact] = []
    """What exactly rejects these nodes: the most common facts; in the list, of up to 50 of the cluster's nodes."""
    reasons: list[ReasonCount] = []
    """Why nodes are rejected, the most common reason first."""
    node: str | None = None
    """The node that the pod has, or the one that it would be bound to; in the list, or nominated to."""
    nominated_node: str | None = None
    """status.nominatedNodeName."""
    hint: str | None = None
    """What to do or to wait for: a claim that does not exist yet, a pending pod that fits, another scheduler's pod."""


class Diagnosis(PodVerdict, frozen=True, kw_only=True):
    """What kube-scheduler would decide about one pod now, and why."""

    requests: dict[str, int] = {}
    """Requests of the pod, in these units."""
    units: dict[str, Unit] = {}
    """Resource that the pod requests -> unit of its amounts, here and in `details`."""
    why: str
    """The verdict and its reason in one plain sentence."""
    facts: list[AnyFact] = []
    """What is particular about the pod: gates, nominations, its group, a pending resize, why it failed."""
    ties: list[str] = []
    """The first ten nodes with the same total score as that one."""
    feasible: int = 0
    """Number of nodes on which the pod fits."""
    cluster: ClusterSize
    version: str
    """Version of kube-scheduler whose verdicts these are, such as 1.36."""
    release: str
    """The version with its patch, such as 1.36.2; without one if only the minor is known."""
    version_source: str
    """Where the version was found or set, or that it is not known."""
    feature_gates: dict[str, bool]
    """Feature gates that differ from the version's defaults."""
    policies: list[str] = []
    """Keys of the preemption policies that differ from kube-scheduler's behaviour, with their values."""
    preemption: PreemptionOutcome | None = None
    """Null where none is tried: the pod fits, or kube-scheduler does not try it."""
    placement: Placement | None = None
    """Why an assigned pod is where it is; null for any other."""
    claims: list[ReservedClaim] = []
    """Resource claims of a pod that fits, with the devices that it would get."""
    not_evaluated: list[str] = []
    """Plugins and other extenders that kube-scheduler evaluates for this pod and that we do not."""
    notes: list[str]
    """What the verdict does not take into account, one sentence each."""
    nodes: list[NodeDiagnosis] = []
    """All nodes by name."""
    details: NodeReport | None = None
    """One node with its pods, resources and devices, on request."""
    history: PodHistory | None = None
    """Null without a live cluster: a file has no Events."""
    admission: AdmissionReport | None = None
    """Null for a pod of the cluster."""
    suggestions: list[str] = []
    """Pods that may be meant by the name of a pod that the cluster does not have, as `namespace/name`."""
    source: SourceReport = OBJECTS


# --- the pending pods of a cluster ------------------------------------------------------------------------------------

PreemptionHelp = Literal["MakesRoom", "NoRoom", "NotAllowed", "Waits", "NotTried"]
"""Would preemption help? Waits: pods evicted for it are still terminating; NotTried: it fits, or is not tried."""


class PendingPodReport(PodVerdict, frozen=True, kw_only=True):
    """A pod that has no node yet."""

    since: str | None
    """Since when it is not scheduled: the time of its condition PodScheduled, or else of its creation."""
    preemption: PreemptionHelp
    blocked_by: str
    """What stands in the way: what forbids the preemption or keeps it from making room, gates, a plugin; or empty."""
    victims: list[str]
    """Pods that would be evicted for it from that node."""


class PendingCause(DiagnosisStruct, frozen=True, kw_only=True):
    """Pending pods with the same cause."""

    cause: str
    pods: int
    oldest: str | None
    """Since when the oldest of them is not scheduled."""


class PendingReport(DiagnosisStruct, frozen=True, kw_only=True):
    """All pods of a cluster, or of one namespace, that have no node yet."""

    why: str
    """Their number, verdicts and commonest cause in one sentence."""
    namespace: str | None
    """Null: all namespaces."""
    namespace_exists: bool = True
    """False: the cluster has neither this namespace nor pods in it."""
    cluster: ClusterSize
    version: str
    """Version of kube-scheduler whose verdicts these are, such as 1.36."""
    release: str
    """The version with its patch, such as 1.36.2; without one if only the minor is known."""
    version_source: str
    """Where the version was found or set, or that it is not known."""
    feature_gates: dict[str, bool]
    """Feature gates that differ from the version's defaults."""
    notes: list[str]
    """What the verdicts do not take into account, one sentence each."""
    causes: list[PendingCause]
    """The commonest first."""
    pods: list[PendingPodReport]
    """In the order of their causes, and the oldest first."""
    omitted: int = 0
    """Number of further pending pods, which were not evaluated in time: only the service has a time limit."""
    source: SourceReport = OBJECTS
