"""Read the kube-scheduler that calls this extender: its configuration file or our inline profiles, and its version.

1. Read: decode the file into the sections of `schema`, without defaults.
2. Default: fill in the profile and the names that are left out.
3. Expand: merge each plugin set with the default one, then expand MultiPoint (`expansion`).
4. Merge plugin args: let the arguments of each enabled plugin set its fields of Profile (`arguments`).

Steps 2 to 4 depend on the version and are repeated when a different version is found; the file is read once.

Rule: a value that cannot be read is refused with place and reason; kube-scheduler itself refuses other mistakes.
"""

import contextlib
from collections.abc import Callable, Container, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from extender.config.decoding import DecodingError, decode
from extender.config.document import Document, KeyPath, Mistake
from extender.config.models import Configuration
from extender.config.scheduler.arguments import args_type
from extender.config.scheduler.check import other_extenders
from extender.config.scheduler.expansion import expand, merge_plugins, misplaced_plugins
from extender.config.scheduler.file import SECOND_DOCUMENT, read_scheduler_file, scheduler_document
from extender.config.scheduler.plugins import GROUP_POINTS_SINCE
from extender.config.scheduler.schema import (
    API_VERSION,
    KIND,
    KubeSchedulerConfiguration,
    ProfileSection,
)
from extender.core.profile import DEFAULT_SCHEDULER_NAME, UNCONFIGURED, UPSTREAM, KubeScheduler, Profile
from extender.errors import ConfigError
from extender.k8s.version.features import Features
from extender.k8s.version.found import FoundVersion
from extender.k8s.version.gates import NO_EMULATION, Emulation
from extender.k8s.version.versions import DEFAULT_MINOR, NEWEST_MINOR, NEWEST_VERIFIED, OLDEST_MINOR

# Order in which minors are tried if none is set or found; the first minor that accepts the file is assumed.
ASSUMED_MINORS: Final = (*range(DEFAULT_MINOR, OLDEST_MINOR - 1, -1), *range(DEFAULT_MINOR + 1, NEWEST_MINOR + 1))

MAX_DECODINGS: Final = 8
"""Maximum number of times that a file is decoded to find the mistakes behind others."""

ASSUMED: Final = "assumed, because the configuration fits it and no version was found in the cluster"
"""Source of an assumed minor."""

# In-tree plugins that can reject a pod but that we don't evaluate. DynamicResources is reported per pod.
NOT_EVALUATED: Final = frozenset({"GangScheduling"})


@dataclass(frozen=True, slots=True)
class SchedulerDocument:
    """A KubeSchedulerConfiguration after step 1."""

    document: Document
    """File and lines of the values."""
    config: KubeSchedulerConfiguration
    path: KeyPath = ()
    """Path of the KubeSchedulerConfiguration in the document."""


