"""Pod priorities: the int32 bounds, and the values that Kubernetes reserves for its own PriorityClasses.

Mirrors pkg/apis/scheduling/types.go and pkg/apis/scheduling/v1/helpers.go (SystemPriorityClasses, v1.36).

Rule: no other module contains these numbers.
"""

from typing import Final

LOWEST_PRIORITY: Final = -(2**31)
"""Minimum of the int32 field `priority`."""

HIGHEST_PRIORITY: Final = 2**31 - 1
"""Maximum of the int32 field `priority`."""

# One below the lowest priority: no pod is at or below it.
BELOW_ALL_PRIORITIES: Final = LOWEST_PRIORITY - 1

# Makes every priority non-negative before summing, so that one more victim never lowers the sum of a candidate.
# Upstream adds the same number for the same reason (preemption.pickOneNodeForPreemption, v1.36).
PRIORITY_OFFSET: Final = HIGHEST_PRIORITY + 1

HIGHEST_USER_DEFINABLE_PRIORITY: Final = 1_000_000_000
"""Largest value of a PriorityClass that users may create (scheduling.HighestUserDefinablePriority)."""

SYSTEM_CRITICAL_PRIORITY: Final = 2 * HIGHEST_USER_DEFINABLE_PRIORITY
"""Lowest priority of critical system pods (scheduling.SystemCriticalPriority)."""

SYSTEM_PRIORITY_CLASSES: Final = {
    "system-cluster-critical": SYSTEM_CRITICAL_PRIORITY,
    "system-node-critical": SYSTEM_CRITICAL_PRIORITY + 1000,
}
"""Name -> value of the PriorityClasses that every cluster has."""
