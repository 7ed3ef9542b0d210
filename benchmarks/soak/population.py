"""The pods of the soak: the generated ones, which are long-running, and short-lived ones.

A short-lived pod has a slot and a generation, which are encoded in its UID and determine its node and priority. So
every process can reconstruct the pod from its UID.

Rule: a pod depends on the plan, its slot and its generation only.
"""

from collections.abc import Iterator, Mapping

import msgspec

from benchmarks import generate
from benchmarks.fullpods import full_pod
from benchmarks.generate import JSON, Plan
from benchmarks.soak import tenants
from extender.k8s.objects import Pod

SLOTS_PER_NODE = 2
_MARK = "4000-8000-50a4"
"""Middle part of the UIDs of short-lived pods, which no other UID has."""
_REQUESTS = ({"cpu": "50m", "memory": "128Mi"}, {"cpu": "100m", "memory": "512Mi"}, {"cpu": "250m", "memory": "1Gi"})


def slots(plan: Plan) -> range:
    return range(SLOTS_PER_NODE * plan.nodes)


def comer(plan: Plan, slot: int, generation: int) -> JSON:
    """Return a short-lived pod, bound and running."""
    chance = plan.chance(f"comer {slot}", generation)
    team, app = chance.randrange(generate.NAMESPACES), chance.randrange(generate.APPS_PER_NAMESPACE)
    pod: JSON = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"comer-{slot}-{generation}",
            "namespace": f"team-{team:02}",
            "uid": _uid(slot, generation),
            "labels": {"app": f"app-{app}", "tier": "web" if app < 3 else "batch", "pod-template-hash": f"{app:08x}"},
        },
        "spec": {
            "nodeName": generate.node_name(chance.randrange(plan.nodes)),
            "priority": chance.choice(list(generate.PRIORITIES)),
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "name": "main",
                    "image": f"registry.example/app-{app}:v1",
                    "resources": {"requests": chance.choice(_REQUESTS)},
                }
            ],
        },
        "status": {"phase": "Running", "startTime": "2025-06-01T08:00:00Z"},
    }
    return full_pod(pod, slot)


def _uid(slot: int, generation: int) -> str:
    return f"{slot:08x}-{_MARK}{generation:08x}"


def of_uid(plan: Plan, uid: str) -> Pod | None:
    """Return the short-lived pod with this UID; None for any other UID."""
    slot, _, rest = uid.partition("-")
    if not rest.startswith(_MARK):
        return None
    return msgspec.convert(comer(plan, int(slot, 16), int(rest.removeprefix(_MARK), 16)), Pod)


class OnNode(Mapping[str, Pod]):
    """The pods that may exist on a node, by UID: long-running ones, and all others that were ever bound to it."""

    def __init__(self, plan: Plan, node: str, staying: Mapping[str, Pod]) -> None:
        self._plan = plan
        self._node = node
        self._staying = staying

    def __getitem__(self, uid: str) -> Pod:
        pod = self._staying.get(uid) or of_uid(self._plan, uid) or tenants.of_uid(self._plan, uid)
        if pod is None or pod.spec.node_name != self._node:
            raise KeyError(uid)
        return pod

    def __iter__(self) -> Iterator[str]:
        """Iterate over the UIDs of the long-running pods."""
        return iter(self._staying)

    def __len__(self) -> int:
        return len(self._staying)


def known_pods(plan: Plan) -> dict[str, OnNode]:
    """Return all pods that a scheduler may know, by node and UID."""
    known = {}
    for row in range(plan.nodes):
        pods = [msgspec.convert(pod, Pod) for pod in generate.pods_on(plan, row)]
        name = generate.node_name(row)
        known[name] = OnNode(plan, name, {pod.metadata.uid: pod for pod in pods})
    return known
