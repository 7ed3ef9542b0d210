"""Settings of a decision: a scheduler profile and the preemption policy; the defaults are kube-scheduler v1.37's.

Counterpart of KubeSchedulerConfiguration, KubeSchedulerProfile and its plugin arguments
(kubescheduler.config.k8s.io/v1) after defaulting and merging. Built once from the configuration files
(`extender.config`); the profile of the pod is passed to every engine call.

Rule: frozen values; nothing here reads a snapshot.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from extender.k8s.objects import NodeAffinity, Pod, TopologySpreadConstraint
from extender.k8s.requests import is_extended
from extender.k8s.selectors import EVERYTHING, LabelMatcher
from extender.k8s.version.features import DEFAULT_FEATURES, Features
from extender.k8s.version.gates import NO_EMULATION, Emulation
from extender.k8s.version.versions import DEFAULT_MINOR, Version
from extender.k8s.well_known import EVICTION_COST

DEFAULT_SCHEDULER_NAME = "default-scheduler"
"""schedulerName of kube-scheduler's default profile, and of pods that name none (v1.DefaultSchedulerName)."""

DEFAULT_PREEMPTION = "DefaultPreemption"
DYNAMIC_RESOURCES = "DynamicResources"
SCHEDULING_GATES = "SchedulingGates"

FILTER_PLUGINS = (
    "NodeName",
    "NodeUnschedulable",
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
    DYNAMIC_RESOURCES,
    "NodeDeclaredFeatures",
)
"""PreFilter and Filter plugins of kube-scheduler's default profile, in its order: every one is both."""

PRESCORE_PLUGINS = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "VolumeBinding",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
)
"""PreScore plugins of kube-scheduler's default profile, in its order."""

SCORE_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    DYNAMIC_RESOURCES: 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
"""Score plugins of kube-scheduler's default profile, in its order, with their weights."""

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


@dataclass(frozen=True)
class PreemptionPolicy:
    """Deviations from kube-scheduler's preemption; `PreemptionPolicy()` has none.

    What follows from the fields is computed once, for every /preempt asks for it several times.
    """

    disruption_budgets: Literal["BestEffort", "Strict"] = "BestEffort"
    """BestEffort: as few PDB violations as possible. Strict: a candidate that violates a PDB is rejected."""
    budget_accounting: Literal["Reported", "Live"] = "Reported"
    """Reported: status.disruptionsAllowed. Live: at most what the pods in the cache allow, by the eviction API."""
    empty_selector: Literal["Nothing", "Everything"] = "Nothing"
    """Meaning of a PDB's selector {}: no pod, as in kube-scheduler up to v1.37, or every pod of its namespace, as in
    policy/v1; with Features.empty_selectors_match_all the latter in any case."""
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

    @cached_property
    def reads_pod_groups(self) -> bool:
        """Return whether the policy reads PodGroup objects."""
        return "PodGroups" in self.ranking

    @cached_property
    def vetoes_victims(self) -> bool:
        """Return whether the policy can reject the victims of a node that kube-scheduler would evict."""
        limits = self.limits
        per_node = (limits.max_victims, limits.evictions_per_minute, limits.namespace_evictions_per_minute)
        return self.disruption_budgets == "Strict" or any(limit is not None for limit in per_node)

    @cached_property
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
    """Settings of one decision. `Profile()` decides as an unconfigured kube-scheduler v1.37 does."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    """spec.schedulerName of the pods that this profile schedules."""
    pre_enqueue_plugins: tuple[str, ...] = (SCHEDULING_GATES, DYNAMIC_RESOURCES, DEFAULT_PREEMPTION)
    """In-tree plugins that may keep a pod out of the queue, in order."""
    prefilter_plugins: tuple[str, ...] = FILTER_PLUGINS
    """Enabled in-tree PreFilter plugins, in order. The first that rejects gives the reason."""
    filter_plugins: tuple[str, ...] = FILTER_PLUGINS
    """Enabled in-tree Filter plugins, in order. The first that rejects a node gives its status."""
    post_filter_plugins: tuple[str, ...] = (DYNAMIC_RESOURCES, DEFAULT_PREEMPTION)
    """Enabled in-tree PostFilter plugins, in order; without DefaultPreemption nothing is preempted."""
    prescore_plugins: tuple[str, ...] = PRESCORE_PLUGINS
    """Enabled in-tree PreScore plugins, in order."""
    score_weights: tuple[tuple[str, int], ...] = tuple(SCORE_WEIGHTS.items())
    """(Enabled in-tree Score plugin, weight), in order."""
    not_evaluated_filters: tuple[str, ...] = ()
    """Enabled PreFilter and Filter plugins that are not in-tree, sorted: kube-scheduler alone evaluates them."""
    not_evaluated_scores: tuple[str, ...] = ()
    """Enabled PreScore and Score plugins that are not in-tree, sorted."""
    not_evaluated_post_filters: tuple[str, ...] = ()
    """Enabled PostFilter plugins that are not in-tree, sorted: the victims of a call may be chosen by one of them."""
    not_evaluated_others: tuple[str, ...] = ()
    """Enabled PreEnqueue plugins that are not in-tree, sorted, and GangScheduling."""
    fit_strategy: ScoringStrategy = ScoringStrategy()
    balanced_resources: tuple[str, ...] = ("cpu", "memory")
    ignored_resources: frozenset[str] = frozenset()
    """Extended resources that NodeResourcesFit does not check: NodeResourcesFitArgs.ignoredResources, and
    managedResources[].ignoredByScheduler of the extenders."""
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
    volume_binding_shape: tuple[tuple[int, int], ...] = ((0, 10), (100, 0))
    """(utilization 0-100, score 0-10): VolumeBindingArgs.shape; read with Features.storage_capacity_scoring only."""
    binding_timeout: int = 600 * 10**9
    """Nanoseconds that an allocated claim may wait for its devices (DynamicResourcesArgs.bindingTimeout)."""
    min_candidate_nodes_percentage: int = 10
    """DefaultPreemptionArgs: with `min_candidate_nodes_absolute`, how many candidates kube-scheduler's dry run looks
    for. The extender tries all nodes that it is sent; simulations report the number."""
    min_candidate_nodes_absolute: int = 100
    percentage_of_nodes_to_score: int = 0
    """Share of feasible nodes after which kube-scheduler stops looking; 0: by the size of the cluster. The extender
    judges all nodes that it is sent."""
    keep_candidates: int | None = 1
    """Largest number of candidates in an answer to `/preempt`, best first; None: all."""
    scheduler_names: frozenset[str] = frozenset()
    """schedulerNames of all profiles, whose nominated pods count; empty: only the incoming pod's own."""
    ungated_scheduler_names: frozenset[str] = frozenset()
    """Those of `scheduler_names` whose profile lacks the plugin SchedulingGates: their gated pods are queued."""
    preemption: PreemptionPolicy = PreemptionPolicy()

    def ignores(self, resource: str) -> bool:
        """Return whether NodeResourcesFit leaves this extended resource to extenders or other plugins."""
        group = resource.split("/")[0]
        ignored = resource in self.ignored_resources or group in self.ignored_resource_groups
        return ignored and is_extended(resource)

    @property
    def not_evaluated_plugins(self) -> tuple[str, ...]:
        """Return the enabled plugins that have a say in verdicts and are not evaluated here at all, sorted."""
        verdicts = {*self.not_evaluated_filters, *self.not_evaluated_scores, *self.not_evaluated_post_filters}
        return tuple(sorted(verdicts | {*self.not_evaluated_others}))


