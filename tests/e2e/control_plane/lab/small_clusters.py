"""Small clusters from a seed: nodes of different sizes, workloads with budgets, and questions about them.

Rule: all pods have the same priority, so that nothing is preempted.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.control_plane.lab.api import Api
from tests.e2e.control_plane.lab.objects import budget, node, pod, workload
from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.e2e.control_plane.lab.pods_of_all_kinds import ZONE, constrain, is_leaving

JSON = dict[str, Any]

ROOT = Path(__file__).parents[4]
SEEDS = range(20)
NODES = 6
APPS = {"web": "ReplicaSet", "api": "ReplicaSet", "db": "StatefulSet"}
BUDGETS: Sequence[JSON] = ({"maxUnavailable": 1}, {"minAvailable": "60%"}, {"maxUnavailable": 0}, {"maxUnavailable": 2})
AGENT = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "uid": "agent"}}


def create_cluster(api: Api, seed: int) -> list[str]:
    """Create nodes, and workloads whose pods fill two thirds of them; return the names of the nodes."""
    draw = random.Random(seed)
    names = [f"n{seed}-{i}" for i in range(NODES)]
    for i, name in enumerate(names):
        api.create(node(name, f"{draw.randrange(30, 80)}00m", f"{draw.randrange(8, 33)}Gi", labels={ZONE: f"z{i % 3}"}))
    owners = {app: api.create(workload(kind, app, 6, {"app": app})) for app, kind in APPS.items()}
    for app in APPS:
        api.create(budget(app, {"app": app}, **draw.choice(BUDGETS)))
        for number in range(6):
            where = draw.choice(names)
            one = replica(draw, app, number, owners[app])
            one["spec"]["nodeName"] = where
            api.create(one)
    api.create(*(pod(f"agent-{name}", "50m", "64Mi", node=name, owner=AGENT, grace=0) for name in names))
    api.create(pod("bare", "100m", node=names[0], grace=0))
    wait_for_counts(api)
    return names


def replica(draw: random.Random, app: str, number: int, owner: JSON) -> JSON:
    """Return pod number `number` of a workload, without a node."""
    name = f"{app}-{number}" if APPS[app] == "StatefulSet" else f"{app}-5d8f7c9b4-{number:05}"
    cpu, memory = f"{draw.randrange(20, 80)}0m", f"{draw.randrange(200, 900)}Mi"
    one = pod(name, cpu, memory, labels={"app": app}, owner=owner, grace=0)
    constrain(one, {"web": "plain", "api": "rich", "db": "plain"}[app])
    return one


def clear_cluster(api: Api) -> None:
    """Delete everything that the cluster has."""
    for kind in ("PodDisruptionBudget", "ReplicaSet", "StatefulSet", "Event"):
        api.request("DELETE", api.path(kind, "default"))
    api.request("DELETE", api.path("Pod", "default"), {"gracePeriodSeconds": 0})
    api.wait_until(lambda: not api.list("Pod", "default"), 20, "all pods to go")
    api.request("DELETE", api.path("Node"))


def wait_for_counts(api: Api) -> None:
    """Wait until bound pods run and the status of each budget counts them, and no eviction is under way."""

    def counted() -> bool:
        bound = [one for one in api.list("Pod", "default") if one["spec"].get("nodeName")]
        runs = all(one["status"]["phase"] == "Running" and not is_leaving(one) for one in bound)
        return runs and all(_is_current(one, bound) for one in api.list("PodDisruptionBudget", "default"))

    api.wait_until(counted, 30, "running pods and the status of budgets")


def _is_current(one: JSON, bound: Sequence[JSON]) -> bool:
    status, labels = one.get("status", {}), one["spec"]["selector"]["matchLabels"]
    healthy = sum(labels.items() <= other["metadata"]["labels"].items() for other in bound)
    allowed = max(0, healthy - status.get("desiredHealthy", 0))
    return (
        status.get("observedGeneration") == one["metadata"]["generation"]
        and (status.get("currentHealthy"), status.get("disruptionsAllowed")) == (healthy, allowed)
        and not status.get("disruptedPods")
    )


def simulate(plane: ControlPlane, *arguments: str, stdin: Sequence[JSON] = ()) -> JSON:
    """Run `extender simulate` on the live cluster as a user does; `stdin` are objects for a file named -."""
    argv = [sys.executable, "-m", "extender", "simulate", "--kubeconfig", str(plane.kubeconfig())]
    done = subprocess.run(
        [*argv, *arguments, "-o", "json"], input=json.dumps({"kind": "List", "apiVersion": "v1", "items": list(stdin)}),
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: JSON = json.loads(done.stdout)
    return found


class Placements:
    """Compares where pods were bound with the cycles of a simulation, as long as both chose the same of equal nodes.

    `twins` are two nodes without pods that are alike: whichever is taken first stands for the one of the simulation.
    """

    def __init__(self, cycles: Sequence[JSON], twins: Sequence[str] = ()) -> None:
        self._cycles = {one["pod"]: one for one in cycles}
        self._twins = tuple(twins)
        self._name_of: dict[str, str] = {}
        self.is_comparable = True
        """False: kube-scheduler chose another node of equal score, after which the clusters differ."""

    def compare(self, simulated: str, bound: str | None) -> None:
        """Compare the pod of the simulation, `namespace/name`, with the node that kube-scheduler chose."""
        if not self.is_comparable:
            return
        cycle = self._cycles[simulated]
        if cycle["node"] in self._twins and bound in self._twins and not self._name_of:
            first, second = self._twins
            swaps = cycle["node"] != bound
            self._name_of = {first: second, second: first} if swaps else {first: first, second: second}
        ties = cycle["score"]["ties"] if cycle["score"] else [cycle["node"]]
        assert bound in [self._name_of.get(one, one) for one in ties], cycle
        self.is_comparable = bound == self._name_of.get(cycle["node"], cycle["node"])
