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
"""Filter plugins of kube-scheduler's default profile, in its order; all of them are PreFilter plugins, too."""

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
"""kube-scheduler's criteria for the more important of two pods (util.MoreImportantPod)."""

EXTRA_IMPORTANCE = ("PodDeletionCost", "QoSClass", "EvictionCost", "GracePeriod")
"""Further criteria of importance that operators may configure."""

DEFAULT_RANKING = ("PDBViolations", "HighestPriority", "PrioritySum", "VictimCount", "LatestStartTime")
"""kube-scheduler's criteria for the better of two candidates (preemption.pickOneNodeForPreemption)."""

EXTRA_RANKING = (*EXTRA_IMPORTANCE, "Workloads", "PodGroups", "UnusedCapacity")
"""Further ranking criteria that operators may configure."""


@dataclass(frozen=True, slots=True)
class Protection:
    """Rule that protects running pods that meet all of its conditions; an empty condition is always met."""

    name: str
    """Name of the rule in reasons."""
    namespaces: frozenset[str] = frozenset()
    selector: LabelMatcher = EVERYTHING
    """Selector on the pod's labels."""
    priority_classes: frozenset[str] = frozenset()
    owner_kinds: frozenset[str] = frozenset()
    """Kinds of the pod's controller."""
    annotations: tuple[tuple[str, str | None], ...] = ()
    """(key, value) pairs; the pod must have at least one of them; None matches any value."""
    min_runtime: int | None = None
    """Time in nanoseconds that a pod must have run before the rule stops protecting it."""
    unless_priority_at_least: int | None = None
    """Lowest preemptor priority against which the rule does not protect."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Rate limits of evictions and preemptions; None: no limit. Durations are in nanoseconds."""

    max_victims: int | None = None
    """Maximum number of victims of one preemption."""
    evictions_per_minute: int | None = None
    """Maximum number of evictions per minute in the whole cluster."""
    namespace_evictions_per_minute: int | None = None
    """Maximum number of evictions per minute in each namespace."""
    workload_cooldown: int = 0
    """Time after an eviction during which no other pod of the same workload may be evicted."""
    max_attempts: int | None = None
    """Maximum number of preemptions by one pending pod within `attempts_within`."""
    attempts_within: int = 600 * 10**9
    """Time window of `max_attempts`."""


@dataclass(frozen=True)
class PreemptionPolicy:
    """Deviations from kube-scheduler's preemption; `PreemptionPolicy()` has none.

    Values derived from the fields are cached, because every /preempt reads them several times.
    """

    disruption_budgets: Literal["BestEffort", "Strict"] = "BestEffort"
    """BestEffort: prefer candidates with few PDB violations. Strict: reject candidates that violate a PDB."""
    budget_accounting: Literal["Reported", "Live"] = "Reported"
    """Reported: use status.disruptionsAllowed. Live: also count the pods in the cache, as the eviction API does."""
    empty_selector: Literal["Nothing", "Everything"] = "Nothing"
    """Pods that a PDB with selector {} covers: none, as in kube-scheduler up to v1.37, or all pods of its namespace, as
    in policy/v1. With Features.empty_selectors_match_all it always covers all of them."""
    candidates: Literal["Sent", "AllNodes"] = "Sent"
    """Sent: only candidates that kube-scheduler sent. AllNodes: also nodes that it did not send."""
    importance: tuple[str, ...] = DEFAULT_IMPORTANCE
    """Criteria from DEFAULT_IMPORTANCE and EXTRA_IMPORTANCE, most significant first."""
    ranking: tuple[str, ...] = DEFAULT_RANKING
    """Criteria from DEFAULT_RANKING and EXTRA_RANKING, most significant first."""
    eviction_cost_annotation: str = EVICTION_COST
    protections: tuple[Protection, ...] = ()
    preemption_toleration: bool = False
    """Whether to apply the annotations of the victims' PriorityClasses (scheduler-plugins PreemptionToleration)."""
    tenant_label: str | None = None
    """Namespace label that separates tenants: victims must have the preemptor's value; missing counts as a value."""
    min_pending_duration: int = 0
    """Nanoseconds that a pod must have been pending before it may preempt."""
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
        """Return whether the policy can reject victims that kube-scheduler would evict."""
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


