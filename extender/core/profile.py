"""What operators may choose about decisions; the defaults are kube-scheduler v1.36's.

Built once from the configuration file (`extender.config`), frozen, passed to every engine call.
"""

from dataclasses import dataclass
from typing import Literal

from extender.k8s.objects import NodeAffinity, TopologySpreadConstraint

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
