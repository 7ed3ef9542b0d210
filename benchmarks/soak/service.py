"""`extender` as it is installed; on SIGUSR1 it writes to a file how many tasks, threads and blocks of memory it has.

    python -m benchmarks.soak.service COUNTS_FILE serve --config extender.yaml

Rule: nothing of the service is replaced or wrapped.
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
    """Between two steps of the event loop, which is the main thread's."""
    counts = {"tasks": len(asyncio.all_tasks()), "threads": threading.active_count()}
    whole = Path(f"{FILE}.new")
    whole.write_text(json.dumps(counts | {"blocks": sys.getallocatedblocks()}))
    os.replace(whole, FILE)


if __name__ == "__main__":
    FILE = sys.argv.pop(1)
    signal.signal(signal.SIGUSR1, counted)
    main()
