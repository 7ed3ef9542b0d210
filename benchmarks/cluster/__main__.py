"""`python -m benchmarks.cluster`: the speed of a real kube-scheduler without the extender and with it.

KUBE_BIN names a folder with etcd, kube-apiserver, kube-controller-manager and kube-scheduler; by default the one that
`make bench-cluster` builds.
"""

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.cluster.bulk import BulkClient
from benchmarks.cluster.population import Population, Size
from benchmarks.cluster.report import Report, report
from benchmarks.cluster.turns import Bench, Load, Variant
from benchmarks.machine import processor, revision
from benchmarks.measure import MALLOC, positive
from tests.e2e.control_plane.lab import binaries, keys
from tests.e2e.control_plane.lab.plane import ControlPlane

BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


def main(argv: Sequence[str] | None = None) -> None:
    given = options().parse_args(argv)
    folder = Path(os.environ.get("KUBE_BIN", binaries.BUILT)).absolute()
    missing = [name for name in BINARIES if not os.access(folder / name, os.X_OK)]
    if missing:
        sys.exit(f"KUBE_BIN={folder} has no {', '.join(missing)}: `make bench-cluster` without KUBE_BIN builds them")
    os.environ.update(MALLOC, KUBE_BIN=str(folder))
    variants = list(Variant) if given.filter_and_preempt else [Variant.NONE, Variant.PREEMPT, Variant.ALL]
    size, load = Size(given.nodes, given.pods, given.seed), Load(given.burst, given.preemptors)
    measured = measure(size, load, given.rounds, variants)
    print(report(measured))
    if given.json is not None:
        given.json.write_text(json.dumps(msgspec.to_builtins(measured), indent=2) + "\n", encoding="utf-8")


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--nodes", type=positive, default=1000, help="number of nodes (%(default)s)")
    parser.add_argument("--pods", type=positive, default=13, help="pods on each node (%(default)s)")
    parser.add_argument("--burst", type=positive, default=1500, help="small pods in a burst (%(default)s)")
    parser.add_argument("--preemptors", type=int, default=40, help="preemptors in a turn (%(default)s); 0: none")
    parser.add_argument("--rounds", type=positive, default=5, help="turns of each variant (%(default)s)")
    parser.add_argument(
        "--filter-and-preempt", action="store_true", help="also measure kube-scheduler without /prioritize"
    )
    parser.add_argument("--seed", type=int, default=20261121, help="another cluster of the same kind")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures to this file as well")
    return parser


def measure(size: Size, load: Load, rounds: int, variants: Sequence[Variant]) -> Report:
    """Run the variants in turns, then one more turn whose calls are recorded."""
    with tempfile.TemporaryDirectory(prefix="extender-bench-") as directory, control_plane(Path(directory)) as plane:
        client = BulkClient(plane.url, plane.keys.ca_file, plane.keys.token(keys.ADMIN))
        population = Population(size, plane.api, client)
        began = time.monotonic()
        population.create()
        seeded = time.monotonic() - began
        progress(f"{size.nodes:,} nodes and {size.nodes * size.pods_per_node:,} pods created in {seeded:.0f} s")
        bench = Bench(plane, client, population, load)
        turns = []
        for number, variant in itertools.product(range(1, rounds + 1), variants):
            turn = bench.turn(variant)
            turns.append(turn)
            parts = [f"round {number}, {variant}: {turn.burst.per_second:.0f} pods/s"]
            if turn.preemptions is not None:
                parts.append(f"{60 * turn.preemptions.per_second:.0f} preemptions/min")
            progress(", ".join([*parts, f"load average {turn.load_average:.1f}"]))
        return Report(about(size, seeded), turns, bench.recorded_calls())


@contextlib.contextmanager
def control_plane(directory: Path) -> Iterator[ControlPlane]:
    """Start a control plane without audit log and kubelet, which would only take CPU time from what is measured."""
    plane = ControlPlane(directory / "plane")
    plane.api_server.argv = [one for one in plane.api_server.argv if not one.startswith("--audit-")]
    with plane:
        plane.kubelet.stop()
        yield plane


def about(size: Size, seeded: float) -> dict[str, Any]:
    version = [str(binaries.binary("kube-scheduler")), "--version"]
    return {
        "kube-scheduler": subprocess.run(version, capture_output=True, text=True, check=True).stdout.split()[-1],
        "extender": revision(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "cluster": f"{size.nodes:,} nodes, {size.nodes * size.pods_per_node:,} pods, created in {seeded:.0f} s",
    }


def progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
