"""Which plugins a profile runs at each extension point: default list, `enabled`, `disabled` and MultiPoint merged.

Mirrors v1.mergePlugins, frameworkImpl.updatePluginList, expandMultiPointPlugins and getValidScoreWeights (v1.36).

Rule: a plugin that is not in-tree may implement any extension point; only what names it says which.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from extender.config.document import KeyPath, Mistake
from extender.config.scheduler.plugins import EXTENSION_POINTS, InTreePlugin, default_plugins, in_tree
from extender.config.scheduler.schema import PluginSetSection, PluginsSection
from extender.k8s.version.features import Features

MAX_TOTAL_SCORE = 2**63 - 1
MAX_NODE_SCORE = 100

Weighted = tuple[str, int]
"""(plugin, weight)."""


@dataclass(frozen=True, slots=True)
class PluginSet:
    """One extension point after the default list is merged (v1.PluginSet)."""

    enabled: tuple[Weighted, ...]
    disabled: frozenset[str]


@dataclass(frozen=True, slots=True)
class Expanded:
    """The plugins of a profile."""

    points: Mapping[str, tuple[str, ...]]
    """Extension point -> in-tree plugins that run there, in order."""
    weights: Mapping[str, int]
    """Score plugin -> weight."""
    foreign: Mapping[str, frozenset[str]]
    """Extension point -> enabled plugins that are not in-tree and may run there."""
    named: frozenset[str]
    """All plugins that are enabled anywhere."""


def merged(plugins: PluginsSection | None, features: Features) -> dict[str, PluginSet]:
    """Return the plugin set of every extension point and of multiPoint."""
    given = plugins or PluginsSection()
    sets = {point: _merge((), _section(given, point)) for point in EXTENSION_POINTS}
    sets["multiPoint"] = _merge(default_plugins(features), given.multi_point)
    return sets


def expand(sets: Mapping[str, PluginSet], minor: int, path: KeyPath) -> tuple[Expanded, list[Mistake]]:
    """Return the plugins of the profile at `path`, and what kube-scheduler refuses about them."""
    registry = in_tree(minor)
    mistakes: list[Mistake] = []
    points = {}
    for point in EXTENSION_POINTS:
        at = (*path, "plugins", point, "enabled")
        mistakes += _mistakes_at(point, sets[point], registry, minor, at)
        points[point] = tuple(_expand_point(point, sets, registry, minor))
    mistakes += _repeated_in_multi_point(sets["multiPoint"], (*path, "plugins", "multiPoint", "enabled"))
    named = frozenset(name for one in sets.values() for name, _ in one.enabled)
    weights = _weights([*sets["score"].enabled, *sets["multiPoint"].enabled])
    if sum(weights[name] for name in points["score"]) * MAX_NODE_SCORE > MAX_TOTAL_SCORE:
        mistakes.append(Mistake((*path, "plugins", "score"), "total score of Score plugins could overflow"))
    foreign = {point: _foreign(sets, registry, point) for point in EXTENSION_POINTS}
    return Expanded(points, weights, foreign, named), mistakes


def _section(plugins: PluginsSection, point: str) -> PluginSetSection:
    values: Iterable[PluginSetSection] = (
        getattr(plugins, name) for name, info in PluginsSection.model_fields.items() if info.alias == point
    )
    return next(iter(values))


def _merge(default: Iterable[Weighted], custom: PluginSetSection) -> PluginSet:
    """Merge one extension point (v1.mergePluginSet): a default plugin that is enabled again keeps its position."""
    disabled = frozenset(one.name for one in custom.disabled)
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


def _mistakes_at(
    point: str, plugins: PluginSet, registry: Mapping[str, InTreePlugin], minor: int, path: KeyPath
) -> Iterator[Mistake]:
    """Yield what updatePluginList refuses."""
    interface = f"{point[0].upper()}{point[1:]}Plugin"
    seen: set[str] = set()
    for index, (name, _) in enumerate(plugins.enabled):
        if name in registry and not registry[name].implements(point, minor):
            yield Mistake((*path, index, "name"), f'plugin "{name}" does not extend {interface} plugin')
        elif name in seen:
            yield Mistake((*path, index, "name"), f'plugin "{name}" already registered as "{interface}"')
        seen.add(name)


def _repeated_in_multi_point(plugins: PluginSet, path: KeyPath) -> Iterator[Mistake]:
    names = [name for name, _ in plugins.enabled]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Mistake(path, f'plugin "{name}" already registered')


def _expand_point(
    point: str, sets: Mapping[str, PluginSet], registry: Mapping[str, InTreePlugin], minor: int
) -> Iterator[str]:
    """Yield the plugins that run at the extension point, in order (expandMultiPointPlugins)."""
    own = dict.fromkeys(name for name, _ in sets[point].enabled)
    disabled = sets[point].disabled
    if "*" in disabled:
        yield from (name for name in own if name in registry)
        return
    multi = [
        name
        for name, _ in sets["multiPoint"].enabled
        if name in registry and registry[name].implements(point, minor) and name not in disabled
    ]
    yield from (name for name in own if name in multi)  # MultiPoint plugins that the point configures again
    yield from (name for name in dict.fromkeys(multi) if name not in own)
    yield from (name for name in own if name not in multi and name in registry)


def _weights(enabled: Iterable[Weighted]) -> dict[str, int]:
    """Return the weights of score plugins: those of `score` before those of MultiPoint, 0 is 1."""
    weights: dict[str, int] = {}
    for name, weight in enabled:
        weights.setdefault(name, weight or 1)
    return weights


def _foreign(sets: Mapping[str, PluginSet], registry: Mapping[str, InTreePlugin], point: str) -> frozenset[str]:
    """Return the plugins that are not in-tree and may run at the extension point."""
    own = {name for name, _ in sets[point].enabled}
    disabled = sets[point].disabled
    multi = () if "*" in disabled else (name for name, _ in sets["multiPoint"].enabled if name not in disabled)
    return frozenset(own.union(multi) - set(registry))
