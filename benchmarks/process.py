"""What another process takes: memory in bytes, CPU time in seconds; None where the system does not say (Linux does)."""

import os
import re
from pathlib import Path


def resident(process: int) -> int | None:
    """Memory now."""
    return _status(process, "VmRSS")


def peak(process: int) -> int | None:
    """Memory at most since the process started, or since `forget_peak`."""
    return _status(process, "VmHWM")


def forget_peak(process: int) -> None:
    """What the process takes now is the most that it has taken."""
    Path(f"/proc/{process}/clear_refs").write_text("5")


def memory(process: int) -> str:
    """In words."""
    now, most = resident(process), peak(process)
    return f"RSS {now / 1e6:.0f} MB, at most {most / 1e6:.0f} MB" if now and most else "RSS not known here"


def worked(process: int) -> float | None:
    """Seconds of CPU time of all its threads until now, to a hundredth."""
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
