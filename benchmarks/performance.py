"""`python -m benchmarks.performance FIGURES.json …`: write docs/performance.md and its plot from measured figures.

Several files are accepted if they are parts of one measurement of the same revision.

Rule: figures come from the files, prose from this module; the prose never depends on the figures.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks import growth, targets
from benchmarks.machine import ROOT
from benchmarks.plot import plot
from benchmarks.printing import number, ratio, title

PAGE = ROOT / "docs" / "performance.md"
PLOT = ROOT / "docs" / "images" / "growth.svg"
SCHEMA = 2
"""Format version of the JSON; incremented for incompatible changes."""

Figures = Mapping[str, Any]
"""One row as returned by `Row.to_dict`."""

INTRODUCTION = """\
# Performance

Results of `make bench-full`, or of those of its groups that are named below, on one machine, whose speed changes from
hour to hour: *calibration* is the time of a fixed loop during each run; the code of kube-scheduler was measured where
that loop takes 1.5 ms. Measure on your own machine: the ratios carry over better than the milliseconds.
This page is written by `make performance`; do not edit it.

## Where
"""

TARGETS = """\
## Targets

Each work runs in turns with a baseline: the least that such work could take. A ratio is *work / baseline*, or
*baseline / work* where it says `x faster`. Decisions and changes are CPU time of one thread, pinned to a core; calls,
the first sync and the start are wall time with the service on another core. *After a pod changed* means that values
cached for the cluster's pods had to be recomputed, as in a live cluster before nearly every decision. The spread is
that from the fastest run to the slowest, with the upper quartile divided by the lower one in brackets.
"""

NOT_MET = """\
### Not met
"""

GROWTH = """\
## As the cluster grows

Medians of the same work in clusters of several sizes, about 30 pods on a node, after a pod changed. The snapshot after
some nodes changed, and one event, should cost the same in any cluster: they must not double.
"""

EXPONENTS = """\
![Cost of decisions as the number of nodes grows, on logarithmic axes](images/growth.svg)

The exponent says how cost grows with the number of nodes: 1 is linear. It is computed over the larger sizes, where
fixed costs no longer hide the growth.
"""

OTHERS = """\
## Other figures

[benchmarks/README.md](../benchmarks/README.md) explains each row.
"""

METHOD = """\
## How it was measured

- **The clusters** are generated from a seed. Every node has 94–100 % of its cpu requested; there are a dozen
  priorities and 300 disruption budgets in 30 namespaces; a tenth of the pods has affinity or anti-affinity. The
  incoming pod fits nowhere and requests three resources, so every node is tried: about 25 pods are removed from each
  and reprieved one by one.
- **In turns.** Works that are compared run A B A B …, and a ratio is the median over the pairs, so that a disturbance
  of the machine affects both sides. `make bench` restarts itself with the memory settings of the image, and excludes
  the cluster from garbage collection (`gc.freeze`) as the service does.
- **The bare numpy pass** is the loop that any reprieve in numpy must have (add a rank of pods, compare, keep where it
  fits), over arrays of the same size, and nothing else: no budgets, no statuses, no ranking.
- **kube-scheduler's figures** are those of its own Go code on a cluster of this size and kind, on one core. They were
  measured at another time or on another machine; both sides are scaled by the time of one fixed loop
  (`benchmarks/calibration.py`).
- **Whole calls** go over one kept-alive connection, one after another, each for the next replica of the pod and with
  the names in another order. `/preempt` always sends the same preemptor: victims approved for another one would change
  its decision. *never sent before*: with other candidates at every call. *each pod bound before the next*: a watch
  tells the service that the pod before runs on the node with its highest score.
- **Memory** is that of the service's process as Linux reports it: VmRSS, and VmHWM for the peak.
- **Growth** is measured in one process per size, on objects decoded from JSON as the service decodes them; those of
  50,000 nodes are copies of decoded ones. Exponents are computed from the ratio to the calibration loop, measured in
  turns, since the machine may have been slower for one of the sizes.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance", description=__doc__)
    parser.add_argument(
        "figures", metavar="FIGURES.json", type=Path, nargs="+", help="files written by `python -m benchmarks --json`"
    )
    given = parser.parse_args()
    try:
        measured = merge([read(file) for file in given.figures])
    except ValueError as error:
        raise SystemExit(str(error)) from None
    text, plot = page(measured), chart(measured["rows"])
    PAGE.write_text(text, encoding="utf-8")
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(plot, encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}, {PLOT.relative_to(ROOT)}")


def read(file: Path) -> Mapping[str, Any]:
    """Read a figures file; raise ValueError if it has another format or schema version."""
    try:
        measured = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from None
    if not isinstance(measured, dict) or measured.get("schema") != SCHEMA:
        raise ValueError(f"{file}: not written by `python -m benchmarks --json` with schema {SCHEMA}; measure again")
    return measured


