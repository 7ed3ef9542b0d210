"""What may be configured, what it defaults to, and what is allowed: the reference of the configuration file.

Names and limits of plugin arguments are those of KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1, validation
of v1.36). The text under a field is its documentation; `extender config show` prints it.

Rule: every field has a default, and the defaults decide as an unconfigured kube-scheduler does.
"""

# ruff: noqa: RUF012  # pydantic copies defaults
import re
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field, StrictBool, StrictInt, field_validator, model_validator
from pydantic.alias_generators import to_camel

from extender.config.preemption import PreemptionSection
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
    Duration,
    ResourceGroup,
    ResourceName,
    each_once,
    known_once,
    one_of,
)
from extender.core.profile import FILTER_PLUGINS, SCORE_WEIGHTS, Profile, ScoringStrategy
from extender.k8s import objects as k8s

# --- the file -------------------------------------------------------------------------------------------------------


class ClusterSection(Section):
    source: Literal["snapshot", "kubernetes"] = "snapshot"
    """Where the picture of the cluster comes from. `snapshot`: files, as kubectl get -o json or yaml prints them.
    `kubernetes`: an API server, by list and watch."""
    path: Annotated[str, Field(min_length=1)] | None = None
    """snapshot: the file or directory to read; without one, the example cluster that ships with the extender."""
    reload_interval: Duration = 2.0
    """snapshot: how often to look whether the files have changed; 0s: read them once."""
    kubeconfig: Annotated[str, Field(min_length=1)] | None = None
    """kubernetes: the kubeconfig to use; without one, the service account of the pod that the extender runs in, and
    outside of one $KUBECONFIG or ~/.kube/config."""
    context: Annotated[str, Field(min_length=1)] | None = None
    """kubernetes: the context of the kubeconfig; without one, its current context."""
    stale_after: Duration = 30.0
    """kubernetes: for how long a kind of objects may not be followed before nothing is decided any more."""
    compare_interval: Duration = 1800.0
    """kubernetes: how often names and versions of all objects are compared with the API server's; 0s: never, not even
    after a stream was broken."""

    @model_validator(mode="after")
    def _settings_suit_source(self) -> "ClusterSection":
        foreign = {"snapshot": ("kubeconfig", "context"), "kubernetes": ("path",)}[self.source]
        for name in foreign:
            if getattr(self, name) is not None:
                raise ValueError(f"{to_camel(name)} means nothing with source: {self.source}")
        return self


class BindSection(Section):
    enabled: StrictBool = False
    """Whether POST /bind creates bindings; needs cluster.source: kubernetes. Off, the scheduler binds by itself."""
    timeout: Annotated[Duration, Field(gt=0)] = 4.0
    """How long binding one pod may take, to the last answer; must be shorter than the scheduler's httpTimeout (5s)."""


class KillSwitchSection(Section):
    enabled: StrictBool = False
    """On: /filter accepts every node that is offered, /prioritize scores none, /preempt is answered as below, and no
    picture of the cluster is needed. /bind goes on."""
    preempt: Literal["Veto", "PassThrough"] = "Veto"
    """Veto: nobody is evicted, and no such pod is retried before a relevant event or about 5 minutes. PassThrough:
    kube-scheduler evicts whom it chose, without any of the protections above."""


class NodeSelectorRequirement(Section):
    key: ResourceName
    """Label (in matchFields: metadata.name) to look at."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How to compare."""
    values: list[str] = []
    """What to compare with; none for Exists and DoesNotExist, one integer for Gt and Lt."""

    @model_validator(mode="after")
    def _values_suit_operator(self) -> "NodeSelectorRequirement":
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(f"{self.operator} needs values")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise ValueError(f"{self.operator} takes no values")
        if self.operator in ("Gt", "Lt") and (
            len(self.values) != 1 or not re.fullmatch(r"[-+]?\d+", self.values[0], re.ASCII)
        ):
            raise ValueError(f"{self.operator} needs exactly one value, an integer as text")
        return self


