"""Schema of the configuration file: every key, its default and its validation.

Names and limits of plugin arguments are those of KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1, validation
of v1.36). The text under a field is its documentation; `extender config show` prints it.

Rule: every field has a default, and the defaults decide as an unconfigured kube-scheduler does.
"""

# ruff: noqa: RUF012  # pydantic copies defaults
import re
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, Field, StrictBool, StrictInt, field_validator, model_validator
from pydantic.alias_generators import to_camel

from extender.config.preemption import PreemptionSection
from extender.config.scheduler.schema import ProfileSection
from extender.config.section import Section
from extender.config.serving import (
    AdminSection,
    AuditSection,
    DebugSection,
    LogSection,
    RecordingSection,
    ServerSection,
    TracingSection,
)
from extender.config.values import (
    Count,
    Duration,
    NonEmptyText,
    PositiveDuration,
    ResourceGroup,
    ResourceName,
    known_names,
    require_known,
    scheduler_version,
    unique,
)
from extender.core.profile import FILTER_PLUGINS, SCORE_WEIGHTS, Profile, ScoringStrategy
from extender.k8s import objects as k8s

# --- the file -------------------------------------------------------------------------------------------------------


class ClusterSection(Section):
    source: Literal["files", "kubernetes"] = "files"
    """Source of the cluster cache. files: manifests as `kubectl get -o json` or `-o yaml` prints them. kubernetes: list
    and watch against an API server."""
    path: NonEmptyText | None = None
    """files: the file or directory to read; unset: the example cluster that ships with the extender."""
    reload_interval: Duration = 2.0
    """files: how often to check the files for changes; 0s: read them once."""
    kubeconfig: NonEmptyText | None = None
    """kubernetes: the kubeconfig to use; unset: the service account when running in a pod, else $KUBECONFIG or
    ~/.kube/config."""
    context: NonEmptyText | None = None
    """kubernetes: the kubeconfig context to use; unset: its current context."""
    stale_after: Duration = 30.0
    """kubernetes: how long the watch of a kind may be interrupted before the cache counts as stale and calls fail."""
    verify_interval: Duration = 1800.0
    """kubernetes: how often names and resourceVersions of all cached objects are compared with the API server's; a
    difference is logged and relisted. 0s: never, not even after a broken watch."""

    @model_validator(mode="after")
    def _settings_match_source(self) -> "ClusterSection":
        foreign = {"files": ("kubeconfig", "context"), "kubernetes": ("path",)}[self.source]
        for name in foreign:
            if getattr(self, name) is not None:
                raise ValueError(f"{to_camel(name)} cannot be set with source: {self.source}")
        return self


class SchedulerSection(Section):
    config: NonEmptyText | None = None
    """kube-scheduler's own configuration file (KubeSchedulerConfiguration, kubescheduler.config.k8s.io/v1); unset: the
    profiles below. Followed as this file is."""
    profiles: list[ProfileSection] = []
    """Profiles with the schema of KubeSchedulerConfiguration, where no file is wanted; []: kube-scheduler's default."""
    percentage_of_nodes_to_score: Annotated[StrictInt, Field(ge=0, le=100)] | None = None
    """Share of nodes that kube-scheduler scores, for simulations; 0: it depends on the size of the cluster."""
    version: Annotated[str, AfterValidator(scheduler_version)] = "auto"
    """Minor version of kube-scheduler, 1.29 to 1.38; auto: that of the kube-scheduler in the cluster, else the API
    server's, else 1.36."""
    feature_gates: dict[str, StrictBool] = {}
    """kube-scheduler's --feature-gates: gate to true or false, such as {PodLevelResources: false}."""

    @model_validator(mode="after")
    def _file_or_inline(self) -> "SchedulerSection":
        for name in ("profiles", "percentage_of_nodes_to_score"):
            if self.config is not None and name in self.model_fields_set:
                raise ValueError(f"{to_camel(name)} cannot be set with config: the file says it")
        return self


class BindSection(Section):
    enabled: StrictBool = False
    """Create bindings for POST /bind; requires cluster.source: kubernetes. Disabled, kube-scheduler binds itself."""
    timeout: PositiveDuration = 4.0
    """Time limit for binding one pod, retries included; at most 80 % of server.httpTimeout."""


