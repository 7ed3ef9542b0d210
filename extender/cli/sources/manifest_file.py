"""Files named on the command line, which may be standard input (`-`) or a FIFO such as that of `<(…)`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from extender.errors import ClusterFileError

if TYPE_CHECKING:
    from extender.cluster.files.manifests import RawManifest
    from extender.cluster.files.reading import Contents

STANDARD_INPUT = "standard input"


def read_manifests(files: Sequence[str]) -> "list[RawManifest]":
    """Return the objects of the files, undecoded and in order; ClusterFileError for a file that cannot be read."""
    from extender.cluster.files.manifests import read_manifests

    return [one for file in files for one in read_manifests(read_contents([file]).files)]


def shown_name(file: str) -> str:
    """Return the name by which messages call a file."""
    return STANDARD_INPUT if file == "-" else Path(file).name


def read_contents(paths: Sequence[str]) -> "Contents":
    """Read standard input (`-`), FIFOs, files and folders; ClusterFileError if one cannot be read."""
    from extender.cluster.files.manifests import read_files
    from extender.cluster.files.reading import Contents, read_stream
    from extender.utilities.source_file import SourceFile

    contents = Contents()
    for path in paths:
        if not path:  # Path("") is the working directory
            raise ClusterFileError("the name of a file is empty")
        if path == "-":
            data = read_stream(STANDARD_INPUT, sys.stdin.buffer)
            if not data:
                raise ClusterFileError(f"{STANDARD_INPUT}: is empty; only one file can be -")
            contents.files[STANDARD_INPUT] = data
            contents.sources.append(SourceFile(path=STANDARD_INPUT))
        elif Path(path).is_fifo():
            with open(path, "rb") as stream:
                contents.files[path] = read_stream(path, stream)
            contents.sources.append(SourceFile(path=path))
    # Together, so that names are unique and the limits hold for all of them.
    regular = [Path(path) for path in paths if path != "-" and path not in contents.files]
    return read_files(regular, contents)
