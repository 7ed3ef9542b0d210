"""PodTopologySpread: equally many matching pods in every topology domain.

Mirrors pkg/scheduler/framework/plugins/podtopologyspread and `DefaultSelector` of plugins/helper/spread.go (v1.36,
default profile: system default constraints). Hard constraints are counted once over the whole cluster, then kept up to
date as pods are taken off and put back; soft ones are scored.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.parity.reference.objects import (
    JSON,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Verdict,
    controller,
    namespace,
    terminating,
)
from tests.parity.reference.placement import is_closed_to, is_wanted_by
from tests.parity.reference.selectors import InvalidSelectorError, Selector, equal_to, label_selector
from tests.parity.reference.state import Cluster, Node, Pod

NAME = "PodTopologySpread"
NOT_SPREAD = "node(s) didn't match pod topology spread constraints"
HOSTNAME = "kubernetes.io/hostname"
DEFAULTS = ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))
"""Topology key and maxSkew."""

Counts = Counter[str]
"""Value of the topology key -> matching pods; every domain that counts is there, if only with 0."""


@dataclass(frozen=True, slots=True)
class Constraint:
    key: str
    max_skew: int
    selector: Selector
    min_domains: int = 1
    minds_affinity: bool = True
    minds_taints: bool = False

    def includes(self, pod: Pod, node: Node) -> bool:
        """Its node inclusion policies: do the node's domain and pods count?"""
        if self.minds_affinity and not is_wanted_by(pod, node):
            return False
        return not (self.minds_taints and is_closed_to(pod, node))


@dataclass(frozen=True, slots=True)
class SpreadState:
    pod: Pod
    constraints: Sequence[Constraint]
    counts: Sequence[Counts]

    def clone(self) -> "SpreadState":
        return replace(self, counts=[counts.copy() for counts in self.counts])

    def count(self, other: Pod, node: Node, sign: int) -> None:
        """Add (1) or subtract (-1) a pod on a node.

        Upstream's quirk: unlike at the start, terminating pods and an empty selector do count, so that a domain may
        end up with fewer pods than none.
        """
        if other.namespace != self.pod.namespace or not has_all_keys(node, self.constraints):
            return
        for constraint, counts in zip(self.constraints, self.counts, strict=True):
            if constraint.selector.matches(other.labels) and constraint.includes(self.pod, node):
                counts[node.labels[constraint.key]] += sign

    def check(self, node: Node) -> Verdict | None:
        for constraint, counts in zip(self.constraints, self.counts, strict=True):
            if constraint.key not in node.labels:
                return Verdict(UNRESOLVABLE, NAME, (f"{NOT_SPREAD} (missing required label)",))
            fewest = min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0
            here = counts[node.labels[constraint.key]] + constraint.selector.matches(self.pod.labels)
            if here - fewest > constraint.max_skew:
                return Verdict(UNSCHEDULABLE, NAME, (NOT_SPREAD,))
        return None


def prefilter(cluster: Cluster, pod: Pod) -> SpreadState | None:
    """None if the plugin is skipped: the pod has no hard constraints. There are none by default."""
    constraints = own_constraints(pod, "DoNotSchedule")
    if not constraints:
        return None
    counts: list[Counts] = [Counter() for _ in constraints]
    for node in cluster.nodes.values():
        for constraint, per_domain in zip(constraints, counts, strict=True):
            if has_all_keys(node, constraints) and constraint.includes(pod, node):
                per_domain[node.labels[constraint.key]] += matching(pod, constraint, node)
    return SpreadState(pod, constraints, counts)


def score(cluster: Cluster, pod: Pod, nodes: list[Node]) -> list[int] | None:
    """The fewer matching pods in the node's domains the better; None if the pod has no soft constraints.

    A domain weighs more the more domains there are. Nodes without all keys get 0, unless the constraints are those
    that pods have by default.
    """
    by_default = not pod.raw["spec"].get("topologySpreadConstraints")
    constraints = default_constraints(cluster, pod) if by_default else own_constraints(pod, "ScheduleAnyway")
    if not constraints:
        return None
    everywhere, scored = list(cluster.nodes.values()), nodes
    if not by_default:
        everywhere = [node for node in everywhere if has_all_keys(node, constraints)]
        scored = [node for node in nodes if has_all_keys(node, constraints)]

    totals = {node.name: 0.0 for node in scored}
    for constraint in constraints:
        domains, counts = soft_counts(constraint, pod, everywhere, scored)
        for node in scored:
            if constraint.key in node.labels:
                totals[node.name] += counts[node.name] * math.log(domains + 2) + (constraint.max_skew - 1)
    points = {name: rounded(total) for name, total in totals.items()}
    most, fewest = max(points.values(), default=0), min(points.values(), default=0)

    def scaled(node: Node) -> int:
        if node.name not in points:
            return 0
        return 100 * (most + fewest - points[node.name]) // most if most else 100

    return [scaled(node) for node in nodes]


