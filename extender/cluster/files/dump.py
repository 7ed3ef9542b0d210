"""Write a picture of a cluster to a file that `load_cluster` reads again.

Rule: what is written decides as what was read, also where some kinds may not be read.
"""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from extender.cluster.files.manifests import UNREAD_ANNOTATION
from extender.cluster.watch import decode
from extender.k8s.kinds import KINDS, ClusterObjects, name_of


def write_dump(objects: ClusterObjects, path: Path, pod_annotations: frozenset[str] = frozenset()) -> None:
    """Write one List as JSON, gzipped if the name ends in .gz; the file is there whole or not at all.

    `pod_annotations`: those that decisions read beside KEPT_ANNOTATIONS.
    """
    partial = path.with_name(f".{path.name}.part")
    try:
        with gzip.open(partial, "wb", 6) if path.suffix == ".gz" else partial.open("wb") as file:
            for piece in encode_list(objects, pod_annotations):
                file.write(piece)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def encode_list(objects: ClusterObjects, pod_annotations: frozenset[str] = frozenset()) -> Iterator[bytes]:
    """The List, object by object."""
    also = {"Pod": pod_annotations}
    annotations = {UNREAD_ANNOTATION: ",".join(objects.unread)} if objects.unread else {}
    metadata = msgspec.json.encode({"annotations": annotations} if annotations else {})
    yield b'{"apiVersion":"v1","kind":"List","metadata":%b,"items":[' % metadata
    separator = b"\n"
    for name, kind in KINDS.items():
        head = msgspec.json.encode({"apiVersion": kind.api_version, "kind": name_of(name)})[:-1] + b","
        for one in getattr(objects, kind.field):
            yield (
                separator
                + head
                + msgspec.json.encode(decode.strip_unread_fields(name, one, also.get(name, frozenset())))[1:]
            )
            separator = b",\n"
    yield b"\n]}\n"
