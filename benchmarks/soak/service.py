"""Run `extender` as installed; on SIGWINCH, write its numbers of tasks, threads and memory blocks to a file.

    python -m benchmarks.soak.service COUNTS_FILE serve --config extender.yaml

Rule: no part of the service is replaced or wrapped.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path

from extender.cli import main


def counted(_number: int, _frame: object) -> None:
    """Write the counts; as a signal handler it runs in the main thread, between two steps of the event loop."""
    counts = {"tasks": len(asyncio.all_tasks()), "threads": threading.active_count()}
    whole = Path(f"{FILE}.new")
    whole.write_text(json.dumps(counts | {"blocks": sys.getallocatedblocks()}))
    os.replace(whole, FILE)


if __name__ == "__main__":
    FILE = sys.argv.pop(1)
    signal.signal(signal.SIGWINCH, counted)
    main()
