"""`python -m benchmarks.performance FIGURES.json …`: write docs/performance.md and its plot from what was measured.

Several files are those of one revision, measured in parts.

Rule: figures come from the file, words from here: what the page says beside its tables does not depend on them.
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
SCHEMA = 1
"""Format version of the JSON; incremented for incompatible changes."""

Figures = Mapping[str, Any]
"""One row, as `Row.to_dict` has it."""

INTRODUCTION = """\
# Performance

What was measured with `make bench-full`, on one machine, whose speed changes from hour to hour: *calibration* is a
fixed loop's time then, and kube-scheduler's own code was measured where it is 1.5 ms. Measure yours: the ratios travel
better than the milliseconds.
This page is written by `make performance`; do not edit it.

## Where
"""

TARGETS = """\
## Targets

Each beside the least that such work could take, in turns with it. A ratio is *this / other*, or *other / this* where it
says `x faster`. Decisions and changes are CPU time of one thread, pinned to a core; calls, the first sync and the start
are wall time with the service on another core. *After a pod changed* means that what is remembered of the
cluster's pods had to be looked at again, as in a live cluster before nearly every decision.
"""

NOT_MET = """\
### Not met
"""

GROWTH = """\
## As the cluster grows

The same work with clusters of several sizes, about 30 pods on a node, after a pod changed: medians. The snapshot after
some nodes changed, and one event, should cost the same in any cluster: they may not double.
"""

EXPONENTS = """\
![Cost of decisions as the number of nodes grows, on logarithmic axes](images/growth.svg)

The exponent says how cost grows: 1 is as the nodes do. It is taken over the larger sizes, where fixed costs no longer
hide it.
"""

OTHERS = """\
## Other figures

[benchmarks/README.md](../benchmarks/README.md) says what each row means.
"""

METHOD = """\
## How it was measured

- **The clusters** are generated from a seed. Every node has 94–100 % of its cpu requested; there are a dozen
  priorities and 300 disruption budgets in 30 namespaces; a tenth of the pods has affinity or anti-affinity. The
  incoming pod fits nowhere and asks for three resources, so that every node is tried: about 25 pods are taken off
  each and put back one by one.
- **In turns.** What is compared runs A B A B …, and a ratio is the median over the pairs: what disturbs the machine
  disturbs both. `make bench` starts itself with the memory settings of the image, and freezes the cluster out of the
  garbage collector as the service does.
- **The bare numpy pass** is the loop that any reprieve in numpy must have (add a rank of pods, compare, keep where it
  fits), over arrays of the same size, and nothing else: no budgets, no verdicts, no ranking.
- **kube-scheduler's figures** are those of its own Go code on a cluster of this size and kind, on one core. They were
  taken at another time or on another machine; both sides are scaled by the time of one fixed loop
  (`benchmarks/calibration.py`).
- **Whole calls** go over one kept connection, one after another, each about another replica of the pod than the one
  before and with the names in another order. `/preempt` always asks about the same preemptor: what was approved of
  another one would stand in its way. Its offers are remembered; *never sent before* is what they cost at first.
- **Memory** is what Linux says of the service's process: VmRSS, and VmHWM for the peak.
- **Growth** is measured in a process for each size, on objects decoded from JSON as the service decodes them. Exponents
  are of the ratio to the calibration loop, taken in turns: the machine may have been slower for one of the sizes.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance", description=__doc__)
    parser.add_argument(
        "figures", metavar="FIGURES.json", type=Path, nargs="+", help="what `python -m benchmarks --json` wrote"
    )
    given = parser.parse_args()
    try:
        measured = together([read(file) for file in given.figures])
    except ValueError as error:
        raise SystemExit(str(error)) from None
    text, plot = page(measured), chart(measured["rows"])
    PAGE.write_text(text, encoding="utf-8")
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(plot, encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}, {PLOT.relative_to(ROOT)}")


def read(file: Path) -> Mapping[str, Any]:
    """What was measured; ValueError if that is not what the file holds."""
    try:
        measured = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from None
    if not isinstance(measured, dict) or measured.get("schema") != SCHEMA:
        raise ValueError(f"{file}: not what `python -m benchmarks --json` writes (schema {SCHEMA}); measure again")
    return measured


def together(parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Parts of one measurement as a whole; ValueError if they are not, or if what the page is about is missing."""
    rows: list[Figures] = []
    for part in parts:
        known = {row["group"] for row in rows}
        if part["about"]["revision"] != parts[0]["about"]["revision"]:
            raise ValueError("the files are of different revisions; measure all of one")
        rows += [row for row in part["rows"] if row["group"] not in known]
    missing = {targets.GROUP, growth.GROUP} - {row["group"] for row in rows}
    if missing:
        raise ValueError(f"nothing was measured of {' and '.join(sorted(missing))}: see `make bench-full`")
    keys = dict.fromkeys(chain.from_iterable(part["about"] for part in parts))
    return {"about": {key: of_all([part["about"].get(key) for part in parts]) for key in keys}, "rows": rows}


def of_all(values: Sequence[Any]) -> str:
    """What they say, each once."""
    return "; ".join(dict.fromkeys(str(value) for value in values if value is not None))


def page(measured: Mapping[str, Any]) -> str:
    rows: Sequence[Figures] = measured["rows"]
    of_targets, of_growth = of(rows, targets.GROUP), of(rows, growth.GROUP)
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


def of(rows: Sequence[Figures], group: str) -> list[Figures]:
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
    """Headings and lines: a line for each size, a column for each work."""
    names = list(dict.fromkeys(row["name"] for row in sized))
    cells = {(row["nodes"], row["name"]): amount(row) for row in sized}
    sizes = sorted({row["nodes"] for row in sized})
    lines = [(f"{nodes:,}", *(cells.get((nodes, name), "") for name in names)) for nodes in sizes]
    return ("nodes", *names), lines


def chart(rows: Sequence[Figures]) -> str:
    """What takes time and grows, in milliseconds."""
    sized = [row for row in of(rows, growth.GROUP) if row["nodes"] is not None and row["unit"] == "ms"]
    names = dict.fromkeys(row["name"] for row in sized)
    series = {name: [(row["nodes"], row["median"]) for row in sized if row["name"] == name] for name in names}
    return plot(series, "nodes", "ms")


if __name__ == "__main__":
    main()