@dataclass(frozen=True, slots=True)
class SchedulerSource:
    """kube-scheduler's configuration after step 1, to be resolved for the version that is found in the cluster."""

    config: Configuration
    read: SchedulerDocument | None
    """None if only the flags are checked."""
    document: Document | None = None
    """Our own configuration file, if its lines are known."""

    def resolve(self, found: FoundVersion | None) -> KubeScheduler:
        """Return the kube-scheduler; `found` replaces `scheduler.version: auto`. Raises ConfigError."""
        try:
            return self._resolve(found)
        except ConfigError as error:
            # Tell the operator if only the default version is at fault.
            other = self._assumed() if found is None else None
            if other is None:
                raise
            assumed = f"scheduler.version is auto: no version was found, so 1.{DEFAULT_MINOR} is assumed"
            raise ConfigError(f"{error}\n{assumed}; {other.version} accepts this") from error

    def assume(self) -> KubeScheduler:
        """Return the kube-scheduler of the configured version, else of the first version that accepts this.

        Raises ConfigError. With auto, a file that only some versions accept may be right: the version is found later.
        """
        return self._assumed() or self._resolve(None)

    def _assumed(self) -> KubeScheduler | None:
        """Return the kube-scheduler of the first minor that accepts this; None if no minor does or a version is set."""
        if self.config.scheduler.version != "auto":
            return None
        for minor in ASSUMED_MINORS:
            with contextlib.suppress(ConfigError):
                # The default version keeps its own source: nothing had to be assumed.
                return self._resolve(FoundVersion(minor, ASSUMED) if minor != DEFAULT_MINOR else None)
        return None

    def refused_by(self) -> dict[str, str]:
        """Return version -> first mistake of the file, for the versions that refuse it; `auto` may find any of them."""
        refused, name = {}, "" if self.read is None else self.read.document.name
        for minor in range(OLDEST_MINOR, NEWEST_VERIFIED.minor + 1):
            try:
                self._resolve(FoundVersion(minor, ASSUMED))
            except ConfigError as error:
                if str(error).startswith(name):  # rather than a feature gate that the version lacks
                    refused[f"1.{minor}"] = str(error).splitlines()[0]
        return refused

    def _resolve(self, found: FoundVersion | None) -> KubeScheduler:
        section, preemption = self.config.scheduler, self.config.preemption
        version = None if section.version == "auto" else section.version
        release = _release(version, section.feature_gates, section.emulation, found, self._refuse)
        base = replace(UPSTREAM, preemption=preemption.policy(), keep_candidates=preemption.most_candidates)
        return release if self.read is None else _with_profiles(release, self.read, base, self.config)

    def _refuse(self, key: str, reason: str) -> ConfigError:
        if self.document is None:
            return ConfigError(f"scheduler.{key}: {reason}")
        return self.document.refuse([Mistake(("scheduler", key), reason)])


def load_kube_scheduler(config: Configuration, found: FoundVersion | None = None) -> KubeScheduler:
    """Return the kube-scheduler described by `scheduler` of the configuration. Raises ConfigError.

    `found` replaces `scheduler.version: auto`; without `found`, auto means DEFAULT_MINOR.
    """
    return read_scheduler(config).resolve(found)


def read_scheduler(config: Configuration) -> SchedulerSource:
    """Read the file that `scheduler.config` names, or the inline profiles. Raises ConfigError."""
    if config.scheduler.config is None:
        return SchedulerSource(config, _inline(config, Document("configuration")))
    document = read_scheduler_file(Path(config.scheduler.config))
    decoded, mistakes = _decode(document)
    source = SchedulerSource(config, SchedulerDocument(document, decoded))
    if not mistakes:
        return source
    refused = document.refuse(mistakes)
    # The rest of the file may have mistakes of later steps. One at the same place is a consequence of the first.
    lines = str(refused).splitlines()
    try:
        source.assume()
    except ConfigError as error:
        places = {tuple(line.split(": ")[:2]) for line in lines}
        lines += [line for line in str(error).splitlines() if tuple(line.split(": ")[:2]) not in places]
    raise ConfigError("\n".join(lines))


def check_section(config: Configuration, document: Document) -> None:
    """Raise ConfigError, with the lines of the document, for mistakes in `scheduler`; its file is not read."""
    inline = _inline(config, document) if config.scheduler.config is None else None
    SchedulerSource(config, inline, document).assume()


def read_configuration(path: Path) -> SchedulerDocument:
    """Decode a KubeSchedulerConfiguration file, without defaults. Raises ConfigError."""
    return _decoded(read_scheduler_file(path))


def kube_scheduler_of(
    document: Mapping[str, Any] | str | Path,
    *,
    version: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    emulation: Emulation = NO_EMULATION,
    base: Profile = UPSTREAM,
) -> KubeScheduler:
    """Return the kube-scheduler of a KubeSchedulerConfiguration, given as a mapping or the path of a file.

    `version` such as "1.33"; `base` has the preemption policy; an empty mapping is kube-scheduler without a file.
    Raises ConfigError.
    """
    release = _release(version, feature_gates or {}, emulation)
    if isinstance(document, Mapping):
        read = _decoded(scheduler_document(document))
    else:
        read = read_configuration(Path(document))
    return _with_profiles(release, read, base, Configuration())


