"""The settings in effect, and the reload of the two configuration files they come from: ours and kube-scheduler's.

`extender.utilities.file_watch` decides when a changed file is reloaded: at most 6 s after the change. An upgrade of
kube-scheduler, where its version is looked for in the cluster, changes the settings too.

Rule: an invalid file never replaces valid settings; a mistake in kube-scheduler's keeps kube-scheduler's previous
configuration, and never keeps ours, with its kill switch, from taking effect.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.config.scheduler.load import ASSUMED, SchedulerSource, load_kube_scheduler, read_scheduler
from extender.core.profile import UNCONFIGURED, KubeScheduler
from extender.k8s.version.found import FoundVersion
from extender.k8s.version.gates import gate_notes, gate_warnings
from extender.utilities.daemon_thread import ReloadThread
from extender.utilities.file_watch import POLL_INTERVAL_SECONDS, ChangeDetector, signature_of

log = logging.getLogger(__name__)

Adopt = Callable[[KubeScheduler, Callable[[], None]], Awaitable[None]]
"""Prepares the cluster cache for a kube-scheduler and calls the second argument at the moment of the change."""

ADOPT_RETRY_SECONDS = 60.0
"""Seconds after which the cluster cache is prepared again, if a bug ended the preparation for changed settings."""

RESTART_ONLY_SECTIONS = (
    "cluster",
    "bind",
    "server",
    "admin",
    "debug",
    "recording",
    "log",
    "audit",
    "events",
    "tracing",
)
"""Sections whose changes take effect only after a restart."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that answers depend on; replaced as a whole, so that no answer mixes two configurations."""

    scheduler: KubeScheduler
    """The kube-scheduler that calls: its profiles, with our preemption policy in each, and its version."""
    on_preempt_failure: Literal["Error", "Veto"] = "Error"
    is_observing: bool = False
    """`mode: Observe`: decide, log and count, but answer as if no extender were configured."""
    kill_switch: Literal["Veto", "PassThrough"] | None = None
    """The answer to `/preempt` while the kill switch is on and nothing is decided; None: the kill switch is off."""

    @classmethod
    def from_config(cls, config: Configuration, found: FoundVersion | None = None) -> "Settings":
        """Return the settings; `found`: the version of kube-scheduler in the cluster. Raises ConfigError."""
        return cls.of(config, load_kube_scheduler(config, found))

    @classmethod
    def of(cls, config: Configuration, scheduler: KubeScheduler) -> "Settings":
        """Return the settings for this kube-scheduler."""
        return cls(
            scheduler,
            config.preemption.on_failure,
            config.mode == "Observe",
            config.kill_switch.preempt if config.kill_switch.enabled else None,
        )

    @property
    def has_default_version(self) -> bool:
        """Return whether the version of kube-scheduler was neither set nor found."""
        return self.scheduler.version_source in (UNCONFIGURED.version_source, ASSUMED)

    @property
    def needs_cluster(self) -> bool:
        """Return whether answers need the cluster cache; with the kill switch or in mode Observe they never do."""
        return self.kill_switch is None and not self.is_observing

    def notes(self) -> list[str]:
        """Return one line per setting that keeps decisions from being answered: kill switch, mode Observe."""
        notes = []
        if self.kill_switch is not None:
            preempt = {"Veto": "no pod is evicted", "PassThrough": "kube-scheduler evicts the victims it chose"}
            notes.append(f"kill switch: on: every node is accepted, none is scored, {preempt[self.kill_switch]}")
        if self.is_observing:
            notes.append("mode: Observe: decisions are counted and logged, but not answered")
        return notes


@dataclass(frozen=True, slots=True)
class Loaded:
    """Configuration files as read, and kube-scheduler's version: when it changes, no file is read again."""

    config: Configuration
    scheduler: SchedulerSource
    """kube-scheduler's own configuration, from its file or inline; the previous one if reading it failed since."""
    found: FoundVersion | None = None
    """The version of kube-scheduler in the cluster."""

    @classmethod
    def from_config(cls, config: Configuration, found: FoundVersion | None = None) -> "Loaded":
        """Read kube-scheduler's own configuration; raises ConfigError."""
        return cls(config, read_scheduler(config), found)

    def settings(self) -> Settings:
        """Return the settings; raises ConfigError.

        Before a live cluster has said its version, feature gates that only that version has are no mistake yet.
        """
        is_early = self.found is None and self.takes_found_version and self.config.cluster.source == "kubernetes"
        return self.settings_by(self.scheduler.assume() if is_early else self.scheduler.resolve(self.found))

    def settings_by(self, scheduler: KubeScheduler) -> Settings:
        """Return our own settings, preemption policy included, with profiles and version of this kube-scheduler."""
        own = self.config.preemption
        return Settings.of(self.config, scheduler.with_preemption(own.policy(), own.most_candidates))

    @property
    def takes_found_version(self) -> bool:
        """Return whether the version is the one that is found in the cluster, and not a configured one."""
        return self.scheduler.config.scheduler.version == "auto"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The configuration file and how to reload it."""

    path: Path | None
    """None: only the file of kube-scheduler is followed."""
    load: Callable[[], Configuration]
    """Function that returns the configuration that a restart would use now; raises ConfigError if it is invalid."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the configuration files as they are now are not in effect; each reason has one line per error."""

    unread: str | None = None
    """Why a file could not be read at the last reload."""
    refused: str | None = None
    """Why kube-scheduler would refuse what was read of its configuration."""
    undecidable: str | None = None
    """Why nothing is decided until a configuration that fits the version found is in effect."""


