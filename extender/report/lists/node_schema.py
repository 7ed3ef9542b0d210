"""The JSON schema of the nodes of the cluster cache, as GET /nodes and the web page show them.

Rule: types only; `report.lists.nodes` fills them in.
"""

from typing import Literal

import msgspec

from extender.report.schema import ResourceAmounts

NodeSort = Literal["name", "cpu", "memory", "pods"]
"""Order of a list of nodes: by name, or the most free of a resource first."""


class NodeStruct(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Base class of the schema: keys in camelCase, defaults left out."""


class NodeSummary(NodeStruct, frozen=True, kw_only=True):
    """A node with what its pods request and what is left."""

    name: str
    pods: int = 0
    """Number of its pods that are not finished."""
    allocatable: ResourceAmounts = {}
    """status.allocatable."""
    requested: ResourceAmounts = {}
    """Requests of its pods, which kube-scheduler compares with `allocatable`; resources with 0 are left out."""
    unschedulable: bool = False
    """spec.unschedulable: the node is cordoned."""
    taints: list[str] = []
    """`key=value:effect`, as kubectl prints them."""


class NodePod(NodeStruct, frozen=True, kw_only=True):
    """A pod of a node."""

    key: str
    """`namespace/name`."""
    priority: int = 0
    requests: ResourceAmounts = {}
    started: str | None = None
    """status.startTime."""
    terminating: bool = False


class NodeDetail(NodeSummary, frozen=True, kw_only=True):
    """A node with its labels and pods."""

    labels: dict[str, str] = {}
    running: list[NodePod] = []
    """Its pods, the most important first."""
    nominated: list[NodePod] = []
    """Pods that are nominated to it and wait for room."""


class ListedNodes(NodeStruct, frozen=True, kw_only=True):
    """A part of the nodes that match a query."""

    nodes: list[NodeSummary]
    matching: int
    """Number of all nodes that match."""
    total: int
    """Number of nodes in the cluster."""
