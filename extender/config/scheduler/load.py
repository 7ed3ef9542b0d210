"""Read the kube-scheduler that calls this extender: its configuration file or our inline profiles, and its version.

Rule: what cannot be read is refused with place and reason; what kube-scheduler itself refuses to start with is its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic.alias_generators import to_camel

from extender.config.decoding import DecodingError, decode
from extender.config.document import Document, KeyPath, Mistake
from extender.config.scheduler.arguments import PluginArgs, decode_args
from extender.config.scheduler.expansion import PluginSet, expand, merge_plugins, misplaced_plugins
from extender.config.scheduler.profile import profile_of
from extender.config.scheduler.schema import (
    API_VERSION,
    GROUP_POINTS_SINCE,
    KIND,
    KubeSchedulerConfiguration,
    ProfileSection,
    kubernetes_scalar,
)
from extender.core.profile import DEFAULT_SCHEDULER_NAME, UPSTREAM, KubeScheduler, Profile
from extender.errors import ConfigError
from extender.k8s.version.features import (
    DEFAULT_MINOR,
    NEWEST_MINOR,
    NO_EMULATION,
    OLDEST_MINOR,
    Emulation,
    Features,
)
from extender.k8s.version.minor import FoundVersion

if TYPE_CHECKING:  # models imports the schema of this package
    from extender.config.models import Configuration

INLINE_NAME: Final = "configuration"
"""Name in messages of a document that is not a file."""

ASSUMED_MINORS: Final = (*range(DEFAULT_MINOR, OLDEST_MINOR - 1, -1), *range(DEFAULT_MINOR + 1, NEWEST_MINOR + 1))
"""Minors that are tried in this order while none is set or found; the first that the configuration fits is assumed."""

ASSUMED: Final = "assumed, because the configuration fits it and no version was found in the cluster"
"""Source of a minor that was assumed."""

_EXAMPLE: Final = f"kind: {KIND}"


@dataclass(frozen=True, slots=True)
class SchedulerDocument:
    """A KubeSchedulerConfiguration as it was read: decoded, without defaults."""

    document: Document
    """Knows the lines."""
    config: KubeSchedulerConfiguration
    at: KeyPath = ()
    """Path of the KubeSchedulerConfiguration in the document."""


@dataclass(frozen=True, slots=True)
class SchedulerSource:
    """What was read of kube-scheduler's configuration; the version may still be found in the cluster, and change."""

    config: Configuration
    read: SchedulerDocument

    def resolve(self, found: FoundVersion | None) -> KubeScheduler:
        """Return the kube-scheduler, given the version that `scheduler.version: auto` stands for; ConfigError."""
        try:
            return self._resolve(found)
        except ConfigError as error:
            other = self._assumed() if found is None else None
            if other is None:
                raise
            assumed = f"scheduler.version is auto: none was found, so 1.{DEFAULT_MINOR} is taken"
            raise ConfigError(f"{error}\n{assumed}; {other.version} accepts this") from error

    def assume(self) -> KubeScheduler:
        """Return the kube-scheduler of the version that is set, else of the first that accepts this; ConfigError.

        With auto, before a cluster has said its version, a file that only some versions accept may be right.
        """
        return self._assumed() or self._resolve(None)

    def _assumed(self) -> KubeScheduler | None:
        """Return the kube-scheduler of the first minor that accepts this; None: none does, or a version is set."""
        if self.config.scheduler.version != "auto":
            return None
        for minor in ASSUMED_MINORS:
            with contextlib.suppress(ConfigError):
                return self._resolve(FoundVersion(minor, ASSUMED) if minor != DEFAULT_MINOR else None)
        return None

    def _resolve(self, found: FoundVersion | None) -> KubeScheduler:
        section = self.config.scheduler
        version = None if section.version == "auto" else section.version
        try:
            release = _release(version, section.feature_gates, section.emulation, found)
        except _RefusedFlag as error:
            raise ConfigError(f"scheduler.{error.key}: {error}") from error
        preemption = self.config.preemption
        base = replace(UPSTREAM, preemption=preemption.policy(), keep_candidates=preemption.most_candidates)
        return _kube_scheduler(self.read, release, base)


@dataclass(frozen=True, slots=True)
class _Release:
    """The kube-scheduler that profiles are expanded for, and where its version was found."""

    found: FoundVersion
    features: Features
    emulation: Emulation


