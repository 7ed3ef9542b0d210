"""Measure the wall time from the start of `extender serve` with the example cluster until it is ready."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks import cores
from benchmarks.measure import Bound, Row, Work, in_turns
from benchmarks.service import free_port, wait_until_ready
from benchmarks.world import World

GROUP = "targets"
ROUNDS = 7
IMPORTS = "import fastapi, uvicorn, numpy, msgspec"


def rows(_: World) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "extender.yaml"
        running: list[subprocess.Popen[bytes]] = []

        def stop() -> None:
            """Kill the process at once, since no request is in flight."""
            for process in running:
                process.kill()
                process.wait()
            running.clear()

        def start() -> None:
            port, admin_port = free_port(), free_port()
            file.write_text(yaml.safe_dump({"server": {"port": port}, "admin": {"port": admin_port}}))
            running.append(python("-m", "extender", "serve", "--config", str(file)))
            wait_until_ready(admin_port, every=0.002)

        works = [
            Work(start, prepare=stop, clock=time.perf_counter),
            Work(lambda: python("-c", IMPORTS).wait(), prepare=stop, clock=time.perf_counter),
        ]
        with contextlib.ExitStack() as stack:
            stack.callback(stop)
            own, others = in_turns(works, ROUNDS, warm_up=1)
    name = "start with the example cluster until it is ready"
    yield Row(GROUP, name, own, f"python -c '{IMPORTS}'", others, bounds=(Bound("median", 1500),))


def python(*arguments: str) -> "subprocess.Popen[bytes]":
    with cores.on(cores.OTHERS):
        return subprocess.Popen(
            [sys.executable, *arguments], env=os.environ.copy(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