class KillSwitchSection(Section):
    enabled: StrictBool = False
    """Pass calls through: /filter accepts every node that is sent, /prioritize scores none, /preempt answers as set
    below, and no cluster cache is needed. /bind keeps working."""
    preempt: Literal["Veto", "PassThrough"] = "Veto"
    """Veto: evict no pods; the preemptor is not retried before a relevant event or about 5 minutes. PassThrough:
    kube-scheduler evicts the victims it selected, without any of the policies above."""


class NodeSelectorRequirementSection(Section):
    key: ResourceName
    """Label key (in matchFields: metadata.name)."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """Operator that relates the key to the values."""
    values: list[str] = []
    """Values for the operator: none for Exists and DoesNotExist, one integer for Gt and Lt."""

    @model_validator(mode="after")
    def _values_match_operator(self) -> "NodeSelectorRequirementSection":
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(f"{self.operator} needs values")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise ValueError(f"{self.operator} takes no values")
        if self.operator in ("Gt", "Lt") and (
            len(self.values) != 1 or not re.fullmatch(r"[-+]?\d+", self.values[0], re.ASCII)
        ):
            raise ValueError(f"{self.operator} needs exactly one value, an integer as text")
        return self


class NodeSelectorTermSection(Section):
    match_expressions: list[NodeSelectorRequirementSection] = []
    """Label requirements, ANDed."""
    match_fields: list[NodeSelectorRequirementSection] = []
    """Requirements on metadata.name, ANDed."""


class NodeSelectorSection(Section):
    node_selector_terms: Annotated[list[NodeSelectorTermSection], Field(min_length=1)]
    """Terms, ORed."""


class PreferredSchedulingTermSection(Section):
    weight: Annotated[StrictInt, Field(ge=1, le=100)]
    """Weight added for a matching node."""
    preference: NodeSelectorTermSection
    """Term that a node must match."""


class AddedAffinitySection(Section):
    required_during_scheduling_ignored_during_execution: NodeSelectorSection | None = None
    """Nodes that pods may be placed on."""
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTermSection] = []
    """Nodes that pods prefer."""


class DefaultSpreadConstraintSection(Section):
    max_skew: Count
    """Largest allowed difference in matching pods between a domain and the domain with the fewest."""
    topology_key: ResourceName
    """Node label whose values define the domains."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """DoNotSchedule: a filter; ScheduleAnyway: a score."""
    min_domains: Count | None = None
    """With fewer eligible domains than this, the global minimum counts as 0; only with DoNotSchedule."""
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    """Honor: skip nodes that the pod's node affinity excludes when counting."""
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    """Honor: skip nodes with taints that the pod does not tolerate when counting."""

    @model_validator(mode="after")
    def _min_domains_needs_filter(self) -> "DefaultSpreadConstraintSection":
        if self.min_domains is not None and self.when_unsatisfiable != "DoNotSchedule":
            raise ValueError("minDomains needs whenUnsatisfiable: DoNotSchedule")
        return self


_DefaultSpreadConstraints = Annotated[
    list[DefaultSpreadConstraintSection], unique(lambda one: f"{one.topology_key} with {one.when_unsatisfiable}")
]


class FilterSection(Section):
    plugins: Annotated[list[str], known_names(FILTER_PLUGINS), unique()] = list(FILTER_PLUGINS)
    """Filter plugins that a node must pass. The order here does not matter: kube-scheduler's order decides which
    plugin's reason is reported. Default: all of kube-scheduler's that are implemented."""
    ignored_resources: list[ResourceName] = []
    """Extended resources that NodeResourcesFit ignores because another extender manages them."""
    ignored_resource_groups: list[ResourceGroup] = []
    """Groups of extended resources (the name before the slash) that NodeResourcesFit ignores."""
    added_affinity: AddedAffinitySection | None = None
    """Node affinity added to every pod's own (NodeAffinityArgs.addedAffinity)."""
    default_spread_constraints: _DefaultSpreadConstraints | None = None
    """Constraints for pods that have none of their own (PodTopologySpreadArgs with defaultingType: List); []: none.
    Unset: the system defaults, which only affect scores."""


class ResourceWeight(Section):
    name: ResourceName
    """Resource name, such as cpu, memory or nvidia.com/gpu."""
    weight: Annotated[StrictInt, Field(ge=1, le=100)] = 1
    """Weight of the resource, 1 to 100."""


class ShapePoint(Section):
    utilization: Annotated[StrictInt, Field(ge=0, le=100)]
    """Requested share of the node's allocatable, in percent."""
    score: Annotated[StrictInt, Field(ge=0, le=10)]
    """Score at that utilization, 0 to 10; linear between points."""


