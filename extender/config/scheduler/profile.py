"""Turn a KubeSchedulerProfile, after defaulting and merging, into the engine's Profile.

Rule: what has no say in a decision is dropped.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from extender.config.scheduler.arguments import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    ScoringStrategySection,
    ShapePointSection,
    VolumeBindingArgs,
)
from extender.config.scheduler.expansion import Expanded
from extender.config.scheduler.schema import nanoseconds_of
from extender.core.profile import Profile, ScoringStrategy
from extender.k8s import objects as k8s

_NOT_EVALUATED_IN_TREE = frozenset({"GangScheduling"})
"""In-tree plugins that can reject a pod but that we don't evaluate. DynamicResources is reported per pod."""


def profile_of(expanded: Expanded, args: Mapping[str, PluginArgs], base: Profile) -> Profile:
    """Return `base` with the plugins of a profile and their arguments.

    `args`: plugin -> arguments, of the plugins that have any in the file.
    """
    points = expanded.points
    foreign = expanded.foreign
    not_evaluated = _NOT_EVALUATED_IN_TREE & set(points["preEnqueue"])
    return replace(
        base,
        pre_enqueue_plugins=points["preEnqueue"],
        prefilter_plugins=points["preFilter"],
        filter_plugins=points["filter"],
        post_filter_plugins=points["postFilter"],
        prescore_plugins=points["preScore"],
        score_weights=tuple((plugin, expanded.weights[plugin]) for plugin in points["score"]),
        not_evaluated_filters=tuple(sorted(foreign["preFilter"] | foreign["filter"])),
        not_evaluated_scores=tuple(sorted(foreign["preScore"] | foreign["score"])),
        not_evaluated_post_filters=tuple(sorted(foreign["postFilter"])),
        not_evaluated_others=tuple(sorted(foreign["preEnqueue"] | not_evaluated)),
        **_arguments(args),
    )


def _arguments(args: Mapping[str, PluginArgs]) -> dict[str, Any]:
    """Return the fields of Profile that plugin arguments set; the others keep the default arguments of UPSTREAM."""
    values: dict[str, Any] = {}
    for one in args.values():
        match one:
            case NodeResourcesFitArgs():
                values |= {
                    "fit_strategy": _strategy(one.scoring_strategy),
                    "ignored_resources": frozenset(one.ignored_resources),
                    "ignored_resource_groups": frozenset(one.ignored_resource_groups),
                }
            case NodeResourcesBalancedAllocationArgs():
                values["balanced_resources"] = tuple(resource.name for resource in one.resources)
            case InterPodAffinityArgs():
                values |= {
                    "hard_pod_affinity_weight": one.hard_pod_affinity_weight,
                    "ignore_preferred_terms_of_existing_pods": one.ignore_preferred_terms_of_existing_pods,
                }
            case NodeAffinityArgs():
                values["added_affinity"] = one.added_affinity and one.added_affinity.affinity()
            case PodTopologySpreadArgs():
                values["default_spread_constraints"] = _spread_constraints(one)
            case VolumeBindingArgs():
                values |= {"volume_binding_shape": _shape(one.shape)} if one.shape else {}
            case DynamicResourcesArgs() if one.binding_timeout is not None:
                values["binding_timeout"] = nanoseconds_of(one.binding_timeout)
            case DefaultPreemptionArgs():
                values |= {
                    "min_candidate_nodes_percentage": one.min_candidate_nodes_percentage,
                    "min_candidate_nodes_absolute": one.min_candidate_nodes_absolute,
                }
    return values


def _strategy(given: ScoringStrategySection) -> ScoringStrategy:
    ratio = given.requested_to_capacity_ratio
    return ScoringStrategy(
        type=given.type,
        resources=tuple((resource.name, resource.weight) for resource in given.resources),
        shape=_shape(ratio.shape) if ratio else (),
    )


def _shape(points: list[ShapePointSection]) -> tuple[tuple[int, int], ...]:
    return tuple((point.utilization, point.score) for point in points)


def _spread_constraints(args: PodTopologySpreadArgs) -> tuple[k8s.TopologySpreadConstraint, ...] | None:
    if args.defaulting_type == "System":
        return None
    return tuple(
        msgspec.convert(one.model_dump(by_alias=True, exclude_none=True), k8s.TopologySpreadConstraint)
        for one in args.default_constraints
    )
