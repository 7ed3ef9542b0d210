"""Limits of KubeSchedulerConfiguration (ValidateKubeSchedulerConfiguration, v1.36), after defaulting.

What kube-scheduler refuses only when it builds plugins is in `expansion`.

Rule: every mistake is yielded, with upstream's path and reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from extender.config.document import KeyPath, Mistake
from extender.config.scheduler.argument_validation import Release, validate_args
from extender.config.scheduler.arguments import PluginArgs
from extender.config.scheduler.expansion import PluginSet
from extender.config.scheduler.field_errors import duplicate, invalid, label_name, required
from extender.config.scheduler.schema import (
    API_VERSION,
    ClientConnectionSection,
    ExtenderSection,
    KubeSchedulerConfiguration,
    LeaderElectionSection,
    PluginConfigSection,
    nanoseconds_of,
)
from extender.k8s.requests import is_extended

FIT: Final = "NodeResourcesFit"

REMOVED_PLUGINS: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugins that the v1 configuration does not take at a specific extension point (invalidPluginsByVersion)."""

_UNCHECKED_POINTS: Final = frozenset({"multiPoint", "placementGenerate", "placementScore"})
"""Extension points at which REMOVED_PLUGINS are not looked for."""

_DEFAULT_PARALLELISM: Final = 16
_DEFAULT_INITIAL_BACKOFF_SECONDS: Final = 1
_DEFAULT_MAX_BACKOFF_SECONDS: Final = 10
_LEASE_DEFAULTS: Final = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"}


@dataclass(frozen=True, slots=True)
class DefaultedProfile:
    """A profile after defaulting and merging."""

    path: KeyPath
    name: str
    percentage_of_nodes_to_score: int | None
    sets: Mapping[str, PluginSet]
    """Extension point, or multiPoint -> plugins."""
    config: Sequence[PluginConfigSection]
    args: Mapping[int, PluginArgs]
    """Position in `config` -> arguments, where the plugin takes typed ones."""

    def builds(self, plugin: str) -> bool:
        """Return whether the plugin is enabled anywhere, and so built."""
        return any(name == plugin for plugins in self.sets.values() for name, _ in plugins.enabled)

    def args_of(self, plugin: str) -> PluginArgs | None:
        """Return the arguments that are configured for the plugin."""
        return next((args for index, args in self.args.items() if self.config[index].name == plugin), None)

    def raw_args_of(self, plugin: str) -> Any:
        """Return the arguments of a plugin as they are written."""
        return next((one.args for one in self.config if one.name == plugin), None)


def validate(
    config: KubeSchedulerConfiguration, profiles: Sequence[DefaultedProfile], at: KeyPath, release: Release
) -> Iterator[Mistake]:
    """Yield what kube-scheduler refuses of the configuration at `at`."""
    yield from _client_connection(config.client_connection, (*at, "clientConnection"))
    yield from _leader_election(config.leader_election, (*at, "leaderElection"))
    parallelism = _DEFAULT_PARALLELISM if config.parallelism is None else config.parallelism
    if parallelism <= 0:
        yield invalid((*at, "parallelism"), parallelism, "should be an integer value greater than zero")
    yield from _profiles(profiles, release)
    yield from _common_queue_sort(profiles)
    yield from _percentage((*at, "percentageOfNodesToScore"), config.percentage_of_nodes_to_score)
    yield from _backoff(config, at)
    yield from _extenders(config.extenders, (*at, "extenders"))


def _client_connection(section: ClientConnectionSection, path: KeyPath) -> Iterator[Mistake]:
    if section.burst < 0:
        yield invalid((*path, "burst"), section.burst, "must be non-negative")


def _leader_election(section: LeaderElectionSection, path: KeyPath) -> Iterator[Mistake]:
    if section.leader_elect is False:
        return
    given = section.model_dump(by_alias=True)
    texts = {
        key: default if given[key] is None or nanoseconds_of(given[key]) == 0 else given[key]
        for key, default in _LEASE_DEFAULTS.items()
    }
    lengths = {key: nanoseconds_of(text) for key, text in texts.items()}
    for key, length in lengths.items():
        if length <= 0:
            yield invalid((*path, key), texts[key], "must be greater than zero")
    if lengths["leaseDuration"] <= lengths["renewDeadline"]:
        yield invalid((*path, "leaseDuration"), texts["renewDeadline"], "must be greater than `RenewDeadline`")
    if section.resource_lock not in ("", "leases"):
        yield invalid((*path, "resourceLock"), section.resource_lock, 'resourceLock value must be "leases"')


