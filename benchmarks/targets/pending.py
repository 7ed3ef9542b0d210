"""Measure `extender why` without a name against `why` of one pod, of the same file: wall time of the whole commands."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import cores, generate
from benchmarks.arrivals import PENDING, TEMPLATES, pending
from benchmarks.generate import Plan
from benchmarks.measure import Limit, Row, Work, in_turns
from benchmarks.targets.why import ABSENT
from benchmarks.world import World

GROUP = "targets"
NODES = 2000
PODS = (10, 10)
ROUNDS = 5


def rows(world: World) -> Iterator[Row]:
    plan = Plan(world.plan.seed, NODES, PODS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        cluster = generate.as_list(plan, range(NODES))
        waiting = pending(plan)
        cluster["items"] += waiting
        file.write_text(json.dumps(cluster))
        first = waiting[0]["metadata"]
        works = [
            Work(lambda: ask(file), clock=time.perf_counter),
            Work(lambda: ask(file, f"{first['namespace']}/{first['name']}"), clock=time.perf_counter),
        ]
        every, one = in_turns(works, ROUNDS, warm_up=1)
    yield Row(
        GROUP,
        f"`extender why` without a name, {PENDING} pending pods of {TEMPLATES} templates, {NODES:,} nodes",
        every,
        "`extender why` of one of them",
        one,
        limit=Limit("≤", 1.5),
    )


def ask(file: Path, *pod: str) -> None:
    """Run the command, and check that it answered."""
    command = [sys.executable, "-m", "extender", "why", *pod, "--cluster", str(file)]
    path = os.pathsep.join(filter(None, (str(ABSENT), os.environ.get("PYTHONPATH"))))
    with cores.on(cores.OTHERS):
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, check=False)
    if done.returncode not in (1, 3):
        raise RuntimeError(f"extender why ended with {done.returncode}: {done.stderr.decode()[-500:]}")
