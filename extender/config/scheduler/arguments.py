"""Plugin arguments (pkg/scheduler/apis/config/v1, v1.36): types, defaults, and the fields of Profile that they set.

Rule: only a value that would make decisions wrong is rejected; the rest is left to kube-scheduler.
"""

# ruff: noqa: RUF012  # pydantic copies defaults
from abc import abstractmethod
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, model_validator

from extender.config.scheduler.schema import GoDuration, Int32, KubernetesSection, Percentage
from extender.config.values import Count, NonEmptyText, nanoseconds_of
from extender.core.profile import ScoringStrategy, StrategyType
from extender.k8s import objects as k8s
from extender.k8s.selectors import compile_preferred_terms, parse_node_selector


class PluginArgs(KubernetesSection):
    """Base of all plugin arguments."""

    api_version: Any = None
    kind: Any = None

    @abstractmethod
    def profile_fields(self) -> dict[str, Any]:
        """Return the fields of Profile that the arguments set."""


class ResourceSpec(KubernetesSection):
    name: str = ""
    weight: Percentage


def _weights(resources: Any) -> Any:
    """Fill in the default resources and weights (SetDefaults_NodeResourcesFitArgs)."""
    if resources is None or resources == []:
        return [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    if not isinstance(resources, list):
        return resources
    # Unexpected values are left to the validation of the type.
    return [
        {**one, "weight": 1} if isinstance(one, dict) and one.get("weight") in (None, 0) else one for one in resources
    ]


Resources = Annotated[list[ResourceSpec], BeforeValidator(_weights), Field(validate_default=True)]


class ShapePointSection(KubernetesSection):
    utilization: Percentage = 0
    score: Annotated[StrictInt, Field(ge=0, le=10)] = 0


def _by_utilization(shape: list[ShapePointSection]) -> list[ShapePointSection]:
    if any(left.utilization >= right.utilization for left, right in pairwise(shape)):
        raise ValueError("utilization must increase from point to point")  # we interpolate between them
    return shape


Shape = Annotated[list[ShapePointSection], AfterValidator(_by_utilization)]


def _points(shape: list[ShapePointSection]) -> tuple[tuple[int, int], ...]:
    return tuple((point.utilization, point.score) for point in shape)


class RequestedToCapacityRatioSection(KubernetesSection):
    shape: Annotated[Shape, Field(min_length=1)]


class ScoringStrategySection(KubernetesSection):
    type: StrategyType
    resources: Resources = []
    requested_to_capacity_ratio: RequestedToCapacityRatioSection | None = None

    @model_validator(mode="after")
    def _has_its_shape(self) -> Self:
        if self.type == "RequestedToCapacityRatio" and self.requested_to_capacity_ratio is None:
            raise ValueError("type RequestedToCapacityRatio needs requestedToCapacityRatio")
        return self


class NodeResourcesFitArgs(PluginArgs):
    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    scoring_strategy: ScoringStrategySection = ScoringStrategySection(type="LeastAllocated")

    def profile_fields(self) -> dict[str, Any]:
        given, ratio = self.scoring_strategy, self.scoring_strategy.requested_to_capacity_ratio
        resources = tuple((resource.name, resource.weight) for resource in given.resources)
        return {
            "fit_strategy": ScoringStrategy(given.type, resources, _points(ratio.shape) if ratio else ()),
            "ignored_resources": frozenset(self.ignored_resources),
            "ignored_resource_groups": frozenset(self.ignored_resource_groups),
        }


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    resources: Resources = []

    def profile_fields(self) -> dict[str, Any]:
        return {"balanced_resources": tuple(resource.name for resource in self.resources)}


class InterPodAffinityArgs(PluginArgs):
    hard_pod_affinity_weight: Percentage = 1
    ignore_preferred_terms_of_existing_pods: StrictBool = False

    def profile_fields(self) -> dict[str, Any]:
        return {
            "hard_pod_affinity_weight": self.hard_pod_affinity_weight,
            "ignore_preferred_terms_of_existing_pods": self.ignore_preferred_terms_of_existing_pods,
        }


class NodeSelectorRequirementSection(KubernetesSection):
    key: str = ""
    operator: str = ""
    values: list[str] = []


class NodeSelectorTermSection(KubernetesSection):
    match_expressions: list[NodeSelectorRequirementSection] = []
    match_fields: list[NodeSelectorRequirementSection] = []


class NodeSelectorSection(KubernetesSection):
    node_selector_terms: list[NodeSelectorTermSection] = []


class PreferredSchedulingTermSection(KubernetesSection):
    weight: Int32 = 0
    preference: NodeSelectorTermSection = NodeSelectorTermSection()


class NodeAffinitySection(KubernetesSection):
    required_during_scheduling_ignored_during_execution: NodeSelectorSection | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTermSection] = []

    def affinity(self) -> k8s.NodeAffinity:
        """Convert to the engine's type."""
        return msgspec.convert(self.model_dump(by_alias=True, exclude_none=True), k8s.NodeAffinity)

    @model_validator(mode="after")
    def _parses(self) -> Self:
        # Checked here, because the engine lets an invalid term match no node, as it must for the terms of pods.
        affinity = self.affinity()
        compile_preferred_terms(affinity.preferred or ())
        if affinity.required is not None:
            parse_node_selector(affinity.required)
        return self


