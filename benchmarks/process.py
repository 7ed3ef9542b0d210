"""Memory (bytes) and CPU time (seconds) of another process; None on systems without /proc."""

import os
import re
from pathlib import Path


def resident(process: int) -> int | None:
    """Return the current memory (VmRSS)."""
    return _status(process, "VmRSS")


def peak(process: int) -> int | None:
    """Return the peak memory since the process started, or since `forget_peak` (VmHWM)."""
    return _status(process, "VmHWM")


def forget_peak(process: int) -> None:
    """Reset the peak to the current memory."""
    Path(f"/proc/{process}/clear_refs").write_text("5")


def memory(process: int) -> str:
    """Render current and peak memory."""
    now, most = resident(process), peak(process)
    return f"RSS {now / 1e6:.0f} MB, at most {most / 1e6:.0f} MB" if now and most else "RSS not available"


def worked(process: int) -> float | None:
    """Return the CPU time of all its threads so far, in seconds with a resolution of 10 ms."""
    file = Path(f"/proc/{process}/stat")
    if not file.exists():
        return None
    fields = file.read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def _status(process: int, name: str) -> int | None:
    file = Path(f"/proc/{process}/status")
    found = re.search(rf"^{name}:\s+(\d+) kB", file.read_text(), re.MULTILINE) if file.exists() else None
    return 1024 * int(found[1]) if found else None
