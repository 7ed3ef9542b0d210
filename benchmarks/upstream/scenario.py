"""`python -m benchmarks.upstream.scenario FILE`: write the generated cluster and an incoming pod for `main.go`.

The file is one JSON object, {"cluster": List, "pod": Pod}, gzipped if the name ends with .gz.
"""

import argparse
import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from benchmarks import generate
from benchmarks.generate import JSON, NODES, SEED, Plan
from benchmarks.measure import positive

PREEMPTORS: dict[str, Callable[[Plan], JSON]] = {"resources": generate.incoming, "mixed": generate.spreading}
"""Name for --incoming -> incoming pod: resources only, or with spread constraints and anti-affinity as well."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upstream.scenario", description=__doc__)
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--incoming", choices=PREEMPTORS, default="resources", help="the pod to be placed (resources)")
    parser.add_argument("--nodes", metavar="N", type=positive, default=NODES, help=f"size of the cluster ({NODES:,})")
    parser.add_argument("--pods", metavar="N", type=int, help="number of pods on each node (default: about 30)")
    parser.add_argument("--seed", metavar="N", type=int, default=SEED, help="another cluster of the same kind")
    given = parser.parse_args()
    plan = Plan(given.seed, given.nodes)
    if given.pods is not None:
        plan = replace(plan, pods=(given.pods, given.pods))
    write(given.file, scenario(plan, given.incoming))


def scenario(plan: Plan, incoming: str) -> JSON:
    return {"cluster": generate.as_list(plan, range(plan.nodes)), "pod": PREEMPTORS[incoming](plan)}


def write(file: Path, content: JSON) -> None:
    data = msgspec.json.encode(content)
    file.write_bytes(gzip.compress(data, compresslevel=1) if file.suffix == ".gz" else data)


if __name__ == "__main__":
    main()
