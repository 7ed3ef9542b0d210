"""Limits of plugin arguments (pkg/scheduler/apis/config/validation/validation_pluginargs.go, v1.36).

Rule: one function per type of arguments; what an older minor accepts stands beside its minor.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from extender.config.document import KeyPath, Mistake
from extender.config.scheduler.arguments import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    NodeSelectorRequirementSection,
    NodeSelectorTermSection,
    PluginArgs,
    PodTopologySpreadArgs,
    ScoringStrategySection,
    ShapePointSection,
    SpreadConstraintSection,
    VolumeBindingArgs,
)
from extender.config.scheduler.field_errors import duplicate, forbidden, invalid, label_name, required, unsupported
from extender.config.scheduler.schema import nanoseconds_of
from extender.k8s.selectors import is_label_value, parse_int64
from extender.k8s.version.features import Features

STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_NODE_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")
_NOT_A_LABEL_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_SECOND_NANOSECONDS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Release:
    """The kube-scheduler that would read the arguments."""

    minor: int
    features: Features


def validate_args(plugin: str, args: PluginArgs, path: KeyPath, release: Release) -> Iterator[Mistake]:
    """Yield what kube-scheduler refuses about the arguments at `path`."""
    if plugin in _VALIDATORS:
        yield from _VALIDATORS[plugin](args, path, release)


def _fit(args: NodeResourcesFitArgs, path: KeyPath, release: Release) -> Iterator[Mistake]:
    for index, name in enumerate(args.ignored_resources):
        yield from label_name((*path, "ignoredResources", index), name)
    for index, group in enumerate(args.ignored_resource_groups):
        at = (*path, "ignoredResourceGroups", index)
        if "/" in group:
            yield invalid(at, group, "resource group name can't contain '/'")
        yield from label_name(at, group)
    yield from _strategy(args.scoring_strategy, (*path, "scoringStrategy"), release)


def _strategy(strategy: ScoringStrategySection, path: KeyPath, release: Release) -> Iterator[Mistake]:
    if strategy.type not in STRATEGIES:
        yield unsupported((*path, "type"), strategy.type, STRATEGIES)
    for index, one in enumerate(strategy.resources):
        if not 0 < one.weight <= 100:
            reason = f"resource weight of {one.name} not in valid range (0, 100]"
            yield invalid((*path, "resources", index, "weight"), one.weight, reason)
    ratio, at = strategy.requested_to_capacity_ratio, (*path, "requestedToCapacityRatio")
    if strategy.type == "RequestedToCapacityRatio" and ratio is None:
        yield required(at, "must be specified when type is RequestedToCapacityRatio")
    elif ratio is not None and (strategy.type == "RequestedToCapacityRatio" or release.minor <= 35):
        yield from _function_shape(ratio.shape, (*at, "shape"))
    elif ratio is not None:
        yield forbidden(at, "must be nil when type is not RequestedToCapacityRatio")


def _function_shape(shape: Sequence[ShapePointSection], path: KeyPath) -> Iterator[Mistake]:
    if not shape:
        yield required(path, "at least one point must be specified")
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            at = (*path, index, "utilization")
            yield invalid(at, shape[index].utilization, "values must be sorted in increasing order")
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield invalid((*path, index, "utilization"), point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= 10:
            yield invalid((*path, index, "score"), point.score, "not in valid range [0, 10]")


def _balanced_allocation(
    args: NodeResourcesBalancedAllocationArgs, path: KeyPath, _release: Release
) -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, one in enumerate(args.resources):
        if one.name in seen:
            yield duplicate((*path, "resources", index, "name"), one.name)
        seen.add(one.name)
        if one.weight != 1:
            yield invalid((*path, "resources", index, "weight"), one.weight, "must be 1")


def _inter_pod_affinity(args: InterPodAffinityArgs, path: KeyPath, _release: Release) -> Iterator[Mistake]:
    if not 0 <= args.hard_pod_affinity_weight <= 100:
        yield invalid((*path, "hardPodAffinityWeight"), args.hard_pod_affinity_weight, "not in valid range [0, 100]")


def _default_preemption(args: DefaultPreemptionArgs, path: KeyPath, _release: Release) -> Iterator[Mistake]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path, absolute_path = (*path, "minCandidateNodesPercentage"), (*path, "minCandidateNodesAbsolute")
    if not 0 <= percentage <= 100:
        yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
    if absolute < 0:
        yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
    if percentage == absolute == 0:
        yield invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute")
        yield invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage")


def _volume_binding(args: VolumeBindingArgs, path: KeyPath, release: Release) -> Iterator[Mistake]:
    if args.bind_timeout_seconds < 0:
        reason = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid((*path, "bindTimeoutSeconds"), args.bind_timeout_seconds, reason)
    if release.features.storage_capacity_scoring:
        # An empty shape is the default one (SetDefaults_VolumeBindingArgs).
        yield from _function_shape(args.shape, (*path, "shape")) if args.shape else ()
    elif args.shape is not None:
        reason = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        yield invalid((*path, "shape"), args.shape, reason)


def _dynamic_resources(args: DynamicResourcesArgs, path: KeyPath, release: Release) -> Iterator[Mistake]:
    if args.filter_timeout is not None and nanoseconds_of(args.filter_timeout) < 0:
        yield invalid((*path, "filterTimeout"), args.filter_timeout, "must be zero or positive")
    if args.binding_timeout is not None and release.minor <= 35:
        reason = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
        yield forbidden((*path, "bindingTimeout"), reason)
    elif args.binding_timeout is not None and nanoseconds_of(args.binding_timeout) < _SECOND_NANOSECONDS:
        yield invalid((*path, "bindingTimeout"), args.binding_timeout, "must be at least 1 second")


# --- PodTopologySpread ----------------------------------------------------------------------------------------------


def _pod_topology_spread(args: PodTopologySpreadArgs, path: KeyPath, _release: Release) -> Iterator[Mistake]:
    kind, constraints = args.defaulting_type, args.default_constraints
    if kind not in ("System", "List"):
        yield unsupported((*path, "defaultingType"), kind, ("System", "List"))
    elif kind == "System" and constraints:
        yield invalid((*path, "defaultingType"), kind, "when .defaultConstraints are not empty")
    seen: set[tuple[str, str]] = set()
    for index, one in enumerate(constraints):
        at = (*path, "defaultConstraints", index)
        yield from _spread_constraint(one, at)
        if (one.topology_key, one.when_unsatisfiable) in seen:
            yield duplicate(at, f"{{{one.topology_key}, {one.when_unsatisfiable}}}")
        seen.add((one.topology_key, one.when_unsatisfiable))


def _spread_constraint(one: SpreadConstraintSection, path: KeyPath) -> Iterator[Mistake]:
    if one.max_skew <= 0:
        yield invalid((*path, "maxSkew"), one.max_skew, "not in valid range (0, inf)")
    if one.topology_key == "":
        yield required((*path, "topologyKey"), "can not be empty")
    else:
        yield from label_name((*path, "topologyKey"), one.topology_key)
    if one.when_unsatisfiable == "":
        yield required((*path, "whenUnsatisfiable"), "can not be empty")
    elif one.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
        yield unsupported((*path, "whenUnsatisfiable"), one.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway"))
    if one.label_selector is not None:
        yield forbidden((*path, "labelSelector"), "constraint must not define a selector, as they deduced for each pod")


# --- NodeAffinity ---------------------------------------------------------------------------------------------------


def _node_affinity(args: NodeAffinityArgs, path: KeyPath, _release: Release) -> Iterator[Mistake]:
    """Mirrors nodeaffinity.NewNodeSelector and NewPreferredSchedulingTerms, which parse what is not empty."""
    affinity = args.added_affinity
    if affinity is None:
        return
    required_terms = affinity.required_during_scheduling_ignored_during_execution
    at: KeyPath = (*path, "addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for index, term in enumerate(required_terms.node_selector_terms if required_terms else ()):
        yield from _term(term, (*at, index))
    at = (*path, "addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        if preferred.weight != 0:
            yield from _term(preferred.preference, (*at, index, "preference"))


def _term(term: NodeSelectorTermSection, path: KeyPath) -> Iterator[Mistake]:
    for index, one in enumerate(term.match_expressions):
        yield from _label_requirement(one, (*path, "matchExpressions", index))
    for index, one in enumerate(term.match_fields):
        at = (*path, "matchFields", index)
        if one.operator not in _FIELD_OPERATORS:
            yield unsupported((*at, "operator"), one.operator, _FIELD_OPERATORS)
        elif len(one.values) != 1:
            yield invalid((*at, "values"), one.values, "must have one element")


def _label_requirement(one: NodeSelectorRequirementSection, path: KeyPath) -> Iterator[Mistake]:
    """Mirrors labels.NewRequirement."""
    if one.operator not in _NODE_OPERATORS:
        yield unsupported((*path, "operator"), one.operator, _NODE_OPERATORS)
        return
    yield from label_name((*path, "key"), one.key)
    at, values = (*path, "values"), one.values
    if one.operator in ("In", "NotIn") and not values:
        yield invalid(at, values, "for 'in', 'notin' operators, values set can't be empty")
    elif one.operator in ("Exists", "DoesNotExist") and values:
        yield invalid(at, values, "values set must be empty for exists and does not exist")
    elif one.operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield invalid(at, values, "for 'Gt', 'Lt' operators, exactly one value is required")
        for index, value in enumerate(values):
            if parse_int64(value) is None:
                yield invalid((*at, index), value, "for 'Gt', 'Lt' operators, the value must be an integer")
    for index, value in enumerate(values):
        if not is_label_value(value):
            yield invalid((*at, index), value, _NOT_A_LABEL_VALUE)


_VALIDATORS: Final[dict[str, Callable[[Any, KeyPath, Release], Iterator[Mistake]]]] = {
    "DefaultPreemption": _default_preemption,
    "DynamicResources": _dynamic_resources,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "NodeResourcesFit": _fit,
    "PodTopologySpread": _pod_topology_spread,
    "VolumeBinding": _volume_binding,
}