def _backoff(config: KubeSchedulerConfiguration, at: KeyPath) -> Iterator[Mistake]:
    initial, largest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    initial = _DEFAULT_INITIAL_BACKOFF_SECONDS if initial is None else initial
    largest = _DEFAULT_MAX_BACKOFF_SECONDS if largest is None else largest
    if initial <= 0:
        yield invalid((*at, "podInitialBackoffSeconds"), initial, "must be greater than 0")
    if largest < initial:
        reason = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid((*at, "podMaxBackoffSeconds"), largest, reason)


def _percentage(path: KeyPath, percentage: int | None) -> Iterator[Mistake]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


# --- profiles -------------------------------------------------------------------------------------------------------


def _profiles(profiles: Sequence[DefaultedProfile], release: Release) -> Iterator[Mistake]:
    seen: set[str] = set()
    for one in profiles:
        if one.name == "":
            yield required((*one.path, "schedulerName"))
        yield from _percentage((*one.path, "percentageOfNodesToScore"), one.percentage_of_nodes_to_score)
        for point, plugins in one.sets.items():
            for index, (name, _) in enumerate(plugins.enabled):
                if name in REMOVED_PLUGINS and point not in _UNCHECKED_POINTS:
                    yield _removed((*one.path, "plugins", point, "enabled", index), name)
        yield from _plugin_config(one, release)
        if one.name in seen:
            yield duplicate((*one.path, "schedulerName"), one.name)
        seen.add(one.name)


def _removed(path: KeyPath, name: str) -> Mistake:
    return invalid(path, name, f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")')


def _plugin_config(profile: DefaultedProfile, release: Release) -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, one in enumerate(profile.config):
        path = (*profile.path, "pluginConfig", index)
        if one.name in seen:
            yield duplicate(path, one.name)
        seen.add(one.name)
        if one.name in REMOVED_PLUGINS:
            yield _removed(path, one.name)
        elif index in profile.args and (one.name != FIT or profile.builds(FIT)):
            # kube-scheduler looks at the arguments of NodeResourcesFit only when it builds the plugin.
            yield from validate_args(one.name, profile.args[index], (*path, "args"), release)


def _common_queue_sort(profiles: Sequence[DefaultedProfile]) -> Iterator[Mistake]:
    first, *others = profiles
    canon = first.sets["queueSort"]
    if len(canon.enabled) > 1:
        path = (*first.path, "plugins", "queueSort", "enabled")
        yield invalid(path, len(canon.enabled), "only one queue sort plugin can be enabled")
    for one in others:
        if one.sets["queueSort"] != canon:
            names = [name for name, _ in one.sets["queueSort"].enabled]
            yield invalid((*one.path, "plugins", "queueSort"), names, "must be the same for all profiles")
        for name, _ in canon.enabled[:1]:
            args = [config.args for config in one.config if config.name == name]
            if args and args[0] != first.raw_args_of(name):
                path = (*one.path, "pluginConfig", "args")
                yield invalid(path, args[0], "queueSort must be the same for all profiles")


# --- extenders ------------------------------------------------------------------------------------------------------


def _extenders(extenders: Sequence[ExtenderSection], path: KeyPath) -> Iterator[Mistake]:
    managed: set[str] = set()
    for index, one in enumerate(extenders):
        at = (*path, index)
        if one.prioritize_verb and one.weight <= 0:
            yield invalid((*at, "weight"), one.weight, "must have a positive weight applied to it")
        for number, resource in enumerate(one.managed_resources):
            name_path = (*at, "managedResources", number, "name")
            yield from _extended_resource_name(name_path, resource.name)
            if resource.name in managed:
                yield invalid(name_path, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(one.bind_verb != "" for one in extenders)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid(path, found, "only one extender can implement bind")


def _extended_resource_name(path: KeyPath, name: str) -> Iterator[Mistake]:
    mistakes = list(label_name(path, name))
    if not mistakes and not is_extended(name):
        mistakes = [invalid(path, name, "is an invalid extended resource name")]
    yield from mistakes


# --- profiles once their plugins are known ---------------------------------------------------------------------------


def validate_queue_sorts(profiles: Sequence[DefaultedProfile], plugins: Sequence[str | None]) -> Iterator[Mistake]:
    """Yield the profiles whose queue sort plugin, or its arguments, differ from the first one's (profile.NewMap)."""
    known = [(profile, plugin) for profile, plugin in zip(profiles, plugins, strict=True) if plugin is not None]
    for profile, plugin in known[1:]:
        first, canon = known[0]
        if plugin != canon:
            reason = f'different queue sort plugins for profile "{profile.name}": "{plugin}", first: "{canon}"'
            yield Mistake((*profile.path, "plugins", "queueSort"), reason)
        elif profile.raw_args_of(plugin) != first.raw_args_of(plugin):
            reason = f'different queue sort plugin args for profile "{profile.name}"'
            yield Mistake((*profile.path, "pluginConfig"), reason)