class LiveSettings:
    """The settings in effect; `run()`, as a task, reloads them when a configuration file changes.

    `active` follows `target` at once, or as soon as the cluster cache is prepared for it (`_set_target`). What cannot
    become the target is a `failure`.
    """

    def __init__(
        self, config: Configuration, file: ConfigFile | None = None, found: FoundVersion | None = None
    ) -> None:
        """`found`: the version of kube-scheduler that is in the cluster; raises ConfigError."""
        self._loaded = Loaded.from_config(config, found)
        self.active = self.target = self._loaded.settings()
        self.failure = Failure()
        self.cache: ClusterCache | None = None
        """Cluster cache of which decisions are made; None: there is none that depends on the settings."""
        self.adopt: Adopt | None = None
        """Function that prepares `cache` for other settings while decisions are still made by the old ones."""
        self.on_scheduler: Callable[[KubeScheduler], None] = lambda _: None
        """Called with another kube-scheduler before it takes effect."""
        self._preparing: asyncio.Task[None] | None = None
        self._startup_config = config
        self._file = file
        self._changes = ChangeDetector(must_settle=False)
        self._thread = ReloadThread("configuration")

    @property
    def is_valid(self) -> bool:
        """Return whether the configuration files as they are now are in effect, and fit the version that was found."""
        return self.failure.unread is None and self.failure.refused is None

    @property
    def problem(self) -> str | None:
        """Return why no settings are fit to decide by: none was ever valid for the version that was found; or None."""
        return self.failure.undecidable if self.active.has_default_version else None

    @property
    def restart_required(self) -> list[str]:
        """Return the changed keys that take effect only after a restart."""
        return _changed_keys(self._startup_config, self._loaded.config)

    def warnings(self) -> list[str]:
        """Return one line per warning for the operator: active switches, a failed reload, a pending restart."""
        lines = self.active.notes() + self._thread.warnings()
        use = "nothing is decided by it" if self.problem is not None else "using the previous one"
        for errors in (self.failure.unread, self.failure.refused):
            lines += [f"configuration: {error}; {use}" for error in (errors or "").splitlines()]
        if self.target != self.active:
            lines.append("configuration: changed, takes effect once the cluster cache is prepared")
        if restart_required := self.restart_required:
            lines.append(f"configuration: changed, restart required: {', '.join(restart_required)}")
        return lines

    async def run(self) -> None:
        """Poll the files until cancelled."""
        self._log_scheduler(self.active.scheduler)
        for note in self.active.notes():
            log.warning("%s", note)
        while self._file is not None:
            await self._file.sleep(self._thread.pause(POLL_INTERVAL_SECONDS))
            await self.poll(self._file)

    async def poll(self, file: ConfigFile) -> bool:
        """Check the files once; return whether the target has changed. Never raises: an error is logged and kept."""
        was_valid, before, restart_before = self.is_valid, self.target, self.restart_required
        try:
            # kube-scheduler's file is followed even if our file that names it was refused.
            named = self._loaded.config.scheduler.config
            now = await self._thread.run(signature_of, [path for path in (file.path, named) if path is not None])
            if not self._changes.should_reload(now):
                return False
            config = await self._thread.run(file.load)
            self._loaded = replace(self._loaded, config=config)
            scheduler = await self._thread.run(read_scheduler, config)
            self._loaded = replace(self._loaded, scheduler=scheduler)
            self.failure = replace(self.failure, unread=None)
        except Exception as error:  # even a bug of ours must not end the reload loop
            self._record_failure(error)
        self._resolve()
        if (restart_required := self.restart_required) and restart_required != restart_before:
            log.warning("configuration: changed, restart required: %s", ", ".join(restart_required))
        is_new = self.target != before
        if is_new or (self.is_valid and not was_valid):
            log.info("configuration reloaded")
        return is_new

    def use_version(self, found: FoundVersion | None) -> None:
        """Use the version of kube-scheduler that is in the cluster from now on. Never raises, as `poll`."""
        self._loaded = replace(self._loaded, found=found)
        self._resolve()

    def _resolve(self) -> None:
        """Set the target from the latest read. If kube-scheduler's file is invalid, keep its previous profiles."""
        loaded, found = self._loaded, self._loaded.found
        try:
            settings = loaded.settings()
            undecidable = None if settings.has_default_version else self.failure.undecidable
            self.failure = replace(self.failure, refused=None, undecidable=undecidable)
        except Exception as error:
            version = (
                f", for kube-scheduler {found.version} ({found.source})" if found and loaded.takes_found_version else ""
            )
            self._refuse([f"{line}{version}" for line in str(error).splitlines()])
            settings = loaded.settings_by(self.target.scheduler)
        self._set_target(settings)

    def _refuse(self, errors: Sequence[str]) -> None:
        refused, undecidable = "\n".join(errors), self.failure.undecidable
        if self._loaded.found is not None:
            undecidable = f"kube-scheduler's configuration is not valid: {'; '.join(errors)}"
        if refused != self.failure.refused:
            for line in errors:
                log.error("kube-scheduler's configuration is not valid, keeping the previous one: %s", line)
        self.failure = replace(self.failure, refused=refused, undecidable=undecidable)

    def _set_target(self, settings: Settings) -> None:
        """Apply the settings at once, but preemption policies and switches once the cluster cache is prepared for them.

        Until then, calls are judged by the previous kube-scheduler as a whole: a profile belongs to its version.
        """
        if settings == self.target:
            return
        target, active = settings.scheduler, self.active.scheduler
        if target != self.target.scheduler:
            self._log_scheduler(target)
            self.on_scheduler(target)
        self.target = settings
        for note in settings.notes():
            log.warning("%s", note)
        if self._preparing is not None:
            self._preparing.cancel()
        if self.cache is None or self.adopt is None or not self.cache.version:
            if self.cache is not None:
                self.cache.prepare_for(target)
            self.active = settings
        elif target.preemption == active.preemption and target.features == active.features:
            self.active = settings
        else:
            self.active = replace(settings, scheduler=active)
            self._preparing = asyncio.create_task(self._activate_when_prepared(settings, self.adopt), name="adopt")

    def _log_scheduler(self, scheduler: KubeScheduler) -> None:
        """Log version and profiles, what is not evaluated, and feature gates that are not followed."""
        log.info("%s", scheduler_line(scheduler))
        for line in not_evaluated_lines(scheduler):
            log.warning("%s", line)
        gates = self._loaded.config.scheduler.feature_gates
        for warning in gate_warnings(gates, scheduler.minor, scheduler.emulation):
            log.warning("%s", warning)
        for note in gate_notes(gates):
            log.info("%s", note)

    async def _activate_when_prepared(self, settings: Settings, adopt: Adopt) -> None:
        is_active = False

        def activate() -> None:
            nonlocal is_active
            self.active, self._preparing, is_active = settings, None, True
            log.info("new settings applied")

        while True:
            try:
                return await adopt(settings.scheduler, activate)
            except Exception:
                if is_active:
                    log.exception("new settings applied, but closing the old cluster cache failed")
                    return None
                log.exception("failed to prepare the cluster cache for the changed settings, keeping the previous ones")
                await (asyncio.sleep if self._file is None else self._file.sleep)(ADOPT_RETRY_SECONDS)

    def _record_failure(self, error: Exception) -> None:
        if isinstance(error.__cause__, OSError):
            self._changes.retry()  # an I/O error: retry although the file does not change
        message = str(error)
        if message != self.failure.unread:
            for line in message.splitlines():
                log.error("configuration reload failed, keeping the previous one: %s", line)
        self.failure = replace(self.failure, unread=message)


