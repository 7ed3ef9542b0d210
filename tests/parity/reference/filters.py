"""May a pod run on a node: the plugins in kube-scheduler's order; the first that objects decides.

Mirrors the PreFilter and Filter functions of pkg/scheduler/framework/plugins (v1.36, default profile) without dynamic
resources, and `RunFilterPluginsWithNominatedPods` of pkg/scheduler/framework/runtime.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from tests.parity.reference import binding, interpod, quantities, spread, volumes
from tests.parity.reference.interpod import InterPodState
from tests.parity.reference.objects import (
    JSON,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Verdict,
    containers,
    init_containers,
    status,
)
from tests.parity.reference.placement import is_closed_to, is_wanted_by, required_node_terms, tolerations
from tests.parity.reference.selectors import tolerates
from tests.parity.reference.spread import SpreadState
from tests.parity.reference.state import ANY_IP, Cluster, Node, Pod
from tests.parity.reference.volumes import Restrictions

PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
SPEC_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Counted:
    """What every pod that comes or goes changes beyond its node; None: the plugin is skipped."""

    restrictions: Restrictions | None
    spread: SpreadState | None
    interpod: InterPodState | None

    def clone(self) -> "Counted":
        return Counted(
            self.restrictions.clone() if self.restrictions else None,
            self.spread.clone() if self.spread else None,
            self.interpod.clone() if self.interpod else None,
        )

    def count(self, pod: Pod, node: Node, sign: int) -> None:
        """Add (1) or subtract (-1) a pod on a node."""
        for state in (self.restrictions, self.spread, self.interpod):
            if state:
                state.count(pod, node, sign)


@dataclass(frozen=True, slots=True)
class Cycle:
    """One attempt to place one pod: what PreFilter found out."""

    cluster: Cluster
    pod: Pod
    requests: quantities.Amounts
    features: frozenset[str]
    rejected: Verdict | None = None
    """PreFilter refused the pod on every node."""
    allowed: frozenset[str] | None = None
    """The only node names that NodeAffinity leaves; None: all."""
    interpod: InterPodState | None = None
    spread: SpreadState | None = None
    restrictions: Restrictions | None = None
    """These three: None if the plugin is skipped."""
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    """Filter's, of every node; empty if the pod was rejected."""

    @classmethod
    def start(cls, cluster: Cluster, pod: Pod) -> Self:
        """PreFilter, and Filter on every node."""
        cycle = cls.prefiltered(cluster, pod)
        if not cycle.rejected:
            for name, node in cluster.nodes.items():
                cycle.verdicts[name] = cycle.judge(node)
        return cycle

    @classmethod
    def prefiltered(cls, cluster: Cluster, pod: Pod) -> Self:
        """PreFilter alone."""
        asked = quantities.amounts(quantities.pod_requests(pod.raw, resized=False))
        needed = needed_features(pod.raw)
        if rejected := prefilter(cluster, pod):
            return cls(cluster, pod, asked, needed, rejected=rejected)
        return cls(
            cluster,
            pod,
            asked,
            needed,
            allowed=affine_node_names(pod.raw),
            interpod=interpod.prefilter(cluster, pod),
            spread=spread.prefilter(cluster, pod),
            restrictions=volumes.restrictions(cluster, pod),
        )

    def judge(self, node: Node) -> Verdict:
        if self.allowed is not None and node.name not in self.allowed:
            return Verdict(UNRESOLVABLE, "", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",))
        return self.fits(node, self.counted())

    def counted(self) -> Counted:
        return Counted(self.restrictions, self.spread, self.interpod)

    def fits(self, node: Node, counted: Counted) -> Verdict:
        """With the pods nominated to the node, then without: the pod must fit either way."""
        nominated = self.cluster.nominated_ahead_of(self.pod, node.name)
        if nominated:
            fuller, counted_too = node.clone(), counted.clone()
            for other in nominated:
                fuller.add(other)
                counted_too.count(other, node, 1)
            verdict = run(self, fuller, counted_too)
            if not verdict.fits:
                return verdict
        return run(self, node, counted)


def prefilter(cluster: Cluster, pod: Pod) -> Verdict | None:
    """The first PreFilter that refuses the pod on every node; none of them leaves anything to preemption."""
    if affine_node_names(pod.raw) == frozenset():
        return Verdict(UNRESOLVABLE, "NodeAffinity", ("pod affinity terms conflict",))
    return (
        volumes.missing_claim(cluster, pod) or binding.rejection(cluster, pod) or volumes.missing_volume(cluster, pod)
    )


def run(cycle: Cycle, node: Node, counted: Counted) -> Verdict:
    return next((verdict for verdict in objections(cycle, node, counted) if verdict), Verdict())


def objections(cycle: Cycle, node: Node, counted: Counted) -> Iterator[Verdict | None]:
    """What each plugin has against the node, in kube-scheduler's order."""
    yield node_unschedulable(cycle, node)
    yield node_name(cycle, node)
    yield taint_toleration(cycle, node)
    yield node_affinity(cycle, node)
    yield node_ports(cycle, node)
    yield node_resources_fit(cycle, node)
    yield counted.restrictions.check(node) if counted.restrictions else None
    yield volumes.volume_limits(cycle.cluster, cycle.pod, node)
    yield binding.volume_binding(cycle.cluster, cycle.pod, node)
    yield volumes.volume_zones(cycle.cluster, cycle.pod, node)
    yield counted.spread.check(node) if counted.spread else None
    yield counted.interpod.check(node) if counted.interpod else None
    yield node_declared_features(cycle, node)


def node_unschedulable(cycle: Cycle, node: Node) -> Verdict | None:
    if not node.raw["spec"].get("unschedulable") or tolerates(tolerations(cycle.pod), SPEC_UNSCHEDULABLE):
        return None
    return Verdict(UNRESOLVABLE, "NodeUnschedulable", ("node(s) were unschedulable",))


def node_name(cycle: Cycle, node: Node) -> Verdict | None:
    if cycle.pod.raw["spec"].get("nodeName") in (None, "", node.name):
        return None
    return Verdict(UNRESOLVABLE, "NodeName", ("node(s) didn't match the requested node name",))


def taint_toleration(cycle: Cycle, node: Node) -> Verdict | None:
    if not is_closed_to(cycle.pod, node):
        return None
    return Verdict(UNRESOLVABLE, "TaintToleration", ("node(s) had untolerated taint(s)",))


def node_affinity(cycle: Cycle, node: Node) -> Verdict | None:
    if is_wanted_by(cycle.pod, node):
        return None
    return Verdict(UNRESOLVABLE, "NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",))


