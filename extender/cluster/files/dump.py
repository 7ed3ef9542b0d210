"""Dump the cluster cache to a file that `load_cluster` reads.

Rule: the loaded dump leads to the same decisions as the dumped cache, also about unread kinds.
"""

import gzip
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from extender.cluster.files.manifests import UNREAD_ANNOTATION
from extender.cluster.watch import decode
from extender.k8s.kinds import KINDS, ClusterObjects, kind_without_group

ASSUMED_ANNOTATION = "extender/assumed"  # On a List: pods with assumed effects, `pod effect, effect; pod …`


def write_file(chunks: Iterable[bytes], path: Path) -> None:
    """Write a file, gzipped if its name ends in .gz; it appears complete or not at all."""
    partial = path.with_name(f".{path.name}.part")
    try:
        with gzip.open(partial, "wb", 6) if path.suffix == ".gz" else partial.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def encode_list(
    objects: ClusterObjects,
    pod_annotations: frozenset[str] = frozenset(),
    assumed: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[bytes]:
    """Yield the JSON of one List, object by object.

    `assumed`: pod -> effects that the service assumes, for an annotation of the List that readers ignore.
    """
    annotations = {UNREAD_ANNOTATION: ",".join(objects.unreadable_tables)} if objects.unreadable_tables else {}
    if assumed:
        effects = (f"{pod} {', '.join(on_pod)}" for pod, on_pod in sorted(assumed.items()))
        annotations[ASSUMED_ANNOTATION] = "; ".join(effects)
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
