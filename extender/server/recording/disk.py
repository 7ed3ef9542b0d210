"""The files of segments, written by one thread and readable only by their owner.

A segment gets its final name when its cluster file and its settings are complete.

Rule: only the regular files of a segment are ever deleted, in a directory that is named like a segment. Symbolic links
are neither followed nor deleted.
"""

import contextlib
import gzip
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from extender.k8s.time import SECOND
from extender.server.recording.lines import CALLS, CLUSTER, SETTINGS

SEGMENT_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z", re.ASCII)
"""Name of a segment's directory, such as 20261121T101500.000000Z: the time of its start, so that names sort by time."""

_TIME_FORMAT = "%Y%m%dT%H%M%S.%fZ"
_PARTIAL_SUFFIX = ".part"
_CHUNK_BYTES = 1 << 18
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GZIP_LEVEL = 3  # takes half the time of the default, 6, for a tenth more bytes


class Disk:
    """The file system operations that tests make fail; they raise OSError."""

    def make_directory(self, path: Path) -> None:
        path.mkdir(mode=0o700)

    def create(self, path: Path) -> BinaryIO:
        """Create a new file; FileExistsError if it exists."""
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def prepare_directory(directory: Path) -> None:
    """Create the directory if it is missing, delete incomplete segments, and check that it is writable."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in directory.iterdir():
        if path.name.endswith(_PARTIAL_SUFFIX) and SEGMENT_NAME.fullmatch(path.name[1 : -len(_PARTIAL_SUFFIX)]):
            delete_segment(path)  # its writer ended before it was complete
    attempt = directory / f".{os.getpid()}.try"
    attempt.unlink(missing_ok=True)
    os.close(os.open(attempt, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    attempt.unlink()


def segments_in(directory: Path) -> list[Path]:
    """Return the complete segments, oldest first."""
    named = (path for path in directory.iterdir() if SEGMENT_NAME.fullmatch(path.name))
    return sorted(path for path in named if not path.is_symlink() and (path / SETTINGS).exists())


def size_of(segment: Path) -> int:
    """Return the size of a segment's files in bytes."""
    with _files_of(segment) as (_, files):
        return sum(files.values())


def delete_segment(segment: Path) -> None:
    """Delete the files of a segment, and its directory unless it has other files; a missing segment is ignored."""
    with _files_of(segment) as (directory, files):
        for name in files:
            os.unlink(name, dir_fd=directory)
    with contextlib.suppress(OSError):
        segment.rmdir()


@contextlib.contextmanager
def _files_of(segment: Path) -> Iterator[tuple[int, dict[str, int]]]:
    """Open a segment's directory; yield its descriptor, and name -> size of the segment's regular files."""
    files: dict[str, int] = {}
    try:
        directory = os.open(segment, _DIRECTORY_FLAGS)
    except (FileNotFoundError, NotADirectoryError):  # the latter also for a symbolic link
        yield -1, files
        return
    try:
        for name in (SETTINGS, CLUSTER, CALLS):
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    files[name] = found.st_size
        yield directory, files
    finally:
        os.close(directory)


class OpenSegment:
    """The segment that is being written."""

    def __init__(self, directory: Path, now: int, header: bytes, cluster: Iterable[bytes] | None, disk: Disk) -> None:
        """Create a segment with its settings and cluster (None if unknown), named after `now` in Unix nanoseconds."""
        self.path = _next_segment_path(directory, now)
        self.line_bytes = 0
        """Size of the segment's lines."""
        part = directory / f".{self.path.name}{_PARTIAL_SUFFIX}"
        disk.make_directory(part)
        try:
            with disk.create(part / SETTINGS) as file:
                file.write(header)
            if cluster is not None:
                with (
                    disk.create(part / CLUSTER) as file,
                    gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as zipped,
                    io.BufferedWriter(zipped, _CHUNK_BYTES) as chunks,
                ):
                    chunks.writelines(cluster)
            self._calls = disk.create(part / CALLS)
        except BaseException:
            delete_segment(part)
            raise
        self._other_bytes = size_of(part)
        part.rename(self.path)

    @property
    def size(self) -> int:
        """Size of all files of the segment in bytes."""
        return self._other_bytes + self.line_bytes

    def write(self, line: bytes) -> None:
        self._calls.write(line)
        self.line_bytes += len(line)

    def flush(self) -> None:
        """Flush to the operating system, so that the lines survive a crash of the process."""
        self._calls.flush()

    def close(self) -> None:
        self._calls.close()


def _next_segment_path(directory: Path, now: int) -> Path:
    """Return a path that sorts after all existing segments, even if the clock was set back."""
    start = datetime.fromtimestamp(now // SECOND, UTC) + timedelta(microseconds=now % SECOND // 1000)
    if existing := segments_in(directory):
        latest = datetime.strptime(existing[-1].name, _TIME_FORMAT).replace(tzinfo=UTC)
        start = max(start, latest + timedelta(microseconds=1))
    return directory / start.strftime(_TIME_FORMAT)