class NodeSelectorTerm(Section):
    match_expressions: list[NodeSelectorRequirement] = []
    """Requirements on labels, all of which must hold."""
    match_fields: list[NodeSelectorRequirement] = []
    """Requirements on metadata.name, all of which must hold."""


class NodeSelector(Section):
    node_selector_terms: Annotated[list[NodeSelectorTerm], Field(min_length=1)]
    """Terms of which one must hold."""


class PreferredSchedulingTerm(Section):
    weight: Annotated[StrictInt, Field(ge=1, le=100)]
    """How much a node that matches is worth."""
    preference: NodeSelectorTerm
    """What to match."""


class AddedAffinity(Section):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Nodes that any pod may use at all."""
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = []
    """Nodes that any pod prefers."""


class SpreadConstraint(Section):
    max_skew: Annotated[StrictInt, Field(ge=1, le=2**31 - 1)]
    """How many matching pods a domain may hold more than the emptiest one."""
    topology_key: ResourceName
    """Node label whose values are the domains."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """Whether it is a filter or a score."""
    min_domains: Annotated[StrictInt, Field(ge=1, le=2**31 - 1)] | None = None
    """With fewer domains than this, the emptiest is taken to hold nothing; with DoNotSchedule only."""
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    """Whether nodes that the pod's node affinity excludes are left out of the count."""
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    """The same of nodes whose taints the pod does not tolerate."""

    @model_validator(mode="after")
    def _min_domains_filter(self) -> "SpreadConstraint":
        if self.min_domains is not None and self.when_unsatisfiable != "DoNotSchedule":
            raise ValueError("minDomains needs whenUnsatisfiable: DoNotSchedule")
        return self


class FilterSection(Section):
    plugins: list[str] = list(FILTER_PLUGINS)
    """The checks a node must pass, whatever the order here: kube-scheduler's own order decides which one gives the
    reason. All of kube-scheduler's that are modelled by default."""
    ignored_resources: list[ResourceName] = []
    """Extended resources that NodeResourcesFit does not check, because another extender does."""
    ignored_resource_groups: list[ResourceGroup] = []
    """The same by the part of the name before the slash."""
    added_affinity: AddedAffinity | None = None
    """Node affinity added to that of every pod (NodeAffinityArgs.addedAffinity of kube-scheduler)."""
    default_spread_constraints: list[SpreadConstraint] | None = None
    """How pods without topology spread constraints are spread, in filters and scores (PodTopologySpreadArgs with
    defaultingType List; none with []). Unset: the system's defaults, which only score."""

    @field_validator("default_spread_constraints")
    @classmethod
    def _each_key_once(cls, constraints: list[SpreadConstraint] | None) -> list[SpreadConstraint] | None:
        each_once([f"{one.topology_key} with {one.when_unsatisfiable}" for one in constraints or ()])
        return constraints

    @field_validator("plugins")
    @classmethod
    def _known_plugins(cls, plugins: list[str]) -> list[str]:
        return known_once(plugins, FILTER_PLUGINS)


class ResourceWeight(Section):
    name: ResourceName
    """Resource, such as cpu, memory or nvidia.com/gpu."""
    weight: Annotated[StrictInt, Field(ge=1, le=100)] = 1
    """How much it counts beside the others, 1 to 100."""


class ShapePoint(Section):
    utilization: Annotated[StrictInt, Field(ge=0, le=100)]
    """Percent of the node in use."""
    score: Annotated[StrictInt, Field(ge=0, le=10)]
    """Score at that point, 0 to 10; in between, a straight line."""


class RequestedToCapacityRatio(Section):
    shape: Annotated[list[ShapePoint], Field(min_length=1)]
    """Points of the curve from utilization to score, utilization strictly rising."""

    @field_validator("shape")
    @classmethod
    def _rising(cls, shape: list[ShapePoint]) -> list[ShapePoint]:
        if any(a.utilization >= b.utilization for a, b in pairwise(shape)):
            raise ValueError("utilization must rise strictly from point to point")
        return shape


