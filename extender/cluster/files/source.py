"""Keep a store equal to a file that somebody else rewrites.

Every `interval` the size and time of the file (of each file of a directory) are compared. What changed is read
once it has stood still for one interval, so that a file which is just being written is not taken for the cluster.

Rule: a file that cannot be read never replaces a picture that could.
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
"""(path, inode, modification time in nanoseconds, size) of each file."""


class FileSource:
    """A cluster file or directory, and the store that follows it. `load()` once, then `run()` as a task."""

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
        """Seconds between two looks; 0: never look again."""
        self.last_error: str | None = None
        """Why the file as it is now is not what the store holds; None if it is."""
        self.report: LoadReport | None = None
        """What the last good load found."""
        self._sleep = sleep
        self._tried: FileStats = ()
        self._seen: FileStats = ()

    @property
    def is_live(self) -> bool:
        """What is answered does not come about in a file."""
        return False

    @property
    def fatal(self) -> str | None:
        """Whatever is wrong with a file may be mended."""
        return None

    def problem(self) -> str | None:
        """A file that cannot be read leaves the picture before, which may still be decided on."""
        return None

    def warnings(self) -> Sequence[str]:
        return (f"cluster file: {self.last_error}; the picture before is used",) if self.last_error else ()

    def reflector_statuses(self) -> Sequence[ReflectorStatus]:
        return ()

    async def adopt(self, profile: Profile) -> None:
        """What decisions by this profile need of the picture is worked out now."""
        self.cache.prepare_for(profile)

    def load(self) -> LoadReport:
        """Read the source into the store; ClusterFileError, and the store stays as it was, if that fails."""
        self._tried = self._seen = _file_stats(self.path)
        report = read_cluster(self.path)
        try:
            self.cache.replace(report.objects)
        except ValueError as error:
            raise ClusterFileError(f"{self.path}: {error}") from error
        self.report = report
        self.last_error = None
        return report

    async def run(self) -> None:
        """Follow the source until cancelled."""
        while self.interval > 0:
            await self._sleep(self.interval)
            await self.poll()

    async def poll(self) -> bool:
        """Look once; return whether a new picture was put in place. Never raises for what is wrong with the source."""
        try:
            now = await asyncio.to_thread(_file_stats, self.path)
            if now == self._tried:
                return False
            if now != self._seen:
                self._seen = now
                return False
            await asyncio.to_thread(self.load)
        except Exception as error:  # even a bug of ours must not end the following
            self._failed(error)
            return False
        log.info("cluster reloaded from %s", self.path)
        return True

    def _failed(self, error: Exception) -> None:
        if isinstance(error.__cause__, OSError):
            self._tried = ()  # the disk's fault, not the file's: worth another try although nothing changes
        if str(error) != self.last_error:
            log.error("cluster not reloaded, the picture before stays: %s", error)
        self.last_error = str(error)


def _file_stats(path: Path) -> FileStats:
    try:
        stats = [(str(file), file.stat()) for file in cluster_files(path)]
    except OSError as error:
        raise ClusterFileError(f"{path}: {error.strerror}") from error
    return tuple((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats)
