"""What of the configuration is in effect, and the file that it follows.

When a file that has changed is read again is a matter of `server.http.file_watch`: 6 s after a change it is in effect.

Rule: a file that is wrong never replaces settings that were right.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from extender.config import Configuration
from extender.core.profile import Profile
from extender.errors import ConfigError
from extender.server.http.file_watch import INTERVAL, Looks, Signature, signature

log = logging.getLogger(__name__)

AT_START_ONLY = ("cluster", "bind", "server", "admin", "debug", "recording", "log", "audit", "tracing")
"""Sections of which a change takes effect at the next start."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an answer depends on; replaced as a whole, so that one answer never mixes two configurations."""

    profile: Profile
    on_preempt_failure: Literal["Error", "Veto"] = "Error"
    observing: bool = False
    """Decide, log and count, but answer as if the extender were not there."""
    kill_switch: Literal["Veto", "PassThrough"] | None = None
    """What `/preempt` is answered with while nothing is decided at all; None: the switch is off."""

    @classmethod
    def of(cls, config: Configuration) -> "Settings":
        return cls(
            config.profile(),
            config.preemption.on_failure,
            config.mode == "Observe",
            config.kill_switch.preempt if config.kill_switch.enabled else None,
        )

    @property
    def needs_picture(self) -> bool:
        """Is there an answer that cannot be given without a picture of the cluster?"""
        return self.kill_switch is None and not self.observing

    def notes(self) -> list[str]:
        """What keeps decisions from being answered."""
        notes = []
        if self.kill_switch is not None:
            preempt = {"Veto": "nobody is evicted", "PassThrough": "kube-scheduler evicts whom it chose"}
            notes.append(f"kill switch: on: every node is accepted, none is scored, {preempt[self.kill_switch]}")
        if self.observing:
            notes.append("mode: Observe: what is decided is counted and logged, but not answered")
        return notes


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Where the configuration comes from, and how to read it again."""

    path: Path
    load: Callable[[], Configuration]
    """The configuration as it would be at a start now; ConfigError if it is wrong."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class LiveSettings:
    """The settings in effect. `run()` as a task keeps them equal to the file, if there is one."""

    def __init__(self, config: Configuration, file: ConfigFile | None = None) -> None:
        self.settings = Settings.of(config)
        self.make_ready: Callable[[Profile], Awaitable[None]] | None = None
        """Works out what decisions by other policies need of the picture, while they are still made by the old ones."""
        self.last_error: str | None = None
        """What is wrong with the file as it is now, a line per mistake; None if it is in effect."""
        self.waiting: tuple[str, ...] = ()
        """Keys that have changed and take effect at the next start."""
        self._wanted = self.settings
        self._getting_ready: asyncio.Task[None] | None = None
        self._started_with = config
        self._file = file
        self._looks = Looks[Signature]()

    def warnings(self) -> list[str]:
        """What an operator should know of the configuration, a line each."""
        lines = self.settings.notes()
        if self.last_error is not None:
            lines += [f"configuration: {mistake}; the one before is used" for mistake in self.last_error.splitlines()]
        if self._wanted != self.settings:
            lines.append("configuration: changed, the policies of preemption are in effect once the picture is ready")
        if self.waiting:
            lines.append(f"configuration: changed, but in effect only after a restart: {', '.join(self.waiting)}")
        return lines

    async def run(self) -> None:
        """Follow the file until cancelled."""
        for note in self.settings.notes():
            log.warning("%s", note)
        while self._file is not None:
            await self._file.sleep(INTERVAL)
            await self.poll(self._file)

    async def poll(self, file: ConfigFile) -> bool:
        """Look once; return whether other settings were put in place. Never raises for what is wrong with the file."""
        try:
            now = await asyncio.to_thread(_signature, file.path)
            if not self._looks.is_due(now):
                return False
            self._looks.tried = now
            config = await asyncio.to_thread(file.load)
            return self._put(config, Settings.of(config))
        except Exception as error:  # even a bug of ours must not end the following
            self._failed(error)
            return False

    def _put(self, config: Configuration, settings: Settings) -> bool:
        is_new, self._wanted = settings != self._wanted, settings
        if is_new or self.last_error is not None:
            log.info("configuration read again")
        self.last_error = None
        waiting = tuple(_changed_keys(self._started_with, config))
        if waiting and waiting != self.waiting:
            log.warning("configuration: changed, but in effect only after a restart: %s", ", ".join(waiting))
        self.waiting = waiting
        if is_new:
            self._switch(settings)
            for note in settings.notes():
                log.warning("%s", note)
        return is_new

    def _switch(self, settings: Settings) -> None:
        """At once, except for policies for which a large picture has to be gone through."""
        is_underway = self._getting_ready is not None and self._getting_ready.cancel()
        held = self.settings.profile.preemption
        if self.make_ready is None or (settings.profile.preemption == held and not is_underway):
            self.settings = settings
        else:
            self.settings = replace(settings, profile=replace(settings.profile, preemption=held))
            self._getting_ready = asyncio.create_task(self._once_ready(settings, self.make_ready), name="make-ready")

    async def _once_ready(self, settings: Settings, make_ready: Callable[[Profile], Awaitable[None]]) -> None:
        try:
            await make_ready(settings.profile)
        except Exception:  # then the first request waits for it
            log.exception("the picture could not be made ready for other policies")
        self.settings = settings
        log.info("the policies of preemption are in effect")

    def _failed(self, error: Exception) -> None:
        if isinstance(error.__cause__, OSError):
            self._looks.tried = None  # the disk's fault, not the file's: worth another try although nothing changes
        message = str(error)
        if message != self.last_error:
            for mistake in message.splitlines():
                log.error("configuration not read again, the one before stays: %s", mistake)
        self.last_error = message


def _signature(path: Path) -> Signature:
    try:
        return signature(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


def _changed_keys(before: Configuration, after: Configuration) -> list[str]:
    """`cluster.path` and so on, of the sections that are read at the start only; and what a picture must hold anew."""
    changed = []
    if after.cluster.source == "kubernetes":
        held, wanted = before.preemption.policy(), after.preemption.policy()
        changed += [f"annotation {key}" for key in sorted(wanted.annotations - held.annotations)]
        changed += ["PodGroups"] if wanted.reads_pod_groups and not held.reads_pod_groups else []
    for section in AT_START_ONLY:
        old, new = getattr(before, section), getattr(after, section)
        for name, field in type(old).model_fields.items():
            if getattr(old, name) != getattr(new, name):
                changed.append(f"{section}.{field.alias}")
    return changed