class NodeAffinityArgs(PluginArgs):
    added_affinity: NodeAffinitySection | None = None

    def profile_fields(self) -> dict[str, Any]:
        return {"added_affinity": self.added_affinity and self.added_affinity.affinity()}


class SpreadConstraintSection(KubernetesSection):
    max_skew: Count
    topology_key: NonEmptyText
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: None = None
    """Derived from each pod's Services and controller (BuildDefaultConstraints)."""
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = []


class PodTopologySpreadArgs(PluginArgs):
    default_constraints: list[SpreadConstraintSection] = []
    defaulting_type: Annotated[Literal["System", "List"], BeforeValidator(lambda value: value or "System")] = "System"

    def profile_fields(self) -> dict[str, Any]:
        if self.defaulting_type == "System":
            return {}
        plain = [one.model_dump(by_alias=True, exclude_none=True) for one in self.default_constraints]
        return {"default_spread_constraints": msgspec.convert(plain, tuple[k8s.TopologySpreadConstraint, ...])}


class VolumeBindingArgs(PluginArgs):
    bind_timeout_seconds: Any = None
    shape: Shape = []

    def profile_fields(self) -> dict[str, Any]:
        return {"volume_binding_shape": _points(self.shape)} if self.shape else {}


class DefaultPreemptionArgs(PluginArgs):
    min_candidate_nodes_percentage: Percentage = 10
    min_candidate_nodes_absolute: Annotated[StrictInt, Field(ge=0, le=2**31 - 1)] = 100

    def profile_fields(self) -> dict[str, Any]:
        return {
            "min_candidate_nodes_percentage": self.min_candidate_nodes_percentage,
            "min_candidate_nodes_absolute": self.min_candidate_nodes_absolute,
        }


class DynamicResourcesArgs(PluginArgs):
    filter_timeout: Any = None
    binding_timeout: GoDuration | None = None

    def profile_fields(self) -> dict[str, Any]:
        return {} if self.binding_timeout is None else {"binding_timeout": nanoseconds_of(self.binding_timeout)}


ARGS_OF: Final[dict[str, type[PluginArgs]]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""Plugin -> type of its arguments, for plugins that take any."""


def args_type(plugin: str, minor: int) -> type[PluginArgs] | None:
    """Return the type of a plugin's arguments; None if kube-scheduler does not read them."""
    has_type = plugin != "DynamicResources" or minor >= 34  # the minor that added DynamicResourcesArgs
    return ARGS_OF.get(plugin) if has_type else None