class RequestedToCapacityRatio(Section):
    shape: Annotated[list[ShapePoint], Field(min_length=1)]
    """Points of the function from utilization to score, with strictly increasing utilization."""

    @field_validator("shape")
    @classmethod
    def _utilization_increases(cls, shape: list[ShapePoint]) -> list[ShapePoint]:
        if any(a.utilization >= b.utilization for a, b in pairwise(shape)):
            raise ValueError("utilization must increase strictly from point to point")
        return shape


_CPU_AND_MEMORY = [ResourceWeight(name="cpu"), ResourceWeight(name="memory")]


class ScoringStrategySection(Section):
    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    """LeastAllocated favors emptier nodes, MostAllocated fuller ones; RequestedToCapacityRatio scores by a function."""
    resources: Annotated[list[ResourceWeight], Field(min_length=1)] = _CPU_AND_MEMORY
    """Resources that are scored, with their weights."""
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
    """The scoring function; only with RequestedToCapacityRatio."""

    @model_validator(mode="after")
    def _shape_matches_type(self) -> "ScoringStrategySection":
        if (self.type == "RequestedToCapacityRatio") != (self.requested_to_capacity_ratio is not None):
            raise ValueError("type RequestedToCapacityRatio and a requestedToCapacityRatio.shape need each other")
        return self


class ScoreArgs(Section):
    scoring_strategy: ScoringStrategySection | None = None
    """NodeResourcesFit: how nodes are scored."""
    resources: Annotated[list[ResourceWeight], Field(min_length=1), unique(attrgetter("name"))] | None = None
    """NodeResourcesBalancedAllocation: resources whose utilization is balanced, each with weight 1."""
    hard_pod_affinity_weight: Annotated[StrictInt, Field(ge=0, le=100)] | None = None
    """InterPodAffinity: weight of a running pod's required affinity to the incoming pod, 0 to 100; unset: 1."""
    ignore_preferred_terms_of_existing_pods: StrictBool | None = None
    """InterPodAffinity: ignore running pods' preferred terms for a pod that has none of its own; unset: false."""

    @field_validator("resources")
    @classmethod
    def _weights_are_one(cls, resources: list[ResourceWeight] | None) -> list[ResourceWeight] | None:
        if any(resource.weight != 1 for resource in resources or ()):
            raise ValueError("weight must be 1 for every resource of NodeResourcesBalancedAllocation")
        return resources


ARGS_OF = {
    "NodeResourcesFit": {"scoring_strategy"},
    "NodeResourcesBalancedAllocation": {"resources"},
    "InterPodAffinity": {"hard_pod_affinity_weight", "ignore_preferred_terms_of_existing_pods"},
}
"""Score plugin -> fields of ScoreArgs that it accepts."""


