"""Print random scenarios, one a line, or write one large cluster.

python -m tests.upstream.generate --category resources --count 150 --seed 1 > scenarios.jsonl
python -m tests.upstream.generate --scale 5000 --pods-per-node 30 --variant mixed --out large.json.gz
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from tests.upstream.generate.catalogue import CATEGORIES, OLDEST
from tests.upstream.generate.large import VARIANTS, large_cluster
from tests.upstream.generate.words import JSON


def main(arguments: Sequence[str] | None = None) -> None:
    parser = _parser()
    given = parser.parse_args(arguments)
    if (given.category is None) == (given.scale is None):
        parser.error("give either --category or --scale")
    if given.out is None:
        _write(_scenarios(given), sys.stdout)
        return
    with gzip.open(given.out, "wt") if given.out.suffix == ".gz" else given.out.open("w") as file:
        _write(_scenarios(given), file)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.upstream.generate",
        description=__doc__,
        epilog=f"categories:\n{_categories()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--category", choices=CATEGORIES, metavar="NAME")
    parser.add_argument("--count", type=int, default=10, help="scenarios of the category (default: 10)")
    parser.add_argument("--seed", default="1", help="any text; the same one gives the same scenarios (default: 1)")
    parser.add_argument("--scale", type=int, metavar="NODES", help="one cluster of so many nodes instead")
    parser.add_argument("--pods-per-node", type=int, default=30, metavar="N")
    parser.add_argument("--variant", choices=VARIANTS, default="resources", help="what the pods of --scale ask for")
    parser.add_argument("--out", type=Path, metavar="FILE", help="compressed if it ends in .gz (default: print)")
    return parser


def _categories() -> str:
    rows = [
        (name, "" if category.since == OLDEST else f"from 1.{category.since} on")
        for name, category in CATEGORIES.items()
    ]
    return "\n".join(f"  {name:<16}{since}".rstrip() for name, since in rows)


def _scenarios(given: argparse.Namespace) -> Iterator[JSON]:
    if given.scale is not None:
        yield large_cluster(given.scale, given.pods_per_node, given.variant, given.seed)
    else:
        yield from (CATEGORIES[given.category](given.seed, number) for number in range(given.count))


def _write(scenarios: Iterator[JSON], file: TextIO) -> None:
    file.writelines(json.dumps(scenario, separators=(",", ":")) + "\n" for scenario in scenarios)


if __name__ == "__main__":
    main()