_CPU_AND_MEMORY = [ResourceWeight(name="cpu"), ResourceWeight(name="memory")]


class ScoringStrategySection(Section):
    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    """Which nodes are better: empty ones, full ones, or by a curve."""
    resources: Annotated[list[ResourceWeight], Field(min_length=1)] = _CPU_AND_MEMORY
    """Resources that count."""
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
    """The curve; with RequestedToCapacityRatio only."""

    @model_validator(mode="after")
    def _curve_where_it_belongs(self) -> "ScoringStrategySection":
        if (self.type == "RequestedToCapacityRatio") != (self.requested_to_capacity_ratio is not None):
            raise ValueError("type RequestedToCapacityRatio and a requestedToCapacityRatio.shape need each other")
        return self


class ScoreArgs(Section):
    scoring_strategy: ScoringStrategySection | None = None
    """NodeResourcesFit: which nodes are better."""
    resources: Annotated[list[ResourceWeight], Field(min_length=1)] | None = None
    """NodeResourcesBalancedAllocation: resources that should be used alike; all have weight 1."""
    hard_pod_affinity_weight: Annotated[StrictInt, Field(ge=0, le=100)] | None = None
    """InterPodAffinity: what a running pod's required affinity to the incoming pod counts, 0 to 100; 1 if unset."""
    ignore_preferred_terms_of_existing_pods: StrictBool | None = None
    """InterPodAffinity: whether a pod without preferred terms of its own is scored by nobody's; false if unset."""

    @field_validator("resources")
    @classmethod
    def _all_alike(cls, resources: list[ResourceWeight] | None) -> list[ResourceWeight] | None:
        each_once([resource.name for resource in resources or ()])
        if any(resource.weight != 1 for resource in resources or ()):
            raise ValueError("weight must be 1 for every resource of NodeResourcesBalancedAllocation")
        return resources


ARGS_OF = {
    "NodeResourcesFit": {"scoring_strategy"},
    "NodeResourcesBalancedAllocation": {"resources"},
    "InterPodAffinity": {"hard_pod_affinity_weight", "ignore_preferred_terms_of_existing_pods"},
}
"""Score plugin -> the arguments that it takes."""


