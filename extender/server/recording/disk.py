"""Segments on the disk: written by one thread, readable by their owner only.

A segment shows up under its name once its picture and its settings are complete.

Rule: only what looks like a segment is ever deleted.
"""

import contextlib
import gzip
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from extender.server.recording.lines import CALLS, CLUSTER, SETTINGS, name_of_segment, time_of_segment

SEGMENT = re.compile(r"\d{8}T\d{6}\.\d{6}Z")

_PART = ".part"
_MICROSECOND = 1000
_PIECE = 1 << 18
_LEVEL = 3  # of gzip: half the time of the usual 6 for a tenth more


class Disk:
    """The file system, as far as recordings need it; OSError as it comes."""

    def make_directory(self, path: Path) -> None:
        path.mkdir(mode=0o700)

    def create(self, path: Path) -> BinaryIO:
        """A file that was not there."""
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def prepare(directory: Path) -> None:
    """Make the directory if it is not there, and see whether it can be written to."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in directory.iterdir():
        if path.name.endswith(_PART) and SEGMENT.fullmatch(path.name[1 : -len(_PART)]):
            delete(path)  # its writer did not live to complete it
    attempt = directory / f".{os.getpid()}.try"
    attempt.touch(0o600)
    attempt.unlink()


def segments_in(directory: Path) -> list[Path]:
    """The complete ones, the oldest first."""
    return sorted(path for path in directory.iterdir() if SEGMENT.fullmatch(path.name) and (path / SETTINGS).exists())


def size_of(segment: Path) -> int:
    """Bytes of its files."""
    return sum(path.stat().st_size for path in segment.iterdir())


def delete(segment: Path) -> None:
    """Delete the files that we write, and the directory unless somebody else's are in it; nothing if it is gone."""
    for name in (SETTINGS, CLUSTER, CALLS):
        (segment / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        segment.rmdir()


class Segment:
    """The segment that is being written."""

    def __init__(self, path: Path, calls: BinaryIO, size: int) -> None:
        self.path = path
        self.size = size
        """Bytes of all its files."""
        self.written = 0
        """Bytes of its lines."""
        self._calls = calls

    @classmethod
    def begin(cls, directory: Path, now: int, head: bytes, picture: Iterable[bytes] | None, disk: Disk) -> "Segment":
        """A segment with a picture (None: there is none) and settings, named by a time in nanoseconds since 1970."""
        path = _free(directory, now)
        part = directory / f".{path.name}{_PART}"
        disk.make_directory(part)
        try:
            with disk.create(part / SETTINGS) as file:
                file.write(head)
            if picture is not None:
                with disk.create(part / CLUSTER) as file, gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as zipped:
                    for piece in _joined(picture):
                        zipped.write(piece)
            calls = disk.create(part / CALLS)
        except BaseException:
            delete(part)
            raise
        size = size_of(part)
        part.rename(path)
        return cls(path, calls, size)

    def write(self, line: bytes) -> None:
        self._calls.write(line)
        self.size += len(line)
        self.written += len(line)

    def flush(self) -> None:
        """What was written can be read now, whatever becomes of us."""
        self._calls.flush()

    def close(self) -> None:
        self._calls.close()


def _free(directory: Path, now: int) -> Path:
    """A name after those that are there: names tell the order of segments also if the clock was set back."""
    there, name = segments_in(directory), name_of_segment(now)
    if there and name <= there[-1].name:
        name = name_of_segment(time_of_segment(there[-1].name) + _MICROSECOND)
    return directory / name


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same in larger pieces."""
    waiting, size = [], 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _PIECE:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