class _RefusedFlag(ConfigError):
    """A flag that kube-scheduler does not start with; `key` is our setting for it."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


def load_kube_scheduler(config: Configuration, found: FoundVersion | None = None) -> KubeScheduler:
    """Return the kube-scheduler that `scheduler` of the configuration describes; raises ConfigError.

    `found` is the version that `scheduler.version: auto` stands for; without one it is DEFAULT_MINOR.
    """
    return read_scheduler(config).resolve(found)


def read_scheduler(config: Configuration) -> SchedulerSource:
    """Read what `scheduler` of the configuration says, its file included; raises ConfigError."""
    if config.scheduler.config is not None:
        return SchedulerSource(config, _read(Path(config.scheduler.config)))
    return SchedulerSource(config, _inline(config, Document(INLINE_NAME)))


def check_section(config: Configuration, document: Document) -> None:
    """Raise ConfigError, with the lines of the document, for what the section `scheduler` itself says wrong.

    With version auto, it is wrong only if every supported version refuses it.
    """
    section = config.scheduler
    versions = range(NEWEST_MINOR, OLDEST_MINOR - 1, -1)
    candidates = [f"1.{minor}" for minor in versions] if section.version == "auto" else [section.version]
    refused: ConfigError | None = None
    for version in candidates:
        try:
            release = _release(version, section.feature_gates, section.emulation, None)
        except _RefusedFlag as error:
            refused = refused or document.refuse([Mistake(("scheduler", error.key), str(error))])
            continue
        try:
            if section.config is None:
                _kube_scheduler(_inline(config, document), release, UPSTREAM)
        except ConfigError as error:
            refused = refused or error
        else:
            return
    if refused is not None:
        raise refused


def read_configuration(path: Path) -> tuple[KubeSchedulerConfiguration, Document]:
    """Return a KubeSchedulerConfiguration file decoded, without defaults, and its document, which knows the lines."""
    read = _read(path)
    return read.config, read.document


def kube_scheduler_of(
    document: Mapping[str, Any] | str | Path,
    *,
    version: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    emulation: Emulation = NO_EMULATION,
    base: Profile = UPSTREAM,
) -> KubeScheduler:
    """Return the kube-scheduler of a KubeSchedulerConfiguration, as a mapping or the path of a file.

    `version` such as "1.33"; `base` holds the preemption policy; an empty mapping is kube-scheduler without a file.
    Raises ConfigError.
    """
    release = _release(version, feature_gates or {}, emulation, None)
    if isinstance(document, Mapping):
        data = dict(document) or {"apiVersion": API_VERSION, "kind": KIND}
        return _kube_scheduler(_decoded(Document(KIND, data)), release, base)
    return _kube_scheduler(_read(Path(document)), release, base)


# --- steps ----------------------------------------------------------------------------------------------------------


def _read(path: Path) -> SchedulerDocument:
    return _decoded(Document.read(path, _EXAMPLE, kubernetes_scalar))


def _inline(config: Configuration, document: Document) -> SchedulerDocument:
    section = config.scheduler
    values = KubeSchedulerConfiguration(
        profiles=section.profiles, percentage_of_nodes_to_score=section.percentage_of_nodes_to_score
    )
    return SchedulerDocument(document, values, ("scheduler",))


def _release(
    version: str | None, gates: Mapping[str, bool], emulation: Emulation, found: FoundVersion | None
) -> _Release:
    if not isinstance(version, str | None):
        raise ConfigError(f'version must be text such as "1.33", not {version!r}')
    found = found or FoundVersion(DEFAULT_MINOR, "default")
    key = "version"
    try:
        if version is not None:
            found = FoundVersion.configured(version)
        key = "emulatedVersion"
        replace(emulation, min_compatibility=None).of(found.minor)
        key = "minCompatibilityVersion"
        emulation.of(found.minor)
        key = "featureGates"
        return _Release(found, Features.of(found.version, gates, emulation), emulation)
    except ValueError as error:
        raise _RefusedFlag(key, str(error)) from error


def _decoded(document: Document) -> SchedulerDocument:
    data = document.data
    if data.get("kind") in (None, "") or data.get("apiVersion") in (None, ""):
        missing = "kind" if data.get("kind") in (None, "") else "apiVersion"
        raise document.refuse([Mistake((), f"{missing} is missing: expected {KIND} of {API_VERSION}")])
    if (data["apiVersion"], data["kind"]) != (API_VERSION, KIND):
        reason = f'no kind "{data["kind"]}" is registered for version "{data["apiVersion"]}": expected {KIND} of '
        path = ("kind",) if data["kind"] != KIND else ("apiVersion",)
        raise document.refuse([Mistake(path, f"{reason}{API_VERSION}")])
    try:
        return SchedulerDocument(document, decode(KubeSchedulerConfiguration, data))
    except DecodingError as error:
        raise document.refuse(error.mistakes) from None


def _kube_scheduler(read: SchedulerDocument, release: _Release, base: Profile) -> KubeScheduler:
    """Fill in defaults and expand the plugins."""
    config, mistakes = read.config, list[Mistake]()
    sections = config.profiles or [ProfileSection()]
    only_name = DEFAULT_SCHEDULER_NAME if len(sections) == 1 else ""
    names = [only_name if one.scheduler_name is None else one.scheduler_name for one in sections]
    general = config.percentage_of_nodes_to_score or 0
    base = replace(base, scheduler_names=frozenset(names), percentage_of_nodes_to_score=general)
    profiles: list[Profile] = []
    for index, (name, section) in enumerate(zip(names, sections, strict=True)):
        path = (*read.at, "profiles", index)
        if name in names[:index]:
            mistakes.append(Mistake((*path, "schedulerName"), f'duplicate name "{name}"'))
        profile, wrong = _profile(section, path, release, replace(base, scheduler_name=name))
        profiles.append(profile)
        mistakes += wrong
    if mistakes:
        raise read.document.refuse(mistakes)
    ungated = frozenset(one.scheduler_name for one in profiles if "SchedulingGates" not in one.pre_enqueue_plugins)
    # The resources that an extender manages replace those that a profile's arguments ignore (buildExtenders).
    ignored = frozenset(
        one.name for extender in config.extenders for one in extender.managed_resources if one.ignored_by_scheduler
    )
    return KubeScheduler(
        tuple(
            replace(one, ungated_scheduler_names=ungated, ignored_resources=ignored or one.ignored_resources)
            for one in profiles
        ),
        release.features,
        release.found.minor,
        "; ".join(filter(None, (release.found.source, str(release.emulation)))),
        release.found.patch,
        release.emulation,
    )


def _profile(section: ProfileSection, path: KeyPath, release: _Release, base: Profile) -> tuple[Profile, list[Mistake]]:
    """Return the profile at `path`, and what is wrong with it."""
    minor, percentage = release.found.minor, section.percentage_of_nodes_to_score
    sets = merge_plugins(section.plugins, release.features)
    args, mistakes = _plugin_args(section, sets, path, minor)
    mistakes += _unknown_points(section, path, minor) or misplaced_plugins(sets, minor, (*path, "plugins"))
    profile = profile_of(expand(sets, minor), args, base)
    return profile if percentage is None else replace(profile, percentage_of_nodes_to_score=percentage), mistakes


def _plugin_args(
    section: ProfileSection, sets: Mapping[str, PluginSet], path: KeyPath, minor: int
) -> tuple[dict[str, PluginArgs], list[Mistake]]:
    """Return plugin -> its arguments, of the plugins that are enabled anywhere: only those are built."""
    built = {name for plugins in sets.values() for name, _ in plugins.enabled}
    args: dict[str, PluginArgs] = {}
    mistakes: list[Mistake] = []
    for index, one in enumerate(section.plugin_config):
        if one.name not in built or one.name in args:
            continue
        try:
            decoded = decode_args(one.name, one.args, (*path, "pluginConfig", index, "args"), minor)
        except DecodingError as error:
            mistakes += error.mistakes
        else:
            args |= {one.name: decoded} if decoded is not None else {}
    return args, mistakes


def _unknown_points(section: ProfileSection, path: KeyPath, minor: int) -> list[Mistake]:
    """Return the extension points that the version does not know."""
    given = set() if section.plugins is None else section.plugins.model_fields_set
    return [
        Mistake((*path, "plugins", to_camel(name)), f"unknown key in 1.{minor}")
        for name, since in GROUP_POINTS_SINCE.items()
        if name in given and minor < since
    ]
