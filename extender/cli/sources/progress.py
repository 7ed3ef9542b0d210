"""Progress of reading a cluster, per kind of a live one, and of a simulation, on standard error.

Rule: nothing is written unless standard error is a terminal.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extender.cluster.list.lister import OnProgress


@contextmanager
def show_progress(
    no_color: bool = False, verb: str = "reading", after_seconds: float = 0
) -> "Iterator[OnProgress | None]":
    """Yield a callback that shows a line per kind until the end of the block; None without a terminal.

    Nothing is shown before the first call that comes after so many seconds, so a small file leaves no trace.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (TextColumn(f"{verb} {{task.description}}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, no_color=no_color or None)
    tasks: dict[str, TaskID] = {}
    lock, begins = Lock(), monotonic() + after_seconds
    progress = Progress(*columns, console=console, transient=True)

    def show(kind: str, done: int, total: int | None) -> None:
        if monotonic() < begins:
            return
        with lock:
            if kind not in tasks:
                progress.start()
                tasks[kind] = progress.add_task(kind, total=None)
        progress.update(tasks[kind], completed=done, total=total)

    try:
        yield show
    finally:
        if tasks:
            progress.stop()
