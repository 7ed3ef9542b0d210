"""Types of k8s.io/kube-scheduler/extender/v1, as kube-scheduler writes and reads them.

Keys are Go's field names, each spelled out. Types named `NameOnly`, `Raw` or `Only` have only the fields that one
decoder reads.

Rule: shapes only; `decode` and `encode` fill them.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, field

from extender.k8s.objects import Int64

NULL = Raw(b"null")
EMPTY_OBJECT = Raw(b"{}")

# --- requests: ExtenderArgs, ExtenderPreemptionArgs, ExtenderBindingArgs ----------------------------------------------

AnyObject = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
"""A JSON object as the bytes sent."""

PodBytes = Annotated[Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/Pod"})]
"""The bytes of the incoming pod, decoded only after their size is checked."""


class NodeList(msgspec.Struct, kw_only=True):
    metadata: AnyObject = field(default_factory=lambda: EMPTY_OBJECT)
    items: list[AnyObject] | None


class ExtenderArgs(msgspec.Struct):
    pod: PodBytes = field(name="Pod")
    nodes: NodeList | None = field(default=None, name="Nodes")
    node_names: list[str] | None = field(default=None, name="NodeNames")


class MetaPod(msgspec.Struct, gc=False):
    uid: str = field(name="UID")


class MetaVictims(msgspec.Struct, gc=False):
    pods: list[MetaPod] | None = field(name="Pods")
    num_pdb_violations: Int64 = field(name="NumPDBViolations")


class VictimMetadata(msgspec.Struct, gc=False):
    uid: str
    deletion_timestamp: str | None = field(default=None, name="deletionTimestamp")


class VictimPod(msgspec.Struct, gc=False):
    """A whole Pod; only its metadata is read, as the cluster cache has the rest."""

    metadata: VictimMetadata


class Victims(msgspec.Struct):
    pods: list[VictimPod] | None = field(name="Pods")
    num_pdb_violations: Int64 = field(name="NumPDBViolations")


class ExtenderPreemptionArgs(msgspec.Struct):
    pod: PodBytes = field(name="Pod")
    victims: dict[str, Victims] | None = field(default=None, name="NodeNameToVictims")
    meta_victims: dict[str, MetaVictims] | None = field(default=None, name="NodeNameToMetaVictims")


RequiredString = Annotated[str, Meta(min_length=1)]
"""Type of a key that must be present and not empty."""


class ExtenderBindingArgs(msgspec.Struct, frozen=True):
    pod_name: RequiredString = field(name="PodName")
    pod_namespace: RequiredString = field(name="PodNamespace")
    pod_uid: RequiredString = field(name="PodUID")
    node: RequiredString = field(name="Node")


class NameOnlyMetadata(msgspec.Struct, gc=False):
    name: str = ""


class NameOnlyNode(msgspec.Struct, gc=False):
    metadata: NameOnlyMetadata


class NameOnlyNodeList(msgspec.Struct, kw_only=True):
    metadata: AnyObject = field(default_factory=lambda: EMPTY_OBJECT)
    items: list[NameOnlyNode] | None


class NameOnlyArgs(msgspec.Struct):
    """ExtenderArgs with only the names of its nodes."""

    pod: PodBytes = field(name="Pod")
    nodes: NameOnlyNodeList | None = field(default=None, name="Nodes")
    node_names: Raw = field(default_factory=lambda: NULL, name="NodeNames")


class RawVictims(msgspec.Struct, gc=False):
    """MetaVictims with its pods as bytes."""

    pods: Raw = field(name="Pods")
    num_pdb_violations: Int64 = field(name="NumPDBViolations")


class NodesOnlyArgs(msgspec.Struct):
    """ExtenderArgs with only its whole Nodes."""

    nodes: NodeList | None = field(default=None, name="Nodes")


# --- answers: ExtenderFilterResult, HostPriorityList, ExtenderPreemptionResult, ExtenderBindingResult -----------------


class ExtenderFilterResult(msgspec.Struct):
    nodes: NodeList | None = field(name="Nodes")
    node_names: list[str] | None = field(name="NodeNames")
    failed: dict[str, str] = field(name="FailedNodes")
    unresolvable: dict[str, str] = field(name="FailedAndUnresolvableNodes")
    error: str = field(name="Error", default="")


class HostPriority(msgspec.Struct, gc=False):
    host: str = field(name="Host")
    score: Int64 = field(name="Score")


class ExtenderPreemptionResult(msgspec.Struct):
    meta_victims: dict[str, MetaVictims] = field(name="NodeNameToMetaVictims")


class ExtenderBindingResult(msgspec.Struct):
    error: str = field(name="Error", default="")
