"""The JSON schema of facts: what exactly makes a plugin reject a node, in typed fields.

Amounts are exact quantities as kubectl prints them: 250m, 3, 4Gi, 15839424Ki. Selectors are in kubectl's notation.
`report.facts.wording` has the sentences.

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
    """0: there are some, but they were not counted."""


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
    values: dict[str, int] = {}
    """The most common values that nodes have -> number of nodes."""


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

    cause = ("rule", "topology_key", "selector", "namespaces", "missing_label")

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

    @property
    def missing_label(self) -> bool:
        """Whether the node does not have the topology key, whatever pods match."""
        return self.domain is None


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
    """Matching pods in the node's domain, and those nominated to the node."""
    nominated: int = 0
    """How many of these are only nominated: `domains` do not count them."""
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


ClaimProblem = Literal[
    "NotFound", "NotCreated", "BeingDeleted", "NotOwner", "VolumeNotFound", "NotBound", "NoClass", "ClassNotFound"
]
"""NotCreated: not made of the pod's ephemeral volume yet; NotOwner: made for something else; NotBound: its class binds
at once (volumeBindingMode Immediate), and has not."""


class ClaimFact(FactStruct, frozen=True, kw_only=True):
    """A volume claim that the pod cannot use on any node (VolumeBinding, VolumeZone, VolumeRestrictions, limits)."""

    claim: str
    """`namespace/name`, as everywhere."""
    problem: ClaimProblem
    storage_class: str = ""
    volume: str = ""


class VolumeTopologyFact(FactStruct, frozen=True, kw_only=True):
    """Where a volume is, or where its class makes volumes; the node is elsewhere (VolumeBinding, VolumeZone)."""

    cause = ("claim", "volume", "storage_class", "terms")

    claim: str
    volume: str = ""
    """Empty if `storage_class` would have to make it."""
    storage_class: str = ""
    driver: str = ""
    terms: tuple[str, ...]
    """The first terms of its node affinity, zone label or allowedTopologies: the node has to meet one of them."""
    more_terms: int = 0
    labels: dict[str, str | None] = {}
    """Label of these terms -> the node's value; null: it does not have the label."""


class SelectedNodeFact(FactStruct, frozen=True, kw_only=True):
    """A claim whose volume is made for another node: annotation volume.kubernetes.io/selected-node (VolumeBinding)."""

    claim: str
    node: str
    node_exists: bool


_OwnMismatch = Literal["Phase", "AccessModes", "Selector", "VolumeMode", "AttributesClass", "Deleted", "Size"]
VolumeMismatch = _OwnMismatch | Literal["Class", "NodeAffinity", "Taken"]
"""Taken: another claim of the pod gets the volume."""


class VolumeMatchFact(FactStruct, frozen=True, kw_only=True):
    """A claim that no existing volume matches on the node, and whose class makes none (VolumeBinding)."""

    cause = ("claim", "storage_class")

    claim: str
    storage_class: str
    requested: str
    access_modes: tuple[str, ...] = ()
    available: int
    """Number of volumes of the class that are not bound, wherever they are."""
    nearest: str = ""
    """The volume with the fewest mismatches, with its capacity and its class."""
    nearest_capacity: str = ""
    nearest_class: str = ""
    mismatches: tuple[VolumeMismatch, ...] = ()


class StorageCapacityFact(FactStruct, frozen=True, kw_only=True):
    """A volume larger than the CSIStorageCapacity that its driver publishes for the node (VolumeBinding)."""

    cause = ("claim", "storage_class")

    claim: str
    storage_class: str
    driver: str
    requested: str
    largest: str | None = None
    """Null: none is published."""


class VolumeLimitFact(FactStruct, frozen=True, kw_only=True):
    """A driver that cannot attach more volumes to the node (NodeVolumeLimits, EBSLimits …)."""

    cause = ("driver",)

    driver: str
    needs: int
    """Volumes of the pod that are not attached yet."""
    limit: int
    in_use: int
    exceeds_empty_node: bool = False
    """The pod has more volumes than the limit: no eviction helps."""


class MissingOnNodeFact(FactStruct, frozen=True, kw_only=True):
    """A CSI driver, or an extended resource that no DeviceClass backs, which the node does not have."""

    driver: str = ""
    resource: str = ""


