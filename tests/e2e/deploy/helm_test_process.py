"""The pod of `helm test` as a process: its own script, with the addresses and files of this machine."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.deploy.manifests import hooks_of, of_kind


def hook_pod(name: str) -> dict[str, Any]:
    """Return the test pod of one of CHARTED."""
    (pod,) = of_kind(hooks_of(name), "Pod")
    return pod


def argv(
    name: str, addresses: Mapping[str, str], files: Mapping[str, Path] | None = None, node: str = "worker-1"
) -> list[str]:
    """Return the command of the test pod on that node, with the addresses of the listeners.

    `files`: path in the pod, or the beginning of one -> path here.
    """
    (container,) = hook_pod(name)["spec"]["containers"]
    words = []
    for word in container["args"]:
        option, equals, value = word.partition("=")
        if option == "--admin":
            value = addresses["admin"]
        if option == "--pods":
            value = "1"
        if option == "--filter":
            value = f"{addresses['scheduler']}/filter"
        for path, held in (files or {}).items():
            value = value.replace(path, str(held))
        words.append(option + equals + value.replace("$(NODE_NAME)", node))
    assert container["command"][0] == "python"
    return [sys.executable, *container["command"][1:], *words]


def run(*argv: str) -> tuple[int, str]:
    """Return the exit code and what was printed."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout
