"""Errors of plugins whose PreFilter or PreScore is not enabled: its state is missing in CycleState.

Other plugins compute the state themselves then, as all modules here do. Mirrors getPreFilterState and getPreScoreState
of the plugins (v1.36).

Rule: texts only; `framework.filter` and `framework.score` decide what fails.
"""

from collections.abc import Mapping
from typing import Final

from extender.core.profile import DYNAMIC_RESOURCES
from extender.k8s.version.features import Features

WITHOUT_PREFILTER: Final[Mapping[str, str]] = {
    "NodePorts": 'reading "PreFilterNodePorts" from cycleState: not found',
    "NodeResourcesFit": 'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
    "VolumeRestrictions": 'cannot read "PreFilterVolumeRestrictions" from cycleState',
    "VolumeBinding": "not found",
    "PodTopologySpread": 'reading "PreFilterPodTopologySpread" from cycleState: not found',
    "InterPodAffinity": 'error reading "PreFilterInterPodAffinity" from cycleState: not found',
    "NodeDeclaredFeatures": 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found',
    DYNAMIC_RESOURCES: "not found",
}
"""Filter plugin that fails on every node without its PreFilter -> its error."""

WITHOUT_PRESCORE: Final[Mapping[str, str]] = {
    "TaintToleration": 'failed to read "PreScoreTaintToleration" from cycleState: not found',
    "PodTopologySpread": 'error reading "PreScorePodTopologySpread" from cycleState: not found',
    "InterPodAffinity": 'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
}
"""Score plugin that fails without its PreScore -> its error."""

SCORES_READING_PREFILTER: Final = frozenset({"VolumeBinding", DYNAMIC_RESOURCES})
"""Plugins that score what their PreFilter found, and fail without it."""

NOT_FOUND: Final = "not found"
"""Error of a plugin that reads what its PreFilter did not write."""


def is_switched_off(plugin: str, features: Features) -> bool:
    """Return whether a feature gate makes a filter plugin do nothing, although it is enabled."""
    if plugin == DYNAMIC_RESOURCES:
        return not features.dynamic_resource_allocation
    return plugin == "NodeDeclaredFeatures" and not features.node_declared_features


def is_score_switched_off(plugin: str, features: Features) -> bool:
    """Return whether a feature gate makes a score plugin do nothing, although it is enabled."""
    if plugin == "VolumeBinding":
        return not features.storage_capacity_scoring
    return is_switched_off(plugin, features)
