"""WorkBudget: how much work one answer may cost, where what a tenant wrote decides how much there is.

Rule: it counts steps and reads no clock, so that the same call always ends at the same step.
"""


class WorkLimitReached(Exception):
    """The budget is spent; what it was for has no answer here."""


class WorkBudget:
    """Steps that are left; a step takes about a microsecond."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Take steps from the budget; raises WorkLimitReached if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise WorkLimitReached
