"""Time pieces of work, compare them, and check them against limits.

Rule: works that are compared run in turns (A B A B …), and the ratio is the median of the pairs, so that a disturbance
of the machine affects both sides. Work in this thread is measured in CPU time: on a busy machine a long piece of work
is interrupted more often than a short one, so wall time would make it look worse than it is.
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
"""glibc settings of the image: one arena for all threads, and memory of large bodies is kept instead of returned."""


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
    """Do nothing; the default preparation of a work."""


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work to be timed."""

    run: Run
    prepare: Run = nothing
    """Called before every run, outside the measured time."""
    clock: Callable[[], float] = time.thread_time
    """Clock in seconds; `time.perf_counter` for work that waits for another process."""
    parts: int = 1
    """Number of equal parts in one run; the reported time is that of one part."""

    def seconds(self) -> float:
        self.prepare()
        start = self.clock()
        self.run()
        return (self.clock() - start) / self.parts


def in_turns(works: Sequence[Work], rounds: int, warm_up: int = 2) -> list[list[float]]:
    """Run the works in turns; return the seconds of each work in each round."""
    for _ in range(warm_up):
        for work in works:
            work.seconds()
    times = [[work.seconds() for work in works] for _ in range(rounds)]
    return [list(one) for one in zip(*times, strict=True)]


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit on the ratio of a row."""

    sign: Literal["≤", "≥"]
    value: float

    def holds(self, ratio: float) -> bool:
        return ratio <= self.value if self.sign == "≤" else ratio >= self.value

    def __str__(self) -> str:
        return f"{self.sign} {self.value:g}"


Unit = Literal["ms", "MB"]

FACTOR: dict[Unit, float] = {"ms": 1000, "MB": 1e-6}
"""Factor from seconds or bytes to the displayed unit."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Upper bound on the figures themselves; bounds on times assume an idle machine."""

    of: Literal["mean", "median", "p99", "max"]
    at_most: float
    """Upper bound in milliseconds or megabytes."""

    def figure(self, figures: Sequence[float]) -> float:
        return _FIGURES[self.of](figures)

    def holds(self, figures: Sequence[float]) -> bool:
        return self.figure(figures) <= self.at_most


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the results table."""

    group: str
    name: str
    times: Sequence[float]
    """Measured seconds, or bytes where the unit is MB."""
    against: str = ""
    others: Sequence[float] = ()
    """Seconds (or bytes) of the baseline, measured in turns with `times`."""
    limit: Limit | None = None
    faster: bool = False
    """Whether the ratio is the speed-up (others / times) instead of the relative time (times / others)."""
    of_p99: bool = False
    """Whether the ratio compares 99th percentiles, for times not taken in pairs, instead of the median of the pairs."""
    requirement: str = ""
    """ID of the measured requirement; such a row exists only if no call failed."""
    bounds: Sequence[Bound] = ()
    """Upper bounds on the figures themselves."""
    unit: Unit = "ms"
    nodes: int | None = None
    """Number of nodes, for groups whose rows use clusters of different sizes."""
    note: str = ""
    """Additional finding; kept out of the name so that names are stable from run to run."""
    given: float | None = None
    """Explicit ratio, where it is not computed from the times."""

    @property
    def figures(self) -> list[float]:
        """Return the figures in the displayed unit."""
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
    def quartiles(self) -> float | None:
        """Return the upper quartile divided by the lower one: how quiet the machine was; None below four runs."""
        if len(self.times) < 4:
            return None
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high / low

    @property
    def met(self) -> bool | None:
        """Return whether all limits are met; None if the row has none."""
        met = [bound.holds(self.figures) for bound in self.bounds]
        if self.limit is not None and self.ratio is not None:
            met.append(self.limit.holds(self.ratio))
        return all(met) if met or self.requirement else None

    @property
    def limits(self) -> str:
        """Render all limits of the row."""
        bounds = (f"{bound.of} ≤ {_plain(bound.at_most)} {self.unit}" for bound in self.bounds)
        some = [*bounds, *([str(self.limit)] if self.limit is not None else [])]
        return ", ".join(some) or ("0 failed" if self.requirement else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values for JSON, figures in the displayed unit."""
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
            "quartiles": self.quartiles,
            "mean": statistics.fmean(figures),
            "p99": p99(figures) if len(figures) >= 100 else None,
            "against": self.against or None,
            "ratio": self.ratio,
            "faster": self.faster,
            "limit": self.limits or None,
            "met": self.met,
        }


def p99(times: Sequence[float]) -> float:
    """Return the 99th percentile: one in a hundred takes longer."""
    return sorted(times)[math.ceil(0.99 * len(times)) - 1]


_FIGURES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "p99": p99,
    "max": max,
}


def _plain(value: float) -> str:
    """Format a number with as many decimals as it needs: 12,345 or 0.025."""
    return f"{value:,.10g}"
