"""Take times, compare them, and say what is met.

Rule: what is compared runs in turns (A B A B …), and the ratio is the median of the pairs: what disturbs the machine
for a while disturbs both. Work in this thread is counted in CPU time: on a busy machine a long piece of work is
interrupted more often than a short one, and by wall time the longer one would look worse than it is.
"""

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Run = Callable[[], object]

MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "268435456", "MALLOC_TRIM_THRESHOLD_": "268435456"}
"""As in the image: memory of large bodies is kept, once for all threads, and not given back after each (glibc)."""


def start_over(module: str) -> None:
    """Restart the process with these settings, which only apply from its start; return if they are set already."""
    if any(os.environ.get(name) != value for name, value in MALLOC.items()):
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], os.environ | MALLOC)


def positive(text: str) -> int:
    """Parse a command line value greater than 0."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def nothing() -> None:
    """Prepares nothing."""


@dataclass(frozen=True, slots=True)
class Work:
    """Something whose time is taken."""

    run: Run
    prepare: Run = nothing
    """Before every run, not counted."""
    clock: Callable[[], float] = time.thread_time
    """Seconds; for what waits for somebody else `time.perf_counter`."""
    parts: int = 1
    """Equal parts of one run; the time is that of one of them."""

    def seconds(self) -> float:
        self.prepare()
        start = self.clock()
        self.run()
        return (self.clock() - start) / self.parts


def in_turns(works: Sequence[Work], rounds: int, warm_up: int = 2) -> list[list[float]]:
    """Seconds of each work in each round."""
    for _ in range(warm_up):
        for work in works:
            work.seconds()
    times = [[work.seconds() for work in works] for _ in range(rounds)]
    return [list(one) for one in zip(*times, strict=True)]


@dataclass(frozen=True, slots=True)
class Limit:
    """What the ratio may be."""

    sign: Literal["≤", "≥"]
    value: float

    def holds(self, ratio: float) -> bool:
        return ratio <= self.value if self.sign == "≤" else ratio >= self.value

    def __str__(self) -> str:
        return f"{self.sign} {self.value:g}"


Unit = Literal["ms", "MB"]

FACTOR: dict[Unit, float] = {"ms": 1000, "MB": 1e-6}
"""From seconds and bytes."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What the figures themselves may be; one of a time is meant for an idle machine."""

    of: Literal["mean", "median", "p99", "max"]
    at_most: float
    """Milliseconds or megabytes."""

    def figure(self, figures: Sequence[float]) -> float:
        return _FIGURES[self.of](figures)

    def holds(self, figures: Sequence[float]) -> bool:
        return self.figure(figures) <= self.at_most


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    group: str
    name: str
    times: Sequence[float]
    """Seconds; bytes where the unit is MB."""
    against: str = ""
    others: Sequence[float] = ()
    """Seconds of what it is compared with, taken in turns with `times`."""
    limit: Limit | None = None
    faster: bool = False
    """The ratio says how many times faster (others / times), not what share of the other's time (times / others)."""
    of_p99: bool = False
    """The ratio is that of the 99th percentiles, for what is not taken in pairs; else the median of the pairs."""
    requirement: str = ""
    """ID of the requirement that is measured. The row is only there if no call failed."""
    bounds: Sequence[Bound] = ()
    """Limits on the times themselves."""
    unit: Unit = "ms"
    nodes: int | None = None
    """In the cluster, where the rows of a group have clusters of their own."""
    note: str = ""
    """What was found beside; not part of the name, which stays the same from run to run."""
    given: float | None = None
    """The ratio, where it is not one of times."""

    @property
    def figures(self) -> list[float]:
        """In the unit."""
        return [FACTOR[self.unit] * one for one in self.times]

    @property
    def ratio(self) -> float | None:
        if self.given is not None:
            return self.given
        if self.of_p99:
            return p99(self.times) / p99(self.others)
        pairs = zip(self.times, self.others, strict=True) if self.others else ()
        ratios = [other / own if self.faster else own / other for own, other in pairs]
        return statistics.median(ratios) if ratios else None

    @property
    def met(self) -> bool | None:
        """None: no limit."""
        met = [bound.holds(self.figures) for bound in self.bounds]
        if self.limit is not None and self.ratio is not None:
            met.append(self.limit.holds(self.ratio))
        return all(met) if met or self.requirement else None

    @property
    def limits(self) -> str:
        """In words."""
        bounds = (f"{bound.of} ≤ {_plain(bound.at_most)} {self.unit}" for bound in self.bounds)
        some = [*bounds, *([str(self.limit)] if self.limit is not None else [])]
        return ", ".join(some) or ("0 failed" if self.requirement else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain values; figures in the row's unit."""
        figures = self.figures
        return {
            "group": self.group,
            "requirement": self.requirement or None,
            "name": self.name,
            "note": self.note or None,
            "nodes": self.nodes,
            "unit": self.unit,
            "runs": len(figures),
            "median": statistics.median(figures),
            "min": min(figures),
            "max": max(figures),
            "mean": statistics.fmean(figures),
            "p99": p99(figures) if len(figures) >= 100 else None,
            "against": self.against or None,
            "ratio": self.ratio,
            "faster": self.faster,
            "limit": self.limits or None,
            "met": self.met,
        }


def p99(times: Sequence[float]) -> float:
    """The 99th percentile: one in a hundred takes longer."""
    return sorted(times)[math.ceil(0.99 * len(times)) - 1]


_FIGURES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "p99": p99,
    "max": max,
}


def _plain(value: float) -> str:
    """12,345 or 0.025, whatever it takes."""
    return f"{value:,.10g}"