class ScorePlugin(Section):
    name: Annotated[
        str,
        AfterValidator(partial(require_known, known=tuple(name for name in SCORE_WEIGHTS if name != "VolumeBinding"))),
    ]
    """Plugin name, as in kube-scheduler."""
    weight: Count = 1
    """Factor for its score of 0 to 100; unset: kube-scheduler's default weight of the plugin."""
    args: ScoreArgs = ScoreArgs()
    """Arguments of the plugin, as in KubeSchedulerConfiguration."""

    @model_validator(mode="before")
    @classmethod
    def _default_weight(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("weight") is None and isinstance(data.get("name"), str):
            return {**data, "weight": SCORE_WEIGHTS.get(data["name"], 1)}
        return data

    @model_validator(mode="after")
    def _args_match_plugin(self) -> "ScorePlugin":
        for key in sorted(self.args.model_fields_set - ARGS_OF.get(self.name, set())):
            raise ValueError(f"{self.name} takes no {to_camel(key)}")
        return self


class PrioritizeSection(Section):
    plugins: Annotated[list[ScorePlugin], unique(attrgetter("name"))] = [
        ScorePlugin(name=name, weight=weight) for name, weight in SCORE_WEIGHTS.items() if name != "VolumeBinding"
    ]
    """Score plugins whose weighted scores are summed. Default: all of kube-scheduler's that are implemented."""


class Configuration(Section):
    api_version: Literal["extender/v1alpha1"] = "extender/v1alpha1"
    """Version of the configuration format."""
    kind: Literal["ExtenderConfiguration"] = "ExtenderConfiguration"
    """Always ExtenderConfiguration."""
    scheduler_names: list[NonEmptyText] = []
    """Schedulers whose nominated pods are considered; []: the incoming pod's own (spec.schedulerName)."""
    cluster: ClusterSection = ClusterSection()
    """Source of the cluster cache."""
    scheduler: SchedulerSection = SchedulerSection()
    """The kube-scheduler that calls: its profiles and its version."""
    filter: FilterSection = FilterSection()
    """Filter plugins and their arguments."""
    prioritize: PrioritizeSection = PrioritizeSection()
    """Score plugins, their weights and arguments."""
    preemption: PreemptionSection = PreemptionSection()
    """Preemption: victim selection, protections, limits."""
    mode: Literal["Enforce", "Observe"] = "Enforce"
    """Enforce: answer with the decision. Observe: decide, log and count everything, but answer as if the extender were
    not registered; a failed decision never fails the call."""
    kill_switch: KillSwitchSection = KillSwitchSection()
    """Leave all decisions to kube-scheduler at once, without a restart. Takes precedence over `mode`."""
    bind: BindSection = BindSection()
    """Binding of pods to nodes."""
    server: ServerSection = ServerSection()
    """Listener for kube-scheduler, and limits per request."""
    admin: AdminSection = AdminSection()
    """Listener for probes, Prometheus and the debug endpoints (`debug`), which the scheduler's port does not serve."""
    debug: DebugSection = DebugSection()
    """Debug endpoints on the admin listener: decisions, what-if simulation and the page at /ui."""
    recording: RecordingSection = RecordingSection()
    """Recording of calls for replay."""
    log: LogSection = LogSection()
    """Log on standard error."""
    audit: AuditSection = AuditSection()
    """Audit log: one JSON line per /preempt and /bind, written before the response."""
    tracing: TracingSection = TracingSection()
    """OpenTelemetry spans."""

    @model_validator(mode="after")
    def _bind_is_possible(self) -> "Configuration":
        if self.bind.enabled and self.cluster.source != "kubernetes":
            raise ValueError("bind.enabled needs cluster.source: kubernetes")
        if self.bind.enabled and self.bind.timeout > self.server.deadline:
            raise ValueError("bind.timeout must not exceed 80 % of server.httpTimeout, the deadline of every call")
        return self

    def profile(self) -> Profile:
        """Return the settings that decisions depend on."""
        score = {plugin.name: plugin for plugin in self.prioritize.plugins}
        affinity_args = score["InterPodAffinity"].args if "InterPodAffinity" in score else ScoreArgs()
        hard_weight = affinity_args.hard_pod_affinity_weight
        keep = self.preemption.keep_candidates
        filter_args = self.filter.model_dump(by_alias=True, exclude_none=True)
        return Profile(
            filter_plugins=tuple(self.filter.plugins),
            score_weights=tuple((name, plugin.weight) for name, plugin in score.items()),
            fit_strategy=_fit_strategy(score.get("NodeResourcesFit")),
            balanced_resources=_balanced_resources(score.get("NodeResourcesBalancedAllocation")),
            ignored_resources=frozenset(self.filter.ignored_resources),
            ignored_resource_groups=frozenset(self.filter.ignored_resource_groups),
            added_affinity=msgspec.convert(filter_args.get("addedAffinity"), k8s.NodeAffinity | None),
            default_spread_constraints=msgspec.convert(
                filter_args.get("defaultSpreadConstraints"), tuple[k8s.TopologySpreadConstraint, ...] | None
            ),
            hard_pod_affinity_weight=1 if hard_weight is None else hard_weight,
            ignore_preferred_terms_of_existing_pods=bool(affinity_args.ignore_preferred_terms_of_existing_pods),
            keep_candidates=None if keep == "All" else keep,
            scheduler_names=frozenset(self.scheduler_names),
            preemption=self.preemption.policy(),
        )


def _fit_strategy(plugin: ScorePlugin | None) -> ScoringStrategy:
    if plugin is None or plugin.args.scoring_strategy is None:
        return ScoringStrategy()
    strategy = plugin.args.scoring_strategy
    curve = strategy.requested_to_capacity_ratio
    return ScoringStrategy(
        type=strategy.type,
        resources=tuple((resource.name, resource.weight) for resource in strategy.resources),
        shape=tuple((point.utilization, point.score) for point in curve.shape) if curve else (),
    )


def _balanced_resources(plugin: ScorePlugin | None) -> tuple[str, ...]:
    if plugin is None or plugin.args.resources is None:
        return Profile().balanced_resources
    return tuple(resource.name for resource in plugin.args.resources)
