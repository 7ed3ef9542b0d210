"""The deadline of a call: a late decision is discarded, and the failure policy answers instead.

The same applies if the caller has closed the connection: kube-scheduler has continued without the answer.

Rule: the deadline is checked between steps, no step is interrupted, and a discarded decision has no effects.
"""

import math
import time
from collections.abc import Callable

import msgspec

from extender.errors import CallerGone, DeadlineMissed, ExtenderError

Clock = Callable[[], float]
"""Function that returns seconds since an arbitrary origin, as time.monotonic."""


class Deadline(msgspec.Struct, frozen=True):
    """Deadline for the decision of one call."""

    ends_at: float
    """Time of the deadline in seconds, by `clock`."""
    clock: Clock = time.monotonic
    rejection: ExtenderError | None = None
    """Error of a call that is not decided at all (overload); None if it is decided."""

    is_caller_gone: Callable[[], bool] = lambda: False
    """Returns whether the caller has closed the connection."""

    def check(self) -> None:
        """Raise `rejection` if there is one, DeadlineMissed after the deadline, CallerGone if the caller has left."""
        if self.rejection is not None:
            raise self.rejection
        if self.clock() >= self.ends_at:  # before CallerGone: after the deadline, a caller leaves because of it
            raise DeadlineMissed("deadline exceeded: not decided within 80 % of server.httpTimeout")
        if self.is_caller_gone():
            raise CallerGone("the caller closed the connection before it was answered")


NO_DEADLINE = Deadline(math.inf)
"""Deadline of decisions that kube-scheduler does not wait for: replays, simulations, tests."""