def soft_counts(
    constraint: Constraint, pod: Pod, everywhere: list[Node], scored: list[Node]
) -> tuple[int, dict[str, int]]:
    """How many domains the scored nodes are in, and how many matching pods there are in each node's.

    Upstream's quirk: if the key is the hostname, every node is a domain, whatever its label says, and its pods count,
    whatever the policies say of it.
    """
    if constraint.key == HOSTNAME:
        return len(scored), {node.name: matching(pod, constraint, node) for node in scored}
    domain = {node.name: node.labels.get(constraint.key, "") for node in everywhere}
    counts: Counts = Counter()
    for node in everywhere:
        if constraint.includes(pod, node):
            counts[domain[node.name]] += matching(pod, constraint, node)
    return len({domain[node.name] for node in scored}), {node.name: counts[domain[node.name]] for node in scored}


def matching(pod: Pod, constraint: Constraint, node: Node) -> int:
    """Upstream's quirk: an empty selector matches none of the node's pods, though it matches the incoming one."""
    if constraint.selector.is_empty:
        return 0
    return sum(
        other.namespace == pod.namespace and not terminating(other.raw) and constraint.selector.matches(other.labels)
        for other in node.pods
    )


def own_constraints(pod: Pod, action: str) -> list[Constraint]:
    given = pod.raw["spec"].get("topologySpreadConstraints") or ()
    return [_constraint(pod, one) for one in given if one["whenUnsatisfiable"] == action]


def default_constraints(cluster: Cluster, pod: Pod) -> list[Constraint]:
    selector = selector_of_owners(cluster, pod)
    return [] if selector.is_empty else [Constraint(key, skew, selector) for key, skew in DEFAULTS]


def selector_of_owners(cluster: Cluster, pod: Pod) -> Selector:
    """What the services that match the pod and the pod's controller select, all of it."""
    wanted: dict[str, str] = {}
    for service in cluster.every("Service"):
        selected = service["spec"].get("selector")
        if namespace(service) == pod.namespace and selected is not None and equal_to(selected).matches(pod.labels):
            wanted |= selected
    owner = controller(pod.raw)
    if owner is None:
        return equal_to(wanted)
    kind = owner["kind"]
    found = cluster.find(kind, owner["name"], pod.namespace)
    if found is not None and (owner["apiVersion"], kind) == ("v1", "ReplicationController"):
        return equal_to(wanted | (found["spec"].get("selector") or {}))
    if found is not None and owner["apiVersion"] == "apps/v1" and kind in ("ReplicaSet", "StatefulSet"):
        return _with_selector(equal_to(wanted), found["spec"].get("selector"))
    return equal_to(wanted)


def _with_selector(selector: Selector, given: JSON | None) -> Selector:
    """One that is not given or does not parse adds nothing."""
    try:
        return selector.and_also(label_selector(given)) if given is not None else selector
    except InvalidSelectorError:
        return selector


def _constraint(pod: Pod, given: JSON) -> Constraint:
    listed = given.get("matchLabelKeys") or ()
    same = equal_to({key: pod.labels[key] for key in listed if key in pod.labels})
    return Constraint(
        key=given["topologyKey"],
        max_skew=given["maxSkew"],
        selector=same.and_also(label_selector(given.get("labelSelector"))),
        min_domains=given.get("minDomains") or 1,
        minds_affinity=given.get("nodeAffinityPolicy") != "Ignore",
        minds_taints=given.get("nodeTaintsPolicy") == "Honor",
    )


def has_all_keys(node: Node, constraints: Sequence[Constraint]) -> bool:
    return all(constraint.key in node.labels for constraint in constraints)


def rounded(number: float) -> int:
    """To the nearest whole number, halves up; `round` takes halves to even numbers."""
    whole = math.floor(number)
    return whole + (number - whole >= 0.5)
