"""Does the pod fit once the victims are gone, and does it need every one of them: asked of the slow reference.

Rule: each question is asked of a cluster that really lacks the pods, as kube-scheduler would find it next time.
"""

from dataclasses import dataclass, replace
from typing import Self

from tests.builders import JSON
from tests.reference import Cluster, Cycle, Pod
from tests.reference.objects import finished, priority, start_time
from tests.reference.preemption import split_by_budgets
from tests.reference.state import Node

__all__ = ["Room", "finished", "importance", "priority"]


def importance(pod: JSON) -> tuple[int, int]:
    """Sorts the most important first."""
    return -priority(pod), start_time(pod)


@dataclass(frozen=True, slots=True)
class Room:
    """A cluster from which pods can be left out, and a pod to place on it."""

    cluster: Cluster
    pod: Pod

    @classmethod
    def of(cls, cluster: JSON, pod: JSON) -> Self:
        return cls(Cluster.of(cluster), Pod.of(pod))

    def fits_without(self, node: str, gone: set[str]) -> bool:
        """Whether the pod fits on the node once the pods with these UIDs are gone from it."""
        emptied = _rebuilt(self.cluster.nodes[node], gone)
        cluster = replace(self.cluster, nodes=self.cluster.nodes | {node: emptied})
        cycle = Cycle.prefiltered(cluster, self.pod)
        return not cycle.rejected and cycle.judge(emptied).fits

    def complaint(self, node: str, victims: list[str]) -> str | None:
        """What is wrong with the choice of victims (UIDs), None if nothing is.

        Not asked where upstream's dry run counts otherwise than its next cycle would (see `is_counted_oddly`); nor, of
        single victims, where one that comes back may help: it is wanted near, evens out the spread, or shares a volume.
        """
        if self.is_counted_oddly(node):
            return None
        if not self.fits_without(node, set(victims)):
            return f"{node}: the pod does not fit without {victims}"
        if self.pod.affinity or self.hard_constraints or self.claims:
            return None
        spare = [uid for uid in victims if self.fits_without(node, set(victims) - {uid})]
        return f"{node}: {spare} of {victims} need not go" if spare else None

    @property
    def hard_constraints(self) -> list[JSON]:
        """Of topology spread."""
        constraints = self.pod.raw["spec"].get("topologySpreadConstraints") or ()
        return [one for one in constraints if one["whenUnsatisfiable"] == "DoNotSchedule"]

    @property
    def claims(self) -> list[str]:
        return claims_of(self.pod)

    def is_counted_oddly(self, node: str) -> bool:
        """A port is freed with the first of two pods that hold it. Pods that terminate, and all pods where a selector
        is empty, count for a spread only as they are taken off. A claim counts as used once, however many use it,
        and whoever uses one of its name, in any namespace, counts as it is taken off."""
        pods = self.cluster.nodes[node].pods
        ports = [port for pod in pods for port in pod.ports]
        terminating = any("deletionTimestamp" in pod.raw["metadata"] for pod in pods)
        empty = any(one.get("labelSelector") == {} for one in self.hard_constraints)
        users = [
            pod.namespace == self.pod.namespace
            for other in self.cluster.nodes.values()
            for pod in other.pods
            for name in claims_of(pod)
            if name in self.claims
        ]
        return (
            (bool(self.pod.ports) and len(set(ports)) < len(ports))
            or (bool(self.hard_constraints) and (terminating or empty))
            or len(users) > 1
            or not all(users)
        )

    def violations(self, node: str, victims: list[str]) -> int:
        """How many of the victims (UIDs) break a budget."""
        lower = [pod for pod in self.cluster.nodes[node].pods if pod.priority < self.pod.priority]
        breaking, _ = split_by_budgets(sorted(lower, key=lambda pod: pod.importance), self.cluster.budgets)
        return sum(pod.uid in victims for pod in breaking)


def claims_of(pod: Pod) -> list[str]:
    volumes = pod.raw["spec"].get("volumes") or ()
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]


def _rebuilt(node: Node, gone: set[str]) -> Node:
    """The node from its object, with the pods that stay."""
    fresh = Node(node.raw, node.name, node.labels, node.allocatable)
    for pod in node.pods:
        if pod.uid not in gone:
            fresh.add(pod)
    return fresh