class ScorePlugin(Section):
    name: str
    """Name of the plugin in kube-scheduler."""
    weight: Annotated[StrictInt, Field(ge=1, le=2**31 - 1)] = 1
    """What its score (0 to 100) is multiplied with; kube-scheduler's default weight of that plugin if left out."""
    args: ScoreArgs = ScoreArgs()
    """What the plugin takes in KubeSchedulerConfiguration."""

    @model_validator(mode="before")
    @classmethod
    def _usual_weight(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("weight") is None and isinstance(data.get("name"), str):
            return {**data, "weight": SCORE_WEIGHTS.get(data["name"], 1)}
        return data

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        return one_of(name, tuple(SCORE_WEIGHTS))

    @model_validator(mode="after")
    def _own_args(self) -> "ScorePlugin":
        for key in sorted(self.args.model_fields_set - ARGS_OF.get(self.name, set())):
            raise ValueError(f"{self.name} takes no {to_camel(key)}")
        return self


class PrioritizeSection(Section):
    plugins: list[ScorePlugin] = [ScorePlugin(name=name, weight=weight) for name, weight in SCORE_WEIGHTS.items()]
    """The scores that are added up. All of kube-scheduler's that are modelled by default."""

    @field_validator("plugins")
    @classmethod
    def _once(cls, plugins: list[ScorePlugin]) -> list[ScorePlugin]:
        each_once([plugin.name for plugin in plugins])
        return plugins


class Configuration(Section):
    api_version: Literal["extender/v1alpha1"] = "extender/v1alpha1"
    """Version of this format."""
    kind: Literal["ExtenderConfiguration"] = "ExtenderConfiguration"
    """Always ExtenderConfiguration."""
    scheduler_names: list[Annotated[str, Field(min_length=1)]] = []
    """Schedulers whose nominated pods count; none: that of the incoming pod (spec.schedulerName)."""
    cluster: ClusterSection = ClusterSection()
    """What the extender knows of the cluster."""
    filter: FilterSection = FilterSection()
    """Which nodes a pod fits on."""
    prioritize: PrioritizeSection = PrioritizeSection()
    """Which of these nodes are better."""
    preemption: PreemptionSection = PreemptionSection()
    """Which pods have to leave for a more important one."""
    mode: Literal["Enforce", "Observe"] = "Enforce"
    """Enforce: what is decided is answered. Observe: everything is decided, logged and counted, but answered as if the
    extender were not there; nothing ever fails for want of a decision."""
    kill_switch: KillSwitchSection = KillSwitchSection()
    """To have kube-scheduler decide alone at once, without a restart. Wins over `mode`."""
    bind: BindSection = BindSection()
    """Whether and how pods are bound to nodes."""
    server: ServerSection = ServerSection()
    """The listener for kube-scheduler, and what a call may cost."""
    admin: AdminSection = AdminSection()
    """The listener for everybody else: probes, Prometheus, and people (`debug`). Nothing of it is on the scheduler's
    port."""
    debug: DebugSection = DebugSection()
    """What people look at, on the admin listener: decisions, what-if questions and the page at /ui."""
    recording: RecordingSection = RecordingSection()
    """Calls that are kept to be replayed."""
    log: LogSection = LogSection()
    """What is told while it runs, on standard error."""
    audit: AuditSection = AuditSection()
    """A line of JSON for each /preempt and /bind, written before the answer."""
    tracing: TracingSection = TracingSection()
    """Spans for OpenTelemetry."""

    @model_validator(mode="after")
    def _binds_in_a_cluster(self) -> "Configuration":
        if self.bind.enabled and self.cluster.source != "kubernetes":
            raise ValueError("bind.enabled needs cluster.source: kubernetes")
        return self

    @model_validator(mode="after")
    def _binds_in_time(self) -> "Configuration":
        if self.bind.enabled and self.bind.timeout > self.server.deadline:
            raise ValueError(
                "bind.timeout must not be longer than 80 % of server.schedulerTimeout, by which every call is answered"
            )
        return self

    def profile(self) -> Profile:
        """The choices that decisions depend on, frozen."""
        score = {plugin.name: plugin for plugin in self.prioritize.plugins}
        between = score["InterPodAffinity"].args if "InterPodAffinity" in score else ScoreArgs()
        hard_weight = between.hard_pod_affinity_weight
        keep = self.preemption.keep_candidates
        return Profile(
            filter_plugins=tuple(self.filter.plugins),
            score_weights=tuple((name, plugin.weight) for name, plugin in score.items()),
            fit_strategy=_fit_strategy(score.get("NodeResourcesFit")),
            balanced_resources=_balanced_resources(score.get("NodeResourcesBalancedAllocation")),
            ignored_resources=frozenset(self.filter.ignored_resources),
            ignored_resource_groups=frozenset(self.filter.ignored_resource_groups),
            added_affinity=_added_affinity(self.filter.added_affinity),
            default_spread_constraints=_spread_constraints(self.filter.default_spread_constraints),
            hard_pod_affinity_weight=1 if hard_weight is None else hard_weight,
            ignore_preferred_terms_of_existing_pods=bool(between.ignore_preferred_terms_of_existing_pods),
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


def _added_affinity(added: AddedAffinity | None) -> k8s.NodeAffinity | None:
    if added is None:
        return None
    return msgspec.convert(added.model_dump(by_alias=True, exclude_none=True), k8s.NodeAffinity)


def _spread_constraints(constraints: list[SpreadConstraint] | None) -> tuple[k8s.TopologySpreadConstraint, ...] | None:
    if constraints is None:
        return None
    plain = [constraint.model_dump(by_alias=True, exclude_none=True) for constraint in constraints]
    return msgspec.convert(plain, tuple[k8s.TopologySpreadConstraint, ...])
