"""The settings in effect, and the reload of the two configuration files they come from: ours and kube-scheduler's.

A changed file is reloaded at most 6 s later (`extender.utilities.file_watch`). With `scheduler.version: auto`, an
upgrade of kube-scheduler changes the settings, too.

Rule: an invalid file never replaces valid settings. A mistake in kube-scheduler's file keeps its previous profiles in
effect, but never delays a change of our file, which has the kill switch.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.config.scheduler.load import SchedulerSource, read_scheduler
from extender.core.profile import KubeScheduler
from extender.k8s.version.found import FoundVersion
from extender.k8s.version.gates import gate_notes, gate_warnings
from extender.utilities.daemon_thread import ReloadThread
from extender.utilities.file_watch import POLL_INTERVAL_SECONDS, ChangeDetector, signature_of

log = logging.getLogger(__name__)

Adopt = Callable[[KubeScheduler, Callable[[], None]], Awaitable[None]]
"""Prepares the cluster cache for a KubeScheduler and calls the second argument when it switches over."""

ADOPT_RETRY_SECONDS = 60.0
"""Seconds before another attempt to prepare the cluster cache for changed settings, after an unexpected error."""

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
    """The settings that answers depend on, replaced as a whole so that no answer mixes two configurations."""

    scheduler: KubeScheduler
    """The calling kube-scheduler: its version, and its profiles, each with our preemption policy."""
    on_preempt_failure: Literal["Error", "Veto"] = "Error"
    is_observing: bool = False
    """`mode: Observe`: decisions are made, logged and counted, but answers change nothing for kube-scheduler."""
    kill_switch: Literal["Veto", "PassThrough"] | None = None
    """The answer to `/preempt` while the kill switch is on; None if it is off."""

    @property
    def needs_cluster(self) -> bool:
        """Return whether answers need the cluster cache; with the kill switch or in mode Observe they never do."""
        return self.kill_switch is None and not self.is_observing

    def notes(self) -> list[str]:
        """Return one line per setting that overrides the decisions: kill switch, mode Observe."""
        notes = []
        if self.kill_switch is not None:
            preempt = {"Veto": "no pod is evicted", "PassThrough": "kube-scheduler evicts the victims it chose"}
            notes.append(f"kill switch: on: every node is accepted, none is scored, {preempt[self.kill_switch]}")
        if self.is_observing:
            notes.append("mode: Observe: decisions are counted and logged, but not answered")
        return notes


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration files as read, and kube-scheduler's version, whose change needs no file to be read again."""

    config: Configuration
    scheduler: SchedulerSource
    """kube-scheduler's own configuration, from its file or inline; the previous one if the last read failed."""
    found: FoundVersion | None = None
    """The version of kube-scheduler in the cluster."""

    @classmethod
    def from_config(cls, config: Configuration, found: FoundVersion | None = None) -> "Loaded":
        """Read kube-scheduler's own configuration; raises ConfigError."""
        return cls(config, read_scheduler(config), found)

    def settings(self) -> Settings:
        """Return the settings; raises ConfigError."""
        # Until the version of a live cluster is known, a feature gate that another version lacks is not a mistake.
        is_early = self.found is None and self.takes_found_version and self.config.cluster.source == "kubernetes"
        return self.settings_by(self.scheduler.assume() if is_early else self.scheduler.resolve(self.found))

    def settings_by(self, scheduler: KubeScheduler) -> Settings:
        """Return our settings with profiles and version of this kube-scheduler."""
        own, kill_switch = self.config.preemption, self.config.kill_switch
        return Settings(
            scheduler.with_preemption(own.policy(), own.most_candidates),
            own.on_failure,
            self.config.mode == "Observe",
            kill_switch.preempt if kill_switch.enabled else None,
        )

    @property
    def takes_found_version(self) -> bool:
        """Return whether the version comes from the cluster and not from the configuration."""
        return self.scheduler.config.scheduler.version == "auto"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The configuration file and how to reload it."""

    path: Path | None
    """Path of our file; None if only kube-scheduler's file is followed."""
    load: Callable[[], Configuration]
    """Returns the configuration that a restart would use now; raises ConfigError if it is invalid."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class Failure:
    """Reasons why the current configuration files are not in effect, with one line per error."""

    unread: str | None = None
    """Error of the last reload of a file."""
    refused: str | None = None
    """Errors in kube-scheduler's configuration, as last read, for its version."""
    undecidable: str | None = None
    """The error that prevents decisions until a configuration that fits the found version is in effect."""