# --- other extenders ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OtherExtender:
    """An extender that kube-scheduler calls and we do not (pkg/scheduler/extender.go, the same from v1.29 to v1.37)."""

    name: str
    """`extenders[1] at https://10.0.0.1:443`: its place in the configuration and its urlPrefix."""
    verbs: tuple[str, ...]
    """What it is called for, of filter, preempt, prioritize and bind."""
    managed_resources: frozenset[str] = frozenset()

    def is_interested(self, pod: Pod) -> bool:
        """Return whether kube-scheduler calls it for the pod (IsInterested).

        Amounts do not count, and neither do pod-level resources.
        """
        containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
        resources = (one.resources for one in containers if one.resources is not None)
        named = (name for one in resources for amounts in (one.requests, one.limits) for name in amounts or ())
        return not self.managed_resources or any(name in self.managed_resources for name in named)


# --- profile --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Profile:
    """Settings of one decision. `Profile()` decides like kube-scheduler v1.37 with its default configuration."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    """spec.schedulerName of the pods that this profile schedules."""
    pre_enqueue_plugins: tuple[str, ...] = (SCHEDULING_GATES, DYNAMIC_RESOURCES, DEFAULT_PREEMPTION)
    """In-tree plugins that may keep a pod out of the queue, in order."""
    prefilter_plugins: tuple[str, ...] = FILTER_PLUGINS
    """Enabled in-tree PreFilter plugins, in order. The first that rejects the pod gives the reason."""
    filter_plugins: tuple[str, ...] = FILTER_PLUGINS
    """Enabled in-tree Filter plugins, in order. The first that rejects a node gives the node's status."""
    post_filter_plugins: tuple[str, ...] = (DYNAMIC_RESOURCES, DEFAULT_PREEMPTION)
    """Enabled in-tree PostFilter plugins, in order; without DefaultPreemption no pod is preempted."""
    prescore_plugins: tuple[str, ...] = PRESCORE_PLUGINS
    """Enabled in-tree PreScore plugins, in order."""
    score_weights: tuple[tuple[str, int], ...] = tuple(SCORE_WEIGHTS.items())
    """(Enabled in-tree Score plugin, weight), in order."""
    not_evaluated_filters: tuple[str, ...] = ()
    """Enabled PreFilter and Filter plugins that are not in-tree, sorted: only kube-scheduler evaluates them."""
    not_evaluated_scores: tuple[str, ...] = ()
    """Enabled PreScore and Score plugins that are not in-tree, sorted."""
    not_evaluated_post_filters: tuple[str, ...] = ()
    """Enabled PostFilter plugins that are not in-tree, sorted: they may have chosen the victims of a call."""
    not_evaluated_others: tuple[str, ...] = ()
    """Enabled PreEnqueue plugins that are not in-tree, sorted, and GangScheduling."""
    fit_strategy: ScoringStrategy = ScoringStrategy()
    balanced_resources: tuple[str, ...] = ("cpu", "memory")
    ignored_resources: frozenset[str] = frozenset()
    """Extended resources that NodeResourcesFit does not check: NodeResourcesFitArgs.ignoredResources, and
    managedResources[].ignoredByScheduler of the extenders."""
    other_extenders: tuple[OtherExtender, ...] = ()
    """Extenders beside this one, in the order in which kube-scheduler calls them; the same in all profiles."""
    ignored_resource_groups: frozenset[str] = frozenset()
    """Groups (before the slash) of extended resources that NodeResourcesFit does not check (ignoredResourceGroups)."""
    added_affinity: NodeAffinity | None = None
    """Node affinity added to every pod of the profile (NodeAffinityArgs.addedAffinity)."""
    default_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    """Constraints for pods without any (PodTopologySpreadArgs.defaultConstraints); None: the system defaults."""
    hard_pod_affinity_weight: int = 1
    """Score weight of running pods' required affinity to the incoming pod (InterPodAffinityArgs)."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Whether to ignore running pods' preferred terms if the incoming pod has none (InterPodAffinityArgs)."""
    volume_binding_shape: tuple[tuple[int, int], ...] = ((0, 10), (100, 0))
    """(utilization 0-100, score 0-10): VolumeBindingArgs.shape; used only with Features.storage_capacity_scoring."""
    binding_timeout: int = 600 * 10**9
    """Nanoseconds that an allocated claim may wait for its devices (DynamicResourcesArgs.bindingTimeout)."""
    min_candidate_nodes_percentage: int = 10
    """With `min_candidate_nodes_absolute`, the number of candidates that kube-scheduler's dry run looks for
    (DefaultPreemptionArgs). The extender tries all sent nodes; simulations report the number."""
    min_candidate_nodes_absolute: int = 100
    percentage_of_nodes_to_score: int = 0
    """Percentage of nodes that kube-scheduler must find feasible before it stops looking; 0: depends on the cluster's
    size. The extender evaluates all sent nodes."""
    keep_candidates: int | None = 1
    """Maximum number of candidates in an answer to `/preempt`, best first; None: all."""
    scheduler_names: frozenset[str] = frozenset()
    """schedulerNames of all profiles; nominated pods count only if they have one. Empty: only the incoming pod's."""
    ungated_scheduler_names: frozenset[str] = frozenset()
    """The `scheduler_names` whose profile lacks the plugin SchedulingGates, so that their gated pods are queued."""
    preemption: PreemptionPolicy = PreemptionPolicy()

    def ignores(self, resource: str) -> bool:
        """Return whether NodeResourcesFit ignores this extended resource."""
        group = resource.split("/")[0]
        ignored = resource in self.ignored_resources or group in self.ignored_resource_groups
        return ignored and is_extended(resource)

    @property
    def not_evaluated_plugins(self) -> tuple[str, ...]:
        """Return the enabled plugins that affect verdicts but that we never evaluate, sorted."""
        verdicts = {*self.not_evaluated_filters, *self.not_evaluated_scores, *self.not_evaluated_post_filters}
        return tuple(sorted(verdicts | {*self.not_evaluated_others}))


