"""May a pod run on a node: the plugins in kube-scheduler's order; the first that objects decides.

Mirrors the Filter functions of pkg/scheduler/framework/plugins (v1.36, default profile) without topology spread,
volumes and dynamic resources, and `RunFilterPluginsWithNominatedPods` of pkg/scheduler/framework/runtime.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from tests.reference import interpod, quantities
from tests.reference.interpod import InterPodState
from tests.reference.objects import JSON, UNRESOLVABLE, UNSCHEDULABLE, Verdict, containers, init_containers, status
from tests.reference.selectors import node_matches_terms, tolerates
from tests.reference.state import ANY_IP, Cluster, Node, Pod

PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
SPEC_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


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
    """None: InterPodAffinity is skipped."""
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    """Filter's, of every node; empty if the pod was rejected."""

    @classmethod
    def start(cls, cluster: Cluster, pod: Pod) -> Self:
        """PreFilter, and Filter on every node."""
        names = affine_node_names(pod.raw)
        asked = quantities.amounts(quantities.pod_requests(pod.raw, resized=False))
        needed = needed_features(pod.raw)
        if names == frozenset():
            conflict = Verdict(UNRESOLVABLE, "NodeAffinity", ("pod affinity terms conflict",))
            return cls(cluster, pod, asked, needed, rejected=conflict)
        cycle = cls(cluster, pod, asked, needed, allowed=names, interpod=interpod.prefilter(cluster, pod))
        for name, node in cluster.nodes.items():
            cycle.verdicts[name] = cycle.judge(node)
        return cycle

    def judge(self, node: Node) -> Verdict:
        if self.allowed is not None and node.name not in self.allowed:
            return Verdict(UNRESOLVABLE, "", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",))
        return self.fits(node, self.interpod)

    def fits(self, node: Node, state: InterPodState | None) -> Verdict:
        """With the pods nominated to the node, then without: the pod must fit either way."""
        nominated = self.cluster.nominated_ahead_of(self.pod, node.name)
        if nominated:
            fuller, fuller_state = node.clone(), state and state.clone()
            for other in nominated:
                fuller.add(other)
                if fuller_state:
                    fuller_state.count(other, node, 1)
            verdict = run(self, fuller, fuller_state)
            if not verdict.fits:
                return verdict
        return run(self, node, state)


def run(cycle: Cycle, node: Node, state: InterPodState | None) -> Verdict:
    for plugin in BEFORE_INTERPOD:
        if verdict := plugin(cycle, node):
            return verdict
    return (state and state.check(node)) or node_declared_features(cycle, node) or Verdict()


def node_unschedulable(cycle: Cycle, node: Node) -> Verdict | None:
    if not node.raw["spec"].get("unschedulable") or tolerates(tolerations(cycle.pod), SPEC_UNSCHEDULABLE):
        return None
    return Verdict(UNRESOLVABLE, "NodeUnschedulable", ("node(s) were unschedulable",))


def node_name(cycle: Cycle, node: Node) -> Verdict | None:
    if cycle.pod.raw["spec"].get("nodeName") in (None, "", node.name):
        return None
    return Verdict(UNRESOLVABLE, "NodeName", ("node(s) didn't match the requested node name",))


def taint_toleration(cycle: Cycle, node: Node) -> Verdict | None:
    for taint in node.raw["spec"].get("taints") or ():
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(tolerations(cycle.pod), taint):
            return Verdict(UNRESOLVABLE, "TaintToleration", ("node(s) had untolerated taint(s)",))
    return None


def node_affinity(cycle: Cycle, node: Node) -> Verdict | None:
    wanted = cycle.pod.raw["spec"].get("nodeSelector") or {}
    terms = required_node_terms(cycle.pod.raw)
    if all(node.labels.get(key) == value for key, value in wanted.items()) and (
        terms is None or node_matches_terms(node.raw, terms)
    ):
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


BEFORE_INTERPOD: tuple[Callable[[Cycle, Node], Verdict | None], ...] = (
    node_unschedulable,
    node_name,
    taint_toleration,
    node_affinity,
    node_ports,
    node_resources_fit,
)
"""InterPodAffinity and NodeDeclaredFeatures come after them."""


def tolerations(pod: Pod) -> list[JSON]:
    return pod.raw["spec"].get("tolerations") or []


def required_node_terms(pod: JSON) -> list[JSON] | None:
    """None: there is no required node affinity; an empty list matches no node."""
    required = node_affinity_of(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or []


def node_affinity_of(pod: JSON) -> JSON:
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}


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
