"""The settings in effect, and the reload of the configuration file they come from.

`extender.file_watch` decides when a changed file is reloaded: at most 6 s after the change.

Rule: an invalid file never replaces valid settings.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from extender.config import Configuration
from extender.core.profile import KubeScheduler, Profile
from extender.daemon_thread import ReloadThread
from extender.errors import ConfigError
from extender.file_watch import POLL_INTERVAL_SECONDS, ChangeDetector, Signature, file_signature

log = logging.getLogger(__name__)

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
    def from_config(cls, config: Configuration) -> "Settings":
        return cls(
            KubeScheduler((config.profile(),)),
            config.preemption.on_failure,
            config.mode == "Observe",
            config.kill_switch.preempt if config.kill_switch.enabled else None,
        )

    @property
    def profile(self) -> Profile:
        return self.scheduler.profiles[0]

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
class ConfigFile:
    """The configuration file and how to reload it."""

    path: Path
    load: Callable[[], Configuration]
    """Function that returns the configuration that a restart would use now; raises ConfigError if it is invalid."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class LiveSettings:
    """The settings in effect; `run()`, as a task, reloads them when the configuration file changes."""

    def __init__(self, config: Configuration, file: ConfigFile | None = None) -> None:
        self.settings = Settings.from_config(config)
        self.prepare_cache: Callable[[KubeScheduler], Awaitable[None]] | None = None
        """Function that prepares the cluster cache for new policies while decisions are still made by the old ones."""
        self.last_error: str | None = None
        """Reason why the last reload failed, one line per error; None if the file as it is now is in effect."""
        self.restart_required: tuple[str, ...] = ()
        """Changed keys that take effect only after a restart."""
        self._desired = self.settings
        self._preparing: asyncio.Task[None] | None = None
        self._startup_config = config
        self._file = file
        self._changes = ChangeDetector(must_settle=False)
        self._thread = ReloadThread("configuration")

    def warnings(self) -> list[str]:
        """Return one line per warning for the operator: active switches, a failed reload, a pending restart."""
        lines = self.settings.notes() + self._thread.warnings()
        if self.last_error is not None:
            lines += [f"configuration: {error}; using the previous one" for error in self.last_error.splitlines()]
        if self._desired != self.settings:
            lines.append(
                "configuration: changed, the preemption policies take effect once the cluster cache is prepared"
            )
        if self.restart_required:
            lines.append(f"configuration: changed, restart required: {', '.join(self.restart_required)}")
        return lines

    async def run(self) -> None:
        """Poll the file until cancelled."""
        for note in self.settings.notes():
            log.warning("%s", note)
        while self._file is not None:
            await self._file.sleep(self._thread.pause(POLL_INTERVAL_SECONDS))
            await self.poll(self._file)

    async def poll(self, file: ConfigFile) -> bool:
        """Check the file once; return whether new settings took effect. Never raises: an error is logged and kept."""
        try:
            now = await self._thread.run(_signature, file.path)
            if not self._changes.should_reload(now):
                return False
            config = await self._thread.run(file.load)
            return self._apply(config, Settings.from_config(config))
        except Exception as error:  # even a bug of ours must not end the reload loop
            self._record_failure(error)
            return False

    def _apply(self, config: Configuration, settings: Settings) -> bool:
        is_new, self._desired = settings != self._desired, settings
        if is_new or self.last_error is not None:
            log.info("configuration reloaded")
        self.last_error = None
        restart_required = tuple(_changed_keys(self._startup_config, config))
        if restart_required and restart_required != self.restart_required:
            log.warning("configuration: changed, restart required: %s", ", ".join(restart_required))
        self.restart_required = restart_required
        if is_new:
            self._activate(settings)
            for note in settings.notes():
                log.warning("%s", note)
        return is_new

    def _activate(self, settings: Settings) -> None:
        """Apply the settings at once, but new preemption policies only once the cluster cache is prepared for them."""
        was_preparing = self._preparing is not None and self._preparing.cancel()
        current = self.settings.scheduler
        same = settings.scheduler.preemption == current.preemption and settings.scheduler.features == current.features
        if self.prepare_cache is None or (same and not was_preparing):
            self.settings = settings
        else:
            self.settings = replace(settings, scheduler=current)
            self._preparing = asyncio.create_task(
                self._activate_when_prepared(settings, self.prepare_cache), name="prepare-cache"
            )

    async def _activate_when_prepared(
        self, settings: Settings, prepare_cache: Callable[[KubeScheduler], Awaitable[None]]
    ) -> None:
        try:
            await prepare_cache(settings.scheduler)
        except Exception:  # then the first request computes it
            log.exception("failed to prepare the cluster cache for the new preemption policies")
        self.settings = settings
        log.info("new preemption policies in effect")

    def _record_failure(self, error: Exception) -> None:
        if isinstance(error.__cause__, OSError):
            self._changes.retry()  # an I/O error: retry although the file does not change
        message = str(error)
        if message != self.last_error:
            for line in message.splitlines():
                log.error("configuration reload failed, keeping the previous one: %s", line)
        self.last_error = message


def _signature(path: Path) -> Signature:
    try:
        return file_signature(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


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
