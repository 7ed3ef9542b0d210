"""Where the binaries of the control plane are, and what happens to a test without them.

Rule: KUBE_BIN names the folder; a missing binary skips the test, or fails it with KUBE_BIN_REQUIRED=1.
"""

import os
import shutil
from pathlib import Path

import pytest

NEWEST = "1.37"
"""Minor version of the control plane."""

BUILT = f"build/kube-{NEWEST}"
"""Folder into which `make e2e` builds the binaries."""

SCHEDULERS = {NEWEST: "kube-scheduler"} | {older: f"kube-scheduler-{older}" for older in ("1.36", "1.33", "1.30")}
"""Minor version of kube-scheduler -> file name."""

ETCDS = ("release", "debian")
"""etcd in KUBE_BIN, and etcd 3.4 of Debian's package etcd-server, which knows no RequestWatchProgress."""


def binary(name: str) -> Path:
    """Return the binary in KUBE_BIN; otherwise skip or fail the test."""
    folder = os.environ.get("KUBE_BIN")
    if not folder:
        return _missing("KUBE_BIN names no folder with the binaries of a control plane: `make e2e` builds them")
    path = Path(folder).absolute() / name
    if not os.access(path, os.X_OK):
        return _missing(f"KUBE_BIN={folder} has no executable {name}: `make e2e` without KUBE_BIN builds it")
    return path


def etcd(which: str) -> Path:
    """Return the etcd binary of `which`, one of ETCDS; otherwise skip or fail the test."""
    if which == "release":
        return binary("etcd")
    binary("kube-apiserver")
    found = shutil.which("etcd", path="/usr/bin") or shutil.which("etcd")
    return Path(found) if found else _missing("no etcd in /usr/bin: install Debian's package etcd-server")


def _missing(reason: str) -> Path:
    if os.environ.get("KUBE_BIN_REQUIRED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
