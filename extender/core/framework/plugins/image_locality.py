"""ImageLocality: prefer nodes that already have the pod's large images.

Mirrors pkg/scheduler/framework/plugins/imagelocality (v1.36).
"""

import numpy as np

from extender.core.framework.plugins.shared.normalize import MAX_NODE_SCORE
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.snapshot.arrays import IntArray, NodeRows
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Node
from extender.utilities.groups import remove_member

NAME = "ImageLocality"

_MB = 1024 * 1024
_MIN_THRESHOLD_BYTES = 23 * _MB
"""Sum of image bytes up to which a node scores 0 (minThreshold)."""
_MAX_CONTAINER_THRESHOLD_BYTES = 1000 * _MB
"""Sum of image bytes per container from which a node scores 100 (maxContainerThreshold)."""


class ImageIndex(Index):
    """Images of every node, with the size that the node reports (upstream: NodeInfo.ImageStates)."""

    reads = ("nodes",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.holders: dict[str, dict[str, int]] = {}
        """Image name -> node name -> size in bytes."""

    def object_changed(self, _field: str, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None and before.status.images == after.status.images:
            return
        removed, current = _sizes(before), _sizes(after)
        for name in removed.keys() - current.keys():
            remove_member(self.holders, name, removed[name][0])
        for name, (node, size) in current.items():
            self.holders.setdefault(name, {})[node] = size


def _sizes(node: Node | None) -> dict[str, tuple[str, int]]:
    """Return image name -> (node name, bytes); if a node lists an image twice, the first entry counts."""
    if node is None:
        return {}
    images, of_node = node.status.images or (), node.metadata.name
    return {name: (of_node, image.size_bytes) for image in reversed(images) for name in image.names or ()}


@derived_by("nodes", "images")
def _image(snapshot: Snapshot, name: str) -> tuple[int, IntArray]:
    """Return the image's size in bytes and the rows of the nodes that have it.

    The first node in listing order that has the image determines the size (backend/cache addNodeImageStates, v1.36).
    """
    holders = snapshot.index(ImageIndex).holders.get(name, {})
    if not holders:
        return 0, np.empty(0, np.int64)
    first = min(holders, key=snapshot.node_order.__getitem__)
    return holders[first], np.array([snapshot.node_row[node] for node in holders], np.int64)


def score(context: SchedulingContext, rows: NodeRows) -> IntArray:
    """Return [row]: 0-100 by the bytes of the pod's images on the node."""
    # sum   = sum over the pod's images on the node of size * (nodes with the image / all nodes): the spread factor
    #         keeps pods from piling up on the few nodes that have a rare image
    # score = 100 * (sum - min) / (max - min), sum clipped to min..max, max = 1000 MB * containers; since
    #         v1.37 image volumes count as containers
    snapshot, spec, features = context.snapshot, context.pod.spec, context.features
    image_bytes = np.zeros(len(snapshot.nodes), np.int64)
    containers = list(spec.containers or ())
    if features.image_locality_counts_init_containers:
        containers = [*(spec.init_containers or ()), *containers]
    images = [container.image for container in containers]
    divisor = len(containers)
    if features.image_locality_counts_image_volumes:
        images += [volume.image.reference for volume in spec.volumes or () if volume.image]
    if features.image_locality_divides_by_image_volumes:
        divisor = len(images)
    for image in images:
        # The default tag is `latest`; the colon of a registry port does not start a tag.
        tagged = image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
        size, holders = _image(snapshot, tagged)
        image_bytes[holders] += int(size * (len(holders) / len(snapshot.nodes)))
    max_threshold = _MAX_CONTAINER_THRESHOLD_BYTES * divisor
    if max_threshold <= _MIN_THRESHOLD_BYTES:
        return np.zeros(len(rows), np.int64)
    bounded = np.clip(image_bytes[rows], _MIN_THRESHOLD_BYTES, max_threshold)
    return MAX_NODE_SCORE * (bounded - _MIN_THRESHOLD_BYTES) // (max_threshold - _MIN_THRESHOLD_BYTES)
