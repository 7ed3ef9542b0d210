"""Measure `extender why` on a live cluster over TLS: wall time of the whole command, which reads the cluster once."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import cores, generate
from benchmarks.api_cluster import ApiCluster
from benchmarks.measure import Bound, Row, Work
from benchmarks.world import World

GROUP = "targets"
ABSENT = Path(__file__).parents[2] / "tests" / "absent"
"""Keeps the official client from importing a package that only the tests install, with grammars that take seconds."""
ROUNDS = 3
MILLISECONDS = 10_000


def rows(world: World) -> Iterator[Row]:
    with (
        contextlib.closing(ApiCluster(world.plan, tls=True)) as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        cluster.carry_out("pend")
        kubeconfig = written(Path(folder, "kubeconfig"), cluster)
        asked = Work(lambda: ask(world, kubeconfig), clock=time.perf_counter)
        reading = Work(cluster.read_all, clock=time.perf_counter)
        pairs = [(asked.seconds(), reading.seconds()) for _ in range(ROUNDS)]
    own, others = [one for one, _ in pairs], [other for _, other in pairs]
    yield Row(
        GROUP,
        f"`extender why` of a live cluster over TLS, {len(world.objects.pods):,} pods",
        own,
        "reading the pages of all kinds",
        others,
        bounds=(Bound("median", MILLISECONDS),),
    )


def written(file: Path, cluster: ApiCluster) -> Path:
    """Write a kubeconfig for the API server."""
    server = {"server": cluster.url, "certificate-authority": cluster.ca_file}
    config = {
        "clusters": [{"name": "fake", "cluster": server}],
        "users": [{"name": "user", "user": {"token": "any"}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "user"}}],
        "current-context": "fake",
    }
    file.write_text(json.dumps(config))
    return file


def ask(world: World, kubeconfig: Path) -> None:
    """Ask why the pod that fits nowhere is pending, and check the answer."""
    metadata = generate.incoming(world.plan)["metadata"]
    pod = f"{metadata['namespace']}/{metadata['name']}"
    command = [sys.executable, "-m", "extender", "why", pod, "--kubeconfig", str(kubeconfig), "-o", "json"]
    path = os.pathsep.join(filter(None, (str(ABSENT), os.environ.get("PYTHONPATH"))))
    with cores.on(cores.OTHERS):
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, check=False)
    if done.returncode not in (1, 3):
        raise RuntimeError(f"extender why ended with {done.returncode}: {done.stderr.decode()[-500:]}")
