"""Find and read the files of a cluster: single files, and folders with their sub-folders.

Folders are read as `kubectl cluster-info dump --output-directory` and must-gather write them: a sub-folder for each
namespace, logs beside the objects. Files with other suffixes are counted, and hidden ones ignored: editors and the
kubelet, which mounts a ConfigMap through a hidden folder, write them.

Rule: a file is read as a whole or counted as passed over; limits are checked before the files are read.
"""

import codecs
import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from extender.errors import ClusterFileError
from extender.k8s.time import format_time
from extender.utilities.regular_file import gunzip, read_regular_file, size_text
from extender.utilities.source_file import SourceFile

MANIFEST_SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")

# Maximum size of a file, and of all files together, compressed and decompressed. A dump of 5,000 nodes with 150,000
# pods takes 78 MiB, one of 130,000 devices, most of them in use, 145 MiB.
MAX_BYTES = 256 << 20
MAX_FILES = 20_000  # Files with objects: a must-gather has one for each pod
MAX_ENTRIES = 200_000  # Files and folders of a folder, whatever they hold
MAX_FOLDER_DEPTH = 16  # Levels of sub-folders
MAX_SUFFIXES = 20  # Suffixes counted by name; files with further suffixes are counted together


@dataclass(slots=True)
class Contents:
    """Files that have been found, and read."""

    paths: dict[str, Path] = field(default_factory=dict)
    """Name for messages -> path; the name of a file of a folder is relative to the folder."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Name -> content, in UTF-8."""
    nested: set[str] = field(default_factory=set)
    """Names of the files of sub-folders, which are not necessarily manifests."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """Suffix of files that are no manifests -> number of files."""
    found_for: dict[str, list[Path]] = field(default_factory=dict)
    """File or folder that was asked for -> its files."""
    sources: list[SourceFile] = field(default_factory=list)
    """What was asked for, with its time before it was read."""

    def read(self) -> "Contents":
        """Read all files; ClusterFileError if one cannot be read, or if they are too large together."""
        for asked, files in self.found_for.items():
            newest = 0
            with contextlib.suppress(OSError):  # reading it fails, too, with a better message
                newest = max(file.stat().st_mtime_ns for file in files)
            self.sources.append(SourceFile(path=asked, modified=format_time(newest) if newest else ""))
        size = sum(map(len, self.files.values()))
        for name, path in self.paths.items():
            self.files[name] = _read_file(name, path)
            size += len(self.files[name])
            if size > MAX_BYTES:
                raise ClusterFileError(f"{name}: the cluster's files are larger than {size_text(MAX_BYTES)} together")
        return self


def find_files(paths: Iterable[Path], found: Contents | None = None) -> Contents:
    """Find the files, and those of folders and their sub-folders, by name; ClusterFileError if there are none."""
    found = found or Contents()
    for path in paths:
        before = len(found.paths)
        if path in found.paths.values():  # named twice
            continue
        try:
            if path.is_dir():
                _find_in(path, found)
            else:
                found.paths[str(path) if path.name in found.paths else path.name] = path
        except OSError as error:
            raise ClusterFileError(f"{error.filename or path}: {error.strerror}") from error
        except ValueError as error:  # a NUL byte in the path
            raise ClusterFileError(f"{path}: {error}") from error
        if len(found.paths) > MAX_FILES:
            raise ClusterFileError(f"{path}: has more than {MAX_FILES:,} cluster files")
        if len(found.paths) == before:
            raise ClusterFileError(f"{path}: no file in this directory ends in {', '.join(MANIFEST_SUFFIXES)}")
        found.found_for[str(path)] = list(found.paths.values())[before:]
    return found


def _find_in(root: Path, found: Contents) -> None:
    """Add the files of a folder, its own before those of each sub-folder."""
    folders, seen, entries = [(root, 0)], set[tuple[int, int]](), 0
    while folders:
        folder, depth = folders.pop()
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen:  # a symbolic link to a folder that was read
            continue
        seen.add((status.st_dev, status.st_ino))
        below: list[tuple[Path, int]] = []
        for path in sorted(folder.iterdir()):
            entries += 1
            if entries > MAX_ENTRIES:
                raise ClusterFileError(f"{root}: has more than {MAX_ENTRIES:,} files")
            if path.name.startswith("."):
                continue
            if path.is_dir():
                below.append((path, depth + 1))
            elif path.name.endswith(MANIFEST_SUFFIXES):
                relative = path.relative_to(root).as_posix()
                name = str(path) if relative in found.paths else relative
                found.paths[name] = path
                if depth:
                    found.nested.add(name)
            else:
                suffix = path.suffix or "without suffix"
                is_known = suffix in found.passed_over or len(found.passed_over) < MAX_SUFFIXES
                found.passed_over[suffix if is_known else "with further suffixes"] += 1
        if below and depth == MAX_FOLDER_DEPTH:
            raise ClusterFileError(f"{root}: has more than {MAX_FOLDER_DEPTH} levels of sub-folders")
        folders += reversed(below)


def read_stream(name: str, stream: BinaryIO) -> bytes:
    """Return what standard input or a FIFO has, until its end; ClusterFileError if that is too much."""
    data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ClusterFileError(f"{name}: is larger than {size_text(MAX_BYTES)}")
    try:
        return _plain(data)
    except ValueError as error:
        raise ClusterFileError(f"{name}: {error}") from error


def _read_file(name: str, path: Path) -> bytes:
    try:
        return _plain(read_regular_file(path, MAX_BYTES))
    except OSError as error:
        raise ClusterFileError(f"{name}: {error.strerror or error}") from error
    except ValueError as error:
        raise ClusterFileError(f"{name}: {error}") from error


def _plain(data: bytes) -> bytes:
    """Return the text in UTF-8, decompressed and without a byte order mark."""
    if data.startswith(b"\x1f\x8b"):
        data = gunzip(data, MAX_BYTES)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # written by `>` in PowerShell
        data = data.decode("utf-16").encode()
    return data.removeprefix(codecs.BOM_UTF8)
