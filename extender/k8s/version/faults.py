"""Faults of single patches of kube-scheduler that no verdict shows: `config check`, `why` and `simulate` name them.

They were found by comparing the sources of the patches. What changes verdicts is a switch (`Features`), not a fault.

Rule: a fault is declared here once, with the first patch of each minor that is without it.
"""

from dataclasses import dataclass, field
from typing import Final

from extender.k8s.version.versions import Backports, Version


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that all patches of some minors have before it is mended."""

    mended: Backports
    """Minor -> first patch without it; other minors do not have it."""
    text: str
    begun: Backports = field(default_factory=dict)
    """Minor -> first patch that has it; other minors have it from their first release on."""


FAULTS: Final = (
    Fault(
        {29: 9, 30: 5, 31: 1},
        "a victim's status is overwritten with the preemptor's: it may never end, and the preemptor stays not eligible "
        "to preempt",
    ),
    Fault({29: 10}, "a pod that an extender rejects waits for events that plugins ask for, or for five minutes"),
    Fault(
        {29: 5},
        "nodes that node affinity by name leaves out are tried for preemption, and the name of a node that does not "
        "exist is an error for the pod",
    ),
    Fault(
        {29: 6, 30: 2}, "kube-scheduler ends at a pod whose node affinity names only nodes that do not exist", {29: 5}
    ),
    Fault({32: 4}, "containsCIDR of device selectors is false for an address that is not the network's"),
    Fault(
        {33: 4}, "kube-scheduler ends at a pod with a container that requests nothing while its status shows resources"
    ),
    Fault({34: 2, 35: 1}, "its API calls wait for the rate limit of its client (SchedulerAsyncAPICalls is on)"),
    Fault({34: 4, 35: 1}, "a device may be given to two claims while claims change at the same time"),
    Fault({35: 8, 36: 4}, "a pod that a PreEnqueue plugin holds back is not tried again every five minutes"),
    Fault({36: 2}, "kube-scheduler ends at a claim for all devices of which one has counters"),
)
"""In the order of the versions that have them."""


def known_faults(version: Version) -> list[str]:
    """Return a sentence about each fault of this very patch; none where the patch is not known."""
    return [
        f"kube-scheduler {version} has a fault, mended in 1.{version.minor}.{one.mended[version.minor]}: {one.text}"
        for one in FAULTS
        if version.patch is not None
        and one.begun.get(version.minor, 0) <= version.patch < one.mended.get(version.minor, 0)
    ]
