"""Which plugins a profile runs at each extension point: default list, `enabled`, `disabled` and MultiPoint merged.

Mirrors v1.mergePlugins, and runtime.NewFramework with updatePluginList, expandMultiPointPlugins and
getValidScoreWeights (v1.36).

Rule: a plugin that is not in-tree may implement any extension point; only the points that name it say which.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from extender.config.document import KeyPath, Mistake
from extender.config.scheduler.plugins import (
    EXTENSION_POINTS,
    IN_TREE,
    InTreePlugin,
    default_plugins,
    evaluated_out_of_tree,
    in_tree,
)
from extender.config.scheduler.schema import PluginSetSection, PluginsSection
from extender.k8s.version.features import Features

MAX_TOTAL_SCORE: Final = 2**63 - 1
MAX_NODE_SCORE: Final = 100

Weighted = tuple[str, int]
"""(plugin, weight)."""


@dataclass(frozen=True, slots=True)
class PluginSet:
    """One extension point after the default list is merged (v1.PluginSet)."""

    enabled: tuple[Weighted, ...] = ()
    disabled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expanded:
    """The plugins of a profile."""

    points: Mapping[str, tuple[str, ...]]
    """Extension point -> in-tree plugins that run there, in order."""
    weights: Mapping[str, int]
    """Score plugin -> weight."""
    foreign: Mapping[str, frozenset[str]]
    """Extension point -> enabled plugins that are not in-tree and may run there."""


def merge_plugins(plugins: PluginsSection | None, features: Features) -> dict[str, PluginSet]:
    """Return the plugin set of every extension point and of multiPoint."""
    given = plugins or PluginsSection()
    sets = {point: _merge((), _section(given, point)) for point in EXTENSION_POINTS}
    sets["multiPoint"] = _merge(default_plugins(features), given.multi_point)
    return sets


def _section(plugins: PluginsSection, point: str) -> PluginSetSection:
    values: Iterable[PluginSetSection] = (
        getattr(plugins, name) for name, info in PluginsSection.model_fields.items() if info.alias == point
    )
    return next(iter(values))


def _merge(default: Iterable[Weighted], custom: PluginSetSection) -> PluginSet:
    """Merge one extension point (v1.mergePluginSet): a default plugin that is enabled again keeps its position."""
    disabled = tuple(one.name for one in custom.disabled)
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


def expand(sets: Mapping[str, PluginSet], minor: int, path: KeyPath) -> tuple[Expanded, list[Mistake]]:
    """Return the plugins of the profile at `path`, and what kube-scheduler refuses about them."""
    named = dict.fromkeys(name for plugins in sets.values() for name, _ in plugins.enabled)
    one = _Expansion(sets, in_tree(minor) | evaluated_out_of_tree(named), minor, (*path, "plugins"))
    points = {point: tuple(one.plugins_at(point)) for point in EXTENSION_POINTS}
    foreign = {point: one.foreign_at(point) for point in EXTENSION_POINTS}
    mistakes = [*one.unknown(), *(mistake for point in EXTENSION_POINTS for mistake in one.mistakes_at(point))]
    if not mistakes:
        mistakes = [*one.wrong_counts(points, foreign), *one.overflows("score"), *one.overflows("placementScore")]
    return Expanded(points, one.weights("score"), foreign), mistakes


@dataclass(frozen=True, slots=True)
class _Expansion:
    """The plugin sets of a profile, and the registry that they are expanded with."""

    sets: Mapping[str, PluginSet]
    registry: Mapping[str, InTreePlugin]
    minor: int
    path: KeyPath

    def plugins_at(self, point: str) -> Iterator[str]:
        """Yield the in-tree plugins that run at the extension point, in order (expandMultiPointPlugins)."""
        own = dict.fromkeys(name for name, _ in self.sets[point].enabled if name in self.registry)
        multi = dict.fromkeys(self._multi_point_at(point))
        yield from (name for name in own if name in multi)  # MultiPoint plugins that the point configures again
        yield from (name for name in multi if name not in own)
        yield from (name for name in own if name not in multi)

    def foreign_at(self, point: str) -> frozenset[str]:
        """Return the plugins that are not in-tree and may run at the extension point."""
        own = {name for name, _ in self.sets[point].enabled}
        disabled = self.sets[point].disabled
        multi = () if "*" in disabled else (name for name, _ in self.sets["multiPoint"].enabled)
        return frozenset(own.union(set(multi) - set(disabled)) - set(self.registry))

    def _multi_point_at(self, point: str) -> list[str]:
        """Return the in-tree plugins of MultiPoint that implement the extension point and are not disabled there."""
        disabled = self.sets[point].disabled
        return [
            name
            for name, _ in self.sets["multiPoint"].enabled
            if self._implements(name, point) and "*" not in disabled and name not in disabled
        ]

    def _implements(self, name: str, point: str) -> bool:
        return name in self.registry and self.registry[name].implements(point, self.minor)

    def weights(self, point: str) -> dict[str, int]:
        """Return the weights of `score` or `placementScore`: its own before those of MultiPoint, and 0 is 1."""
        weights: dict[str, int] = {}
        for name, weight in self._scored(point):
            weights.setdefault(name, weight or 1)
        return weights

    def _scored(self, point: str) -> Iterator[Weighted]:
        yield from self.sets[point].enabled
        yield from (one for one in self.sets["multiPoint"].enabled if self._implements(one[0], point))

    def unknown(self) -> Iterator[Mistake]:
        """Yield the in-tree plugins that this minor does not have; other names are plugins that are not in-tree."""
        for point, plugins in self.sets.items():
            for index, (name, _) in enumerate(plugins.enabled):
                if name in ("", "*") or (name in IN_TREE and name not in self.registry):
                    # The positions of multiPoint are those of the merged list, not the file's.
                    place = () if point == "multiPoint" else (index,)
                    yield Mistake((*self.path, point, "enabled", *place), f'plugin "{name}" does not exist')

    def mistakes_at(self, point: str) -> Iterator[Mistake]:
        """Yield what updatePluginList and expandMultiPointPlugins refuse."""
        interface = f"{point[0].upper()}{point[1:]}Plugin"
        own: set[str] = set()
        for index, (name, _) in enumerate(self.sets[point].enabled):
            at = (*self.path, point, "enabled", index)
            if name in self.registry and not self._implements(name, point):
                yield Mistake(at, f'plugin "{name}" does not extend {interface} plugin')
            elif name in own:
                yield Mistake(at, f'plugin "{name}" already registered as "{interface}"')
            own.add(name)
        multi = [name for name in self._multi_point_at(point) if name not in own]
        for name in dict.fromkeys(name for name in multi if multi.count(name) > 1):
            at = (*self.path, "multiPoint", "enabled")
            yield Mistake(at, f'plugin "{name}" already registered as "{interface}"')

    def wrong_counts(
        self, points: Mapping[str, tuple[str, ...]], foreign: Mapping[str, frozenset[str]]
    ) -> Iterator[Mistake]:
        """Yield the extension points with too many or too few plugins, as far as the names tell."""

        def most(point: str) -> int:
            return len({*points[point], *foreign[point]})

        def least(point: str) -> int:
            return len({*points[point], *(name for name, _ in self.sets[point].enabled)})

        if least("queueSort") > 1 or most("queueSort") < 1:
            reason = f"only one queue sort plugin required, but got {least('queueSort')}"
            yield Mistake((*self.path, "queueSort"), reason)
        if most("bind") < 1:
            yield Mistake((*self.path, "bind"), "at least one bind plugin is needed")
        if least("placementGenerate") > 1:
            yield Mistake((*self.path, "placementGenerate"), "at most one placement generate plugin is allowed")

    def overflows(self, point: str) -> Iterator[Mistake]:
        """Yield the mistake of weights whose sum exceeds int64, or is negative before the last one.

        Mirrors getValidScoreWeights, whose own subtraction overflows once the sum so far is negative.
        """
        total = 0
        for weight in self.weights(point).values():
            left = MAX_TOTAL_SCORE - total if total >= 0 else -(2**63) - total - 1
            if weight * MAX_NODE_SCORE > left:
                yield Mistake((*self.path, point), "total score of Score plugins could overflow")
                return
            total += weight * MAX_NODE_SCORE
