"""Read the kube-scheduler that calls this extender: its configuration file or our inline profiles, and its version.

Rule: what kube-scheduler refuses is refused here, with place and reason; nothing is guessed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic.alias_generators import to_camel

from extender.config.decoding import DecodingError, decode
from extender.config.document import Document, KeyPath, Mistake
from extender.config.scheduler.argument_validation import Release
from extender.config.scheduler.arguments import PluginArgs, decode_args
from extender.config.scheduler.expansion import Expanded, expand, merge_plugins
from extender.config.scheduler.profile import profile_of
from extender.config.scheduler.schema import (
    API_VERSION,
    GROUP_POINTS_SINCE,
    KIND,
    KubernetesDocument,
    KubeSchedulerConfiguration,
    ProfileSection,
)
from extender.config.scheduler.validation import FIT, DefaultedProfile, validate, validate_queue_sorts
from extender.core.profile import DEFAULT_SCHEDULER_NAME, UPSTREAM, KubeScheduler, Profile
from extender.errors import ConfigError
from extender.k8s.version.features import Features
from extender.k8s.version.minor import FoundVersion
from extender.k8s.version.versions import DEFAULT_MINOR, NEWEST_MINOR, NO_EMULATION, OLDEST_MINOR, Emulation

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
class _FoundRelease(Release):
    """The kube-scheduler that profiles are expanded for, its patch, and where its version was found."""

    found: FoundVersion
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
    return _decoded(KubernetesDocument.read(path, _EXAMPLE))


def _inline(config: Configuration, document: Document) -> SchedulerDocument:
    section = config.scheduler
    values = KubeSchedulerConfiguration(
        profiles=section.profiles, percentage_of_nodes_to_score=section.percentage_of_nodes_to_score
    )
    return SchedulerDocument(document, values, ("scheduler",))


def _release(
    version: str | None, gates: Mapping[str, bool], emulation: Emulation, found: FoundVersion | None
) -> _FoundRelease:
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
        return _FoundRelease(found.minor, Features.of(found.version, gates, emulation), found, emulation)
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


def _kube_scheduler(read: SchedulerDocument, release: _FoundRelease, base: Profile) -> KubeScheduler:
    """Default, validate and expand; a step runs only if the one before found no mistake, as in kube-scheduler."""
    defaulted, mistakes = _defaulted(read, release)
    mistakes = mistakes or list(validate(read.config, defaulted, read.at, release))
    if mistakes:
        raise read.document.refuse(mistakes)
    expanded, mistakes = _expanded(defaulted, release.minor)
    mistakes = mistakes or list(_ignored_without_fit(read.config, defaulted))
    if mistakes:
        raise read.document.refuse(mistakes)
    # The resources that an extender manages replace those that the profile's arguments ignore (buildExtenders).
    ignored = frozenset(_ignored_by_scheduler(read.config))
    shared = replace(base, scheduler_names=frozenset(one.name for one in defaulted))
    profiles = [profile_of(one, plugins, shared) for one, plugins in zip(defaulted, expanded, strict=True)]
    ungated = frozenset(one.scheduler_name for one in profiles if "SchedulingGates" not in one.pre_enqueue_plugins)
    general = read.config.percentage_of_nodes_to_score or 0
    return KubeScheduler(
        tuple(
            replace(
                profile,
                ungated_scheduler_names=ungated,
                ignored_resources=ignored or profile.ignored_resources,
                percentage_of_nodes_to_score=general if own is None else own,
            )
            for profile, own in zip(profiles, (one.percentage_of_nodes_to_score for one in defaulted), strict=True)
        ),
        release.features,
        release.minor,
        "; ".join(filter(None, (release.found.source, str(release.emulation)))),
        release.found.patch,
        release.emulation,
    )


def _expanded(profiles: Sequence[DefaultedProfile], minor: int) -> tuple[list[Expanded], list[Mistake]]:
    """Return the plugins of each profile, and what kube-scheduler refuses about them."""
    found = [expand(one.sets, minor, one.path) for one in profiles]
    expanded = [one for one, _ in found]
    mistakes = [mistake for _, refused in found for mistake in refused]
    queue_sorts = [_queue_sort(*one) for one in zip(profiles, expanded, strict=True)]
    return expanded, mistakes or list(validate_queue_sorts(profiles, queue_sorts))


def _ignored_by_scheduler(config: KubeSchedulerConfiguration) -> Iterator[str]:
    for extender in config.extenders:
        yield from (one.name for one in extender.managed_resources if one.ignored_by_scheduler)


def _defaulted(read: SchedulerDocument, release: Release) -> tuple[list[DefaultedProfile], list[Mistake]]:
    """Return the profiles after defaulting, and what does not decode in this version."""
    sections = read.config.profiles or [ProfileSection()]
    only_name = DEFAULT_SCHEDULER_NAME if len(sections) == 1 else ""
    profiles: list[DefaultedProfile] = []
    mistakes: list[Mistake] = []
    for index, section in enumerate(sections):
        path = (*read.at, "profiles", index)
        args, wrong = _plugin_args(section, path, release.minor)
        mistakes += [*_unknown_points(section, path, release.minor), *wrong]
        name = only_name if section.scheduler_name is None else section.scheduler_name
        sets = merge_plugins(section.plugins, release.features)
        percentage = section.percentage_of_nodes_to_score
        profiles.append(DefaultedProfile(path, name, percentage, sets, section.plugin_config, args))
    return profiles, mistakes


def _plugin_args(section: ProfileSection, path: KeyPath, minor: int) -> tuple[dict[int, PluginArgs], list[Mistake]]:
    args: dict[int, PluginArgs] = {}
    mistakes: list[Mistake] = []
    for index, one in enumerate(section.plugin_config):
        try:
            decoded = decode_args(one.name, one.args, (*path, "pluginConfig", index, "args"), minor)
        except DecodingError as error:
            mistakes += error.mistakes
        else:
            args |= {index: decoded} if decoded is not None else {}
    return args, mistakes


def _unknown_points(section: ProfileSection, path: KeyPath, minor: int) -> list[Mistake]:
    """Return the extension points that the version does not know."""
    given = set() if section.plugins is None else section.plugins.model_fields_set
    return [
        Mistake((*path, "plugins", to_camel(name)), f"unknown key in 1.{minor}")
        for name, since in GROUP_POINTS_SINCE.items()
        if name in given and minor < since
    ]


def _queue_sort(profile: DefaultedProfile, plugins: Expanded) -> str | None:
    """Return the queue sort plugin; None where only MultiPoint may name it, one that is not in-tree."""
    own = [name for name, _ in profile.sets["queueSort"].enabled]
    return next(iter((*plugins.points["queueSort"], *own)), None)


def _ignored_without_fit(config: KubeSchedulerConfiguration, profiles: Sequence[DefaultedProfile]) -> Iterator[Mistake]:
    """Yield the profiles that cannot take what extenders tell NodeResourcesFit to ignore (buildExtenders)."""
    for one in profiles if any(_ignored_by_scheduler(config)) else ():
        if not one.builds(FIT) and all(config.name != FIT for config in one.config):
            yield Mistake(one.path, "can't find NodeResourcesFitArgs in plugin config, for ignoredByScheduler")
