"""The deadline of a call: a decision that misses it is discarded, and the failure policy answers instead.

Rule: checked between steps; no step is interrupted, and a late decision has no effects (nothing is assumed).
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from extender.errors import DeadlineMissed, ExtenderError

Clock = Callable[[], float]
"""Function that returns seconds since an arbitrary origin, as time.monotonic."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """Deadline for the decision of one call."""

    ends_at: float
    """Time of the deadline in seconds, by `clock`."""
    clock: Clock = time.monotonic
    rejection: ExtenderError | None = None
    """Reason why the call is not decided at all (overload); None: it is."""

    def check(self) -> None:
        """Raise DeadlineMissed if the deadline has passed; raise `rejection` if the call was rejected."""
        if self.rejection is not None:
            raise self.rejection
        if self.clock() >= self.ends_at:
            raise DeadlineMissed("deadline exceeded: not decided within 80 % of server.httpTimeout")


NO_DEADLINE = Deadline(math.inf)
"""Deadline of decisions that no kube-scheduler waits for: replays, simulations, tests."""
