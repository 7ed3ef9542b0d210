"""What operators may choose about decisions; the defaults are kube-scheduler v1.36's.

Built once from the configuration file (`extender.config`), frozen, passed to every engine call.
"""

from dataclasses import dataclass
from typing import Literal

from extender.k8s.annotations import EVICTION_COST
from extender.k8s.objects import NodeAffinity, TopologySpreadConstraint
from extender.k8s.selectors import EVERYTHING, LabelMatcher

FILTER_PLUGINS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeDeclaredFeatures",
)
"""The filter plugins that are modelled, in the order in which kube-scheduler asks them."""

SCORE_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
"""The score plugins that are modelled, with kube-scheduler's default weights."""

StrategyType = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """NodeResourcesFitArgs.scoringStrategy (kubescheduler.config.k8s.io/v1)."""

    type: StrategyType = "LeastAllocated"
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    """(resource name, weight) in order."""
    shape: tuple[tuple[int, int], ...] = ()
    """(utilization 0-100, score 0-10), rising utilization; for RequestedToCapacityRatio only."""


# --- preemption -----------------------------------------------------------------------------------------------------

DEFAULT_IMPORTANCE = ("Priority", "StartTime")
"""By what kube-scheduler says which of two pods is more important."""

EXTRA_IMPORTANCE = ("PodDeletionCost", "QoSClass", "EvictionCost", "GracePeriod")
"""By what else one may."""

DEFAULT_RANKING = ("PDBViolations", "HighestPriority", "PrioritySum", "VictimCount", "LatestStartTime")
"""By what kube-scheduler says which of two candidates is better."""

EXTRA_RANKING = (*EXTRA_IMPORTANCE, "Workloads", "PodGroups", "UnusedCapacity")
"""By what else one may."""


@dataclass(frozen=True, slots=True)
class Protection:
    """Running pods that may not be victims: those that meet every condition. An empty condition is always met."""

    name: str
    """What reasons call it."""
    namespaces: frozenset[str] = frozenset()
    selector: LabelMatcher = EVERYTHING
    """Of the pod's labels."""
    priority_classes: frozenset[str] = frozenset()
    owner_kinds: frozenset[str] = frozenset()
    """Of its controller."""
    annotations: tuple[tuple[str, str | None], ...] = ()
    """(key, value, None for any) of which the pod must have one."""
    min_runtime: int | None = None
    """Nanoseconds: protected only until it has run for so long."""
    unless_priority_at_least: int | None = None
    """Not protected from preemptors of that priority and above."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be evicted, and how soon again; None: no limit. Durations in nanoseconds."""

    max_victims: int | None = None
    """Of one preemption."""
    evictions_per_minute: int | None = None
    """In the whole cluster."""
    namespace_evictions_per_minute: int | None = None
    """In every namespace."""
    workload_cooldown: int = 0
    """For how long after an eviction no pod of the same workload may be a victim."""
    max_attempts: int | None = None
    """How often a preemptor may evict without coming to run …"""
    attempts_within: int = 600 * 10**9
    """… in a time so long."""


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """How preemption differs from kube-scheduler's; `PreemptionPolicy()` does not."""

    disruption_budgets: Literal["BestEffort", "Strict"] = "BestEffort"
    """Strict: no candidate breaks a budget."""
    budget_accounting: Literal["Reported", "Live"] = "Reported"
    """Live: never more than the pods that we see leave over, and as the eviction API counts."""
    empty_selector: Literal["Nothing", "Everything"] = "Nothing"
    """Whom a budget with the selector {} means: nobody as in kube-scheduler, or its namespace as in policy/v1."""
    candidates: Literal["Sent", "AllNodes"] = "Sent"
    """AllNodes: also those that kube-scheduler did not offer."""
    victim_selection: Literal["Reprieve", "Minimal"] = "Reprieve"
    """Minimal: the best set there is on the best nodes, instead of what putting back leaves."""
    importance: tuple[str, ...] = DEFAULT_IMPORTANCE
    """Of IMPORTANCE and MORE_IMPORTANCE, in order."""
    ranking: tuple[str, ...] = DEFAULT_RANKING
    """Of RANKING and MORE_RANKING, in order."""
    eviction_cost_annotation: str = EVICTION_COST
    protections: tuple[Protection, ...] = ()
    preemption_toleration: bool = False
    """Heed the annotations of the victims' PriorityClasses (scheduler-plugins PreemptionToleration)."""
    tenant_label: str | None = None
    """Victims only from namespaces that have the same value of this label as the preemptor's, or also none."""
    min_pending_duration: int = 0
    """Nanoseconds for which a pod has to be pending before it may preempt."""
    limits: Limits = Limits()

    @property
    def annotations(self) -> frozenset[str]:
        """Those of pods that it reads."""
        named = {key for protection in self.protections for key, _ in protection.annotations}
        return frozenset({self.eviction_cost_annotation, *named})

    @property
    def reads_pod_groups(self) -> bool:
        """Does it look at PodGroup objects?"""
        return "PodGroups" in self.ranking


# --- all of it ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Profile:
    """One set of choices. `Profile()` decides as an unconfigured kube-scheduler v1.36 does."""

    filter_plugins: tuple[str, ...] = FILTER_PLUGINS
    score_weights: tuple[tuple[str, int], ...] = tuple(SCORE_WEIGHTS.items())
    fit_strategy: ScoringStrategy = ScoringStrategy()
    balanced_resources: tuple[str, ...] = ("cpu", "memory")
    ignored_resources: frozenset[str] = frozenset()
    """Extended resources that NodeResourcesFit does not check (NodeResourcesFitArgs.ignoredResources)."""
    ignored_resource_groups: frozenset[str] = frozenset()
    """The same by the part before the slash (NodeResourcesFitArgs.ignoredResourceGroups)."""
    added_affinity: NodeAffinity | None = None
    """Node affinity added to every pod of the profile (NodeAffinityArgs.addedAffinity)."""
    default_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    """For pods that have none (PodTopologySpreadArgs.defaultConstraints); None: the system's defaults."""
    hard_pod_affinity_weight: int = 1
    """What a running pod's required affinity to the incoming pod counts in scores (InterPodAffinityArgs)."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """For pods without preferred terms of their own (InterPodAffinityArgs)."""
    keep_candidates: int | None = 1
    """How many nodes `/preempt` answers at most, best first; None: all."""
    scheduler_names: frozenset[str] = frozenset()
    """Whose nominated pods count; empty: those of the incoming pod's own schedulerName."""
    preemption: PreemptionPolicy = PreemptionPolicy()


UPSTREAM = Profile()
"""kube-scheduler v1.36 as it comes."""
