"""In-tree plugins: their extension points by minor, and the default profile.

Mirrors plugins.NewInTreeRegistry, the interfaces that each plugin asserts and v1.getDefaultPlugins.

Rule: extension points have the names of the configuration file (`preFilter`); each change is declared with its minor.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from extender.core.profile import SCORE_WEIGHTS
from extender.k8s.version.features import Features
from extender.k8s.version.versions import NEWEST_MINOR, OLDEST_MINOR

# In the order in which kube-scheduler expands MultiPoint (frameworkImpl.getExtensionPoints).
EXTENSION_POINTS: Final = (
    "preFilter",
    "filter",
    "postFilter",
    "reserve",
    "preScore",
    "score",
    "preBind",
    "bind",
    "postBind",
    "permit",
    "preEnqueue",
    "queueSort",
    "placementGenerate",
    "placementScore",
    "podGroupPostFilter",
    "placementFeasible",
)

GROUP_POINTS_SINCE: Final = {
    "placementGenerate": 36,
    "placementScore": 36,
    "podGroupPostFilter": 37,
    "placementFeasible": 38,
}
"""Extension point of pod groups -> first minor whose configuration has it."""


@dataclass(frozen=True, slots=True)
class InTreePlugin:
    """A plugin of kube-scheduler's own registry."""

    points: tuple[str, ...]
    """Extension points that it implements."""
    since: int = OLDEST_MINOR
    """First minor with the plugin; `until` is the last."""
    until: int = NEWEST_MINOR
    later: tuple[tuple[int, str], ...] = ()
    """(first minor, extension point) for points that it implements only since that minor."""
    earlier: tuple[tuple[int, str], ...] = ()
    """(last minor, extension point) for points that it implemented only up to that minor."""

    def implements(self, point: str, minor: int) -> bool:
        later = (name for first, name in self.later if first <= minor)
        earlier = (name for last, name in self.earlier if minor <= last)
        return point in (*self.points, *later, *earlier)


# The default profile has these plugins up to 1.30, except CinderLimits.
_VOLUME_LIMITS: Final = InTreePlugin(("preFilter", "filter"), until=31)

IN_TREE: Final[dict[str, InTreePlugin]] = {
    "SchedulingGates": InTreePlugin(("preEnqueue",)),
    "PrioritySort": InTreePlugin(("queueSort",)),
    "NodeUnschedulable": InTreePlugin(("filter",), later=((37, "preFilter"),)),
    "NodeName": InTreePlugin(("filter",), later=((37, "preFilter"),)),
    "TaintToleration": InTreePlugin(("filter", "preScore", "score"), later=((37, "preFilter"),)),
    "NodeAffinity": InTreePlugin(("preFilter", "filter", "preScore", "score")),
    "NodePorts": InTreePlugin(("preFilter", "filter")),
    "NodeResourcesFit": InTreePlugin(("preFilter", "filter", "preScore", "score"), later=((36, "placementScore"),)),
    "VolumeRestrictions": InTreePlugin(("preFilter", "filter")),
    "EBSLimits": _VOLUME_LIMITS,
    "GCEPDLimits": _VOLUME_LIMITS,
    "AzureDiskLimits": _VOLUME_LIMITS,
    "CinderLimits": _VOLUME_LIMITS,
    "NodeVolumeLimits": InTreePlugin(("preFilter", "filter")),
    "VolumeBinding": InTreePlugin(("preFilter", "filter", "reserve", "score", "preBind"), later=((30, "preScore"),)),
    "VolumeZone": InTreePlugin(("preFilter", "filter")),
    "PodTopologySpread": InTreePlugin(("preFilter", "filter", "preScore", "score")),
    "InterPodAffinity": InTreePlugin(("preFilter", "filter", "preScore", "score")),
    "DynamicResources": InTreePlugin(
        ("preEnqueue", "preFilter", "filter", "postFilter", "reserve"),
        later=((30, "preBind"), (35, "score"), (37, "podGroupPostFilter")),
        earlier=((31, "preScore"), (31, "postBind")),
    ),
    "DefaultPreemption": InTreePlugin(("postFilter",), later=((32, "preEnqueue"), (37, "podGroupPostFilter"))),
    "NodeResourcesBalancedAllocation": InTreePlugin(("preScore", "score")),
    "ImageLocality": InTreePlugin(("score",)),
    "DefaultBinder": InTreePlugin(("bind",)),
    "NodeDeclaredFeatures": InTreePlugin(("preFilter", "filter"), since=35),
    "GangScheduling": InTreePlugin(("preEnqueue", "permit"), since=35, later=((38, "placementFeasible"),)),
    "DeferredPodScheduling": InTreePlugin(("preFilter", "filter", "permit"), since=37),
    "TopologyPlacementGenerator": InTreePlugin(("placementGenerate",), since=36),
    "PodGroupPodsCount": InTreePlugin(("placementScore",), since=36),
}
"""Name -> plugin."""


def in_tree(minor: int) -> dict[str, InTreePlugin]:
    """Return the in-tree plugins of `minor`."""
    return {name: one for name, one in IN_TREE.items() if one.since <= minor <= one.until}


def evaluated_out_of_tree(names: Iterable[str]) -> dict[str, InTreePlugin]:
    """Return the named plugins that are out-of-tree and in the engine's registry."""
    others = [name for name in names if name not in IN_TREE]
    if not others:
        return {}
    # Imported late: importing the engine takes longer than reading a file, and few files name such a plugin.
    from extender.core.framework.plugins import FILTERS, PREFILTERS, SCORES

    tables: dict[str, Container[str]] = {"preFilter": PREFILTERS, "filter": FILTERS, "score": SCORES}
    found = {name: InTreePlugin(tuple(point for point, table in tables.items() if name in table)) for name in others}
    return {name: one for name, one in found.items() if one.points}


def default_plugins(features: Features) -> tuple[tuple[str, int], ...]:
    """Return the default MultiPoint list: (plugin, weight), in order (v1.getDefaultPlugins)."""
    return tuple((name, SCORE_WEIGHTS.get(name, 0)) for name in _default_names(features))


def _default_names(features: Features) -> Iterator[str]:
    # The order decides which plugin names a node's reason: the first plugin that rejects the node.
    first = ("NodeUnschedulable", "NodeName")
    yield from ("SchedulingGates", "PrioritySort", *(reversed(first) if features.node_name_is_prefiltered else first))
    yield from ("TaintToleration", "NodeAffinity", "NodePorts")
    # Before NodeResourcesFit, so that a node without resize preemption is rejected for that reason.
    yield from ("DeferredPodScheduling",) if features.in_place_pod_vertical_scaling_scheduler_preemption else ()
    yield from ("NodeResourcesFit", "VolumeRestrictions")
    yield from ("EBSLimits", "GCEPDLimits") if features.in_tree_volume_limits else ()
    yield "NodeVolumeLimits"
    yield from ("AzureDiskLimits",) if features.in_tree_volume_limits else ()
    yield from ("VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity")
    # Before DefaultPreemption: it is better to deallocate an idle claim than to evict a pod.
    yield from ("DynamicResources",) if features.dynamic_resource_allocation else ()
    yield from ("DefaultPreemption", "NodeResourcesBalancedAllocation", "ImageLocality", "DefaultBinder")
    yield from ("NodeDeclaredFeatures",) if features.node_declared_features else ()