UPSTREAM = Profile()
"""kube-scheduler v1.37 with its default configuration."""


@dataclass(frozen=True)
class KubeScheduler:
    """The kube-scheduler that calls this extender: its version, feature gates and profiles.

    `KubeScheduler()` is kube-scheduler v1.37 with its default configuration.
    """

    profiles: tuple[Profile, ...] = (UPSTREAM,)
    """At least one profile, with distinct schedulerNames; all share `preemption` and `keep_candidates`."""
    features: Features = DEFAULT_FEATURES
    minor: int = DEFAULT_MINOR
    """Minor version: 36 for 1.36."""
    version_source: str = "assumed: its version is not known"
    """Source of `minor` and `patch`, in the words of `/readyz?verbose`."""
    patch: int | None = None
    """Patch version: 2 for 1.36.2; None: the newest of the minor version."""
    emulation: Emulation = NO_EMULATION
    """Minor version that kube-scheduler emulates, and minimum version that it stays compatible with."""
    has_second_document: bool = False
    """Whether its configuration file has more documents than the first, the only one that kube-scheduler reads."""

    def profile_of(self, pod: Pod) -> Profile | None:
        """Return the profile of the pod's spec.schedulerName; None if this kube-scheduler does not schedule the pod."""
        return next((one for one in self.profiles if one.scheduler_name == pod.spec.scheduler_name), None)

    def with_preemption(self, policy: PreemptionPolicy, keep_candidates: int | None) -> "KubeScheduler":
        """Return a copy with a different preemption policy, and unchanged filters and scores."""
        profiles = tuple(replace(one, preemption=policy, keep_candidates=keep_candidates) for one in self.profiles)
        return replace(self, profiles=profiles)

    def for_calls(self) -> "KubeScheduler":
        """Return a copy without what only reports read, such as the addresses of other extenders."""
        profiles = tuple(replace(one, other_extenders=()) for one in self.profiles)
        return replace(self, profiles=profiles, has_second_document=False)

    @property
    def is_version_assumed(self) -> bool:
        """Return whether the version was neither set nor found."""
        return self.version_source.startswith("assumed")

    @property
    def version(self) -> str:
        """Return the version without patch: 1.36."""
        return f"1.{self.minor}"

    @property
    def release(self) -> str:
        """Return the version with patch, such as 1.36.2, or without if only the minor version is known."""
        return str(Version(self.minor, self.patch))

    @property
    def changed_gates(self) -> dict[str, bool]:
        """Return the feature gates that differ from the defaults of the version, or of the emulated version."""
        return self.features.changed_gates(self.minor, self.emulation)

    @cached_property
    def preemption(self) -> PreemptionPolicy:
        """Return the preemption policy, which all profiles share."""
        return self.profiles[0].preemption


UNCONFIGURED = KubeScheduler()
"""kube-scheduler v1.37 with its default configuration."""
