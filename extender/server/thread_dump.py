"""Positions of threads, for log lines about a process that hangs.

Rule: reads the stacks of other threads without waiting for them.
"""

import sys
import threading
import traceback
from types import FrameType


def position(frame: FrameType | None) -> str:
    """Return the innermost function of the service on a stack: `reprieve (reprieve.py:81)`."""
    if frame is None:
        return "an unknown position"
    outward = (one for one, _ in traceback.walk_stack(frame))
    own = (one for one in outward if one.f_globals.get("__name__", "").startswith("extender."))
    one = next(own, frame)
    return f"{one.f_code.co_qualname} ({one.f_code.co_filename.rpartition('/')[2]}:{one.f_lineno})"


def running_threads(*, include_main: bool) -> list[str]:
    """Return name and position of each thread that keeps the process running, except daemons and this thread."""
    frames, current, main = sys._current_frames(), threading.current_thread(), threading.main_thread()
    return [
        f"thread {one.name} at {position(frames.get(one.ident or 0))}"
        for one in threading.enumerate()
        if one is not current and not one.daemon and (include_main or one is not main)
    ]
