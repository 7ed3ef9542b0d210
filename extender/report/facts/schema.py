"""The JSON schema of facts: what exactly makes a plugin reject a node, in typed fields.

Amounts are exact quantities as kubectl prints them: 250m, 3, 4Gi, 15839424Ki. Selectors are in kubectl's notation.
`report.wording.describe_fact` has the sentences.

Rule: types only; the other modules of this package fill them in, from the objects that the plugin reads.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import msgspec

MAX_PODS = 3
"""Maximum number of pods that a fact lists."""

MAX_LISTED = 5
"""Maximum number of domains, values, terms and names that a fact lists."""


def _kind(class_name: str) -> str:
    name = class_name.removesuffix("Fact")
    return name[0].lower() + name[1:]


class FactStruct(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True, tag_field="kind", tag=_kind
):
    """Base class of facts: `kind` is the name of the class in camelCase, without `Fact`."""

    cause: ClassVar[tuple[str, ...]] = ()
    """Fields that are the cause; facts in which only the others differ are counted together. Empty: all fields are."""


class MoreFact(FactStruct, frozen=True, kw_only=True):
    """Further facts about the node, which are not listed."""

    count: int


class TaintFact(FactStruct, frozen=True, kw_only=True):
    """A taint that the pod does not tolerate (TaintToleration)."""

    key: str
    value: str = ""
    effect: str
    """NoSchedule or NoExecute."""


class UnschedulableFact(FactStruct, frozen=True, kw_only=True):
    """The node is cordoned, and the pod does not tolerate node.kubernetes.io/unschedulable (NodeUnschedulable)."""


class NodeNameFact(FactStruct, frozen=True, kw_only=True):
    """The pod names another node in spec.nodeName (NodeName)."""

    name: str
    exists: bool
    """Whether the cluster has a node of that name."""


class DeclaredFeatureFact(FactStruct, frozen=True, kw_only=True):
    """A kubelet feature that the pod needs and the node does not declare (NodeDeclaredFeatures)."""

    feature: str
    declaring: int
    """Number of nodes that declare it."""


class ValueCount(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A value of a node label, and the number of nodes that have it."""

    value: str
    nodes: int


class NodeRequirementFact(FactStruct, frozen=True, kw_only=True):
    """A requirement on node labels or the node's name that the node does not meet (NodeAffinity)."""

    cause = ("source", "term", "requirement")

    source: Literal["nodeSelector", "nodeAffinity", "addedAffinity"]
    """addedAffinity is that of the pod's profile."""
    term: int = 0
    """Number of the requirement's nodeSelectorTerm, from 1; a node has to meet one of them."""
    terms: int = 0
    """Number of nodeSelectorTerms, without those that are empty or invalid, which match no node."""
    requirement: str = ""
    """`disktype in (ssd, nvme)`; empty if every nodeSelectorTerm is empty or invalid."""
    key: str = ""
    value: str | None = None
    """The node's own value; null: it does not have the label."""
    meeting: int = 0
    """Number of nodes that meet the requirement."""
    values: tuple[ValueCount, ...] = ()
    """The most common values that nodes have."""


class PortFact(FactStruct, frozen=True, kw_only=True):
    """A host port that another pod of the node has (NodePorts)."""

    cause = ("port", "protocol", "address")

    port: int
    protocol: str
    address: str = ""
    """The address at which the pod asks for the port; empty: all addresses."""
    pod: str
    """`namespace/name` of the pod that has the port."""
    held_address: str = ""
    """The address at which that pod has it; empty: all addresses."""
    nominated: bool = False
    """True if that pod is only nominated to the node."""


class ResourceFact(FactStruct, frozen=True, kw_only=True):
    """A resource of which the node has too little left (NodeResourcesFit); `pods` is the maximum number of pods."""

    cause = ("resource", "requested")

    resource: str
    requested: str
    free: str
    """allocatable - used, and minus what pods nominated to the node request."""
    allocatable: str
    used: str
    """Requests of the node's pods."""
    is_too_small: bool = False
    """True if the pod requests more than is allocatable, so that no eviction helps."""
    most_free: str
    """The largest free amount of any node of the cluster, whether or not the pod may go there."""
    most_free_node: str


