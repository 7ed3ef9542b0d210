"""Affinity and anti-affinity between pods, counted per topology domain.

Mirrors pkg/scheduler/framework/plugins/interpodaffinity (v1.36). Required terms are counted once over the whole
cluster, then kept up to date as pods are taken off and put back; preferred ones are scored.
"""

from collections import Counter
from dataclasses import dataclass, replace

from tests.parity.reference.objects import UNRESOLVABLE, UNSCHEDULABLE, Verdict
from tests.parity.reference.selectors import Labels
from tests.parity.reference.state import Cluster, Node, Pod, Preference, Term

NAME = "InterPodAffinity"
NO_LABELS: Labels = {}
HARD_POD_AFFINITY_WEIGHT = 1

Counts = Counter[tuple[str, str]]
"""Matches per (topology key, value)."""


@dataclass(frozen=True, slots=True)
class InterPodState:
    pod: Pod
    namespace_labels: Labels
    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]
    affinity_counts: Counts
    anti_affinity_counts: Counts
    existing_anti_affinity_counts: Counts

    def clone(self) -> "InterPodState":
        return replace(
            self,
            affinity_counts=self.affinity_counts.copy(),
            anti_affinity_counts=self.anti_affinity_counts.copy(),
            existing_anti_affinity_counts=self.existing_anti_affinity_counts.copy(),
        )

    def count(self, other: Pod, node: Node, sign: int) -> None:
        """Add (1) or subtract (-1) a pod on a node."""
        for term in other.anti_affinity:
            if term.matches(self.pod, self.namespace_labels):
                _update(self.existing_anti_affinity_counts, node, term, sign)
        if matches_all(self.affinity, other):
            for term in self.affinity:
                _update(self.affinity_counts, node, term, sign)
        for term in self.anti_affinity:
            if term.matches(other, NO_LABELS):
                _update(self.anti_affinity_counts, node, term, sign)

    def check(self, node: Node) -> Verdict | None:
        if not self._has_affine_pods(node):
            return Verdict(UNRESOLVABLE, NAME, ("node(s) didn't match pod affinity rules",))
        if any(self.anti_affinity_counts[term.topology_key, _value(node, term)] > 0 for term in self.anti_affinity):
            return Verdict(UNSCHEDULABLE, NAME, ("node(s) didn't match pod anti-affinity rules",))
        if any(self.existing_anti_affinity_counts[domain] > 0 for domain in node.labels.items()):
            return Verdict(UNSCHEDULABLE, NAME, ("node(s) didn't satisfy existing pods anti-affinity rules",))
        return None

    def _has_affine_pods(self, node: Node) -> bool:
        """Every term is met; or no pod in the cluster meets them and the pod itself would be the first to."""
        if any(term.topology_key not in node.labels for term in self.affinity):
            return False
        if all(self.affinity_counts[term.topology_key, _value(node, term)] > 0 for term in self.affinity):
            return True
        return not self.affinity_counts and matches_all(self.affinity, self.pod)


def prefilter(cluster: Cluster, pod: Pod) -> InterPodState | None:
    """None if the plugin is skipped: then nothing that is added later, nominated pods included, wakes it."""
    state = InterPodState(
        pod,
        cluster.namespaces.get(pod.namespace, NO_LABELS),
        tuple(_merged(cluster, term) for term in pod.affinity),
        tuple(_merged(cluster, term) for term in pod.anti_affinity),
        Counter(),
        Counter(),
        Counter(),
    )
    for node in cluster.nodes.values():
        for other in node.pods:
            state.count(other, node, 1)
    if not state.existing_anti_affinity_counts and not state.affinity and not state.anti_affinity:
        return None
    return state


def score(cluster: Cluster, pod: Pod, nodes: list[Node]) -> list[int] | None:
    """What the pod prefers of the others, and they of it, lowest to highest scaled to 0 to 100.

    Required affinity of the others counts as a weak preference. None if no term matches on any node that has its key.
    """
    namespace_labels = cluster.namespaces.get(pod.namespace, NO_LABELS)
    own = [Preference(one.weight, _merged(cluster, one.term)) for one in pod.preferences]
    points: Counts = Counter()

    def credit(node: Node, preference: Preference) -> None:
        if preference.term.topology_key in node.labels:
            points[preference.term.topology_key, _value(node, preference.term)] += preference.weight

    for node in cluster.nodes.values():
        for other in node.pods:
            for preference in own:
                if preference.term.matches(other, NO_LABELS):
                    credit(node, preference)
            required = [Preference(HARD_POD_AFFINITY_WEIGHT, term) for term in other.affinity]
            for preference in (*required, *other.preferences):
                if preference.term.matches(pod, namespace_labels):
                    credit(node, preference)
    if not points:
        return None
    raw = [sum(points[domain] for domain in node.labels.items()) for node in nodes]
    lowest, difference = min(raw, default=0), max(raw, default=0) - min(raw, default=0)
    return [int(100 * ((one - lowest) / difference)) if difference else 0 for one in raw]


def matches_all(terms: tuple[Term, ...], pod: Pod) -> bool:
    return bool(terms) and all(term.matches(pod, NO_LABELS) for term in terms)


def _merged(cluster: Cluster, term: Term) -> Term:
    """The namespaces that the selector finds, written out.

    Upstream's quirk: the selector stays, and is later matched against no labels at all, so that one that asks for
    the absence of something matches every namespace.
    """
    if term.namespace_selector.is_empty:
        return term
    found = {name for name, labels in cluster.namespaces.items() if term.namespace_selector.matches(labels)}
    return replace(term, namespaces=term.namespaces | found)


def _update(counts: Counts, node: Node, term: Term, sign: int) -> None:
    if term.topology_key in node.labels:
        domain = term.topology_key, _value(node, term)
        counts[domain] += sign
        if not counts[domain]:
            del counts[domain]


def _value(node: Node, term: Term) -> str:
    return node.labels.get(term.topology_key, "")
