"""The cluster as the scheduler holds it: nodes with the pods on them, and the pods nominated to them.

Rule: only `Node.add` and `Node.remove` change anything, and only on a clone.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Self

from tests.parity.reference import quantities
from tests.parity.reference.objects import (
    JSON,
    always_restarts,
    containers,
    finished,
    init_containers,
    labels,
    namespace,
    priority,
    start_time,
    status,
)
from tests.parity.reference.selectors import InvalidSelectorError, Labels, Selector, label_selector

ANY_IP = "0.0.0.0"
Port = tuple[str, str, int]
"""Address, protocol, port."""
NAMESPACED = (
    "PersistentVolumeClaim",
    "CSIStorageCapacity",
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
)


@dataclass(frozen=True, slots=True)
class Term:
    """A term of inter-pod affinity or anti-affinity."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector

    def matches(self, pod: "Pod", namespace_labels: Labels) -> bool:
        in_namespace = pod.namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return in_namespace and self.selector.matches(pod.labels)


@dataclass(frozen=True, slots=True)
class Preference:
    """A preferred term; those of anti-affinity weigh less than nothing."""

    weight: int
    term: Term


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """A pod with what is computed from it once."""

    raw: JSON
    uid: str
    namespace: str
    labels: Labels
    priority: int
    start_time: int
    requests: quantities.Amounts
    nonzero: quantities.Amounts
    ports: frozenset[Port]
    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]
    preferences: tuple[Preference, ...]

    @classmethod
    def of(cls, raw: JSON) -> Self:
        requests = quantities.pod_requests(raw, resized=True)
        return cls(
            raw=raw,
            uid=raw["metadata"]["uid"],
            namespace=namespace(raw),
            labels=labels(raw),
            priority=priority(raw),
            start_time=start_time(raw),
            requests=quantities.amounts(requests),
            nonzero=quantities.nonzero_requests(raw, requests),
            ports=host_ports(raw),
            affinity=required_terms(raw, "podAffinity"),
            anti_affinity=required_terms(raw, "podAntiAffinity"),
            preferences=(*preferences(raw, "podAffinity", 1), *preferences(raw, "podAntiAffinity", -1)),
        )

    @property
    def volumes(self) -> list[JSON]:
        return self.raw["spec"].get("volumes") or []

    @property
    def importance(self) -> tuple[int, int]:
        """Sorts the most important first: highest priority, then longest running."""
        return (-self.priority, self.start_time)