# --- the steps ------------------------------------------------------------------------------------------------------


def _inline(config: Configuration, document: Document) -> SchedulerDocument:
    section = config.scheduler
    values = KubeSchedulerConfiguration(
        profiles=section.profiles, percentage_of_nodes_to_score=section.percentage_of_nodes_to_score
    )
    return SchedulerDocument(document, values, ("scheduler",))


def _decoded(document: Document) -> SchedulerDocument:
    config, mistakes = _decode(document)
    if mistakes:
        raise document.refuse(mistakes)
    return SchedulerDocument(document, config)


def _decode(document: Document) -> tuple[KubeSchedulerConfiguration, list[Mistake]]:
    """Return the configuration without its wrong values, and the mistakes."""
    mistakes = []
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        given = document.data.get(key)
        if given != expected:
            mistakes.append(Mistake((key,), f"must be {expected}{f', not {given}' if given else ''}"))
    # Another kind's keys are all unknown here.
    data = {} if mistakes else document.data
    for _ in range(MAX_DECODINGS):
        try:
            return decode(KubeSchedulerConfiguration, data), mistakes
        except DecodingError as error:
            mistakes += error.mistakes
            data = deepcopy(data)
            for one in error.mistakes:
                _remove(data, one.path)
    return KubeSchedulerConfiguration(), mistakes


def _remove(data: Any, path: KeyPath) -> None:
    """Remove the value at the path; an item of a list becomes null, so that the others keep their index."""
    for key in path[:-1]:
        data = data[key]
    if isinstance(data, list):
        data[int(path[-1])] = None
    else:
        data.pop(path[-1], None)


def _release(
    version: str | None,
    gates: Mapping[str, bool],
    emulation: Emulation,
    found: FoundVersion | None = None,
    refuse: Callable[[str, str], ConfigError] = lambda _, reason: ConfigError(reason),
) -> KubeScheduler:
    """Return the kube-scheduler with the given flags, without profiles.

    `refuse`: (our setting for a flag that kube-scheduler does not start with, reason) -> error.
    """
    if not isinstance(version, str | None):
        raise ConfigError(f'version must be text such as "1.33", not {version!r}')
    found = found or FoundVersion(DEFAULT_MINOR, UNCONFIGURED.version_source)
    # Each flag is tried by itself, so that `key` names the flag at fault.
    key = "version"
    try:
        if version is not None:
            found = FoundVersion.configured(version)
        key = "emulatedVersion"
        replace(emulation, min_compatibility=None).of(found.minor)
        key = "minCompatibilityVersion"
        emulation.of(found.minor)
        key = "featureGates"
        features = Features.of(found.version, gates, emulation)
    except ValueError as error:
        raise refuse(key, str(error)) from error
    source = "; ".join(filter(None, (found.source, str(emulation))))
    return KubeScheduler((), features, found.minor, source, found.patch, emulation)


