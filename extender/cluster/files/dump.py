"""Dump the cluster cache to a file that `load_cluster` reads.

Rule: decisions on the loaded dump equal those on the dumped cache, unread kinds included.
"""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from extender.cluster.files.manifests import UNREAD_ANNOTATION
from extender.cluster.watch import decode
from extender.k8s.kinds import KINDS, ClusterObjects, kind_without_group


def write_dump(objects: ClusterObjects, path: Path, pod_annotations: frozenset[str] = frozenset()) -> None:
    """Write one List as JSON, gzipped if the name ends in .gz; the file is created complete or not at all.

    `pod_annotations`: annotations of pods to keep in addition to KEPT_ANNOTATIONS.
    """
    partial = path.with_name(f".{path.name}.part")
    try:
        with gzip.open(partial, "wb", 6) if path.suffix == ".gz" else partial.open("wb") as file:
            for chunk in encode_list(objects, pod_annotations):
                file.write(chunk)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def encode_list(objects: ClusterObjects, pod_annotations: frozenset[str] = frozenset()) -> Iterator[bytes]:
    """Yield the JSON of one List, object by object."""
    annotations = {UNREAD_ANNOTATION: ",".join(objects.unreadable_tables)} if objects.unreadable_tables else {}
    metadata = msgspec.json.encode({"annotations": annotations} if annotations else {})
    yield b'{"apiVersion":"v1","kind":"List","metadata":%b,"items":[' % metadata
    separator = b"\n"
    for name, kind in KINDS.items():
        head = msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind_without_group(name)})[:-1] + b","
        for one in getattr(objects, kind.field):
            kept = decode.strip_unread_fields(name, one, pod_annotations if name == "Pod" else frozenset())
            yield separator + head + msgspec.json.encode(kept)[1:]
            separator = b",\n"
    yield b"\n]}\n"
