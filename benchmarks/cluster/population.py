"""The cluster: full nodes, their pods, budgets, and the pods that arrive.

Rule: everything has `terminationGracePeriodSeconds: 0`, so that an evicted pod is gone at once, without a kubelet.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.cluster.bulk import JSON, BulkClient, Request, pods_in, pods_path
from tests.e2e.control_plane.lab.api import Api
from tests.e2e.control_plane.lab.objects import budget, node, pod, priority_class

RESIDENTS = "residents"
"""Namespace of the pods that fill the nodes."""
ARRIVALS = "arrivals"
"""Namespace of the pods that are scheduled."""

PRIORITIES = {"low": 100, "middle": 1_000, "high": 100_000}
WORKLOADS = 50
ZONES = 3
NODE_MILLICORES = 8_000
FREE_MILLICORES = 200
"""Left on each node: enough for small pods, not for a preemptor."""
STARTED = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    pods_per_node: int
    seed: int

    @property
    def millicores(self) -> int:
        """CPU that each of these pods requests."""
        return (NODE_MILLICORES - FREE_MILLICORES) // self.pods_per_node

    @property
    def preemptor_millicores(self) -> int:
        """CPU that a preemptor requests: two pods must go, and the rest is not enough for another."""
        return FREE_MILLICORES + self.millicores * 3 // 2


class Population:
    """Creates the cluster, and creates again what was evicted."""

    def __init__(self, size: Size, api: Api, client: BulkClient) -> None:
        self.size = size
        self._api = api
        self._client = client
        self._nodes = [
            node(f"node-{i}", cpu=f"{NODE_MILLICORES}m", labels={"topology.kubernetes.io/zone": f"zone-{i % ZONES}"})
            for i in range(size.nodes)
        ]
        self._residents = {one["metadata"]["name"]: one for one in residents(size)}

    def create(self) -> None:
        """Create priority classes, nodes, running pods and budgets."""
        for namespace in (RESIDENTS, ARRIVALS):
            self._api.create_namespace(namespace)
        self._api.create(*(priority_class(name, value) for name, value in PRIORITIES.items()))
        self._client.send_all(Request("POST", "/api/v1/nodes", one) for one in self._nodes)
        self.fill()
        healthy = len(self._residents) // WORKLOADS
        for i in range(WORKLOADS):  # a fifth of the workloads has no disruption to spare
            least = healthy * (2 if i % 5 == 0 else 1) // 2
            self._api.create(budget(f"app-{i}", {"app": f"app-{i}"}, namespace=RESIDENTS, minAvailable=least))

    def fill(self) -> int:
        """Create the pods that are missing on the nodes, as running pods; return their number."""
        present, _ = pods_in(self._client, RESIDENTS)
        missing = [one for name, one in self._residents.items() if name not in present]
        self._client.send_all(Request("POST", pods_path(RESIDENTS), one) for one in missing)
        paths = (pods_path(RESIDENTS, one["metadata"]["name"], "status") for one in missing)
        self._client.send_all(Request("PATCH", path, running()) for path in paths)
        return len(missing)

    def arrive(self, names: list[str], millicores: int, priority: str) -> None:
        """Create pods without a node, and return once they exist."""
        pods = (arrival(name, millicores, priority) for name in names)
        self._client.send_all(Request("POST", pods_path(ARRIVALS), one) for one in pods)

    def clear_arrivals(self) -> None:
        """Delete all pods that arrived."""
        names, _ = pods_in(self._client, ARRIVALS)
        self._client.send_all(Request("DELETE", pods_path(ARRIVALS, name)) for name in names)


def residents(size: Size) -> Iterator[JSON]:
    """Return the pods that fill the nodes."""
    chance = random.Random(size.seed)
    for i in range(size.nodes * size.pods_per_node):
        app = f"app-{chance.randrange(WORKLOADS)}"
        yield pod(
            f"{app}-{i}",
            f"{size.millicores}m",
            "256Mi",
            priority_class=chance.choice(("low", "middle")),
            node=f"node-{i % size.nodes}",
            namespace=RESIDENTS,
            labels={"app": app},
            grace=0,
        )


def arrival(name: str, millicores: int, priority: str) -> JSON:
    labels = {"app": "arrival"}
    return pod(name, f"{millicores}m", "1Mi", priority_class=priority, namespace=ARRIVALS, labels=labels, grace=0)


def running() -> JSON:
    """Return the patch with which a kubelet reports a pod as running."""
    conditions = [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")]
    return {"status": {"phase": "Running", "startTime": STARTED, "conditions": conditions}}
