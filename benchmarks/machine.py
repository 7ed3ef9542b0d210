"""Describe the machine that figures depend on, without anything that identifies its owner."""

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import calibration, cores
from benchmarks.measure import MALLOC

ROOT = Path(__file__).parents[1]


def machine() -> dict[str, Any]:
    return {
        "processor": processor(),
        "cores": len(cores.ALLOWED) or os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "malloc": " ".join(f"{name}={os.environ.get(name, 'unset')}" for name in MALLOC),
        "pinned": cores.description(),
        "calibration": f"{calibration.milliseconds():.2f} ms",
    }


def processor() -> str:
    file = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.+)$", file.read_text(), re.MULTILINE) if file.exists() else None
    return found[1].strip() if found else platform.processor() or "unknown"


def revision() -> str:
    """Return the last commit that changed `extender`, and whether files differ from it; empty outside a repository."""
    commit = git("log", "-1", "--format=%h", "--", "extender")
    return f"{commit} and changes" if commit and git("status", "--porcelain", "--", "extender") else commit


def git(*arguments: str) -> str:
    """Return the output of git; empty if it fails or is not installed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
