"""Settings of a decision: a scheduler profile and the preemption policy; the defaults are kube-scheduler v1.36's.

Counterpart of KubeSchedulerProfile and its plugin arguments (kubescheduler.config.k8s.io/v1). Built once from the
configuration file (`extender.config`) and passed to every engine call.

Rule: frozen values; nothing here reads a snapshot.
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
"""Filter plugins that are modelled, in the order in which kube-scheduler runs them."""

SCORE_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
"""Score plugins that are modelled, with kube-scheduler's default weights."""

StrategyType = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """NodeResourcesFitArgs.scoringStrategy (kubescheduler.config.k8s.io/v1)."""

    type: StrategyType = "LeastAllocated"
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    """(resource name, weight), in configured order."""
    shape: tuple[tuple[int, int], ...] = ()
    """(utilization 0-100, score 0-10) by rising utilization; for RequestedToCapacityRatio only."""


# --- preemption -----------------------------------------------------------------------------------------------------

DEFAULT_IMPORTANCE = ("Priority", "StartTime")
"""Criteria of kube-scheduler for the more important of two pods (util.MoreImportantPod)."""

EXTRA_IMPORTANCE = ("PodDeletionCost", "QoSClass", "EvictionCost", "GracePeriod")
"""Further criteria of importance that operators may configure."""

DEFAULT_RANKING = ("PDBViolations", "HighestPriority", "PrioritySum", "VictimCount", "LatestStartTime")
"""Criteria of kube-scheduler for the better of two candidates (preemption.pickOneNodeForPreemption)."""

EXTRA_RANKING = (*EXTRA_IMPORTANCE, "Workloads", "PodGroups", "UnusedCapacity")
"""Further ranking criteria that operators may configure."""


@dataclass(frozen=True, slots=True)
class Protection:
    """Rule that protects the running pods that meet all of its conditions; an empty condition is always met."""

    name: str
    """Name of the rule in reasons."""
    namespaces: frozenset[str] = frozenset()
    selector: LabelMatcher = EVERYTHING
    """Selector on the pod's labels."""
    priority_classes: frozenset[str] = frozenset()
    owner_kinds: frozenset[str] = frozenset()
    """Kinds of the pod's controller."""
    annotations: tuple[tuple[str, str | None], ...] = ()
    """(key, value) pairs, of which the pod must have at least one; None matches any value."""
    min_runtime: int | None = None
    """Protect the pod only until it has run for this time, in nanoseconds."""
    unless_priority_at_least: int | None = None
    """Lowest priority of the preemptors from which the rule does not protect."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Rate limits of evictions and preemptions; None: no limit. Durations are in nanoseconds."""

    max_victims: int | None = None
    """Victims of one preemption."""
    evictions_per_minute: int | None = None
    """Evictions per minute in the whole cluster."""
    namespace_evictions_per_minute: int | None = None
    """Evictions per minute in each namespace."""
    workload_cooldown: int = 0
    """Time after an eviction during which no other pod of the same workload may be evicted."""
    max_attempts: int | None = None
    """Preemptions that one pending pod may cause within `attempts_within`."""
    attempts_within: int = 600 * 10**9
    """Time window of `max_attempts`."""


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """Deviations from kube-scheduler's preemption; `PreemptionPolicy()` has none."""

    disruption_budgets: Literal["BestEffort", "Strict"] = "BestEffort"
    """BestEffort: as few PDB violations as possible. Strict: a candidate that violates a PDB is rejected."""
    budget_accounting: Literal["Reported", "Live"] = "Reported"
    """Reported: status.disruptionsAllowed. Live: at most what the pods in the cache allow, by the eviction API."""
    empty_selector: Literal["Nothing", "Everything"] = "Nothing"
    """Meaning of a PDB's selector {}: no pod, as in kube-scheduler, or every pod of its namespace, as in policy/v1."""
    candidates: Literal["Sent", "AllNodes"] = "Sent"
    """Sent: the candidates that kube-scheduler sent. AllNodes: also nodes that it did not send."""
    importance: tuple[str, ...] = DEFAULT_IMPORTANCE
    """Criteria of DEFAULT_IMPORTANCE and EXTRA_IMPORTANCE, in order."""
    ranking: tuple[str, ...] = DEFAULT_RANKING
    """Criteria of DEFAULT_RANKING and EXTRA_RANKING, in order."""
    eviction_cost_annotation: str = EVICTION_COST
    protections: tuple[Protection, ...] = ()
    preemption_toleration: bool = False
    """Apply the annotations of the victims' PriorityClasses (scheduler-plugins PreemptionToleration)."""
    tenant_label: str | None = None
    """Namespace label that separates tenants: victims have the preemptor's value; a missing label counts as a value."""
    min_pending_duration: int = 0
    """Time in nanoseconds for which a pod must have been pending before it may preempt."""
    limits: Limits = Limits()

    @property
    def annotations(self) -> frozenset[str]:
        """Pod annotations that the policy reads."""
        named = {key for protection in self.protections for key, _ in protection.annotations}
        return frozenset({self.eviction_cost_annotation, *named})

    @property
    def reads_pod_groups(self) -> bool:
        """Return whether the policy reads PodGroup objects."""
        return "PodGroups" in self.ranking

    @property
    def may_change_victims(self) -> bool:
        """Return whether the policy protects pods, or can select victims that kube-scheduler would not.

        If so, system pods are protected as well, unless kube-scheduler selected them itself.
        """
        return bool(
            self.protections
            or self.preemption_toleration
            or self.tenant_label is not None
            or self.limits.workload_cooldown
            or self.candidates == "AllNodes"
            or self.importance != DEFAULT_IMPORTANCE
            or self.reads_pod_groups
        )


# --- profile --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Profile:
    """Settings of one decision. `Profile()` decides as an unconfigured kube-scheduler v1.36 does."""

    filter_plugins: tuple[str, ...] = FILTER_PLUGINS
    score_weights: tuple[tuple[str, int], ...] = tuple(SCORE_WEIGHTS.items())
    fit_strategy: ScoringStrategy = ScoringStrategy()
    balanced_resources: tuple[str, ...] = ("cpu", "memory")
    ignored_resources: frozenset[str] = frozenset()
    """Extended resources that NodeResourcesFit does not check (NodeResourcesFitArgs.ignoredResources)."""
    ignored_resource_groups: frozenset[str] = frozenset()
    """Prefixes before the slash of resources that NodeResourcesFit does not check (ignoredResourceGroups)."""
    added_affinity: NodeAffinity | None = None
    """Node affinity added to every pod of the profile (NodeAffinityArgs.addedAffinity)."""
    default_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    """Constraints for pods without any (PodTopologySpreadArgs.defaultConstraints); None: the system defaults."""
    hard_pod_affinity_weight: int = 1
    """Weight in scores of a running pod's required affinity to the incoming pod (InterPodAffinityArgs)."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Ignore preferred terms of running pods if the incoming pod has none (InterPodAffinityArgs)."""
    keep_candidates: int | None = 1
    """Largest number of candidates in an answer to `/preempt`, best first; None: all."""
    scheduler_names: frozenset[str] = frozenset()
    """schedulerNames whose nominated pods count; empty: only the incoming pod's own."""
    preemption: PreemptionPolicy = PreemptionPolicy()


UPSTREAM = Profile()
"""kube-scheduler v1.36 with its default configuration."""