def merge(parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Merge the parts of one measurement; raise ValueError for mixed revisions or a missing required group."""
    rows: list[Figures] = []
    for part in parts:
        known = {row["group"] for row in rows}
        if part["about"]["revision"] != parts[0]["about"]["revision"]:
            raise ValueError("the files are from different revisions; measure them all at one revision")
        rows += [row for row in part["rows"] if row["group"] not in known]
    missing = {targets.GROUP, growth.GROUP} - {row["group"] for row in rows}
    if missing:
        raise ValueError(f"no figures for {' and '.join(sorted(missing))}: see `make bench-full`")
    keys = dict.fromkeys(chain.from_iterable(part["about"] for part in parts))
    return {"about": {key: join_distinct([part["about"].get(key) for part in parts]) for key in keys}, "rows": rows}


def join_distinct(values: Sequence[Any]) -> str:
    """Join the distinct values with semicolons, in order of first appearance."""
    return "; ".join(dict.fromkeys(str(value) for value in values if value is not None))


def page(measured: Mapping[str, Any]) -> str:
    rows: Sequence[Figures] = measured["rows"]
    of_targets, of_growth = rows_of(rows, targets.GROUP), rows_of(rows, growth.GROUP)
    sized = [row for row in of_growth if row["nodes"] is not None]
    others = [row for row in rows if row["group"] not in (targets.GROUP, growth.GROUP)]
    parts = [
        INTRODUCTION,
        "\n".join(f"- {key}: {value}" for key, value in measured["about"].items()) + "\n",
        TARGETS,
        table(TARGET_HEADINGS, map(target, of_targets)),
        NOT_MET,
        "\n".join(f"- {line}" for line in not_met(rows)) + "\n",
        GROWTH,
        table(*by_size(sized)),
        EXPONENTS,
        table(("work", "grows by", "limit", "met"), map(exponent, [row for row in of_growth if row["nodes"] is None])),
        OTHERS,
        table(OTHER_HEADINGS, map(other, others)),
        METHOD,
    ]
    return "\n".join(parts)


def rows_of(rows: Sequence[Figures], group: str) -> list[Figures]:
    return [row for row in rows if row["group"] == group]


# --- tables -----------------------------------------------------------------------------------------------------------

TARGET_HEADINGS = ("work", "median", "spread", "p99", "target", "met", "against", "ratio")
OTHER_HEADINGS = ("group", "work", "median", "spread", "p99", "against", "ratio", "limit", "met")


def table(headings: Sequence[str], lines: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    all_lines = [headings, ["---"] * len(headings), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in all_lines) + "\n"


def target(row: Figures) -> Sequence[str]:
    return (title(row), *times(row), row["limit"] or "", met(row), row["against"] or "", ratio(row))


def other(row: Figures) -> Sequence[str]:
    return (row["group"], title(row), *times(row), row["against"] or "", ratio(row), row["limit"] or "", met(row))


def times(row: Figures) -> Sequence[str]:
    spread = f"{number(row['min'])} .. {number(row['max'])}" if row["runs"] > 1 else ""
    spread += f" ({row['quartiles']:.2f})" if row["quartiles"] is not None else ""
    return amount(row), spread, "" if row["p99"] is None else number(row["p99"])


def amount(row: Figures) -> str:
    return f"{number(row['median'])} {row['unit']}"


def met(row: Figures) -> str:
    return {True: "yes", False: "**no**", None: ""}[row["met"]]


def exponent(row: Figures) -> Sequence[str]:
    return row["name"], f"{number(row['ratio'])} ({row['against']})", row["limit"], met(row)


def not_met(rows: Sequence[Figures]) -> list[str]:
    found = [
        f"{row['group']}: {title(row)}: {amount(row)}{compared(row)}; {row['limit']}"
        for row in rows
        if row["met"] is False
    ]
    return found or ["Everything is met."]


def compared(row: Figures) -> str:
    return f", {ratio(row)} of {row['against']}" if row["against"] and row["ratio"] is not None else ""


def by_size(sized: Sequence[Figures]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the headings and the lines: one line per cluster size, one column per work."""
    names = list(dict.fromkeys(row["name"] for row in sized))
    cells = {(row["nodes"], row["name"]): amount(row) for row in sized}
    sizes = sorted({row["nodes"] for row in sized})
    lines = [(f"{nodes:,}", *(cells.get((nodes, name), "") for name in names)) for nodes in sizes]
    return ("nodes", *names), lines


def chart(rows: Sequence[Figures]) -> str:
    """Plot the works whose time grows with the cluster, in milliseconds."""
    sized = [row for row in rows_of(rows, growth.GROUP) if row["nodes"] is not None and row["unit"] == "ms"]
    names = dict.fromkeys(row["name"] for row in sized)
    series = {name: [(row["nodes"], row["median"]) for row in sized if row["name"] == name] for name in names}
    return plot(series, "nodes", "ms")


if __name__ == "__main__":
    main()
