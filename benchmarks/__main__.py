"""`python -m benchmarks`: measure, print one table, and report which limits are met.

Rule: the exit code is 0 whatever the figures are: they depend on the machine, and correctness is tested elsewhere.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import (
    constraints,
    cores,
    decisions,
    dryrun,
    growth,
    live,
    page,
    payloads,
    policies,
    profiles,
    service,
    targets,
    tracing,
)
from benchmarks.generate import NODES, SEED, Plan
from benchmarks.machine import machine, revision
from benchmarks.measure import Row, positive, start_over
from benchmarks.performance import SCHEMA
from benchmarks.printing import QUIET, number, one_line, table, title
from benchmarks.storm import report as storm
from benchmarks.world import World

GROUPS: dict[str, Callable[[World], Iterator[Row]]] = {
    "targets": targets.rows,
    "growth": growth.rows,
    "dryrun": dryrun.rows,
    "spread": constraints.rows,
    "policies": policies.rows,
    "profiles": profiles.rows,
    "engine": decisions.rows,
    "wire": payloads.rows,
    "tracing": tracing.rows,
    "http": service.rows,
    "page": page.rows,
    "live": live.rows,
    "storm": storm.rows,
}
"""Name for --only -> its rows, in the order of the table."""

CHOICES = GROUPS | {f"targets.{name}": part for name, part in targets.PARTS.items()}
"""Names for --only: the groups, and parts of the targets."""

QUICK = ("targets", "growth")
"""Groups measured by default, without --only or --full."""

OWN_CLUSTER = {"storm", "growth"}
"""Groups that generate their own cluster and share only the seed with the other groups."""


def main() -> None:
    given = options().parse_args()
    if given.json is not None:  # fail on an unwritable path now, not after an hour of measuring
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.touch()
    start_over("benchmarks")
    cores.pin()
    world = World(Plan(given.seed, given.nodes), given.full)
    groups = given.only or (list(GROUPS) if given.full else list(QUICK))
    about = machine() if OWN_CLUSTER.issuperset(groups) else machine() | cluster(world)
    gc.collect()
    gc.freeze()  # as the service does after its first sync
    parameters = {"groups": ", ".join(groups), "seed": given.seed, "revision": revision()}
    report(world, parameters | about, groups, given.json)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="NAME",
        choices=CHOICES,
        action="append",
        help=f"of {', '.join(CHOICES)}; may be given several times (default: {' and '.join(QUICK)})",
    )
    parser.add_argument(
        "--full", action="store_true", help="all groups, 110 pods on a node, up to 50,000 nodes, no samples: 20 min"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures to this file as well")
    parser.add_argument("--nodes", metavar="N", type=positive, default=NODES, help=f"size of the cluster ({NODES:,})")
    parser.add_argument("--seed", metavar="N", type=int, default=SEED, help="another cluster of the same kind")
    return parser


def report(world: World, about: Mapping[str, Any], groups: Sequence[str], file: Path | None = None) -> list[Row]:
    """Measure, print the environment, one table and a line per limit; return the rows of the table."""
    start = time.monotonic()
    print("\n".join(f"{key}: {value}" for key, value in about.items()), flush=True)
    rows = [row for group in CHOICES if group in groups for row in measured(group, world)]
    print(f"\n{table([row.to_dict() for row in rows])}\n\n{verdict(rows, world.plan.nodes)}")
    print(f"measured in {time.monotonic() - start:.0f} s")
    if file is not None:
        figures = {"schema": SCHEMA, "about": about, "rows": [row.to_dict() for row in rows]}
        file.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return rows


def measured(group: str, world: World) -> list[Row]:
    start = time.monotonic()
    print(f"measuring {group} …", file=sys.stderr, flush=True)
    rows = []
    for row in CHOICES[group](world):
        rows.append(row)
        print(f"  {one_line(row.to_dict())}", file=sys.stderr, flush=True)
    print(f"measured {group} in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return rows


def cluster(world: World) -> dict[str, Any]:
    """Describe the generated cluster that most groups measure on; generates it on first use."""
    snapshot, layout = world.snapshot, world.snapshot.layout
    terms = sum(pod.spec.affinity is not None for pod in snapshot.pods)
    return {
        "cluster": f"{len(snapshot.nodes):,} nodes, {len(snapshot.pod_table.row_of):,} pods, "
        f"at most {len(layout.pod)} on a node, "
        f"{len(snapshot.objects.budgets)} budgets, {len(snapshot.pod_table.priorities)} priorities",
        "dry run": f"{np.count_nonzero(layout.priority < world.pod.priority):,} evictable pods, "
        f"{len(world.candidates):,} candidates with {sum(len(c.victims) for c in world.candidates):,} victims",
        "terms": f"{terms:,} pods with affinity or anti-affinity of their own",
    }


def verdict(rows: Sequence[Row], nodes: int) -> str:
    """Return one line per limit: whether it was met, and by which figure."""
    lines = [
        f"{'met' if row.met else 'NOT MET'}: {row.group}, {title(row.to_dict())}: {limits(row)}{noise(row)}"
        for row in rows
        if row.met is not None
    ]
    if lines and nodes != NODES and not OWN_CLUSTER.issuperset(row.group for row in rows):
        lines.append(f"(the limits are meant for {NODES:,} nodes)")
    return "\n".join(lines)


def noise(row: Row) -> str:
    return f"; noisy, p75/p25 {row.quartiles:.2f}" if row.quartiles is not None and row.quartiles >= QUIET else ""


def limits(row: Row) -> str:
    """Render the limits of a row, each with the measured figure."""
    found = [
        f"{bound.of} ≤ {number(bound.at_most)} {row.unit} (found {number(bound.figure(row.figures))})"
        for bound in row.bounds
    ]
    if row.limit is not None and row.ratio is not None:
        found.append(f"{row.limit} against {row.against} (found {number(row.ratio)})")
    return ", ".join(found) or row.limits


if __name__ == "__main__":
    main()
