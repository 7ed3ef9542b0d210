"""ImageLocality: prefer nodes that already have the pod's large images.

Mirrors pkg/scheduler/framework/plugins/imagelocality (v1.36).
"""

from itertools import chain

import numpy as np

from extender.core.framework.constraint import NodeRows, SchedulingContext
from extender.core.framework.plugins.normalize import MAX_NODE_SCORE
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Node, Pod

NAME = "ImageLocality"

_MB = 1024 * 1024
_MIN_THRESHOLD_BYTES = 23 * _MB
"""Sum of image bytes that scores 0 (minThreshold)."""
_MAX_CONTAINER_THRESHOLD_BYTES = 1000 * _MB
"""Image bytes per container that score 100 (maxContainerThreshold)."""


class ImageIndex(Index):
    """Images on every node, with the size that each node reports (upstream: NodeInfo.ImageStates)."""

    reads = ("nodes",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.holders: dict[str, dict[str, int]] = {}
        """Image name -> node name -> bytes."""

    def object_changed(self, _field: str, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None and before.status.images == after.status.images:
            return
        removed, current = _sizes(before), _sizes(after)
        for name in removed.keys() - current.keys():
            del self.holders[name][_name(before)]
            if not self.holders[name]:
                del self.holders[name]
        for name, size in current.items():
            self.holders.setdefault(name, {})[_name(after)] = size


def _name(node: Node | None) -> str:
    return node.metadata.name if node else ""


def _sizes(node: Node | None) -> dict[str, int]:
    """Return image name -> bytes; if a node lists an image twice, the first entry counts."""
    images = (node.status.images if node else None) or ()
    return {name: image.size_bytes for image in reversed(images) for name in image.names or ()}


@derived_by("nodes", "images")
def _image(snapshot: Snapshot, name: str) -> tuple[int, IntArray]:
    """Return the image's size in bytes and the rows of the nodes that have it.

    The size is the one that the first node listed with the image reports (backend/cache addNodeImageStates, v1.36).
    """
    holders = snapshot.index(ImageIndex).holders.get(name, {})
    if not holders:
        return 0, np.empty(0, np.int64)
    first = min(holders, key=snapshot.node_order.__getitem__)
    return holders[first], np.array([snapshot.node_row[node] for node in holders], np.int64)


def _with_default_tag(image: str) -> str:
    """Return the image name with the tag `latest` if it has none; the colon of a registry port does not start a tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def score(context: SchedulingContext, rows: NodeRows) -> IntArray:
    """Return [row]: 0-100 by the bytes of the pod's images on the node."""
    # sum   = sum over the pod's images on the node of size * (nodes with the image / all nodes): the spread factor
    #         keeps pods from piling up on the few nodes that have a rare image
    # score = 100 * (sum - min) / (max - min), sum clipped to min..max, max = 1000 MB * containers
    snapshot = context.snapshot
    image_bytes = np.zeros(len(snapshot.nodes), np.int64)
    for reference in _image_references(context.pod):
        size, holders = _image(snapshot, _with_default_tag(reference))
        image_bytes[holders] += int(size * (len(holders) / len(snapshot.nodes)))
    containers = len(context.pod.spec.init_containers or ()) + len(context.pod.spec.containers or ())
    max_threshold = _MAX_CONTAINER_THRESHOLD_BYTES * containers
    if max_threshold <= _MIN_THRESHOLD_BYTES:
        return np.zeros(len(rows), np.int64)
    bounded = np.clip(image_bytes[rows], _MIN_THRESHOLD_BYTES, max_threshold)
    return MAX_NODE_SCORE * (bounded - _MIN_THRESHOLD_BYTES) // (max_threshold - _MIN_THRESHOLD_BYTES)


def _image_references(pod: Pod) -> list[str]:
    spec = pod.spec
    containers = chain(spec.init_containers or (), spec.containers or ())
    return [c.image for c in containers] + [v.image.reference for v in spec.volumes or () if v.image]
