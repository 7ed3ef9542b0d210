"""ImageLocality: a node that holds the pod's large images starts it sooner.

Mirrors pkg/scheduler/framework/plugins/imagelocality (v1.36).
"""

from itertools import chain

import numpy as np

from extender.core.framework.constraint import NodeRows, SchedulingContext
from extender.core.framework.plugins.normalize import MAX_NODE_SCORE
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.index import Index
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Node, Pod

NAME = "ImageLocality"

_MB = 1024 * 1024
_SMALLEST = 23 * _MB
_LARGEST_PER_CONTAINER = 1000 * _MB


class Images(Index):
    """Which nodes hold an image, and the size that each reports."""

    reads = ("nodes",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.holders: dict[str, dict[str, int]] = {}
        """Image name -> node name -> bytes."""

    def object_changed(self, _field: str, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None and before.status.images == after.status.images:
            return
        gone, now = _sizes(before), _sizes(after)
        for name in gone.keys() - now.keys():
            del self.holders[name][_name(before)]
            if not self.holders[name]:
                del self.holders[name]
        for name, size in now.items():
            self.holders.setdefault(name, {})[_name(after)] = size


def _name(node: Node | None) -> str:
    return node.metadata.name if node else ""


def _sizes(node: Node | None) -> dict[str, int]:
    """Image name -> bytes; of an image that is listed twice the first one counts."""
    images = (node.status.images if node else None) or ()
    return {name: image.size_bytes for image in reversed(images) for name in image.names or ()}


@derived_by("nodes", "images")
def _image(snapshot: Snapshot, name: str) -> tuple[int, IntArray]:
    """(size in bytes, node rows that hold it).

    The size is the one that the first node listed with the image reports (backend/cache addNodeImageStates, v1.36).
    """
    holders = snapshot.index(Images).holders.get(name, {})
    if not holders:
        return 0, np.empty(0, np.int64)
    first = min(holders, key=snapshot.node_order.__getitem__)
    return holders[first], np.array([snapshot.node_row[node] for node in holders], np.int64)


def normalized(image: str) -> str:
    """With the tag `latest` if it has none: the colon of a registry's port is no tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def score(context: SchedulingContext, rows: NodeRows) -> IntArray:
    """[row] 0-100: bytes of the pod's images on the node, each scaled by the share of nodes that have it."""
    snapshot = context.snapshot
    found = np.zeros(len(snapshot.nodes), np.int64)
    for reference in _references(context.pod):
        size, holders = _image(snapshot, normalized(reference))
        found[holders] += int(size * (len(holders) / len(snapshot.nodes)))
    containers = len(context.pod.spec.init_containers or ()) + len(context.pod.spec.containers or ())
    largest = _LARGEST_PER_CONTAINER * containers
    if largest <= _SMALLEST:
        return np.zeros(len(rows), np.int64)
    bounded = np.clip(found[rows], _SMALLEST, largest)
    return MAX_NODE_SCORE * (bounded - _SMALLEST) // (largest - _SMALLEST)


def _references(pod: Pod) -> list[str]:
    spec = pod.spec
    containers = chain(spec.init_containers or (), spec.containers or ())
    return [c.image for c in containers] + [v.image.reference for v in spec.volumes or () if v.image]