def node_ports(cycle: Cycle, node: Node) -> Verdict | None:
    for ip, protocol, port in cycle.pod.ports:
        for other_ip, other_protocol, other_port in node.used_ports:
            same_address = ip == other_ip or ANY_IP in (ip, other_ip)
            if same_address and (protocol, port) == (other_protocol, other_port):
                return Verdict(UNSCHEDULABLE, "NodePorts", (PORTS_TAKEN,))
    return None


def node_resources_fit(cycle: Cycle, node: Node) -> Verdict | None:
    """A request above the node's whole allocatable is beyond help; too many pods never is."""
    reasons, code = [], UNSCHEDULABLE
    if len(node.pods) + 1 > node.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    for name, asked in cycle.requests.items():
        allocatable = node.allocatable.get(name, 0)
        if name != "pods" and asked > 0 and asked > allocatable - node.requested[name]:
            reasons.append(f"Insufficient {name}")
            if asked > allocatable:
                code = UNRESOLVABLE
    return Verdict(code, "NodeResourcesFit", tuple(reasons)) if reasons else None


def node_declared_features(cycle: Cycle, node: Node) -> Verdict | None:
    if cycle.features <= set(status(node.raw).get("declaredFeatures") or ()):
        return None
    return Verdict(UNRESOLVABLE, "NodeDeclaredFeatures", ("node(s) didn't match Pod's required features",))


def affine_node_names(pod: JSON) -> frozenset[str] | None:
    """The node names that the terms allow, if each of them names some (NodeAffinity's PreFilterResult)."""
    names: set[str] = set()
    terms = required_node_terms(pod)
    for term in terms or ():
        named = [
            set(one.get("values") or ())
            for one in term.get("matchFields") or ()
            if one["key"] == "metadata.name" and one["operator"] == "In"
        ]
        if not named:
            return None
        names |= set.intersection(*named)
    return frozenset(names) if terms else None


def needed_features(pod: JSON) -> frozenset[str]:
    """What the kubelet must declare to be able to run the pod."""
    found = set()
    if pod["spec"].get("hostNetwork") and pod["spec"].get("hostUsers") is False:
        found.add("UserNamespacesHostNetworkSupport")
    for container in (*containers(pod), *init_containers(pod)):
        if any(rule.get("action") == "RestartAllContainers" for rule in container.get("restartPolicyRules") or ()):
            found.add("RestartAllContainersOnContainerExits")
    return frozenset(found)