def _with_profiles(
    release: KubeScheduler, read: SchedulerDocument, base: Profile, settings: Configuration
) -> KubeScheduler:
    """Return the kube-scheduler with its profiles: steps 2 to 4 of each. Raises ConfigError.

    `settings`: ours, by which our entry of `extenders` is known.
    """
    config, mistakes = read.config, list[Mistake]()
    # 2. Default: only a single profile gets the default name (SetDefaults_KubeSchedulerConfiguration).
    sections = config.profiles or [ProfileSection()]
    only_name = DEFAULT_SCHEDULER_NAME if len(sections) == 1 else ""
    names = [only_name if one.scheduler_name is None else one.scheduler_name for one in sections]
    general = config.percentage_of_nodes_to_score or 0
    base = replace(base, scheduler_names=frozenset(names), percentage_of_nodes_to_score=general)
    profiles: list[Profile] = []
    for index, (name, section) in enumerate(zip(names, sections, strict=True)):
        path = (*read.path, "profiles", index)
        if name in names[:index]:
            mistakes.append(Mistake((*path, "schedulerName"), f'duplicate name "{name}"'))
        profile, wrong = _profile(section, path, release, replace(base, scheduler_name=name))
        profiles.append(profile)
        mistakes += wrong
    if mistakes:
        raise read.document.refuse(mistakes)
    # 5. Fields that depend on all profiles, and on the extenders.
    ungated = frozenset(one.scheduler_name for one in profiles if "SchedulingGates" not in one.pre_enqueue_plugins)
    # Resources with ignoredByScheduler of any extender replace the ignored resources of each profile (buildExtenders).
    ignored = frozenset(
        one.name for extender in config.extenders for one in extender.managed_resources if one.ignored_by_scheduler
    )
    others = other_extenders(config, settings)
    profiles = [
        replace(
            one,
            ungated_scheduler_names=ungated,
            ignored_resources=ignored or one.ignored_resources,
            other_extenders=others,
        )
        for one in profiles
    ]
    return replace(release, profiles=tuple(profiles), has_second_document=SECOND_DOCUMENT in read.document.places)


def _profile(
    section: ProfileSection, path: KeyPath, release: KubeScheduler, base: Profile
) -> tuple[Profile, list[Mistake]]:
    """Return the profile at `path`, and its mistakes."""
    minor, percentage = release.minor, section.percentage_of_nodes_to_score
    # 3. Expand: plugin sets with their defaults, then MultiPoint.
    sets = merge_plugins(section.plugins, release.features)
    mistakes = _unknown_points(section, path, minor) or list(misplaced_plugins(sets, minor, (*path, "plugins")))
    expanded = expand(sets, minor)
    points, foreign = expanded.points, expanded.foreign
    # 4. Merge plugin args, only for enabled plugins: kube-scheduler builds no other plugins.
    enabled = {name for plugins in sets.values() for name, _ in plugins.enabled}
    by_args, wrong = _fields_by_args(section, enabled, path, minor)
    profile = replace(
        base,
        pre_enqueue_plugins=points["preEnqueue"],
        prefilter_plugins=points["preFilter"],
        filter_plugins=points["filter"],
        post_filter_plugins=points["postFilter"],
        prescore_plugins=points["preScore"],
        score_weights=tuple((plugin, expanded.weights[plugin]) for plugin in points["score"]),
        not_evaluated_filters=tuple(sorted(foreign["preFilter"] | foreign["filter"])),
        not_evaluated_scores=tuple(sorted(foreign["preScore"] | foreign["score"])),
        not_evaluated_post_filters=tuple(sorted(foreign["postFilter"])),
        not_evaluated_others=tuple(sorted(foreign["preEnqueue"] | (NOT_EVALUATED & set(points["preEnqueue"])))),
        percentage_of_nodes_to_score=base.percentage_of_nodes_to_score if percentage is None else percentage,
        **by_args,
    )
    return profile, mistakes + wrong


def _fields_by_args(
    section: ProfileSection, enabled: Container[str], path: KeyPath, minor: int
) -> tuple[dict[str, Any], list[Mistake]]:
    """Return the fields of Profile that the arguments of enabled plugins set, and mistakes."""
    fields, mistakes = dict[str, Any](), list[Mistake]()
    for index, one in enumerate(section.plugin_config):
        kind = args_type(one.name, minor)
        if kind is None or one.args is None or one.name not in enabled:
            continue
        try:
            fields |= decode(kind, one.args, (*path, "pluginConfig", index, "args")).profile_fields()
        except DecodingError as error:
            mistakes += error.mistakes
    return fields, mistakes


def _unknown_points(section: ProfileSection, path: KeyPath, minor: int) -> list[Mistake]:
    """Return a mistake for each extension point that the version does not have."""
    return [
        Mistake((*path, "plugins", point), f"unknown key in 1.{minor}")
        for point in section.plugins
        if minor < GROUP_POINTS_SINCE.get(point, OLDEST_MINOR)
    ]
