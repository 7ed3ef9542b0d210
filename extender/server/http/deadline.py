"""When an answer comes too late to be of use: what is not decided by then is answered by the failure rule.

Rule: looked at between steps. No step is interrupted, and nothing follows from a decision that comes too late.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from extender.errors import DeadlineMissed, ExtenderError

Clock = Callable[[], float]
"""Seconds since some moment, as time.monotonic."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """Of one call."""

    ends: float
    """By the clock."""
    clock: Clock = time.monotonic
    refused: ExtenderError | None = None
    """Why there is no time for the call at all."""

    def left(self) -> float:
        """Seconds; negative once it has passed."""
        return self.ends - self.clock()

    def check(self) -> None:
        """DeadlineMissed if it has passed; what it was refused for, if it was."""
        if self.refused is not None:
            raise self.refused
        if self.left() <= 0:
            raise DeadlineMissed("not decided in time, which is 80 % of server.schedulerTimeout from a call's begin")


NEVER = Deadline(math.inf)
"""Of calls for which nobody waits."""
