"""Take times, compare them, and print the table.

Rule: what is compared runs in turns (A B A B …), and the ratio is the median of the pairs: what disturbs the machine
for a while disturbs both. Work in this thread is counted in CPU time: on a busy machine a long piece of work is
interrupted more often than a short one, and by wall time the longer one would look worse than it is.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Run = Callable[[], object]

MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "268435456", "MALLOC_TRIM_THRESHOLD_": "268435456"}
"""As in the image: memory of large bodies is kept, once for all threads, and not given back after each (glibc)."""


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

    def seconds(self) -> float:
        self.prepare()
        start = self.clock()
        self.run()
        return self.clock() - start


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


@dataclass(frozen=True, slots=True)
class Bound:
    """What a time may be, as a requirement says; it is meant for an idle machine."""

    of: Literal["mean", "p99"]
    milliseconds: float

    def figure(self, times: Sequence[float]) -> float:
        """Milliseconds."""
        return 1000 * (statistics.fmean(times) if self.of == "mean" else p99(times))

    def holds(self, times: Sequence[float]) -> bool:
        return self.figure(times) <= self.milliseconds

    def __str__(self) -> str:
        return f"{self.of} ≤ {self.milliseconds:g} ms"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    group: str
    name: str
    times: Sequence[float]
    """Seconds."""
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

    @property
    def ratio(self) -> float | None:
        if self.of_p99:
            return p99(self.times) / p99(self.others)
        pairs = zip(self.times, self.others, strict=True) if self.others else ()
        ratios = [other / own if self.faster else own / other for own, other in pairs]
        return statistics.median(ratios) if ratios else None

    @property
    def met(self) -> bool | None:
        """None: there is no limit."""
        met = [bound.holds(self.times) for bound in self.bounds]
        if self.limit is not None and self.ratio is not None:
            met.append(self.limit.holds(self.ratio))
        return all(met) if met or self.requirement else None

    @property
    def limits(self) -> str:
        """In words."""
        some = [*map(str, self.bounds), *([str(self.limit)] if self.limit is not None else [])]
        return ", ".join(some) or ("0 failed" if self.requirement else "")

    @property
    def title(self) -> str:
        return f"{self.requirement}: {self.name}" if self.requirement else self.name

    @property
    def p99(self) -> float | None:
        """Only of many runs."""
        return p99(self.times) if len(self.times) >= 100 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values; times in milliseconds."""
        return {
            "group": self.group,
            "requirement": self.requirement or None,
            "name": self.name,
            "runs": len(self.times),
            "median_ms": 1000 * statistics.median(self.times),
            "min_ms": 1000 * min(self.times),
            "max_ms": 1000 * max(self.times),
            "mean_ms": 1000 * statistics.fmean(self.times),
            "p99_ms": None if self.p99 is None else 1000 * self.p99,
            "against": self.against or None,
            "ratio": self.ratio,
            "limit": self.limits or None,
            "met": self.met,
        }

    def cells(self) -> tuple[str, ...]:
        spread = f"{_ms(min(self.times))} .. {_ms(max(self.times))}"
        return (
            f"{self.group}: {self.title}",
            str(len(self.times)),
            _ms(statistics.median(self.times)),
            spread,
            _ms(statistics.fmean(self.times)),
            "" if self.p99 is None else _ms(self.p99),
            self.against,
            "" if self.ratio is None else f"{_number(self.ratio)}{' x faster' if self.faster else ''}",
            self.limits,
            {True: "yes", False: "NOT MET", None: ""}[self.met],
        )


def p99(times: Sequence[float]) -> float:
    """The 99th percentile: one in a hundred takes longer."""
    return sorted(times)[math.ceil(0.99 * len(times)) - 1]


HEADINGS = ("what", "runs", "median ms", "min .. max", "mean", "p99", "against", "ratio", "limit", "met")
_TEXT = ("what", "against", "met")


def table(rows: Sequence[Row]) -> str:
    """All rows, columns aligned."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    placed = (
        cell.ljust(width) if heading in _TEXT else cell.rjust(width)
        for heading, cell, width in zip(HEADINGS, cells, widths, strict=True)
    )
    return "  ".join(placed).rstrip()


def _ms(seconds: float) -> str:
    return _number(1000 * seconds)


def _number(value: float) -> str:
    """Three digits that count."""
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{min(digits, 4)}f}"
