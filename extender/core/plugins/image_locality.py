"""ImageLocality: a node that holds the pod's large images starts it sooner.

Mirrors pkg/scheduler/framework/plugins/imagelocality (v1.36).
"""

from itertools import chain

import numpy as np

from extender.core.checks import Incoming, Rows
from extender.core.plugins.normalize import MAX_NODE_SCORE
from extender.core.snapshot import IntArray, Snapshot
from extender.k8s.objects import Pod

NAME = "ImageLocality"

_MB = 1024 * 1024
_SMALLEST = 23 * _MB
_LARGEST_PER_CONTAINER = 1000 * _MB


def images(snapshot: Snapshot) -> dict[str, tuple[int, IntArray]]:
    """Image name -> (size in bytes, node rows that hold it); take it from `snapshot.memo`.

    The size is the one reported by the first node listed that has the image (backend/cache addNodeImageStates).
    """
    sizes: dict[str, int] = {}
    holders: dict[str, list[int]] = {}
    for row, node in enumerate(snapshot.nodes):
        for image in node.status.images or ():
            for name in image.names or ():
                sizes.setdefault(name, image.size_bytes)
                holders.setdefault(name, []).append(row)
    return {name: (sizes[name], np.unique(np.array(rows, np.int64))) for name, rows in holders.items()}


def normalized(image: str) -> str:
    """With the tag `latest` if it has none: the colon of a registry's port is no tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def score(incoming: Incoming, rows: Rows) -> IntArray:
    """[row] 0-100: bytes of the pod's images on the node, each scaled by the share of nodes that have it."""
    snapshot = incoming.snapshot
    found = np.zeros(len(snapshot.nodes), np.int64)
    known = snapshot.memo(images)
    for reference in _references(incoming.pod):
        size, holders = known.get(normalized(reference), (0, np.empty(0, np.int64)))
        found[holders] += int(size * (len(holders) / len(snapshot.nodes)))
    containers = len(incoming.pod.spec.init_containers or ()) + len(incoming.pod.spec.containers or ())
    largest = _LARGEST_PER_CONTAINER * containers
    if largest <= _SMALLEST:
        return np.zeros(len(rows), np.int64)
    bounded = np.clip(found[rows], _SMALLEST, largest)
    return MAX_NODE_SCORE * (bounded - _SMALLEST) // (largest - _SMALLEST)


def _references(pod: Pod) -> list[str]:
    spec = pod.spec
    containers = chain(spec.init_containers or (), spec.containers or ())
    return [c.image for c in containers] + [v.image.reference for v in spec.volumes or () if v.image]
