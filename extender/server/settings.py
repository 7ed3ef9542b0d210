"""The settings in effect, and the reload of the two configuration files they come from: ours and kube-scheduler's.

`extender.file_watch` decides when a changed file is reloaded: at most 6 s after the change. An upgrade of
kube-scheduler, where its version is looked for in the cluster, changes the settings too.

Rule: an invalid file never replaces valid settings.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.config.scheduler import SchedulerSource, load_kube_scheduler, read_scheduler
from extender.core.profile import KubeScheduler
from extender.daemon_thread import ReloadThread
from extender.errors import ConfigError
from extender.file_watch import POLL_INTERVAL_SECONDS, ChangeDetector, Signature, file_signature
from extender.k8s.version.features import DEFAULT_MINOR, NEWEST_MINOR, OLDEST_MINOR, gate_notes
from extender.k8s.version.minor import FoundVersion

log = logging.getLogger(__name__)

Adopt = Callable[[KubeScheduler, Callable[[], None]], Awaitable[None]]
"""Prepares the cluster cache for a kube-scheduler and calls the second argument at the moment of the change."""

ASSUMED_MINORS = (*range(DEFAULT_MINOR, OLDEST_MINOR - 1, -1), *range(DEFAULT_MINOR + 1, NEWEST_MINOR + 1))
"""Minors that are tried in this order while none was found; the first that the configuration fits is assumed."""

ASSUMED = "assumed, because the configuration fits it and no version was found in the cluster"
"""Source of a minor that was assumed."""

RESTART_ONLY_SECTIONS = ("cluster", "bind", "server", "admin", "debug", "recording", "log", "audit", "tracing")
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
    """What one load of the configuration files read: nothing is read again when kube-scheduler's version changes."""

    config: Configuration
    scheduler: SchedulerSource
    """kube-scheduler's own configuration, from its file or inline."""

    @classmethod
    def from_config(cls, config: Configuration) -> "Loaded":
        """Read kube-scheduler's own configuration; raises ConfigError."""
        return cls(config, read_scheduler(config))

    def settings(self, found: FoundVersion | None) -> Settings:
        """Return the settings, given the version that was found in the cluster; raises ConfigError.

        Before a live cluster has said its version, feature gates that only that version has are no mistake yet.
        """
        try:
            return Settings.of(self.config, self.scheduler.resolve(found))
        except ConfigError as error:
            config = self.config
            if found is not None or config.scheduler.version != "auto" or config.cluster.source != "kubernetes":
                raise
            for minor in ASSUMED_MINORS:
                with contextlib.suppress(ConfigError):
                    return Settings.of(config, self.scheduler.resolve(FoundVersion(minor, ASSUMED)))
            raise error from None


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The configuration file and how to reload it."""

    path: Path | None
    """None: only the file of kube-scheduler is followed."""
    load: Callable[[], Configuration]
    """Function that returns the configuration that a restart would use now; raises ConfigError if it is invalid."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class LiveSettings:
    """The settings in effect; `run()`, as a task, reloads them when a configuration file changes."""

    def __init__(
        self, config: Configuration, file: ConfigFile | None = None, found: FoundVersion | None = None
    ) -> None:
        """`found`: the version of kube-scheduler that is in the cluster; raises ConfigError."""
        self._loaded = Loaded.from_config(config)
        self._found = found
        self.settings = self._loaded.settings(found)
        self.cache: ClusterCache | None = None
        """Cluster cache of which decisions are made; None: there is none that depends on the settings."""
        self.adopt: Adopt | None = None
        """Function that prepares `cache` for other settings while decisions are still made by the old ones."""
        self.on_scheduler: Callable[[KubeScheduler], None] = lambda _: None
        """Called with another kube-scheduler before it takes effect."""
        self.last_error: str | None = None
        """Reason why the last reload failed, one line per error; None if the files as they are now are in effect."""
        self.restart_required: tuple[str, ...] = ()
        """Changed keys that take effect only after a restart."""
        self._version_error: str | None = None
        """Reason why the configuration does not fit the version that was found; None: it does."""
        self._desired = self.settings
        self._preparing: asyncio.Task[None] | None = None
        self._startup_config = config
        self._file = file
        self._changes = ChangeDetector(must_settle=False)
        self._thread = ReloadThread("configuration")

    @property
    def is_valid(self) -> bool:
        """Return whether the configuration files as they are now are in effect, and fit the version that was found."""
        return self.last_error is None and self._version_error is None

    def warnings(self) -> list[str]:
        """Return one line per warning for the operator: active switches, a failed reload, a pending restart."""
        lines = self.settings.notes() + self._thread.warnings()
        if self.last_error is not None:
            lines += [f"configuration: {error}; using the previous one" for error in self.last_error.splitlines()]
        if self._version_error is not None:
            lines.append(f"configuration: {self._version_error}; using the previous settings")
        if self._desired != self.settings:
            lines.append("configuration: changed, takes effect once the cluster cache is prepared")
        if self.restart_required:
            lines.append(f"configuration: changed, restart required: {', '.join(self.restart_required)}")
        return lines

    async def run(self) -> None:
        """Poll the files until cancelled."""
        self._log_scheduler(self.settings.scheduler)
        for note in self.settings.notes():
            log.warning("%s", note)
        while self._file is not None:
            await self._file.sleep(self._thread.pause(POLL_INTERVAL_SECONDS))
            await self.poll(self._file)

    async def poll(self, file: ConfigFile) -> bool:
        """Check the files once; return whether other settings are wanted. Never raises: an error is logged and kept."""
        try:
            now = await self._thread.run(_signature, self._paths(file))
            if not self._changes.should_reload(now):
                return False
            loaded = await self._thread.run(lambda: Loaded.from_config(file.load()))
            return self._apply(loaded, loaded.settings(self._found))
        except Exception as error:  # even a bug of ours must not end the reload loop
            self._record_failure(error)
            return False

    def use_version(self, found: FoundVersion | None) -> None:
        """Use the version of kube-scheduler that is in the cluster from now on. Never raises, as `poll`."""
        self._found = found
        try:
            settings, self._version_error = self._loaded.settings(found), None
        except Exception as error:
            self._version_error = str(error)
            log.error("kube-scheduler's version has changed, keeping the previous settings: %s", error)
        else:
            self._want(settings)

    def _paths(self, file: ConfigFile) -> list[Path]:
        """Return the files to follow: ours, and the one of kube-scheduler that it names."""
        named = self._loaded.config.scheduler.config
        return [path for path in (file.path, Path(named) if named is not None else None) if path is not None]

    def _apply(self, loaded: Loaded, settings: Settings) -> bool:
        self._loaded, self._version_error = loaded, None
        is_new = settings != self._desired
        if is_new or self.last_error is not None:
            log.info("configuration reloaded")
        self.last_error = None
        restart_required = tuple(_changed_keys(self._startup_config, loaded.config))
        if restart_required and restart_required != self.restart_required:
            log.warning("configuration: changed, restart required: %s", ", ".join(restart_required))
        self.restart_required = restart_required
        self._want(settings)
        return is_new

    def _want(self, settings: Settings) -> None:
        """Make these settings take effect, unless they are the ones that are wanted already."""
        if settings == self._desired:
            return
        if settings.scheduler != self._desired.scheduler:
            self._log_scheduler(settings.scheduler)
            self.on_scheduler(settings.scheduler)
        self._desired = settings
        for note in settings.notes():
            log.warning("%s", note)
        self._activate(settings)

    def _log_scheduler(self, scheduler: KubeScheduler) -> None:
        """Log version and profiles, what is not evaluated, and feature gates that are not followed."""
        log.info("%s", scheduler_line(scheduler))
        for line in not_evaluated_lines(scheduler):
            log.warning("%s", line)
        for note in gate_notes(self._loaded.config.scheduler.feature_gates):
            log.info("%s", note)

    def _activate(self, settings: Settings) -> None:
        """Apply the settings at once; but preemption policies and switches once the cluster cache is prepared for them.

        Until then, calls are judged by the previous kube-scheduler as a whole: a profile belongs to its version.
        """
        if self._preparing is not None:
            self._preparing.cancel()
        current, wanted = self.settings.scheduler, settings.scheduler
        if self.cache is None or self.adopt is None or not self.cache.version:
            if self.cache is not None:
                self.cache.prepare_for(wanted)
            self.settings = settings
        elif wanted.preemption == current.preemption and wanted.features == current.features:
            self.settings = settings
        else:
            self.settings = replace(settings, scheduler=current)
            self._preparing = asyncio.create_task(self._activate_when_prepared(settings, self.adopt), name="adopt")

    async def _activate_when_prepared(self, settings: Settings, adopt: Adopt) -> None:
        def activate() -> None:
            self.settings, self._preparing = settings, None
            log.info("the changed settings are in effect")

        try:
            await adopt(settings.scheduler, activate)
        except Exception:
            log.exception("failed to prepare the cluster cache for the changed settings, keeping the previous ones")

    def _record_failure(self, error: Exception) -> None:
        if isinstance(error.__cause__, OSError):
            self._changes.retry()  # an I/O error: retry although the file does not change
        message = str(error)
        if message != self.last_error:
            for line in message.splitlines():
                log.error("configuration reload failed, keeping the previous one: %s", line)
        self.last_error = message


def _signature(paths: Sequence[Path]) -> Signature:
    signatures = []
    for path in paths:
        try:
            signatures.append((str(path), *file_signature(path)))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
    return tuple(signatures)


def scheduler_line(scheduler: KubeScheduler) -> str:
    """Return kube-scheduler in one line: version, where it was found, changed feature gates, profiles."""
    gates = ", ".join(f"{name}={str(value).lower()}" for name, value in scheduler.changed_gates.items())
    names = ", ".join(profile.scheduler_name for profile in scheduler.profiles)
    version = f"kube-scheduler {scheduler.version} ({scheduler.version_source})"
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
        current, desired = before.preemption.policy(), after.preemption.policy()
        changed += [f"annotation {key}" for key in sorted(desired.annotations - current.annotations)]
        changed += ["PodGroups"] if desired.reads_pod_groups and not current.reads_pod_groups else []
    for section in RESTART_ONLY_SECTIONS:
        old, new = getattr(before, section), getattr(after, section)
        for name, field in type(old).model_fields.items():
            if getattr(old, name) != getattr(new, name):
                changed.append(f"{section}.{field.alias}")
    return changed
