"""Arguments of the plugins that take any (pkg/scheduler/apis/config/v1, v1.36): fields, types and defaults.

Rule: types and defaults only; limits are checked by `validation`.
"""

# ruff: noqa: RUF012  # pydantic copies defaults
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, StrictBool

from extender.config.decoding import DecodingError, decode
from extender.config.document import KeyPath, Mistake
from extender.config.scheduler.schema import API_VERSION, GoDuration, Int32, Int64, KubernetesSection

DEFAULT_BIND_TIMEOUT_SECONDS = 600


class PluginArgs(KubernetesSection):
    """Base of the arguments of all plugins."""

    api_version: str = ""
    kind: str = ""


class ResourceSpec(KubernetesSection):
    name: str = ""
    weight: Int64 = 0


def _weights(resources: Any) -> Any:
    """Fill in the default resources, and weight 1 where it is 0 or absent (SetDefaults_NodeResourcesFitArgs)."""
    if resources is None or resources == []:
        return [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    if not isinstance(resources, list):
        return resources
    return [
        {**one, "weight": 1} if isinstance(one, dict) and one.get("weight") in (None, 0) else one for one in resources
    ]


Resources = Annotated[list[ResourceSpec], BeforeValidator(_weights), Field(validate_default=True)]


class ShapePointSection(KubernetesSection):
    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioSection(KubernetesSection):
    shape: list[ShapePointSection] = []


class ScoringStrategySection(KubernetesSection):
    type: str = ""
    resources: Resources = []
    requested_to_capacity_ratio: RequestedToCapacityRatioSection | None = None


class NodeResourcesFitArgs(PluginArgs):
    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    scoring_strategy: ScoringStrategySection = ScoringStrategySection(type="LeastAllocated")


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    resources: Resources = []


class InterPodAffinityArgs(PluginArgs):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: StrictBool = False


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


class NodeAffinityArgs(PluginArgs):
    added_affinity: NodeAffinitySection | None = None


class SpreadSelectorSection(KubernetesSection):
    match_labels: dict[str, str] = {}
    match_expressions: list[NodeSelectorRequirementSection] = []


class SpreadConstraintSection(KubernetesSection):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: SpreadSelectorSection | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = []


class PodTopologySpreadArgs(PluginArgs):
    default_constraints: list[SpreadConstraintSection] = []
    defaulting_type: Annotated[str, BeforeValidator(lambda value: value or "System")] = "System"


class VolumeBindingArgs(PluginArgs):
    bind_timeout_seconds: Int64 = DEFAULT_BIND_TIMEOUT_SECONDS
    shape: list[ShapePointSection] | None = None


class DefaultPreemptionArgs(PluginArgs):
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class DynamicResourcesArgs(PluginArgs):
    filter_timeout: GoDuration | None = None
    binding_timeout: GoDuration | None = None


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
"""Plugin -> type of its arguments."""

DYNAMIC_RESOURCES_ARGS_SINCE: Final = 34
"""Minor that has DynamicResourcesArgs; before, kube-scheduler does not look at them."""


def decode_args(plugin: str, args: Any, path: KeyPath, minor: int) -> PluginArgs | None:
    """Return the typed arguments of a plugin; None where it has none; raises DecodingError.

    Mirrors PluginConfig.decodeNestedObjects.
    """
    kind = ARGS_OF.get(plugin)
    if kind is None or (plugin == "DynamicResources" and minor < DYNAMIC_RESOURCES_ARGS_SINCE):
        return None
    if args is None:
        return kind()
    if not isinstance(args, Mapping):
        raise DecodingError([Mistake(path, "must be a mapping")])
    decoded = decode(kind, args, path)
    if decoded.kind not in ("", f"{plugin}Args"):
        reason = f"args for plugin {plugin} were not of type {plugin}Args, got {decoded.kind}"
        raise DecodingError([Mistake((*path, "kind"), reason)])
    if decoded.api_version not in ("", API_VERSION):
        reason = f'no kind "{plugin}Args" is registered for version "{decoded.api_version}"'
        raise DecodingError([Mistake((*path, "apiVersion"), reason)])
    return decoded
