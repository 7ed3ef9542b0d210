"""The answer of the filters for one node: a code, who said it and why.

Codes and texts are kube-scheduler's (k8s.io/kube-scheduler/framework Status, v1.36).
"""

import enum
from dataclasses import dataclass


class Code(enum.IntEnum):
    """framework.Code; only what a filter can say of a node."""

    SUCCESS = 0
    UNSCHEDULABLE = 2
    """Evicting lower-priority pods may help."""
    UNRESOLVABLE = 3
    """No eviction helps."""

    @property
    def text(self) -> str:
        return _TEXT[self]


_TEXT = {
    Code.SUCCESS: "Success",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNRESOLVABLE: "UnschedulableAndUnresolvable",
}


@dataclass(frozen=True, slots=True)
class Status:
    """What the filters say of one node; `plugin` is empty where no plugin speaks."""

    code: Code = Code.SUCCESS
    plugin: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The reasons on one line, as kube-scheduler joins them."""
        return ", ".join(self.reasons)


FITS = Status()
NO_VICTIMS = Status(Code.UNRESOLVABLE, "", ("No preemption victims found for incoming pod",))
