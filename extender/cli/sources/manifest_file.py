"""Manifest files named on the command line; - is standard input."""

import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extender.cluster.files.manifests import LoadReport


def read_manifest(file: str, namespace: str = "default", keep: Collection[str] = ()) -> "tuple[str, LoadReport]":
    """Return the file's name and its objects, read by `read_cluster`; ClusterFileError for an invalid file."""
    from extender.cluster.files.manifests import read_cluster

    with _readable_path(file) as path:
        return path.name, read_cluster(path, keep, namespace)


def other_kinds(report: "LoadReport", fields: Collection[str]) -> Iterator[str]:
    """Yield the kinds of objects outside the given fields of ClusterObjects."""
    from extender.k8s.kinds import KINDS

    yield from (kind for kind, one in KINDS.items() if one.field not in fields and getattr(report.objects, one.field))
    yield from report.skipped_kinds


@contextmanager
def _readable_path(file: str) -> Iterator[Path]:
    """Yield a path to read; standard input is copied to a temporary file."""
    from extender.cluster.files.manifests import MAX_BYTES

    if file != "-":
        yield Path(file)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stdin.yaml")
        path.write_bytes(sys.stdin.buffer.read(MAX_BYTES + 1))  # one more, so that a larger input is rejected
        yield path
