"""Settings for replaying calls: the recorded settings, except those that options replace.

Rule: a setting that no option names stays as recorded.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from extender.errors import RecordingError

if TYPE_CHECKING:  # the server and pydantic load slowly: imported only when needed
    from extender.config import Configuration
    from extender.core.profile import KubeScheduler
    from extender.server.replay import SettingsOverride
    from extender.server.settings import Settings


def settings_override(
    config: "Configuration | None" = None,
    preset: str | None = None,
    scheduler_config: str | None = None,
    scheduler_version: str | None = None,
) -> "SettingsOverride":
    """Return a function from recorded settings to the settings to decide by.

    `config` replaces all settings, `preset` the preemption policy, `scheduler_*` kube-scheduler's profiles or version.
    """
    if config is not None:
        from extender.server.replay import settings_of

        return settings_of(config)

    def under(settings: "Settings") -> "Settings":
        if preset is not None:
            settings = _with_preset(settings, preset)
        if scheduler_config is None and scheduler_version is None:
            return settings
        return replace(settings, scheduler=_replaced(settings.scheduler, scheduler_config, scheduler_version))

    return under


def _with_preset(settings: "Settings", preset: str) -> "Settings":
    """Replace the preemption policy; mode Observe and the kill switch are off, so that every call is decided."""
    from extender.config.preemption import PreemptionSection
    from extender.server.settings import Settings

    section = PreemptionSection.model_validate({"preset": preset})
    policy, recorded = section.policy(), settings.scheduler
    keep = 1 if policy.budget_accounting == "Live" else recorded.profiles[0].keep_candidates
    return Settings(recorded.with_preemption(policy, keep), section.on_failure)


def _replaced(recorded: "KubeScheduler", config: str | None, version: str | None) -> "KubeScheduler":
    """Replace the profiles or the version, and keep the preemption policy."""
    from extender.config.scheduler.load import kube_scheduler_of
    from extender.core.profile import UPSTREAM
    from extender.k8s.version.gates import NO_EMULATION

    own = recorded.profiles[0]
    base = replace(UPSTREAM, preemption=own.preemption, keep_candidates=own.keep_candidates)
    is_same = version in (None, "auto", recorded.release)
    is_same_minor = is_same or _minor_of(version) == recorded.minor
    # A different minor has its own feature gates, and emulates no version.
    gates = recorded.changed_gates if is_same_minor else None
    found = kube_scheduler_of(
        {} if config is None else config,
        version=recorded.release if is_same else version,
        feature_gates=gates,
        emulation=recorded.emulation if is_same_minor else NO_EMULATION,
        base=base,
    )
    # A recording has the effective profiles, but not their file: for a different version, they can be rebuilt
    # only if they are the default ones.
    if config is None:
        default = kube_scheduler_of(
            {},
            version=recorded.release,
            feature_gates=recorded.changed_gates,
            emulation=recorded.emulation,
            base=base,
        )
        if default.profiles != recorded.profiles:
            raise RecordingError(
                "the recorded profiles are not kube-scheduler's default: name their --scheduler-config"
            )
    return replace(found, version_source=recorded.version_source) if is_same else found


def _minor_of(version: str | None) -> int | None:
    """Return the minor of a version; None for an invalid one, for which `kube_scheduler_of` raises an error."""
    from extender.k8s.version.versions import supported_version

    try:
        return None if version is None else supported_version(version).minor
    except ValueError:
        return None
