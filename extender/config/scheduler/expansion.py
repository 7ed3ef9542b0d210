"""Plugins of a profile by extension point: the default list, `enabled`, `disabled` and MultiPoint merged.

Mirrors v1.mergePlugins, and runtime.NewFramework with updatePluginList and expandMultiPointPlugins (v1.36).

Rule: an out-of-tree plugin may implement any extension point; only the points that list it show which.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from extender.config.document import KeyPath, Mistake
from extender.config.scheduler.plugins import EXTENSION_POINTS, IN_TREE, default_plugins, evaluated_out_of_tree, in_tree
from extender.config.scheduler.schema import Plugins, PluginSetSection
from extender.k8s.version.features import Features

Weighted = tuple[str, int]
"""(plugin, weight)."""


@dataclass(frozen=True, slots=True)
class PluginSet:
    """Plugins of one extension point, defaults included (v1.PluginSet)."""

    enabled: tuple[Weighted, ...] = ()
    disabled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expanded:
    """The plugins of a profile, with MultiPoint expanded."""

    points: Mapping[str, tuple[str, ...]]
    """Extension point -> in-tree plugins, in the order in which they run."""
    weights: Mapping[str, int]
    """Score plugin -> weight."""
    foreign: Mapping[str, frozenset[str]]
    """Extension point -> enabled out-of-tree plugins, which may run there."""


def merge_plugins(plugins: Plugins, features: Features) -> dict[str, PluginSet]:
    """Return the plugin sets of all extension points and of multiPoint, with the default plugins."""
    nothing = PluginSetSection()
    sets = {point: _merge((), plugins.get(point, nothing)) for point in EXTENSION_POINTS}
    return {**sets, "multiPoint": _merge(default_plugins(features), plugins.get("multiPoint", nothing))}


def _merge(default: Iterable[Weighted], custom: PluginSetSection) -> PluginSet:
    """Merge one extension point (v1.mergePluginSet): a default plugin that is enabled again keeps its position."""
    disabled = tuple(one.name for one in custom.disabled)
    # Upstream's map of custom plugins keeps the last entry of a name.
    last = {one.name: index for index, one in enumerate(custom.enabled)}
    enabled, replaced = [], set()
    for name, weight in () if "*" in disabled else default:
        if name in disabled:
            continue
        if name in last:
            replaced.add(last[name])
            enabled.append((name, custom.enabled[last[name]].weight or 0))
        else:
            enabled.append((name, weight))
    enabled += [(one.name, one.weight or 0) for index, one in enumerate(custom.enabled) if index not in replaced]
    return PluginSet(tuple(enabled), disabled)


def expand(sets: Mapping[str, PluginSet], minor: int) -> Expanded:
    """Expand MultiPoint: each of its plugins runs at all extension points that it implements."""
    named = dict.fromkeys(name for plugins in sets.values() for name, _ in plugins.enabled)
    registry = in_tree(minor) | evaluated_out_of_tree(named)
    points, foreign = dict[str, tuple[str, ...]](), dict[str, frozenset[str]]()
    everywhere = sets["multiPoint"].enabled
    for point in EXTENSION_POINTS:
        own, disabled = [name for name, _ in sets[point].enabled], sets[point].disabled
        multi = [] if "*" in disabled else [name for name, _ in everywhere if name not in disabled]
        runs = {name for name, one in registry.items() if one.implements(point, minor)}
        # expandMultiPointPlugins: first the MultiPoint plugins that the point configures again, then the other plugins
        # of MultiPoint, then the point's own.
        again, others = [name for name in own if name in multi], [name for name in multi if name not in own]
        points[point] = tuple(name for name in dict.fromkeys((*again, *others, *own)) if name in runs)
        foreign[point] = frozenset({*own, *multi} - registry.keys())
    weights = dict(reversed((*sets["score"].enabled, *everywhere)))  # a weight of `score` overrides that of MultiPoint
    return Expanded(points, {name: weight or 1 for name, weight in weights.items()}, foreign)


def misplaced_plugins(sets: Mapping[str, PluginSet], minor: int, path: KeyPath) -> Iterator[Mistake]:
    """Yield the in-tree plugins at `path` that `minor` lacks, or that do not implement their extension point."""
    # kube-scheduler itself rejects such plugins. We look for them to find the version that a file is for.
    registry = in_tree(minor)
    for point, plugins in sets.items():
        for index, (name, _) in enumerate(plugins.enabled):
            # Indexes in multiPoint are indexes of the merged list, not of the file.
            at = (*path, point, "enabled") if point == "multiPoint" else (*path, point, "enabled", index)
            if name in ("", "*") or (name in IN_TREE and name not in registry):
                yield Mistake(at, f'plugin "{name}" does not exist')
            elif name in registry and point != "multiPoint" and not registry[name].implements(point, minor):
                interface = f"{point[0].upper()}{point[1:]}Plugin"
                yield Mistake(at, f'plugin "{name}" does not extend {interface} plugin')