def scheduler_line(scheduler: KubeScheduler) -> str:
    """Return kube-scheduler in one line: version, where it was found, changed feature gates, profiles."""
    gates = ", ".join(f"{name}={str(value).lower()}" for name, value in scheduler.changed_gates.items())
    names = ", ".join(profile.scheduler_name for profile in scheduler.profiles)
    version = f"kube-scheduler {scheduler.release} ({scheduler.version_source})"
    return f"{version}; profiles: {names}" + (f"; feature gates: {gates}" if gates else "")


def not_evaluated_lines(scheduler: KubeScheduler) -> list[str]:
    """Return one line per profile with plugins that only kube-scheduler evaluates."""
    return [
        f"profile {one.scheduler_name}: not evaluated, left to kube-scheduler: {', '.join(one.not_evaluated_plugins)}"
        for one in scheduler.profiles
        if one.not_evaluated_plugins
    ]


def _changed_keys(before: Configuration, after: Configuration) -> list[str]:
    """Return the changes that need a restart: changed keys (`cluster.path`, ...), and further objects to watch."""
    changed = []
    if after.cluster.source == "kubernetes":
        old_policy, new_policy = before.preemption.policy(), after.preemption.policy()
        changed += [f"annotation {key}" for key in sorted(new_policy.annotations - old_policy.annotations)]
        changed += ["PodGroups"] if new_policy.reads_pod_groups and not old_policy.reads_pod_groups else []
    for section in RESTART_ONLY_SECTIONS:
        old, new = getattr(before, section), getattr(after, section)
        for name, field in type(old).model_fields.items():
            if getattr(old, name) != getattr(new, name):
                changed.append(f"{section}.{field.alias}")
    return changed