class LiveSettings:
    """The settings in effect; `run()`, as a task, reloads them when a configuration file changes.

    `active`: settings that answers use. `target`: latest valid settings, which `active` reaches at once, or when the
    cluster cache is prepared for them (`_set_target`). `failure`: reasons why the current files are not the target.
    """

    def __init__(
        self, config: Configuration, file: ConfigFile | None = None, found: FoundVersion | None = None
    ) -> None:
        """`found`: the version of the kube-scheduler in the cluster; raises ConfigError."""
        self._loaded = Loaded.from_config(config, found)
        self.active = self.target = self._loaded.settings()
        self.failure = Failure()
        self.cache: ClusterCache | None = None
        """Cluster cache to prepare for the settings; None if no cache depends on them."""
        self.adopt: Adopt | None = None
        """Prepares `cache` in steps, between decisions with the old settings; None to prepare it at once."""
        self.on_scheduler: Callable[[KubeScheduler], None] = lambda _: None
        """Called with each new kube-scheduler before it takes effect."""
        self._preparing: asyncio.Task[None] | None = None
        self._startup_config = config
        self._file = file
        self._changes = ChangeDetector(must_settle=False)
        self._thread = ReloadThread("configuration")

    @property
    def is_valid(self) -> bool:
        """Return whether the current configuration files became the target, and fit the found version."""
        return self.failure.unread is None and self.failure.refused is None

    @property
    def problem(self) -> str | None:
        """Return the reason why nothing can be decided (no settings were valid for the found version), or None."""
        found = self.failure.undecidable
        return found if found is not None and self.active.scheduler.is_version_assumed else None

    @property
    def restart_required(self) -> list[str]:
        """Return the changed keys that take effect only after a restart."""
        return _changed_keys(self._startup_config, self._loaded.config)

    def warnings(self) -> list[str]:
        """Return one line per condition to know about: active switches, a failed reload, a pending restart."""
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
        """Check the files once; return whether the target has changed. Never raises: an error becomes `failure`."""
        was_valid, before, restart_before = self.is_valid, self.target, self.restart_required
        try:
            # 1. Has a file changed? kube-scheduler's is followed even if our file, which names it, was refused.
            named = self._loaded.config.scheduler.config
            now = await self._thread.run(signature_of, [path for path in (file.path, named) if path is not None])
            if not self._changes.should_reload(now):
                return False
            # 2. Read our file first, and use it even if kube-scheduler's file is unreadable.
            config = await self._thread.run(file.load)
            self._loaded = replace(self._loaded, config=config)
            scheduler = await self._thread.run(read_scheduler, config)
            self._loaded = replace(self._loaded, scheduler=scheduler)
            self.failure = replace(self.failure, unread=None)
        except Exception as error:  # even a bug of ours must not end the reload loop
            self._record_failure(error)
        # 3. Make the latest valid reads the target.
        self._resolve()
        # 4. Report.
        if (restart_required := self.restart_required) and restart_required != restart_before:
            log.warning("configuration: changed, restart required: %s", ", ".join(restart_required))
        is_new = self.target != before
        if is_new or (self.is_valid and not was_valid):
            log.info("configuration reloaded")
        return is_new

    def use_version(self, found: FoundVersion | None) -> None:
        """Take the version of the kube-scheduler in the cluster into account. Never raises, like `poll`."""
        self._loaded = replace(self._loaded, found=found)
        self._resolve()

    def _resolve(self) -> None:
        """Set the target from the latest reads. If kube-scheduler's file is invalid, keep its previous profiles."""
        loaded, found = self._loaded, self._loaded.found
        try:
            settings = loaded.settings()
            undecidable = None if settings.scheduler.is_version_assumed else self.failure.undecidable
            self.failure = replace(self.failure, refused=None, undecidable=undecidable)
        except Exception as error:
            version = (
                f", for kube-scheduler {found.version} ({found.source})" if found and loaded.takes_found_version else ""
            )
            errors = [f"{line}{version}" for line in str(error).splitlines()]
            refused, undecidable = "\n".join(errors), self.failure.undecidable
            if found is not None:
                undecidable = f"kube-scheduler's configuration is not valid: {'; '.join(errors)}"
            if refused != self.failure.refused:
                for line in errors:
                    log.error("kube-scheduler's configuration is not valid, keeping the previous one: %s", line)
            self.failure = replace(self.failure, refused=refused, undecidable=undecidable)
            settings = loaded.settings_by(self.target.scheduler)
        self._set_target(settings)

    def _set_target(self, settings: Settings) -> None:
        """Apply the settings: ours at once, kube-scheduler's when the cluster cache is prepared for it."""
        if settings == self.target:
            return
        # 1. Announce the new target.
        target, active = settings.scheduler, self.active.scheduler
        if target != self.target.scheduler:
            self._log_scheduler(target)
            self.on_scheduler(target)
        self.target = settings
        for note in settings.notes():
            log.warning("%s", note)
        # 2. It replaces a target whose preparation is still under way.
        if self._preparing is not None:
            self._preparing.cancel()
        # 3. An empty cache is prepared at once.
        if self.cache is None or self.adopt is None or not self.cache.version:
            if self.cache is not None:
                self.cache.prepare_for(target)
            self.active = settings
        # 4. The indexes depend on policy and features only.
        elif target.preemption == active.preemption and target.features == active.features:
            self.active = settings
        # 5. Anything else takes a while. Until then the previous kube-scheduler as a whole stays in effect, because a
        # profile belongs to its version; the kill switch and mode Observe apply at once.
        else:
            self.active = replace(settings, scheduler=active)
            self._preparing = asyncio.create_task(self._activate_when_prepared(settings, self.adopt), name="adopt")

    def _log_scheduler(self, scheduler: KubeScheduler) -> None:
        """Log version and profiles, plugins that are not evaluated, and notes about feature gates."""
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
                log.exception("failed to prepare the cluster cache for the new settings, keeping the previous ones")
                await (asyncio.sleep if self._file is None else self._file.sleep)(ADOPT_RETRY_SECONDS)

    def _record_failure(self, error: Exception) -> None:
        if isinstance(error.__cause__, OSError):  # the file may be good: retry although it does not change
            self._changes.retry()
        message = str(error)
        if message != self.failure.unread:
            for line in message.splitlines():
                log.error("configuration reload failed, keeping the previous one: %s", line)
        self.failure = replace(self.failure, unread=message)


def scheduler_line(scheduler: KubeScheduler) -> str:
    """Return version, its origin, profiles and changed feature gates of kube-scheduler in one line."""
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
    """Return the changes that require a restart: keys such as `cluster.path`, and additional data to watch."""
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
