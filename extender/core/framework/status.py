"""Status and Code: the result of the filter plugins for one node. PreFilterResult: the result of a PreFilter plugin.

Mirrors framework.Status and framework.Code (k8s.io/kube-scheduler/framework, v1.36). Code texts and reasons are
kube-scheduler's own strings, so that they compare equal with its events and logs.

Rule: "does not fit" is a value with a reason, never an exception.
"""

import enum
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from extender.k8s.limits.limits import MAX_MESSAGE_CHARACTERS, MAX_REASONS


class Code(enum.IntEnum):
    """framework.Code, restricted to the codes that a filter plugin returns for a node."""

    SUCCESS = 0
    ERROR = 1
    """A plugin failed, which ends the pod's scheduling cycle whatever the codes of the other nodes."""
    UNSCHEDULABLE = 2
    """Preemption may help: evicting lower-priority pods can make the node fit."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Preemption cannot help: the node is rejected whichever pods are evicted."""

    @property
    def text(self) -> str:
        """Name of the code in kube-scheduler's messages, e.g. `UnschedulableAndUnresolvable`."""
        return _CODE_TEXTS[self]


CodeArray = npt.NDArray[np.uint8]
"""[node]: Code of each node."""

_CODE_TEXTS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
}


@dataclass(frozen=True, slots=True)
class Status:
    """framework.Status of one node: code, rejecting plugin and reasons.

    `plugin` is empty for Success and for statuses that the framework itself sets.
    """

    code: Code = Code.SUCCESS
    plugin: str = ""
    reasons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Keep at most MAX_REASONS, each cut to MAX_MESSAGE_CHARACTERS: reasons may contain names from tenants."""
        if len(self.reasons) > MAX_REASONS or any(len(reason) > MAX_MESSAGE_CHARACTERS for reason in self.reasons):
            kept = tuple(cut_message(reason) for reason in self.reasons[:MAX_REASONS])
            left_out = len(self.reasons) - len(kept)
            object.__setattr__(self, "reasons", (*kept, f"{left_out} more reasons") if left_out else kept)

    @property
    def message(self) -> str:
        """Reasons joined with ", " as Status.Message does, cut to MAX_MESSAGE_CHARACTERS."""
        return cut_message(", ".join(self.reasons))


def cut_message(text: str) -> str:
    """Cut the text as kube-scheduler cuts the note of an event (truncateMessage of schedule_one.go, v1.36)."""
    if len(text) <= MAX_MESSAGE_CHARACTERS:
        return text
    return text[: MAX_MESSAGE_CHARACTERS - len(_CUT_SUFFIX)] + _CUT_SUFFIX


_CUT_SUFFIX = " ..."


def filter_error(plugin: str, error: str) -> Status:
    """Return the status of a node on which a filter plugin fails, as RunFilterPlugins words it (v1.36)."""
    return Status(Code.ERROR, plugin, (f'running "{plugin}" filter plugin: {error}',))


SUCCESS = Status()
"""Status of a node that every filter plugin accepts (upstream: a nil Status)."""

NO_VICTIMS_FOUND = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "", ("No preemption victims found for incoming pod",))
"""Status of a node without potential victims (defaultpreemption.SelectVictimsOnNode, v1.36)."""


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """Nodes that a PreFilter plugin allows, or its rejection of the pod."""

    node_names: frozenset[str] | None = None
    """PreFilterResult.NodeNames: the only nodes to filter; None for all nodes."""
    status: Status | None = None
    """Rejection of the pod on all nodes; None if not rejected."""

    @classmethod
    def rejecting(cls, plugin: str, reason: str) -> Self:
        """Return a rejection on all nodes, which no eviction can resolve."""
        return cls(status=Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, plugin, (reason,)))


class ScoreFailed(Exception):
    """Error of a score plugin, in upstream's words, which ends the scheduling cycle."""
