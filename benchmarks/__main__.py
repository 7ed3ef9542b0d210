"""`python -m benchmarks`: measure, print one table, and say which limits are met.

Rule: the exit code is 0 whatever is measured: figures depend on the machine, and tests are elsewhere.
"""

import argparse
import gc
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import constraints, decisions, dryrun, live, page, payloads, policies, service, tracing
from benchmarks.generate import Plan
from benchmarks.measure import MALLOC, Row, table
from benchmarks.storm import report as storm
from benchmarks.world import World

GROUPS: dict[str, Callable[[World], Iterator[Row]]] = {
    "dryrun": dryrun.rows,
    "spread": constraints.rows,
    "policies": policies.rows,
    "engine": decisions.rows,
    "wire": payloads.rows,
    "tracing": tracing.rows,
    "http": service.rows,
    "page": page.rows,
    "live": live.rows,
    "storm": storm.rows,
}
"""Name for --only -> its rows, in the order of the table."""

OWN_CLUSTER = {"storm"}
"""Groups that do not look at the cluster of the others, but for its seed."""

NODES = 5000
SEED = 20261121


def main() -> None:
    """Start over with the memory settings, which count from the start of a process only; then measure."""
    given = options().parse_args()
    if any(os.environ.get(name) != value for name, value in MALLOC.items()):
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]], os.environ | MALLOC)
    world = World(Plan(given.seed, given.nodes), given.full)
    groups = given.only or list(GROUPS)
    about = machine(world) if OWN_CLUSTER.issuperset(groups) else surroundings(world)
    gc.collect()
    gc.freeze()  # as the service does once it has the cluster
    report(world, about, groups, given.json)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="NAME", choices=GROUPS, action="append", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures to this file as well")
    parser.add_argument("--nodes", metavar="N", type=positive, default=NODES, help=f"size of the cluster ({NODES:,})")
    parser.add_argument("--seed", metavar="N", type=int, default=SEED, help="another cluster of the same kind")
    parser.add_argument("--full", action="store_true", help="the slow reference tries all nodes, not a sample")
    return parser


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def report(world: World, about: Mapping[str, Any], groups: list[str], file: Path | None = None) -> list[Row]:
    """Measure and print: first where, then one table, then each limit in words; the rows of the table."""
    start = time.monotonic()
    print("\n".join(f"{key}: {value}" for key, value in about.items()), flush=True)
    rows = [row for group in GROUPS if group in groups for row in measured(group, world)]
    print(f"\n{table(rows)}\n\n{verdict(rows, world.plan.nodes)}")
    print(f"measured in {time.monotonic() - start:.0f} s")
    if file is not None:
        file.write_text(json.dumps({"about": about, "rows": [row.to_dict() for row in rows]}, indent=2) + "\n")
    return rows


def measured(group: str, world: World) -> list[Row]:
    print(f"measuring {group} …", file=sys.stderr, flush=True)
    return list(GROUPS[group](world))


def machine(world: World) -> dict[str, Any]:
    """What a figure depends on beside the cluster."""
    return {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "malloc": " ".join(f"{name}={os.environ.get(name, 'unset')}" for name in MALLOC),
        "times": "CPU time of the measuring thread; http and live: wall time",
        "seed": world.plan.seed,
    }


def surroundings(world: World) -> Mapping[str, Any]:
    """Everything that a figure depends on; making it makes the cluster."""
    snapshot, layout = world.snapshot, world.snapshot.layout
    terms = sum(pod.spec.affinity is not None for pod in snapshot.pods)
    return machine(world) | {
        "cluster": f"{len(snapshot.nodes):,} nodes, {len(snapshot.running.row_of):,} pods, "
        f"at most {len(layout.pod)} on a node, "
        f"{len(snapshot.budgets)} budgets, {len(snapshot.running.priorities)} priorities",
        "dry run": f"{np.count_nonzero(layout.priority < world.pod.priority):,} evictable pods, "
        f"{len(world.candidates):,} candidates with {sum(len(c.victims) for c in world.candidates):,} victims",
        "terms": f"{terms:,} pods with affinity or anti-affinity of their own",
    }


def verdict(rows: list[Row], nodes: int) -> str:
    """One line for each limit, in words."""
    lines = [
        f"{'met' if row.met else 'NOT MET'}: {row.group}, {row.title}: {limits(row)}"
        for row in rows
        if row.met is not None
    ]
    if lines and nodes != NODES and not OWN_CLUSTER.issuperset(row.group for row in rows):
        lines.append(f"(the limits are meant for {NODES:,} nodes)")
    return "\n".join(lines)


def limits(row: Row) -> str:
    """What was required, and what was found where the table does not say it in this unit."""
    found = [f"{bound} (found {bound.figure(row.times):.1f})" for bound in row.bounds]
    if row.limit is not None:
        found.append(f"{row.limit} against {row.against}")
    return ", ".join(found) or row.limits


if __name__ == "__main__":
    main()
