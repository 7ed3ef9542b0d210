"""Does the pod fit once the victims are gone, and does it need every one of them: asked of the slow reference.

Rule: each question is asked of a cluster that really lacks the pods, as kube-scheduler would find it next time.
"""

from dataclasses import dataclass, replace
from typing import Self

from tests.builders import JSON
from tests.parity.reference import Cluster, Cycle, Pod, spread
from tests.parity.reference.objects import finished, priority, start_time, terminating
from tests.parity.reference.preemption import split_by_budgets
from tests.parity.reference.state import Node
from tests.parity.reference.volumes import csi_volumes, restrictions

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
        return Cycle.prefiltered(cluster, self.pod).judge(emptied).fits

    def complaint(self, node: str, victims: list[str]) -> str | None:
        """What is wrong with the choice of victims (UIDs), None if nothing is.

        Not asked where upstream's dry run counts in another way than upstream's next attempt would: where two pods of
        the node hold the same host port, which goes with the first; where the pod's claims are exclusive and in use;
        and where terminating pods or an empty selector meet topology spread. Nor, of single victims, where the pod
        wants others near or shares a volume with one, because then one that comes back may help.
        """
        if self.shares_a_port(node) or self.claims_are_in_use() or self.spread_counts_otherwise(node):
            return None
        if not self.fits_without(node, set(victims)):
            return f"{node}: the pod does not fit without {victims}"
        if self.pod.affinity or self.shares_a_volume(node):
            return None
        spare = [uid for uid in victims if self.fits_without(node, set(victims) - {uid})]
        return f"{node}: {spare} of {victims} need not go" if spare else None

    def shares_a_port(self, node: str) -> bool:
        ports = [port for pod in self.cluster.nodes[node].pods for port in pod.ports]
        return bool(self.pod.ports) and len(set(ports)) < len(ports)

    def shares_a_volume(self, node: str) -> bool:
        """What is on the node already is held against no limit."""
        wanted = csi_volumes(self.cluster, self.pod)
        return any(wanted & csi_volumes(self.cluster, pod) for pod in self.cluster.nodes[node].pods)

    def claims_are_in_use(self) -> bool:
        held = restrictions(self.cluster, self.pod)
        return held is not None and held.users > 0

    def spread_counts_otherwise(self, node: str) -> bool:
        state = spread.prefilter(self.cluster, self.pod)
        return state is not None and (
            any(terminating(pod.raw) for pod in self.cluster.nodes[node].pods)
            or any(constraint.selector.is_empty for constraint in state.constraints)
        )

    def violations(self, node: str, victims: list[str]) -> int:
        """How many of the victims (UIDs) break a budget."""
        lower = [pod for pod in self.cluster.nodes[node].pods if pod.priority < self.pod.priority]
        breaking, _ = split_by_budgets(sorted(lower, key=lambda pod: pod.importance), self.cluster.budgets)
        return sum(pod.uid in victims for pod in breaking)


def _rebuilt(node: Node, gone: set[str]) -> Node:
    """The node from its object, with the pods that stay."""
    fresh = Node(node.raw, node.name, node.labels, node.allocatable)
    for pod in node.pods:
        if pod.uid not in gone:
            fresh.add(pod)
    return fresh