UPSTREAM = Profile()
"""kube-scheduler v1.37 with its default configuration."""


@dataclass(frozen=True)
class KubeScheduler:
    """The kube-scheduler that calls this extender: its profiles and the switches of its version.

    `KubeScheduler()` is an unconfigured kube-scheduler v1.37.
    """

    profiles: tuple[Profile, ...] = (UPSTREAM,)
    """At least one, with distinct names. `preemption` and `keep_candidates` are the same in all of them."""
    features: Features = DEFAULT_FEATURES
    minor: int = DEFAULT_MINOR
    """Minor version: 36 for 1.36."""
    version_source: str = "default"
    """Where `minor` and `patch` were found, as `/readyz?verbose` says it."""
    patch: int | None = None
    """Patch: 2 for 1.36.2; None: the newest of the minor."""
    emulation: Emulation = NO_EMULATION
    """The minor that it emulates, and the one that it is compatible with."""

    def profile_of(self, pod: Pod) -> Profile | None:
        """Return the profile of the pod's spec.schedulerName; None: this kube-scheduler does not schedule the pod."""
        return next((one for one in self.profiles if one.scheduler_name == pod.spec.scheduler_name), None)

    def with_preemption(self, policy: PreemptionPolicy, keep_candidates: int | None) -> "KubeScheduler":
        """Return this kube-scheduler with another preemption policy, and unchanged filters and scores."""
        profiles = tuple(replace(one, preemption=policy, keep_candidates=keep_candidates) for one in self.profiles)
        return replace(self, profiles=profiles)

    @property
    def version(self) -> str:
        """Return the version as kube-scheduler writes it, without patch: 1.36."""
        return f"1.{self.minor}"

    @property
    def release(self) -> str:
        """Return the version with its patch, 1.36.2; without one if only the minor is known."""
        return str(Version(self.minor, self.patch))

    @property
    def changed_gates(self) -> dict[str, bool]:
        """Return the feature gates that differ from the defaults of the version, or of the one that it emulates."""
        return self.features.changed_gates(self.minor, self.emulation)

    @cached_property
    def preemption(self) -> PreemptionPolicy:
        """Return the preemption policy, which all profiles share."""
        return self.profiles[0].preemption


UNCONFIGURED = KubeScheduler()
"""kube-scheduler v1.37 without configuration."""