@dataclass(slots=True)
class Node:
    raw: JSON
    name: str
    labels: Labels
    allocatable: quantities.Amounts
    pods: list[Pod] = field(default_factory=list)
    requested: Counter[str] = field(default_factory=Counter)
    nonzero: Counter[str] = field(default_factory=Counter)
    used_ports: set[Port] = field(default_factory=set)

    @classmethod
    def of(cls, raw: JSON) -> Self:
        allocatable = quantities.amounts(quantities.parse_all(status(raw).get("allocatable")))
        return cls(raw, raw["metadata"]["name"], labels(raw), allocatable)

    def clone(self) -> "Node":
        counted = (self.requested.copy(), self.nonzero.copy(), self.used_ports.copy())
        return Node(self.raw, self.name, self.labels, self.allocatable, self.pods.copy(), *counted)

    def add(self, pod: Pod) -> None:
        self.pods.append(pod)
        self.requested.update(pod.requests)
        self.nonzero.update(pod.nonzero)
        self.used_ports |= pod.ports

    def remove(self, pod: Pod) -> None:
        """Upstream's quirk: ports are a set, so that one of two pods with the same host port frees it."""
        self.pods.remove(pod)
        self.requested.subtract(pod.requests)
        self.nonzero.subtract(pod.nonzero)
        self.used_ports -= pod.ports


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget."""

    namespace: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    """Names of pods whose disruption is already accounted for."""

    @classmethod
    def of(cls, raw: JSON) -> Self:
        try:
            selector = label_selector((raw.get("spec") or {}).get("selector"))
        except InvalidSelectorError:
            selector = Selector(None)
        held = status(raw)
        allowed, disrupted = int(held.get("disruptionsAllowed") or 0), frozenset(held.get("disruptedPods") or ())
        return cls(namespace(raw), selector, allowed, disrupted)

    def is_charged_for(self, pod: Pod) -> bool:
        """Upstream's quirks: an empty selector matches nothing, and a pod without labels is matched by nothing."""
        if self.namespace != pod.namespace or not pod.labels or self.selector.is_empty:
            return False
        return self.selector.matches(pod.labels) and pod.raw["metadata"]["name"] not in self.disrupted


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: dict[str, Node]
    nominated: dict[str, list[Pod]]
    """Unassigned pods by the node they are nominated to."""
    budgets: list[Budget]
    namespaces: dict[str, Labels]
    others: dict[str, dict[tuple[str, str], JSON]]
    """Objects of all other kinds: kind -> namespace, empty if it has none, and name -> object."""

    @classmethod
    def of(cls, cluster: JSON) -> Self:
        """From a `List` as `kubectl get -o json` prints it."""
        items: list[JSON] = cluster["items"]
        self = cls({}, {}, [], {}, {})
        for item in items:
            match item["kind"]:
                case "Node":
                    self.nodes[item["metadata"]["name"]] = Node.of(item)
                case "PodDisruptionBudget":
                    self.budgets.append(Budget.of(item))
                case "Namespace":
                    self.namespaces[item["metadata"]["name"]] = labels(item)
                case kind if kind != "Pod":
                    place = namespace(item) if kind in NAMESPACED else ""
                    self.others.setdefault(kind, {})[place, item["metadata"]["name"]] = item
        for item in items:
            if item["kind"] == "Pod" and not finished(item):
                self._place(Pod.of(item))
        return self

    def _place(self, pod: Pod) -> None:
        bound, wanted = pod.raw["spec"].get("nodeName"), status(pod.raw).get("nominatedNodeName")
        if bound in self.nodes:
            self.nodes[bound].add(pod)
        elif not bound and wanted and not pod.raw["spec"].get("schedulingGates"):
            self.nominated.setdefault(wanted, []).append(pod)

    def find(self, kind: str, name: str, namespace: str = "") -> JSON | None:
        """An object that is not a Node, Pod, PodDisruptionBudget or Namespace."""
        return self.others.get(kind, {}).get((namespace, name))

    def every(self, kind: str) -> list[JSON]:
        return list(self.others.get(kind, {}).values())

    def nominated_ahead_of(self, pod: Pod, node: str) -> list[Pod]:
        """Return the pods that `pod` must leave room for on the node (`addGENominatedPods`)."""
        return [
            other
            for other in self.nominated.get(node, ())
            if other.priority >= pod.priority and other.uid != pod.uid and scheduler_of(other) == scheduler_of(pod)
        ]


def scheduler_of(pod: Pod) -> str:
    return str(pod.raw["spec"].get("schedulerName") or "default-scheduler")


def host_ports(pod: JSON) -> frozenset[Port]:
    running = [*filter(always_restarts, init_containers(pod)), *containers(pod)]
    return frozenset(
        (port.get("hostIP") or ANY_IP, port.get("protocol") or "TCP", port["hostPort"])
        for container in running
        for port in container.get("ports") or ()
        if (port.get("hostPort") or 0) > 0
    )


def required_terms(pod: JSON, kind: str) -> tuple[Term, ...]:
    """None at all if one of them does not parse."""
    given = _pod_affinity(pod, kind).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    try:
        return tuple(_term(pod, term) for term in given)
    except InvalidSelectorError:
        return ()


def preferences(pod: JSON, kind: str, sign: int) -> tuple[Preference, ...]:
    """None at all if one of them does not parse."""
    given = _pod_affinity(pod, kind).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    try:
        return tuple(Preference(sign * one["weight"], _term(pod, one["podAffinityTerm"])) for one in given)
    except InvalidSelectorError:
        return ()


def _pod_affinity(pod: JSON, kind: str) -> JSON:
    return (pod["spec"].get("affinity") or {}).get(kind) or {}


def _term(pod: JSON, given: JSON) -> Term:
    listed, selector = given.get("namespaces") or (), given.get("namespaceSelector")
    return Term(
        topology_key=given["topologyKey"],
        selector=label_selector(given.get("labelSelector")),
        namespaces=frozenset(listed if listed or selector is not None else (namespace(pod),)),
        namespace_selector=label_selector(selector),
    )
