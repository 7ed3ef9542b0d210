"""Known bugs of single kube-scheduler patches that change no verdict, for `config check`, `why` and `simulate`.

They were found by comparing the sources of the patches. A bug that changes verdicts is a switch (`Features`) instead.

Rule: a bug is declared here once, with the first patch of each minor that fixes it.
"""

from dataclasses import dataclass, field
from typing import Final

from extender.k8s.version.versions import Backports, Version


@dataclass(frozen=True, slots=True)
class Fault:
    """A bug of some minors, in all patches before the fix."""

    fixed: Backports
    """Minor -> first patch without the bug; other minors do not have it."""
    text: str
    begun: Backports = field(default_factory=dict)
    """Minor -> first patch with the bug; other minors have it from their first release on."""


FAULTS: Final = (
    Fault(
        {29: 9, 30: 5, 31: 1},
        "a victim's status is overwritten with the preemptor's: the victim may never terminate, and the preemptor "
        "stays ineligible to preempt",
    ),
    Fault({29: 10}, "a pod rejected by an extender is retried only after an event that its plugins wait for, or 5 min"),
    Fault(
        {29: 5},
        "nodes excluded by node affinity on metadata.name are tried for preemption, and the name of a node that does "
        "not exist is an error for the pod",
    ),
    Fault({29: 6, 30: 2}, "kube-scheduler crashes on a pod whose node affinity names only missing nodes", {29: 5}),
    Fault({32: 4}, "containsCIDR in device selectors returns false for a CIDR with host bits set, such as 10.0.0.1/8"),
    Fault({33: 4}, "kube-scheduler crashes on a pod if the status of a container without requests reports resources"),
    Fault(
        {34: 2, 35: 1}, "asynchronous API calls are throttled by the client's rate limit (SchedulerAsyncAPICalls is on)"
    ),
    Fault({34: 4, 35: 1}, "a device may be allocated to two claims that change at the same time"),
    Fault({35: 8, 36: 4}, "a pod held back by a PreEnqueue plugin is not retried every five minutes"),
    Fault({36: 2}, "kube-scheduler crashes on a claim for all devices if one of them has counters"),
)
"""Sorted by the versions that have them."""


def known_faults(version: Version) -> list[str]:
    """Return a sentence about each bug of `version`; empty if its patch is unknown."""
    return [
        f"kube-scheduler {version} has a bug, fixed in 1.{version.minor}.{one.fixed[version.minor]}: {one.text}"
        for one in FAULTS
        if version.patch is not None
        and one.begun.get(version.minor, 0) <= version.patch < one.fixed.get(version.minor, 0)
    ]