class InUseFact(FactStruct, frozen=True, kw_only=True):
    """A ReadWriteOncePod claim or a disk that pods use (VolumeRestrictions), or devices that claims have."""

    cause = ("claim", "disk")

    claim: str = ""
    disk: str = ""
    """Type and identity, such as `aws vol-1`."""
    users: tuple[str, ...]
    """The first pods, or the first claims that have devices of the node (neither `claim` nor `disk`)."""
    total: int


class ResourceClaimFact(FactStruct, frozen=True, kw_only=True):
    """A ResourceClaim that cannot be used or allocated, or is allocated elsewhere (DynamicResources)."""

    claim: str
    """`namespace/name`; of one that is not created yet, the name in the pod's spec.resourceClaims."""
    problem: str = ""
    """In kube-scheduler's words; empty for a claim that is allocated."""
    devices: tuple[str, ...] = ()
    """The first devices that it has, as `driver/pool/device`."""
    terms: tuple[str, ...] = ()
    """The nodes that can reach them; empty: none, because preparing the devices failed or took too long."""
    pods: tuple[str, ...] = ()
    """The first pods that it is reserved for."""


class FailedSelector(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A CEL expression, and the number of devices that it rejects of those that the ones before it select."""

    of: Literal["class", "request"]
    expression: str
    failed: int


class DeviceRequestFact(FactStruct, frozen=True, kw_only=True):
    """A request of a ResourceClaim, and the devices of the node (DynamicResources)."""

    cause = ("claim", "request")

    claim: str
    request: str
    """Name of the request; of an alternative, `request/alternative`."""
    device_class: str
    count: int | None = None
    """Null: all that match."""
    devices: int | None = None
    """Number of devices of the node; null: not looked at, because that would take too long."""
    matching: int = 0
    """Devices that suit the request, free or not."""
    free: int = 0
    """If these suffice, they do not for all requests and constraints together."""
    allocated: int = 0
    tainted: int = 0
    problem: str = ""
    """The most common reason of other devices, such as a selector that fails, or why their pool cannot be used."""
    selectors: tuple[FailedSelector, ...] = ()


class PodGroupFact(FactStruct, frozen=True, kw_only=True):
    """The PodGroup that the pod names, and how many of its pods there are."""

    group: str
    exists: bool | None = None
    """Null: PodGroups were not read."""
    min_count: int | None = None
    pods: int
    assigned: int


class NominationFact(FactStruct, frozen=True, kw_only=True):
    """A nomination: of the pod itself, or of another one of at least its priority, whose room is kept free."""

    pod: str
    node: str
    priority: int
    node_exists: bool


class UnboundClaimsFact(FactStruct, frozen=True, kw_only=True):
    """Claims that stay unbound: kube-scheduler binds them before it assigns a pod, but did not assign this one."""

    node: str
    claims: tuple[str, ...]
    total: int


class PodStatusFact(FactStruct, frozen=True, kw_only=True):
    """status.reason of a failed pod, such as OutOfpods, OutOfcpu, Evicted or NodeAffinity."""

    reason: str
    message: str = ""


class SchedulingGatesFact(FactStruct, frozen=True, kw_only=True):
    """The gates that keep the pod out of the queue: the first names."""

    gates: tuple[str, ...]
    total: int


class UnreadableFact(FactStruct, frozen=True, kw_only=True):
    """Kinds that may not be listed, and the plugins that are not evaluated for that reason."""

    plugins: tuple[str, ...]
    kinds: tuple[str, ...]


NodeFact = TaintFact | UnschedulableFact | NodeNameFact | DeclaredFeatureFact | NodeRequirementFact
RoomFact = PortFact | ResourceFact | ResizeFact | NominatedFact
VolumeFact = ClaimFact | VolumeTopologyFact | SelectedNodeFact | VolumeMatchFact | StorageCapacityFact | VolumeLimitFact
DeviceFact = ResourceClaimFact | DeviceRequestFact | MissingOnNodeFact | InUseFact
PodFact = PodGroupFact | NominationFact | UnboundClaimsFact | PodStatusFact | SchedulingGatesFact | UnreadableFact
AnyFact = MoreFact | NodeFact | RoomFact | PodAffinityFact | SpreadFact | VolumeFact | DeviceFact | PodFact

FactsOf = Callable[[int], Sequence[AnyFact]]
"""Node row -> the facts of one plugin about that node."""


class FactCount(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A cause, and the number of nodes that it rejects."""

    fact: AnyFact
    """If the fact differs from node to node: that of the node which is closest to fitting."""
    nodes: int
    node: str = ""
    """The name of that node."""
