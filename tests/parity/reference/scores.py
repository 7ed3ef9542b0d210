"""How good is a feasible node: per plugin 0 to 100, normalised, times the plugin's weight.

Mirrors the Score functions of pkg/scheduler/framework/plugins (v1.36, default profile) without dynamic resources. A
plugin that PreScore skips gives None.
"""

import math
from collections import Counter
from collections.abc import Callable

from tests.parity.reference import interpod, quantities, spread
from tests.parity.reference.objects import JSON, containers, init_containers, status
from tests.parity.reference.placement import node_affinity_of, tolerations
from tests.parity.reference.selectors import node_matches_term, tolerates
from tests.parity.reference.state import Cluster, Node, Pod

Scores = list[int]
SCORED = ("cpu", "memory")
MEBIBYTE = 2**20


def score(cluster: Cluster, pod: Pod, feasible: list[Node]) -> JSON:
    """`{node: {"plugins": {name: weighted score}, "total": sum}}`."""
    result: JSON = {node.name: {"plugins": {}, "total": 0} for node in feasible}
    for name, (weight, plugin) in PLUGINS.items():
        scores = plugin(cluster, pod, feasible)
        if scores is None:
            continue
        for node, points in zip(feasible, scores, strict=True):
            result[node.name]["plugins"][name] = weight * points
            result[node.name]["total"] += weight * points
    return result


def taint_toleration(_: Cluster, pod: Pod, nodes: list[Node]) -> Scores:
    """The fewer PreferNoSchedule taints it does not tolerate, the better."""
    willing = [one for one in tolerations(pod) if one.get("effect") in (None, "", "PreferNoSchedule")]

    def untolerated(node: Node) -> int:
        taints = node.raw["spec"].get("taints") or ()
        return sum(taint["effect"] == "PreferNoSchedule" and not tolerates(willing, taint) for taint in taints)

    return [100 - points for points in normalized([untolerated(node) for node in nodes])]


def node_affinity(_: Cluster, pod: Pod, nodes: list[Node]) -> Scores | None:
    """The sum of the weights of the preferred terms that match."""
    terms = node_affinity_of(pod.raw).get("preferredDuringSchedulingIgnoredDuringExecution")
    if terms is None:
        return None
    return normalized(
        [sum(term["weight"] for term in terms if node_matches_term(node.raw, term["preference"])) for node in nodes]
    )


def node_resources_fit(_: Cluster, pod: Pod, nodes: list[Node]) -> Scores:
    """LeastAllocated: the mean over cpu and memory of (allocatable - requested) * 100 / allocatable.

    Upstream's quirk: of the incoming pod only the containers count, not its pod-level requests.
    """
    asked = quantities.amounts(
        quantities.pod_requests(pod.raw, resized=False, pod_level=False, missing=quantities.DEFAULTS)
    )

    def free(node: Node, name: str) -> int:
        allocatable, requested = node.allocatable[name], node.nonzero[name] + asked.get(name, 0)
        return max(0, (allocatable - requested) * 100 // allocatable)

    def mean(node: Node) -> int:
        there = [name for name in SCORED if node.allocatable.get(name)]
        return sum(free(node, name) for name in there) // len(there) if there else 0

    return [mean(node) for node in nodes]


def node_resources_balanced_allocation(_: Cluster, pod: Pod, nodes: list[Node]) -> Scores | None:
    """Around 75; more if the pod brings the shares of cpu and memory in use closer together, less if further apart."""
    asked = quantities.amounts(quantities.pod_requests(pod.raw, resized=True))
    if not any(asked.get(name) for name in SCORED):
        return None

    def balance(node: Node, extra: quantities.Amounts) -> int:
        """(1 - standard deviation) * 100."""
        shares = [
            min(1.0, (node.requested[name] + extra.get(name, 0)) / node.allocatable[name])
            for name in SCORED
            if node.allocatable.get(name)
        ]
        deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
        return math.trunc((1 - deviation) * 100)

    return [50 + (50 + balance(node, asked) - balance(node, {})) // 2 for node in nodes]


def image_locality(cluster: Cluster, pod: Pod, nodes: list[Node]) -> Scores:
    """Sizes of the pod's images that are on the node, each times the share of nodes that have it, scaled to 100.

    An image's size is the one that the first node listed with it reports.
    """
    sizes: dict[str, int] = {}
    holders: Counter[str] = Counter()
    for node in cluster.nodes.values():
        for name, size in images_on(node).items():
            sizes.setdefault(name, size)
            holders[name] += 1
    running = [*init_containers(pod.raw), *containers(pod.raw)]
    wanted = [container.get("image", "") for container in running]
    wanted += [
        volume["image"].get("reference", "")
        for volume in pod.raw["spec"].get("volumes") or ()
        if volume.get("image") is not None
    ]
    lowest, highest = 23 * MEBIBYTE, 1000 * MEBIBYTE * len(running)

    def points(node: Node) -> int:
        here = images_on(node)
        names = [name for name in map(with_tag, wanted) if name in here]
        total = sum(math.trunc(sizes[name] * (holders[name] / len(cluster.nodes))) for name in names)
        return 100 * (max(lowest, min(highest, total)) - lowest) // (highest - lowest)

    return [points(node) for node in nodes]


PLUGINS: dict[str, tuple[int, Callable[[Cluster, Pod, list[Node]], Scores | None]]] = {
    "TaintToleration": (3, taint_toleration),
    "NodeAffinity": (2, node_affinity),
    "NodeResourcesFit": (1, node_resources_fit),
    "PodTopologySpread": (2, spread.score),
    "InterPodAffinity": (2, interpod.score),
    "NodeResourcesBalancedAllocation": (1, node_resources_balanced_allocation),
    "ImageLocality": (1, image_locality),
}
"""Weight and scores."""


def normalized(scores: Scores) -> Scores:
    """The highest becomes 100; all zero stays so."""
    highest = max(scores, default=0)
    return [100 * points // highest for points in scores] if highest else scores


def images_on(node: Node) -> dict[str, int]:
    found: dict[str, int] = {}
    for image in status(node.raw).get("images") or ():
        for name in image.get("names") or ():
            found.setdefault(name, int(image.get("sizeBytes") or 0))
    return found


def with_tag(image: str) -> str:
    return f"{image}:latest" if image.rfind(":") <= image.rfind("/") else image
