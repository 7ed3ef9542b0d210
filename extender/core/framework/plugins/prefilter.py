"""PreFilterResult: the result of a PreFilter plugin for a pod, before any node is filtered.

Mirrors framework.PreFilterResult and the Status that PreFilter returns with it (v1.36). Nodes outside `node_names` get
the status FILTERED_OUT_BY_PREFILTER (framework/filter.py).

Rule: a PreFilter plugin names the only nodes worth filtering, or rejects the pod for all nodes.
"""

from dataclasses import dataclass
from typing import Self

from extender.core.framework.status import Code, Status


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """Node names that a PreFilter plugin leaves, or its rejection of the pod."""

    node_names: frozenset[str] | None = None
    """PreFilterResult.NodeNames: the only nodes to filter; None: all nodes."""
    status: Status | None = None
    """Rejection of the pod for all nodes; None: not rejected."""

    @classmethod
    def rejecting(cls, plugin: str, reason: str) -> Self:
        """Return a rejection for all nodes that no eviction resolves."""
        return cls(status=Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, plugin, (reason,)))
