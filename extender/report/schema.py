"""The JSON schema of an explained decision, as /decisions, `extender explain` and the web page show it.

Amounts are in the scheduler's units: millicores of cpu, bytes, or a count. A key that is left out has its default.

Rule: types only; `report.render` fills them in.
"""

from typing import Literal

import msgspec

from extender.report.facts.schema import AnyFact
from extender.utilities.source_file import SourceFile

VerbName = Literal["filter", "prioritize", "preempt"]
"""A verb that has a decision; `bind` has none."""

DecisionMode = Literal["answered", "observed", "passthrough", "failed"]
"""What became of a decision; audit.md explains `mode`."""

# The CLI imports this module to start fast: it must not load the engine.
Chance = Literal["BudgetOrder", "UnstableSort"]
"""Why kube-scheduler may choose other victims, as in `core.chance`."""

MAX_LISTED_DECISIONS = 1000
"""Limit of the decisions in one response of GET /decisions."""

ResourceAmounts = dict[str, int]
"""Resource -> amount in the scheduler's units."""


class ReportStruct(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Base class of the schema: keys in camelCase, defaults left out."""


class PodClaimReport(ReportStruct, frozen=True, kw_only=True):
    """A resource claim of the incoming pod, as it was at the decision."""

    name: str
    """Its name in the pod; `extended resources` for the claim that kube-scheduler makes for them."""
    claim: str = ""
    """`namespace/name` of the ResourceClaim; empty: it does not exist yet."""
    note: str = ""
    """Its allocation, or the reason why it cannot be used."""


class DeviceReport(ReportStruct, frozen=True, kw_only=True):
    """A device that a request may choose on a node."""

    device: str
    """`driver/pool/device`."""
    why: str = ""
    """Why the request does not get it; empty: it is free and matches."""
    detail: str = ""
    """Pods that its claim is reserved for."""


class DeviceRequestReport(ReportStruct, frozen=True, kw_only=True):
    """A request of a claim, or an alternative of its prioritized list, on one node."""

    name: str
    """Its name; `request/alternative` in a prioritized list."""
    summary: str
    """Number of devices that match and of those that are free, and the reasons of the others."""
    fails: bool = False
    """True if no devices are left for it after the requests before it got theirs."""
    count: int | None = None
    """Number of devices requested; None: all that match."""
    matching: int = 0
    """Number of devices that match its selectors and those of its class, and whose taints it tolerates."""
    free: int = 0
    """Number of matching devices that it could get."""
    devices: list[DeviceReport] = []
    """The first 256 devices of the node's pools, in the order in which the allocator tries them."""
    omitted: int = 0
    """Number of further devices."""


class ClaimReport(ReportStruct, frozen=True, kw_only=True):
    """A resource claim of the pod on one node."""

    name: str
    """Its name in the pod; `extended resources` for the claim that kube-scheduler makes for them."""
    claim: str = ""
    """`namespace/name`; empty: it does not exist yet."""
    summary: str
    """Whether it can be allocated there, or where it is allocated."""
    devices: list[str] = []
    """Devices that are allocated to it, or would be there: `driver/pool/device`."""
    requests: list[DeviceRequestReport] = []
    """Its requests; empty if it is allocated already."""


class StatusReport(ReportStruct, frozen=True, kw_only=True):
    """Filter status of a node. Plugins before `plugin` in the decision's `filters` passed, later ones did not run."""

    code: str
    """Success, Unschedulable (evicting pods may help) or UnschedulableAndUnresolvable."""
    plugin: str = ""
    """The plugin that rejects; empty if none does."""
    reasons: list[str] = []


PodRole = Literal["victim", "reprieved", "protected", "kept"]
"""victim; reprieved: a potential victim that stays; protected: by a policy; kept: its priority is not lower."""


class PodReport(ReportStruct, frozen=True, kw_only=True):
    """An incoming or nominated pod."""

    key: str
    """`namespace/name`."""
    uid: str
    priority: int = 0
    requests: ResourceAmounts = {}
    claims: list[PodClaimReport] = []
    """Its resource claims; of the incoming pod only."""


class RunningPodReport(ReportStruct, frozen=True, kw_only=True):
    """A running pod of a node on which preemption was tried."""

    key: str
    uid: str
    role: PodRole
    priority: int = 0
    started: str | None = None
    """status.startTime."""
    order: int | None = None
    """Place in the order of the reprieve, 1 for the pod that was put back first; None for a pod that was never removed,
    and where `chosen_by` names another method."""
    violating: bool = False
    """True if its eviction would violate a disruption budget under the policies in effect."""
    budgets: list[str] = []
    """Disruption budgets that its eviction counts against."""
    named: bool = False
    """True if kube-scheduler sent it as a victim."""
    terminating: bool = False
    """True if it had a deletionTimestamp."""
    protected_by: list[str] = []
    """Reasons of the policies that protect it."""
    requests: ResourceAmounts = {}


class BudgetReport(ReportStruct, frozen=True, kw_only=True):
    """A disruption budget that victims of a node count against."""

    name: str
    allowed: int
    """Disruptions allowed before the preemption."""
    used: int
    """Victims that count against it."""

    @property
    def after(self) -> int:
        """Disruptions allowed after the preemption; negative where the victims exceed the budget."""
        return self.allowed - self.used


NodeOutcome = Literal[
    "accepted", "failed", "unresolvable",
    "scored", "unscored",
    "chosen", "outranked", "rejectedByPolicy", "insufficientAfterPreemption", "noVictims", "fits", "notEvaluated",
    "rejected", "vetoed",
]  # fmt: skip
"""Outcome of a node in `/filter` (first row), `/prioritize` (second row) or `/preempt` (the others).

`chosen`: in the answer; `outranked`: another candidate is better; `rejectedByPolicy`: a policy forbids its victims;
`insufficientAfterPreemption`: the pod does not fit even without all potential victims; `noVictims`: no pod may be
evicted; `fits`: the pod fits without preemption; `notEvaluated`: not in the cluster cache, no eviction helps, or only
kube-scheduler evaluates the plugin that decides; `rejected`: by the guard; `vetoed`: the pod may not preempt now."""


class NodeReport(ReportStruct, frozen=True, kw_only=True):
    """A node in a decision."""

    name: str
    outcome: NodeOutcome
    sent: bool = True
    """False: kube-scheduler did not send it; the policies consider all nodes."""
    why: str = ""
    filter: StatusReport | None = None
    """Filter status before any eviction; None: the filters did not run."""
    facts: list[AnyFact] = []
    """What exactly rejects the node, of up to 50 nodes that a /filter rejects, or that no eviction helps of those sent
    with a /preempt."""
    fact_sentences: list[str] = []
    """`facts` as sentences."""

    # --- /filter ---
    free: ResourceAmounts = {}
    """What is left of the resources that the pod requests, where NodeResourcesFit rejects the node; nominated pods
    that the pod must yield to come on top."""

    # --- /prioritize ---
    score: int | None = None
    """Score in the answer, 0 to 10."""
    total: int | None = None
    """Sum of the weighted plugin scores, where the pod fits."""
    plugins: dict[str, int] = {}
    """Plugin -> weighted score."""

    # --- /preempt ---
    emptied: StatusReport | None = None
    """Filter status without all potential victims, where the pod does not fit even then."""
    rank: int | None = None
    """Rank among the candidates, 1 for the best."""
    keys: list[list[int]] = []
    """Per ranking criterion the keys that are compared, smaller is better; 2^63 - 1: not compared."""
    shown: list[str] = []
    """Per ranking criterion the keys as readable text."""
    loses_by: str | None = None
    """The first criterion by which it is worse than the best candidate; None for the best."""
    victims: list[str] = []
    """Keys of the pods that would be evicted, most important first."""
    violations: int = 0
    """NumPDBViolations of the victims."""
    chosen_by: str = ""
    """Method of victim selection (`VICTIM_SELECTION_METHODS` in `core.preemption.dry_run`); empty: by the reprieve."""
    chance: list[Chance] = []
    """Why kube-scheduler may choose other victims there, these being one of its answers: BudgetOrder (several budgets
    over one pod, in the order of a Go map) or UnstableSort (of more than 12 pods equally important ones)."""
    counts: dict[PodRole, int] = {}
    """Role -> number of pods of the node that have it."""
    budgets: list[BudgetReport] = []
    """Disruption budgets that the victims count against."""

    # --- only if the request includes the pods ---
    pods: list[RunningPodReport] = []
    """Every pod of the node, most important first."""
    allocatable: ResourceAmounts = {}
    used: ResourceAmounts = {}
    """Requests of the running pods before the preemption."""
    freed: ResourceAmounts = {}
    """Requests of the victims."""
    nominated: list[PodReport] = []
    """Pods nominated to the node that the preemptor must yield to."""
    claims: list[ClaimReport] = []
    """Resource claims of the incoming pod, with the devices that they may get there."""
    not_followed: str = ""
    """Feature that is not supported, so that kube-scheduler decides about the claims; empty: they are evaluated."""


class RankingReport(ReportStruct, frozen=True, kw_only=True):
    """Comparison of the candidates of a preemption."""

    criteria: list[str]
    """Names of the criteria in the order in which they are compared."""
    candidates: int
    """Number of candidates."""
    decided_by: str | None = None
    """The criterion that decided between the best two. If they cost the same, `named` (kube-scheduler sent its victims)
    or `name` (its name comes first). None: at most one candidate."""
    ties: list[str] = []
    """Nodes that cost the same as the best, including the best."""
    chance: list[Chance] = []
    """Why kube-scheduler may choose another node or other victims: the reasons of all candidates."""


class SchedulerReport(ReportStruct, frozen=True, kw_only=True):
    """The kube-scheduler whose verdicts a decision follows."""

    version: str
    """Its minor version, such as 1.36."""
    release: str
    """The version with its patch, such as 1.36.2; without one if only the minor is known."""
    version_source: str
    """Where the version was found or set."""
    feature_gates: dict[str, bool] = {}
    """Feature gates that differ from the version's defaults."""
    profile: str | None = None
    """schedulerName of the profile that judged the pod; None: no profile has the pod's schedulerName."""
    not_evaluated_plugins: list[str] = []
    """Plugins of the profile that only kube-scheduler evaluates, for every pod."""


class SourceReport(ReportStruct, frozen=True, kw_only=True):
    """Where the cluster of an answer comes from."""

    kind: Literal["live", "file", "example", "objects"]
    """live: an API server; file: files, folders or standard input; objects: given in Python, without a file."""
    context: str = ""
    """live: context of the kubeconfig; empty in a pod."""
    server: str = ""
    """live: URL of the API server."""
    namespace: str = ""
    """Namespace of objects that are named without one."""
    files: list[SourceFile] = []
    version_hint: str = ""
    """A sentence if the cluster suggests another minor version of kube-scheduler than the one that judged."""


OBJECTS = SourceReport(kind="objects", namespace="default")
"""Source of a cluster that was given in Python."""

EXAMPLE = SourceReport(kind="example", namespace="default")
"""Source of the example cluster."""


DecisionOutcome = Literal["answered", "noVictims", "vetoed", "observed", "passthrough", "failed"]
"""Outcome of a call. `noVictims`: a preemption that evicts no pod; `observed`: decided in mode Observe, but not
answered; `passthrough`: nothing was decided, because the kill switch was on or the pod is not ours."""

DecisionSort = Literal["time", "milliseconds", "pod"]
"""Order of a list of decisions: latest first, slowest first, or by the key of the pod."""


class DecisionSummary(ReportStruct, frozen=True, kw_only=True):
    """One line in the list of decisions."""

    id: str
    """The verb and a counter that starts with the process, such as `preempt-17`."""
    verb: VerbName
    time: str
    """Time of the request, UTC."""
    milliseconds: float
    """Duration of the decision."""
    outcome: DecisionOutcome
    sentence: str
    """The decision and what it was based on, in one sentence."""
    pod: str
    """Key of the incoming pod."""
    uid: str
    priority: int = 0
    chosen: list[str] = []
    """`/preempt`: nodes in the answer, best first."""
    victims: list[str] = []
    """`/preempt`: keys of the victims on the best node, most important first."""


class DecisionList(ReportStruct, frozen=True, kw_only=True):
    """A part of the kept decisions that match a query."""

    decisions: list[DecisionSummary]
    matching: int
    """Number of all kept decisions that match."""
    kept: int
    """Number of all kept decisions (`debug.decisions` and `debug.decisionsSize` limit it)."""


class DecisionReport(DecisionSummary, frozen=True, kw_only=True):
    """One decision in full."""

    cache: str = ""
    """State of the cluster cache at the decision: its version, and for a live cluster each kind's version and age."""
    scheduler: SchedulerReport
    """Version and profile by which the pod was judged."""
    policies: list[str] = []
    """Keys of `preemption` that differ from kube-scheduler's behaviour, with their values."""
    incoming: PodReport
    filters: list[str] = []
    """Filter plugins in the order in which they run; none where PreFilter rejected the pod."""
    nodes: list[NodeReport] = []
    """`/preempt`: candidates best first, then the others by name; otherwise in the order of the request."""
    ranking: RankingReport | None = None
    """`/preempt`: comparison of the candidates."""
    highest: int | None = None
    """`/prioritize`: total of a node that every plugin scores highest."""
    not_evaluated: list[str] = []
    """Filter plugins that only kube-scheduler evaluates."""
    rejected: dict[str, str] = {}
    """Node -> the guard rule that its candidate broke."""
    facts_left_out: str | None = None
    """Reason why rejected nodes have no `facts`, or not all of them; None: none was left out."""
    error: str | None = None
    """Reason why the decision failed; None: it did not."""
