"""Load the cluster cache from a file or directory and reload it when the files change.

Every `interval` the inode, modification time and size of each file are compared. A change is loaded once it has been
stable for one interval, so that a file that is still being written is not loaded.

Rule: a file that cannot be read never replaces a cache that was loaded before.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from extender.cluster.cache.cache import ClusterCache, ReflectorStatus
from extender.cluster.files.manifests import LoadReport, cluster_files, read_cluster
from extender.core.profile import Profile
from extender.errors import ClusterFileError

log = logging.getLogger(__name__)

FileStats = tuple[tuple[str, int, int, int], ...]
"""(path, inode, modification time in nanoseconds, size in bytes) of each file."""


class FileSource:
    """A cluster file or directory as the source of a ClusterCache: `load()` once, then `run()` as a task."""

    def __init__(
        self,
        path: Path,
        cache: ClusterCache,
        interval: float = 2.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.path = path
        self.cache = cache
        self.interval = interval
        """Seconds between two checks for changes; 0 disables reloading."""
        self.last_error: str | None = None
        """Reason why the current file is not loaded; None if it is."""
        self.report: LoadReport | None = None
        """Report of the last successful load."""
        self._sleep = sleep
        self._loaded_stats: FileStats = ()
        self._last_stats: FileStats = ()

    @property
    def is_live(self) -> bool:
        """Return False: answers have no effect on a file, so their effects are not assumed."""
        return False

    @property
    def fatal(self) -> str | None:
        """Return None: a broken file can be repaired while the service runs."""
        return None

    def problem(self) -> str | None:
        """Return None: if a file cannot be read, decisions continue with the previous cache."""
        return None

    def warnings(self) -> Sequence[str]:
        return (f"cluster file: {self.last_error}; using the previous cache",) if self.last_error else ()

    def reflector_statuses(self) -> Sequence[ReflectorStatus]:
        return ()

    async def adopt(self, profile: Profile) -> None:
        """Build the indexes that decisions with this profile need."""
        self.cache.prepare_for(profile)

    def load(self) -> LoadReport:
        """Load the files into the cache; ClusterFileError, with the cache unchanged, if that fails."""
        self._loaded_stats = self._last_stats = _file_stats(self.path)
        report = read_cluster(self.path)
        try:
            self.cache.replace(report.objects)
        except ValueError as error:
            raise ClusterFileError(f"{self.path}: {error}") from error
        self.report = report
        self.last_error = None
        return report

    async def run(self) -> None:
        """Check for changes every `interval` until cancelled."""
        while self.interval > 0:
            await self._sleep(self.interval)
            await self.poll()

    async def poll(self) -> bool:
        """Check once; return whether the cache was reloaded. Errors are logged, never raised."""
        try:
            now = await asyncio.to_thread(_file_stats, self.path)
            if now == self._loaded_stats:
                return False
            if now != self._last_stats:
                self._last_stats = now
                return False
            await asyncio.to_thread(self.load)
        except Exception as error:  # even a bug must not end the reloading
            self._record_failure(error)
            return False
        log.info("cluster file reloaded from %s", self.path)
        return True

    def _record_failure(self, error: Exception) -> None:
        if isinstance(error.__cause__, OSError):
            self._loaded_stats = ()  # an I/O error: retry although the file does not change
        if str(error) != self.last_error:
            log.error("cluster file not reloaded, keeping the previous cache: %s", error)
        self.last_error = str(error)


def _file_stats(path: Path) -> FileStats:
    try:
        stats = [(str(file), file.stat()) for file in cluster_files(path)]
    except OSError as error:
        raise ClusterFileError(f"{path}: {error.strerror}") from error
    return tuple((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats)
