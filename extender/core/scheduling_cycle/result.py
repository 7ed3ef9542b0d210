"""Results of a scheduling cycle, in the form that reports show.

Rule: types only; `schedule_one` and `reserve` fill them in.
"""

from typing import Literal

import msgspec

CycleOutcome = Literal["Scheduled", "Nominated", "Unschedulable", "Skipped"]
"""Nominated: not scheduled, but preemption found a node. Skipped: kube-scheduler would not try the pod."""

ClaimAllocation = Literal["new", "existing", "created"]
"""new: allocated for the pod; existing: allocated before; created: allocated for the pod in a claim created for its
extended resources, which a DeviceClass backs."""


class CycleStruct(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base class: keys in camelCase, as reports show these values."""


class CycleScore(CycleStruct, frozen=True):
    """Score of the node that was chosen."""

    total: int
    plugins: dict[str, int]
    """Plugin -> weighted score; a plugin that is skipped for the pod is absent."""
    tied: int
    """Number of nodes with that total."""
    ties: list[str]
    """The first ten of these nodes by name."""


class CyclePostFilter(CycleStruct, frozen=True):
    """Status of the PostFilter plugins, in kube-scheduler's words."""

    code: str
    """Success, Unschedulable or Error."""
    reasons: list[str]

    @property
    def message(self) -> str:
        """The reasons as Status.Message joins them."""
        return ", ".join(self.reasons)


class RejectedNodes(CycleStruct, frozen=True):
    """Nodes that the filters reject with one status."""

    code: str
    """Unschedulable (evicting pods may help), UnschedulableAndUnresolvable or Error."""
    plugin: str
    """The plugin that rejects; empty for the framework itself."""
    reasons: list[str]
    nodes: int | None
    """Null: PreFilter rejects the pod itself, whatever the node."""


class ReservedDevice(CycleStruct, frozen=True):
    """A device of a claim (DeviceRequestAllocationResult)."""

    request: str
    """Name of the request, or `request/subrequest` for an alternative of a prioritized list."""
    driver: str
    pool: str
    device: str
    admin_access: bool
    consumed_capacity: dict[str, str]
    """Capacity that the claim takes of a device which several claims share."""


class ReservedClaim(CycleStruct, frozen=True):
    """A resource claim of a pod that was bound, with its devices."""

    claim: str
    """`namespace/name`."""
    allocation: ClaimAllocation
    devices: list[ReservedDevice]
