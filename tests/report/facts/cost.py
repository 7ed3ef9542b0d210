"""The cost of facts, counted in calls of functions: times differ from run to run."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls_of(work: Callable[[], object]) -> int:
    """The number of calls, of Python and of C functions, that the work makes."""
    count = 0

    def on_event(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def growth(work_of: Callable[[int], Callable[[], object]], size: int) -> float:
    """By what factor the cost grows if the size doubles: about 2 if it is linear, 4 if it is quadratic."""
    return calls_of(work_of(2 * size)) / calls_of(work_of(size))
