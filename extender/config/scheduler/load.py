"""Read the kube-scheduler that calls this extender: its configuration file or our inline profiles, and its version.

Rule: what kube-scheduler refuses is refused here, with place and reason; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from extender.config.decoding import DecodingError, decode
from extender.config.document import Document, KeyPath, Mistake
from extender.config.scheduler.arguments import ARGS_OF, PluginArgs
from extender.config.scheduler.expansion import expand, merged
from extender.config.scheduler.profile import profile_of
from extender.config.scheduler.schema import KIND, KubeSchedulerConfiguration, ProfileSection
from extender.core.profile import DEFAULT_SCHEDULER_NAME, UPSTREAM, KubeScheduler, Profile
from extender.errors import ConfigError
from extender.k8s.version.features import DEFAULT_MINOR, Features
from extender.k8s.version.minor import FoundVersion, supported_minor

if TYPE_CHECKING:  # models imports the schema of this package
    from extender.config.models import Configuration

INLINE_NAME: Final = "configuration"
"""Name in messages of a document that is not a file."""

_EXAMPLE: Final = f"kind: {KIND}"


@dataclass(frozen=True, slots=True)
class Version:
    """The version that profiles are expanded for."""

    minor: int
    source: str
    features: Features


def load_kube_scheduler(config: Configuration, found: FoundVersion | None = None) -> KubeScheduler:
    """Return the kube-scheduler that `scheduler` of the configuration describes; raises ConfigError.

    `found` is the version that `scheduler.version: auto` stands for; without one it is DEFAULT_MINOR.
    """
    return read_scheduler(config).resolve(found)


def read_scheduler(config: Configuration) -> SchedulerSource:
    """Read what `scheduler` of the configuration says, its file included; raises ConfigError."""
    section = config.scheduler
    if section.config is not None:
        return SchedulerSource(config, Document.read(Path(section.config), _EXAMPLE))
    inline = {
        "profiles": [one.model_dump(by_alias=True, exclude_unset=True) for one in section.profiles or ()],
        "percentageOfNodesToScore": section.percentage_of_nodes_to_score,
    }
    return SchedulerSource(config, Document(INLINE_NAME, {"scheduler": inline}), ("scheduler",))


@dataclass(frozen=True, slots=True)
class SchedulerSource:
    """What was read of kube-scheduler's configuration; the version may still be found in the cluster, and change."""

    config: Configuration
    document: Document
    at: KeyPath = ()
    """Path of the KubeSchedulerConfiguration in the document."""

    def resolve(self, found: FoundVersion | None) -> KubeScheduler:
        """Return the kube-scheduler, given the version that `scheduler.version: auto` stands for; ConfigError."""
        section, preemption = self.config.scheduler, self.config.preemption
        version = _version(None if section.version == "auto" else section.version, section.feature_gates, found)
        keep = None if preemption.keep_candidates == "All" else preemption.keep_candidates
        base = replace(UPSTREAM, preemption=preemption.policy(), keep_candidates=keep)
        return _kube_scheduler(self.document, version, base, self.at)


def kube_scheduler_of(
    document: Mapping[str, Any] | str | Path,
    *,
    version: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    base: Profile = UPSTREAM,
) -> KubeScheduler:
    """Return the kube-scheduler of a KubeSchedulerConfiguration, as a mapping or the path of a file.

    `version` such as "1.33"; `base` holds the preemption policy. Raises ConfigError.
    """
    told = _version(version, feature_gates or {}, None)
    if isinstance(document, Mapping):
        return _kube_scheduler(Document("KubeSchedulerConfiguration", dict(document)), told, base)
    return _kube_scheduler(Document.read(Path(document), _EXAMPLE), told, base)


def read_configuration(path: Path) -> tuple[KubeSchedulerConfiguration, Document]:
    """Return a KubeSchedulerConfiguration file decoded, without defaults, and its document, which knows the lines."""
    document = Document.read(path, _EXAMPLE)
    return _decoded(document, ()), document


def _version(version: str | None, gates: Mapping[str, bool], found: FoundVersion | None) -> Version:
    try:
        if version is not None:
            minor, source = supported_minor(version), "configured"
        else:
            minor, source = (found.minor, found.source) if found else (DEFAULT_MINOR, "default")
        return Version(minor, source, Features.of(minor, gates))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _kube_scheduler(document: Document, version: Version, base: Profile, at: KeyPath = ()) -> KubeScheduler:
    config = _decoded(document, at)
    sections = config.profiles or [ProfileSection()]
    profiles, mistakes = [], []
    for index, section in enumerate(sections):
        path = (*at, "profiles", index)
        name = section.scheduler_name
        if name is None and len(sections) == 1:
            name = DEFAULT_SCHEDULER_NAME
        args, wrong = _plugin_args(section, path)
        expanded, refused = expand(merged(section.plugins, version.features), version.minor, path)
        mistakes += wrong + refused
        if not wrong:
            profiles.append(profile_of(name or "", expanded, args, base))
    if mistakes:
        raise document.refuse(mistakes)
    ignored = frozenset(
        one.name for extender in config.extenders for one in extender.managed_resources if one.ignored_by_scheduler
    )
    names = frozenset(one.scheduler_name for one in profiles)
    return KubeScheduler(
        tuple(
            replace(one, scheduler_names=names, ignored_resources=ignored or one.ignored_resources) for one in profiles
        ),
        version.features,
        version.minor,
        version.source,
        config.percentage_of_nodes_to_score or 0,
    )


def _decoded(document: Document, at: KeyPath) -> KubeSchedulerConfiguration:
    data: Any = document.data
    for key in at:
        data = data[key]
    try:
        return decode(KubeSchedulerConfiguration, data, at)
    except DecodingError as error:
        raise document.refuse(error.mistakes) from error


def _plugin_args(section: ProfileSection, path: KeyPath) -> tuple[dict[str, PluginArgs], list[Mistake]]:
    args: dict[str, PluginArgs] = {}
    mistakes: list[Mistake] = []
    for index, one in enumerate(section.plugin_config):
        if one.name in ARGS_OF:
            try:
                args[one.name] = decode(ARGS_OF[one.name], one.args or {}, (*path, "pluginConfig", index, "args"))
            except DecodingError as error:
                mistakes += error.mistakes
    return args, mistakes