class ResizeFact(FactStruct, frozen=True, kw_only=True):
    """A pod of the node whose resize in place waits for room (NodeResourcesFit counts the larger amount) or fails."""

    resource: str
    pod: str
    state: Literal["Deferred", "Infeasible"]
    allocated: str
    wanted: str
    counted: str
    """Amount that kube-scheduler takes as used."""


class NominatedFact(FactStruct, frozen=True, kw_only=True):
    """The node would take the pod, were it not for the pods nominated to it, which come first (any plugin)."""

    cause = ("pods",)

    pods: tuple[str, ...]
    """`namespace/name` of the first three."""
    count: int


class DomainCount(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A topology domain with its number of matching pods."""

    domain: str
    pods: int
    rejected_by: tuple[str, ...] = ()
    """Other plugins that reject the pod, if they do so on all nodes of the domain; only of a spread constraint."""


class PodAffinityFact(FactStruct, frozen=True, kw_only=True):
    """A term of pod affinity or anti-affinity that the node does not meet (InterPodAffinity)."""

    cause = ("rule", "topology_key", "selector", "namespaces")

    rule: Literal["affinity", "antiAffinity", "existingAntiAffinity"]
    """The pod's own affinity or anti-affinity, or the anti-affinity of existing `pods` to it."""
    topology_key: str
    selector: str = ""
    """The term's labelSelector; of an affinity, those of all terms, which one pod has to match. Empty: one of many."""
    namespaces: str = ""
    """`shop, db`, `those with team=a` (namespaceSelector) or `all`; empty: only that of the pod which has the term."""
    domain: str | None = None
    """The node's value of the topology key; null: it does not have the label."""
    pods: tuple[str, ...] = ()
    """The first three pods in the domain that match, or whose anti-affinity excludes the pod."""
    count: int = 0
    """Number of these pods; of an affinity, that of matching pods in all domains."""
    domains: tuple[DomainCount, ...] = ()
    """The domains with the most matching pods; only of an affinity."""


class SpreadFact(FactStruct, frozen=True, kw_only=True):
    """A topology spread constraint that the node does not meet (PodTopologySpread).

    kube-scheduler rejects the node if matching + self - minimum > maxSkew.
    """

    cause = ("topology_key", "selector", "max_skew", "missing_label")

    topology_key: str
    selector: str
    max_skew: int
    missing_label: bool = False
    """True if the node does not have the label `topologyKey`: the numbers are those of the others."""
    domain: str | None = None
    """The node's value of the topology key."""
    matching: int = 0
    """Matching pods in the node's domain."""
    self_matching: int = msgspec.field(default=0, name="self")
    """1 if the pod itself matches the selector."""
    minimum: int = 0
    """The smallest number of matching pods in any domain; 0 if there are fewer domains than minDomains."""
    min_domains: int = 0
    """minDomains, if there are fewer domains; otherwise 0."""
    domains: tuple[DomainCount, ...] = ()
    """The domains with the fewest matching pods."""
    count: int = 0
    """Number of domains."""


NodeFact = TaintFact | UnschedulableFact | NodeNameFact | DeclaredFeatureFact | NodeRequirementFact
RoomFact = PortFact | ResourceFact | ResizeFact | NominatedFact
AnyFact = MoreFact | NodeFact | RoomFact | PodAffinityFact | SpreadFact

FactsOf = Callable[[int], Sequence[AnyFact]]
"""Node row -> the facts of one plugin about that node."""


class FactCount(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A cause, and the number of nodes that it rejects."""

    fact: AnyFact
    """If the fact differs from node to node: that of the node which is closest to fitting."""
    nodes: int
    node: str = ""
    """The name of that node."""
