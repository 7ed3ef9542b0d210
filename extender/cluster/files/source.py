"""Load the cluster cache from a file or directory and reload it when the files change.

The files are polled every `interval` seconds, less often if reading takes long; `utilities.file_watch` decides when a
change is loaded.

Rule: an invalid file never replaces the cache.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from extender.cluster.cache.cache import ClusterCache, ReflectorStatus
from extender.cluster.files.manifests import LoadReport, SchedulerOf, default_scheduler, parse_files, read_files
from extender.cluster.files.reading import find_files
from extender.cluster.watch.garbage import without_collections
from extender.core.profile import KubeScheduler
from extender.errors import ClusterFileError
from extender.k8s.version.found import FoundVersion, OnVersionFound, version_of_pods
from extender.utilities.daemon_thread import ReloadThread
from extender.utilities.file_watch import ChangeDetector, Signature, file_signature

log = logging.getLogger(__name__)


class FileSource:
    """A cluster file or directory as the source of a ClusterCache: `load()` once, then `run()` as a task."""

    is_live = False  # Answers have no effect on a file, so their effects are not assumed
    fatal = None  # A broken file can be repaired while the service runs

    def __init__(
        self,
        path: Path | Sequence[Path],
        cache: ClusterCache,
        interval: float = 2.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        scheduler_of: SchedulerOf = default_scheduler,
    ) -> None:
        self.paths = (path,) if isinstance(path, Path) else tuple(path)
        self.cache = cache
        self.interval = interval  # Seconds between two checks for changes; 0 disables reloading
        self.last_error: str | None = None  # Reason why the current file is not loaded; None if it is
        self.report: LoadReport | None = None  # Report of the last successful load
        self.found_version: FoundVersion | None = None  # Version of the kube-scheduler pods in the files, if any
        self._on_found: OnVersionFound = lambda _: None
        self._changing = asyncio.Lock()  # Held while a snapshot is built: from changed files, or by `adopt`
        self._sleep = sleep
        self._scheduler_of = scheduler_of
        self._changes = ChangeDetector()
        self._thread = ReloadThread("cluster file")

    @property
    def place(self) -> str:
        """The files and folders, for messages."""
        return ", ".join(map(str, self.paths))

    def problem(self) -> str | None:
        return None  # if a file cannot be read, decisions continue with the previous cache

    def warnings(self) -> Sequence[str]:
        failed = [f"cluster file: {self.last_error}; using the previous cache"] if self.last_error else []
        return failed + self._thread.warnings()

    def reflector_statuses(self) -> Sequence[ReflectorStatus]:
        return ()

    def watch_version(self, on_found: OnVersionFound) -> None:
        """Call `on_found` after a reload that changed `found_version`."""
        self._on_found = on_found

    async def adopt(self, scheduler: KubeScheduler, activate: Callable[[], None]) -> None:
        """Prepare the cache for a new KubeScheduler, while decisions continue with the previous one."""
        async with self._changing:
            for _ in self.cache.adopt(scheduler, activate):
                await asyncio.sleep(0)

    def load(self) -> LoadReport:
        """Load the files into the cache; ClusterFileError, with the cache unchanged, if that fails."""
        return self._use(self._read())

    def _read(self) -> LoadReport:
        self._changes = ChangeDetector(_signature(self.paths))
        contents = read_files(self.paths)
        with without_collections():
            return parse_files(contents, scheduler_of=self._scheduler_of)

    def _use(self, report: LoadReport) -> LoadReport:
        with without_collections():
            try:
                self.cache.replace(report.objects)
            except ValueError as error:
                raise ClusterFileError(f"{self.place}: {error}") from error
        self.report = report
        self.found_version = version_of_pods(report.objects.pods)
        self.last_error = None
        return report

    async def run(self) -> None:
        """Check for changes every `interval` seconds until cancelled."""
        while self.interval > 0:
            await self._sleep(self._thread.pause(self.interval))
            await self.poll()

    async def poll(self) -> bool:
        """Check once; return whether the cache was reloaded. Errors are logged, never raised."""
        try:
            if not self._changes.should_reload(await self._thread.run(_signature, self.paths)):
                return False
            before = self.found_version
            report = await self._thread.run(self._read)
            async with self._changing:
                await self._thread.run(self._use, report)
            if self.found_version != before:
                self._on_found(self.found_version)
        except Exception as error:  # even a bug must not end the reloading
            if isinstance(error.__cause__, OSError):
                self._changes.retry()  # an I/O error may pass although the file does not change
            if str(error) != self.last_error:
                log.error("cluster file not reloaded, keeping the previous cache: %s", error)
            self.last_error = str(error)
            return False
        log.info("cluster file reloaded from %s", self.place)
        return True


def _signature(paths: Sequence[Path]) -> Signature:
    try:
        return tuple((str(file), *file_signature(file)) for file in find_files(paths).paths.values())
    except OSError as error:
        raise ClusterFileError(f"{error.filename}: {error.strerror}") from error
